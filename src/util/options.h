/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the options of ripc_config.options, and checking them by all lists (ripc__options). The
 * lists of parts that are not built in are among those, so that a slip of the pen is told as such.
 */
#ifndef RIPC_OPTIONS_H
#define RIPC_OPTIONS_H

#include "core/net/backend.h"

#define OPTION_WHY 256 /* bytes of a sentence that says what is wrong */

/*
 * Reads the options of a list. An option that is not configured keeps the value that it has.
 * -EINVAL: an option is something else than it takes, which is logged, with what it takes; that one
 * and those after it keep their values.
 */
int ripc__options_read(const struct ripc__host *host, const struct ripc__option *options,
		void *values);

/*
 * Is there such an option in these lists (ended by NULL), and does the option take this? -EINVAL:
 * no; why says so, with what the option takes.
 */
int ripc__option_check(const struct ripc__option *const *lists, const char *name,
		const char *text, char why[OPTION_WHY]);

#endif
