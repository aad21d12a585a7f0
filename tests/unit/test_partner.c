/* SPDX-License-Identifier: BSD-3-Clause */
/* Somebody elsewhere who uses the name of a partner. */
#include "lone.h"

/* Where the last short to the partner went, and whether it bears the partner's token. */
static void check_short(struct lone *lone, uint8_t host, uint64_t token)
{
	const struct iovec item = {"word", 4};
	struct wire_packet packet;
	uint32_t since = lone->n_sent;

	ck_assert_int_eq(ripc_send_short(lone->svc, lone->service, &item, 1), 0);
	ck_assert(lone_hear(lone, since, WIRE_SHORT, &packet));
	ck_assert_uint_eq(packet.h.token, token);
	ck_assert_uint_eq(lone->sent_to[(lone->n_sent - 1) % LONE_SENT_MAX], host);
}

/* Gets a proof for the own address, and says hello with it. */
static void intrude(struct lone *lone)
{
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint32_t since = lone->n_sent;

	lone->host = 3;
	lone->token_in = 0xbad;
	lone->token_out = lone->proof = 0;
	lone_say(lone, &hello, NULL, NULL);
	ck_assert(lone_hear(lone, since, WIRE_RETRY, &packet));
	lone->proof = packet.value;
	since = lone->n_sent;
	lone_say(lone, &hello, NULL, NULL);
	if (lone_hear(lone, since, WIRE_HELLO_ONLY, &packet) &&
			lone->sent_to[(lone->n_sent - 1) % LONE_SENT_MAX] == 3)
		lone->token_out = packet.hello.token;
}

/* The same incarnation says hello from another address: no token of its own replaces the true. */
START_TEST(hello__of_known_partner_from_elsewhere)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	intrude(&lone);
	ck_assert_uint_eq(lone.token_out, 0);
	check_short(&lone, 2, 0x70ce4);
	lone_close_all(&lone);
}
END_TEST

/* Another incarnation says that it lives in the same context: the route stays what it was. */
START_TEST(hello__of_known_context_from_elsewhere)
{
	static struct lone lone;
	uint64_t service;
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY};
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	service = lone.service;
	lone.service = 0xbad1d;
	lone.incarnation = 0xbad17c;
	since = lone.n_sent;
	intrude(&lone);
	ck_assert_uint_ne(lone.n_sent, since);
	/* Whatever is asked of it, it answers. */
	lone_say(&lone, &(struct wire_packet){.h.type = WIRE_HELLO_ONLY}, NULL, NULL);
	for (uint32_t i = since; i < lone.n_sent; i++) {
		if (wire_decode(lone.sent[i], lone.sent_len[i], &echo) == 0 &&
				echo.h.type == WIRE_ECHO) {
			reply.value = echo.value;
			reply.stamp = echo.stamp;
			lone.token_out = echo.hello.token;
			lone_say(&lone, &reply, NULL, NULL);
		}
	}
	lone.service = service;
	check_short(&lone, 2, 0x70ce4);
	lone_close_all(&lone);
}
END_TEST

/* One who is a hundred thousand: they do not keep us from sending to somebody else. */
START_TEST(hello__of_more_than_there_is_room_for)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY};

	lone_open(&lone);
	lone_introduce(&lone);
	lone.token_out = 0;
	for (uint32_t i = 0; i < 100000; i++) {
		lone.incarnation++;
		lone_say(&lone, &hello, NULL, NULL);
	}
	ck_assert_uint_gt(lone_stats(&lone).drop_partner_limit, 0);
	ck_assert_int_eq(ripc_send_short(lone.svc, 0x50ebd, &item, 1), 0);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		hello__of_more_than_there_is_room_for,
		hello__of_known_partner_from_elsewhere,
		hello__of_known_context_from_elsewhere, NULL,
	};

	return suite_run("partner", tests);
}
