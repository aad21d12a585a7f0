/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path of a received packet. The packet's token names a known partner; without one the sender
 * is a stranger. The packet is checked before it changes anything, then passed to the room that
 * handles its type.
 *
 * Design notes. SHORT, ANNOUNCE with its first bytes, and DATA verify their checksum while (or
 * before) they are copied. All other packets have no payload and are verified here.
 */
#include <errno.h>
#include <string.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/events.h"
#include "core/group/mcast_in.h"
#include "core/keys/sealed.h"
#include "core/message/move.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/death.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/partner/partners.h"
#include "core/partner/rights.h"
#include "core/partner/roam.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/send/announce.h"
#include "core/send/exposed.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"
#include "util/list.h"
#include "util/map.h"
#include "util/rare.h"

/* ---- answers to strangers ---------------------------------------------------------------- */

/*
 * Answers to packets of strangers. No state is created for them, and no answer is longer than the
 * packet that it answers.
 */

static void swap_ends(const struct wire_packet *packet, struct wire_packet *answer)
{
	answer->h.src = packet->h.dst;
	answer->h.dst = packet->h.src;
	answer->h.token = packet->h.flags & WIRE_F_HELLO ? packet->hello.token : 0;
	answer->h.number = packet->h.token;
}

/* The time since which the incarnation has certainly not been here, microseconds. */
static uint64_t gone_for_us(struct ripc_context *ctx, uint64_t incarnation)
{
	for (uint32_t i = 0; i < CLOSED_MAX; i++) {
		if (ctx->services.closed[i].incarnation == incarnation)
			return ctx->now_us - ctx->services.closed[i].closed_us;
	}
	return ctx->now_us - ctx->services.closed_floor_us;
}

/* GONE: the addressed incarnation is not here. */
static void answer_gone(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_GONE};

	if (wire_is_unanswered(packet->h.type))
		return; /* never answer an answer */
	answer.value = gone_for_us(ctx, packet->h.dst);
	swap_ends(packet, &answer);
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

/*
 * RETRY: an address token for the sender's context, or, if the packet has no hello, for its
 * service.
 */
static void answer_retry(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_RETRY};
	uint64_t asker = packet->h.flags & WIRE_F_HELLO ? packet->hello.context : packet->h.src;

	if (wire_is_unanswered(packet->h.type))
		return;
	swap_ends(packet, &answer);
	answer.value = ripc__proof(ctx, asker, event->from->host, 0);
	ctx->stats.retries++;
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

/*
 * ABORT: the sender lacks the right to the ID in its hello, or the right to send to us. Both ends
 * log this. The answer names a packet with a token by its token and its number, and a hello by the
 * token that it gives.
 */
static void answer_refused(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_ABORT, .value = WIRE_REFUSED};

	swap_ends(packet, &answer);
	answer.h.token = packet->h.token;
	answer.h.number = packet->h.token ? packet->h.number : packet->hello.token;
	ctx->stats.drop_token++;
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

/* ABORT: the packet has another version of the protocol. */
static void answer_version(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h = {.type = WIRE_ABORT, .src = packet->h.dst,
		.dst = packet->h.src, .token = packet->h.token}, .value = 1u << WIRE_VERSION};

	ctx->stats.drop_version++;
	if (packet->h.type == WIRE_ABORT)
		return;
	/* The number of the answer is the token that a first packet gives. */
	if (event->len >= WIRE_HEADER + 8)
		answer.h.number = get64((const uint8_t *)event->data + WIRE_HEADER);
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

/* ---- input ------------------------------------------------------------------------------- */

#define LATE_US 250000u /* assumed here: no packet arrives later than this */

static bool verified(struct ripc_context *ctx, const struct wire_packet *packet)
{
	if (packet->intact ||
			wire_verify(packet, ripc__crc32c(0, packet->payload, packet->payload_len)))
		return true;
	ctx->stats.drop_checksum++;
	return false;
}

/* ---- strangers --------------------------------------------------------------------------- */

