/* SPDX-License-Identifier: BSD-3-Clause */
/* Awaited sends and calls: each end is handed out once, by ripc_receive_end() alone. */
#include <poll.h>

#include "api.h"
#include "ripc/call.h"
#include "ripc/group.h"

#define SOON_MS 50 /* a deadline that is missed on purpose */
#define CALLERS 8u
#define CALLS   100u
#define MANY    65600u /* more than 16 bits count */

static const char *const backends[] = {"udp", "shm"};

static void both_open(struct pair *pair, int i)
{
	struct ripc_config cfg = api_config(0);

	cfg.backends = backends[i];
	side_open_as(&pair->a, &cfg, 0);
	side_open_as(&pair->b, &cfg, 0);
}

static struct ripc_send awaited_send(uint64_t to, const struct iovec *one, uint64_t cookie)
{
	struct ripc_send send = long_send(to, one, 1);

	send.flags |= RIPC_NOWAIT | RIPC_AWAITED;
	send.cookie = cookie;
	return send;
}

static struct ripc_request awaited_call(uint64_t to, const struct iovec *one, uint64_t cookie)
{
	return (struct ripc_request){.size = sizeof(struct ripc_request), .to = to, .items = one,
		.n_items = 1, .flags = RIPC_AWAITED, .timeout_ms = PATIENCE_MS, .cookie = cookie};
}

static int no_end(struct ripc_service *svc, uint64_t cookie, int timeout_ms)
{
	struct ripc_msg *msg = NULL;
	int error = ripc_receive_end(svc, cookie, timeout_ms, &msg);

	ck_assert_ptr_null(msg);
	return error;
}

static struct ripc_msg *end_of(struct ripc_service *svc, uint64_t cookie, enum ripc_kind kind)
{
	struct ripc_msg *msg = NULL;

	ck_assert_int_eq(ripc_receive_end(svc, cookie, PATIENCE_MS, &msg), 0);
	ck_assert_int_eq(msg->kind, kind);
	ck_assert_uint_eq(msg->cookie, cookie);
	return msg;
}

static void check_end(struct ripc_service *svc, uint64_t cookie, enum ripc_kind kind,
		enum ripc_outcome outcome, int status)
{
	struct ripc_msg *msg = end_of(svc, cookie, kind);

	ck_assert_int_eq(msg->outcome, outcome);
	ck_assert_int_eq(msg->status, status);
	ripc_msg_free(msg);
	ck_assert_int_eq(no_end(svc, cookie, PATIENCE_MS), -ENOENT);
}

static bool is_readable(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) > 0;
}

/* Takes a request, and gives it back. */
static void echo(struct ripc_service *svc)
{
	struct ripc_msg *request = take(svc, RIPC_REQUEST);

	ck_assert_int_eq(ripc_reply(svc, request, request->items, 1, 0), 0);
	ripc_msg_free(request);
}

/* ---- one end ----------------------------------------------------------------------------- */

START_TEST(receive_end__of_a_send)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send;
	struct pair pair;
	int fd;

	both_open(&pair, _i);
	fd = ripc_service_fd(pair.a.svc);
	send = awaited_send(pair.b.id, &one, 7);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	while (stats_of(pair.a.ctx).long_sent == 0)
		usleep(1000);
	check_nothing(pair.a.svc);
	ck_assert(!is_readable(fd));
	check_end(pair.a.svc, 7, RIPC_COMPLETION, RIPC_DELIVERED, 0);
	pair_close(&pair);
}
END_TEST

/* The ends are taken in another order than they came, and before messages that are older. */
START_TEST(receive_end__of_calls)
{
	const struct iovec items[2] = {item("a", 1), item("b", 1)};
	struct ripc_request call;
	struct ripc_msg *reply;
	struct pair pair;

	both_open(&pair, _i);
	ck_assert_int_eq(ripc_send_long(pair.b.svc, pair.a.id, items, 1, PATIENCE_MS), 0);
	for (uint64_t cookie = 0; cookie < 2; cookie++) {
		call = awaited_call(pair.b.id, &items[cookie], cookie);
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
		echo(pair.b.svc);
	}
	for (uint64_t cookie = 2; cookie--;) {
		reply = end_of(pair.a.svc, cookie, RIPC_REPLY);
		ck_assert_int_eq(*(char *)reply->items[0].iov_base, 'a' + (int)cookie);
		ripc_msg_free(reply);
	}
	ripc_msg_free(take(pair.a.svc, RIPC_LONG));
	check_nothing(pair.a.svc);
	pair_close(&pair);
}
END_TEST

