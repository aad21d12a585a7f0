/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of somebody who has another version, or makes us repeat ourselves. */
#include "core/wire/wire.h"
#include "lone.h"
#include "util/bytes.h"

#define LONGS 64

static uint8_t bytes[3000];

static void send_long(struct lone *lone)
{
	const struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 10000};

	ck_assert_int_eq(ripc_sendmsg(lone->svc, &send, NULL), 0);
}

/* A long message to somebody whom the resolver has found; returns the token in its hello. */
static uint64_t announce(struct lone *lone)
{
	struct wire_packet packet;

	send_long(lone);
	lone_answer(lone, lone->incarnation, lone->context, 2);
	ck_assert(lone_hear(lone, 0, WIRE_ANNOUNCE, &packet));
	return packet.hello.token;
}

static void say_abort(struct lone *lone, uint8_t version, uint64_t echo, uint64_t understood)
{
	struct wire_packet packet = {.h = {.type = WIRE_ABORT, .src = lone->incarnation,
		.dst = ripc_service_incarnation(lone->svc), .number = echo}, .value = understood};

	lone->in_len = wire_encode(lone->in, &packet, NULL, NULL);
	lone->in[0] = version;
	wire_checksum(lone->in, lone->in_len, 0);
	lone->from = (struct ripc__addr){.len = 1, .blob = {lone->host}};
	while (lone->in_len)
		ripc_poll(lone->ctx);
}

/* Nothing has ended, or one send because of the version. */
static void check_ended(struct lone *lone, bool ended)
{
	struct ripc_msg *msg = NULL;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), ended ? 0 : -EAGAIN);
	if (!ended)
		return;
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(msg->status, -EPROTONOSUPPORT);
	ripc_msg_free(msg);
}

/* The partner says so, and gives back our token: the send ends at once. So does the next one. */
START_TEST(abort__by_another_version)
{
	static struct lone lone;
	uint64_t token;

	lone_open(&lone);
	token = announce(&lone);
	say_abort(&lone, 3, token, 1 << 3 | 1 << 4);
	check_ended(&lone, true);
	send_long(&lone);
	check_ended(&lone, false);
	say_abort(&lone, 3, token, 1 << 3 | 1 << 4);
	check_ended(&lone, true);
	lone_close_all(&lone);
}
END_TEST

/* A partner that has not got our packet, or understands our version and got it altered. */
START_TEST(abort__not_believed)
{
	static struct lone lone;
	uint64_t token;

	lone_open(&lone);
	token = announce(&lone);
	say_abort(&lone, 3, token + 1, 1 << 3);
	say_abort(&lone, 3, 0, 1 << 3);
	say_abort(&lone, 2, token, 1 << 2);
	say_abort(&lone, 3, token, 1 << 2 | 1 << 3);
	check_ended(&lone, false);
	ck_assert_uint_eq(lone_stats(&lone).drop_token, 4);
	lone_close_all(&lone);
}
END_TEST

/* A report of a partner that has understood us before is not believed, either. */
START_TEST(abort__by_a_partner)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	send_long(&lone);
	say_abort(&lone, 3, lone.token_out, 1 << 3);
	check_ended(&lone, false);
	lone_close_all(&lone);
}
END_TEST

/* A first packet of another version: its sender learns what we understand. */
START_TEST(abort__answers_another_version)
{
	static struct lone lone;
	struct wire_packet packet = {.h = {.type = WIRE_HELLO_ONLY, .flags = WIRE_F_HELLO,
		.src = 0x51c, .dst = 0xd57}, .hello = {.token = 0x70ce4}};

	lone_open(&lone);
	lone.in_len = wire_encode(lone.in, &packet, NULL, NULL);
	lone.in[0] = WIRE_VERSION + 1;
	lone.from = (struct ripc__addr){.len = 1, .blob = {2}};
	while (lone.in_len)
		ripc_poll(lone.ctx);
	ck_assert(lone_hear(&lone, 0, WIRE_ABORT, &packet));
	ck_assert_uint_eq(packet.h.src, 0xd57);
	ck_assert_uint_eq(packet.h.dst, 0x51c);
	ck_assert_uint_eq(packet.h.number, 0x70ce4);
	ck_assert_uint_eq(packet.value, 1 << WIRE_VERSION);
	lone_close_all(&lone);
}
END_TEST

