/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages through the public calls, over UDP loopback: contents, outcomes, deadlines. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "api_long.h"

#define TOLD_MS 1000 /* a deadline before which the receiver has said what it lacks */

START_TEST(send_long__one_item)
{
	static const size_t lens[] = {0, 1, 896, 1400, 5000, 32500, 65535, 65536, 65537, 200000,
		1 << 20, (8 << 20) + 1};
	struct pair pair;

	pair_open(&pair);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		exchange(&pair.a, &pair.b, &lens[i], 1);
		exchange(&pair.b, &pair.a, &lens[i], 1);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(send_long__as_the_first_message)
{
	static const size_t lens[] = {0, 100, 70000, 3000000};
	const size_t len = lens[_i];
	struct pair pair;

	pair_open(&pair);
	exchange(&pair.a, &pair.b, &len, 1);
	pair_close(&pair);
}
END_TEST

START_TEST(send_long__many_items)
{
	size_t lens[RIPC_ITEMS_MAX];
	struct pair pair;

	pair_open(&pair);
	for (uint32_t n = 2; n <= RIPC_ITEMS_MAX; n = n < 63 ? n + 61 : n + 1) {
		for (uint32_t i = 0; i < n; i++)
			lens[i] = i % 5 == 0 ? 0 : 1000 * i + i;
		exchange(&pair.a, &pair.b, lens, n);
		memset(lens, 0, sizeof(lens));
		exchange(&pair.a, &pair.b, lens, n);
		lens[n - 1] = 1;
		exchange(&pair.a, &pair.b, lens, n);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(send_long__to_itself)
{
	const size_t lens[2] = {100, 5000000};
	struct ripc_service *other;
	struct side second;
	struct pair pair;

	pair_open(&pair);
	exchange(&pair.a, &pair.a, &lens[0], 1);
	exchange(&pair.a, &pair.a, lens, 2);
	ck_assert_int_eq(ripc_service_open(pair.a.ctx, 0, 0, &other), 0);
	second = (struct side){pair.a.ctx, other, ripc_service_id(other)};
	exchange(&pair.a, &second, lens, 2);
	pair_close(&pair);
}
END_TEST

START_TEST(send_long__nobody_there)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = long_send(nobody, &one, 1);
	enum ripc_outcome outcome = 0;
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_send_long(side.svc, nobody, &one, 1, PATIENCE_MS), -ENOENT);
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, &outcome), -ENOENT);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
	/* The least time there is: not in time, or known by now not to exist. */
	outcome = 0;
	send.to = nobody + 1;
	send.timeout_ms = 1;
	ck_assert(ripc_sendmsg(side.svc, &send, &outcome) < 0);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
	check_nothing(side.svc);
	side_close(&side);
}
END_TEST

START_TEST(send_long__longer_than_the_receiver_takes)
{
	const size_t len = 100000;
	struct ripc_config cfg = api_config(0);
	struct iovec one = item(filled(len + 1, 0), len + 1);
	struct pair pair;

	side_open(&pair.a, 0);
	cfg.message_max_bytes = len;
	side_open_as(&pair.b, &cfg, 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), -EMSGSIZE);
	exchange(&pair.a, &pair.b, &len, 1);
	check_nothing(pair.b.svc);
	ck_assert_uint_eq(stats_of(pair.b.ctx).messages_refused, 1);
	ck_assert_uint_eq(stats_of(pair.a.ctx).long_not_delivered, 1);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* Kept messages fill the pool: the next one waits until they are freed. */
