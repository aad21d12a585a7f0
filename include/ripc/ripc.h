/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libripc: messages between processes, by service ID.
 *
 * With ripc/call.h (questions and answers) and ripc/stats.h (counters) this header is the whole
 * public interface. Conventions that hold everywhere:
 *
 *  - A function returns 0 or a count on success, a negative errno on failure. Outputs are
 *    untouched on failure. Codes that a caller must handle are listed at the function; any
 *    other code may be passed on to whoever can act on it (ripc_strerror() explains it).
 *  - Sizes and lengths are bytes. Times are milliseconds unless the name says otherwise. In an
 *    argument 0 means "do not wait" (ripc_send_long() always waits, and does not take it); in a
 *    struct 0 means "the default". Only ripc_receive() takes -1, for ever. A deadline may be
 *    missed by one tick (10 ms), not by more, except that of ripc_close(): see there. What
 *    takes no timeout and waits says so, too.
 *  - Every call is safe from any thread, unless the context was opened with
 *    RIPC_SINGLE_THREAD. After fork() every call on a context of the parent returns
 *    -EOWNERDEAD in the child (ripc_poll_timeout() -1), which may open contexts of its own.
 *    Pool buffers and received messages are not mapped there: the child must not touch them,
 *    nor ripc_msg_free() them.
 *  - Structs that the caller fills begin with their size, so that they can grow:
 *    struct ripc_config cfg = {.size = sizeof(cfg)}; in C++, too, and without a warning:
 *    struct ripc_config cfg = RIPC_INIT(struct ripc_config);
 *  - The library installs no handlers, keeps no global state, and prints nothing, unless the
 *    environment asks for it: RIPC_LOG=error, warn, info or debug writes to standard error.
 *  - Callbacks (log, and found of ripc_list()) are called with the library's locks held: they
 *    must not call the library.
 */
#ifndef RIPC_H
#define RIPC_H

#include <ripc/stats.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RIPC_API __attribute__((visibility("default")))
#else
#define RIPC_API
#endif

/* The initial value of a struct that begins with its size: all else is zero. */
#ifdef __cplusplus
extern "C++" {
template <typename Struct> inline Struct ripc_init()
{
	Struct made = Struct();

	made.size = sizeof(Struct);
	return made;
}
}
#define RIPC_INIT(type) ripc_init<type>()
#else
#define RIPC_INIT(type) {.size = sizeof(type)}
#endif

#define RIPC_VERSION_MAJOR 0
#define RIPC_VERSION_MINOR 1
#define RIPC_VERSION_PATCH 0

/* A short message of this many bytes passes on every path, whatever the network. */
#define RIPC_SHORT_MIN 896
/* The most items that one message, short or long, can have; also the most return buffers. */
#define RIPC_ITEMS_MAX 64

struct ripc_context; /* everything one process needs; usually one per process */
struct ripc_service; /* one registered service ID: the source of sends, the place of receives */

/* What became of a long message. */
enum ripc_outcome {
	RIPC_NOT_DELIVERED = 1, /* certainly not, and it never will be */
	RIPC_DELIVERED,         /* it is in the queue of that incarnation of the service */
	RIPC_UNKNOWN            /* partner or network failed at the wrong moment */
};

enum ripc_kind {
	RIPC_SHORT = 1,
	RIPC_LONG,
	RIPC_COMPLETION, /* a RIPC_NOWAIT send has ended: outcome, status and cookie say how */
	RIPC_NOTICE,     /* something to know: status and cookie say what (see ripc_receive) */
	RIPC_QUESTION,   /* to be answered: ripc_reply() in ripc/call.h */
	RIPC_ANSWER      /* of a ripc_call_start(): answers, status and outcome say of which */
};

/* The voucher for from and from_incarnation of a message. Of a COMPLETION or NOTICE: 0, unused. */
enum ripc_sender {
	RIPC_SENDER_CLAIMED = 0, /* only the sender says so: do not act on from alone */
	RIPC_SENDER_RESOLVED,    /* the resolver names this sender for that ID, too */
	RIPC_SENDER_PROVEN       /* an authority's signature lets its key be that (keys) */
};

/* Where a received item landed. */
enum ripc_place { RIPC_IN_POOL, RIPC_IN_WINDOW, RIPC_IN_RETURN };

