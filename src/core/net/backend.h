/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a backend (a network), and between the core and a
 * resolver source. A backend is a constant table of functions. Core allocates the state that
 * the table asks for (zeroed) and hands it back on every call: a port for each context, a route
 * for each partner.
 *
 * Rules for all slots:
 *  - Core calls the slots of one port from one thread at a time, because it holds the context's
 *    lock. Only release and probe are called by any thread at any time. A thread that sleeps on the
 *    port's descriptor, or in wait, holds no lock. Meanwhile other threads call other slots.
 *  - A backend never calls back into core, except through struct ripc__host.
 *  - The hot slots (send, poll, release, move) never block, allocate, log or lock.
 *  - A slot returns 0 or a count, or a negative errno. On failure its outputs are untouched.
 *  - A backend trusts no received data. It hands over bytes with their true length and the address
 *    they came from; core parses them.
 */
#ifndef RIPC_BACKEND_H
#define RIPC_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "core/memory/pool.h"

#define RIPC_ADDR_MAX   64 /* an address blob as it travels in resolver records, bytes */
#define RIPC_BLOB_MAX   104 /* the same of a sealed network */
#define RIPC_IOV_MAX    72 /* iovecs of one datagram: header and RIPC_ITEMS_MAX items */
#define RIPC_EVENTS_MAX 64 /* events that core takes from one poll, at most */
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
	uint64_t memory;        /* bytes for the processes of this host; 0: unknown */
	uint64_t identity;      /* of boot and network namespace; 0: unknown */
	uint64_t life;          /* from source.life, for sources that are opened later */
	void *env;              /* struct ripc__env.arg: the simulator's world */
	/*
	 * Finds the shared memory that [mem, mem + len) lies in. From now on the backend may show
	 * it to a reader (struct ripc__where; 0: to any). -EINVAL: the memory must not be shown.
	 * is_shared: does that memory still exist? NULL: nothing can be shown.
	 */
	int (*share)(void *arg, const void *mem, size_t len, uint64_t reader,
			struct ripc__shared *shared);
	bool (*is_shared)(void *arg, const struct ripc__shared *shared);
	/*
	 * A reader has shown this memory, which share has found, to others. NULL: core needs no
	 * report.
	 */
	void (*spread)(void *arg, const struct ripc__shared *shared);
	/*
	 * A source reports from its poll or look that the kernel has notified it of the end of this
	 * context. 0: an end may be near, look soon. NULL: core needs no report.
	 */
	void (*gone)(void *arg, uint64_t context);
	/*
	 * With RIPC_CAP_LAZY: gives pages to memory that a read is about to fill. -ENOMEM: the
	 * system has none, and writing there might end the program. NULL: all memory has pages.
	 */
	int (*fault)(void *arg, const void *mem, size_t len);
	/*
	 * Updates the page that other processes of the user may see (ripc/page.h). Returns the
	 * descriptor of the page, which core still owns, or a negative errno. NULL: no page.
	 */
	int (*page)(void *arg);
};

/* The address a datagram came from or is sent to: all that the backend needs for an answer. */
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
	RIPC_CAP_INTACT = 16,    /* no byte is altered on the way: datagrams need no checksum */
	RIPC_CAP_MAP = 32,       /* opened memory can be mapped: RIPC_CLOSE_HAND, map, unmap work */
	RIPC_CAP_SIZED = 64,     /* the network loses no datagram for its length (route.mtu) */
	RIPC_CAP_LAZY = 128,     /* a read gives pages to the memory it fills (host->fault) */
	RIPC_CAP_DUBIOUS = 256,  /* a read or write may succeed without moving all bytes */
};

