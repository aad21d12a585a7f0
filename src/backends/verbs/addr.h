/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and messages: their bytes come from outside. */
#ifndef RIPC_VERBS_ADDR_H
#define RIPC_VERBS_ADDR_H

#include "backends/rdma/rdma.h"

#define VERBS_VERSION     1
#define VERBS_ADDR_LEN    32
#define VERBS_PREAMBLE    8u
#define VERBS_SETUP_LEN   32u
#define VERBS_GRH         40u   /* before every received datagram (IBA 11.4.1.2) */

/* Where a partner is. */
struct verbs_addr {
	uint8_t gid[16];
	uint32_t qpn, qkey;
	uint16_t lid; /* InfiniBand; else 0 */
	uint8_t kind; /* enum ripc__rdma_kind */
	uint8_t mtu;  /* enum ibv_mtu */
};

/* The sender of a datagram for core: as the datagram names it, and as core hears it. */
struct verbs_sender {
	uint8_t gid[16];
	uint64_t preamble; /* 0: nobody has */
	uint32_t qpn;
	uint16_t slid;     /* InfiniBand; else 0 */
	struct ripc__addr addr;
};

/* What a message about a connection says. */
enum verbs_setup_type {
	VERBS_REQUEST = 1, /* client: build a queue pair that answers mine */
	VERBS_CHALLENGE,   /* server: ask again with this proof */
	VERBS_REPLY,       /* server: here it is */
	VERBS_REFUSE,      /* server: not now */
	VERBS_SERVER_GONE, /* server: the queue pair is not there any more */
	VERBS_CLIENT_GONE, /* client: the same */
};

struct verbs_setup {
	uint8_t type, mtu, reads;
	uint32_t qpn, psn;
	uint64_t nonce, proof;
};

void ripc__verbs_addr_encode(const struct verbs_addr *addr, uint8_t blob[VERBS_ADDR_LEN]);
/* -EBADMSG: it is none. */
int ripc__verbs_addr_decode(const uint8_t *blob, size_t len, struct verbs_addr *addr);
/* self: where we are. */
void ripc__verbs_addr_fill(const struct verbs_addr *own, const struct verbs_addr *self,
		struct ripc__addr *addr);
void ripc__verbs_addr_text(const struct ripc__addr *addr, char text[64]);
void ripc__verbs_preamble_encode(bool is_setup, uint8_t mtu, uint32_t qkey,
		uint8_t bytes[VERBS_PREAMBLE]);
/*
 * Finds out the sender of a received datagram: from its 40 bytes of routing header, its preamble,
 * and what the device says. -EBADMSG: no sender that speaks as we (self) do.
 */
int ripc__verbs_sender(const struct verbs_addr *self, const struct ibv_wc *wc,
		const uint8_t *bytes, struct verbs_addr *sender, bool *is_setup);
/* For ripc__verbs_is_recent(): addr is the rest. */
void ripc__verbs_sender_note(const struct verbs_addr *self, const struct ibv_wc *wc,
		const uint8_t *bytes, struct verbs_sender *sender);
/*
 * Is this one more datagram for core from the same sender? Its bytes that name the sender are
 * equal.
 */
bool ripc__verbs_is_recent(const struct verbs_addr *self, const struct verbs_sender *recent,
		const struct ibv_wc *wc, const uint8_t *bytes);
bool ripc__verbs_is_v4(const uint8_t gid[16]);
/* The GID of those who hear a number, on a network of IPv4; and is this GID of that kind? */
void ripc__verbs_many_gid(uint64_t number, uint8_t gid[16]);
bool ripc__verbs_is_many(const uint8_t gid[16]);
/* Was a received datagram sent to such a GID? Its routing header. */
bool ripc__verbs_is_to_many(const uint8_t *grh);
void ripc__verbs_setup_encode(const struct verbs_setup *setup, uint8_t bytes[VERBS_SETUP_LEN]);
int ripc__verbs_setup_decode(const uint8_t *bytes, size_t len, struct verbs_setup *setup);
/* Attributes of the way to it from this device, for address handles and queue pairs. */
void ripc__verbs_addr_attr(const struct ripc__rdma_device *rdma, const struct verbs_addr *addr,
		struct ibv_ah_attr *attr);

#endif