START_TEST(send_long__waits_for_room)
{
	const size_t len = 5 << 20;
	struct ripc_config cfg = api_config(0);
	struct iovec one = item(filled(len, 0), len);
	struct ripc_msg *kept;
	struct long_call call;
	struct pair pair;

	side_open(&pair.a, 0);
	cfg.pool_bytes = 10 << 20;
	side_open_as(&pair.b, &cfg, 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	kept = take(pair.b.svc, RIPC_LONG);
	long_begin(&call, pair.a.svc, long_send(pair.b.id, &one, 1));
	/* The receiver has asked, and was told to wait. */
	while (stats_of(pair.a.ctx).announcements_repeated < 2)
		check_nothing(pair.b.svc);
	ripc_msg_free(kept);
	kept = take(pair.b.svc, RIPC_LONG);
	long_end(&call, RIPC_DELIVERED, 0);
	ck_assert_uint_eq(stats_of(pair.b.ctx).messages_refused, 0);
	ripc_msg_free(kept);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

static atomic_int n_said;

static void log_room(void *arg, int level, const char *text)
{
	(void)arg;
	if (level == RIPC_LOG_WARN && strstr(text, "no room for a message of 5242880 bytes") &&
			strstr(text, "raise pool_bytes"))
		atomic_fetch_add(&n_said, 1);
}

/*
 * Messages that are never freed end the next one at its deadline, with the reason; the log has it
 * once.
 */
START_TEST(send_long__receiver_without_memory)
{
	const size_t len = 5 << 20;
	struct ripc_config cfg = api_config(0);
	struct iovec one = item(filled(len, 0), len);
	struct ripc_msg *kept;
	struct pair pair;

	side_open(&pair.a, 0);
	cfg.pool_bytes = 10 << 20;
	cfg.log = log_room;
	side_open_as(&pair.b, &cfg, 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	kept = take(pair.b.svc, RIPC_LONG);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, TOLD_MS),
			-ENOBUFS);
	ck_assert_int_eq(atomic_load(&n_said), 1);
	check_nothing(pair.b.svc);
	ripc_msg_free(kept);
	exchange(&pair.a, &pair.b, &len, 1);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* Memory for a message needs no descriptor: a server that has none left takes it. */
START_TEST(send_long__receiver_without_descriptors)
{
	const size_t len = 5 << 20;
	struct rlimit limit, none;
	struct pair pair;

	side_open(&pair.a, 0);
	side_open(&pair.b, 0);
	exchange(&pair.a, &pair.b, (const size_t[]){100}, 1);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0; /* open descriptors stay open */
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	exchange(&pair.a, &pair.b, &len, 1);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	exchange(&pair.a, &pair.b, &len, 1);
	pair_close(&pair);
}
END_TEST

/* Unread messages take no more than their sender's share: the next one has to wait. */
START_TEST(send_long__unread_messages_hold_memory)
{
	static const size_t len = 3 << 20;
	struct ripc_config cfg = api_config(0);
	struct iovec one = item(filled(len, 0), len);
	struct ripc_send send;
	struct long_call call;
	struct pair pair;

	side_open(&pair.a, 0);
	cfg.pool_bytes = 10 << 20;
	side_open_as(&pair.b, &cfg, 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, 100), -ETIMEDOUT);
	send = long_send(pair.b.id, &one, 1);
	long_begin(&call, pair.a.svc, send);
	check_received(&pair.b, &pair.a, &len, 1);
	check_received(&pair.b, &pair.a, &len, 1);
	long_end(&call, RIPC_DELIVERED, 0);
	check_nothing(pair.b.svc);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

START_TEST(send_long__bad_arguments)
{
	struct iovec items[RIPC_ITEMS_MAX + 1] = {{"x", 1}};
	const struct iovec nowhere = {NULL, 1};
	const struct iovec huge[2] = {{"x", SIZE_MAX / 2}, {"x", SIZE_MAX / 2}};
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_long(NULL, pair.b.id, items, 1, 1000), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, 0, items, 1, 1000), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, NULL, 1, 1000), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, items, 0, 1000), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, items, RIPC_ITEMS_MAX + 1, 1000),
		-EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &nowhere, 1, 1000), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, items, 1, -1), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, items, 1, 0), -EINVAL);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, huge, 2, 1000), -EMSGSIZE);
	pair_close(&pair);
}
END_TEST

