/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums that are computed while their message is being read: as its sender, and as its reader,
 * beside a partner who may say anything.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "mover.h"
#include "util/hash/blocksum.h"

#define TOTAL (3 * MIB + 5)

/* ---- who reads --------------------------------------------------------------------------- */

static uint32_t sum_of(uint64_t total)
{
	return ripc__blocksum_told(ripc__blocksum(theirs, total, 0));
}

/* One item; sum 0: it follows. */
static void say(struct lone *lone, uint64_t number, uint32_t sum)
{
	const uint64_t lens[1] = {TOTAL}, keys[2] = {0, 77};
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number,
		.h.flags = sum ? WIRE_F_LAST : 0, .n_items = 1, .announce = {.total = TOTAL,
			.oldest = 1, .n_items = 1, .sum = sum,
			.keys = sum ? WIRE_KEYS_READ : WIRE_KEYS_SUMMING}};

	lone->keys = keys;
	lone_say(lone, &packet, lens, NULL);
	lone->keys = NULL;
}

static void end_reads(struct lone *lone)
{
	while (fake.n_reads) {
		read_ends(0, 0);
		ripc_poll(lone->ctx);
	}
}

static void reader_open(struct lone *lone, uint32_t caps)
{
	mover_open(lone, RIPC_CAP_READ | caps);
	lone_introduce(lone);
}

static void check_delivered(struct lone *lone)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_uint_eq(msg->items[0].iov_len, TOTAL);
	ck_assert_mem_eq(msg->items[0].iov_base, theirs, TOTAL);
	ripc_msg_free(msg);
}

static void check_not_delivered(struct lone *lone)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), -EAGAIN);
}

/* The checksum comes before the last byte, or behind it. */
START_TEST(read__sum_follows)
{
	static struct lone lone;

	reader_open(&lone, 0);
	say(&lone, 1, 0);
	ck_assert_uint_eq(fake.n_reads, 4);
	if (_i)
		say(&lone, 1, sum_of(TOTAL));
	check_not_delivered(&lone);
	end_reads(&lone);
	if (!_i) {
		check_not_delivered(&lone);
		say(&lone, 1, sum_of(TOTAL));
	}
	check_delivered(&lone);
	ck_assert_uint_eq(lone_stats(&lone).read_bytes, TOTAL);
	lone_close_all(&lone);
}
END_TEST

/* A device that moves bytes intact waits for none. */
START_TEST(read__sum_is_not_needed)
{
	static struct lone lone;

	reader_open(&lone, RIPC_CAP_INTACT);
	say(&lone, 1, 0);
	end_reads(&lone);
	check_delivered(&lone);
	lone_close_all(&lone);
}
END_TEST

static void check_pulls(struct lone *lone, uint32_t since)
{
	struct wire_packet pull;

	check_not_delivered(lone);
	ck_assert(lone_hear(lone, since, WIRE_PULL, &pull));
	ck_assert_uint_gt(pull.pull.limit, 0);
}

/* Another checksum than that of the bytes: they are asked for. The first that is told counts. */
START_TEST(read__sum_is_wrong)
{
	static struct lone lone;

	reader_open(&lone, 0);
	say(&lone, 1, 0);
	if (_i) {
		say(&lone, 1, sum_of(TOTAL) ^ 1);
		say(&lone, 1, sum_of(TOTAL));
	}
	end_reads(&lone);
	if (!_i)
		say(&lone, 1, sum_of(TOTAL) ^ 1);
	ck_assert_uint_eq(lone_stats(&lone).drop_checksum, 1);
	lone_pass(&lone, 1000);
	check_pulls(&lone, 0);
	lone_close_all(&lone);
}
END_TEST

/* The key is waited for as long as it is said to follow. */
START_TEST(read__sum_never_comes)
{
	static struct lone lone;
	uint32_t since;

	reader_open(&lone, 0);
	say(&lone, 1, 0);
	end_reads(&lone);
	for (int i = 0; i < 4; i++) {
		lone_pass(&lone, 4000000);
		say(&lone, 1, 0);
		ck_assert_uint_eq(lone_stats(&lone).reads_failed, 0);
	}
	since = lone.n_sent;
	lone_pass(&lone, 6000000);
	check_pulls(&lone, since);
	lone_close_all(&lone);
}
END_TEST

