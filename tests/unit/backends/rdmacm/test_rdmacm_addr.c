/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of the rdmacm backend: what is accepted, what is refused. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/rdmacm/internal.h"
#include "suite.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

static const struct rdmacm_addr v4 = {.ip = {[10] = 0xff, 0xff, 10, 77, 1, 1}, .port = 4711};
static const struct rdmacm_addr v6 = {.ip = {0xfd, [15] = 1}, .port = 65535};

START_TEST(addr_decode__reads_what_was_encoded)
{
	static const uint8_t expected[RDMACM_ADDR_LEN] = {1, 0, 0x67, 0x12, [14] = 0xff, 0xff, 10,
		77, 1, 1};
	uint8_t blob[RDMACM_ADDR_LEN];
	struct rdmacm_addr addr, by_udp = v4;

	ripc__rdmacm_addr_encode(&v4, blob);
	ck_assert_mem_eq(blob, expected, sizeof(expected));
	ck_assert_int_eq(ripc__rdmacm_addr_decode(blob, sizeof(blob), &addr), 0);
	ck_assert(ripc__rdmacm_addr_is(&addr, &v4));
	ripc__rdmacm_addr_encode(&v6, blob);
	ck_assert_int_eq(ripc__rdmacm_addr_decode(blob, sizeof(blob), &addr), 0);
	ck_assert(ripc__rdmacm_addr_is(&addr, &v6));
	ck_assert(!ripc__rdmacm_addr_is(&addr, &v4));
	by_udp.by_udp = true;
	ripc__rdmacm_addr_encode(&by_udp, blob);
	ck_assert_uint_eq(blob[1], 1);
	ck_assert_int_eq(ripc__rdmacm_addr_decode(blob, sizeof(blob), &addr), 0);
	ck_assert(ripc__rdmacm_addr_is(&addr, &by_udp));
	ck_assert(!ripc__rdmacm_addr_is(&addr, &v4));
}
END_TEST

START_TEST(addr_decode__refuses)
{
	static const uint8_t nobody[][16] = {
		{0}, {[15] = 0}, {[10] = 0xff, 0xff, 224, 0, 0, 1}, {[10] = 0xff, 0xff, 0, 0, 0, 1},
		{[10] = 0xff, 0xff, 255, 255, 255, 255}, {0xff, 2, [15] = 1},
		{0xfe, 0x80, [15] = 1},
	};
	struct rdmacm_addr addr = {.port = 5};
	uint8_t blob[RDMACM_ADDR_LEN];

	for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
		ripc__rdmacm_addr_encode(&v4, blob);
		memcpy(blob + 4, nobody[i], 16);
		ck_assert_int_eq(ripc__rdmacm_addr_decode(blob, sizeof(blob), &addr), -EBADMSG);
	}
	for (uint8_t at = 0; at < 4; at++) {
		ripc__rdmacm_addr_encode(&v4, blob);
		blob[at] = at == 0 ? 2 : 0;
		blob[1] = at == 1 ? 2 : 0;
		if (at >= 2)
			put16(blob + 2, 0);
		ck_assert_int_eq(ripc__rdmacm_addr_decode(blob, sizeof(blob), &addr), -EBADMSG);
	}
	ck_assert_uint_eq(addr.port, 5);
}
END_TEST

START_TEST(addr_before__is_an_order)
{
	struct rdmacm_addr next = v4;

	next.port++;
	ck_assert(ripc__rdmacm_addr_before(&v4, &next));
	ck_assert(!ripc__rdmacm_addr_before(&next, &v4));
	ck_assert(!ripc__rdmacm_addr_before(&v4, &v4));
	ck_assert(ripc__rdmacm_addr_before(&v4, &v6));
	ck_assert(!ripc__rdmacm_addr_before(&v6, &v4));
}
END_TEST

