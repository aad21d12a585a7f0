/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a backend (a network), and between the core and a
 * resolver source. A backend is a constant table of functions. Core allocates the state that
 * the table asks for (zeroed) and hands it back on every call: a port for each context, a route
 * for each partner.
 *
 * Rules for all slots:
 *  - Core calls the slots of one port from one thread at a time, as it holds the context's lock.
 *    Only release and probe are called by any thread at any time. A thread that sleeps on the
 *    port's descriptor, or in wait, holds no lock, and others call other slots meanwhile.
 *  - A backend never calls back into core, except through struct ripc__host.
 *  - The hot slots (send, poll, release, move) never block, allocate, log or lock.
 *  - A slot returns 0 or a count, or a negative errno. On failure its outputs are untouched.
 *  - A backend believes nothing that arrives. It hands over bytes with their true length and the
 *    address they came from; core parses them.
 */
#ifndef RIPC_BACKEND_H
#define RIPC_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/memory/pool.h"

#define RIPC_ADDR_MAX   64 /* an address blob as it travels in resolver records, bytes */
#define RIPC_BLOB_MAX   104 /* the same of a sealed network */
#define RIPC_IOV_MAX    72 /* iovecs of one datagram: header and RIPC_ITEMS_MAX items */
#define RIPC_EVENTS_MAX 64 /* events that core asks one poll for */
#define RIPC_DATAGRAM_MAX 65536 /* bytes of the longest datagram of any network */

/* Services of core for backends and sources, from open to close. */
struct ripc__host {
	void *arg;
	void (*log)(void *arg, int level, const char *format, ...)
		__attribute__((format(printf, 3, 4)));
	/* The value of "name" in ripc_config.options ("udp.rcvbuf"), or NULL. */
	const char *(*option)(void *arg, const char *name);
	const char *interfaces; /* ripc_config.interfaces or NULL */
	const char *peers;      /* ripc_config.peers or NULL */
	uint64_t context;       /* the context's incarnation */
	uint64_t memory;        /* bytes that there are for this host's processes; 0: unknown */
	uint64_t identity;      /* of boot and network namespace; 0: unknown */
	uint64_t life;          /* from source.life, for sources that are opened later */
	void *env;              /* struct ripc__env.arg: the simulator's world */
	/*
	 * Finds the shared memory that [mem, mem + len) lies in; from now on the backend may show
	 * it to a reader (struct ripc__where; 0: to any). -EINVAL: the memory is the
	 * application's alone. is_shared tells whether that memory still exists. NULL: nothing
	 * can be shown.
	 */
	int (*share)(void *arg, const void *mem, size_t len, uint64_t reader,
			struct ripc__shared *shared);
	bool (*is_shared)(void *arg, const struct ripc__shared *shared);
	/*
	 * A reader has shown this memory, which share has found, to others. NULL: core does not
	 * want to hear.
	 */
	void (*spread)(void *arg, const struct ripc__shared *shared);
	/*
	 * A source says from its poll or look that the kernel has told of the end of this context.
	 * 0: an end may be near, look soon. NULL: core does not want to hear.
	 */
	void (*gone)(void *arg, uint64_t context);
	/*
	 * With RIPC_CAP_LAZY: gives pages to memory that a read is about to fill. -ENOMEM: the
	 * system has none, and writing there might end the program. NULL: all memory has pages.
	 */
	int (*fault)(void *arg, const void *mem, size_t len);
	/*
	 * Brings the page that other processes of the user may see (ripc/page.h) up to date.
	 * Returns its descriptor, which stays core's, or a negative errno. NULL: there is none.
	 */
	int (*page)(void *arg);
};

/* The address a datagram came from or goes to: all that the backend needs for an answer. */
struct ripc__addr {
	uint8_t host[16]; /* the IPv6 or v4-mapped address; within one host 127.0.0.1; or zero */
	uint8_t len;      /* of blob; 0: no address */
	uint8_t blob[RIPC_ADDR_MAX];
};

