/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls after ripc_service_close() and ripc_close(), and in a forked child: messages and buffers
 * stay until they are freed, calls return -ESHUTDOWN, and a child's frees do nothing.
 */
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "api.h"
#include "core/engine/internal.h"
#include "core/objects.h"
#include "ripc/call.h"
#include "ripc/list.h"

#define LEN     100000u /* of a long message, in a buffer of its own */
#define WORKERS 4
#define ROUNDS  20

/* ---- what is looked at ------------------------------------------------------------------- */

static bool is_mapped(const void *at)
{
	uintptr_t page = (uintptr_t)at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	unsigned char resident;

	return mincore((void *)page, 1, &resident) == 0;
}

static struct ripc_msg *short_take(const struct pair *pair)
{
	uint8_t bytes[100];
	const struct iovec one = {bytes, sizeof(bytes)};

	fill(bytes, sizeof(bytes), 0);
	ck_assert_int_eq(ripc_send_long(pair->a.svc, pair->b.id, &one, 1, PATIENCE_MS), 0);
	return take(pair->b.svc, RIPC_LONG);
}

static struct ripc_msg *long_take(const struct pair *pair)
{
	void *bytes = filled(LEN, 9);
	const struct iovec one = item(bytes, LEN);

	ck_assert_int_eq(ripc_send_long(pair->a.svc, pair->b.id, &one, 1, PATIENCE_MS), 0);
	free(bytes);
	return take(pair->b.svc, RIPC_LONG);
}

static void check_short(const struct ripc_msg *msg)
{
	ck_assert_uint_eq(msg->n_items, 1);
	ck_assert_uint_eq(msg->items[0].iov_len, 100);
	check_filled(msg->items[0].iov_base, 100, 0);
}

static void check_long(const struct ripc_msg *msg)
{
	ck_assert_uint_eq(msg->items[0].iov_len, LEN);
	check_filled(msg->items[0].iov_base, LEN, 9);
}

/* ---- after ripc_close() ------------------------------------------------------------------ */

START_TEST(close__then_messages_are_freed)
{
	struct ripc_msg *first, *last;
	const void *at;
	struct pair pair;

	pair_open(&pair);
	first = short_take(&pair);
	last = long_take(&pair);
	at = last->items[0].iov_base;
	pair_close(&pair);
	check_short(first);
	ripc_msg_free(first);
	check_long(last);
	ck_assert(is_mapped(at));
	ripc_msg_free(last);
	ck_assert(!is_mapped(at)); /* and the rest of the context has gone with it */
}
END_TEST

START_TEST(close__then_a_buffer_is_freed)
{
	struct side side;
	void *small, *big;

	side_open(&side, 0);
	small = pool_filled(side.ctx, 1000, 1);
	big = pool_filled(side.ctx, 3 << 20, 2);
	side_close(&side);
	check_filled(small, 1000, 1);
	check_filled(big, 3 << 20, 2);
	ck_assert_int_eq(ripc_buf_ref(side.ctx, small), 0);
	ck_assert_int_eq(ripc_buf_refs(side.ctx, small), 2);
	ck_assert_int_eq(ripc_buf_free(side.ctx, big), 0);
	ck_assert(!is_mapped(big));
	ck_assert_int_eq(ripc_buf_free(side.ctx, small), 0);
	check_filled(small, 1000, 1);
	ck_assert_int_eq(ripc_buf_free(side.ctx, small), 0);
	ck_assert(!is_mapped(small));
}
END_TEST

START_TEST(close__then_an_item_that_outlives_its_message)
{
	struct ripc_msg *msg;
	struct pair pair;
	void *bytes;

	pair_open(&pair);
	msg = long_take(&pair);
	bytes = msg->items[0].iov_base;
	ck_assert_int_eq(ripc_buf_ref(pair.b.ctx, bytes), 0);
	pair_close(&pair);
	ripc_msg_free(msg);
	check_filled(bytes, LEN, 9);
	ck_assert_int_eq(ripc_buf_free(pair.b.ctx, bytes), 0);
	ck_assert(!is_mapped(bytes));
}
END_TEST

