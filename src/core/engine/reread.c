/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See reread.h. Two readings may go on at the same time, one by a call and one by the thread: what
 * began later counts, whichever ends first.
 */
#include "reread.h"

#include <string.h>

#include "core/base/base.h"
#include "core/keys/dir.h"
#include "core/keys/sealed.h"
#include "enter.h"
#include "util/system/cancel.h"
#include "util/system/thread.h"

static int read_dir(struct ripc_context *ctx, struct key_dir *found, char why[KEY_WHY])
{
	ripc__point(ctx, "in_keys");
	return ripc__key_dir_read(ctx->cfg.keys, NULL, found, why);
}

static int use(struct ripc_context *ctx, int error, struct key_dir *found, char why[KEY_WHY])
{
	error = error ? error : ripc__seal_renew(ctx, found, why);
	if (error)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: not reloaded: %s", why);
	return error;
}

int ripc__reread(struct ripc_context *ctx)
{
	uint64_t number = ++ctx->reread.begun;
	struct key_dir found;
	char why[KEY_WHY];
	int error;

	ripc__leave(ctx);
	error = read_dir(ctx, &found, why);
	ripc__lock_timely(ctx); /* not ripc__enter(): ripc_close() may have begun */
	if (number > ctx->reread.used) {
		ctx->reread.used = number;
		error = use(ctx, error, &found, why);
	}
	ripc__key_dir_wipe(&found);
	return error;
}

static void *reread_main(void *arg)
{
	struct ripc_context *ctx = arg;

	ripc__lock_timely(ctx);
	(void)ripc__reread(ctx);
	ctx->reread.ended = true;
	ripc__leave(ctx);
	return NULL;
}

/* Where the application wants no threads. */
static void reread_here(struct ripc_context *ctx)
{
	struct key_dir found;
	char why[KEY_WHY];
	int error = read_dir(ctx, &found, why);

	(void)use(ctx, error, &found, why);
	ripc__key_dir_wipe(&found);
}

void ripc__reread_begin(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	int error;

	if (ctx->cfg.flags & RIPC_NO_THREAD) {
		reread_here(ctx);
		return;
	}
	if (ctx->reread.runs && !ctx->reread.ended) {
		ripc__log(ctx, RIPC_LOG_WARN, "keys: %s: the file system has not responded for a "
			"minute: the keys stay as they are until it does", ctx->cfg.keys);
		return;
	}
	ripc__reread_end(ctx);
	error = ripc__thread_make(&ctx->reread.thread, reread_main, ctx);
	ctx->reread.runs = error == 0;
	if (error)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: %s is not read: no thread can be created: %s",
			ctx->cfg.keys, strerror(error));
}

void ripc__reread_end(struct ripc_context *ctx)
{
	if (ctx->reread.runs)
		pthread_join(ctx->reread.thread, NULL);
	ctx->reread.runs = ctx->reread.ended = false;
}