enum ripc__cap {
	RIPC_CAP_RELIABLE = 1,   /* datagrams are not lost while the partner lives */
	RIPC_CAP_READ = 2,       /* move can read the partner's memory */
	RIPC_CAP_WRITE = 4,      /* move can write it */
	RIPC_CAP_REGISTERED = 8, /* memory must be registered (mem.reg) before it is moved */
	RIPC_CAP_INTACT = 16,    /* no byte is altered on the way: datagrams go without checksum */
	RIPC_CAP_MAP = 32,       /* opened memory can be mapped: RIPC_CLOSE_HAND, map, unmap work */
	RIPC_CAP_SIZED = 64,     /* the network loses no datagram for its length (route.mtu) */
	RIPC_CAP_LAZY = 128,     /* a read gives pages to the memory it fills (host->fault) */
	RIPC_CAP_DUBIOUS = 256,  /* a read or write may end well and not have moved all bytes */
};

/* Abilities and limits of a port. Filled by open. */
struct ripc__attr {
	uint32_t caps;           /* enum ripc__cap */
	int fd;                  /* readable when poll may have something, once armed; the same for
	                            the life of the port; -1: none, core looks every tick (10 ms) */
	uint32_t receive_buffer; /* bytes in flight to us from all, at most; 0: any number */
	uint32_t peer_buffer;    /* the same from one peer */
	uint32_t datagram_overhead; /* of receive_buffer that each datagram takes, bytes */
	uint32_t read_max;       /* bytes that one move takes at most; 0: any number */
};

/* Have reads and writes moved what was there? Else core checksums the whole. */
static inline bool ripc__moves_intact(const struct ripc__attr *attr)
{
	return (attr->caps & (RIPC_CAP_INTACT | RIPC_CAP_DUBIOUS)) == RIPC_CAP_INTACT;
}

/* Counted since the last call. */
struct ripc__net_stats {
	uint32_t overflows; /* datagrams that kernel or device dropped for want of room */
	uint32_t fallbacks; /* times that offload had to be left */
};

/* Where a route leads. */
struct ripc__where {
	struct ripc__addr addr;
	uint64_t reader; /* the process that reads what is shown there, and sends what comes from
	                    there; a number; 0: not known */
};

/* One datagram to send: a header and pieces, iov[0..n_iov). */
struct ripc__tx {
	const struct iovec *iov;
	uint32_t n_iov;
	uint32_t len; /* sum of the iovecs, bytes */
};

enum ripc__event_kind {
	RIPC_EV_DATAGRAM = 1, /* data, len, from; core calls release(handle) when done with it */
	RIPC_EV_MANY,         /* the same for a datagram that was sent to many (many.hear) */
	RIPC_EV_READ,         /* a read has ended: cookie, status */
	RIPC_EV_WRITE,        /* a write has ended: cookie, status */
	RIPC_EV_PEER,         /* route.open that returned -EINPROGRESS has ended: peer, from (its
	                         address), status; or a route takes again what send did not take:
	                         from, 0 */
	RIPC_EV_HINT,         /* nobody seems to listen at this address: from. The hint may be a
	                         lie; data, len: the first bytes of a datagram that was sent there,
	                         as the hint quotes them; or NULL: the network knows that it sent
	                         what the hint quotes */
	RIPC_EV_FENCED,       /* nobody can reach the memory of the closed key any more: cookie */
};

struct ripc__event {
	enum ripc__event_kind kind;
	int status;                    /* 0 or a negative errno */
	uint64_t cookie;
	void *peer;                    /* where the route was when route.open was called */
	const uint8_t *data;           /* valid until release; of a hint, until the next poll */
	uint32_t len;
	bool is_old;                   /* sealed by a session that a newer one has replaced */
	void *handle;                  /* for release */
	const struct ripc__addr *from; /* valid until the next poll */
};

