/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs all cases that apply to a backend, each with every variant of its options. */
#include "suite.h"

#include <stdlib.h>

#include "cases.h"
#include "side.h"

void cases_add(TCase *tcase, const TTest *const *cases)
{
	for (; *cases; cases++)
		tcase_add_loop_test(tcase, *cases, 0, (int)conformance_under_test->n_variants);
}

static void add(Suite *suite, const char *name, void (*add_cases)(TCase *tcase))
{
	TCase *tcase = tcase_create(name);

	tcase_add_checked_fixture(tcase, world_open, world_close);
	add_cases(tcase);
	suite_add_tcase(suite, tcase);
}

int conformance_run(const struct conformance *backend)
{
	Suite *suite = suite_create(backend->backend->name);
	SRunner *runner;
	int failed;

	conformance_under_test = backend;
	add(suite, "setup", conformance_setup_cases);
	add(suite, "datagram", conformance_datagram_cases);
	add(suite, "buffer", conformance_buffer_cases);
	if (backend->backend->wait_fd)
		add(suite, "waiting", conformance_waiting_cases);
	if (backend->backend->read)
		add(suite, "read", conformance_read_cases);
	if (backend->backend->read && backend->backend->write)
		add(suite, "write", conformance_write_cases);
	if (backend->backend->map)
		add(suite, "map", conformance_map_cases);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
