/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdmacm backend against the contract, on a device: with its default, with few buffers, and
 * with datagrams over UDP.
 */
#include "suite.h"

int main(void)
{
	static const char *const few[] = {"rdmacm.receives", "256", "rdmacm.connections", "6",
		NULL};
	static const char *const udp[] = {"rdmacm.udp", "on", NULL};
	static const char *const small[] = {"udp.rcvbuf", "32768", NULL};
	static const conformance_options variants[] = {NULL, few, udp};
	static const struct conformance rdmacm = {
		.backend = &ripc__rdmacm_backend,
		.variants = variants,
		.n_variants = 3,
		.writes = true,
		.small_buffer = small,
		.both_ends = true,
		.later = true,
		.writers_read = true,
	};

	return conformance_run_on_device(&rdmacm);
}
