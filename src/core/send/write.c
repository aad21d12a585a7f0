/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies that are written straight into the return buffers of the asker; message/returns.c
 * keeps the offer of the request.
 *
 * Design notes. An offer is good for the first reply, and for the path by which it came. The
 * reply is announced when all writes have ended well, hence the announcement cannot overtake a
 * byte. Until then the partner knows nothing of the reply, and if anything goes wrong, the reply
 * is announced as if there had been no offer. Writes that are still in progress then keep the
 * message's memory, not the message; the partner protects its return buffer from them
 * (message/returns.c). Replies take turns, a write at a time. A partner has its share of all
 * writes (peer/devices.h): writes to a dead one, which end late, leave some for others. The sum
 * of a part is computed when the part is under way, because the device works meanwhile.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "opened.h"
#include "order.h"
#include "outgoing.h"
#include "util/hash/blocksum.h"
#include "util/list.h"
#include "write.h"

/* A write in progress; its address is the write's cookie. */
struct write_slot {
	struct writing *writing;
	size_t len; /* 0: free */
};

/* An attempt to write a reply. */
struct writing {
	struct fence fence;  /* once it was given up */
	struct list node;    /* ctx->sends.writings */
	void (*told)(struct outgoing *outgoing); /* when it has ended, well or not */
	struct ripc_context *ctx;
	struct device *device;
	struct remote remote; /* the peer whose memory is written */
	uint64_t next;       /* writes of bytes before this have begun */
	uint64_t item_start; /* where the item that contains it begins */
	uint64_t ended;      /* bytes that were written or carried */
	uint64_t sum;        /* of the blocks before next */
	uint32_t item, n_items, n_busy;
	bool left;           /* given up */
	struct write_slot slots[READS_OF_ONE];
	struct write_item {
		struct ripc__key key;
		void *region;
	} items[];
};

/* ---- the beginning and the end ----------------------------------------------------------- */

void ripc__offer_free(struct outgoing *outgoing)
{
	free(outgoing->offer);
	outgoing->offer = NULL;
}

bool ripc__offer_is_here(const struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->message.ctx;

	return outgoing->offer &&
		outgoing->offer->device == ripc__peer_device(ctx, outgoing->partner->peer);
}

static void writing_free(struct writing *writing)
{
	struct device *device = writing->device;

	for (uint32_t i = 0; i < writing->n_items; i++) {
		if (writing->items[i].region)
			device->ops->mem.dereg(device->port, writing->items[i].region);
	}
	list_remove(&writing->node);
	list_remove(&writing->fence.node);
	free(writing);
}

/* Does every item that is not carried fit into the buffer offered for it? */
static bool fits(const struct outgoing *outgoing, uint32_t carried)
{
	const struct offer *offer = outgoing->offer;
	uint64_t end = 0;

	for (uint32_t i = 0; i < outgoing->n_items; i++) {
		size_t len = outgoing->items[i].iov_len;

		end += len;
		if (len && end > carried && (i >= offer->n || offer->buffers[i].len < len))
			return false;
	}
	return true;
}

/* Can the reply be written into the return buffers, and does that pay? */
static bool may_write(const struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->service->ctx;
	struct peer *peer = outgoing->partner->peer;
	const struct device *device = ripc__peer_device(ctx, peer);
	uint32_t room = ripc__peer_payload(ctx, peer) + WIRE_HEADER + WIRE_DATA_BODY;
	uint32_t prefix = WIRE_HEADER_MAX + WIRE_ANNOUNCE_BODY + 8 * outgoing->n_items +
		ripc__extra_bytes(outgoing);

	return ripc__offer_is_here(outgoing) &&
		device->attr.caps & RIPC_CAP_WRITE && outgoing->partner->token_out &&
		outgoing->total + prefix > room && room >= ripc__opened_least(outgoing) &&
		fits(outgoing, ripc__opened_carried(outgoing));
}

