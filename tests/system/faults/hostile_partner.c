/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks by a partner, who has a valid token and may so make the library keep state and memory
 * for it: but no more than its share, and never at the cost of others.
 */
#include "hostile.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEPT 4

static uint8_t zeros[1200];

static void say_short(struct raw *raw, uint64_t number)
{
	struct wire_packet packet = {.h.type = WIRE_SHORT, .h.number = number, .n_items = 1,
		.payload_len = 100};

	raw_say(raw, &packet, NULL, zeros);
}

/* A long message of one item of which the first bytes come along. */
static void say_announce(struct raw *raw, uint64_t number, uint64_t oldest, uint64_t total,
		uint32_t payload_len)
{
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.payload_len = payload_len, .announce = {.total = total, .oldest = oldest,
		.n_items = 1, .unasked = payload_len}};

	if (payload_len == total)
		packet.h.flags |= WIRE_F_LAST;
	packet.announce.sum = 0;
	raw_say(raw, &packet, &total, zeros);
}

static void say_data(struct raw *raw, uint64_t number, uint64_t offset, uint32_t len)
{
	struct wire_packet packet = {.h.type = WIRE_DATA, .h.number = number, .offset = offset,
		.payload_len = len};

	raw_say(raw, &packet, NULL, zeros);
}

static void await_count(const atomic_uint *count, unsigned int wanted, const char *what)
{
	uint64_t until_ms = fault_now_ms() + 10000;

	while (atomic_load(count) < wanted) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: %u of %u arrived", what, atomic_load(count), wanted);
		usleep(1000);
	}
}

/* Keeps what was sent last, to be sent again. */
struct kept {
	size_t len[KEPT];
	uint8_t bytes[KEPT][2048];
};

static void keep(struct kept *kept, int at, const struct raw *raw)
{
	kept->len[at] = raw->len;
	memcpy(kept->bytes[at], raw->bytes, raw->len);
}

static void replay(struct raw *raw, const struct kept *kept, int times)
{
	for (int i = 0; i < times; i++) {
		for (int at = 0; at < KEPT; at++)
			raw_send(raw, kept->bytes[at], kept->len[at]);
	}
}

/* Valid packets: a first one with its proof, a short, a whole long, one short with the hello. */
static void make_valid(struct stage *stage, struct raw *raw, struct kept *kept)
{
	unsigned int shorts = atomic_load(&stage->target_shorts);
	unsigned int longs = atomic_load(&stage->target_longs);

	raw_introduce(raw);
	raw->token_out = 0;
	say_short(raw, 1);
	keep(kept, 0, raw);
	raw_introduce(raw);
	keep(kept, 1, raw);
	await_count(&stage->target_shorts, shorts + 1, "a first packet");
	say_short(raw, 2);
	keep(kept, 2, raw);
	await_count(&stage->target_shorts, shorts + 2, "a short");
	say_announce(raw, 1, 1, 0, 0);
	keep(kept, 3, raw);
	await_count(&stage->target_longs, longs + 1, "a long");
}

/* An unproven address receives no more bytes than it sent. */
static void check_answers(struct raw *raw, const char *what)
{
	raw_drain(raw);
	if (raw->received_bytes > raw->sent_bytes)
		fault_fail("%s: %llu bytes sent, %llu came back", what,
			(unsigned long long)raw->sent_bytes,
			(unsigned long long)raw->received_bytes);
}

static void check_no_more(struct stage *stage, unsigned int shorts, unsigned int longs,
		const char *what)
{
	if (atomic_load(&stage->target_shorts) != shorts ||
			atomic_load(&stage->target_longs) != longs)
		fault_fail("%s: delivered again", what);
}

