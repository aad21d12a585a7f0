/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as an address blob, as a message about a connection, and as received datagrams of the
 * verbs backend. Accepted input encodes to the same bytes, and a datagram that passes for another
 * one's sender is from that sender.
 */
#include <string.h>

#include "backends/verbs/internal.h"
#include "fuzz.h"

static void decode_address(const uint8_t *data, size_t len)
{
	uint8_t again[VERBS_ADDR_LEN];
	struct verbs_addr own;
	struct ripc__addr addr;
	char text[64];

	if (ripc__verbs_addr_decode(data, len, &own))
		return;
	ripc__verbs_addr_encode(&own, again);
	CLAIM(len == sizeof(again) && memcmp(again, data, len) == 0);
	ripc__verbs_addr_fill(&own, &own, &addr);
	ripc__verbs_addr_text(&addr, text);
	CLAIM(memchr(text, '\0', sizeof(text)) && strcmp(text, "?") != 0);
}

static void decode_setup(const uint8_t *data, size_t len)
{
	uint8_t again[VERBS_SETUP_LEN];
	struct verbs_setup setup;

	if (ripc__verbs_setup_decode(data, len, &setup))
		return;
	ripc__verbs_setup_encode(&setup, again);
	CLAIM(len == sizeof(again) && memcmp(again, data, len) == 0);
}

/* A received datagram. Receive buffers are longer than any header, whatever has come. */
struct received {
	struct ibv_wc wc;
	uint8_t bytes[256];
};

static void receive(const uint8_t *data, size_t len, uint16_t lid, struct received *received)
{
	*received = (struct received){.wc = {.wc_flags = IBV_WC_GRH, .src_qp = 77, .slid = lid}};
	if (len > sizeof(received->bytes))
		len = sizeof(received->bytes);
	received->wc.byte_len = (uint32_t)len;
	memcpy(received->bytes, data, len);
}

static void read_sender(const uint8_t *data, size_t len, const struct verbs_addr *self)
{
	struct verbs_addr sender, sender_again;
	struct verbs_sender recent = {0};
	struct received first, second;
	size_t half = len / 2;
	bool is_setup;

	receive(data, half, self->lid, &first);
	receive(data + half, len - half, self->lid, &second);
	if (ripc__verbs_sender(self, &first.wc, first.bytes, &sender, &is_setup))
		return;
	CLAIM(first.wc.byte_len >= VERBS_GRH + VERBS_PREAMBLE && sender.qpn == 77);
	CLAIM(sender.kind == self->kind && sender.mtu >= 1 && sender.mtu <= 5);
	CLAIM(!ripc__verbs_is_recent(self, &recent, &first.wc, first.bytes));
	ripc__verbs_sender_note(self, &first.wc, first.bytes, &recent);
	CLAIM(ripc__verbs_is_recent(self, &recent, &first.wc, first.bytes));
	if (!ripc__verbs_is_recent(self, &recent, &second.wc, second.bytes))
		return;
	CLAIM(ripc__verbs_sender(self, &second.wc, second.bytes, &sender_again, &is_setup) == 0);
	CLAIM(memcmp(&sender, &sender_again, sizeof(sender)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct verbs_addr selves[] = {
		{.kind = RIPC__RDMA_INFINIBAND, .lid = 3, .gid = {0xfe, 0x80, [15] = 1}},
		{.kind = RIPC__RDMA_ROCE_V2, .gid = {0xfd, [15] = 1}},
		{.kind = RIPC__RDMA_ROCE_V2, .gid = {[10] = 0xff, 0xff, 10, 0, 0, 1}},
	};

	decode_address(data, len);
	decode_setup(data, len);
	for (size_t i = 0; i < sizeof(selves) / sizeof(selves[0]); i++)
		read_sender(data, len, &selves[i]);
	return 0;
}