/* Abilities and limits of a port. Filled by open. */
struct ripc__attr {
	uint32_t caps;           /* enum ripc__cap */
	int fd;                  /* readable when poll may have something, once armed; the same for
	                            the life of the port; -1: none, core polls every tick (10 ms) */
	uint32_t receive_buffer; /* bytes in flight to us from all, at most; 0: any number */
	uint32_t peer_buffer;    /* the same from one peer */
	uint32_t datagram_overhead; /* of receive_buffer that each datagram takes, bytes */
	uint32_t read_max;       /* bytes that one move takes at most; 0: any number */
};

/* Do reads and writes surely move the right bytes? Else core checksums whole messages. */
static inline bool ripc__moves_intact(const struct ripc__attr *attr)
{
	return (attr->caps & (RIPC_CAP_INTACT | RIPC_CAP_DUBIOUS)) == RIPC_CAP_INTACT;
}

/* Counts since the last call. */
struct ripc__net_stats {
	uint32_t overflows; /* datagrams that kernel or device dropped for lack of room */
	uint32_t fallbacks; /* times that offload had to be switched off */
};

/* Where a route leads. */
struct ripc__where {
	struct ripc__addr addr;
	uint64_t reader; /* a number of the process that reads memory shown on this route, and
	                    sends the bytes that come by it; 0: not known */
};

/* One datagram to send: a header and pieces, iov[0..n_iov). */
struct ripc__tx {
	const struct iovec *iov;
	uint32_t n_iov;
	uint32_t len; /* sum of the iovecs, bytes */
};

/* Copies all bytes of a datagram. */
static inline void ripc__tx_copy(uint8_t *to, const struct ripc__tx *tx)
{
	for (uint32_t i = 0; i < tx->n_iov; i++) {
		if (tx->iov[i].iov_len)
			memcpy(to, tx->iov[i].iov_base, tx->iov[i].iov_len);
		to += tx->iov[i].iov_len;
	}
}

enum ripc__event_kind {
	RIPC_EV_DATAGRAM = 1, /* data, len, from; core calls release(handle) when done with it */
	RIPC_EV_MULTICAST,         /* the same for a multicast datagram (multicast.hear) */
	RIPC_EV_READ,         /* a read has ended: cookie, status */
	RIPC_EV_WRITE,        /* a write has ended: cookie, status */
	RIPC_EV_PEER,         /* route.open that returned -EINPROGRESS has ended: peer, from (its
	                         address), status; or a route takes datagrams again after send did
	                         not: from, 0 */
	RIPC_EV_HINT,         /* nobody seems to listen at this address: from. The hint may be a
	                         lie; data, len: the first bytes of a datagram that was sent there,
	                         as the hint quotes them; or NULL: the network knows that it sent
	                         the quoted datagram */
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
	RIPC_CLOSE_DONE,   /* the partner has reported that it is done with the memory */
	RIPC_CLOSE_REVOKE, /* the partner has not, and may be moving bytes just now */
	RIPC_CLOSE_HAND,   /* with RIPC_CAP_MAP: memory that the partner has mapped stays there */
};

/* One read or write: len bytes between our memory and a range that the partner has opened. */
struct ripc__move {
	struct ripc__key key;
	uint64_t offset; /* in the range of the key */
	void *mem;       /* our memory; a write does not change it */
	size_t len;
	void *region;    /* of mem.reg, for this partner, with all of mem in it; or NULL */
	uint64_t cookie; /* of the event that ends it */
	bool writes;     /* true: writes to the partner's memory; false: reads from it */
};

/* A partner's memory as we see it, for reading only. */
struct ripc__mapping {
	void *mem;       /* the range of the key */
	void *base;      /* mem lies in [base, base + base_len); other keys show other parts */
	size_t base_len;
	void *handle;    /* for unmap; NULL: mem lies in a buffer of our own that has come back, and
	                    unmap is not called. Core takes a reference to the buffer at once */
};

/*
 * The IPv4 multicast address by which a number of "many" is heard, in the host's byte order:
 * 239.255.0.0 to 239.255.255.255, the local scope of RFC 2365. Different numbers may share one.
 */
