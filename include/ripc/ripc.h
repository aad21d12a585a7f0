/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libripc: messages between processes, by service ID.
 *
 * The whole public interface is ripc/ripc.h with ripc/call.h (requests and replies), ripc/group.h
 * (messages to many), ripc/list.h (all services), ripc/stats.h (counters) and ripc/keys.h (keys).
 * Conventions that hold everywhere:
 *
 *  - A function returns 0 or a count on success, a negative errno on failure. Outputs are untouched
 *    on failure. Codes that a caller must handle are listed at the function. Any other code may be
 *    passed on; ripc_strerror() explains it.
 *  - Sizes and lengths are bytes. Times are milliseconds unless the name says otherwise. A timeout
 *    of 0 means "do not wait" in an argument, and "the default" in a struct. ripc_send_long()
 *    always waits, and refuses 0. Only ripc_receive() and ripc_receive_end() take -1, for ever. A
 *    call misses its deadline by at most one tick (10 ms); only ripc_close() and ripc_call() can
 *    miss it by more. A function that waits without a timeout says so.
 *  - Every call is safe from any thread, unless the context has RIPC_SINGLE_THREAD. Calls that wait
 *    are ended by ripc_wake(), ripc_cancel() and ripc_service_close(). pthread_cancel() ends none:
 *    the library holds cancellation off, also in callbacks, until the call returns (with
 *    RIPC_INTERRUPTIBLE perhaps -EINTR). An asynchronously cancellable thread must make no calls.
 *  - After fork() every call of the child on a context of the parent returns -EOWNERDEAD
 *    (ripc_poll_timeout(): -1). The child may open its own. Messages and pool buffers of the parent
 *    have no contents in the child, which must not touch them; ripc_msg_free() does nothing.
 *  - After ripc_service_close(): calls in the service return -ESHUTDOWN. The library keeps the
 *    memory of the last 1,024 closed services of a context, so a thread that is about to call need
 *    not be stopped first. Messages and notices of the service stay until they are freed.
 *  - After ripc_close(): messages and pool buffers stay readable until they are freed. Any thread
 *    may free them, also during ripc_close(). Only items that lie in the sender's memory
 *    (RIPC_GIVE) cannot be read any more. ripc_msg_free(), ripc_buf_ref(), ripc_buf_refs() and
 *    ripc_buf_free() work as before. While a message or buffer is left, other calls in the context
 *    or its services return -ESHUTDOWN. The last one that is freed frees the context's memory:
 *    from then on, or if none was left, the context and its services must not be used.
 *  - Structs that the caller fills begin with their size, so that they can grow:
 *    struct ripc_config cfg = {.size = sizeof(cfg)}; or, without a warning in C++ either,
 *    struct ripc_config cfg = RIPC_INIT(struct ripc_config);
 *    Program and library may know different versions of a struct. Bytes behind the fields that
 *    the library knows must be 0 (else -E2BIG), and where the library fills a struct, it sets
 *    them to 0. A size that is too small for the struct's first version: -EINVAL.
 *  - Fields whose values are constants of an enum have the type uint32_t. Later versions have more
 *    constants: a program must free and pass over messages whose kind it does not know.
 *  - The library installs no handlers, keeps no global state, and prints nothing, unless the
 *    environment asks for it: RIPC_LOG=error, warn, info or debug writes to standard error.
 *  - Callbacks: one rule holds for all. The arguments of a callback are valid until it returns. It
 *    must not make calls on the context, or on services, messages and buffers of it. It must
 *    return: no exception, longjmp() or pthread_exit() may leave it. ripc_list(), ripc_holders(),
 *    ripc_probe() and ripc_keys_show() call their callback in the calling thread, once for each
 *    entry, until it returns something other than 0: then they return as after the last entry.
 *    They hold no lock meanwhile: if a callback is left against the rule, some memory is lost,
 *    cancellation stays disabled in the thread, and the context works on. The log
 *    (ripc_config.log) is called in any thread, perhaps in several at a time, with locks of the
 *    library held. ripc_log_next() and a lister (ripc/list.h) need no callback.
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

/* The initial value of a struct that begins with its size: all other fields are zero. */
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

/* The outcome of a long message. */
enum ripc_outcome {
	RIPC_NOT_DELIVERED = 1, /* the message was certainly not delivered, and never will be */
	RIPC_DELIVERED,         /* the message has reached the queue of the receiving service */
	RIPC_UNKNOWN            /* partner or network failed: it was delivered, or it was not */
};

/* Later versions have more kinds: free a message of an unknown kind, and receive the next. */
enum ripc_kind {
	RIPC_SHORT = 1,
	RIPC_LONG,
	RIPC_COMPLETION, /* a RIPC_NOWAIT send has ended: cookie names it; status, outcome: how */
	RIPC_NOTICE,     /* news for the application: see ripc_receive(), ripc_watch() */
	RIPC_REQUEST,    /* wants a reply: ripc_reply() in ripc/call.h */
	RIPC_REPLY       /* ends a ripc_call_start(): request_cookie names it; status, outcome */
};