/* Valid packets once more, from the same port and from another one. */
void partner_replays(struct stage *stage)
{
	int times = stage->full ? 20000 : 500;
	struct ripc_stats before, now;
	static struct kept kept;
	static struct raw raw;
	unsigned int shorts, longs;
	uint64_t until_ms;

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed + 3);
	make_valid(stage, &raw, &kept);
	shorts = atomic_load(&stage->target_shorts);
	longs = atomic_load(&stage->target_longs);
	before = stage_stats(stage->b);
	replay(&raw, &kept, times);
	raw_drain(&raw);
	for (int at = 0; at < KEPT; at++) {
		raw_rebind(&raw);
		raw_send(&raw, kept.bytes[at], kept.len[at]);
		check_answers(&raw, "a replay from another port");
	}
	raw_rebind(&raw);
	replay(&raw, &kept, times);
	/* On a busy machine the target may take them only now. */
	until_ms = fault_now_ms() + 20000;
	do {
		check_answers(&raw, "replays from another port");
		now = stage_stats(stage->b);
	} while (now.drop_duplicate - before.drop_duplicate < (uint64_t)times / 10 &&
		fault_now_ms() < until_ms);
	check_no_more(stage, shorts, longs, "replays");
	if (now.drop_duplicate - before.drop_duplicate < (uint64_t)times / 10)
		fault_fail("only %llu replays were counted",
			(unsigned long long)(now.drop_duplicate - before.drop_duplicate));
	raw_close(&raw);
}

/* Packets that were valid for a closed service have no effect on the next one. */
void partner_replays_after_restart(struct stage *stage)
{
	struct ripc_service *first, *second;
	struct ripc_msg *msg;
	static struct kept kept;
	static struct raw raw;
	uint64_t id = fault_id(77);

	if (ripc_service_open(stage->b, id, 0, &first))
		fault_fail("no service to restart");
	fault_find(stage->a, id);
	raw_open(&raw, stage->a_finder, first, stage->seed + 4);
	raw_introduce(&raw);
	raw.token_out = 0;
	for (int at = 0; at < KEPT; at++) {
		say_short(&raw, 1 + (uint64_t)at);
		keep(&kept, at, &raw);
	}
	ripc_service_close(first);
	if (ripc_service_open(stage->b, id, 0, &second))
		fault_fail("the service cannot be opened again");
	raw_rebind(&raw);
	replay(&raw, &kept, 100);
	check_answers(&raw, "replays after a restart");
	if (ripc_receive(second, 0, &msg) != -EAGAIN)
		fault_fail("a message to a predecessor was delivered");
	ripc_service_close(second);
	raw_close(&raw);
}

/* How many of the last messages the target refused. */
static uint64_t refusals(struct raw *raw)
{
	struct wire_packet packet;
	uint64_t n = 0;

	while (raw_hear(raw, &packet, 100))
		n += packet.h.type == WIRE_ANSWER && packet.ack.status != 0;
	return n;
}

/* Fills the pool to the last block, if one partner may. */
static uint64_t greedy_total(uint64_t number)
{
	if (number < 2)
		return 30u << 20;
	return number < 8 ? 1u << 20 : number < 24 ? 250u << 10 : 70u << 10;
}

/*
 * As many announcements as there can be, too long and just not too long, begun and never
 * finished: the honest pair still has memory and its turn.
 */
void partner_announces_much(struct stage *stage)
{
	uint64_t until_ms = fault_now_ms() + (stage->full ? 20000 : 2000);
	uint64_t refused = 0;
	static struct raw raw;

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed + 5);
	raw_introduce(&raw);
	for (uint64_t number = 1; number <= 20; number++)
		say_announce(&raw, number, 1, UINT64_MAX >> (number + 1), 1000);
	/* On a busy machine the target may take them only now. */
	for (int tries = 0; tries < 100 && refused == 0; tries++)
		refused = refusals(&raw);
	if (refused == 0)
		fault_fail("a message longer than the pool was not refused");
	for (uint64_t number = 21; number <= 84; number++)
		say_announce(&raw, number, 21, greedy_total(number - 21), 1000);
	while (fault_now_ms() < until_ms) {
		/* Just enough to seem alive. */
		for (uint64_t number = 21; number <= 84; number++)
			say_data(&raw, number, 1000, 1);
		raw_drain(&raw);
	}
	raw_close(&raw);
}