static inline uint32_t ripc__multicast_address(uint64_t number)
{
	number ^= number >> 32;
	number ^= number >> 16;
	return 0xefff0000u | (uint32_t)(number & 0xffff);
}

/* ---- options ----------------------------------------------------------------------------- */

enum ripc__option_kind {
	RIPC_NUMBER, /* from min to max; a uint32_t */
	RIPC_SWITCH, /* on or off; a bool */
	RIPC_THIRD,  /* a switch; a uint32_t: 0, 1, or its default if it is not configured */
	RIPC_WORD,   /* a const char *; the part that reads the option knows the valid words */
};

/* An option; a list of them ends with {0}. */
struct ripc__option {
	const char *name;
	enum ripc__option_kind kind;
	uint32_t min, max;
	size_t at; /* offset of the value in the structure that ripc__options_read() fills */
};

/* ---- backends ---------------------------------------------------------------------------- */

struct ripc__backend {
	const char *name; /* as in ripc_config.backends; at most 15 characters */
	uint8_t id;       /* the number that stands for it in records (docs/protocol.md) */
	size_t port_size; /* bytes of the state of one context */
	size_t route_size; /* bytes of the state of one partner: at most 256; core may move it */
	/*
	 * A context with keys may use the backend. Core seals each datagram (keys/sealed.h), and
	 * unseals received ones in place: core may alter their bytes until release. The backend has
	 * route.where, and its release uses no port.
	 */
	bool is_sealable;

	/* The network as a whole. */
	struct {
		/*
		 * Checks whether the backend can run here, without side effects. Writes a sentence
		 * into why (what was found, or why not), and one into remedy ("" if none is
		 * needed). 0 or a negative errno.
		 */
		int (*probe)(const struct ripc__host *host, char why[256], char remedy[256]);
		/* Takes the device and opens the port. May block briefly. Fills attr. */
		int (*open)(void *port, const struct ripc__host *host, struct ripc__attr *attr);
		/*
		 * Closes the port with all keys, regions and mappings: afterwards nobody reaches
		 * our memory, and no read or write goes on. Buffers that are still held stay valid
		 * until released. Never blocks long.
		 */
		void (*close)(void *port);
		/*
		 * Our address for the resolver's record, at most RIPC_ADDR_MAX bytes. Returns its
		 * length, or an error if there is none any more. Called for each record.
		 */
		int (*address)(void *port, uint8_t blob[RIPC_ADDR_MAX]);
		/*
		 * Called before a thread sleeps on attr.fd. -EAGAIN: something came in meanwhile,
		 * poll again. NULL: needs no arming.
		 */
		int (*arm)(void *port);
		/*
		 * A cheaper sleep, for a thread that sleeps on this port only; NULL: there is none.
		 * Returns when poll has something, when wake is called, or after about 100 ms at
		 * the latest. One thread at a time calls wait, without the lock. Meanwhile core
		 * does not call poll, move (to read) or arm of the port. All other slots are called
		 * under the lock as usual.
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
		 * RIPC_EV_PEER follows, with the address. Until then core sends at most an answer
		 * to a stranger, which the backend keeps until the route is open, or refuses.
		 */
		int (*open)(void *port, void *route, const struct ripc__addr *addr);
		/*
		 * Frees the resources of open. Never blocks. Afterwards RIPC_EV_PEER need not
		 * follow; RIPC_EV_READ still does.
		 */
		void (*close)(void *port, void *route);
		/* Reports where the route leads. NULL: not known. */
		void (*where)(void *port, const void *route, struct ripc__where *where);
		/* The longest datagram that the route takes now, bytes. */
		uint32_t (*mtu)(void *port, void *route);
		/* Is this the address that the route leads to? Hot. */
		bool (*matches)(void *port, const void *route, const struct ripc__addr *from);
	} route;

