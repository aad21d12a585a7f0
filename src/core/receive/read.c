/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that are read: if the network can read by itself what a partner has opened for
 * us, it reads the items straight to their places, with the keys of the announcement.
 *
 * Design notes. Messages take turns, a read at a time, hence a long one does not hold up a short
 * one; a partner has its share of all reads (peer/devices.h). When a read fails, or none is
 * accepted for long, the message is pulled (incoming.c) as soon as no read is in progress: until
 * then the places may be written to. For the same reason a message that is given up leaves its
 * places here. The device checks the keys and addresses of the partner, which can only spoil its
 * own message. The checksum may arrive when all has been read, because its sender computes it
 * meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/message/places.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "internal.h"
#include "read.h"
#include "util/hash/blocksum.h"
#include "util/list.h"

static const struct iovec *items_of(const struct reading *reading)
{
	const struct message *message = reading->incoming ? reading->incoming->message :
		reading->message;

	return message->public.items;
}

/* ---- the beginning and the end ----------------------------------------------------------- */

static void reading_free(struct reading *reading)
{
	struct device *device = reading->device;

	for (uint32_t i = 0; i < reading->n_items; i++) {
		if (reading->items[i].region)
			device->ops->mem.dereg(device->port, reading->items[i].region);
	}
	list_remove(&reading->node);
	if (reading->incoming)
		reading->incoming->reading = NULL;
	free(reading);
}

/* Takes the items with their keys; false: the memory for one cannot be registered. */
static bool items_take(struct reading *reading, const struct wire_packet *announce)
{
	const struct iovec *places = items_of(reading);
	struct device *device = reading->device;

	for (; reading->n_items < announce->n_items; reading->n_items++) {
		struct read_item *item = &reading->items[reading->n_items];
		const struct iovec *place = &places[reading->n_items];

		wire_item_key(announce, reading->n_items, &item->key.address, &item->key.key);
		if (place->iov_len && device->attr.caps & RIPC_CAP_REGISTERED &&
				device->ops->mem.reg(device->port,
					reading->incoming->partner->peer->route, place->iov_base,
				place->iov_len, false, &item->region))
			return false;
	}
	return true;
}

/* The bytes that the announcement carries, from the first on, need not be read. */
static void take_carried(struct reading *reading, const struct wire_packet *announce)
{
	struct incoming *incoming = reading->incoming;

	incoming->crc = incoming->n_pieces = 0;
	incoming->have = incoming->got = incoming->high = 0;
	ripc__collect(incoming, announce, 0);
	reading->next = reading->got = incoming->got;
}

