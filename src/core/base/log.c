/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of a context. Each message goes to the callback, if there is one, and into a ring, from
 * which ripc_log_next() takes it. Parts of the library log with the context's lock and without it,
 * in several threads: the ring has a lock of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "core/base/base.h"
#include "core/objects.h"
#include "util/system/cancel.h"

#define LOG_KEPT 64u /* ripc.h names this number */

struct said {
	int level;
	char text[sizeof(((struct ripc_log_message *)0)->text)];
};

static void keep(struct log *log, int level, const char *text)
{
	struct said *said;

	ripc__mutex_lock(&log->lock);
	if (!log->last)
		log->last = calloc(LOG_KEPT, sizeof(*log->last));
	if (log->last) {
		said = &log->last[log->n_said++ % LOG_KEPT];
		said->level = level;
		snprintf(said->text, sizeof(said->text), "%s", text);
	}
	if (!log->last || log->n_said - log->n_taken > LOG_KEPT) {
		log->n_lost++;
		log->n_taken += log->last != NULL;
	}
	ripc__mutex_unlock(&log->lock);
}

void ripc__log_text(struct ripc_context *ctx, int level, const char *format, va_list args)
{
	RIPC__HOLD_CANCEL;
	char text[sizeof(((struct said *)0)->text)];

	vsnprintf(text, sizeof(text), format, args);
	keep(&ctx->log, level, text);
	if (ctx->cfg.log)
		ctx->cfg.log(ctx->cfg.log_arg, level, text);
}

void ripc__log(struct ripc_context *ctx, int level, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ripc__log_text(ctx, level, format, args);
	va_end(args);
}

void ripc__log_free(struct ripc_context *ctx)
{
	free(ctx->log.last);
}

/* Takes the oldest message of the ring. False: the ring is empty. */
static bool take(struct log *log, struct ripc_log_message *message)
{
	const struct said *said;
	bool any;

	ripc__mutex_lock(&log->lock);
	any = log->n_taken < log->n_said;
	if (any) {
		said = &log->last[log->n_taken++ % LOG_KEPT];
		message->level = said->level;
		memcpy(message->text, said->text, sizeof(message->text));
		message->lost = log->n_lost;
		log->n_lost = 0;
	}
	ripc__mutex_unlock(&log->lock);
	return any;
}

int ripc_log_next(struct ripc_context *ctx, struct ripc_log_message *message)
{
	struct ripc_log_message own = {0};
	size_t size;
	int error;

	if (!ctx || !message)
		return -EINVAL;
	if (!ripc__is_own(ctx))
		return ripc__refusal(ctx);
	size = message->size;
	error = ripc__struct_check(size);
	if (error || size < offsetof(struct ripc_log_message, lost) + sizeof(own.lost))
		return error ? error : -EINVAL;
	if (!take(&ctx->log, &own))
		return -EAGAIN;
	own.size = size;
	ripc__struct_fill(message, size, &own, sizeof(own));
	return 0;
}
