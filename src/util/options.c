/* SPDX-License-Identifier: BSD-3-Clause */
/* Options: text from outside becomes numbers and switches, or is refused in words. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend.h"
#include "ripc/ripc.h"

int ripc__option_number(const struct ripc__host *host, const char *name, uint32_t max,
		uint32_t *value)
{
	const char *text = host->option ? host->option(host->arg, name) : NULL;
	unsigned long long number;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || !isdigit((unsigned char)*text) || *end || number > max) {
		host->log(host->arg, RIPC_LOG_ERROR, "option %s: \"%.40s\" is not a number up to %u",
			name, text, max);
		return -EINVAL;
	}
	*value = (uint32_t)number;
	return 0;
}

int ripc__option_switch(const struct ripc__host *host, const char *name, bool *value)
{
	const char *text = host->option ? host->option(host->arg, name) : NULL;

	if (!text)
		return 0;
	if (strcmp(text, "on") != 0 && strcmp(text, "off") != 0) {
		host->log(host->arg, RIPC_LOG_ERROR, "option %s: \"%.40s\" is neither on nor off",
			name, text);
		return -EINVAL;
	}
	*value = strcmp(text, "on") == 0;
	return 0;
}
