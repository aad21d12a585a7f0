/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a long message that is announced may be accepted; and where there is no room, whether
 * waiting helps, and what the log is told.
 *
 * Design notes. The share of a sender (partner/share.c) counts its unread messages. Messages that
 * the application has read and keeps count for nobody, and only the pool knows that it is full. The
 * cause is found by asking the pool once more: memory, or descriptors, of which each new slab needs
 * one.
 */
#include <errno.h>
#include <sys/uio.h>

#include "admit.h"
#include "core/base/base.h"
#include "core/memory/pool.h"
#include "core/message/lent.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/partner/share.h"
#include "core/peer/peer.h"
#include "core/peer/share.h"
#include "core/wire/wire.h"
#include "util/list.h"

#define CAUSE_MEMORY 0
#define CAUSE_FILES  1
#define QUIET_US     60000000u /* after so long without a cause, it is told anew */

uint64_t ripc__whole_bytes(const struct wire_packet *packet)
{
	return sizeof(struct message) + packet->n_items * sizeof(struct iovec) +
		packet->payload_len;
}

int ripc__admit(const struct ripc_service *service, const struct wire_packet *packet)
{
	const struct ripc_context *ctx = service->ctx;
	uint64_t most = ctx->cfg.message_max_bytes;

	if (service->draining && !wire_is_answer(packet))
		return -ESHUTDOWN;
	if (packet->announce.total > (most ? most : ctx->held_max[SHARE_LARGE] << 10) ||
			packet->announce.total >> 10 > LARGE_MAX ||
			packet->announce.total > SIZE_MAX / 2) /* a size_t may have 32 bits */
		return -EMSGSIZE;
	return 0;
}

bool ripc__is_whole(const struct partner *partner, const struct wire_packet *packet)
{
	return packet->payload_len == packet->announce.total &&
		list_empty(&partner->service->windows) &&
		!(packet->replies && ripc__lent_by_id(partner->service, packet->replies));
}

/*
 * The others need room, too, however greedy or slow to be read this one is. But a message of a
 * host that holds nothing may be as long as there is memory.
 */
bool ripc__over_share(const struct partner *partner, const struct wire_packet *packet)
{
	/* An answer has its place with who has asked. */
	if (!wire_is_answer(packet) && !ripc__queue_has_room(partner))
		return true;
	if (ripc__is_whole(partner, packet))
		return ripc__share_left(partner, SHARE_SMALL) < ripc__whole_bytes(packet);
	return ripc__share_left(partner, SHARE_UNFINISHED) == 0 ||
		(partner->peer->host->held[SHARE_LARGE] &&
		ripc__share_left(partner, SHARE_LARGE) < packet->announce.total >> 10);
}

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
