/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs all cases that apply to a backend, each with every variant of its options. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	add(suite, "waiting", conformance_waiting_cases);
	if (backend->backend->remote.move && !backend->readless)
		add(suite, "read", conformance_read_cases);
	if (backend->writes)
		add(suite, "write", conformance_write_cases);
	if (backend->backend->remote.map)
		add(suite, "map", conformance_map_cases);
	runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- on a device ------------------------------------------------------------------------- */

#define SKIPPED 77

static void log_nothing(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *first_option(void *arg, const char *name)
{
	const struct conformance *backend = arg;
	conformance_options options = backend->variants[0];

	for (; options && options[0]; options += 2) {
		if (strcmp(options[0], name) == 0)
			return options[1];
	}
	return NULL;
}

int conformance_run_on_device(const struct conformance *backend)
{
	const struct ripc__host host = {.arg = (void *)backend, .log = log_nothing,
		.option = first_option};
	char why[256] = "", remedy[256] = "";

	if (backend->backend->net.probe(&host, why, remedy)) {
		printf("skipped: %s (%s)\n", why, remedy);
		return SKIPPED;
	}
	printf("%s\n", why);
	return conformance_run(backend);
}
