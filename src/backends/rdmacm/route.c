/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners as core knows them, and their operations: datagrams, memory for them to reach, reads
 * and writes. A route is a link (link.c) that several routes share; it is ready as soon as there
 * is a connection, and stays when the connection is closed as unused. With datagrams over UDP it
 * is ready at once, and has a link only when memory is opened or read.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/system/cancel.h"

/* Is it an address of this host? The device may have lost it since. */
static bool is_of_this_host(const struct rdmacm_addr *addr)
{
	struct rdmacm_addr any_port = *addr;
	struct sockaddr_storage name;
	bool gone;
	int fd;

	any_port.port = 0;
	ripc__rdmacm_to_socket(&any_port, &name);
	fd = socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true; /* not known to be gone */
	gone = bind(fd, (struct sockaddr *)&name, sizeof(name)) && errno == EADDRNOTAVAIL;
	close(fd);
	return !gone;
}

int ripc__rdmacm_port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct rdmacm_port *port = state;

	if (port->rdma->is_lost)
		return -ENETDOWN;
	if (!is_of_this_host(&port->self))
		return -EADDRNOTAVAIL;
	ripc__rdmacm_addr_encode(&port->self, blob);
	return RDMACM_ADDR_LEN;
}

int ripc__rdmacm_addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct rdmacm_port *port = state;
	struct rdmacm_addr own;
	int error = ripc__rdmacm_addr_decode(blob, len, &own);

	(void)host; /* the answer may have come by another network */
	if (error)
		return error;
	if (ripc__rdmacm_is_v4(own.ip) != ripc__rdmacm_is_v4(port->self.ip) ||
			own.by_udp != port->self.by_udp)
		return -EHOSTUNREACH;
	ripc__rdmacm_addr_fill(&own, addr);
	return 0;
}

static bool is_ready(const struct rdmacm_link *link)
{
	return link->conn && link->conn->state == RDMACM_READY;
}

/* Opens a route whose datagrams use a connection. */
static int open_by_link(struct rdmacm_port *port, struct rdmacm_peer *peer,
		const struct ripc__addr *addr, const struct rdmacm_addr *remote)
{
	struct ripc__rdma_opening *opening = NULL;
	struct rdmacm_link *link;
	int error = ripc__rdmacm_link_get(port, remote, false, &link);

	if (error)
		return error;
	if (!is_ready(link)) {
		opening = ripc__rdma_opening_new(&port->opening, peer, addr);
		port->look |= !opening; /* the link may be useless */
		if (!opening)
			return -ENOMEM;
	}
	link->n_routes++;
	*peer = (struct rdmacm_peer){.link = link, .opening = opening ? opening->number : 0};
	if (opening && ripc__rdmacm_link_is_held(link)) {
		ripc__rdma_opening_end(opening, link->error, &port->opened);
	} else if (opening) {
		list_append(&link->openings, &opening->node);
		ripc__rdmacm_link_want(link);
	}
	peer->resets = link->resets;
	return opening ? -EINPROGRESS : 0;
}

int ripc__rdmacm_peer_open(void *state, void *peer, const struct ripc__addr *addr)
{
	struct rdmacm_port *port = state;
	struct rdmacm_addr remote;
	int error = ripc__rdmacm_addr_decode(addr->blob, addr->len, &remote);

	if (error)
		return error;
	return port->self.by_udp ? ripc__rdmacm_udp_peer_open(port, peer, &remote) :
		open_by_link(port, peer, addr, &remote);
}

static void remote_of(const struct rdmacm_port *port, const struct rdmacm_peer *peer,
		struct rdmacm_addr *remote)
{
	if (port->self.by_udp)
		ripc__rdmacm_udp_peer_addr(peer, remote);
	else
		*remote = peer->link->remote;
}

void ripc__rdmacm_peer_close(void *state, void *peer_state)
{
	struct rdmacm_port *port = state;
	struct rdmacm_peer *peer = peer_state;
	struct rdmacm_link *link = peer->link;

	if (!link)
		return;
	if (!port->self.by_udp && peer->opening) {
		ripc__rdma_opening_forget(&link->openings, peer->opening);
		ripc__rdma_opening_forget(&port->opened, peer->opening);
	}
	peer->link = NULL;
	if (--link->n_routes == 0)
		port->look = true; /* the link may be useless now */
}

