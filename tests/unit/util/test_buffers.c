/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive buffers: which one comes next, who holds it, and the end of the set. */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "suite.h"
#include "util/buffers.h"

#define COUNT 4
#define LEN   5000

static struct ripc__buffer *find(struct ripc__buffers *set)
{
	uint32_t at = 0;

	return ripc__buffers_find(set, &at);
}

START_TEST(buffers_find__gives_the_same_warm_one)
{
	struct ripc__buffers *set;
	struct ripc__buffer *first;

	ck_assert_int_eq(ripc__buffers_open(COUNT, LEN, &set), 0);
	first = find(set);
	ck_assert_ptr_nonnull(first);
	for (int i = 0; i < 10; i++) {
		ck_assert_ptr_eq(find(set), first);
		ripc__buffer_hold(first, 1);
		ck_assert_ptr_ne(find(set), first);
		ripc__buffer_put(first, 1);
	}
	ripc__buffers_close(set);
}
END_TEST

START_TEST(buffers_find__ends)
{
	struct ripc__buffer *found[COUNT];
	struct ripc__buffers *set;
	uint32_t at = 0;

	ck_assert_int_eq(ripc__buffers_open(COUNT, LEN, &set), 0);
	for (int i = 0; i < COUNT; i++) {
		found[i] = ripc__buffers_find(set, &at);
		ck_assert_ptr_nonnull(found[i]);
		memset(found[i]->data, i, LEN);
	}
	ck_assert_ptr_null(ripc__buffers_find(set, &at));
	for (int i = 0; i < COUNT; i++) {
		ck_assert_int_eq(found[i]->data[0], i);
		ck_assert_int_eq(found[i]->data[LEN - 1], i);
		ck_assert_uint_eq((uintptr_t)found[i]->data % 64, 0);
		ripc__buffer_hold(found[i], 2);
	}
	ck_assert_ptr_null(find(set));
	ripc__buffer_put(found[2], 1);
	ck_assert_ptr_null(find(set));
	ripc__buffer_put(found[2], 1);
	ck_assert_ptr_eq(find(set), found[2]);
	ripc__buffer_put(found[0], 2);
	ripc__buffer_put(found[1], 2);
	ripc__buffer_put(found[3], 2);
	ripc__buffers_close(set);
}
END_TEST

/* Is the page of this address mapped? */
static bool is_mapped(const void *address)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char in_core;

	return mincore((void *)((uintptr_t)address / page * page), 1, &in_core) == 0;
}

START_TEST(buffers_close__waits_for_the_last_user)
{
	struct ripc__buffer *first, *second;
	struct ripc__buffers *set;
	uint32_t at = 0;

	ck_assert_int_eq(ripc__buffers_open(COUNT, LEN, &set), 0);
	first = ripc__buffers_find(set, &at);
	ripc__buffer_hold(first, 2);
	second = ripc__buffers_find(set, &at);
	ripc__buffer_hold(second, 1);
	memset(second->data, 7, LEN);
	ripc__buffers_close(set);
	ripc__buffer_put(first, 2);
	ck_assert(is_mapped(second->data));
	ck_assert_int_eq(second->data[LEN - 1], 7);
	first = second;
	ripc__buffer_put(second, 1);
	ck_assert(!is_mapped(first));
}
END_TEST

START_TEST(buffers_open__refuses_too_much)
{
	struct ripc__buffers *set = (void *)1;

	ck_assert_int_lt(ripc__buffers_open(192, SIZE_MAX / 256, &set), 0);
	ck_assert_ptr_eq(set, (void *)1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		buffers_find__gives_the_same_warm_one,
		buffers_find__ends,
		buffers_close__waits_for_the_last_user,
		buffers_open__refuses_too_much,
		NULL,
	};

	return suite_run("buffers", tests);
}
