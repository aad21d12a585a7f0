/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a backend (a network), and between the core and a
 * resolver source. A backend is a constant table of functions; core allocates the state that
 * the table asks for (zeroed) and hands it back on every call.
 *
 * Rules for all slots:
 *  - Core calls the slots of one device from one thread at a time (it holds the context's
 *    lock), except release, probe and load (any thread). Without the lock one sleeps on
 *    wait_fd's descriptor, or in wait, beside which others call other slots (see wait).
 *  - A backend never calls back into core, except through struct ripc__host.
 *  - Hot slots (send, poll, release, read, write) never block, allocate, log or lock.
 *  - 0 or a count, or a negative errno; outputs untouched on failure.
 *  - Nothing that arrives is believed: a backend hands over bytes with their true length and
 *    the address they came from; all parsing is core's.
 */
#ifndef RIPC_BACKEND_H
#define RIPC_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/memory/shared.h"

#define RIPC_ADDR_MAX   64 /* an address blob as it travels in resolver records, bytes */
#define RIPC_IOV_MAX    72 /* iovecs of one datagram: header and RIPC_ITEMS_MAX items */
#define RIPC_EVENTS_MAX 64 /* events that core asks one poll for */
#define RIPC_DATAGRAM_MAX 65536

/* What core offers to backends and sources. Valid from dev_open to dev_close. */
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
	void *env;              /* struct ripc__env.arg: the simulator's world */
	/*
	 * What [mem, mem + len) lies in, which may be shown to a reader (peer_reader; 0: to any)
	 * from now on; -EINVAL: it is not the application's alone. And whether that still exists.
	 * NULL: nothing can be shown.
	 */
	int (*share)(void *arg, const void *mem, size_t len, uint64_t reader,
			struct ripc__shared *shared);
	bool (*is_shared)(void *arg, const struct ripc__shared *shared);
	/*
	 * From a source's poll and look: the kernel says that this context has ended; 0: perhaps
	 * one is about to, look soon. NULL: not wanted.
	 */
	void (*gone)(void *arg, uint64_t context);
	/*
	 * With RIPC_CAP_LAZY: what a read is about to fill gets its pages. -ENOMEM: there are none,
	 * and to write there may end the program. NULL: all memory has pages.
	 */
	int (*fault)(void *arg, const void *mem, size_t len);
};

/* Where a datagram came from, or where one is to go: what the backend needs to answer. */
struct ripc__addr {
	uint8_t host[16]; /* the IPv6 or v4-mapped address; within one host 127.0.0.1; or zero */
	uint8_t len;      /* of blob; 0: no address */
	uint8_t blob[RIPC_ADDR_MAX];
};

enum ripc__cap {
	RIPC_CAP_RELIABLE = 1,   /* datagrams are not lost while the partner lives */
	RIPC_CAP_READ = 2,       /* native one-sided reads: the read slot works */
	RIPC_CAP_WRITE = 4,      /* native one-sided writes: the write slot works */
	RIPC_CAP_PASSIVE = 8,    /* reads need none of the holder's processor */
	RIPC_CAP_REGISTERED = 16, /* memory must be registered (mem_reg) before use */
	RIPC_CAP_INTACT = 32,    /* no byte is altered on the way: datagrams go without checksum */
	RIPC_CAP_MAP = 64,       /* what was opened can be mapped: mem_hand, map and unmap work */
	RIPC_CAP_SIZED = 256,    /* what peer_mtu allows passes: nothing is lost for its length */
	RIPC_CAP_LAZY = 512,     /* reads give pages to where they land (host->fault) */
	RIPC_CAP_DUBIOUS = 128,  /* reads and writes may end well and not have moved all bytes */
};

/* What a device can do. Filled by dev_open; may shrink later (datagram sizes: see peer_mtu). */
struct ripc__attr {
	uint32_t caps;             /* enum ripc__cap */
	uint32_t datagram_max;     /* longest datagram the device can send at all, bytes */
	uint32_t receive_buffer;   /* bytes in flight to us from all, at most; 0: any number */
	uint32_t peer_buffer;      /* the same from one peer */
	uint32_t datagram_overhead; /* of receive_buffer that each datagram takes, bytes */
	uint32_t read_max;         /* bytes that one read or write takes at most; 0: any number */
};

/* Is what reads and writes have moved what was there? Else the whole is checksummed. */
static inline bool ripc__moves_intact(const struct ripc__attr *attr)
{
	return (attr->caps & (RIPC_CAP_INTACT | RIPC_CAP_DUBIOUS)) == RIPC_CAP_INTACT;
}

