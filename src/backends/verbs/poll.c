/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving, the ends of reads, and sleeping. Completions are taken in batches and handled one
 * by one, as far as there is room for events. Other events (of a timer, the device, a helper
 * thread) are polled before sleeping and now and then: a look costs a system call.
 *
 * The descriptor is an epoll set of the completion channel and of another set: the device's
 * events, the helper threads' eventfd, a timer and the eventfd of wake. The descriptor therefore
 * stays the same for the life of the port.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/clock.h"
#include "util/system/kick.h"

#define CLOCK_EVERY 16u   /* of the polls, one reads the clock, while any timer runs */
#define LOOK_EVERY  (64u * CLOCK_EVERY) /* one polls all sources */
#define WAIT_MS     100   /* a wait ends then */

/* ---- completions ------------------------------------------------------------------------- */

static void fill(struct verbs_port *port)
{
	int n;

	if (port->at < port->n_wcs)
		return;
	n = ibv_poll_cq(port->queue.cq, VERBS_BATCH, port->wcs);
	port->at = 0;
	port->n_wcs = n > 0 ? (uint32_t)n : 0;
	port->rdma->is_lost |= n < 0;
}

/* Handles a message about a connection, or drops it if it is garbled. */
static void take_setup(struct verbs_port *port, const struct verbs_addr *from, const uint8_t *bytes,
		uint32_t len)
{
	struct verbs_setup setup;

	if (ripc__verbs_setup_decode(bytes, len, &setup) == 0)
		ripc__verbs_setup_came(port, from, &setup);
}

/* The result of handling a completion. */
enum taken {
	TAKEN,     /* nothing that core must know */
	TAKEN_OUT, /* an event */
	NOT_TAKEN, /* there is no room for its event */
};

static void hand_over(struct verbs_port *port, struct ripc__rdma_ring *ring,
		const struct ibv_wc *wc, struct ripc__event *event, struct ripc__addr *from)
{
	uint32_t head = VERBS_GRH + VERBS_PREAMBLE;

	*from = port->recent.addr;
	/* Field by field: clearing all first takes longer. */
	event->kind = ring == &port->ring ? RIPC_EV_DATAGRAM : RIPC_EV_MULTICAST;
	event->data = ripc__rdma_ring_bytes(ring, wc->wr_id) + head;
	event->len = wc->byte_len - head;
	event->handle = ripc__rdma_ring_hand(ring, wc->wr_id);
	event->from = from;
}

/*
 * Finds the sender. False: no sender of our kind. sender is set for a message about a
 * connection, port->recent for any other.
 */
static bool find_sender(struct verbs_port *port, const struct ibv_wc *wc, const uint8_t *bytes,
		struct verbs_addr *sender, bool *is_setup)
{
	struct verbs_sender *recent = &port->recent;

	if (ripc__verbs_sender(&port->self, wc, bytes, sender, is_setup))
		return false;
	if (!*is_setup) {
		ripc__verbs_sender_note(&port->self, wc, bytes, recent);
		ripc__verbs_addr_fill(sender, &port->self, &recent->addr);
	}
	return true;
}

/* Handles a receive that is not usual; event NULL: there is no room for one. */
static RIPC__RARE enum taken take_other(struct verbs_port *port, const struct ibv_wc *wc,
		struct ripc__event *event, struct ripc__addr *from)
{
	const uint8_t *bytes = ripc__rdma_ring_bytes(&port->ring, wc->wr_id);
	uint32_t head = VERBS_GRH + VERBS_PREAMBLE;
	bool may_hand = ripc__rdma_ring_may_hand(&port->ring);
	struct verbs_addr sender;
	bool is_setup = false, is_good = wc->status == IBV_WC_SUCCESS &&
		find_sender(port, wc, bytes, &sender, &is_setup);

	/*
	 * A context that holds many buffers prevents a failed queue pair from being revived:
	 * then the datagram is lost.
	 */
	if (is_good && !is_setup && (may_hand || !port->failed)) {
		if (!event || !may_hand)
			return NOT_TAKEN;
		hand_over(port, &port->ring, wc, event, from);
		return TAKEN_OUT;
	}
	/* Receives only fail with their queue pair. */
	if (wc->status != IBV_WC_SUCCESS)
		ripc__verbs_qp_failed(port);
	if (is_good && is_setup)
		take_setup(port, &sender, bytes + head, wc->byte_len - head);
	ripc__rdma_ring_keep(&port->ring, wc->wr_id);
	return TAKEN;
}

/*
 * Multicast datagrams, and any others that are sent to their queue pair. Datagrams of our own
 * host were sent to each partner here separately. If core holds many of the buffers, multicast
 * is dropped: datagrams of single partners do not wait for it.
 */
static RIPC__RARE enum taken take_many(struct verbs_port *port, const struct ibv_wc *wc,
		struct ripc__event *event, struct ripc__addr *from)
{
	struct ripc__rdma_ring *ring = &port->multicast.ring;
	const uint8_t *bytes = ripc__rdma_ring_bytes(ring, wc->wr_id);
	struct verbs_addr sender;
	bool is_setup = false;