/* How sure from and from_incarnation of a message are. COMPLETION, NOTICE: 0, unused. */
enum ripc_sender {
	RIPC_SENDER_CLAIMED = 0, /* only the sender says so: do not act on from alone */
	RIPC_SENDER_RESOLVED,    /* the resolver, too, names this sender as the owner of from */
	RIPC_SENDER_PROVEN       /* with keys: an authority has signed that its key may be from */
};

/*
 * Where a received item landed. The sender can change an item RIPC_IN_SENDER at any time, also
 * between a check and a use: see ripc_receive(). All others are the receiver's alone.
 */
enum ripc_place {
	RIPC_IN_POOL,
	RIPC_IN_WINDOW, /* of ripc_window_post() */
	RIPC_IN_RETURN, /* a return buffer */
	RIPC_IN_SENDER  /* the sender's memory, which is read in place (RIPC_GIVE, ripc_reply()) */
};

/* ripc_config.flags */
#define RIPC_NO_THREAD     1u /* no progress thread: the application calls ripc_poll() */
#define RIPC_SINGLE_THREAD 2u /* one thread uses the context: no locks; implies NO_THREAD */
#define RIPC_INTERRUPTIBLE 4u /* signals end calls that wait: see ripc_wake() */
#define RIPC_COPY_GIVEN    8u /* copy messages of RIPC_GIVE: no item is RIPC_IN_SENDER */

/* ripc_send.flags */
#define RIPC_SEND_LONG 1u /* a long message; without it a short one */
#define RIPC_NOWAIT    2u /* only with SEND_LONG: return at once; a COMPLETION follows */
#define RIPC_GIVE      4u /* the sender's reference to each pool buffer moves to the library */
#define RIPC_ORDERED  16u /* only with SEND_LONG: delivered in the order of sending */
#define RIPC_WAIT     32u /* only with SEND_LONG, not with NOWAIT: waits for an owner of the ID */
#define RIPC_LEAVE_SLOW 64u /* only with SEND_LONG, to a group: see ripc_sendmsg() */
#define RIPC_AWAITED  128u /* only with NOWAIT: ripc_receive_end() delivers the COMPLETION */

/* ripc_request.flags (ripc/call.h; there is RIPC_AWAITED, too), and ripc_msg.flags of a request */
#define RIPC_IDEMPOTENT    1u /* the server may carry the request out more than once */
#define RIPC_ASKED_SHORTLY 2u /* the request came as a short message; ripc_reply() needs this */
/* ripc_msg.flags of a notice */
#define RIPC_WATCHED       4u /* the notice is of ripc_watch() (ripc/call.h) */

/* Log levels of ripc_config.log. */
#define RIPC_LOG_ERROR 0
#define RIPC_LOG_WARN  1
#define RIPC_LOG_INFO  2
#define RIPC_LOG_DEBUG 3

#define RIPC_SPIN_NEVER UINT32_MAX /* struct ripc_config.spin_us */

/*
 * The properties of a context. Zero in a field means the default, which stands in parentheses.
 * ripc_open() copies the strings. The environment variables RIPC_BACKENDS, RIPC_PEERS,
 * RIPC_INTERFACES, RIPC_OPTIONS and RIPC_KEYS, when set, override the fields of the same name, but
 * not in programs with raised rights (setuid, setgid, capabilities), which use shm and udp alone.
 */
struct ripc_config {
	size_t size;              /* sizeof(struct ripc_config) */
	uint32_t flags;           /* RIPC_NO_THREAD ... */
	/*
	 * Microseconds for which a waiting call polls before it sleeps. 0: up to 50 while polling
	 * pays, as when a partner answers at once; other threads run in between.
	 * RIPC_SPIN_NEVER: the call sleeps at once.
	 */
	uint32_t spin_us;
	uint32_t timeout_ms;      /* the meaning of timeout_ms 0 in a send or request (5,000) */
	uint32_t peer_timeout_ms; /* a partner silent for so long is given up (10,000) */
	uint64_t pool_bytes;      /* most memory of the buffer pool (half of RAM or memory.max) */
	uint64_t message_max_bytes; /* longer messages are refused on arrival (7/8 of the pool) */
	const char *backends;     /* the only ones used, best first: "shm,udp" (all that can run) */
	const char *peers;        /* queried where multicast fails: "host[:port],..." (none) */
	const char *interfaces;   /* for multicast: "eth0,lo" (all that are up) */
	const char *options;      /* settings of single parts: "resolver.port=15511,..." (none) */
	void (*log)(void *arg, int level, const char *text); /* NULL: none; see the conventions */
	void *log_arg;
	const char *keys;         /* a directory that "ripc key new" made: all traffic is encrypted,
	                             and programs without its secret are refused (no keys) */
};

/* A piece of memory: a return buffer, a window, or the place of a received item. */
struct ripc_buffer {
	struct iovec mem;
	uint64_t cookie;       /* the caller's, returned */
	uint32_t place;        /* on receive: where the item landed, enum ripc_place; ignored when
	                          posting */
	uint32_t flags;        /* 0; when posting, other values are refused with -EINVAL */
};

