/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners: wrong tokens, tokens and numbers, the state of partners, shares of resources, room
 * for partners, and how partners are made and forgotten.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "core/base/base.h"
#include "core/base/budget.h"
#include "core/call/call.h"
#include "core/call/watch.h"
#include "core/events.h"
#include "core/group/mcast_in.h"
#include "core/keys/sealed.h"
#include "core/memory/pool.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/resolve/resolver.h"
#include "core/send/announce.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/wire.h"
#include "partner.h"
#include "partners.h"
#include "rights.h"
#include "util/hash/siphash.h"
#include "util/list.h"
#include "util/map.h"
#include "util/probe.h"
#include "util/slots.h"

/* ---- token limit ------------------------------------------------------------------------- */

/* See partners.h. State is bounded: addresses whose hashes meet share a bucket. */

#define TOKEN_WRONG_US  (1000000u / TOKENS_WRONG_MOST)
#define BUCKET_US (TOKENS_WRONG_MOST * TOKEN_WRONG_US)

/* Each network of a host counts separately: a user's guesses over one do no harm over others. */
static uint32_t place_of(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	return (uint32_t)((ripc__host_key(ctx, from) + ripc__device_index(ctx, device)) %
		TOKEN_LIMITS);
}

bool ripc__token_limit_take(struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	struct token_limit *limit = &ctx->partners.token_limits[place_of(ctx, device, from)];

	if (limit->until_us < ctx->now_us)
		limit->until_us = ctx->now_us;
	if (limit->until_us - ctx->now_us >= BUCKET_US)
		return false;
	limit->until_us += TOKEN_WRONG_US;
	return true;
}

bool ripc__token_limit_is_reached(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *from)
{
	const struct token_limit *limit = &ctx->partners.token_limits[place_of(ctx, device, from)];

	return limit->until_us > ctx->now_us && limit->until_us - ctx->now_us >= BUCKET_US;
}

/* ---- token ------------------------------------------------------------------------------- */

/* See partner.h. There are at most RIPC_SLOTS_MAX slots, hence their numbers have 16 bits. */

static int token_give(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	int error = ripc__slots_grow(&ctx->partners.slots);
	uint64_t slot, nonce;

	if (error)
		return error;
	slot = ripc__slots_put(&ctx->partners.slots, partner);
	nonce = ripc__nonce(ctx) & TOKEN_NONCE_MASK;
	partner->token_in = slot << TOKEN_SLOT_SHIFT | (nonce ? nonce : 1);
	return 0;
}

/*
 * Draws a number that no earlier handle of the context had. Each context begins at another
 * number.
 */
static void handle_draw(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	do
		partner->handle = ctx->incarnation + ++ctx->partners.handles;
	while (!partner->handle);
}

/* Revokes token_in: packets with that token count no more. */
static void token_take_back(struct partner *partner)
{
	ripc__slots_clear(&partner->service->ctx->partners.slots,
		(uint32_t)(partner->token_in >> TOKEN_SLOT_SHIFT));
}

/*
 * Partners that claim the same incarnation have places: the first is found with place 0, the
 * next with 1, and so on without a gap.
 */
static uint64_t pair_key(struct ripc_context *ctx, uint64_t local, uint64_t remote, uint64_t place)
{
	uint64_t pair[3] = {htole64(local), htole64(remote), htole64(place)};

	return ripc__siphash(ctx->self.secret, pair, sizeof(pair));
}

static struct partner *pair_at(struct ripc_context *ctx, uint64_t local, uint64_t remote,
		uint32_t place)
{
	struct partner *partner = ripc__map_get(&ctx->partners.by_pair,
		pair_key(ctx, local, remote, place));

	if (!partner || partner->incarnation != remote || partner->service->incarnation != local)
		return NULL;
	return partner;
}

struct partner *ripc__pair_at(const struct ripc_service *service, uint64_t remote, uint32_t place)
{
	return pair_at(service->ctx, service->incarnation, remote, place);
}