START_TEST(sendmsg__bad_arguments)
{
	const struct iovec one = item("x", 1);
	struct ripc_buffer lent[RIPC_ITEMS_MAX + 1] = {{.mem = {"y", 1}}};
	struct ripc_send good, send;
	struct pair pair;

	pair_open(&pair);
	good = long_send(pair.b.id, &one, 1);
	ck_assert_int_eq(ripc_sendmsg(NULL, &good, NULL), -EINVAL);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, NULL, NULL), -EINVAL);
	send = good;
	send.size = 0;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.size = SIZE_MAX;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -E2BIG);
	send = good;
	send.flags |= 1u << 31;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.flags = RIPC_NOWAIT; /* of a short, which never waits: who would complete it? */
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send = good;
	send.timeout_ms = -1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send = good;
	send.n_returns = 1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.returns = lent;
	send.n_returns = RIPC_ITEMS_MAX + 1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.returns = &(struct ripc_buffer){.mem = {NULL, 1}};
	send.n_returns = 1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.returns = &(struct ripc_buffer){.mem = {"y", 1}, .flags = 1};
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	send.flags = 0;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -EINVAL);
	check_nothing(pair.b.svc);
	/* An older program's struct, which ends earlier. */
	send = good;
	send.size = offsetof(struct ripc_send, reply_to);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	pair_close(&pair);
}
END_TEST

/* A newer program's struct, which has one field more. */
START_TEST(sendmsg__of_a_newer_program)
{
	const struct iovec one = item("x", 1);
	struct {
		struct ripc_send known;
		uint64_t later;
	} newer = {.later = 0};
	uint32_t outcome = 0;
	struct pair pair;

	pair_open(&pair);
	newer.known = long_send(pair.b.id, &one, 1);
	newer.known.size = sizeof(newer);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &newer.known, &outcome), 0);
	ck_assert_uint_eq(outcome, RIPC_DELIVERED);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	newer.later = 1ull << 63;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &newer.known, &outcome), -E2BIG);
	ck_assert_uint_eq(outcome, RIPC_NOT_DELIVERED);
	check_nothing(pair.b.svc);
	pair_close(&pair);
}
END_TEST

START_TEST(sendmsg__long_to_incarnation)
{
	const struct iovec one = item("x", 1);
	enum ripc_outcome outcome = 0;
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	send = long_send(pair.b.id, &one, 1);
	send.to_incarnation = ripc_service_incarnation(pair.b.svc) + 1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), -ENOENT);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
	outcome = 0;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), -ENOENT);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
	send.to_incarnation--;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), 0);
	ck_assert_int_eq(outcome, RIPC_DELIVERED);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	check_nothing(pair.b.svc);
	pair_close(&pair);
}
END_TEST

/* ---- a partner that falls silent --------------------------------------------------------- */

/* Everything was sent and nothing heard: nobody can know, and the memory comes back later. */
START_TEST(sendmsg__unknown_then_notice)
{
	char *bytes = filled(500, 0);
	const struct iovec one = item(bytes, 500);
	enum ripc_outcome outcome = 0;
	struct ripc_send send;
	uint64_t began_ms;
	struct ripc_msg *msg;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	send = long_send(pair.b.id, &one, 1);
	send.timeout_ms = 200;
	send.cookie = 4711;
	began_ms = clock_ms();
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), -ECONNRESET);
	ck_assert_int_eq(outcome, RIPC_UNKNOWN);
	ck_assert_uint_ge(clock_ms() + 1, began_ms + 200);
	msg = take(pair.a.svc, RIPC_NOTICE);
	ck_assert_int_eq(msg->status, 0);
	ck_assert_uint_eq(msg->cookie, 4711);
	ripc_msg_free(msg);
	free(bytes);
	ck_assert_uint_eq(stats_of(pair.a.ctx).long_unknown, 1);
	/* The partner wakes up: what it finds may be delivered, but once at most. */
	pump_start(&pump, pair.b.ctx);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &(struct iovec){"x", 1}, 1,
		PATIENCE_MS), 0);
	msg = take(pair.b.svc, RIPC_LONG);
	if (msg->items[0].iov_len == 500) {
		check_filled(msg->items[0].iov_base, 500, 0);
		ripc_msg_free(msg);
		msg = take(pair.b.svc, RIPC_LONG);
	}
	ck_assert_uint_eq(msg->items[0].iov_len, 1);
	ripc_msg_free(msg);
	check_nothing(pair.b.svc);
	pump_stop(&pump);
	pair_close(&pair);
}
END_TEST