static bool is_answer(const struct wire_packet *packet)
{
	return packet->h.type == WIRE_RETRY || packet->h.type == WIRE_GONE ||
		packet->h.type == WIRE_ABORT;
}

/* May the packet's token be a lucky guess? (partner/partners.h) */
static bool is_guessed(struct ripc_context *ctx, struct device *device,
		const struct partner *partner, const struct ripc__event *event)
{
	return !ripc__peer_is_at(ctx, partner->peer, device, event->from) &&
		ripc__token_limit_is_reached(ctx, device, event->from);
}

/* The token of our packet that is refused because our key lacks a right; 0: a hello is refused. */
static uint64_t refused_token(const struct ripc_context *ctx, const struct wire_packet *packet)
{
	return ctx->seal && packet->value == WIRE_REFUSED ? packet->h.token : 0;
}

/*
 * The partner whose packet from us this packet answers, or NULL. RETRY and GONE give back a token,
 * which only the receiver of our packet saw. ABORT gives back the token in our hello, or, if our
 * packet lacked a right, its token.
 */
static struct partner *meant(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	bool is_abort = packet->h.type == WIRE_ABORT;
	uint64_t had = is_abort ? refused_token(ctx, packet) : packet->h.number;
	uint64_t given = !is_abort ? packet->h.token : had ? 0 : packet->h.number;
	struct partner *partner = ripc__partner_by_echo(ctx, &packet->h, given, had);

	if (!partner)
		ripc__token_limit_take(ctx, device, event->from);
	else if (is_guessed(ctx, device, partner, event))
		partner = NULL;
	return partner;
}

static void input_retry(struct ripc_context *ctx, struct partner *partner,
		const struct wire_packet *packet, bool from_route)
{
	bool forgotten = partner && packet->h.number && packet->h.number == partner->token_out;
	bool repeat;

	if (!partner || partner->dead || (partner->token_out && !forgotten)) {
		ctx->stats.drop_token++;
		return;
	}
	if (!from_route && ripc__claim_denied(partner))
		return;
	ripc__hint_answered(partner);
	partner->proof = packet->value;
	partner->misled |= forgotten && !partner->known;
	partner->known = false;
	if (forgotten) {
		partner->token_out = 0;
		partner->state = PARTNER_HELLO;
	}
	repeat = ripc__partner_may_repeat(partner);
	ripc__outgoing_again(partner, forgotten, repeat);
	if (!repeat)
		return;
	ripc__pending_send(partner);
	if (!partner->pending && !ripc__has_outgoing(partner))
		ripc__partner_greet(partner);
}

/*
 * The time since which the partner has been gone. If that is long before we last heard the partner,
 * a clock has leapt: then it is not known which messages came after the partner's end.
 */
static uint64_t gone_since(const struct ripc_context *ctx, const struct partner *partner,
		uint64_t gone_for_us)
{
	uint32_t silence = ripc__silence_1024us(partner);

	if (partner->token_out && gone_for_us > ((uint64_t)silence << 10) + LATE_US)
		return UINT64_MAX;
	return gone_for_us < ctx->now_us ? ctx->now_us - gone_for_us : 0;
}

static void input_gone(struct ripc_context *ctx, struct partner *partner,
		const struct wire_packet *packet, bool from_route)
{
	/* A goodbye has both tokens, and so has a GONE that answers a hello with one. */
	bool both = packet->h.token && packet->h.number;
	uint64_t since_us;

	if (partner && both ? partner->token_in != packet->h.token ||
			partner->token_out != packet->h.number : !from_route)
		partner = NULL;
	if (partner)
		ripc__hint_answered(partner);
	if (!partner || partner->dead) {
		ctx->stats.drop_token++;
		return;
	}
	since_us = gone_since(ctx, partner, packet->value);
	if (both && packet->h.flags & WIRE_F_ACK &&
			ripc__outgoing_last_words(partner, &packet->ack))
		since_us = 0; /* as if all remaining messages had begun later */
	ripc__partner_lost(partner, -ENOENT, since_us);
}

