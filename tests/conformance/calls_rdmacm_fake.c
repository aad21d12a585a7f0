/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls by the rdmacm backend on the library of tests/support/fake, whose rules they must not
 * break.
 */
#include "../support/fake/iwarp.h"
#include "../unit/call_pair.h"

static void device_check(void)
{
	const char *what;

	ck_assert_msg(fake_iwarp_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_iwarp_live(), 0);
}

int calls_world_make(struct calls_world *world, int n_args, char **args)
{
	(void)n_args;
	(void)args;
	*world = (struct calls_world){.backends = {"rdmacm"}, .n_backends = 1,
		.begin = fake_iwarp_reset, .end = device_check, .one_process = true, .moves = true};
	return 0;
}