/* ripc_config.flags */
#define RIPC_NO_THREAD     1u /* no progress thread: the application calls ripc_poll() */
#define RIPC_SINGLE_THREAD 2u /* one thread uses the context: no locks; implies NO_THREAD */
#define RIPC_INTERRUPTIBLE 4u /* signals end calls that wait (ripc_wake()) */

/* ripc_send.flags */
#define RIPC_SEND_LONG 1u /* a long message; without it a short one */
#define RIPC_NOWAIT    2u /* only with SEND_LONG: return at once; a COMPLETION follows */
#define RIPC_GIVE      4u /* the sender's reference to each pool buffer moves to the library */
#define RIPC_ORDERED  16u /* only with SEND_LONG: handed out in the order of sending */
#define RIPC_WAIT     32u /* only with SEND_LONG, not with NOWAIT: also for who comes only later */

/* ripc_question.flags (ripc/call.h), and ripc_msg.flags of a question */
#define RIPC_IDEMPOTENT    1u /* it may be carried out more than once */
#define RIPC_ASKED_SHORTLY 2u /* it came as a short message, which ripc_reply() looks at */
/* ripc_msg.flags of a notice */
#define RIPC_WATCHED       4u /* of ripc_watch() (ripc/call.h) */

/* Log levels of ripc_config.log. */
#define RIPC_LOG_ERROR 0
#define RIPC_LOG_WARN  1
#define RIPC_LOG_INFO  2
#define RIPC_LOG_DEBUG 3

#define RIPC_SPIN_NEVER UINT32_MAX /* struct ripc_config.spin_us */

/*
 * How a context is to be. Zero in any field is the default. Strings are copied. Each of
 * backends, peers, interfaces, options and keys is overridden by the environment variable of the
 * same name, RIPC_BACKENDS, RIPC_PEERS, RIPC_INTERFACES, RIPC_OPTIONS, RIPC_KEYS, when that is set.
 */
struct ripc_config {
	size_t size;              /* sizeof(struct ripc_config) */
	uint32_t flags;           /* RIPC_NO_THREAD, RIPC_SINGLE_THREAD, RIPC_INTERRUPTIBLE */
	/*
	 * Microseconds for which a waiting call polls before it sleeps. 0: up to 50 while that
	 * pays, as when a partner answers at once, letting others run in between.
	 * RIPC_SPIN_NEVER: it sleeps at once.
	 */
	uint32_t spin_us;
	uint32_t timeout_ms;      /* what a send's timeout 0 in a struct means (5,000) */
	uint32_t peer_timeout_ms; /* a partner silent for so long is given up (10,000) */
	uint64_t pool_bytes;      /* most memory of the buffer pool (half of what there is) */
	uint64_t message_max_bytes; /* longer announcements are refused (7/8 of the pool) */
	const char *backends;     /* "udp": order and restriction; default: all that can run */
	const char *peers;        /* hosts to ask: "host[:port],..."; where multicast fails */
	const char *interfaces;   /* for multicast: "eth0,lo" (all that are up) */
	const char *options;      /* for what only one part knows: "resolver.port=15511,..." */
	void (*log)(void *arg, int level, const char *text); /* NULL: silent; any thread calls it */
	void *log_arg;
	const char *keys;         /* a directory that "ripc key new" made: all is sealed, and only
	                             who has keys of this deployment is let in; default: without */
};

/* A piece of memory that is lent or was filled: a return buffer, or a place of a message. */
struct ripc_buffer {
	struct iovec mem;
	uint64_t cookie;       /* the caller's, handed back */
	enum ripc_place place; /* on receive: where the item landed; ignored when lending */
};

/* A received message. It and all it points to are the library's until ripc_msg_free(). */
struct ripc_msg {
	enum ripc_kind kind;
	enum ripc_outcome outcome;        /* COMPLETION only */
	int status;                       /* COMPLETION, NOTICE: 0 or a negative errno */
	uint32_t n_items;                 /* 1 to 64; COMPLETION, NOTICE, failed ANSWER: 0 */
	uint64_t from, from_incarnation;  /* the sender's service ID and incarnation */
	uint64_t cookie;                  /* COMPLETION: as given to the send */
	uint64_t reply;                   /* hand to reply_to: the answer may use return buffers */
	const struct iovec *items;
	const struct ripc_buffer *places; /* one per item; NULL: all are in the pool */
	enum ripc_sender sender;	  /* SHORT, LONG: how sure from is, when it arrived */
	uint32_t flags;                   /* QUESTION: RIPC_IDEMPOTENT ...; NOTICE: RIPC_WATCHED */
	uint64_t answers;                 /* ANSWER: the cookie of the call */
};

