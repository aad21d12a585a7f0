/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What event loops sleep on: an eventfd for each service that is asked for one, and one descriptor
 * for all ports of a context.
 */
#ifndef RIPC_DESCRIPTOR_H
#define RIPC_DESCRIPTOR_H

#include <stdbool.h>

#include "core/objects.h"

void ripc__service_fd_close(struct ripc_service *service);
/* Makes it readable or not; only of a service that has one. */
void ripc__service_fd_tell(struct ripc_service *service, bool readable);
void ripc__context_fd_close(struct ripc_context *ctx);

/* Does anybody sleep on descriptors of ours, as far as is known? */
static inline bool ripc__has_descriptors(const struct ripc_context *ctx)
{
	return ctx->n_event_fds > 0 || ctx->ports_fd >= 0;
}

/*
 * No call looks at the ports from now on, though somebody may sleep on descriptors: the progress
 * thread does, at once; or what comes makes the context's descriptor readable.
 */
void ripc__ports_leave(struct ripc_context *ctx);

#endif