/* The key of an opened memory range as it travels to the partner. */
struct ripc__key {
	uint64_t address, key;
};

/* How a key is closed. */
enum ripc__closing {
	RIPC_CLOSE_DONE,   /* the partner has said that it is done with the memory */
	RIPC_CLOSE_REVOKE, /* the partner has not, and may be moving bytes just now */
	RIPC_CLOSE_HAND,   /* with RIPC_CAP_MAP: what the partner has mapped stays there */
};

/* One read or write: len bytes between our memory and a range that the partner has opened. */
struct ripc__move {
	struct ripc__key key;
	uint64_t offset; /* in the range of the key */
	void *mem;       /* ours; a write does not change it */
	size_t len;
	void *region;    /* of mem.reg, for this partner, with all of mem in it; or NULL */
	uint64_t cookie; /* of the event that ends it */
	bool writes;     /* to the partner's memory; else it reads from there */
};

/* A partner's memory as we see it, for reading only. */
struct ripc__mapping {
	void *mem;       /* the range of the key */
	void *base;      /* mem lies in [base, base + base_len); other keys show other parts */
	size_t base_len;
	void *handle;    /* for unmap; NULL: mem lies in a buffer of our own that has come back, and
	                    unmap is not called. Core takes a reference to it at once */
};

/*
 * The IPv4 multicast address by which a number of "many" is heard, in the host's byte order:
 * 239.255.0.0 to 239.255.255.255, the local scope of RFC 2365. Different numbers may share one.
 */
static inline uint32_t ripc__many_address(uint64_t number)
{
	number ^= number >> 32;
	number ^= number >> 16;
	return 0xefff0000u | (uint32_t)(number & 0xffff);
}

/* ---- options ----------------------------------------------------------------------------- */

enum ripc__option_kind {
	RIPC_NUMBER, /* from min to max; a uint32_t */
	RIPC_SWITCH, /* on or off; a bool */
	RIPC_THIRD,  /* a switch; a uint32_t: 0, 1, or its default where it is not configured */
	RIPC_WORD,   /* a const char *; the part that reads the option knows what it takes */
};

/* An option; a list of them ends with {0}. */
struct ripc__option {
	const char *name;
	enum ripc__option_kind kind;
	uint32_t min, max;
	size_t at; /* where its value goes in the structure that ripc__options_read() fills */
};

/* ---- backends ---------------------------------------------------------------------------- */

struct ripc__backend {
	const char *name; /* as in ripc_config.backends; at most 15 characters */
	uint8_t id;       /* the number that stands for it in records (docs/protocol.md) */
	size_t port_size; /* state of one context, bytes, */
	size_t route_size; /* and of one partner: at most 256, which core may move in memory */
	/*
	 * A context with keys may use the backend: core seals each datagram (keys/sealed.h), and
	 * unseals it where poll hands it up, so these bytes are core's to alter until release. The
	 * backend has route.where, and its release uses no port.
	 */
	bool is_sealable;

	/* The network as a whole. */
	struct {
		/*
		 * Can the backend run here? Has no side effect. Writes one sentence into why (what
		 * was found, or why not) and one into remedy ("" if none is needed). 0 or a
		 * negative errno.
		 */
		int (*probe)(const struct ripc__host *host, char why[256], char remedy[256]);
		/* Takes the device and opens the port. May block briefly. Fills attr. */
		int (*open)(void *port, const struct ripc__host *host, struct ripc__attr *attr);
		/*
		 * Closes the port with all keys, regions and mappings: afterwards nobody reaches
		 * anything, and no read or write goes on. Buffers that are still held stay valid
		 * until released. Never blocks long.
		 */
		void (*close)(void *port);
		/*
		 * Our address for the resolver's record, at most RIPC_ADDR_MAX bytes. Returns its
		 * length, or an error if there is none any more. Asked for each record.
		 */
		int (*address)(void *port, uint8_t blob[RIPC_ADDR_MAX]);
		/*
		 * Called before a thread sleeps on attr.fd. -EAGAIN: something came in meanwhile,
		 * poll again. NULL: needs no arming.
		 */
		int (*arm)(void *port);
		/*
		 * A cheaper sleep where the port is all there is to sleep on; NULL: there is none.
		 * Returns when poll has something, when wake is called, or after about 100 ms at
		 * the latest. One thread at a time calls wait, without the lock. Meanwhile core
		 * calls neither poll, move (to read) nor arm of the port; all others, under the
		 * lock, as ever.
		 */
		void (*wait)(void *port);
		void (*wake)(void *port);
		/* Counts since the last call; NULL: the backend counts nothing. */
		void (*stats)(void *port, struct ripc__net_stats *stats);
	} net;

