/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the resolver sources for networks. */
#ifndef RIPC_RESOLVERS_INET_H
#define RIPC_RESOLVERS_INET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

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

#endif
