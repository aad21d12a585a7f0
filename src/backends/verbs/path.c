/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths to other hosts. A path is an address handle. Making one over Ethernet has the kernel
 * resolve the neighbour, which takes a second if that does not respond: a helper thread does it.
 * A path serves all partners of its host and is kept for a while after the last one: answers to
 * strangers then need no new one.
 *
 * A handle has the neighbour's hardware address of its making. If that changes (another network
 * card, a router that takes over), datagrams are lost. A path in use is therefore resolved again
 * at a sign of that (a route to it is opened anew, a partner there does not answer), and now and
 * then. Meanwhile the old handle is used, and destroyed when no send by it is under way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/hash/siphash.h"
#include "util/system/clock.h"

#define FRESH_US   5000000u /* an older unused path is resolved again: hosts move */
#define AGAIN_US   1000000u /* after a failure */
#define OLD_US     60000000u /* a path in use is resolved again */
#define PENDING    64u      /* paths being resolved at once; more have to wait */
#define KEPT       256u     /* unused paths */

static uint64_t path_key(const struct verbs_port *port, const struct verbs_addr *addr)
{
	uint8_t bound[18];

	memcpy(bound, addr->gid, 16);
	put16(bound + 16, addr->lid);
	return ripc__siphash(port->secret, bound, sizeof(bound));
}

static void path_run(struct ripc__rdma_job *job)
{
	struct verbs_path *path = (struct verbs_path *)job;

	errno = 0;
	path->job_ah = ibv_create_ah(path->port->rdma->pd, &path->job_attr);
	path->job_error = path->job_ah ? 0 : errno ? -errno : -EHOSTUNREACH;
}

/* May the device still look at a handle, for a send that has not completed? */
static bool is_under_way(const struct verbs_port *port, uint32_t sent)
{
	return (int32_t)(port->sends.tail - sent) < 0;
}

static bool is_sending(const struct verbs_path *path)
{
	return path->ah && is_under_way(path->port, path->sent);
}

/* Destroys the old handle. False: the device may still look at it. */
static bool drop_old(struct verbs_path *path)
{
	if (path->old_ah && is_under_way(path->port, path->old_sent))
		ripc__verbs_sends_look(path->port);
	if (path->old_ah && is_under_way(path->port, path->old_sent))
		return false;
	if (path->old_ah)
		ibv_destroy_ah(path->old_ah);
	path->old_ah = NULL;
	return true;
}

static void path_free(struct verbs_path *path)
{
	ripc__map_remove(&path->port->paths_by_gid, path->key);
	list_remove(&path->node);
	if (path->old_ah)
		ibv_destroy_ah(path->old_ah);
	if (path->ah)
		ibv_destroy_ah(path->ah);
	free(path);
}

/* If our own address has changed meanwhile, the path is resolved once more. */
static void set_since(struct verbs_path *path)
{
	bool has_moved = path->job_attr.grh.sgid_index != path->attr.grh.sgid_index;

	path->since_us = has_moved ? 0 : ripc__clock_us();
}

/* Reports the result to all routes that waited. */
static void path_resolved(struct verbs_path *path)
{
	path->busy = false;
	path->ah = path->job_ah;
	path->error = path->job_error;
	set_since(path);
	ripc__rdma_openings_end(&path->waiting, path->error, &path->port->opened);
	ripc__verbs_parked_send(path);
}

/* Uses the new handle from now on; if there is none, the old one. */
static void path_renewed(struct verbs_path *path)
{
	path->renewing = false;
	set_since(path);
	if (!path->job_ah)
		return;
	path->old_ah = path->ah;
	path->old_sent = path->sent;
	path->ah = path->job_ah;
	/* The next send's completion shows that those by the old one have ended. */
	path->port->sends.unsignalled = VERBS_SIGNALLED - 1;
}

static void path_renew(struct verbs_path *path);

static void path_done(struct ripc__rdma_job *job)
{
	struct verbs_path *path = (struct verbs_path *)job;

	if (path->renewing)
		path_renewed(path);
	else
		path_resolved(path);
	if (!path->since_us)
		path_renew(path);
}

/* A multicast path has no neighbour: its hardware address follows from its GID. */
static bool is_many(const struct verbs_path *path)
{
	return ripc__verbs_is_multicast_gid(path->attr.grh.dgid.raw);
}

static void look_for(struct verbs_path *path)
{
	path->job_attr = path->attr;
	path->job_ah = NULL;
	path->job_error = -ECANCELED;
	path->job.run = path_run;
	path->job.done = path_done;
	path->job.is_slow = true;
	if (path->port->rdma->link_layer == IBV_LINK_LAYER_ETHERNET && !is_many(path)) {
		ripc__rdma_worker_submit(path->port->worker, &path->job);
		return;
	}
	path_run(&path->job); /* only local work */
	path_done(&path->job);
}

