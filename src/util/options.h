/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the options that the configuration carries for one part only ("udp.rcvbuf=65536"). */
#ifndef RIPC_OPTIONS_H
#define RIPC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__host;

/*
 * A decimal number from 0 to max, or "on" or "off". 0; *value is untouched if the option is
 * not set. -EINVAL: it is set to something else, which is logged.
 */
int ripc__option_number(const struct ripc__host *host, const char *name, uint32_t max,
		uint32_t *value);
int ripc__option_switch(const struct ripc__host *host, const char *name, bool *value);

#endif