/* ---- who is read ------------------------------------------------------------------------- */

static void send_mine(struct lone *lone, size_t len, uint64_t cookie)
{
	struct iovec items[2] = {{theirs, len - 2 * RIPC__BLOCK - 1},
		{theirs + len - 2 * RIPC__BLOCK - 1, 2 * RIPC__BLOCK + 1}};
	struct ripc_send send = {.size = sizeof(send), .n_items = 2, .items = items,
		.cookie = cookie, .to = lone->service, .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = 60000};

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
}

static uint32_t sum_of_mine(size_t len)
{
	uint64_t first = len - 2 * RIPC__BLOCK - 1;

	return ripc__blocksum_told(ripc__blocksum(theirs, first, 0) +
		ripc__blocksum(theirs + first, len - first, first));
}

/* The packets since then that announce this message: how many, the first and the last one. */
static uint32_t announced(struct lone *lone, uint32_t since, uint64_t number,
		struct wire_packet *first, struct wire_packet *last)
{
	struct wire_packet packet;
	uint32_t n = 0;

	for (uint32_t i = since; i < lone->n_sent; i++) {
		ck_assert_int_eq(wire_decode(lone->sent[i % LONE_SENT_MAX],
			lone->sent_len[i % LONE_SENT_MAX], &packet), 0);
		if (packet.h.type != WIRE_ANNOUNCE || packet.h.number != number)
			continue;
		*last = packet;
		*first = n++ ? *first : packet;
	}
	return n;
}

static void check_summing(const struct wire_packet *announce)
{
	ck_assert_uint_eq(announce->announce.keys, WIRE_KEYS_SUMMING);
	ck_assert_uint_eq(announce->h.flags & WIRE_F_LAST, 0);
}

static void check_summed(const struct wire_packet *announce, size_t len)
{
	ck_assert_uint_eq(announce->announce.keys, WIRE_KEYS_READ);
	ck_assert_uint_ne(announce->h.flags & WIRE_F_LAST, 0);
	ck_assert_uint_eq(announce->announce.sum, sum_of_mine(len));
}

/*
 * A message is announced before its checksum is known, and again with it; but where the device
 * moves it intact there is none.
 */
START_TEST(open__sum_follows)
{
	static struct lone lone;
	struct wire_packet first, last;
	const size_t len = _i ? 5 * MIB + 77 : 70000;
	uint32_t since;

	reader_open(&lone, _i == 2 ? RIPC_CAP_INTACT : 0);
	since = lone.n_sent;
	send_mine(&lone, len, 1);
	ck_assert_uint_eq(announced(&lone, since, 1, &first, &last), _i < 2 ? 2 : 1);
	if (_i < 2) {
		check_summing(&first);
		check_summed(&last, len);
	} else {
		ck_assert_uint_eq(last.h.flags & WIRE_F_LAST, 0);
	}
	lone_close_all(&lone);
}
END_TEST

/* Its partner refuses it meanwhile: that is the end, but not before the call returns. */
START_TEST(open__refused_before_the_sum)
{
	static struct lone lone;
	struct wire_packet first, last, refused = {.h = {.type = WIRE_ANSWER, .number = 1},
		.ack = {.number = 1, .status = ENOBUFS}};
	struct ripc_msg *msg;
	uint32_t since;

	reader_open(&lone, 0);
	since = lone.n_sent;
	lone_put(&lone, &refused, NULL, NULL);
	send_mine(&lone, 5 * MIB, 1);
	ck_assert_uint_eq(announced(&lone, since, 1, &first, &last), 1);
	check_summing(&first);
	ck_assert_uint_eq(fake.n_closed, 2);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_uint_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->status, -ENOBUFS);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

static struct {
	atomic_bool parked, released, returned;
} summer;

static void park(void *arg, const char *name)
{
	(void)arg;
	if (strcmp(name, "in_summing"))
		return;
	atomic_store(&summer.parked, true);
	while (!atomic_load(&summer.released))
		usleep(1000);
}

static void let_return(void *arg, uint64_t until_us)
{
	atomic_store(&summer.released, true);
	while (!atomic_load(&summer.returned))
		usleep(1000);
	lone_idle(arg, until_us);
}

static void *send_main(void *lone)
{
	send_mine(lone, 5 * MIB, 1);
	atomic_store(&summer.returned, true);
	return NULL;
}