struct partner *ripc__partner_by_echo(struct ripc_context *ctx, const struct wire_header *h,
		uint64_t token_in, uint64_t token_out)
{
	struct partner *partner;

	for (uint32_t place = 0; (partner = pair_at(ctx, h->dst, h->src, place)); place++) {
		if ((token_in && partner->token_in == token_in) ||
				(token_out && partner->token_out == token_out))
			break;
	}
	return partner;
}

static int pair_insert(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t place = 0;

	while (ripc__pair_at(partner->service, partner->incarnation, place))
		place++;
	return ripc__map_put(&ctx->partners.by_pair,
		pair_key(ctx, partner->service->incarnation, partner->incarnation, place), partner);
}

static void replies_beyond(struct partner *partner, const struct partner *other)
{
	if (partner->replies && other->replies && partner->replies->next < other->replies->next)
		partner->replies->next = other->replies->next;
}

static void begin_beyond(struct partner *partner, const struct partner *other)
{
	if (partner->short_next < other->short_next)
		partner->short_next = other->short_next;
	if (partner->longs.next < other->longs.next)
		partner->longs.next = other->longs.next;
	replies_beyond(partner, other);
}

static void begin(struct partner *partner,
		void (*beyond)(struct partner *partner, const struct partner *other))
{
	const struct partner *other;
	uint32_t place = 0;

	while ((other = ripc__pair_at(partner->service, partner->incarnation, place++)))
		beyond(partner, other);
}

void ripc__pair_begin(struct partner *partner)
{
	begin(partner, begin_beyond);
}

void ripc__numbers_join(struct numbers *to, const struct numbers *from)
{
	struct numbers high = to->top >= from->top ? *to : *from;
	struct numbers low = to->top >= from->top ? *from : *to;
	uint64_t behind = high.top - low.top;

	*to = high;
	to->seen |= behind < 64 ? low.seen << behind : 0;
}

static uint64_t from_oldest(uint64_t bits, uint64_t behind)
{
	return behind < LONGS_MAX ? bits >> behind : 0;
}

static void longs_join(struct longs *to, struct longs *from)
{
	uint64_t oldest = to->in_oldest > from->in_oldest ? to->in_oldest : from->in_oldest;

	to->in_delivered = from_oldest(to->in_delivered, oldest - to->in_oldest) |
		from_oldest(from->in_delivered, oldest - from->in_oldest);
	to->in_refused = from_oldest(to->in_refused, oldest - to->in_oldest) |
		from_oldest(from->in_refused, oldest - from->in_oldest);
	to->in_oldest = oldest;
	if (to->reasons)
		return;
	to->reasons = from->reasons;
	from->reasons = NULL;
}

/* No message of a dead partner is under way. */
static void replies_join(struct partner *to, struct partner *from)
{
	if (to->replies && from->replies) {
		longs_join(to->replies, from->replies);
	} else if (from->replies) {
		to->replies = from->replies;
		from->replies = NULL;
		/* The pending ack may be about a reply of that row. */
		if (from->ack_number) {
			from->ack_number = 0;
			list_remove(&from->ack_node);
		}
	}
}

/* A dead partner that gave us the same token: the same partner, before it was taken for gone. */
static struct partner *predecessor(struct partner *partner)
{
	struct partner *other;
	uint32_t place = 0;

	while ((other = ripc__pair_at(partner->service, partner->incarnation, place++))) {
		if (other != partner && other->dead && other->token_own == partner->token_own &&
				other->id == partner->id)
			return other;
	}
	return NULL;
}

