/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls: a request, and its reply or failure (docs/protocol.md, Calls).
 *
 * Design notes. A request is sent as a long message, because its sender must learn the outcome. An
 * idempotent request is sent as a short first, if it fits. If no reply comes in time, the request
 * is sent as a long message with the same ID. A request that was certainly not delivered is sent
 * again until its deadline. If the outcome is unknown, the call ends, unless the request is
 * idempotent. While a call waits for the reply, it probes the partner now and then, to notice the
 * partner's end. Each attempt lends the return buffers under an ID of its own: a late reply to an
 * earlier attempt finds no buffers.
 *
 * The caller gets its memory back when the call ends. Therefore the call ends only when the network
 * is done with that memory.
 *
 * A request that is transferred (RIPC_GIVE) may be sent several times. Each attempt has references
 * of its own, and the application's references stay with the call until its end. Then the call
 * drops them if an attempt was delivered, or may have been. Otherwise the application still has
 * them.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "core/base/base.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/claim.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/partner/roam.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/wire/wire.h"
#include "util/map.h"
#include "util/slots.h"
#include "util/system/clock.h"

/* ---- ident ------------------------------------------------------------------------------- */

/*
 * The IDs of open calls. Like a token, an ID consists of the number of a slot and random bits. For
 * short requests to one partner these bits count up from a number that only the two of them know.
 */

#define SLOT_SHIFT 48
#define CHANCE     ((1ull << SLOT_SHIFT) - 1)

static int call_name(struct call *call)
{
	struct ripc__slots *slots = &call->service->ctx->calls.slots;
	int error = ripc__slots_grow(slots);

	if (!error)
		call->id = (uint64_t)ripc__slots_put(slots, call) << SLOT_SHIFT;
	return error;
}

/* Frees the slot of a call. */
static void call_unname(struct call *call)
{
	ripc__slots_clear(&call->service->ctx->calls.slots, (uint32_t)(call->id >> SLOT_SHIFT));
}

/* Random bits for an ID. They are odd, because no ID may be 0. */
static uint64_t chance_draw(struct ripc_context *ctx, struct partner *partner)
{
	if (!partner)
		return ripc__nonce(ctx) | 1;
	if (!partner->call_ids)
		partner->call_ids = ripc__nonce(ctx) | 1;
	return partner->call_ids += 2;
}

/*
 * Gives the call, which has a slot, another ID. partner: the ID is sent to this partner alone;
 * NULL: the ID may be sent to several partners, one after the other.
 */
static void call_identify(struct call *call, struct partner *partner)
{
	uint64_t chance = chance_draw(call->service->ctx, partner) & CHANCE;

	call->id = (call->id & ~CHANCE) | chance;
}

/* The call with this ID, or NULL. */
static struct call *call_by_id(const struct ripc_context *ctx, uint64_t id)
{
	struct call *call = ripc__slots_get(&ctx->calls.slots, id >> SLOT_SHIFT);

	return call && call->id == id ? call : NULL;
}

static bool is_taker(const struct call *call, const struct partner *partner)
{
	return partner->resolved && !partner->dead && partner->id == call->to;
}

/* The partner with this incarnation that took the request; most often the recent one. */
static struct partner *call_taker(const struct call *call, uint64_t incarnation)
{
	const struct ripc_service *service = call->service;
	struct partner *partner = service->recent;
	uint32_t place = 0;

	if (partner && partner->incarnation == incarnation && is_taker(call, partner))
		return partner;
	while ((partner = ripc__pair_at(service, incarnation, place++))) {
		if (is_taker(call, partner))
			return partner;
	}
	return NULL;
}

/* ---- spare ------------------------------------------------------------------------------- */

/* Memory for calls. Some freed calls are kept for the next ones, like messages. */

#define SPARE_ITEMS  4u  /* calls with so many items are kept */
#define SPARES       32u /* calls that are kept, at most */

/* A call, cleared except for its items. If it was used before, it is cleared from "answer" on. */
static struct call *call_take(struct ripc_context *ctx, uint32_t n_items)
{
	uint32_t n = n_items > SPARE_ITEMS ? n_items : SPARE_ITEMS;
	struct call *call;

