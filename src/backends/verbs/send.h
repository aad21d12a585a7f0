/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending datagrams. */
#ifndef RIPC_VERBS_SEND_H
#define RIPC_VERBS_SEND_H

#include "link.h"
#include "path.h"

/* An answer to a stranger, until the way to it is found. */
struct verbs_parked {
	struct list node; /* path->parked */
	uint32_t qpn, qkey, len;
	uint8_t bytes[];
};

int ripc__verbs_sends_open(struct verbs_port *port);
void ripc__verbs_sends_close(struct verbs_port *port);
uint32_t ripc__verbs_peer_mtu(void *port, void *peer);
int ripc__verbs_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n);
/* Takes note of sends that have ended. */
void ripc__verbs_sends_look(struct verbs_port *port);
/* Lets what was sent last go out. May take some milliseconds. */
void ripc__verbs_sends_finish(struct verbs_port *port);
/* The way was found, or not: what was parked goes. */
void ripc__verbs_parked_send(struct verbs_path *path);
/* Best effort; it is repeated, or its loss is noticed. */
void ripc__verbs_setup_send(struct verbs_link *link, const struct verbs_setup *setup);

#endif
