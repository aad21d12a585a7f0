/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on the descriptors of ports and resolver, and ending that. Owns none of them. */
#include "core/objects.h"
#include "core/peer/devices.h"
#include "core/resolve/resolver.h"
#include "readiness.h"

#include <errno.h>
#include <unistd.h>


void ripc__kick(int fd)
{
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void ripc__kick_drain(int fd)
{
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
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
		struct device *device = &ctx->devices[i];
		int fd;

		if (device == but)
			continue;
		fd = device->ops->wait_fd ? device->ops->wait_fd(device->port) : -ENOTSUP;
		if (fd >= 0)
			fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
		else
			*ticks = true;
	}
	return n;
}

bool ripc__ports_arm(struct ripc_context *ctx, const struct device *but)
{
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct device *device = &ctx->devices[i];

		if (device != but && device->ops->wait_arm &&
				device->ops->wait_arm(device->port) == -EAGAIN)
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
