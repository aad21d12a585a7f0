/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers to questions. The answer to a question that came as a short goes as a short, where it
 * fits: if it is lost, the question comes again as a long message. Any other answer is a long
 * message, of which the server hears nothing more: its items are copied, or given.
 *
 * An answer goes to the incarnation that has asked, and to no other.
 */
#include <errno.h>
#include <string.h>

#include "core/base/base.h"
#include "core/memory/pool.h"
#include "core/message/mapped.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/partner.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/send/start.h"
#include "core/wire/wire.h"
#include "reply.h"
#include "util/map.h"

#define REPLY_MS 60000 /* an answer is tried for so long; its asker may be gone much sooner */

/* Whoever asked, if it is whom its ID means for sure, or one that has only claimed it. */
static struct partner *asker_of(const struct ripc_service *service,
		const struct ripc_send *request)
{
	struct partner *partner = ripc__map_get(&service->partners, request->to);

	if (partner && partner->resolved && !partner->suspect &&
			partner->incarnation == request->to_incarnation)
		return partner;
	return ripc__claim_asker(service, request->to, request->reply_to);
}

/* True: it went. False: it is to go as a long message. */
static bool reply_shortly(struct ripc_service *service, const struct ripc_msg *question,
		const struct ripc_send *request, const struct wire_call *call)
{
	struct partner *partner = question->flags & RIPC_ASKED_SHORTLY ?
		asker_of(service, request) : NULL;

	return partner && ripc__short_may_go(partner) &&
		ripc__short_call(partner, request, 0, call) == 0;
}

static void references_drop(struct ripc_context *ctx, const struct iovec *items, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		ripc__buffer_free(ctx, items[i].iov_base);
}

/* One buffer of the pool with all items, and a reference to it for each. */
static int copy(struct ripc_context *ctx, const struct ripc_send *request, struct iovec *copies)
{
	uint64_t total;
	int error = ripc__sum_items(request->items, request->n_items, &total);
	void *block;
	char *at;

	if (!error)
		error = ripc__pool_alloc(ctx->pool, total ? total : 1, &block);
	if (error)
		return error;
	at = block;
	for (uint32_t i = 0; i < request->n_items; i++) {
		size_t len = request->items[i].iov_len;

		copies[i] = (struct iovec){len ? at : block, len};
		if (len)
			memcpy(at, request->items[i].iov_base, len);
		at += len;
		if (i)
			ripc__buffer_ref(ctx, block);
	}
	return 0;
}

static int reply_at_length(struct ripc_service *service, struct ripc_send *request,
		const struct wire_call *call, struct outgoing **outgoing)
{
	const struct sending like = {.call = *call, .sums = true};
	struct ripc_context *ctx = service->ctx;
	bool given = request->flags & RIPC_GIVE;
	struct iovec copies[RIPC_ITEMS_MAX];
	int error = given ? 0 : copy(ctx, request, copies);

	if (error)
		return error;
	if (!given)
		request->items = copies;
	request->flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE;
	error = ripc__outgoing_start(service, request, &like, outgoing);
	if (error && !given)
		references_drop(ctx, copies, request->n_items);
	return error;
}

int ripc__reply(struct ripc_service *service, const struct ripc_msg *question,
		const struct reply *reply, struct outgoing **outgoing)
{
	static const struct iovec nothing;
	bool is_empty = reply->status || reply->n_items == 0;
	struct wire_call call = {reply->status ? WIRE_CALL_FAILS : WIRE_CALL_ANSWERS,
		(uint32_t)-reply->status};
	struct ripc_send request = {.size = sizeof(request), .to = question->from,
		.to_incarnation = question->from_incarnation, .reply_to = question->reply,
		.items = is_empty ? &nothing : reply->items,
		.n_items = is_empty ? 1 : reply->n_items,
		.flags = is_empty ? 0 : reply->flags, .timeout_ms = REPLY_MS};

	*outgoing = NULL;
	if (request.flags & RIPC_GIVE) {
		int error = ripc__buffers_check(service->ctx, request.items, request.n_items);

		if (error)
			return error;
	}
	if (!reply_shortly(service, question, &request, &call))
		return reply_at_length(service, &request, &call, outgoing);
	if (request.flags & RIPC_GIVE)
		references_drop(service->ctx, request.items, request.n_items);
	return 0;
}
