/* SPDX-License-Identifier: BSD-3-Clause */
/* A port and a route of the sealed network, and those of the inner network behind them. */
#ifndef RIPC_SEALED_PORT_H
#define RIPC_SEALED_PORT_H

#include <stdint.h>

#include "core/net/backend.h"
#include "member.h"

/* In front of the inner port, which begins at a multiple of 16. */
struct sealed_port {
	_Alignas(16) struct seal *seal;
	struct sealed_net *net;
	uint8_t *room;
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the events of one poll */
};

struct sealed_route {
	_Alignas(16) struct member *member;
};

static inline void *inner_port(void *port)
{
	return (struct sealed_port *)port + 1;
}

static inline void *inner_route(void *route)
{
	return (struct sealed_route *)route + 1;
}

static inline struct sealed_net *net_of(const void *port)
{
	return ((const struct sealed_port *)port)->net;
}

static inline const struct ripc__backend *inner_of(const void *port)
{
	return net_of(port)->inner;
}

#endif