/* All that can be said of a send. */
struct ripc_send {
	size_t size;                       /* sizeof(struct ripc_send) */
	uint64_t to;                       /* the partner's service ID */
	uint64_t to_incarnation;           /* only to this incarnation; 0: whoever lives */
	const struct iovec *items;
	const struct ripc_buffer *returns; /* lent until the answer used them or ripc_cancel() */
	uint32_t n_items, n_returns;
	uint32_t flags;                    /* RIPC_SEND_LONG, RIPC_NOWAIT ... */
	int32_t timeout_ms;                /* of a long send; 0: the context's timeout_ms */
	uint64_t reply_to;                 /* ripc_msg.reply of the message that this answers; 0:
	                                      none. Only so the answer finds its return buffers */
	uint64_t cookie;                   /* names the send and its returns to ripc_cancel() */
};

/* How messages to one partner travel. */
struct ripc_path {
	size_t size;              /* sizeof(struct ripc_path), set by the caller */
	char backend[16];         /* who carries datagrams: "udp", "loop" */
	char bulk[16];            /* who carries long messages: "pull" or a backend's name */
	char address[64];         /* the partner's address in words */
	uint32_t short_max_bytes; /* the longest short message, one item */
	uint32_t datagram_bytes;  /* the datagram size now used for long messages */
	uint64_t rtt_us;          /* smoothed round trip, microseconds; 0: not measured yet */
	uint64_t incarnation;     /* of the partner */
	char others[192];         /* why not by the others: "shm: another host; ..."; for people */
};

/* One line of ripc_probe(): a backend or a resolver source. */
struct ripc_finding {
	const char *kind;   /* "backend" or "resolver" */
	const char *name;   /* "udp", "multicast" */
	int usable;         /* 1: yes */
	const char *detail; /* what was found, or why not */
	const char *remedy; /* what to do about it; "" when there is nothing to do */
};

/* One service found by ripc_list(). */
struct ripc_listing {
	uint64_t id, incarnation;
	int local;           /* 1: on this host and network namespace */
	const char *source;  /* the resolver source that found it */
	const char *address; /* in words */
};

/* One line of ripc_holders(): a service that holds memory of our pool. */
struct ripc_holder {
	uint64_t id, incarnation; /* to which it was given */
	uint64_t bytes;           /* that it has not freed */
	uint64_t messages;        /* in which it got them */
};

/*
 * Opens a context. cfg may be NULL: all defaults. *ctx belongs to the caller until
 * ripc_close(). Does not block on the network, unless peers has names: of each that is no IPv4
 * address the name service is asked once, here, and it may take its time.
 *  -EINVAL   a field, an option or an environment variable cannot be understood (logged)
 *  -ENODEV   no backend can run here (logged, each with its reason)
 *  -ENOMEM, -EMFILE
 */
RIPC_API int ripc_open(const struct ripc_config *cfg, struct ripc_context **ctx);

/*
 * Closes a context and all its services. Waits up to timeout_ms for sends in progress to end;
 * then ends them. Every buffer of the pool becomes invalid, also those in messages not yet
 * freed. No other call on the context may be in progress or follow. Never hangs, but to close a
 * device can take longer than timeout_ms: over RDMA some 50 ms, over libfabric up to a second.
 * Says goodbye to partners. A process that ends without this call (_exit()) may take with it the
 * word that messages it has received were delivered: their senders are told UNKNOWN.
 *  -ETIMEDOUT  closed, but sends in progress were cut off
 */
RIPC_API int ripc_close(struct ripc_context *ctx, int timeout_ms);

/*
 * Does what there is to do and returns how much that was, 0 for nothing; never blocks. It is the
 * application's duty with RIPC_NO_THREAD, at least every 10 ms while messages are in progress, or
 * whenever ripc_poll_timeout() has passed; and after ripc_context_fd(), whenever that is readable.
 * A thread that waits in another call does it, too: to poll beside it is safe, but wakes it for
 * each message.
 */
RIPC_API int ripc_poll(struct ripc_context *ctx);

