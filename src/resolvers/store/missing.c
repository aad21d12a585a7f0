/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the store source where that was not built, and reports so. */
#include <stdio.h>

#include "core/net/backend.h"

static const struct ripc__source *missing_load(const struct ripc__host *host, char why[256],
		char remedy[256])
{
	(void)host;
	snprintf(why, 256, "this library was built without ZooKeeper's client");
	snprintf(remedy, 256,
		"install libzookeeper-st-dev and build again (meson setup -Dstore=enabled)");
	return NULL;
}

const struct ripc__source ripc__store_source = {.name = "store", .exact = true,
	.load = missing_load};
