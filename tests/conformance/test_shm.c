/* SPDX-License-Identifier: BSD-3-Clause */
/* The shm backend against the contract. */
#include "suite.h"

int main(void)
{
	static const conformance_options variants[] = {NULL};
	const struct conformance shm = {
		.backend = &ripc__shm_backend,
		.variants = variants,
		.n_variants = 1,
	};

	return conformance_run(&shm);
}
