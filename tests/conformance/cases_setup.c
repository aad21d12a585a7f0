/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about probing, opening, closing, addresses and routes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "../support/util/process.h"
#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)

START_TEST(table__is_complete)
{
	ck_assert_uint_le(strlen(BACKEND->name), 15);
	ck_assert(BACKEND->net.probe && BACKEND->net.open && BACKEND->net.close);
	ck_assert(BACKEND->net.address && BACKEND->route.choose && BACKEND->route.text);
	ck_assert(BACKEND->route.open && BACKEND->route.close && BACKEND->route.where);
	ck_assert(BACKEND->route.mtu && BACKEND->route.matches);
	ck_assert(BACKEND->datagrams.send && BACKEND->datagrams.poll);
	ck_assert(BACKEND->datagrams.release);
	ck_assert(!BACKEND->net.wait == !BACKEND->net.wake);
	ck_assert(!BACKEND->net.wait || BACKEND->net.arm);
	ck_assert_msg(BACKEND->route_size <= 56, "idle partners must be cheap");
}
END_TEST

START_TEST(probe__tells_what_was_found)
{
	char why[256] = "", remedy[256] = "unset";
	int before = descriptors_open();

	ck_assert_int_eq(BACKEND->net.probe(world_host(_i), why, remedy), 0);
	ck_assert_uint_gt(strlen(why), 0);
	ck_assert(strcmp(remedy, "unset") != 0);
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

START_TEST(open__fills_attr)
{
	struct side side;

	side_open(&side, _i);
	ck_assert(!(side.attr.caps & RIPC_CAP_READ) ==
		(!BACKEND->remote.move || conformance_under_test->readless));
	ck_assert(BACKEND->remote.move || !(side.attr.caps & RIPC_CAP_WRITE));
	ck_assert(_i > 0 ||
		!(side.attr.caps & RIPC_CAP_WRITE) == !conformance_under_test->writes);
	ck_assert(!(side.attr.caps & RIPC_CAP_REGISTERED) || BACKEND->mem.reg);
	ck_assert(side.attr.fd == -1 || fcntl(side.attr.fd, F_GETFD) >= 0);
	side_close(&side);
}
END_TEST

/* Closing takes time, where another thread does the work. */
static int count_settled(int expected)
{
	int n = descriptors_open();

	for (int i = 0; conformance_under_test->later && n > expected && i < 20000; i++) {
		poll(NULL, 0, 1);
		n = descriptors_open();
	}
	return n;
}

START_TEST(close__leaves_nothing)
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
	BACKEND->route.text(&addr, text);
	ck_assert_ptr_nonnull(memchr(text, '\0', sizeof(text)));
	ck_assert_uint_ge(strlen(text), 4);
	addr.len = 3;
	memset(text, 'x', sizeof(text));
	BACKEND->route.text(&addr, text);
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
	len = BACKEND->net.address(side.port, blob);
	for (int n = 0; n <= RIPC_ADDR_MAX; n++) {
		if (n == len)
			continue;
		ck_assert_int_lt(BACKEND->route.choose(side.port, blob, (size_t)n,
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
	len = BACKEND->net.address(side.port, blob);
	ck_assert_int_lt(BACKEND->route.choose(side.port, zeros, (size_t)len,
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

	ck_assert_uint_le(BACKEND->route_size, sizeof(peer));
	side_open(&side, _i);
	ck_assert_int_lt(BACKEND->route.open(side.port, peer, &addr), 0);
	side_close(&side);
}
END_TEST

START_TEST(peer_mtu__suits_a_short_message)
{
	struct side left, right;
	uint32_t mtu;

	pair_open(&left, &right, _i);
	mtu = BACKEND->route.mtu(left.port, left.peer);
	ck_assert_uint_ge(mtu, 1232);
	ck_assert_uint_le(mtu, RIPC_DATAGRAM_MAX);
	pair_close(&left, &right);
}
END_TEST

void conformance_setup_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		table__is_complete,
		probe__tells_what_was_found,
		open__fills_attr,
		close__leaves_nothing,
		addr_text__is_words,
		addr_choose__refuses_other_lengths,
		addr_choose__refuses_zeros,
		peer_open__refuses_a_foreign_address,
		peer_mtu__suits_a_short_message,
		NULL,
	};

	cases_add(tcase, cases);
}