/* Members of a group by the outcome of a long message. */
struct ripc_counts {
	uint32_t delivered, not_delivered, unknown;
	uint32_t reserved[2]; /* 0 */
};

/* A received message, the caller's until ripc_msg_free(), with all that it points to. */
struct ripc_msg {
	uint32_t kind;                    /* enum ripc_kind */
	uint32_t outcome;                 /* enum ripc_outcome; COMPLETION, REPLY only */
	int status;                       /* COMPLETION, NOTICE, REPLY: 0 or a negative errno */
	uint32_t n_items;                 /* 1 to 64; COMPLETION, NOTICE, failed REPLY: 0 */
	uint64_t from, from_incarnation;  /* the sender's service ID and incarnation */
	uint64_t cookie;                  /* COMPLETION, NOTICE, REPLY: see ripc_receive(),
	                                     ripc_watch(), ripc_call_start() */
	uint64_t reply;                   /* for ripc_send.reply_to of a reply to this message */
	const struct iovec *items;
	const struct ripc_buffer *places; /* one per item; NULL: all are in the pool */
	uint32_t sender;                  /* enum ripc_sender: how sure from was when the message
	                                     arrived */
	uint32_t flags;                   /* REQUEST: RIPC_IDEMPOTENT ...; NOTICE: RIPC_WATCHED */
	uint64_t request_cookie;          /* REPLY: the cookie of the request */
	uint64_t group;                   /* the message came to this group (ripc/group.h); 0: to
	                                     the service alone */
	const struct ripc_counts *counts; /* COMPLETION of a send to a group; else NULL */
	uint64_t from_handle;             /* names the sender, for ripc_send.to_handle; COMPLETION,
	                                     NOTICE, failed REPLY: 0 */
};

/* A send with all its options, for ripc_sendmsg(). */
struct ripc_send {
	size_t size;                       /* sizeof(struct ripc_send) */
	uint64_t to;                       /* the partner's service ID */
	uint64_t to_incarnation;           /* only to this incarnation; 0: any owner of the ID */
	const struct iovec *items;
	const struct ripc_buffer *returns; /* return buffers, until the reply or ripc_cancel() */
	uint32_t n_items, n_returns;
	uint32_t flags;                    /* RIPC_SEND_LONG, RIPC_NOWAIT ... */
	int32_t timeout_ms;                /* of a long send; 0: the context's timeout_ms */
	uint64_t reply_to;                 /* ripc_msg.reply of the message that this replies to,
	                                      so that its return buffers are used; 0: none */
	uint64_t cookie;                   /* names the send and its returns to ripc_cancel() */
	struct ripc_counts *counts;        /* filled by a waiting long send to a group; or NULL */
	uint64_t to_handle;                /* ripc_msg.from_handle: only to the sender of that
	                                      message, and to may be 0; 0: by the ID */
};

/* How messages to one partner travel. */
struct ripc_path {
	size_t size;              /* sizeof(struct ripc_path), set by the caller */
	char backend[16];         /* the backend that carries datagrams: "udp", "shm" */
	char bulk[16];            /* the same for long messages; "pull": in datagrams, too */
	char address[64];         /* the partner's address in words */
	uint32_t short_max_bytes; /* the longest short message, one item */
	uint32_t datagram_bytes;  /* the datagram size now used for long messages */
	uint64_t rtt_us;          /* smoothed round trip, microseconds; 0: not measured yet */
	uint64_t incarnation;     /* of the partner */
	char others[192];         /* why other backends are not used: "shm: another host; ..." */
};

/* One line of ripc_probe(): a backend or a resolver source. */
struct ripc_finding {
	const char *kind;   /* "backend" or "resolver" */
	const char *name;   /* "udp", "multicast" */
	int usable;         /* 1: yes */
	const char *detail; /* the finding, or why the part cannot run */
	const char *remedy; /* the remedy for a person; "": none */
};

/* A message of the log, for ripc_log_next(). */
struct ripc_log_message {
	size_t size;    /* sizeof(struct ripc_log_message), set by the caller */
	int level;      /* RIPC_LOG_ERROR ... */
	char text[512]; /* a sentence; longer ones are cut off */
	uint64_t lost;  /* messages that were lost just before this one */
};

/* One line of ripc_holders(): a service that holds memory of our pool. */
struct ripc_holder {
	uint64_t id, incarnation; /* the service to which the memory was given */
	uint64_t bytes;           /* bytes that the service has not freed */
	uint64_t messages;        /* messages in which the service got these bytes */
};

/*
 * Opens a context. cfg may be NULL: all defaults. *ctx belongs to the caller until
 * ripc_close(). Does not block on the network, unless peers has host names: the call queries the
 * name service once for each entry that is not an IPv4 address, and waits for its response without
 * a deadline.
 *  -EINVAL   a field, an option or an environment variable cannot be understood (logged)
 *  -ENODEV   no backend can run here (logged, each with its reason)
 *  -ENOENT   the directory of keys does not exist, or lacks a file (logged)
 *  -EACCES   others can read a secret file of that directory, or write to a file of it (logged)
 *  -ENOMEM, -EMFILE  no memory, no descriptors
 */