/* One datagram to send: a header and pieces, iov[0..n_iov). */
struct ripc__tx {
	const struct iovec *iov;
	uint32_t n_iov;
	uint32_t len; /* sum of the iovecs, bytes */
};

enum ripc__event_kind {
	RIPC_EV_DATAGRAM = 1, /* data, len, from; core calls release(handle) when done with it */
	RIPC_EV_READ,         /* a read has ended: cookie, status */
	RIPC_EV_WRITE,        /* a write has ended: cookie, status */
	RIPC_EV_PEER,         /* peer_open that returned -EINPROGRESS has ended: peer, from (its
	                         address), status; or the route there takes again what send did
	                         not take: from, 0 */
	RIPC_EV_HINT,         /* nobody seems to listen at this address: from. May be a lie; data,
	                         len: how a datagram began that was sent there, as it is said */
	RIPC_EV_FENCED,       /* nobody can reach the memory of the closed key any more: cookie */
};

struct ripc__event {
	enum ripc__event_kind kind;
	int status;                    /* 0 or a negative errno */
	uint64_t cookie;
	void *peer;                    /* where the route was when peer_open was called */
	const uint8_t *data;           /* valid until release; of a hint, until the next poll */
	uint32_t len;
	void *handle;                  /* for release */
	const struct ripc__addr *from; /* valid until the next poll */
};

/* The key of an opened memory range as it travels to the partner. */
struct ripc__key {
	uint64_t address, key;
};

/* A partner's memory as we see it, for reading only. */
struct ripc__mapping {
	void *mem;       /* the range of the key */
	void *base;      /* it lies in [base, base + base_len), whose other parts other keys show */
	size_t base_len;
	void *handle;    /* for unmap */
};

struct ripc__backend {
	const char *name; /* as in ripc_config.backends; at most 15 characters */
	uint8_t id;       /* the number that stands for it in records (docs/protocol.md) */
	size_t dev_size, port_size, peer_size; /* state that core allocates, bytes */

	/*
	 * Can I run here? Called any time, by any thread, must have no side effect. Writes one
	 * sentence into why (what was found or why not) and one into remedy ("" if none is
	 * needed). 0 or a negative errno.
	 */
	int (*probe)(const struct ripc__host *host, char why[256], char remedy[256]);

	/* Takes the device. May block briefly. Fills attr. */
	int (*dev_open)(void *dev, const struct ripc__host *host, struct ripc__attr *attr);
	void (*dev_close)(void *dev);

	/*
	 * Registers memory before reads from this partner go into it, or (source) writes to it
	 * come from there, which may be memory that cannot be written to; NULL where nothing is to
	 * be done. Only called with RIPC_CAP_REGISTERED. (What mem_open needs it registers itself.)
	 */
	int (*mem_reg)(void *dev, void *peer, void *mem, size_t len, bool source, void **region);
	void (*mem_dereg)(void *dev, void *region);

	/*
	 * Lets one partner reach one range, for reading or writing. mem_close takes that back;
	 * returns 0 when nobody can reach the range any more, or -EINPROGRESS and
	 * RIPC_EV_FENCED with the cookie later, always and soon: sends wait for it. After
	 * dev_close nobody can reach anything. NULL without RIPC_CAP_READ and _WRITE.
	 */
	int (*mem_open)(void *dev, void *peer, void *mem, size_t len, bool writable,
			struct ripc__key *key);
	int (*mem_close)(void *dev, const struct ripc__key *key, uint64_t cookie);
	/*
	 * Closes the key of a partner that has not said that it is done, and may be reading now.
	 * NULL: mem_close does that as well.
	 */
	int (*mem_revoke)(void *dev, const struct ripc__key *key, uint64_t cookie);
	/*
	 * With RIPC_CAP_MAP: closes the key instead of mem_close, but what the partner has mapped
	 * by it stays there. 0: it has mapped nothing. -EINPROGRESS: it has; RIPC_EV_FENCED follows
	 * when it has unmapped it or is gone, however long that takes.
	 */
	int (*mem_hand)(void *dev, const struct ripc__key *key, uint64_t cookie);

