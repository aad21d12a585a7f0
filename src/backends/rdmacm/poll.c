/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving, the ends of reads, and sleeping. All connections share one completion queue.
 * Completions are taken in batches. Their credit is noted at once, hence sending does not depend
 * on receiving, and datagrams wait to be returned. Events of connections are handled before
 * sleeping and now and then: a look costs system calls.
 *
 * The descriptor is an epoll set of the completion channel, the connections' events, the
 * device's, the helper threads' eventfd, a timer and the UDP socket, if there is one. The
 * descriptor therefore stays the same for the life of the port.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "internal.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/clock.h"

#define LOOK_EVERY   256u /* of the polls, one polls all sources; */
#define HASTY_EVERY  16u  /* while connections are made or end */
#define CLOCK_EVERY  16u  /* the clock is read, while any timer runs */
#define WATCHED      6    /* descriptors */

/* ---- completions ------------------------------------------------------------------------- */

static struct rdmacm_conn *conn_of(struct rdmacm_port *port, uint32_t qpn)
{
	if (!port->recent || port->recent->id->qp->qp_num != qpn)
		port->recent = ripc__map_get(&port->conns_by_qpn, qpn);
	return port->recent;
}

/* True: a datagram for core. */
static bool take_message(struct rdmacm_port *port, struct rdmacm_conn *conn,
		const struct ibv_wc *wc)
{
	int rc;

	if (wc->status != IBV_WC_SUCCESS) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
		return false;
	}
	rc = ripc__rdmacm_came(conn, ripc__rdma_ring_bytes(&port->ring, wc->wr_id), wc->byte_len);
	if (rc < 0) {
		ripc__rdmacm_conn_break(conn, rc);
		return false;
	}
	if (conn->failed)
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	conn->was_heard = true;
	if (rc == 1)
		conn->used = ++port->uses;
	if (conn->state == RDMACM_ACCEPTING)
		ripc__rdmacm_conn_ready(conn);
	if (conn->bye_came)
		ripc__rdmacm_conn_check(conn);
	return rc == 1;
}

static void take_receive(struct rdmacm_port *port, const struct ibv_wc *wc)
{
	struct rdmacm_conn *conn = conn_of(port, wc->qp_num);

	if (conn && take_message(port, conn, wc))
		port->arrivals[port->n_arrivals++] = (struct rdmacm_arrival){wc->wr_id,
			wc->byte_len, conn->remote};
	else
		ripc__rdma_ring_keep(&port->ring, wc->wr_id);
}

static RIPC__RARE void take_read(struct rdmacm_port *port, const struct ibv_wc *wc)
{
	struct ripc__rdma_flow *flow = ripc__rdma_read_completed(&port->reads, wc);
	struct rdmacm_conn *conn = conn_of(port, wc->qp_num);

	if (!flow || !conn)
		return;
	conn->stalled_us = 0;
	conn->was_heard |= wc->status == IBV_WC_SUCCESS;
	conn->used = ++port->uses;
	if (conn->bye_came)
		ripc__rdmacm_conn_check(conn);
	else if (flow->failed)
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	if (conn->state != RDMACM_READY)
		port->look = true;
}

static void take_send(struct rdmacm_port *port, const struct ibv_wc *wc)
{
	struct rdmacm_conn *conn = conn_of(port, wc->qp_num);

	if (!conn)
		return;
	if (wc->status == IBV_WC_SUCCESS)
		ripc__rdmacm_sent(conn, wc->wr_id);
	else
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	ripc__rdmacm_conn_check(conn);
}

static RIPC__RARE void take_echo(struct rdmacm_port *port, const struct ibv_wc *wc)
{
	struct rdmacm_conn *conn = conn_of(port, wc->qp_num);

	if (conn)
		ripc__rdmacm_echo_came(conn, wc);
}