RIPC_API int ripc_open(const struct ripc_config *cfg, struct ripc_context **ctx);

/*
 * Closes a context and all its services. Waits up to timeout_ms for sends in progress to end;
 * then ends them. Calls that wait in services of the context return (ripc_service_close()), and
 * are waited for. Other calls may not be in progress, except those that free messages or buffers.
 * The conventions list the calls that may follow. The call never hangs, but closing a
 * device can take longer than timeout_ms: over RDMA some 50 ms, over libfabric up to a second. The
 * call says goodbye to partners. When a process ends without this call (_exit()), the senders of
 * messages that it has received may not learn of their delivery: they get UNKNOWN.
 *  -ETIMEDOUT  closed, but sends in progress were cut off
 */
RIPC_API int ripc_close(struct ripc_context *ctx, int timeout_ms);

/*
 * Does the work that is due: input and timers. Returns how much work was done, 0 for none. Never
 * blocks. With RIPC_NO_THREAD the application must call ripc_poll() at least every 10 ms while
 * messages are in progress, or whenever ripc_poll_timeout() has passed. After ripc_context_fd()
 * the application must call ripc_poll() whenever that descriptor is readable. A thread that waits
 * in another call does the same work: polling beside it is safe, but wakes it for each message.
 */
RIPC_API int ripc_poll(struct ripc_context *ctx);

/* Returns the microseconds until ripc_poll() is due even if nothing arrives; -1: no timer. */
RIPC_API int64_t ripc_poll_timeout(struct ripc_context *ctx);

/*
 * Registers a service. id 0 draws a private ID at random. For a well-known ID the call first
 * queries the network for an owner, and waits some 60 ms, or longer if owners of IDs were lately
 * found far away. An owner may also respond later: if it is older, this service gets a NOTICE with
 * -EADDRINUSE after two round trips or so. flags must be 0. *svc belongs to the caller until
 * ripc_service_close().
 *  -EADDRINUSE  another service has the ID
 *  -ETIMEDOUT   not registered within 10 s
 *  -ENOMEM      no memory, or no thread for the context (the log says which)
 *  -EMFILE      no descriptors
 */
RIPC_API int ripc_service_open(struct ripc_context *ctx, uint64_t id, uint32_t flags,
		struct ripc_service **svc);

/*
 * Registers n services (1 to INT32_MAX), 1,024 at once. Each 1,024 take about the time of one
 * service, and 10 s at most. svcs[i] is the service of ids[i] and belongs to the caller until
 * ripc_service_close(), or is NULL where its registration failed: ripc_service_open() of that ID
 * alone returns the reason. Returns how many services were registered.
 *  -EINVAL  a bad argument; flags must be 0; svcs is untouched
 * Errors as ripc_service_open() if no service could be registered: then all of svcs are NULL.
 */
RIPC_API int ripc_services_open(struct ripc_context *ctx, const uint64_t *ids, size_t n,
		uint32_t flags, struct ripc_service **svcs);

/*
 * Prepares a service to move or to end: the service can no longer be found. New messages are
 * refused, and their senders look for the next owner of the ID. The call waits up to timeout_ms for
 * messages that are being received. Then ripc_receive() delivers the queued messages, and after the
 * last one returns -ESHUTDOWN.
 *  -ETIMEDOUT  messages that were still being received are refused
 *  -EINTR      a signal (RIPC_INTERRUPTIBLE); no message was refused: call again to wait on
 */
RIPC_API int ripc_service_drain(struct ripc_service *svc, int timeout_ms);

/*
 * Ends a service: queued messages are freed, sends in progress end NOT_DELIVERED or UNKNOWN.
 * Calls of other threads that wait in it return; ripc_receive() and ripc_ping() -ESHUTDOWN, which
 * later calls return, too: threads that receive in a loop end by it. Join them before ripc_close().
 * All memory that was posted or being sent is the caller's on return. Where the network still reads
 * or writes memory by itself, the call waits without a deadline until the network has stopped:
 * most often for a tick (10 ms), for seconds where a partner has died.
 */
RIPC_API int ripc_service_close(struct ripc_service *svc);

/* Returns the ID of a service. */
RIPC_API uint64_t ripc_service_id(const struct ripc_service *svc);
/* Returns the random number that names this registration of the ID, and no earlier one. */
RIPC_API uint64_t ripc_service_incarnation(const struct ripc_service *svc);

/*
 * Returns a descriptor for poll, epoll and event loops, readable while ripc_receive() has a message
 * to deliver. With EPOLLET (edge-triggered), call ripc_receive() with timeout 0 until -EAGAIN: then
 * the descriptor reports the next message. It is an eventfd, made at the first call, and belongs to
 * the service: do not read or close it. While the application sleeps, the progress thread serves
 * the network; without that thread, ripc_context_fd() says when to call ripc_poll().
 *  -EMFILE, -ENFILE, -ENOMEM  the descriptor cannot be made
 */
