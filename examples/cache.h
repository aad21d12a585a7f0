/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that fileserver keeps in memory: whole ones, in buffers of the pool, which can be
 * given to any number of clients at once and are copied by nobody on the way to those on the same
 * host. Knows nothing of messages.
 */
#ifndef EXAMPLES_CACHE_H
#define EXAMPLES_CACHE_H

#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <ripc/ripc.h>

#define CACHE_FILES	64
#define CACHE_FILE_MIN	(1u << 20) /* shorter files are copied as fast as they are mapped */
#define CACHE_STEP	(1u << 20) /* bytes read at a time, so that nobody waits for long */
#define CACHE_SETTLED_S 2	   /* no file system's clock ticks more slowly (FAT's) */

struct cache_file {
	struct stat stat; /* state at the first request */
	uint8_t *data;	  /* a buffer of the pool; NULL: it was requested once */
	int whole;	  /* all is there; else it is being read */
	uint64_t used;	  /* the higher the later; 0: a free place */
};

struct cache {
	struct ripc_context *ctx;
	uint64_t max_bytes, bytes, last_used;
	time_t (*now)(void); /* the time of day, in seconds */
	struct cache_file files[CACHE_FILES];
	struct cache_file *reading; /* NULL: none */
	int fd;			    /* of that one */
	uint64_t n_read;	    /* its bytes that are there */
};

/* max_bytes 0: keeps nothing. */
void cache_open(struct cache *cache, struct ripc_context *ctx, uint64_t max_bytes);
void cache_close(struct cache *cache);

/*
 * Returns all bytes of a regular file, if they are there, with a reference that is the caller's;
 * else NULL. begins: somebody begins to fetch it, for the second time it is then worth keeping.
 */
uint8_t *cache_get(struct cache *cache, int fd, const struct stat *stat, int begins);

/* Reads a little of what is to be kept. Returns whether there is more to read. */
int cache_work(struct cache *cache);

/* Frees the memory of the file that was not requested for the longest time. 0: none left. */
int cache_shrink(struct cache *cache);

/* Whether nobody has replaced or written to a file between these two looks at it. */
int cache_is_same(const struct stat *a, const struct stat *b);

#endif