void ripc__pair_inherit(struct partner *partner)
{
	struct partner *other;

	/* A late hello from the partner's address: the token that was replaced is not its own. */
	if (partner->token_before && partner->token_before == partner->token_out)
		return;
	if (partner->token_own && partner->token_own != partner->token_out) {
		handle_draw(partner);
		partner->token_before = partner->token_own;
	}
	partner->token_own = partner->token_out;
	other = predecessor(partner);
	if (!other)
		return;
	begin_beyond(partner, other);
	ripc__numbers_join(&partner->shorts_in, &other->shorts_in);
	longs_join(&partner->longs, &other->longs);
	replies_join(partner, other);
	if (partner->in_passed < other->in_passed)
		partner->in_passed = other->in_passed;
	ripc__mcast_in_move(other, partner);
	other->token_own = 0; /* no hello counts as the other's any more */
}

static void pair_remove(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t local = partner->service->incarnation, remote = partner->incarnation;
	struct partner *at, *last = NULL;
	uint32_t place = UINT32_MAX, n = 0;

	for (; (at = pair_at(ctx, local, remote, n)); n++) {
		place = at == partner ? n : place;
		last = at;
	}
	if (place == UINT32_MAX)
		return;
	ripc__map_remove(&ctx->partners.by_pair, pair_key(ctx, local, remote, n - 1));
	/* The last entry fills the gap. */
	if (last != partner)
		ripc__map_replace(&ctx->partners.by_pair, pair_key(ctx, local, remote, place),
			last);
}

/* ---- partner ----------------------------------------------------------------------------- */

/* Gives a partner its incarnation and its peer. */
int ripc__partner_attach(struct partner *partner, uint64_t incarnation, struct peer *peer)
{
	int error;

	partner->incarnation = incarnation;
	error = pair_insert(partner);
	if (error)
		return error;
	ripc__pair_begin(partner);
	partner->peer = peer;
	partner->state = PARTNER_HELLO;
	(void)ripc__rights_judge(partner);
	return 0;
}

/* ---- by ID ------------------------------------------------------------------------------- */

static int index_add(struct ripc_context *ctx, struct partner *partner)
{
	struct partner *first = ripc__map_get(&ctx->partners.by_id, partner->id);

	if (!first)
		return ripc__map_put(&ctx->partners.by_id, partner->id, partner);
	partner->same = first->same;
	first->same = partner;
	return 0;
}

static void index_remove(struct ripc_context *ctx, struct partner *partner)
{
	struct partner *at = ripc__map_get(&ctx->partners.by_id, partner->id);

	if (at == partner && partner->same)
		ripc__map_replace(&ctx->partners.by_id, partner->id, partner->same);
	else if (at == partner)
		ripc__map_remove(&ctx->partners.by_id, partner->id);
	for (; at != partner; at = at->same) {
		if (at->same == partner) {
			at->same = partner->same;
			break;
		}
	}
	partner->same = NULL;
}

int ripc__partners_index(struct ripc_context *ctx)
{
	int error = 0;

	if (ctx->partners.has_index)
		return 0;
	for_each_partner(partner, ctx) {
		/* No two partners of a single service have the same ID. */
		if (partner->current && !error)
			error = index_add(ctx, partner);
	}
	ctx->partners.has_index = !error;
	if (error)
		ripc__map_free(&ctx->partners.by_id);
	return error;
}

struct ripc_service *ripc__partners_of(struct ripc_context *ctx, uint64_t id)
{
	struct partner *partner = ctx->partners.has_index ? ripc__map_get(&ctx->partners.by_id,
		id) : NULL;
	struct ripc_service *first = NULL;

	if (!ctx->partners.has_index && !list_empty(&ctx->services.all))
		first = list_entry(ctx->services.all.next, struct ripc_service, node);
	if (first)
		first->concerned = NULL;
	for (; partner; partner = partner->same) {
		partner->service->concerned = first;
		first = partner->service;
	}
	return first;
}

/* Makes the partner the owner of its ID. */
int ripc__partner_make_current(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	int error = ripc__map_put(&partner->service->partners, partner->id, partner);

	partner->service->recent = NULL;
	if (error)
		return error;
	error = ctx->partners.has_index ? index_add(ctx, partner) : 0;
	partner->current = !error;
	if (error)
		ripc__map_remove(&partner->service->partners, partner->id);
	return error;
}

