/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles between real contexts: each kind of message has the handle of its sender, and an answer
 * by that handle alone comes to the sender.
 */
#include "api.h"
#include "ripc/call.h"
#include "ripc/group.h"

#define LONG_LEN (1u << 20)

static const char *const networks[] = {"udp", "shm"};

#define NETWORKS (sizeof(networks) / sizeof(networks[0]))

static void open_both(struct pair *pair, int i)
{
	struct ripc_config cfg = api_config(0);

	cfg.backends = networks[i];
	side_open_as(&pair->a, &cfg, 0);
	side_open_as(&pair->b, &cfg, 0);
}

static int answer(struct side *by, uint64_t handle, size_t len)
{
	struct ripc_send send = {.size = sizeof(send), .to_handle = handle,
		.n_items = 1, .timeout_ms = PATIENCE_MS,
		.flags = len > RIPC_SHORT_MIN ? RIPC_SEND_LONG : 0};
	void *bytes = filled(len, 3);
	struct iovec one = item(bytes, len);
	int status;

	send.items = &one;
	status = ripc_sendmsg(by->svc, &send, NULL);
	free(bytes);
	return status;
}

static void expect(struct side *at, const struct side *from, size_t len)
{
	struct ripc_msg *msg = take(at->svc, len > RIPC_SHORT_MIN ? RIPC_LONG : RIPC_SHORT);

	ck_assert_uint_eq(msg->from, from->id);
	ck_assert_uint_ne(msg->from_handle, 0);
	ck_assert_uint_eq(msg->items[0].iov_len, len);
	check_filled(msg->items[0].iov_base, len, 3);
	ripc_msg_free(msg);
}

/* The message has a handle, and both a short and a long message by it come to its sender. */
static void check_handle(struct side *at, struct side *from, struct ripc_msg *msg)
{
	uint64_t handle = msg->from_handle;

	ck_assert_uint_ne(handle, 0);
	ripc_msg_free(msg);
	ck_assert_int_eq(answer(at, handle, 100), 0);
	expect(from, at, 100);
	ck_assert_int_eq(answer(at, handle, LONG_LEN), 0);
	expect(from, at, LONG_LEN);
}

START_TEST(handle__of_each_kind)
{
	const struct iovec one = item("word", 4);
	struct ripc_request request = {.size = sizeof(request), .items = &one, .n_items = 1,
		.timeout_ms = PATIENCE_MS};
	struct ripc_msg *msg;
	struct pair pair;
	uint64_t group;
	char name[48];

	open_both(&pair, _i);
	snprintf(name, sizeof(name), "handles %d", getpid());
	group = ripc_group_from_name(name);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	check_handle(&pair.b, &pair.a, take(pair.b.svc, RIPC_SHORT));
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	check_handle(&pair.b, &pair.a, take(pair.b.svc, RIPC_LONG));
	ck_assert_int_eq(ripc_join(pair.b.svc, group), 0);
	ck_assert_int_eq(ripc_await(pair.a.ctx, group, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, group, &one, 1), 0);
	msg = take(pair.b.svc, RIPC_SHORT);
	ck_assert_uint_eq(msg->group, group);
	check_handle(&pair.b, &pair.a, msg);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, group, &one, 1, PATIENCE_MS), 0);
	msg = take(pair.b.svc, RIPC_LONG);
	ck_assert_uint_eq(msg->group, group);
	check_handle(&pair.b, &pair.a, msg);
	for (uint32_t flags = 0; flags <= RIPC_IDEMPOTENT; flags += RIPC_IDEMPOTENT) {
		request.to = pair.b.id;
		request.flags = flags;
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &request), 0);
		msg = take(pair.b.svc, RIPC_REQUEST);
		ck_assert_int_eq(ripc_reply(pair.b.svc, msg, &one, 1, 0), 0);
		ripc_msg_free(msg);
		check_handle(&pair.a, &pair.b, take(pair.a.svc, RIPC_REPLY));
		ck_assert_int_eq(ripc_call_start(pair.a.svc, &request), 0);
		msg = take(pair.b.svc, RIPC_REQUEST);
		check_handle(&pair.b, &pair.a, msg);
		ck_assert_int_eq(ripc_cancel(pair.a.svc, 0), 0);
		msg = take(pair.a.svc, RIPC_REPLY);
		ck_assert_int_eq(msg->status, -ECANCELED);
		ck_assert_uint_eq(msg->from_handle, 0);
		ripc_msg_free(msg);
	}
	pair_close(&pair);
}
END_TEST