	/* Addresses, and the ways to them. */
	struct {
		/*
		 * Turns a blob of a record into the address of a partner. host: where the
		 * resolver's answer came from (zero: unknown), for backends that speak IP.
		 */
		int (*choose)(void *port, const uint8_t *blob, size_t len,
				const uint8_t host[16], struct ripc__addr *addr);
		/* An address in words, for people. */
		void (*text)(const struct ripc__addr *addr, char text[64]);
		/*
		 * Makes a route to an address (of choose or of an event). 0: ready. -EINPROGRESS:
		 * RIPC_EV_PEER follows, with the address; until then core sends at most an answer
		 * to a stranger, which the backend keeps until there is a way, or does not take.
		 */
		int (*open)(void *port, void *route, const struct ripc__addr *addr);
		/*
		 * Frees what open took. Never blocks. After it RIPC_EV_PEER need not follow;
		 * RIPC_EV_READ still does.
		 */
		void (*close)(void *port, void *route);
		/* NULL: not known. */
		void (*where)(void *port, const void *route, struct ripc__where *where);
		/* The longest datagram that the route takes now, bytes. */
		uint32_t (*mtu)(void *port, void *route);
		/* Does a datagram from this address come from where the route leads? Hot. */
		bool (*matches)(void *port, const void *route, const struct ripc__addr *from);
	} route;

	struct {
		/*
		 * Hot. Posts n datagrams to one partner, in order, the more at once the better.
		 * Returns how many were taken; the bytes are the caller's again. 0: the network
		 * takes no more now; where that may last longer than the repetition of a datagram,
		 * RIPC_EV_PEER follows. -EMSGSIZE: the first one is too long for the route (mtu has
		 * shrunk accordingly). -ECONNRESET: the route leads nowhere any more; core looks
		 * for another one. -EACCES: the same, as the partner is another user's. Other
		 * errors: the first one could not be sent.
		 */
		int (*send)(void *port, void *route, const struct ripc__tx *tx, uint32_t n);
		/*
		 * Hot. Up to n events; 0: nothing there. all: this poll and those that follow,
		 * until one finds nothing, look wherever something may have come, though seldom.
		 */
		int (*poll)(void *port, struct ripc__event *events, uint32_t n, bool all);
		/*
		 * Hot. Gives a received datagram's buffer back. Called by any thread, in any
		 * order, also after close: port may be gone.
		 */
		void (*release)(void *port, void *handle);
	} datagrams;

	/* One datagram to many partners. All NULL: each datagram has one receiver. */
	struct {
		/*
		 * Makes a route by which send reaches all who hear the number where a partner
		 * lives, whose route is given: on its segment or subnet, but not on this host. An
		 * error: one datagram cannot reach others there. route.close and mtu take it as
		 * any route.
		 */
		int (*open)(void *port, void *route, const void *partner, uint64_t number);
		/*
		 * From now on poll hands over what is sent to the number where this partner, whose
		 * route is given, lives, and perhaps to others: RIPC_EV_MANY. Called again for the
		 * same it does nothing. An error: nothing can be heard there.
		 */
		int (*hear)(void *port, const void *partner, uint64_t number);
		/* The number is not heard any more, wherever that was. */
		void (*ignore)(void *port, uint64_t number);
		/*
		 * A second descriptor that is readable when poll may have something; -1: there is
		 * none before hear has opened it; from then on the same. NULL: attr.fd is enough.
		 */
		int (*fd)(void *port);
	} many;

