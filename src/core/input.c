/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One received packet on its way: known partner by its token, or stranger; checked before it
 * changes anything; then to the file of its type.
 *
 * Design notes. SHORT, ANNOUNCE with its first bytes, and DATA verify their checksum while (or
 * before) they are copied. All other packets have no payload and are verified here.
 */
#include <errno.h>
#include <string.h>

#include "core.h"
#include "receiving.h"
#include "returns.h"
#include "util/bytes.h"
#include "util/crc32c.h"
#include "util/rare.h"

#define LATE_US 250000u /* what a packet may be late by, for all that is assumed here */

static bool verified(struct ripc_context *ctx, const struct wire_packet *packet)
{
	if (packet->intact ||
			wire_verify(packet, ripc__crc32c(0, packet->payload, packet->payload_len)))
		return true;
	ctx->stats.drop_checksum++;
	return false;
}

/* ---- strangers --------------------------------------------------------------------------- */

static void swap_ends(const struct wire_packet *packet, struct wire_packet *answer)
{
	answer->h.src = packet->h.dst;
	answer->h.dst = packet->h.src;
	answer->h.token = packet->h.flags & WIRE_F_HELLO ? packet->hello.token : 0;
	answer->h.number = packet->h.token;
}

/* For how long the incarnation has certainly not been here, microseconds. */
static uint64_t gone_for_us(struct ripc_context *ctx, uint64_t incarnation)
{
	for (uint32_t i = 0; i < CLOSED_MAX; i++) {
		if (ctx->closed[i].incarnation == incarnation)
			return ctx->now_us - ctx->closed[i].closed_us;
	}
	return ctx->now_us - ctx->closed_floor_us;
}

static void answer_gone(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_GONE};

	if (packet->h.type >= WIRE_RETRY && packet->h.type != WIRE_ECHO)
		return; /* never answer an answer */
	answer.value = gone_for_us(ctx, packet->h.dst);
	swap_ends(packet, &answer);
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

static void answer_retry(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_RETRY};
	uint64_t context = packet->h.flags & WIRE_F_HELLO ? packet->hello.context : 0;

	if (packet->h.type >= WIRE_RETRY && packet->h.type != WIRE_ECHO)
		return;
	swap_ends(packet, &answer);
	answer.value = ripc__proof(ctx, context, event->from->host, 0);
	ctx->stats.retries++;
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

/* Is this about a packet that we sent? RETRY and GONE give back what only its receiver saw. */
static struct partner *meant(struct ripc_context *ctx, const struct wire_packet *packet)
{
	return ripc__partner_by_echo(ctx, &packet->h, packet->h.token, packet->h.number);
}

static void input_retry(struct ripc_context *ctx, const struct wire_packet *packet)
{
	struct partner *partner = meant(ctx, packet);
	bool forgotten = partner && packet->h.number && packet->h.number == partner->token_out;
	bool repeat;

	if (!partner || partner->dead || (partner->token_out && !forgotten)) {
		ctx->stats.drop_token++;
		return;
	}
	partner->proof = packet->value;
	partner->known = false;
	if (forgotten) {
		partner->token_out = 0;
		partner->state = PARTNER_HELLO;
	}
	repeat = ripc__partner_may_repeat(partner);
	ripc__outgoing_again(partner, forgotten, repeat);
	if (!repeat)
		return;
	ripc__held_send(partner);
	if (!partner->held && list_empty(&partner->outgoing)) {
		struct wire_packet hello = {0};

		ripc__partner_header(partner, &hello, WIRE_HELLO_ONLY);
		ripc__partner_send(partner, &hello);
	}
}

/*
 * Since when it has been gone. But if it is said to have been so long before we last heard it, some
 * clock has leapt: then it is not known which messages came after its end.
 */
static uint64_t gone_since(const struct ripc_context *ctx, const struct partner *partner,
		uint64_t gone_for_us)
{
	uint32_t silence = (uint32_t)(ctx->now_us >> 10) - partner->heard;

	if (partner->token_out && gone_for_us > ((uint64_t)silence << 10) + LATE_US)
		return UINT64_MAX;
	return gone_for_us < ctx->now_us ? ctx->now_us - gone_for_us : 0;
}

static void input_gone(struct ripc_context *ctx, const struct wire_packet *packet)
{
	struct partner *partner = meant(ctx, packet);

	if (partner && !partner->dead)
		ripc__partner_lost(partner, -ENOENT, gone_since(ctx, partner, packet->value));
	else
		ctx->stats.drop_token++;
}