/* Takes the items with their keys; false: the memory of one cannot be registered. */
static bool items_take(struct writing *writing, const struct outgoing *outgoing)
{
	const struct offer *offer = outgoing->offer;
	struct device *device = writing->device;
	bool registers = device->attr.caps & RIPC_CAP_REGISTERED;
	uint64_t end = 0;

	for (; writing->n_items < outgoing->n_items; writing->n_items++) {
		uint32_t i = writing->n_items;
		const struct iovec *item = &outgoing->items[i];

		end += item->iov_len;
		if (end <= writing->next || item->iov_len == 0)
			continue;
		writing->items[i].key = (struct ripc__key){offer->buffers[i].address,
			offer->buffers[i].key};
		if (registers && device->ops->mem.reg(device->port, outgoing->partner->peer->route,
				item->iov_base, item->iov_len, true, &writing->items[i].region))
			return false;
	}
	return true;
}

bool ripc__writing_start(struct outgoing *outgoing, void (*told)(struct outgoing *outgoing))
{
	struct ripc_context *ctx = outgoing->service->ctx;
	struct writing *writing;

	if (!may_write(outgoing))
		return false;
	writing = calloc(1, sizeof(*writing) + outgoing->n_items * sizeof(struct write_item));
	if (!writing)
		return false;
	writing->fence.outgoing = outgoing;
	writing->told = told;
	writing->ctx = ctx;
	writing->device = ripc__peer_device(ctx, outgoing->partner->peer);
	writing->remote = ripc__peer_remote(outgoing->partner->peer);
	writing->next = writing->ended = ripc__opened_carried(outgoing);
	list_init(&writing->fence.node);
	list_init(&writing->node);
	if (!items_take(writing, outgoing)) {
		writing_free(writing);
		return false;
	}
	outgoing->writing = writing;
	list_append(&ctx->sends.writings, &writing->node);
	ripc__writes_post(ctx);
	return true;
}

void ripc__writing_leave(struct outgoing *outgoing)
{
	struct writing *writing = outgoing->writing;

	if (!writing)
		return;
	outgoing->writing = NULL;
	if (writing->n_busy == 0) {
		writing_free(writing);
		return;
	}
	writing->left = true;
	list_append(&outgoing->fencing, &writing->fence.node);
}

bool ripc__writing_is_idle(const struct outgoing *outgoing)
{
	return outgoing->writing->n_busy == 0;
}

static void fail(struct writing *writing)
{
	struct outgoing *outgoing = writing->fence.outgoing;
	void (*told)(struct outgoing *outgoing) = writing->told;

	writing->ctx->stats.writes_failed++;
	ripc__writing_leave(outgoing);
	told(outgoing);
}

bool ripc__writing_give_up(struct outgoing *outgoing)
{
	const struct ripc_context *ctx = outgoing->message.ctx;

	if (!outgoing->writing || outgoing->writing->n_busy ||
			ctx->now_us - outgoing->heard_us < ripc__silence_of_move_us(ctx))
		return false;
	fail(outgoing->writing);
	return true;
}

/* Are writes summed by whole blocks, each written at once? */
static bool is_summed(const struct device *device)
{
	return !ripc__moves_intact(&device->attr) &&
		(!device->attr.read_max || device->attr.read_max >= RIPC__BLOCK);
}

static void complete(struct writing *writing)
{
	struct outgoing *outgoing = writing->fence.outgoing;
	void (*told)(struct outgoing *outgoing) = writing->told;

	if (is_summed(writing->device)) {
		outgoing->sum = ripc__blocksum_told(writing->sum);
		outgoing->summed = true;
	}
	ripc__writing_leave(outgoing);
	outgoing->written = true;
	told(outgoing);
}

void ripc__writings_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->sends.writings)) {
		struct writing *writing = list_entry(list_pop(&ctx->sends.writings), struct writing,
			node);

		list_remove(&writing->fence.node);
		free(writing);
	}
}

/* ---- writes ------------------------------------------------------------------------------ */

static struct write_slot *slot_free(struct writing *writing)
{
	for (uint32_t i = 0; i < READS_OF_ONE; i++) {
		if (writing->slots[i].len == 0)
			return &writing->slots[i];
	}
	return NULL;
}

