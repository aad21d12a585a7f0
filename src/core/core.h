/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects of the core and how its files reach each other. One lock per context protects them;
 * threads sleep without it (wait.c). Below the public calls nothing reads a clock (ctx->now_us is
 * set on entry) or draws random numbers (tokens and proofs come from ctx->secret and a counter).
 *
 *   api.c       public calls: check, lock, delegate       context.c, config.c: open, close
 *   service.c   services, their queues, windows           wait.c     waiting, sleeping
 *   thread.c    the progress thread                       interrupt.c ending waits early
 *   readiness.c what to sleep on                          descriptor.c and for event loops
 *   input.c     one received packet to its place          partner.c  partners, acks
 *   short.c     short messages                            path.c     round trips, credit, windows
 *   outgoing.c  long messages we send                     incoming.c long messages we receive
 *   pump.c      their bytes                               collect.c, holes.c their bytes
 *   peer.c      the routes that partners share             places.c   where they land
 *   token.c     whose packet it is                        share.c    who holds how much
 *   resend.c    what is sent again                ended.c    how they ended
 *   returns.c  what partners may write into ours   write.c   what we write into theirs
 *   opened.c    what partners may read of ours    read.c     what we read of theirs
 *   cork.c      what goes together                        death.c    ends that are proven
 *   moving.c    where they begin anew             announced.c  accepted, refused, put off
 *   order.c     in which order              hint.c     ends that are only said
 *   crowd.c     room for partners
 */
#ifndef RIPC_CORE_H
#define RIPC_CORE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend.h"
#include "death.h"
#include "env.h"
#include "guess.h"
#include "hint.h"
#include "moves.h"
#include "pool.h"
#include "resolver.h"
#include "ripc/ripc.h"
#include "util/list.h"
#include "util/map.h"
#include "util/mutex.h"
#include "wire.h"

#define TICK_US            10000u
#define POOL_TURN_US       1000000u /* idle memory goes back after one to two of these, */
#define POOL_SOON_US       100000u  /* and in pieces, so far apart */
#define LONGS_MAX          64u    /* long messages in progress from one partner to another */
#define HELD_MAX           16u    /* shorts held for a partner not yet found */
#define HELD_US            5000000u /* how long; less than PARTNER_IDLE_US */
#define CLOSED_MAX         64u    /* services of which we remember when they were closed */
#define SPARE_BYTES        2048u  /* of a message that is kept for the next short */
#define SPARES_MAX         16u
#define CORKED_MAX         16u
#define QUEUE_MAX          4096u  /* messages in a service's queue */
#define INCOMING_MAX       4096u  /* long messages being received, of one context */
#define UNASKED_BYTES      65536u /* of a long message that may come unasked (protocol.md) */
#define GRANTED_OF_PEER    4u     /* messages of one peer that may send at once */
#define GRANTED_MAX        64u    /* of all */
#define WINDOW_NEAR        (1u << 20) /* bytes in flight from one peer: fits the cache */
#define WINDOW_MAX         (64u << 20) /* the same on a long path */
#define PIECES_MAX         4096u  /* of a message, that came before what precedes them */
#define READ_BYTES         (1u << 20) /* that are read at once, unless the device takes less */
#define PULL_MAX           (2ull << 20) /* bytes sent for one PULL */
#define PROOF_PERIOD_US    8000000u   /* address proofs hold for one to two of these */
#define PARTNER_IDLE_US    60000000u  /* an idle partner is forgotten; > proof and packet life */
#define PARTNER_KEEP_US                                                                            \
	40000000u  /* for want of room sooner, but never sooner than this: a
                                         sender repeats what is PARTNER_IDLE_US / 2 old */
#define PARTNERS_MAX       65536u
#define PARTNERS_ACCEPTED  (PARTNERS_MAX / 4 * 3) /* but see crowd.h; for the rest we look */
#define HOST_PARTNERS_MAX  (PARTNERS_MAX / 4) /* more from one host are not accepted */
#define ACK_DELAY_US       1000u  /* an ack waits so long for a packet to ride on */
#define RTO_MIN_US         500u
#define RTO_MAX_US         1000000u /* back-off ends here */
#define RTO_CAP_US         250000u  /* and begins at most here */
#define RTO_FIRST_US       3000u
#define READING_MAX_US     50000u  /* reading that takes longer counts as that */
#define DATAGRAM_BASE      1232u  /* passes everywhere: IPv6's least MTU minus headers */
#define DATAGRAM_BULK      32500u /* larger ones gain nothing: two fill an offload batch */

struct device {
	const struct ripc__backend *ops;
	void *dev, *port;
	struct ripc__attr attr;
	uint8_t blob[RIPC_ADDR_MAX];
	int blob_len;
};

/* What all who send to us share; nobody may take so much that others find nothing (share.c). */
enum share {
	SHARE_CREDIT,     /* bytes that are taken to be on their way to us */
	SHARE_SMALL,      /* of the pool, in unread messages that came in one packet, bytes */
	SHARE_LARGE,      /* of the pool, in longer ones, from their announcement, KiB */
	SHARE_UNFINISHED, /* long messages being received */
	SHARE_GRANTED,    /* those that may send now */
	SHARES
};

