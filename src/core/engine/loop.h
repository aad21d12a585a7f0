/* SPDX-License-Identifier: BSD-3-Clause */
/* The work that is due in a context, and its state. */
#ifndef RIPC_ENGINE_LOOP_H
#define RIPC_ENGINE_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"
#include "util/timers.h"

struct device;
struct outgoing;
struct ripc_context;
struct waiter;

/* The work of a context: its timers, sleepers and threads. */
struct loop {
	uint64_t read_at;          /* when the clock was read, in ticks of the processor */
	bool has_ticks;            /* the clock is the real one, and the processor's ticks fit it */
	bool polls_all;            /* all devices are polled (ripc__ports_drain) */
	bool changed;              /* something happened that a waiter may wait for */
	bool expect_sleep;         /* the last poll found nothing: sleep at once */
	bool quiet;                /* the hot port's own wait found nothing: sleep in ppoll */
	bool closing, is_shut;     /* ripc_close() waits for other calls to end; all have ended */
	struct device *hot;        /* the device by which messages come (loop.c) */
	uint32_t hot_run, hot_looks; /* messages in a row that came by it; polls of it */
	_Atomic(struct device *) waits_on; /* the reader sleeps in its port's own wait; or NULL */
	atomic_bool woken;         /* by ripc_wake() (wait.c) */
	_Atomic(struct device *) watch_beside; /* the thread watches all other ports; or NULL */
	struct ripc__timers timers;
	uint32_t n_timers;         /* objects that may set a timer */
	uint32_t n_busy;           /* long messages with bytes still to send or receive */
	uint32_t n_away;           /* calls that work without the lock */
	struct list waiters;
	struct waiter *reader;     /* serves the ports, asleep or not; NULL: there is none */
	uint32_t looks, sleeps, yield_credit, glance_us;
	uint64_t yield_again_us;   /* no yield before this: other threads keep the processor long */
	int kick_fd, thread_kick_fd;
	int ports_fd;              /* of ripc_context_fd(), for all ports; -1 until requested */
	uint32_t n_event_fds;      /* services with a descriptor */
	uint64_t reader_until_us;  /* end of the reader's sleep, while it is asleep */
	pthread_t thread;
	bool reader_kicked;
	bool thread_runs, thread_stop, thread_holds, thread_parked, thread_asleep, thread_kicked;
	_Atomic uint64_t thread_until_us;
	struct {
		pthread_t thread;
		bool runs, ended;
		uint64_t begun, used; /* readings; the last one whose contents are in use */
	} reread;                  /* of the directory of keys */
	_Atomic uint64_t activity; /* polls of the ports by calls */
	uint64_t resolver_us;      /* when the resolver's sources were last polled */
	uint64_t next_sweep_us, pool_due_us; /* partners; idle memory of the pool */
};

/* ---- progress ---------------------------------------------------------------------------- */

/* The work of a context. */

#define THREAD_TICK_US 1000u

/* Does the work that is due, without waiting; returns how much work was done. */
int ripc__poll(struct ripc_context *ctx);
/* Polls the ports and the timers once; returns the work done. */
int ripc__progress(struct ripc_context *ctx);
/* Runs timers that are due; returns the work done. */
int ripc__timers_progress(struct ripc_context *ctx);
/*
 * As ripc__progress(), for callers that poll in a loop: polls the hot device up to "times" times
 * while it has nothing. Polls also carry reads and writes on. While shorts follow one another,
 * timers that are due wait.
 */
int ripc__look(struct ripc_context *ctx, uint32_t times);
/* Polls one device once. */
int ripc__device_progress(struct ripc_context *ctx, struct device *device);
/* Does the work that is due after polls of devices. work: the work of these polls. */
int ripc__due_progress(struct ripc_context *ctx, int work);
/* The device by which messages come; NULL: several. */
struct device *ripc__hot_device(struct ripc_context *ctx);

/* ---- reread ------------------------------------------------------------------------------ */

/* The directory of keys is read again without the lock, because a file system may be slow. */

/* The calling thread reads, and leaves the lock meanwhile. Errors: as of ripc_keys_reload(). */
int ripc__reread(struct ripc_context *ctx);
/* Waits for the thread of ripc__reread_begin(); without the lock. */
void ripc__reread_end(struct ripc_context *ctx);

/* ---- summing ----------------------------------------------------------------------------- */

/* Checksums that are sent after their announcement. */

/*
 * If the message's announcement promised a checksum, computes the checksum without the lock, then
 * sends it to the receiver. Afterwards the caller may use outgoing only if a call waits for it.
 */
void ripc__sum_follows(struct outgoing *outgoing);

#endif