/* Their memory is that of the send, the request, and the service. */
START_TEST(close__then_completions_and_failures_are_freed)
{
	const struct iovec one = item("x", 1);
	const struct ripc_request request = {.size = sizeof(request), .to = nobody,
		.items = &one, .n_items = 1, .timeout_ms = 1000, .cookie = 8};
	struct ripc_msg *completion, *failure;
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	send.cookie = 7;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	completion = take(pair.a.svc, RIPC_COMPLETION);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &request), 0);
	failure = take(pair.a.svc, RIPC_REPLY);
	pair_close(&pair);
	ck_assert_uint_eq(completion->cookie, 7);
	ck_assert_int_eq(completion->outcome, RIPC_DELIVERED);
	ripc_msg_free(completion);
	ck_assert_uint_eq(failure->request_cookie, 8);
	ck_assert_int_lt(failure->status, 0);
	ripc_msg_free(failure);
}
END_TEST

START_TEST(close__then_a_notice_of_a_watch_is_freed)
{
	struct ripc_msg *notice;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_watch(pair.a.svc, pair.b.id, 5), 0);
	notice = take(pair.a.svc, RIPC_NOTICE);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	ck_assert_uint_eq(notice->cookie, 5);
	pair_close(&pair);
	ck_assert_uint_eq(notice->from, pair.b.id);
	ripc_msg_free(notice);
}
END_TEST

START_TEST(close__then_calls)
{
	const struct iovec one = item("x", 1);
	struct ripc_log_message message = {.size = sizeof(message)};
	struct ripc_msg *msg, *other = NULL;
	struct ripc_lister *lister = NULL;
	struct pair pair;
	void *buf = NULL;

	pair_open(&pair);
	msg = short_take(&pair);
	pair_close(&pair);
	ck_assert_int_eq(ripc_log_next(pair.b.ctx, &message), -ESHUTDOWN);
	ck_assert_int_eq(ripc_lister_open(pair.b.ctx, &lister), -ESHUTDOWN);
	ck_assert_ptr_null(lister);
	ck_assert_int_eq(ripc_receive(pair.b.svc, -1, &other), -ESHUTDOWN);
	ck_assert_int_eq(ripc_send_short(pair.b.svc, msg->from, &one, 1), -ESHUTDOWN);
	ck_assert_int_eq(ripc_wake(pair.b.svc), -ESHUTDOWN);
	ck_assert_int_eq(ripc_service_close(pair.b.svc), -ESHUTDOWN);
	ck_assert_int_eq(ripc_buf_alloc(pair.b.ctx, 1, &buf), -ESHUTDOWN);
	ck_assert_int_eq(ripc_poll(pair.b.ctx), -ESHUTDOWN);
	ck_assert_int_eq(ripc_close(pair.b.ctx, 0), -ESHUTDOWN);
	ck_assert_ptr_null(other);
	ck_assert_ptr_null(buf);
	ripc_msg_free(msg);
}
END_TEST

static void *free_main(void *arg)
{
	struct ripc_msg **msgs = arg;

	for (uint32_t i = 0; msgs[i]; i++)
		ripc_msg_free(msgs[i]);
	return NULL;
}

/* One message of b's, and its COMPLETION of a's. */
static void message_and_completion(const struct pair *pair, struct ripc_msg **msgs)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = long_send(pair->b.id, &one, 1);

	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair->a.svc, &send, NULL), 0);
	msgs[0] = take(pair->b.svc, RIPC_LONG);
	msgs[1] = take(pair->a.svc, RIPC_COMPLETION);
}

/* As a collector of garbage does, which knows of no order. */
START_TEST(close__while_messages_are_freed)
{
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct ripc_msg *msgs[2][31] = {{NULL}};
		pthread_t threads[2];
		struct pair pair;

		pair_open(&pair);
		for (uint32_t i = 0; i < 60; i += 2)
			message_and_completion(&pair, &msgs[i / 30][i % 30]);
		for (uint32_t i = 0; i < 2; i++)
			ck_assert_int_eq(pthread_create(&threads[i], NULL, free_main, msgs[i]), 0);
		pair_close(&pair);
		for (uint32_t i = 0; i < 2; i++)
			ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	}
}
END_TEST

/* ---- after ripc_service_close() ---------------------------------------------------------- */