/* What a message takes, and how much of that counts as its host's and its peer's (share.c). */
struct holding {
	uint32_t all, own;
};

/* A message in a service's queue or with the application. */
struct message {
	struct ripc_msg public;
	struct list node;
	struct ripc_context *ctx;
	struct partner *partner; /* while it is queued: who sent it; NULL: we did */
	struct holding held;     /* by that partner, for this message */
	enum share share;        /* of which */
	enum { MESSAGE_POOL, MESSAGE_OUTGOING, MESSAGE_BUILTIN } home;
	bool items_in_pool, mapped; /* each item IN_POOL is a buffer of its own; a given one */
	bool queued;         /* MESSAGE_BUILTIN: in the queue or with the application */
	bool spare;          /* MESSAGE_POOL: of the size that ctx->spares keeps */
};

/* A remote machine, or an IPv6 network: how many partners were met there. */
struct host {
	uint64_t key;        /* in ctx->hosts */
	uint32_t partners;   /* references */
	uint64_t held[SHARES]; /* by its peers together */
};

/* The bytes of long messages that come from a peer over the network (window.c). */
struct flow {
	uint32_t window_before; /* before the last cut, which may prove wrong */
	uint32_t epoch_got, epoch_lost; /* bytes, since the loss was last measured */
	uint32_t round_min_us, round_bytes; /* of this round: shortest round trip, what came */
	uint32_t rate;       /* that came, the most of the last rounds, bytes in a millisecond */
	uint32_t queue_us;   /* on the way in the last round, or before the test, at least */
	uint32_t cubic_most, cubic_us; /* RFC 9438's W_max, and when its time began; wraps */
	uint32_t paced_us;   /* until when granted bytes take the path; wraps */
	uint32_t round_us, phase_us; /* when the round, the test began; a rival's: ends; wrap */
	uint32_t cut_us;     /* when the window was last cut; wraps */
	uint16_t cubic_ms;   /* is_cubic: K, after so long the window is W_max again */
	uint8_t calm;        /* rounds without a queue */
};

/* A remote context: route and flow, shared by all partners that live there. */
struct peer {
	struct host *host;   /* where it was met */
	uint64_t key;        /* in ctx->peers: of its context, and the host where it was met */
	uint64_t context;    /* its incarnation */
	uint32_t held[SHARES];
	uint32_t partners;   /* references */
	uint8_t device;      /* index into ctx->devices */
	uint8_t proofs : 4;  /* that a lossy path reorders, among these cuts */
	uint8_t reorder : 4; /* 0: gaps are losses; else patience: srtt << reorder / 4 */
	uint8_t failed;      /* bit i: devices[i] has */
	bool broken : 1;     /* its device has, and nothing has taken its place */
	bool opening : 1;    /* its device is still making the route: nothing is sent */
	bool slow_start : 1;
	bool gone : 1;       /* its end is proven (death.c) */
	bool hinted : 1;     /* somebody says that it has ended, so it is asked (hint.c) */
	bool is_testing : 1; /* whose queue it is on the way (window.c) */
	bool has_rival : 1;  /* somebody else's */
	bool is_cubic : 1;   /* it grows as CUBIC */
	uint8_t cuts;        /* since the path last proved to reorder */
	uint8_t silences;    /* in a row on a lossy path, for which the window was not cut */
	uint16_t datagram;   /* bytes of datagram used for bulk to it */
	uint16_t loss;       /* share of bytes lost, in 1/1024 */
	uint16_t reading_us; /* that it lately took to read a message of ours; 0: not measured */
	uint8_t left, why;   /* device that failed last, plus 1, until it is back; its errno */
	uint32_t srtt_us, rttvar_us, rtt_min_us; /* 0: not measured */
	uint32_t stamp, stamp_us; /* its last stamp, and when that came (path.h); 0: none */
	uint32_t window;     /* bytes that may be in flight from it to us */
	uint32_t in_flight;  /* that are taken to be */
	uint32_t arrived_us; /* when bytes of a long message last came from it; wraps */
	uint32_t shrunk_us;  /* when large datagrams were found to vanish; wraps; 0: they do not */
	uint32_t failed_us;  /* the device last failed, changed, was tried again; wraps; 0: never */
	struct flow *flow;   /* NULL: nothing has come or was lost yet */
	struct candidate *candidate; /* a new route, being proven; usually NULL */
	_Alignas(8) char route[];    /* the backend's */
};

enum partner_state {
	PARTNER_RESOLVING, /* only the ID is known */
	PARTNER_HELLO,     /* has a peer; it has not given us a token yet */
	PARTNER_READY,
};

