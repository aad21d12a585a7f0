/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of examples/storeproto.h: what a stranger may ask store_server is taken only if it is what
 * the comment there says.
 */
#include <check.h>
#include <stdlib.h>
#include "../../../examples/storeproto.h"

static size_t make(enum store_what what, const char *key, uint8_t *bytes)
{
	struct store_request request = {.what = what, .key_len = (uint16_t)strlen(key)};

	memcpy(request.key, key, request.key_len);
	return store_request_encode(&request, bytes);
}

/* From memory of exactly that size: a sanitizer sees a byte too many. */
static int decode(const uint8_t *bytes, size_t len, uint32_t n_items, struct store_request *request)
{
	uint8_t *copy = malloc(len ? len : 1);
	struct iovec items[2] = {{copy, len}};
	struct ripc_msg question = {.items = items, .n_items = n_items};
	int result;

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, bytes, len);
	result = store_request_decode(&question, request);
	free(copy);
	return result;
}

START_TEST(store_request_decode__round_trip)
{
	static const struct {
		enum store_what what;
		const char *key;
		uint32_t n_items;
	} right[] = {{STORE_PING, "", 1}, {STORE_GET, "a/b c", 1}, {STORE_SET, "k", 2}};
	uint8_t bytes[STORE_HEADER + STORE_KEY_MAX];
	struct store_request request;

	for (size_t i = 0; i < 3; i++) {
		size_t len = make(right[i].what, right[i].key, bytes);

		ck_assert_int_eq(decode(bytes, len, right[i].n_items, &request), 0);
		ck_assert_int_eq(request.what, right[i].what);
		ck_assert_uint_eq(request.key_len, strlen(right[i].key));
		ck_assert_mem_eq(request.key, right[i].key, request.key_len);
		ck_assert_int_eq(decode(bytes, len, 3 - right[i].n_items, &request),
			STORE_MALFORMED);
		ck_assert_int_eq(decode(bytes, len, 3, &request), STORE_MALFORMED);
	}
}
END_TEST

START_TEST(store_request_decode__every_wrong_length)
{
	uint8_t bytes[STORE_HEADER + STORE_KEY_MAX + 8] = {0};
	size_t right = make(STORE_GET, "name", bytes), len;
	struct store_request request;

	for (len = 0; len < sizeof(bytes); len++)
		ck_assert_int_eq(decode(bytes, len, 1, &request),
			len == right ? 0 : STORE_MALFORMED);
}
END_TEST

START_TEST(store_request_decode__wrong_content)
{
	static const struct {
		size_t at;
		uint8_t value;
	} wrong[] = {{0, 'X'}, {3, '2'}, {4, 0}, {4, 4}, {5, 1}, {6, 3}, {7, 1}};
	uint8_t bytes[STORE_HEADER + STORE_KEY_MAX];
	struct store_request request;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t len = make(STORE_GET, "name", bytes);

		bytes[wrong[i].at] = wrong[i].value;
		ck_assert_int_eq(decode(bytes, len, 1, &request), STORE_MALFORMED);
	}
	ck_assert_int_eq(decode(bytes, make(STORE_GET, "", bytes), 1, &request), STORE_MALFORMED);
	ck_assert_int_eq(decode(bytes, make(STORE_PING, "k", bytes), 1, &request),
		STORE_MALFORMED);
}
END_TEST

START_TEST(store_request_decode__longest_key)
{
	uint8_t bytes[STORE_HEADER + STORE_KEY_MAX];
	char key[STORE_KEY_MAX + 1];
	struct store_request request;

	memset(key, 'k', STORE_KEY_MAX);
	key[STORE_KEY_MAX] = '\0';
	ck_assert_uint_eq(make(STORE_GET, key, bytes), sizeof(bytes));
	ck_assert_int_eq(decode(bytes, sizeof(bytes), 1, &request), 0);
	ck_assert_uint_eq(request.key_len, STORE_KEY_MAX);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("storeproto");
	TCase *tcase = tcase_create("storeproto");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tcase, store_request_decode__round_trip);
	tcase_add_test(tcase, store_request_decode__every_wrong_length);
	tcase_add_test(tcase, store_request_decode__wrong_content);
	tcase_add_test(tcase, store_request_decode__longest_key);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