	if (n == SPARE_ITEMS && !list_empty(&ctx->calls.spare)) {
		call = list_entry(list_pop(&ctx->calls.spare), struct call, node);
		ctx->calls.n_spare--;
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

static struct call *call_alloc(struct ripc_service *service, const struct ripc_request *request)
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
	if (call->n_items > SPARE_ITEMS || ctx->calls.n_spare == SPARES) {
		free(call);
		return;
	}
	list_append(&ctx->calls.spare, &call->node);
	ctx->calls.n_spare++;
}

void ripc__calls_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->calls.told))
		ripc__call_told(&list_entry(ctx->calls.told.next, struct call, node)->failure);
	while (!list_empty(&ctx->calls.spare))
		free(list_entry(list_pop(&ctx->calls.spare), struct call, node));
	ctx->calls.n_spare = 0;
}

/* ---- call -------------------------------------------------------------------------------- */

#define AGAIN_US     20000u   /* until a request that was not delivered is sent again */
#define FREE_US      1000u    /* between polls for memory that the network still uses */
#define SHORT_US     20000u   /* a reply to a short may take this, or two time-outs */
#define DOUBT_LATER_US 2048u  /* times of peers are kept in 1,024 us */
#define THERE_US     1000000u /* most time without response until the resolver is queried */

static struct ripc_context *context_of(const struct call *call)
{
	return call->failure.ctx;
}

static void timer_set(struct call *call, uint64_t at_us)
{
	at_us = at_us < call->deadline_us || call->state >= CALL_ENDING ? at_us : call->deadline_us;
	ripc__timer_set(&context_of(call)->loop.timers, &call->timer, at_us);
}