/*
 * Who does not understand our version gives back eight bytes of the packet that it has not
 * understood: of a first one, our token. Who does had an altered packet, and will get it again.
 */
static void input_abort(struct ripc_context *ctx, const struct wire_packet *packet)
{
	struct partner *partner = ripc__partner_by_echo(ctx, &packet->h, packet->h.number, 0);

	if (partner && !partner->dead && !partner->token_out &&
			!(packet->value >> WIRE_VERSION & 1))
		ripc__partner_aborted(partner);
	else
		ctx->stats.drop_token++;
}

/* Did it come from where the route to the partner leads? */
static bool is_from_route(struct device *device, const struct partner *partner,
		const struct ripc__event *event)
{
	return ripc__peer_device(partner->service->ctx, partner->peer) == device &&
		device->ops->peer_matches(device->port, partner->peer->route, event->from);
}

/*
 * A partner that talks to us from where its token came back from, and a hello of the same name
 * from elsewhere: its proof says who lives there, not that the partner does.
 */
static bool is_intruder(struct device *device, const struct partner *partner,
		const struct ripc__event *event)
{
	const struct ripc_context *ctx = partner->service->ctx;

	return partner->known &&
		ctx->now_us - partner->used_us < ctx->cfg.peer_timeout_ms * 1000ull &&
		!is_from_route(device, partner, event);
}

/*
 * One that was taken for gone says hello: perhaps late, perhaps it was a mistake, as when another
 * host had its address. It gets a token that was made since: if that comes back, it lives.
 */
static void challenge(struct partner *partner, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct wire_packet hello = {0};

	ctx->stats.drop_token++;
	if (!is_from_route(device, partner, event) &&
			ripc__partner_reroute(partner, device, event->from))
		return;
	partner->token_out = packet->hello.token;
	partner->state = PARTNER_READY;
	ripc__partner_header(partner, &hello, WIRE_HELLO_ONLY);
	ripc__stranger_send(ctx, device, event->from, &hello, event->len);
}

/* A valid first packet, from somebody new or somebody who has not got our token yet. */
static struct partner *first_contact(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_service *service = ripc__map_get(&ctx->services_by_incarnation, packet->h.dst);
	struct partner *partner = ripc__partner_by_claim(service, packet->h.src,
		packet->hello.service, packet->hello.context);
	struct wire_packet hello = {0};

	if (partner && partner->dead) {
		challenge(partner, device, packet, event);
		return NULL;
	}
	if (partner && is_intruder(device, partner, event)) {
		ctx->stats.drop_token++;
		return NULL;
	}
	if (!partner && ripc__partner_accept(service, device, packet, event->from, &partner))
		return NULL;
	ripc__point(ctx, "in_hello");
	ctx->stats.hellos++;
	ripc__partner_hello(partner, packet);
	partner->known = false;
	ripc__partner_header(partner, &hello, WIRE_HELLO_ONLY);
	ripc__partner_send(partner, &hello);
	return partner;
}