/*
 * One incarnation of a remote service, as one local service knows it. What changes its state:
 *
 *              set by                                 cleared by
 *   state      RESOLVING: a send to an unknown ID
 *              HELLO: the resolver's answer; RETRY to the token that it gave us
 *              READY: a hello
 *   token_out  a hello                                RETRY to that token; the resolver, if dead
 *   known      our token comes back                   RETRY, a first packet, GONE
 *   current    a send to its ID; a first packet or    whatever retires it: GONE, a refusal by
 *              its return, if nobody is for its ID    a leaving service, another one resolved
 *   resolved   the resolver names it, and where it    its return from the dead
 *              lives, or an echo there shows it
 *   liar       RETRY to such an echo
 *   suspect    a notice, a rival's hello, silence     the resolver's answer, being retired
 *   dead       GONE                                   the resolver names it; a token made since
 *                                                     then comes back
 *   blocked    a send met -EAGAIN                     a send ends or moves
 *
 * resolved, suspect, and current are about where new sends go. Nobody is suspect or current who
 * is dead; nobody is known who is resolving. unasked counts from the first hello on.
 */
struct partner {
	struct list node;         /* ctx->partners, least recently used first */
	struct ripc_service *service;
	struct peer *peer;        /* NULL while resolving */
	uint64_t id, incarnation;
	uint64_t token_in;        /* we gave it (token.h) */
	uint64_t token_out;       /* it gave us; 0: none */
	uint64_t proof;
	uint64_t short_next;      /* number of our next short */
	uint64_t short_top, short_seen; /* highest short received; bit i: top - i was */
	uint64_t long_next, ordered_top; /* number of our next long; see order.h */
	uint64_t in_oldest;       /* its oldest unresolved long */
	uint64_t in_delivered, in_refused; /* bit i: number in_oldest + i */
	uint8_t *reasons;         /* errno of refused longs, [number % 64]; NULL: none yet */
	struct list outgoing, incoming; /* in number's order; in order of arrival */
	struct held *held;        /* shorts not certainly sent; usually NULL */
	struct proving *proving;     /* it is being asked whether it is what it claims (claim.c) */
	uint64_t ack_number;      /* 0: none pending */
	struct list ack_node;     /* ctx->acks, or ctx->on_trial */
	uint64_t used_us;         /* last authentic packet or send, or its death */
	uint32_t unasked;         /* what it accepts unasked of a message, bytes */
	uint32_t under_way;       /* what of that was sent and may be on its way, of all */
	uint32_t heard;           /* when it last said something, in 1,024 us; wraps */
	uint16_t n_outgoing, queued; /* messages of it that wait in the service's queue */
	uint16_t repeated_tick;   /* when it last made us repeat ourselves; 0: never */
	uint16_t ack_status;
	uint8_t state;
	bool known : 1;           /* it knows our token */
	bool current : 1;         /* it is whom service->partners names for its ID */
	bool suspect : 1;         /* heard that it moved: ask the resolver before the next send */
	bool resolved : 1;        /* the resolver, too, says that its ID means it, there */
	bool liar : 1;	    /* it is not what it claims to be */
	bool misled : 1;    /* it does not know the token that a hello gave in its name */
	bool crossed : 1;   /* a hello from elsewhere gave token_out: perhaps it is not its own */
	bool rechecked : 1; /* everybody was asked about what it claims */
	bool dead : 1;            /* known to be gone: kept so that its late packets are known */
	bool on_trial : 1;        /* it may be forgotten at any time (crowd.h) */
	bool blocked : 1, ordering : 1; /* -EAGAIN: a NOTICE is due; some may wait for others */
};

enum outgoing_state {
	OUT_WAITING,   /* for the resolver, or for a number */
	OUT_ACTIVE,
	OUT_CANCELLING, /* asked to cancel, waiting for the answer */
	OUT_FENCING,    /* decided, but the partner may still be able to read the items */
	OUT_ENDED,
};

/*
 * Memory of a message that the network may still use: until that is over, what became of the
 * message is not told. The first member of what it is about, with which it is freed.
 */
struct fence {
	struct list node; /* outgoing->fencing */
	struct outgoing *outgoing;
};

/* The items of a long message as their receiver can read them by one device. */
struct opened {
	struct fence fence;    /* once it was closed */
	struct device *device;
	uint32_t n, n_fencing; /* items; those that were closed and may still be read */
	uint32_t carried;      /* bytes of items not opened */
	bool given;            /* the receiver may map them */
	bool is_summing;       /* the receiver was told that their checksum follows */
	struct opened_item {
		struct ripc__key key;
		size_t len;    /* 0: nothing was opened */
	} items[];
};

/*
 * A long message that we send. Lives until it has ended, nobody waits or holds its message, and
 * nobody can read its items.
 */
