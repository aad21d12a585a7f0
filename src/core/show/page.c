/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page that shows a context to other processes of its user (ripc/page.h). A context that nobody
 * looks at has none. When one is asked for, memory that can be shared takes the place of the page
 * of memory in which the context counts; so counting costs the same before and after. Services and
 * partners are written when somebody asks, and at no other time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/objects.h"
#include "ripc/page.h"
#include "show.h"
#include "util/system/cancel.h"
#include "util/system/mapping.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static size_t unit_len(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

struct ripc_context *ripc__page_alloc(void)
{
	size_t before = offsetof(struct ripc_context, stats), page = unit_len();
	size_t at = (before + page - 1) / page * page;
	struct ripc_context *ctx;
	void *block;

	_Static_assert(sizeof(struct ripc_stats) <= 4096, "in one page");
	if (posix_memalign(&block, page, at + page))
		return NULL;
	memset(block, 0, at + page);
	ctx = (struct ripc_context *)((char *)block + at - before);
	ctx->block = block;
	ctx->stats.size = sizeof(ctx->stats);
	return ctx;
}

static size_t tables_len(void)
{
	return (sizeof(struct ripc_page) + unit_len() - 1) / unit_len() * unit_len();
}

/* Gives the counters memory: fd's, or (-1) what no other process sees. */
static int counters_move(struct ripc_context *ctx, int fd)
{
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	return mmap(&ctx->stats, unit_len(), PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED ?
		-errno : 0;
}

/* Writes the counters to a file with room for the page. */
static int memory_fill(struct ripc_context *ctx, int fd)
{
	/* A hole that finds no memory later would be the end of the process. */
	int error = ripc__memfd_size(fd, unit_len() + tables_len(), true);

	if (error)
		return error;
	return pwrite(fd, &ctx->stats, sizeof(ctx->stats), 0) == sizeof(ctx->stats) ? 0 : -EIO;
}

static int page_map(struct ripc_context *ctx, int fd)
{
	int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	void *at;
	int error;

	at = mmap(NULL, tables_len(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		(off_t)unit_len());
	if (at == MAP_FAILED)
		return -errno;
	error = counters_move(ctx, fd);
	if (error) {
		munmap(at, tables_len());
		return error;
	}
	ctx->page = at;
	ctx->page_fd = fd;
	/* Our own mappings stay writable. */
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

static int page_make(struct ripc_context *ctx)
{
	int fd = ripc__memfd(), error;

	if (fd < 0)
		return fd;
	error = memory_fill(ctx, fd);
	error = error ? error : page_map(ctx, fd);
	if (error && ctx->page)
		ripc__page_close(ctx);
	else if (error)
		close(fd);
	return error;
}

/* What a reader copies while the sequence is odd, or has changed meanwhile, does not count. */
static void page_write(struct ripc_context *ctx)
{
	struct ripc_page *page = ctx->page;

	__atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	page->magic = RIPC_PAGE_MAGIC;
	page->version = RIPC_PAGE_VERSION;
	page->word = sizeof(size_t);
	page->context = ctx->incarnation;
	page->written++;
	ripc__stats_gather(ctx, &page->stats);
	page->stats.size = sizeof(page->stats);
	ripc__tables_write(ctx, page);
	__atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELEASE);
}

int ripc__page_show(void *arg)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = arg;
	int error = ctx->page ? 0 : page_make(ctx);

	if (error)
		return error;
	page_write(ctx);
	return ctx->page_fd;
}

void ripc__page_close(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	struct ripc_stats stats = ctx->stats;

	if (!ctx->page)
		return;
	if (counters_move(ctx, -1))
		ctx->block = NULL; /* part of it is still the page */
	else
		ctx->stats = stats;
	munmap(ctx->page, tables_len());
	close(ctx->page_fd);
	ctx->page = NULL;
}
