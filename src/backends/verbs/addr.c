/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of the verbs backend: address blobs, the preamble of every datagram, and messages about
 * connections (docs/protocol.md). All of it comes from outside and is checked here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "util/bytes.h"

#define NUMBER_MAX 0xffffffu /* of queue pairs and packets: 24 bits */
#define QKEY_MAX   0x7fffffffu /* those above are the administrator's */
#define HOPS       64

static const uint8_t zeros[16], mapped[12] = {[10] = 0xff, 0xff};
static const uint8_t many[2] = {239, 255}; /* the local scope of RFC 2365 */

/* ---- addresses --------------------------------------------------------------------------- */

void ripc__verbs_addr_encode(const struct verbs_addr *addr, uint8_t blob[VERBS_ADDR_LEN])
{
	memset(blob, 0, VERBS_ADDR_LEN);
	blob[0] = VERBS_VERSION;
	blob[1] = addr->kind;
	blob[2] = addr->mtu;
	put16(blob + 4, addr->lid);
	put32(blob + 8, addr->qpn);
	put32(blob + 12, addr->qkey);
	memcpy(blob + 16, addr->gid, sizeof(addr->gid));
}

static bool is_multicast(const uint8_t gid[16])
{
	return gid[0] == 0xff || (ripc__rdma_is_v4(gid) && gid[12] >> 4 == 14);
}

static bool is_mtu(uint8_t mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096;
}

/* Queue pairs 0 and 1 are the network's own; the last one is for all that joined a group. */
static bool is_qpn(uint32_t qpn)
{
	return qpn > 1 && qpn < NUMBER_MAX;
}

int ripc__verbs_addr_decode(const uint8_t *blob, size_t len, struct verbs_addr *addr)
{
	struct verbs_addr read;

	if (len != VERBS_ADDR_LEN || blob[0] != VERBS_VERSION)
		return -EBADMSG;
	read = (struct verbs_addr){.kind = blob[1], .mtu = blob[2], .lid = get16(blob + 4),
		.qpn = get32(blob + 8), .qkey = get32(blob + 12)};
	memcpy(read.gid, blob + 16, sizeof(read.gid));
	if (blob[3] || get16(blob + 6) || !is_mtu(read.mtu) || !is_qpn(read.qpn) ||
			read.qkey > QKEY_MAX || memcmp(read.gid, zeros, sizeof(zeros)) == 0)
		return -EBADMSG;
	/* No multicast GID; a LID only if the network has LIDs, and then of one port. */
	if (is_multicast(read.gid) || read.lid >= 0xc000 ||
			(read.kind == RIPC__RDMA_INFINIBAND) != (read.lid != 0))
		return -EBADMSG;
	if (read.kind < RIPC__RDMA_INFINIBAND || read.kind > RIPC__RDMA_ROCE_V2)
		return -EBADMSG;
	*addr = read;
	return 0;
}

void ripc__verbs_addr_fill(const struct verbs_addr *own, const struct verbs_addr *self,
		struct ripc__addr *addr)
{
	static const uint8_t here[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	bool is_here = memcmp(own->gid, self->gid, sizeof(own->gid)) == 0;

	memcpy(addr->host, is_here ? here : own->gid, sizeof(addr->host));
	addr->len = VERBS_ADDR_LEN;
	ripc__verbs_addr_encode(own, addr->blob);
}

void ripc__verbs_addr_text(const struct ripc__addr *addr, char text[64])
{
	char gid[INET6_ADDRSTRLEN];
	struct verbs_addr own;

	if (ripc__verbs_addr_decode(addr->blob, addr->len, &own) ||
			!inet_ntop(AF_INET6, own.gid, gid, sizeof(gid))) {
		snprintf(text, 64, "?");
		return;
	}
	snprintf(text, 64, "%.45s qp %u", gid, own.qpn);
}

void ripc__verbs_addr_attr(const struct ripc__rdma_device *rdma, const struct verbs_addr *addr,
		struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
		.grh = {.sgid_index = rdma->gid_index,
			.hop_limit = ripc__verbs_is_multicast_gid(addr->gid) ? 1 : HOPS},
		.is_global = 1,
		.dlid = addr->lid,
		.port_num = rdma->port,
	};
	memcpy(&attr->grh.dgid, addr->gid, sizeof(addr->gid));
}

/* ---- to many ----------------------------------------------------------------------------- */

void ripc__verbs_multicast_gid(uint64_t number, uint8_t gid[16])
{
	uint32_t address = ripc__multicast_address(number);

	memcpy(gid, mapped, sizeof(mapped));
	for (int i = 0; i < 4; i++)
		gid[12 + i] = (uint8_t)(address >> (24 - 8 * i));
}

bool ripc__verbs_is_multicast_gid(const uint8_t gid[16])
{
	return ripc__rdma_is_v4(gid) && memcmp(gid + 12, many, sizeof(many)) == 0;
}

bool ripc__verbs_is_to_multicast(const uint8_t *grh)
{
	return grh[20] == 0x45 && memcmp(grh + 36, many, sizeof(many)) == 0;
}