	/* Our memory, for reads and writes. NULL without RIPC_CAP_READ and RIPC_CAP_WRITE. */
	struct {
		/*
		 * Registers memory before reads from this partner go into it, or (source) writes
		 * to it come from there; a source may be memory that cannot be written to. Only
		 * called with RIPC_CAP_REGISTERED. (open registers by itself what it opens.)
		 */
		int (*reg)(void *port, void *route, void *mem, size_t len, bool source,
				void **region);
		void (*dereg)(void *port, void *region);
		/* Lets one partner reach one range, for reading or for writing. */
		int (*open)(void *port, void *route, void *mem, size_t len, bool writable,
				struct ripc__key *key);
		/*
		 * Closes a key. 0: nobody can reach the range any more. -EINPROGRESS:
		 * RIPC_EV_FENCED with the cookie follows, always and soon, as sends wait for it.
		 * RIPC_CLOSE_HAND: 0 where the partner has mapped nothing by this key; else the
		 * event follows when the partner has unmapped it or is gone, however long that
		 * takes.
		 */
		int (*close)(void *port, const struct ripc__key *key, enum ripc__closing how,
				uint64_t cookie);
	} mem;

	/* The partner's memory, as far as the partner has opened it. */
	struct {
		/*
		 * Hot. Begins a read or write; RIPC_EV_READ or _WRITE with the cookie follows.
		 * -EAGAIN: too many are in progress. The event always follows, in bounded time
		 * whatever becomes of the partner: calls wait for it, as our memory is in use until
		 * then. After close no event follows. The bytes of a write that has ended well are
		 * there when a datagram arrives that was sent afterwards.
		 */
		int (*move)(void *port, void *route, const struct ripc__move *move);
		/*
		 * With RIPC_CAP_MAP. Shows us the first len bytes that a key of this partner opens:
		 * they stay, whatever becomes of the partner, until unmap or close. Any error: the
		 * bytes cannot be shown, or not now; they can be read instead. Does not wait.
		 */
		int (*map)(void *port, void *route, const struct ripc__key *key, size_t len,
				struct ripc__mapping *mapping);
		void (*unmap)(void *port, void *handle);
	} remote;
};

/* ---- resolver sources -------------------------------------------------------------------- */

enum ripc__source_kind {
	RIPC_SOURCE_DATAGRAM, /* of the resolver, came in; reply addresses its sender again */
	/* Statements of an exact source about an ID: id, status, incarnation, holder. */
	RIPC_SOURCE_PUBLISHED,   /* publish that returned -EINPROGRESS has ended: status */
	RIPC_SOURCE_NOBODY,      /* nobody has the ID that was asked for */
	RIPC_SOURCE_HELD,        /* somebody has it, and is asked */
	RIPC_SOURCE_LOST,        /* an ID that was published here is somebody else's now */
	RIPC_SOURCE_HINT,        /* an ID that was asked for once has another holder; 0: perhaps */
	RIPC_SOURCE_REHOMED,     /* interfaces or addresses of this host have changed; of no ID */
	RIPC_SOURCE_UNAVAILABLE, /* nothing can be said or done now; publish goes on trying */
};

struct ripc__source_event {
	enum ripc__source_kind kind;
	int status;            /* PUBLISHED: 0 or a negative errno */
	uint64_t id;           /* 0 in a DATAGRAM, which says itself what it is about */
	uint64_t incarnation;  /* of who has the ID; 0: not known */
	uint64_t holder;       /* its context, if its end can be proven here (life); else 0 */
	const uint8_t *data;   /* valid until the next poll of this source */
	uint32_t len;
	uint8_t host[16];      /* IP address it came from, v4-mapped; loopback for local sources */
	struct ripc__addr reply;
	bool local;            /* came from this host and network namespace, certainly */
	bool group;            /* was sent to many: others on this host have got it too */
	uint16_t peer;         /* which of n_peers hosts it came from, from 1; 0: none */
};

