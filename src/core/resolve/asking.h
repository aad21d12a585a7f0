/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that the resolver sends, and the parts that all its files need for them. */
#ifndef RIPC_ASKING_H
#define RIPC_ASKING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire/record.h"

struct asked;
struct heard;
struct ripc__addr;
struct ripc__answer;
struct ripc__resolver;
struct wire_record;
struct wire_resolve;

/* Room for one more timer; ripc__timers_return gives it back. -ENOMEM. */
int ripc__timers_borrow(struct ripc__resolver *resolver);
void ripc__timers_return(struct ripc__resolver *resolver);
/* Gives asked a fresh nonce, under which answers find it, in place of its last nonce. -ENOMEM. */
int ripc__asked_begin(struct ripc__resolver *resolver, struct asked *asked);
void ripc__asked_end(struct ripc__resolver *resolver, struct asked *asked);
/* Hosts that are asked by unicast. */
uint32_t ripc__peers_of(const struct ripc__resolver *resolver);
/* Encodes a datagram, with its mark where there are keys. Returns its length, bytes. */
size_t ripc__resolve_encode(struct ripc__resolver *resolver, const struct wire_resolve *packet,
		uint8_t data[WIRE_RESOLVE_MAX]);
/* Sends a question to one source. Returns how many receivers it reached. */
uint32_t ripc__ask(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *question);
/* As ripc__ask(), by ask_again of the source. */
uint32_t ripc__ask_again(struct ripc__resolver *resolver, uint32_t source,
		const struct wire_resolve *question);
/* Sends asked to this host's source; to all others. Both return how many receivers it reached. */
uint32_t ripc__ask_home(struct ripc__resolver *resolver, struct asked *asked);
uint32_t ripc__ask_network(struct ripc__resolver *resolver, struct asked *asked);
/* As ripc__ask_network(), within the budget for questions that outsiders cause. host: the cause. */
uint32_t ripc__ask_network_for(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
/*
 * First: may a packet from this host make us ask the network? Second: a packet from it has made us
 * ask.
 */
bool ripc__may_provoke(struct ripc__resolver *resolver, const uint8_t host[16]);
void ripc__provoked(struct ripc__resolver *resolver, const uint8_t host[16]);
/*
 * Sends asked to one other host alone; the first within the budget for questions that outsiders
 * cause. Both return how many receivers it reached.
 */
uint32_t ripc__ask_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
uint32_t ripc__ask_one_host(struct ripc__resolver *resolver, struct asked *asked,
		const uint8_t host[16]);
/* Sends a datagram to the address that another came from. Returns its length, bytes. */
uint32_t ripc__send_reply(struct ripc__resolver *resolver, uint32_t source,
		const struct ripc__addr *to, const struct wire_resolve *packet);
void ripc__send_notice(struct ripc__resolver *resolver, const struct wire_resolve *packet);
/* The answer as the owner gets it. */
void ripc__answer_fill(const struct ripc__resolver *resolver, const struct heard *heard,
		struct ripc__answer *answer);
/* Of two registrations of one ID, is a the older? */
bool ripc__record_older(const struct wire_record *a, const struct wire_record *b);
void ripc__drop(struct ripc__resolver *resolver);

#endif