struct outgoing {
	struct list node;
	struct message message; /* its COMPLETION or NOTICE */
	struct ripc_service *service; /* NULL: closed while it was fencing */
	struct partner *partner;
	struct ripc__timer timer;
	struct opened *opened;  /* what the partner can read; NULL: nothing */
	struct offer *offer;    /* its return buffers; NULL: not to be written into */
	struct writing *writing; /* it is being written there; NULL: it is not */
	struct list fencing;    /* struct fence: what the network may still use */
	uint64_t number, previous, to, to_incarnation, total; /* previous: order.h */
	uint64_t cookie, lends, replies, place; /* place: among all ordered ones (order.h) */
	uint64_t started_us, deadline_us;
	uint64_t heard_us;      /* last authentic word of the partner about this message */
	uint64_t told_us;       /* when this partner was first told of it */
	uint64_t sent, limit;   /* bytes sent once; bytes that may be sent */
	uint64_t resend_left;   /* bytes that may be sent again before time has passed */
	uint64_t resend_us;     /* when time was last counted for that */
	uint64_t asked_us;      /* when that was counted */
	uint64_t asked_have, asked_missing; /* of the last PULL with holes: have, bytes in holes */
	uint32_t asked_same;    /* PULLs in a row that asked for the same */
	uint32_t crc;           /* of bytes [0, sent) */
	uint32_t sum;           /* of what others move, if it was needed (summed) */
	uint32_t wait_us;       /* of the repetition timer */
	uint32_t unasked;       /* of partner->under_way */
	uint32_t n_items, n_holes, flags;
	uint8_t state, outcome, cut; /* cut: enum order_cut */
	bool waiter;            /* a call waits for it */
	bool reported;          /* its message is queued or with the application */
	bool is_guess;          /* it is repeated by time, not because the partner asks */
	bool announced, busy, no_room, gap, held; /* held: given, mapped by who got it (ended.c) */
	bool summed;
	bool direct;	 /* an answer to this very partner, whoever it is */
	bool sums;              /* the call that sends it computes that, if it is announced now */
	bool written;           /* all but what goes along is in the partner's return buffers */
	bool exposed;           /* this partner was told how to read it: it may have all */
	bool unopenable;        /* the device cannot open its memory to this partner */
	int status;
	int cancel_status;      /* what to report when the partner confirms the cancel */
	struct wire_range holes[WIRE_HOLES_MAX];
	struct iovec items[];
};

/* A range of an incoming message that arrived before what precedes it. */
struct piece {
	uint64_t start, end;
	uint64_t seen_us;  /* when the gap before it was noticed */
	uint64_t asked_us, asked_limit; /* the gap was asked for, and the limit then; 0: never */
	uint32_t crc;      /* of its bytes */
	uint32_t seen_at;  /* incoming->arrivals then */
};

/* A long message that we receive. */
struct incoming {
	struct list node;          /* partner->incoming */
	struct list granted;       /* ctx->granted or ctx->ungranted */
	struct partner *partner;
	struct ripc__timer timer;
	struct message *message;   /* with places; NULL after it went to the queue */
	struct lent *lent;         /* return buffers in use; NULL: none */
	struct reading *reading;   /* it is being read; NULL: it is pulled */
	uint64_t number, total, previous; /* that must be handed out before it; 0: none */
	struct holding held;       /* of the pool, by its places */
	uint64_t have;             /* contiguous from 0 */
	uint64_t ready;            /* so many bytes have pages where they land */
	uint64_t got;              /* all bytes that arrived */
	uint64_t high;             /* end of the furthest byte that arrived */
	uint64_t limit;            /* bytes before this were granted */
	uint64_t in_flight;        /* of limit - got: what is taken to be on its way */
	uint64_t counted;          /* of SHARE_CREDIT for that */
	uint64_t heard_us, started_us; /* heard_us: any word of the sender about it */
	uint64_t arrived_us;       /* when bytes came last, or the wait for them began anew */
	uint64_t resent_us;        /* when holes were last asked for; 0: that was judged */
	uint64_t asked_us;         /* when holes were last asked for, and not all came; 0: never */
	uint32_t crc, sum;         /* of [0, have); the sender's of the whole, if it is known */
	uint32_t wait_us;
	uint32_t arrivals;         /* of datagrams */
	uint32_t fresh;            /* pieces since holes were last asked for */
	uint32_t silences;         /* waits in a row that ended in silence */
	uint32_t n_pieces, max_pieces;
	uint32_t datagram_bytes;   /* payload of the longest DATA packet so far */
	uint32_t cursor_item;      /* the place that contains byte cursor_start */
	uint64_t cursor_start;
	bool sum_known, is_granted, first_grant;
	bool unreadable, complete; /* reading it was tried in vain; it waits for its turn */
	bool settled;              /* its message has no places that may be given back */
	struct piece *pieces;
};

/* Return buffers lent to a partner for one answer. */
struct lent {
	struct list node; /* service->lent */
	uint64_t id, to, cookie;
	bool in_use;
	bool cancelled;   /* taken back as soon as it is not in use */
	struct permit *permit; /* its partner can write into it; NULL: nobody can */
	uint64_t opened_for;   /* incarnation that could; 0: none */
	const struct device *opened_on; /* by which */
	uint8_t opened;        /* bit i: buffer i was opened to it */
	uint32_t n;
	struct ripc_buffer buffers[];
};

struct window {
	struct list node;
	uint64_t order, cookie; /* order: of posting, that of use */
	struct iovec mem;
	bool cancelled;         /* taken back (windows.c): serves no message any more */
};

struct ripc_service {
	struct ripc_context *ctx;
	struct list node;          /* ctx->services */
	uint64_t id, incarnation, stamp;
	struct list queue;
	uint32_t queued;
	uint32_t n_incoming;       /* being received */
	uint64_t numbers;          /* all numbers up to this may have been used */
	struct ripc__map partners; /* current partner by ID */
	struct partner *recent;    /* the one of them that was looked for last, or NULL */
	struct askers *askers;	   /* who lent us return buffers (claim.c); or NULL */
	struct list windows, lent;
	uint64_t windows_posted;
	struct message retry, conflict; /* built-in notices */
	int event_fd;              /* for event loops (descriptor.c); -1 until asked for */
	bool event_set;            /* it is readable */
	uint32_t n_takers;         /* calls that wait for a message */
	bool draining, publishing, closing;
	bool ended;                /* closed: the last call that waits in it frees it */
	uint32_t n_waiting;        /* calls that wait in it */
	int publish_status;
	_Atomic uint32_t wakes;    /* of ripc_wake(), that have ended no call yet */
};

