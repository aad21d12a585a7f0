/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of backends/shm: no other room includes this. */
#ifndef RIPC_SHM_INTERNAL_H
#define RIPC_SHM_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "core/net/backend.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/thread.h"

struct ucred;

/* ---- segment.c: memory that is shared by descriptor -------------------------------------- */

/*
 * Makes len bytes (whole pages) of zeros that have memory behind them and can neither shrink nor
 * grow; read_only: for all who map them after us. *memory is our mapping, *fd is for the others.
 * -ENOMEM, -EMFILE, -EFBIG (ripc__memfd_size()) and the errors of memfd_create(2).
 */
int ripc__shm_segment_make(size_t len, bool read_only, void **memory, int *fd);
/*
 * Maps len bytes of another process's descriptor, which stays the caller's. -EBADMSG: it is no
 * such memory, it has holes, or it could be taken away from us.
 */
int ripc__shm_segment_map(int fd, size_t len, bool writable, void **memory);
/*
 * The same, read only, of a file of *len bytes that need not be filled. Maps the part with
 * memory behind it, whose length is then *len. -ENODATA: there is none.
 */
int ripc__shm_segment_map_filled(int fd, size_t *len, void **memory);
void ripc__shm_segment_unmap(void *memory, size_t len);

/* ---- ring -------------------------------------------------------------------------------- */

/*
 * A ring of datagrams from one sender to one receiver, in memory that both have mapped and the
 * receiver owns. Each side distrusts the contents: it copies each value once, then checks and
 * uses the copy, and keeps its own position in memory of its own. docs/protocol.md has the
 * bytes.
 */

#define SHM_SLOTS    128u /* a power of two */
#define SHM_SLOT_LEN 256u
#define SHM_INLINE   (SHM_SLOT_LEN - 8) /* longer datagrams lie in the area */
#define SHM_AREA     (256u << 10)       /* bytes; at least twice the longest datagram */

/* Two cache lines carry the short of 50 bytes and all that belongs to it. */
struct shm_slot {
	_Atomic uint64_t word; /* number << 32 | length; the number of the first datagram is 1 */
	uint8_t bytes[SHM_INLINE]; /* the datagram, or where it is in the area (64 bits) */
};

struct shm_ring_memory {
	_Alignas(128) _Atomic uint32_t head; /* written by the receiver: datagrams taken */
	_Alignas(128) struct shm_slot slots[SHM_SLOTS];
	uint8_t area[SHM_AREA];
};

/* The sender's end. */
struct shm_ring_out {
	struct shm_ring_memory *memory;
	uint32_t tail;      /* datagrams put */
	uint32_t head_seen; /* taken ones of these, at the last look */
	uint64_t area_tail, area_head; /* bytes of the area ever used; ever released */
	uint64_t area_end[SHM_SLOTS];  /* area_tail after the datagram in this slot */
};

/* The receiver's end. */
struct shm_ring_in {
	struct shm_ring_memory *memory; /* NULL: there is no ring */
	uint32_t head;      /* datagrams taken */
	uint32_t head_told; /* taken datagrams that the sender knows of */
};

/*
 * False: there is no room, or the receiver has written nonsense. The caller's next load may
 * happen before the datagram is visible: use a fence before checking whether the receiver
 * sleeps.
 */
bool ripc__shm_ring_put(struct shm_ring_out *ring, const struct ripc__tx *tx);

/*
 * Is there a datagram? Prefetches all cache lines of the slot: otherwise the receiver would
 * fetch the others only after the first one, which has the length.
 */
static inline bool ripc__shm_ring_ready(const struct shm_ring_in *ring)
{
	uint32_t head = ring->head;
	const struct shm_slot *slot = &ring->memory->slots[head % SHM_SLOTS];

	for (uint32_t line = 64; line < SHM_SLOT_LEN; line += 64)
		__builtin_prefetch((const char *)slot + line);
	return atomic_load_explicit(&slot->word, memory_order_acquire) >> 32 == head + 1;
}

