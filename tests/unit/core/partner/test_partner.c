/* SPDX-License-Identifier: BSD-3-Clause */
/* Verified identities of partners, their addresses and lifetimes, and the room for partners. */
#include "core/partner/partner.h"
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

static uint32_t concerned_by(struct ripc_context *ctx, uint64_t id)
{
	uint32_t n = 0;

	for (struct ripc_service *at = ripc__partners_of(ctx, id); at; at = at->concerned)
		n++;
	return n;
}

/* News of an ID concern those that have a partner of that ID, and no others are looked at. */
START_TEST(partners_of__finds_those_concerned)
{
	static struct lone lone;
	struct ripc_service *services[100];
	const struct iovec item = {"word", 4};
	uint64_t ids[100] = {0};

	lone_open(&lone);
	lone_introduce(&lone);
	ck_assert_uint_eq(concerned_by(lone.ctx, lone.service), 1);
	ck_assert_int_eq(ripc_services_open(lone.ctx, ids, 100, 0, services), 100);
	ck_assert_uint_eq(concerned_by(lone.ctx, lone.service), 1);
	ck_assert_ptr_eq(ripc__partners_of(lone.ctx, lone.service), lone.svc);
	ck_assert_uint_eq(concerned_by(lone.ctx, lone.service + 1), 0);
	for (uint32_t i = 0; i < 3; i++) {
		ripc_send_short(services[10 * i], lone.service, &item, 1);
		ck_assert_uint_eq(concerned_by(lone.ctx, lone.service), 2 + i);
	}
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert_int_eq(ripc_service_close(services[10 * i]), 0);
		ck_assert_uint_eq(concerned_by(lone.ctx, lone.service), 3 - i);
	}
	lone_close_all(&lone);
}
END_TEST

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
	/* The partner answers every query. */
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

/* A neighbour says first that it lives in the context: the true one is reached nevertheless. */
START_TEST(hello__of_neighbour_in_the_same_context)
{
	static struct lone lone;
	uint64_t service;

	lone_open(&lone);
	service = lone.service;
	lone.service = 0xbad1d;
	lone.incarnation = 0xbad17c;
	lone.house = 2;
	intrude(&lone);
	ck_assert_uint_ne(lone.token_out, 0);
	lone.service = service;
	lone.incarnation = 0x14c;
	lone.token_in = 0x70ce4;
	lone.token_out = lone.proof = 0;
	lone.host = 2;
	lone_introduce(&lone);
	check_short(&lone, 2, 0x70ce4);
	lone_close_all(&lone);
}
END_TEST

/* Somebody claims the incarnation of another, with an ID or a context of its own. */
static void claim(uint64_t service, uint64_t context)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	uint64_t true_service;

	lone_open(&lone);
	true_service = lone.service;
	lone.service = service ? service : true_service;
	lone.context = context;
	lone_claim(&lone);
	lone.service = true_service;
	ck_assert_int_eq(ripc_send_short(lone.svc, true_service, &item, 1), 0);
	lone_answer(&lone, lone.incarnation, 0xc0, 5);
	lone.n_sent = 0;
	ck_assert_int_eq(ripc_send_short(lone.svc, true_service, &item, 1), 0);
	ck_assert_uint_gt(lone.n_sent, 0);
	ck_assert_uint_eq(lone.sent_to[lone.n_sent - 1], 5);
	/* The true one has its own place, whoever came first. */
	lone.context = 0xc0;
	lone.host = 5;
	lone.token_in = 0x60d;
	lone.token_out = lone.proof = 0;
	lone_claim(&lone);
	check_short(&lone, 5, 0x60d);
	lone_close_all(&lone);
}

START_TEST(hello__of_known_incarnation_with_another_id)
{
	claim(0xbad1d, 0xc0);
}
END_TEST

START_TEST(hello__of_known_incarnation_in_another_context)
{
	claim(0, 0xbadc0);
}
END_TEST

/* A host cannot claim two IDs for one incarnation. */
START_TEST(hello__of_two_ids_at_once)
{
	static struct lone lone;
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY};
	uint64_t partners;

	lone_open(&lone);
	lone_introduce(&lone);
	partners = lone_stats(&lone).partners;
	lone.token_out = 0;
	lone.service++;
	lone_say(&lone, &hello, NULL, NULL);
	ck_assert_uint_eq(lone_stats(&lone).partners, partners);
	lone_close_all(&lone);
}
END_TEST