/* Bytes that were never sent cannot have been delivered. */
START_TEST(send_long__not_in_time)
{
	const size_t len = 2 << 20;
	const struct iovec one = item(filled(len, 0), len);
	uint64_t began_ms;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	began_ms = clock_ms();
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, 200), -ETIMEDOUT);
	ck_assert_uint_ge(clock_ms() + 1, began_ms + 200);
	check_nothing(pair.a.svc);
	ck_assert_uint_eq(stats_of(pair.a.ctx).long_not_delivered, 1);
	free(one.iov_base);
	pump_start(&pump, pair.b.ctx);
	exchange(&pair.a, &pair.b, &len, 1);
	check_nothing(pair.b.svc);
	pump_stop(&pump);
	pair_close(&pair);
}
END_TEST

/* The partner is given up before the deadline, by the time set for silence. */
START_TEST(send_long__silent_partner_given_up)
{
	struct ripc_config cfg = api_config(0);
	const size_t len = 2 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct pump pump;
	struct pair pair;
	int error;

	cfg.peer_timeout_ms = 200;
	side_open_as(&pair.a, &cfg, 0);
	side_open(&pair.b, RIPC_NO_THREAD);
	pump_start(&pump, pair.b.ctx);
	acquaint(&pair.a, &pair.b);
	pump_stop(&pump);
	error = ripc_send_long(pair.a.svc, pair.b.id, &one, 1, 100 * PATIENCE_MS);
	ck_assert_int_eq(error, -EHOSTUNREACH);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* ---- without waiting --------------------------------------------------------------------- */

/* Takes what b has got, each once. */
static void count_received(struct ripc_service *svc, uint8_t *got, uint32_t n)
{
	for (uint32_t left = n; left > 0; left--) {
		struct ripc_msg *msg = take(svc, RIPC_LONG);
		uint32_t number;

		ck_assert_uint_ge(msg->items[0].iov_len, sizeof(number));
		memcpy(&number, msg->items[0].iov_base, sizeof(number));
		ck_assert_uint_lt(number, n);
		ck_assert_uint_eq(got[number]++, 0);
		ripc_msg_free(msg);
	}
}

/* One message from a: false if it was a completion, true if it was the notice to go on. */
static bool take_progress(struct ripc_service *svc, uint8_t *completed, uint32_t n)
{
	struct ripc_msg *msg = NULL;
	bool notice;

	ck_assert_int_eq(ripc_receive(svc, PATIENCE_MS, &msg), 0);
	notice = msg->kind == RIPC_NOTICE;
	ck_assert_int_eq(msg->status, 0);
	if (notice) {
		ck_assert_uint_eq(msg->cookie, 0);
	} else {
		ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
		ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
		ck_assert_uint_lt(msg->cookie, n);
		ck_assert_uint_eq(completed[msg->cookie]++, 0);
	}
	ripc_msg_free(msg);
	return notice;
}

/* n sends at once to a partner that sleeps until no more are accepted. */
static void flood(uint32_t n, size_t len)
{
	uint8_t completed[2000] = {0}, got[2000] = {0};
	uint32_t accepted = 0, done = 0;
	struct iovec *items = calloc(n, sizeof(*items));
	bool awake = false;
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	for (uint32_t i = 0; i < n; i++) {
		items[i] = item(filled(len, i), len);
		memcpy(items[i].iov_base, &i, sizeof(i));
	}
	while (accepted < n) {
		struct ripc_send send = long_send(pair.b.id, &items[accepted], 1);
		int error;

		send.flags |= RIPC_NOWAIT;
		send.cookie = accepted;
		error = ripc_sendmsg(pair.a.svc, &send, NULL);
		accepted += error == 0;
		if (error == 0)
			continue;
		ck_assert_int_eq(error, -EAGAIN);
		ck_assert_uint_gt(accepted, 64);
		if (!awake)
			pump_start(&pump, pair.b.ctx);
		awake = true;
		while (!take_progress(pair.a.svc, completed, n))
			done++;
	}
	if (!awake)
		pump_start(&pump, pair.b.ctx);
	while (done < n)
		done += !take_progress(pair.a.svc, completed, n);
	count_received(pair.b.svc, got, n);
	check_nothing(pair.b.svc);
	pump_stop(&pump);
	for (uint32_t i = 0; i < n; i++)
		free(items[i].iov_base);
	free(items);
	pair_close(&pair);
}

START_TEST(sendmsg__hundred_at_once)
{
	flood(100, 2000);
}
END_TEST

START_TEST(sendmsg__two_hundred_long_ones_at_once)
{
	flood(200, 100000);
}
END_TEST

START_TEST(sendmsg__more_than_are_accepted)
{
	flood(2000, 200);
}
END_TEST

/* Sends until no more are accepted; returns how many were. */
static uint32_t fill_up(const struct side *from, uint64_t to)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = long_send(to, &one, 1);
	uint32_t accepted = 0;

	send.flags |= RIPC_NOWAIT;
	while (ripc_sendmsg(from->svc, &send, NULL) == 0)
		accepted++;
	ck_assert_int_eq(ripc_sendmsg(from->svc, &send, NULL), -EAGAIN);
	return accepted;
}

