/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that the network moves by itself, in parts: reads of the memory of partners
 * (receive/read.c), and writes into it (send/write.c).
 *
 * Design notes. Messages take turns, a part at a time, hence a long one does not hold up a short
 * one. A part with a dead or hostile peer may end late, or never. Hence a host has at most as many
 * parts as are left for other hosts, and a peer at most as many as are left for other peers of its
 * host (as in partner/partner.c). A part counts until it ends, even if its message has ended. The
 * sum of a written part is computed when the part is under way, because the device works
 * meanwhile; that of a read part by its owner, when the bytes are here.
 */
#include <errno.h>

#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "move.h"
#include "places.h"
#include "util/hash/blocksum.h"
#include "util/list.h"

static struct peer *peer_of(const struct mover *mover)
{
	return (*mover->partner)->peer;
}

void ripc__mover_close(struct mover *mover)
{
	const struct device *device = mover->device;

	for (uint32_t i = 0; i < mover->n_items; i++) {
		if (mover->keys[i].region)
			device->ops->mem.dereg(device->port, mover->keys[i].region);
	}
	list_remove(&mover->node);
}

bool ripc__mover_open(struct mover *mover)
{
	struct peer *peer = peer_of(mover);
	struct device *device = ripc__peer_device(mover->ctx, peer);
	bool registers = device->attr.caps & RIPC_CAP_REGISTERED;
	uint64_t end = 0;

	list_init(&mover->node);
	mover->device = device;
	mover->host_key = peer->host->key;
	mover->peer_key = peer->key;
	mover->moved_us = mover->ctx->now_us;
	mover->sums = !ripc__moves_intact(&device->attr) &&
		(!device->attr.read_max || device->attr.read_max >= RIPC__BLOCK);
	for (uint32_t i = 0; i < mover->n_items; i++) {
		const struct iovec *item = &mover->items[i];

		end += item->iov_len;
		if (registers && item->iov_len && end > mover->next && device->ops->mem.reg(
				device->port, peer->route, item->iov_base, item->iov_len,
				!mover->places, &mover->keys[i].region)) {
			ripc__mover_close(mover);
			return false;
		}
	}
	return true;
}

void ripc__mover_start(struct mover *mover)
{
	list_append(&mover->moves->movers, &mover->node);
	ripc__moves_post(mover->moves);
}

static struct part *part_free(struct mover *mover)
{
	for (uint32_t i = 0; i < PARTS_OF_ONE; i++) {
		if (mover->parts[i].len == 0)
			return &mover->parts[i];
	}
	return NULL;
}

/* May one more part with this peer begin? */
static bool has_share(const struct mover *mover)
{
	const struct moves *moves = mover->moves;
	uint32_t held = moves->n;

	for (uint32_t i = 0; i < moves->n; i++) {
		held += moves->with[i]->host_key == mover->host_key;
		held += moves->with[i]->peer_key == mover->peer_key;
	}
	return held < PARTS_MAX;
}

/* Advances to the item that contains the next byte. */
static void item_find(struct mover *mover)
{
	while (mover->next - mover->item_start >= mover->items[mover->item].iov_len)
		mover->item_start += mover->items[mover->item++].iov_len;
}

/* Bytes of the next part: all of one item. */
static size_t part_len(const struct mover *mover)
{
	uint64_t left = mover->item_start + mover->items[mover->item].iov_len - mover->next;
	uint64_t most = mover->device->attr.read_max;

	most = most && most < PART_BYTES ? most : PART_BYTES;
	if (mover->sums)
		most -= most % RIPC__BLOCK;
	return left < most ? left : most;
}

static bool has_pages(const struct mover *mover, const struct part *part)
{
	return !mover->places || mover->device->attr.caps & RIPC_CAP_LAZY ||
		!ripc__places_fault(mover->places, mover->next, part->end);
}

static int part_begin(struct mover *mover, struct part *part)
{
	struct device *device = mover->device;
	uint64_t offset;
	int error = -ENOMEM;

	item_find(mover);
	offset = mover->next - mover->item_start;
	*part = (struct part){.mover = mover, .len = part_len(mover),
		.mem = (char *)mover->items[mover->item].iov_base + offset};
	part->end = mover->next + part->len;
	if (has_pages(mover, part))
		error = device->ops->remote.move(device->port, peer_of(mover)->route,
			&(struct ripc__move){.key = mover->keys[mover->item].key,
				.offset = offset, .mem = part->mem, .len = part->len,
				.region = mover->keys[mover->item].region,
				.cookie = (uintptr_t)part, .writes = !mover->places});
	if (error) {
		part->len = 0;
		return error;
	}
	if (mover->sums && !mover->places)
		mover->sum += ripc__blocksum(part->mem, part->len, mover->next);
	mover->next = part->end;
	mover->moved_us = mover->ctx->now_us;
	mover->n_busy++;
	mover->moves->with[mover->moves->n++] = mover;
	return 0;
}

/* Begins the next part of one message. True: the device took it. */
static bool take_turn(struct mover *mover)
{
	struct part *part = part_free(mover);
	int error = -EHOSTUNREACH;

	if (mover->next == mover->total) /* all bytes came along with the announcement */
		return false;
	if (mover->device == ripc__peer_device(mover->ctx, peer_of(mover)) &&
			!peer_of(mover)->opening)
		error = part && has_share(mover) ? part_begin(mover, part) : -EAGAIN;
	if (error && error != -EAGAIN)
		mover->ended(mover, &(struct part){.len = 0}, error);
	if (error)
		return false;
	/* There may be more messages than parts: next time the others are first. */
	list_remove(&mover->node);
	if (mover->next < mover->total)
		list_append(&mover->moves->movers, &mover->node);
	return true;
}

void ripc__moves_post(struct moves *moves)
{
	bool any = true;

	while (any) {
		any = false;
		list_for_each_safe(node, &moves->movers) {
			if (moves->n == PARTS_MAX)
				return;
			any |= take_turn(list_entry(node, struct mover, node));
		}
	}
}

void ripc__part_ended(uint64_t cookie, int status)
{
	struct part *slot = (struct part *)(uintptr_t)cookie, part = *slot;
	struct mover *mover = slot->mover;
	struct moves *moves = mover->moves;
	uint32_t i = 0;

	slot->len = 0;
	while (moves->with[i] != mover)
		i++;
	moves->with[i] = moves->with[--moves->n];
	mover->n_busy--;
	mover->moved_us = mover->ctx->now_us;
	mover->moved += status ? 0 : part.len;
	mover->ended(mover, &part, status);
	ripc__moves_post(moves);
}
