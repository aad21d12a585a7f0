/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public calls: listing services. The resolver finds them (resolve/list.c). A lister keeps them
 * until the application takes them.
 *
 * Design notes. ripc_list() is a loop around a lister (a walk). While its callback runs, the call
 * holds only memory of the context. The callback may never return: an exception or longjmp() can
 * pass the call's frame. Two signs show this: the walk's thread lists again, or the walk's deadline
 * is over. The next lister then ends the search of the walk. The struct of the walk stays until the
 * context is closed, because the callback may return all the same.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/engine/wait.h"
#include "core/net/backend.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/show/show.h"
#include "internal.h"
#include "ripc/list.h"
#include "util/list.h"
#include "util/system/cancel.h"

#define FOUND_FIRST 64u /* entries at first */
#define WALK_MAX    16u /* entries that a walk takes at once */

struct ripc_lister {
	struct list node;           /* ctx->services.listers */
	struct ripc_context *ctx;
	struct ripc_listing *found; /* entries from "first" on are not taken yet */
	uint32_t first, n, room;
	uint32_t n_taking;          /* calls that wait in it, or take from it */
	bool lost;                  /* some services were lost, for lack of memory */
	bool walks;                 /* of ripc_list(): its thread and deadline follow */
	pthread_t walker;
	uint64_t until_us;
};

/* ---- found services ---------------------------------------------------------------------- */

static struct ripc_listing *room_get(struct ripc_lister *lister)
{
	uint32_t room = lister->room ? 2 * lister->room : FOUND_FIRST;
	struct ripc_listing *found;

	if (lister->first == lister->n)
		lister->first = lister->n = 0;
	if (lister->n < lister->room)
		return &lister->found[lister->n];
	found = realloc(lister->found, room * sizeof(*found));
	if (!found)
		return NULL;
	lister->found = found;
	lister->room = room;
	return &found[lister->n];
}

/* The first address by which a device of ours reaches the service. */
static void address_text(struct ripc_context *ctx, const struct ripc__answer *answer, char *text)
{
	struct ripc__addr addr;

	text[0] = '\0';
	for (uint32_t i = 0; i < answer->record.n_addrs && !text[0]; i++) {
		for (uint32_t d = 0; d < ctx->peers.n_devices && !text[0]; d++) {
			const struct device *device = &ctx->peers.devices[d];

			if (ripc__route_named(device, answer, i, &addr))
				ripc__addr_text(ctx, device, &addr, text);
		}
	}
}

static void listed(void *arg, const struct ripc__answer *answer)
{
	struct ripc_lister *lister = arg;
	struct ripc_listing *entry = room_get(lister);

	lister->ctx->loop.changed = true;
	if (!entry) {
		lister->lost = true;
		return;
	}
	*entry = (struct ripc_listing){.id = answer->record.id, .local = answer->local,
		.incarnation = answer->record.incarnation};
	snprintf(entry->source, sizeof(entry->source), "%s", answer->source);
	address_text(lister->ctx, answer, entry->address);
	lister->n++;
}

static bool has_news(void *arg)
{
	const struct ripc_lister *lister = arg;

	return lister->first < lister->n || lister->lost;
}

/* Moves found services into list. -ENOMEM: some were lost, and list got the others before. */
static int hand_over(struct ripc_lister *lister, struct ripc_listing *list, uint32_t max,
		size_t entry_size)
{
	uint32_t n = lister->n - lister->first;

	n = n < max ? n : max;
	for (uint32_t i = 0; i < n; i++)
		ripc__struct_fill((uint8_t *)list + i * entry_size, entry_size,
			&lister->found[lister->first + i], sizeof(*list));
	lister->first += n;
	if (n || !lister->lost)
		return (int)n;
	lister->lost = false;
	return -ENOMEM;
}

/* Needs the lock. Returns the number of filled entries, 0 at the deadline; or -EINTR, -ENOMEM. */
static int take(struct ripc_lister *lister, uint64_t deadline_us, struct ripc_listing *list,
		uint32_t max, size_t entry_size)
{
	int ready = 1;

	lister->n_taking++;
	if (!has_news(lister))
		ready = ripc__wait_or_end(lister->ctx, NULL, has_news, lister, deadline_us);
	lister->n_taking--;
	return ready > 0 ? hand_over(lister, list, max, entry_size) : ready;
}

/* ---- listers ----------------------------------------------------------------------------- */

/* Ends the resolver's part. */
static void search_end(struct ripc_lister *lister)
{
	struct ripc_context *ctx = lister->ctx;

	if (ctx->services.lister != lister)
		return;
	ripc__resolver_list(ctx->resolver, ctx->now_us, NULL, NULL);
	ctx->services.lister = NULL;
}