/*
 * Copies the next datagram to bytes (RIPC_DATAGRAM_MAX of them). Its length; 0: there is none;
 * -EBADMSG: nonsense.
 */
int ripc__shm_ring_take(struct shm_ring_in *ring, uint8_t *bytes);

/* ---- point ------------------------------------------------------------------------------- */

/*
 * Named points at which a test kills or stops a process (tests/system/faults/points.c). In the
 * library they are nothing; the test compiles these files once more, with RIPC_POINTS.
 */

#ifdef RIPC_POINTS
/* The test's. */
void ripc__shm_point(const char *name);
#else
static inline void ripc__shm_point(const char *name)
{
	(void)name;
}
#endif

/* ---- shm --------------------------------------------------------------------------------- */

/*
 * Shared by the files of the shm backend: the state of device, port and links, and the memory
 * and messages through which two ports meet (docs/protocol.md has their bytes).
 *
 * A link leads one way. Its sender connects to the receiver's socket (abstract, SOCK_SEQPACKET)
 * and says hello; the first datagrams are sent over that socket, until the receiver, when it has
 * answered them, offers a ring. Neither end thus waits for the other.
 */

#define SHM_VERSION    1
#define SHM_NAME_LEN   16
#define SHM_ADDR_LEN   (8 + SHM_NAME_LEN) /* host identity, name */
#define SHM_BUFFERS    64u   /* datagrams with core at once */
#define SHM_RINGS_MAX  1024u
#define SHM_DIRECT_MAX 8u    /* up to so many rings are polled without the bits */
#define SHM_LISTED_MAX 16u   /* users, and groups, that the options name */
#define SHM_SCAN_EVERY 64u   /* polls: then all rings are polled, whatever the bits are */

/* The receiver's state for all its senders. Only the owner writes it. One page. */
struct shm_board {
	_Atomic uint32_t asleep;  /* enum shm_asleep in the lowest two bits; changes each time */
	_Atomic uint32_t crowded; /* not 0: senders mark their datagrams in the bits */
};

enum shm_asleep {
	SHM_AWAKE = 0,
	SHM_ASLEEP_ON_SOCKETS = 1, /* wake me by a message */
	SHM_ASLEEP_ON_FUTEX = 2,   /* wake me by shm_bits.wakes */
};

/* All senders write it; the owner relies on none of it for longer than a moment. One page. */
struct shm_bits {
	_Alignas(64) _Atomic uint32_t wakes;
	struct {
		_Alignas(64) _Atomic uint64_t word; /* bit i % 64: ring i has datagrams */
	} rings[SHM_RINGS_MAX / 64];
};

#define SHM_BOARD_LEN 4096u
#define SHM_BITS_LEN  4096u
#define SHM_RING_LEN  ((sizeof(struct shm_ring_memory) + 4095) & ~(size_t)4095)

/* The options, as configured. NULL: not set. */
struct shm_words {
	const char *uids, *gids;
};

struct shm_list {
	uint32_t n, ids[SHM_LISTED_MAX];
};

/* The users and groups that may share memory with us, beside our own user. */
struct shm_admission {
	bool all;
	struct shm_list uids, gids;
};

struct shm_device {
	struct ripc__host host;
	struct shm_admission admission;
	uint64_t ring_bytes, ring_bytes_max; /* of rings that we own */
	struct ripc__map keys;    /* struct shm_key */
	uint32_t n_exports;       /* partners that may read */
};

#define SHM_KEYS   64u /* ranges that one partner may read at once */
#define SHM_SLABS  64u /* of our memory that one partner has mapped */
#define SHM_READS  64u /* reads in progress */

