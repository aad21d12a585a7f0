/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Identity claims: messages by ID go where the resolver says, and never to a mere claimant. The
 * true partner lives at host 2, a forger, who knows all its public data, at host 3.
 */
#include "claimants.h"

static void send_short(struct lone *lone)
{
	const struct iovec item = {"word", 4};

	ck_assert_int_eq(ripc_send_short(lone->svc, lone->service, &item, 1), 0);
}

static void send_long(struct lone *lone, uint64_t to_incarnation, uint64_t reply_to)
{
	const struct iovec item = {"a long message", 14};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 3000,
		.to_incarnation = to_incarnation, .reply_to = reply_to};

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
}

/* The send has ended, as certainly not delivered, or is in progress. */
static void check_completion(struct lone *lone, int status)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), status ? 0 : -EAGAIN);
	if (!status)
		return;
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(msg->status, status);
	ripc_msg_free(msg);
}

static void check_sender(struct lone *lone, enum ripc_sender sender)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_SHORT);
	ck_assert_uint_eq(msg->from, lone->service);
	ck_assert_uint_eq(msg->from_incarnation, lone->incarnation);
	ck_assert_int_eq(msg->sender, sender);
	ripc_msg_free(msg);
}

/* Nothing goes to a claimant before the resolver has confirmed it, once; then all does. */
START_TEST(claim__confirmed)
{
	static struct lone lone;
	uint32_t since, n_asked;

	lone_open(&lone);
	lone_claim(&lone);
	ck_assert_uint_eq(lone.n_asked, 0);
	since = lone.n_sent;
	send_short(&lone);
	send_long(&lone, 0, 0);
	ck_assert_uint_eq(lone.n_sent, since);
	ck_assert_uint_eq(lone.asked_id, lone.service);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	n_asked = lone.n_asked;
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	for (int i = 0; i < 30; i++) {
		since = lone.n_sent;
		say_short(&lone, 2 + (uint64_t)i, 0);
		check_sender(&lone, RIPC_SENDER_RESOLVED);
		send_short(&lone);
		ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
		lone.now_us += 4000; /* the long is not answered: later the address is doubted */
	}
	ck_assert_uint_eq(lone.n_asked, n_asked);
	lone_close_all(&lone);
}
END_TEST

/* The resolver names another incarnation: what was sent goes there. */
START_TEST(claim__another_is_named)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_claim(&lone);
	since = lone.n_sent;
	send_short(&lone);
	send_long(&lone, 0, 0);
	send_long(&lone, lone.incarnation, 0);
	lone_answer(&lone, 0x777, 0xc1, 5);
	check_completion(&lone, -ENOENT);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, 5), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, 5), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 0);
	lone_close_all(&lone);
}
END_TEST

/* The resolver knows nobody: nothing goes to the claimant, and the send fails. */
START_TEST(claim__nobody_is_named)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	uint32_t since;

	lone_open(&lone);
	lone_claim(&lone);
	since = lone.n_sent;
	send_short(&lone);
	send_long(&lone, 0, 0);
	lone_pass(&lone, 2500000);
	check_completion(&lone, -ENOENT);
	ck_assert_uint_eq(lone_stats(&lone).drop_send_unresolved, 1);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), -ENOENT);
	ck_assert_uint_eq(lone.n_sent, since);
	/* Found later, it is the same one. */
	lone_pass(&lone, 2000000);
	send_short(&lone);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	lone_close_all(&lone);
}
END_TEST

/* The true partner's reply to an echo with a token that it does not know. */
static void deny(struct lone *lone, const struct wire_packet *echo)
{
	struct wire_packet retry = {.h = {.type = WIRE_RETRY, .number = echo->h.token},
		.value = 0x900f};
	struct other other = {.token_out = 1, .host = TRUE_HOST}; /* no hello */

	swap(lone, &other);
	lone_say(lone, &retry, NULL, NULL);
	swap(lone, &other);
}

/*
 * A forger claims the true one's ID, incarnation and context, while that one is not known: it is
 * asked for where the resolver says, and what was sent goes to the true one.
 */
START_TEST(claim__forger_is_first)
{
	static struct lone lone;
	struct other other = forger;
	struct wire_packet echo;
	uint32_t since;

	lone_open(&lone);
	swap(&lone, &other);
	lone_claim(&lone);
	since = lone.n_sent;
	send_long(&lone, 0, 0);
	send_short(&lone);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO, &echo));
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO, FORGER_HOST), 0);
	deny(&lone, &echo);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	lone_pass(&lone, 1000000);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, FORGER_HOST), 0);
	/* The true one says hello, too, and what both say is told apart. */
	swap(&lone, &other);
	lone_claim(&lone);
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	swap(&lone, &other);
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_CLAIMED);
	lone_close_all(&lone);
}
END_TEST

