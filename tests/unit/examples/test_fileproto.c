/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of examples/fileproto.h: what a stranger may send to fileserver or fileget is taken only
 * if every length in it is right.
 */
#include <check.h>
#include <stdlib.h>
#include "../../../examples/fileproto.h"

static size_t make_request(const char *path, uint8_t *bytes)
{
	struct file_request request = {
		.what = FILE_GET,
		.path_len = (uint16_t)strlen(path),
		.offset = 1ull << 40,
		.len = 4096,
	};

	memcpy(request.path, path, strlen(path));
	return file_request_encode(&request, bytes);
}

START_TEST(file_request_decode__round_trip)
{
	uint8_t bytes[FILE_REQUEST_MAX];
	struct iovec item = {bytes, make_request("a/b c", bytes)};
	struct file_request request;

	ck_assert_int_eq(file_request_decode(&item, &request), 0);
	ck_assert_uint_eq(request.what, FILE_GET);
	ck_assert_uint_eq(request.offset, 1ull << 40);
	ck_assert_uint_eq(request.len, 4096);
	ck_assert_str_eq(request.path, "a/b c");
}
END_TEST

START_TEST(file_request_decode__every_wrong_length)
{
	uint8_t bytes[FILE_REQUEST_MAX + 8] = {0};
	size_t right = make_request("name", bytes), len;
	struct file_request request;

	for (len = 0; len < sizeof(bytes); len++) {
		/* Memory of exactly that size: a sanitizer sees a byte too many. */
		uint8_t *copy = malloc(len ? len : 1);
		struct iovec item = {copy, len};

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, bytes, len);
		ck_assert_int_eq(file_request_decode(&item, &request), len == right ? 0 : -EBADMSG);
		free(copy);
	}
}
END_TEST

START_TEST(file_request_decode__wrong_content)
{
	uint8_t bytes[FILE_REQUEST_MAX];
	struct iovec item = {bytes, make_request("name", bytes)};
	struct file_request request;

	bytes[0] ^= 1;
	ck_assert_int_eq(file_request_decode(&item, &request), -EBADMSG);
	bytes[0] ^= 1;
	bytes[4] = 9;
	ck_assert_int_eq(file_request_decode(&item, &request), -EBADMSG);
	bytes[4] = FILE_LIST;
	ck_assert_int_eq(file_request_decode(&item, &request), 0);
	bytes[FILE_REQUEST_HEADER + 1] = 0;
	ck_assert_int_eq(file_request_decode(&item, &request), -EBADMSG);
	bytes[6] = 0xff;
	bytes[7] = 0xff;
	ck_assert_int_eq(file_request_decode(&item, &request), -EBADMSG);
}
END_TEST

START_TEST(file_request_decode__longest_path)
{
	uint8_t bytes[FILE_REQUEST_MAX];
	char path[FILE_PATH_MAX + 1];
	struct iovec item = {bytes, 0};
	struct file_request request;

	memset(path, 'p', FILE_PATH_MAX);
	path[FILE_PATH_MAX] = '\0';
	item.iov_len = make_request(path, bytes);
	ck_assert_uint_eq(item.iov_len, FILE_REQUEST_MAX);
	ck_assert_int_eq(file_request_decode(&item, &request), 0);
	ck_assert_str_eq(request.path, path);
}
END_TEST

START_TEST(file_answer_decode__round_trip_and_lengths)
{
	uint8_t bytes[FILE_ANSWER_HEADER + 1];
	struct file_answer sent = {FILE_DENIED, 1, 2, 3}, got = {0};
	struct iovec item = {bytes, FILE_ANSWER_HEADER};

	file_answer_encode(&sent, bytes);
	ck_assert_int_eq(file_answer_decode(&item, &got), 0);
	ck_assert_uint_eq(got.status, FILE_DENIED);
	ck_assert_uint_eq(got.len, 1);
	ck_assert_uint_eq(got.size, 2);
	ck_assert_uint_eq(got.version, 3);
	item.iov_len = FILE_ANSWER_HEADER - 1;
	ck_assert_int_eq(file_answer_decode(&item, &got), -EBADMSG);
	item.iov_len = FILE_ANSWER_HEADER + 1;
	ck_assert_int_eq(file_answer_decode(&item, &got), -EBADMSG);
}
END_TEST

