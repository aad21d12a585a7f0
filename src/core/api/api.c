/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public calls: groups, draining and closing a service, polling, descriptors for event loops. Each
 * checks its arguments, takes the lock and delegates; the contracts are in ripc.h and group.h.
 *
 * Design notes. A service's descriptor is an eventfd, and nothing else: any number of them fits
 * into one epoll, and none becomes readable for another's messages. The thread that queues the
 * first message writes to it: it is readable until the last message is taken. A call that waits for
 * the message itself, or finds it by its own look, costs no write.
 */
#include <errno.h>
#include <string.h>

#include "core/base/base.h"
#include "core/engine/readiness.h"
#include "core/engine/wait.h"
#include "core/group/fanout.h"
#include "core/group/group.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "core/wire/record.h"
#include "ripc/group.h"
#include "service.h"
#include "util/hash/siphash.h"
#include "util/system/cancel.h"

uint64_t ripc_id_from_name(const char *name)
{
	static const uint8_t key[16];
	uint64_t id = name ? ripc__siphash(key, name, strlen(name)) : 0;

	if (wire_is_group(id))
		id &= INT64_MAX;
	return id ? id : 1;
}

uint64_t ripc_group_from_name(const char *name)
{
	static const uint8_t key[16];
	uint64_t id = name ? ripc__siphash(key, name, strlen(name)) : 0;

	return id | 0xffull << 56;
}

/* ---- groups ------------------------------------------------------------------------------ */

int ripc_join(struct ripc_service *svc, uint64_t group)
{
	RIPC__HOLD_CANCEL;
	int error = svc && wire_is_group(group) ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	error = ripc__group_join(svc, group);
	ripc__leave(svc->ctx);
	return error;
}

int ripc_leave(struct ripc_service *svc, uint64_t group)
{
	RIPC__HOLD_CANCEL;
	int error = svc && wire_is_group(group) ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	error = ripc__group_leave(svc, group);
	ripc__leave(svc->ctx);
	return error;
}

int ripc_deliveries(const struct ripc_msg *completion, struct ripc_delivery *list, uint32_t max,
		size_t entry_size)
{
	const struct fanout *fanout = completion ? ripc__fanout_of(completion) : NULL;
	int error = ripc__struct_check(entry_size);

	if (!fanout || (max && !list) ||
			entry_size < offsetof(struct ripc_delivery, status) + sizeof(list->status))
		return -EINVAL;
	if (error)
		return error;
	for (uint32_t i = 0; i < fanout->n && i < max; i++)
		ripc__struct_fill((uint8_t *)list + i * entry_size, entry_size,
			&fanout->deliveries[i].public, sizeof(*list));
	return (int)fanout->n;
}

/* ---- services ---------------------------------------------------------------------------- */

int ripc_service_drain(struct ripc_service *svc, int timeout_ms)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	int error = ctx && timeout_ms >= 0 ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	error = ripc__service_drain(svc, timeout_ms);
	ripc__leave(ctx);
	return error;
}

int ripc_service_close(struct ripc_service *svc)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = svc ? svc->ctx : NULL;
	int error = ctx ? ripc__enter_in(svc) : -EINVAL;

	if (error)
		return error;
	ripc__point(ctx, "in_close");
	ripc__service_end(svc);
	ripc__orphans_wait(ctx);
	ripc__leave(ctx);
	return 0;
}

uint64_t ripc_service_id(const struct ripc_service *svc)
{
	return svc ? svc->id : 0;
}

uint64_t ripc_service_incarnation(const struct ripc_service *svc)
{
	return svc ? svc->incarnation : 0;
}

/* ---- polling ----------------------------------------------------------------------------- */

int ripc_poll(struct ripc_context *ctx)
{
	int work;

	if (!ctx)
		return -EINVAL;
	work = ripc__enter(ctx);
	if (work)
		return work;
	work = ripc__poll(ctx);
	ripc__leave(ctx);
	return work;
}

int64_t ripc_poll_timeout(struct ripc_context *ctx)
{
	uint64_t next;
	int64_t left = -1;

	if (!ctx || ripc__enter(ctx))
		return -1;
	next = ripc__next_deadline(ctx);
	if (next != UINT64_MAX)
		left = next > ctx->now_us ? (int64_t)(next - ctx->now_us) : 0;
	ripc__leave(ctx);
	return left;
}

/* ---- descriptors ------------------------------------------------------------------------- */

static int service_fd(struct ripc_service *service)
{
	int error;

	if (service->event_fd >= 0)
		return service->event_fd;
	error = ripc__service_fd_open(service);
	if (error)
		return error;
	ripc__ports_leave(service->ctx);
	return service->event_fd;
}

int ripc_service_fd(struct ripc_service *svc)
{
	RIPC__HOLD_CANCEL;
	int fd = svc ? ripc__enter_in(svc) : -EINVAL;

	if (fd)
		return fd;
	fd = service_fd(svc);
	ripc__leave(svc->ctx);
	return fd;
}

int ripc_context_fd(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	int fd = ctx ? ripc__enter(ctx) : -EINVAL;

	if (fd)
		return fd;
	fd = ripc__context_fd(ctx);
	ripc__leave(ctx);
	return fd;
}
