/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of the ofi backend: what is accepted, what is refused. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ofi/internal.h"
#include "suite.h"
#include "util/bytes.h"

/* An endpoint of each format that has rules. */
enum which { IP4, IP6, EFA, TEXT, OTHER, N_NAMES };

static void name_make(enum which which, struct ofi_name *name)
{
	static const uint32_t formats[] = {FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_ADDR_EFA,
		FI_ADDR_STR, FI_ADDR_PSMX2};
	struct sockaddr_in ip4 = {.sin_family = AF_INET, .sin_port = htons(7),
		.sin_addr.s_addr = htonl(0x0a000001)};
	struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6, .sin6_port = htons(7),
		.sin6_addr.s6_addr = {0xfd, [15] = 1}};
	uint8_t efa[32] = {0xfe, 0x80, [15] = 9, [16] = 5, [20] = 1, 2, 3, 4, [24] = 77};
	static const char text[] = "fi_shm://12:0:3";
	uint8_t other[16] = {1, 2, 3};
	const void *const bytes[] = {&ip4, &ip6, efa, text, other};
	const size_t lens[] = {sizeof(ip4), sizeof(ip6), sizeof(efa), sizeof(text), sizeof(other)};
	struct fi_ep_attr ep = {.protocol = 20};
	struct fi_info info = {.addr_format = formats[which], .ep_attr = &ep};

	ck_assert_int_eq(ripc__ofi_name_from(&info, bytes[which], lens[which], name), 0);
}

static bool names_equal(const struct ofi_name *one, const struct ofi_name *other)
{
	return one->format == other->format && one->len == other->len &&
		one->protocol == other->protocol && memcmp(one->bytes, other->bytes, one->len) == 0;
}

/* A port without checksums only speaks with ports without them. */
START_TEST(name_decode__checksums_must_agree)
{
	struct ofi_name name, other, read;
	uint8_t blob[RIPC_ADDR_MAX], head[OFI_HEAD_MAX];
	struct ripc__addr addr;
	char text[64];
	size_t len;

	name_make(EFA, &name);
	other = name;
	other.unchecked = true;
	for (int turn = 0; turn < 2; turn++) {
		const struct ofi_name *self = turn ? &other : &name;
		const struct ofi_name *stranger = turn ? &name : &other;

		len = (size_t)ripc__ofi_name_encode(self, blob);
		ck_assert_int_eq(ripc__ofi_name_decode(blob, len, self, &read), 0);
		ck_assert_int_eq(read.unchecked, self->unchecked);
		ck_assert_int_eq(ripc__ofi_name_decode(blob, len, stranger, &read), -EBADMSG);
		ripc__ofi_addr_fill(self, stranger, &addr);
		ripc__ofi_addr_text(&addr, text);
		ck_assert_str_ne(text, "?");
		len = ripc__ofi_head_encode(self, head);
		ck_assert_int_eq(ripc__ofi_head_decode(head, len, self, &read), (int)len);
		ck_assert_int_eq(read.unchecked, self->unchecked);
		ck_assert_int_eq(ripc__ofi_head_decode(head, len, stranger, &read), -EBADMSG);
	}
	blob[3] = 2;
	ck_assert_int_eq(ripc__ofi_name_decode(blob, sizeof(blob), &other, &read), -EBADMSG);
}
END_TEST

/* A pointer in an EFA address is not sent to partners. */
START_TEST(name_from__leaves_out_pointers)
{
	struct ofi_name name;

	name_make(EFA, &name);
	ck_assert_uint_eq(get64(name.bytes + 24), 0);
}
END_TEST

START_TEST(name_from__refuses)
{
	struct fi_ep_attr ep = {.protocol = 20};
	struct fi_info info = {.addr_format = FI_ADDR_PSMX2, .ep_attr = &ep};
	uint8_t bytes[OFI_NAME_MAX + 1] = {1};
	struct ofi_name name, before;

	memset(&name, 0x5a, sizeof(name));
	before = name;
	ck_assert_int_eq(ripc__ofi_name_from(&info, bytes, sizeof(bytes), &name), -ENAMETOOLONG);
	ck_assert_int_eq(ripc__ofi_name_from(&info, bytes, 0, &name), -EADDRNOTAVAIL);
	info.addr_format = FI_SOCKADDR_IN;
	ck_assert_int_eq(ripc__ofi_name_from(&info, bytes, 16, &name), -EADDRNOTAVAIL);
	ck_assert_mem_eq(&name, &before, sizeof(name));
}
END_TEST