RIPC_API int ripc_service_fd(struct ripc_service *svc);

/*
 * Returns a descriptor of the whole context, readable (level-triggered) when ripc_poll() has work
 * to do, and sometimes for nothing. From this call on, without a way back, the progress thread only
 * runs timers, and the application must call ripc_poll() whenever the descriptor is readable: no
 * message is handed over between threads. With RIPC_NO_THREAD ripc_poll() is also due after
 * ripc_poll_timeout(). The descriptor belongs to the context: do not read or close it. An event
 * loop needs it beside the descriptors of services. Errors as ripc_service_fd().
 */
RIPC_API int ripc_context_fd(struct ripc_context *ctx);

/* Returns the well-known ID of a name: SipHash-2-4 of its bytes under the key 0; never 0. */
RIPC_API uint64_t ripc_id_from_name(const char *name);

/*
 * Finds a service, so that the first send need not. Blocks up to timeout_ms.
 *  -ENOENT     no service has the ID. Where only this host or hosts of RIPC_PEERS are queried, the
 *              call returns at once; where multicast is in use, after a second without a response.
 *              For another second short sends return -ENOENT at once. To wait: ripc_await().
 *  -ETIMEDOUT  not known by then: the owner of the ID is silent, or timeout_ms is below a second
 *  -EACCES     with keys: not known by then, but a program with other keys has responded for the ID
 *  -EINTR      a signal (RIPC_INTERRUPTIBLE)
 */
RIPC_API int ripc_resolve(struct ripc_context *ctx, uint64_t id, int timeout_ms);

/*
 * Waits up to timeout_ms until a service has the ID. One that is registered meanwhile is found
 * within some 20 ms. Where its notice cannot be heard (no multicast), it is found within 100 ms
 * after a resolver source knows of it. -ENOENT: none had it by then. Errors as ripc_resolve().
 */
RIPC_API int ripc_await(struct ripc_context *ctx, uint64_t id, int timeout_ms);

/*
 * Takes a buffer of at least len bytes from the pool, with one reference, 64-byte aligned,
 * contents undefined. Never blocks on the network.
 *  -ENOMEM  the pool's limit is reached, or there is no memory; ripc_holders() names the services
 *           that hold memory of the pool
 */
RIPC_API int ripc_buf_alloc(struct ripc_context *ctx, size_t len, void **buf);

/*
 * Takes one more reference to the pool buffer that contains buf. A buffer with more than one
 * reference is read-only, and so are the items of a received message that was sent with RIPC_GIVE.
 * buf may be an item of a received message: the item then outlives ripc_msg_free().
 *  -EINVAL  not in a live buffer of this pool
 */
RIPC_API int ripc_buf_ref(struct ripc_context *ctx, void *buf);

/*
 * Returns how many references the pool buffer that contains buf has: the application's, the
 * library's while it sends, and those of receivers that read the buffer where it is (RIPC_GIVE).
 * When the only reference is the application's, the application may write to the buffer again, and
 * send it with RIPC_GIVE again, which costs less than a new buffer: receivers keep it mapped. A
 * receiver's reference ends when a call or the progress thread polls the network. Does not block.
 *  -EINVAL  not in a live buffer of this pool
 */
RIPC_API int ripc_buf_refs(struct ripc_context *ctx, const void *buf);

/* Drops a reference; the last one frees the buffer. NULL is ignored. -EINVAL: no live buffer. */
RIPC_API int ripc_buf_free(struct ripc_context *ctx, void *buf);

/*
 * Makes the application's own memory as good as the pool's: a send from it needs no copy or
 * registration. The memory stays the caller's and must stay valid until ripc_buf_unregister().
 * Each page must be readable: the call reads a word of each. A send needs no more. Memory that is
 * posted for receiving must be writable, registered or not: see ripc_window_post().
 *  -EEXIST  overlaps registered memory   -ENOMEM  see RLIMIT_MEMLOCK
 *  -EFAULT  a page cannot be read (not mapped, PROT_NONE, behind the end of a file)
 */
RIPC_API int ripc_buf_register(struct ripc_context *ctx, void *buf, size_t len);
/* Ends a registration. No send may be using the memory. -ENOENT: was not registered. */
RIPC_API int ripc_buf_unregister(struct ripc_context *ctx, void *buf);

/*
 * Posts a window: mem is a place for one item of a future long message to svc. An item takes the
 * first window that is long enough, in the order of posting. Either all items of a message
 * find a place, or no window is used. The windows of a message that fails go back to their old
 * positions. A window stays posted until it comes back in ripc_msg.places (with the cookie), is
 * taken back, or the service is closed. Until then it must stay valid and writable, which is not
 * checked; its contents are undefined. The same holds for return buffers.
 *  -EINVAL  mem is at NULL, or longer than memory can be
 */
RIPC_API int ripc_window_post(struct ripc_service *svc, const struct iovec *mem, uint64_t cookie);

