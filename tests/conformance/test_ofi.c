/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ofi backend against the contract, on one of libfabric's providers: with its defaults, and
 * with few buffers and short datagrams.
 *
 * usage: test_ofi PROVIDER [reads]
 *
 * With "reads" libfabric reads long messages, which must be possible there, and else nobody does.
 */
#include <string.h>

#include "suite.h"

int main(int argc, char **argv)
{
	const char *provider = argc > 1 ? argv[1] : "efa";
	const char *reads = argc > 2 && strcmp(argv[2], "reads") == 0 ? "1" : "0";
	const char *const plain[] = {"ofi.provider", provider, "ofi.reads", reads, NULL};
	const char *const small[] = {"ofi.provider", provider, "ofi.reads", reads,
		"ofi.receives", "128", "ofi.datagram", "2112", NULL};
	const conformance_options variants[] = {plain, small};
	const struct conformance ofi = {
		.backend = &ripc__ofi_backend,
		.variants = variants,
		.n_variants = 2,
		.both_ends = true,
		.later = true,
		.readless = reads[0] == '0',
		.mortal = strcmp(provider, "shm") == 0, /* seen with libfabric 1.17 */
	};

	return conformance_run_on_device(&ofi);
}