/* Advances to the item that contains the next byte. */
static void item_find(struct writing *writing)
{
	const struct iovec *items = writing->fence.outgoing->items;

	while (writing->next - writing->item_start >= items[writing->item].iov_len)
		writing->item_start += items[writing->item++].iov_len;
}

/* Begins the write of the next bytes of one item. */
static int write_next(struct writing *writing, struct write_slot *slot)
{
	struct outgoing *outgoing = writing->fence.outgoing;
	struct device *device = writing->device;
	uint64_t offset, left, most = device->attr.read_max;
	const struct iovec *item;
	int error;

	item_find(writing);
	item = &outgoing->items[writing->item];
	offset = writing->next - writing->item_start;
	left = item->iov_len - offset;
	most = most && most < READ_BYTES ? most : READ_BYTES;
	if (is_summed(device))
		most -= most % RIPC__BLOCK;
	*slot = (struct write_slot){.writing = writing, .len = left < most ? left : most};
	error = device->ops->remote.move(device->port, outgoing->partner->peer->route,
		&(struct ripc__move){.key = writing->items[writing->item].key, .offset = offset,
			.mem = (char *)item->iov_base + offset, .len = slot->len,
			.region = writing->items[writing->item].region,
			.cookie = (uintptr_t)slot, .writes = true});
	if (error) {
		slot->len = 0;
		return error;
	}
	if (is_summed(device))
		writing->sum += ripc__blocksum((const char *)item->iov_base + offset, slot->len,
			writing->next);
	writing->next += slot->len;
	writing->n_busy++;
	ripc__move_begins(&writing->ctx->sends.writes, &writing->remote);
	return 0;
}

/* Begins the next write of one reply. True: the device took it. */
static bool take_turn(struct writing *writing)
{
	struct outgoing *outgoing = writing->fence.outgoing;
	struct write_slot *slot = slot_free(writing);
	int error = -EHOSTUNREACH;

	if (writing->left || writing->next == outgoing->total)
		return false;
	if (writing->device == ripc__peer_device(writing->ctx, outgoing->partner->peer) &&
			!outgoing->partner->peer->opening)
		error = slot && ripc__moves_left(&writing->ctx->sends.writes, &writing->remote) ?
			write_next(writing, slot) : -EAGAIN;
	if (error && error != -EAGAIN)
		fail(writing);
	return error == 0;
}

void ripc__writes_post(struct ripc_context *ctx)
{
	bool any = true;

	while (any) {
		any = false;
		list_for_each_safe(node, &ctx->sends.writings) {
			if (ctx->sends.writes.n == READS_MAX)
				return;
			if (!take_turn(list_entry(node, struct writing, node)))
				continue;
			/* There may be more replies than writes: next time the others are first. */
			list_remove(node);
			list_append(&ctx->sends.writings, node);
			any = true;
		}
	}
}

/* The fence outlives the registrations, because given items are released with it. */
static void end_left(struct writing *writing)
{
	struct fence fence = {.outgoing = writing->fence.outgoing};

	list_init(&fence.node);
	writing_free(writing);
	ripc__fence_lift(&fence);
}

void ripc__write_ended(struct ripc_context *ctx, uint64_t cookie, int status)
{
	struct write_slot *slot = (struct write_slot *)(uintptr_t)cookie;
	struct writing *writing = slot->writing;
	struct outgoing *outgoing = writing->fence.outgoing;
	size_t len = slot->len;

	slot->len = 0;
	writing->n_busy--;
	ripc__move_ends(&ctx->sends.writes, &writing->remote);
	if (writing->left && writing->n_busy == 0) {
		end_left(writing);
	} else if (!writing->left && status) {
		fail(writing);
	} else if (!writing->left) {
		writing->ended += len;
		ctx->stats.written_bytes += len;
		outgoing->heard_us = ctx->now_us;
		if (writing->ended == outgoing->total)
			complete(writing);
	}
	ripc__writes_post(ctx);
}