/* Return buffers are lent by handle, and filled by handle. */
START_TEST(handle__with_return_buffers)
{
	static char lent[100];
	const struct iovec one = item("word", 4);
	const struct ripc_buffer place = {.mem = {lent, sizeof(lent)}, .cookie = 9};
	struct ripc_send send = {.size = sizeof(send), .items = &one, .n_items = 1,
		.returns = &place, .n_returns = 1, .timeout_ms = PATIENCE_MS};
	struct ripc_msg *msg;
	struct pair pair;

	open_both(&pair, _i / 2);
	send.flags = _i % 2 ? RIPC_SEND_LONG : 0;
	ck_assert_int_eq(ripc_send_short(pair.b.svc, pair.a.id, &one, 1), 0);
	msg = take(pair.a.svc, RIPC_SHORT);
	send.to_handle = msg->from_handle;
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	msg = take(pair.b.svc, _i % 2 ? RIPC_LONG : RIPC_SHORT);
	send.to_handle = msg->from_handle;
	send.reply_to = msg->reply;
	send.n_returns = 0;
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_sendmsg(pair.b.svc, &send, NULL), 0);
	msg = take(pair.a.svc, _i % 2 ? RIPC_LONG : RIPC_SHORT);
	ck_assert_ptr_nonnull(msg->places);
	ck_assert_uint_eq(msg->places[0].place, RIPC_IN_RETURN);
	ck_assert_uint_eq(msg->places[0].cookie, 9);
	ck_assert_mem_eq(lent, "word", 4);
	ripc_msg_free(msg);
	pair_close(&pair);
}
END_TEST

/* Until a send by the handle fails, which it must for good. */
static void wait_for_end(struct side *side, uint64_t handle)
{
	int status = 0;

	for (int i = 0; i < PATIENCE_MS && status != -ENOENT; i++) {
		status = answer(side, handle, 100);
		usleep(1000);
	}
	ck_assert_int_eq(status, -ENOENT);
	ck_assert_int_eq(answer(side, handle, LONG_LEN), -ENOENT);
}

/* The sender's ID is registered anew, in the same context, or in another one. */
START_TEST(handle__of_a_service_that_was_closed)
{
	const struct iovec one = item("word", 4);
	struct ripc_config cfg = api_config(0);
	struct ripc_msg *msg;
	struct pair pair;
	uint64_t handle;

	cfg.backends = networks[_i / 2];
	side_open_as(&pair.a, &cfg, nobody + 1);
	side_open_as(&pair.b, &cfg, 0);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	msg = take(pair.b.svc, RIPC_SHORT);
	handle = msg->from_handle;
	ripc_msg_free(msg);
	if (_i % 2) {
		ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
		ck_assert_int_eq(ripc_service_open(pair.a.ctx, nobody + 1, 0, &pair.a.svc), 0);
	} else {
		side_close(&pair.a);
		side_open_as(&pair.a, &cfg, nobody + 1);
	}
	ck_assert_int_eq(ripc_send_long(pair.b.svc, nobody + 1, &one, 1, PATIENCE_MS), 0);
	ripc_msg_free(take(pair.a.svc, RIPC_LONG));
	wait_for_end(&pair.b, handle);
	ck_assert_int_eq(ripc_receive(pair.a.svc, 0, &msg), -EAGAIN);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	check_handle(&pair.b, &pair.a, take(pair.b.svc, RIPC_SHORT));
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{handle__of_each_kind, NETWORKS},
		{handle__with_return_buffers, 2 * NETWORKS},
		{handle__of_a_service_that_was_closed, 2 * NETWORKS},
		{NULL, 0},
	};

	return suite_run_loops("api_handle", loops);
}
