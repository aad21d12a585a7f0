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

static struct wire_call answer_of(const struct reply *reply)
{
	return reply->status ? (struct wire_call){WIRE_CALL_FAILS, (uint32_t)-reply->status} :
		(struct wire_call){WIRE_CALL_ANSWERS, 0};
}

/* The partner that asked: its ID means it for sure, or it has only claimed the ID. Else NULL. */
static struct partner *asker_of(const struct ripc_service *service, const struct ripc_msg *question)
{
	struct partner *partner = service->recent;

	if (!partner || partner->id != question->from)
		partner = ripc__map_get(&service->partners, question->from);
	if (!partner || !partner->resolved || partner->suspect)
		partner = ripc__claim_asker(service, question->from, question->reply);
	return partner && partner->incarnation == question->from_incarnation ? partner : NULL;
}

/* True: it went. False: it is to go as a long message. */
static bool reply_shortly(struct partner *asker, const struct ripc_msg *question,
		const struct reply *reply)
{
	const struct short_call answer = {.items = reply->items, .n_items = reply->n_items,
		.id = question->reply, .is = answer_of(reply)};

	return question->flags & RIPC_ASKED_SHORTLY && asker &&
		ripc__short_call(asker, &answer) == 0;
}

/* One buffer of the pool with all items, and a reference to it for each. */
static int copy(struct ripc_context *ctx, const struct ripc_send *request, uint64_t total,
		struct iovec *copies)
{
	void *block;
	char *at;
	int error = ripc__pool_alloc(ctx->pool, total, &block);

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

/* The message keeps what is small itself; the rest is given to it. */
static int send_long(struct ripc_service *service, struct ripc_send *request,
		const struct sending *like, struct outgoing **outgoing)
{
	struct ripc_context *ctx = service->ctx;
	struct iovec copies[RIPC_ITEMS_MAX];
	uint64_t total;
	int error = ripc__sum_items(request->items, request->n_items, &total);

	if (error)
		return error;
	if (request->flags & RIPC_GIVE || total <= COPIED_MAX) {
		request->flags |= RIPC_SEND_LONG | RIPC_NOWAIT;
		return ripc__outgoing_start(service, request, like, outgoing);
	}
	error = copy(ctx, request, total, copies);
	if (error)
		return error;
	request->items = copies;
	request->flags |= RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE;
	error = ripc__outgoing_start(service, request, like, outgoing);
	if (error)
		ripc__buffers_free(ctx, copies, request->n_items);
	return error;
}

static int reply_at_length(struct ripc_service *service, const struct ripc_msg *question,
		const struct reply *reply, struct partner *asker, struct outgoing **outgoing)
{
	const struct sending like = {.sums = true, .to = asker, .call = answer_of(reply),
		.copies = !(reply->flags & RIPC_GIVE)};
	struct ripc_send request = {.size = sizeof(request), .to = question->from,
		.to_incarnation = question->from_incarnation, .reply_to = question->reply,
		.items = reply->items, .n_items = reply->n_items, .flags = reply->flags,
		.timeout_ms = REPLY_MS};

	return send_long(service, &request, &like, outgoing);
}

int ripc__reply(struct ripc_service *service, const struct ripc_msg *question,
		const struct reply *reply, struct outgoing **outgoing)
{
	struct partner *asker = asker_of(service, question);

	*outgoing = NULL;
	if (reply->flags & RIPC_GIVE) {
		int error = ripc__buffers_check(service->ctx, reply->items, reply->n_items);

		if (error)
			return error;
	}
	if (!reply_shortly(asker, question, reply))
		return reply_at_length(service, question, reply, asker, outgoing);
	if (reply->flags & RIPC_GIVE)
		ripc__buffers_free(service->ctx, reply->items, reply->n_items);
	return 0;
}
