/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to connections: events of the channel, and that time passes.
 */
#include <errno.h>
#include <string.h>

#include "conn.h"
#include "events.h"
#include "fence.h"
#include "poll.h"
#include "request.h"

#define FLUSH_LOOK_US 2000u
#define STALL_US      4000000u /* without the end of a read: the other host is gone */
#define STALL_LOOK_US 1000000u
#define EVENTS_MOST   32u     /* taken at once, as the other ends make more */

/* ---- events ------------------------------------------------------------------------------ */

/* Client: the other end has accepted. */
static void accepted(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	struct rdmacm_hello hello;

	if (conn->is_server || conn->state != RDMACM_CONNECTING || conn->unwanted)
		return;
	if (ripc__rdmacm_hello_decode(event->param.conn.private_data,
			event->param.conn.private_data_len, &hello) ||
			hello.type != RDMACM_ACCEPT || hello.nonce != conn->nonce ||
			!ripc__rdmacm_addr_is(&hello.addr, &conn->remote)) {
		ripc__rdmacm_conn_break(conn, -EPROTO);
		return;
	}
	conn->limit = hello.window;
	ripc__rdmacm_conn_ready(conn);
}

static void rejected(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	struct rdmacm_hello hello;
	bool said = ripc__rdmacm_hello_decode(event->param.conn.private_data,
		event->param.conn.private_data_len, &hello) == 0 && hello.type == RDMACM_REFUSE;

	if (said && hello.reason == RDMACM_UNKNOWN && conn->link)
		conn->link->last = 0;
	ripc__rdmacm_conn_break(conn, said ? -EAGAIN : -ECONNREFUSED);
}

static void disconnected(struct rdmacm_conn *conn)
{
	/* What the other end sent before is taken from the completion queue first. */
	ripc__rdmacm_fill(conn->port);
	ripc__rdmacm_conn_break(conn, conn->bye_came || conn->bye ? 0 : -ECONNRESET);
}

