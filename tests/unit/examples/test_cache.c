/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of examples/cache.h: what is kept, and what not; a file that changes is never handed out
 * as it was, nor half of it; what was used longest ago goes first.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../../examples/cache.h"
#include "suite.h"

#define MIB (1u << 20)

static time_t now;

static time_t clock_now(void)
{
	return now;
}

static struct world {
	struct ripc_context *ctx;
	struct cache cache;
	char dir[64];
	int fds[CACHE_FILES + 1];
} world;

static void world_open(uint64_t max_bytes)
{
	struct ripc_config config = {.size = sizeof(config), .flags = RIPC_SINGLE_THREAD,
		.pool_bytes = 64 * MIB, .interfaces = "lo"};

	memset(&world, 0, sizeof(world));
	snprintf(world.dir, sizeof(world.dir), "/tmp/ripc-cache-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(world.dir));
	ck_assert_int_eq(ripc_open(&config, &world.ctx), 0);
	cache_open(&world.cache, world.ctx, max_bytes);
	world.cache.now = clock_now;
	now = time(NULL) + 10;
}

static uint64_t in_use(void)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_stats_get(world.ctx, &stats), 0);
	return stats.pool_used_bytes;
}

/* All memory is back, whatever the cache has been through. */
static void world_close(void)
{
	cache_close(&world.cache);
	ck_assert_uint_eq(in_use(), 0);
	ck_assert_int_eq(ripc_close(world.ctx, 0), 0);
	for (int i = 0; i <= CACHE_FILES; i++)
		if (world.fds[i])
			close(world.fds[i]);
	ck_assert_int_eq(rmdir(world.dir), 0);
}

/* With any clock of the file system, each change has its own time. */
static void fill(int i, size_t at, size_t len, uint8_t byte)
{
	static uint8_t bytes[MIB];
	static time_t changes;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = ++changes}};

	memset(bytes, byte, sizeof(bytes));
	for (; len > 0; at += MIB, len -= len < MIB ? len : MIB)
		ck_assert_int_gt(pwrite(world.fds[i], bytes, len < MIB ? len : MIB, (off_t)at), 0);
	ck_assert_int_eq(futimens(world.fds[i], times), 0);
}

/* An unlinked file is one as well as others. */
static void make(int i, size_t len)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/file", world.dir);
	world.fds[i] = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert_int_ge(world.fds[i], 0);
	ck_assert_int_eq(unlink(path), 0);
	fill(i, 0, len, (uint8_t)i);
}

static uint8_t *get(int i, int begins)
{
	struct stat status;

	ck_assert_int_eq(fstat(world.fds[i], &status), 0);
	return cache_get(&world.cache, world.fds[i], &status, begins);
}

/* Asks twice, and sees it read. */
static void keep(int i)
{
	ck_assert_ptr_null(get(i, 1));
	ck_assert_ptr_null(get(i, 1));
	while (cache_work(&world.cache))
		;
}

static int is_kept(int i)
{
	uint8_t *data = get(i, 0);

	ripc_buf_free(world.ctx, data);
	return data != NULL;
}

static void check_bytes(const uint8_t *data, size_t len, uint8_t byte)
{
	ck_assert_ptr_nonnull(data);
	ck_assert_uint_eq(data[0], byte);
	ck_assert_int_eq(memcmp(data, data + 1, len - 1), 0);
}

START_TEST(get__when_asked_for_again)
{
	const size_t len = 3 * MIB + 5;
	uint8_t *data;

	world_open(16 * MIB);
	make(1, len);
	ck_assert_ptr_null(get(1, 1));
	ck_assert_int_eq(cache_work(&world.cache), 0);
	ck_assert_ptr_null(get(1, 0)); /* more of the first time */
	ck_assert_int_eq(cache_work(&world.cache), 0);
	ck_assert_ptr_null(get(1, 1));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(cache_work(&world.cache), 1);
		ck_assert_ptr_null(get(1, 0));
	}
	ck_assert_int_eq(cache_work(&world.cache), 0);
	data = get(1, 0);
	check_bytes(data, len, 1);
	ck_assert_int_eq(ripc_buf_free(world.ctx, data), 0);
	data = get(1, 1);
	cache_close(&world.cache);
	check_bytes(data, len, 1); /* a client that was given the file keeps it */
	ck_assert_int_eq(ripc_buf_free(world.ctx, data), 0);
	world_close();
}
END_TEST