START_TEST(name_decode__reads_what_was_encoded)
{
	uint8_t blob[RIPC_ADDR_MAX];
	struct ofi_name name, read;
	int len;

	for (enum which which = 0; which < N_NAMES; which++) {
		name_make(which, &name);
		len = ripc__ofi_name_encode(&name, blob);
		ck_assert_int_eq(len, (int)(OFI_ADDR_HEAD + name.len));
		ck_assert_int_eq(ripc__ofi_name_decode(blob, (size_t)len, &name, &read), 0);
		ck_assert(names_equal(&name, &read));
	}
}
END_TEST

START_TEST(name_decode__refuses_other_lengths)
{
	uint8_t blob[RIPC_ADDR_MAX] = {0};
	struct ofi_name name, read;

	for (enum which which = 0; which < N_NAMES; which++) {
		int len;

		name_make(which, &name);
		len = ripc__ofi_name_encode(&name, blob);
		for (int n = 0; n <= RIPC_ADDR_MAX; n++) {
			if (n != len)
				ck_assert_int_eq(ripc__ofi_name_decode(blob, (size_t)n, &name,
					&read), -EBADMSG);
		}
	}
}
END_TEST

START_TEST(name_decode__refuses_others_protocols)
{
	uint8_t blob[RIPC_ADDR_MAX];
	struct ofi_name name, self, read;
	size_t len;

	name_make(IP4, &name);
	len = (size_t)ripc__ofi_name_encode(&name, blob);
	self = name;
	self.protocol++;
	ck_assert_int_eq(ripc__ofi_name_decode(blob, len, &self, &read), -EBADMSG);
	self = name;
	self.format = OFI_FORMAT_IP6;
	ck_assert_int_eq(ripc__ofi_name_decode(blob, len, &self, &read), -EBADMSG);
}
END_TEST

START_TEST(name_decode__refuses)
{
	static const struct {
		enum which which;
		uint8_t at, byte; /* of the name */
	} wrong[] = {
		{IP4, 0, AF_INET6}, {IP4, 3, 0}, {IP4, 4, 0}, {IP4, 4, 224}, {IP4, 4, 255},
		{IP6, 0, AF_INET}, {IP6, 3, 0}, {IP6, 8, 0xff},
		{EFA, 0, 0xff}, {EFA, 16, 0}, {EFA, 18, 1}, {EFA, 24, 1}, {EFA, 31, 0x80},
		{TEXT, 0, 'F'}, {TEXT, 3, 0}, {TEXT, 6, '.'}, {TEXT, 9, '/'}, {TEXT, 9, '.'},
		{TEXT, 9, ' '}, {TEXT, 9, 0x80}, {TEXT, 15, 'x'},
	};
	uint8_t blob[RIPC_ADDR_MAX];
	struct ofi_name name, read;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t len;

		name_make(wrong[i].which, &name);
		len = (size_t)ripc__ofi_name_encode(&name, blob);
		blob[OFI_ADDR_HEAD + wrong[i].at] = wrong[i].byte;
		ck_assert_msg(ripc__ofi_name_decode(blob, len, &name, &read) == -EBADMSG,
			"number %zu", i);
	}
}
END_TEST

/* Any bytes are either refused or equal to their own encoding. */
START_TEST(name_decode__survives_anything)
{
	uint8_t blob[RIPC_ADDR_MAX], again[RIPC_ADDR_MAX];
	struct ofi_name name, read;

	srandom(1);
	for (uint32_t turn = 0; turn < 200000; turn++) {
		size_t len;

		name_make(turn % N_NAMES, &name);
		len = (size_t)ripc__ofi_name_encode(&name, blob);
		for (uint32_t n = 1 + turn % 3; n; n--)
			blob[random() % (long)len] = (uint8_t)random();
		if (ripc__ofi_name_decode(blob, len, &name, &read))
			continue;
		ck_assert_int_eq(ripc__ofi_name_encode(&read, again), (int)len);
		ck_assert_mem_eq(again, blob, len);
	}
}
END_TEST

START_TEST(head_decode__reads_what_was_encoded)
{
	static const uint32_t lens[] = {24, 32, 32, 24, 24};
	uint8_t head[OFI_HEAD_MAX];
	struct ofi_name name, read;

	for (enum which which = 0; which < N_NAMES; which++) {
		name_make(which, &name);
		ck_assert_uint_eq(ripc__ofi_head_encode(&name, head), lens[which]);
		ck_assert_int_eq(ripc__ofi_head_decode(head, lens[which], &name, &read),
			(int)lens[which]);
		ck_assert(names_equal(&name, &read));
	}
}
END_TEST

