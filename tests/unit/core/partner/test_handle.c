/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles: ripc_send.to_handle = ripc_msg.from_handle sends to the partner that sent the message,
 * and to no other: not to one that claims the same, that has the ID now, or that lives where that
 * partner has lived.
 */
#include "claimants.h"
#include "core/partner/partner.h"
#include "util/slots.h"

#define SLOT_SHIFT  48
#define NUMBER_MASK ((1ull << HANDLE_BITS) - 1)
#define FORGET_US   70000000u

static const struct iovec word = {"word", 4};

static struct ripc_send to(uint64_t handle)
{
	return (struct ripc_send){.size = sizeof(struct ripc_send), .to_handle = handle,
		.items = &word, .n_items = 1, .timeout_ms = 3000};
}

static int send_shortly(struct lone *lone, uint64_t handle)
{
	const struct ripc_send send = to(handle);

	return ripc_sendmsg(lone->svc, &send, NULL);
}

static int send_at_length(struct lone *lone, uint64_t handle)
{
	struct ripc_send send = to(handle);

	send.flags = RIPC_SEND_LONG | RIPC_NOWAIT;
	return ripc_sendmsg(lone->svc, &send, NULL);
}

/* The handle of the next message. */
static uint64_t handle_of(struct lone *lone)
{
	struct ripc_msg *msg;
	uint64_t handle;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_SHORT);
	ck_assert_uint_eq(msg->from, lone->service);
	handle = msg->from_handle;
	ck_assert_uint_ne(handle, 0);
	ripc_msg_free(msg);
	return handle;
}

static uint64_t introduce(struct lone *lone)
{
	lone_claim(lone);
	say_short(lone, 1, 0);
	return handle_of(lone);
}

/* The next message in the queue is the end of a long one. */
static void check_end(struct lone *lone, uint32_t outcome, int status)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_uint_eq(msg->outcome, outcome);
	ck_assert_int_eq(msg->status, status);
	ck_assert_uint_eq(msg->from_handle, 0);
	ripc_msg_free(msg);
}

/* Nothing goes to it, by this handle. */
static void check_useless(struct lone *lone, uint64_t handle)
{
	uint32_t since = lone->n_sent;

	ck_assert_int_eq(send_shortly(lone, handle), -ENOENT);
	ck_assert_int_eq(send_at_length(lone, handle), -ENOENT);
	ck_assert_uint_eq(n_sent_to(lone, since, WIRE_SHORT, lone->host), 0);
	ck_assert_uint_eq(n_sent_to(lone, since, WIRE_ANNOUNCE, lone->host), 0);
}

static void check_of_use(struct lone *lone, uint64_t handle)
{
	uint32_t since = lone->n_sent;

	ck_assert_int_eq(send_shortly(lone, handle), 0);
	ck_assert_uint_eq(n_sent_to(lone, since, WIRE_SHORT, lone->host), 1);
}

/*
 * Two partners with the same claim: each is sent to by its own handle. The resolver is not asked.
 */
START_TEST(handle__of_two_that_claim_the_same)
{
	static struct lone lone;
	struct other other = forger;
	struct wire_packet packet;
	uint64_t forged, handle;
	uint32_t since;

	lone_open(&lone);
	swap(&lone, &other);
	forged = introduce(&lone);
	swap(&lone, &other);
	handle = introduce(&lone);
	ck_assert_uint_ne(handle, forged);
	since = lone.n_sent;
	ck_assert_int_eq(send_shortly(&lone, handle), 0);
	ck_assert_int_eq(send_at_length(&lone, handle), 0);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &packet));
	ck_assert_uint_eq(packet.replies, 0);
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	ck_assert_uint_eq(packet.replies, 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, FORGER_HOST), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, FORGER_HOST), 0);
	ck_assert_int_eq(send_shortly(&lone, forged), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, FORGER_HOST), 1);
	ck_assert_uint_eq(lone.n_asked + lone.n_asked_alone, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * Messages that wait for the owner of the ID delay no message by handle, and are not sent with it.
 */
START_TEST(handle__passes_what_waits)
{
	static struct lone lone;
	uint64_t handle;
	uint32_t since;

	lone_open(&lone);
	handle = introduce(&lone);
	since = lone.n_sent;
	ck_assert_int_eq(lone_send_long(&lone, 0, 4), 0);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &word, 1), 0);
	ck_assert_uint_eq(lone.n_sent, since);
	ck_assert_int_eq(send_at_length(&lone, handle), 0);
	ck_assert_int_eq(send_shortly(&lone, handle), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	lone_answer(&lone, 0x777, 0xc1, 5);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, 5), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, 5), 1);
	ck_assert_int_eq(send_shortly(&lone, handle), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 2);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, 5), 1);
	lone_close_all(&lone);
}
END_TEST

