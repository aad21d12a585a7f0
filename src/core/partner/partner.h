/* SPDX-License-Identifier: BSD-3-Clause */
/* Partners: incarnations of remote services, as local services know them. */
#ifndef RIPC_PARTNER_H
#define RIPC_PARTNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/objects.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "util/list.h"

struct pending;
struct proving;

#define LONGS_MAX          64u    /* long messages of a row in progress from one to another */
#define PARTNER_IDLE_US    60000000u  /* an idle partner is forgotten; > proof and packet life */
#define PARTNERS_MAX       65536u
#define HANDLE_BITS        47     /* the bits of a word beside those below */
#define ACK_DELAY_US       1000u  /* an ack waits at most this long for a packet that carries it */

/*
 * The numbers that have arrived: the highest; bit i: top - i has. Numbers 64 and more below are
 * late.
 */
struct numbers {
	uint64_t top, seen;
};

/*
 * Long messages between a service and a partner that are numbered together. Replies have a row
 * of numbers of their own, hence they never wait for messages that find no room at the receiver.
 */
struct longs {
	struct list outgoing;     /* ours, in number's order */
	uint64_t next;            /* number of our next one */
	uint64_t in_oldest;       /* the partner's oldest unresolved one */
	uint64_t in_delivered, in_refused; /* bit i: number in_oldest + i */
	uint8_t *reasons;         /* errno of refused ones, [number % 64]; NULL: none yet */
};

enum partner_state {
	PARTNER_RESOLVING, /* only the ID is known */
	PARTNER_HELLO,     /* has a peer; it has not given us a token yet */
	PARTNER_READY,
};

/*
 * One incarnation of a remote service, as one local service knows it. The events that change its
 * state:
 *
 *              set by                                 cleared by
 *   state      RESOLVING: a send to an unknown ID
 *              HELLO: the resolver's answer; RETRY to the token that it gave us
 *              READY: a hello
 *   token_out  a hello                                RETRY to that token; the resolver, if dead
 *   known      our token comes back                   RETRY, a first packet, GONE
 *   current    a send to its ID; a first packet or    GONE, a refusal by a leaving service, another
 *              its return, if no other is for its ID  partner resolved: all that retires it
 *   resolved   the resolver names it, and where it    its return from the dead
 *              lives, or an echo there shows it
 *   liar       RETRY to such an echo
 *   suspect    a notice, a rival's hello, timeout     the resolver's answer, being retired
 *   dead       GONE                                   the resolver names it; a token made since
 *                                                     then comes back
 *   blocked    a send met -EAGAIN                     a send ends or moves
 *
 * resolved, suspect and current are about where new sends go. A dead partner is neither suspect nor
 * current. A partner in state RESOLVING is not known. unasked counts from the first hello on.
 */
struct partner {
	struct list node;         /* ctx->partners.all, least recently used first */
	struct ripc_service *service;
	struct peer *peer;        /* NULL while resolving */
	uint64_t id, incarnation;
	uint64_t token_in;        /* the token that we gave the partner (see below) */
	uint64_t token_out;       /* the token that the partner gave us; 0: none */
	uint64_t token_own;       /* the last one that is surely its own, also when dead; 0: none */
	uint64_t token_before;    /* the same before that: a hello with it is late; 0: none */
	uint64_t proof;
	uint64_t short_next;      /* number of our next short */
	struct numbers shorts_in; /* of its shorts */
	struct longs longs;       /* all but replies to requests */
	struct longs *replies;    /* NULL: no long reply was sent or has come */
	uint64_t ordered_top;     /* see send/order.h */
	uint64_t in_passed;       /* the last ordered long that was delivered (receive/order.c) */
	struct list incoming;     /* longs, in order of arrival */
	struct pending *pending;        /* shorts not certainly sent; usually NULL */
	struct proving *proving;     /* the test of its claim (claim.c); NULL: none */
	struct partner *same;     /* the next current one of this ID; NULL: none, or no index */
	uint64_t ack_number;      /* 0: none pending */
	uint64_t call_ids;        /* of the last short request (call/call.c); 0: none */
	struct list ack_node;     /* ctx->receives.acks, or ctx->partners.on_trial */
	uint64_t used_us;         /* last authentic packet or send, or its death */
	uint32_t unasked;         /* bytes of one message that the partner accepts unasked */
	uint32_t under_way;       /* bytes sent unasked that may be on their way, of all messages */
	uint32_t heard;           /* when a packet of it last came, in 1,024 us; wraps */
	uint16_t n_outgoing, n_replies; /* of ours: longs but replies; long replies */
	uint16_t queued;          /* its messages in the service's queue */
	uint16_t n_asked;         /* calls that wait for its answer, and 1 more if it is watched */
	uint16_t repeated_tick;   /* when it last made us repeat a packet; 0: never */
	uint16_t ack_status : 12; /* an errno */
	uint8_t state : 2;        /* enum partner_state */
	bool known : 1;           /* the partner knows our token */
	bool current : 1;         /* service->partners names this partner for its ID */
	bool suspect : 1;         /* perhaps it moved: the next send asks the resolver first */
	bool resolved : 1;        /* the resolver, too, names this partner and address for its ID */
	bool liar : 1;	    /* the partner's claim is false */
	bool misled : 1;    /* the partner does not know the token that a hello gave in its name */
	bool crossed : 1;   /* token_out is of another address: perhaps of another partner */
	bool rechecked : 1; /* all sources were asked about its claim */
	bool dead : 1;            /* known to be gone; kept to recognise its late packets */
	bool challenged : 1;      /* dead, and token_in was made since then */
	bool proven : 1;          /* with keys: an authority's signature lets its key be its ID */
	bool on_trial : 1;        /* the partner may be forgotten at any time (see crowd) */
	bool refuses : 1;         /* with keys: its last word is that our key may not write to it */
	bool denied : 1;          /* with keys: it may not send to us (rights.h) */
	bool barred : 1;          /* with keys: our service may not send to it, or it refuses */
	bool blocked : 1, ordering : 1; /* -EAGAIN: a NOTICE is due; longs may wait for others */
	bool has_mcast_in : 1;   /* the partner sends to a group by multicast (group/mcast_in.c), */
	bool unheard : 1;   /* which must not be heard, as copies were not counted */
	uint64_t handle : HANDLE_BITS; /* part of ripc_msg.from_handle (partner.c) */
};