void ripc__partner_unmake_current(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->current)
		ripc__map_remove(&partner->service->partners, partner->id);
	if (partner->current && ctx->partners.has_index)
		index_remove(ctx, partner);
	partner->current = false;
	partner->service->recent = NULL;
}

static void accept_unasked(struct partner *partner, const struct wire_hello *hello)
{
	partner->unasked = hello->unasked < UNASKED_BYTES ? hello->unasked : UNASKED_BYTES;
}

void ripc__partner_greeted(struct partner *partner, const struct wire_packet *packet)
{
	accept_unasked(partner, &packet->hello);
	partner->token_out = packet->hello.token;
	partner->refuses = false;
	partner->state = PARTNER_READY;
}

void ripc__partner_ready(struct partner *partner, bool forgot)
{
	if (forgot)
		ripc__outgoing_again(partner, true, ripc__partner_may_repeat(partner));
	ripc__pending_send(partner);
	ripc__outgoing_advance(partner);
	ripc__watch_ready(partner);
}

void ripc__partner_hello(struct partner *partner, const struct wire_packet *packet)
{
	bool forgot = partner->token_out && partner->token_out != packet->hello.token;

	if (partner->token_out == packet->hello.token) {
		accept_unasked(partner, &packet->hello);
		return;
	}
	ripc__partner_greeted(partner, packet);
	ripc__partner_ready(partner, forgot);
}

bool ripc__partner_may_repeat(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t apart = 1 + ripc__peer_rto(ctx, partner->peer) / TICK_US;
	uint16_t tick = (uint16_t)(ctx->now_us / TICK_US);

	if (partner->repeated_tick && (uint16_t)(tick - partner->repeated_tick) < apart)
		return false;
	partner->repeated_tick = tick ? tick : 1;
	return true;
}

void ripc__partner_suspect(struct partner *partner)
{
	if (partner->suspect)
		return;
	partner->suspect = true;
	ripc__resolver_suspect(partner->service->ctx->resolver, partner->id, partner->incarnation);
}

void ripc__partner_retire(struct partner *partner)
{
	ripc__resolver_suspect(partner->service->ctx->resolver, partner->id, partner->incarnation);
	ripc__partner_unmake_current(partner);
	partner->suspect = false; /* the partner no longer owns the ID */
}

void ripc__partner_revive(struct partner *partner)
{
	partner->dead = partner->challenged = partner->resolved = partner->rechecked = false;
	ripc__pair_begin(partner);
	if (!ripc__map_get(&partner->service->partners, partner->id))
		ripc__partner_make_current(partner); /* without memory: found by its token */
}

/* The partner has understood nothing of what we sent: no message was delivered, for certain. */
void ripc__partner_aborted(struct partner *partner)
{
	if (!ripc__has_outgoing(partner) && !partner->pending)
		return; /* nothing is reported twice */
	ripc__log(partner->service->ctx, RIPC_LOG_WARN, "service %016llx speaks another version of "
		"the protocol: sends to it fail", (unsigned long long)partner->id);
	ripc__sends_fail(partner, -EPROTONOSUPPORT);
}

/* A partner refuses each repeated packet; the log reports that seldom. */
static void say_refused(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	unsigned long long id = partner->id, own = partner->service->id;

	if (!ripc__bucket_take(&ctx->partners.words, ctx->now_us))
		return;
	if (ripc__sealed_may_be(ctx->seal, own))
		ripc__log(ctx, RIPC_LOG_WARN, "keys: service %#llx refuses us: our key may not "
			"send to service %#llx (ripc key grant --send)", id, id);
	else
		ripc__log(ctx, RIPC_LOG_WARN, "keys: service %#llx refuses us: our key may not be "
			"service %#llx, or not send to service %#llx (ripc key grant --be, --send)",
			id, own, id);
}

