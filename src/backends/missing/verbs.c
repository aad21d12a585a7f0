/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the verbs backend where that was not built. */
#include "internal.h"

MISSING(verbs, 4, "libibverbs-dev, 32 or newer");