	/* Opens what is polled: one per context, shared by its services. */
	int (*port_open)(void *dev, void *port);
	/* Closes it; buffers still held stay valid until released. Never blocks long. */
	void (*port_close)(void *port);
	/*
	 * My address for the resolver's record, at most RIPC_ADDR_MAX bytes. Returns its length, or
	 * an error if I have none any more. Asked for each record.
	 */
	int (*port_addr)(void *port, uint8_t blob[RIPC_ADDR_MAX]);
	/*
	 * Turns a blob of a record into the address of a partner. host: where the resolver's
	 * answer came from (zero: unknown), for backends that speak IP.
	 */
	int (*addr_choose)(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
			struct ripc__addr *addr);
	/* An address in words, for people. */
	void (*addr_text)(const struct ripc__addr *addr, char text[64]);

	/*
	 * Makes a route to an address (from addr_choose or an event). 0: ready; -EINPROGRESS:
	 * RIPC_EV_PEER follows, with the address; until then core sends at most an answer to a
	 * stranger, which may be kept until there is a way, or not taken. The route has at most
	 * 256 bytes, which core may move in memory. peer_close frees what peer_open took;
	 * never blocks. After it RIPC_EV_PEER need not follow; RIPC_EV_READ still does.
	 */
	int (*peer_open)(void *port, void *peer, const struct ripc__addr *addr);
	void (*peer_close)(void *port, void *peer);
	/* Where the route leads, for addr_text. */
	void (*peer_addr)(void *port, const void *peer, struct ripc__addr *addr);
	/* The longest datagram that the route to this partner takes now, bytes. */
	uint32_t (*peer_mtu)(void *port, void *peer);
	/* Does a datagram from this address come from where the route leads? Hot. */
	bool (*peer_matches)(void *port, const void *peer, const struct ripc__addr *from);

	/*
	 * Hot. Posts n datagrams to one peer, in order, the more at once the better. Returns how
	 * many were taken; the bytes are the caller's again. 0: the network takes no more now;
	 * where that may last longer than the repetition of a datagram, RIPC_EV_PEER follows.
	 * -EMSGSIZE: the first one is too long for the route (peer_mtu has shrunk accordingly).
	 * -ECONNRESET: the route leads nowhere any more; core looks for another one. -EACCES: so
	 * it is, as the partner is another user's. Other errors: the first one could not be sent.
	 */
	int (*send)(void *port, void *peer, const struct ripc__tx *tx, uint32_t n);

	/* Hot. Up to n events; 0: nothing there. */
	int (*poll)(void *port, struct ripc__event *events, uint32_t n);
	/* The next polls look wherever something has come. NULL: all polls do. */
	void (*poll_all)(void *port);
	/* Hot. Gives a received datagram's buffer back. Any thread, any order, also after close. */
	void (*release)(void *port, void *handle);

	/*
	 * Hot; with RIPC_CAP_READ / _WRITE. Reads len bytes at key.address + offset into mem, or
	 * writes them; RIPC_EV_READ / _WRITE with the cookie follows. -EAGAIN: too many in
	 * progress.
	 * The event always follows, in bounded time whatever becomes of the partner: calls wait
	 * for it, as mem is in use until then. After port_close it is not. A write that has ended
	 * well is there for whoever gets a datagram that was sent afterwards.
	 */
	int (*read)(void *port, void *peer, const struct ripc__key *key, uint64_t offset,
			void *mem, size_t len, uint64_t cookie);
	int (*write)(void *port, void *peer, const struct ripc__key *key, uint64_t offset,
			const void *mem, size_t len, uint64_t cookie);

	/*
	 * With RIPC_CAP_MAP. Shows us the first len bytes that a key of this partner opens: they
	 * stay, whatever becomes of the partner, until unmap or port_close. Any error: it cannot be
	 * done, or not now; the bytes can be read instead. Does not wait.
	 */
	int (*map)(void *port, void *peer, const struct ripc__key *key, size_t len,
			struct ripc__mapping *mapping);
	void (*unmap)(void *port, void *handle);

	/*
	 * What to sleep on until poll has something; -ENOTSUP: nothing, core ticks. wait_arm is
	 * called before sleeping; -EAGAIN: something came in meanwhile, poll again. NULL: needs
	 * no arming.
	 */
	int (*wait_fd)(void *port);
	int (*wait_arm)(void *port);

	/*
	 * A cheaper sleep where the port is all there is to sleep on; NULL: there is none. Returns
	 * when poll has something, when wake is called, or after about 100 ms at the latest. wait
	 * is called without the lock, by one thread at a time; meanwhile core calls neither poll,
	 * poll_all, read nor wait_arm of the port; all others, under the lock, as ever.
	 */
	void (*wait)(void *port);
	void (*wake)(void *port);

