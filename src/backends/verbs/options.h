/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the verbs backend, known also where it is not built in. */
#ifndef RIPC_VERBS_OPTIONS_H
#define RIPC_VERBS_OPTIONS_H

#include "core/net/backend.h"
#include "util/options.h"

struct verbs_options {
	uint32_t connections, receives, gid_index;
	const char *device; /* NULL: any */
	bool trusted; /* for core (keys/moves.h) */
};

#endif
