/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of a context: its last messages, which the application can take. */
#ifndef RIPC_BASE_LOG_H
#define RIPC_BASE_LOG_H

#include <stdarg.h>
#include <stdint.h>

#include "util/system/thread.h"

struct ripc_context;
struct said;

struct log {
	struct ripc__mutex lock; /* threads log with and without the context's lock */
	struct said *last;       /* a ring; NULL: nothing was said, or there was no memory */
	uint64_t n_said, n_taken; /* n_taken: with those that were lost */
	uint64_t n_lost;         /* since the last one that was taken */
};

void ripc__log(struct ripc_context *ctx, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ripc__log_text(struct ripc_context *ctx, int level, const char *format, va_list args);
void ripc__log_free(struct ripc_context *ctx);

#endif
