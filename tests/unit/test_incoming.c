/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages from a partner who has a valid token and says what it likes. */
#include "lone.h"

static uint8_t junk[1200];

static void say_announce(struct lone *lone, uint64_t number, uint64_t total, uint32_t unasked)
{
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .h.number = number, .n_items = 1,
		.announce = {.total = total, .oldest = 1, .n_items = 1, .unasked = unasked}};

	lone_say(lone, &packet, &total, NULL);
}

static void say_data(struct lone *lone, uint64_t number, uint64_t offset, uint32_t len)
{
	struct wire_packet packet = {.h.type = WIRE_DATA, .h.number = number, .offset = offset,
		.payload_len = len};

	lone_say(lone, &packet, NULL, junk);
}

/* It announces more unasked bytes than the message has, and sends them. */
START_TEST(announce__unasked_beyond_total)
{
	static struct lone lone;
	struct ripc_msg *msg;

	lone_open(&lone);
	lone_introduce(&lone);
	memset(junk, 0x41, sizeof(junk));
	say_announce(&lone, 1, 10, 65536);
	say_data(&lone, 1, 0, sizeof(junk));
	say_data(&lone, 1, 10, 1000);
	say_data(&lone, 1, 60000, 1000);
	ck_assert_uint_eq(lone_stats(&lone).drop_malformed, 3);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_close_all(&lone);
}
END_TEST

/* As many pieces as are kept, and only then what is missing before them. */
START_TEST(data__fills_gap_before_many_pieces)
{
	static struct lone lone;
	struct wire_packet pull;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_announce(&lone, 1, 100000, 65536);
	for (uint64_t at = 1; at < 5000; at += 2)
		say_data(&lone, 1, at, 1);
	since = lone.n_sent;
	say_data(&lone, 1, 0, 1);
	say_data(&lone, 1, 2, 1);
	lone_pass(&lone, 100000);
	ck_assert(lone_hear(&lone, since, WIRE_PULL, &pull));
	ck_assert_uint_eq(pull.pull.have, 4);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		announce__unasked_beyond_total, data__fills_gap_before_many_pieces, NULL,
	};

	return suite_run("incoming", tests);
}
