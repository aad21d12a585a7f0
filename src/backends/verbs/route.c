/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners as core knows them. A route is a way (path.c) that several routes share, and a number
 * at its end; what is lent to a partner or read from it goes by a link (link.c).
 */
#include <errno.h>
#include <string.h>

#include "link.h"
#include "route.h"
#include "util/bytes.h"
#include "util/system/cancel.h"

int ripc__verbs_port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct verbs_port *port = state;

	if (port->rdma->is_lost)
		return -ENETDOWN;
	if (port->rdma->lacks_address)
		return -EADDRNOTAVAIL;
	ripc__verbs_addr_encode(&port->self, blob);
	return VERBS_ADDR_LEN;
}

/* The networks that GIDs of these kinds belong to are not joined. */
static bool can_reach(const struct verbs_addr *self, const struct verbs_addr *other)
{
	return self->kind == other->kind && (self->kind != RIPC__RDMA_ROCE_V2 ||
		ripc__verbs_is_v4(self->gid) == ripc__verbs_is_v4(other->gid));
}

int ripc__verbs_addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct verbs_port *port = state;
	struct verbs_addr own;
	int error = ripc__verbs_addr_decode(blob, len, &own);

	(void)host; /* GIDs say where they are */
	if (error)
		return error;
	if (!can_reach(&port->self, &own))
		return -EHOSTUNREACH;
	ripc__verbs_addr_fill(&own, &port->self, addr);
	return 0;
}

int ripc__verbs_peer_open(void *state, void *peer_state, const struct ripc__addr *addr)
{
	struct verbs_port *port = state;
	struct verbs_peer *peer = peer_state;
	struct ripc__rdma_opening *opening = NULL;
	struct verbs_path *path;
	struct verbs_addr own;
	int error = ripc__verbs_addr_decode(addr->blob, addr->len, &own);

	if (!error)
		error = ripc__verbs_path_get(port, &own, &path);
	if (error && error != -EINPROGRESS)
		return error;
	if (error == -EINPROGRESS) {
		opening = ripc__rdma_opening_new(&port->opening, peer_state, addr);
		if (!opening) {
			ripc__verbs_path_put(path);
			return -ENOMEM;
		}
		list_append(&path->waiting, &opening->node);
	}
	*peer = (struct verbs_peer){.path = path, .qpn = own.qpn, .qkey = own.qkey,
		.mtu = own.mtu < port->self.mtu ? own.mtu : port->self.mtu,
		.opening = opening ? opening->number : 0};
	return error;
}

void ripc__verbs_peer_close(void *state, void *peer_state)
{
	struct verbs_port *port = state;
	struct verbs_peer *peer = peer_state;

	if (peer->opening) {
		ripc__rdma_opening_forget(&peer->path->waiting, peer->opening);
		ripc__rdma_opening_forget(&port->opened, peer->opening);
	}
	ripc__verbs_path_put(peer->path);
	peer->path = NULL;
}

void ripc__verbs_peer_where(const struct verbs_port *port, const struct verbs_peer *peer,
		struct verbs_addr *addr)
{
	*addr = (struct verbs_addr){.qpn = peer->qpn, .qkey = peer->qkey,
		.lid = peer->path->attr.dlid, .kind = port->self.kind, .mtu = peer->mtu};
	memcpy(addr->gid, &peer->path->attr.grh.dgid, sizeof(addr->gid));
}

void ripc__verbs_where(void *port, const void *peer, struct ripc__where *where)
{
	struct verbs_addr own;

	ripc__verbs_peer_where(port, peer, &own);
	ripc__verbs_addr_fill(&own, &((const struct verbs_port *)port)->self, &where->addr);
	where->reader = 0;
}

/* The MTU may differ: a route knows the less of both. */
bool ripc__verbs_peer_matches(void *state, const void *peer_state, const struct ripc__addr *from)
{
	const struct verbs_peer *peer = peer_state;
	const uint8_t *blob = from->blob;

	(void)state;
	return from->len == VERBS_ADDR_LEN && get32(blob + 8) == peer->qpn &&
		get32(blob + 12) == peer->qkey && get16(blob + 4) == peer->path->attr.dlid &&
		memcmp(blob + 16, &peer->path->attr.grh.dgid, 16) == 0;
}

/* ---- memory, reads and writes ------------------------------------------------------------- */

static int link_of_peer(struct verbs_port *port, const struct verbs_peer *peer,
		struct verbs_link **link)
{
	struct verbs_addr remote;

	ripc__verbs_peer_where(port, peer, &remote);
	return ripc__verbs_link_get(port, &remote, link);
}

int ripc__verbs_mem_reg(void *state, void *peer, void *mem, size_t len, bool source, void **region)
{
	RIPC__HOLD_CANCEL;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct ripc__rdma_region *made;
	struct verbs_link *link;
	int error = link_of_peer(state, peer, &link);

	if (!error)
		error = ripc__rdma_region_open(link->space, &range,
			source ? 0 : IBV_ACCESS_LOCAL_WRITE, &made);
	if (!error)
		*region = made;
	return error;
}

void ripc__verbs_mem_dereg(void *port, void *region)
{
	RIPC__HOLD_CANCEL;

	(void)port;
	ripc__rdma_region_close(region);
}

int ripc__verbs_mem_open(void *state, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	RIPC__HOLD_CANCEL;
	struct verbs_port *port = state;
	struct iovec range = {.iov_base = mem, .iov_len = len};
	struct verbs_link *link;
	int error = link_of_peer(port, peer, &link);

	return error ? error :
		ripc__rdma_key_open(&port->dev.keys, link->space, &range, writable, key);
}

/* Nothing follows, however it is closed: the device is done with it. */
int ripc__verbs_mem_close(void *state, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	RIPC__HOLD_CANCEL;
	struct verbs_port *port = state;
	const struct ripc__rdma_space *space = ripc__rdma_key_space(&port->dev.keys, key);
	int error = ripc__rdma_key_close(&port->dev.keys, key);

	(void)how;
	(void)cookie;
	if (error == -EIO)
		ripc__verbs_links_stop(port, space);
	return error == -EIO ? 0 : error;
}

int ripc__verbs_move(void *state, void *peer, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct verbs_link *link;
	int error = link_of_peer(state, peer, &link);

	if (!error)
		error = ripc__rdma_move(&link->flow, move);
	if (!error)
		ripc__verbs_link_taken(link);
	return error;
}
