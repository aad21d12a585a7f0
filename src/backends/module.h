/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A module (of a backend, a resolver source, or cryptography) exports one symbol: ripc__module.
 */
#ifndef RIPC_MODULE_H
#define RIPC_MODULE_H

#include "core/net/backend.h"
#include "core/net/crypto.h"

struct ripc__module {
	const char *version; /* RIPC_MODULE_VERSION: core and module change together */
	const struct ripc__backend *backend; /* or NULL */
	const struct ripc__source *source;   /* or NULL */
	const struct ripc__crypto *crypto;   /* or NULL */
};

#endif