enum ripc__naming { RIPC_NAME_FIRST, RIPC_NAME_DISPLACE, RIPC_NAME_PRIVATE };

/*
 * A resolver source carries the resolver's datagrams (questions, answers, notices) without reading
 * them. An exact source also knows the holder of each ID, on all hosts: its word is enough where no
 * other source is asked. There is at most one exact source. Rules as above.
 */
struct ripc__source {
	const char *name; /* "local", "multicast", "static", "store" */
	size_t size;      /* state that core allocates, bytes */
	bool exact;

	int (*probe)(const struct ripc__host *host, char why[256], char remedy[256]);
	int (*open)(void *source, const struct ripc__host *host);
	void (*close)(void *source);

	/*
	 * Makes an ID that lives here reachable through this source. 0; -EADDRINUSE: the name is
	 * held by somebody (who may be dead: core asks, then calls again with RIPC_NAME_DISPLACE).
	 * A private ID's name is never displaced. NULL: nothing to do per ID. An exact source
	 * returns -EINPROGRESS: RIPC_SOURCE_PUBLISHED follows, unless withdraw comes before;
	 * RIPC_NAME_DISPLACE: the holder that the source last told of has been proven to have
	 * ended. A published ID stays published until withdraw or LOST, whatever becomes of the
	 * connection. incarnation: of the service; 0 where the source is not exact.
	 */
	int (*publish)(void *source, uint64_t id, uint64_t incarnation, enum ripc__naming naming);
	void (*withdraw)(void *source, uint64_t id);
	/*
	 * An ID lives here, or is about to: from now on the source must hear questions to many
	 * about this ID. Questions about other IDs need not be heard. NULL: the source hears all.
	 */
	void (*heed)(void *source, uint64_t id, bool private_id);
	/*
	 * IDs of others are looked for here: from now on the source must hear notices. NULL: it
	 * hears all.
	 */
	void (*know)(void *source);

	/*
	 * Sends a question about an ID to all that may know (ID 0: to everybody). Returns how many
	 * receivers it was sent to; 0: there is certainly none. An exact source finds the holder
	 * first, and says NOBODY, HELD or UNAVAILABLE; each once for a question that is not
	 * repeated.
	 */
	int (*ask)(void *source, uint64_t id, const void *data, size_t len);
	/*
	 * As ask, when nobody has answered that, or when it is asked but once: reaches also those
	 * whom ask leaves out because somebody else has the name. NULL: ask leaves nobody out.
	 */
	int (*ask_again)(void *source, uint64_t id, const void *data, size_t len);
	/* Sends a question to one host (v4-mapped) and nobody else. As ask; NULL: it cannot. */
	int (*ask_host)(void *source, const uint8_t host[16], const void *data, size_t len);
	/*
	 * Does another user of this host hold the ID, so that no question of ours can reach the
	 * holder? NULL, or where the source cannot know: no.
	 */
	bool (*is_others)(void *source, uint64_t id);
	/*
	 * How many hosts a question goes to, each of which answers that nobody there has an ID; at
	 * most PEERS_MAX. NULL: some hosts may answer only by silence.
	 */
	uint32_t (*n_peers)(void *source);
	/* Sends an answer to where a question came from. */
	int (*reply)(void *source, const struct ripc__addr *to, const void *data, size_t len);
	/* Sends a notice to everybody; NULL: this source cannot. */
	int (*notify)(void *source, const void *data, size_t len);

