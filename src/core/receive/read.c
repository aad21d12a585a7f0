/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that are read: if the network can read by itself what a partner has opened for
 * us, it reads the items straight to their places (message/move.c), with the keys of the
 * announcement.
 *
 * Design notes. When a read fails, or none is accepted for long, the message is pulled
 * (incoming.c) as soon as no read is in progress: until then the places may be written to. For
 * the same reason a message that is given up leaves its places here. The device checks the keys
 * and addresses of the partner, which can only spoil its own message. The checksum may arrive
 * when all has been read, because its sender computes it meanwhile.
 */
#include <stdlib.h>

#include "core/message/move.h"
#include "core/message/places.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "internal.h"
#include "util/hash/blocksum.h"
#include "util/list.h"

/* ---- the beginning and the end ----------------------------------------------------------- */

static void reading_free(struct reading *reading)
{
	ripc__mover_close(&reading->mover);
	if (reading->incoming)
		reading->incoming->reading = NULL;
	free(reading);
}

/* The bytes that the announcement carries, from the first on, need not be read. */
static void take_carried(struct reading *reading, const struct wire_packet *announce)
{
	struct incoming *incoming = reading->incoming;

	incoming->crc = incoming->n_pieces = 0;
	incoming->have = incoming->got = incoming->high = 0;
	ripc__collect(incoming, announce, 0);
	reading->mover.next = reading->mover.moved = incoming->got;
}

static void take_sum(struct reading *reading, const struct wire_packet *announce)
{
	reading->is_told = announce->announce.keys != WIRE_KEYS_SUMMING || !reading->mover.sums;
	reading->told = announce->announce.sum;
}

/* Is the read message known to be right, or can the sum of whole blocks show that? */
static bool is_checkable(const struct device *device, const struct wire_packet *announce)
{
	const struct ripc__attr *attr = &device->attr;

	return ripc__moves_intact(attr) || ((announce->h.flags & WIRE_F_LAST ||
		announce->announce.keys == WIRE_KEYS_SUMMING) &&
		(!attr->read_max || attr->read_max >= RIPC__BLOCK));
}

static void read_ended(struct mover *mover, const struct part *part, int status);

bool ripc__reading_start(struct incoming *incoming, const struct wire_packet *announce)
{
	struct ripc_context *ctx = context_of(incoming);
	const struct ripc_msg *public = &incoming->message->public;
	struct reading *reading;

	if (incoming->reading || incoming->unreadable ||
			announce->payload_len >= incoming->total ||
			!is_checkable(ripc__peer_device(ctx, incoming->partner->peer), announce))
		return false;
	reading = calloc(1, sizeof(*reading) + public->n_items * sizeof(struct item_key));
	if (!reading)
		return false;
	reading->incoming = incoming;
	reading->mover = (struct mover){.moves = &ctx->receives.reads, .ctx = ctx,
		.partner = &incoming->partner, .items = public->items,
		.places = incoming->message, .keys = (struct item_key *)(reading + 1),
		.ended = read_ended, .total = incoming->total, .n_items = public->n_items};
	for (uint32_t i = 0; i < public->n_items; i++)
		wire_item_key(announce, i, &reading->mover.keys[i].key.address,
			&reading->mover.keys[i].key.key);
	if (!ripc__mover_open(&reading->mover)) {
		free(reading);
		return false;
	}
	incoming->reading = reading;
	take_carried(reading, announce);
	take_sum(reading, announce);
	ripc__mover_start(&reading->mover);
	return true;
}

void ripc__reading_fail(struct reading *reading)
{
	struct incoming *incoming = reading->incoming;

	reading->failed = true;
	list_remove(&reading->mover.node);
	if (reading->mover.n_busy)
		return;
	reading_free(reading);
	ripc__incoming_unreadable(incoming);
}

bool ripc__reading_is_stuck(const struct reading *reading)
{
	const struct mover *mover = &reading->mover;

	/* A sender that computes for long sends announcements meanwhile. */
	uint64_t patience_us = mover->moved == mover->total ?
		ripc__silence_of_read_us(mover->ctx) : ripc__silence_of_move_us(mover->ctx);

	return mover->n_busy == 0 && mover->ctx->now_us - mover->moved_us >= patience_us;
}

/* All bytes have been read. */
static void complete(struct reading *reading)
{
	struct incoming *incoming = reading->incoming;

	if (!reading->is_told)
		return; /* that sum will arrive */
	if (reading->mover.sums && ripc__blocksum_told(reading->mover.sum) != reading->told) {
		reading->mover.ctx->stats.drop_checksum++;
		ripc__reading_fail(reading);
		return;
	}
	reading_free(reading);
	ripc__incoming_was_read(incoming);
}

bool ripc__reading_told(struct reading *reading, const struct wire_packet *announce)
{
	struct mover *mover = &reading->mover;
	bool is_told;

	if (reading->is_told || !is_checkable(mover->device, announce))
		return false;
	take_sum(reading, announce);
	mover->moved_us = mover->ctx->now_us;
	is_told = reading->is_told;
	if (mover->moved == mover->total)
		complete(reading);
	return is_told;
}

/* ---- given up ---------------------------------------------------------------------------- */

bool ripc__reading_leave(struct reading *reading)
{
	struct incoming *incoming = reading->incoming;
	struct mover *mover = &reading->mover;

	if (mover->n_busy == 0) {
		reading_free(reading);
		return false;
	}
	reading->service = incoming->partner->service;
	reading->lent = incoming->lent;
	reading->incoming = NULL;
	incoming->reading = NULL;
	list_remove(&mover->node);
	list_append(&mover->ctx->receives.lingering, &mover->node);
	return true;
}

/* Nothing is written to the message's places any more. */
static void places_leave(struct reading *reading)
{
	struct ripc_context *ctx = reading->mover.ctx;
	struct ripc_service *service = reading->service;
	struct message *message = reading->mover.places;

	if (reading->lent)
		reading->lent->in_use = false;
	ctx->sends.n_orphans -= service == NULL;
	ctx->loop.changed = true;
	reading_free(reading); /* first, because deregistering needs the memory */
	ripc__places_release(service, message);
}

void ripc__readings_orphan(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;

	list_for_each_entry(reading, &ctx->receives.lingering, struct reading, mover.node) {
		if (reading->service != service)
			continue;
		ripc__places_orphan(reading->mover.places);
		reading->service = NULL;
		reading->lent = NULL;
		ctx->sends.n_orphans++;
	}
}

void ripc__readings_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->receives.lingering)) {
		struct reading *reading = list_entry(list_pop(&ctx->receives.lingering),
			struct reading, mover.node);

		ripc__places_release(reading->service, reading->mover.places);
		free(reading);
	}
}

/* ---- reads ------------------------------------------------------------------------------- */

static void came(struct reading *reading, const struct part *part)
{
	struct incoming *incoming = reading->incoming;
	struct mover *mover = &reading->mover;

	mover->ctx->stats.read_bytes += part->len;
	incoming->heard_us = incoming->arrived_us = mover->ctx->now_us;
	if (mover->sums)
		mover->sum += ripc__blocksum(part->mem, part->len, part->end - part->len);
	if (mover->moved == mover->total)
		complete(reading);
}

static void read_ended(struct mover *mover, const struct part *part, int status)
{
	struct reading *reading = list_entry(mover, struct reading, mover);

	mover->ctx->stats.reads_failed += status != 0;
	if (!reading->incoming && mover->n_busy == 0)
		places_leave(reading);
	else if (reading->incoming && (status || reading->failed))
		ripc__reading_fail(reading);
	else if (reading->incoming)
		came(reading, part);
}