/* The ranges that an owner lets one partner read. Only the owner writes the table. One page. */
struct shm_table {
	struct shm_entry {
		_Atomic uint64_t key; /* 0: nothing; changes before the range may change */
		uint64_t slab; /* serial << 8 | index: SLAB messages are counted at both ends */
		uint64_t offset, len; /* in it */
	} entries[SHM_KEYS];
};

#define SHM_TABLE_LEN 4096u

/*
 * The key of the same entry: the partner has that range mapped. 0, or one of the numbers below:
 * the partner has released it. Only the partner writes claims. One page.
 */
struct shm_claims {
	_Atomic uint64_t keys[SHM_KEYS];
};

#define SHM_KEY_LEAST 4u /* the numbers of keys begin here, so that none below is 0 */

/* The partner has shown the memory to others, and none reads it any more. */
static inline uint64_t shm_claim_passed(uint64_t key)
{
	return key ^ 1;
}

/* The same, but others may still read it. They have leases (util/system/locks.h). */
static inline uint64_t shm_claim_left(uint64_t key)
{
	return key ^ 2;
}

#define SHM_CLAIMS_LEN 4096u

/* The owner's side, for one partner. */
struct shm_exports {
	struct shm_table *table;
	struct shm_claims *claims;
	int claims_fd;                      /* its lock shows whether the partner lives */
	bool is_pledged;                    /* our lock shows whether we live */
	uint32_t n_handed;                  /* keys that the partner has mapped */
	uint64_t used;                      /* bit i: entry i is open, or mapped */
	struct {
		struct ripc__shared memory; /* id 0: none */
		uint32_t n_keys;            /* entries in use */
		uint64_t serial;
	} slabs[SHM_SLABS];
	uint32_t next_slab;
	uint64_t last_serial;
};

/* A key: open (by its number in dev->keys), or handed over and mapped by the partner. */
struct shm_key {
	struct shm_out *out; /* NULL: the link has ended, and the open key with it */
	uint32_t index;      /* in its table */
	uint64_t number;
	struct shm_import *import; /* the owner's memory; NULL: ours, */
	struct ripc__shared memory; /* which is this */
	struct list node;    /* port->handed */
	uint64_t cookie;
	bool ended;          /* mapped when the link ended */
	bool lingers;        /* ours, released, and others may still read it */
};

/* A slab of another's, mapped as far as it is filled. */
struct shm_import {
	void *memory;
	size_t len, file_len;
	uint64_t serial;
	uint32_t refs; /* of its slot, of grips, and of keys that we gave on */
	uint32_t n_grips, n_keys; /* of those */
	struct shm_imports *imports; /* counts there; NULL: the link has ended */
	int fd;        /* to give it on; -1: it is not kept */
	bool is_lease; /* fd is a lease, which keeps the memory as it is */
	bool passed;   /* given on once, so in port->passed */
	bool left;     /* a process that got it from us has not released it, or may not have */
	struct list node; /* port->passed */
	uint64_t id;   /* its ID when shown to others; 0: not shown, or not any more */
};

/* The reader's side, for one owner. */
struct shm_imports {
	struct shm_table *table;   /* NULL: not yet */
	struct shm_claims *claims; /* the same */
	int claims_fd;             /* while there are claims: we have it locked */
	struct shm_import *slabs[SHM_SLABS]; /* NULL: none */
	uint64_t last_serial;
	uint64_t bytes;            /* of its mapped slabs, even if only by grips */
	uint32_t n_mapped;
	uint32_t n_leases;         /* of those: memory that the partner itself was given */
};

/* A range of another's that core has mapped. */
struct shm_grip {
	struct list node;   /* port->grips */
	struct shm_in *in;  /* NULL: the link has ended */
	struct shm_import *import;
	struct ripc__key key;
};

/* A read in progress. */
struct shm_read {
	struct shm_in *from; /* NULL: not found yet */
	uint8_t name[SHM_NAME_LEN]; /* the owner's */
	struct ripc__key key;
	uint64_t offset, cookie;
	uint8_t *to;
	size_t len, done;
	int status;
	uint32_t looks; /* looks at the sockets for the key's memory */
};

