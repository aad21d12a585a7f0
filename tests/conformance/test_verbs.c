/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs backend against the contract, on a device, with its default and with few buffers. */
#include "suite.h"

int main(void)
{
	static const char *const few[] = {"verbs.receives", "256", "verbs.connections", "2", NULL};
	static const conformance_options variants[] = {NULL, few};
	static const struct conformance verbs = {
		.backend = &ripc__verbs_backend,
		.variants = variants,
		.n_variants = 2,
		.writes = true,
		.both_ends = true,
	};

	return conformance_run_on_device(&verbs);
}