/*
 * Takes back all windows of svc with this cookie: they are the caller's on return, and no longer
 * come with a message. A message that is being received into one is refused: its sender gets
 * -ECANCELED. Where the network is writing into a window by itself, the call waits without a
 * deadline until the network has stopped. A message that is in the queue keeps its windows.
 *  -ENOENT  no window with this cookie is posted
 */
RIPC_API int ripc_window_cancel(struct ripc_service *svc, uint64_t cookie);

/*
 * Sends a short message: one datagram, unreliable, at most once, never partial. Never blocks.
 * The items are the caller's again on return. While the library looks for a partner that is not
 * resolved yet, it holds a few messages.
 *  -EMSGSIZE   longer than the path allows (ripc_path_info(); RIPC_SHORT_MIN always passes)
 *  -EAGAIN     the network takes no more now, or too many are held; nothing was sent
 *  -ENOENT     the service is known not to exist (ripc_resolve())
 *  -EACCES     with keys: our key lacks the right to send there now (ripc_send_long()), or the
 *              partner has refused an earlier message for that reason; nothing was sent
 */
RIPC_API int ripc_send_short(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items);

/*
 * Sends a long message and waits for the outcome, up to timeout_ms. 0: delivered.
 * -ECONNRESET: unknown whether it was delivered; any other error: certainly not delivered.
 *  -ENOENT     no service has the ID, after a second of queries at most, however long timeout_ms
 *              is (ripc_resolve()); RIPC_WAIT of ripc_sendmsg() waits for one
 *  -ETIMEDOUT  not delivered in time; also: the owner of the ID does not respond
 *  -EMSGSIZE   too long for the receiver
 *  -ENOBUFS    the receiver had no room until the deadline: messages that its application has read
 *              and not freed fill its pool, or its system gives no more memory; the receiver's
 *              log says which
 *  -EINVAL     a bad argument; timeout_ms is not more than 0
 *  -ECANCELED  ripc_cancel() or the service was closed
 *  -ENETDOWN, -EHOSTUNREACH  the partner cannot be reached
 *  -EACCES     with keys: our key lacks the right to send there now, or to be svc; or the partner's
 *              key may not be that service. Replies (ripc_reply(), reply_to) need no right
 *  -EPROTONOSUPPORT  the partner speaks another version of the protocol: both need the same libripc
 * The message waits while the receiver has much that it has not read, or has read and not freed,
 * and while 64 other long messages of svc to that partner, except replies, are in progress. The
 * deadline counts from the call on, also during that wait.
 * After -ECONNRESET the items must not be changed until a NOTICE with status 0 arrives at svc. That
 * NOTICE has cookie 0, like the NOTICE "try again" (ripc_receive()). A program that must tell the
 * two apart uses ripc_sendmsg() with a cookie.
 */
RIPC_API int ripc_send_long(struct ripc_service *svc, uint64_t to, const struct iovec *items,
		uint32_t n_items, int timeout_ms);

/*
 * Sends a short or long message with all options. outcome may be NULL. Only a waiting long send
 * sets *outcome, also when the send fails.
 * With RIPC_NOWAIT (short message: -EINVAL), 0 means that the send is accepted: exactly one
 * COMPLETION with the cookie follows by ripc_receive(), or with RIPC_AWAITED by ripc_receive_end().
 * Until then the items (not the array) must stay untouched. A negative return means that no
 * COMPLETION follows and nothing was sent. -EAGAIN: too much is in progress to that partner, or to
 * a member of that group (ripc/group.h); a NOTICE with cookie 0 and status 0 reports when to try
 * again. The 16,385th RIPC_AWAITED message in progress to one partner fails with -ENOMEM.
 * With RIPC_GIVE each item must lie in a pool buffer (else -EINVAL), and one reference per item
 * moves to the library when the message ends DELIVERED or UNKNOWN. After NOT_DELIVERED the
 * references stay the caller's. If the service is closed before the application has received the
 * COMPLETION, the library drops the references, whatever the outcome is. Where the network can map
 * memory (shm), a long message in buffers of more than 512 KiB is then not copied: the receiver
 * reads the buffer where it is. The first items, at most 512 bytes together (a header), are copied,
 * and may lie in shorter buffers. A buffer stays in use until the receiver has freed it, or is
 * gone: the sender must not write to it meanwhile (ripc_buf_refs()). A received item that is
 * RIPC_IN_SENDER can be transferred on in the same way, without a copy. ripc_stats.given_held_bytes
 * counts such memory.
 * Long messages may overtake one another. With RIPC_ORDERED (short message: -EINVAL) the ordered
 * messages of one service to one incarnation are delivered to the application in the order of
 * sending; other messages do not wait for them. When an ordered message fails, no later one is
 * delivered to the application: those that it certainly did not get end NOT_DELIVERED with
 * -ECANCELED. New ones are refused with -ECANCELED until the application has received all those
 * COMPLETIONs, and the waiting sends have returned. An ordered message that ended UNKNOWN was
 * delivered to the application before all later ones, or never will be. If a later one to the same
 * incarnation, sent before the application knew of the UNKNOWN, ends DELIVERED, both were
 * delivered. A message that was sent after that, or to another incarnation, says nothing about the
 * UNKNOWN one: to leave no gap, send again from the first message that did not end DELIVERED, and
 * let the receiver drop messages that it already has.
 * With RIPC_WAIT a send that meets -ENOENT is begun again until its deadline, and so reaches a
 * service that registers the ID in time (short message, RIPC_NOWAIT or to_incarnation: -EINVAL).
 * A long message to a group (ripc/group.h) returns 0, and its COMPLETION has the status 0, when all
 * members have it. The outcome is DELIVERED if a member has it, UNKNOWN if it is unknown whether
 * one has, else NOT_DELIVERED; counts has the members of each outcome. The error is -ECONNRESET if
 * a member's outcome is unknown, else that of a member that does not have it; -ENOENT: the group
 * has no members. With RIPC_LEAVE_SLOW, once half of the members have the message, each other
 * member gets the same time again, and at least 100 ms, before the send leaves it behind.
 * With to_handle = from_handle of a received message, the send goes to the sender of that message
 * and to no other program, even if another program owns the ID now. The library makes no query, and
 * the send also reaches a sender behind NAT. to is 0 or the sender's ID; another ID, a group,
 * RIPC_ORDERED and RIPC_WAIT: -EINVAL. A handle works in the service that received the message, and
 * nowhere else. It ends with the sender's service, and when no packet of the sender has arrived for
 * a minute (40 s if very many partners are known): then the send returns -ENOENT, and nothing was
 * sent. A sender that comes back later has another handle in its next message. A handle proves no
 * identity: that of a forged message names the forger. With keys, a send by handle needs the same
 * rights as a send by ID.
 * returns are the return buffers for the reply to this message. The reply names this message by
 * reply_to = ripc_msg.reply. A return buffer comes back in that reply's places, or by
 * ripc_cancel(). Errors as ripc_send_short() and ripc_send_long().
 */
