/* SPDX-License-Identifier: BSD-3-Clause */
/* Two contexts with two networks between them, of which the better one fails and comes back. */
#include <errno.h>
#include <string.h>

#include "loop/loop.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/wire/wire.h"
#include "suite.h"

enum { WORKS, RESETS, SWALLOWS };

#define LONG_BYTES 100000u

static struct {
	struct ripc__loop_hub *hub;
	struct ripc__backend better, other, last;
	const struct ripc__backend *backends[4];
	struct ripc__env env;
	struct ripc_context *ctx[2];
	struct ripc_service *svc[2];
	uint64_t now_us;
	int better_is, other_is, choose_error, open_error, other_open_error;
	bool is_plain; /* one network, and nobody tells when a service ends */
	bool is_real;  /* its time is */
	bool has_last; /* a third network, which always works */
	bool has_no_address; /* the better one */
	struct ripc__addr gone; /* packets to this address vanish */
	uint32_t lost_replies;  /* number of echo replies that vanish on the better one */
	uint32_t delivered, received;
	bool seen[1000];
} world;

static uint64_t now_us(void *arg)
{
	(void)arg;
	return world.now_us;
}

static bool is_echo_reply(const struct ripc__tx *tx)
{
	return ((const uint8_t *)tx->iov[0].iov_base)[1] == WIRE_ECHO_REPLY;
}

static int send_or_fail(void *port, void *peer, const struct ripc__tx *tx, uint32_t n)
{
	struct ripc__where to;

	if (world.lost_replies && is_echo_reply(tx)) {
		world.lost_replies--;
		return 1;
	}
	ripc__loop_backend.route.where(port, peer, &to);
	if (to.addr.len == world.gone.len &&
			memcmp(to.addr.blob, world.gone.blob, to.addr.len) == 0)
		return (int)n;
	if (world.better_is == RESETS)
		return -ECONNRESET;
	return world.better_is == SWALLOWS ? (int)n :
		ripc__loop_backend.datagrams.send(port, peer, tx, n);
}

static int other_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n)
{
	return world.other_is == SWALLOWS ? (int)n :
		ripc__loop_backend.datagrams.send(port, peer, tx, n);
}

static int read_or_fail(void *port, void *peer, const struct ripc__move *move)
{
	return world.better_is == WORKS || move->writes ?
		ripc__loop_backend.remote.move(port, peer, move) : -EHOSTUNREACH;
}

static int choose_or_fail(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	return world.choose_error ? world.choose_error :
		ripc__loop_backend.route.choose(port, blob, len, host, addr);
}

static int addr_or_gone(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	return world.has_no_address ? -EADDRNOTAVAIL : ripc__loop_backend.net.address(port, blob);
}

static int open_or_fail(void *port, void *peer, const struct ripc__addr *addr)
{
	return world.open_error ? world.open_error :
		ripc__loop_backend.route.open(port, peer, addr);
}

static int other_open(void *port, void *peer, const struct ripc__addr *addr)
{
	return world.other_open_error ? world.other_open_error :
		ripc__loop_backend.route.open(port, peer, addr);
}

