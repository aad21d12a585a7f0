/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of ripc_config.options: each one's name, and what it takes. Known here also when
 * the part that heeds an option is not built in, so that a slip of the pen is told as such.
 */
#ifndef RIPC_OPTIONS_H
#define RIPC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__host;

#define OPTION_WHY 256 /* bytes of a sentence that says what is wrong */

/* An option, and where its value goes: the other pointers are NULL. */
struct ripc__option {
	const char *name;
	uint32_t *number;
	bool *on;
	uint32_t *third; /* a switch: 0, 1, or what it is as long as it is not configured */
};

/*
 * Reads the options of a list that ends with {0}. One that is not configured keeps the value that
 * it has. -EINVAL: one is something else than it takes, which is logged, with what it takes; it
 * and those after it keep their values.
 */
int ripc__options_read(const struct ripc__host *host, const struct ripc__option *wanted);

/*
 * Is there such an option, and does it take this? -EINVAL: no; why says so, with what it takes. Of
 * options that are neither numbers nor switches only the name is checked: the part that heeds one
 * knows more.
 */
int ripc__option_check(const char *name, const char *text, char why[OPTION_WHY]);

#endif
