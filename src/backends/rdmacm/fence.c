/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that partners may read or write, and how it is closed.
 *
 * Design notes. iWARP in software (siw) looks at a registration when it begins to send the bytes
 * of a read, and when it begins to place the bytes of a packet; it does not stop when the memory
 * is deregistered meanwhile. A partner that has reported its end has read or written all, and
 * there is nothing to wait for. For any other partner, an echo is sent once the memory is
 * deregistered: a read of no bytes. The echo is sent behind the bytes that were being sent, and
 * returns behind those that were being placed, because a connection is one stream each way; the
 * partner's program has no part in it. When the echo is back, no operation that began before is
 * under way, and none can have begun since. If it is not back in ECHO_US, or the connection
 * cannot carry one, the connection is broken, and the memory is the application's when the queue
 * pair is gone; bytes that TCP already has are still sent. The same is done if a device fails to
 * deregister.
 *
 * One echo at a time is enough for a connection: fences that begin while it is under way wait
 * for the next one. Closing must not fail for want of memory, hence each key has a fence from
 * its beginning.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/clock.h"

#define ECHO_US 100000u

static void free_all(struct list *fences)
{
	while (!list_empty(fences))
		free(list_entry(list_pop(fences), struct rdmacm_fence, node));
}

void ripc__rdmacm_fences_close(struct rdmacm_port *port)
{
	free_all(&port->spare);
	free_all(&port->fences);
	free_all(&port->fenced);
}

static bool holds_up(const struct rdmacm_conn *conn, const struct rdmacm_fence *fence)
{
	return conn->space == fence->space && fence->number > conn->passed;
}

static bool is_awaited(const struct rdmacm_port *port, const struct rdmacm_fence *fence)
{
	list_for_each(node, &port->conns) {
		if (holds_up(list_entry(node, struct rdmacm_conn, node), fence))
			return true;
	}
	return false;
}

void ripc__rdmacm_fences_check(struct rdmacm_port *port)
{
	list_for_each_safe(node, &port->fences) {
		if (is_awaited(port, list_entry(node, struct rdmacm_fence, node)))
			continue;
		list_remove(node);
		list_append(&port->fenced, node);
	}
}

RIPC__RARE uint32_t ripc__rdmacm_fences_take(struct rdmacm_port *port, struct ripc__event *events,
		uint32_t at, uint32_t n)
{
	while (at < n && !list_empty(&port->fenced)) {
		struct rdmacm_fence *fence = list_entry(list_pop(&port->fenced),
			struct rdmacm_fence, node);

		events[at++] = (struct ripc__event){.kind = RIPC_EV_FENCED,
			.cookie = fence->cookie};
		free(fence);
	}
	return at;
}

/* ---- echoes ------------------------------------------------------------------------------ */

/* Posts a read of no bytes: neither end's memory matters. 0 or a negative errno. */
static int echo_post(struct rdmacm_conn *conn)
{
	struct ibv_sge piece = {.addr = (uintptr_t)ripc__buffers_at(conn->buffers, 0)->data,
		.lkey = conn->mr->lkey};
	struct ibv_send_wr *bad, wr = {
		.wr_id = RDMACM_WR_ECHO,
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
	};

	return -ripc__rdma_post(conn->id->qp, conn->port->reads.guarded, &wr, &bad);
}

/* Sends an echo, or breaks the connection: either way the fences do not wait for long. */
static void echo_send(struct rdmacm_conn *conn)
{
	if (conn->echoing)
		return;
	if (conn->state != RDMACM_READY || echo_post(conn)) {
		/*
		 * A connection that never stood is requested again: the partner has done
		 * nothing.
		 */
		ripc__rdmacm_conn_break(conn, conn->was_ready ? -ECONNRESET : -EAGAIN);
		return;
	}
	conn->echoing = true;
	conn->echoed = conn->port->n_fences;
	conn->echo_us = ripc__clock_us() + ECHO_US;
	ripc__rdmacm_due_at(conn->port, conn->echo_us);
}

void ripc__rdmacm_echo_came(struct rdmacm_conn *conn, const struct ibv_wc *wc)
{
	conn->echoing = false;
	if (wc->status != IBV_WC_SUCCESS) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
		return;
	}
	conn->passed = conn->echoed;
	ripc__rdmacm_fences_check(conn->port);
	list_for_each(node, &conn->port->fences) {
		if (!holds_up(conn, list_entry(node, struct rdmacm_fence, node)))
			continue;
		echo_send(conn);
		return;
	}
}

bool ripc__rdmacm_echo_is_late(const struct rdmacm_conn *conn, uint64_t now_us)
{
	if (!conn->echoing)
		return false;
	ripc__rdmacm_due_at(conn->port, conn->echo_us);
	return conn->echo_us <= now_us;
}

/* ---- fences ------------------------------------------------------------------------------ */

/*
 * May the other end be reading or writing? Through a connection that is still being made it
 * cannot have begun.
 */
static bool may_reach(const struct rdmacm_conn *conn)
{
	return conn->state >= RDMACM_ACCEPTING ||
		(conn->state == RDMACM_CONNECTING && !conn->busy && !conn->waits);
}

/* Makes all connections by which this space can be reached pass the fence. */
static int fence_off(struct rdmacm_port *port, const struct ripc__rdma_space *space,
		struct rdmacm_fence *fence, bool is_closed)
{
	fence->space = space;
	fence->number = ++port->n_fences;
	list_append(&port->fences, &fence->node);
	list_for_each(node, &port->conns) {
		struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if (conn->space != space)
			continue;
		if (!may_reach(conn))
			conn->passed = fence->number;
		if (!is_closed || port->rdma->is_lost)
			ripc__rdmacm_conn_break(conn, -ECONNRESET);
		else if (may_reach(conn))
			echo_send(conn);
	}
	if (is_awaited(port, fence))
		return -EINPROGRESS;
	list_remove(&fence->node);
	free(fence);
	return 0;
}

/* ---- keys -------------------------------------------------------------------------------- */

int ripc__rdmacm_key_open(struct rdmacm_port *port, struct ripc__rdma_space *space,
		const struct iovec *mem, bool writable, struct ripc__key *key)
{
	struct rdmacm_fence *fence = calloc(1, sizeof(*fence));
	int error = fence ? ripc__rdma_key_open(space, mem, writable, key) : -ENOMEM;

	if (error)
		free(fence);
	else
		list_append(&port->spare, &fence->node);
	return error;
}

int ripc__rdmacm_mem_close(void *state, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_port *port = state;
	const struct ripc__rdma_space *space = ripc__rdma_key_space(port->rdma, key);
	int error = ripc__rdma_key_close(port->rdma, key);
	struct rdmacm_fence *fence;

	if (error == -EINVAL)
		return error;
	fence = list_entry(list_pop(&port->spare), struct rdmacm_fence, node);
	fence->cookie = cookie;
	if (error || (how == RIPC_CLOSE_REVOKE && port->dev.is_late))
		return fence_off(port, space, fence, !error);
	free(fence);
	return 0;
}
