/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a context, with those of the parts that count by themselves. */
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/share.h"
#include "core/resolve/resolver.h"
#include "ripc/stats.h"
#include "show.h"

void ripc__stats_gather(struct ripc_context *ctx, struct ripc_stats *stats)
{
	struct ripc__resolver_stats resolver;
	struct ripc__pool_stats pool;

	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		struct ripc__net_stats net = {0};

		if (ctx->devices[i].ops->net.stats)
			ctx->devices[i].ops->net.stats(ctx->devices[i].port, &net);
		ctx->stats.drop_receive_buffer += net.overflows;
		ctx->stats.offload_fallbacks += net.fallbacks;
	}
	*stats = ctx->stats;
	ripc__pool_stats(ctx->pool, &pool);
	stats->pool_bytes = pool.taken;
	stats->pool_limit_bytes = pool.limit;
	stats->pool_used_bytes = pool.used -
		((uint64_t)ctx->n_spares + (ctx->freed != NULL)) * SPARE_BYTES;
	stats->partner_bytes = ripc__partners_bytes(ctx);
	stats->granted_bytes = ctx->held[SHARE_CREDIT];
	ripc__resolver_stats(ctx->resolver, &resolver);
	stats->queries_sent = resolver.queries_sent;
	stats->queries_answered = resolver.queries_answered;
	stats->responses_received = resolver.responses_received;
	stats->resolver_dropped = resolver.dropped;
}
