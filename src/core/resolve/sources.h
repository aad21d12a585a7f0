/* SPDX-License-Identifier: BSD-3-Clause */
/* Which sources a configuration means. */
#ifndef RIPC_SOURCES_H
#define RIPC_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

/*
 * Is this source, of a NULL-terminated table, wanted? By the option resolver.sources, or, where
 * that is not set: the store if it has servers, and then multicast is not. */
bool ripc__source_is_wanted(const struct ripc__host *host, const struct ripc__source *source);
/*
 * Fills chosen with those that are wanted, in their order, loaded, and NULL. -EINVAL: a name that
 * nobody has; -ENODEV: one cannot be loaded (both logged).
 */
int ripc__sources_choose(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max);

#endif
