/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks by strangers, who have no token and no valid proof: they make no state, and get back
 * no more bytes than they sent, so that nobody can be made to flood a third party.
 */
#include "hostile.h"

#include <string.h>
#include <unistd.h>

static void check_amplification(struct raw *raw, const char *what)
{
	raw_drain(raw);
	if (raw->received_bytes > raw->sent_bytes)
		fault_fail("%s: %llu bytes sent, %llu bytes came back", what,
			(unsigned long long)raw->sent_bytes,
			(unsigned long long)raw->received_bytes);
}

/* Each seems to come from another service. */
void flood_bad_proofs(struct stage *stage)
{
	uint32_t n = stage->full ? 1000000 : 20000;
	static const uint8_t payload[900];
	struct ripc_stats before, now;
	static struct raw raw;
	uint64_t until_ms;

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed);
	before = stage_stats(stage->b);
	for (uint32_t i = 0; i < n; i++) {
		static const uint8_t types[] = {WIRE_HELLO_ONLY, WIRE_SHORT, WIRE_ANNOUNCE};
		struct wire_packet packet = {.h.type = types[i % 3], .h.number = 1 + i % 50,
			.n_items = 1, .payload_len = i % 3 ? 900 : 0,
			.announce = {.total = 900, .oldest = 1, .n_items = 1, .unasked = 900}};
		const uint64_t len = 900;

		raw.incarnation = fault_random(&raw.seed) | 1;
		raw.proof = fault_random(&raw.seed);
		raw_say(&raw, &packet, &len, payload);
	}
	/* On a busy machine the target may take them only now. */
	until_ms = fault_now_ms() + 20000;
	do {
		check_amplification(&raw, "bad proofs");
		now = stage_stats(stage->b);
	} while (now.drop_proof - before.drop_proof < n / 20 && fault_now_ms() < until_ms);
	if (now.drop_proof - before.drop_proof < n / 20)
		fault_fail("only %llu of %u bad proofs were counted",
			(unsigned long long)(now.drop_proof - before.drop_proof), n);
	if (now.partners > before.partners || atomic_load(&stage->target_shorts) ||
			atomic_load(&stage->target_longs))
		fault_fail("a stranger became a partner");
	raw_close(&raw);
}

static void small_packets(struct raw *raw, uint8_t type)
{
	const uint64_t len = 0;

	raw_rebind(raw);
	for (int i = 0; i < 20; i++) {
		struct wire_packet packet = {.h.type = type, .h.number = 1, .n_items = 1,
			.announce = {.total = 0, .oldest = 1, .n_items = 1}};

		raw_say(raw, &packet, &len, NULL);
	}
	check_amplification(raw, "a small packet");
}

/* The smallest packet of each type, as a stranger would make it: what comes back is no larger. */
void flood_small_packets(struct stage *stage)
{
	static struct raw raw;
	uint8_t bytes[WIRE_HEADER];

	raw_open(&raw, stage->a_finder, stage->b_target, stage->seed + 1);
	for (int i = 0; i < 4 * WIRE_TYPE_END; i++) {
		bool with_token = i & 1, to_nobody = i & 2;

		raw.token_out = with_token ? fault_random(&raw.seed) | 1 : 0;
		raw.their_incarnation = to_nobody ? fault_random(&raw.seed) :
			ripc_service_incarnation(stage->b_target);
		small_packets(&raw, (uint8_t)(i / 4));
	}
	/* Cut off, other versions, unknown flags. */
	for (size_t len = 1; len <= sizeof(bytes); len++) {
		memset(bytes, 0xff, sizeof(bytes));
		bytes[0] = len % 2 ? WIRE_VERSION : WIRE_VERSION + 1;
		raw_rebind(&raw);
		for (int i = 0; i < 5; i++)
			raw_send(&raw, bytes, len);
		check_amplification(&raw, "a packet cut off");
	}
	raw_close(&raw);
}

/* RETRY, GONE, ABORT and echoes that answer nothing have no effect on those who talk. */
void flood_answers(struct stage *stage)
{
	static const uint8_t types[] = {WIRE_RETRY, WIRE_GONE, WIRE_ABORT, WIRE_ECHO,
		WIRE_ECHO_REPLY, WIRE_ANSWER, WIRE_PULL, WIRE_CANCEL};
	struct ripc_stats before = stage_stats(stage->b), now;
	uint32_t n = stage->full ? 100000 : 5000;
	static struct raw raw;
	uint64_t until_ms;

	raw_open(&raw, stage->a_finder, stage->b_honest, stage->seed + 2);
	/* As if from the honest partner, whose incarnation is known to everybody. */
	raw.incarnation = ripc_service_incarnation(stage->a_honest);
	raw.service = ripc_service_id(stage->a_honest);
	for (uint32_t i = 0; i < n; i++) {
		struct wire_packet packet = {.h.type = types[i % sizeof(types)],
			.h.number = i % 7 ? fault_random(&raw.seed) : 0,
			.value = fault_random(&raw.seed) >> i % 64, .ack = {1 + i % 20, 0},
			.announce.oldest = 1};

		raw.token_out = i % 3 ? fault_random(&raw.seed) : i % 16;
		raw_say(&raw, &packet, NULL, NULL);
	}
	until_ms = fault_now_ms() + 20000;
	do {
		check_amplification(&raw, "answers");
		now = stage_stats(stage->b);
	} while (now.drop_token - before.drop_token < n / 20 && fault_now_ms() < until_ms);
	if (now.drop_token - before.drop_token < n / 20)
		fault_fail("only %llu of %u packets without a token were counted",
			(unsigned long long)(now.drop_token - before.drop_token), n);
	raw_close(&raw);
}