/* All complete, there was a notice to go on, and so many shorts came, in whatever order. */
static void check_completed_and_noticed(const struct side *side, uint32_t n, uint32_t shorts)
{
	uint32_t notices = 0;

	while (n > 0 || notices == 0 || shorts > 0) {
		struct ripc_msg *msg;

		ck_assert_int_eq(ripc_receive(side->svc, PATIENCE_MS, &msg), 0);
		ck_assert_int_eq(msg->status, 0);
		notices += msg->kind == RIPC_NOTICE;
		n -= msg->kind == RIPC_COMPLETION;
		shorts -= msg->kind == RIPC_SHORT;
		ripc_msg_free(msg);
	}
}

/* Takes completions until the notice to go on has come, which is kept. */
static struct ripc_msg *complete_and_keep(const struct side *side, uint32_t n)
{
	struct ripc_msg *notice = NULL;

	while (n > 0 || !notice) {
		struct ripc_msg *msg;

		ck_assert_int_eq(ripc_receive(side->svc, PATIENCE_MS, &msg), 0);
		ck_assert_int_eq(msg->status, 0);
		if (msg->kind == RIPC_COMPLETION) {
			n--;
			ripc_msg_free(msg);
		} else {
			ck_assert_int_eq(msg->kind, RIPC_NOTICE);
			ck_assert_ptr_null(notice);
			notice = msg;
		}
	}
	return notice;
}

/* Each -EAGAIN is followed by a notice, though the application keeps the earlier ones. */
START_TEST(sendmsg__notices_are_kept)
{
	struct ripc_msg *notices[3];
	struct pump pump;
	struct pair pair;

	silent_open(&pair, &pump);
	for (int times = 0; times < 3; times++) {
		uint32_t accepted = fill_up(&pair.a, pair.b.id);

		pump_start(&pump, pair.b.ctx);
		notices[times] = complete_and_keep(&pair.a, accepted);
		for (uint32_t i = 0; i < accepted; i++)
			ripc_msg_free(take(pair.b.svc, RIPC_LONG));
		pump_stop(&pump);
	}
	pump_start(&pump, pair.b.ctx);
	check_nothing(pair.a.svc);
	pump_stop(&pump);
	for (int times = 0; times < 3; times++)
		ripc_msg_free(notices[times]);
	pair_close(&pair);
}
END_TEST

