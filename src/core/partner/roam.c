/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the route of a peer changes: when a partner there sends from a new address, when a device
 * fails, and when a better one may work again.
 *
 * Design notes. A device has failed for a peer when it reports so, or after a timeout. The peer
 * then goes on over the next best device that it has in common with us. Messages under way move
 * along, because packets refer to tokens and numbers, not to routes. A new address, and a better
 * device, are only relied on once an echo has come back from there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "core/base/base.h"
#include "core/events.h"
#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/wire.h"
#include "death.h"
#include "packet.h"
#include "partner.h"
#include "roam.h"
#include "util/list.h"
#include "util/map.h"
#include "util/timers.h"

/* ---- follow ------------------------------------------------------------------------------ */

/*
 * Peers whose address may have changed.
 *
 * Design notes. A peer is suspected to have another address when messages are not acknowledged,
 * when a network does not accept packets, or when a notice or an answer of the resolver comes
 * from another address. Each of these may be false or forged, hence the peer is first queried by
 * the route in use. Only if the peer does not respond, a search begins: the resolver is queried,
 * and an echo is sent to each address that its answer names, beside the route in use. A false
 * answer thus learns no token of a peer that can be reached. The route changes when the echo
 * comes back from such an address.
 *
 * Shorts are not acknowledged. Partners in use that were not heard for a while are therefore
 * queried now and then.
 *
 * When addresses of this host have changed, an echo is sent to all partners in touch. The echo
 * comes from a new address and bears the token: the partner follows (ripc__peer_moved()).
 * Registrations are announced again. Both are repeated, because a new interface may lose the
 * first packets.
 */

#define PATIENCE_US      20000u   /* time to respond: so long, or two repetition times, */
#define PATIENCE_LONG_US 250000u  /* but no longer than this; and for so long, */
#define PATIENCE_FIRST_US 50000u  /* where no round trip is known */
#define SEEK_US          320000u  /* after a wait this long the resolver is queried each time */
#define WAIT_MOST_US     1280000u
#define ASKED_MAX        12u      /* some 10 s; packets sent after that begin a new search */
#define DENIED_AFTER     4u       /* steps, some 600 ms */
#define LOOK_US          250000u  /* between two looks at partners that are in use */
#define IDLE_US          1000000u /* a partner that was not used for this long is not in use */
#define SILENT_MS        700u     /* a partner that was not heard for this long is queried */
#define LOOK_MAX         64u      /* partners at one look */
#define OWN_ROUNDS       4u
#define OWN_FIRST_US     10000u   /* several changes within it count as one */
#define OWN_NEXT_US      100000u  /* then twice, three times as long ... */
#define OWN_PARTNERS     1024u    /* partners that get an echo in one round */

struct follow {
	struct ripc__timer timer;
	struct peer *peer;
	uint64_t nonce;
	uint32_t wait_us, n_asked;
};

/* ---- a peer ------------------------------------------------------------------------------ */

static bool may_be_asked(const struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	return peer && !partner->dead && partner->resolved && !peer->opening && !peer->broken &&
		!ripc__peer_is_reliable(ctx, peer);
}

/* A token from a hello of another address may be another's: the partner has not answered yet. */
static bool has_token(const struct partner *partner)
{
	return partner->token_out && !partner->crossed;
}

/* The partner whose tokens are used for the peer: one that has sent a token, if any has. */
static struct partner *spokesman(struct ripc_context *ctx, const struct peer *peer)
{
	struct partner *found = NULL;

	for_each_partner_backwards(partner, ctx) {
		if (partner->peer != peer || !may_be_asked(partner) || (found &&
				(!has_token(partner) || (has_token(found) && !partner->current))))
			continue;
		found = partner;
		if (has_token(found) && found->current)
			break;
	}
	return found;
}

static void follow_end(struct ripc_context *ctx, struct peer *peer)
{
	struct follow *follow = peer->follow;

	if (!follow)
		return;
	ripc__timer_dismiss(ctx, &follow->timer);
	free(follow);
	peer->follow = NULL;
}