/* ---- dead or alive ----------------------------------------------------------------------- */

static void say_gone(struct lone *lone)
{
	struct wire_packet gone = {.h.type = WIRE_GONE, .h.number = lone->token_in, .value = 1};

	lone_say(lone, &gone, NULL, NULL);
}

static void say_short(struct lone *lone, uint64_t number)
{
	struct wire_packet packet = {.h = {.type = WIRE_SHORT, .number = number}, .n_items = 1,
		.payload_len = 4};
	const uint64_t len = 4;

	lone_say(lone, &packet, &len, "word");
}

static void check_received(struct lone *lone, bool any)
{
	struct ripc_msg *msg = NULL;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), any ? 0 : -EAGAIN);
	ripc_msg_free(msg);
}

/*
 * A partner that was taken for dead says hello from elsewhere, with a short: it gets another token.
 */
static void come_back(struct lone *lone, uint64_t number)
{
	struct wire_packet hello;
	uint32_t since = lone->n_sent;

	lone->token_out = 0;
	lone->host = 3;
	say_short(lone, number);
	ck_assert(lone_hear(lone, since, WIRE_RETRY, &hello));
	lone->proof = hello.value;
	since = lone->n_sent;
	say_short(lone, number);
	ck_assert(lone_hear(lone, since, WIRE_HELLO_ONLY, &hello));
	ck_assert_uint_eq(lone->sent_to[(lone->n_sent - 1) % LONE_SENT_MAX], 3);
	lone->token_out = hello.hello.token;
}

/* Another host had its address and said that it is gone: it lives, and is heard again. */
START_TEST(gone__was_a_mistake)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	say_short(&lone, 1);
	check_received(&lone, true);
	say_gone(&lone);
	/* Earlier packets of it that come late have no effect, with its token or a hello. */
	say_short(&lone, 2);
	check_received(&lone, false);
	come_back(&lone, 3);
	check_received(&lone, false);
	/* Packets with a token that was made afterwards have. */
	say_short(&lone, 3);
	check_received(&lone, true);
	say_short(&lone, 1);
	check_received(&lone, false);
	lone_close_all(&lone);
}
END_TEST

/* Nobody but the partner knows both tokens: with one alone wrong a goodbye is a forgery. */
START_TEST(goodbye__needs_both_tokens)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	lone.token_in++;
	say_gone(&lone);
	lone.token_in--;
	lone.token_out++;
	say_gone(&lone);
	lone.token_out--;
	say_short(&lone, 1);
	check_received(&lone, true);
	say_gone(&lone);
	say_short(&lone, 2);
	check_received(&lone, false);
	lone_close_all(&lone);
}
END_TEST

/* A closing context says so to its partner, once, with both tokens. */
START_TEST(goodbye__when_the_service_closes)
{
	static struct lone lone;
	struct wire_packet gone;
	uint64_t token_in, token_out;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_short(&lone, 1);
	since = lone.n_sent;
	token_in = lone.token_in;
	token_out = lone.token_out;
	lone_close_all(&lone);
	ck_assert_uint_eq(lone.n_sent, since + 1);
	ck_assert(lone_hear(&lone, since, WIRE_GONE, &gone));
	ck_assert_uint_eq(gone.h.token, token_in);
	ck_assert_uint_eq(gone.h.number, token_out);
	ck_assert_uint_eq(gone.value, 0);
}
END_TEST

/*
 * A partner returns after its goodbye, while a message of it is still unread: its messages arrive,
 * wherever it is found.
 */
static void gone_unread(bool is_resolved)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};

	lone_open(&lone);
	lone_introduce(&lone);
	say_short(&lone, 1);
	say_gone(&lone);
	if (is_resolved) {
		ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
		lone.host = 4;
		lone_answer(&lone, lone.incarnation, lone.context, lone.host);
		lone.token_out = 0;
		lone_introduce(&lone);
	} else {
		come_back(&lone, 2);
	}
	check_received(&lone, true);
	say_short(&lone, 2);
	check_received(&lone, true);
	ck_assert_uint_eq(lone_stats(&lone).drop_queue_full, 0);
	lone_close_all(&lone);
}

