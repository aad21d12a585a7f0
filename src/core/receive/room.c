/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No room for a long message: whether waiting helps, and what the log is told.
 *
 * Design notes. The share of a sender counts what nobody has read (share.c); what the application
 * has read and keeps counts for nobody, and only the pool knows that it is full. The cause is found
 * by asking the pool once more: memory, or descriptors, of which each new slab needs one.
 */
#include <errno.h>

#include "core/base/base.h"
#include "core/memory/pool.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "room.h"

#define CAUSE_MEMORY 0
#define CAUSE_FILES  1
#define QUIET_US     60000000u /* after so long without a cause, it is told anew */

/* Why a buffer as long as the longest item cannot be had. */
static int cause_of(struct ripc_context *ctx, const struct wire_packet *announce)
{
	uint64_t longest = 0, len;
	void *buf;
	int error;

	for (uint32_t i = 0; i < announce->announce.n_items; i++) {
		len = wire_item_len(announce, i);
		longest = len > longest ? len : longest;
	}
	error = ripc__pool_promise(ctx->pool, (size_t)longest, 0, &buf);
	if (!error)
		ripc__pool_free(ctx->pool, buf);
	return error ? error : -ENOMEM;
}

static void say_files(const struct partner *partner, uint64_t total, int error)
{
	bool own = error == -EMFILE;

	ripc__log(partner->service->ctx, RIPC_LOG_WARN, "no room for a message of %llu bytes from "
		"service %016llx: its memory needs a file descriptor, and %s has none left (%s): "
		"%s. Its sender keeps it until its deadline", (unsigned long long)total,
		(unsigned long long)partner->id, own ? "this process" : "this host",
		own ? "EMFILE" : "ENFILE", own ? "close files or raise \"ulimit -n\"" :
		"raise fs.file-max (sysctl)");
}

static void say_memory(const struct partner *partner, uint64_t total,
		const struct ripc__pool_stats *pool)
{
	ripc__log(partner->service->ctx, RIPC_LOG_WARN, "no room for a message of %llu bytes from "
		"service %016llx: the pool may take at most %llu bytes, has taken %llu, and "
		"%llu of these are in use by buffers and messages that were not freed. Where the "
		"limit is too low, free them sooner or raise pool_bytes; where the pool is far "
		"below it, the system has given no more. Its sender keeps it until its deadline",
		(unsigned long long)total, (unsigned long long)partner->id,
		(unsigned long long)pool->limit, (unsigned long long)pool->taken,
		(unsigned long long)pool->used);
}

bool ripc__room_may_come(struct partner *partner, const struct wire_packet *announce)
{
	struct ripc_context *ctx = partner->service->ctx;
	int error = cause_of(ctx, announce);
	bool files = error == -EMFILE || error == -ENFILE;
	uint64_t *last = &ctx->no_room_us[files ? CAUSE_FILES : CAUSE_MEMORY];
	bool is_new = *last == 0 || ctx->now_us - *last >= QUIET_US;
	struct ripc__pool_stats pool;

	*last = ctx->now_us;
	ripc__pool_stats(ctx->pool, &pool);
	if (is_new && files)
		say_files(partner, announce->announce.total, error);
	else if (is_new)
		say_memory(partner, announce->announce.total, &pool);
	return pool.used > 0 || files;
}