/* Waiting messages move to the next owner of the ID: the notice still comes. */
START_TEST(sendmsg__notice_after_a_move)
{
	struct ripc_config cfg = api_config(0), unpolled = api_config(RIPC_NO_THREAD);
	uint64_t id = 0x7e59000000000000u | (uint64_t)getpid();
	struct side old, new, client;
	struct pump pump;
	uint32_t accepted;

	side_open(&client, 0);
	side_open_as(&old, &unpolled, id);
	pump_start(&pump, old.ctx);
	acquaint(&client, &old);
	pump_stop(&pump);
	accepted = fill_up(&client, id);
	ck_assert_int_eq(ripc_service_drain(old.svc, 0), 0);
	side_open_as(&new, &cfg, id);
	pump_start(&pump, old.ctx);
	check_completed_and_noticed(&client, accepted, 0);
	for (uint32_t i = 0; i < accepted; i++)
		ripc_msg_free(take(new.svc, RIPC_LONG));
	check_nothing(new.svc);
	pump_stop(&pump);
	side_close(&old);
	side_close(&new);
	side_close(&client);
}
END_TEST

/* The partner speaks to us while we look for it: what waits goes to whom it spoke as. */
START_TEST(sendmsg__notice_after_a_first_word)
{
	const struct iovec hello = item("hello", 5);
	struct pair pair;
	struct pump pump;
	uint32_t accepted;

	side_open(&pair.a, RIPC_NO_THREAD);
	side_open(&pair.b, 0);
	pump_start(&pump, pair.a.ctx);
	ck_assert_int_eq(ripc_resolve(pair.b.ctx, pair.a.id, PATIENCE_MS), 0);
	pump_stop(&pump);
	accepted = fill_up(&pair.a, pair.b.id);
	ck_assert_int_eq(ripc_send_short(pair.b.svc, pair.a.id, &hello, 1), 0);
	pump_start(&pump, pair.a.ctx);
	check_completed_and_noticed(&pair.a, accepted, 1);
	pump_stop(&pump);
	pair_close(&pair);
}
END_TEST

/* A negative return means that no completion follows. */
START_TEST(sendmsg__nobody_a_moment_ago_serves_shorts_only)
{
	const struct iovec one = item("x", 1);
	struct ripc_send send = long_send(nobody, &one, 1);
	struct side side;
	struct ripc_msg *msg;
	int error = 0;

	side_open(&side, 0);
	/* A receiver that was stopped for a second does not know the message any more. */
	for (int i = 0; i < 10 && !error; i++) {
		ck_assert_int_eq(ripc_resolve(side.ctx, nobody, PATIENCE_MS), -ENOENT);
		error = ripc_send_short(side.svc, nobody, &one, 1);
	}
	ck_assert_int_eq(error, -ENOENT);
	ck_assert_int_eq(ripc_receive(side.svc, 100, &msg), -ETIMEDOUT);
	/* But a long one asks again. */
	send.flags |= RIPC_NOWAIT;
	send.cookie = 9;
	ck_assert_int_eq(ripc_sendmsg(side.svc, &send, NULL), 0);
	take_completion(side.svc, 9, RIPC_NOT_DELIVERED, -ENOENT);
	check_nothing(side.svc);
	side_close(&side);
}
END_TEST

/* ---- the outcome ------------------------------------------------------------------------- */

/* A flag without a meaning. */
#define UNTOUCHED ((enum ripc_outcome)4711)