/* The sender is found by the resolver, and later another one has its ID: the handle stays. */
START_TEST(handle__of_one_that_lost_its_id)
{
	static struct lone lone;
	uint64_t handle;
	uint32_t since;

	lone_open(&lone);
	handle = introduce(&lone);
	lone_confirm(&lone);
	say_short(&lone, 2, 0);
	ck_assert_uint_eq(handle_of(&lone), handle);
	check_of_use(&lone, handle);
	/* The partner leaves: messages by its ID look for the next one. */
	ck_assert_int_eq(lone_send_long(&lone, 0, 4), 0);
	lone_say(&lone, &(struct wire_packet){.h = {.type = WIRE_ANSWER},
		.ack = {.number = 1, .status = ESHUTDOWN}}, NULL, NULL);
	lone_answer(&lone, 0x777, 0xc1, 5);
	since = lone.n_sent;
	check_of_use(&lone, handle);
	ck_assert_int_eq(send_at_length(&lone, handle), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_ANNOUNCE, TRUE_HOST), 1);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &word, 1), 0);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, 5), 1);
	/* Refused there, too, it goes nowhere else. */
	lone_say(&lone, &(struct wire_packet){.h = {.type = WIRE_ANSWER},
		.ack = {.number = 2, .status = ESHUTDOWN}}, NULL, NULL);
	check_end(&lone, RIPC_NOT_DELIVERED, -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* The true one says goodbye. */
static void leave(struct lone *lone)
{
	struct wire_packet gone = {.h = {.type = WIRE_GONE, .number = lone->token_in}};

	lone_say(lone, &gone, NULL, NULL);
}

/* A handle of an ended partner is of no use, not even when something lives there that claims it. */
START_TEST(handle__of_one_that_is_gone)
{
	static struct lone lone;
	uint64_t handle;

	lone_open(&lone);
	handle = introduce(&lone);
	ck_assert_int_eq(send_at_length(&lone, handle), 0);
	leave(&lone);
	check_end(&lone, RIPC_UNKNOWN, -ECONNRESET);
	check_useless(&lone, handle);
	lone.token_out = lone.proof = 0;
	lone.token_in = 0xbad;
	lone_claim(&lone);
	check_useless(&lone, handle);
	say_short(&lone, 2, 0);
	ck_assert_uint_ne(handle_of(&lone), handle);
	check_useless(&lone, handle);
	lone_close_all(&lone);
}
END_TEST

/*
 * The partner was not gone, and returns with its own token, from elsewhere: its next message tells.
 */
START_TEST(handle__of_one_that_returns)
{
	static struct lone lone;
	uint64_t handle, again;

	lone_open(&lone);
	handle = introduce(&lone);
	leave(&lone);
	lone.token_out = lone.proof = 0;
	lone.host = 7;
	lone_claim(&lone);
	say_short(&lone, 2, 0);
	again = handle_of(&lone);
	check_useless(&lone, handle);
	check_of_use(&lone, again);
	lone_close_all(&lone);
}
END_TEST

/*
 * Nobody says goodbye, and a program at the same address (as behind NAT, whose mappings are used
 * again) claims the same, or the sender has lost its state: which of the two is not known.
 */
START_TEST(handle__after_another_token)
{
	static struct lone lone;
	uint64_t handle, again;

	lone_open(&lone);
	handle = introduce(&lone);
	check_of_use(&lone, handle);
	lone.token_out = lone.proof = 0;
	lone.token_in = 0xbad;
	lone_claim(&lone);
	ck_assert_uint_eq(lone_stats(&lone).partners, 1);
	check_useless(&lone, handle);
	say_short(&lone, 2, 0);
	again = handle_of(&lone);
	check_of_use(&lone, again);
	check_useless(&lone, handle);
	lone_close_all(&lone);
}
END_TEST

/*
 * A sender that was silent for a minute is forgotten, however often it is sent to: its place is
 * free for it to come back as another partner. The next partner in its slot has another handle.
 */
START_TEST(handle__of_one_that_was_forgotten)
{
	static struct lone lone;
	uint64_t handle, next;

	lone_open(&lone);
	handle = introduce(&lone);
	for (int i = 0; i < 5; i++) {
		lone_pass(&lone, FORGET_US / 7);
		check_of_use(&lone, handle);
	}
	lone_pass(&lone, 2 * FORGET_US / 7);
	check_useless(&lone, handle);
	ck_assert_uint_eq(lone_stats(&lone).partners, 0);
	lone.service++;
	lone.token_out = lone.proof = 0;
	next = introduce(&lone);
	ck_assert_uint_eq(next >> SLOT_SHIFT, handle >> SLOT_SHIFT);
	ck_assert_uint_ne(next, handle);
	check_useless(&lone, handle);
	check_of_use(&lone, next);
	lone_close_all(&lone);
}
END_TEST

/* A guess finds no partner that has sent nothing, as one that is being looked for. */
START_TEST(handle__of_a_guess)
{
	static struct lone lone;
	uint64_t handle, seed = 7;

	lone_open(&lone);
	handle = introduce(&lone);
	ck_assert_int_eq(ripc_send_short(lone.svc, 0x1234, &word, 1), 0);
	ck_assert_uint_eq(lone_stats(&lone).partners, 2);
	for (uint64_t slot = 0; slot < RIPC_SLOTS_MAX; slot++) {
		for (uint64_t number = 0; number < 4; number++) {
			uint64_t guess = slot << SLOT_SHIFT | ((handle + number) & NUMBER_MASK);

			if (guess && guess != handle)
				ck_assert_int_eq(send_shortly(&lone, guess), -ENOENT);
		}
		ck_assert_int_eq(send_shortly(&lone, suite_random(&seed) | 1), -ENOENT);
	}
	check_of_use(&lone, handle);
	lone_close_all(&lone);
}
END_TEST

/* Arguments that exclude each other. */
START_TEST(handle__bad_arguments)
{
	static struct lone lone;
	struct ripc_service *second;
	struct ripc_send send;
	uint64_t handle;

	lone_open(&lone);
	handle = introduce(&lone);
	send = to(handle);
	send.to = lone.service;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	send.to_incarnation = lone.incarnation;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), 0);
	send.to_incarnation++;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -ENOENT);
	send = to(handle);
	send.to = lone.service + 1;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	send.to = 0xff00000000000001ull; /* a group */
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	send = to(handle);
	send.flags = RIPC_SEND_LONG | RIPC_WAIT;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	send.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_ORDERED;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	send.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_LEAVE_SLOW;
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	send = to(0);
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	send = to(handle);
	send.size = offsetof(struct ripc_send, to_handle); /* of an older program */
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -EINVAL);
	/* A handle is of use in the service that got it. */
	ck_assert_int_eq(ripc_service_open(lone.ctx, 0, 0, &second), 0);
	send = to(handle);
	ck_assert_int_eq(ripc_sendmsg(second, &send, NULL), -ENOENT);
	check_of_use(&lone, handle);
	ck_assert_int_eq(ripc_service_close(lone.svc), 0);
	ck_assert_int_eq(ripc_sendmsg(lone.svc, &send, NULL), -ESHUTDOWN);
	ck_assert_int_eq(ripc_sendmsg(second, &send, NULL), -ENOENT);
	lone_close_all(&lone);
}
END_TEST

