/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the store source, known also where it is not built in. */
#ifndef RIPC_STORE_OPTIONS_H
#define RIPC_STORE_OPTIONS_H

#include <stdint.h>

#include "core/net/backend.h"
#include "util/options.h"

struct store_wish {
	const char *servers, *cluster, *auth; /* NULL: not configured */
	uint32_t session_ms;
};

#endif