	struct {
		/*
		 * Hot. Posts n datagrams to one partner, in order, the more at once the better.
		 * Returns the number of datagrams taken; the caller owns the bytes again. 0: the
		 * network takes no more now; if that may last longer than the repetition of a
		 * datagram, RIPC_EV_PEER follows. -EMSGSIZE: the first one is too long for the
		 * route (mtu has shrunk accordingly). -ECONNRESET: the route leads nowhere any
		 * more; core finds another one. -EACCES: the same, because the partner is another
		 * user's. Other errors: the first one could not be sent.
		 */
		int (*send)(void *port, void *route, const struct ripc__tx *tx, uint32_t n);
		/*
		 * Hot. Takes up to n events; 0: there is none. all: this poll and later ones, until
		 * one finds nothing, also check the places where events seldom come.
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
		 * Makes a route by which send reaches all hearers of the number near a partner,
		 * whose route is given: on its segment or subnet, but not on this host. An error:
		 * there is no multicast there. route.close and mtu take the new route, too.
		 */
		int (*open)(void *port, void *route, const void *partner, uint64_t number);
		/*
		 * From now on poll hands over datagrams to the number (RIPC_EV_MULTICAST) on the
		 * segment or subnet of this partner, whose route is given, and perhaps other
		 * datagrams. A second call for the same partner does nothing. An error: there is
		 * no multicast.
		 */
		int (*hear)(void *port, const void *partner, uint64_t number);
		/* The number is not heard any more, on any segment or subnet. */
		void (*ignore)(void *port, uint64_t number);
		/*
		 * A second descriptor that is readable when poll may have something; -1: there is
		 * none before hear has opened it; from then on the same. NULL: attr.fd is enough.
		 */
		int (*fd)(void *port);
	} multicast;

	/* Our memory, for reads and writes. NULL without RIPC_CAP_READ and RIPC_CAP_WRITE. */
	struct {
		/*
		 * Registers memory as the target of reads from this partner, or (source) as the
		 * source of writes to it. A source may be read-only memory. Only called with
		 * RIPC_CAP_REGISTERED. (open registers the memory that it opens by itself.)
		 */
		int (*reg)(void *port, void *route, void *mem, size_t len, bool source,
				void **region);
		void (*dereg)(void *port, void *region);
		/* Lets one partner reach one range, for reading or for writing. */
		int (*open)(void *port, void *route, void *mem, size_t len, bool writable,
				struct ripc__key *key);
		/*
		 * Closes a key. 0: nobody can reach the range any more. -EINPROGRESS:
		 * RIPC_EV_FENCED with the cookie follows, always and soon, because sends wait for
		 * it. RIPC_CLOSE_HAND: 0 if the partner has mapped nothing by this key; else the
		 * event follows when the partner has unmapped the range or is gone, however long
		 * that takes.
		 */
		int (*close)(void *port, const struct ripc__key *key, enum ripc__closing how,
				uint64_t cookie);
	} mem;

	/* The partner's memory, as far as the partner has opened it. */
	struct {
		/*
		 * Hot. Begins a read or write; RIPC_EV_READ or _WRITE with the cookie follows.
		 * -EAGAIN: too many are in progress. The event always follows, in bounded time,
		 * whatever becomes of the partner: calls wait for it, because our memory is in use
		 * until then. After close no event follows. The bytes of a successful write are in
		 * place when a datagram arrives that was sent afterwards.
		 */
		int (*move)(void *port, void *route, const struct ripc__move *move);
		/*
		 * With RIPC_CAP_MAP. Maps the first len bytes that a key of this partner opens. The
		 * mapping stays until unmap or close, whatever becomes of the partner. Any error:
		 * the bytes cannot be mapped, or not now; they can be read instead. Does not wait.
		 */
		int (*map)(void *port, void *route, const struct ripc__key *key, size_t len,
				struct ripc__mapping *mapping);
		void (*unmap)(void *port, void *handle);
	} remote;
};

/* ---- resolver sources -------------------------------------------------------------------- */

