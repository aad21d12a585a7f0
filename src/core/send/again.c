/* SPDX-License-Identifier: BSD-3-Clause */
/* A long message that its receiver has given up, as we were silent: we may have been stopped. */
#include <errno.h>

#include "again.h"
#include "core/objects.h"
#include "ended.h"
#include "moving.h"
#include "order.h"
#include "outgoing.h"

#define AGAIN_US 250000u /* one begins again at most so often */

bool ripc__outgoing_begins_again(struct outgoing *outgoing, uint32_t status)
{
	struct ripc_context *ctx = outgoing->message.ctx;
	struct partner *partner = outgoing->partner;

	if (status != ETIMEDOUT || outgoing->state != OUT_ACTIVE || outgoing->service->closing ||
			ctx->now_us >= outgoing->deadline_us ||
			ctx->now_us - outgoing->told_us < AGAIN_US ||
			!ripc__order_is_alone(outgoing))
		return false;
	ripc__outgoing_unlink(outgoing);
	ripc__outgoing_begin(outgoing, partner);
	return true;
}