/*
 * A partner that refuses a packet is alive, and messages that it has accepted go on. A handshake
 * that has ended since may have brought the right, and the packet may have been repeated then.
 */
static void input_refused(struct ripc_context *ctx, struct partner *partner,
		const struct wire_packet *packet, bool is_old)
{
	if (!partner || partner->dead || (partner->token_out && !packet->h.token)) {
		ctx->stats.drop_token++;
		return;
	}
	if (partner->token_out) {
		partner->heard = partner->peer->heard = ripc__now_1024us(ctx);
		ripc__hint_answered(partner);
	}
	if (is_old)
		return;
	ripc__partner_refused(partner, !partner->token_out);
	if (partner->token_out && packet->h.number)
		ripc__short_refused(partner, packet->h.number);
}

/*
 * A partner of another version gives back eight bytes of the packet that it did not understand. In
 * a first packet they are our token. A partner of our version got an altered packet, which is sent
 * again.
 */
static void input_abort(struct ripc_context *ctx, struct partner *partner,
		const struct wire_packet *packet, bool is_old)
{
	if (ctx->seal && packet->value == WIRE_REFUSED) {
		input_refused(ctx, partner, packet, is_old);
		return;
	}
	if (partner && !partner->dead && !partner->token_out &&
			!(packet->value >> WIRE_VERSION & 1))
		ripc__partner_aborted(partner);
	else
		ctx->stats.drop_token++;
}

static void input_answer(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct partner *partner = meant(ctx, device, packet, event);
	bool from_route;

	if (partner && ctx->seal && !ripc__sealed_same(partner->peer->route, event->from))
		partner = NULL;
	from_route = partner && ripc__peer_is_at(ctx, partner->peer, device, event->from);
	if (partner && packet->h.type != WIRE_ABORT && !from_route &&
			!ripc__follow_denied(partner, packet))
		partner = NULL;
	if (packet->h.type == WIRE_RETRY)
		input_retry(ctx, partner, packet, from_route);
	else if (packet->h.type == WIRE_GONE)
		input_gone(ctx, partner, packet, from_route);
	else
		input_abort(ctx, partner, packet, event->is_old);
}

/*
 * A partner that was thought to be gone says hello. Either the packet is late, or the partner was
 * dropped by mistake, for example because another host had its address. The partner gets a new
 * token. If that token comes back, the partner lives.
 */
static void challenge(struct partner *partner, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct wire_packet hello = {0};

	ctx->stats.drop_token++;
	if (!ripc__peer_is_at(ctx, partner->peer, device, event->from) &&
			ripc__partner_reroute(partner, device, event->from))
		return;
	ripc__partner_challenge(partner);
	ripc__partner_greeted(partner, packet);
	ripc__partner_header(partner, &hello, WIRE_HELLO_ONLY);
	ripc__stranger_send(ctx, device, event->from, &hello, event->len);
}

/*
 * Is the packet from a partner, by its keys? Messages that were accepted from it go on, whatever
 * it may send now.
 */
static bool is_of_partner(const struct ripc_service *service, const struct wire_packet *packet,
		 const struct ripc__event *event)
{
	const struct partner *partner;
	uint32_t place = 0;

	while ((partner = ripc__pair_at(service, packet->h.src, place++))) {
		if (!partner->dead && partner->peer && ripc__sealed_same(partner->peer->route,
				event->from))
			return true;
	}
	return false;
}

/*
 * A valid first packet, from a new partner or from one that has not got our token yet. From a
 * partner on trial the packet counts only as a hello. The same holds if the packet may be from a
 * partner at another address, because both ends have said hello at once: the answer is sent to that
 * address, and the true sender repeats its packet with our token.
 */