enum ripc__source_kind {
	RIPC_SOURCE_DATAGRAM, /* a datagram of the resolver came in; reply: its sender's address */
	/* Reports of an exact source about an ID: id, status, incarnation, holder. */
	RIPC_SOURCE_PUBLISHED,   /* publish that returned -EINPROGRESS has ended: status */
	RIPC_SOURCE_NOBODY,      /* nobody has the queried ID */
	RIPC_SOURCE_HELD,        /* the ID has an owner, which gets the query */
	RIPC_SOURCE_LOST,        /* an ID that was published here has another owner now */
	RIPC_SOURCE_HINT,        /* an ID that was once queried has another owner; 0: perhaps */
	RIPC_SOURCE_REHOMED,     /* interfaces or addresses of this host have changed; of no ID */
	RIPC_SOURCE_UNAVAILABLE, /* the source cannot work now; publish goes on trying */
};

struct ripc__source_event {
	enum ripc__source_kind kind;
	int status;            /* PUBLISHED: 0 or a negative errno */
	uint64_t id;           /* 0 in a DATAGRAM, which has the ID itself */
	uint64_t incarnation;  /* of the ID's owner; 0: not known */
	uint64_t holder;       /* the owner's context, if its end can be proven (life); else 0 */
	const uint8_t *data;   /* valid until the next poll of this source */
	uint32_t len;
	uint8_t host[16];      /* IP address it came from, v4-mapped; loopback for local sources */
	struct ripc__addr reply;
	bool local;            /* certainly came from this host and network namespace */
	bool group;            /* was multicast: other processes of this host have got it, too */
	uint16_t peer;         /* the host among n_peers that it came from, from 1; 0: none */
};

enum ripc__naming { RIPC_NAME_FIRST, RIPC_NAME_DISPLACE, RIPC_NAME_PRIVATE };

/*
 * A resolver source carries the resolver's datagrams (queries, answers, notices) without reading
 * them. An exact source also knows the owner of each ID, on all hosts: its report is enough if no
 * other source is queried. There is at most one exact source. Rules as above.
 */
struct ripc__source {
	const char *name; /* "local", "multicast", "static", "store" */
	size_t size;      /* state that core allocates, bytes */
	bool exact;

	int (*probe)(const struct ripc__host *host, char why[256], char remedy[256]);
	int (*open)(void *source, const struct ripc__host *host);
	void (*close)(void *source);

	/*
	 * Makes an ID of this context reachable through this source. 0; -EADDRINUSE: the name has
	 * an owner (which may be dead: core queries it, then calls again with RIPC_NAME_DISPLACE).
	 * A private ID's name is never displaced. NULL: nothing to do per ID. An exact source
	 * returns -EINPROGRESS: RIPC_SOURCE_PUBLISHED follows, unless withdraw comes before;
	 * RIPC_NAME_DISPLACE: the owner that the source last reported has been proven to have
	 * ended. A published ID stays published until withdraw or LOST, whatever becomes of the
	 * connection. incarnation: of the service; 0 if the source is not exact.
	 */
	int (*publish)(void *source, uint64_t id, uint64_t incarnation, enum ripc__naming naming);
	void (*withdraw)(void *source, uint64_t id);
	/*
	 * This context has an ID, or soon will: from now on the source must hear multicast queries
	 * about this ID. Queries about other IDs need not be heard. NULL: the source hears all.
	 */
	void (*heed)(void *source, uint64_t id, bool private_id);
	/*
	 * This context searches for IDs of others: from now on the source must hear notices. NULL:
	 * the source hears all.
	 */
	void (*know)(void *source);

