/* SPDX-License-Identifier: BSD-3-Clause */
/* A partner of whom it is said that it has ended: asked, and only its silence counts. */
#include "core/engine/internal.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "lone.h"
#include "ripc/call.h"

#define WINDOW_US 250000u /* the longest that a partner on a short path may be silent */

static void hint_quoting(struct lone *lone, uint8_t host, const uint8_t *quote, size_t len)
{
	const struct ripc__addr from = {.len = 1, .blob = {host}};
	const struct ripc__event event = {.kind = RIPC_EV_HINT, .from = &from, .data = quote,
		.len = (uint32_t)len};

	ripc__input_event(lone->ctx, &lone->ctx->peers.devices[0], &event);
}

/* The header of any packet to the partner; with its hello where the token has not come yet. */
static size_t packet_to(struct lone *lone, uint64_t token, uint64_t hello, uint8_t *bytes)
{
	struct wire_packet packet = {.h.type = WIRE_HELLO_ONLY, .h.token = token, .h.number = 0,
		.h.src = ripc_service_incarnation(lone->svc), .h.dst = lone->incarnation,
		.h.flags = hello ? WIRE_F_HELLO : 0, .hello.token = hello};

	return wire_encode(bytes, &packet, NULL, NULL);
}

static void hint(struct lone *lone, uint8_t host)
{
	uint8_t quote[WIRE_HEADER_MAX];
	size_t len = packet_to(lone, lone->token_in, 0, quote);

	hint_quoting(lone, host, quote, len);
}

static void expect_nothing(struct lone *lone)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), -EAGAIN);
}

/*
 * The echoes of one inquiry, which has one nonce, that of the first echo; others ask about the
 * address.
 */
static uint32_t n_echoes(struct lone *lone, uint32_t since)
{
	struct wire_packet packet;
	uint64_t nonce = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < lone->n_sent; i++) {
		if (wire_decode(lone->sent[i % LONE_SENT_MAX], lone->sent_len[i % LONE_SENT_MAX],
				&packet) || packet.h.type != WIRE_ECHO)
			continue;
		nonce = nonce ? nonce : packet.value;
		n += i >= since && packet.value == nonce;
	}
	return n;
}

/*
 * Asked eight times; then what was wholly sent is unknown, and what was not was not delivered. From
 * 2 on the network vouches for the hint, and quotes nothing.
 */
START_TEST(hint__then_silence)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	hint_quoting(&lone, (uint8_t)(lone.host + 1), NULL, 0); /* nobody lives there */
	since = lone.n_sent;
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, _i % 2 ? LONE_LONG : 100), 0);
	if (_i < 2)
		hint(&lone, lone.host);
	else
		hint_quoting(&lone, lone.host, NULL, 0);
	lone_pass(&lone, WINDOW_US - 20000);
	ck_assert_uint_eq(n_echoes(&lone, since), 8);
	expect_nothing(&lone);
	lone_pass(&lone, 60000);
	lone_expect_end(&lone, _i % 2 ? RIPC_NOT_DELIVERED : RIPC_UNKNOWN);
	lone_close_all(&lone);
}
END_TEST

/* A newer incarnation of its ID has come elsewhere: so may the old one have ended. */
START_TEST(hint__successor)
{
	static struct lone lone;
	struct wire_resolve notice = {.type = WIRE_RECORD};
	struct wire_record *record = &notice.record;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	since = lone.n_sent;
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	*record = (struct wire_record){.id = lone.service, .incarnation = lone.incarnation + !_i,
		.stamp = 2, .context = lone.context + !_i, .n_addrs = 1,
		.addrs[0] = {.backend = lone_backend.id, .len = 1, .blob = {3}}};
	lone.answer_len = wire_resolve_encode(lone.answer, &notice);
	lone_pass(&lone, 20000); /* the sources are looked at so often, at least */
	ck_assert_uint_eq(lone.answer_len, 0);
	ck_assert_uint_eq(n_echoes(&lone, since), _i ? 0 : 1);
	lone_pass(&lone, WINDOW_US + 10000);
	if (!_i)
		ck_assert_uint_eq(n_echoes(&lone, since), 8);
	if (_i)
		expect_nothing(&lone);
	else
		lone_expect_end(&lone, RIPC_UNKNOWN);
	lone_close_all(&lone);
}
END_TEST