static struct partner *first_contact(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_service *service = ripc__map_get(&ctx->services.by_incarnation, packet->h.dst);
	struct partner *partner = NULL;
	enum claim claim;

	if (ctx->seal && !ripc__sealed_lets_in(ctx->seal, event->from, packet->hello.context,
			packet->hello.service, service->id) &&
			!is_of_partner(service, packet, event)) {
		answer_refused(ctx, device, packet, event);
		return NULL;
	}
	claim = ripc__claim_find(service, device, packet, event->from, &partner);
	if (claim == CLAIM_REFUSED) {
		ctx->stats.drop_token++;
		return NULL;
	}
	if (partner && partner->dead) {
		challenge(partner, device, packet, event);
		return NULL;
	}
	if (!partner && ripc__partner_accept(service, device, packet, event->from, &partner))
		return NULL;
	ripc__point(ctx, "in_hello");
	ctx->stats.hellos++;
	(void)ripc__rights_judge(partner);
	ripc__partner_hello(partner, packet);
	partner->crossed = claim == CLAIM_CROSSED;
	if (!partner->crossed)
		ripc__pair_inherit(partner);
	partner->known = false;
	ripc__partner_greet(partner);
	return claim == CLAIM_CROSSED || partner->on_trial ? NULL : partner;
}

static bool has_proof(struct ripc_context *ctx, const struct wire_packet *packet,
		const struct ripc__event *event)
{
	const uint8_t *host = event->from->host;

	return ripc__proof_valid(ctx, packet->hello.context, host, packet->hello.proof) ||
		ripc__proof_valid(ctx, packet->h.src, host, packet->hello.proof);
}

/* A packet without a valid token. Returns the partner that was made or found, or NULL. */
static RIPC__RARE struct partner *stranger(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_service *service;

	if (packet->h.token && !is_answer(packet) &&
			ripc__token_limit_is_reached(ctx, device, event->from)) {
		ctx->stats.drop_token++;
		return NULL;
	}
	if (!verified(ctx, packet))
		return NULL;
	if (is_answer(packet)) {
		input_answer(ctx, device, packet, event);
		return NULL;
	}
	service = ripc__map_get(&ctx->services.by_incarnation, packet->h.dst);
	if (!service || service->closing) {
		ctx->stats.drop_token++;
		answer_gone(ctx, device, packet, event);
		return NULL;
	}
	if (!(packet->h.flags & WIRE_F_HELLO) || packet->h.token) {
		ctx->stats.drop_token++;
		if (!packet->h.token || ripc__token_limit_take(ctx, device, event->from))
			answer_retry(ctx, device, packet, event);
		return NULL;
	}
	if (packet->hello.to_service != service->id) {
		ctx->stats.drop_malformed++;
		return NULL;
	}
	if (!has_proof(ctx, packet, event)) {
		ctx->stats.drop_proof++;
		answer_retry(ctx, device, packet, event);
		return NULL;
	}
	return first_contact(ctx, device, packet, event);
}

/* ---- partners ---------------------------------------------------------------------------- */

static void input_echo(struct partner *partner, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct wire_packet answer = {.value = packet->value, .stamp = packet->stamp};
	/* A partner that has only claimed its ID gets the reply, wherever the packet came from. */
	bool by_route = !partner->resolved ||
		ripc__peer_is_at(ctx, partner->peer, device, event->from);

	if (!by_route) {
		ripc__partner_header_bare(partner, &answer, WIRE_ECHO_REPLY);
		ripc__stranger_send(ctx, device, event->from, &answer, event->len);
	}
	/* The network of the packet may fail in the other direction, for lack of descriptors. */
	if (by_route || ripc__peer_device(ctx, partner->peer) != device) {
		ripc__partner_send(partner, &answer, WIRE_ECHO_REPLY);
	}
}

/* The reply to a ping, or to the echo that tests a new route. */
static void input_echo_reply(struct partner *partner, const struct wire_packet *packet,
		struct device *device, const struct ripc__addr *from)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t now_us = ctx->env.now_us(ctx->env.arg);

	for (struct ping *ping = ctx->peers.pings; ping; ping = ping->next) {
		/* Each repetition has a stamp of its own, which is given back. */
		if (ping->nonce == packet->value && !ping->done &&
				packet->stamp >= ping->began_us && packet->stamp <= now_us) {
			ping->rtt_us = now_us - packet->stamp;
			ping->done = true;
			ctx->loop.changed = true;
			ripc__peer_rtt(partner->peer, ping->rtt_us);
		}
	}
	ripc__claim_echoed(partner, packet->value);
	ripc__hint_echo(partner, packet->value);
	ripc__route_proven(partner, packet->value, device, from);
}

