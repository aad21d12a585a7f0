/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Services: registration, draining and the end. Built-in notices are part of the service and
 * cannot fail to be delivered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/call/call.h"
#include "core/engine/wait.h"
#include "core/group/fanout.h"
#include "core/group/group.h"
#include "core/group/mcast_out.h"
#include "core/keys/sealed.h"
#include "core/message/message.h"
#include "core/message/places.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/receive/incoming.h"
#include "core/resolve/resolver.h"
#include "core/send/announce.h"
#include "core/send/outgoing.h"
#include "core/wire/record.h"
#include "internal.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"

/*
 * Time for messages that are still arriving at a service that has lost its ID. Two services can get
 * one ID while the network is cut, and the sender may be behind the cut. The silence of a sender
 * ends its message only after the peer timeout.
 */
#define YIELD_US 500000u

/* ---- life -------------------------------------------------------------------------------- */

static void builtin_init(struct ripc_service *service, struct message *message)
{
	*message = (struct message){.ctx = service->ctx, .home = MESSAGE_BUILTIN};
	message->public.kind = RIPC_NOTICE;
	list_init(&message->node);
}

/* Refuses messages that are arriving at this service. */
static void refuse_incoming(struct ripc_service *service, int status)
{
	for_each_partner(partner, service->ctx) {
		while (partner->service == service && !list_empty(&partner->incoming))
			ripc__incoming_refuse(list_entry(partner->incoming.next, struct incoming,
				node), status, true);
	}
}

/* Ends the grace period: senders then find the service that keeps the ID. */
static void yield_fire(void *owner, struct ripc__timer *timer)
{
	struct ripc_service *service = list_entry(timer, struct ripc_service, yielding);
	struct ripc_context *ctx = owner;

	refuse_incoming(service, -ESHUTDOWN);
	ctx->loop.changed = true;
	ripc__service_tell(service);
}

static struct ripc_service *service_alloc(struct ripc_context *ctx, uint64_t id)
{
	struct ripc_service *service = calloc(1, sizeof(*service));

	if (!service)
		return NULL;
	service->ctx = ctx;
	service->id = id;
	service->event_fd = -1;
	service->stamp = ctx->env.wall_ns(ctx->env.arg);
	list_init(&service->node);
	list_init(&service->queue);
	ripc__ends_init(&service->ends);
	list_init(&service->windows);
	list_init(&service->lent);
	list_init(&service->calls);
	list_init(&service->watches);
	list_init(&service->watcher);
	builtin_init(service, &service->retry);
	builtin_init(service, &service->conflict);
	service->yielding.fire = yield_fire;
	ripc__map_init(&service->partners, ripc__nonce(ctx));
	ripc__map_init(&service->watched, ripc__nonce(ctx));
	ripc__map_init(&service->groups, service->watched.seed);
	ripc__map_init(&service->mcast_out, service->watched.seed);
	return service;
}

/* Draws an unpredictable number for a private ID (never a group's), or for an incarnation. */
static int draw(struct ripc_context *ctx, uint64_t *number)
{
	int error = 0;

	*number = 0;
	while (!error && (*number == 0 || wire_is_group(*number))) {
		error = ctx->env.random(ctx->env.arg, number, sizeof(*number));
		*number = le64toh(*number);
	}
	return error;
}

static int service_register(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;
	int error = ripc__map_put(&ctx->services.by_id, service->id, service);

	if (error)
		return error == -EEXIST ? -EADDRINUSE : error;
	error = ripc__map_put(&ctx->services.by_incarnation, service->incarnation, service);
	if (error)
		goto err_remove_id;
	error = ctx->stats.services ? ripc__partners_index(ctx) : 0;
	error = error ? error : ripc__timer_admit(ctx);
	if (error)
		goto err_remove_incarnation;
	list_append(&ctx->services.all, &service->node);
	ctx->stats.services++;
	return 0;
err_remove_incarnation:
	ripc__map_remove(&ctx->services.by_incarnation, service->incarnation);
err_remove_id:
	ripc__map_remove(&ctx->services.by_id, service->id);
	return error;
}

/* Begins to register. When service->publishing is false, call service_finish(). */
static int service_start(struct ripc_context *ctx, uint64_t id, struct ripc_service **service_out)
{
	bool is_private = id == 0;
	struct ripc_service *service;
	int error = is_private ? draw(ctx, &id) : 0;

	if (is_private && ctx->seal)
		id = ripc__sealed_private(ctx->seal, id);
	if (!error)
		error = ripc__thread_start(ctx);
	if (error)
		return error;
	service = service_alloc(ctx, id);
	if (!service)
		return -ENOMEM;
	error = draw(ctx, &service->incarnation);
	error = error ? error : service_register(service);
	if (error) {
		ripc__map_free(&service->partners);
		free(service);
		return error;
	}
	if (ctx->seal)
		ripc__sealed_registers(ctx->seal, id);
	service->publishing = true;
	service->publish_status = -ETIMEDOUT;
	ripc__resolver_publish(ctx->resolver, id, is_private, ctx->now_us);
	*service_out = service;
	return 0;
}

