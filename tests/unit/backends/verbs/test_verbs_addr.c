/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of the verbs backend: what is accepted, what is refused. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/verbs/internal.h"
#include "suite.h"
#include "util/bytes.h"

static const struct verbs_addr roce = {.gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}, .qpn = 0x1234,
	.qkey = 0x76543210, .kind = RIPC__RDMA_ROCE_V2, .mtu = IBV_MTU_4096};
static const struct verbs_addr infiniband = {.gid = {0xfe, 0x80, [15] = 9}, .qpn = 0xfffffe,
	.qkey = 1, .lid = 0xbfff, .kind = RIPC__RDMA_INFINIBAND, .mtu = IBV_MTU_256};

START_TEST(addr_decode__reads_what_was_encoded)
{
	static const uint8_t expected[VERBS_ADDR_LEN] = {1, 3, 5, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0,
		0x10, 0x32, 0x54, 0x76, [26] = 0xff, 0xff, 10, 0, 0, 1};
	uint8_t blob[VERBS_ADDR_LEN];
	struct verbs_addr addr;

	ripc__verbs_addr_encode(&roce, blob);
	ck_assert_mem_eq(blob, expected, sizeof(expected));
	ck_assert_int_eq(ripc__verbs_addr_decode(blob, sizeof(blob), &addr), 0);
	ck_assert_mem_eq(&addr, &roce, sizeof(addr));
	ripc__verbs_addr_encode(&infiniband, blob);
	ck_assert_int_eq(ripc__verbs_addr_decode(blob, sizeof(blob), &addr), 0);
	ck_assert_mem_eq(&addr, &infiniband, sizeof(addr));
}
END_TEST

START_TEST(addr_decode__refuses)
{
	static const struct {
		uint8_t at, byte;
	} wrong[] = {
		{0, 0}, {0, 2}, {1, 0}, {1, 4}, {1, 1}, {2, 0}, {2, 6}, {3, 1}, {4, 1}, {6, 1},
		{7, 1}, {11, 1}, {15, 0x80}, {16, 0xff}, {28, 224}, {28, 239},
	};
	struct verbs_addr addr = {.qpn = 5};
	uint8_t blob[VERBS_ADDR_LEN];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ripc__verbs_addr_encode(&roce, blob);
		blob[wrong[i].at] = wrong[i].byte;
		ck_assert_int_eq(ripc__verbs_addr_decode(blob, sizeof(blob), &addr), -EBADMSG);
	}
	ripc__verbs_addr_encode(&roce, blob);
	put32(blob + 8, 1); /* a queue pair of the network's own */
	ck_assert_int_eq(ripc__verbs_addr_decode(blob, sizeof(blob), &addr), -EBADMSG);
	ripc__verbs_addr_encode(&roce, blob);
	memset(blob + 16, 0, 16);
	ck_assert_int_eq(ripc__verbs_addr_decode(blob, sizeof(blob), &addr), -EBADMSG);
	ripc__verbs_addr_encode(&infiniband, blob);
	put16(blob + 4, 0xc000); /* a group */
	ck_assert_int_eq(ripc__verbs_addr_decode(blob, sizeof(blob), &addr), -EBADMSG);
	ck_assert_uint_eq(addr.qpn, 5);
}
END_TEST