/* row: each row of numbers that the partner has. */
#define for_each_row(row, partner) \
	for (struct longs *row = &(partner)->longs; row; \
			row = row == &(partner)->longs ? (partner)->replies : NULL)

/* The row of a long message's number; NULL: no message of that row was sent or has come. */
static inline struct longs *ripc__longs_of(struct partner *partner, uint64_t number)
{
	return number < WIRE_REPLIES ? &partner->longs : partner->replies;
}

/* The same; makes the row where needed. NULL: no memory. */
struct longs *ripc__longs_open(struct partner *partner, uint64_t number);

/* Is a long message to the partner waiting or under way? */
static inline bool ripc__has_outgoing(const struct partner *partner)
{
	return !list_empty(&partner->longs.outgoing) ||
		(partner->replies && !list_empty(&partner->replies->outgoing));
}

/* Keeps what a hello says: the partner's token, and how much it accepts unasked. It is ready. */
void ripc__partner_greeted(struct partner *partner, const struct wire_packet *packet);

/* The same, and then sends the packets that have waited for the token. */
void ripc__partner_hello(struct partner *partner, const struct wire_packet *packet);
/* May the partner make us repeat a packet now? At most once in a repetition time, and in a tick. */
bool ripc__partner_may_repeat(struct partner *partner);
/* Our token that was made after the partner's death came back: the partner lives. */
void ripc__partner_revive(struct partner *partner);
/* The partner speaks another version of the protocol: all sends to it end. */
void ripc__partner_aborted(struct partner *partner);
/*
 * The partner reports that our key may not write to it. is_hello: the partner refuses our hello,
 * and all sends to it end. Otherwise it refuses a single packet, and messages that it has
 * accepted go on.
 */
void ripc__partner_refused(struct partner *partner, bool is_hello);
/* Logs it if nothing has arrived from the partner yet: people may find a firewall by that. */
void ripc__partner_say_unheard(const struct partner *partner);
/* New sends look for another incarnation; what is in progress goes on here. */
void ripc__partner_retire(struct partner *partner);
void ripc__partner_suspect(struct partner *partner);
size_t ripc__partners_bytes(struct ripc_context *ctx);
/* Makes the partner the owner of its ID, or ends that. -ENOMEM. */
int ripc__partner_make_current(struct partner *partner);
void ripc__partner_unmake_current(struct partner *partner);
/*
 * The services that have a current partner of this ID, linked by service->concerned until the
 * next call. An action on one of them may end partners of the others.
 */
struct ripc_service *ripc__partners_of(struct ripc_context *ctx, uint64_t id);
/*
 * Current partners are found by their ID from now on. The index costs up to 23 bytes for each, and
 * a context with a single service needs none. -ENOMEM.
 */