START_TEST(head_decode__refuses)
{
	static const struct {
		uint8_t at, byte;
	} wrong[] = {{0, 0}, {0, 2}, {1, OFI_FORMAT_IP6}, {2, 0}, {2, 15}, {2, 17}, {2, 57},
		{2, 255}, {3, 1}, {4, 1}, {7, 0}, {20, 1}, {23, 0xff}};
	uint8_t head[OFI_HEAD_MAX];
	struct ofi_name name, read;
	uint32_t len;

	name_make(IP4, &name);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		len = ripc__ofi_head_encode(&name, head);
		head[wrong[i].at] = wrong[i].byte;
		ck_assert_msg(ripc__ofi_head_decode(head, len, &name, &read) == -EBADMSG,
			"number %zu", i);
	}
	len = ripc__ofi_head_encode(&name, head);
	for (uint32_t n = 0; n < len; n++)
		ck_assert_int_eq(ripc__ofi_head_decode(head, n, &name, &read), -EBADMSG);
}
END_TEST

/* Within one host it is 127.0.0.1, so that core knows. */
START_TEST(addr_fill__tells_the_host)
{
	static const uint8_t here[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	static const uint8_t there[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};
	struct ofi_name self, name;
	struct ripc__addr addr;
	char text[64];

	name_make(IP4, &self);
	name = self;
	ripc__ofi_addr_fill(&name, &self, &addr);
	ck_assert_mem_eq(addr.host, here, 16);
	name.bytes[7] = 2;
	ripc__ofi_addr_fill(&name, &self, &addr);
	ck_assert_mem_eq(addr.host, there, 16);
	ripc__ofi_addr_text(&addr, text);
	ck_assert_str_eq(text, "10.0.0.2 port 7");
	name_make(EFA, &name);
	ripc__ofi_addr_fill(&name, &self, &addr);
	ripc__ofi_addr_text(&addr, text);
	ck_assert_str_eq(text, "fe80::9 qp 5");
	name_make(TEXT, &name);
	ripc__ofi_addr_fill(&name, &self, &addr);
	ripc__ofi_addr_text(&addr, text);
	ck_assert_str_eq(text, "fi_shm://12:0:3");
}
END_TEST

/* Another process with the same queue pair has another key. */
START_TEST(addr_same_place__tells_a_successor)
{
	struct ofi_name name, later, other, ip4;
	struct ripc__addr addrs[4];

	name_make(EFA, &name);
	later = other = name;
	later.bytes[20] ^= 1;
	other.bytes[16] ^= 1;
	name_make(IP4, &ip4);
	ripc__ofi_addr_fill(&name, &name, &addrs[0]);
	ripc__ofi_addr_fill(&later, &name, &addrs[1]);
	ripc__ofi_addr_fill(&other, &name, &addrs[2]);
	ripc__ofi_addr_fill(&ip4, &ip4, &addrs[3]);
	ck_assert(ripc__ofi_addr_same_place(&addrs[0], &addrs[1]));
	ck_assert(!ripc__ofi_addr_same_place(&addrs[0], &addrs[2]));
	ck_assert(!ripc__ofi_addr_same_place(&addrs[3], &addrs[3]));
}
END_TEST

/* Nobody is at the place of somebody, and cannot be named from outside. */
START_TEST(addr_nobody__is_refused)
{
	static const uint32_t keys[] = {OFI_KEY_GUARD, OFI_KEY_LEVEL};
	struct ripc__addr place, nobody;
	struct ofi_name name, read;

	name_make(EFA, &name);
	ripc__ofi_addr_fill(&name, &name, &place);
	for (size_t i = 0; i < 2; i++) {
		ripc__ofi_addr_nobody(&place, keys[i], &nobody);
		ck_assert(ripc__ofi_addr_same_place(&place, &nobody));
		ck_assert_int_eq(ripc__ofi_name_decode(nobody.blob, nobody.len, &name, &read),
			-EBADMSG);
	}
	ripc__ofi_addr_nobody(&place, OFI_KEY_LEVEL - 1, &nobody);
	ck_assert_int_eq(ripc__ofi_name_decode(nobody.blob, nobody.len, &name, &read), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		name_from__leaves_out_pointers,
		name_from__refuses,
		name_decode__reads_what_was_encoded,
		name_decode__refuses_other_lengths,
		name_decode__refuses_others_protocols,
		name_decode__checksums_must_agree,
		name_decode__refuses,
		name_decode__survives_anything,
		head_decode__reads_what_was_encoded,
		head_decode__refuses,
		addr_fill__tells_the_host,
		addr_same_place__tells_a_successor,
		addr_nobody__is_refused,
		NULL,
	};

	return suite_run("ofi_addr", tests);
}