RIPC_API int ripc_sendmsg(struct ripc_service *svc, const struct ripc_send *send,
		uint32_t *outcome);

/*
 * Cancels the sends of svc with this cookie that are in progress, and takes back the return buffers
 * that were posted with it. The COMPLETIONs still arrive, with the true outcome. The return buffers
 * are the caller's on return. Where the network is writing to a buffer by itself, the call waits
 * without a deadline until the network has stopped, as ripc_service_close() does.
 *  -ENOENT  no such send and no return buffers, or the reply is already in the queue: then the
 *           places of the reply are the return buffers
 */
RIPC_API int ripc_cancel(struct ripc_service *svc, uint64_t cookie);

/*
 * Takes the next message, completion or notice from the service's queue. Waits up to
 * timeout_ms: 0 not at all, -1 for ever. *msg is the caller's until ripc_msg_free().
 * Items of a message that was sent with RIPC_GIVE may lie in the sender's memory (RIPC_IN_SENDER in
 * places). Only the sender can write there, but at any time. If you do not trust a partner, copy
 * such an item, then check and use the copy; or open the context with RIPC_COPY_GIVEN; or post
 * windows (for replies: supply return buffers), into which all items are copied.
 * A NOTICE reports by its status and cookie:
 *   0, cookie 0          a send that met -EAGAIN may be tried again
 *   0, cookie of a send  after -ECONNRESET: the send's buffers are the caller's again
 *   -EADDRINUSE          an older registration of the ID is alive, and keeps the ID. This service
 *                        is drained (ripc_service_drain()): it receives nothing new. Messages that
 *                        are being received have 500 ms, then -ESHUTDOWN is returned. A service
 *                        that is closed can be opened again at once
 *  -EAGAIN     nothing there, timeout 0     -ETIMEDOUT  nothing came in time
 *  -ESHUTDOWN  drained, nothing is left     -EINTR      ripc_wake(), or a signal; nothing is lost
 */
RIPC_API int ripc_receive(struct ripc_service *svc, int timeout_ms, struct ripc_msg **msg);

/*
 * Waits up to timeout_ms (0: not at all, -1: for ever) for the end of one send or call, and takes
 * that end: the COMPLETION of a RIPC_NOWAIT send, or the REPLY of a ripc_call_start(), that began
 * with RIPC_AWAITED and this cookie. Only this function delivers such an end: ripc_receive() in any
 * thread, and the descriptor of ripc_service_fd(), pass over it. All other messages stay in the
 * queue, and delay no end. *msg is the caller's until ripc_msg_free(). The send or call continues
 * after -ETIMEDOUT, -EAGAIN and -EINTR: call again, or call ripc_cancel(), after which its end has
 * the true outcome. A RIPC_AWAITED send meets no -EAGAIN: it waits for room as a waiting send does.
 * A RIPC_AWAITED call meets -EAGAIN where ripc_call() does. The oldest of several ends is taken.
 *  -ENOENT     no send or call with this cookie and RIPC_AWAITED began, or its end was taken
 *  -EAGAIN     not ended, timeout 0     -ETIMEDOUT  not ended in time
 *  -ESHUTDOWN  the service is closed, and all memory that it was sending is the caller's
 *  -EINTR      a signal (RIPC_INTERRUPTIBLE); ripc_wake() does not end this call
 */
