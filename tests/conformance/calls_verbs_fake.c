/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls by the verbs backend on the library of tests/support/fake, whose rules they must not break.
 */
#include "../support/fake/verbs.h"
#include "../unit/call_pair.h"

static void device_check(void)
{
	const char *what;

	ck_assert_msg(fake_verbs_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_verbs_live(), 0);
}

int calls_world_make(struct calls_world *world, int n_args, char **args)
{
	(void)n_args;
	(void)args;
	*world = (struct calls_world){.backends = {"verbs"}, .n_backends = 1,
		.begin = fake_verbs_reset, .end = device_check, .one_process = true, .moves = true};
	return 0;
}
