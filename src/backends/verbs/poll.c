/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving, the ends of reads, and sleeping. Completions are taken in batches and looked at one by
 * one, as there is room for events. What else may have happened (a timer, the device, a helper
 * thread) is looked at before sleeping and now and then: a look costs a system call.
 *
 * The descriptor is an epoll set of the completion channel, the device's events, the helper
 * threads' eventfd and a timer, so that it stays the same for the life of the port.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "verbs.h"

#define LOOK_EVERY  1024u /* of the polls, one looks at everything */
#define CLOCK_EVERY 16u   /* of them, one looks at the clock, while anything is timed */
#define ACK_EVERY   64u   /* events of the channel are acknowledged together */

/* ---- completions ------------------------------------------------------------------------- */

static void fill(struct verbs_port *port)
{
	int n;

	if (port->at < port->n_wcs)
		return;
	n = ibv_poll_cq(port->cq, VERBS_BATCH, port->wcs);
	port->at = 0;
	port->n_wcs = n > 0 ? (uint32_t)n : 0;
	port->rdma->is_lost |= n < 0;
}

/* What came is for us, or for nobody. */
static void take_setup(struct verbs_port *port, const struct verbs_addr *from, const uint8_t *bytes,
		uint32_t len)
{
	struct verbs_setup setup;

	if (ripc__verbs_setup_decode(bytes, len, &setup) == 0)
		ripc__verbs_setup_came(port, from, &setup);
}

/* What became of a completion. */
enum taken {
	TAKEN,     /* nothing that core must know */
	TAKEN_OUT, /* an event */
	NOT_TAKEN, /* there is no room for its event */
};

static void hand_over(struct verbs_port *port, const struct ibv_wc *wc,
		const struct verbs_addr *sender, struct ripc__event *event, struct ripc__addr *from)
{
	uint32_t head = VERBS_GRH + VERBS_PREAMBLE;

	ripc__verbs_addr_fill(sender, &port->self, from);
	*event = (struct ripc__event){
		.kind = RIPC_EV_DATAGRAM,
		.data = ripc__rdma_ring_bytes(&port->ring, wc) + head,
		.len = wc->byte_len - head,
		.handle = ripc__rdma_ring_hand(&port->ring, wc),
		.from = from,
	};
}

/* A receive; event NULL: there is no room for one. */
static enum taken take_datagram(struct verbs_port *port, const struct ibv_wc *wc,
		struct ripc__event *event, struct ripc__addr *from)
{
	const uint8_t *bytes = ripc__rdma_ring_bytes(&port->ring, wc);
	uint32_t head = VERBS_GRH + VERBS_PREAMBLE;
	struct verbs_addr sender;
	bool is_setup, is_good = wc->status == IBV_WC_SUCCESS &&
		ripc__verbs_sender(&port->self, wc, bytes, &sender, &is_setup) == 0;

	if (is_good && !is_setup) {
		if (!event || !ripc__rdma_ring_may_hand(&port->ring))
			return NOT_TAKEN;
		hand_over(port, wc, &sender, event, from);
		return TAKEN_OUT;
	}
	/* Receives only fail with their queue pair. */
	port->rdma->is_lost |= wc->status != IBV_WC_SUCCESS;
	if (is_good)
		take_setup(port, &sender, bytes + head, wc->byte_len - head);
	ripc__rdma_ring_keep(&port->ring, wc);
	return TAKEN;
}

static void take_read(struct verbs_port *port, const struct ibv_wc *wc)
{
	struct ripc__rdma_flow *flow = ripc__rdma_read_completed(&port->reads, wc);

	if (flow)
		ripc__verbs_link_completed((struct verbs_link *)((char *)flow -
			offsetof(struct verbs_link, flow)));
}