/* Which of the networks each of the two has; NULL: all. */
static void world_open_both(const char *first, const char *second)
{
	static const struct ripc__source *const local_only[] = {&ripc__local_source, NULL};
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD,
		.pool_bytes = 64u << 20};

	ck_assert_int_eq(ripc__loop_hub_open(&world.hub), 0);
	world.now_us = 1000000000;
	world.better = world.other = ripc__loop_backend;
	world.better.name = "better";
	world.better.id = 101;
	world.better.datagrams.send = send_or_fail;
	world.better.remote.move = read_or_fail;
	world.better.route.choose = choose_or_fail;
	world.better.route.open = open_or_fail;
	world.better.net.address = addr_or_gone;
	world.has_no_address = false;
	world.choose_error = world.open_error = 0;
	world.other.name = "other";
	world.other.id = 102;
	world.other.datagrams.send = other_send;
	world.other.route.open = other_open;
	world.other_open_error = 0;
	world.backends[0] = &world.better;
	world.backends[1] = &world.other;
	world.last = ripc__loop_backend;
	world.last.name = "last";
	world.last.id = 103;
	world.backends[2] = world.has_last ? &world.last : NULL;
	ripc__env_init(&world.env);
	world.env.arg = world.hub;
	world.env.backends = world.backends;
	if (!world.is_real)
		world.env.now_us = now_us;
	if (world.is_plain) {
		world.backends[1] = NULL;
		world.env.sources = local_only;
	}
	for (int i = 0; i < 2; i++) {
		cfg.backends = i ? second : first;
		ck_assert_int_eq(ripc__open_in(&cfg, &world.env, &world.ctx[i]), 0);
		ck_assert_int_eq(ripc_service_open(world.ctx[i], 0, 0, &world.svc[i]), 0);
	}
}

static void world_open(void)
{
	world_open_both(NULL, NULL);
}

static void world_close(void)
{
	for (int i = 0; i < 2; i++)
		ripc_close(world.ctx[i], 0);
	ripc__loop_hub_close(world.hub);
}

static void take(struct ripc_msg *msg)
{
	uint32_t number;

	if (msg->kind == RIPC_COMPLETION) {
		ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
		world.delivered++;
	} else if (msg->kind == RIPC_LONG) {
		ck_assert_uint_eq(msg->items[0].iov_len, LONG_BYTES);
		memcpy(&number, msg->items[0].iov_base, sizeof(number));
		ck_assert_uint_lt(number, 1000);
		ck_assert(!world.seen[number]);
		world.seen[number] = true;
		world.received++;
	}
	ripc_msg_free(msg);
}

/* Both work for so long. */
static void pass(uint64_t us)
{
	uint64_t end_us = world.now_us + us;
	struct ripc_msg *msg;

	for (; world.now_us < end_us; world.now_us += 100) {
		for (int i = 0; i < 2; i++) {
			ripc_poll(world.ctx[i]);
			while (ripc_receive(world.svc[i], 0, &msg) == 0)
				take(msg);
		}
	}
}

static void send_longs(uint32_t first, uint32_t n)
{
	static uint8_t bytes[50][LONG_BYTES];
	struct iovec item = {.iov_len = LONG_BYTES};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.to = ripc_service_id(world.svc[1]), .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = 60000};

	for (uint32_t i = first; i < first + n; i++) {
		item.iov_base = bytes[i % 50];
		memcpy(item.iov_base, &i, sizeof(i));
		ck_assert_int_eq(ripc_sendmsg(world.svc[0], &send, NULL), 0);
	}
}

static struct ripc_path path_info(int i)
{
	struct ripc_path path = {.size = sizeof(path)};

	ck_assert_int_eq(ripc_path_info(world.svc[i], ripc_service_id(world.svc[!i]), &path), 0);
	return path;
}

static const char *path_of(int i)
{
	static struct ripc_path path;

	path = path_info(i);
	return path.backend;
}

static const char *others_of(int i)
{
	static struct ripc_path path;

	path = path_info(i);
	return path.others;
}

static uint64_t changes(int i)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_stats_get(world.ctx[i], &stats), 0);
	return stats.path_changes;
}

/* However the better one fails, in the middle of things: all arrives once, over the other. */
START_TEST(failed__goes_on_by_the_next)
{
	world_open();
	world.better_is = WORKS;
	send_longs(0, 20);
	pass(1000000);
	ck_assert_uint_eq(world.delivered, 20);
	ck_assert_str_eq(path_of(0), "better");
	send_longs(20, 20);
	ripc_poll(world.ctx[1]);
	world.better_is = _i ? SWALLOWS : RESETS;
	send_longs(40, 20);
	pass(8000000);
	ck_assert_uint_eq(world.delivered, 60);
	ck_assert_uint_eq(world.received, 60);
	ck_assert_str_eq(path_of(0), "other");
	ck_assert_uint_eq(changes(0), 1);
	world_close();
}
END_TEST