/* The resolver's last answer about the partner; NULL: none, or about another incarnation. */
static const struct ripc__answer *answer_of(const struct partner *partner)
{
	const struct ripc__answer *answer = ripc__resolver_recall(
		partner->service->ctx->resolver, partner->id);

	return answer && answer->record.incarnation == partner->incarnation &&
		answer->record.context == partner->peer->context ? answer : NULL;
}

static void route_taken(struct ripc_context *ctx, const struct peer *peer);

/* With keys the record may be forged: no route is led to another member than it led to before. */
static int change_to(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr)
{
	if (ctx->seal && !ripc__sealed_same(peer->route, addr))
		return -EACCES;
	return ripc__route_change(ctx, peer, device, addr);
}

/*
 * Begins at the answer's address: no token can be lost to a liar, because none was sent yet, and
 * the first answer was believed as this one is.
 */
static void begin_elsewhere(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct device *device;
	struct ripc__addr addr;

	device = ripc__route_choose(ctx, peer->failed, ctx->peers.n_devices, answer, &addr);
	if (!device || change_to(ctx, peer, device, &addr))
		return;
	partner->proof = answer->proof;
	route_taken(ctx, peer);
}

/* Sends an echo to each address of the answer, one of which may be that of the route. */
static void ask_elsewhere(struct partner *partner, const struct follow *follow)
{
	const struct ripc__answer *found = answer_of(partner);
	struct ripc__answer answer;

	if (!found || ripc__claim_lives_there(partner, found))
		return;
	answer = *found;
	if (has_token(partner))
		ripc__partner_echo_to(partner, &answer, follow->nonce, false);
	else
		begin_elsewhere(partner, &answer);
}

/* Searches for the partner. A result is passed to ripc__follow_answered(). */
static void seek(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer;

	ripc__resolver_claimed(ctx->resolver, partner->id);
	ripc__resolver_suspect(ctx->resolver, partner->id, partner->incarnation);
	(void)ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer);
}

static void follow_fire(void *owner, struct ripc__timer *timer)
{
	struct follow *follow = list_entry(timer, struct follow, timer);
	struct ripc_context *ctx = owner;
	struct peer *peer = follow->peer;
	struct partner *partner = spokesman(ctx, peer);

	if (!partner || follow->n_asked == ASKED_MAX) {
		follow_end(ctx, peer);
		return;
	}
	if (follow->n_asked++ == 0 || follow->wait_us >= SEEK_US)
		seek(partner);
	if (follow->wait_us < WAIT_MOST_US)
		follow->wait_us *= 2;
	ripc__timer_set(&ctx->loop.timers, timer, ctx->now_us + follow->wait_us);
	(void)ripc__partner_echo(partner, follow->nonce);
	ask_elsewhere(partner, follow);
}

static uint32_t patience_us(const struct ripc_context *ctx, const struct peer *peer)
{
	uint32_t us = peer->srtt_us ? 2 * ripc__peer_rto(ctx, peer) : PATIENCE_FIRST_US;

	us = us < PATIENCE_LONG_US ? us : PATIENCE_LONG_US;
	return us > PATIENCE_US ? us : PATIENCE_US;
}

/* A search for the peer begins; the caller sets the timer. NULL: there is no memory. */
static struct follow *begin(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return NULL;
	if (ripc__timer_admit(ctx)) {
		free(follow);
		return NULL;
	}
	*follow = (struct follow){.timer.fire = follow_fire, .peer = partner->peer,
		.nonce = ripc__nonce(ctx), .wait_us = patience_us(ctx, partner->peer)};
	partner->peer->follow = follow;
	return follow;
}

bool ripc__follow(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct follow *follow;

	if (!may_be_asked(partner))
		return false;
	if (partner->peer->follow)
		return true;
	follow = begin(partner);
	if (!follow)
		return false;
	ripc__timer_set(&ctx->loop.timers, &follow->timer, ctx->now_us +
		(ripc__partner_echo(partner, follow->nonce) < 0 ? 0 : follow->wait_us));
	return true;
}

