/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for all rooms: nonces, timers, sums of lengths, structs that grow. */
#ifndef RIPC_BASE_H
#define RIPC_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/system/thread.h"

struct iovec;
struct ripc__timer;
struct ripc_context;
struct said;

int ripc__sum_items(const struct iovec *items, uint32_t n_items, uint64_t *total);
uint64_t ripc__nonce(struct ripc_context *ctx);
/* Reserves room for one more timer. -ENOMEM. */
int ripc__timer_admit(struct ripc_context *ctx);
void ripc__timer_dismiss(struct ripc_context *ctx, struct ripc__timer *timer);

/*
 * Structs of the public interface that begin with their size, a size_t, and have grown, or will:
 * the program may know fewer fields than the library, or more.
 *
 * ripc__struct_take() copies what the program has set into own, a struct of known bytes. Fields
 * that the program does not know are 0 in own. first: the size that the struct had at first.
 *  -EINVAL  NULL, or shorter than first: own is 0
 *  -E2BIG   longer than 4,096 bytes: own is 0; or a field that the library does not know is not 0:
 *           own has all the others
 */
int ripc__struct_take(void *own, size_t known, const void *given, size_t first);
/* Checks the size of a struct to fill. -EINVAL: not even the size itself fits; -E2BIG. */
int ripc__struct_check(size_t size);
/* Fills a struct of this size from own. Fields that the library does not know become 0. */
void ripc__struct_fill(void *given, size_t size, const void *own, size_t known);

/* ---- log --------------------------------------------------------------------------------- */

/* The log of a context: its last messages, which the application can take. */

struct log {
	struct ripc__mutex lock; /* threads log with and without the context's lock */
	struct said *last;       /* a ring; NULL: no message yet, or no memory */
	uint64_t n_said, n_taken; /* n_taken: including lost messages */
	uint64_t n_lost;         /* messages lost since one was last taken */
};

void ripc__log(struct ripc_context *ctx, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void ripc__log_text(struct ripc_context *ctx, int level, const char *format, va_list args);
void ripc__log_free(struct ripc_context *ctx);

/* ---- proof ------------------------------------------------------------------------------- */

/* Address tokens, which prove that an asker receives at its address (docs/protocol.md, First
 * contact and proof). */

#define PROOF_PERIOD_US    8000000u   /* an address token is valid for one to two periods */

uint64_t ripc__proof(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t age);
bool ripc__proof_valid(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t proof);

#endif