START_TEST(gone__while_unread)
{
	gone_unread(false);
}
END_TEST

START_TEST(gone__while_unread__and_resolved)
{
	gone_unread(true);
}
END_TEST

/* The partner is dead, but the resolver finds it elsewhere. */
START_TEST(gone__but_the_resolver_names_it)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};

	lone_open(&lone);
	lone_claim(&lone);
	say_gone(&lone);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	lone_answer(&lone, lone.incarnation, lone.context, 4);
	ck_assert_uint_eq(lone.sent_to[(lone.n_sent - 1) % LONE_SENT_MAX], 4);
	check_short(&lone, 4, 0);
	lone_close_all(&lone);
}
END_TEST

/*
 * The partner lives, and knows us by the token that we gave it: another one, from another address,
 * would make a second partner there, which takes what is repeated for new.
 */
START_TEST(gone__keeps_the_token_given)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	struct wire_packet packet;
	uint64_t given;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	given = lone.token_out;
	say_gone(&lone);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	since = lone.n_sent;
	lone_answer(&lone, lone.incarnation, lone.context, 4);
	lone_pass(&lone, 200000); /* no other holder answers */
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	ck_assert_uint_eq(packet.h.token, 0);
	ck_assert_uint_eq(packet.hello.token, given);
	lone_close_all(&lone);
}
END_TEST

/* Does an echo from a host get a reply? If not, it gets a RETRY. */
static bool echo_is_answered(struct lone *lone, uint8_t host, uint64_t stamp)
{
	struct wire_packet echo = {.h.type = WIRE_ECHO, .value = 0xa5c, .stamp = stamp}, packet;
	uint32_t since = lone->n_sent;
	uint8_t home = lone->host;
	bool is_answered;

	lone->host = host;
	lone_say(lone, &echo, NULL, NULL);
	lone->host = home;
	ck_assert_uint_eq(lone->n_sent - since, 1);
	ck_assert_uint_eq(lone->sent_to[since % LONE_SENT_MAX], host);
	is_answered = lone_hear(lone, since, WIRE_ECHO_REPLY, &packet);
	if (is_answered)
		ck_assert_uint_eq(packet.value, 0xa5c);
	else
		ck_assert(lone_hear(lone, since, WIRE_RETRY, &packet));
	return is_answered;
}

/*
 * The partner was taken for gone, and asks from a new address whether we gave it its token. A RETRY
 * would deny it, and its next packets would be taken for new (sim --addresses --seed 123).
 */
START_TEST(gone__its_token_is_still_ours)
{
	static struct lone lone;

	lone_open(&lone);
	lone_introduce(&lone);
	say_short(&lone, 1);
	check_received(&lone, true);
	say_gone(&lone);
	ck_assert(echo_is_answered(&lone, 4, 0));
	ck_assert(echo_is_answered(&lone, lone.host, 0));
	ck_assert(!echo_is_answered(&lone, 4, 42)); /* a ping */
	say_short(&lone, 2);
	check_received(&lone, false);
	lone_close_all(&lone);
}
END_TEST

/* A partner that had only claimed its ID: an attacker may have its token. */
START_TEST(gone__the_token_of_a_claimant)
{
	static struct lone lone;

	lone_open(&lone);
	lone_claim(&lone);
	say_short(&lone, 1);
	check_received(&lone, true);
	say_gone(&lone);
	ck_assert(!echo_is_answered(&lone, 4, 0));
	ck_assert(echo_is_answered(&lone, lone.host, 0));
	lone_close_all(&lone);
}
END_TEST

/* The resolver names its incarnation in another context: no number is used twice towards it. */
START_TEST(numbers__go_on_with_a_second_partner)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	struct wire_packet packet;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	say_gone(&lone);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	since = lone.n_sent;
	lone_answer(&lone, lone.incarnation, lone.context + 1, 4);
	lone_pass(&lone, 200000);
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	ck_assert_uint_eq(packet.h.number, 4);
	lone_close_all(&lone);
}
END_TEST

/*
 * The partner is dead, and the resolver names it elsewhere: packets repeated from there have come
 * before.
 */