/* Encodes one entry and reads it back from memory that ends with it, less cut bytes. */
static int entry_round_trip(const char *name, char type, size_t cut)
{
	struct file_entry entry = {.type = type, .name_len = (uint16_t)strlen(name), .size = 77};
	struct file_entry got;
	size_t len = FILE_ENTRY_HEADER + strlen(name) - cut;
	uint8_t bytes[FILE_ENTRY_HEADER + 64], *copy = malloc(len);
	const uint8_t *at = copy;
	int result;

	ck_assert_ptr_nonnull(copy);
	file_entry_encode(&entry, bytes);
	memcpy(bytes + FILE_ENTRY_HEADER, name, strlen(name));
	memcpy(copy, bytes, len);
	result = file_entry_decode(&at, copy + len, &got);
	if (result == 1) {
		ck_assert_ptr_eq(at, copy + len);
		ck_assert_uint_eq(got.size, 77);
		ck_assert_mem_eq(got.name, name, strlen(name));
	}
	free(copy);
	return result;
}

START_TEST(file_entry_decode__names_and_lengths)
{
	const uint8_t byte = 0, *end = &byte;
	struct file_entry entry;

	ck_assert_int_eq(file_entry_decode(&end, &byte, &entry), 0);
	ck_assert_int_eq(entry_round_trip("name", 'f', 0), 1);
	ck_assert_int_eq(entry_round_trip("...", 'd', 0), 1);
	ck_assert_int_eq(entry_round_trip("name", 'x', 0), -EBADMSG);
	ck_assert_int_eq(entry_round_trip("name", 'f', 1), -EBADMSG);
	ck_assert_int_eq(entry_round_trip("name", 'f', 5), -EBADMSG);
	ck_assert_int_eq(entry_round_trip("", 'f', 0), -EBADMSG);
	ck_assert_int_eq(entry_round_trip(".", 'd', 0), -EBADMSG);
	ck_assert_int_eq(entry_round_trip("..", 'd', 0), -EBADMSG);
	ck_assert_int_eq(entry_round_trip("a/b", 'f', 0), -EBADMSG);
}
END_TEST

/* The listing may lie in memory of the server, which alters it once it was checked. */
START_TEST(file_entry_decode__is_a_copy)
{
	uint8_t bytes[FILE_ENTRY_HEADER + 4] = {'f', 4};
	const uint8_t *at = bytes;
	struct file_entry got;

	memcpy(bytes + FILE_ENTRY_HEADER, "name", 4);
	ck_assert_int_eq(file_entry_decode(&at, bytes + sizeof(bytes), &got), 1);
	memset(bytes, '/', sizeof(bytes));
	ck_assert_int_eq(got.name_len, 4);
	ck_assert_mem_eq(got.name, "name", 4);
}
END_TEST

START_TEST(file_entry_decode__longest_name)
{
	uint8_t bytes[FILE_ENTRY_HEADER + NAME_MAX + 1] = {'f'};
	const uint8_t *at = bytes, *end = bytes + sizeof(bytes);
	struct file_entry got;

	memset(bytes + FILE_ENTRY_HEADER, 'n', NAME_MAX + 1);
	file_put16(bytes + 1, NAME_MAX + 1);
	ck_assert_int_eq(file_entry_decode(&at, end, &got), -EBADMSG);
	file_put16(bytes + 1, NAME_MAX);
	ck_assert_int_eq(file_entry_decode(&at, end, &got), 1);
	ck_assert_ptr_eq(at, end - 1);
	ck_assert_uint_eq(strlen(got.name), NAME_MAX);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("fileproto");
	TCase *tcase = tcase_create("fileproto");
	SRunner *runner = srunner_create(suite);
	int failed;

	tcase_add_test(tcase, file_request_decode__round_trip);
	tcase_add_test(tcase, file_request_decode__every_wrong_length);
	tcase_add_test(tcase, file_request_decode__wrong_content);
	tcase_add_test(tcase, file_request_decode__longest_path);
	tcase_add_test(tcase, file_answer_decode__round_trip_and_lengths);
	tcase_add_test(tcase, file_entry_decode__names_and_lengths);
	tcase_add_test(tcase, file_entry_decode__is_a_copy);
	tcase_add_test(tcase, file_entry_decode__longest_name);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