void ripc__partner_say_unheard(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (!partner->peer || partner->state != PARTNER_HELLO || partner->peer->opening ||
			!ripc__bucket_take(&ctx->partners.words, ctx->now_us))
		return;
	ripc__log(ctx, RIPC_LOG_WARN, "service %#llx was found, but does not respond over %s: a "
		"firewall drops packets to or from it, or its process is stopped (see \"ripc "
		"ping\")", (unsigned long long)partner->id,
		ripc__peer_device(ctx, partner->peer)->ops->name);
}

/* The partner refuses a packet, but accepts our hello. */
static void refused_once(struct partner *partner)
{
	if (partner->refuses)
		return;
	partner->refuses = true;
	say_refused(partner);
}

void ripc__partner_refused(struct partner *partner, bool is_hello)
{
	ripc__sealed_refused(partner->peer->route);
	partner->barred = true;
	if (!is_hello) {
		refused_once(partner);
		return;
	}
	if (ripc__refused_waits(partner))
		return;
	partner->refuses = true;
	if (!ripc__has_outgoing(partner) && !partner->pending)
		return;
	say_refused(partner);
	ripc__sends_fail(partner, -EACCES);
}

size_t ripc__partners_bytes(struct ripc_context *ctx)
{
	size_t bytes = ripc__slots_bytes(&ctx->partners.slots) +
		ripc__map_bytes(&ctx->partners.by_pair) +
		ripc__map_bytes(&ctx->partners.by_id) + ripc__peers_bytes(ctx);

	list_for_each(node, &ctx->services.all)
		bytes += ripc__map_bytes(&list_entry(node, struct ripc_service, node)->partners);
	for_each_partner(partner, ctx) {
		bytes += sizeof(*partner) + ripc__pending_bytes(partner) +
			(partner->replies ? sizeof(*partner->replies) : 0);
		for_each_row(longs, partner)
			bytes += longs->reasons ? LONGS_MAX : 0;
	}
	return bytes;
}

/* ---- share ------------------------------------------------------------------------------- */

/*
 * The resources that all senders to us share, and how much of each a sender holds: credit,
 * memory, and places for unfinished messages and for streams.
 *
 * Design notes. A host may hold as much as is still free, and a peer as much as its host may
 * hold besides. The next sender therefore finds something left, however many have come before,
 * from another host as from the same one. A peer that is alone can have a third of all. The
 * holding of a host is the sum over its peers, hence claiming many contexts gains nothing.
 *
 * One message may take more than that, because a message cannot be cut. From the remainder, its
 * host and its peer count as holding no more than leaves the host's other peers half.
 */

/* The holdings of a peer are counted in 32 bits: in bytes, or in KiB. */
#define SMALL_MAX (1u << 30)

void ripc__shares_set(struct ripc_context *ctx)
{
	struct ripc__pool_stats pool;

	ripc__pool_stats(ctx->pool, &pool);
	ctx->peers.quota_max[SHARE_SMALL] = pool.limit / 8 < SMALL_MAX ? pool.limit / 8 : SMALL_MAX;
	ctx->peers.quota_max[SHARE_LARGE] = (pool.limit - pool.limit / 8) >> 10;
	if (ctx->peers.quota_max[SHARE_LARGE] > LARGE_MAX)
		ctx->peers.quota_max[SHARE_LARGE] = LARGE_MAX;
	ctx->peers.quota_max[SHARE_REPLIES] = ctx->peers.quota_max[SHARE_LARGE];
	ctx->peers.quota_max[SHARE_UNFINISHED] = UNFINISHED_MAX;
	ctx->peers.quota_max[SHARE_GRANTED] = GRANTED_MAX;
	ctx->peers.quota_max[SHARE_MCAST_IN] = MCAST_IN_MAX;
}

/* ---- crowd ------------------------------------------------------------------------------- */

/*
 * For want of room an idle partner is forgotten sooner than after PARTNER_IDLE_US, but not
 * sooner than this: a sender repeats messages until they are PARTNER_IDLE_US / 2 old.
 */