START_TEST(service_close__then_messages_are_freed)
{
	struct ripc_msg *first, *last;
	struct pair pair;

	pair_open(&pair);
	first = short_take(&pair);
	last = long_take(&pair);
	ck_assert_int_eq(ripc_service_close(pair.b.svc), 0);
	check_short(first);
	check_long(last);
	ripc_msg_free(first);
	ripc_msg_free(last);
	pair_close(&pair);
}
END_TEST

static void give_nowait(const struct pair *pair, uint64_t to)
{
	const struct iovec one = item(pool_filled(pair->a.ctx, LEN, 3), LEN);
	struct ripc_send send = long_send(to, &one, 1);

	send.flags |= RIPC_NOWAIT | RIPC_GIVE;
	ck_assert_int_eq(ripc_sendmsg(pair->a.svc, &send, NULL), 0);
}

/* Nothing tells the application which references are its own again: none is. */
START_TEST(service_close__before_given_messages_end)
{
	struct pair pair;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	give_nowait(&pair, pair.b.id);
	give_nowait(&pair, nobody);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	ck_assert_uint_eq(stats_of(pair.a.ctx).pool_used_bytes, 0);
	pair_close(&pair);
}
END_TEST

/* The same where the COMPLETION waits in the queue. */
START_TEST(service_close__before_completions_are_received)
{
	struct pair pair;

	pair_open(&pair);
	give_nowait(&pair, nobody);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 0), 0);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	ck_assert_uint_eq(stats_of(pair.a.ctx).pool_used_bytes, 0);
	pair_close(&pair);
}
END_TEST

START_TEST(service_close__then_calls)
{
	const struct iovec one = item("x", 1);
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc_msg *msg = NULL;
	struct ripc_send send;
	struct pair pair;
	uint64_t rtt_ns;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	send = long_send(pair.b.id, &one, 1);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	ck_assert_int_eq(ripc_receive(pair.a.svc, -1, &msg), -ESHUTDOWN);
	ck_assert_int_eq(ripc_receive(pair.a.svc, 0, &msg), -ESHUTDOWN);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), -ESHUTDOWN);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -ESHUTDOWN);
	ck_assert_int_eq(ripc_watch(pair.a.svc, pair.b.id, 0), -ESHUTDOWN);
	ck_assert_int_eq(ripc_unwatch(pair.a.svc, pair.b.id), -ESHUTDOWN);
	ck_assert_int_eq(ripc_window_post(pair.a.svc, &one, 0), -ESHUTDOWN);
	ck_assert_int_eq(ripc_window_cancel(pair.a.svc, 0), -ESHUTDOWN);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 0), -ESHUTDOWN);
	ck_assert_int_eq(ripc_service_drain(pair.a.svc, 0), -ESHUTDOWN);
	ck_assert_int_eq(ripc_service_fd(pair.a.svc), -ESHUTDOWN);
	ck_assert_int_eq(ripc_path_info(pair.a.svc, pair.b.id, &path), -ESHUTDOWN);
	ck_assert_int_eq(ripc_ping(pair.a.svc, pair.b.id, 1, &rtt_ns), -ESHUTDOWN);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), -ESHUTDOWN);
	ck_assert_uint_eq(ripc_service_id(pair.a.svc), pair.a.id);
	ck_assert_ptr_null(msg);
	pair_close(&pair);
}
END_TEST

struct work {
	struct ripc_service *svc;
	atomic_uint n_done;
};

/* A worker as docs/guide.md has it. */
static void *work_main(void *arg)
{
	struct work *work = arg;
	struct ripc_msg *msg;
	int error;

	while ((error = ripc_receive(work->svc, -1, &msg)) == 0) {
		ripc_msg_free(msg);
		atomic_fetch_add(&work->n_done, 1);
	}
	return (void *)(intptr_t)error;
}

static void workers_start(struct work *work, struct ripc_service *svc, pthread_t *threads)
{
	work->svc = svc;
	atomic_init(&work->n_done, 0);
	for (uint32_t i = 0; i < WORKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work_main, work), 0);
}

static void workers_join(pthread_t *threads)
{
	for (uint32_t i = 0; i < WORKERS; i++) {
		void *error;

		ck_assert_int_eq(pthread_join(threads[i], &error), 0);
		ck_assert_int_eq((int)(intptr_t)error, -ESHUTDOWN);
	}
}

