/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the ofi backend where that was not built. */
#include "internal.h"

MISSING(ofi, 6, "libfabric-dev, 1.17 or newer");
