/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies that are written straight into the return buffers of the asker (message/move.c);
 * message/returns.c keeps the offer of the request.
 *
 * Design notes. An offer is good for the first reply, and for the path by which it came. The
 * reply is announced when all writes have ended well, hence the announcement cannot overtake a
 * byte. Until then the partner knows nothing of the reply, and if anything goes wrong, the reply
 * is announced as if there had been no offer. Writes that are still in progress then keep the
 * message's memory, not the message; the partner protects its return buffer from them
 * (message/returns.c).
 */
#include <stdlib.h>

#include "core/message/message.h"
#include "core/message/move.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "exposed.h"
#include "outgoing.h"
#include "util/hash/blocksum.h"
#include "util/list.h"

/* An attempt to write a reply. */
struct writing {
	struct fence fence; /* in outgoing->fencing, if given up */
	struct mover mover;
	bool left;          /* given up */
};

/* ---- the beginning and the end ----------------------------------------------------------- */

bool ripc__offer_is_here(const struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->message.ctx;

	return outgoing->offer &&
		outgoing->offer->device == ripc__peer_device(ctx, outgoing->partner->peer);
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
		outgoing->total + prefix > room && room >= ripc__exposed_least(outgoing) &&
		fits(outgoing, ripc__exposed_carried(outgoing));
}

static void write_ended(struct mover *mover, const struct part *part, int status);

bool ripc__writing_start(struct outgoing *outgoing)
{
	const struct offer *offer = outgoing->offer;
	struct writing *writing;

	if (!may_write(outgoing))
		return false;
	writing = calloc(1, sizeof(*writing) + outgoing->n_items * sizeof(struct item_key));
	if (!writing)
		return false;
	writing->fence.outgoing = outgoing;
	list_init(&writing->fence.node);
	writing->mover = (struct mover){.moves = &outgoing->message.ctx->sends.writes,
		.ctx = outgoing->message.ctx, .partner = &outgoing->partner,
		.items = outgoing->items, .keys = (struct item_key *)(writing + 1),
		.ended = write_ended, .total = outgoing->total, .n_items = outgoing->n_items};
	writing->mover.next = writing->mover.moved = ripc__exposed_carried(outgoing);
	for (uint32_t i = 0; i < outgoing->n_items && i < offer->n; i++)
		writing->mover.keys[i].key = (struct ripc__key){offer->buffers[i].address,
			offer->buffers[i].key};
	if (!ripc__mover_open(&writing->mover)) {
		free(writing);
		return false;
	}
	outgoing->writing = writing;
	ripc__mover_start(&writing->mover);
	return true;
}

/* Stops the writing. Writes that have not ended keep the message's memory. */
static void leave(struct outgoing *outgoing)
{
	struct writing *writing = outgoing->writing;

	outgoing->writing = NULL;
	if (writing->mover.n_busy == 0) {
		ripc__mover_close(&writing->mover);
		free(writing);
		return;
	}
	writing->left = true;
	list_remove(&writing->mover.node);
	list_append(&outgoing->fencing, &writing->fence.node);
}

void ripc__offer_free(struct outgoing *outgoing)
{
	if (outgoing->writing)
		leave(outgoing);
	free(outgoing->offer);
	outgoing->offer = NULL;
}

bool ripc__writing_is_idle(const struct outgoing *outgoing)
{
	return outgoing->writing->mover.n_busy == 0;
}

static void fail(struct outgoing *outgoing)
{
	outgoing->message.ctx->stats.writes_failed++;
	leave(outgoing);
	ripc__outgoing_tell(outgoing);
}

bool ripc__writing_give_up(struct outgoing *outgoing)
{
	const struct ripc_context *ctx = outgoing->message.ctx;

	if (!outgoing->writing || !ripc__writing_is_idle(outgoing) ||
			ctx->now_us - outgoing->heard_us < ripc__silence_of_move_us(ctx))
		return false;
	fail(outgoing);
	return true;
}

static void complete(struct outgoing *outgoing)
{
	const struct mover *mover = &outgoing->writing->mover;

	if (mover->sums) {
		outgoing->sum = ripc__blocksum_told(mover->sum);
		outgoing->summed = true;
	}
	leave(outgoing);
	outgoing->written = true;
	ripc__outgoing_tell(outgoing);
}

/* ---- writes ------------------------------------------------------------------------------ */

/* The fence outlives the registrations, because given items are released with it. */
static void end_left(struct writing *writing)
{
	ripc__mover_close(&writing->mover);
	ripc__fence_lift(&writing->fence);
	free(writing);
}

static void write_ended(struct mover *mover, const struct part *part, int status)
{
	struct writing *writing = list_entry(mover, struct writing, mover);
	struct outgoing *outgoing = writing->fence.outgoing;

	if (writing->left && mover->n_busy == 0) {
		end_left(writing);
	} else if (!writing->left && status) {
		fail(outgoing);
	} else if (!writing->left) {
		mover->ctx->stats.written_bytes += part->len;
		outgoing->heard_us = mover->ctx->now_us;
		if (mover->moved == mover->total)
			complete(outgoing);
	}
}
