/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of a context for all rooms: log, nonces, timers, sums of lengths. */
#ifndef RIPC_BASE_H
#define RIPC_BASE_H

#include <stdarg.h>
#include <stdint.h>

struct iovec;
struct ripc__timer;
struct ripc_context;

void ripc__log(struct ripc_context *ctx, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int ripc__sum_items(const struct iovec *items, uint32_t n_items, uint64_t *total);
uint64_t ripc__nonce(struct ripc_context *ctx);
/* Reserves room for one more timer. -ENOMEM. */
int ripc__timer_admit(struct ripc_context *ctx);
void ripc__timer_dismiss(struct ripc_context *ctx, struct ripc__timer *timer);
void ripc__log_text(struct ripc_context *ctx, int level, const char *format, va_list args);

#endif
