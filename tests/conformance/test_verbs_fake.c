/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs backend against the contract, on the library of tests/support/fake: it must break no
 * rule of the device and leave nothing behind. As RoCE over IPv4 and IPv6, and as InfiniBand
 * without inline data.
 */
#include <check.h>
#include <string.h>

#include "../support/fake/verbs.h"
#include "suite.h"

enum network { ROCE_V4, ROCE_V6, INFINIBAND };

static enum network network;

static void *open_world(void)
{
	fake_verbs_reset();
	if (network != ROCE_V4)
		fake_verbs.gids[1].gid.raw[0] = 0xfd;
	if (network == INFINIBAND) {
		fake_verbs.gids[1].gid_type = IBV_GID_TYPE_IB;
		fake_verbs.link_layer = IBV_LINK_LAYER_INFINIBAND;
		fake_verbs.lid = 5;
		fake_verbs.inline_max = 0;
	}
	return &fake_verbs;
}

static void close_world(void *world)
{
	const char *what;

	(void)world;
	ck_assert_msg(fake_verbs_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_verbs_live(), 0);
}

int main(void)
{
	static const char *const few[] = {"verbs.receives", "256", "verbs.connections", "2", NULL};
	static const conformance_options variants[] = {NULL, few};
	static const struct conformance verbs = {
		.backend = &ripc__verbs_backend,
		.world_open = open_world,
		.world_close = close_world,
		.variants = variants,
		.n_variants = 2,
		.writes = true,
		.both_ends = true,
	};
	int failed = 0;

	for (network = ROCE_V4; network <= INFINIBAND; network++)
		failed |= conformance_run(&verbs);
	return failed;
}