static void partner_leave(struct call *call)
{
	if (call->partner)
		call->partner->n_asked--;
	call->partner = NULL;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void forget(struct call *call)
{
	struct ripc_context *ctx = context_of(call);

	partner_leave(call);
	list_remove(&call->node);
	call_unname(call);
	ripc__timer_dismiss(ctx, &call->timer);
	call->service->n_calls--;
	ctx->stats.calls_open--;
}

static void given_drop(struct call *call)
{
	if (call->flags & RIPC_GIVE)
		ripc__buffers_free(context_of(call), call->items, call->n_items);
}

/* The call has ended: drops transferred buffers that were delivered, or may have been. */
static void given_settle(struct call *call)
{
	if (call->asked != RIPC_NOT_DELIVERED)
		given_drop(call);
}

static void tell(struct call *call)
{
	struct message *message = call->answer ? call->answer : &call->failure;

	if (!call->answer)
		message->public = (struct ripc_msg){.status = call->status, .from = call->to};
	message->public.kind = RIPC_REPLY;
	message->public.request_cookie = message->public.cookie = call->cookie;
	message->public.outcome = call->asked;
	if (call->waiter)
		return;
	ripc__end_report(call->service, message, call->flags & RIPC_AWAITED);
	if (call->answer)
		ripc__call_free(call);
	else
		list_append(&context_of(call)->calls.told, &call->node);
}

static void conclude(struct call *call)
{
	struct ripc_context *ctx = context_of(call);

	forget(call);
	if (call->answer)
		ctx->stats.calls_replied++;
	else
		ctx->stats.calls_failed++;
	call->state = CALL_ENDED;
	ctx->loop.changed = true;
	given_settle(call);
	tell(call);
}

void ripc__call_told(struct message *message)
{
	struct call *call = list_entry(message, struct call, failure);

	list_remove(&call->node);
	ripc__call_free(call);
}

void ripc__call_untold(struct message *message)
{
	struct call *call = list_entry(message, struct call, failure);

	if (call->asked == RIPC_NOT_DELIVERED)
		given_drop(call);
}

static struct lent *lent_of(const struct call *call)
{
	return call->n_returns ? ripc__lent_by_id(call->service, call->id) : NULL;
}

/* Closes the return buffers. True: nobody can write into them any more. */
static bool returns_are_free(const struct call *call)
{
	struct lent *lent = lent_of(call);

	if (!lent)
		return true;
	lent->cancelled = true;
	if (!ripc__returns_withdraw(lent, false) || lent->in_use)
		return false;
	ripc__lent_free(lent);
	return true;
}

static void hold_back(struct call *call)
{
	call->state = CALL_PAUSED;
	call->again = false;
	timer_set(call, context_of(call)->now_us + AGAIN_US);
}

/* Ends the call, or repeats the request, as soon as the network is done with its memory. */
static void end_when_free(struct call *call)
{
	if (call->outgoing || !returns_are_free(call))
		timer_set(call, context_of(call)->now_us + FREE_US);
	else if (call->again)
		hold_back(call);
	else
		conclude(call);
}

static void end(struct call *call, int status)
{
	partner_leave(call);
	call->state = CALL_ENDING;
	call->again = false;
	call->status = status;
	end_when_free(call);
}

/* The caller has not got the request back: cancels the request, or records that it has arrived. */
static void outgoing_end(struct call *call)
{
	struct partner *partner = call->outgoing->partner;
	struct wire_ack done = {.number = call->outgoing->number};

	if (!partner)
		return; /* the request has ended, and the network is about to release it */
	if (call->answer && call->answer->public.from_incarnation == partner->incarnation &&
			done.number)
		ripc__outgoing_answer(partner, &done);
	else
		ripc__outgoing_cancel(call->outgoing, -ECANCELED);
}

/* Stops receiving a reply, which is too late now. */
static void answer_stop(const struct call *call)
{
	struct lent *lent = lent_of(call);

	if (lent)
		ripc__incoming_stop(context_of(call), lent);
}

/* ---- sending the request ----------------------------------------------------------------- */

static struct ripc_send request_of(const struct call *call)
{
	uint64_t left_us = call->deadline_us - context_of(call)->now_us;

	return (struct ripc_send){.size = sizeof(struct ripc_send), .to = call->to,
		.to_incarnation = call->to_incarnation, .items = call->items,
		.n_items = call->n_items, .returns = call->returns, .n_returns = call->n_returns,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | (call->flags & RIPC_GIVE),
		.cookie = call->cookie,
		.timeout_ms = (int32_t)(left_us / 1000 ? left_us / 1000 : 1)};
}

static struct wire_call wire_request_of(const struct call *call)
{
	return (struct wire_call){WIRE_CALL_ASKS, (call->flags & RIPC_IDEMPOTENT) != 0};
}

/* Gives the call a new ID, under which it lends the return buffers. */
static int identify(struct call *call, struct partner *partner)
{
	struct ripc_send request;
	int error;

	call_identify(call, partner);
	if (!call->n_returns)
		return 0;
	request = request_of(call);
	error = ripc__lend_as(call->service, &request, call->id);
	if (!error)
		lent_of(call)->of_call = true;
	return error;
}

/* Merges the outcome of one attempt into the outcome of all attempts to send the request. */
static void learn(struct call *call, enum ripc_outcome outcome)
{
	if (outcome == RIPC_DELIVERED || call->asked == RIPC_NOT_DELIVERED)
		call->asked = outcome;
}

static void asked(struct call *call, struct partner *partner)
{
	call->partner = partner;
	partner->n_asked++;
	call->state = CALL_ASKED;
	call->heard_us = context_of(call)->now_us;
}

/* The partner that a short may be sent to now; NULL: none. */
static struct partner *short_taker(struct call *call)
{
	struct partner *partner;

	if (!(call->flags & RIPC_IDEMPOTENT) || call->tried_short)
		return NULL;
	call->tried_short = true;
	if (ripc__partner_for_call(call->service, call->to, &partner) || !partner->resolved ||
			(call->to_incarnation && call->to_incarnation != partner->incarnation))
		return NULL;
	return partner;
}

/* Sends the request as a short. False: the short was not sent. */
static bool ask_shortly(struct call *call, struct partner *partner)
{
	const struct short_call request = {.items = call->items, .n_items = call->n_items,
		.lends = call->n_returns, .id = call->id, .is = wire_request_of(call)};
	struct ripc_context *ctx = context_of(call);

	if (ripc__short_call(partner, &request))
		return false;
	asked(call, partner);
	call->by_short = true;
	call->waited = false;
	call->short_number = partner->short_next - 1;
	call->asked_before = call->asked;
	learn(call, RIPC_UNKNOWN);
	timer_set(call, ctx->now_us + ripc__least(SHORT_US, (call->deadline_us - ctx->now_us) / 2));
	return true;
}

static bool may_pass(int error)
{
	switch (error) {
	case -EINVAL:
	case -EMSGSIZE:
	case -EPROTONOSUPPORT:
	case -ECANCELED:
	case -EACCES:
		return false;
	default:
		return true;
	}
}

/* Takes the references of one attempt. */
static int attempt_ref(struct call *call)
{
	return call->flags & RIPC_GIVE ?
		ripc__buffers_ref(context_of(call), call->items, call->n_items) : 0;
}

static int ask_at_length(struct call *call, bool sums)
{
	const struct sending like = {.lends = call->id, .call = wire_request_of(call),
		.asked_by = call, .sums = sums};
	struct ripc_send request = request_of(call);
	int error;

	call->state = CALL_ASKING;
	call->by_short = false;
	ripc__timer_stop(&context_of(call)->loop.timers, &call->timer);
	error = attempt_ref(call);
	if (error)
		return error;
	error = ripc__outgoing_start(call->service, &request, &like, &call->outgoing);
	if (error)
		given_drop(call);
	return error;
}

/* Sends the request. sums: an API call computes the checksum while the partner reads. */
static int ask(struct call *call, bool sums)
{
	struct partner *taker = short_taker(call);
	int error = identify(call, taker);

	if (error)
		return error;
	if (taker && ask_shortly(call, taker))
		return 0;
	return ask_at_length(call, sums);
}

/* Has the only incarnation that may reply ended? It may have got the request. */
static bool is_lost(const struct call *call)
{
	return call->asked != RIPC_NOT_DELIVERED && call->to_incarnation &&
		ripc__death_is_known(call->service, call->to_incarnation);
}

/*
 * This attempt was not delivered. Its error counts if no earlier attempt was delivered, either. A
 * timeout does not replace -ENOENT, which is more precise.
 */
static void ask_failed(struct call *call, int error)
{
	if (is_lost(call)) {
		end(call, -ECONNRESET);
		return;
	}
	if (call->asked == RIPC_NOT_DELIVERED && (error != -ETIMEDOUT || call->status != -ENOENT))
		call->status = error;
	else if (error == -EACCES)
		call->status = error; /* the partner may have taken the same request as a short */
	call->state = CALL_ENDING;
	call->again = may_pass(error);
	end_when_free(call);
}

/* The request was sent again, or, with an error, not. */
static void asked_again(struct call *call, int error)
{
	context_of(call)->stats.calls_repeated++;
	if (error)
		ask_failed(call, error);
}

/* Sends the same request as a long message, which waits while the partner's peer is opening. */
static void ask_at_length_again(struct call *call)
{
	asked_again(call, ask_at_length(call, false));
}

void ripc__short_refused(struct partner *partner, uint64_t number)
{
	list_for_each_entry_safe(call, &partner->service->calls, struct call, node) {
		if (call->partner != partner || call->state != CALL_ASKED || !call->by_short ||
				call->short_number != number)
			continue;
		partner_leave(call);
		call->asked = call->asked_before;
		if (!ripc__refused_waits(partner))
			ask_failed(call, -EACCES);
		else
			ask_at_length_again(call);
	}
}

/* The short, or its reply, seems to be lost: sends the same request as a long message. */
static void ask_for_sure(struct call *call)
{
	struct ripc_context *ctx = context_of(call);
	uint64_t patience_us = 2ull * ripc__peer_rto(ctx, call->partner->peer);
	uint64_t left_us = call->deadline_us - ctx->now_us;

	if (!call->waited && patience_us > SHORT_US && left_us > SHORT_US) {
		call->waited = true;
		timer_set(call, ctx->now_us + ripc__least(patience_us - SHORT_US,
			(left_us - SHORT_US) / 2));
		return;
	}
	partner_leave(call);
	ask_at_length_again(call);
}

/* ---- waiting for the reply --------------------------------------------------------------- */

/* The partner is gone: ends the call, or sends an idempotent request to the partner's successor. */
static void lost(struct call *call)
{
	partner_leave(call);
	if (!(call->flags & RIPC_IDEMPOTENT) || call->to_incarnation) {
		end(call, -ECONNRESET);
		return;
	}
	call->status = -ECONNRESET;
	call->state = CALL_ENDING;
	call->again = true;
	call->tried_short = false;
	end_when_free(call);
}

static uint64_t last_word_us(const struct call *call)
{
	struct ripc_context *ctx = context_of(call);
	uint64_t silent_us = (uint64_t)ripc__silence_1024us(call->partner) << 10;

	return silent_us < ctx->now_us - call->heard_us ? ctx->now_us - silent_us : call->heard_us;
}

/*
 * The time without response after which a partner is probed. It is short enough that one lost
 * probe does not make the partner seem dead.
 */
static uint64_t there_us(const struct ripc_context *ctx)
{
	return ripc__wait_bound(ctx, THERE_US);
}

/* Probes a silent partner, once for all calls. Returns the time until the next check. */
static uint64_t ask_whether_there(struct call *call)
{
	struct ripc_context *ctx = context_of(call);
	uint64_t silent_us = ctx->now_us - call->heard_us;
	struct peer *peer = call->partner->peer;

	if (silent_us < there_us(ctx))
		return there_us(ctx) - silent_us;
	if (ripc__now_1024us(ctx) - peer->sounded < there_us(ctx) >> 11)
		return there_us(ctx);
	ripc__follow_or_sound(call->partner);
	return ripc__silence_of_doubted_us(peer) + DOUBT_LATER_US;
}

static void watch(struct call *call)
{
	struct ripc_context *ctx = context_of(call);

	call->heard_us = ripc__heard_us(ctx, &call->timer, last_word_us(call));
	if (call->by_short && ctx->now_us < call->deadline_us) {
		ask_for_sure(call);
		return;
	}
	if (ctx->now_us - call->heard_us >= ripc__silence_us(ctx)) {
		ripc__partner_suspect(call->partner);
		lost(call);
		return;
	}
	ripc__hint_unanswered(call->partner);
	timer_set(call, ctx->now_us + ask_whether_there(call));
}

static void fire(void *owner, struct ripc__timer *timer)
{
	struct call *call = list_entry(timer, struct call, timer);
	struct ripc_context *ctx = owner;

	if (call->state == CALL_ENDING) {
		if (call->outgoing)
			outgoing_end(call);
		if (!call->again || ctx->now_us >= call->deadline_us)
			answer_stop(call);
		if (!call->timer.index) /* no timer: the request has not ended yet */
			end_when_free(call);
	} else if (ctx->now_us >= call->deadline_us) {
		end(call, call->state == CALL_ASKED ? -ETIMEDOUT : call->status);
	} else if (call->state == CALL_PAUSED) {
		asked_again(call, ask(call, false));
	} else if (call->state == CALL_ASKED) {
		watch(call);
	}
}

void ripc__request_ended(struct outgoing *outgoing)
{
	struct call *call = outgoing->asked_by;
	struct partner *partner;

	call->outgoing = NULL;
	outgoing->asked_by = NULL;
	learn(call, outgoing->outcome);
	if (!call->service) { /* the service is closed: only the caller still waits */
		given_settle(call);
		call->state = CALL_ENDED;
		context_of(call)->loop.changed = true;
		return;
	}
	if (call->state == CALL_ENDING) {
		if (!call->timer.index)
			timer_set(call, context_of(call)->now_us);
		return;
	}
	partner = call_taker(call, outgoing->to_incarnation);
	if (outgoing->outcome == RIPC_DELIVERED && partner) {
		asked(call, partner);
		timer_set(call, context_of(call)->now_us + there_us(context_of(call)));
	} else if (outgoing->outcome == RIPC_NOT_DELIVERED) {
		ask_failed(call, outgoing->status);
	} else {
		lost(call);
	}
}

static bool waits_for(const struct call *call, const struct partner *partner)
{
	return call && call->service == partner->service && call->to == partner->id &&
		(call->state != CALL_ENDING || call->again) &&
		(!call->to_incarnation || call->to_incarnation == partner->incarnation);
}

bool ripc__call_is_open(const struct partner *partner, uint64_t id)
{
	return waits_for(call_by_id(partner->service->ctx, id), partner);
}

void ripc__answer_came(struct partner *partner, struct message *message)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct call *call = call_by_id(ctx, message->public.reply);
	bool asking;

	message->public.reply = 0;
	if (!waits_for(call, partner)) {
		ctx->stats.replies_late++;
		ripc__message_free(message);
		return;
	}
	if (partner->resolved)
		message->public.sender = RIPC_SENDER_RESOLVED;
	call->answer = message;
	call->asked = RIPC_DELIVERED;
	asking = call->outgoing;
	end(call, message->public.status); /* frees the call, unless its request is in progress */
	/* The timer ends the request, because this partner is in use now. */
	if (asking)
		timer_set(call, ctx->now_us);
}

