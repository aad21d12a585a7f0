/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of a context. */
#ifndef RIPC_PROGRESS_H
#define RIPC_PROGRESS_H

#include <stdbool.h>

#include "core/objects.h"

#define THREAD_TICK_US 1000u

/* Does what there is to do, without waiting; returns how much that was. */
int ripc__poll(struct ripc_context *ctx);
/* One look at the ports and the timers; returns the work done. */
int ripc__progress(struct ripc_context *ctx);
/* Takes in all that has come by now. False: a reader sleeps in a port, and is woken first. */
bool ripc__ports_drain(struct ripc_context *ctx);
/* Timers that are due; packets of the sources. Return the work done. */
int ripc__timers_progress(struct ripc_context *ctx);
int ripc__resolver_progress(struct ripc_context *ctx);
/*
 * As ripc__progress(), for callers that look again and again: so often at the hot device if nothing
 * is there. Reads and writes go on by being looked at. While shorts follow one another, what
 * is due waits.
 */
int ripc__look(struct ripc_context *ctx, uint32_t times);
/* At one device. */
int ripc__device_progress(struct ripc_context *ctx, struct device *device);
/* After the devices, which have done so much work: what is due. */
int ripc__due_progress(struct ripc_context *ctx, int work);
/* The device by which messages come; NULL: several. */
struct device *ripc__hot_device(struct ripc_context *ctx);

#endif
