/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of a context for its application, and its page for other processes of its user. */
#ifndef RIPC_SHOW_H
#define RIPC_SHOW_H

struct device;
struct ripc__addr;
struct ripc_context;
struct ripc_stats;

/* A context, all zero, whose counters are alone in a page of memory. NULL: no memory. */
struct ripc_context *ripc__page_alloc(void);
/* All counters and gauges, but size. */
void ripc__stats_gather(struct ripc_context *ctx, struct ripc_stats *stats);
/* An address of a device in words. */
void ripc__addr_text(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *addr, char text[64]);

/*
 * ripc__host.page: brings the page of a context (ripc/page.h) up to date. The page is made when it
 * is asked for the first time; from then on the context counts in it. Returns the descriptor of its
 * memory, which nobody else can write to; it stays the context's. A negative errno.
 */
int ripc__page_show(void *ctx);
/* The context counts in memory of its own again. */
void ripc__page_close(struct ripc_context *ctx);

#endif