struct ripc_context {
	struct ripc__mutex lock;
	struct ripc_config cfg;    /* strings are our copies */
	struct ripc__env env;
	struct ripc__host host;
	uint64_t incarnation;
	uint8_t secret[16];
	uint64_t counter, places;  /* of nonces; of ordered messages */
	uint64_t now_us;
	uint64_t read_at;          /* when the clock was read, in ticks of the processor */
	bool has_ticks;            /* the clock is the real one, to which they belong */
	const uint32_t *alive;     /* 1 here, 0 in a forked child */
	struct device devices[8];
	uint32_t n_devices;
	size_t route_bytes;        /* of the longest route of all devices */
	bool any_broken, walking;  /* some peer is: ripc__routes_mend(); it goes through partners */
	struct device *hot;        /* by which messages come (wait.c) */
	uint32_t hot_run, hot_looks; /* how surely; looks at it */
	_Atomic(struct device *) waits_on; /* the reader sleeps in its port's own wait; or NULL */
	atomic_bool woken;         /* by ripc_wake() (interrupt.c) */
	_Atomic(struct device *) watch_beside; /* the thread watches all other ports; or NULL */
	uint64_t retry_us;         /* when to try devices that failed again */
	struct ripc__pool *pool;
	struct ripc__resolver *resolver;
	struct ripc__timers timers;
	uint32_t n_timers;         /* objects that may set one */
	uint32_t n_busy;           /* long messages with bytes still to send or receive */
	struct list services, partners, acks, on_trial, granted, ungranted;
	struct list ended;         /* outgoing: ended, but waited for, fencing, or with the
	                              application */
	struct list readings, lingering; /* with more to ask for, in turn; given up */
	struct list mapped;        /* others' memory (mapped.c) */
	struct list permits, offers, writings; /* returns.h */
	uint32_t n_offers;
	struct moves reads, writes; /* in progress */
	uint32_t n_orphans, n_gaps; /* of closed services: what the network may use; order.h */
	uint32_t picks;
	struct ripc__map services_by_incarnation, services_by_id, partners_by_pair, peers, hosts;
	struct partner **slots;    /* by token */
	uint32_t n_slots, free_slots;
	uint16_t *slot_stack;
	uint64_t held[SHARES], held_max[SHARES]; /* by all; that there are */
	uint64_t acks_due_us;      /* while acks wait for a ride: until when */
	struct list spares;        /* free messages of SPARE_BYTES: most shorts fit */
	uint32_t n_spares;
	_Atomic(struct message *) freed; /* one more, put there without the lock; or NULL */
	atomic_bool has_refs;      /* messages may have several references: none is kept */
	struct partner *corked[CORKED_MAX]; /* whose longs wait to be announced together; or NULL */
	uint32_t n_corked;
	uint64_t corked_due_us;    /* until when they do */
	uint64_t nowait_us;        /* when the last RIPC_NOWAIT long was sent */
	uint64_t next_sweep_us, pool_due_us; /* partners; idle memory of the pool */
	struct closed {
		uint64_t incarnation, closed_us;
	} closed[CLOSED_MAX];      /* our former services, a ring */
	uint32_t n_closed;
	uint64_t closed_floor_us;  /* who is neither here nor in the ring was not here after this */
	struct ripc_stats stats;
	uint64_t stranger_tokens, stranger_us, no_room_us[2]; /* room.h */
	uint64_t rechecks_us;				      /* claim.c */
	struct guessing guessing[GUESSING_MAX]; /* by where wrong tokens come from */
	struct death death;
	struct hints hints;
	struct list waiters;
	struct waiter *reader;     /* who looks after the ports, asleep or not; NULL: nobody */
	bool changed;              /* something happened that a waiter may wait for */
	bool expect_sleep;         /* the last look found nothing: sleep at once */
	bool quiet;                /* that slot came back empty-handed: sleep in ppoll */
	uint32_t looks, sleeps, yield_credit, glance_us;
	int kick_fd, thread_kick_fd;
	int ports_fd;              /* the application's, for all ports; -1 until asked for */
	uint32_t n_event_fds;      /* services with a descriptor */
	uint64_t reader_until_us;  /* while the reader is asleep: until when */
	pthread_t thread;
	bool reader_kicked;
	bool thread_runs, thread_stop, thread_holds, thread_parked, thread_asleep, thread_kicked;
	_Atomic uint64_t thread_until_us;
	_Atomic uint64_t activity; /* grows with each look at the ports by a call */
	uint64_t resolver_us;      /* when the resolver's sources were last polled */
	struct ping *pings;
	char *strings[4], *options;
	atomic_bool said_no_memory; /* that the pool is full, or the system's memory */
};