static void datagram(uint8_t bytes[64], struct ibv_wc *wc, bool v4)
{
	memset(bytes, 0xee, 64);
	if (v4) {
		bytes[20] = 0x45;
		memcpy(bytes + 32, "\x0a\x00\x00\x02", 4);
	} else {
		bytes[0] = 0x60;
		memcpy(bytes + 8, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02", 16);
	}
	ripc__verbs_preamble_encode(true, IBV_MTU_1024, 0x1111, bytes + VERBS_GRH);
	*wc = (struct ibv_wc){.wc_flags = IBV_WC_GRH, .src_qp = 0x77, .byte_len = 64};
}

START_TEST(sender__by_ipv4)
{
	struct verbs_addr sender;
	struct ibv_wc wc;
	uint8_t bytes[64];
	bool is_setup = false;

	datagram(bytes, &wc, true);
	ck_assert_int_eq(ripc__verbs_sender(&roce, &wc, bytes, &sender, &is_setup), 0);
	ck_assert(is_setup);
	ck_assert_uint_eq(sender.qpn, 0x77);
	ck_assert_uint_eq(sender.qkey, 0x1111);
	ck_assert_uint_eq(sender.mtu, IBV_MTU_1024);
	ck_assert(ripc__rdma_is_v4(sender.gid));
	ck_assert_uint_eq(sender.gid[15], 2);
	bytes[20] = 0x46;
	ck_assert_int_eq(ripc__verbs_sender(&roce, &wc, bytes, &sender, &is_setup), -EBADMSG);
}
END_TEST

START_TEST(sender__by_routing_header)
{
	struct verbs_addr self = infiniband, sender;
	struct ibv_wc wc;
	uint8_t bytes[64];
	bool is_setup;

	datagram(bytes, &wc, false);
	wc.slid = 12;
	ck_assert_int_eq(ripc__verbs_sender(&self, &wc, bytes, &sender, &is_setup), 0);
	ck_assert_uint_eq(sender.lid, 12);
	ck_assert_uint_eq(sender.gid[0], 0xfd);
	bytes[0] = 0x40;
	ck_assert_int_eq(ripc__verbs_sender(&self, &wc, bytes, &sender, &is_setup), -EBADMSG);
}
END_TEST

/* All its four 16-bit words, xored. */
START_TEST(many_gid__of_a_number)
{
	static const uint8_t expected[16] = {[10] = 0xff, 0xff, 239, 255, 0xa6, 0x1e};
	uint8_t gid[16], grh[VERBS_GRH] = {[20] = 0x45, [36] = 239, 255, 0xa6, 0x1e};

	ripc__verbs_multicast_gid(0xff00123489abc281, gid);
	ck_assert_mem_eq(gid, expected, sizeof(gid));
	ck_assert(ripc__verbs_is_multicast_gid(gid));
	ck_assert(!ripc__verbs_is_multicast_gid(roce.gid));
	ck_assert(ripc__verbs_is_to_multicast(grh));
	grh[37] = 254;
	ck_assert(!ripc__verbs_is_to_multicast(grh));
	grh[37] = 255;
	grh[20] = 0;
	ck_assert(!ripc__verbs_is_to_multicast(grh));
}
END_TEST

START_TEST(sender__refuses)
{
	struct verbs_addr sender;
	struct ibv_wc wc;
	uint8_t bytes[64];
	bool is_setup;

	for (int i = 0; i < 6; i++) {
		datagram(bytes, &wc, true);
		wc.wc_flags = i == 0 ? 0 : IBV_WC_GRH;
		wc.byte_len = i == 1 ? 47 : 64;
		wc.src_qp = i == 2 ? 0 : 0x77;
		bytes[VERBS_GRH] = i == 3 ? 3 : 1;
		bytes[VERBS_GRH + 1] = i == 4 ? 9 : 5;
		bytes[VERBS_GRH + 2] = i == 5;
		ck_assert_int_eq(ripc__verbs_sender(&roce, &wc, bytes, &sender, &is_setup),
			-EBADMSG);
	}
}
END_TEST

/* The next one of the same, and whatever may be different in another's. */
static void check_recent(const struct verbs_addr *self, bool v4)
{
	static const struct {
		uint8_t at, byte;
	} others[] = {
		{VERBS_GRH, 2}, {VERBS_GRH + 1, IBV_MTU_4096}, {VERBS_GRH + 2, 1},
		{VERBS_GRH + 4, 0x12}, {VERBS_GRH + 7, 0x01},
	};
	struct verbs_sender recent = {.qpn = 0};
	struct ibv_wc wc, other;
	uint8_t bytes[64];

	datagram(bytes, &wc, v4);
	bytes[VERBS_GRH] = 1;
	wc.slid = 12;
	ck_assert(!ripc__verbs_is_recent(self, &recent, &wc, bytes));
	ripc__verbs_sender_note(self, &wc, bytes, &recent);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		uint8_t kept = bytes[others[i].at];

		bytes[others[i].at] = others[i].byte;
		ck_assert(!ripc__verbs_is_recent(self, &recent, &wc, bytes));
		bytes[others[i].at] = kept;
	}
	for (int i = 0; i < 4; i++) {
		bool is_same = i == 3 && self->kind != RIPC__RDMA_INFINIBAND;

		other = wc;
		other.wc_flags = i == 0 ? 0 : IBV_WC_GRH;
		other.byte_len = i == 1 ? 47 : 48;
		other.src_qp += i == 2;
		other.slid += i == 3;
		ck_assert(ripc__verbs_is_recent(self, &recent, &other, bytes) == is_same);
	}
	bytes[v4 ? 35 : 23] ^= 1;
	ck_assert(!ripc__verbs_is_recent(self, &recent, &wc, bytes));
	bytes[v4 ? 35 : 23] ^= 1;
	bytes[v4 ? 20 : 0] ^= 0x10;
	ck_assert(!ripc__verbs_is_recent(self, &recent, &wc, bytes));
	bytes[v4 ? 20 : 0] ^= 0x10;
	bytes[v4 ? 25 : 3] ^= 1; /* of the header, but not of the sender */
	ck_assert(ripc__verbs_is_recent(self, &recent, &wc, bytes));
}

