/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that threads sleep on: of ports and resolver, and eventfds that end a sleep. */
#ifndef RIPC_READINESS_H
#define RIPC_READINESS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/objects.h"

struct device;

#define POLLS_MAX 25 /* the kick, 8 of the resolver, 8 devices with two each */

/* Makes an eventfd readable; makes it unreadable. No lock needed; also in a signal handler. */
void ripc__kick(int fd);
void ripc__kick_drain(int fd);
/* Ends the sleep of the progress thread. */
void ripc__thread_kick(struct ripc_context *ctx);
/* Adds the ports' descriptors but one's (or NULL) behind the first n; *ticks: a port has none. */
nfds_t ripc__ports_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n, bool *ticks,
		const struct device *but);
/* Arms the ports, without that of but (may be NULL). False: an event came in while arming. */
bool ripc__ports_arm(struct ripc_context *ctx, const struct device *but);
/* Adds the resolver's descriptors. */
nfds_t ripc__resolver_add(struct ripc_context *ctx, struct pollfd *fds, nfds_t n);
/*
 * Sleeps, without the lock, until a descriptor is readable or until_us (UINT64_MAX: for ever).
 * mask: the signals that are held back meanwhile; NULL: as before. False: a signal was handled.
 */
bool ripc__sleep_on(struct pollfd *fds, nfds_t n, uint64_t now_us, uint64_t until_us,
		const sigset_t *mask);
/* A device has a second descriptor from now on: whoever sleeps must know of it. */
void ripc__port_widened(struct ripc_context *ctx, const struct device *device);
/* The descriptor of all ports, for the application's event loop; made at the first call. */
int ripc__context_fd(struct ripc_context *ctx);
void ripc__context_fd_close(struct ripc_context *ctx);
/*
 * No call looks at the ports from now on, but the application may sleep on descriptors. So the
 * progress thread looks at once; or packets that come make the context's descriptor readable.
 */
void ripc__ports_leave(struct ripc_context *ctx);

/* May the application sleep on descriptors of this context? */
static inline bool ripc__has_descriptors(const struct ripc_context *ctx)
{
	return ctx->n_event_fds > 0 || ctx->ports_fd >= 0;
}

bool ripc__any_revents(const struct pollfd *fds, nfds_t n);

#endif