	/*
	 * Who reads what is shown to this peer: a number, also of what comes from there; 0: not
	 * known. NULL: nothing is shown.
	 */
	uint64_t (*peer_reader)(void *port, const void *peer);

	/* What the kernel or device dropped for want of room since the last call; NULL: none. */
	uint32_t (*overflows)(void *port);
	/* How often offload had to be left since the last call; NULL: none. */
	uint32_t (*fallbacks)(void *port);

	/*
	 * Only in what stands for a backend that is a module: loads it, and returns the real table.
	 * NULL: it cannot be, and why and remedy say so as those of probe do. Any thread.
	 */
	const struct ripc__backend *(*load)(const struct ripc__host *host, char why[256],
			char remedy[256]);
};

/* ---- resolver sources -------------------------------------------------------------------- */

/* A resolver datagram that came in; reply addresses the sender again. */
struct ripc__source_event {
	const uint8_t *data; /* valid until the next poll of this source */
	uint32_t len;
	uint8_t host[16];      /* IP address it came from, v4-mapped; loopback for local sources */
	struct ripc__addr reply;
	bool local;            /* came from this host and network namespace, certainly */
	bool group;            /* was sent to many: others on this host have got it too */
	uint16_t peer;         /* which of n_peers hosts it came from, from 1; 0: none */
};

enum ripc__naming { RIPC_NAME_FIRST, RIPC_NAME_DISPLACE, RIPC_NAME_PRIVATE };

/*
 * A resolver source carries the resolver's datagrams (questions, answers, notices) without
 * reading them. Rules as above.
 */
struct ripc__source {
	const char *name; /* "local", "multicast", "static" */
	size_t size;      /* state that core allocates, bytes */

	int (*probe)(const struct ripc__host *host, char why[256], char remedy[256]);
	int (*open)(void *source, const struct ripc__host *host);
	void (*close)(void *source);

	/*
	 * Makes an ID that lives here reachable through this source. 0; -EADDRINUSE: the name is
	 * held by somebody (who may be dead: core asks, then calls again with RIPC_NAME_DISPLACE).
	 * A private ID's name is never displaced. NULL: nothing to do per ID.
	 */
	int (*publish)(void *source, uint64_t id, enum ripc__naming naming);
	void (*withdraw)(void *source, uint64_t id);
	/*
	 * An ID lives here, or is about to: from now on questions to many about it must be heard,
	 * those about others need not. NULL: all are.
	 */
	void (*heed)(void *source, uint64_t id, bool private_id);
	/* IDs of others are looked for here: notices must be heard from now on. NULL: all are. */
	void (*know)(void *source);

	/*
	 * Sends a question about an ID to whoever may know (0: to everybody). Returns to how many
	 * it was sent; 0: nobody is there, certainly.
	 */
	int (*ask)(void *source, uint64_t id, const void *data, size_t len);
	/* Sends a question to one host (v4-mapped) and nobody else. As ask; NULL: it cannot. */
	int (*ask_host)(void *source, const uint8_t host[16], const void *data, size_t len);
	/*
	 * How many hosts a question goes to, each of which answers that nobody there has an ID; at
	 * most PEERS_MAX. NULL: silence is all that can be had of some.
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
	/*
	 * Calls found for each ID that this source sees without asking, as of late; NULL: it must
	 * ask.
	 */
	int (*list)(void *source, void (*found)(void *arg, uint64_t id, bool is_private),
			void *arg);

	/*
	 * host.gone tells of the end of this context, where there can be proof of that; counted.
	 * look looks whether it is time to say so of some that is watched, where nothing wakes for
	 * it; false: nothing is watched. All NULL: there is never proof.
	 */
	void (*watch)(void *source, uint64_t context);
	void (*unwatch)(void *source, uint64_t context);
	bool (*look)(void *source);
};

#define RIPC_PEERS_MAX 256

extern const struct ripc__backend ripc__loop_backend, ripc__shm_backend, ripc__udp_backend,
	ripc__verbs_backend, ripc__rdmacm_backend, ripc__ofi_backend;
extern const struct ripc__source ripc__local_source, ripc__multicast_source, ripc__static_source;

/* Constant tables, ended by NULL; best first. */
extern const struct ripc__backend *const ripc__backends[];
extern const struct ripc__source *const ripc__sources[];

#endif