enum shm_watched { SHM_LISTENER, SHM_BELL, SHM_CLOCK, SHM_IN, SHM_OUT };

/* A descriptor in the port's epoll set. */
struct shm_watch {
	enum shm_watched kind;
	int fd; /* -1: closed */
};

enum shm_share { SHM_SHARE_INS, SHM_SHARE_RINGS, SHM_SHARES };

/* A process that has connected to us, or a user. */
struct shm_holder {
	uint64_t key; /* in port->holders */
	uint32_t held[SHM_SHARES];
};

/* How a sender's datagrams arrive. */
enum shm_way {
	SHM_BY_SOCKET, /* there is no ring, or it is not used yet */
	SHM_OFFERED, /* a ring was offered, and nothing arrived by the socket since */
	SHM_BY_RING,
};

/* A link from a sender to us. */
struct shm_in {
	struct shm_watch watch;
	struct list node;         /* port->ins */
	struct list end;          /* port->ended, once nothing more can arrive over its socket */
	uint32_t head_at_end;     /* of its ring, then */
	struct ripc__addr from;   /* as the sender claims; len 0: it has not sent hello */
	uint32_t index;           /* in port->rings */
	struct shm_holder *process, *user; /* owners; user NULL: ours, or as good as process */
	uint32_t n_strikes;       /* of the clock: without hello; and since a ring was offered */
	uint32_t n_early;         /* datagrams that arrived over its socket */
	uint32_t greeted_at;      /* port->polls when it sent hello */
	bool owed;                /* since then, until a ring for it was first tried */
	uint32_t offer_at;        /* n_early: then a ring is tried in any case; 0: never */
	uint32_t n_tries;         /* tries without a ring */
	struct shm_ring_in ring;
	enum shm_way way;
	struct shm_imports *imports; /* NULL: none */
};

enum shm_out_state {
	SHM_IDLE,   /* not connected (any more) */
	SHM_EARLY,  /* connected, no ring yet */
	SHM_LINKED,
	SHM_DEAD,   /* the receiver is gone, or refuses us */
};

/* A link from us to a receiver, shared by all routes that lead there. */
struct shm_out {
	struct shm_watch watch;
	enum shm_out_state state;
	struct shm_out *next;     /* another whose name begins alike */
	uint8_t name[SHM_NAME_LEN];
	uint32_t refs;
	uint32_t index;           /* of our ring there */
	uint32_t rung;            /* the sleep that we have ended */
	struct shm_ring_out *ring;
	const struct shm_board *board;
	struct shm_bits *bits;
	uid_t uid;                /* the receiver's */
	int why;                  /* SHM_DEAD: the error of send */
	uint32_t n_turned_away;   /* links in a row that the receiver has closed at once */
	bool is_self;             /* the receiver is in this process */
	struct shm_port *port;    /* ours */
	struct shm_exports *exports; /* NULL: none */
};

/* why: the error of send from now on, a negative errno. */
static inline void shm_out_die(struct shm_out *out, int why)
{
	out->state = SHM_DEAD;
	out->why = why;
}

