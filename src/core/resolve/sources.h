/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources that a configuration chooses. */
#ifndef RIPC_SOURCES_H
#define RIPC_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

/*
 * Is this source wanted? The option resolver.sources names the wanted ones. Where it is not set,
 * the store is wanted if it has servers, and then multicast is not.
 */
bool ripc__source_is_wanted(const struct ripc__host *host, const struct ripc__source *source);
/*
 * Fills chosen with the wanted sources, loaded, in their order, and NULL. -EINVAL: a name that no
 * source has; -ENODEV: a source cannot be loaded (both logged).
 */
int ripc__sources_choose(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max);

#endif