RIPC_API int ripc_receive_end(struct ripc_service *svc, uint64_t cookie, int timeout_ms,
		struct ripc_msg **msg);

/*
 * Ends one ripc_receive() or ripc_ping() that waits in svc with -EINTR. If no call waits, the next
 * one that may wait ends at once, even if there are messages. Each wake ends one call. ripc_wake()
 * takes no lock and keeps errno: any thread and any signal handler may call it, as long as
 * ripc_close() has not begun. The woken thread sees all that the waking thread wrote before
 * ripc_wake(). It ends no other calls. -EINVAL: svc is NULL.
 * In a context with RIPC_INTERRUPTIBLE a signal that a thread handles while it waits in
 * ripc_receive(), ripc_receive_end(), ripc_ping(), ripc_resolve(), ripc_await(), ripc_list(),
 * ripc_lister_next() or ripc_service_drain() ends that call, too, also with SA_RESTART. No signal
 * during the call is missed. A signal just before the call does not end the call, unless the
 * signal's handler calls ripc_wake(). No signal ends sends, ripc_call() (ripc_cancel() ends both),
 * and calls that close or cancel: they report an outcome. None ends ripc_service_open(): it would
 * have to begin anew, and a timer could keep a service from being registered for ever.
 */
RIPC_API int ripc_wake(struct ripc_service *svc);

/*
 * Gives a message and its memory back to the library. NULL is ignored. The message may be freed
 * after its service or context is closed. In a forked child the call does nothing.
 */
RIPC_API void ripc_msg_free(struct ripc_msg *msg);

/*
 * Reports how messages from svc to a partner travel: fills *path. Does not block.
 *  -ENOENT        the partner is not resolved yet (ripc_resolve())
 *  -EHOSTUNREACH  no usable network in common: path->others has the reasons, all else is zero
 */
RIPC_API int ripc_path_info(struct ripc_service *svc, uint64_t to, struct ripc_path *path);

/*
 * Sends an echo request and waits up to timeout_ms for the response. The partner's library
 * responds, not its application. *rtt_ns: the round trip in nanoseconds.
 *  -ENOENT  no service has the ID     -ETIMEDOUT  no response in time     -EINTR  as ripc_receive()
 *  -EACCES  with keys: the partner refuses our key, or as ripc_resolve()
 *  -EHOSTUNREACH  there is no network that both can use (ripc_path_info())
 */
RIPC_API int ripc_ping(struct ripc_service *svc, uint64_t to, int timeout_ms, uint64_t *rtt_ns);

/*
 * Takes the oldest message of the context's log that no earlier call has taken: fills *message,
 * whose size the caller has set. The context keeps the last 64 messages, of all levels. Earlier
 * ones are lost, and the next message has their number. The log callback and RIPC_LOG get each
 * message, too, and only they get those of an ripc_open() that fails. Does not block.
 *  -EAGAIN  no message is left     -EINVAL, -E2BIG  size is too small, or more than 4,096
 */
RIPC_API int ripc_log_next(struct ripc_context *ctx, struct ripc_log_message *message);

/* Fills *stats, whose size the caller has set. Does not block. */
RIPC_API int ripc_stats_get(struct ripc_context *ctx, struct ripc_stats *stats);

/*
 * Reports which services hold memory of the context's pool: memory that was sent with RIPC_GIVE,
 * that the receiver reads where it is, and that is in use until the receiver frees it. Calls found
 * once for each such service, the one that holds most first (see the conventions). The sum is
 * ripc_stats.given_held_bytes. Does not block. Returns how many services there are.
 *  -ENOMEM  no memory for the list
 */
RIPC_API int ripc_holders(struct ripc_context *ctx,
		int (*found)(void *arg, const struct ripc_holder *holder), void *arg);

/*
 * Reports for each backend and resolver source whether it can run under this configuration
 * (NULL: defaults): calls report once for each (see the conventions). Opens nothing.
 *  -EINVAL  ripc_open() would fail with -EINVAL; the log or a reported detail says why
 */
RIPC_API int ripc_probe(const struct ripc_config *cfg,
		int (*report)(void *arg, const struct ripc_finding *finding), void *arg);

/* Returns a static sentence that explains a negative errno as this library uses it. */
RIPC_API const char *ripc_strerror(int error);

/*
 * Returns the static name of an errno, negative or positive: "ENOENT". If a code has two names, it
 * is the first in errno.h: EAGAIN, EDEADLK, EOPNOTSUPP. 0 has the name "0"; NULL: no such code.
 */
RIPC_API const char *ripc_errname(int error);

/*
 * Returns the version of the library that runs: major << 16 | minor << 8 | patch. The version of
 * the headers, with which the program was compiled, is that in RIPC_VERSION_MAJOR and the others.
 */
RIPC_API uint32_t ripc_version(void);

#ifdef __cplusplus
}
#endif

#endif