static void lister_free(struct ripc_lister *lister)
{
	search_end(lister);
	list_remove(&lister->node);
	free(lister->found);
	free(lister);
}

/* Ends the search of a walk whose callback has not returned in time, or never will. */
static void walk_leave(struct ripc_lister *lister)
{
	bool is_ours = pthread_equal(lister->walker, pthread_self());

	if (!lister->walks || lister->n_taking ||
			(!is_ours && lister->ctx->now_us < lister->until_us))
		return;
	search_end(lister);
	if (!is_ours)
		return;
	free(lister->found);
	lister->found = NULL;
	lister->first = lister->n = lister->room = 0;
}

/* With the lock. */
static int lister_make(struct ripc_context *ctx, struct ripc_lister **lister_out)
{
	struct ripc_lister *lister;
	int error;

	if (ctx->services.lister)
		walk_leave(ctx->services.lister);
	if (ctx->services.lister)
		return -EBUSY;
	lister = calloc(1, sizeof(*lister));
	if (!lister)
		return -ENOMEM;
	lister->ctx = ctx;
	error = ripc__thread_start(ctx);
	error = error ? error : ripc__resolver_list(ctx->resolver, ctx->now_us, listed, lister);
	if (error) {
		free(lister);
		return error;
	}
	list_append(&ctx->services.listers, &lister->node);
	ctx->services.lister = lister;
	*lister_out = lister;
	return 0;
}

void ripc__listers_free(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->services.listers))
		lister_free(list_entry(ctx->services.listers.next, struct ripc_lister, node));
}

int ripc_lister_open(struct ripc_context *ctx, struct ripc_lister **lister)
{
	RIPC__HOLD_CANCEL;
	int error = ctx && lister ? ripc__enter(ctx) : -EINVAL;

	return error ? error : ripc__leave_with(ctx, lister_make(ctx, lister));
}

int ripc_lister_next(struct ripc_lister *lister, int timeout_ms, struct ripc_listing *list,
		uint32_t max, size_t entry_size)
{
	int n = ripc__struct_check(entry_size);

	if (!lister || timeout_ms < 0 || !list || max == 0 || max > INT32_MAX ||
			entry_size < offsetof(struct ripc_listing, address) + sizeof(list->address))
		return -EINVAL;
	n = n ? n : ripc__enter(lister->ctx);
	if (n)
		return n;
	n = take(lister, ripc__deadline(lister->ctx, timeout_ms), list, max, entry_size);
	ripc__leave(lister->ctx);
	return n ? n : timeout_ms ? -ETIMEDOUT : -EAGAIN;
}

int ripc_lister_close(struct ripc_lister *lister)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = lister ? lister->ctx : NULL;
	int error = ctx ? ripc__enter(ctx) : -EINVAL;

	if (error)
		return error;
	if (lister->n_taking)
		error = -EBUSY;
	else
		lister_free(lister);
	return ripc__leave_with(ctx, error);
}

/* ---- with a callback --------------------------------------------------------------------- */

/* With the lock. */
static int walk_begin(struct ripc_context *ctx, int timeout_ms, struct ripc_lister **lister)
{
	int error = lister_make(ctx, lister);

	if (error)
		return error;
	(*lister)->walks = true;
	(*lister)->walker = pthread_self();
	(*lister)->until_us = ripc__deadline(ctx, timeout_ms);
	return 0;
}

/* *lister: NULL before the first time. */
static int walk_take(struct ripc_context *ctx, int timeout_ms, struct ripc_lister **lister,
		struct ripc_listing *list)
{
	int n = ripc__enter(ctx);

	if (n)
		return n;
	if (!*lister)
		n = walk_begin(ctx, timeout_ms, lister);
	if (!n)
		n = take(*lister, (*lister)->until_us, list, WALK_MAX, sizeof(*list));
	return ripc__leave_with(ctx, n);
}

int ripc_list(struct ripc_context *ctx, int timeout_ms,
		int (*found)(void *arg, const struct ripc_listing *listing), void *arg)
{
	RIPC__HOLD_CANCEL;
	struct ripc_listing list[WALK_MAX];
	struct ripc_lister *lister = NULL;
	int n, total = 0, ended = 0;
	bool lost = false;

	if (!ctx || !found || timeout_ms < 0)
		return -EINVAL;
	do {
		n = walk_take(ctx, timeout_ms, &lister, list);
		lost |= n == -ENOMEM;
		for (int i = 0; i < n && !ended; i++, total++)
			ended = found(arg, &list[i]);
	} while ((n > 0 || (n == -ENOMEM && lister)) && !ended);
	if (!lister)
		return n;
	ripc_lister_close(lister);
	return lost ? -ENOMEM : n < 0 && n != -EINTR ? n : total;
}