void ripc__follow_silent(struct ripc_context *ctx, struct peer *peer)
{
	struct partner *partner = spokesman(ctx, peer);
	struct follow *follow = peer->follow;

	if (partner && !follow)
		follow = begin(partner);
	if (!partner || !follow)
		return;
	if (!follow->n_asked)
		ripc__timer_set(&ctx->loop.timers, &follow->timer, ctx->now_us);
	else if (follow->wait_us < SEEK_US)
		seek(partner);
}

void ripc__follow_or_sound(struct partner *partner)
{
	if (ripc__follow(partner))
		ripc__peer_sounded(partner->service->ctx, partner->peer);
	else
		ripc__partner_sound(partner);
}

bool ripc__follow_seeks(const struct partner *partner)
{
	return partner->peer && partner->peer->follow && partner->peer->follow->n_asked;
}

void ripc__follow_answered(struct partner *partner, const struct ripc__answer *answer)
{
	if (ripc__follow_seeks(partner))
		ask_elsewhere(partner, partner->peer->follow);
	else if (partner->peer && !ripc__claim_lives_there(partner, answer))
		ripc__follow(partner);
}

/* Was an echo sent to this address? */
static bool is_named(struct partner *partner, struct device *device,
		const struct ripc__addr *from)
{
	const struct ripc__answer *answer = answer_of(partner);
	struct ripc__addr addr;

	for (uint32_t i = 0; answer && i < answer->record.n_addrs; i++) {
		if (ripc__partner_named(partner, device, answer, i, &addr) &&
				ripc__route_same(device, &addr, from))
			return true;
	}
	return false;
}

/* An answer to an echo of this partner came. True: the answer proves a new address. */
static bool follow_echoed(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	if (!peer->follow || peer->follow->nonce != nonce)
		return false;
	if (ripc__peer_is_at(ctx, peer, device, from)) {
		follow_end(ctx, peer);
		return false;
	}
	return peer->follow->n_asked && is_named(partner, device, from);
}

/*
 * With keys only the partner itself can send this. Otherwise RETRY counts after a long time
 * without response: the partner has forgotten us, and is found as by one that begins.
 */
bool ripc__follow_denied(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	bool is_goodbye = packet->h.type == WIRE_GONE && packet->h.token && packet->h.number;
	struct follow *follow = partner->peer ? partner->peer->follow : NULL;

	if (!follow || !follow->n_asked || is_goodbye)
		return true;
	if (!ctx->seal && (packet->h.type == WIRE_GONE || follow->n_asked < DENIED_AFTER))
		return false;
	ripc__timer_set(&ctx->loop.timers, &follow->timer, ctx->now_us);
	return true;
}

/* ---- partners in use --------------------------------------------------------------------- */

static bool is_silent(const struct partner *partner)
{
	return partner->state == PARTNER_READY && partner->token_out &&
		ripc__silence_1024us(partner) >= SILENT_MS;
}

static void look(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;
	uint32_t n = 0;

	for_each_partner_backwards(partner, ctx) {
		if (n == LOOK_MAX || ctx->now_us - partner->used_us >= IDLE_US)
			break;
		if (n == 0)
			ripc__timer_set(&ctx->loop.timers, timer, ctx->now_us + LOOK_US);
		n++;
		if (ctx->now_us - partner->used_us < 2 * LOOK_US && is_silent(partner))
			ripc__follow(partner);
	}
}

void ripc__follow_use(struct ripc_context *ctx)
{
	if (!ctx->partners.following.looking.index)
		ripc__timer_set(&ctx->loop.timers, &ctx->partners.following.looking, ctx->now_us +
		LOOK_US);
}

/* ---- our own addresses ------------------------------------------------------------------- */

