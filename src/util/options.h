/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the options of ripc_config.options, and checking them by all lists (ripc__options).
 * These contain the lists of parts that are not built in, hence only a misspelt option is
 * reported as unknown.
 */
#ifndef RIPC_OPTIONS_H
#define RIPC_OPTIONS_H

#include "core/net/backend.h"

#define OPTION_WHY 256 /* bytes of a sentence about the fault */

/*
 * Reads the options of a list. An option that is not configured keeps its value. -EINVAL: an
 * option has a wrong value, which is logged, with the right ones; that option and those after it
 * keep their values.
 */
int ripc__options_read(const struct ripc__host *host, const struct ripc__option *options,
		void *values);

/*
 * Checks that there is such an option in these lists (ended by NULL), with such a value.
 * -EINVAL: no; why has the reason, with the right values.
 */
int ripc__option_check(const struct ripc__option *const *lists, const char *name,
		const char *text, char why[OPTION_WHY]);

#endif