static void obey(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ripc__rdmacm_conn_resolved(conn, event->event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		accepted(conn, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(conn, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		ripc__rdmacm_conn_break(conn, -EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		ripc__rdmacm_conn_break(conn, event->status < 0 ? event->status : -ECONNREFUSED);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		conn->port->rdma->is_lost = true;
		ripc__rdmacm_conn_break(conn, -ENODEV);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(conn);
		break;
	default:
		break; /* says nothing that matters */
	}
}

/* The kernel has no more to say to a request: its end waits for nothing. */
static bool is_answer(enum rdma_cm_event_type what)
{
	return what == RDMA_CM_EVENT_ESTABLISHED || what == RDMA_CM_EVENT_REJECTED ||
		what == RDMA_CM_EVENT_UNREACHABLE || what == RDMA_CM_EVENT_CONNECT_ERROR ||
		what == RDMA_CM_EVENT_DISCONNECTED || what == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

static void take_event(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	bool is_late = conn->asked && conn->unwanted && is_answer(event->event);

	conn->asked &= !is_answer(event->event);
	obey(conn, event);
	if (is_late && !conn->busy)
		ripc__rdmacm_conn_disconnect(conn);
}

/* What an event says, which is gone when it is acknowledged. */
struct said {
	struct rdma_cm_event event;
	struct rdmacm_conn *conn;
	uint8_t bytes[RDMACM_HELLO_LEN];
};

static void copy_event(const struct rdma_cm_event *event, struct said *said)
{
	struct rdma_conn_param *param = &said->event.param.conn;

	said->event = *event;
	said->conn = event->id->context;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST &&
			event->event != RDMA_CM_EVENT_ESTABLISHED &&
			event->event != RDMA_CM_EVENT_REJECTED)
		return;
	if (!param->private_data || param->private_data_len < RDMACM_HELLO_LEN) {
		param->private_data_len = 0;
		return;
	}
	memcpy(said->bytes, param->private_data, RDMACM_HELLO_LEN);
	param->private_data = said->bytes;
	param->private_data_len = RDMACM_HELLO_LEN;
}

static void take_request(struct rdmacm_port *port, const struct rdma_cm_event *event)
{
	bool is_guarded = ripc__rdmacm_is_guarded(port);
	sigset_t before;

	if (is_guarded)
		ripc__rdma_guard_begin(&before);
	if (!ripc__rdmacm_request_came(port, event))
		rdma_destroy_id(event->id);
	if (is_guarded)
		ripc__rdma_guard_end(&before);
}

/* Acknowledged before anything is done: an identifier cannot be destroyed before that. */
bool ripc__rdmacm_events(struct rdmacm_port *port)
{
	struct rdma_cm_event *event;
	struct said said;

	for (uint32_t i = 0; i < EVENTS_MOST; i++) {
		if (rdma_get_cm_event(port->channel, &event))
			return true;
		copy_event(event, &said);
		rdma_ack_cm_event(event);
		if (said.event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			take_request(port, &said.event);
		else if (said.conn)
			take_event(said.conn, &said.event);
	}
	return false;
}

/* ---- time -------------------------------------------------------------------------------- */

static bool is_flushed(struct rdmacm_conn *conn, uint64_t now_us)
{
	struct rdmacm_port *port = conn->port;
	/* What was in the queue then has been taken, though others keep filling it. */
	bool is_out = ripc__rdmacm_fill(port) ||
		port->taken - conn->taken >= (uint32_t)port->cq->cqe;

	return is_out && (now_us >= conn->due_us || !conn->link ||
		conn->link->flow.n_posted == 0);
}

/* Reads must end, also if the other host has vanished. */
static void watch_reads(struct rdmacm_conn *conn, uint64_t now_us)
{
	if (!conn->link || conn->link->flow.n_posted == 0) {
		conn->stalled_us = 0;
		return;
	}
	conn->stalled_us = conn->stalled_us ? conn->stalled_us : now_us;
	if (now_us - conn->stalled_us >= STALL_US)
		ripc__rdmacm_conn_break(conn, -ETIMEDOUT);
	else
		ripc__rdmacm_due_at(conn->port, now_us + STALL_LOOK_US);
}

static void nudge(struct rdmacm_conn *conn, uint64_t now_us)
{
	if (!conn->nudge_us)
		return;
	if (conn->received == 0 && now_us < conn->nudge_us) {
		ripc__rdmacm_due_at(conn->port, conn->nudge_us);
		return;
	}
	conn->nudge_us = 0;
	if (conn->received == 0)
		ripc__rdmacm_conn_try(conn);
}

static void ready_run(struct rdmacm_conn *conn, uint64_t now_us)
{
	if (conn->port->rdma->is_lost) {
		ripc__rdmacm_conn_break(conn, -ENODEV);
	} else if (ripc__rdmacm_echo_is_late(conn, now_us)) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	} else {
		nudge(conn, now_us);
		watch_reads(conn, now_us);
	}
}

static void conn_run(struct rdmacm_conn *conn, uint64_t now_us)
{
	switch (conn->state) {
	case RDMACM_READY:
		ready_run(conn, now_us);
		break;
	case RDMACM_FLUSHING:
		if (is_flushed(conn, now_us))
			ripc__rdmacm_conn_destroy(conn);
		else
			ripc__rdmacm_due_at(conn->port, now_us + FLUSH_LOOK_US);
		break;
	case RDMACM_BREAKING:
	case RDMACM_DESTROYING:
		break; /* a helper thread is at it */
	default:
		if (conn->unwanted)
			break;
		if (now_us >= conn->due_us)
			ripc__rdmacm_conn_break(conn, conn->state == RDMACM_CLOSING ? 0 :
				-ETIMEDOUT);
		else
			ripc__rdmacm_due_at(conn->port, conn->due_us);
		break;
	}
}

void ripc__rdmacm_conns_run(struct rdmacm_port *port, uint64_t now_us)
{
	list_for_each_safe(node, &port->conns)
		conn_run(list_entry(node, struct rdmacm_conn, node), now_us);
}
