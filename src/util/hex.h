/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes as hexadecimal digits. */
#ifndef RIPC_HEX_H
#define RIPC_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads exactly 2 * len digits; false: there is something else. bytes may be half written then. */
bool ripc__hex_read(const char *text, uint8_t *bytes, size_t len);
/* Writes 2 * len digits and a final zero. */
void ripc__hex_write(char *text, const uint8_t *bytes, size_t len);

#endif
