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
/* Fills in all counters and gauges, but not size. */
void ripc__stats_gather(struct ripc_context *ctx, struct ripc_stats *stats);
/* Writes an address of a device in words. */
void ripc__addr_text(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *addr, char text[64]);

/*
 * ripc__host.page: updates the page of a context (ripc/page.h). The first call makes the page; from
 * then on the context counts in it. Returns the descriptor of the page's memory, which only we can
 * write to, or a negative errno. The context still owns the descriptor.
 */
int ripc__page_show(void *ctx);
/* The context counts in memory of its own again. */
void ripc__page_close(struct ripc_context *ctx);

#endif