void ripc__calls_lost(struct partner *partner)
{
	struct ripc_service *service = partner->service;

	if (!partner->n_asked)
		return;
	list_for_each_entry_safe(call, &service->calls, struct call, node) {
		if (call->partner == partner)
			lost(call);
	}
}

/* ---- beginning and cancelling ------------------------------------------------------------ */

/* Takes a slot and a timer, which the call needs while it is open. */
static int enter(struct call *call)
{
	struct ripc_service *service = call->service;
	struct ripc_context *ctx = service->ctx;
	int error = call_name(call);

	if (error)
		return error;
	error = ripc__timer_admit(ctx);
	if (error) {
		call_unname(call);
		return error;
	}
	list_append(&service->calls, &call->node);
	service->n_calls++;
	ctx->stats.calls_open++;
	return 0;
}

int ripc__call_begin(struct ripc_service *service, const struct ripc_request *request, bool waiter,
		struct call **call_out)
{
	struct ripc_context *ctx = service->ctx;
	uint64_t timeout_ms = request->timeout_ms ? (uint64_t)request->timeout_ms :
		ctx->cfg.timeout_ms;
	struct call *call;
	int error;

	if (service->closing)
		return -ESHUTDOWN;
	if (service->n_calls >= CALLS_MAX || ctx->stats.calls_open >= RIPC_SLOTS_MAX) {
		ctx->stats.calls_refused++;
		return -EAGAIN;
	}
	error = request->flags & RIPC_GIVE ?
		ripc__buffers_check(ctx, request->items, request->n_items) : 0;
	if (error)
		return error;
	call = call_alloc(service, request);
	if (!call)
		return -ENOMEM;
	error = enter(call);
	if (error) {
		ripc__call_free(call);
		return error;
	}
	call->timer.fire = fire;
	call->waiter = waiter;
	call->asked = RIPC_NOT_DELIVERED;
	call->status = -ETIMEDOUT;
	call->deadline_us = ctx->now_us + timeout_ms * 1000;
	*call_out = call;
	error = ask(call, true);
	if (!error)
		return 0;
	if (may_pass(error) && error != -ENOMEM && error != -EAGAIN) {
		ask_failed(call, error);
		return 0;
	}
	ctx->stats.calls_refused += error == -EAGAIN;
	(void)returns_are_free(call); /* no partner has heard of these buffers */
	forget(call);
	ripc__call_free(call);
	return error;
}