/* Hands over a packet as it is; returns how many datagrams that made the context send. */
static uint32_t hand(struct lone *lone, const struct wire_packet *packet, uint8_t version)
{
	uint32_t before = lone->n_sent;

	lone->in_len = wire_encode(lone->in, packet, NULL, NULL);
	lone->in[0] = version;
	wire_checksum(lone->in, lone->in_len, 0);
	lone->from = (struct ripc__addr){.len = 1, .blob = {2}};
	while (lone->in_len)
		ripc_poll(lone->ctx);
	return lone->n_sent - before;
}

/* Two who do not understand each other would go on for ever. */
START_TEST(abort__is_not_answered)
{
	static struct lone lone;
	const struct wire_packet packet = {.h = {.type = WIRE_ABORT, .src = 0x51c, .dst = 0xd57},
		.value = 4};

	lone_open(&lone);
	ck_assert_uint_eq(hand(&lone, &packet, 2), 0);
	ck_assert_uint_eq(lone_stats(&lone).drop_token, 1);
	lone_close_all(&lone);
}
END_TEST

/* A first packet that lacks what makes a partner gets no answer, and no partner is made. */
START_TEST(hello__that_lacks_something)
{
	static struct lone lone;
	struct wire_packet hello = {.h = {.type = WIRE_HELLO_ONLY, .flags = WIRE_F_HELLO,
		.src = 0x51c}, .hello = {.token = 0x70ce4, .service = 0x5e41, .context = 0xc0}};
	struct wire_packet lacking;

	lone_open(&lone);
	hello.h.dst = ripc_service_incarnation(lone.svc);
	hello.hello.to_service = ripc_service_id(lone.svc);
	lacking = hello;
	lacking.hello.to_service++;
	ck_assert_uint_eq(hand(&lone, &lacking, WIRE_VERSION), 0);
	lacking = hello;
	lacking.hello.token = 0;
	ck_assert_uint_eq(hand(&lone, &lacking, WIRE_VERSION), 0);
	lacking = hello;
	lacking.hello.service = 0;
	ck_assert_uint_eq(hand(&lone, &lacking, WIRE_VERSION), 0);
	lacking = hello;
	lacking.h.src = 0;
	ck_assert_uint_eq(hand(&lone, &lacking, WIRE_VERSION), 0);
	ck_assert_uint_eq(lone_stats(&lone).drop_malformed, 4);
	/* Complete, but without a proof: it is asked for one. */
	ck_assert_uint_eq(hand(&lone, &hello, WIRE_VERSION), 1);
	ck_assert_uint_eq(lone_stats(&lone).drop_proof, 1);
	ck_assert_uint_eq(lone_stats(&lone).partners, 0);
	lone_close_all(&lone);
}
END_TEST

/* Asked for other proofs without end, it repeats its announcements once in a while. */
START_TEST(retry__again_and_again)
{
	static struct lone lone;
	struct wire_packet retry = {.h.type = WIRE_RETRY};
	uint64_t token, sent;

	lone_open(&lone);
	token = announce(&lone);
	for (int i = 1; i < LONGS; i++)
		send_long(&lone);
	lone.token_out = token; /* goes into the packet's header */
	retry.value = 0x1;
	lone_say(&lone, &retry, NULL, NULL);
	sent = lone_stats(&lone).datagrams_sent;
	for (int i = 0; i < 100; i++) {
		retry.value++;
		lone_say(&lone, &retry, NULL, NULL);
	}
	ck_assert_uint_eq(lone_stats(&lone).datagrams_sent, sent);
	/* But the last proof counts. */
	lone_pass(&lone, 100000);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &retry));
	ck_assert_uint_eq(retry.hello.proof, 101);
	lone_close_all(&lone);
}
END_TEST

/* The same with hellos that bear ever new tokens. */
START_TEST(hello__ever_new_tokens)
{
	static struct lone lone;
	struct wire_packet hello = {.h = {.type = WIRE_HELLO_ONLY, .flags = WIRE_F_HELLO},
		.hello = {.token = 1, .service = 0x5e41, .context = 0xc0, .unasked = 65536}};
	uint64_t sent;

	lone_open(&lone);
	lone_introduce(&lone);
	for (int i = 0; i < LONGS; i++)
		send_long(&lone);
	lone_say(&lone, &hello, NULL, NULL);
	sent = lone_stats(&lone).datagrams_sent;
	for (int i = 0; i < 100; i++) {
		hello.hello.token++;
		lone_say(&lone, &hello, NULL, NULL);
	}
	ck_assert_uint_eq(lone_stats(&lone).datagrams_sent, sent);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		abort__by_another_version, abort__not_believed, abort__by_a_partner,
		abort__answers_another_version, abort__is_not_answered,
		hello__that_lacks_something, retry__again_and_again, hello__ever_new_tokens,
		NULL,
	};

	return suite_run("input", tests);
}