/* Resolves the path; there is none, or it is unused. */
static int path_resolve(struct verbs_path *path)
{
	if (path->ah)
		ibv_destroy_ah(path->ah);
	path->ah = NULL;
	path->busy = true;
	look_for(path);
	return path->busy ? -EINPROGRESS : path->error;
}

static void path_renew(struct verbs_path *path)
{
	struct verbs_port *port = path->port;

	if (is_many(path) || path->renewing || !path->ah || port->no_more || !drop_old(path) ||
			ripc__rdma_worker_pending(port->worker) >= PENDING)
		return;
	path->renewing = true;
	look_for(path);
}

void ripc__verbs_path_doubt(struct verbs_path *path)
{
	if (ripc__clock_us() - path->since_us > AGAIN_US)
		path_renew(path);
}

void ripc__verbs_paths_run(struct verbs_port *port)
{
	struct verbs_path *path;

	if (list_empty(&port->paths_used))
		return;
	path = list_entry(port->paths_used.next, struct verbs_path, node);
	list_remove(&path->node);
	list_append(&port->paths_used, &path->node);
	if (!path->since_us || ripc__clock_us() - path->since_us > OLD_US)
		path_renew(path);
}

static void path_move(struct verbs_path *path)
{
	path->attr.grh.sgid_index = path->port->rdma->gid_index;
	path->since_us = 0;
}

void ripc__verbs_paths_move(struct verbs_port *port)
{
	list_for_each(node, &port->paths)
		path_move(list_entry(node, struct verbs_path, node));
	list_for_each(node, &port->paths_used) {
		struct verbs_path *path = list_entry(node, struct verbs_path, node);

		path_move(path);
		path_renew(path); /* or later, if there are many: ripc__verbs_paths_run() */
	}
}

static struct verbs_path *path_new(struct verbs_port *port, const struct verbs_addr *addr,
		uint64_t key)
{
	struct verbs_path *path;

	if (port->no_more || ripc__rdma_worker_pending(port->worker) >= PENDING)
		return NULL;
	path = calloc(1, sizeof(*path));
	if (!path)
		return NULL;
	path->port = port;
	path->key = key;
	path->error = -EHOSTUNREACH;
	list_init(&path->waiting);
	list_init(&path->parked);
	ripc__verbs_addr_attr(port->rdma, addr, &path->attr);
	if (ripc__map_put(&port->paths_by_gid, key, path)) {
		free(path);
		return NULL;
	}
	list_append(&port->paths, &path->node);
	port->n_paths_unused++;
	return path;
}

/* If there are many paths, frees those that were not used for the longest time. */
static void paths_trim(struct verbs_port *port)
{
	list_for_each_safe(node, &port->paths) {
		struct verbs_path *path = list_entry(node, struct verbs_path, node);

		if (port->n_paths_unused <= KEPT)
			return;
		if (path->busy || path->renewing || is_sending(path) || !drop_old(path))
			continue;
		port->n_paths_unused--;
		path_free(path);
	}
}

/* Refreshes a path that is old, or was not found. */
static int path_refresh(struct verbs_path *path)
{
	if (path->error || (!path->users && !path->renewing && !is_sending(path)))
		return path_resolve(path);
	path_renew(path);
	return 0;
}

int ripc__verbs_path_get(struct verbs_port *port, const struct verbs_addr *addr,
		struct verbs_path **found)
{
	uint64_t key = path_key(port, addr), age_us;
	struct verbs_path *path = ripc__map_get(&port->paths_by_gid, key);
	int error;

	path = path ? path : path_new(port, addr, key);
	if (!path)
		return -EAGAIN;
	age_us = ripc__clock_us() - path->since_us;
	error = path->busy ? -EINPROGRESS : path->error;
	if (!path->busy && (!path->since_us || age_us > (path->error ? AGAIN_US : FRESH_US)))
		error = path_refresh(path);
	if (error && error != -EINPROGRESS)
		return error;
	if (path->users++ == 0) {
		port->n_paths_unused--;
		list_remove(&path->node);
		list_append(&port->paths_used, &path->node);
	}
	*found = path;
	return error;
}

void ripc__verbs_path_put(struct verbs_path *path)
{
	struct verbs_port *port = path->port;

	if (--path->users > 0)
		return;
	port->n_paths_unused++;
	list_remove(&path->node);
	list_append(&port->paths, &path->node);
	paths_trim(port);
}

static void paths_free(struct list *paths)
{
	while (!list_empty(paths)) {
		struct verbs_path *path = list_entry(paths->next, struct verbs_path, node);

		ripc__rdma_openings_free(&path->waiting);
		while (!list_empty(&path->parked))
			free(list_entry(list_pop(&path->parked), struct verbs_parked, node));
		path_free(path);
	}
}

void ripc__verbs_paths_close(struct verbs_port *port)
{
	paths_free(&port->paths);
	paths_free(&port->paths_used);
	ripc__rdma_openings_free(&port->opened);
	ripc__map_free(&port->paths_by_gid);
}