START_TEST(sendmsg__outcome_of_no_nowait)
{
	const struct iovec one = item("x", 1);
	enum ripc_outcome outcome = UNTOUCHED;
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), 0);
	ck_assert_int_eq(outcome, UNTOUCHED);
	take_completion(pair.a.svc, 0, RIPC_DELIVERED, 0);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	send.n_items = 0;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), -EINVAL);
	ck_assert_int_eq(outcome, UNTOUCHED);
	pair_close(&pair);
}
END_TEST

START_TEST(sendmsg__outcome_of_no_short)
{
	const struct iovec one = item("x", 1);
	enum ripc_outcome outcome = UNTOUCHED;
	struct ripc_send send;
	struct pair pair;

	pair_open(&pair);
	send = long_send(pair.b.id, &one, 1);
	send.flags = 0;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), 0);
	ck_assert_int_eq(outcome, UNTOUCHED);
	ripc_msg_free(take(pair.b.svc, RIPC_SHORT));
	send.timeout_ms = -1;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, &outcome), -EINVAL);
	ck_assert_int_eq(outcome, UNTOUCHED);
	pair_close(&pair);
}
END_TEST

static void check_not_delivered(struct ripc_service *svc, const struct ripc_send *send, int error)
{
	enum ripc_outcome outcome = UNTOUCHED;

	ck_assert_int_eq(ripc_sendmsg(svc, send, &outcome), error);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
}

/* A long send that waits and fails before anything was sent. */
START_TEST(sendmsg__outcome_of_what_cannot_begin)
{
	const struct iovec one = item("x", 1);
	struct ripc_send good, send;
	struct pair pair;
	pid_t child;
	int status;

	pair_open(&pair);
	good = send = long_send(pair.b.id, &one, 1);
	check_not_delivered(NULL, &good, -EINVAL);
	send.to = 0;
	check_not_delivered(pair.a.svc, &send, -EINVAL);
	send = good;
	send.timeout_ms = -1;
	check_not_delivered(pair.a.svc, &send, -EINVAL);
	send = good;
	send.n_items = 0;
	check_not_delivered(pair.a.svc, &send, -EINVAL);
	send = good;
	send.n_returns = 1; /* but there are none */
	check_not_delivered(pair.a.svc, &send, -EINVAL);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		enum ripc_outcome outcome = UNTOUCHED;

		_exit(ripc_sendmsg(pair.a.svc, &good, &outcome) != -EOWNERDEAD ||
			outcome != RIPC_NOT_DELIVERED);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ send_long__one_item, 1 },
		{ send_long__many_items, 1 },
		{ send_long__to_itself, 1 },
		{ send_long__nobody_there, 1 },
		{ send_long__longer_than_the_receiver_takes, 1 },
		{ send_long__waits_for_room, 1 },
		{ send_long__receiver_without_memory, 1 },
		{ send_long__receiver_without_descriptors, 1 },
		{ send_long__unread_messages_hold_memory, 1 },
		{ send_long__bad_arguments, 1 },
		{ sendmsg__bad_arguments, 1 },
		{ sendmsg__of_a_newer_program, 1 },
		{ sendmsg__long_to_incarnation, 1 },
		{ sendmsg__unknown_then_notice, 1 },
		{ send_long__not_in_time, 1 },
		{ send_long__silent_partner_given_up, 1 },
		{ sendmsg__hundred_at_once, 1 },
		{ sendmsg__two_hundred_long_ones_at_once, 1 },
		{ sendmsg__more_than_are_accepted, 1 },
		{ sendmsg__notices_are_kept, 1 },
		{ sendmsg__notice_after_a_move, 1 },
		{ sendmsg__notice_after_a_first_word, 1 },
		{ sendmsg__nobody_a_moment_ago_serves_shorts_only, 1 },
		{ sendmsg__outcome_of_no_nowait, 1 },
		{ sendmsg__outcome_of_no_short, 1 },
		{ sendmsg__outcome_of_what_cannot_begin, 1 },
		{ send_long__as_the_first_message, 4 },
		{ NULL, 0 },
	};

	return suite_run_loops("api_long", loops);
}
