/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts without a progress thread: what ripc_poll() does and when it has to be called. */
#include <poll.h>
#include <signal.h>

#include "api.h"

/* Both contexts are turned by this one thread until the message is there. */
static struct ripc_msg *turn_until(const struct pair *pair, struct ripc_service *svc)
{
	uint64_t began_ms = clock_ms();
	struct ripc_msg *msg = NULL;
	int error = -EAGAIN;

	while (error == -EAGAIN && clock_ms() < began_ms + PATIENCE_MS) {
		ck_assert_int_ge(ripc_poll(pair->a.ctx), 0);
		ck_assert_int_ge(ripc_poll(pair->b.ctx), 0);
		error = ripc_receive(svc, 0, &msg);
	}
	ck_assert_int_eq(error, 0);
	return msg;
}

static void both_ways(uint32_t flags)
{
	static const size_t lens[] = {0, 100, 5000, 100000, 2000000};
	int before = threads_running();
	struct pair pair;

	side_open(&pair.a, flags);
	side_open(&pair.b, flags);
	for (uint64_t i = 0; i < 5; i++) {
		const struct iovec one = item(filled(lens[i], i), lens[i]);
		struct ripc_send send = long_send(pair.b.id, &one, 1);
		struct ripc_msg *msg;

		send.flags |= RIPC_NOWAIT;
		send.cookie = i;
		ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
		msg = turn_until(&pair, pair.b.svc);
		ck_assert_int_eq(msg->kind, RIPC_LONG);
		ck_assert_uint_eq(msg->items[0].iov_len, lens[i]);
		check_filled(msg->items[0].iov_base, lens[i], i);
		ripc_msg_free(msg);
		msg = turn_until(&pair, pair.a.svc);
		ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
		ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
		ck_assert_uint_eq(msg->cookie, i);
		ripc_msg_free(msg);
		free(one.iov_base);
	}
	ck_assert_int_eq(threads_running(), before);
	pair_close(&pair);
}

START_TEST(poll__one_thread_turns_two_contexts)
{
	both_ways(RIPC_NO_THREAD);
}
END_TEST

START_TEST(poll__single_thread)
{
	both_ways(RIPC_SINGLE_THREAD);
}
END_TEST

START_TEST(poll__nothing_to_do)
{
	struct side side;
	int work = 1;

	side_open(&side, RIPC_NO_THREAD);
	for (int i = 0; i < 1000 && work; i++)
		work = ripc_poll(side.ctx);
	ck_assert_int_eq(work, 0);
	side_close(&side);
}
END_TEST

/* A context with a thread may be polled too: it only does not need it. */
START_TEST(poll__beside_the_progress_thread)
{
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 20; i++) {
		acquaint(&pair.a, &pair.b);
		ck_assert_int_ge(ripc_poll(pair.a.ctx), 0);
		ck_assert_int_ge(ripc_poll(pair.b.ctx), 0);
	}
	pair_close(&pair);
}
END_TEST

