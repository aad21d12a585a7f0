/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the rdmacm backend, known also where it is not built in. */
#ifndef RIPC_RDMACM_OPTIONS_H
#define RIPC_RDMACM_OPTIONS_H

#include <stdbool.h>

#include "core/net/backend.h"
#include "util/options.h"

struct rdmacm_options {
	uint32_t connections, receives, port;
	bool any, udp;
	bool trusted; /* for core (keys/moves.h) */
	const char *device; /* NULL: any */
};

#endif