/* The first thing that is ever sent by it fails. */
START_TEST(failed__at_first)
{
	const struct iovec item = {"hello", 5};

	world_open();
	world.better_is = RESETS;
	ck_assert_int_eq(ripc_send_short(world.svc[0], ripc_service_id(world.svc[1]), &item, 1), 0);
	send_longs(0, 1);
	pass(2000000);
	ck_assert_uint_eq(world.delivered, 1);
	ck_assert_str_eq(path_of(0), "other");
	world_close();
}
END_TEST

/* The network makes no route: the next one is taken at once, and it is tried again later. */
START_TEST(refused__at_first)
{
	const struct iovec item = {"hello", 5};

	world_open();
	world.open_error = -EMFILE;
	ck_assert_int_eq(ripc_send_short(world.svc[0], ripc_service_id(world.svc[1]), &item, 1), 0);
	send_longs(0, 3);
	pass(1000000);
	ck_assert_uint_eq(world.delivered, 3);
	ck_assert_uint_eq(world.received, 3);
	ck_assert_str_eq(path_of(0), "other");
	ck_assert_str_eq(others_of(0), "better: failed (the partner does not respond, or no "
		"network leads to it: see \"ripc ping\" and \"ripc doctor\"), tried again later");
	world.open_error = 0;
	pass(12000000);
	send_longs(3, 1);
	pass(1000000);
	ck_assert_uint_eq(world.delivered, 4);
	ck_assert_str_eq(path_of(0), "better");
	world_close();
}
END_TEST

/* The outcome of a long message. */
static int status_of_next(void)
{
	struct ripc_msg *msg;
	int status;

	for (; ripc_receive(world.svc[0], 0, &msg); world.now_us += 100) {
		ripc_poll(world.ctx[0]);
		ripc_poll(world.ctx[1]);
	}
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	status = msg->status;
	ripc_msg_free(msg);
	return status;
}

/*
 * No network makes a route: the answer of the best one is reported, and it is asked again next
 * time.
 */
START_TEST(refused__by_all)
{
	world_open();
	world.open_error = -ENETDOWN;
	world.other_open_error = -EMFILE;
	send_longs(0, 1);
	ck_assert_int_eq(status_of_next(), -ENETDOWN);
	world.open_error = world.other_open_error = 0;
	send_longs(1, 1);
	ck_assert_int_eq(status_of_next(), 0);
	ck_assert_str_eq(path_of(0), "better");
	world_close();
}
END_TEST

/* Breaks what is in use, where the next one makes no route. */
static void break_before_a_refusal(void)
{
	world_open();
	world.better_is = WORKS;
	send_longs(0, 2);
	pass(1000000);
	world.better_is = RESETS;
	world.other_open_error = -EMFILE;
	send_longs(2, 2);
	pass(300000);
}

/* The failure is not final: the network may make a route later. */
START_TEST(refused__after_a_failure)
{
	break_before_a_refusal();
	ck_assert_uint_eq(world.delivered, 2);
	world.other_open_error = 0;
	pass(8000000);
	ck_assert_uint_eq(world.delivered, 4);
	ck_assert_str_eq(path_of(0), "other");
	world_close();
}
END_TEST

/* Where there is one more, it goes on by that at once. */
START_TEST(refused__after_a_failure__goes_on_by_the_last)
{
	world.has_last = true;
	break_before_a_refusal();
	ck_assert_uint_eq(world.delivered, 4);
	ck_assert_str_eq(path_of(0), "last");
	world_close();
}
END_TEST

/* A network without an address is not told of, and nobody tries it; the only one there is, is. */
START_TEST(address__is_gone)
{
	world_open_both(_i ? "better" : NULL, _i ? "better" : NULL);
	world.better_is = _i ? WORKS : SWALLOWS;
	world.has_no_address = true;
	send_longs(0, 1);
	pass(100000);
	ck_assert_uint_eq(world.delivered, 1);
	ck_assert_str_eq(path_of(0), _i ? "better" : "other");
	world_close();
}
END_TEST

