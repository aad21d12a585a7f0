/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to and from a partner, and the credit that bounds them.
 *
 * Credit. Every message takes one receive buffer of the other end's port. An end reserves a
 * window of buffers for each connection and reports up to which message the other one may send:
 * in the preamble of each message that it sends, and by a message of its own when half a window
 * has arrived since, a datagram among it. Those messages need credit, too: the last two of a
 * window are reserved for them. This never locks up: such messages are only sent after
 * datagrams, and an end that may send datagrams reports with them that the buffers of such
 * messages are free again. A message that is sent without an arrived datagram therefore leaves
 * credit for one, which makes the other end report.
 *
 * All windows together fit the buffers that are certainly posted: half of the ring, because the
 * other half may be with core, less a batch that waits to be posted and one that waits to be
 * returned. A few messages are every connection's own; the rest is shared among those that send.
 *
 * Sends are copied to buffers of the connection, because they must lie in its protection domain.
 * A buffer is used again when the other end has reported that its message arrived. Its
 * completion is not enough, because iWARP in software sends user pages again when TCP loses
 * packets.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "util/rare.h"

int ripc__rdmacm_sends_open(struct rdmacm_conn *conn)
{
	int error = ripc__buffers_open(RDMACM_SENDS, RDMACM_BUFFER, &conn->buffers);

	return error ? error : ripc__rdma_register_buffers(conn->port->rdma, conn->space->pd,
		conn->buffers, 0, &conn->mr);
}

/* ---- windows ----------------------------------------------------------------------------- */

static uint32_t fair_window(const struct rdmacm_port *port)
{
	uint32_t extra = port->n_conns ? port->shared / port->n_conns : port->shared;

	return extra < RDMACM_SENDS - RDMACM_WINDOW_MIN ? RDMACM_WINDOW_MIN + extra : RDMACM_SENDS;
}

static void window_grow(struct rdmacm_conn *conn, uint32_t wanted)
{
	struct rdmacm_port *port = conn->port;
	uint32_t extra = wanted < port->shared_free ? wanted : port->shared_free;

	conn->window += extra;
	port->shared_free -= extra;
}

void ripc__rdmacm_window_take(struct rdmacm_conn *conn)
{
	conn->window = RDMACM_WINDOW_MIN;
	window_grow(conn, fair_window(conn->port) - RDMACM_WINDOW_MIN);
	conn->given = conn->window;
}

void ripc__rdmacm_window_give(struct rdmacm_conn *conn)
{
	conn->port->shared_free += conn->window - RDMACM_WINDOW_MIN;
}

/*
 * Moves the window towards its fair share, but takes no credit back. For the messages that have
 * arrived meanwhile, at least half of their credit, rounded down, is granted again: messages
 * that return no credit would use up the reserve.
 */
static void window_adjust(struct rdmacm_conn *conn)
{
	uint32_t fair = fair_window(conn->port);
	uint32_t unused = conn->window - (conn->given - conn->received);
	uint32_t less, most = (unused + 1) / 2;

	if (conn->window < fair) {
		window_grow(conn, fair - conn->window);
		return;
	}
	less = conn->window - fair < most ? conn->window - fair : most;
	conn->window -= less;
	conn->port->shared_free += less;
}

/* ---- posting ----------------------------------------------------------------------------- */

void ripc__rdmacm_list_init(struct rdmacm_list *list)
{
	for (uint32_t i = 0; i < RDMACM_BATCH; i++)
		list->wr[i] = (struct ibv_send_wr){.sg_list = &list->pieces[i], .num_sge = 1,
			.opcode = IBV_WR_SEND};
}

static struct rdmacm_list *list_begin(const struct rdmacm_conn *conn)
{
	struct rdmacm_list *list = &conn->port->list;

	list->n = 0;
	list->unsignalled = conn->unsignalled;
	list->told = conn->told;
	list->data = conn->data;
	return list;
}

/* The number of free buffers. */
static uint32_t room(const struct rdmacm_conn *conn)
{
	uint32_t unacked = conn->head - conn->acked, incomplete = conn->head - conn->completed;

	return RDMACM_SENDS - (unacked > incomplete ? unacked : incomplete);
}

uint32_t ripc__rdmacm_credit(const struct rdmacm_conn *conn, uint32_t reserve)
{
	uint32_t left = conn->limit - conn->head, most = room(conn);

	left = left > reserve ? left - reserve : 0;
	return left < most ? left : most;
}

static uint8_t *next_bytes(const struct rdmacm_conn *conn, const struct rdmacm_list *list)
{
	return ripc__buffers_at(conn->buffers, (conn->head + list->n) % RDMACM_SENDS)->data;
}

