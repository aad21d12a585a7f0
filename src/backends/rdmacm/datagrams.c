/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams over UDP, by the udp backend, at the number of the port that is listened on: so one
 * address says where either kind goes. They cost no connection, and have UDP's checksum and
 * losses; memory is read by a connection, which is made for the first read.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "datagrams.h"

#define UDP (&ripc__udp_backend)

int ripc__rdmacm_udp_open(struct rdmacm_port *port, struct ripc__attr *attr)
{
	int error = ripc__udp_open_at(&port->udp, &port->rdma->host, port->self.ip,
		port->self.port, attr);

	if (error)
		return error;
	/* A write has ended when the network has it, and what goes over UDP would overtake it. */
	attr->caps |= RIPC_CAP_READ | RIPC_CAP_REGISTERED | RIPC_CAP_DUBIOUS;
	attr->read_max = port->rdma->message_max;
	return 0;
}

void ripc__rdmacm_udp_close(struct rdmacm_port *port)
{
	UDP->net.close(&port->udp);
}

int ripc__rdmacm_udp_peer_open(struct rdmacm_port *port, struct rdmacm_peer *peer,
		const struct rdmacm_addr *remote)
{
	struct udp_addr own = {.at = {.sin6_family = AF_INET6, .sin6_port = htons(remote->port)}};
	struct ripc__addr addr;

	memcpy(&own.at.sin6_addr, remote->ip, sizeof(remote->ip));
	ripc__udp_addr_fill(&addr, &own);
	*peer = (struct rdmacm_peer){0};
	return UDP->route.open(&port->udp, &peer->udp, &addr);
}

int ripc__rdmacm_udp_send(struct rdmacm_port *port, struct rdmacm_peer *peer,
		const struct ripc__tx *tx, uint32_t n)
{
	int sent = UDP->datagrams.send(&port->udp, &peer->udp, tx, n);

	/* The address that the socket is bound to is not this host's any more. */
	if (sent == -EINVAL || sent == -EADDRNOTAVAIL || sent == -ENETUNREACH)
		return -ECONNRESET;
	return sent;
}

static void addr_of(const struct sockaddr_in6 *at, struct rdmacm_addr *addr)
{
	*addr = (struct rdmacm_addr){.port = ntohs(at->sin6_port), .by_udp = true};
	memcpy(addr->ip, &at->sin6_addr, sizeof(addr->ip));
}

void ripc__rdmacm_udp_peer_addr(const struct rdmacm_peer *peer, struct rdmacm_addr *remote)
{
	addr_of(&peer->udp.to, remote);
}

uint32_t ripc__rdmacm_udp_poll(struct rdmacm_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	uint32_t end = at + (uint32_t)UDP->datagrams.poll(&port->udp, events + at, n - at, false);

	for (; at < end; at++) {
		struct rdmacm_addr addr;
		struct udp_addr own;

		memcpy(&own, events[at].from->blob, sizeof(own));
		addr_of(&own.at, &addr);
		ripc__rdmacm_addr_fill(&addr, &port->from[at]);
		events[at].from = &port->from[at];
	}
	return end;
}

void ripc__rdmacm_stats(void *state, struct ripc__net_stats *stats)
{
	struct rdmacm_port *port = state;

	*stats = (struct ripc__net_stats){0};
	if (port->self.by_udp)
		UDP->net.stats(&port->udp, stats);
}