START_TEST(from_socket__wants_a_host)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(7)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	struct sockaddr other = {.sa_family = AF_UNIX};
	struct rdmacm_addr addr;

	ck_assert_int_eq(ripc__rdmacm_from_socket((struct sockaddr *)&four, &addr),
		-EADDRNOTAVAIL);
	ck_assert_int_eq(ripc__rdmacm_from_socket((struct sockaddr *)&six, &addr), -EADDRNOTAVAIL);
	ck_assert_int_eq(ripc__rdmacm_from_socket(&other, &addr), -EAFNOSUPPORT);
	four.sin_addr.s_addr = htonl(0x0a4d0101);
	ck_assert_int_eq(ripc__rdmacm_from_socket((struct sockaddr *)&four, &addr), 0);
	ck_assert_mem_eq(addr.ip, v4.ip, 16);
	ck_assert_uint_eq(addr.port, 7);
}
END_TEST

START_TEST(addr_text__is_an_address_and_a_port)
{
	struct ripc__addr addr;
	char text[64];

	ripc__rdmacm_addr_fill(&v4, &addr);
	ripc__rdmacm_addr_text(&addr, text);
	ck_assert_str_eq(text, "10.77.1.1:4711");
	ripc__rdmacm_addr_fill(&v6, &addr);
	ripc__rdmacm_addr_text(&addr, text);
	ck_assert_str_eq(text, "[fd00::1]:65535");
}
END_TEST

/* ---- private data ------------------------------------------------------------------------ */

static const struct rdmacm_hello request = {.type = RDMACM_REQUEST, .nonce = 0x1122334455667788,
	.last = 9, .window = 40, .buffer = 4096, .addr = {.ip = {0xfd, [15] = 1}, .port = 1}};

static void seal(uint8_t bytes[RDMACM_HELLO_LEN])
{
	put32(bytes + 52, ripc__crc32c(0, bytes, 52));
}

START_TEST(hello_decode__reads_what_was_encoded)
{
	uint8_t bytes[RDMACM_HELLO_LEN + 40] = {0};
	struct rdmacm_hello hello;

	ripc__rdmacm_hello_encode(&request, bytes);
	ck_assert_int_eq(ripc__rdmacm_hello_decode(bytes, RDMACM_HELLO_LEN, &hello), 0);
	ck_assert_uint_eq(hello.nonce, request.nonce);
	ck_assert_uint_eq(hello.last, 9);
	ck_assert_uint_eq(hello.window, 40);
	ck_assert_uint_eq(hello.buffer, 4096);
	ck_assert(ripc__rdmacm_addr_is(&hello.addr, &request.addr));
	/* Filled up by the network. */
	ck_assert_int_eq(ripc__rdmacm_hello_decode(bytes, sizeof(bytes), &hello), 0);
	ripc__rdmacm_hello_encode(&(struct rdmacm_hello){.type = RDMACM_REFUSE,
		.reason = RDMACM_BUSY, .addr = v4}, bytes);
	ck_assert_int_eq(ripc__rdmacm_hello_decode(bytes, RDMACM_HELLO_LEN, &hello), 0);
	ck_assert_uint_eq(hello.reason, RDMACM_BUSY);
}
END_TEST

START_TEST(hello_decode__refuses)
{
	static const struct {
		uint8_t at, len;
		uint64_t value;
	} wrong[] = {
		{0, 4, 1}, {4, 1, 2}, {5, 1, 0}, {5, 1, 4}, {5, 1, 3}, {6, 1, 1}, {7, 1, 1},
		{8, 8, 0}, {24, 4, 0}, {24, 4, RDMACM_RESERVE}, {24, 4, 0x10000}, {28, 4, 4095},
		{32, 1, 2}, {34, 2, 0},
	};
	struct rdmacm_hello hello = {.window = 5};
	uint8_t bytes[RDMACM_HELLO_LEN];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t value[8];

		put64(value, wrong[i].value);
		ripc__rdmacm_hello_encode(&request, bytes);
		memcpy(bytes + wrong[i].at, value, wrong[i].len);
		seal(bytes);
		ck_assert_int_eq(ripc__rdmacm_hello_decode(bytes, sizeof(bytes), &hello),
			-EBADMSG);
	}
	for (uint32_t bit = 0; bit < 8 * RDMACM_HELLO_LEN; bit++) {
		ripc__rdmacm_hello_encode(&request, bytes);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ripc__rdmacm_hello_decode(bytes, sizeof(bytes), &hello),
			-EBADMSG);
	}
	ripc__rdmacm_hello_encode(&request, bytes);
	for (uint32_t len = 0; len < RDMACM_HELLO_LEN; len++)
		ck_assert_int_eq(ripc__rdmacm_hello_decode(bytes, len, &hello), -EBADMSG);
	ck_assert_uint_eq(hello.window, 5);
}
END_TEST

