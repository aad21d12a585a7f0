/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: the partners that routes lead to or that are connected to us, with or without a
 * connection at the moment; when a connection is made, and which one ends for want of room.
 *
 * Design notes. A link requests a connection when a route is opened, when there is something to
 * send or to read, and when one has broken while there are routes: this shows at once if the
 * partner has died. (Over UDP only reads request one.) An attempt lasts no longer than
 * ATTEMPT_US after the last sign of the partner, with repetitions, and BUSY_US in all. When it
 * has failed, waiting routes are notified, every route reports that once, and there is no
 * attempt for HOLD_US. (Over UDP an attempt is given up sooner, and repeated at growing gaps:
 * messages do not need it.)
 *
 * There is a limit to the connections of a port. At the limit a connection ends that was unused
 * for a moment and has no reads, the least recently used first. Both ends agree on its end,
 * hence nothing is lost. A partner that finds all connections in use waits, or is asked to come
 * again. So is another process of a host that has twice as many as are left: however many hosts
 * take all that they get, there is a connection for the next one; and only connections of that
 * host end for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/bounds.h"
#include "util/hash/siphash.h"

#define ATTEMPT_US 3000000u
#define BUSY_US    10000000u /* while the partner reports that it has no room, or we have none */
#define HOLD_US    1000000u
#define ATTEMPT_UDP_US 1000000u /* in all: messages can be pulled instead of read; */
#define HOLDS_UDP  6u      /* and the next attempt is made after 2, 4 ... 64 times HOLD_US */
#define AGAIN_US   20000u    /* after a refusal, or a useless connection, and as */
#define AGAIN_MAX  160000u   /* much by chance; twice that after each further one, up to this */
#define MOMENT_US  50000u    /* a connection that was unused for this long may end */
#define WATCH_US   1000000u  /* between two looks at the progress of reads */
#define IDLE_US    10000000u /* a connection without datagrams ends */

/* ---- links ------------------------------------------------------------------------------- */

static uint64_t link_key(const struct rdmacm_port *port, const struct rdmacm_addr *remote,
		bool is_mirror)
{
	uint8_t bytes[RDMACM_ADDR_LEN + 1];

	ripc__rdmacm_addr_encode(remote, bytes);
	bytes[RDMACM_ADDR_LEN] = is_mirror;
	return ripc__siphash(port->secret, bytes, sizeof(bytes));
}

static int link_new(struct rdmacm_port *port, const struct rdmacm_addr *remote, uint64_t key,
		struct rdmacm_link **link)
{
	struct rdmacm_link *made = calloc(1, sizeof(*made));
	int error = made ? ripc__map_put(&port->links_by_addr, key, made) : -ENOMEM;

	if (error) {
		free(made);
		return error;
	}
	made->port = port;
	made->key = key;
	made->remote = *remote;
	list_init(&made->wanting);
	list_init(&made->openings);
	ripc__rdma_flow_init(&made->flow, &port->reads);
	list_append(&port->links, &made->node);
	*link = made;
	return 0;
}

static int link_find(struct rdmacm_port *port, const struct rdmacm_addr *remote, bool is_mirror,
		struct rdmacm_link **link)
{
	uint64_t key = link_key(port, remote, is_mirror);
	struct rdmacm_link *found = ripc__map_get(&port->links_by_addr, key);

	if (!found)
		return link_new(port, remote, key, link);
	*link = found;
	return 0;
}

/* Both ends of a connection to ourselves have one protection domain. */
static int mirror_space(struct rdmacm_link *mirror)
{
	struct rdmacm_link *link;
	int error = link_find(mirror->port, &mirror->remote, false, &link);

	if (!error)
		error = ripc__rdmacm_link_space(link);
	if (error || mirror->space == link->space)
		return error;
	if (mirror->space)
		ripc__rdma_space_put(mirror->space);
	ripc__rdma_space_get(link->space);
	mirror->space = link->space;
	return 0;
}

int ripc__rdmacm_link_get(struct rdmacm_port *port, const struct rdmacm_addr *remote,
		bool is_mirror, struct rdmacm_link **link)
{
	int error = link_find(port, remote, is_mirror, link);

	return error || !is_mirror ? error : mirror_space(*link);
}

int ripc__rdmacm_link_space(struct rdmacm_link *link)
{
	return link->space ? 0 : ripc__rdma_space_open(link->port->rdma, &link->space);
}