/*
 * Is the packet refused, because the partner may not send to our service? An ECHO of a partner that
 * we send to is answered. receive/incoming.c judges an ANNOUNCE; other packets are no messages.
 */
static bool is_refused(struct partner *partner, const struct wire_packet *packet)
{
	if (packet->h.type == WIRE_SHORT)
		return !ripc__is_permitted(partner, packet);
	return packet->h.type == WIRE_ECHO && !partner->resolved && !ripc__may_come(partner);
}

/*
 * Refuses the packet: once per repetition time at most, except that each request is answered,
 * because its sender waits. A sender without our token would take the answer for the refusal of all
 * that it has sent. This sender gets our hello, and the answer when it sends with our token.
 */
static RIPC__RARE void refuse(struct partner *partner, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (!packet->h.token) {
		ctx->stats.drop_token++;
		return;
	}
	if (packet->h.type == WIRE_SHORT && !ripc__short_spend(partner, packet))
		return;
	if (packet->call.kind == WIRE_CALL_ASKS || ripc__partner_may_repeat(partner))
		answer_refused(ctx, device, packet, event);
	else
		ctx->stats.drop_token++;
}

/* Passes the packet to the room that takes this type. Echoes are answered here. */
static void dispatch(struct partner *partner, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	uint8_t type = packet->h.type;

	if (ripc__receive_handlers[type])
		ripc__receive_handlers[type](partner, packet);
	else if (ripc__send_handlers[type])
		ripc__send_handlers[type](partner, packet);
	else if (ripc__group_handlers[type])
		ripc__group_handlers[type](partner, packet);
	else if (type == WIRE_ECHO)
		input_echo(partner, device, packet, event);
	else if (type == WIRE_ECHO_REPLY)
		input_echo_reply(partner, packet, device, event->from);
}

/* An ack can end sends and so lose or free the partner: look it up again afterwards. */
static struct partner *take_ack(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t token = partner->token_in;

	ripc__outgoing_answer(partner, &packet->ack);
	return ripc__partner_by_token_in(ctx, token);
}

static void input_partner(struct ripc_context *ctx, struct device *device, struct partner *partner,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	partner->heard = ripc__now_1024us(ctx);
	/* A plain short is verified while it is copied; other packets before they take effect. */
	if (packet->h.type == WIRE_SHORT && !(packet->h.flags & (WIRE_F_HELLO | WIRE_F_ACK)) &&
			partner->known && !partner->denied) {
		ripc__partner_touch(partner);
		ripc__short_input(partner, packet);
		return;
	}
	partner->peer->heard = partner->heard;
	if (packet->h.type == WIRE_DATA) {
		ripc__partner_touch(partner);
		ripc__incoming_data(partner, packet);
		return;
	}
	if (!verified(ctx, packet))
		return;
	if (packet->h.flags & WIRE_F_HELLO && packet->hello.to_service != partner->service->id) {
		ctx->stats.drop_malformed++;
		return;
	}
	ripc__partner_touch(partner);
	ripc__stamps_take(ctx, partner->peer, packet);
	if (packet->h.flags & WIRE_F_HELLO) {
		ripc__partner_hello(partner, packet);
		partner->crossed = false;
		ripc__pair_inherit(partner);
	}
	if (packet->h.flags & WIRE_F_ACK)
		partner = take_ack(partner, packet);
	if (!partner)
		return;
	if (partner->denied && is_refused(partner, packet))
		refuse(partner, device, packet, event);
	else if (packet->h.type == WIRE_SHORT)
		ripc__short_input(partner, packet);
	else
		dispatch(partner, device, packet, event);
}

static RIPC__RARE void not_understood(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event, int error)
{
	if (error == -EPROTONOSUPPORT)
		answer_version(ctx, device, packet, event);
	else
		ctx->stats.drop_malformed++;
}