bool ripc__rdmacm_fill(struct rdmacm_port *port)
{
	struct ibv_wc wcs[RDMACM_BATCH];
	uint32_t left = 0, room;
	int n;

	for (; port->at < port->n_arrivals; port->at++)
		port->arrivals[left++] = port->arrivals[port->at];
	port->at = 0;
	port->n_arrivals = left;
	room = RDMACM_BATCH - left;
	n = room ? ibv_poll_cq(port->queue.cq, (int)room, wcs) : 0;
	port->rdma->is_lost |= n < 0;
	port->taken += n > 0 ? (uint32_t)n : 0;
	for (int i = 0; i < n; i++) {
		if (wcs[i].wr_id & RIPC__RDMA_WR_READ)
			take_read(port, &wcs[i]);
		else if (wcs[i].wr_id & RIPC__RDMA_WR_RECV)
			take_receive(port, &wcs[i]);
		else if (wcs[i].wr_id & RDMACM_WR_ECHO)
			take_echo(port, &wcs[i]);
		else
			take_send(port, &wcs[i]);
	}
	return n < (int)room;
}

static uint32_t hand_over(struct rdmacm_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0;

	while (filled < n && port->at < port->n_arrivals &&
			ripc__rdma_ring_may_hand(&port->ring)) {
		const struct rdmacm_arrival *arrival = &port->arrivals[port->at++];
		struct ripc__event *event = &events[filled];

		ripc__rdmacm_addr_fill(&arrival->from, &port->from[filled]);
		/* Field by field: clearing all first takes longer. */
		event->kind = RIPC_EV_DATAGRAM;
		event->data = ripc__rdma_ring_bytes(&port->ring, arrival->wr_id) + RDMACM_PREAMBLE;
		event->len = arrival->len - RDMACM_PREAMBLE;
		event->handle = ripc__rdma_ring_hand(&port->ring, arrival->wr_id);
		event->from = &port->from[filled];
		filled++;
	}
	return filled;
}

/* ---- the rest ---------------------------------------------------------------------------- */

/* The device was removed: the descriptor would be readable for ever. */
static void drop_descriptor(struct rdmacm_port *port, int fd)
{
	epoll_ctl(port->sleeper.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	port->rdma->is_lost = true;
}

/* Is the device lost, while connections stand that are useless now? */
static bool is_left_behind(const struct rdmacm_port *port)
{
	return port->rdma->is_lost && port->n_unready < port->n_conns;
}

/* Handles everything but completions. */
static RIPC__RARE void look(struct rdmacm_port *port)
{
	uint64_t now_us;
	bool is_all;

	if (!ripc__rdma_device_events(port->rdma))
		drop_descriptor(port, port->rdma->context->async_fd);
	ripc__rdma_worker_done(port->worker);
	is_all = ripc__rdmacm_events(port);
	port->look |= !is_all || is_left_behind(port);
	now_us = port->due_us == UINT64_MAX && !port->look ? 0 : ripc__clock_us();
	if (!port->look && port->due_us > now_us)
		return;
	port->look = !is_all;
	port->due_us = UINT64_MAX;
	ripc__rdmacm_conns_run(port, now_us);
	ripc__rdmacm_links_run(port, now_us);
}

static bool is_udp(const struct rdmacm_port *port, const struct epoll_event *event)
{
	return port->self.by_udp && event->data.fd == port->udp.fd;
}

/*
 * Has anything but a completion or a datagram happened? One system call tells, where a look
 * takes three. Events of completions stay, for a thread that sleeps on them.
 */
static RIPC__RARE bool has_happened(const struct rdmacm_port *port)
{
	struct epoll_event events[WATCHED];
	int n = epoll_wait(port->sleeper.epoll_fd, events, WATCHED, 0);

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd != port->queue.channel->fd && !is_udp(port, &events[i]))
			return true;
	}
	return is_left_behind(port);
}