/* Microseconds until ripc_poll() has to be called even if nothing arrives; -1: no timer. */
RIPC_API int64_t ripc_poll_timeout(struct ripc_context *ctx);

/*
 * Registers a service. id 0 draws a private ID at random. A well-known ID is first asked for
 * in the network, which takes some 60 ms. flags must be 0. *svc belongs to the caller until
 * ripc_service_close().
 *  -EADDRINUSE  the ID is alive elsewhere
 *  -ETIMEDOUT   not registered within 10 s
 *  -ENOMEM      no memory, or no thread for the context (the log says which)
 *  -EMFILE
 */
RIPC_API int ripc_service_open(struct ripc_context *ctx, uint64_t id, uint32_t flags,
		struct ripc_service **svc);

/*
 * Registers n services (1 to INT32_MAX) in about the time that one takes, 1,024 at once, for which
 * it waits 10 s at most. svcs[i] is that of ids[i], the caller's as from ripc_service_open(), or
 * NULL where that failed: to open that one alone tells why. Returns how many there are.
 *  -EINVAL  a bad argument; flags must be 0; svcs is untouched
 *  other errors, of ripc_service_open(): none could be registered; all of svcs are NULL
 */
RIPC_API int ripc_services_open(struct ripc_context *ctx, const uint64_t *ids, size_t n,
		uint32_t flags, struct ripc_service **svcs);

/*
 * Prepares to move or to end: the service can no longer be found, new messages are refused (their
 * senders look for the next holder), and those being received are waited for up to timeout_ms.
 * Then ripc_receive() hands out what is queued, and after that -ESHUTDOWN.
 *  -ETIMEDOUT  messages still being received were refused
 */
RIPC_API int ripc_service_drain(struct ripc_service *svc, int timeout_ms);

/*
 * Ends a service: queued messages are freed, sends in progress end NOT_DELIVERED or UNKNOWN.
 * Calls of other threads that wait in it return; ripc_receive() and ripc_ping() -ESHUTDOWN.
 * All that was lent or being sent is the caller's on return: where the network still reads or
 * writes it by itself, the call waits until it has stopped, which has no deadline: most often a
 * tick, seconds where a partner has died.
 */
RIPC_API int ripc_service_close(struct ripc_service *svc);

RIPC_API uint64_t ripc_service_id(const struct ripc_service *svc);
RIPC_API uint64_t ripc_service_incarnation(const struct ripc_service *svc);

/*
 * A descriptor for poll, epoll and event loops: readable while ripc_receive(svc, 0) has something
 * to hand out. Edge-triggered (EPOLLET), it says so for the next message after that has returned
 * -EAGAIN. It is an eventfd, made at the first call; it belongs to the service: do not read or
 * close it. While the application sleeps, the progress thread looks after the network; without it,
 * ripc_context_fd() says when to call ripc_poll(). -EMFILE, -ENFILE, -ENOMEM: it cannot be made.
 */
RIPC_API int ripc_service_fd(struct ripc_service *svc);

/*
 * A descriptor of the whole context, readable (level-triggered) when ripc_poll() has something to
 * do, or for nothing. From now on, without a way back, the progress thread only runs timers, and
 * the application calls ripc_poll() then: no message is handed over between threads. With
 * RIPC_NO_THREAD ripc_poll() is also due after ripc_poll_timeout(). The descriptor belongs to the
 * context: do not read or close it. Errors as of ripc_service_fd(). Put it beside the services'.
 */
RIPC_API int ripc_context_fd(struct ripc_context *ctx);

/* The well-known ID of a name: SipHash-2-4 of its bytes under the key 0; never 0. */
RIPC_API uint64_t ripc_id_from_name(const char *name);

/*
 * Finds a service, so that the first send need not. Blocks up to timeout_ms.
 *  -ENOENT     nobody has it: said at once where only this host, or hosts of RIPC_PEERS, are
 *              asked; where multicast is in use, after a second without an answer. For another
 *              second short sends return it at once. To wait for one, call again.
 *  -ETIMEDOUT  not known by then: somebody has it, but is silent; or timeout_ms is below a second
 *  -EINTR      a signal (RIPC_INTERRUPTIBLE)
 */
RIPC_API int ripc_resolve(struct ripc_context *ctx, uint64_t id, int timeout_ms);