/* Nobody answers where the resolver says: the send fails, and the forger gets nothing. */
START_TEST(claim__true_one_is_silent)
{
	static struct lone lone;
	struct other other = forger;
	uint32_t since;

	lone_open(&lone);
	swap(&lone, &other);
	lone_claim(&lone);
	since = lone.n_sent;
	send_long(&lone, 0, 0);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	lone_pass(&lone, 4000000);
	check_completion(&lone, -ENOENT);
	ck_assert_uint_gt(n_sent_to(&lone, since, WIRE_ECHO, TRUE_HOST), 3);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	lone_close_all(&lone);
}
END_TEST

/* A partner speaks from another address than the resolver's, and can be reached there, too. */
START_TEST(claim__of_who_has_two_addresses)
{
	static struct lone lone;
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY};
	uint32_t since;

	lone_open(&lone);
	lone_claim(&lone);
	since = lone.n_sent;
	send_long(&lone, 0, 0);
	lone_answer(&lone, lone.incarnation, lone.context, 6);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO, &echo));
	ck_assert_uint_eq(echo.h.token, lone.token_in);
	ck_assert_uint_eq(echo.stamp, 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO, 6), 1);
	/* Not with another nonce. */
	reply.value = echo.value + 1;
	lone_say(&lone, &reply, NULL, NULL);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 0);
	reply.value = echo.value;
	lone_say(&lone, &reply, NULL, NULL);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	lone_close_all(&lone);
}
END_TEST

/* Says something with the token of the one that speaks, but from another host. */
static uint32_t say_from(struct lone *lone, uint8_t host, struct wire_packet packet)
{
	uint32_t since = lone->n_sent;
	uint8_t home = lone->host;

	lone->host = host;
	lone_say(lone, &packet, NULL, NULL);
	lone->host = home;
	return since;
}

/*
 * A forger has claimed to be the true one, and has given that one our token for its own. So the
 * true one asks with it whether it is known here, and says hello with it: neither is the forger's,
 * and nothing that the true one says is told to the forger, nor moves its route.
 */
START_TEST(claim__token_is_given_to_the_true_one)
{
	const struct wire_packet asks = {.h.type = WIRE_ECHO, .value = 0xa5c};
	const struct wire_packet echo = {.h.type = WIRE_ECHO, .value = 0xec0, .stamp = 42};
	static struct lone lone;
	struct other other = forger;
	struct wire_packet hello = {.h = {.type = WIRE_HELLO_ONLY, .flags = WIRE_F_HELLO}}, packet;
	uint32_t since;

	lone_open(&lone);
	swap(&lone, &other);
	lone_claim(&lone);
	hello.hello = (struct wire_hello){.token = 0x5ec4e7, .service = lone.service,
		.context = lone.context, .to_service = ripc_service_id(lone.svc),
		.unasked = 65536};
	for (int i = 0; i < 3; i++) {
		since = say_from(&lone, TRUE_HOST, asks);
		ck_assert_uint_eq(lone.n_sent - since, 1);
		ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_RETRY, TRUE_HOST), 1);
		since = say_from(&lone, TRUE_HOST, hello);
		ck_assert_uint_eq(lone.n_sent - since, 1);
		ck_assert(lone_hear(&lone, since, WIRE_RETRY, &packet));
		ck_assert_uint_eq(lone.sent_to[since % LONE_SENT_MAX], TRUE_HOST);
		ck_assert_uint_eq(packet.h.token, 0x5ec4e7);
		ck_assert_uint_eq(packet.h.number, lone.token_out);
		since = say_from(&lone, TRUE_HOST, echo);
		ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO_REPLY, TRUE_HOST), 0);
		ck_assert(lone_hear(&lone, since, WIRE_ECHO_REPLY, &packet));
		ck_assert_uint_eq(packet.h.token, lone.token_in);
		lone.now_us += 50000;
	}
	/* The forger itself, from where it lives, is answered as ever. */
	since = say_from(&lone, FORGER_HOST, asks);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO_REPLY, &packet));
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO_REPLY, FORGER_HOST), 1);
	ck_assert_uint_eq(packet.h.token, lone.token_in);
	lone_close_all(&lone);
}
END_TEST

/* A known partner asks from a second address whether we know it: the answer goes there. */
START_TEST(claim__asks_from_another_address)
{
	const struct wire_packet asks = {.h.type = WIRE_ECHO, .value = 0xa5c};
	static struct lone lone;
	struct wire_packet packet;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	send_short(&lone);
	since = say_from(&lone, 6, asks);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO_REPLY, &packet));
	ck_assert_uint_eq(packet.value, 0xa5c);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO_REPLY, 6), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_RETRY, 6), 0);
	lone_close_all(&lone);
}
END_TEST