/* The sender has forgotten us: shorts by handle go again, with a hello, and only to it. */
START_TEST(handle__shorts_are_held)
{
	static struct lone lone;
	struct wire_packet retry = {.h = {.type = WIRE_RETRY}, .value = 0x900f}, packet;
	uint64_t handle, token_out, number;
	uint32_t since;

	lone_open(&lone);
	handle = introduce(&lone);
	token_out = lone.token_out;
	lone_pass(&lone, 1000000);
	/* RETRY gives back the token that we sent it. */
	retry.h.number = lone.token_in;
	lone_say(&lone, &retry, NULL, NULL);
	since = lone.n_sent;
	ck_assert_int_eq(send_shortly(&lone, handle), 0);
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	ck_assert(packet.h.flags & WIRE_F_HELLO);
	ck_assert_uint_eq(packet.hello.token, token_out);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	/* A short to its ID is sent to the new holder. The one by handle stays, or is dropped. */
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &word, 1), 0);
	lone_answer(&lone, 0x777, 0xc1, 5);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, 5), 1);
	/* By handle again: held until its hello comes, then it goes, as the same message. */
	ck_assert_int_eq(send_shortly(&lone, handle), 0);
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	number = packet.h.number;
	since = lone.n_sent;
	lone.token_out = 0;
	lone_say(&lone, &(struct wire_packet){.h.type = WIRE_HELLO_ONLY}, NULL, NULL);
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	ck_assert_uint_eq(packet.h.number, number);
	ck_assert_uint_eq(packet.h.token, lone.token_in);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, TRUE_HOST), 1);
	ck_assert_uint_eq(n_sent_to(&lone, since, WIRE_SHORT, 5), 0);
	check_of_use(&lone, handle);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{handle__of_two_that_claim_the_same, 1},
		{handle__passes_what_waits, 1},
		{handle__of_one_that_lost_its_id, 1},
		{handle__of_one_that_is_gone, 1},
		{handle__of_one_that_returns, 1},
		{handle__after_another_token, 1},
		{handle__of_one_that_was_forgotten, 1},
		{handle__of_a_guess, 1},
		{handle__bad_arguments, 1},
		{handle__shorts_are_held, 1},
		{NULL, 0},
	};

	return suite_run_loops("handle", loops);
}
