/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners: incarnations of remote services, as local services know them. */
#ifndef RIPC_PARTNER_H
#define RIPC_PARTNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/objects.h"
#include "util/list.h"

struct held;
struct peer;
struct proving;
struct ripc_context;
struct ripc_service;
struct wire_packet;

#define LONGS_MAX          64u    /* long messages in progress from one partner to another */
#define PARTNER_IDLE_US    60000000u  /* an idle partner is forgotten; > proof and packet life */
#define PARTNERS_MAX       65536u
#define ACK_DELAY_US       1000u  /* an ack waits so long for a packet to ride on */

enum partner_state {
	PARTNER_RESOLVING, /* only the ID is known */
	PARTNER_HELLO,     /* has a peer; it has not given us a token yet */
	PARTNER_READY,
};

/*
 * One incarnation of a remote service, as one local service knows it. What changes its state:
 *
 *              set by                                 cleared by
 *   state      RESOLVING: a send to an unknown ID
 *              HELLO: the resolver's answer; RETRY to the token that it gave us
 *              READY: a hello
 *   token_out  a hello                                RETRY to that token; the resolver, if dead
 *   known      our token comes back                   RETRY, a first packet, GONE
 *   current    a send to its ID; a first packet or    whatever retires it: GONE, a refusal by
 *              its return, if nobody is for its ID    a leaving service, another one resolved
 *   resolved   the resolver names it, and where it    its return from the dead
 *              lives, or an echo there shows it
 *   liar       RETRY to such an echo
 *   suspect    a notice, a rival's hello, silence     the resolver's answer, being retired
 *   dead       GONE                                   the resolver names it; a token made since
 *                                                     then comes back
 *   blocked    a send met -EAGAIN                     a send ends or moves
 *
 * resolved, suspect, and current are about where new sends go. Nobody is suspect or current who
 * is dead; nobody is known who is resolving. unasked counts from the first hello on.
 */
struct partner {
	struct list node;         /* ctx->partners, least recently used first */
	struct ripc_service *service;
	struct peer *peer;        /* NULL while resolving */
	uint64_t id, incarnation;
	uint64_t token_in;        /* we gave it (token.h) */
	uint64_t token_out;       /* it gave us; 0: none */
	uint64_t proof;
	uint64_t short_next;      /* number of our next short */
	uint64_t short_top, short_seen; /* highest short received; bit i: top - i was */
	uint64_t long_next, ordered_top; /* number of our next long; see send/order.h */
	uint64_t in_oldest;       /* its oldest unresolved long */
	uint64_t in_delivered, in_refused; /* bit i: number in_oldest + i */
	uint8_t *reasons;         /* errno of refused longs, [number % 64]; NULL: none yet */
	struct list outgoing, incoming; /* in number's order; in order of arrival */
	struct held *held;        /* shorts not certainly sent; usually NULL */
	struct proving *proving;     /* it is being asked whether it is what it claims (claim.c) */
	uint64_t ack_number;      /* 0: none pending */
	uint64_t call_ids;        /* of the last short question (call/ident.c); 0: none */
	struct list ack_node;     /* ctx->acks, or ctx->on_trial */
	uint64_t used_us;         /* last authentic packet or send, or its death */
	uint32_t unasked;         /* what it accepts unasked of a message, bytes */
	uint32_t under_way;       /* what of that was sent and may be on its way, of all */
	uint32_t heard;           /* when it last said something, in 1,024 us; wraps */
	uint16_t n_outgoing, queued; /* messages of it that wait in the service's queue */
	uint16_t n_asked;         /* calls that wait for its answer, and whether it is watched */
	uint16_t repeated_tick;   /* when it last made us repeat ourselves; 0: never */
	uint16_t ack_status;
	uint8_t state;
	bool known : 1;           /* it knows our token */
	bool current : 1;         /* it is whom service->partners names for its ID */
	bool suspect : 1;         /* heard that it moved: ask the resolver before the next send */
	bool resolved : 1;        /* the resolver, too, says that its ID means it, there */
	bool liar : 1;	    /* it is not what it claims to be */
	bool misled : 1;    /* it does not know the token that a hello gave in its name */
	bool crossed : 1;   /* a hello from elsewhere gave token_out: perhaps it is not its own */
	bool rechecked : 1; /* everybody was asked about what it claims */
	bool dead : 1;            /* known to be gone: kept so that its late packets are known */
	bool proven : 1;          /* with keys: an authority's signature lets it be that */
	bool on_trial : 1;        /* it may be forgotten at any time (crowd.h) */
	bool blocked : 1, ordering : 1; /* -EAGAIN: a NOTICE is due; some may wait for others */
};

/* Its token came with a hello. */
void ripc__partner_hello(struct partner *partner, const struct wire_packet *packet);
/* It asks for what was said before: at most once in a repetition time, and in a tick. */
bool ripc__partner_may_repeat(struct partner *partner);
/* A token came back that was made after its death: it lives. */
void ripc__partner_revive(struct partner *partner);
/* It speaks another version of the protocol: all sends to it end. */
void ripc__partner_aborted(struct partner *partner);
/* It says that our key may not write to it: all sends to it end. */
void ripc__partner_refused(struct partner *partner);
/* New sends look for another incarnation; what is in progress goes on here. */
void ripc__partner_retire(struct partner *partner);
void ripc__partner_suspect(struct partner *partner);
size_t ripc__partners_bytes(struct ripc_context *ctx);
/* The partner is, or is not, whom its ID means from now on. -ENOMEM. */
int ripc__partner_make_current(struct partner *partner);
void ripc__partner_unmake_current(struct partner *partner);
/* Gives a partner its incarnation and its peer. -ENOMEM. */
int ripc__partner_attach(struct partner *partner, uint64_t incarnation, struct peer *peer);

/* The partner was used: an authentic packet of it came, or one is sent to it. */
static inline void ripc__partner_touch(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	partner->used_us = ctx->now_us;
	if (ctx->partners.prev == &partner->node)
		return;
	list_remove(&partner->node);
	list_append(&ctx->partners, &partner->node);
}

#endif
