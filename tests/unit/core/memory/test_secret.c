/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for keys: blocks are zero, keep apart, and are wiped; a child of fork() has none. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "core/memory/secret.h"
#include "suite.h"

#define BLOCKS 3000u

static bool has_only(const uint8_t *at, size_t len, uint8_t byte)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != byte)
			return false;
	return true;
}

static bool is_zero(const uint8_t *at, size_t len)
{
	return has_only(at, len, 0);
}

static size_t len_of(uint64_t random)
{
	static const size_t lens[] = {24, 96, 128, 700};

	return lens[random % 4];
}

/* Blocks of several lengths come and go in any order. */
START_TEST(alloc__as_a_model_says)
{
	static struct {
		uint8_t *at;
		size_t len;
		uint8_t byte;
	} blocks[BLOCKS];
	struct secret_memory memory = {0};
	uint64_t seed = 1;

	for (uint32_t i = 0; i < 20 * BLOCKS; i++) {
		uint32_t at = (uint32_t)(suite_random(&seed) % BLOCKS);

		if (blocks[at].at) {
			ck_assert(has_only(blocks[at].at, blocks[at].len, blocks[at].byte));
			ripc__secret_free(&memory, blocks[at].at, blocks[at].len);
			blocks[at].at = NULL;
			continue;
		}
		blocks[at].len = len_of(suite_random(&seed));
		blocks[at].byte = (uint8_t)(suite_random(&seed) | 1);
		blocks[at].at = ripc__secret_alloc(&memory, blocks[at].len);
		ck_assert_ptr_nonnull(blocks[at].at);
		ck_assert_uint_eq((uintptr_t)blocks[at].at % 16, 0);
		ck_assert(is_zero(blocks[at].at, blocks[at].len));
		memset(blocks[at].at, blocks[at].byte, blocks[at].len);
	}
	for (uint32_t i = 0; i < BLOCKS; i++)
		if (blocks[i].at)
			ripc__secret_free(&memory, blocks[i].at, blocks[i].len);
	ripc__secret_close(&memory);
}
END_TEST

START_TEST(free__wipes)
{
	struct secret_memory memory = {0};
	uint8_t *kept = ripc__secret_alloc(&memory, 96), *at = ripc__secret_alloc(&memory, 96);

	ck_assert(kept && at);
	memset(at, 7, 96);
	ripc__secret_free(&memory, at, 96);
	ck_assert(is_zero(at + sizeof(void *), 96 - sizeof(void *))); /* behind the free list */
	ripc__secret_free(&memory, kept, 96);
	ripc__secret_close(&memory);
}
END_TEST

/* secrets.c has the same for all keys of a context. */
START_TEST(fork__child_finds_zeros)
{
	struct secret_memory memory = {0};
	uint8_t *block = ripc__secret_alloc(&memory, 96), *pages = ripc__secret_map(100000);
	int status;
	pid_t child;

	ck_assert(block && pages);
	memset(block, 7, 96);
	memset(pages, 7, 100000);
	child = fork();
	if (child == 0)
		_exit(!is_zero(block, 96) || !is_zero(pages, 100000));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WIFSIGNALED(status));
	ck_assert_uint_eq(block[95], 7);
	ripc__secret_unmap(pages, 100000);
	ripc__secret_free(&memory, block, 96);
	ripc__secret_close(&memory);
}
END_TEST

START_TEST(close__of_nothing)
{
	struct secret_memory memory = {0};

	ripc__secret_close(&memory);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{alloc__as_a_model_says, 1}, {free__wipes, 1},
		{fork__child_finds_zeros,
			kernel_runs(kernel_lacks_wipeonfork(), "fork__child_finds_zeros", 1)},
		{close__of_nothing, 1}, {NULL, 0},
	};

	return suite_run_loops("secret", loops);
}