/* Our token has come back for the first time. NULL: the packet does not count. */
static RIPC__RARE struct partner *token_returned(struct ripc_context *ctx, struct device *device,
		struct partner *partner, const struct wire_packet *packet,
		const struct ripc__event *event)
{
	if (is_guessed(ctx, device, partner, event)) {
		ctx->stats.drop_token++;
		return NULL;
	}
	if (!verified(ctx, packet))
		return NULL;
	partner->known = true;
	ripc__crowd_proven(partner);
	if (partner->dead)
		ripc__partner_revive(partner);
	return partner;
}

/*
 * Is the packet, which came by another path than the partner's route, from somebody else? This can
 * be if the partner has only claimed its ID, and the packet has another token, or queries whether
 * we know the partner that gave this token (partner/claim.c). A liar may have got the token from
 * us, and given it to the true owner of the ID as its own: then the owner has sent the packet.
 */
static bool is_of_another(const struct partner *partner, const struct wire_packet *packet)
{
	if (partner->resolved)
		return false;
	return (packet->h.type == WIRE_ECHO && packet->stamp == 0) ||
		(packet->h.flags & WIRE_F_HELLO && packet->hello.token != partner->token_out);
}

/* Was the partner thought to be gone? Its packets do not count until it was challenged. */
static bool is_late(const struct partner *partner)
{
	return partner->dead && !partner->challenged;
}

/*
 * Answers an echo that queries whether we gave this token (partner/claim.c), if the token is that
 * of a partner that was thought to be gone. A RETRY would deny the partner that got the token from
 * us, and a second partner of the same pair would follow.
 */
static RIPC__RARE bool late_echo(struct ripc_context *ctx, struct device *device,
		struct partner *partner, const struct wire_packet *packet,
		const struct ripc__event *event)
{
	struct wire_packet reply = {.value = packet->value};

	if (packet->h.type != WIRE_ECHO || packet->stamp != 0 || (!partner->resolved &&
			!ripc__peer_is_at(ctx, partner->peer, device, event->from)) ||
			ripc__token_limit_is_reached(ctx, device, event->from) ||
			!verified(ctx, packet))
		return false;
	ripc__partner_header_bare(partner, &reply, WIRE_ECHO_REPLY);
	ripc__stranger_send(ctx, device, event->from, &reply, event->len);
	return true;
}

/* Judges a packet with a token that came by another path. False: the packet has no effect. */
static RIPC__RARE bool from_elsewhere(struct ripc_context *ctx, struct device *device,
		struct partner *partner, struct wire_packet *packet,
		const struct ripc__event *event)
{
	if (is_of_another(partner, packet)) {
		ctx->stats.drop_token++;
		if (verified(ctx, packet))
			answer_retry(ctx, device, packet, event);
		return false;
	}
	/* Memory keys and return buffers are for the path by which they came. */
	packet->announce.keys = packet->n_returns = 0;
	if (packet->h.type != WIRE_ECHO_REPLY)
		ripc__peer_moved(partner, device, event->from, event->len);
	return true;
}

