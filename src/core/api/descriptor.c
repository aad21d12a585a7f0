/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors for event loops.
 *
 * Design notes. A service's descriptor is an eventfd, and nothing else: any number of them fits
 * into one epoll, and none becomes readable for another's messages. Whoever queues writes to it,
 * once: it is readable from the first message until the last one is taken. A call that waits for
 * the message itself, or finds it by its own look, costs no write.
 *
 * An application that sleeps on eventfds does not look at the ports. Either the progress thread
 * does as soon as no call is there: it sleeps on the ports in the kernel, and waits for no tick
 * before. Or the application has asked for the ports' descriptor, an epoll: then they are its own,
 * and the progress thread only runs timers and the resolver. What was found while arming the ports
 * makes that descriptor readable by the kick, which else is the reader's.
 */
#include "core/engine/readiness.h"
#include "core/engine/thread.h"
#include "core/engine/wait.h"
#include "core/message/queue.h"
#include "descriptor.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>


/* ---- of a service ------------------------------------------------------------------------ */

void ripc__service_fd_tell(struct ripc_service *service, bool readable)
{
	uint64_t value = 1;

	if (readable == service->event_set)
		return;
	if (readable)
		service->event_set = write(service->event_fd, &value, sizeof(value)) > 0;
	else if (read(service->event_fd, &value, sizeof(value)) > 0 || errno == EAGAIN)
		service->event_set = false;
}

static int service_fd(struct ripc_service *service)
{
	if (service->event_fd >= 0)
		return service->event_fd;
	service->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (service->event_fd < 0)
		return -errno;
	service->ctx->n_event_fds++;
	ripc__service_tell(service);
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

void ripc__service_fd_close(struct ripc_service *service)
{
	if (service->event_fd < 0)
		return;
	close(service->event_fd);
	service->event_fd = -1;
	service->event_set = false;
	service->ctx->n_event_fds--;
}

/* ---- of a context ------------------------------------------------------------------------ */

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int watch_all(struct ripc_context *ctx, int epoll_fd)
{
	struct pollfd fds[POLLS_MAX] = {{.fd = ctx->kick_fd}};
	bool ticks = false; /* what has no descriptor is served by timeouts */
	nfds_t n = ripc__ports_add(ctx, fds, 1, &ticks, NULL);
	int error = 0;

	/* Without a progress thread the application is all there is to serve the resolver. */
	if (ctx->cfg.flags & RIPC_NO_THREAD)
		n = ripc__resolver_add(ctx, fds, n);
	for (nfds_t i = 0; !error && i < n; i++)
		error = watch(epoll_fd, fds[i].fd);
	return error;
}

static int context_fd(struct ripc_context *ctx)
{
	int epoll_fd, error;

	if (ctx->ports_fd >= 0)
		return ctx->ports_fd;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return -errno;
	error = watch_all(ctx, epoll_fd);
	if (error) {
		close(epoll_fd);
		return error;
	}
	ctx->ports_fd = epoll_fd;
	ripc__thread_kick(ctx);
	ripc__ports_leave(ctx);
	return epoll_fd;
}

int ripc_context_fd(struct ripc_context *ctx)
{
	int fd = ctx ? ripc__enter(ctx) : -EINVAL;

	if (fd)
		return fd;
	fd = context_fd(ctx);
	ripc__leave(ctx);
	return fd;
}

void ripc__context_fd_close(struct ripc_context *ctx)
{
	if (ctx->ports_fd >= 0)
		close(ctx->ports_fd);
}

void ripc__ports_leave(struct ripc_context *ctx)
{
	bool armed;

	if (ctx->reader || !ripc__has_descriptors(ctx))
		return;
	armed = ripc__ports_arm(ctx, NULL);
	if (ctx->ports_fd >= 0 && !armed)
		ripc__kick(ctx->kick_fd);
	else if (ctx->ports_fd < 0 && (!armed || !ctx->thread_holds))
		ripc__thread_kick(ctx);
}
