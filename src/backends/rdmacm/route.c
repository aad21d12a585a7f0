/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners as core knows them. A route is a link (link.c) that several routes share; it is ready as
 * soon as there is a connection, and stays when the connection is closed because nobody uses it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm.h"
#include "util/bytes.h"

int ripc__rdmacm_port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct rdmacm_port *port = state;

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
	if (ripc__rdmacm_is_v4(own.ip) != ripc__rdmacm_is_v4(port->self.ip))
		return -EHOSTUNREACH;
	ripc__rdmacm_addr_fill(&own, addr);
	return 0;
}

static bool is_ready(const struct rdmacm_link *link)
{
	return link->conn && link->conn->state == RDMACM_READY;
}

int ripc__rdmacm_peer_open(void *state, void *peer_state, const struct ripc__addr *addr)
{
	struct rdmacm_port *port = state;
	struct rdmacm_peer *peer = peer_state;
	struct ripc__rdma_opening *opening = NULL;
	struct rdmacm_addr own;
	struct rdmacm_link *link;
	int error = ripc__rdmacm_addr_decode(addr->blob, addr->len, &own);

	if (!error)
		error = ripc__rdmacm_link_get(port, &own, false, &link);
	if (error)
		return error;
	if (!is_ready(link)) {
		opening = ripc__rdma_opening_new(&port->opening, peer_state, addr);
		port->look |= !opening; /* the link may be of no use */
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

void ripc__rdmacm_peer_close(void *state, void *peer_state)
{
	struct rdmacm_port *port = state;
	struct rdmacm_peer *peer = peer_state;
	struct rdmacm_link *link = peer->link;

	if (peer->opening) {
		ripc__rdma_opening_forget(&link->openings, peer->opening);
		ripc__rdma_opening_forget(&port->opened, peer->opening);
	}
	peer->link = NULL;
	if (--link->n_routes == 0)
		port->look = true; /* it may be of no use any more */
}

void ripc__rdmacm_peer_addr(void *port, const void *peer, struct ripc__addr *addr)
{
	(void)port;
	ripc__rdmacm_addr_fill(&((const struct rdmacm_peer *)peer)->link->remote, addr);
}

uint32_t ripc__rdmacm_peer_mtu(void *port, void *peer)
{
	(void)port;
	(void)peer;
	return RDMACM_BUFFER - RDMACM_PREAMBLE;
}

bool ripc__rdmacm_peer_matches(void *port, const void *peer, const struct ripc__addr *from)
{
	const struct rdmacm_addr *remote = &((const struct rdmacm_peer *)peer)->link->remote;
	const uint8_t *blob = from->blob;

	(void)port;
	return from->len == RDMACM_ADDR_LEN && blob[0] == RDMACM_VERSION && !blob[1] &&
		get16(blob + 2) == remote->port &&
		memcmp(blob + 4, remote->ip, sizeof(remote->ip)) == 0;
}
