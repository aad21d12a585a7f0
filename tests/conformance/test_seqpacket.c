/* SPDX-License-Identifier: BSD-3-Clause */
/* The seqpacket backend against the contract. */
#include "seqpacket/seqpacket.h"
#include "suite.h"

int main(void)
{
	static const conformance_options variants[] = {NULL};
	const struct conformance seqpacket = {
		.backend = &seqpacket_backend,
		.variants = variants,
		.n_variants = 1,
	};

	return conformance_run(&seqpacket);
}