START_TEST(receive_end__again_after_a_timeout)
{
	const struct iovec one = item("x", 1);
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	call = awaited_call(pair.b.id, &one, 1);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ck_assert_int_eq(no_end(pair.a.svc, 1, 0), -EAGAIN);
	ck_assert_int_eq(no_end(pair.a.svc, 1, SOON_MS), -ETIMEDOUT);
	ck_assert_int_eq(no_end(pair.a.svc, 2, PATIENCE_MS), -ENOENT);
	echo(pair.b.svc);
	check_end(pair.a.svc, 1, RIPC_REPLY, RIPC_DELIVERED, 0);
	pair_close(&pair);
}
END_TEST

START_TEST(receive_end__after_a_cancel)
{
	const struct iovec one = item("x", 1);
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	call = awaited_call(pair.b.id, &one, 1);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_REQUEST));
	ck_assert_int_eq(no_end(pair.a.svc, 1, SOON_MS), -ETIMEDOUT);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 1), 0);
	check_end(pair.a.svc, 1, RIPC_REPLY, RIPC_DELIVERED, -ECANCELED);
	pair_close(&pair);
}
END_TEST

START_TEST(receive_end__of_a_group)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send;
	struct ripc_msg *end;
	struct pair pair;
	uint64_t group;
	char name[32];

	snprintf(name, sizeof(name), "ends %d", getpid());
	group = ripc_group_from_name(name);
	both_open(&pair, _i);
	ck_assert_int_eq(ripc_join(pair.b.svc, group), 0);
	ck_assert_int_eq(ripc_await(pair.a.ctx, group, PATIENCE_MS), 0);
	send = awaited_send(group, &one, 1);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	end = end_of(pair.a.svc, 1, RIPC_COMPLETION);
	ck_assert_int_eq(end->outcome, RIPC_DELIVERED);
	ck_assert_uint_eq(end->counts->delivered, 1);
	ripc_msg_free(end);
	pair_close(&pair);
}
END_TEST

/* ---- what does not begin ----------------------------------------------------------------- */

START_TEST(receive_end__refused)
{
	const struct iovec one = item("x", 1);
	struct ripc_request call = awaited_call(nobody, &one, 1);
	struct ripc_send send = awaited_send(nobody, &one, 1);
	struct ripc_msg *msg = NULL;
	struct pair pair;

	both_open(&pair, _i);
	ck_assert_int_eq(ripc_call(pair.a.svc, &call, &msg, NULL), -EINVAL);
	send.flags = RIPC_SEND_LONG | RIPC_AWAITED;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_AWAITED | RIPC_GIVE;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	call.flags |= RIPC_GIVE;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), -EINVAL);
	ck_assert_int_eq(no_end(pair.a.svc, 1, PATIENCE_MS), -ENOENT);
	ck_assert_int_eq(ripc_receive_end(NULL, 1, 0, &msg), -EINVAL);
	ck_assert_int_eq(ripc_receive_end(pair.a.svc, 1, -2, &msg), -EINVAL);
	ck_assert_int_eq(ripc_receive_end(pair.a.svc, 1, 0, NULL), -EINVAL);
	pair_close(&pair);
}
END_TEST

/* As many as a partner has room for, and more: they wait, where others meet -EAGAIN. */
START_TEST(receive_end__waits_for_room)
{
	const struct iovec one = item("x", 1);
	struct side side, silent;
	struct ripc_send send;
	int error = 0;

	side_open(&side, RIPC_NO_THREAD);
	side_open(&silent, RIPC_NO_THREAD);
	for (uint64_t cookie = 1; cookie <= 300; cookie++) {
		send = awaited_send(silent.id, &one, cookie);
		ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), 0);
	}
	send.flags &= ~RIPC_AWAITED;
	error = ripc_sendmsg(side.svc, &send, NULL);
	ck_assert_int_eq(error, -EAGAIN);
	for (uint64_t cookie = 1; cookie <= 300; cookie++) {
		ck_assert_int_eq(ripc_cancel(side.svc, cookie), 0);
		check_end(side.svc, cookie, RIPC_COMPLETION, RIPC_NOT_DELIVERED, -ECANCELED);
	}
	side_close(&side);
	side_close(&silent);
}
END_TEST