/* Partners that are not connected need no protection domain. */
static void space_drop(struct rdmacm_link *link)
{
	if (link->conn || !link->space || link->space->refs > 1)
		return;
	ripc__rdma_space_put(link->space);
	link->space = NULL;
}

static void link_free(struct rdmacm_link *link)
{
	(void)ripc__map_remove(&link->port->links_by_addr, link->key);
	list_remove(&link->node);
	list_remove(&link->wanting);
	ripc__rdma_openings_free(&link->openings);
	if (link->space)
		ripc__rdma_space_put(link->space);
	free(link);
}

/* ---- attempts ---------------------------------------------------------------------------- */

static bool is_waited_for(const struct rdmacm_link *link)
{
	return !list_empty(&link->openings) || !list_empty(&link->flow.waiting);
}

/* Is the link in use: by routes with datagrams; over UDP, by memory that the other end may read? */
static bool has_users(const struct rdmacm_link *link)
{
	if (link->remote.by_udp)
		return link->space && link->space->n_keys;
	return link->n_routes > 0;
}

bool ripc__rdmacm_link_is_held(const struct rdmacm_link *link)
{
	return link->error && link->hold_us > ripc__rdma_now_us();
}

static void fail(struct rdmacm_link *link, int status)
{
	list_remove(&link->wanting);
	link->error = status;
	if (link->remote.by_udp && link->n_failed < HOLDS_UDP)
		link->n_failed++;
	link->hold_us = ripc__rdma_now_us() + ((uint64_t)HOLD_US << link->n_failed);
	link->until_us = 0;
	link->again_us = 0;
	link->resets++;
	ripc__rdma_flow_refuse(&link->flow, status);
	ripc__rdma_openings_end(&link->openings, status, &link->port->opened);
}

/* A read that could not be posted has ended; waiting ones use another connection. */
static void check_flow(struct rdmacm_link *link)
{
	if (link->conn && link->conn->state == RDMACM_READY && link->flow.failed)
		ripc__rdmacm_conn_break(link->conn, -ECONNRESET);
}

/*
 * Reports that the link accepts again what it did not accept before. Core would find out only
 * with its next repetition, and by then the connection may have ended for want of use.
 */
static void remind(struct rdmacm_link *link)
{
	struct rdmacm_port *port = link->port;
	struct ripc__rdma_opening *reminder;
	struct ripc__addr addr;

	if (!link->missed)
		return;
	link->missed = false;
	ripc__rdmacm_addr_fill(&link->remote, &addr);
	reminder = ripc__rdma_opening_new(&port->opening, NULL, &addr);
	if (reminder)
		ripc__rdma_opening_end(reminder, 0, &port->opened);
}

/* An echo is a read, too. */
static uint32_t reads_of_flow(const struct rdmacm_conn *conn)
{
	return conn->port->dev.is_late && conn->reads > 1 ? conn->reads - 1u : conn->reads;
}

void ripc__rdmacm_link_ready(struct rdmacm_link *link)
{
	list_remove(&link->wanting);
	link->error = 0;
	link->n_failed = 0;
	link->until_us = 0;
	ripc__rdma_flow_start(&link->flow, link->conn->id->qp, reads_of_flow(link->conn));
	check_flow(link);
	ripc__rdma_openings_end(&link->openings, 0, &link->port->opened);
	remind(link);
	if (!has_users(link))
		link->port->look = true; /* an unused connection ends */
}

/* The link waits for room: the other end is not dead. */
static void prolong(struct rdmacm_link *link, uint64_t now_us)
{
	uint64_t end_us = link->begun_us + (link->remote.by_udp ? ATTEMPT_UDP_US : BUSY_US);

	link->until_us = now_us + ATTEMPT_US < end_us ? now_us + ATTEMPT_US : end_us;
}

void ripc__rdmacm_link_want(struct rdmacm_link *link)
{
	struct rdmacm_port *port = link->port;
	uint64_t now_us;
	int error;

	if (link->conn || port->closing || !list_empty(&link->wanting))
		return;
	now_us = ripc__rdma_now_us();
	if (link->error && link->hold_us > now_us) {
		ripc__rdma_flow_refuse(&link->flow, link->error);
		return;
	}
	link->error = 0;
	if (!link->until_us) {
		link->begun_us = now_us;
		prolong(link, now_us);
	}
	ripc__rdmacm_due_at(port, link->until_us);
	if (link->hold_us > now_us) {
		ripc__rdmacm_due_at(port, link->hold_us); /* another attempt */
		return;
	}
	if (port->n_conns >= port->dev.connections) {
		list_append(&port->wanting, &link->wanting);
		ripc__rdmacm_room_make(port, now_us);
		return;
	}
	error = ripc__rdmacm_conn_ask(link);
	if (error)
		fail(link, error);
}