/*
 * The file changes when it was kept, or (_i & 1) while it is read: the next time it is read anew.
 */
START_TEST(get__changed)
{
	uint8_t *data;

	world_open(16 * MIB);
	make(1, 4 * MIB);
	if (_i & 1) {
		ck_assert_ptr_null(get(1, 1));
		ck_assert_ptr_null(get(1, 1));
		ck_assert_int_eq(cache_work(&world.cache), 1);
		ck_assert_int_eq(cache_work(&world.cache), 1);
	} else {
		keep(1);
	}
	if (_i >> 1 == 0)
		fill(1, 0, 4 * MIB, 9);
	else if (_i >> 1 == 1)
		ck_assert_int_eq(ftruncate(world.fds[1], MIB + 1), 0);
	else
		fill(1, 4 * MIB, 1, 9);
	while (cache_work(&world.cache))
		;
	ck_assert_ptr_null(get(1, 0));
	ck_assert_uint_eq(in_use(), 0);
	now += 10;
	keep(1);
	data = get(1, 1);
	check_bytes(data, MIB, _i >> 1 == 0 ? 9 : 1);
	ck_assert_int_eq(ripc_buf_free(world.ctx, data), 0);
	world_close();
}
END_TEST

/* The file may change once more within a tick of the file system's clock. */
START_TEST(get__changed_lately)
{
	struct stat status;

	world_open(16 * MIB);
	make(1, MIB);
	ck_assert_int_eq(fstat(world.fds[1], &status), 0);
	now = status.st_ctim.tv_sec + _i;
	keep(1);
	ck_assert_int_eq(is_kept(1), _i > CACHE_SETTLED_S);
	world_close();
}
END_TEST

START_TEST(get__least_recently_used_goes)
{
	world_open(9 * MIB);
	for (int i = 1; i <= 4; i++)
		make(i, 3 * MIB);
	for (int i = 1; i <= 3; i++)
		keep(i);
	for (int i = 1; i <= 3; i++)
		ck_assert(is_kept(i));
	ck_assert(is_kept(1));
	keep(4);
	ck_assert(!is_kept(2));
	ck_assert(is_kept(1));
	ck_assert(is_kept(3));
	ck_assert(is_kept(4));
	ck_assert_uint_le(world.cache.bytes, 9 * MIB);
	ck_assert_int_eq(cache_shrink(&world.cache), 1);
	ck_assert(!is_kept(1));
	ck_assert_int_eq(cache_shrink(&world.cache), 1);
	ck_assert_int_eq(cache_shrink(&world.cache), 1);
	ck_assert_int_eq(cache_shrink(&world.cache), 0);
	world_close();
}
END_TEST

/* A client that reads many files once does not drive out used ones. */
START_TEST(get__many_once)
{
	world_open(16 * MIB);
	make(0, 2 * MIB);
	keep(0);
	for (int i = 1; i <= CACHE_FILES; i++) {
		make(i, MIB);
		ck_assert_ptr_null(get(i, 1));
	}
	ck_assert(is_kept(0));
	world_close();
}
END_TEST

/* Too short, too long, nothing at all to be kept; too much of the pool in use. */
START_TEST(get__not_kept)
{
	const size_t lens[] = {0, MIB - 1, 8 * MIB + 1, 8 * MIB, 8 * MIB};
	void *buffers[3];

	world_open(_i == 3 ? 0 : 8 * MIB);
	make(1, lens[_i]);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ripc_buf_alloc(world.ctx, _i == 4 ? 10 * MIB : 1, &buffers[i]), 0);
	keep(1);
	ck_assert(!is_kept(1));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ripc_buf_free(world.ctx, buffers[i]), 0);
	world_close();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ get__when_asked_for_again, 1 }, { get__changed, 6 }, { get__changed_lately, 5 },
		{ get__least_recently_used_goes, 1 }, { get__many_once, 1 }, { get__not_kept, 5 },
		{ NULL, 0 },
	};

	return suite_run_loops("cache", loops);
}
