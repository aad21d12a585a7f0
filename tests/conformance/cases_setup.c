/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about probing, opening, closing, addresses and routes. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "../util/process.h"
#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)

START_TEST(table__is_complete)
{
	ck_assert_uint_le(strlen(BACKEND->name), 15);
	ck_assert(BACKEND->probe && BACKEND->dev_open && BACKEND->dev_close);
	ck_assert(BACKEND->port_open && BACKEND->port_close && BACKEND->port_addr);
	ck_assert(BACKEND->addr_choose && BACKEND->addr_text && BACKEND->peer_open);
	ck_assert(BACKEND->peer_close && BACKEND->peer_mtu && BACKEND->peer_matches);
	ck_assert(BACKEND->send && BACKEND->poll && BACKEND->release);
	ck_assert(!BACKEND->wait == !BACKEND->wake);
	ck_assert_msg(BACKEND->peer_size <= 56, "idle partners must be cheap");
}
END_TEST

START_TEST(probe__tells_what_was_found)
{
	char why[256] = "", remedy[256] = "unset";
	int before = descriptors_open();

	ck_assert_int_eq(BACKEND->probe(world_host(_i), why, remedy), 0);
	ck_assert_uint_gt(strlen(why), 0);
	ck_assert(strcmp(remedy, "unset") != 0);
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

START_TEST(dev_open__fills_attr)
{
	struct side side;

	side_open(&side, _i);
	ck_assert_uint_ge(side.attr.datagram_max, 896);
	ck_assert_uint_le(side.attr.datagram_max, RIPC_DATAGRAM_MAX);
	ck_assert(!(side.attr.caps & RIPC_CAP_READ) ==
		(!BACKEND->read || conformance_under_test->readless));
	ck_assert(BACKEND->write || !(side.attr.caps & RIPC_CAP_WRITE));
	ck_assert(_i > 0 || !(side.attr.caps & RIPC_CAP_WRITE) == !BACKEND->write);
	side_close(&side);
}
END_TEST

/* What closes takes its time, where somebody else does it. */
static int count_settled(int expected)
{
	int n = descriptors_open();

	for (int i = 0; conformance_under_test->later && n > expected && i < 20000; i++) {
		poll(NULL, 0, 1);
		n = descriptors_open();
	}
	return n;
}

START_TEST(port_close__leaves_nothing)
{
	struct side left, right;
	int before;

	/* A library beneath may open something once for the process. */
	if (conformance_under_test->later) {
		pair_open(&left, &right, _i);
		pair_close(&left, &right);
	}
	before = descriptors_open();
	for (int i = 0; i < 20; i++) {
		pair_open(&left, &right, _i);
		side_send(&left, left.peer, 100, 1);
		side_send(&left, left.peer, 100, 2);
		side_expect(&right, 100, 1);
		pair_close(&left, &right);
	}
	if (conformance_under_test->later) /* fewer: what the first pair had was closed since */
		ck_assert_int_le(count_settled(before), before);
	else
		ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

START_TEST(addr_text__is_words)
{
	struct side left, right;
	struct ripc__addr addr;
	char text[64];

	pair_open(&left, &right, _i);
	side_address(&right, &left, &addr);
	memset(text, 'x', sizeof(text));
	BACKEND->addr_text(&addr, text);
	ck_assert_ptr_nonnull(memchr(text, '\0', sizeof(text)));
	ck_assert_uint_ge(strlen(text), 4);
	addr.len = 3;
	memset(text, 'x', sizeof(text));
	BACKEND->addr_text(&addr, text);
	ck_assert_ptr_nonnull(memchr(text, '\0', sizeof(text)));
	pair_close(&left, &right);
}
END_TEST

/* A blob comes from a record, so from outside: the wrong length is refused, outputs are kept. */
START_TEST(addr_choose__refuses_other_lengths)
{
	struct ripc__addr addr, before;
	uint8_t blob[RIPC_ADDR_MAX] = {0};
	struct side side;
	int len;

	side_open(&side, _i);
	memset(&addr, 0x5a, sizeof(addr));
	before = addr;
	len = BACKEND->port_addr(side.port, blob);
	for (int n = 0; n <= RIPC_ADDR_MAX; n++) {
		if (n == len)
			continue;
		ck_assert_int_lt(BACKEND->addr_choose(side.port, blob, (size_t)n,
			conformance_under_test->host, &addr), 0);
	}
	ck_assert_mem_eq(&addr, &before, sizeof(addr));
	side_close(&side);
}
END_TEST

START_TEST(addr_choose__refuses_zeros)
{
	uint8_t blob[RIPC_ADDR_MAX], zeros[RIPC_ADDR_MAX] = {0};
	struct ripc__addr addr, before;
	struct side side;
	int len;

	side_open(&side, _i);
	memset(&addr, 0x5a, sizeof(addr));
	before = addr;
	len = BACKEND->port_addr(side.port, blob);
	ck_assert_int_lt(BACKEND->addr_choose(side.port, zeros, (size_t)len,
		conformance_under_test->host, &addr), 0);
	ck_assert_mem_eq(&addr, &before, sizeof(addr));
	side_close(&side);
}
END_TEST

START_TEST(peer_open__refuses_a_foreign_address)
{
	struct ripc__addr addr = {.len = 1};
	uint64_t peer[8] = {0};
	struct side side;

	ck_assert_uint_le(BACKEND->peer_size, sizeof(peer));
	side_open(&side, _i);
	ck_assert_int_lt(BACKEND->peer_open(side.port, peer, &addr), 0);
	side_close(&side);
}
END_TEST

START_TEST(peer_mtu__suits_a_short_message)
{
	struct side left, right;
	uint32_t mtu;

	pair_open(&left, &right, _i);
	mtu = BACKEND->peer_mtu(left.port, left.peer);
	ck_assert_uint_ge(mtu, 1232);
	ck_assert_uint_le(mtu, left.attr.datagram_max);
	pair_close(&left, &right);
}
END_TEST

void conformance_setup_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		table__is_complete,
		probe__tells_what_was_found,
		dev_open__fills_attr,
		port_close__leaves_nothing,
		addr_text__is_words,
		addr_choose__refuses_other_lengths,
		addr_choose__refuses_zeros,
		peer_open__refuses_a_foreign_address,
		peer_mtu__suits_a_short_message,
		NULL,
	};

	cases_add(tcase, cases);
}
