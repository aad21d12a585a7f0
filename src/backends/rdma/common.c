/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that nobody can guess, completion queues, posting without SIGPIPE, and openings of
 * routes.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "rdma.h"
#include "util/hash/siphash.h"
#include "util/rare.h"

uint64_t ripc__rdma_nonce(const uint8_t secret[16], uint64_t *counter)
{
	uint64_t nonce;

	do {
		++*counter;
		nonce = ripc__siphash(secret, counter, sizeof(*counter));
	} while (!nonce);
	return nonce;
}

/* ---- the completion queue ---------------------------------------------------------------- */

#define ACK_EVERY 64u /* events of the channel are acknowledged together */

int ripc__rdma_queue_open(struct ripc__rdma_queue *queue, const struct ripc__rdma_device *device,
		uint64_t entries)
{
	int error;

	queue->channel = ibv_create_comp_channel(device->context);
	if (!queue->channel)
		return -errno;
	error = ripc__rdma_nonblocking(queue->channel->fd);
	if (!error)
		error = ripc__rdma_nonblocking(device->context->async_fd);
	if (error)
		goto err_channel;
	queue->cq = ibv_create_cq(device->context, (int)entries, NULL, queue->channel, 0);
	if (queue->cq)
		return 0;
	error = -ENOMEM;
err_channel:
	ibv_destroy_comp_channel(queue->channel);
	return error;
}

static void acknowledge(struct ripc__rdma_queue *queue)
{
	if (queue->unacked)
		ibv_ack_cq_events(queue->cq, queue->unacked);
	queue->unacked = 0;
}

void ripc__rdma_queue_close(struct ripc__rdma_queue *queue)
{
	acknowledge(queue);
	ibv_destroy_cq(queue->cq);
	ibv_destroy_comp_channel(queue->channel);
}

bool ripc__rdma_queue_event(struct ripc__rdma_queue *queue)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(queue->channel, &cq, &context))
		return errno == EAGAIN || errno == EINTR;
	queue->armed = false;
	if (++queue->unacked == ACK_EVERY)
		acknowledge(queue);
	return true;
}

/* ---- post -------------------------------------------------------------------------------- */

/*
 * Calls of devices that send by a TCP socket of the kernel, within the call: siw (Linux 6.1,
 * siw_post_send(), siw_reject(), siw_send_terminate()) does not suppress TCP's SIGPIPE when the
 * other end is gone. SIGPIPE would end a program that has not arranged for it, because the
 * program knows of no socket.
 */

bool ripc__rdma_sigpipe_ends(void)
{
	struct sigaction now;

	return sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

static void only_pipe(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGPIPE);
}

RIPC__RARE void ripc__rdma_guard_begin(sigset_t *before)
{
	sigset_t pipe;

	only_pipe(&pipe);
	pthread_sigmask(SIG_BLOCK, &pipe, before);
}

/*
 * If the thread has SIGPIPE blocked already, a pending one stays with the thread, as the program
 * wants it.
 */
RIPC__RARE void ripc__rdma_guard_end(const sigset_t *before)
{
	const struct timespec at_once = {0};
	sigset_t pipe;

	if (sigismember(before, SIGPIPE))
		return;
	only_pipe(&pipe);
	while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

static RIPC__RARE int post_guarded(struct ibv_qp *qp, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	sigset_t before;
	int error;

	ripc__rdma_guard_begin(&before);
	error = ibv_post_send(qp, wr, bad);
	ripc__rdma_guard_end(&before);
	return error;
}

int ripc__rdma_post(struct ibv_qp *qp, bool guarded, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	return guarded ? post_guarded(qp, wr, bad) : ibv_post_send(qp, wr, bad);
}

/* ---- opening ----------------------------------------------------------------------------- */

/*
 * The contents of RIPC_EV_PEER, until it is polled: how a route.open that returned -EINPROGRESS
 * has ended, and that a route takes again what it did not take before. The former are known by
 * number, because core may move a route's memory meanwhile.
 */

struct ripc__rdma_opening *ripc__rdma_opening_new(uint32_t *last, void *route,
		const struct ripc__addr *addr)
{
	struct ripc__rdma_opening *opening = calloc(1, sizeof(*opening));

	if (!opening)
		return NULL;
	opening->from = *addr;
	opening->event = (struct ripc__event){.kind = RIPC_EV_PEER, .peer = route};
	*last += *last + 1 ? 1 : 2; /* never 0 */
	opening->number = *last;
	list_init(&opening->node);
	return opening;
}

void ripc__rdma_opening_end(struct ripc__rdma_opening *opening, int status, struct list *ended)
{
	list_remove(&opening->node);
	opening->event.status = status;
	list_append(ended, &opening->node);
}

void ripc__rdma_openings_end(struct list *waiting, int status, struct list *ended)
{
	while (!list_empty(waiting))
		ripc__rdma_opening_end(list_entry(waiting->next, struct ripc__rdma_opening, node),
			status, ended);
}

static void forget(struct list *list, uint32_t number)
{
	list_for_each_safe(node, list) {
		struct ripc__rdma_opening *opening = list_entry(node, struct ripc__rdma_opening,
			node);

		if (opening->number != number)
			continue;
		list_remove(&opening->node);
		free(opening);
	}
}

void ripc__rdma_opening_forget(struct list *waiting, struct list *ended, uint32_t number)
{
	if (!number)
		return;
	forget(waiting, number);
	forget(ended, number);
}

void ripc__rdma_openings_free(struct list *list)
{
	while (!list_empty(list))
		free(list_entry(list_pop(list), struct ripc__rdma_opening, node));
}

RIPC__RARE uint32_t ripc__rdma_openings_take(struct list *ended, struct ripc__addr *from,
		struct ripc__event *events, uint32_t at, uint32_t n)
{
	while (at < n && !list_empty(ended)) {
		struct ripc__rdma_opening *opening = list_entry(list_pop(ended),
			struct ripc__rdma_opening, node);

		from[at] = opening->from;
		events[at] = opening->event;
		events[at].from = &from[at];
		free(opening);
		at++;
	}
	return at;
}
