/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library over the rdmacm backend, on libraries of our own (tests/support/fake): long
 * messages, answers that are written, and what becomes of them when the device does not do as it
 * says.
 */
#include <errno.h>
#include <signal.h>

#include "../../../support/fake/iwarp.h"
#include "parties.h"
#include "suite.h"

static void begin(uint32_t vendor_id)
{
	fake_iwarp_reset();
	fake_iwarp.vendor_id = vendor_id;
	parties_open("rdmacm");
	acquaint();
}

static void finish(void)
{
	const char *what;

	parties_close();
	ck_assert_msg(fake_iwarp_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_iwarp_live(), 0);
}

START_TEST(sendmsg__long_is_read)
{
	begin(_i ? FAKE_SIW : 0);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(stats_of(&right).read_bytes, LONG_LEN);
	finish();
}
END_TEST

START_TEST(sendmsg__answer_is_written)
{
	begin(_i ? FAKE_SIW : 0);
	for (size_t i = 0; i < 5; i++)
		ask_and_answer(LONG_LEN - i);
	ck_assert_uint_eq(stats_of(&left).written_bytes, 5 * LONG_LEN - 10);
	ck_assert_uint_eq(stats_of(&right).landed_bytes, 5 * LONG_LEN - 10);
	finish();
}
END_TEST

/* An answer that is not written takes the buffer back, which siw may need a moment for. */
START_TEST(sendmsg__answer_goes_along)
{
	begin(_i ? FAKE_SIW : 0);
	for (size_t i = 0; i < 5; i++)
		ask_and_answer(1000);
	ck_assert_uint_eq(stats_of(&left).written_bytes, 0);
	ck_assert_uint_eq(fake_iwarp.n_accepts, 1);
	finish();
}
END_TEST

/* The network had all of a write, and lost it: the checksum tells, and it goes another way. */
START_TEST(sendmsg__write_is_lost)
{
	begin(FAKE_SIW);
	fake_iwarp.n_lies = 1;
	ask_and_answer(LONG_LEN);
	ck_assert_uint_eq(fake_iwarp.n_lies, 0);
	ck_assert_uint_eq(stats_of(&right).landed_bytes, 0);
	ck_assert_uint_eq(stats_of(&right).drop_checksum, 1);
	finish();
}
END_TEST

/* The memory to be written cannot be registered. */
START_TEST(sendmsg__answer_is_not_written)
{
	begin(FAKE_SIW);
	fake_iwarp.fail[FAKE_REG_MR].skip = 1;
	fake_iwarp_fail(FAKE_REG_MR, 1, ENOMEM);
	ask_and_answer(LONG_LEN);
	ck_assert_uint_eq(stats_of(&right).landed_bytes, 0);
	finish();
}
END_TEST

static volatile sig_atomic_t n_raised;

static void count_raised(int number)
{
	(void)number;
	n_raised++;
}

/* siw raises SIGPIPE in who posts: nobody gets it but a handler, as a socket's may come as well. */
START_TEST(post__raises_sigpipe)
{
	sigset_t pending;

	signal(SIGPIPE, _i == 0 ? SIG_DFL : _i == 1 ? SIG_IGN : count_raised);
	begin(FAKE_SIW);
	fake_iwarp.raises = true;
	for (uint32_t i = 0; i < 20; i++)
		exchange(1000, 0);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_int_eq(sigpending(&pending), 0);
	ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
	ck_assert((n_raised > 0) == (_i == 2));
	fake_iwarp.raises = false;
	finish();
}
END_TEST

static void begin_udp(void)
{
	party_options = "rdmacm.udp=on";
	begin(FAKE_SIW);
	party_options = NULL;
}

/* Datagrams need no connection; the first long message makes one. */
START_TEST(udp__only_reads_need_a_connection)
{
	begin_udp();
	for (uint32_t i = 0; i < 20; i++)
		exchange(1000, 0);
	ck_assert_uint_eq(fake_iwarp.n_requests, 0);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(stats_of(&right).read_bytes, LONG_LEN);
	ck_assert_uint_eq(fake_iwarp.n_accepts, 1);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(stats_of(&right).read_bytes, 2 * LONG_LEN);
	ck_assert_uint_eq(fake_iwarp.n_accepts, 1);
	finish();
}
END_TEST

START_TEST(udp__connection_breaks)
{
	begin_udp();
	exchange(LONG_LEN, RIPC_SEND_LONG);
	fake_iwarp_break();
	exchange(1000, 0);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_ge(stats_of(&right).read_bytes, 2 * LONG_LEN);
	finish();
}
END_TEST

/* No connection can be had: what would be read is pulled by datagrams. */
START_TEST(udp__no_connection)
{
	begin_udp();
	fake_iwarp_fail(FAKE_RESOLVE_ADDR, UINT32_MAX, ENETUNREACH);
	exchange(LONG_LEN, RIPC_SEND_LONG);
	ck_assert_uint_eq(stats_of(&right).read_bytes, 0);
	ck_assert_uint_eq(stats_of(&right).path_changes, 0);
	finish();
}
END_TEST

/* An answer is read where it could be written: nothing that goes over UDP may rely on a write. */
START_TEST(udp__answer_is_read)
{
	begin_udp();
	for (size_t i = 0; i < 3; i++)
		ask_and_answer(LONG_LEN - i);
	ck_assert_uint_eq(stats_of(&left).written_bytes, 0);
	ck_assert_uint_eq(stats_of(&right).read_bytes, 3 * LONG_LEN - 3);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{sendmsg__long_is_read, 2},
		{sendmsg__answer_is_written, 2},
		{sendmsg__answer_goes_along, 2},
		{sendmsg__write_is_lost, 1},
		{sendmsg__answer_is_not_written, 1},
		{post__raises_sigpipe, 3},
		{udp__only_reads_need_a_connection, 1},
		{udp__connection_breaks, 1},
		{udp__no_connection, 1},
		{udp__answer_is_read, 1},
		{NULL, 0},
	};

	return suite_run_loops("rdmacm_api", tests);
}
