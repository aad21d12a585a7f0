/* SPDX-License-Identifier: BSD-3-Clause */
/* The one symbol of a module (module.h); the build defines the backend or source. */
#include "module.h"

extern __attribute__((visibility("default"))) const struct ripc__module ripc__module;

const struct ripc__module ripc__module = {.version = RIPC_MODULE_VERSION, RIPC_MODULE_IS};