	/*
	 * Sends a query about an ID to all that may know (ID 0: to everybody). Returns the number
	 * of receivers; 0: there is certainly none. An exact source finds the owner first, and
	 * reports NOBODY, HELD or UNAVAILABLE, each once for a query that is not repeated.
	 */
	int (*ask)(void *source, uint64_t id, const void *data, size_t len);
	/*
	 * As ask, if nobody has answered a query, or if a query is sent only once: also reaches
	 * contexts that ask omits because another one has the name. NULL: ask omits none.
	 */
	int (*ask_again)(void *source, uint64_t id, const void *data, size_t len);
	/* Sends a query to one host (v4-mapped) only. As ask; NULL: the source cannot do that. */
	int (*ask_host)(void *source, const uint8_t host[16], const void *data, size_t len);
	/*
	 * Does another user of this host own the ID, whom no query of ours can reach? False if the
	 * source cannot know. NULL: the same.
	 */
	bool (*is_others)(void *source, uint64_t id);
	/*
	 * The number of hosts that a query is sent to, each of which also answers if nobody there
	 * has the ID; at most PEERS_MAX. NULL: some hosts do not answer in that case.
	 */
	uint32_t (*n_peers)(void *source);
	/* Sends an answer to the address that a query came from. */
	int (*reply)(void *source, const struct ripc__addr *to, const void *data, size_t len);
	/* Sends a notice to everybody; NULL: this source cannot do that. */
	int (*notify)(void *source, const void *data, size_t len);

	/* Takes one event. 1; 0: there is none. */
	int (*poll)(void *source, struct ripc__source_event *event);
	/*
	 * The descriptor that is readable when poll may have something, the same for the life of
	 * the source. -1: nothing can ever arrive.
	 */
	int (*wait_fd)(void *source);
	/* The time at which poll is due in any case, by the context's clock. UINT64_MAX: never. */
	uint64_t (*deadline)(void *source);
	/*
	 * Calls found for each ID that this source has seen lately. Sends no query. NULL: a query
	 * is needed. -EINPROGRESS: found is called from poll, until list is called with found NULL.
	 */
	int (*list)(void *source, void (*found)(void *arg, uint64_t id, bool is_private),
			void *arg);

	/*
	 * Groups: IDs that many services have. join, leave: the service with this incarnation joins
	 * or leaves the group. list: calls found for each member on this host (an exact source: on
	 * all hosts). A member that is not listed any more has left, or died. name is the
	 * incarnation with the highest bit set. An error: the members listed before are still
	 * members. HINT of an exact source: its list has changed, or is ready after -EINPROGRESS.
	 * ask: as ask above, but queries one listed member. All NULL: a query about a group is sent
	 * like one about any ID, but not to an exact source.
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
	 * watch: from now on host.gone reports the end of this context, if an end can be proven;
	 * unwatch: host.gone does not report it any more. Calls are counted. look finds ends for
	 * which no descriptor wakes core; false: no context is watched. All NULL: an end can never
	 * be proven.
	 */
	void (*watch)(void *source, uint64_t context);
	void (*unwatch)(void *source, uint64_t context);
	bool (*look)(void *source);
	/*
	 * life: contexts with the same number, other than 0, can prove each other's end. ended:
	 * true if the end of this context is proven.
	 */
	uint64_t (*life)(void *source);
	bool (*ended)(void *source, uint64_t context);

	/*
	 * Only in an entry that stands for a source in a module: loads the module, as
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
 * The backend itself, if an entry of ripc__backends only stands for a module that is not loaded
 * yet. NULL: the module cannot be loaded, and why and remedy have sentences as those of probe. May
 * be called by any thread.
 */
const struct ripc__backend *ripc__module_get(const struct ripc__backend *named,
		const struct ripc__host *host, char why[256], char remedy[256]);

/*
 * Refuses each backend except shm and udp in a program with raised rights: libfabric
 * (FI_PROVIDER_PATH) and libibverbs (IBV_DRIVERS) load code that the environment names, and the
 * environment comes from a caller with fewer rights. True: the backend is refused.
 */
bool ripc__backend_is_refused(const struct ripc__backend *named, char why[256], char remedy[256]);

#endif
