/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for calls: a few are kept for the next ones, as with messages. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "core/objects.h"
#include "spare.h"

#define SPARE_ITEMS  4u  /* calls with so many items are kept, */
#define SPARES       32u /* so many of them */

/* Cleared, but for its items. One that was used is as it was left up to its answer. */
static struct call *call_take(struct ripc_context *ctx, uint32_t n_items)
{
	uint32_t n = n_items > SPARE_ITEMS ? n_items : SPARE_ITEMS;
	struct call *call;

	if (n == SPARE_ITEMS && !list_empty(&ctx->spare_calls)) {
		call = list_entry(list_pop(&ctx->spare_calls), struct call, node);
		ctx->n_spare_calls--;
		memset(&call->answer, 0, sizeof(*call) - offsetof(struct call, answer));
		return call;
	}
	call = calloc(1, sizeof(*call) + n * sizeof(struct iovec));
	if (!call)
		return NULL;
	call->failure.ctx = ctx;
	call->failure.home = MESSAGE_CALL;
	list_init(&call->failure.node);
	return call;
}

struct call *ripc__call_alloc(struct ripc_service *service, const struct ripc_request *request)
{
	struct call *call = call_take(service->ctx, request->n_items);
	size_t returns = request->n_returns * sizeof(struct ripc_buffer);

	if (!call)
		return NULL;
	call->returns = returns ? malloc(returns) : NULL;
	if (returns && !call->returns) {
		free(call);
		return NULL;
	}
	call->service = service;
	call->to = request->to;
	call->to_incarnation = request->to_incarnation;
	call->cookie = request->cookie;
	call->flags = request->flags;
	call->n_items = request->n_items;
	call->n_returns = request->n_returns;
	for (uint32_t i = 0; i < request->n_items; i++)
		call->items[i] = request->items[i];
	if (returns)
		memcpy(call->returns, request->returns, returns);
	return call;
}

void ripc__call_free(struct call *call)
{
	struct ripc_context *ctx = call->failure.ctx;

	free(call->returns);
	if (call->n_items > SPARE_ITEMS || ctx->n_spare_calls == SPARES) {
		free(call);
		return;
	}
	list_append(&ctx->spare_calls, &call->node);
	ctx->n_spare_calls++;
}

void ripc__calls_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->told_calls))
		ripc__call_told(&list_entry(ctx->told_calls.next, struct call, node)->failure);
	while (!list_empty(&ctx->spare_calls))
		free(list_entry(list_pop(&ctx->spare_calls), struct call, node));
	ctx->n_spare_calls = 0;
}
