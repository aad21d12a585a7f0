/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ofi backend against the contract, on one of libfabric's providers: with its defaults, and
 * with few buffers and short datagrams.
 *
 * usage: test_ofi PROVIDER
 */
#include <string.h>

#include "suite.h"

int main(int argc, char **argv)
{
	const char *provider = argc > 1 ? argv[1] : "efa";
	const char *const plain[] = {"ofi.provider", provider, NULL};
	const char *const small[] = {"ofi.provider", provider, "ofi.receives", "128",
		"ofi.datagram", "2112", NULL};
	const conformance_options variants[] = {plain, small};
	const struct conformance ofi = {
		.backend = &ripc__ofi_backend,
		.variants = variants,
		.n_variants = 2,
		.both_ends = true,
		.later = true,
		.mortal = strcmp(provider, "shm") == 0, /* seen with libfabric 1.17 */
	};

	return conformance_run_on_device(&ofi);
}