/* Nothing arrives at an address that we do not have any more. */
static bool is_of_this_context(const struct ripc_context *ctx, const struct partner *partner)
{
	return partner->peer->context == ctx->incarnation;
}

static bool is_waited_for(const struct ripc_context *ctx, const struct partner *partner)
{
	return ripc__has_outgoing(partner) || partner->n_asked ||
		ctx->now_us - partner->used_us < IDLE_US;
}

/* Sends an echo to each peer in touch, the most recently used first. */
static void sound_all(struct ripc_context *ctx)
{
	uint32_t began = ripc__now_1024us(ctx), n = 0;

	for_each_partner_backwards(partner, ctx) {
		if (n == OWN_PARTNERS)
			break;
		if (!partner->peer || partner->dead || !partner->token_out ||
				ripc__peer_is_reliable(ctx, partner->peer))
			continue;
		if (is_waited_for(ctx, partner) || is_of_this_context(ctx, partner))
			ripc__follow(partner);
		if (partner->peer->sounded == began)
			continue;
		ripc__partner_sound(partner);
		n++;
	}
}

static void own_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;

	if (++ctx->partners.following.rounds < OWN_ROUNDS)
		ripc__timer_set(&ctx->loop.timers, timer, ctx->now_us +
			ctx->partners.following.rounds * OWN_NEXT_US);
	ripc__resolver_announce(ctx->resolver, ctx->now_us);
	sound_all(ctx);
}

void ripc__follow_own(struct ripc_context *ctx)
{
	uint64_t at_us = ctx->now_us + OWN_FIRST_US, next_us = ctx->partners.following.own_us +
		OWN_NEXT_US;

	if (ctx->partners.following.own.index && !ctx->partners.following.rounds)
		return;
	if (ctx->partners.following.own_us && at_us < next_us)
		at_us = next_us;
	ctx->partners.following.own_us = at_us;
	ctx->partners.following.rounds = 0;
	ripc__timer_set(&ctx->loop.timers, &ctx->partners.following.own, at_us);
}

int ripc__follow_open(struct ripc_context *ctx)
{
	int error = 0;

	ctx->partners.following.looking.fire = look;
	ctx->partners.following.own.fire = own_fire;
	for (uint32_t i = 0; i < FOLLOW_TIMERS && !error; i++)
		error = ripc__timer_admit(ctx);
	return error;
}

/* ---- roam -------------------------------------------------------------------------------- */

#define ECHO_LEN  (WIRE_HEADER + WIRE_ECHO_BODY)
#define STAY_US   1000000u /* after a change: packets by a worse device are stragglers */

/* A route that is being proven. */
struct candidate {
	uint64_t nonce;    /* 0: not asked yet */
	uint64_t asked_us;
	uint32_t received; /* bytes from there since our last echo */
	struct device *device;
	struct ripc__addr addr;
};

static void candidate_free(struct peer *peer)
{
	free(peer->candidate);
	peer->candidate = NULL;
}

static uint32_t failed_for(const struct ripc_context *ctx, const struct peer *peer)
{
	return (uint32_t)ctx->now_us - peer->failed_us;
}

bool ripc__route_is_lost(const struct partner *partner)
{
	const struct peer *peer = partner->peer;

	return peer && peer->broken && ripc__peer_is_reliable(partner->service->ctx, peer);
}

/* Sends the packets that had to wait for the route, if it is open now. */
static void go_on(struct partner *partner)
{
	if (partner->peer->opening)
		return;
	ripc__pending_send(partner);
	ripc__outgoing_hasten(partner);
	ripc__outgoing_advance(partner);
}

