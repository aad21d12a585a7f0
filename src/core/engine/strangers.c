/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers to packets that no partner of ours has sent: no state is made for them. */
#include "strangers.h"

#include "core/base/proof.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/wire/wire.h"
#include "util/bytes.h"

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

void ripc__answer_gone(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_GONE};

	if (wire_is_unanswered(packet->h.type))
		return; /* never answer an answer */
	answer.value = gone_for_us(ctx, packet->h.dst);
	swap_ends(packet, &answer);
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

/* The proof is for whoever asks: for its context, or, where no hello tells that, its service. */
void ripc__answer_retry(struct ripc_context *ctx, struct device *device,
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
 * Its sender may not be what its hello says, or may not send to us: both ends say so. A packet with
 * a token is named by its token and its number, a hello by the token that it gives.
 */
void ripc__answer_refused(struct ripc_context *ctx, struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	struct wire_packet answer = {.h.type = WIRE_ABORT, .value = WIRE_REFUSED};

	swap_ends(packet, &answer);
	answer.h.token = packet->h.token;
	answer.h.number = packet->h.token ? packet->h.number : packet->hello.token;
	ctx->stats.drop_token++;
	ripc__stranger_send(ctx, device, event->from, &answer, event->len);
}

void ripc__answer_version(struct ripc_context *ctx, struct device *device,
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
