/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop backend against the contract. */
#include "loop/loop.h"

#include <stdlib.h>

#include "suite.h"

static void *open_hub(void)
{
	struct ripc__loop_hub *hub = NULL;

	return ripc__loop_hub_open(&hub) ? NULL : hub;
}

static void close_hub(void *hub)
{
	ripc__loop_hub_close(hub);
}

int main(void)
{
	static const conformance_options variants[] = {NULL};
	static const struct conformance loop = {
		.backend = &ripc__loop_backend,
		.world_open = open_hub,
		.world_close = close_hub,
		.variants = variants,
		.n_variants = 1,
	.writes = true,
	};

	return conformance_run(&loop);
}