/*
 * The same, but waits until somebody has the ID. -ENOENT: nobody had it to the last. A service that
 * is registered meanwhile is found within some 20 ms, where its notice cannot be heard (no
 * multicast) within 100 ms of a source that knows of it.
 */
RIPC_API int ripc_await(struct ripc_context *ctx, uint64_t id, int timeout_ms);

/*
 * Takes a buffer of at least len bytes from the pool, with one reference, 64-byte aligned,
 * contents undefined. Never blocks on the network.
 *  -ENOMEM  the pool's limit, or no memory; what others hold of it: ripc_holders()
 */
RIPC_API int ripc_buf_alloc(struct ripc_context *ctx, size_t len, void **buf);

/*
 * Takes one more reference to the pool buffer that contains buf. With more than one reference
 * a buffer is read-only, and so are the items of a received message that was given (RIPC_GIVE).
 * Works for items of received messages too: the item then outlives
 * ripc_msg_free().
 *  -EINVAL  not in a live buffer of this pool
 */
RIPC_API int ripc_buf_ref(struct ripc_context *ctx, void *buf);

/*
 * How many references the pool buffer that contains buf has: the application's, the library's
 * while it sends, those of receivers that read it where it is (RIPC_GIVE). 1: if that is yours,
 * the buffer may be written to again, and given again, which is cheaper than to give a new one:
 * receivers keep it mapped. The number becomes less when a call or the progress thread next looks
 * at the network. Does not block.
 *  -EINVAL  not in a live buffer of this pool
 */
RIPC_API int ripc_buf_refs(struct ripc_context *ctx, const void *buf);

/* Drops a reference; the last one frees. NULL is ignored. -EINVAL: not a live pool buffer. */
RIPC_API int ripc_buf_free(struct ripc_context *ctx, void *buf);

/*
 * Makes the application's own memory as good as the pool's: sending from it needs no copy or
 * registration per call. The memory stays the caller's and must stay valid until unregister.
 *  -EEXIST  overlaps what is registered   -ENOMEM  see RLIMIT_MEMLOCK
 */
RIPC_API int ripc_buf_register(struct ripc_context *ctx, void *buf, size_t len);
/* -ENOENT: was not registered. Must not be called while a send uses the memory. */
RIPC_API int ripc_buf_unregister(struct ripc_context *ctx, void *buf);

/*
 * Lends mem as a place for one item of a future long message to svc. Windows are used in the order
 * they were posted, the first that fits; either all items of a message find a place, or none is
 * used; the windows of a message that fails go back to their old positions. Until a window comes
 * back in ripc_msg.places (with the cookie), is taken back, or the service is closed, its contents
 * are undefined and it must stay valid.
 *  -EINVAL  no such memory: it is at NULL, or longer than can be
 */
RIPC_API int ripc_window_post(struct ripc_service *svc, const struct iovec *mem, uint64_t cookie);

/*
 * Takes back all windows of svc with this cookie: they are the caller's on return, and come with
 * no message any more. A message that is on its way into one is refused: its sender gets
 * -ECANCELED. Where the network is writing into one by itself, the call waits until it has
 * stopped, as ripc_cancel() does, without a deadline. A message that is in the queue already keeps
 * its windows.
 *  -ENOENT  none is posted
 */
RIPC_API int ripc_window_cancel(struct ripc_service *svc, uint64_t cookie);

/*
 * Sends a short message: one datagram, unreliable, at most once, never partial. Never blocks.
 * The items are the caller's again on return. A partner that is not resolved yet is looked
 * for, and a few messages are held meanwhile.
 *  -EMSGSIZE   longer than the path allows (ripc_path_info(); RIPC_SHORT_MIN always passes)
 *  -EAGAIN     the network takes no more now, or too many are held; nothing was sent
 *  -ENOENT     the service is known not to exist (ripc_resolve())
 */
RIPC_API int ripc_send_short(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items);

