/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of resolvers and resolvers/store: no other room includes this. */
#ifndef RIPC_RESOLVERS_INTERNAL_H
#define RIPC_RESOLVERS_INTERNAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/net/backend.h"
#include "util/list.h"
#include "util/map.h"

/* ---- liveness ---------------------------------------------------------------------------- */

/*
 * Proof that a context of this host lives, or that it has ended (docs/protocol.md, Life): each
 * context holds a record lock and shows it to those that request it; its connection to them ends
 * with it.
 */

#define LIFE_LINKS_MAX 4096u /* contexts that one is connected with; nothing is proven for others */

struct liveness {
	struct ripc__host host;
	uid_t uid;
	bool is_user;           /* uid is of one user (util/system/users.h) */
	int epoll_fd;           /* the source's */
	int listener, lock_fd;  /* -1: we have no lock to show */
	dev_t lock_dev;
	ino_t lock_ino;
	struct ripc__map links; /* struct liveness_link by context */
	struct list unnamed;    /* processes that have connected and sent nothing yet */
	struct list closed;     /* freed by ripc__liveness_tend() */
	uint32_t n_links;       /* with a connection */
	uint32_t look_at;       /* where the next look begins */
};

/*
 * Opens the proofs. Without the means nothing is proven; that is no error. epoll_fd: wakes for
 * it.
 */
void ripc__liveness_open(struct liveness *liveness, const struct ripc__host *host, uid_t uid,
		int epoll_fd);
void ripc__liveness_close(struct liveness *liveness);

/* Slots of a source that begins with its struct liveness. */

/* The end of this context will be reported (host.gone), if it is on this host; counted. */
void ripc__liveness_watch(void *source, uint64_t context);
void ripc__liveness_unwatch(void *source, uint64_t context);
/* Polls some of the locks: a forked child may keep a connection. Are there any? */
bool ripc__liveness_look(void *source);

/* Does the object of an epoll_fd event belong here? Then: it is readable. */
static inline bool ripc__liveness_owns(const void *data)
{
	return (uintptr_t)data & 1;
}
void ripc__liveness_ready(struct liveness *liveness, void *data);
/* The number by which contexts know that they can prove each other's end; 0: this one cannot. */
uint64_t ripc__liveness_number(void *source);
/* Has this context of the same number ended? */
bool ripc__liveness_ended(void *source, uint64_t context);
/* Frees closed links. Between two calls of epoll_wait: no event refers to them. */
void ripc__liveness_tend(struct liveness *liveness);

/* ---- peers ------------------------------------------------------------------------------- */

/*
 * The hosts that a configuration names ("host[:port],..."), as addresses: read, and read again,
 * because the addresses of a name may change.
 */

#define PEERS_MAX RIPC_PEERS_MAX

struct peers {
	struct sockaddr_in addresses[PEERS_MAX]; /* port 0: a free place */
	uint32_t n, n_places; /* addresses; places in use, and free ones between them */
	bool has_names;       /* some entries are no addresses */
	bool is_silent;       /* the name service does not answer for one of them */
	char why_not[160];    /* an unusable entry, in words; "" if there is none */
};

/*
 * Reads a list. Names are resolved by the name service, which may take long. A name that has no
 * address now is left out, and why_not names it: hosts come and go, and so do their names.
 * -EINVAL: an entry cannot be understood, or there are more than PEERS_MAX, as why_not says;
 * -ENOMEM.
 */
int ripc__peers_read(const char *text, in_port_t port, struct peers *peers);
/* Takes over the results of a newer reading. An address that is still there keeps its place. */
void ripc__peers_update(struct peers *peers, const struct peers *newer);

/* ---- networks ---------------------------------------------------------------------------- */

/* Shared by the sources for networks (inet.c). */

#define INET_PORT  15511          /* every context listens here (option "resolver.port") */
#define INET_GROUP "239.255.76.82" /* administratively scoped, RFC 2365 */
/*
 * Transient, site-local, RFC 4291 and 3307. Because the scope is wider than a link, the kernel
 * sends from a global or unique local address, if the interface has one (RFC 6724, rule 2).
 */
#define INET_GROUP6 "ff15::f269:7063"

/* The option's number, or fallback if it is not set. -EINVAL: no number in its range (logged). */
int ripc__inet_number(const struct ripc__host *host, const char *option, uint32_t fallback);
/* The port that contexts listen on. -EINVAL (logged). */
int ripc__inet_port(const struct ripc__host *host);
/* Is name one of "eth0,lo"? NULL names all. */
bool ripc__inet_interface_wanted(const char *wanted, const char *name);
/*
 * Opens a non-blocking UDP socket that reports the destination of each datagram, or returns a
 * negative errno.
 */
int ripc__inet_socket(void);
/* The same for IPv6 alone. */
int ripc__inet6_socket(void);
/*
 * Receives one datagram of at most WIRE_RESOLVE_MAX bytes. 1; 0: there is none. buffer has
 * WIRE_RESOLVE_MAX + 1 bytes. A datagram that is too long or has an impossible sender is
 * dropped.
 */
int ripc__inet_receive(int fd, uint8_t *buffer, struct ripc__source_event *event);
/* Is this an event's sender over IPv6? */
bool ripc__inet_is_six(const struct ripc__addr *to);
/* The interface by which an event arrived over IPv6; 0: not known. */
uint32_t ripc__inet_interface(const struct ripc__addr *from);
/*
 * Answers an event's sender, from the address that it had sent to, by a socket of its family. If
 * that was a group over IPv6, the kernel chooses the address.
 */
int ripc__inet_reply(int fd, const struct ripc__addr *to, const void *data, size_t len);
/*
 * A descriptor, the caller's to close, that is readable when the kernel reports a change of
 * interfaces or addresses (netlink). -1: not every sandbox has it.
 */
int ripc__changes_open(void);
/* Reads the reports; does not block. Were there any? fd -1: no. */
bool ripc__changes_read(int fd);

/* ---- filter ------------------------------------------------------------------------------ */

/*
 * Lets the kernel drop multicast queries about IDs that no service here has, and notices about
 * them while this process only serves: otherwise each wakes every process of a host. A packet
 * that passes may still be about another ID.
 */

#define FILTER_WORDS 16u

struct filter {
	uint32_t bits[FILTER_WORDS]; /* by a hash of the ID; never cleared */
	uint8_t kin;        /* the last bits of this context's number (WIRE_DIGEST_KIN) */
	bool serves, knows; /* has a public ID; IDs of others are of interest */
};

/* This context has the ID from now on. True: the filter has changed. */
bool ripc__filter_add(struct filter *filter, uint64_t id, bool private_id);
/* Notices about IDs of others concern this process from now on. True: the filter has changed. */
bool ripc__filter_know(struct filter *filter);
/*
 * Attaches the filter to a UDP socket, in place of the last one. Datagrams to other addresses
 * pass; on an IPv4 socket the group is v4-mapped. If the kernel refuses the filter, none is
 * left, because the last one does not know the new ID.
 */
void ripc__filter_attach(const struct filter *filter, int fd, const struct in6_addr *group);

/* ---- options ----------------------------------------------------------------------------- */

/* The options of the store source, known also where it is not built in. */

struct store_wish {
	const char *servers, *cluster, *auth; /* NULL: not configured */
	uint32_t session_ms;
};

#endif
