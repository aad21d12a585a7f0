/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the rdmacm backend where that was not built. */
#include "internal.h"

MISSING(rdmacm, 5, "librdmacm-dev and libibverbs-dev, 32 or newer");