#define PARTNER_KEEP_US    40000000u
#define PARTNERS_ACCEPTED  (PARTNERS_MAX / 4 * 3) /* partners that we look for have the others */
#define HOST_PARTNERS_MAX  (PARTNERS_MAX / 4) /* more from one host are not accepted */
#define FORGET_LOOKS 64u /* partners looked at to find one that may be forgotten */
#define HOST_FEW     8u  /* a host that holds fewer may have one of the last places */
#define PLACES_LAST  (PARTNERS_MAX / 16)

/* Does nothing wait for the partner, or on it? */
static bool is_idle(const struct partner *partner)
{
	return partner->peer && !ripc__has_outgoing(partner) && !partner->pending &&
		list_empty(&partner->incoming) && !partner->ack_number && !partner->queued &&
		!partner->n_asked;
}

/* Are the states of long messages of this row known, of which the first has this number? */
static bool has_states(const struct longs *longs, uint64_t first)
{
	return longs->in_delivered || longs->in_refused || longs->in_oldest > first;
}

/* If the partner were forgotten, would a message of it be taken for a new one? */
static bool has_memory(const struct partner *partner)
{
	return partner->dead || partner->shorts_in.top ||
		has_states(&partner->longs, 1) || (partner->replies &&
		has_states(partner->replies, WIRE_REPLIES + 1));
}

static bool may_be_forgotten(const struct partner *partner)
{
	return is_idle(partner) && (!has_memory(partner) ||
		partner->service->ctx->now_us - partner->used_us >= PARTNER_KEEP_US);
}

/* Forgets one of the least recently used partners, of this host or any (NULL). */
static bool forget_one(struct ripc_context *ctx, const struct host *host)
{
	uint32_t looks = 0;

	if (ctx->partners.n_walks)
		return false; /* the forgotten partner may be the next on the way */
	for_each_partner(partner, ctx) {
		if (++looks > FORGET_LOOKS)
			return false;
		if (!may_be_forgotten(partner) || (host && partner->peer->host != host))
			continue;
		ripc__partner_free(partner);
		return true;
	}
	return false;
}

/* Forgets the oldest partner on trial. */
static bool forget_on_trial(struct ripc_context *ctx)
{
	uint32_t looks = 0;

	if (ctx->partners.n_walks)
		return false;
	list_for_each(node, &ctx->partners.on_trial) {
		struct partner *partner = list_entry(node, struct partner, ack_node);

		if (++looks > FORGET_LOOKS)
			return false;
		if (!is_idle(partner))
			continue;
		ripc__partner_free(partner);
		return true;
	}
	return false;
}

/* The place for a new partner from this address, which we do not look for. */
static enum place crowd_place(struct ripc_context *ctx, const struct ripc__addr *from)
{
	const struct host *host = ripc__host_find(ctx, from);
	uint64_t held = host ? host->partners : 0;

	if (held >= HOST_PARTNERS_MAX)
		return forget_one(ctx, host) ? PLACE_FREE : PLACE_NONE;
	if (ctx->stats.partners + held < PARTNERS_ACCEPTED || forget_one(ctx, NULL))
		return PLACE_FREE;
	if (held >= HOST_FEW)
		return PLACE_NONE;
	if (ctx->stats.partners < PARTNERS_ACCEPTED + PLACES_LAST || forget_on_trial(ctx))
		return PLACE_ON_TRIAL;
	return PLACE_NONE;
}

/* Puts the partner on trial: none of its messages is acknowledged before it is proven. */
static void crowd_try(struct partner *partner)
{
	partner->on_trial = true;
	list_append(&partner->service->ctx->partners.on_trial, &partner->ack_node);
}

void ripc__crowd_proven(struct partner *partner)
{
	if (partner->on_trial)
		list_remove(&partner->ack_node);
	partner->on_trial = false;
}

/* ---- life -------------------------------------------------------------------------------- */