/* New and remaining messages go to the next owner. */
START_TEST(hint__next_holder_gets_what_is_left)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	ck_assert_int_eq(lone_send_long(&lone, 0, LONE_LONG), 0);
	hint(&lone, lone.host);
	lone_pass(&lone, WINDOW_US + 10000);
	lone_expect_next_holder(&lone, 3);
	lone_close_all(&lone);
}
END_TEST

/* Its host has another address, where nobody listens at the old one: the message goes after it. */
START_TEST(hint__partner_has_moved)
{
	static struct lone lone;
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY}, again;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	lone.n_asked = 0;
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	hint(&lone, lone.host);
	lone_pass(&lone, WINDOW_US / 2);
	ck_assert_uint_gt(lone.n_asked, 0);
	ck_assert_uint_eq(lone.asked_id, lone.service);
	lone.host++;
	lone_answer(&lone, lone.incarnation, lone.context, lone.host);
	ck_assert(lone_hear(&lone, 0, WIRE_ECHO, &echo));
	since = lone.n_sent;
	reply.value = echo.value;
	lone_say(&lone, &reply, NULL, NULL);
	lone_pass(&lone, WINDOW_US);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &again));
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/*
 * The partner leaves the address that the resolver has found, too: the resolver is asked once more.
 */
START_TEST(hint__partner_has_moved_twice)
{
	static struct lone lone;
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY}, again;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	hint(&lone, lone.host);
	lone_pass(&lone, WINDOW_US * 2 / 5);
	lone_answer(&lone, lone.incarnation, lone.context, lone.host + 1);
	lone.n_asked = 0;
	lone_pass(&lone, WINDOW_US / 4);
	ck_assert_uint_gt(lone.n_asked, 0);
	lone.host += 2;
	since = lone.n_sent;
	lone_answer(&lone, lone.incarnation, lone.context, lone.host);
	lone_pass(&lone, WINDOW_US / 10);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO, &echo));
	since = lone.n_sent;
	reply.value = echo.value;
	lone_say(&lone, &reply, NULL, NULL);
	lone_pass(&lone, WINDOW_US);
	ck_assert(lone_hear(&lone, since, WIRE_ANNOUNCE, &again));
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/*
 * 0: the partner answers; 1: it speaks, with another nonce: it lives; 2: somebody without its token
 * answers, which counts for nothing.
 */
START_TEST(hint__may_be_forged)
{
	static struct lone lone;
	struct wire_packet echo, says = {.h.type = WIRE_ECHO_REPLY};

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	ck_assert_int_eq(lone_send_long(&lone, 0, 100), 0);
	hint(&lone, lone.host);
	ck_assert(lone_hear(&lone, 0, WIRE_ECHO, &echo));
	says.value = _i ? 1 : echo.value;
	lone_pass(&lone, 10000);
	lone.token_out += _i == 2;
	lone_say(&lone, &says, NULL, NULL);
	lone_pass(&lone, WINDOW_US);
	if (_i == 2)
		lone_expect_end(&lone, RIPC_UNKNOWN);
	else
		expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* Only a packet that went to the partner makes it doubtful: the token shows that it is one. */
START_TEST(hint__quotes_a_packet_to_the_partner)
{
	static const struct {
		int token, hello; /* 0: none; 1: the right one; 2: another */
		size_t cut;       /* of the quote, bytes */
		uint32_t asked;
	} cases[] = {{1, 0, 0, 1}, {2, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 1, 0}, {1, 0, WIRE_HEADER, 0},
		{0, 1, 0, 1}, {0, 2, 0, 0}, {0, 1, WIRE_HELLO - 7, 0}};
	static struct lone lone;
	uint8_t quote[WIRE_HEADER_MAX];
	uint32_t since;
	size_t len;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	since = lone.n_sent;
	len = packet_to(&lone, cases[_i].token ? lone.token_in ^ (cases[_i].token == 2) : 0,
		cases[_i].hello ? lone.token_out ^ (cases[_i].hello == 2) : 0, quote);
	hint_quoting(&lone, lone.host, quote, len - cases[_i].cut);
	ck_assert_uint_eq(n_echoes(&lone, since), cases[_i].asked);
	lone_close_all(&lone);
}
END_TEST

/*
 * The partner was never heard, at whatever time of the clock (_i: the coarse clock is in its upper
 * half): its silence counts as silence.
 */
START_TEST(hint__never_heard)
{
	static struct lone lone;
	struct wire_packet announce;
	uint8_t quote[WIRE_HEADER_MAX];
	size_t len;

	lone_open(&lone);
	lone.now_us += (uint64_t)_i * (3ull << 40);
	ripc_poll(lone.ctx);
	ck_assert_int_eq(lone_send_long(&lone, 0, 100), 0);
	lone_answer(&lone, lone.incarnation, lone.context, lone.host);
	ck_assert(lone_hear(&lone, 0, WIRE_ANNOUNCE, &announce));
	len = packet_to(&lone, 0, announce.hello.token, quote);
	hint_quoting(&lone, lone.host, quote, len);
	lone_pass(&lone, WINDOW_US + 20000);
	lone_expect_end(&lone, RIPC_UNKNOWN);
	lone_close_all(&lone);
}
END_TEST

/* However many hints come, a partner is asked once if it answers (0), else eight times (1). */
START_TEST(hint__many)
{
	static struct lone lone;
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY};
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	since = lone.n_sent;
	hint(&lone, lone.host);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO, &echo));
	reply.value = echo.value;
	if (_i == 0)
		lone_say(&lone, &reply, NULL, NULL);
	for (int i = 0; i < 100; i++) {
		hint(&lone, lone.host);
		hint(&lone, lone.host + 1); /* where nobody is known */
		lone_pass(&lone, WINDOW_US / 110);
	}
	ck_assert_uint_eq(n_echoes(&lone, since), _i ? 8 : 1);
	lone_close_all(&lone);
}
END_TEST