/* Makes no attempt for a while: twice as long as the last pause. */
static void pause_asking(struct rdmacm_link *link, uint64_t now_us)
{
	struct rdmacm_port *port = link->port;

	link->again_us = (uint32_t)ripc__least(link->again_us ? 2 * link->again_us : AGAIN_US,
		AGAIN_MAX);
	link->hold_us = now_us + link->again_us +
		ripc__rdma_nonce(port->secret, &port->counter) % link->again_us;
	ripc__rdmacm_due_at(port, link->hold_us);
}

void ripc__rdmacm_link_lost(struct rdmacm_link *link, enum rdmacm_was was, int status)
{
	struct rdmacm_port *port = link->port;
	uint64_t now_us = ripc__rdma_now_us();

	port->look = true;
	space_drop(link);
	if (status == -EAGAIN && link->until_us > now_us) {
		/* The other end lives, and perhaps requests a connection itself. */
		prolong(link, now_us);
		pause_asking(link, now_us);
		return;
	}
	/* A connection that the other end requested may have had no attempt of ours. */
	if (status && was == RDMACM_WAS_NOTHING && (status != -EAGAIN || link->until_us)) {
		fail(link, status == -EAGAIN ? -EBUSY : status);
		return;
	}
	if (status && was != RDMACM_WAS_OF_USE)
		pause_asking(link, now_us); /* a useless connection */
	else
		link->again_us = 0;
	if (is_waited_for(link) || ((status || link->missed) && has_users(link)))
		ripc__rdmacm_link_want(link);
}

void ripc__rdmacm_link_used(struct rdmacm_link *link)
{
	if (link->conn)
		link->conn->used = ++link->port->uses;
}

void ripc__rdmacm_link_taken(struct rdmacm_link *link)
{
	check_flow(link);
	if (is_waited_for(link))
		ripc__rdmacm_link_want(link);
	ripc__rdmacm_link_used(link);
	ripc__rdmacm_due_at(link->port, ripc__rdma_now_us() + WATCH_US);
}

/* ---- room -------------------------------------------------------------------------------- */

static bool may_end(const struct rdmacm_conn *conn)
{
	const struct rdmacm_link *link = conn->link;

	return conn->state == RDMACM_READY && link && ripc__rdma_flow_is_idle(&link->flow) &&
		conn->space->n_keys == 0 && !conn->echoing && conn->used == conn->marked;
}

/*
 * A partner that acknowledges nothing cannot be notified that its connection ends: it ends
 * nevertheless.
 */
static void end_unused(struct rdmacm_conn *conn)
{
	ripc__rdmacm_conn_close(conn);
	if (conn->state == RDMACM_READY)
		ripc__rdmacm_conn_break(conn, 0);
}

/* A host with IPv6 has all addresses of a network. */
static bool is_of_host(const struct rdmacm_conn *conn, const uint8_t ip[16])
{
	return memcmp(conn->remote.ip, ip, ripc__rdmacm_is_v4(ip) ? 16 : 8) == 0;
}

bool ripc__rdmacm_room_is(struct rdmacm_port *port, const struct rdmacm_addr *remote)
{
	uint32_t n = 0, most = port->dev.connections;

	if (port->n_conns >= most) {
		port->n_refused++;
		return false;
	}
	list_for_each(node, &port->conns)
		n += is_of_host(list_entry(node, struct rdmacm_conn, node), remote->ip);
	if (n < 2 * (most - port->n_conns))
		return true;
	port->n_refused_host++;
	memcpy(port->greedy, remote->ip, sizeof(port->greedy));
	return false;
}

/* Ends the least recently used connection, of this host if it is not NULL. False: none may end. */
static bool end_one(struct rdmacm_port *port, const uint8_t *ip)
{
	struct rdmacm_conn *oldest = NULL;

	list_for_each(node, &port->conns) {
		struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if (may_end(conn) && (!ip || is_of_host(conn, ip)) && (!oldest ||
				port->uses - conn->used > port->uses - oldest->used))
			oldest = conn;
	}
	if (oldest)
		end_unused(oldest);
	return oldest != NULL;
}