static void take_sum(struct reading *reading, const struct wire_packet *announce)
{
	reading->is_told = announce->announce.keys != WIRE_KEYS_SUMMING ||
		ripc__moves_intact(&reading->device->attr);
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

bool ripc__reading_start(struct incoming *incoming, const struct wire_packet *announce,
		void (*ended)(struct incoming *incoming, bool right))
{
	struct ripc_context *ctx = incoming->partner->service->ctx;
	struct device *device = ripc__peer_device(ctx, incoming->partner->peer);
	struct reading *reading;

	if (incoming->reading || incoming->unreadable ||
			announce->payload_len >= incoming->total ||
			!is_checkable(device, announce))
		return false;
	reading = calloc(1, sizeof(*reading) + announce->n_items * sizeof(struct read_item));
	if (!reading)
		return false;
	list_init(&reading->node);
	reading->incoming = incoming;
	reading->ended = ended;
	reading->device = device;
	reading->moved_us = ctx->now_us;
	reading->remote = ripc__peer_remote(incoming->partner->peer);
	if (!items_take(reading, announce)) {
		reading_free(reading);
		return false;
	}
	incoming->reading = reading;
	take_carried(reading, announce);
	take_sum(reading, announce);
	list_append(&ctx->receives.readings, &reading->node);
	ripc__reads_post(ctx);
	return true;
}

/* The last read of a failed reading has ended. */
static void pull_instead(struct reading *reading)
{
	struct incoming *incoming = reading->incoming;
	void (*ended)(struct incoming *incoming, bool right) = reading->ended;

	reading_free(reading);
	ended(incoming, false);
}

void ripc__reading_fail(struct reading *reading)
{
	reading->failed = true;
	list_remove(&reading->node);
	if (reading->n_busy == 0)
		pull_instead(reading);
}

bool ripc__reading_is_stuck(const struct reading *reading)
{
	const struct ripc_context *ctx = reading->incoming->partner->service->ctx;

	/* A sender that computes for long sends announcements meanwhile. */
	uint64_t patience_us = reading->got == reading->incoming->total ?
		ripc__silence_of_read_us(ctx) : ripc__silence_of_move_us(ctx);

	return reading->n_busy == 0 && ctx->now_us - reading->moved_us >= patience_us;
}

/* All bytes have been read. */
static void complete(struct reading *reading)
{
	struct incoming *incoming = reading->incoming;
	struct ripc_context *ctx = incoming->partner->service->ctx;
	void (*ended)(struct incoming *incoming, bool right) = reading->ended;

	if (!reading->is_told)
		return; /* that sum will arrive */
	if (!ripc__moves_intact(&reading->device->attr) &&
			ripc__blocksum_told(reading->sum) != reading->told) {
		ctx->stats.drop_checksum++;
		ripc__reading_fail(reading);
		return;
	}
	reading_free(reading);
	ended(incoming, true);
}

bool ripc__reading_told(struct reading *reading, const struct wire_packet *announce)
{
	const struct incoming *incoming = reading->incoming;
	bool is_told;

	if (reading->is_told || !is_checkable(reading->device, announce))
		return false;
	take_sum(reading, announce);
	reading->moved_us = incoming->partner->service->ctx->now_us;
	is_told = reading->is_told;
	if (reading->got == incoming->total)
		complete(reading);
	return is_told;
}

/* ---- given up ---------------------------------------------------------------------------- */

bool ripc__reading_leave(struct reading *reading)
{
	struct incoming *incoming = reading->incoming;
	struct ripc_service *service = incoming->partner->service;

	if (reading->n_busy == 0) {
		reading_free(reading);
		return false;
	}
	reading->service = service;
	reading->message = incoming->message;
	reading->lent = incoming->lent;
	reading->incoming = NULL;
	incoming->reading = NULL;
	list_remove(&reading->node);
	list_append(&service->ctx->receives.lingering, &reading->node);
	return true;
}

/* Nothing is written to the message's places any more. */
static void places_leave(struct ripc_context *ctx, struct reading *reading)
{
	struct ripc_service *service = reading->service;
	struct message *message = reading->message;

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

	list_for_each(node, &ctx->receives.lingering) {
		struct reading *reading = list_entry(node, struct reading, node);

		if (reading->service != service)
			continue;
		ripc__places_orphan(reading->message);
		reading->service = NULL;
		reading->lent = NULL;
		ctx->sends.n_orphans++;
	}
}

void ripc__readings_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->receives.lingering)) {
		struct reading *reading = list_entry(list_pop(&ctx->receives.lingering),
			struct reading,
			node);

		ripc__places_release(reading->service, reading->message);
		free(reading);
	}
}

/* ---- reads ------------------------------------------------------------------------------- */

static struct read_slot *slot_free(struct reading *reading)
{
	for (uint32_t i = 0; i < READS_OF_ONE; i++) {
		if (reading->slots[i].len == 0)
			return &reading->slots[i];
	}
	return NULL;
}

/* Advances to the item that contains the next byte. */
static void item_find(struct reading *reading)
{
	const struct iovec *items = items_of(reading);

	while (reading->next - reading->item_start >= items[reading->item].iov_len)
		reading->item_start += items[reading->item++].iov_len;
}

static void read_begins(struct ripc_context *ctx, struct reading *reading)
{
	reading->n_busy++;
	reading->moved_us = ctx->now_us;
	ripc__move_begins(&ctx->receives.reads, &reading->remote);
}

