/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts and services: the objects that all rooms know. */
#ifndef RIPC_OBJECTS_H
#define RIPC_OBJECTS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/log.h"
#include "core/call/watch.h"
#include "core/message/message.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/partner/death.h"
#include "core/partner/guess.h"
#include "core/peer/devices.h"
#include "core/peer/moves.h"
#include "core/peer/share.h"
#include "ripc/ripc.h"
#include "util/list.h"
#include "util/map.h"
#include "util/slots.h"
#include "util/system/thread.h"
#include "util/timers.h"

struct askers;
struct incoming;
struct partner;
struct ripc__pool;
struct ripc__resolver;
struct ripc_lister;
struct ripc_page;
struct seal;
struct waiter;

#define CORKED_MAX         16u    /* partners whose announcements wait to go together */
#define CLOSED_MAX         64u    /* services of which we remember when they were closed */
#define QUEUE_MAX          4096u  /* messages in a service's queue */
#define PROCESS_THIS       UINT32_MAX /* the kernel clears the word in a forked child */
#define PROCESS_CLOSED     (UINT32_MAX - 1) /* the context is closed; the word of before is next */
#define SERVICES_KEPT      1024u  /* closed services whose memory is kept */

struct ripc_service {
	struct ripc_context *ctx;
	struct list node;          /* ctx->services; ctx->ended_services */
	uint64_t id, incarnation, stamp;
	struct list queue;
	uint32_t queued;
	struct ends ends;          /* of awaited sends and calls */
	uint32_t n_incoming;       /* being received */
	uint64_t numbers;          /* all numbers up to this may have been used */
	struct ripc__map partners; /* current partner by ID */
	struct partner *recent;    /* the current partner that was looked for last, or NULL */
	struct ripc_service *concerned; /* next of those that news of an ID concern */
	struct askers *askers;	   /* partners that lent us return buffers (claim.c); or NULL */
	struct list windows, lent;
	uint64_t windows_posted;
	struct list calls;         /* open ones */
	uint32_t n_calls, n_watches;
	struct list watches, watcher; /* watcher: ctx->watching.services, if there are any */
	struct ripc__map watched;  /* the same by ID */
	struct ripc__map groups;   /* that it has joined; the values are the service */
	struct ripc__map streams;  /* struct stream by the group that it sends to */
	struct message retry, conflict; /* built-in notices */
	struct ripc__timer yielding; /* its ID is another's: what still comes has so long */
	int event_fd;              /* for event loops (message/message.c); -1 until asked for */
	bool event_set;            /* it is readable */
	uint32_t n_takers;         /* calls that wait for a message */
	bool draining, publishing, closing;
	bool ended;                /* closed: calls in it return -ESHUTDOWN */
	uint32_t n_waiting;        /* calls that wait in it */
	int publish_status;
	_Atomic uint32_t wakes;    /* ripc_wake()s that have ended no call yet */
};

