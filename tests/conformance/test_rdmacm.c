/* SPDX-License-Identifier: BSD-3-Clause */
/* The rdmacm backend against the contract, on a device, with its default and with few buffers. */
#include "suite.h"

int main(void)
{
	static const char *const few[] = {"rdmacm.receives", "256", "rdmacm.connections", "6",
		NULL};
	static const conformance_options variants[] = {NULL, few};
	static const struct conformance rdmacm = {
		.backend = &ripc__rdmacm_backend,
		.variants = variants,
		.n_variants = 2,
		.both_ends = true,
		.writers_read = true,
	};

	return conformance_run_on_device(&rdmacm);
}