/* A packet without a valid token. Returns the partner, if it made or found one. */
static RIPC__RARE struct partner *stranger(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct ripc_service *service;

	if (!verified(ctx, packet))
		return NULL;
	if (packet->h.type == WIRE_RETRY) {
		input_retry(ctx, packet);
		return NULL;
	}
	if (packet->h.type == WIRE_GONE) {
		input_gone(ctx, packet);
		return NULL;
	}
	if (packet->h.type == WIRE_ABORT) {
		input_abort(ctx, packet);
		return NULL;
	}
	service = ripc__map_get(&ctx->services_by_incarnation, packet->h.dst);
	if (!service || service->closing) {
		ctx->stats.drop_token++;
		answer_gone(ctx, device, packet, event);
		return NULL;
	}
	if (!(packet->h.flags & WIRE_F_HELLO) || packet->h.token) {
		ctx->stats.drop_token++;
		answer_retry(ctx, device, packet, event);
		return NULL;
	}
	if (packet->hello.to_service != service->id || packet->hello.token == 0 ||
			packet->hello.service == 0 || packet->h.src == 0) {
		ctx->stats.drop_malformed++;
		return NULL;
	}
	if (!ripc__proof_valid(ctx, packet->hello.context, event->from->host,
			packet->hello.proof)) {
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

	if (is_from_route(device, partner, event)) {
		ripc__partner_header(partner, &answer, WIRE_ECHO_REPLY);
		ripc__partner_send(partner, &answer);
	} else {
		ripc__partner_header_bare(partner, &answer, WIRE_ECHO_REPLY);
		ripc__stranger_send(ctx, device, event->from, &answer, event->len);
	}
}

static void dispatch(struct partner *partner, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	switch (packet->h.type) {
	case WIRE_ANNOUNCE:
		ripc__incoming_announce(partner, packet);
		break;
	case WIRE_PULL:
		ripc__outgoing_pull(partner, packet);
		break;
	case WIRE_ANSWER:
		ripc__outgoing_answer(partner, &packet->ack);
		break;
	case WIRE_CANCEL:
		ripc__incoming_cancel(partner, packet);
		break;
	case WIRE_ECHO:
		input_echo(partner, device, packet, event);
		break;
	case WIRE_ECHO_REPLY:
		ripc__peer_echo_reply(partner, packet, device, event->from);
		break;
	default:
		break;
	}
}

/* An ack can end sends and so lose or free the partner: look it up again afterwards. */
static struct partner *take_ack(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_service *service = partner->service;
	uint64_t id = partner->id, context = partner->peer->context;

	ripc__outgoing_answer(partner, &packet->ack);
	return ripc__partner_by_claim(service, packet->h.src, id, context);
}

static void input_partner(struct ripc_context *ctx, struct device *device, struct partner *partner,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	partner->heard = (uint32_t)(ctx->now_us >> 10);
	/* A plain short is verified while it is copied; all others before they have effects. */
	if (packet->h.type == WIRE_SHORT && !(packet->h.flags & (WIRE_F_HELLO | WIRE_F_ACK)) &&
			partner->known) {
		ripc__partner_touch(partner);
		ripc__short_input(partner, packet);
		return;
	}
	if (packet->h.type == WIRE_DATA) {
		ripc__partner_touch(partner);
		ripc__incoming_data(partner, packet);
		return;
	}
	if (!verified(ctx, packet))
		return;
	ripc__partner_touch(partner);
	if (packet->h.flags & WIRE_F_HELLO && packet->hello.token)
		ripc__partner_hello(partner, packet);
	if (packet->h.flags & WIRE_F_ACK)
		partner = take_ack(partner, packet);
	if (!partner)
		return;
	if (packet->h.type == WIRE_SHORT)
		ripc__short_input(partner, packet);
	else
		dispatch(partner, device, packet, event);
}

static void abort_version(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h = {.type = WIRE_ABORT, .src = packet->h.dst,
		.dst = packet->h.src, .token = packet->h.token}, .value = 1u << WIRE_VERSION};

	ctx->stats.drop_version++;
	if (packet->h.type == WIRE_ABORT)
		return;
	/* Of a first packet, the token that it gives. */
	if (event->len >= WIRE_HEADER + 8)
		answer.h.number = get64((const uint8_t *)event->data + WIRE_HEADER);
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

static RIPC__RARE void not_understood(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event, int error)
{
	if (error == -EPROTONOSUPPORT)
		abort_version(ctx, device, packet, event);
	else
		ctx->stats.drop_malformed++;
}

void ripc__input(struct ripc_context *ctx, struct device *device, const struct ripc__event *event)
{
	struct wire_packet packet;
	struct partner *partner;
	int error = wire_decode(event->data, event->len, &packet);

	ctx->stats.datagrams_received++;
	if (error) {
		not_understood(ctx, device, &packet, event, error);
		return;
	}
	packet.intact = ripc__is_intact(device);
	partner = ripc__partner_by_token(ctx, &packet.h);
	if (!partner || packet.h.type == WIRE_RETRY || packet.h.type == WIRE_GONE ||
			packet.h.type == WIRE_ABORT) {
		partner = stranger(ctx, device, &packet, event);
		if (!partner)
			return;
	} else if (!partner->known) {
		if (!verified(ctx, &packet))
			return;
		partner->known = true; /* our token came back */
		if (partner->dead)
			ripc__partner_revive(partner);
	}
	if (partner->dead) {
		ctx->stats.drop_token++;
		return;
	}
	if (!is_from_route(device, partner, event)) {
		/* They are for the path by which they came. */
		packet.announce.keys = packet.n_returns = 0;
		if (packet.h.type != WIRE_ECHO_REPLY)
			ripc__peer_moved(partner, device, event->from, event->len);
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
		ripc__read_ended(ctx, event->cookie, event->status);
		break;
	case RIPC_EV_FENCED:
		if (ripc__is_permit(event->cookie))
			ripc__permit_fenced(event->cookie);
		else
			ripc__opened_fenced(event->cookie);
		break;
	case RIPC_EV_WRITE:
		ripc__write_ended(ctx, event->cookie, event->status);
		break;
	case RIPC_EV_PEER:
		ripc__route_opened(ctx, device, event);
		break;
	default:
		break;
	}
}