/* Beside the true one, that is known and spoke lately, nobody else is it. */
START_TEST(claim__beside_the_true_one)
{
	static struct lone lone;
	struct other other = forger;
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	send_short(&lone);
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	swap(&lone, &other);
	since = lone.n_sent;
	lone_say(&lone, &hello, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_RETRY, &packet));
	lone.proof = packet.value;
	since = lone.n_sent;
	lone_say(&lone, &hello, NULL, NULL);
	say_short(&lone, 2, 0);
	ck_assert_uint_eq(lone.n_sent, since);
	ck_assert_uint_eq(lone_stats(&lone).short_received, 1);
	/* After a silence it may claim so; its messages are told apart, and nothing goes to it. */
	lone.now_us += 15000000;
	lone.proof = 0;
	lone_claim(&lone);
	say_short(&lone, 2, 0);
	check_sender(&lone, RIPC_SENDER_CLAIMED);
	since = lone.n_sent;
	lone.asked_id = 0;
	send_long(&lone, 0, 0);
	lone_pass(&lone, 1000);
	if (lone.asked_id == lone.service)
		lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	lone_pass(&lone, 100000);
	ck_assert_uint_gt(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * A partner has replaced its token, and then was silent. A hello with the token before, from
 * another address, was under way for long: its short has come already.
 */
START_TEST(claim__late_hello_from_elsewhere)
{
	static struct lone lone;
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint64_t replaced;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	replaced = lone.token_in++;
	lone.token_out = lone.proof = 0;
	lone_claim(&lone);
	say_short(&lone, 2, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	lone.now_us += 15000000;
	lone.host = FORGER_HOST;
	lone.token_in = replaced;
	lone.token_out = lone.proof = 0;
	since = lone.n_sent;
	lone_say(&lone, &hello, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_RETRY, &packet));
	lone.proof = packet.value;
	since = lone.n_sent;
	say_short(&lone, 1, 0);
	ck_assert_uint_eq(lone.n_sent, since);
	ck_assert_uint_eq(lone_stats(&lone).short_received, 2);
	ck_assert_uint_eq(lone_stats(&lone).partners, 1);
	lone_close_all(&lone);
}
END_TEST

/*
 * The late hello comes from the address of the partner. The token that it brings does not become
 * the partner's own again: the partner has moved since, and is known by the token in use.
 */
START_TEST(claim__late_hello_from_the_same_address)
{
	static struct lone lone;
	uint64_t replaced, in_use;

	lone_open(&lone);
	lone_introduce(&lone);
	replaced = lone.token_in++;
	in_use = lone.token_in;
	lone.token_out = lone.proof = 0;
	lone_claim(&lone);
	lone.token_in = replaced;
	lone.token_out = lone.proof = 0;
	lone_claim(&lone);
	lone.now_us += 15000000;
	lone.host = FORGER_HOST;
	lone.token_in = in_use;
	lone.token_out = lone.proof = 0;
	lone_claim(&lone);
	say_short(&lone, 3, 0);
	ck_assert_uint_eq(lone_stats(&lone).short_received, 1);
	ck_assert_uint_eq(lone_stats(&lone).partners, 1);
	lone_close_all(&lone);
}
END_TEST

/* Both partners have only claimed it: the resolver decides, without an echo, whoever was first. */
START_TEST(claim__two_claim_the_same)
{
	static struct lone lone;
	struct other other = forger;
	uint32_t since;

	lone_open(&lone);
	swap(&lone, &other);
	lone_claim(&lone);
	swap(&lone, &other);
	lone_claim(&lone);
	ck_assert_uint_eq(lone_stats(&lone).partners, 2);
	since = lone.n_sent;
	send_short(&lone);
	send_long(&lone, 0, 0);
	ck_assert_uint_eq(lone.n_sent, since);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	lone_pass(&lone, 1000);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO, TRUE_HOST), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	lone_close_all(&lone);
}
END_TEST

/* An answer goes at once to the very partner whose question it answers. */
START_TEST(claim__is_answered)
{
	static struct lone lone;
	struct other other = forger;
	struct wire_packet packet;
	uint32_t since;

	lone_open(&lone);
	swap(&lone, &other);
	lone_claim(&lone);
	say_short(&lone, 1, 0x11);
	check_sender(&lone, RIPC_SENDER_CLAIMED);
	swap(&lone, &other);
	lone_claim(&lone);
	say_short(&lone, 1, 0x22);
	check_sender(&lone, RIPC_SENDER_CLAIMED);
	since = lone.n_sent;
	send_long(&lone, 0, 0); /* waits, and keeps no answer waiting */
	send_long(&lone, 0, 0x22);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	send_long(&lone, 0, 0x11);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 1);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &packet));
	ck_assert_uint_eq(packet.h.number, 2);
	ck_assert_uint_eq(packet.h.token, 0x70ce4);
	lone_close_all(&lone);
}
END_TEST

