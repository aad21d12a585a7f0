/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdmacm backend against the contract, on the libraries of tests/support/fake: it must break no
 * rule of the device and leave nothing behind. With its default, with few buffers and connections,
 * and with datagrams over UDP.
 */
#include <check.h>

#include "../support/fake/iwarp.h"
#include "suite.h"

static void *open_world(void)
{
	fake_iwarp_reset();
	return &fake_iwarp;
}

static void close_world(void *world)
{
	const char *what;

	(void)world;
	ck_assert_msg(fake_iwarp_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_iwarp_live(), 0);
}

int main(void)
{
	static const char *const few[] = {"rdmacm.receives", "256", "rdmacm.connections", "6",
		NULL};
	static const char *const udp[] = {"rdmacm.udp", "on", NULL};
	static const char *const small[] = {"udp.rcvbuf", "32768", NULL};
	static const conformance_options variants[] = {NULL, few, udp};
	static const struct conformance rdmacm = {
		.backend = &ripc__rdmacm_backend,
		.world_open = open_world,
		.world_close = close_world,
		.variants = variants,
		.n_variants = 3,
		.writes = true,
		.small_buffer = small,
		.both_ends = true,
		.later = true,
	};

	return conformance_run(&rdmacm);
}