/* Datagrams and reads, until there are n events or no more completions. */
static uint32_t take_completions(struct verbs_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t at = 0;

	for (; port->at < port->n_wcs; port->at++) {
		const struct ibv_wc *wc = &port->wcs[port->at];
		enum taken taken = TAKEN;

		if (wc->wr_id & RIPC__RDMA_WR_READ)
			take_read(port, wc);
		else
			taken = take_datagram(port, wc, at < n ? &events[at] : NULL,
				&port->from[at]);
		if (taken == NOT_TAKEN)
			break;
		at += taken == TAKEN_OUT;
	}
	return at;
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void look_at_device(struct verbs_port *port)
{
	uint32_t qpn;

	while (ripc__rdma_device_event(port->rdma, &qpn) != RIPC__RDMA_NOTHING)
		; /* a queue pair that failed is known by its completions */
}

static void look_at_clock(struct verbs_port *port)
{
	uint64_t now_us = port->due_us == UINT64_MAX ? 0 : ripc__verbs_now_us();

	if (port->due_us <= now_us)
		ripc__verbs_links_run(port, now_us);
}

static uint32_t take_opened(struct verbs_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	while (at < n && !list_empty(&port->opened)) {
		struct verbs_opening *opening = list_entry(list_pop(&port->opened),
			struct verbs_opening, node);

		port->from[at] = opening->from;
		events[at] = opening->event;
		events[at].from = &port->from[at];
		free(opening);
		at++;
	}
	return at;
}

int ripc__verbs_poll(void *state, struct ripc__event *events, uint32_t n)
{
	struct verbs_port *port = state;
	uint32_t filled;

	n = n < RIPC_EVENTS_MAX ? n : RIPC_EVENTS_MAX;
	port->polls++;
	if (port->polls % LOOK_EVERY == 0)
		look_at_device(port);
	if (port->polls % CLOCK_EVERY == 0)
		look_at_clock(port);
	ripc__rdma_worker_done(port->worker, port);
	ripc__rdma_ring_refill(&port->ring);
	fill(port);
	filled = take_completions(port, events, n);
	filled += ripc__rdma_reads_events(&port->reads, events + filled, n - filled);
	return (int)take_opened(port, events, filled, n);
}

/* ---- waiting ----------------------------------------------------------------------------- */

static int watch(struct verbs_port *port, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int ripc__verbs_wait_open(struct verbs_port *port)
{
	int error;

	port->timer_us = port->due_us = UINT64_MAX;
	port->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (port->timer_fd < 0)
		return -errno;
	port->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (port->epoll_fd < 0) {
		error = -errno;
		goto err_timer;
	}
	error = ripc__rdma_nonblocking(port->channel->fd);
	if (!error)
		error = ripc__rdma_nonblocking(port->rdma->context->async_fd);
	if (!error)
		error = watch(port, port->channel->fd);
	if (!error)
		error = watch(port, port->rdma->context->async_fd);
	if (!error)
		error = watch(port, port->timer_fd);
	if (!error)
		error = watch(port, ripc__rdma_worker_fd(port->worker));
	if (!error)
		return 0;
	close(port->epoll_fd);
err_timer:
	close(port->timer_fd);
	return error;
}

void ripc__verbs_wait_close(struct verbs_port *port)
{
	if (port->unacked)
		ibv_ack_cq_events(port->cq, port->unacked);
	port->unacked = 0;
	close(port->epoll_fd);
	close(port->timer_fd);
}

int ripc__verbs_wait_fd(void *port)
{
	return ((struct verbs_port *)port)->epoll_fd;
}

static void take_channel_event(struct verbs_port *port)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(port->channel, &cq, &context))
		return;
	port->armed = false;
	if (++port->unacked < ACK_EVERY)
		return;
	ibv_ack_cq_events(port->cq, port->unacked);
	port->unacked = 0;
}

/* Whatever made the descriptor readable has been looked at afterwards. */
static void quieten(struct verbs_port *port)
{
	struct epoll_event events[4];
	int n = epoll_wait(port->epoll_fd, events, 4, 0);

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == port->channel->fd)
			take_channel_event(port);
		else if (events[i].data.fd == port->rdma->context->async_fd)
			look_at_device(port);
		else if (events[i].data.fd == port->timer_fd)
			port->timer_us = 0; /* has fired: setting it again makes it quiet */
	}
	ripc__rdma_worker_done(port->worker, port);
	look_at_clock(port);
}

static void set_timer(struct verbs_port *port)
{
	struct itimerspec at = {0};

	if (port->timer_us == port->due_us)
		return;
	if (port->due_us != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(port->due_us / 1000000);
		at.it_value.tv_nsec = (long)(port->due_us % 1000000) * 1000 + 1;
	}
	timerfd_settime(port->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
	port->timer_us = port->due_us;
}

static bool has_something(const struct verbs_port *port)
{
	if (!list_empty(&port->opened) || !list_empty(&port->reads.ended))
		return true;
	return port->at < port->n_wcs && ripc__rdma_ring_may_hand(&port->ring);
}

int ripc__verbs_wait_arm(void *state)
{
	struct verbs_port *port = state;

	quieten(port);
	set_timer(port);
	ripc__rdma_ring_refill(&port->ring);
	if (!has_something(port) && !port->armed) {
		port->armed = ibv_req_notify_cq(port->cq, 0) == 0;
		/* What came in before that is not told. */
		fill(port);
	}
	return has_something(port) || !port->armed ? -EAGAIN : 0;
}