static void read_ends(struct ripc_context *ctx, struct reading *reading)
{
	ripc__move_ends(&ctx->receives.reads, &reading->remote);
	reading->n_busy--;
	reading->moved_us = ctx->now_us;
}

/* Requests the next bytes of one item. */
static int read_next(struct reading *reading, struct read_slot *slot)
{
	struct incoming *incoming = reading->incoming;
	struct device *device = reading->device;
	uint64_t offset, left, most = device->attr.read_max;
	const struct iovec *item;
	int error;

	item_find(reading);
	item = &items_of(reading)[reading->item];
	offset = reading->next - reading->item_start;
	left = item->iov_len - offset;
	most = most && most < READ_BYTES ? most : READ_BYTES;
	if (!ripc__moves_intact(&device->attr))
		most -= most % RIPC__BLOCK;
	*slot = (struct read_slot){.reading = reading, .mem = (char *)item->iov_base + offset,
		.len = left < most ? left : most};
	slot->end = reading->next + slot->len;
	if (!(device->attr.caps & RIPC_CAP_LAZY) &&
			ripc__places_fault(incoming->message, reading->next, slot->end))
		error = -ENOMEM;
	else
		error = device->ops->remote.move(device->port, incoming->partner->peer->route,
			&(struct ripc__move){.key = reading->items[reading->item].key,
				.offset = offset, .mem = slot->mem, .len = slot->len,
				.region = reading->items[reading->item].region,
				.cookie = (uintptr_t)slot});
	if (error) {
		slot->len = 0;
		return error;
	}
	reading->next = slot->end;
	read_begins(incoming->partner->service->ctx, reading);
	return 0;
}

/* Posts the next read of one message. True: the device took it. */
static bool take_turn(struct ripc_context *ctx, struct reading *reading)
{
	struct incoming *incoming = reading->incoming;
	struct read_slot *slot = slot_free(reading);
	int error = -EHOSTUNREACH;

	if (reading->device == ripc__peer_device(ctx, incoming->partner->peer) &&
			!incoming->partner->peer->opening)
		error = slot && ripc__moves_left(&ctx->receives.reads, &reading->remote) ?
			read_next(reading, slot) : -EAGAIN;
	if (error && error != -EAGAIN) {
		ctx->stats.reads_failed++;
		ripc__reading_fail(reading);
		return false;
	}
	if (error)
		return false;
	/* There may be more readings than reads: next time the others are first. */
	list_remove(&reading->node);
	if (reading->next < incoming->total)
		list_append(&ctx->receives.readings, &reading->node);
	return true;
}

void ripc__reads_post(struct ripc_context *ctx)
{
	bool any = true;

	while (any) {
		any = false;
		list_for_each_safe(node, &ctx->receives.readings) {
			if (ctx->receives.reads.n == READS_MAX)
				return;
			any |= take_turn(ctx, list_entry(node, struct reading, node));
		}
	}
}

static void came(struct ripc_context *ctx, struct reading *reading, const struct read_slot *slot,
		size_t len)
{
	struct incoming *incoming = reading->incoming;

	reading->got += len;
	ctx->stats.read_bytes += len;
	incoming->heard_us = incoming->arrived_us = ctx->now_us;
	if (!ripc__moves_intact(&reading->device->attr))
		reading->sum += ripc__blocksum(slot->mem, len, slot->end - len);
}

void ripc__read_ended(struct ripc_context *ctx, uint64_t cookie, int status)
{
	struct read_slot *slot = (struct read_slot *)(uintptr_t)cookie;
	struct reading *reading = slot->reading;
	size_t len = slot->len;

	slot->len = 0;
	read_ends(ctx, reading);
	ctx->stats.reads_failed += status != 0;
	if (!reading->incoming) {
		if (reading->n_busy == 0)
			places_leave(ctx, reading);
	} else if (status || reading->failed) {
		ripc__reading_fail(reading);
	} else {
		came(ctx, reading, slot, len);
		if (reading->got == reading->incoming->total)
			complete(reading);
	}
	ripc__reads_post(ctx);
}