/* This end was stopped for so long that it heard nothing: the partner is asked again. */
START_TEST(hint__while_stopped)
{
	static struct lone lone;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	lone_pass(&lone, 10000);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	hint(&lone, lone.host);
	lone_pass(&lone, WINDOW_US - 50000);
	since = lone.n_sent;
	lone.now_us += 2000000;
	ripc_poll(lone.ctx);
	ck_assert_uint_eq(n_echoes(&lone, since), 1);
	expect_nothing(&lone);
	lone_pass(&lone, WINDOW_US);
	lone_expect_end(&lone, RIPC_UNKNOWN);
	lone_close_all(&lone);
}
END_TEST

/* ---- what the partner's host says -------------------------------------------------------- */

#define UNANSWERED_US 1500000u /* by then the host of a silent partner was asked */

static void open_elsewhere(struct lone *lone)
{
	static const uint8_t place[16] = {[10] = 0xff, 0xff, 10, 0, 0, 2};

	lone_open(lone);
	memcpy(lone->place, place, sizeof(place));
	lone_introduce(lone);
	lone_pass(lone, 10000);
	lone->n_asked_alone = 0;
}

static void deny(struct lone *lone, bool definite)
{
	const struct wire_resolve answer = {.type = WIRE_NOBODY, .definite = definite,
		.nonce = lone->nonce_alone, .record.id = lone->service};

	lone->answer_len = wire_resolve_encode(lone->answer, &answer);
	lone_pass(lone, 20000); /* the sources are looked at so often, at least */
	ck_assert_uint_eq(lone->answer_len, 0);
}

/* Echoes with another nonce than the first one had, which looked for its address (roam.c). */
static uint32_t n_other_echoes(struct lone *lone, uint32_t since)
{
	struct wire_packet packet;
	uint64_t first = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < lone->n_sent; i++) {
		if (wire_decode(lone->sent[i % LONE_SENT_MAX], lone->sent_len[i % LONE_SENT_MAX],
				&packet) || packet.h.type != WIRE_ECHO)
			continue;
		first = first ? first : packet.value;
		n += i >= since && packet.value != first;
	}
	return n;
}

