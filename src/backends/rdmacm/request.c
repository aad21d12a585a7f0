/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests for a connection: which are accepted.
 *
 * Design notes. Both ends may ask each other at once. Then the request wins that gives the number
 * of the last connection; if both do or none does, that of the end whose address comes first. That
 * end refuses the other's request (glare), and the other one drops its own when it sees the
 * winner's. The end that is refused waits, and asks again if nothing has come. A request that meets
 * a connection that stands is glare, too, unless it names that connection's number: then the other
 * end knew it and has lost it. So a stranger that does not know that number cannot end a
 * connection. Nor can it become the partner whose connection has ended: while routes lead there or
 * it may read memory, a request that names another number is refused, and the partner is asked
 * instead, at its address. An end that is refused so forgets the number, so that two ends that know
 * different numbers come together.
 */
#include <string.h>

#include "conn.h"
#include "request.h"

/* Decodes a request. Its sender must ask from the host where it listens. */
static int read_request(const struct rdma_cm_event *event, struct rdmacm_hello *hello)
{
	struct rdmacm_addr from;
	int error = ripc__rdmacm_hello_decode(event->param.conn.private_data,
		event->param.conn.private_data_len, hello);

	if (!error)
		error = ripc__rdmacm_from_socket(rdma_get_peer_addr(event->id), &from);
	if (!error && (hello->type != RDMACM_REQUEST ||
			memcmp(from.ip, hello->addr.ip, sizeof(from.ip)) != 0))
		error = -EBADMSG;
	return error;
}

/* Somebody else at the partner's host may ask, while there is something to take from it. */
static bool is_unknown(const struct rdmacm_link *link, const struct rdmacm_hello *hello)
{
	return (link->n_routes || (link->space && link->space->n_keys)) && link->last &&
		hello->last != link->last;
}

/* Our own end of a connection to ourselves: nobody else can know its number. */
static bool is_own(struct rdmacm_port *port, const struct rdmacm_hello *hello)
{
	struct rdmacm_link *link;

	return ripc__rdmacm_link_get(port, &port->self, false, &link) == 0 && link->conn &&
		!link->conn->is_server && link->conn->nonce == hello->nonce;
}

/*
 * Of two requests, is it ours that wins? Not if only theirs gives a number: the other end would go
 * on refusing ours.
 */
static bool is_ours_first(const struct rdmacm_link *link, const struct rdmacm_hello *hello)
{
	if (!link->last != !hello->last)
		return link->last != 0;
	return ripc__rdmacm_addr_before(&link->port->self, &link->remote);
}

/* What stands in the way of a request: 0: nothing any more, or enum rdmacm_reason. */
static uint8_t settle(struct rdmacm_link *link, const struct rdmacm_hello *hello, bool is_mirror)
{
	struct rdmacm_conn *conn = link->conn;
	bool is_known = conn && hello->last == conn->nonce;

	if (!is_mirror && (!conn || (!conn->was_ready && conn->state != RDMACM_ACCEPTING)) &&
			is_unknown(link, hello)) {
		ripc__rdmacm_link_want(link);
		return RDMACM_UNKNOWN;
	}
	if (!conn)
		return 0;
	if (conn->was_ready && (conn->state >= RDMACM_BREAKING || conn->unwanted))
		return RDMACM_BUSY;
	if (!conn->was_ready && conn->state != RDMACM_ACCEPTING) {
		if (!is_known && !conn->unwanted && !conn->is_server && !conn->waits &&
				is_ours_first(link, hello))
			return RDMACM_GLARE;
		ripc__rdmacm_conn_leave(conn);
		return 0;
	}
	if (is_known) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
		return RDMACM_BUSY;
	}
	/* If that connection is dead after all, this finds it out. */
	if (conn->state == RDMACM_READY)
		ripc__rdmacm_conn_try(conn);
	return RDMACM_GLARE;
}

static void refuse(struct rdmacm_port *port, struct rdma_cm_id *id, uint8_t reason)
{
	struct rdmacm_hello hello = {.type = RDMACM_REFUSE, .reason = reason, .addr = port->self};
	uint8_t bytes[RDMACM_HELLO_LEN];

	ripc__rdmacm_hello_encode(&hello, bytes);
	(void)rdma_reject(id, bytes, sizeof(bytes));
}

bool ripc__rdmacm_request_came(struct rdmacm_port *port, const struct rdma_cm_event *event)
{
	struct rdmacm_hello hello;
	struct rdmacm_link *link;
	uint8_t reason;
	bool is_mirror;

	port->look = true; /* a link that is made for it may be of no use */
	if (port->closing || port->rdma->is_lost || read_request(event, &hello) ||
			hello.addr.by_udp != port->self.by_udp ||
			!ripc__rdmacm_is_our_device(port->rdma, event->id)) {
		(void)rdma_reject(event->id, NULL, 0);
		return false;
	}
	is_mirror = ripc__rdmacm_addr_is(&hello.addr, &port->self);
	if (is_mirror && !is_own(port, &hello)) {
		(void)rdma_reject(event->id, NULL, 0);
		return false;
	}
	reason = RDMACM_BUSY;
	if (ripc__rdmacm_link_get(port, &hello.addr, is_mirror, &link) == 0)
		reason = settle(link, &hello, is_mirror);
	if (!reason && !ripc__rdmacm_room_is(port, &hello.addr)) {
		ripc__rdmacm_room_make(port, ripc__rdma_now_us());
		reason = RDMACM_BUSY;
	}
	if (!reason && ripc__rdmacm_conn_accept(link, event->id, &hello) == 0)
		return true;
	refuse(port, event->id, reason ? reason : RDMACM_BUSY);
	return false;
}