int ripc__partners_index(struct ripc_context *ctx);
/* Gives a partner its incarnation and its peer. -ENOMEM. */
int ripc__partner_attach(struct partner *partner, uint64_t incarnation, struct peer *peer);

static inline struct partner *ripc__partner_at(const struct ripc_context *ctx, struct list *node)
{
	return node == &ctx->partners.all ? NULL : list_entry(node, struct partner, node);
}

/* Walks over all partners, the least recently used one first, or last. The list must not change. */
#define for_each_partner(partner, ctx) \
	for (struct partner *partner = ripc__partner_at(ctx, (ctx)->partners.all.next); partner; \
			partner = ripc__partner_at(ctx, partner->node.next))
#define for_each_partner_backwards(partner, ctx) \
	for (struct partner *partner = ripc__partner_at(ctx, (ctx)->partners.all.prev); partner; \
			partner = ripc__partner_at(ctx, partner->node.prev))
/*
 * The body may lose, use or free its partner, but no other one, and must not leave the loop. No
 * partner is forgotten for want of room meanwhile.
 */
#define for_each_partner_safe(partner, ctx) \
	for (struct partner *partner##_next = ripc__walk_begin(ctx), *partner; \
			(partner = ripc__walk_step(ctx, &partner##_next));)

static inline struct partner *ripc__walk_begin(struct ripc_context *ctx)
{
	ctx->partners.n_walks++;
	return ripc__partner_at(ctx, ctx->partners.all.next);
}

static inline struct partner *ripc__walk_step(struct ripc_context *ctx, struct partner **next)
{
	struct partner *partner = *next;

	if (partner)
		*next = ripc__partner_at(ctx, partner->node.next);
	else
		ctx->partners.n_walks--;
	return partner;
}

/* The partner was used: an authentic packet came from it, or a packet is sent to it. */
static inline void ripc__partner_touch(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	partner->used_us = ctx->now_us;
	if (ctx->partners.all.prev == &partner->node)
		return;
	list_remove(&partner->node);
	list_append(&ctx->partners.all, &partner->node);
}

/* The time since a packet of the partner last came, in units of 1,024 us. */
static inline uint32_t ripc__silence_1024us(const struct partner *partner)
{
	return ripc__now_1024us(partner->service->ctx) - partner->heard;
}

/* ---- share ------------------------------------------------------------------------------- */

/* Shares: how much a partner takes of the room that all senders have in common. */

void ripc__shares_set(struct ripc_context *ctx); /* after the pool was opened */

/* How much more of the share this partner may take. */
static inline uint64_t ripc__share_left(const struct partner *partner, enum share share)
{
	const struct ripc_context *ctx = partner->service->ctx;
	const struct peer *peer = partner->peer;
	uint64_t taken = ctx->peers.quota[share] + peer->host->quota[share] + peer->quota[share];

	return taken < ctx->peers.quota_max[share] ? ctx->peers.quota_max[share] - taken : 0;
}

/* The partner takes amount of the share, or gives it back (amount < 0). No limit is checked. */
static inline void ripc__share_take(struct partner *partner, enum share share, int64_t amount)
{
	struct peer *peer = partner->peer;

	partner->service->ctx->peers.quota[share] += (uint64_t)amount;
	peer->host->quota[share] += (uint64_t)amount;
	peer->quota[share] += (uint32_t)amount;
}

/* A message of the partner takes amount of the share, and later returns the result of this. */
static inline struct quota ripc__quota_take(struct partner *partner, enum share share,
		uint64_t amount)
{
	const struct ripc_context *ctx = partner->service->ctx;
	uint64_t taken = ctx->peers.quota[share] + partner->peer->host->quota[share] + amount;
	uint64_t left =
		taken < ctx->peers.quota_max[share] ? ctx->peers.quota_max[share] - taken : 0;
	struct quota quota = {(uint32_t)amount, (uint32_t)amount};

	if ((share == SHARE_LARGE || share == SHARE_REPLIES) && quota.own > left / 2)
		quota.own = (uint32_t)(left / 2);
	ripc__share_take(partner, share, quota.own);
	partner->service->ctx->peers.quota[share] += quota.all - quota.own;
	return quota;
}

static inline void ripc__quota_give(struct partner *partner, enum share share,
		struct quota quota)
{
	struct peer *peer = partner->peer;

	partner->service->ctx->peers.quota[share] -= quota.all;
	peer->host->quota[share] -= quota.own;
	peer->quota[share] -= quota.own;
}

/* ---- token ------------------------------------------------------------------------------- */

/*
 * How a packet's partner is found: by the token that we gave the partner, by the incarnation that
 * the sender claims, or by a token that an answer returns. The upper 16 bits of a token are the
 * number of a slot; the lower 48 bits are random, not all zero.
 */

#define TOKEN_SLOT_SHIFT 48
#define TOKEN_NONCE_MASK ((1ull << TOKEN_SLOT_SHIFT) - 1)

/*
 * The partner to which we sent the packet that is answered. token_in, token_out: tokens of that
 * packet; 0: the answer does not have it.
 */
struct partner *ripc__partner_by_echo(struct ripc_context *ctx, const struct wire_header *h,
		uint64_t token_in, uint64_t token_out);
/* One of the partners that claim an incarnation (claim.c), from place 0 on; NULL: no more. */
struct partner *ripc__pair_at(const struct ripc_service *service, uint64_t remote, uint32_t place);
/* Adds the numbers that from has to those of to. */
void ripc__numbers_join(struct numbers *to, const struct numbers *from);
/*
 * token_out is the partner's own. A partner that was taken for gone may have sent us the same
 * token: then this partner inherits its numbers.
 */
void ripc__pair_inherit(struct partner *partner);
/*
 * Sets the partner's next numbers beyond all that partners of the same incarnation have used:
 * their earlier messages must not make new ones look old there.
 */
void ripc__pair_begin(struct partner *partner);

/* The partner to which we gave the token, or NULL. */
static inline struct partner *ripc__partner_by_token_in(struct ripc_context *ctx, uint64_t token)
{
	struct partner *partner = ripc__slots_get(&ctx->partners.slots, token >> TOKEN_SLOT_SHIFT);

	return partner && partner->token_in == token ? partner : NULL;
}

/* A handle has the slot's number at the same place as a token, and leads to the slot, too. */
static inline uint64_t ripc__handle_of(const struct partner *partner)
{
	return (partner->token_in & ~TOKEN_NONCE_MASK) | partner->handle;
}

/* As ripc__partner_by_token_in(), if both incarnations are those of the header; else NULL. */
static inline struct partner *ripc__partner_by_token(struct ripc_context *ctx,
		const struct wire_header *h)
{
	struct partner *partner = ripc__partner_by_token_in(ctx, h->token);

	if (!partner || partner->incarnation != h->src ||
			partner->service->incarnation != h->dst || !partner->peer)
		return NULL;
	return partner;
}

/* ---- life -------------------------------------------------------------------------------- */

/* Making partners, and forgetting them. */

/* A first packet with a valid proof: makes the partner and its peer. */
int ripc__partner_accept(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **partner);
/*
 * The partner has been gone since gone_us (status: why): its sends end or move. The partner is
 * kept, dead.
 */
void ripc__partner_lost(struct partner *partner, int status, uint64_t gone_us);
/*
 * A dead partner says hello: it gets a token that it did not have before its death. A packet that
 * returns that token was sent since then.
 */
void ripc__partner_challenge(struct partner *partner);
/* The partner's route leads to the address from now on. */
int ripc__partner_reroute(struct partner *partner, struct device *device,
		const struct ripc__addr *to);
/* Frees a partner, and releases its peer. Its sends have ended or moved before. */
void ripc__partner_free(struct partner *partner);
/* Forgets partners that have been idle for PARTNER_IDLE_US. */
void ripc__partners_sweep(struct ripc_context *ctx);
/* A partner of this service, in state RESOLVING; NULL: no memory, or too many. */
struct partner *ripc__partner_alloc(struct ripc_service *service, uint64_t id);
/* The partner lives at this peer now. The caller's reference to the peer moves to the partner. */
void ripc__partner_to_peer(struct partner *partner, struct peer *peer);

/* ---- crowd ------------------------------------------------------------------------------- */

/*
 * Room for partners: which are admitted, and which give way.
 *
 * The partners of one host take at most as many places as they leave free. A few hosts therefore
 * cannot take the room of later ones. Many hosts cannot do so either: the last places are only
 * for hosts that hold few places. A partner in one of the last places is on trial until our
 * token has come back from it. A partner on trial has shown only that its address is its own.
 * Only the hello of its first packet counts. The partner can therefore be forgotten at any time,
 * the oldest first: when it repeats its packet, it becomes a new partner, and no message is
 * delivered twice.
 */

enum place {
	PLACE_NONE,
	PLACE_FREE,
	PLACE_ON_TRIAL,
};

/* Our token has come back from the partner: its trial ends. */
void ripc__crowd_proven(struct partner *partner);

/* The partner can be sent to; forgot: the partner knows nothing of earlier packets to it. */
void ripc__partner_ready(struct partner *partner, bool forgot);

#endif