struct ripc_context {
	struct ripc__mutex lock;
	struct ripc_config cfg;    /* strings are our copies */
	struct ripc__env env;
	struct ripc__host host;
	uint64_t incarnation;
	uint8_t secret[16];
	uint64_t counter, places, handles; /* of nonces; of ordered messages; partner.h */
	uint64_t now_us;
	uint64_t read_at;          /* when the clock was read, in ticks of the processor */
	bool has_ticks;            /* the clock is the real one, and ticks belong to it */
	_Atomic uint32_t *process; /* the process that opened it, or PROCESS_THIS: ripc__is_own() */
	struct seal *seal;         /* keys (keys/sealed.h); NULL: the context has none */
	bool proves;               /* senders are proven: an authority grants their IDs */
	struct device devices[8];
	uint32_t n_devices;
	size_t route_bytes;        /* of the longest route of all devices */
	bool polls_all;            /* polls look everywhere (ripc__ports_drain) */
	bool any_broken, walking;  /* a peer is broken (roam.h); a loop walks the partners */
	struct device *hot;        /* the device by which messages come (loop.c) */
	uint32_t hot_run, hot_looks; /* how surely; looks at it */
	_Atomic(struct device *) waits_on; /* the reader sleeps in its port's own wait; or NULL */
	atomic_bool woken;         /* by ripc_wake() (wait.c) */
	_Atomic(struct device *) watch_beside; /* the thread watches all other ports; or NULL */
	uint64_t retry_us;         /* when to try devices that failed again */
	struct ripc__pool *pool;
	struct ripc__resolver *resolver;
	struct ripc__timers timers;
	uint32_t n_timers;         /* objects that may set a timer */
	uint32_t n_busy;           /* long messages with bytes still to send or receive */
	struct list ended_services; /* closed ones, oldest first: calls there return -ESHUTDOWN */
	uint32_t n_ended_services;
	uint32_t n_away;           /* calls that work without the lock (engine/loop.c) */
	bool closing, is_shut;     /* ripc_close() waits for other calls to end; they have */
	struct list services, partners, acks, on_trial, granted, ungranted;
	struct incoming *arriving; /* of its bytes a look at a port found some last; or NULL */
	struct list ended;         /* outgoing: ended, but waited for, fencing, or with the
	                              application */
	struct list readings, lingering; /* readings with more to ask for; readings given up */
	struct list mapped;        /* memory of partners (mapped.c) */
	struct list permits, offers, writings; /* returns.h, returns.h, write.c */
	struct list fanouts, kept; /* group/fanout.h, group/group.c */
	uint32_t n_kept;
	struct list heard;         /* streams of others to groups (group/heard.c) */
	uint32_t many_least;       /* from so many members on datagrams go to many; 0: never */
	uint32_t n_offers;
	struct moves reads, writes; /* in progress */
	uint32_t n_orphans, n_gaps; /* of closed services: what the network may use; send/order.h */
	uint32_t picks;
	struct ripc__map services_by_incarnation, services_by_id, partners_by_pair, peers, hosts;
	struct ripc__map heard_by_sender; /* the first of each sender and group */
	struct ripc__map partners_by_id; /* current ones; the first of each ID (partner.h) */
	bool has_index;            /* there was a second service: partners_by_id is kept */
	struct list told_calls;    /* their failures are in queues, or with the application */
	struct list spare_calls;
	uint32_t n_spare_calls;
	struct ripc__slots slots, call_slots; /* partners by token; open calls (call/call.h) */
	uint64_t held[SHARES], held_max[SHARES]; /* taken by all senders; the whole */
	uint64_t acks_due_us;      /* while acks wait for a ride: until when */
	struct list spares;        /* free messages of SPARE_BYTES: most shorts fit */
	uint32_t n_spares, spares_missed;
	_Atomic(struct message *) freed; /* one more, put there without the lock; or NULL */
	atomic_bool has_refs;      /* messages may have several references: none is kept */
	struct partner *corked[CORKED_MAX]; /* partners whose announcements wait; or NULL */
	uint32_t n_corked;
	uint64_t corked_due_us;    /* until when they wait */
	uint64_t nowait_us;        /* when the last RIPC_NOWAIT long was sent */
	uint64_t next_sweep_us, pool_due_us; /* partners; idle memory of the pool */
	struct closed {
		uint64_t incarnation, closed_us;
	} closed[CLOSED_MAX];      /* our former services, a ring */
	uint32_t n_closed;
	uint64_t closed_floor_us;  /* services neither open nor in the ring were closed by then */
	uint64_t no_room_us;       /* when room last was missing (receive/incoming.c) */
	struct bucket strangers;   /* limits packets to strangers (packet.c) */
	struct bucket words;       /* limits log lines about missing or wrong keys */
	struct bucket rechecks;    /* limits questions that claims cause (claim.c) */
	struct guessing guessing[GUESSING_MAX]; /* by the address that wrong tokens come from */
	struct death death;
	struct hints hints;
	struct {
		struct ripc__timer looking; /* at partners that are in use */
		struct ripc__timer own; /* partners learn of our new addresses */
		uint64_t own_us;   /* when that last began, or will begin */
		uint32_t rounds;   /* of it */
	} following;               /* partner/roam.c */
	struct watching watching;
	struct list waiters;
	struct waiter *reader;     /* looks after the ports, asleep or not; NULL: there is none */
	bool changed;              /* something happened that a waiter may wait for */
	bool expect_sleep;         /* the last look found nothing: sleep at once */
	bool quiet;                /* the hot port's own wait found nothing: sleep in ppoll */
	uint32_t looks, sleeps, yield_credit, glance_us;
	uint64_t yield_again_us;   /* no yield before: other threads keep the processor for long */
	int kick_fd, thread_kick_fd;
	int ports_fd;              /* of ripc_context_fd(), for all ports; -1 until asked for */
	uint32_t n_event_fds;      /* services with a descriptor */
	uint64_t reader_until_us;  /* while the reader is asleep: until when */
	pthread_t thread;
	bool reader_kicked;
	bool thread_runs, thread_stop, thread_holds, thread_parked, thread_asleep, thread_kicked;
	_Atomic uint64_t thread_until_us;
	struct {
		pthread_t thread;
		bool runs, ended;
		uint64_t begun, used; /* readings; the last one whose contents are in use */
	} reread;                  /* of the directory of keys */
	_Atomic uint64_t activity; /* grows with each look at the ports by a call */
	uint64_t resolver_us;      /* when the resolver's sources were last polled */
	struct ping *pings;
	struct log log;
	struct list listers;       /* api/list.c */
	struct ripc_lister *lister; /* for which the resolver looks; or NULL */
	char *strings[5], *options;
	atomic_bool said_no_memory; /* the log was told that pool or system have no memory left */
	void *block;               /* the context's memory; NULL: not to be freed */
	struct ripc_page *page;    /* for other processes (show/page.c); NULL: none has asked */
	int page_fd;
	/* The last, alone in a page of memory that others may be shown. */
	_Alignas(64) struct ripc_stats stats;
};

struct ping {
	struct ping *next;
	uint64_t nonce, began_us, rtt_us;
	uint32_t n_sent;
	bool done;
};

/* False in a forked child. */
static inline bool ripc__is_own(const struct ripc_context *ctx)
{
	uint32_t process = atomic_load_explicit(ctx->process, memory_order_relaxed);

	return __builtin_expect(process == PROCESS_THIS, 1) || process == (uint32_t)getpid();
}

/* Is the context closed, by this process? Its memory is there while a message or buffer is. */
static inline bool ripc__is_closed(const struct ripc_context *ctx)
{
	uint32_t before;

	if (atomic_load_explicit(ctx->process, memory_order_acquire) != PROCESS_CLOSED)
		return false;
	before = atomic_load_explicit(ctx->process + 1, memory_order_relaxed);
	return before == PROCESS_THIS || before == (uint32_t)getpid();
}

/* Why a call in a context that is not ours to use fails. */
static inline int ripc__refusal(const struct ripc_context *ctx)
{
	return ripc__is_closed(ctx) ? -ESHUTDOWN : -EOWNERDEAD;
}

static inline void ripc__point(struct ripc_context *ctx, const char *name)
{
	if (__builtin_expect(ctx->env.point != NULL, 0))
		ctx->env.point(ctx->env.arg, name);
}

#endif
