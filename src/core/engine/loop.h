/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of core/engine share: no other room includes this. */
#ifndef RIPC_ENGINE_LOOP_H
#define RIPC_ENGINE_LOOP_H

#include <stdbool.h>

#include "core/objects.h"

struct outgoing;
struct ripc_context;

/* ---- progress ---------------------------------------------------------------------------- */

/* The work of a context. */

#define THREAD_TICK_US 1000u

/* Does the work that is due, without waiting; returns how much work was done. */
int ripc__poll(struct ripc_context *ctx);
/* One look at the ports and the timers; returns the work done. */
int ripc__progress(struct ripc_context *ctx);
/* Runs timers that are due; takes packets of the resolver's sources. Both return the work done. */
int ripc__timers_progress(struct ripc_context *ctx);
int ripc__resolver_progress(struct ripc_context *ctx);
/*
 * As ripc__progress(), for callers that look again and again: looks up to times times at the hot
 * device while it has nothing. Looks also carry reads and writes on. While shorts follow one
 * another, timers that are due wait.
 */
int ripc__look(struct ripc_context *ctx, uint32_t times);
/* One look at one device. */
int ripc__device_progress(struct ripc_context *ctx, struct device *device);
/* Does what is due after the looks at devices; work: what these looks have done. */
int ripc__due_progress(struct ripc_context *ctx, int work);
/* The device by which messages come; NULL: several. */
struct device *ripc__hot_device(struct ripc_context *ctx);

/* ---- reread ------------------------------------------------------------------------------ */

/* The directory of keys is read again without the lock, as a file system may take its time. */

/* The calling thread reads, and leaves the lock meanwhile. Errors: as of ripc_keys_reload(). */
int ripc__reread(struct ripc_context *ctx);
/* Waits for that thread; without the lock. */
void ripc__reread_end(struct ripc_context *ctx);

/* ---- summing ----------------------------------------------------------------------------- */

/* Checksums that follow their announcement. */

/*
 * If the message's announcement said that a checksum follows: computes the checksum without the
 * lock, then tells the receiver. After that the caller uses outgoing only if a call waits for it.
 */
void ripc__sum_follows(struct outgoing *outgoing);

#endif
