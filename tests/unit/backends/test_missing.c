/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in for a backend that was not built: it reports that, and how new its library must be.
 */
#include <errno.h>
#include <string.h>

#include "core/net/backend.h"
#include "suite.h"

static int logged;

static void count_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
	logged++;
}

START_TEST(missing__says_what_it_needs)
{
	static const struct {
		const struct ripc__backend *backend;
		const char *package, *version;
	} cases[] = {
		{&ripc__verbs_backend, "libibverbs-dev", "32 or newer"},
		{&ripc__rdmacm_backend, "librdmacm-dev", "32 or newer"},
		{&ripc__ofi_backend, "libfabric-dev", "1.17 or newer"},
	};
	const struct ripc__host host = {.log = count_log};
	char why[256], remedy[256];
	struct ripc__attr attr;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ripc__backend *backend = cases[i].backend;

		ck_assert_int_eq(backend->net.probe(&host, why, remedy), -ENOSYS);
		ck_assert_str_eq(why, "not built in");
		ck_assert_ptr_nonnull(strstr(remedy, cases[i].package));
		ck_assert_ptr_nonnull(strstr(remedy, cases[i].version));
		ck_assert_int_eq(backend->net.open(NULL, &host, &attr), -ENOSYS);
		ck_assert_int_eq(logged, (int)i + 1);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {missing__says_what_it_needs, NULL};

	return suite_run("missing", tests);
}