static uint32_t n_wanting(const struct rdmacm_port *port)
{
	uint32_t n = 0;

	list_for_each(node, &port->wanting)
		n++;
	return n;
}

static uint32_t n_ending(const struct rdmacm_port *port)
{
	uint32_t n = 0;

	list_for_each(node, &port->conns)
		n += list_entry(node, struct rdmacm_conn, node)->state >= RDMACM_CLOSING;
	return n;
}

static uint32_t beyond(uint32_t wanted, uint32_t there)
{
	return wanted > there ? wanted - there : 0;
}

void ripc__rdmacm_room_make(struct rdmacm_port *port, uint64_t now_us)
{
	uint32_t ending = n_ending(port);
	uint32_t lacking = beyond(n_wanting(port) + port->n_refused, ending);
	uint32_t of_host = beyond(port->n_refused_host, ending);

	if (!port->marked_us) {
		port->marked_us = now_us;
		list_for_each(node, &port->conns) {
			struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

			conn->marked = conn->used;
		}
	}
	if (now_us - port->marked_us < MOMENT_US) {
		ripc__rdmacm_due_at(port, port->marked_us + MOMENT_US);
		return;
	}
	while (lacking > 0 && end_one(port, NULL))
		lacking--;
	while (of_host > 0 && end_one(port, port->greedy))
		of_host--;
	port->n_refused = port->n_refused_host = 0;
	port->marked_us = 0;
	if (lacking > 0)
		ripc__rdmacm_due_at(port, now_us + MOMENT_US);
}

static void wanting_run(struct rdmacm_port *port, uint64_t now_us)
{
	while (!list_empty(&port->wanting) && port->n_conns < port->dev.connections) {
		struct rdmacm_link *link = list_entry(port->wanting.next, struct rdmacm_link,
			wanting);

		list_remove(&link->wanting);
		ripc__rdmacm_link_want(link);
	}
	list_for_each(node, &port->wanting)
		prolong(list_entry(node, struct rdmacm_link, wanting), now_us);
	if (!list_empty(&port->wanting) || port->n_refused || port->n_refused_host)
		ripc__rdmacm_room_make(port, now_us);
}

/* ---- time -------------------------------------------------------------------------------- */

static bool is_unused(const struct rdmacm_link *link)
{
	return link->n_routes == 0 && !link->conn && !is_waited_for(link) &&
		link->flow.n_posted == 0;
}

/* A connection without datagrams of routes ends when the other end does not use it either. */
static void idle_run(struct rdmacm_link *link, uint64_t now_us)
{
	struct rdmacm_conn *conn = link->conn;

	if (has_users(link) || !conn || conn->state != RDMACM_READY) {
		link->idle_us = 0;
		return;
	}
	if (!link->idle_us || conn->used != link->idle_uses) {
		link->idle_us = now_us;
		link->idle_uses = conn->used;
	}
	if (now_us - link->idle_us >= IDLE_US) {
		conn->marked = link->idle_uses;
		if (may_end(conn))
			end_unused(conn);
	}
	ripc__rdmacm_due_at(link->port, now_us + IDLE_US);
}

static void link_run(struct rdmacm_link *link, uint64_t now_us)
{
	if (link->until_us && link->until_us <= now_us) {
		if (link->conn && !link->conn->was_ready) {
			ripc__rdmacm_conn_break(link->conn, -ETIMEDOUT);
			ripc__rdmacm_conn_leave(link->conn);
		}
		fail(link, -ETIMEDOUT);
	} else if (link->until_us) {
		ripc__rdmacm_due_at(link->port, link->until_us);
		if (is_waited_for(link) || has_users(link))
			ripc__rdmacm_link_want(link);
	}
	idle_run(link, now_us);
	space_drop(link);
	if (!is_unused(link))
		return;
	if (link->space && link->space->refs > 1)
		ripc__rdmacm_due_at(link->port, now_us + IDLE_US); /* memory is still open in it */
	else
		link_free(link);
}

void ripc__rdmacm_links_run(struct rdmacm_port *port, uint64_t now_us)
{
	list_for_each_safe(node, &port->links)
		link_run(list_entry(node, struct rdmacm_link, node), now_us);
	wanting_run(port, now_us);
}

/* The connections have ended. */
void ripc__rdmacm_links_close(struct rdmacm_port *port)
{
	while (!list_empty(&port->links))
		link_free(list_entry(port->links.next, struct rdmacm_link, node));
	ripc__rdma_openings_free(&port->opened);
	ripc__map_free(&port->links_by_addr);
}