bool ripc__calls_cancel(struct ripc_service *service, uint64_t cookie)
{
	bool any = false;

	list_for_each_entry_safe(call, &service->calls, struct call, node) {
		if (call->cookie != cookie)
			continue;
		any = true;
		if (call->state != CALL_ENDING || call->again)
			end(call, -ECANCELED);
	}
	return any;
}

void ripc__calls_end(struct ripc_service *service)
{
	list_for_each_entry_safe(call, &service->calls, struct call, node) {
		forget(call);
		if (call->answer)
			ripc__message_free(call->answer);
		call->answer = NULL;
		call->service = NULL;
		call->status = -ECANCELED;
		call->state = call->outgoing ? CALL_ENDING : CALL_ENDED;
		if (call->waiter && !call->outgoing)
			given_settle(call);
		if (call->waiter)
			continue;
		if (call->outgoing)
			call->outgoing->asked_by = NULL;
		given_drop(call);
		ripc__call_free(call);
	}
	service->ctx->loop.changed = true;
}

/* ---- reply ------------------------------------------------------------------------------- */

/*
 * Replies to requests. The reply to a request that came as a short is sent as a short, if it fits:
 * if this short is lost, the request comes again as a long message. Any other reply is a long
 * message, whose items are copied or transferred. The server gets no report about its end.
 *
 * A reply is sent to the incarnation that sent the request, and to no other.
 */