/*
 * Sends a long message and waits for the outcome, up to timeout_ms. 0: delivered.
 * -ECONNRESET: unknown whether it was; any other error: certainly not delivered.
 *  -ENOENT     nobody has the service, after a second of asking at most, however long timeout_ms
 *              is (ripc_resolve()); to wait for one that starts, send again
 *  -ETIMEDOUT  not delivered in time; also: somebody has the service, but does not answer
 *  -EMSGSIZE   too long for the receiver
 *  -ENOBUFS    the receiver had no room to the last: messages that its application has read and
 *              keeps fill its pool, or it has no descriptors for new memory; its log says which
 *  -EINVAL     a bad argument; timeout_ms is not more than 0
 *  -ECANCELED  ripc_cancel() or the service was closed
 *  -ENETDOWN, -EHOSTUNREACH  the partner cannot be reached
 *  -EPROTONOSUPPORT  the partner speaks another version of the protocol: both need the same libripc
 * While the receiver has much that it has not read yet, or that it has read and not freed, the
 * message waits; so it does while 64 others of svc to that partner are under way. The deadline
 * counts from the call on, also while it waits its turn.
 * After -ECONNRESET the items must not be changed until a NOTICE arrives at the service. Its
 * cookie is 0, as that of "try again" is: to tell them apart, use ripc_sendmsg()
 * with a cookie.
 */
RIPC_API int ripc_send_long(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items, int timeout_ms);

/*
 * Sends in full generality. outcome may be NULL and is only set by a waiting long send, also
 * when it fails.
 * With RIPC_NOWAIT (of a short: -EINVAL), 0 means accepted: exactly one COMPLETION with the cookie
 * follows, and the items (not the array) stay untouched until then; a negative return means
 * that none follows and nothing was sent. -EAGAIN: too much is in progress to that partner; a
 * NOTICE with cookie 0 and status 0 says when to try again.
 * With RIPC_GIVE each item must lie in a pool buffer, and takes a reference of it (two items in one
 * buffer: two; else -EINVAL) when it is DELIVERED or UNKNOWN; NOT_DELIVERED leaves it. Where
 * the network can map it (shm), a long message in buffers of more than 512 KiB is then not copied,
 * but for first items of at most 512 bytes together (a header), which may lie in shorter ones: the
 * receiver reads the buffer where it is, and the buffer is in use until the receiver has freed it,
 * or is gone. So whoever has given a reference must not write to the buffer any more.
 * ripc_stats.given_held_bytes is what is held.
 * Long messages may overtake one another. With RIPC_ORDERED (of a short: -EINVAL) those of one
 * service to one incarnation are handed out in the order in which they were sent; other messages do
 * not wait for them.
 * When one of them fails, no later one is handed out: those that certainly were not end
 * NOT_DELIVERED with -ECANCELED, and new ones are refused with -ECANCELED until all those
 * COMPLETIONs were handed out (waiting sends: have returned). If one ended UNKNOWN and a
 * later one DELIVERED, both were delivered.
 * With RIPC_WAIT a send that meets -ENOENT is begun again until its deadline, so that it reaches
 * who registers the ID in time (of a short, or with RIPC_NOWAIT or to_incarnation: -EINVAL).
 * returns are lent to the partner for the answer that names this message, by reply_to = its
 * ripc_msg.reply; a lent buffer comes back in that answer's places, or by ripc_cancel().
 * Errors as ripc_send_short() and ripc_send_long().
 */
RIPC_API int ripc_sendmsg(struct ripc_service *svc, const struct ripc_send *send,
		enum ripc_outcome *outcome);

/*
 * Cancels the sends of svc with this cookie that are in progress, and takes back the return
 * buffers that were lent under it. The completions still come, with the true outcome; lent
 * buffers are the caller's on return: where the network is writing to one by itself, the call
 * waits until it has stopped, as ripc_service_close() does.
 *  -ENOENT  no such send, nothing lent, or the answer is in the queue already: then its places
 *           are the lent buffers
 */
RIPC_API int ripc_cancel(struct ripc_service *svc, uint64_t cookie);

/*
 * Takes the next message, completion or notice from the service's queue. Waits up to
 * timeout_ms: 0 not at all, -1 for ever. *msg is the caller's until ripc_msg_free().
 * Items of a message that was given (RIPC_GIVE) may lie in the giver's memory: it alone can write
 * there, but at any time. If you do not trust a partner, copy what matters, then check and
 * use the copy; or post windows, into which all is copied.
 * A NOTICE tells by its status and cookie:
 *   0, cookie 0             a send that met -EAGAIN may be tried again
 *   0, cookie of a send     after -ECONNRESET: the send's buffers are the caller's again
 *   -EADDRINUSE             an older registration of our ID is alive elsewhere and keeps it; the
 *                           service is drained (ripc_service_drain()) and gets nothing new
 *  -EAGAIN     nothing there, timeout 0     -ETIMEDOUT  nothing came in time
 *  -ESHUTDOWN  drained, nothing is left     -EINTR      ripc_wake(), or a signal; nothing is lost
 */