START_TEST(retry__goes_back_to_the_better)
{
	world_open();
	world.better_is = RESETS;
	send_longs(0, 1);
	pass(20000000);
	ck_assert_str_eq(path_of(0), "other");
	world.better_is = WORKS;
	for (uint32_t i = 1; i < 10; i++) {
		send_longs(i, 1);
		pass(2000000);
	}
	ck_assert_str_eq(path_of(0), "better");
	ck_assert_uint_eq(world.delivered, 10);
	ck_assert_uint_eq(world.received, 10);
	world_close();
}
END_TEST

/*
 * Both ends try the better network again at nearly the same time. The end that has changed already
 * does not go back for a packet that the other end has just sent by the worse network.
 */
START_TEST(retry__beside_stragglers)
{
	world_open();
	send_longs(0, 1);
	pass(100000);
	world.better_is = RESETS;
	send_longs(1, 1);
	pass(4995000);
	ck_assert_str_eq(path_of(0), "other");
	ck_assert_str_eq(path_of(1), "other");
	world.better_is = WORKS;
	world.lost_replies = 1; /* that of the first to try */
	for (uint32_t i = 2; i < 302; i++) {
		send_longs(i, 1);
		pass(100);
	}
	pass(200000);
	ck_assert_uint_eq(world.lost_replies, 0);
	ck_assert_str_eq(path_of(0), "better");
	ck_assert_str_eq(path_of(1), "better");
	ck_assert_uint_eq(changes(0), 2);
	ck_assert_uint_eq(changes(1), 2);
	world_close();
}
END_TEST

/* Nothing works for so long that all networks are tried again, and where the partner is asked. */
START_TEST(failed__all_at_once)
{
	static uint8_t bytes[LONG_BYTES];
	const uint32_t number = 999;
	struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 30000};
	struct ripc_msg *msg;

	world_open();
	world.better_is = WORKS;
	send_longs(0, 1);
	pass(1000000);
	world.better_is = world.other_is = SWALLOWS;
	memcpy(bytes, &number, sizeof(number));
	send.to = ripc_service_id(world.svc[1]);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(ripc_sendmsg(world.svc[0], &send, NULL), 0);
		for (int ms = 0; ms < 6000; ms++, world.now_us += 1000) {
			ripc_poll(world.ctx[1]);
			while (ripc_receive(world.svc[0], 0, &msg) == 0)
				ripc_msg_free(msg);
		}
	}
	world.better_is = world.other_is = WORKS;
	send_longs(1, 1);
	pass(10000000);
	ck_assert(world.seen[1]);
	world_close();
}
END_TEST

/* Why the better one is not taken, as it fails and comes back. */
START_TEST(others__failed)
{
	world_open();
	world.better_is = WORKS;
	send_longs(0, 1);
	pass(1000000);
	ck_assert_str_eq(others_of(0), "other: lower priority");
	world.better_is = _i ? SWALLOWS : RESETS;
	send_longs(1, 1);
	pass(7000000);
	ck_assert_str_eq(path_of(0), "other");
	ck_assert_ptr_nonnull(strstr(others_of(0), "better: failed ("));
	/* A path has no outcome that could be unknown. */
	ck_assert_ptr_nonnull(strstr(others_of(0), _i ? "no response" :
		"the partner or the network ended the connection"));
	for (uint32_t i = 2; i < 6; i++) {
		send_longs(i, 1); /* the network is tried again, in vain */
		pass(3000000);
		ck_assert_str_eq(path_of(0), "other");
		ck_assert_ptr_nonnull(strstr(others_of(0), "better: failed ("));
	}
	world.better_is = WORKS;
	for (uint32_t i = 6; i < 12; i++) {
		send_longs(i, 1);
		pass(2000000);
	}
	ck_assert_str_eq(path_of(0), "better");
	ck_assert_str_eq(others_of(0), "other: lower priority");
	world_close();
}
END_TEST

