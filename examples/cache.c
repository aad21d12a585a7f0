/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements cache.h. A file is noted when it is requested, and read when it is requested again: so
 * who goes through a large tree once does not drive out what is in use. A file is taken for the
 * same while device, inode, length, time of change and of status change are; nothing of it is given
 * before all is read and it was still the same after that. As clocks of file systems tick slowly, a
 * file is only read once its last change is some time ago: then another change cannot have the same
 * time. (Writes through a mapping escape this check, as in all programs.)
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "cache.h"

static time_t now_s(void)
{
	return time(NULL);
}

void cache_open(struct cache *cache, struct ripc_context *ctx, uint64_t max_bytes)
{
	memset(cache, 0, sizeof(*cache));
	cache->ctx = ctx;
	cache->max_bytes = max_bytes;
	cache->now = now_s;
}

static int same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int cache_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

static void stop_reading(struct cache *cache)
{
	close(cache->fd);
	cache->reading = NULL;
}

/* Clients that were given it keep their references. */
static void forget(struct cache *cache, struct cache_file *file)
{
	if (cache->reading == file)
		stop_reading(cache);
	if (file->data) {
		ripc_buf_free(cache->ctx, file->data);
		cache->bytes -= (uint64_t)file->stat.st_size;
	}
	memset(file, 0, sizeof(*file));
}

void cache_close(struct cache *cache)
{
	int i;

	for (i = 0; i < CACHE_FILES; i++)
		forget(cache, &cache->files[i]);
}

/* ---- places ---- */

static struct cache_file *find(struct cache *cache, const struct stat *stat)
{
	struct cache_file *file = cache->files;

	for (; file < cache->files + CACHE_FILES; file++)
		if (file->used && file->stat.st_dev == stat->st_dev &&
			file->stat.st_ino == stat->st_ino)
			return file;
	return NULL;
}

/* The one that was used longest ago, of those with data or of those without; NULL: none. */
static struct cache_file *oldest(struct cache *cache, int with_data)
{
	struct cache_file *file = cache->files, *found = NULL;

	for (; file < cache->files + CACHE_FILES; file++)
		if (!file->data == !with_data && (!found || file->used < found->used))
			found = file;
	return found;
}

int cache_shrink(struct cache *cache)
{
	struct cache_file *file = oldest(cache, 1);

	if (!file)
		return 0;
	forget(cache, file);
	return 1;
}

static void note(struct cache *cache, const struct stat *stat)
{
	struct cache_file *file = oldest(cache, 0);

	if (!file)
		file = oldest(cache, 1);
	forget(cache, file);
	file->stat = *stat;
	file->used = ++cache->last_used;
}

/* ---- reading ---- */

/*
 * Makes room for a file. Removed files that clients hold are still in use in the pool: beyond half
 * of it no file is kept, so that replies have room.
 */
static int make_room(struct cache *cache, uint64_t len)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	while (ripc_stats_get(cache->ctx, &stats) == 0) {
		uint64_t most = stats.pool_limit_bytes / 2;

		if (cache->bytes + len <= cache->max_bytes && stats.pool_used_bytes + len <= most)
			return 1;
		if (stats.pool_used_bytes - cache->bytes + len > most || !cache_shrink(cache))
			return 0;
	}
	return 0;
}

static int is_settled(const struct cache *cache, const struct stat *stat)
{
	return cache->now() - stat->st_ctim.tv_sec > CACHE_SETTLED_S;
}

/* Begins to read a file, from a descriptor of its own. If that cannot be, it is not kept. */
static void begin(struct cache *cache, struct cache_file *file, int fd)
{
	void *data;

	if (cache->reading || !is_settled(cache, &file->stat) ||
		!make_room(cache, (uint64_t)file->stat.st_size))
		return;
	cache->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (cache->fd < 0)
		return;
	if (ripc_buf_alloc(cache->ctx, (size_t)file->stat.st_size, &data) < 0) {
		close(cache->fd);
		return;
	}
	file->data = data;
	cache->bytes += (uint64_t)file->stat.st_size;
	cache->reading = file;
	cache->n_read = 0;
}

/* All bytes are there. */
static void finish(struct cache *cache)
{
	struct cache_file *file = cache->reading;
	struct stat stat;

	if (fstat(cache->fd, &stat) < 0 || !cache_is_same(&stat, &file->stat)) {
		forget(cache, file);
		return;
	}
	file->whole = 1;
	stop_reading(cache);
}

int cache_work(struct cache *cache)
{
	struct cache_file *file = cache->reading;
	uint64_t left = file ? (uint64_t)file->stat.st_size - cache->n_read : 0;
	ssize_t got;

	if (!file)
		return 0;
	got = pread(cache->fd, file->data + cache->n_read,
		left < CACHE_STEP ? (size_t)left : CACHE_STEP, (off_t)cache->n_read);
	if (got < 0 && errno == EINTR)
		return 1;
	if (got <= 0) { /* the file became shorter */
		forget(cache, file);
		return 0;
	}
	cache->n_read += (uint64_t)got;
	if ((uint64_t)got == left)
		finish(cache);
	return cache->reading != NULL;
}

uint8_t *cache_get(struct cache *cache, int fd, const struct stat *stat, int begins)
{
	uint64_t len = (uint64_t)stat->st_size;
	struct cache_file *file;

	/* The version of another length is removed in its turn. */
	if (len < CACHE_FILE_MIN || len > cache->max_bytes)
		return NULL;
	file = find(cache, stat);
	if (file && !cache_is_same(&file->stat, stat)) {
		forget(cache, file);
		file = NULL;
	}
	if (!file) {
		if (begins)
			note(cache, stat);
		return NULL;
	}
	file->used = ++cache->last_used;
	if (!file->data && begins)
		begin(cache, file, fd);
	if (!file->whole || ripc_buf_ref(cache->ctx, file->data) < 0)
		return NULL;
	return file->data;
}