START_TEST(numbers__are_inherited_by_a_second_partner)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint32_t since;

	lone_open(&lone);
	lone_claim(&lone);
	say_short(&lone, 1);
	check_received(&lone, true);
	say_gone(&lone);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	since = lone.n_sent;
	lone.host = 4;
	lone_answer(&lone, lone.incarnation, lone.context, lone.host);
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	lone.token_out = packet.hello.token;
	hello.h.flags = WIRE_F_HELLO;
	hello.hello = (struct wire_hello){.token = lone.token_in, .service = lone.service,
		.context = lone.context, .to_service = ripc_service_id(lone.svc),
		.unasked = 65536};
	lone_say(&lone, &hello, NULL, NULL);
	say_short(&lone, 1);
	check_received(&lone, false);
	say_short(&lone, 2);
	check_received(&lone, true);
	lone_close_all(&lone);
}
END_TEST

/* A host that now has an address of before says that nobody is there: the route leads elsewhere. */
START_TEST(gone__from_an_address_that_was_left)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	struct wire_packet packet;
	uint32_t since;

	lone_open(&lone);
	lone_introduce(&lone);
	say_gone(&lone);
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	since = lone.n_sent;
	lone_answer(&lone, lone.incarnation, lone.context, 4);
	lone_pass(&lone, 200000); /* no other holder answers */
	ck_assert(lone_hear(&lone, since, WIRE_SHORT, &packet));
	lone.token_out = packet.hello.token;
	lone.token_in = 0;
	say_gone(&lone);
	check_short(&lone, 4, 0);
	lone.host = 4;
	say_gone(&lone);
	since = lone.n_sent;
	ck_assert_int_eq(ripc_send_short(lone.svc, lone.service, &item, 1), 0);
	ck_assert(!lone_hear(&lone, since, WIRE_SHORT, &packet));
	lone_close_all(&lone);
}
END_TEST

/* ---- room -------------------------------------------------------------------------------- */

/* Gets a proof for an address. */
static void prove(struct lone *lone, uint8_t host)
{
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint32_t since = lone->n_sent;

	lone->host = host;
	lone->token_out = lone->proof = 0;
	lone->incarnation++;
	lone_say(lone, &hello, NULL, NULL);
	ck_assert(lone_hear(lone, since, WIRE_RETRY, &packet));
	lone->proof = packet.value;
}

/*
 * The number of incarnations at that address, each of which leaves something to remember if asked
 * to.
 */
static void crowd(struct lone *lone, uint8_t host, uint32_t n, bool to_remember)
{
	prove(lone, host);
	for (uint32_t i = 0; i < n; i++) {
		struct wire_packet packet = {.h.type = to_remember ? WIRE_CANCEL : WIRE_HELLO_ONLY,
			.h.number = to_remember, .announce.oldest = to_remember};

		lone->incarnation++;
		lone_say(lone, &packet, NULL, NULL);
	}
}

/*
 * A hundred thousand identities of one attacker that leave nothing to remember take only its own
 * room.
 */
START_TEST(hello__of_a_hundred_thousand)
{
	static struct lone lone;

	lone_open(&lone);
	crowd(&lone, 2, 100000, false);
	ck_assert_uint_le(lone_stats(&lone).partners, 65536 / 4);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, 0);
	lone_close_all(&lone);
}
END_TEST

/* One host takes a quarter of the room at most, and no more than it leaves free. */
START_TEST(hello__of_more_than_there_is_room_for)
{
	static struct lone lone;
	const struct iovec item = {"word", 4};
	const uint64_t refused = 20000 - 65536 / 4 + 65536 / 8;
	uint64_t dropped;

	lone_open(&lone);
	crowd(&lone, 2, 20000, true);
	ck_assert_uint_eq(lone_stats(&lone).partners, 65536 / 4);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, 20000 - 65536 / 4);
	crowd(&lone, 3, 65536 / 4, true);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, 20000 - 65536 / 4);
	crowd(&lone, 4, 65536 / 4, true);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, refused);
	/* Newcomers from elsewhere find room. */
	for (uint8_t host = 5; host < 13; host++)
		crowd(&lone, host, 1, true);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, refused);
	ck_assert_int_eq(ripc_send_short(lone.svc, 0x50ebd, &item, 1), 0);
	/*
	 * Packets that a sender may still repeat are remembered; then their record gives way to
	 * others.
	 */
	dropped = lone_stats(&lone).drop_partner_limit;
	lone.now_us += 39000000;
	crowd(&lone, 4, 100, true);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, dropped + 100);
	lone.now_us += 2000000;
	crowd(&lone, 4, 100, true);
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, dropped + 100);
	lone_close_all(&lone);
}
END_TEST