	/* Up to one event; 1 or 0. */
	int (*poll)(void *source, struct ripc__source_event *event);
	/* Readable when poll may have something. One descriptor for the life of the source; or
	 * -1: nothing can ever arrive. */
	int (*wait_fd)(void *source);
	/* By the context's clock: poll is due then, whatever is readable. UINT64_MAX: never. */
	uint64_t (*deadline)(void *source);
	/*
	 * Calls found for each ID that this source has lately seen without asking. NULL: the source
	 * must ask. -EINPROGRESS: found is called from poll, until list is called with found NULL.
	 */
	int (*list)(void *source, void (*found)(void *arg, uint64_t id, bool is_private),
			void *arg);

	/*
	 * Groups: IDs that many services hold. join, leave: the service with this incarnation holds
	 * the group, or no more. list: calls found for each member on this host (an exact source:
	 * on all hosts); one that is not listed any more has left, or died; name is the incarnation
	 * with the highest bit set. An error: those listed before are still members. HINT of an
	 * exact source: its list has changed, or can be had after -EINPROGRESS. ask: as ask above,
	 * but asks one member that was listed. All NULL: a question about a group is asked as about
	 * any ID; but not of an exact source.
	 */
	struct {
		int (*join)(void *source, uint64_t group, uint64_t incarnation);
		void (*leave)(void *source, uint64_t group, uint64_t incarnation);
		int (*list)(void *source, uint64_t group, void (*found)(void *arg, uint64_t name),
				void *arg);
		int (*ask)(void *source, uint64_t group, uint64_t name, const void *data,
				size_t len);
	} group;

	/*
	 * watch: from now on host.gone tells of the end of this context, where an end can be
	 * proven; unwatch: no more. Calls are counted. look finds ends for which no descriptor
	 * wakes core; false: no context is watched. All NULL: an end can never be proven.
	 */
	void (*watch)(void *source, uint64_t context);
	void (*unwatch)(void *source, uint64_t context);
	bool (*look)(void *source);
	/*
	 * life: contexts with the same number, other than 0, can prove each other's end. ended: is
	 * the end of this context proven?
	 */
	uint64_t (*life)(void *source);
	bool (*ended)(void *source, uint64_t context);

	/*
	 * Only in the entry that stands for a source in a module: loads the module, as
	 * ripc__module_get() does for a backend.
	 */
	const struct ripc__source *(*load)(const struct ripc__host *host, char why[256],
			char remedy[256]);
};

#define RIPC_PEERS_MAX 256

extern const struct ripc__backend ripc__shm_backend, ripc__udp_backend, ripc__verbs_backend,
	ripc__rdmacm_backend, ripc__ofi_backend;
extern const struct ripc__source ripc__local_source, ripc__multicast_source, ripc__static_source,
	ripc__store_source;

/* Constant tables, ended by NULL; best first. */
extern const struct ripc__backend *const ripc__backends[];
extern const struct ripc__source *const ripc__sources[];

/* The options of all parts, by part; ended by NULL. */
extern const struct ripc__option *const ripc__options[];
extern const struct ripc__option ripc__group_options[], ripc__ofi_options[], ripc__rdmacm_options[],
	ripc__resolver_options[], ripc__shm_options[], ripc__store_options[],
	ripc__udp_options[], ripc__verbs_options[];

/*
 * The backend itself, where an entry of ripc__backends only stands for a module that is not
 * loaded yet. NULL: the module cannot be loaded; why and remedy say so as those of probe do. Any
 * thread.
 */
const struct ripc__backend *ripc__module_get(const struct ripc__backend *named,
		const struct ripc__host *host, char why[256], char remedy[256]);

/*
 * True in a program with raised rights, for each backend but shm and udp: libfabric
 * (FI_PROVIDER_PATH) and libibverbs (IBV_DRIVERS) load code that the environment names, and the
 * environment comes from a caller with fewer rights.
 */
bool ripc__backend_is_refused(const struct ripc__backend *named, char why[256], char remedy[256]);

#endif
