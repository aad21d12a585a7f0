/* SPDX-License-Identifier: BSD-3-Clause */
/* The one symbol of the module of libcrypto (backends/module.h). */
#include "backends/module.h"
#include "internal.h"

extern __attribute__((visibility("default"))) const struct ripc__module ripc__module;

const struct ripc__module ripc__module = {.version = RIPC_MODULE_VERSION,
	.crypto = &ripc__libcrypto};