void ripc__input(struct ripc_context *ctx, struct device *device, const struct ripc__event *event)
{
	struct wire_packet packet;
	struct partner *partner;
	bool from_route;
	int error = wire_decode(event->data, event->len, &packet);

	ctx->stats.datagrams_received++;
	if (error) {
		not_understood(ctx, device, &packet, event, error);
		return;
	}
	packet.intact = ripc__is_intact(device);
	partner = ripc__partner_by_token(ctx, &packet.h);
	/* The usual case: a partner that lives and has given our token back, by its route. */
	if (packet.plain && partner && partner->known && !partner->dead && !partner->denied &&
			ripc__peer_is_at(ctx, partner->peer, device, event->from)) {
		partner->heard = ripc__now_1024us(ctx);
		ripc__partner_touch(partner);
		ripc__short_plain(partner, &packet);
		return;
	}
	if (partner && ctx->seal && !ripc__sealed_same(partner->peer->route, event->from)) {
		ctx->stats.drop_token++; /* from another member's keys */
		return;
	}
	if (partner && is_late(partner) && late_echo(ctx, device, partner, &packet, event))
		return;
	if (!partner || is_answer(&packet) || is_late(partner))
		partner = stranger(ctx, device, &packet, event);
	else if (!partner->known)
		partner = token_returned(ctx, device, partner, &packet, event);
	if (!partner)
		return;
	from_route = ripc__peer_is_at(ctx, partner->peer, device, event->from);
	if (partner->dead ||
			(!from_route && ripc__token_limit_is_reached(ctx, device, event->from))) {
		ctx->stats.drop_token++;
		return;
	}
	if (!from_route) {
		if (!from_elsewhere(ctx, device, partner, &packet, event))
			return;
	} else if (!(device->attr.caps & RIPC_CAP_READ)) {
		packet.announce.keys = packet.n_returns = 0;
	} else if (!(device->attr.caps & RIPC_CAP_WRITE)) {
		packet.n_returns = 0;
	}
	input_partner(ctx, device, partner, &packet, event);
}

void ripc__input_event(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	switch (event->kind) {
	case RIPC_EV_READ:
	case RIPC_EV_WRITE:
		ripc__part_ended(event->cookie, event->status);
		break;
	case RIPC_EV_FENCED:
		if (ripc__is_permit(event->cookie))
			ripc__permit_fenced(event->cookie);
		else
			ripc__exposed_fenced(event->cookie);
		break;
	case RIPC_EV_PEER:
		ripc__route_opened(ctx, device, event);
		break;
	case RIPC_EV_HINT:
		ripc__hint(ctx, device, event);
		break;
	default:
		break;
	}
}

/* ---- keyed ------------------------------------------------------------------------------- */

/* Consequences for partners of the end of a handshake, and of a change of rights. */

/* Does the event concern the peer? A success counts on all networks, a failure only on its own. */
static bool is_about(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event, struct peer *peer)
{
	if (!event->status && ripc__sealed_same(peer->route, event->from))
		return true;
	return ripc__peer_is_at(ctx, peer, device, event->from);
}

/* Are requests or long messages in progress that the partner may have accepted? */
static bool may_answer(struct partner *partner)
{
	for_each_row(longs, partner) {
		if (ripc__oldest_sent(longs) != longs->next)
			return true;
	}
	return partner->n_asked;
}

/*
 * May the partner's key still use its ID? A partner that has not said hello yet stays in three
 * cases only: our service may send to it, another handshake is in progress and may bring that
 * right, or the partner may reply to requests that were sent before the right ended.
 */
static bool may_stay(struct partner *partner)
{
	return ripc__rights_judge(partner) && (partner->state == PARTNER_READY ||
		!partner->barred || may_answer(partner) || ripc__refused_waits(partner));
}

/*
 * A handshake has ended. If it has failed, or the partner's key may not use its ID any more, the
 * partner is lost: messages that were not sent yet go to the next owner of the ID, or fail. A
 * partner that only lacks a right stays: messages in progress go on, and replies may come
 * (partner/rights.h).
 */
void ripc__handshake_ended(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	ctx->loop.changed = true;
	for_each_partner_safe(partner, ctx) {
		int status = event->status;

		/*
		 * If the first partner has begun another handshake, all wait for that. If the route
		 * has failed, all wait for another route.
		 */
		if (!partner->peer || partner->dead || partner->peer->opening ||
				partner->peer->broken ||
				!is_about(ctx, device, event, partner->peer))
			continue;
		partner->refuses = false;
		if (!status && !may_stay(partner))
			status = -EACCES;
		if (status)
			ripc__partner_lost(partner, status, UINT64_MAX);
	}
}

void ripc__rights_changed(struct ripc_context *ctx)
{
	ctx->loop.changed = true;
	for_each_partner_safe(partner, ctx) {
		if (!partner->peer || partner->dead)
			continue;
		(void)ripc__rights_judge(partner);
		if (partner->barred)
			ripc__outgoing_advance(partner); /* waiting messages end */
	}
}