START_TEST(is_recent__same_words)
{
	check_recent(&roce, true);
	check_recent(&infiniband, false);
}
END_TEST

/* A record without a sender does not match a datagram of a sender without a name. */
START_TEST(is_recent__nobody)
{
	const struct verbs_sender nobody = {.qpn = 0};
	const struct verbs_addr self = {.gid = {0xfd}, .kind = RIPC__RDMA_ROCE_V2};
	const struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .byte_len = 64};
	const uint8_t bytes[64] = {0x60};

	ck_assert(!ripc__verbs_is_recent(&self, &nobody, &wc, bytes));
}
END_TEST

START_TEST(setup_decode__reads_what_was_encoded)
{
	const struct verbs_setup setup = {.type = VERBS_REQUEST, .mtu = IBV_MTU_2048, .reads = 16,
		.qpn = 0x123456, .psn = 0xffffff, .nonce = 0x1122334455667788, .proof = 9};
	uint8_t bytes[VERBS_SETUP_LEN];
	struct verbs_setup read;

	ripc__verbs_setup_encode(&setup, bytes);
	ck_assert_int_eq(ripc__verbs_setup_decode(bytes, sizeof(bytes), &read), 0);
	ck_assert_uint_eq(read.qpn, setup.qpn);
	ck_assert_uint_eq(read.psn, setup.psn);
	ck_assert_uint_eq(read.nonce, setup.nonce);
	ck_assert_uint_eq(read.proof, setup.proof);
	ck_assert_uint_eq(read.reads, 16);
	ck_assert_uint_eq(read.mtu, IBV_MTU_2048);
}
END_TEST

START_TEST(setup_decode__refuses)
{
	const struct verbs_setup request = {.type = VERBS_REQUEST, .mtu = IBV_MTU_2048, .reads = 1,
		.qpn = 5, .nonce = 1};
	static const struct {
		uint8_t at, byte;
	} wrong[] = {
		{0, 0}, {0, 7}, {0, 2}, {0, 4}, {1, 0}, {1, 6}, {2, 0}, {3, 1}, {4, 0}, {7, 1},
		{11, 1}, {12, 1}, {15, 1}, {16, 0},
	};
	uint8_t bytes[VERBS_SETUP_LEN];
	struct verbs_setup read;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ripc__verbs_setup_encode(&request, bytes);
		bytes[wrong[i].at] = wrong[i].byte;
		ck_assert_int_eq(ripc__verbs_setup_decode(bytes, sizeof(bytes), &read), -EBADMSG);
	}
	ripc__verbs_setup_encode(&request, bytes);
	ck_assert_int_eq(ripc__verbs_setup_decode(bytes, sizeof(bytes) - 1, &read), -EBADMSG);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		addr_decode__reads_what_was_encoded,
		addr_decode__refuses,
		many_gid__of_a_number,
		sender__by_ipv4,
		sender__by_routing_header,
		sender__refuses,
		is_recent__same_words,
		is_recent__nobody,
		setup_decode__reads_what_was_encoded,
		setup_decode__refuses,
		NULL,
	};

	return suite_run("verbs_addr", tests);
}
