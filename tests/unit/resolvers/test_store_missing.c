/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry for the store source in a library that was built without it. */
#include <string.h>

#include "core/net/backend.h"
#include "core/resolve/resolver.h"
#include "sources.h"

START_TEST(missing_store__says_what_to_do)
{
	struct side side;
	char why[256] = "", remedy[256] = "";

	side_init(&side, &ripc__store_source);
	ck_assert_str_eq(side.ops->name, "store");
	ck_assert(side.ops->exact);
	ck_assert_ptr_null(side.ops->load(&side.host, why, remedy));
	ck_assert_ptr_nonnull(strstr(why, "without ZooKeeper"));
	ck_assert_ptr_nonnull(strstr(remedy, "libzookeeper-st-dev"));
	ck_assert_ptr_nonnull(strstr(remedy, "-Dstore=enabled"));
}
END_TEST

/* A context with the store configured gets an error, instead of finding no service. */
START_TEST(missing_store__cannot_be_chosen)
{
	const struct ripc__source *const all[] = {&ripc__store_source, NULL};
	const struct ripc__source *chosen[4];
	struct side side;

	side_init(&side, &ripc__store_source);
	ck_assert(!ripc__source_is_wanted(&side.host, &ripc__store_source));
	ck_assert_int_eq(ripc__sources_choose(&side.host, all, chosen, 3), 0);
	ck_assert_ptr_null(chosen[0]);
	side.options[0][0] = "store.servers";
	side.options[0][1] = "127.0.0.1:2181";
	ck_assert(ripc__source_is_wanted(&side.host, &ripc__store_source));
	ck_assert_int_eq(ripc__sources_choose(&side.host, all, chosen, 3), -ENODEV);
	ck_assert_ptr_nonnull(strstr(side.logged, "libzookeeper-st-dev"));
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("store_missing");

	tcase_add_test(tcase, missing_store__says_what_to_do);
	tcase_add_test(tcase, missing_store__cannot_be_chosen);
	return suite_finish("store_missing", tcase);
}