struct shm_port {
	struct shm_device dev;
	uint8_t name[SHM_NAME_LEN];
	struct shm_watch listener, bell; /* bell: an eventfd for wake() */
	struct shm_watch clock;     /* export.c */
	bool clock_runs;
	uint32_t clock_ms;          /* until its next strike, from the last one on */
	int epoll_fd, board_fd, bits_fd;
	int spare_fd;               /* used when there are no others; -1: none */
	struct shm_board *board;
	struct shm_bits *bits;
	struct ripc__buffers *buffers;
	struct ripc__map outs;      /* struct shm_out by the first 8 bytes of the name */
	struct shm_in *rings[SHM_RINGS_MAX]; /* NULL: free */
	uint32_t n_rings;           /* all in use are below this index */
	uint32_t first;             /* where the next poll begins */
	uint64_t todo[SHM_RINGS_MAX / 64]; /* rings that were not emptied */
	/*
	 * Links, in and out, on whose sockets datagrams or a ring may arrive; n_offered of them
	 * are SHM_OFFERED. n_ring_links: the other ones in, SHM_BY_RING. wait() reads the atomic
	 * ones without the lock.
	 */
	_Atomic uint32_t n_socket_links;
	_Atomic uint32_t n_ring_links;
	uint32_t n_offered;
	uint32_t n_ins;
	uint32_t n_silent;          /* of those: have not sent hello */
	struct ripc__map holders;   /* struct shm_holder: the processes that hold any of those */
	uint32_t n_owed;            /* of those: owed */
	struct list ins;            /* struct shm_in */
	struct list ended;          /* of those: without a socket */
	struct list handed;         /* struct shm_key: mapped by partners */
	struct ripc__mutex handed_lock; /* of that list: wait() reads it, too */
	struct list grips;          /* struct shm_grip */
	struct list passed;         /* struct shm_import: given on, and still there */
	uint64_t last_passed_id;
	uint64_t import_bytes;      /* of all slabs that are mapped */
	uint32_t n_imports;
	uint32_t n_kept;            /* descriptors of those */
	uint32_t n_leases;          /* of those, as long as the link lasts */
	uint32_t polls, idle_polls;
	bool look;                  /* the sockets may have something */
	bool look_all;              /* at the sockets, until they have nothing */
	bool freed;                 /* handed memory may just have been freed */
	bool untrimmed;             /* a partner was not notified of some: again by the clock */
	bool look_leases;           /* look at lingering memory, once */
	struct timespec looked;     /* coarse; when they were last looked at */
	_Atomic bool woken;
	bool armed;                 /* and not polled since */
	bool roused;                /* a wake-up was taken that a sleeper may have missed: rearm */
	uint32_t first_read, n_reads;  /* a ring */
	struct shm_read reads[SHM_READS];
};

struct shm_route {
	struct shm_out *out;
};

/* shm.c */
void ripc__shm_addr_fill(const struct shm_port *port, const uint8_t name[SHM_NAME_LEN],
		struct ripc__addr *addr);

/* socket.c: the only place that knows sockets and what goes over them */
struct shm_ring_offer {
	uint32_t index;
	int ring_fd, board_fd, bits_fd;
};
enum shm_message {
	SHM_NOTHING, SHM_HELLO = 1, SHM_RING, SHM_DATAGRAM, SHM_WAKE, SHM_TABLE, SHM_SLAB,
	SHM_CLAIMS, SHM_REFUSED, SHM_PASSED,
};

/* Does the message bring memory to be read? */
static inline bool shm_brings_memory(int message)
{
	return message == SHM_TABLE || message == SHM_SLAB || message == SHM_CLAIMS ||
		message == SHM_PASSED;
}

/* The details of a sender's message beside its bytes. */
struct shm_received {
	uint32_t len, number;
	int fd; /* the caller's; -1: none, or we could not get it */
};
/* Opens a listening socket with this name, or with any that is free if it is NULL. */
int ripc__shm_listen(const uint8_t name[SHM_NAME_LEN]);
/* -EAGAIN: too many wait to be accepted. Sends hello. */
int ripc__shm_connect(const uint8_t to[SHM_NAME_LEN], const uint8_t own[SHM_NAME_LEN]);
/* The process at the other end: 0 in another PID namespace; its user and its first group. */
int ripc__shm_who(int fd, struct ucred *who);
/* Is this process at the other end, too? */
bool ripc__shm_is_self(int fd);
/* 0, -EAGAIN, or another error that ends the connection. */
int ripc__shm_send_datagram(int fd, const struct ripc__tx *tx);
int ripc__shm_send_offer(int fd, const struct shm_ring_offer *offer);
/*
 * SHM_WAKE or SHM_REFUSED. 0; or an error: if the socket is full or ended, the receiver wakes for
 * that.
 */