/* Why it never was: by what each end has, and where the other one is. */
START_TEST(others__not_in_common)
{
	static const struct ripc__backend *only_other[2];
	const struct iovec item = {"hello", 5};

	only_other[0] = &world.other;
	world_open_both(NULL, _i == 0 ? "other" : NULL);
	world.better_is = WORKS;
	world.choose_error = _i == 1 ? -EHOSTUNREACH : _i == 2 ? -EAFNOSUPPORT : 0;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_send_short(world.svc[i], ripc_service_id(world.svc[!i]),
			&item, 1), 0);
	pass(1000000);
	for (int i = 0; i < 2; i++)
		ck_assert_str_eq(path_of(i), "other");
	if (_i == 0) {
		ck_assert_str_eq(others_of(0), "better: the partner does not have this backend");
		ck_assert_str_eq(others_of(1), "better: left out by configuration");
		world.ctx[1]->env.backends = only_other;
		ck_assert_str_eq(others_of(1), "backend 101: not built in");
	} else {
		ck_assert_str_eq(others_of(0), _i == 1 ?
			"better: another host, or another network namespace" :
			"better: no address family in common");
	}
	world_close();
}
END_TEST

/* No network in common: every call says so, and why each one does not lead there. */
START_TEST(others__no_network_in_common)
{
	static const char *const texts[] = {
		"other: the partner does not have this backend; better: left out by configuration",
		"better: the partner does not have this backend; other: left out by configuration"};
	struct ripc_path path = {.size = sizeof(path), .rtt_us = 1};
	struct ripc_path old = {.size = sizeof(old.size)};
	struct iovec item = {"hello", 5};
	uint64_t rtt_ns = 7;

	world_open_both("other", "better");
	for (int i = 0; i < 2; i++) {
		uint64_t to = ripc_service_id(world.svc[!i]);

		ck_assert_int_eq(ripc_send_short(world.svc[i], to, &item, 1), 0);
		pass(100000);
		ck_assert_int_eq(ripc_send_short(world.svc[i], to, &item, 1), -EHOSTUNREACH);
		ck_assert_int_eq(ripc_ping(world.svc[i], to, 1000, &rtt_ns), -EHOSTUNREACH);
		ck_assert_uint_eq(rtt_ns, 7);
		ck_assert_int_eq(ripc_path_info(world.svc[i], to, &path), -EHOSTUNREACH);
		ck_assert_str_eq(path.others, texts[i]);
		ck_assert_uint_eq(path.size, sizeof(path));
		ck_assert_str_eq(path.backend, "");
		ck_assert_uint_eq(path.rtt_us, 0);
		ck_assert_int_eq(ripc_path_info(world.svc[i], to, &old), -EHOSTUNREACH);
		ck_assert_str_eq(old.others, "");
	}
	world_close();
}
END_TEST

/* A partner that has only been heard was not looked up. */
START_TEST(others__not_known)
{
	const struct iovec item = {"hello", 5};

	world_open();
	world.better_is = WORKS;
	ck_assert_int_eq(ripc_send_short(world.svc[0], ripc_service_id(world.svc[1]), &item, 1), 0);
	pass(1000000);
	ck_assert_str_eq(others_of(1), "other: unknown whether the partner has this backend");
	world_close();
}
END_TEST

/* Messages to an ended partner are not tried again until its record is old. */
START_TEST(failed__nobody_is_there)
{
	const struct iovec item = {"hello", 5};
	uint64_t to, end_us;
	int error = 0;

	world.is_plain = true;
	world_open();
	to = ripc_service_id(world.svc[1]);
	send_longs(0, 1);
	pass(1000000);
	ck_assert_uint_eq(world.delivered, 1);
	ck_assert_int_eq(ripc_close(world.ctx[1], 0), 0);
	world.better_is = RESETS;
	end_us = world.now_us + 5000000;
	for (; error != -ENOENT && world.now_us < end_us; world.now_us += 1000) {
		error = ripc_send_short(world.svc[0], to, &item, 1);
		ripc_poll(world.ctx[0]);
	}
	ck_assert_int_eq(error, -ENOENT);
	ck_assert_int_eq(ripc_close(world.ctx[0], 0), 0);
	ripc__loop_hub_close(world.hub);
}
END_TEST