	if (wc->status != IBV_WC_SUCCESS) {
		ripc__verbs_multicast_failed(port);
	} else if (ripc__rdma_ring_may_hand(ring) && ripc__verbs_is_to_multicast(bytes) &&
			find_sender(port, wc, bytes, &sender, &is_setup) && !is_setup &&
			memcmp(sender.gid, port->self.gid, sizeof(sender.gid)) != 0) {
		if (!event)
			return NOT_TAKEN;
		hand_over(port, ring, wc, event, from);
		return TAKEN_OUT;
	}
	ripc__rdma_ring_keep(ring, wc->wr_id);
	return TAKEN;
}

static RIPC__RARE void take_read(struct verbs_port *port, const struct ibv_wc *wc)
{
	struct ripc__rdma_flow *flow = ripc__rdma_read_completed(&port->reads, wc);

	if (flow)
		ripc__verbs_link_completed((struct verbs_link *)((char *)flow -
			offsetof(struct verbs_link, flow)));
}

static RIPC__RARE enum taken take_unusual(struct verbs_port *port, const struct ibv_wc *wc,
		struct ripc__event *event, struct ripc__addr *from)
{
	if (wc->wr_id & VERBS_WR_MULTICAST)
		return take_many(port, wc, event, from);
	if (!(wc->wr_id & RIPC__RDMA_WR_READ))
		return take_other(port, wc, event, from);
	take_read(port, wc);
	return TAKEN;
}

/*
 * Is it a datagram for core, of the same sender as the last one? Mostly so, which is found out
 * with a tenth of the work.
 */
static bool is_usual(const struct verbs_port *port, const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_SUCCESS &&
		!(wc->wr_id & (RIPC__RDMA_WR_READ | VERBS_WR_MULTICAST)) &&
		ripc__rdma_ring_may_hand(&port->ring) &&
		ripc__verbs_is_recent(&port->self, &port->recent, wc,
			ripc__rdma_ring_bytes(&port->ring, wc->wr_id));
}

/* Takes datagrams and reads, until there are n events or no more of the batch. */
static uint32_t take_batch(struct verbs_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t at = 0;

	for (; port->at < port->n_wcs; port->at++) {
		const struct ibv_wc *wc = &port->wcs[port->at];
		enum taken taken = TAKEN_OUT;

		if (at < n && is_usual(port, wc))
			hand_over(port, &port->ring, wc, &events[at], &port->from[at]);
		else
			taken = take_unusual(port, wc, at < n ? &events[at] : NULL,
				&port->from[at]);
		if (taken == NOT_TAKEN)
			break;
		at += taken == TAKEN_OUT;
	}
	return at;
}

/* A batch without events is not the last: a thread that gets no event goes to sleep. */
static uint32_t take_completions(struct verbs_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled;

	do {
		fill(port);
		filled = take_batch(port, events, n);
	} while (filled == 0 && port->n_wcs == VERBS_BATCH && port->at == VERBS_BATCH &&
		list_empty(&port->reads.ended));
	return filled;
}

/* ---- the rest ---------------------------------------------------------------------------- */

/* The device was removed: the descriptor would be readable for ever. */
static void drop_descriptor(struct verbs_port *port, int epoll_fd, int fd)
{
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	port->deaf = true;
}

/* Our address has changed. Connections fail by themselves, and are made again from the new one. */
static void follow_device(struct verbs_port *port)
{
	if (port->moves == port->rdma->n_moves)
		return;
	port->moves = port->rdma->n_moves;
	memcpy(port->self.gid, &port->rdma->gid, sizeof(port->self.gid));
	port->multicast.mask = 0;
	ripc__verbs_paths_move(port);
}

static void look_at_device(struct verbs_port *port)
{
	if (!ripc__rdma_device_events(port->rdma))
		drop_descriptor(port, port->others.epoll_fd, port->rdma->context->async_fd);
	port->rdma->is_lost |= port->deaf;
	follow_device(port);
}

static void look_at_clock(struct verbs_port *port)
{
	uint64_t now_us = port->due_us == UINT64_MAX ? 0 : ripc__clock_us();

	if (port->due_us <= now_us)
		ripc__verbs_links_run(port, now_us);
}

/* Posts released buffers again, unless there is no queue to post them to. */
static void refill(struct verbs_port *port)
{
	/* A lost queue pair would return them at once. */
	if (!port->failed && !port->rdma->is_lost)
		ripc__rdma_ring_refill(&port->ring);
	if (port->multicast.is_open && !port->multicast.failed && !port->rdma->is_lost)
		ripc__rdma_ring_refill(&port->multicast.ring);
}

/* Polls the sources that need not be polled each time. */
static RIPC__RARE void look_now_and_then(struct verbs_port *port)
{
	if (port->polls % LOOK_EVERY == 0) {
		look_at_device(port);
		ripc__verbs_paths_run(port);
	}
	look_at_clock(port);
}