/* The result of publishing; ends the service if it is not registered. */
static int service_finish(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;
	const struct ripc__answer *answer;
	int error = service->publish_status;

	if (error) {
		ripc__service_end(service);
		return error;
	}
	if (ripc__resolver_lookup(ctx->resolver, service->id, ctx->now_us, &answer) == 0)
		ripc__partner_resolved(ctx, service->id, 0, answer); /* senders waiting here */
	return 0;
}

void ripc__service_yield(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;

	/* A service that must yield its ID gets no new messages, and is in no group. */
	ripc__groups_leave(service);
	service->draining = true;
	ripc__service_notice(service, &service->conflict, -EADDRINUSE);
	ripc__timer_set(&ctx->loop.timers, &service->yielding, ctx->now_us + YIELD_US);
}

static bool nothing_incoming(void *arg)
{
	const struct ripc_service *service = arg;

	return service->n_incoming == 0 || service->closing;
}

int ripc__service_drain(struct ripc_service *service, int timeout_ms)
{
	struct ripc_context *ctx = service->ctx;
	uint64_t deadline = ripc__deadline(ctx, timeout_ms);
	int ready;

	if (!service->draining) {
		ripc__groups_leave(service);
		service->draining = true;
		ripc__resolver_withdraw(ctx->resolver, service->id, service->incarnation);
	}
	ctx->loop.changed = true;
	ripc__service_tell(service);
	ripc__service_get(service);
	ready = ripc__wait_or_end(ctx, NULL, nothing_incoming, service, deadline);
	if (!ready)
		refuse_incoming(service, -ESHUTDOWN);
	ripc__service_tell(service);
	ripc__service_put(service);
	return ready < 0 ? ready : ready ? 0 : -ETIMEDOUT;
}

static void lent_memory_forget(struct ripc_service *service)
{
	while (!list_empty(&service->windows))
		free(list_entry(list_pop(&service->windows), struct window, node));
	while (!list_empty(&service->lent))
		ripc__lent_free(list_entry(service->lent.next, struct lent, node));
}

/* Stores the time of closing: messages that partners began later certainly did not arrive. */
static void closed_remember(struct ripc_context *ctx, uint64_t incarnation)
{
	struct closed *closed = &ctx->services.closed[ctx->services.n_closed++ % CLOSED_MAX];

	if (closed->incarnation)
		ctx->services.closed_floor_us = closed->closed_us;
	*closed = (struct closed){incarnation, ctx->now_us};
}

/* Is the service used by a call that waits in it, or by a notice that the application has? */
static bool is_in_use(const struct ripc_service *service)
{
	return service->n_waiting || service->retry.queued || service->conflict.queued;
}

/*
 * Keeps the memory of the last services that were closed. Another thread may be about to call, for
 * example one that handles a message at the moment: its call then reports that the service is
 * closed.
 */
static void ended_keep(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;

	list_append(&ctx->services.ended, &service->node);
	ctx->services.n_ended++;
	list_for_each_entry_safe(oldest, &ctx->services.ended, struct ripc_service, node) {
		if (ctx->services.n_ended <= SERVICES_KEPT)
			return;
		if (is_in_use(oldest))
			continue;
		list_remove(&oldest->node);
		free(oldest);
		ctx->services.n_ended--;
	}
}

/* The application receives none of the messages in the queue any more. */
static void queue_end(struct ripc_service *service)
{
	ripc__ends_close(service);
	list_for_each_entry(message, &service->queue, struct message, node) {
		if (message->home == MESSAGE_OUTGOING)
			ripc__outgoing_untold(message);
		else if (message->home == MESSAGE_CALL)
			ripc__call_untold(message);
		else if (message->home == MESSAGE_GROUP)
			ripc__fanout_untold(message);
	}
	ripc__queue_free(service);
}