RIPC_API int ripc_receive(struct ripc_service *svc, int timeout_ms, struct ripc_msg **msg);

/*
 * Ends one call that waits in svc, ripc_receive() or ripc_ping(), with -EINTR; if none waits, the
 * next one that may wait, at once, also if there are messages. Each wake ends one call. Takes no
 * lock and keeps errno: any thread and any signal handler may call it, as long as
 * ripc_service_close() has not begun. Returns 0; -EINVAL: svc is NULL. What the caller set before
 * is seen after the -EINTR. Sends, ripc_call(), and what closes or drains are not ended: they tell
 * what became of them; ripc_cancel() ends sends and calls.
 * In a context with RIPC_INTERRUPTIBLE a signal that a thread handles while it waits in
 * ripc_receive(), ripc_ping(), ripc_resolve() or ripc_list() ends that call, too, also with
 * SA_RESTART. No signal during the call is missed; one that comes just before it does not end it,
 * but a handler that calls ripc_wake() does.
 */
RIPC_API int ripc_wake(struct ripc_service *svc);

/* Gives a message and its memory back. NULL is ignored. */
RIPC_API void ripc_msg_free(struct ripc_msg *msg);

/*
 * Says how messages from svc to a partner travel. Fills *path. Does not block.
 *  -ENOENT        not resolved yet (ripc_resolve() does that)
 *  -EHOSTUNREACH  there is no network that both can use: path->others says why, the rest is zero
 */
RIPC_API int ripc_path_info(struct ripc_service *svc, uint64_t to, struct ripc_path *path);

/*
 * Sends an echo request that the partner's library answers (not its application) and waits
 * for the answer. *rtt_ns: the round trip in nanoseconds.
 *  -ENOENT  nobody has the service     -ETIMEDOUT  no answer in time     -EINTR  as ripc_receive()
 *  -EHOSTUNREACH  there is no network that both can use (ripc_path_info())
 */
RIPC_API int ripc_ping(struct ripc_service *svc, uint64_t to, int timeout_ms, uint64_t *rtt_ns);

/* Call and struct share a name, as stat(2) does; of that g++ -Wshadow warns. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/* Fills *stats up to stats->size. Does not block. */
RIPC_API int ripc_stats(struct ripc_context *ctx, struct ripc_stats *stats);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/*
 * Tells who holds what of our pool: memory that was given (RIPC_GIVE), is read where it is, and is
 * in use until its receiver frees it. Calls found once for each such service, the one that holds
 * most first; the sum is ripc_stats.given_held_bytes. *holder is valid during the call only, which
 * may call the library. Does not block. Returns how many there are.
 *  -ENOMEM  no memory for the list
 */
RIPC_API int ripc_holders(struct ripc_context *ctx,
		void (*found)(void *arg, const struct ripc_holder *holder), void *arg);

/*
 * Tells for each backend and resolver source whether it can run under this configuration
 * (NULL: defaults), calling report once for each; opens nothing. The strings are valid during
 * the call only.
 *  -EINVAL  ripc_open() would return that (logged, or in a detail that was reported)
 */
RIPC_API int ripc_probe(const struct ripc_config *cfg,
		void (*report)(void *arg, const struct ripc_finding *finding), void *arg);

/*
 * Looks for services for timeout_ms, calling found for each (perhaps twice if two sources know
 * it). Services of other users on this host are found over the network only (multicast, peers);
 * hosts that cannot be asked stay unseen. Nothing here keeps a service secret.
 * Returns how many were found; a signal ends it early (RIPC_INTERRUPTIBLE), with those.
 *  -EBUSY  another thread is in ripc_list() of this context
 */
RIPC_API int ripc_list(struct ripc_context *ctx, int timeout_ms,
		void (*found)(void *arg, const struct ripc_listing *listing), void *arg);

/* A sentence for a negative errno as this library means it. Static; do not free. */
RIPC_API const char *ripc_strerror(int error);

#ifdef __cplusplus
}
#endif

#endif