int ripc__verbs_poll(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	RIPC__HOLD_CANCEL;
	struct verbs_port *port = state;
	uint32_t filled;

	(void)all;
	n = n < RIPC_EVENTS_MAX ? n : RIPC_EVENTS_MAX;
	if (++port->polls % CLOCK_EVERY == 0)
		look_now_and_then(port);
	ripc__rdma_worker_done(port->worker);
	refill(port);
	filled = take_completions(port, events, n);
	if (port->failed)
		ripc__verbs_qp_revive(port);
	if (port->multicast.failed)
		ripc__verbs_multicast_revive(port);
	if (!list_empty(&port->reads.ended))
		filled += ripc__rdma_reads_events(&port->reads, events + filled, n - filled);
	if (!list_empty(&port->opened))
		filled = ripc__rdma_openings_take(&port->opened, port->from, events, filled, n);
	return (int)filled;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static int open_others(struct verbs_port *port)
{
	const int fds[] = {port->rdma->context->async_fd, port->wake_fd,
		ripc__rdma_worker_fd(port->worker)};

	return ripc__sleeper_open(&port->others, fds, sizeof(fds) / sizeof(fds[0]));
}

int ripc__verbs_wait_open(struct verbs_port *port)
{
	int error;

	port->due_us = UINT64_MAX;
	port->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (port->wake_fd < 0)
		return -errno;
	error = open_others(port);
	if (error)
		goto err_wake;
	port->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	error = port->epoll_fd < 0 ? -errno :
		ripc__epoll_watch(port->epoll_fd, port->others.epoll_fd);
	if (!error)
		error = ripc__epoll_watch(port->epoll_fd, port->queue.channel->fd);
	if (!error)
		return 0;
	if (port->epoll_fd >= 0)
		close(port->epoll_fd);
	ripc__sleeper_close(&port->others);
err_wake:
	close(port->wake_fd);
	return error;
}

void ripc__verbs_wait_close(struct verbs_port *port)
{
	close(port->epoll_fd);
	ripc__sleeper_close(&port->others);
	close(port->wake_fd);
}

static void take_channel_event(struct verbs_port *port)
{
	if (!ripc__rdma_queue_event(&port->queue))
		drop_descriptor(port, port->epoll_fd, port->queue.channel->fd);
}

static void look_at_others(struct verbs_port *port)
{
	struct epoll_event events[4];
	int n = epoll_wait(port->others.epoll_fd, events, 4, 0);

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == port->rdma->context->async_fd)
			look_at_device(port);
		else if (events[i].data.fd == port->others.timer_fd)
			port->others.set_us = 0; /* has fired: setting it again makes it quiet */
		else if (events[i].data.fd == port->wake_fd)
			ripc__kick_drain(port->wake_fd);
	}
}

/* Quietens the descriptors: the caller then looks at everything that can make them readable. */
static void quieten(struct verbs_port *port)
{
	struct epoll_event events[2];
	int n = port->waited ? 0 : epoll_wait(port->epoll_fd, events, 2, 0);

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == port->queue.channel->fd)
			take_channel_event(port);
		else
			port->others_ready = true;
	}
	if (port->others_ready)
		look_at_others(port);
	port->rdma->is_lost |= port->deaf;
	port->waited = port->others_ready = false;
	ripc__rdma_worker_done(port->worker);
	look_at_clock(port);
}

static bool has_something(const struct verbs_port *port)
{
	if (!list_empty(&port->opened) || !list_empty(&port->reads.ended))
		return true;
	return port->at < port->n_wcs && (ripc__rdma_ring_may_hand(&port->ring) ||
		port->wcs[port->at].wr_id & VERBS_WR_MULTICAST);
}

int ripc__verbs_wait_arm(void *state)
{
	RIPC__HOLD_CANCEL;
	struct verbs_port *port = state;

	quieten(port);
	if (port->failed && port->due_us == UINT64_MAX)
		ripc__verbs_due_at(port, port->revive_us); /* reading the clock has reset it */
	refill(port);
	ripc__sleeper_set(&port->others, port->due_us);
	if (!has_something(port) && !port->queue.armed) {
		port->queue.armed = ibv_req_notify_cq(port->queue.cq, 0) == 0;
		port->deaf |= !port->queue.armed;
		port->rdma->is_lost |= port->deaf;
		/* Completions that arrived before that raise no event. */
		fill(port);
	}
	return has_something(port) ? -EAGAIN : 0;
}

/*
 * Sleeps on two descriptors, without the sets around them, and takes the channel's event at
 * once: this spares a round trip two calls. Other threads may be sending meanwhile: their state
 * is not looked at.
 */
void ripc__verbs_wait(void *state)
{
	struct verbs_port *port = state;
	struct pollfd fds[2] = {
		{.fd = port->deaf ? -1 : port->queue.channel->fd, .events = POLLIN},
		{.fd = port->others.epoll_fd, .events = POLLIN},
	};

	if (!port->queue.armed && !port->deaf)
		return;
	if (has_something(port) || poll(fds, 2, WAIT_MS) < 0)
		return;
	if (fds[0].revents)
		take_channel_event(port);
	port->others_ready |= fds[1].revents != 0;
	port->waited = true;
}

void ripc__verbs_wake(void *state)
{
	const struct verbs_port *port = state;

	ripc__kick(port->wake_fd);
}