/* A message is not answered: the host is asked, and only its clear no is a hint. */
START_TEST(silent__host_denies_it)
{
	static struct lone lone;
	uint32_t since;

	open_elsewhere(&lone);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	while (!lone.n_asked_alone && lone.now_us < 1000000000 + 2 * UNANSWERED_US)
		lone_pass(&lone, 10000);
	ck_assert_uint_eq(lone.n_asked_alone, 1);
	ck_assert_uint_eq(lone.asked_id, lone.service);
	since = lone.n_sent;
	deny(&lone, _i == 0);
	ck_assert_uint_eq(n_other_echoes(&lone, since), _i == 0);
	expect_nothing(&lone);
	lone_pass(&lone, WINDOW_US + 10000);
	if (_i == 0)
		lone_expect_end(&lone, RIPC_UNKNOWN);
	else
		expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* The partner was only slow, or its host lies: it answers, and nothing ends. */
START_TEST(silent__host_is_wrong)
{
	static struct lone lone;
	struct wire_packet echo, reply = {.h.type = WIRE_ECHO_REPLY};
	uint32_t since;

	open_elsewhere(&lone);
	ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	lone_pass(&lone, UNANSWERED_US);
	since = lone.n_sent;
	deny(&lone, true);
	ck_assert(lone_hear(&lone, since, WIRE_ECHO, &echo));
	reply.value = echo.value;
	lone_say(&lone, &reply, NULL, NULL);
	lone_pass(&lone, WINDOW_US + 10000);
	expect_nothing(&lone);
	lone_close_all(&lone);
}
END_TEST

/* Nobody answers: the host is asked ever more seldom, whatever is waited for (i: messages). */
START_TEST(silent__host_is_asked_seldom)
{
	static struct lone lone;

	open_elsewhere(&lone);
	for (int i = 0; i < _i * 20 + 1; i++)
		ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	lone_pass(&lone, 9000000);
	ck_assert_uint_ge(lone.n_asked_alone, 4); /* also when its record is forgotten */
	ck_assert_uint_le(lone.n_asked_alone, 8);
	lone_close_all(&lone);
}
END_TEST

/* 0: it owes nothing; 1: it is known only by what it says; 2: nobody knows where it lives. */
START_TEST(silent__host_is_not_asked)
{
	static struct lone lone;

	open_elsewhere(&lone);
	if (_i == 1) {
		lone.service++;
		lone.incarnation++;
		lone.context++;
		lone.token_in++;
		lone.token_out = lone.proof = 0;
		lone_claim(&lone);
	} else if (_i == 2) {
		memset(lone.place, 0, sizeof(lone.place));
		lone_newcomer(&lone, 3);
	}
	lone_pass(&lone, 10000);
	if (_i)
		ck_assert_int_eq(lone_send_long(&lone, lone.incarnation, 100), 0);
	lone.n_asked_alone = 0; /* a claimant's host was asked for its record (claim.c) */
	for (int i = 0; i < 40; i++)
		lone_pass(&lone, 100000);
	ck_assert_uint_eq(lone.n_asked_alone, 0);
	lone_close_all(&lone);
}
END_TEST

/* The ID is watched. */
START_TEST(silent__is_watched)
{
	static struct lone lone;
	struct ripc_msg *msg;

	open_elsewhere(&lone);
	ck_assert_int_eq(ripc_watch(lone.svc, lone.service, 0), 0);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_uint_eq(msg->from_incarnation, lone.incarnation);
	ripc_msg_free(msg);
	lone_pass(&lone, UNANSWERED_US);
	ck_assert_uint_ge(lone.n_asked_alone, 1);
	deny(&lone, true);
	lone_pass(&lone, WINDOW_US + 10000);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), 0);
	ck_assert_uint_eq(msg->from_incarnation, 0);
	ripc_msg_free(msg);
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{hint__then_silence, 4},
		{hint__successor, 2},
		{hint__next_holder_gets_what_is_left, 1},
		{hint__partner_has_moved, 1},
		{hint__partner_has_moved_twice, 1},
		{hint__may_be_forged, 3},
		{hint__quotes_a_packet_to_the_partner, 8},
		{hint__never_heard, 2},
		{hint__many, 2},
		{hint__while_stopped, 1},
		{silent__host_denies_it, 2},
		{silent__host_is_wrong, 1},
		{silent__host_is_asked_seldom, 2},
		{silent__host_is_not_asked, 3},
		{silent__is_watched, 1},
		{NULL, 0},
	};

	return suite_run_loops("hint", loops);
}