static void answer_all(struct ripc_service *svc)
{
	const struct iovec item = {"answer", 6};
	struct ripc_msg *msg;

	while (ripc_receive(svc, 0, &msg) == 0) {
		ripc_send_short(svc, msg->from, &item, 1);
		ripc_msg_free(msg);
	}
}

/* Asks until it is answered. */
static bool is_answered(struct ripc_context *ctx, struct ripc_service *svc)
{
	const struct iovec item = {"hello", 5};
	struct ripc_msg *msg = NULL;

	for (int i = 0; !msg && i < 2000; i++) {
		ripc_send_short(svc, ripc_service_id(world.svc[0]), &item, 1);
		ripc_poll(ctx);
		ripc_poll(world.ctx[0]);
		answer_all(world.svc[0]);
		if (ripc_receive(svc, 1, &msg))
			msg = NULL;
	}
	if (!msg)
		return false;
	ripc_msg_free(msg);
	return true;
}

/* An ID is just known to have no owner, when a partner with that ID speaks: it is answered.
 */
START_TEST(answer__to_a_successor)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD,
		.pool_bytes = 64u << 20};
	uint64_t id = 0x123456789;
	struct ripc_service *svc;
	struct ripc_context *ctx;

	world.is_plain = world.is_real = true;

	world_open();
	world.better_is = WORKS;
	world.gone.len = 0;
	ck_assert_int_eq(ripc_resolve(world.ctx[0], id, 3000), -ENOENT);
	ck_assert_int_eq(ripc__open_in(&cfg, &world.env, &ctx), 0);
	ck_assert_int_eq(ripc_service_open(ctx, id, 0, &svc), 0);
	ck_assert(is_answered(ctx, svc));
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	world_close();
}
END_TEST

/*
 * One whose end nobody tells, as its route swallows all, has a successor at once: answers go to
 * that one, though the resolver's record of the old one is still good.
 */
START_TEST(answer__to_a_successor_of_one_that_is_known)
{
	struct ripc_config cfg = {
		.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD, .pool_bytes = 64u << 20};
	uint64_t id = 0x123456789;
	struct ripc_service *svc;
	struct ripc_context *ctx;

	world.is_plain = world.is_real = true;
	world_open();
	world.better_is = WORKS;
	world.gone.len = 0;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__open_in(&cfg, &world.env, &ctx), 0);
	ck_assert_int_eq(ripc_service_open(ctx, id, 0, &svc), 0);
	ck_assert(is_answered(ctx, svc));
	world.gone.len = (uint8_t)ctx->peers.devices[0].blob_len;
	memcpy(world.gone.blob, ctx->peers.devices[0].blob, world.gone.len);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
	}
	world_close();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ failed__goes_on_by_the_next, 2 }, { failed__at_first, 1 },
		{ refused__at_first, 1 }, { refused__by_all, 1 }, { refused__after_a_failure, 1 },
		{ refused__after_a_failure__goes_on_by_the_last, 1 },
		{ address__is_gone, 2 }, { failed__all_at_once, 1 }, { failed__nobody_is_there, 1 },
		{ answer__to_a_successor, 1 },
		{answer__to_a_successor_of_one_that_is_known, 1},
		{ retry__goes_back_to_the_better, 1 }, { retry__beside_stragglers, 1 },
		{ others__failed, 2 },
		{ others__not_in_common, 3 }, { others__no_network_in_common, 1 },
		{ others__not_known, 1 }, { NULL, 0 },
	};

	return suite_run_loops("route", loops);
}