/* Many hosts, each with so many that leave something to remember if asked to. */
static void crowds(struct lone *lone, uint16_t first, uint16_t end, uint32_t n, bool to_remember)
{
	for (lone->house = first; lone->house < end; lone->house++) {
		lone->now_us += 1000; /* strangers get few answers at a time */
		crowd(lone, 2, n, to_remember);
	}
	lone->house = 0;
}

/* Its token comes back, with a short. */
static bool is_heard(struct lone *lone, uint64_t token, uint64_t number)
{
	struct wire_packet word = {.h = {.type = WIRE_SHORT, .number = number}, .n_items = 1,
		.payload_len = 4};
	struct ripc_msg *msg;

	lone->token_out = token;
	lone_say(lone, &word, NULL, "word");
	lone->token_out = 0;
	if (ripc_receive(lone->svc, 0, &msg))
		return false;
	ripc_msg_free(msg);
	return true;
}

/* A newcomer says hello with a short; the token that it is given. */
static uint64_t arrive(struct lone *lone, uint16_t house)
{
	struct wire_packet word = {.h = {.type = WIRE_SHORT, .number = 1}, .n_items = 1,
		.payload_len = 4}, hello;
	uint32_t since;

	lone->house = house;
	prove(lone, 2);
	lone->incarnation++;
	since = lone->n_sent;
	lone_say(lone, &word, NULL, "word");
	ck_assert(lone_hear(lone, since, WIRE_HELLO_ONLY, &hello));
	return hello.hello.token;
}

/* However many hosts have taken all they get, who comes from yet another one is admitted. */
START_TEST(hello__of_more_hosts_than_there_is_room_for)
{
	static struct lone lone;
	uint64_t dropped, token, proven;
	struct ripc_msg *msg;

	lone_open(&lone);
	crowds(&lone, 1000, 1018, 65536 / 4, true);
	ck_assert_uint_ge(lone_stats(&lone).partners, 65536 / 4 * 3 - 1);
	dropped = lone_stats(&lone).drop_partner_limit;
	/* The contents of the first packet count once our token comes back, and then only once. */
	token = arrive(&lone, 2000);
	ck_assert_int_eq(ripc_receive(lone.svc, 0, &msg), -EAGAIN);
	ck_assert(is_heard(&lone, token, 1));
	ck_assert(!is_heard(&lone, token, 1));
	proven = lone.incarnation++;
	/* The last places change hands: the oldest that are not proven go first. */
	crowds(&lone, 3000, 3000 + 65536 / 16 / 8, 8, true);
	ck_assert(is_heard(&lone, arrive(&lone, 2001), 1));
	crowds(&lone, 4000, 4000 + 65536 / 16 / 8, 8, true);
	ck_assert(is_heard(&lone, arrive(&lone, 2002), 1));
	ck_assert_uint_eq(lone_stats(&lone).drop_partner_limit, dropped);
	ck_assert_uint_le(lone_stats(&lone).partners, 65536 / 16 * 13);
	lone.incarnation = proven;
	ck_assert(is_heard(&lone, token, 2));
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		partners_of__finds_those_concerned,
		hello__of_known_partner_from_elsewhere,
		hello__of_known_context_from_elsewhere,
		hello__of_neighbour_in_the_same_context,
		hello__of_known_incarnation_with_another_id,
		hello__of_known_incarnation_in_another_context,
		hello__of_two_ids_at_once,
		gone__was_a_mistake,
		goodbye__needs_both_tokens,
		goodbye__when_the_service_closes,
		gone__while_unread,
		gone__while_unread__and_resolved,
		gone__but_the_resolver_names_it,
		gone__keeps_the_token_given,
		gone__from_an_address_that_was_left,
		numbers__go_on_with_a_second_partner,
		gone__its_token_is_still_ours, gone__the_token_of_a_claimant,
		numbers__are_inherited_by_a_second_partner,
		hello__of_a_hundred_thousand,
		hello__of_more_than_there_is_room_for,
		hello__of_more_hosts_than_there_is_room_for, NULL,
	};

	return suite_run("partner", tests);
}