#define REPLY_MS 60000 /* timeout of a reply; the sender of the request may be gone sooner */

static struct wire_call answer_of(const struct reply *reply)
{
	return reply->status ? (struct wire_call){WIRE_CALL_FAILS, (uint32_t)-reply->status} :
		(struct wire_call){WIRE_CALL_ANSWERS, 0};
}

/* The sender of the request, as resolved partner, or as claimant of its ID; or NULL. */
static struct partner *asker_of(const struct ripc_service *service, const struct ripc_msg *request)
{
	struct partner *partner = service->recent;

	if (!partner || partner->id != request->from)
		partner = ripc__map_get(&service->partners, request->from);
	if (!partner || !partner->resolved || partner->suspect)
		partner = ripc__claim_asker(service, request->from, request->reply);
	return partner && partner->incarnation == request->from_incarnation ? partner : NULL;
}

/* Sends the reply as a short. False: it must be sent as a long message. */
static bool reply_shortly(struct partner *asker, const struct ripc_msg *request,
		const struct reply *reply)
{
	const struct short_call answer = {.items = reply->items, .n_items = reply->n_items,
		.id = request->reply, .is = answer_of(reply)};

	return request->flags & RIPC_ASKED_SHORTLY && asker &&
		ripc__short_call(asker, &answer) == 0;
}