static bool is_time_to_look(const struct rdmacm_port *port, uint32_t n)
{
	if (n == 0 || port->look)
		return true;
	if (port->polls % (port->n_unready ? HASTY_EVERY : LOOK_EVERY) == 0 && has_happened(port))
		return true;
	return port->due_us != UINT64_MAX && port->polls % CLOCK_EVERY == 0 &&
		port->due_us <= ripc__clock_us();
}

int ripc__rdmacm_poll(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_port *port = state;
	uint32_t filled;

	(void)all;
	n = n < RIPC_EVENTS_MAX ? n : RIPC_EVENTS_MAX;
	port->polls++;
	ripc__rdma_worker_done(port->worker);
	if (is_time_to_look(port, n))
		look(port);
	ripc__rdma_ring_refill(&port->ring);
	if (port->at == port->n_arrivals || !ripc__rdma_ring_may_hand(&port->ring))
		ripc__rdmacm_fill(port);
	filled = hand_over(port, events, n);
	if (!list_empty(&port->reads.ended))
		filled += ripc__rdma_reads_events(&port->reads, events + filled, n - filled);
	if (!list_empty(&port->fenced))
		filled = ripc__rdmacm_fences_take(port, events, filled, n);
	if (!list_empty(&port->opened))
		filled = ripc__rdma_openings_take(&port->opened, port->from, events, filled, n);
	/* Last: a partner that sends many datagrams must not hold up the rest. */
	if (port->self.by_udp)
		filled = ripc__rdmacm_udp_poll(port, events, filled, n);
	return (int)filled;
}

/* ---- waiting ----------------------------------------------------------------------------- */

int ripc__rdmacm_wait_open(struct rdmacm_port *port)
{
	const int fds[] = {port->queue.channel->fd, port->rdma->context->async_fd,
		port->channel->fd, ripc__rdma_worker_fd(port->worker), port->udp.fd};
	size_t n = sizeof(fds) / sizeof(fds[0]) - !port->self.by_udp;
	int error = ripc__rdma_nonblocking(port->channel->fd);

	port->due_us = UINT64_MAX;
	return error ? error : ripc__sleeper_open(&port->sleeper, fds, n);
}

static void take_channel_event(struct rdmacm_port *port)
{
	if (!ripc__rdma_queue_event(&port->queue))
		drop_descriptor(port, port->queue.channel->fd);
}

/* Quietens the descriptor: the caller then looks at everything that can make it readable. */
static void quieten(struct rdmacm_port *port)
{
	struct epoll_event events[WATCHED];
	int n = epoll_wait(port->sleeper.epoll_fd, events, WATCHED, 0);
	bool any = false;

	for (int i = 0; i < n; i++) {
		if (events[i].data.fd == port->queue.channel->fd)
			take_channel_event(port);
		else if (events[i].data.fd == port->sleeper.timer_fd)
			port->sleeper.set_us = 0; /* has fired: setting it again makes it quiet */
		any |= !is_udp(port, &events[i]);
	}
	if (any || port->look || is_left_behind(port))
		look(port);
}

static bool has_something(struct rdmacm_port *port)
{
	if (port->look || !list_empty(&port->opened) || !list_empty(&port->reads.ended) ||
			!list_empty(&port->fenced))
		return true;
	if (port->self.by_udp && ripc__udp_wait_arm(&port->udp))
		return true;
	return port->at < port->n_arrivals && ripc__rdma_ring_may_hand(&port->ring);
}

int ripc__rdmacm_wait_arm(void *state)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_port *port = state;

	quieten(port);
	ripc__rdma_ring_refill(&port->ring);
	if (!has_something(port) && !port->queue.armed) {
		port->queue.armed = ibv_req_notify_cq(port->queue.cq, 0) == 0;
		port->rdma->is_lost |= !port->queue.armed;
		/* Completions that arrived before that raise no event. */
		while (!ripc__rdmacm_fill(port) && port->n_arrivals < RDMACM_BATCH)
			;
	}
	ripc__sleeper_set(&port->sleeper, port->due_us);
	return has_something(port) ? -EAGAIN : 0;
}