void ripc__rdmacm_where(void *port, const void *peer, struct ripc__where *where)
{
	struct rdmacm_addr remote;

	remote_of(port, peer, &remote);
	ripc__rdmacm_addr_fill(&remote, &where->addr);
	where->reader = 0;
}

uint32_t ripc__rdmacm_peer_mtu(void *state, void *peer)
{
	struct rdmacm_port *port = state;

	if (port->self.by_udp)
		return ripc__udp_peer_mtu(&port->udp, &((struct rdmacm_peer *)peer)->udp);
	return RDMACM_BUFFER - RDMACM_PREAMBLE;
}

bool ripc__rdmacm_peer_matches(void *port, const void *peer, const struct ripc__addr *from)
{
	const uint8_t *blob = from->blob;
	struct rdmacm_addr remote;

	remote_of(port, peer, &remote);
	return from->len == RDMACM_ADDR_LEN && blob[0] == RDMACM_VERSION &&
		blob[1] == remote.by_udp && get16(blob + 2) == remote.port &&
		memcmp(blob + 4, remote.ip, sizeof(remote.ip)) == 0;
}

/* ---- datagrams --------------------------------------------------------------------------- */

static struct rdmacm_conn *ready_conn(const struct rdmacm_link *link)
{
	return link->conn && link->conn->state == RDMACM_READY ? link->conn : NULL;
}

int ripc__rdmacm_send(void *state, void *peer_state, const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_port *port = state;
	struct rdmacm_peer *peer = peer_state;
	struct rdmacm_link *link = peer->link;
	struct rdmacm_conn *conn;
	int sent;

	if (port->rdma->is_lost)
		return -ECONNRESET;
	if (port->self.by_udp)
		return ripc__rdmacm_udp_send(port, peer, tx, n);
	conn = ready_conn(link);
	if (peer->resets != link->resets || (!conn && ripc__rdmacm_link_is_held(link))) {
		peer->resets = link->resets;
		return -ECONNRESET;
	}
	if (tx[0].len > RDMACM_BUFFER - RDMACM_PREAMBLE)
		return -EMSGSIZE;
	if (conn && ripc__rdmacm_credit(conn, RDMACM_RESERVE) < n) {
		/* There may be more credit by now. */
		ripc__rdmacm_fill(port);
		conn = ready_conn(link);
	}
	if (!conn) {
		link->missed = true;
		ripc__rdmacm_link_want(link);
		return 0;
	}
	sent = ripc__rdmacm_send_by(conn, tx, n);
	if (conn->failed)
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	return sent;
}

/* ---- memory, reads and writes ------------------------------------------------------------ */

/* The route's link, for memory: the link and its protection domain are made if need be. */
static int peer_link(struct rdmacm_port *port, void *peer_state, struct rdmacm_link **link)
{
	struct rdmacm_peer *peer = peer_state;
	struct rdmacm_addr remote;
	int error;

	if (!peer->link) {
		remote_of(port, peer, &remote);
		error = ripc__rdmacm_link_get(port, &remote, false, &peer->link);
		if (error)
			return error;
		peer->link->n_routes++;
	}
	*link = peer->link;
	return ripc__rdmacm_link_space(peer->link);
}

int ripc__rdmacm_mem_reg(void *port, void *peer, void *mem, size_t len, bool source, void **region)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct rdmacm_link *link;
	int error = peer_link(port, peer, &link);

	/* On iWARP the answer to a read is a tagged message to our memory (RFC 5040, 5.2). */
	return error ? error : ripc__rdma_region_open(link->space, &range, source ? 0 :
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, region);
}

int ripc__rdmacm_mem_open(void *port, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct rdmacm_link *link;
	int error = peer_link(port, peer, &link);

	if (!error)
		error = ripc__rdmacm_key_open(port, link->space, &range, writable, key);
	if (!error)
		ripc__rdmacm_link_used(link);
	return error;
}

int ripc__rdmacm_move(void *port, void *peer, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct rdmacm_link *link;
	int error = peer_link(port, peer, &link);

	if (!error)
		error = ripc__rdma_move(&link->flow, move);
	if (!error)
		ripc__rdmacm_link_taken(link);
	return error;
}