struct ping {
	struct ping *next;
	uint64_t nonce, began_us, rtt_us;
	bool done;
};

/* ---- context.c --------------------------------------------------------------------------- */
void ripc__log(struct ripc_context *ctx, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int ripc__sum_items(const struct iovec *items, uint32_t n_items, uint64_t *total);
uint64_t ripc__nonce(struct ripc_context *ctx);
/* -ENOMEM unless one more timer object may exist. */
int ripc__timer_admit(struct ripc_context *ctx);
void ripc__timer_dismiss(struct ripc_context *ctx, struct ripc__timer *timer);
static inline void ripc__point(struct ripc_context *ctx, const char *name)
{
	if (__builtin_expect(ctx->env.point != NULL, 0))
		ctx->env.point(ctx->env.arg, name);
}

/* ---- devices.c --------------------------------------------------------------------------- */
/* As many as can be; -ENODEV: none, -EINVAL: the configuration names one that there is not. */
int ripc__devices_open(struct ripc_context *ctx);
void ripc__devices_close(struct ripc_context *ctx);
/* Does the configuration name it, or none at all? */
bool ripc__backend_is_wanted(const struct ripc_context *ctx, const char *name);
/* The backend itself, where that is a module; NULL: it cannot be loaded. */
const struct ripc__backend *ripc__backend_load(const struct ripc_context *ctx,
		const struct ripc__backend *ops, char why[256], char remedy[256]);

#include "waiting.h"

/* ---- input.c ----------------------------------------------------------------------------- */
void ripc__input(struct ripc_context *ctx, struct device *device, const struct ripc__event *event);
/* One event that is not a datagram. */
void ripc__input_event(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);

/* ---- service.c --------------------------------------------------------------------------- */
/* Begins to register; service->publishing says how long that goes on. Then finish it. */
int ripc__service_start(struct ripc_context *ctx, uint64_t id, struct ripc_service **service);
/* What came of it; ends the service if it is not registered. */
int ripc__service_finish(struct ripc_service *service);
int ripc__service_take(struct ripc_service *service, int timeout_ms, struct message **message);
int ripc__service_drain(struct ripc_service *service, int timeout_ms);
void ripc__service_enqueue(struct ripc_service *service, struct message *message);
/* Its descriptor, if it has one, is as its queue is; not while a call waits, which takes first. */
void ripc__service_tell(struct ripc_service *service);
void ripc__service_notice(struct ripc_service *service, struct message *builtin, int status);
/* Nobody may use it afterwards but calls that wait in it: they find it closing. */
void ripc__service_end(struct ripc_service *service);
/* Waits until the network is done with the memory of services that were ended. */
void ripc__orphans_wait(struct ripc_context *ctx);
/* A call that is going to wait in it, and has waited. */
void ripc__service_get(struct ripc_service *service);
void ripc__service_put(struct ripc_service *service);
/* May one more message of this partner be queued? */
bool ripc__queue_has_room(const struct partner *partner);
/* Queues a message of this partner, which until it is read holds what it held of SHARE_LARGE
 * while it came, or (large NULL) so many bytes of SHARE_SMALL. */
void ripc__service_deliver(struct partner *partner, struct message *message,
		const struct holding *large, uint64_t small_bytes);
/* In one pool block, or NULL. _whole: with the packet's items; copy its payload to the first. */
struct message *ripc__message_alloc(struct ripc_context *ctx, uint32_t n_items, bool places);
struct message *ripc__message_whole(struct ripc_context *ctx, const struct wire_packet *packet);
void ripc__spares_free(struct ripc_context *ctx);
/* Frees a message that never reached the application. */
void ripc__message_free(struct message *message);
struct lent *ripc__lent_find(struct ripc_service *service, uint64_t id, uint64_t from);
void ripc__lent_free(struct lent *lent);
int ripc__lend(struct ripc_service *service, const struct ripc_send *request, uint64_t *id);

/* ---- partner.c --------------------------------------------------------------------------- */
/* Whom a send goes to, made in state RESOLVING if need be; for_call reads the resolver's news. */
int ripc__partner_for_send(struct ripc_service *service, uint64_t id, struct partner **partner);
int ripc__partner_for_call(struct ripc_service *service, uint64_t id, struct partner **partner);
/* A first packet with a valid proof: makes the partner and its peer. */
int ripc__partner_accept(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **partner);
/* Its token came with a hello. */
void ripc__partner_hello(struct partner *partner, const struct wire_packet *packet);
/* It asks for what was said before: at most once in a repetition time, and in a tick. */
bool ripc__partner_may_repeat(struct partner *partner);
void ripc__partner_touch(struct partner *partner);
/* Gone since gone_us (status: why); its sends end or move on. It stays a while, dead. */
void ripc__partner_lost(struct partner *partner, int status, uint64_t gone_us);
/* A dead one says hello from there: its route leads there, and it has a new token. */
int ripc__partner_reroute(struct partner *partner, struct device *device,
		const struct ripc__addr *to);
/* A token came back that was made after its death: it lives. */
void ripc__partner_revive(struct partner *partner);
/* It speaks another version of the protocol: all sends to it end. */
void ripc__partner_aborted(struct partner *partner);
/* New sends look for another incarnation; what is in progress goes on here. */
void ripc__partner_retire(struct partner *partner);
void ripc__partner_free(struct partner *partner);
void ripc__partner_suspect(struct partner *partner);
/* False while it is not known whether its ID means it, and if it does not. */
bool ripc__partner_settled(struct partner *partner);
void ripc__partner_resolved(struct ripc_context *ctx, uint64_t id, int status,
		const struct ripc__answer *answer);
void ripc__partners_sweep(struct ripc_context *ctx);
/* Header fields and extensions that every packet to this partner has. */
void ripc__partner_header(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* Only the header: for addresses that are not proven, which get no more bytes than they sent. */
void ripc__partner_header_bare(struct partner *partner, struct wire_packet *packet, uint8_t type);
/* Encodes, seals and sends a packet without payload to a partner. */
int ripc__partner_send(struct partner *partner, struct wire_packet *packet);

/* route.c: by which device, and to which address */
/*
 * The peer of who answered, by the best device that makes a route there: one reference more. Those
 * that refuse are tried again later. -ENOMEM; what the best one said; -EHOSTUNREACH: there is none.
 */
int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer);
/* The peer's device says (a negative errno) that it leads nowhere, or nothing is heard by it. */
void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why);
/* Does it lead nowhere, as a network says that would know, and is there no other? */
bool ripc__route_is_lost(const struct partner *partner);
/* A route that took its time is ready, or has failed. */
void ripc__route_opened(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event);
/* Looks for other routes; no packet may be in the making. */
void ripc__routes_mend(struct ripc_context *ctx);
/* The resolver has answered: goes on by another device if the present one is broken. */
void ripc__route_answered(struct partner *partner, const struct ripc__answer *answer);
void ripc__routes_retry(struct ripc_context *ctx);
/* A valid packet has come from an address that is not where the route leads. */
void ripc__peer_moved(struct partner *partner, struct device *device,
		const struct ripc__addr *from, uint32_t len);