/*
 * Both partners have said hello at once, by different ways: that is no forgery, and costs one round
 * trip.
 */
START_TEST(claim__hellos_cross)
{
	static struct lone lone;
	struct wire_packet packet;
	uint32_t since;

	lone_open(&lone);
	send_long(&lone, 0, 0);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	lone.host = 7;
	say_short(&lone, 1, 0);
	ck_assert(lone_hear(&lone, 0, WIRE_RETRY, &packet));
	lone.proof = packet.value;
	since = lone.n_sent;
	say_short(&lone, 1, 0);
	/* The packet counts as a hello alone, as any sender may have made it. */
	ck_assert_uint_eq(lone_stats(&lone).short_received, 0);
	ck_assert(lone_hear(&lone, since, WIRE_HELLO_ONLY, &packet));
	ck_assert_uint_eq(lone.sent_to[(lone.n_sent - 1) % LONE_SENT_MAX], TRUE_HOST);
	lone.token_out = packet.hello.token;
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	lone_close_all(&lone);
}
END_TEST

/* Packets after that hello are treated in the same way, though they bear the same token. */
START_TEST(claim__hellos_cross_again)
{
	static struct lone lone;
	struct wire_packet packet, reply = {.h.type = WIRE_ECHO_REPLY};
	uint32_t since;

	lone_open(&lone);
	send_long(&lone, 0, 0);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	lone.host = FORGER_HOST;
	say_short(&lone, 1, 0);
	ck_assert(lone_hear(&lone, 0, WIRE_RETRY, &packet));
	lone.proof = packet.value;
	since = lone.n_sent;
	for (uint64_t number = 1; number < 4; number++)
		say_short(&lone, number, 0);
	lone_say(&lone, &reply, NULL, NULL);
	ck_assert_uint_eq(lone_stats(&lone).short_received, 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ECHO, FORGER_HOST), 0);
	send_long(&lone, 0, 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	ck_assert_uint_gt(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 0);
	/* When our token has come back, with another hello, it is as ever. */
	ck_assert(lone_hear(&lone, since, WIRE_HELLO_ONLY, &packet));
	lone.token_out = packet.hello.token;
	lone.host = TRUE_HOST;
	say_short(&lone, 1, 0);
	check_sender(&lone, RIPC_SENDER_RESOLVED);
	lone_close_all(&lone);
}
END_TEST

/*
 * Many addresses claim one incarnation: there is an end to it, but not for the true one. 1: the
 * network also says to which of our addresses its packets go, which the record cannot know.
 */
START_TEST(claim__of_many)
{
	static struct lone lone;
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint32_t since;

	lone_open(&lone);
	for (uint8_t host = 10; host < 200; host++) {
		lone.host = host;
		lone.token_in++;
		lone.token_out = lone.proof = 0;
		since = lone.n_sent;
		lone_say(&lone, &hello, NULL, NULL);
		ck_assert(lone_hear(&lone, since, WIRE_RETRY, &packet));
		lone.proof = packet.value;
		lone_say(&lone, &hello, NULL, NULL);
	}
	ck_assert_uint_eq(lone_stats(&lone).partners, 16);
	send_short(&lone);
	lone_answer(&lone, lone.incarnation, lone.context, TRUE_HOST);
	lone.host = TRUE_HOST;
	lone.via = (uint8_t)_i;
	lone.token_in++;
	lone.proof = 0;
	lone_claim(&lone);
	ck_assert_uint_eq(lone_stats(&lone).partners, 17);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{claim__confirmed, 1},
		{claim__another_is_named, 1},
		{claim__nobody_is_named, 1},
		{claim__forger_is_first, 1},
		{claim__true_one_is_silent, 1},
		{claim__of_who_has_two_addresses, 1},
		{claim__token_is_given_to_the_true_one, 1},
		{claim__asks_from_another_address, 1},
		{claim__beside_the_true_one, 1},
		{claim__late_hello_from_elsewhere, 1},
		{claim__late_hello_from_the_same_address, 1},
		{claim__two_claim_the_same, 1},
		{claim__is_answered, 1},
		{claim__hellos_cross, 1},
		{claim__hellos_cross_again, 1},
		{claim__of_many, 2},
		{NULL, 0},
	};

	return suite_run_loops("claim", loops);
}
