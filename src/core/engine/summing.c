/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksum of a message that its receiver reads meanwhile, computed without the lock. */
#include "core/objects.h"
#include "core/send/ended.h"
#include "core/send/opened.h"
#include "core/send/outgoing.h"
#include "summing.h"
#include "util/hash/blocksum.h"
#include "util/list.h"
#include "wait.h"

/* Neither other threads nor the devices wait for it. False: the message has ended meanwhile. */
static bool sum_part(struct outgoing *outgoing, const struct iovec *part, uint64_t start,
		uint64_t *sum)
{
	struct ripc_context *ctx = outgoing->message.ctx;

	ctx->n_away++;
	ripc__leave(ctx);
	ripc__point(ctx, "in_summing");
	*sum += ripc__blocksum(part->iov_base, part->iov_len, start);
	ripc__lock_timely(ctx);
	ctx->n_away--;
	ctx->changed |= ctx->closing; /* ripc_close() waits for this thread */
	ripc__progress(ctx);
	return outgoing->state == OUT_ACTIVE || outgoing->state == OUT_WAITING;
}

static bool sum_all(struct outgoing *outgoing, uint64_t *sum)
{
	uint64_t carried = ripc__opened_carried(outgoing), start = 0;

	for (uint32_t i = 0; i < outgoing->n_items; start += outgoing->items[i++].iov_len) {
		const struct iovec *item = &outgoing->items[i];
		struct iovec part = {.iov_base = item->iov_base};

		for (size_t at = 0; start >= carried && at < item->iov_len; at += part.iov_len) {
			part.iov_base = (char *)item->iov_base + at;
			part.iov_len = item->iov_len - at < READ_BYTES ? item->iov_len - at :
				READ_BYTES;
			if (!sum_part(outgoing, &part, start + at, sum))
				return false;
		}
	}
	return true;
}

void ripc__sum_follows(struct outgoing *outgoing)
{
	struct fence fence = {.outgoing = outgoing};
	bool is_awaited = outgoing->opened && outgoing->opened->is_summing;
	uint64_t sum = 0;

	if (is_awaited) /* so it does not end before we are done with its items */
		list_append(&outgoing->fencing, &fence.node);
	if (is_awaited && sum_all(outgoing, &sum)) {
		outgoing->sum = ripc__blocksum_told(sum);
		outgoing->summed = true;
	}
	outgoing->sums = false;
	if (!is_awaited)
		return;
	if (outgoing->summed && outgoing->state == OUT_ACTIVE && outgoing->opened)
		ripc__outgoing_tell(outgoing);
	ripc__fence_lift(&fence);
}
