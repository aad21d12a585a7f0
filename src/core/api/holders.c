/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who holds what was given (RIPC_GIVE): the ledger of ended.c, summed up by receiver.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/engine/wait.h"
#include "core/send/outgoing.h"
#include "util/list.h"

static int by_service(const void *a, const void *b)
{
	const struct ripc_holder *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->incarnation > y->incarnation) - (x->incarnation < y->incarnation);
}

static int by_bytes(const void *a, const void *b)
{
	const struct ripc_holder *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static size_t count_held(struct ripc_context *ctx)
{
	size_t n = 0;

	list_for_each(node, &ctx->ended)
		n += list_entry(node, struct outgoing, node)->held;
	return n;
}

/* One entry per message. */
static int collect(struct ripc_context *ctx, struct ripc_holder **holders, size_t *n_out)
{
	size_t n = count_held(ctx), at = 0;
	struct ripc_holder *all = malloc((n + 1) * sizeof(*all));

	if (!all)
		return -ENOMEM;
	list_for_each(node, &ctx->ended) {
		const struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		if (outgoing->held)
			all[at++] = (struct ripc_holder){outgoing->to, outgoing->to_incarnation,
				outgoing->total, 1};
	}
	*holders = all;
	*n_out = n;
	return 0;
}

/* Those of one incarnation become one; returns how many are left. */
static size_t merge(struct ripc_holder *holders, size_t n)
{
	size_t last = 0;

	if (n == 0)
		return 0;
	qsort(holders, n, sizeof(*holders), by_service);
	for (size_t i = 1; i < n; i++) {
		if (by_service(&holders[last], &holders[i]) == 0) {
			holders[last].bytes += holders[i].bytes;
			holders[last].messages += holders[i].messages;
		} else {
			holders[++last] = holders[i];
		}
	}
	qsort(holders, last + 1, sizeof(*holders), by_bytes);
	return last + 1;
}

int ripc_holders(struct ripc_context *ctx,
		void (*found)(void *arg, const struct ripc_holder *holder), void *arg)
{
	struct ripc_holder *holders;
	size_t n = 0;
	int error;

	if (!ctx || !found)
		return -EINVAL;
	error = ripc__enter(ctx);
	if (error)
		return error;
	error = collect(ctx, &holders, &n);
	ripc__leave(ctx);
	if (error)
		return error;
	n = merge(holders, n);
	for (size_t i = 0; i < n; i++)
		found(arg, &holders[i]);
	free(holders);
	return (int)n;
}
