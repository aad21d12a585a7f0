/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of the nodes of the store. */
#include "resolvers/store/internal.h"

#include <errno.h>

#include "suite.h"

static struct value some_value(void)
{
	struct value value = {.incarnation = 5, .context = 6, .life = 7, .port = htons(1234),
		.n_addrs = 2};

	value.addrs[0].s_addr = htonl(0x0a000001);
	value.addrs[1].s_addr = htonl(0x0a000002);
	return value;
}

START_TEST(value__comes_back)
{
	struct value value = some_value(), back;
	uint8_t bytes[STORE_VALUE];
	size_t len = ripc__value_encode(&value, bytes);

	ck_assert_uint_eq(len, 36);
	ck_assert_int_eq(ripc__value_decode(bytes, (int)len, &back), 0);
	ck_assert_uint_eq(back.incarnation, 5);
	ck_assert_uint_eq(back.context, 6);
	ck_assert_uint_eq(back.life, 7);
	ck_assert_uint_eq(back.port, htons(1234));
	ck_assert_uint_eq(back.n_addrs, 2);
	ck_assert_mem_eq(back.addrs, value.addrs, 8);
}
END_TEST

/* Anybody may have written it. */
START_TEST(value__nonsense_is_refused)
{
	struct value value = some_value(), back;
	uint8_t good[STORE_VALUE], bad[STORE_VALUE];
	int len = (int)ripc__value_encode(&value, good);

	for (int cut = -1; cut < len; cut++) /* -1: there is no value at all */
		ck_assert_int_eq(ripc__value_decode(good, cut, &back), -EBADMSG);
	for (int at = 0; at < 2; at++) { /* another version, another number of addresses */
		for (int to = 0; to < 256; to++) {
			memcpy(bad, good, sizeof(bad));
			bad[at] = (uint8_t)to;
			ck_assert_int_eq(ripc__value_decode(bad, len, &back),
				to == good[at] ? 0 : -EBADMSG);
		}
	}
	memcpy(bad, good, sizeof(bad));
	memset(bad + 2, 0, 2);
	ck_assert_int_eq(ripc__value_decode(bad, len, &back), -EBADMSG);
	memcpy(bad, good, sizeof(bad));
	memset(bad + 4, 0, 8);
	ck_assert_int_eq(ripc__value_decode(bad, len, &back), -EBADMSG);
}
END_TEST

START_TEST(path__says_the_id)
{
	const struct store store = {.cluster = "prod"};
	char path[STORE_PATH];

	ripc__path_make(&store, path, SHELF_PUBLIC, 0x1234, 0);
	ck_assert_str_eq(path, "/ripc/prod/s/34/0000000000001234");
	ck_assert_uint_eq(ripc__path_id(path), 0x1234);
	ripc__path_make(&store, path, SHELF_PRIVATE, 0x1234, 0);
	ck_assert_str_eq(path, "/ripc/prod/p/34/0000000000001234");
	ripc__path_make(&store, path, SHELF_PUBLIC, 0x1234, 0xabc);
	ck_assert_str_eq(path, "/ripc/prod/s/34/0000000000001234/0000000000000abc");
	ck_assert_uint_eq(ripc__path_id("0000000000001234"), 0x1234);
}
END_TEST

START_TEST(path__of_others_has_no_id)
{
	const char *const paths[] = {"", "/", "/x", "/ripc/prod/s/34", "000000000000123",
		"00000000000012345", "000000000000123g", "-000000000001234"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		ck_assert_uint_eq(ripc__path_id(paths[i]), 0);
	ck_assert_uint_eq(ripc__path_id(NULL), 0);
}
END_TEST

START_TEST(servers__here_or_not)
{
	static const struct {
		const char *servers;
		bool are_here;
	} cases[] = {{"127.0.0.1:2181", true}, {"localhost:1,127.3.2.1:22,[::1]:2181", true},
		{"127.0.0.1:2181/chroot", true}, {"zk1:2181", false}, {"10.0.0.1:2181", false},
		{"127.0.0.1:2181,zk1:2181", false}, {"zk1:2181,127.0.0.1:2181", false},
		{"localhost.example:2181", false}, {"127.0.0.1.example:2181", false},
		{"127.0.0.1", false}, {"127.0.0.1:2181,", false}, {"", false}, {",", false},
		{"[::2]:2181", false}, {"zk1/127.0.0.1:2181", false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_int_eq(ripc__servers_are_here(cases[i].servers), cases[i].are_here);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		value__comes_back, value__nonsense_is_refused, path__says_the_id,
		path__of_others_has_no_id, servers__here_or_not,
	};
	TCase *tcase = tcase_create("value");

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("store_value", tcase);
}