/* Its context closes meanwhile: ripc_close() waits for the thread that computes the checksum. */
START_TEST(open__closed_before_the_sum)
{
	static struct lone lone;
	pthread_t thread;

	reader_open(&lone, 0);
	lone.ctx->cfg.flags &= ~RIPC_SINGLE_THREAD;
	lone.ctx->env.point = park;
	lone.ctx->env.idle = let_return;
	ck_assert_int_eq(pthread_create(&thread, NULL, send_main, &lone), 0);
	while (!atomic_load(&summer.parked))
		usleep(1000);
	lone_close_all(&lone);
	ck_assert(atomic_load(&summer.returned));
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* A request in datagrams during the summing is repeated without keys or with both. */
START_TEST(open__pulled_before_the_sum)
{
	static struct lone lone;
	struct wire_packet first, last, pull = {.h = {.type = WIRE_PULL, .number = 1},
		.pull = {.limit = 65536}};
	uint32_t since;

	reader_open(&lone, 0);
	since = lone.n_sent;
	lone_put(&lone, &pull, NULL, NULL);
	send_mine(&lone, 5 * MIB, 1);
	ck_assert_uint_eq(announced(&lone, since, 1, &first, &last), 2);
	check_summed(&last, 5 * MIB);
	ck_assert(lone_hear(&lone, since, WIRE_DATA, &last));
	lone_close_all(&lone);
}
END_TEST

/*
 * With many items, only the first announcement would have room for their keys, as the network may
 * lose large datagrams: the items are not opened, or the reader would give up when the announcement
 * is repeated.
 */
START_TEST(open__many_items)
{
	static const struct {
		uint32_t n_items, caps, announcements, keys;
	} cases[] = {
		{ 40, 0, 2, WIRE_KEYS_READ }, { 45, 0, 1, 0 },
		{ 45, RIPC_CAP_SIZED, 2, WIRE_KEYS_READ },
	};
	static struct lone lone;
	struct wire_packet first, last;
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_send send = {.size = sizeof(send), .n_items = cases[_i].n_items,
		.items = items, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 60000};
	uint32_t since;

	reader_open(&lone, cases[_i].caps);
	since = lone.n_sent;
	for (uint32_t i = 0; i < send.n_items; i++)
		items[i] = (struct iovec){theirs + i * 50000, 50000};
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	ck_assert_uint_eq(announced(&lone, since, 1, &first, &last), cases[_i].announcements);
	lone_pass(&lone, 100000);
	ck_assert_uint_gt(announced(&lone, since, 1, &first, &last), cases[_i].announcements);
	ck_assert_uint_eq(wire_has_keys(first.announce.keys), cases[_i].keys != 0);
	ck_assert_uint_eq(last.announce.keys, cases[_i].keys);
	ck_assert_uint_eq((last.h.flags & WIRE_F_LAST) != 0, cases[_i].keys != 0);
	lone_close_all(&lone);
}
END_TEST

/* Nobody is in a call when it is announced at last: with its checksum. */
START_TEST(open__announced_later)
{
	static struct lone lone;
	struct wire_packet first, last, refused = {.h = {.type = WIRE_ANSWER, .number = 1},
		.ack = {.number = 1, .status = ENOBUFS}};
	uint32_t since;

	reader_open(&lone, 0);
	for (uint64_t i = 0; i < LONGS_MAX; i++)
		send_mine(&lone, MIB, i);
	since = lone.n_sent;
	send_mine(&lone, 5 * MIB, LONGS_MAX);
	ck_assert_uint_eq(announced(&lone, since, LONGS_MAX + 1, &first, &last), 0);
	lone_say(&lone, &refused, NULL, NULL);
	ck_assert_uint_eq(announced(&lone, since, LONGS_MAX + 1, &first, &last), 1);
	check_summed(&last, 5 * MIB);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ read__sum_follows, 2 }, { read__sum_is_not_needed, 1 },
		{ read__sum_is_wrong, 2 }, { read__sum_never_comes, 1 },
		{ open__sum_follows, 3 }, { open__refused_before_the_sum, 1 },
		{ open__closed_before_the_sum, 1 }, { open__pulled_before_the_sum, 1 },
		{ open__many_items, 3 }, { open__announced_later, 1 }, { NULL, 0 },
	};

	return suite_run_loops("summing", loops);
}