/*
 * Partners: how they come to be, move, and are forgotten.
 *
 * Design notes. State for a stranger is made only for a packet with a valid address token, and
 * is kept longer (PARTNER_IDLE_US) than any address token holds (2 * PROOF_PERIOD_US). A late
 * first packet therefore either finds the state it once made, with its memory of numbers, or has
 * no valid address token any more. A partner's token dies with the state: a late packet cannot
 * bring it back. A partner that is gone stays for as long, dead: its packets that arrive late
 * have no effect. An address token proves who lives at an address, not that its packets are
 * true: the claim of a hello is kept apart from the claims of others, and the resolver is
 * queried before the claim is relied on for long.
 */

#define CLAIMED_US   1000000u /* a partner heard within this time is seldom doubted for a claim */

/* Begins the row's numbers after before. */
static void row_begin(const struct ripc_service *service, struct longs *longs, uint64_t before)
{
	longs->next = before + service->numbers + 1;
	longs->in_oldest = before + 1;
	list_init(&longs->outgoing);
}

struct longs *ripc__longs_open(struct partner *partner, uint64_t number)
{
	struct longs *longs = ripc__longs_of(partner, number);

	if (longs)
		return longs;
	longs = calloc(1, sizeof(*longs));
	if (!longs)
		return NULL;
	row_begin(partner->service, longs, WIRE_REPLIES);
	partner->replies = longs;
	begin(partner, replies_beyond);
	return longs;
}

struct partner *ripc__partner_alloc(struct ripc_service *service, uint64_t id)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *partner;

	if (ctx->stats.partners >= PARTNERS_MAX && !forget_one(ctx, NULL)) {
		ctx->stats.drop_partner_limit++;
		return NULL;
	}
	partner = calloc(1, sizeof(*partner));
	if (!partner)
		return NULL;
	partner->service = service;
	partner->id = id;
	partner->used_us = ctx->now_us;
	/* The partner may remember numbers from before we forgot it: none is used twice. */
	partner->short_next = service->numbers + 1;
	row_begin(service, &partner->longs, 0);
	partner->proven = ctx->self.proves;
	partner->unasked = UNASKED_BYTES;
	list_init(&partner->incoming);
	list_init(&partner->ack_node);
	if (token_give(partner)) {
		free(partner);
		return NULL;
	}
	handle_draw(partner);
	list_append(&ctx->partners.all, &partner->node);
	if (ctx->stats.partners++ == 0)
		ripc__wake_for_sweep(ctx);
	RIPC__PROBE(partner_born, service->id, id, ctx->incarnation, ctx->stats.partners);
	return partner;
}

static void partner_free_alone(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->service->numbers < partner->short_next)
		partner->service->numbers = partner->short_next;
	for_each_row(longs, partner) {
		uint64_t next = longs->next & ~WIRE_REPLIES;

		if (partner->service->numbers < next)
			partner->service->numbers = next;
		free(longs->reasons);
	}
	free(partner->replies);
	list_remove(&partner->node);
	list_remove(&partner->ack_node);
	ctx->stats.partners--;
	token_take_back(partner);
	free(partner);
}

static void received_forget(struct partner *partner)
{
	while (!list_empty(&partner->incoming))
		ripc__incoming_forget(list_entry(partner->incoming.next, struct incoming, node));
	ripc__offers_forget(partner);
	ripc__permits_leave(partner);
	ripc__pending_drop(partner, true);
}

/* The partner has been gone since gone_us. */
static void messages_lost(struct partner *partner, int status, uint64_t gone_us)
{
	received_forget(partner);
	ripc__mcast_in_lost(partner);
	ripc__outgoing_lost(partner, status, gone_us);
	ripc__calls_lost(partner);
	ripc__watch_lost(partner);
}

/* The partner is about to be freed; nothing is being sent to it. */
static void messages_forget(struct partner *partner)
{
	received_forget(partner);
	ripc__mcast_in_forget(partner);
	ripc__batching_forget(partner);
	ripc__calls_lost(partner);
	if (partner->peer)
		ripc__watch_lost(partner);
}