void ripc__route_answered(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	struct ripc__addr addr;
	struct device *device, *old;
	uint8_t refusing = 0;
	int error = 0;

	if (!peer || !peer->broken)
		return;
	old = ripc__peer_device(ctx, peer);
	do {
		refusing |= error ? ripc__device_bit(ctx, device) : 0;
		device = ripc__route_choose(ctx, peer->failed | refusing, ctx->peers.n_devices,
			answer,
			&addr);
		if (!device) {
			ripc__route_stays(peer);
			return;
		}
		error = change_to(ctx, peer, device, &addr);
	} while (error);
	peer->failed |= refusing;
	if (device != old)
		ripc__log(ctx, RIPC_LOG_INFO, "service 0x%llx: %s failed, continues over %s: %s",
			(unsigned long long)partner->id, old->ops->name, device->ops->name,
			ripc_strerror(-peer->why));
	go_on(partner);
}

static void route_taken(struct ripc_context *ctx, const struct peer *peer)
{
	for_each_partner_safe(partner, ctx) {
		if (partner->peer == peer && !partner->dead)
			go_on(partner);
	}
}

/* Messages that could not be sent are sent now. */
static void routes_go_on(struct ripc_context *ctx, const struct device *device,
		const struct ripc__event *event)
{
	for_each_partner_safe(partner, ctx) {
		if (partner->peer && !partner->dead &&
				ripc__peer_is_at(ctx, partner->peer, device, event->from))
			go_on(partner);
	}
}

/*
 * With keys the status may be that of a handshake: another network helps only if nothing
 * answered.
 */
static bool is_of_network(const struct ripc_context *ctx, int status)
{
	return !ctx->seal || (ctx->peers.n_devices > 1 && status == -EHOSTUNREACH);
}

void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	struct peer *peer;
	uint32_t at = 0;

	while (event->from && (peer = ripc__map_next(&ctx->peers.all, &at))) {
		bool was_opening = peer->opening;

		if (!ripc__peer_is_at(ctx, peer, device, event->from))
			continue;
		peer->opening = false;
		if (was_opening && event->status && is_of_network(ctx, event->status))
			ripc__route_failed(ctx, peer, event->status);
	}
	if (ctx->seal && event->from)
		ripc__handshake_ended(ctx, device, event);
	if (event->from && event->status == 0)
		routes_go_on(ctx, device, event);
}

/* Looks for another route to the partner, or queries the resolver for one. */
static void mend(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer;
	int status = ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer);

	if (status == -EINPROGRESS)
		partner->suspect |= partner->current; /* ripc__route_answered() follows */
	else if (status == 0 && answer->record.incarnation == partner->incarnation)
		ripc__route_answered(partner, answer);
	if (status == -EINPROGRESS || !ripc__route_is_lost(partner) || !partner->current)
		return;
	/* Perhaps the partner is gone. */
	ripc__partner_suspect(partner);
	(void)ripc__claim_settled(partner);
}

void ripc__routes_mend(struct ripc_context *ctx)
{
	ctx->peers.any_broken = false;
	for_each_partner_safe(partner, ctx) {
		if (!partner->peer || partner->dead)
			continue;
		if (partner->peer->broken)
			mend(partner);
		else if (partner->peer->unreached)
			ripc__follow(partner);
		partner->peer->unreached = false;
	}
}

/* ---- candidates -------------------------------------------------------------------------- */

static bool same_route(const struct candidate *candidate, const struct device *device,
		const struct ripc__addr *addr)
{
	return candidate->device == device && candidate->addr.len == addr->len &&
		memcmp(candidate->addr.blob, addr->blob, addr->len) == 0;
}

static void echo_ask(struct partner *partner, struct candidate *candidate)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct wire_packet packet = {.value = ripc__nonce(ctx), .stamp = ctx->now_us};

	candidate->nonce = packet.value;
	candidate->asked_us = ctx->now_us;
	ripc__partner_header_bare(partner, &packet, WIRE_ECHO);
	ripc__stranger_send(ctx, candidate->device, &candidate->addr, &packet,
		candidate->received);
	candidate->received = 0;
}

/* Is this a packet by a worse device, just after a change, sent before the partner followed us? */
static bool is_straggler(struct ripc_context *ctx, const struct peer *peer,
		const struct device *device)
{
	return ripc__device_index(ctx, device) > peer->device && !peer->broken &&
		peer->failed_us && failed_for(ctx, peer) < STAY_US;
}

