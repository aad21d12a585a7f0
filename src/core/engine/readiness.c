/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping on the descriptors of ports and resolver, and ending that. Owns none of them.
 *
 * Design notes. An application that sleeps on eventfds does not look at the ports. Either the
 * progress thread does as soon as no call is there: it sleeps on the ports in the kernel, and
 * waits for no tick before. Or the application has asked for the ports' descriptor, an epoll: then
 * they are its own, and the progress thread only runs timers and the resolver. What was found
 * while arming the ports makes that descriptor readable by the kick, which else is the reader's.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/objects.h"
#include "core/peer/devices.h"
#include "core/resolve/resolver.h"
#include "enter.h"
#include "readiness.h"
#include "util/rare.h"
#include "util/system/cancel.h"


void ripc__kick(int fd)
{
	RIPC__HOLD_CANCEL;
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void ripc__kick_drain(int fd)
{
	RIPC__HOLD_CANCEL;
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

RIPC__RARE void ripc__thread_kick(struct ripc_context *ctx)
{
	if (ctx->thread_kicked)
		return;
	ctx->thread_kicked = true;
	ripc__kick(ctx->thread_kick_fd);
}

bool ripc__sleep_on(struct pollfd *fds, nfds_t n, uint64_t now_us, uint64_t until_us,
		const sigset_t *mask)
{
	struct timespec left;
	uint64_t us = until_us > now_us ? until_us - now_us : 0;
	int ready;

	left.tv_sec = (time_t)(us / 1000000);
	left.tv_nsec = (long)(us % 1000000) * 1000;
	ready = ppoll(fds, n, until_us == UINT64_MAX ? NULL : &left, mask);
	for (nfds_t i = 0; ready <= 0 && i < n; i++)
		fds[i].revents = 0;
	return ready >= 0 || errno != EINTR;
}

bool ripc__any_revents(const struct pollfd *fds, nfds_t n)
{
	bool any = false;

	for (nfds_t i = 0; i < n; i++)
		any |= fds[i].revents != 0;
	return any;
}

nfds_t ripc__ports_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n, bool *ticks,
		const struct device *but)
{
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		const struct device *device = &ctx->devices[i];

		if (device == but)
			continue;
		if (device->attr.fd >= 0)
			fds[n++] = (struct pollfd){.fd = device->attr.fd, .events = POLLIN};
		else
			*ticks = true;
		if (device->many_fd >= 0)
			fds[n++] = (struct pollfd){.fd = device->many_fd, .events = POLLIN};
	}
	return n;
}

bool ripc__ports_arm(struct ripc_context *ctx, const struct device *but)
{
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct device *device = &ctx->devices[i];

		if (device != but && device->ops->net.arm &&
				device->ops->net.arm(device->port) == -EAGAIN)
			return false;
	}
	return true;
}

nfds_t ripc__resolver_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n)
{
	int resolver[8];
	int n_resolver = ripc__resolver_fds(ctx->resolver, resolver, 8);

	for (int i = 0; i < n_resolver && n < POLLS_MAX; i++)
		fds[n++] = (struct pollfd){.fd = resolver[i], .events = POLLIN};
	return n;
}

/* ---- the application's ------------------------------------------------------------------- */

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

void ripc__port_widened(struct ripc_context *ctx, const struct device *device)
{
	if (ctx->ports_fd >= 0) /* without memory: looked at with the others */
		watch(ctx->ports_fd, device->many_fd);
	ripc__thread_kick(ctx);
	if (ctx->reader && ctx->reader->asleep_on_port)
		ripc__kick_reader(ctx);
}

int ripc__context_fd(struct ripc_context *ctx)
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