/* Bytes that were not granted, beyond the end, of messages that are none, numbers far away. */
void partner_lies(struct stage *stage)
{
	unsigned int longs = atomic_load(&stage->target_longs);
	struct ripc_stats before = stage_stats(stage->b), now;
	uint32_t n = stage->full ? 200000 : 5000;
	uint64_t until_ms = fault_now_ms() + 60000;
	static struct raw raw;

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed + 6);
	raw_introduce(&raw);
	for (uint64_t number = 1; number <= 4; number++)
		say_announce(&raw, number, 1, 1 << 20, 100);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t random = fault_random(&raw.seed);
		uint64_t number = random % 8, offset = fault_random(&raw.seed) >> random % 64;

		/* The sum of the whole is never right, so nothing of this may be delivered. */
		if (i % 50 == 0)
			say_announce(&raw, random >> random % 60, random >> 20, 1 << 20, 100);
		else
			say_data(&raw, number, offset < UINT64_MAX - 1200 ? offset : 0,
				1 + (uint32_t)(random >> 40) % 1200);
	}
	/* On a busy machine the target may take them only now. */
	do {
		raw_drain(&raw);
		now = stage_stats(stage->b);
	} while (now.drop_malformed == before.drop_malformed && fault_now_ms() < until_ms);
	if (now.drop_malformed == before.drop_malformed)
		fault_fail("lies were not counted");
	if (atomic_load(&stage->target_longs) != longs)
		fault_fail("a message that is none was delivered");
	raw_close(&raw);
}

/* The target sends to the partner, which so may ask. */
static void target_sends(struct stage *stage, const struct raw *raw, int32_t timeout_ms, uint32_t n)
{
	static char bytes[1 << 20];
	const struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_send send = {.size = sizeof(send), .to = raw->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = timeout_ms};

	for (uint32_t i = 0; i < n; i++) {
		int error = ripc_sendmsg(stage->b_target, &send, NULL);

		if (error)
			fault_fail("the target cannot send: %s", ripc_strerror(error));
	}
}

static void say_pull(struct raw *raw, uint64_t number)
{
	struct wire_packet packet = {.h.type = WIRE_PULL, .h.number = number};
	struct wire_pull *pull = &packet.pull;
	uint64_t at = 0;

	pull->have = fault_random(&raw->seed) >> fault_random(&raw->seed) % 64;
	pull->limit = fault_random(&raw->seed) >> fault_random(&raw->seed) % 64;
	pull->n_holes = (uint32_t)(fault_random(&raw->seed) % 6);
	for (uint32_t i = 0; i < pull->n_holes; i++) {
		uint64_t random = fault_random(&raw->seed);
		uint64_t step = 1 + (random >> random % 48) / 16;

		at = at < UINT64_MAX / 4 ? at + step : at;
		pull->holes[i].start = at;
		at += 1 + step;
		pull->holes[i].end = at;
	}
	raw_say(raw, &packet, NULL, NULL);
}

/* Requests for what does not exist, for more than there is, again and again; then silence. */
void partner_asks_nonsense(struct stage *stage)
{
	unsigned int completions = atomic_load(&stage->target_completions);
	uint32_t n = stage->full ? 20000 : 500;
	static struct raw raw;

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed + 7);
	raw_introduce(&raw);
	say_short(&raw, 1);
	usleep(50000);
	target_sends(stage, &raw, 2000, 3);
	for (uint32_t i = 0; i < n; i++)
		say_pull(&raw, i % 5);
	raw_drain(&raw);
	await_count(&stage->target_completions, completions + 3, "sends to a liar");
	raw_close(&raw);
}

/*
 * The partner reads nothing from its socket and sends nothing any more, while much is sent to it.
 */
void partner_stops_reading(struct stage *stage)
{
	unsigned int completions = atomic_load(&stage->target_completions);
	static struct raw raw;
	int small = 1;

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed + 8);
	raw_introduce(&raw);
	setsockopt(raw.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	target_sends(stage, &raw, 1000, 100);
	await_count(&stage->target_completions, completions + 100, "sends to one who is silent");
	raw_close(&raw);
}
