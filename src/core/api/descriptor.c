/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors for event loops.
 *
 * Design notes. A service's descriptor is an eventfd, and nothing else: any number of them fits
 * into one epoll, and none becomes readable for another's messages. Whoever queues writes to it,
 * once: it is readable from the first message until the last one is taken. A call that waits for
 * the message itself, or finds it by its own look, costs no write.
 */
#include <errno.h>

#include "core/engine/readiness.h"
#include "core/engine/wait.h"
#include "core/message/queue.h"

/* ---- of a service ------------------------------------------------------------------------ */

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
	int fd = svc ? ripc__enter(svc->ctx) : -EINVAL;

	if (fd)
		return fd;
	fd = service_fd(svc);
	ripc__leave(svc->ctx);
	return fd;
}

/* ---- of a context ------------------------------------------------------------------------ */

int ripc_context_fd(struct ripc_context *ctx)
{
	int fd = ctx ? ripc__enter(ctx) : -EINVAL;

	if (fd)
		return fd;
	fd = ripc__context_fd(ctx);
	ripc__leave(ctx);
	return fd;
}