/* Copies all items into one buffer of the pool, with a reference for each item. */
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

/* Sends a long reply. A small one is kept in the message itself; else its items are copied. */
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

static int reply_at_length(struct ripc_service *service, const struct ripc_msg *request,
		const struct reply *reply, struct partner *asker, struct outgoing **outgoing)
{
	const struct sending like = {.sums = true, .to = asker, .call = answer_of(reply),
		.copies = !(reply->flags & RIPC_GIVE)};
	struct ripc_send send = {.size = sizeof(send), .to = request->from,
		.to_incarnation = request->from_incarnation, .reply_to = request->reply,
		.items = reply->items, .n_items = reply->n_items, .flags = reply->flags,
		.timeout_ms = REPLY_MS};

	return send_long(service, &send, &like, outgoing);
}

int ripc__reply(struct ripc_service *service, const struct ripc_msg *request,
		const struct reply *reply, struct outgoing **outgoing)
{
	struct partner *asker = asker_of(service, request);

	*outgoing = NULL;
	if (reply->flags & RIPC_GIVE) {
		int error = ripc__buffers_check(service->ctx, reply->items, reply->n_items);

		if (error)
			return error;
	}
	if (!reply_shortly(asker, request, reply))
		return reply_at_length(service, request, reply, asker, outgoing);
	if (reply->flags & RIPC_GIVE)
		ripc__buffers_free(service->ctx, reply->items, reply->n_items);
	return 0;
}
