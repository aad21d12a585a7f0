/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets to partners and strangers. */
#ifndef RIPC_PACKET_H
#define RIPC_PACKET_H

#include <stdint.h>

struct device;
struct partner;
struct ripc__addr;
struct ripc_context;
struct wire_packet;

/* Header fields and extensions that every packet to this partner has. */
void ripc__partner_header(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* Only the header: for addresses that are not proven, which get no more bytes than they sent. */
void ripc__partner_header_bare(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* Encodes, seals and sends a packet without payload to a partner. */
int ripc__partner_send(struct partner *partner, struct wire_packet *packet);
/* Answers a stranger: no partner, no state. */
void ripc__stranger_send(struct ripc_context *ctx, struct device *device,
		const struct ripc__addr *to, struct wire_packet *packet, uint32_t received_len);
/* Ack that is due: goes with the next packet, or by itself before a thread sleeps. */
void ripc__ack_queue(struct partner *partner, uint64_t number, int status);
void ripc__acks_flush(struct ripc_context *ctx);

#endif