int ripc__shm_send_head(int fd, enum shm_message type);
/* SHM_TABLE, SHM_SLAB, SHM_CLAIMS and SHM_PASSED, with a descriptor unless it is -1. */
int ripc__shm_send_memory(int fd, enum shm_message type, uint32_t number, uint64_t len,
		int memory_fd);
/*
 * Receives a message of a sender: enum shm_message, and its bytes (RIPC_DATAGRAM_MAX of them);
 * SHM_NOTHING: nothing more now. -ECONNRESET: the connection ended; -EBADMSG: nonsense.
 */
int ripc__shm_receive(int fd, uint8_t *bytes, struct shm_received *received);
/* The type of the next message, SHM_NOTHING if there is none. */
int ripc__shm_next(int fd);
/*
 * Receives a message of a receiver: SHM_NOTHING, SHM_RING (its descriptors are ours), -EMFILE
 * (we could not get its descriptors), SHM_REFUSED (the receiver does not admit us), or as above.
 */
int ripc__shm_receive_offer(int fd, struct shm_ring_offer *offer);
int ripc__shm_watch(struct shm_port *port, struct shm_watch *watch);
void ripc__shm_unwatch(struct shm_port *port, struct shm_watch *watch);

/* share.c */
/* -EINVAL: an option is wrong, which is logged. */
int ripc__shm_admission_read(const struct ripc__host *host, struct shm_admission *admission);
/* May the process at the other end of the socket, who, share memory with ours? */
bool ripc__shm_admits(const struct shm_admission *admission, int fd, const struct ucred *who);

/* out.c */
int ripc__shm_route_open(void *port, void *route, const struct ripc__addr *addr);
void ripc__shm_route_close(void *port, void *route);
void ripc__shm_where(void *port, const void *route, struct ripc__where *where);
uint32_t ripc__shm_route_mtu(void *port, void *route);
bool ripc__shm_route_matches(void *port, const void *route, const struct ripc__addr *from);
int ripc__shm_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n);
/* Connects if need be. 0, or the reason why nothing can be sent over the socket now. */
int ripc__shm_out_connect(struct shm_port *port, struct shm_out *out);
/* Wakes the receiver of this name, if it sleeps and we have a ring there. */
void ripc__shm_out_rouse(struct shm_port *port, const uint8_t name[SHM_NAME_LEN]);
/* A message of the receiver has arrived. */
void ripc__shm_out_input(struct shm_port *port, struct shm_out *out);
/* Closes and unmaps all of the link: it can be freed, or connected again. */
void ripc__shm_out_cut(struct shm_port *port, struct shm_out *out);

/* in.c */
void ripc__shm_accept(struct shm_port *port);
/* Takes up to n datagrams from the link's socket. Sets port->look if there may be more. */
uint32_t ripc__shm_in_input(struct shm_port *port, struct shm_in *in, struct ripc__event *events,
		uint32_t n);
/* The same from the link's ring, which has datagrams. */
uint32_t ripc__shm_in_take(struct shm_port *port, struct shm_in *in, struct ripc__event *events,
		uint32_t n);
/* Takes the memory that the sender has sent for reading, as far as no datagram is before it. */
void ripc__shm_in_memory(struct shm_port *port, struct shm_in *in);
/*
 * Offers rings to senders that are owed one, unless they have just connected. Called when
 * nothing else is to be done: making a ring takes longer (0.2 ms) than answering a new sender's
 * request.
 */
void ripc__shm_offer_owed(struct shm_port *port);
/* Has the link datagrams left that were sent before its end? */
bool ripc__shm_in_lasts(const struct shm_in *in);
void ripc__shm_in_free(struct shm_port *port, struct shm_in *in);