/*
 * Sends at most one echo per tick, to one new address at a time, and only once as many bytes
 * have arrived from there. This holds for another device, too: the partner has left ours because
 * it failed, or has come back to a better one.
 */
void ripc__peer_moved(struct partner *partner, struct device *device,
		const struct ripc__addr *from, uint32_t len)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct candidate *candidate = partner->peer->candidate;
	bool is_early = candidate && candidate->nonce &&
		ctx->now_us - candidate->asked_us < TICK_US;

	if (is_straggler(ctx, partner->peer, device))
		return;
	if (!candidate)
		candidate = partner->peer->candidate = calloc(1, sizeof(*candidate));
	if (!candidate)
		return;
	if (!same_route(candidate, device, from)) {
		if (is_early)
			return;
		*candidate = (struct candidate){.device = device, .addr = *from};
	}
	if (candidate->received < ECHO_LEN)
		candidate->received += len;
	if (candidate->received >= ECHO_LEN && !is_early)
		echo_ask(partner, candidate);
}

/* Did the echo to the candidate come back from there? */
static bool candidate_echoed(const struct candidate *candidate, uint64_t nonce,
		struct device *device, const struct ripc__addr *from)
{
	return candidate && candidate->nonce && candidate->nonce == nonce &&
		candidate->device == device && ripc__route_same(device, &candidate->addr, from);
}

bool ripc__route_proven(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;

	if (!follow_echoed(partner, nonce, device, from) &&
			!candidate_echoed(peer->candidate, nonce, device, from))
		return false;
	if (ripc__route_change(ctx, peer, device, from))
		return false;
	peer->failed &= (uint8_t)~(1u << peer->device);
	candidate_free(peer);
	follow_end(ctx, peer);
	route_taken(ctx, peer);
	return true;
}

/* ---- trying better ones again ------------------------------------------------------------ */

/* Sends an echo by the best of those devices that are better than the one in use. */
static void retry(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	const struct ripc__answer *answer;
	struct ripc__addr addr;
	struct device *device;

	ripc__route_failed_now(ctx, peer);
	if (ripc__resolver_lookup(ctx->resolver, partner->id, ctx->now_us, &answer) ||
			answer->record.incarnation != partner->incarnation)
		return;
	if (peer->broken) {
		/* No other route was known. If that is still so, any route will do next time. */
		ripc__route_answered(partner, answer);
		peer->failed = peer->broken ? 0 : peer->failed;
		return;
	}
	peer->failed = 0;
	device = ripc__route_choose(ctx, 0, peer->device, answer, &addr);
	if (device)
		ripc__peer_moved(partner, device, &addr, ECHO_LEN);
	else
		peer->failed_us = 0;
}

void ripc__routes_retry(struct ripc_context *ctx)
{
	ctx->peers.retry_us = UINT64_MAX;
	for_each_partner_safe(partner, ctx) {
		struct peer *peer = partner->peer;
		uint64_t next_us;

		if (!peer || !peer->failed_us || partner->dead)
			continue;
		/* Kept till then: is_straggler() needs the time of the last change. */
		if (failed_for(ctx, peer) >= RETRY_US) {
			if (peer->device == 0 && peer->failed == 0)
				peer->failed_us = 0;
			else
				retry(partner);
		}
		next_us = ctx->now_us + RETRY_US - failed_for(ctx, peer);
		if (peer->failed_us && ctx->peers.retry_us > next_us)
			ctx->peers.retry_us = next_us;
	}
}

/* ---- peers ------------------------------------------------------------------------------- */

void ripc__peer_met(struct ripc_context *ctx, struct peer *peer)
{
	ripc__death_watch(ctx, peer->context);
}

void ripc__peer_left(struct ripc_context *ctx, struct peer *peer)
{
	candidate_free(peer);
	follow_end(ctx, peer);
	ripc__inquiry_end(ctx, peer);
}