/* ---- datagrams --------------------------------------------------------------------------- */

void ripc__verbs_preamble_encode(bool is_setup, uint8_t mtu, uint32_t qkey,
		uint8_t bytes[VERBS_PREAMBLE])
{
	bytes[0] = is_setup ? 2 : 1;
	bytes[1] = mtu;
	put16(bytes + 2, 0);
	put32(bytes + 4, qkey);
}

/*
 * The sender's GID from the routing header. RoCE v2 over IPv4 leaves an IPv4 header in its last
 * bytes, and nothing certain before that.
 */
static int read_gid(const struct verbs_addr *self, const uint8_t *grh, uint8_t gid[16])
{
	if (ripc__rdma_is_v4(self->gid)) {
		memcpy(gid, mapped, sizeof(mapped));
		memcpy(gid + 12, grh + 32, 4);
		return grh[20] == 0x45 ? 0 : -EBADMSG;
	}
	memcpy(gid, grh + 8, 16);
	return grh[0] >> 4 == 6 ? 0 : -EBADMSG;
}

int ripc__verbs_sender(const struct verbs_addr *self, const struct ibv_wc *wc,
		const uint8_t *bytes, struct verbs_addr *sender, bool *is_setup)
{
	const uint8_t *preamble = bytes + VERBS_GRH;
	uint8_t blob[VERBS_ADDR_LEN];
	struct verbs_addr read = {.kind = self->kind, .qpn = wc->src_qp};

	if (!(wc->wc_flags & IBV_WC_GRH) || wc->byte_len < VERBS_GRH + VERBS_PREAMBLE ||
			read_gid(self, bytes, read.gid))
		return -EBADMSG;
	if (preamble[0] < 1 || preamble[0] > 2 || get16(preamble + 2))
		return -EBADMSG;
	read.mtu = preamble[1];
	read.qkey = get32(preamble + 4);
	read.lid = self->kind == RIPC__RDMA_INFINIBAND ? wc->slid : 0;
	ripc__verbs_addr_encode(&read, blob);
	if (ripc__verbs_addr_decode(blob, sizeof(blob), sender))
		return -EBADMSG;
	*is_setup = preamble[0] == 2;
	return 0;
}

void ripc__verbs_sender_note(const struct verbs_addr *self, const struct ibv_wc *wc,
		const uint8_t *bytes, struct verbs_sender *sender)
{
	(void)read_gid(self, bytes, sender->gid);
	sender->preamble = get64(bytes + VERBS_GRH);
	sender->qpn = wc->src_qp;
	sender->slid = self->kind == RIPC__RDMA_INFINIBAND ? wc->slid : 0;
}

bool ripc__verbs_is_recent(const struct verbs_addr *self, const struct verbs_sender *recent,
		const struct ibv_wc *wc, const uint8_t *bytes)
{
	uint8_t gid[16];

	return recent->preamble && wc->wc_flags & IBV_WC_GRH &&
		wc->byte_len >= VERBS_GRH + VERBS_PREAMBLE &&
		get64(bytes + VERBS_GRH) == recent->preamble && wc->src_qp == recent->qpn &&
		(self->kind != RIPC__RDMA_INFINIBAND || wc->slid == recent->slid) &&
		read_gid(self, bytes, gid) == 0 && memcmp(gid, recent->gid, sizeof(gid)) == 0;
}

/* ---- messages about connections ---------------------------------------------------------- */

void ripc__verbs_setup_encode(const struct verbs_setup *setup, uint8_t bytes[VERBS_SETUP_LEN])
{
	memset(bytes, 0, VERBS_SETUP_LEN);
	bytes[0] = setup->type;
	bytes[1] = setup->mtu;
	bytes[2] = setup->reads;
	put32(bytes + 4, setup->qpn);
	put32(bytes + 8, setup->psn);
	put64(bytes + 16, setup->nonce);
	put64(bytes + 24, setup->proof);
}

int ripc__verbs_setup_decode(const uint8_t *bytes, size_t len, struct verbs_setup *setup)
{
	struct verbs_setup read;
	bool has_pair;

	if (len != VERBS_SETUP_LEN || bytes[3] || get32(bytes + 12))
		return -EBADMSG;
	read = (struct verbs_setup){.type = bytes[0], .mtu = bytes[1], .reads = bytes[2],
		.qpn = get32(bytes + 4), .psn = get32(bytes + 8), .nonce = get64(bytes + 16),
		.proof = get64(bytes + 24)};
	if (read.type < VERBS_REQUEST || read.type > VERBS_CLIENT_GONE || !read.nonce)
		return -EBADMSG;
	has_pair = read.type == VERBS_REQUEST || read.type == VERBS_REPLY;
	if (has_pair != is_qpn(read.qpn) || has_pair != is_mtu(read.mtu) ||
			has_pair != (read.reads != 0) || read.psn > NUMBER_MAX)
		return -EBADMSG;
	*setup = read;
	return 0;
}