/*
 * Called by each strike of the clock. A link without a hello is closed after a second. A sender
 * that was offered a ring and has sent nothing over the socket for a second counts as one that
 * uses the ring.
 */
void ripc__shm_ins_strike(struct shm_port *port);

/* share.c */
/* Counts a connection for who; -EUSERS, -EMFILE: it would be one too many. */
int ripc__shm_share_enter(struct shm_port *port, struct shm_in *in, const struct ucred *who);
void ripc__shm_share_leave(struct shm_port *port, struct shm_in *in);
/* May the process have one more? */
bool ripc__shm_share_left(const struct shm_port *port, const struct shm_in *in,
		enum shm_share share);
void ripc__shm_share_take(struct shm_in *in, enum shm_share share, int amount);
/* May the port keep this descriptor, which is not necessary? */
bool ripc__shm_may_keep(const struct shm_port *port, int fd);

/* export.c */
/* From now on the clock checks holders, and the links of ins_strike, as long as there are any. */
void ripc__shm_clock_start(struct shm_port *port);
/* Ends the links to dead processes. After ripc__shm_ins_strike(). */
void ripc__shm_clock_strike(struct shm_port *port);

/* export.c: our memory for others */
int ripc__shm_mem_open(void *port, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key);
int ripc__shm_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);
/* Is any handed key not mapped any more? Also without core's lock. */
bool ripc__shm_any_home(struct shm_port *port);
/* Fills in the events of these keys, up to n. */
uint32_t ripc__shm_come_home(struct shm_port *port, struct ripc__event *events, uint32_t n);
/* The port closes: handed keys are forgotten. */
void ripc__shm_handed_free(struct shm_port *port);
/* The links have ended: no partner can use the keys that are still open. */
void ripc__shm_keys_free(struct shm_port *port);
/* The link ends: so do its keys. */
void ripc__shm_exports_end(struct shm_out *out);
/* Notifies the partner of memory that is gone: its mapping must not stay. */
void ripc__shm_exports_trim(struct shm_out *out);
/* Our memory, shown to partners, that is this file; NULL: none. */
const struct ripc__shared *ripc__shm_exported(struct shm_port *port, int fd);

/* import.c: others' memory for us */
int ripc__shm_read(void *port, void *route, const struct ripc__move *move);
int ripc__shm_map(void *port, void *route, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping);
void ripc__shm_unmap(void *port, void *handle);
/* Goes on with reads, for a while; fills in up to n events. */
uint32_t ripc__shm_read_step(struct shm_port *port, struct ripc__event *events, uint32_t n);
/*
 * A message that brings memory arrived. False: the message makes no sense. Closes the
 * descriptor. If we lack the means, the memory counts as missing, and its bytes will be sent.
 */
bool ripc__shm_import(struct shm_port *port, struct shm_in *in, enum shm_message type,
		const uint8_t *bytes, const struct shm_received *received);
/* The link is freed: reads from it end. */
void ripc__shm_imports_end(struct shm_port *port, struct shm_in *in);

/* export.c: others' memory that we have mapped, for still others */
void ripc__shm_import_put(struct shm_port *port, struct shm_import *import);
/* The link over which the memory came ends. */
void ripc__shm_import_detach(struct shm_port *port, struct shm_import *import);

/* wait.c */
int ripc__shm_wait_arm(void *port);
void ripc__shm_wait(void *port);
void ripc__shm_wake(void *port);
/* For a poll that has taken a wake-up on the sockets, or the bell: a sleeper may have missed it. */
void ripc__shm_rearm(struct shm_port *port);

/* wait.c */
/*
 * Threads that one wake-up wakes: every process that may write the word can sleep on it, and
 * consume the wake-up.
 */
#define SHM_SLEEPERS 16
/* Called by a sender after its datagrams: wakes the receiver if it sleeps. */
void ripc__shm_rouse(struct shm_out *out);

#endif