/* Until all wait. */
static void workers_await(struct work *work)
{
	uint32_t n;

	do {
		ripc__lock(work->svc->ctx);
		n = work->svc->n_waiting;
		ripc__unlock(work->svc->ctx);
		sched_yield();
	} while (n < WORKERS);
}

START_TEST(service_close__while_workers_loop)
{
	struct pair pair;

	pair_open(&pair);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		const struct iovec one = item("x", 1);
		pthread_t threads[WORKERS];
		struct ripc_service *svc;
		struct work work;

		ck_assert_int_eq(ripc_service_open(pair.b.ctx, 0, 0, &svc), 0);
		workers_start(&work, svc, threads);
		while (atomic_load(&work.n_done) < 20)
			(void)ripc_send_short(pair.a.svc, ripc_service_id(svc), &one, 1);
		ck_assert_int_eq(ripc_service_close(svc), 0);
		workers_join(threads);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(close__while_workers_wait)
{
	const struct iovec one = item("x", 1);
	pthread_t threads[WORKERS];
	struct work work;
	struct pair pair;

	pair_open(&pair);
	workers_start(&work, pair.b.svc, threads);
	while (atomic_load(&work.n_done) < 20)
		(void)ripc_send_short(pair.a.svc, pair.b.id, &one, 1);
	side_close(&pair.a);
	workers_await(&work);
	side_close(&pair.b);
	workers_join(threads);
}
END_TEST

/* Services are opened and closed in great number: the memory of most goes. */
START_TEST(service_close__many)
{
	struct ripc_service *svc, *first = NULL;
	struct side side;

	side_open(&side, 0);
	for (uint32_t i = 0; i < 1100; i++) {
		ck_assert_int_eq(ripc_service_open(side.ctx, 0, 0, &svc), 0);
		ck_assert_int_eq(ripc_service_close(svc), 0);
		first = i == 1050 ? svc : first;
	}
	ck_assert_int_eq(ripc_service_fd(first), -ESHUTDOWN);
	side_close(&side);
}
END_TEST

/* ---- in a forked child ------------------------------------------------------------------- */

static void check_child(pid_t child)
{
	int status;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

START_TEST(fork__child_frees)
{
	struct ripc_msg *msgs[3];
	struct pair pair;
	void *buf;
	pid_t child;

	pair_open(&pair);
	buf = pool_filled(pair.b.ctx, 1000, 1);
	msgs[0] = short_take(&pair);
	msgs[1] = long_take(&pair);
	ck_assert_int_eq(ripc_watch(pair.b.svc, pair.a.id, 5), 0);
	msgs[2] = take(pair.b.svc, RIPC_NOTICE);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		for (uint32_t i = 0; i < 3; i++)
			ripc_msg_free(msgs[i]);
		_exit(ripc_buf_free(pair.b.ctx, buf) != -EOWNERDEAD);
	}
	check_child(child);
	check_short(msgs[0]);
	check_long(msgs[1]);
	check_filled(buf, 1000, 1);
	for (uint32_t i = 0; i < 3; i++)
		ripc_msg_free(msgs[i]);
	ck_assert_int_eq(ripc_buf_free(pair.b.ctx, buf), 0);
	pair_close(&pair);
}
END_TEST

START_TEST(fork__child_frees_after_close)
{
	struct ripc_msg *first, *last;
	struct pair pair;
	pid_t child;

	pair_open(&pair);
	first = short_take(&pair);
	last = long_take(&pair);
	pair_close(&pair);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		ripc_msg_free(first);
		ripc_msg_free(last);
		_exit(ripc_close(pair.b.ctx, 0) != -EOWNERDEAD);
	}
	check_child(child);
	check_short(first);
	check_long(last);
	ripc_msg_free(last);
	ripc_msg_free(first);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {close__then_messages_are_freed, close__then_a_buffer_is_freed,
		close__then_an_item_that_outlives_its_message,
		close__then_completions_and_failures_are_freed,
		close__then_a_notice_of_a_watch_is_freed, close__then_calls,
		close__while_messages_are_freed, close__while_workers_wait,
		service_close__then_messages_are_freed, service_close__then_calls,
		service_close__before_given_messages_end,
		service_close__before_completions_are_received,
		service_close__while_workers_loop, service_close__many, fork__child_frees,
		fork__child_frees_after_close, NULL,
	};

	return suite_run("api_life", tests);
}