/* The answer to an echo: true if it proves a new route, which is taken. */
bool ripc__route_proven(struct partner *partner, uint64_t nonce, struct device *device,
		const struct ripc__addr *from);
/* Repeats at once what has been announced. */
void ripc__outgoing_hasten(struct partner *partner);
/* Answers a stranger: no partner, no state. */
void ripc__stranger_send(struct ripc_context *ctx, struct device *device,
		const struct ripc__addr *to, struct wire_packet *packet, uint32_t received_len);
/* Ack that is due: goes with the next packet, or by itself before a thread sleeps. */
void ripc__ack_queue(struct partner *partner, uint64_t number, int status);
void ripc__acks_flush(struct ripc_context *ctx);
size_t ripc__partners_bytes(struct ripc_context *ctx);

/* ---- peer.c ------------------------------------------------------------------------------ */
/* One number for all addresses that count as one host. */
uint64_t ripc__host_key(const struct ripc_context *ctx, const struct ripc__addr *addr);
/* NULL: nobody was met there. */
struct host *ripc__host_find(struct ripc_context *ctx, const struct ripc__addr *addr);
/*
 * The peer of a context that was met at an address: one reference more. -ENOMEM; -ENETDOWN,
 * -EHOSTUNREACH: the network makes no route there.
 */
int ripc__peer_get(struct ripc_context *ctx, uint8_t device_index, uint64_t context,
		const struct ripc__addr *addr, struct peer **peer);
void ripc__peer_put(struct ripc_context *ctx, struct peer *peer);
size_t ripc__peers_bytes(struct ripc_context *ctx);

/* Where something is read or written. */
static inline struct remote ripc__peer_remote(const struct peer *peer)
{
	return (struct remote){peer->host->key, peer->key};
}

/* ---- share.c ----------------------------------------------------------------------------- */
void ripc__shares_set(struct ripc_context *ctx); /* after the pool was opened */
/* How much more this partner may take. */
uint64_t ripc__share_left(const struct partner *partner, enum share share);
/* Takes, or gives back. It does not look at what is left. */
void ripc__share_take(struct partner *partner, enum share share, int64_t amount);
/* The same for a message, which gives back what it took. */
struct holding ripc__share_hold(struct partner *partner, enum share share, uint64_t amount);
void ripc__share_release(struct partner *partner, enum share share, struct holding held);
/* The partner goes to another peer, where its unread messages count from now on, as much as they
 * are; there may be nothing left then. It receives nothing. Returns its old peer. */
struct peer *ripc__share_move(struct partner *partner, struct peer *peer);

/* ---- short.c ----------------------------------------------------------------------------- */
int ripc__short_send(struct ripc_service *service, const struct ripc_send *request);
int ripc__short_send_items(struct ripc_service *service, uint64_t to, const struct iovec *items,
		uint32_t n_items);
void ripc__short_input(struct partner *partner, const struct wire_packet *packet);
uint32_t ripc__short_max(struct partner *partner);
/* The partner was found, or asks to repeat: send what is held. Lost: drop it. */
void ripc__held_send(struct partner *partner);
void ripc__held_drop(struct partner *partner, bool count);
size_t ripc__held_bytes(const struct partner *partner);