/* A server for which many messages wait is given no more requests, awaited or not. */
START_TEST(receive_end__of_calls_to_a_full_server)
{
	const struct iovec one = item("x", 1);
	struct ripc_msg *reply = NULL;
	struct side side, silent;
	struct ripc_request call;
	uint64_t cookie = 0;

	side_open(&side, RIPC_NO_THREAD);
	side_open(&silent, RIPC_NO_THREAD);
	do
		call = awaited_call(silent.id, &one, ++cookie);
	while (!ripc_call_start(side.svc, &call));
	ck_assert_uint_eq(cookie, 257);
	ck_assert_int_eq(ripc_call_start(side.svc, &call), -EAGAIN);
	ck_assert_int_eq(no_end(side.svc, cookie, 0), -ENOENT);
	call.flags = 0;
	ck_assert_int_eq(ripc_call(side.svc, &call, &reply, NULL), -EAGAIN);
	ck_assert_uint_eq(stats_of(side.ctx).calls_refused, 3);
	while (--cookie) {
		ck_assert_int_eq(ripc_cancel(side.svc, cookie), 0);
		check_end(side.svc, cookie, RIPC_REPLY, RIPC_NOT_DELIVERED, -ECANCELED);
	}
	side_close(&side);
	side_close(&silent);
}
END_TEST

/* More than a partner counts: each that is taken ends, also those of a service that is closed. */
START_TEST(receive_end__of_very_many)
{
	const struct iovec one = item("x", 1);
	struct side side, silent;
	struct ripc_send send;
	uint64_t n = 0;
	int error = 0;

	side_open(&side, RIPC_NO_THREAD);
	side_open(&silent, RIPC_NO_THREAD);
	while (!error && n < MANY) {
		send = awaited_send(silent.id, &one, n);
		error = ripc_sendmsg(side.svc, &send, NULL);
		n += error == 0;
	}
	ck_assert_int_eq(error, -ENOMEM);
	ck_assert_uint_gt(n, 300);
	ck_assert_int_eq(no_end(side.svc, n, 0), -ENOENT);
	ripc_service_close(side.svc);
	ck_assert_uint_eq(stats_of(side.ctx).long_not_delivered, n);
	ck_assert_int_eq(ripc_service_open(side.ctx, 0, 0, &side.svc), 0);
	side_close(&side);
	side_close(&silent);
}
END_TEST

/* The failure of an ordered message is known when its end is taken. */
START_TEST(receive_end__of_ordered_sends)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = awaited_send(nobody, &one, 1);
	struct pair pair;

	both_open(&pair, _i);
	send.flags |= RIPC_ORDERED;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 1), 0);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -ECANCELED);
	check_end(pair.a.svc, 1, RIPC_COMPLETION, RIPC_NOT_DELIVERED, -ECANCELED);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 1), 0);
	check_end(pair.a.svc, 1, RIPC_COMPLETION, RIPC_NOT_DELIVERED, -ECANCELED);
	pair_close(&pair);
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------- */

struct caller {
	pthread_t thread;
	const struct pair *pair;
	uint64_t number;
	int result;
};

static void *receive_all(void *arg)
{
	const struct pair *pair = arg;
	struct ripc_msg *msg;

	while (ripc_receive(pair->a.svc, -1, &msg) == 0) {
		ck_assert_int_eq(msg->kind, RIPC_SHORT);
		ripc_msg_free(msg);
	}
	return NULL;
}

static void *serve(void *arg)
{
	struct ripc_service *svc = arg;
	struct ripc_msg *msg;

	while (ripc_receive(svc, -1, &msg) == 0) {
		ck_assert_int_eq(ripc_reply(svc, msg, msg->items, 1, 0), 0);
		ripc_msg_free(msg);
	}
	return NULL;
}

static void *call_often(void *arg)
{
	const struct caller *caller = arg;
	const struct pair *pair = caller->pair;

	for (uint64_t i = 0; i < CALLS; i++) {
		uint64_t cookie = caller->number << 32 | i;
		const struct iovec one = item(&cookie, sizeof(cookie));
		struct ripc_request call = awaited_call(pair->b.id, &one, cookie);
		struct ripc_msg *reply;

		ck_assert_int_eq(ripc_call_start(pair->a.svc, &call), 0);
		reply = end_of(pair->a.svc, cookie, RIPC_REPLY);
		ck_assert_int_eq(memcmp(reply->items[0].iov_base, &cookie, sizeof(cookie)), 0);
		ripc_msg_free(reply);
	}
	return NULL;
}