void ripc__service_end(struct ripc_service *service)
{
	struct ripc_context *ctx = service->ctx;

	service->closing = true;
	ripc__groups_leave(service);
	ripc__kept_drop(ctx, service);
	ripc__mcast_out_free(service);
	if (!service->draining)
		ripc__resolver_withdraw(ctx->resolver, service->id, service->incarnation);
	refuse_incoming(service, -ESHUTDOWN);
	ripc__batching_flush(ctx);
	ripc__calls_end(service);
	ripc__watches_end(service);
	queue_end(service);
	ripc__acks_flush(ctx);
	for_each_partner_safe(partner, ctx) {
		if (partner->service == service) {
			ripc__goodbye(partner);
			ripc__outgoing_lost(partner, -ECANCELED, UINT64_MAX);
			ripc__partner_free(partner);
		}
	}
	ripc__outgoing_orphan(service);
	ripc__readings_orphan(service);
	ripc__permits_orphan(service);
	ripc__fanouts_orphan(service);
	queue_end(service); /* also the messages that the ends above have queued */
	lent_memory_forget(service);
	ripc__timer_dismiss(ctx, &service->yielding);
	ripc__map_remove(&ctx->services.by_id, service->id);
	ripc__map_remove(&ctx->services.by_incarnation, service->incarnation);
	closed_remember(ctx, service->incarnation);
	ripc__map_free(&service->partners);
	ripc__map_free(&service->groups);
	free(service->askers);
	service->askers = NULL;
	list_remove(&service->node);
	ctx->stats.services--;
	ripc__service_fd_close(service);
	service->ended = true;
	ctx->loop.changed = true;
	ended_keep(service);
}

void ripc__services_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->services.ended))
		free(list_entry(list_pop(&ctx->services.ended), struct ripc_service, node));
	ctx->services.n_ended = 0;
}

uint32_t ripc__notices_held(const struct ripc_context *ctx)
{
	uint32_t n = 0;

	list_for_each_entry(service, &ctx->services.ended, const struct ripc_service, node) {
		n += (uint32_t)service->retry.queued + (uint32_t)service->conflict.queued;
	}
	return n;
}

static bool no_orphans(void *arg)
{
	const struct ripc_context *ctx = arg;

	return ctx->sends.n_orphans == 0;
}

void ripc__orphans_wait(struct ripc_context *ctx)
{
	ripc__wait(ctx, no_orphans, ctx, UINT64_MAX);
}

/* ---- services ---------------------------------------------------------------------------- */

/*
 * Opening services, one or many. A query for another owner of an ID takes some 60 ms of waiting.
 * Therefore many IDs are queried at once: as many as the network can take.
 */

#define AT_ONCE     1024u     /* each queries every 20 ms with 1,100 bytes: 56 MB/s at most */
#define PATIENCE_US 10000000u

/* Services that are being registered; NULL: the registration could not begin. */
struct opening {
	struct ripc_service **services;
	size_t n, settled; /* begun; the first "settled" ones have a result */
	size_t wanted;     /* number of services to be settled */
};

static bool are_settled(void *arg)
{
	struct opening *opening = arg;

	while (opening->settled < opening->n) {
		const struct ripc_service *service = opening->services[opening->settled];

		if (service && service->publishing)
			break;
		opening->settled++;
	}
	return opening->settled >= opening->wanted;
}

/* Registers all services, AT_ONCE at a time, and waits for the results. Returns the last error. */
static int begin_all(struct ripc_context *ctx, const uint64_t *ids, size_t n,
		struct ripc_service **services)
{
	struct opening opening = {.services = services};
	int error = 0;

	while (opening.n < n) {
		int failed = service_start(ctx, ids[opening.n], &services[opening.n]);

		error = failed ? failed : error;
		opening.n++;
		opening.wanted = opening.n == n ? n :
			opening.n > AT_ONCE ? opening.n - AT_ONCE : 0;
		ripc__wait(ctx, are_settled, &opening, ctx->now_us + PATIENCE_US);
	}
	return error;
}

/* Returns the number of registered services; if none was registered, the last error. */
static int open_all(struct ripc_context *ctx, const uint64_t *ids, size_t n,
		struct ripc_service **services)
{
	int opened = 0, error = begin_all(ctx, ids, n, services);

	for (size_t i = 0; i < n; i++) {
		int failed = services[i] ? service_finish(services[i]) : -ENOENT;

		if (failed && services[i])
			error = failed;
		if (failed)
			services[i] = NULL;
		else
			opened++;
	}
	return opened ? opened : error;
}

int ripc_service_open(struct ripc_context *ctx, uint64_t id, uint32_t flags,
		struct ripc_service **svc)
{
	struct ripc_service *service = NULL;
	int n = svc ? ripc_services_open(ctx, &id, 1, flags, &service) : -EINVAL;

	if (n < 0)
		return n;
	*svc = service;
	return 0;
}

int ripc_services_open(struct ripc_context *ctx, const uint64_t *ids, size_t n, uint32_t flags,
		struct ripc_service **svcs)
{
	RIPC__HOLD_CANCEL;
	int n_exposed;

	if (!ctx || !ids || !svcs || !n || n > INT32_MAX || flags)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (wire_is_group(ids[i]))
			return -EINVAL;
	}
	memset(svcs, 0, n * sizeof(struct ripc_service *));
	n_exposed = ripc__enter(ctx);
	return n_exposed ? n_exposed : ripc__leave_with(ctx, open_all(ctx, ids, n, svcs));
}