void ripc__partner_free(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	ripc__claim_forget(partner);
	messages_forget(partner);
	ripc__partner_unmake_current(partner);
	if (partner->peer) {
		pair_remove(partner);
		ripc__peer_put(ctx, partner->peer);
	}
	partner_free_alone(partner);
}

/* The shares of unread messages and streams move along. */
void ripc__partner_to_peer(struct partner *partner, struct peer *peer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *old = partner->peer;

	ripc__unread_release(partner);
	ripc__mcast_in_count(partner, false);
	partner->peer = peer;
	ripc__unread_hold(partner);
	ripc__mcast_in_count(partner, true);
	ripc__peer_put(ctx, old);
	partner->known = false;
	(void)ripc__rights_judge(partner);
}

/*
 * Another partner claims this one's ID: queries whether this one is still there, now and then,
 * or if it does not respond.
 */
static void doubt(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t silence = ripc__silence_1024us(partner);

	if (partner->resolved && (silence >= CLAIMED_US >> 10 || ripc__claim_may_ask(ctx)))
		ripc__partner_suspect(partner);
}

int ripc__partner_accept(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **partner_out)
{
	struct ripc_context *ctx = service->ctx;
	enum place place = crowd_place(ctx, from);
	struct partner *partner, *other;
	struct peer *peer;
	int error;

	if (place == PLACE_NONE) {
		ctx->stats.drop_partner_limit++;
		return -ENOMEM;
	}
	partner = ripc__partner_alloc(service, packet->hello.service);
	if (!partner)
		return -ENOMEM;
	error = ripc__peer_get(ctx, device, packet->hello.context, from, &peer);
	if (error)
		goto err_free;
	error = ripc__partner_attach(partner, packet->h.src, peer);
	if (error)
		goto err_put_peer;
	if (place == PLACE_ON_TRIAL)
		crowd_try(partner);
	other = ripc__map_get(&service->partners, partner->id);
	if (!other)
		ripc__partner_make_current(partner); /* without memory: found by its token */
	else if (other->peer)
		doubt(other);
	if (other)
		ripc__resolver_claimed(ctx->resolver, partner->id);
	*partner_out = partner;
	return 0;
err_put_peer:
	ripc__peer_put(ctx, peer);
err_free:
	partner_free_alone(partner);
	return error;
}

void ripc__partner_lost(struct partner *partner, int status, uint64_t gone_us)
{
	ripc__partner_retire(partner);
	ripc__partner_touch(partner);
	ripc__claim_forget(partner);
	handle_draw(partner); /* a returning partner gets a new handle */
	partner->dead = true;
	partner->challenged = false;
	RIPC__PROBE(partner_dead, partner->service->id, partner->id, partner->incarnation, status);
	messages_lost(partner, status, gone_us);
}

/* The slot was just released, hence this cannot fail. */
void ripc__partner_challenge(struct partner *partner)
{
	if (partner->challenged)
		return;
	token_take_back(partner);
	(void)token_give(partner);
	partner->known = false;
	partner->challenged = true;
}

int ripc__partner_reroute(struct partner *partner, struct device *device,
		const struct ripc__addr *to)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer;
	int error = ripc__peer_get(ctx, device, partner->peer->context, to, &peer);

	if (error)
		return error;
	ripc__partner_to_peer(partner, peer);
	return 0;
}

/* Forgets partners that have been idle for so long that no packet of theirs can be under way. */
void ripc__partners_sweep(struct ripc_context *ctx)
{
	ctx->loop.next_sweep_us = ctx->now_us + PARTNER_IDLE_US / 16;
	list_for_each_entry_safe(partner, &ctx->partners.all, struct partner, node) {
		if (ctx->now_us - partner->used_us < PARTNER_IDLE_US)
			return;
		if (!ripc__has_outgoing(partner) && list_empty(&partner->incoming) &&
				partner->queued == 0 && partner->n_asked == 0)
			ripc__partner_free(partner);
		else
			ripc__partner_touch(partner);
	}
}
