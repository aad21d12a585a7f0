/* SPDX-License-Identifier: BSD-3-Clause */
/* Words of a configuration become values, or are refused. */
#ifndef RIPC_PARSE_H
#define RIPC_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A decimal number from 0 to max; "on", "yes", "true" or "1", or "off", "no", "false" or "0". 0;
 * *value stays as it is if text is NULL (not configured). -EINVAL: text is something else.
 */
int ripc__parse_number(const char *text, uint32_t max, uint32_t *value);
int ripc__parse_switch(const char *text, bool *value);

#endif