/* ---- preambles --------------------------------------------------------------------------- */

START_TEST(preamble_decode__reads_what_was_encoded)
{
	const struct rdmacm_preamble sent = {.type = RDMACM_DATAGRAM, .received = 0xfffffff0,
		.limit = 20};
	struct rdmacm_preamble preamble;
	uint8_t bytes[RDMACM_PREAMBLE + 100] = {0};

	memset(bytes + RDMACM_PREAMBLE, 7, 100);
	ripc__rdmacm_preamble_encode(&sent, bytes, sizeof(bytes));
	ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, sizeof(bytes), &preamble), 0);
	ck_assert_mem_eq(&preamble, &sent, sizeof(sent));
	/* An empty datagram. */
	ripc__rdmacm_preamble_encode(&sent, bytes, RDMACM_PREAMBLE);
	ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, RDMACM_PREAMBLE, &preamble), 0);
}
END_TEST

/* Alters any bit of a message, also behind the preamble; makes it longer or shorter. */
START_TEST(preamble_decode__altered)
{
	const struct rdmacm_preamble sent = {.type = RDMACM_DATAGRAM, .received = 1, .limit = 2};
	struct rdmacm_preamble preamble;
	uint8_t bytes[RDMACM_PREAMBLE + 150];

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	ripc__rdmacm_preamble_encode(&sent, bytes, sizeof(bytes));
	for (uint32_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, sizeof(bytes), &preamble),
			-EBADMSG);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (uint32_t len = 0; len < sizeof(bytes); len++)
		ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, len, &preamble), -EBADMSG);
	ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, sizeof(bytes), &preamble), 0);
}
END_TEST

START_TEST(preamble_decode__refuses)
{
	static const struct rdmacm_preamble wrong[] = {
		{0, 5, 10}, {4, 5, 10}, {1, 5, 4}, {1, 0, 0x10000}, {0x101, 5, 10},
	};
	const struct rdmacm_preamble credit = {.type = RDMACM_CREDIT, .received = 1, .limit = 2};
	struct rdmacm_preamble preamble = {.type = 9};
	uint8_t bytes[RDMACM_PREAMBLE + 1] = {0};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ripc__rdmacm_preamble_encode(&wrong[i], bytes, RDMACM_PREAMBLE);
		ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, RDMACM_PREAMBLE, &preamble),
			-EBADMSG);
	}
	ripc__rdmacm_preamble_encode(&credit, bytes, sizeof(bytes));
	ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, sizeof(bytes), &preamble), -EBADMSG);
	for (uint32_t len = 0; len < RDMACM_PREAMBLE; len++)
		ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, len, &preamble), -EBADMSG);
	for (uint32_t bit = 0; bit < 8 * RDMACM_PREAMBLE; bit++) {
		ripc__rdmacm_preamble_encode(&credit, bytes, RDMACM_PREAMBLE);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ripc__rdmacm_preamble_decode(bytes, RDMACM_PREAMBLE, &preamble),
			-EBADMSG);
	}
	ck_assert_uint_eq(preamble.type, 9);
}
END_TEST

int main(void)
{
	const TTest *const cases[] = {
		addr_decode__reads_what_was_encoded,
		addr_decode__refuses,
		addr_before__is_an_order,
		from_socket__wants_a_host,
		addr_text__is_an_address_and_a_port,
		hello_decode__reads_what_was_encoded,
		hello_decode__refuses,
		preamble_decode__reads_what_was_encoded,
		preamble_decode__altered,
		preamble_decode__refuses,
		NULL,
	};

	return suite_run("rdmacm_addr", cases);
}
