/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that partners may read, and how it is taken back.
 *
 * Design notes. iWARP in software (siw) looks at a registration when it begins to send what a read
 * asks for; it does not stop when that is deregistered meanwhile, and a partner may take its time.
 * A partner that has said that it is done has read all, so there is nothing to wait for. From one
 * that has not, memory is only taken back with the connection: it is broken off, and the memory is
 * the application's when the queue pair is gone. What has been handed to TCP by then still goes
 * out. The same is done if a device fails to deregister.
 *
 * Closing must not fail for want of memory, so each key has a fence from its beginning.
 */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm.h"

void ripc__rdmacm_fences_init(struct rdmacm_port *port)
{
	list_init(&port->spare);
	list_init(&port->fences);
	list_init(&port->fenced);
}

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

static bool is_awaited(const struct rdmacm_port *port, const struct ripc__rdma_space *space)
{
	list_for_each(node, &port->conns) {
		const struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if (conn->fences && conn->space == space)
			return true;
	}
	return false;
}

void ripc__rdmacm_fences_check(struct rdmacm_port *port)
{
	list_for_each_safe(node, &port->fences) {
		if (is_awaited(port, list_entry(node, struct rdmacm_fence, node)->space))
			continue;
		list_remove(node);
		list_append(&port->fenced, node);
	}
}

uint32_t ripc__rdmacm_fences_take(struct rdmacm_port *port, struct ripc__event *events,
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

/* May the other end be reading by it? One that is still being made cannot have begun to. */
static bool may_show(const struct rdmacm_conn *conn)
{
	return conn->state >= RDMACM_ACCEPTING || (conn->state == RDMACM_CONNECTING && !conn->busy);
}

/* Breaks all connections by which this space can be read. */
static int fence_off(struct rdmacm_port *port, const struct ripc__rdma_space *space,
		struct rdmacm_fence *fence, uint64_t cookie)
{
	list_for_each(node, &port->conns) {
		struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if (conn->space != space || !(may_show(conn) || port->rdma->is_lost))
			continue;
		conn->fences = may_show(conn);
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	}
	if (!is_awaited(port, space)) {
		free(fence);
		return 0;
	}
	fence->space = space;
	fence->cookie = cookie;
	list_append(&port->fences, &fence->node);
	return -EINPROGRESS;
}

/* ---- what core asks for ------------------------------------------------------------------ */

int ripc__rdmacm_mem_open(void *state, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	struct rdmacm_link *link = ((struct rdmacm_peer *)peer)->link;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct rdmacm_device *dev = state;
	struct rdmacm_fence *fence;
	int error = writable ? -ENOTSUP : ripc__rdmacm_link_space(link);

	if (error)
		return error;
	fence = calloc(1, sizeof(*fence));
	error = fence ? ripc__rdma_key_open(&dev->keys, link->space, &range, writable, key) :
		-ENOMEM;
	if (error)
		free(fence);
	else
		list_append(&link->port->spare, &fence->node);
	return error;
}

static int key_close(struct rdmacm_device *dev, const struct ripc__key *key, uint64_t cookie,
		bool may_be_read)
{
	const struct ripc__rdma_space *space = ripc__rdma_key_space(&dev->keys, key);
	int error = ripc__rdma_key_close(&dev->keys, key);
	struct rdmacm_fence *fence;

	/* With the port all connections have gone. */
	if (error == -EINVAL || !dev->port)
		return error == -EINVAL ? error : 0;
	fence = list_entry(list_pop(&dev->port->spare), struct rdmacm_fence, node);
	if (error || may_be_read)
		return fence_off(dev->port, space, fence, cookie);
	free(fence);
	return 0;
}

int ripc__rdmacm_mem_close(void *dev, const struct ripc__key *key, uint64_t cookie)
{
	return key_close(dev, key, cookie, false);
}

int ripc__rdmacm_mem_revoke(void *dev, const struct ripc__key *key, uint64_t cookie)
{
	return key_close(dev, key, cookie, ((struct rdmacm_device *)dev)->reads_late);
}