/* Adds the next message, whose bytes behind the preamble are in its buffer already. */
static void add(struct rdmacm_conn *conn, struct rdmacm_list *list, enum rdmacm_message type,
		uint32_t len)
{
	uint8_t *bytes = next_bytes(conn, list);
	struct ibv_send_wr *wr = &list->wr[list->n];
	struct ibv_sge *piece = &list->pieces[list->n];

	window_adjust(conn);
	conn->given = conn->received + conn->window;
	conn->told = conn->received;
	conn->data = 0;
	ripc__rdmacm_preamble_encode(&(struct rdmacm_preamble){.type = type,
		.received = conn->received, .limit = conn->given}, bytes, RDMACM_PREAMBLE + len);
	piece->addr = (uintptr_t)bytes;
	piece->length = RDMACM_PREAMBLE + len;
	piece->lkey = conn->mr->lkey;
	wr->wr_id = conn->head + list->n;
	wr->next = NULL;
	wr->send_flags = piece->length <= conn->inline_max ? IBV_SEND_INLINE : 0;
	if (++conn->unsignalled >= RDMACM_SIGNALLED || type == RDMACM_BYE) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		conn->unsignalled = 0;
	}
	if (list->n)
		list->wr[list->n - 1].next = wr;
	list->n++;
}

/*
 * How many requests were posted. If the doorbell failed, no request of the list is bad, and no
 * more can be posted: all count, and the connection has failed.
 */
static uint32_t n_posted(const struct rdmacm_list *list, const struct ibv_send_wr *bad)
{
	return bad >= list->wr && bad < list->wr + list->n ? (uint32_t)(bad - list->wr) : list->n;
}

/* Returns how many were posted. */
static RIPC__RARE uint32_t post_failed(struct rdmacm_conn *conn, const struct rdmacm_list *list,
		const struct ibv_send_wr *bad, int error)
{
	uint32_t posted = n_posted(list, bad);

	conn->unsignalled = list->unsignalled;
	for (uint32_t i = 0; i < posted; i++)
		conn->unsignalled = list->wr[i].send_flags & IBV_SEND_SIGNALED ? 0 :
			conn->unsignalled + 1;
	conn->head += posted;
	if (posted == 0) {
		conn->told = list->told;
		conn->data = list->data;
	}
	if (posted == list->n || (error != ENOMEM && error != EAGAIN))
		conn->failed = true;
	return posted;
}

/* The same. */
static uint32_t post(struct rdmacm_conn *conn, struct rdmacm_list *list)
{
	struct ibv_send_wr *bad = NULL;
	int error = ripc__rdma_post(conn->id->qp, conn->port->reads.guarded, list->wr, &bad);

	if (error)
		return post_failed(conn, list, bad, error);
	conn->head += list->n;
	return list->n;
}

bool ripc__rdmacm_say(struct rdmacm_conn *conn, enum rdmacm_message type)
{
	struct rdmacm_list *list = list_begin(conn);

	if (ripc__rdmacm_credit(conn, 0) == 0)
		return false;
	add(conn, list, type, 0);
	return post(conn, list) == 1;
}

/* ---- datagrams --------------------------------------------------------------------------- */

int ripc__rdmacm_send_by(struct rdmacm_conn *conn, const struct ripc__tx *tx, uint32_t n)
{
	uint32_t most = ripc__rdmacm_credit(conn, RDMACM_RESERVE);
	struct rdmacm_list *list = list_begin(conn);

	n = n < most ? n : most;
	n = n < RDMACM_BATCH ? n : RDMACM_BATCH;
	if (n == 0)
		return 0;
	for (uint32_t i = 0; i < n && tx[i].len <= RDMACM_BUFFER - RDMACM_PREAMBLE; i++) {
		ripc__tx_copy(next_bytes(conn, list) + RDMACM_PREAMBLE, &tx[i]);
		add(conn, list, RDMACM_DATAGRAM, tx[i].len);
	}
	conn->used = ++conn->port->uses;
	return (int)post(conn, list);
}

void ripc__rdmacm_sent(struct rdmacm_conn *conn, uint64_t wr_id)
{
	conn->completed = (uint32_t)wr_id + 1;
	conn->bye_gone |= conn->bye && conn->completed == conn->bye;
}

/* ---- arrivals ---------------------------------------------------------------------------- */

/* Is middle between low and high, modulo 2^32? */
static bool is_between(uint32_t low, uint32_t middle, uint32_t high)
{
	return middle - low <= high - low;
}

int ripc__rdmacm_came(struct rdmacm_conn *conn, const uint8_t *bytes, uint32_t len)
{
	struct rdmacm_preamble preamble;
	uint32_t half;

	if (conn->received == conn->given || conn->bye_came)
		return -EPROTO;
	if (ripc__rdmacm_preamble_decode(bytes, len, &preamble) ||
			!is_between(conn->acked, preamble.received, conn->head) ||
			(int32_t)(preamble.limit - conn->limit) < 0 ||
			(preamble.type == RDMACM_DATAGRAM && conn->remote.by_udp))
		return -EPROTO;
	conn->received++;
	conn->acked = preamble.received;
	conn->limit = preamble.limit;
	conn->data += preamble.type == RDMACM_DATAGRAM;
	conn->bye_came = preamble.type == RDMACM_BYE;
	half = (conn->given - conn->told) / 2;
	if (conn->state == RDMACM_READY && conn->data && conn->received - conn->told >= half &&
			!conn->bye_came)
		(void)ripc__rdmacm_say(conn, RDMACM_CREDIT); /* or by the next message */
	return preamble.type == RDMACM_DATAGRAM;
}