/* As long as a send is in progress there is a timer; afterwards nothing hurries. */
START_TEST(poll_timeout__while_a_send_is_in_progress)
{
	const size_t len = 1 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_send send;
	struct pair pair;
	int64_t left_us;

	side_open(&pair.a, RIPC_NO_THREAD);
	side_open(&pair.b, RIPC_NO_THREAD);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	left_us = ripc_poll_timeout(pair.a.ctx);
	ck_assert_int_ge(left_us, 0);
	ck_assert_int_le(left_us, PATIENCE_MS * 1000);
	ripc_msg_free(turn_until(&pair, pair.b.svc));
	ripc_msg_free(turn_until(&pair, pair.a.svc));
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* Sleeping on the descriptor for as long as ripc_poll_timeout() says is enough to time out. */
START_TEST(poll_timeout__is_when_to_call)
{
	const size_t len = 1 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct pump pump, pump_too;
	struct ripc_send send;
	struct ripc_msg *msg = NULL;
	struct pair pair;
	int error = -EAGAIN;

	side_open(&pair.a, RIPC_NO_THREAD);
	side_open(&pair.b, RIPC_NO_THREAD);
	pump_start(&pump, pair.a.ctx);
	pump_start(&pump_too, pair.b.ctx);
	acquaint(&pair.a, &pair.b);
	pump_stop(&pump);
	pump_stop(&pump_too);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	send.timeout_ms = 100;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	while (error == -EAGAIN) {
		struct pollfd poller = {.fd = ripc_service_fd(pair.a.svc), .events = POLLIN};
		int64_t left_us = ripc_poll_timeout(pair.a.ctx);

		ck_assert_int_ge(left_us, 0);
		ck_assert_int_ge(poll(&poller, 1, (int)(left_us / 1000) + 1), 0);
		error = ripc_receive(pair.a.svc, 0, &msg);
	}
	ck_assert_int_eq(error, 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->status, -ETIMEDOUT);
	ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
	ripc_msg_free(msg);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* Waiting calls do all the work themselves. */
START_TEST(poll__not_needed_by_waiting_calls)
{
	struct ripc_msg *msg = NULL;
	struct pump pump;
	struct pair pair;

	side_open(&pair.a, RIPC_NO_THREAD);
	side_open(&pair.b, RIPC_NO_THREAD);
	pump_start(&pump, pair.b.ctx);
	for (size_t len = 1; len < 10000000; len *= 21) {
		const struct iovec one = item(filled(len, 9), len);

		ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
		msg = take(pair.b.svc, RIPC_LONG);
		check_filled(msg->items[0].iov_base, len, 9);
		ripc_msg_free(msg);
		free(one.iov_base);
	}
	pump_stop(&pump);
	pair_close(&pair);
}
END_TEST

/*
 * The application only computes: a partner's message is pulled by the progress thread, and
 * found whole afterwards, by a call that does not wait.
 */
START_TEST(progress__while_the_application_computes)
{
	static const size_t len = 20 << 20;
	const struct iovec one = item(filled(len, 1), len);
	struct ripc_msg *msg = NULL;
	struct pair pair;

	pair_open(&pair);
	/* This thread stays inside a's call; nobody calls anything on b. */
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_receive(pair.b.svc, 0, &msg), 0);
	ck_assert_uint_eq(msg->items[0].iov_len, len);
	check_filled(msg->items[0].iov_base, len, 1);
	ripc_msg_free(msg);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* The same for the sender: what the partner asks for is sent by the progress thread. */
START_TEST(progress__while_the_sender_computes)
{
	static const size_t len = 20 << 20;
	const struct iovec one = item(filled(len, 1), len);
	struct ripc_send send;
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	/* From here on nobody calls anything on a. */
	msg = take(pair.b.svc, RIPC_LONG);
	check_filled(msg->items[0].iov_base, len, 1);
	ripc_msg_free(msg);
	take_completion(pair.a.svc, 0, RIPC_DELIVERED, 0);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

static atomic_int signals_in_main;
static pthread_t main_thread;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&signals_in_main, pthread_equal(pthread_self(), main_thread) ? 1 : 1000);
}

/* Signals are the application's: the progress thread takes none. */
START_TEST(progress__thread_takes_no_signals)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct pair pair;

	main_thread = pthread_self();
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	for (int i = 0; i < 50; i++)
		ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
	acquaint(&pair.a, &pair.b);
	ck_assert_int_ge(atomic_load(&signals_in_main), 1);
	ck_assert_int_lt(atomic_load(&signals_in_main), 1000);
	pair_close(&pair);
}
END_TEST

static void *interrupt_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (int i = 0; i < 50; i++) {
		pthread_kill(main_thread, SIGUSR1);
		nanosleep(&pause, NULL);
	}
	return arg;
}

/* A signal does not end a wait. */
START_TEST(receive__interrupted_by_signals)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct ripc_msg *msg;
	struct side side;
	pthread_t thread;

	main_thread = pthread_self();
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	side_open(&side, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, interrupt_main, NULL), 0);
	ck_assert_int_eq(ripc_receive(side.svc, 100, &msg), -ETIMEDOUT);
	pthread_join(thread, NULL);
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		poll__one_thread_turns_two_contexts, poll__single_thread, poll__nothing_to_do,
		poll__beside_the_progress_thread, poll_timeout__while_a_send_is_in_progress,
		poll_timeout__is_when_to_call, poll__not_needed_by_waiting_calls,
		progress__while_the_application_computes, progress__while_the_sender_computes,
		progress__thread_takes_no_signals,
		receive__interrupted_by_signals, NULL,
	};

	return suite_run("api_poll", tests);
}