/* ---- pump.c --------------------------------------------------------------------------------- */
/* Fills iov with these bytes, continues *crc; returns how many iovecs, 0: more than max. */
uint32_t ripc__gather(const struct outgoing *outgoing, struct wire_range range, struct iovec *iov,
		uint32_t max, uint32_t *crc);
/* Sends what the receiver asked for again, then what may come, as far as the network takes it. */
void ripc__pump(struct outgoing *outgoing);
/* So many of its bytes went unasked and may be under way still. Is there room for them? */
void ripc__unasked_count(struct outgoing *outgoing, uint64_t bytes);
bool ripc__unasked_has_room(const struct outgoing *outgoing);

/* ---- resend.c ---------------------------------------------------------------------------- */
/* Notes what of the asked-for bytes is to be sent again, for the pump. */
void ripc__resend(struct outgoing *outgoing, const struct wire_pull *pull);

/* ---- outgoing.c -------------------------------------------------------------------------- */
int ripc__outgoing_start(struct ripc_service *service, const struct ripc_send *request,
		uint64_t lends, struct outgoing **outgoing);
/* The partner became ready for announcements: number and start what waits. */
void ripc__outgoing_advance(struct partner *partner);
/* It asks to be told again; forgotten: what it received, too; repeat: now, not when it is due. */
void ripc__outgoing_again(struct partner *partner, bool forgotten, bool repeat);
void ripc__outgoing_pull(struct partner *partner, const struct wire_packet *packet);
/* True: it is announced with others, soon. */
bool ripc__cork(struct outgoing *outgoing);
void ripc__corked_forget(struct partner *partner);
/* Announces what has been held back for others to go along. */
void ripc__corked_flush(struct ripc_context *ctx);
void ripc__outgoing_answer(struct partner *partner, const struct wire_ack *ack);
/* True: what has not ended now has not been delivered, and will not be. */
bool ripc__outgoing_last_words(struct partner *partner, const struct wire_ack *ack);
void ripc__outgoing_cancel(struct outgoing *outgoing, int status);
void ripc__outgoing_link(struct outgoing *outgoing, struct partner *partner);
void ripc__outgoing_unlink(struct outgoing *outgoing);
void ripc__outgoing_end(struct outgoing *outgoing, enum ripc_outcome outcome, int status);
/* It has ended, but can still be read when its call must return. */
void ripc__outgoing_unknown(struct outgoing *outgoing);
/* The network is done with that memory. It is not part of its message any more. */
void ripc__fence_lift(struct fence *fence);
/* The partner cannot read any of its items any more. */
void ripc__outgoing_fenced(struct outgoing *outgoing);
/* Its service is closed: nobody is told of those that are fencing. */
void ripc__outgoing_orphan(struct ripc_service *service);
/* It is new to the partner, whom it is not linked to. */
void ripc__outgoing_begin(struct outgoing *outgoing, struct partner *partner);
/* Refused, as we were silent, says its receiver: it begins again, if there is time. */
bool ripc__outgoing_begins_again(struct outgoing *outgoing, uint32_t status);
/* Its deadline has passed. */
void ripc__outgoing_expire(struct outgoing *outgoing);
/* The call that waited, or the application with its message, is done with it. */
void ripc__outgoing_put(struct outgoing *outgoing);
/* The partner is lost: each ends by what is known, or moves to another incarnation. */
void ripc__outgoing_lost(struct partner *partner, int status, uint64_t gone_us);
/* The ID means somebody else now: what certainly was not delivered goes there. */
void ripc__outgoing_move(struct partner *partner);
/* A send to it leaves room: who met -EAGAIN is told. */
void ripc__outgoing_unblock(struct partner *partner);

/* ---- opened.c ---------------------------------------------------------------------------- */
/* The keys for an announcement with room for so many bytes before the payload, two numbers per
 * item; opens the items the first time. False: this one goes without keys. */
bool ripc__opened_keys(struct outgoing *outgoing, uint32_t room, uint64_t *keys);
/* Would it open them now? */
bool ripc__opened_may(const struct outgoing *outgoing);
/* Bytes of the first items that go along with such an announcement; what it takes, with these. */
uint32_t ripc__opened_carried(const struct outgoing *outgoing);
uint32_t ripc__opened_least(const struct outgoing *outgoing);
/* Bytes of a repeated announcement, at most: more than usual if need be, where all lengths pass. */
uint32_t ripc__opened_room(const struct outgoing *outgoing);
/* Adds the checksum of what does not come in datagrams to an announcement, where it is needed; or
 * says that it follows, as that takes long. */
void ripc__opened_sum(struct outgoing *outgoing, struct wire_packet *packet);
/* Computes that, if it was announced so, without the lock; then it is told. Whoever calls may send
 * it, and only uses it afterwards if a call waits for it. */
void ripc__opened_sum_follows(struct outgoing *outgoing);
/* From now on nobody may read them; outgoing->fencing tells whether somebody still can. */
void ripc__opened_close(struct outgoing *outgoing);
void ripc__opened_fenced(uint64_t cookie);
/* The devices are closed. */
void ripc__opened_forget(struct outgoing *outgoing);

#include "path.h"

#endif
