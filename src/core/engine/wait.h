/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting in calls. For its users it includes enter.h and progress.h. */
#ifndef RIPC_WAIT_H
#define RIPC_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"
#include "enter.h"
#include "progress.h"

/* Waits until ready(arg) or the deadline, doing what there is to do. True: ready. */
bool ripc__wait(struct ripc_context *ctx, bool (*ready)(void *arg), void *arg,
		uint64_t deadline_us);
/*
 * As ripc__wait(), but ripc_wake() of this service (NULL: of none) ends the wait, and so does a
 * signal in a context with RIPC_INTERRUPTIBLE. 1: ready; 0: not in time; -EINTR.
 */
int ripc__wait_or_end(struct ripc_context *ctx, struct ripc_service *service,
		bool (*ready)(void *arg), void *arg, uint64_t deadline_us);
int ripc__wait_open(struct ripc_context *ctx);
void ripc__wait_close(struct ripc_context *ctx);

static inline uint64_t ripc__deadline(const struct ripc_context *ctx, int64_t timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : ctx->now_us + (uint64_t)timeout_ms * 1000;
}

#endif
