/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers and bytes from text. */
#ifndef RIPC_UTIL_TEXT_H
#define RIPC_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- parse ------------------------------------------------------------------------------- */

/* Converts words of a configuration to values, or refuses them. */

/*
 * A decimal number from 0 to max; "on", "yes", "true" or "1", or "off", "no", "false" or "0". 0;
 * *value stays as it is if text is NULL (not configured). -EINVAL: text is something else.
 */
int ripc__parse_number(const char *text, uint32_t max, uint32_t *value);
int ripc__parse_switch(const char *text, bool *value);

/* ---- hex --------------------------------------------------------------------------------- */

/* Bytes as hexadecimal digits. */

/* Reads exactly 2 * len digits; false: text is anything else, and bytes may be half written. */
bool ripc__hex_read(const char *text, uint8_t *bytes, size_t len);
/* Writes 2 * len digits and a final zero. */
void ripc__hex_write(char *text, const uint8_t *bytes, size_t len);

#endif
