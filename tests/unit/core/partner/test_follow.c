/* SPDX-License-Identifier: BSD-3-Clause */
/* A partner that is silent, and may have another address. */
#include <errno.h>
#include <string.h>

#include "core/wire/wire.h"
#include "lone.h"
#include "suite.h"

#define NEW_HOST   7
#define OTHER_HOST 9
#define SILENT_US  400000u /* after so much the partner is looked for */

static uint32_t n_to(const struct lone *lone, uint32_t since, uint8_t type, uint8_t host)
{
	struct wire_packet packet;
	uint32_t n = 0;

	for (uint32_t i = since; i < lone->n_sent; i++) {
		uint32_t at = i % LONE_SENT_MAX;

		n += lone->sent_to[at] == host && wire_decode(lone->sent[at],
			lone->sent_len[at], &packet) == 0 && packet.h.type == type;
	}
	return n;
}

/* The answer to the last echo, from a host. */
static void reply_from(struct lone *lone, uint8_t host)
{
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY};
	uint8_t own = lone->host;

	ck_assert(lone_hear(lone, 0, WIRE_ECHO, &echo));
	reply.value = echo.value;
	reply.stamp = echo.stamp;
	lone->host = host;
	lone_say(lone, &reply, NULL, NULL);
	lone->host = own;
}

static void send_long(struct lone *lone)
{
	ck_assert_int_eq(lone_send_long(lone, lone->incarnation, 100), 0);
}

/* A message is not acknowledged, and the resolver has named another address. */
static uint32_t seek(struct lone *lone)
{
	uint32_t since;

	lone_open(lone);
	lone_introduce(lone);
	lone->n_asked = 0;
	send_long(lone);
	lone_pass(lone, SILENT_US);
	ck_assert_uint_gt(lone->n_asked, 0);
	ck_assert_uint_eq(lone->asked_id, lone->service);
	since = lone->n_sent;
	lone_answer(lone, lone->incarnation, lone->context, NEW_HOST);
	lone_pass(lone, 50000);
	ck_assert_uint_gt(n_to(lone, since, WIRE_ECHO, NEW_HOST), 0);
	ck_assert_uint_eq(n_to(lone, 0, WIRE_ANNOUNCE, NEW_HOST), 0);
	return since;
}

START_TEST(follow__silent_partner_is_found)
{
	static struct lone lone;
	uint32_t since = seek(&lone);

	reply_from(&lone, NEW_HOST);
	ck_assert_uint_eq(n_to(&lone, since, WIRE_ANNOUNCE, NEW_HOST), 1);
	lone_close_all(&lone);
}
END_TEST

/* An echo from another address than the resolver named moves no route, even with the nonce. */
START_TEST(follow__echo_must_come_from_there)
{
	static struct lone lone;
	uint32_t since = seek(&lone);

	reply_from(&lone, OTHER_HOST);
	lone_pass(&lone, 1000000);
	ck_assert_uint_eq(n_to(&lone, since, WIRE_ANNOUNCE, OTHER_HOST), 0);
	ck_assert_uint_eq(n_to(&lone, since, WIRE_ANNOUNCE, NEW_HOST), 0);
	lone_close_all(&lone);
}
END_TEST

/* The partner answers at its address: no echo goes where the resolver, or a liar, says. */
START_TEST(follow__partner_that_answers_is_left_alone)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	lone.n_asked = 0;
	send_long(&lone);
	for (int i = 0; i < 100; i++) {
		uint32_t since = lone.n_sent;

		lone_pass(&lone, 5000);
		if (n_to(&lone, since, WIRE_ECHO, lone.host))
			reply_from(&lone, lone.host);
	}
	ck_assert_uint_gt(n_to(&lone, 0, WIRE_ECHO, lone.host), 0);
	ck_assert_uint_eq(lone.n_asked, 0);
	lone_close_all(&lone);
}
END_TEST

/* GONE from the address that was named gives back our echo's token, and nothing else. */
START_TEST(follow__gone_from_there_is_not_believed)
{
	static struct lone lone;
	struct wire_packet gone = {.h.type = WIRE_GONE};
	struct ripc_msg *msg;

	seek(&lone);
	gone.h.src = lone.incarnation;
	gone.h.dst = ripc_service_incarnation(lone.svc);
	gone.h.number = lone.token_in;
	gone.value = 1000000;
	lone.in_len = wire_encode(lone.in, &gone, NULL, NULL);
	wire_checksum(lone.in, lone.in_len, ripc__crc32c(0, NULL, 0));
	lone.from = (struct ripc__addr){.len = 1, .host[15] = NEW_HOST, .blob = {NEW_HOST}};
	while (lone.in_len)
		ripc_poll(lone.ctx);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		follow__silent_partner_is_found,
		follow__echo_must_come_from_there,
		follow__partner_that_answers_is_left_alone,
		follow__gone_from_there_is_not_believed,
		NULL,
	};

	return suite_run("follow", tests);
}
