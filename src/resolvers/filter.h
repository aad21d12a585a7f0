/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lets the kernel drop multicast questions about IDs that do not live here, and notices about them
 * while this process only serves: else each wakes every process of a host. What passes may still be
 * about another ID.
 */
#ifndef RIPC_FILTER_H
#define RIPC_FILTER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define FILTER_WORDS 16u

struct filter {
	uint32_t bits[FILTER_WORDS]; /* by a hash of the ID; never taken back */
	uint8_t kin;        /* the last bits of this context's number (WIRE_DIGEST_KIN) */
	bool serves, knows; /* a public ID lives here; IDs of others are of interest */
};

/* An ID lives here from now on. True: the filter has changed. */
bool ripc__filter_add(struct filter *filter, uint64_t id, bool private_id);
/* Notices about IDs of others concern this process from now on. True: the filter has changed. */
bool ripc__filter_know(struct filter *filter);
/*
 * Puts it on a UDP socket, in place of what was there. Datagrams to other addresses pass; on
 * a socket of IPv4 the group is v4-mapped. Where the kernel refuses it no filter is left: what was
 * there knows nothing of the last ID.
 */
void ripc__filter_attach(const struct filter *filter, int fd, const struct in6_addr *group);

#endif