START_TEST(receive_end__beside_threads_that_receive)
{
	struct caller callers[CALLERS];
	const struct iovec one = item("x", 1);
	pthread_t receivers[2], server;
	struct pair pair;

	both_open(&pair, _i);
	pthread_create(&server, NULL, serve, pair.b.svc);
	for (int i = 0; i < 2; i++)
		pthread_create(&receivers[i], NULL, receive_all, &pair);
	for (uint32_t i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){.pair = &pair, .number = i};
		pthread_create(&callers[i].thread, NULL, call_often, &callers[i]);
	}
	for (uint32_t i = 0; i < CALLS; i++)
		ripc_send_short(pair.b.svc, pair.a.id, &one, 1);
	for (uint32_t i = 0; i < CALLERS; i++)
		pthread_join(callers[i].thread, NULL);
	ripc_service_close(pair.a.svc);
	ripc_service_close(pair.b.svc);
	for (int i = 0; i < 2; i++)
		pthread_join(receivers[i], NULL);
	pthread_join(server, NULL);
	pair_close(&pair);
}
END_TEST

static void *wait_for_end(void *arg)
{
	struct caller *caller = arg;
	struct ripc_msg *msg = NULL;

	caller->result = ripc_receive_end(caller->pair->a.svc, caller->number, -1, &msg);
	ripc_msg_free(msg);
	return NULL;
}

/* Two threads wait for one end: one gets it, and the other one learns that it is taken. */
START_TEST(receive_end__twice)
{
	const struct iovec one = item("x", 1);
	struct caller callers[2];
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	call = awaited_call(pair.b.id, &one, 1);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	for (int i = 0; i < 2; i++) {
		callers[i] = (struct caller){.pair = &pair, .number = 1};
		pthread_create(&callers[i].thread, NULL, wait_for_end, &callers[i]);
	}
	echo(pair.b.svc);
	for (int i = 0; i < 2; i++)
		pthread_join(callers[i].thread, NULL);
	ck_assert_int_eq(callers[0].result + callers[1].result, -ENOENT);
	pair_close(&pair);
}
END_TEST

/* ---- the service closes ------------------------------------------------------------------ */

START_TEST(receive_end__closed_while_it_waits)
{
	struct caller caller = {.number = 1};
	const struct iovec one = item("x", 1);
	struct ripc_request call;
	struct pair pair;

	both_open(&pair, _i);
	caller.pair = &pair;
	call = awaited_call(pair.b.id, &one, 1);
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	pthread_create(&caller.thread, NULL, wait_for_end, &caller);
	ripc_msg_free(take(pair.b.svc, RIPC_REQUEST));
	ripc_service_close(pair.a.svc);
	pthread_join(caller.thread, NULL);
	ck_assert_int_eq(caller.result, -ESHUTDOWN);
	ck_assert_int_eq(no_end(pair.a.svc, 1, 0), -ESHUTDOWN);
	pair_close(&pair);
}
END_TEST

/* An end that was not taken is freed, with what was given and would be the application's again. */
START_TEST(receive_end__closed_before_it_is_taken)
{
	struct ripc_request call;
	struct ripc_send send;
	struct iovec given;
	struct pair pair;
	uint64_t used;

	both_open(&pair, _i);
	used = stats_of(pair.a.ctx).pool_used_bytes;
	given = item(pool_filled(pair.a.ctx, 1000, 1), 1000);
	send = awaited_send(nobody, &given, 1);
	send.flags |= RIPC_GIVE;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 1), 0);
	given = item(pool_filled(pair.a.ctx, 1000, 1), 1000);
	call = awaited_call(nobody, &given, 2);
	call.flags |= RIPC_GIVE;
	ck_assert_int_eq(ripc_call_start(pair.a.svc, &call), 0);
	ck_assert_int_eq(ripc_cancel(pair.a.svc, 2), 0);
	ripc_service_close(pair.a.svc);
	ck_assert_uint_le(stats_of(pair.a.ctx).pool_used_bytes, used);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ receive_end__of_a_send, 2 }, { receive_end__of_calls, 2 },
		{ receive_end__again_after_a_timeout, 2 }, { receive_end__after_a_cancel, 2 },
		{ receive_end__of_a_group, 2 }, { receive_end__refused, 1 },
		{ receive_end__waits_for_room, 1 }, { receive_end__of_very_many, 1 },
		{ receive_end__of_calls_to_a_full_server, 1 },
		{ receive_end__of_ordered_sends, 1 },
		{ receive_end__beside_threads_that_receive, 2 }, { receive_end__twice, 2 },
		{ receive_end__closed_while_it_waits, 2 },
		{ receive_end__closed_before_it_is_taken, 2 }, { NULL, 0 },
	};

	return suite_run_loops("ends", loops);
}
