/* SPDX-License-Identifier: BSD-3-Clause */
/* An attacker that guesses tokens gets few tries, and harms no other service at that address. */
#include "lone.h"

#define GUESSES 5000

/* From another address than the partner's, with its names; the host may be the same. */
static void say_from(struct lone *lone, uint8_t host, uint8_t house, uint64_t token,
		uint64_t number)
{
	struct wire_packet packet = {.h = {.type = WIRE_SHORT, .number = number}, .n_items = 1,
		.payload_len = 4};
	uint64_t own = lone->token_out;
	uint8_t own_host = lone->host;
	const uint64_t len = 4;

	lone->host = host;
	lone->house = house;
	lone->token_out = token;
	lone_say(lone, &packet, &len, "word");
	lone->token_out = own;
	lone->host = own_host;
	lone->house = 0;
}

static uint32_t received(struct lone *lone)
{
	struct ripc_msg *msg;
	uint32_t n = 0;

	while (ripc_receive(lone->svc, 0, &msg) == 0) {
		n += msg->kind == RIPC_SHORT;
		ripc_msg_free(msg);
	}
	return n;
}

/* All bits of a token but those of its slot are random. */
START_TEST(token__is_hard_to_guess)
{
	static struct lone lone;
	uint64_t ones = 0, zeros = 0;

	lone_open(&lone);
	for (int i = 0; i < 40; i++) {
		lone_newcomer(&lone, 2);
		ck_assert_uint_lt(lone.token_out >> 48, 64);
		ones |= lone.token_out;
		zeros |= ~lone.token_out;
	}
	ck_assert_uint_eq(ones & 0xffffffffffff, 0xffffffffffff);
	ck_assert_uint_eq(zeros & 0xffffffffffff, 0xffffffffffff);
	lone_close_all(&lone);
}
END_TEST

/* After many wrong ones from there even the right one does not count, for a while. */
START_TEST(guess__right_after_many_wrong)
{
	static struct lone lone;
	uint64_t sent;

	lone_open(&lone);
	lone_introduce(&lone);
	sent = lone_stats(&lone).datagrams_sent;
	for (uint64_t i = 1; i <= GUESSES; i++)
		say_from(&lone, 3, 3, lone.token_out + i, 1);
	ck_assert_uint_eq(lone_stats(&lone).drop_token, GUESSES);
	ck_assert_uint_le(lone_stats(&lone).datagrams_sent - sent, 1000);
	say_from(&lone, 3, 3, lone.token_out, 1);
	ck_assert_uint_eq(received(&lone), 0);
	lone.now_us += 10000;
	say_from(&lone, 3, 3, lone.token_out, 1);
	ck_assert_uint_eq(received(&lone), 1);
	lone_close_all(&lone);
}
END_TEST

/* The partner that lives at the very address where the guesses come from notices nothing. */
START_TEST(guess__from_the_address_of_a_partner)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint64_t i = 1; i <= GUESSES; i++) {
		say_from(&lone, 3, 2, lone.token_out + i, 1);
		if (i % 100 == 0)
			say_from(&lone, 2, 2, lone.token_out, i / 100);
	}
	ck_assert_uint_eq(received(&lone), GUESSES / 100);
	lone_close_all(&lone);
}
END_TEST

/* Guesses at the tokens that RETRY and GONE return have no effect, either. */
START_TEST(guess__right_gone_after_many_wrong)
{
	static struct lone lone;
	struct wire_packet gone = {.h.type = WIRE_GONE, .value = 1};
	uint64_t token;

	lone_open(&lone);
	lone_introduce(&lone);
	token = lone.token_out;
	lone.token_out = 1; /* no hello */
	lone.host = 3;
	for (uint64_t i = 1; i <= GUESSES; i++) {
		gone.h.number = lone.token_in + i;
		lone_say(&lone, &gone, NULL, NULL);
	}
	gone.h.number = lone.token_in;
	lone_say(&lone, &gone, NULL, NULL);
	lone.host = 2;
	lone.token_out = token;
	say_from(&lone, 2, 2, token, 1);
	ck_assert_uint_eq(received(&lone), 1);
	lone_close_all(&lone);
}
END_TEST

/* An unknown partner without a hello gets a proof that the next hello can use. */
START_TEST(retry__to_a_packet_without_hello)
{
	static struct lone lone;
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	struct wire_packet echo = {.h.type = WIRE_ECHO};
	uint32_t since;

	lone_open(&lone);
	lone.token_out = 0x1234567;
	lone_say(&lone, &echo, NULL, NULL);
	lone.token_out = 0;
	ck_assert(lone_hear(&lone, 0, WIRE_RETRY, &packet));
	ck_assert_uint_eq(packet.h.number, 0x1234567);
	ck_assert_uint_le(lone.sent_len[0], WIRE_HEADER + 8);
	lone.proof = packet.value;
	since = lone.n_sent;
	lone_say(&lone, &hello, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_HELLO_ONLY, &packet));
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		token__is_hard_to_guess, guess__right_after_many_wrong,
		guess__from_the_address_of_a_partner, guess__right_gone_after_many_wrong,
		retry__to_a_packet_without_hello, NULL,
	};

	return suite_run("guess", tests);
}
