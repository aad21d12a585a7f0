/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes under attack: what strangers and members replay and forge on the link
 * (docs/security.md, Attackers of contexts with keys). ALICE has a route to BOB. EVE is a member,
 * at BOB's host, with BOB's directory of keys.
 */
#include <string.h>

#include "../../../support/util/key_end.h"
#include "core/net/backend.h"
#include "suite.h"

enum { ALICE, BOB, EVE, ENDS };

#define REPLAYS   10000u
#define REKEY_US  (1000ull * REKEY_MS + 1)
#define BEFORE_US 7000000u  /* less than a period of proofs */
#define NEXT_US   9000000u  /* more than one, and less than two */

static const uint8_t secret[32] = {1}, privates[2][32] = {{2}, {3}};
static char dirs[2][KEY_END_DIR];
static struct key_end ends[ENDS];
static _Alignas(16) char route[512];
static struct ripc__event event; /* that core would have got last */

static struct device *device_of(int i)
{
	return &ends[i].ctx->peers.devices[0];
}

static void pass_time(uint64_t us)
{
	for (int i = 0; i < ENDS; i++)
		ends[i].ctx->now_us = ends[i].now_us += us;
}

/* The datagram comes to an end from the address of another one. Returns: core hears of it. */
static bool comes(int to, const struct key_datagram *datagram, int from)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	struct device *device = device_of(to);
	int n;

	ends[to].in = *datagram;
	ends[to].in_from = ends[from].addr;
	n = device->ops->datagrams.poll(device->port, events, RIPC_EVENTS_MAX, true);
	event = events[0];
	return n > 0;
}

/* The one datagram that an end has sent, which is of this kind and goes to that end. */
static struct key_datagram only_one(int from, enum sealed_kind kind, int to)
{
	ck_assert_uint_eq(ends[from].n_sent, 1);
	ends[from].n_sent = 0;
	ck_assert_uint_eq(ends[from].sent[0].bytes[1], kind);
	ck_assert_uint_eq(ends[from].sent[0].to, ends[to].addr.blob[2]);
	return ends[from].sent[0];
}

static void assert_silent(int i)
{
	ck_assert_uint_eq(ends[i].n_sent, 0);
}

static void alice_sends(void)
{
	const struct iovec iov = {(void *)(uintptr_t)"hello", 5};
	const struct ripc__tx tx = {&iov, 1, 5};

	(void)device_of(ALICE)->ops->datagrams.send(device_of(ALICE)->port, route, &tx, 1);
}

static struct member *bob_at_alice(void)
{
	return key_end_member(&ends[ALICE], &ends[BOB]);
}

static void route_open(void)
{
	const struct device *bob = device_of(BOB), *alice = device_of(ALICE);
	uint8_t blob[RIPC_ADDR_MAX];
	int len = bob->ops->net.address(bob->port, blob);
	struct ripc__addr addr;

	ck_assert_int_eq(alice->ops->route.choose(alice->port, blob, (size_t)len,
		ends[BOB].addr.host, &addr), 0);
	ck_assert_int_eq(alice->ops->route.open(alice->port, route, &addr), -EINPROGRESS);
}

/* INIT has come: REPLY, and the empty DATA. */
static void handshake_finish(const struct key_datagram *init)
{
	struct key_datagram passes;

	comes(BOB, init, ALICE);
	passes = only_one(BOB, SEALED_REPLY, ALICE);
	comes(ALICE, &passes, BOB);
	passes = only_one(ALICE, SEALED_DATA, BOB);
	comes(BOB, &passes, ALICE);
	assert_silent(BOB);
}

static struct key_datagram proven_init(void)
{
	struct key_datagram passes;

	route_open();
	passes = only_one(ALICE, SEALED_INIT, BOB);
	comes(BOB, &passes, ALICE);
	passes = only_one(BOB, SEALED_PROOF, ALICE);
	comes(ALICE, &passes, BOB);
	return only_one(ALICE, SEALED_INIT, BOB);
}

static void meet(void)
{
	struct key_datagram init = proven_init();

	handshake_finish(&init);
	ck_assert_ptr_nonnull(bob_at_alice()->current);
}

static void set_up(void)
{
	for (int i = 0; i < 2; i++)
		ck_assert(key_end_dir_make(dirs[i], privates[i], secret));
	for (int i = 0; i < ENDS; i++)
		ck_assert_int_eq(key_end_open(&ends[i], dirs[i != ALICE], (uint8_t)(i + 1),
			ripc__crypto_load), 0);
	memcpy(ends[EVE].addr.host, ends[BOB].addr.host, 16);
}

static void tear_down(void)
{
	if (bob_at_alice()->routes)
		device_of(ALICE)->ops->route.close(device_of(ALICE)->port, route);
	for (int i = 0; i < ENDS; i++)
		ck_assert_int_eq(ripc_close(ends[i].ctx, 0), 0);
	for (int i = 0; i < 2; i++)
		key_end_dir_remove(dirs[i]);
}

static void mac_remake(struct key_datagram *datagram)
{
	const struct seal *seal = ends[EVE].ctx->seal;
	const struct iovec in = {datagram->bytes, datagram->len - SEALED_MAC};
	uint8_t mac[32];

	ck_assert_int_eq(seal->box.ops->mac(seal->box.lib, seal->secrets[0].handshake_key, &in, 1,
		mac), 0);
	memcpy(datagram->bytes + in.iov_len, mac, SEALED_MAC);
}

/* ---- UNKNOWN ----------------------------------------------------------------------------- */

/* The answer of an end without the session to the next datagram of Alice. */
static struct key_datagram unknown_of(int end)
{
	struct key_datagram passes;

	alice_sends();
	passes = only_one(ALICE, SEALED_DATA, BOB);
	comes(end, &passes, ALICE);
	return only_one(end, SEALED_UNKNOWN, ALICE);
}

/* The next datagram of Alice begins a handshake, which goes to Bob. */
START_TEST(unknown__of_the_other_end_renews_keys)
{
	struct key_datagram unknown, init;

	meet();
	ripc__sessions_end(ends[BOB].ctx->seal, key_end_member(&ends[BOB], &ends[ALICE]));
	unknown = unknown_of(BOB);
	ck_assert(!comes(ALICE, &unknown, EVE));
	assert_silent(ALICE);
	for (int i = 0; i < 3; i++) {
		alice_sends();
		ck_assert_uint_eq(ends[ALICE].n_sent, 2);
		init = ends[ALICE].sent[0];
		ck_assert_uint_eq(init.bytes[1], SEALED_INIT);
		ck_assert_uint_eq(init.to, ends[BOB].addr.blob[2]);
		ends[ALICE].n_sent = 0;
		/* The handshake may fail. */
		if (i < 2)
			ripc__handshake_end(ends[ALICE].ctx->seal, bob_at_alice());
	}
	handshake_finish(&init);
	/* A copy of UNKNOWN comes too late. */
	comes(ALICE, &unknown, BOB);
	alice_sends();
	unknown = only_one(ALICE, SEALED_DATA, BOB);
	ck_assert(comes(BOB, &unknown, ALICE));
}
END_TEST

/* Forged ICMP, and UNKNOWNs that Eve's host is made to send, use up nothing that Bob's needs. */
START_TEST(unknown__beside_forged_ones)
{
	struct key_datagram unknown, forged;
	uint8_t quote[SEALED_HEADER] = {0};

	ends[EVE].addr.host[15]++;
	meet();
	ripc__sessions_end(ends[BOB].ctx->seal, key_end_member(&ends[BOB], &ends[ALICE]));
	unknown = unknown_of(BOB);
	forged = unknown_of(EVE);
	ripc__datagram_begin(quote, SEALED_DATA, 12345);
	for (int i = 0; i < 10000; i++) {
		ck_assert_ptr_null(ripc__handshake_quoted(ends[ALICE].ctx->seal, quote,
			sizeof(quote)));
		comes(ALICE, &forged, EVE);
	}
	comes(ALICE, &unknown, BOB);
	alice_sends();
	ck_assert_uint_eq(ends[ALICE].sent[0].bytes[1], SEALED_INIT);
}
END_TEST

/* Eve answers for Bob, with a MAC that is right. Five such answers are a hint. */
START_TEST(unknown__of_another_context_begins_nothing)
{
	struct key_datagram unknown, init;
	const struct session *session;

	meet();
	bob_at_alice()->current->sent = 10;
	for (int i = 0; i < 5; i++) {
		unknown = unknown_of(EVE);
		ck_assert(comes(ALICE, &unknown, BOB) == (i == 4));
		if (i == 4) {
			ck_assert_int_eq(event.kind, RIPC_EV_HINT);
			ck_assert_ptr_null(event.data);
			ck_assert(device_of(ALICE)->ops->route.matches(device_of(ALICE)->port,
				route, event.from));
		}
		for (int j = 0; j < 10; j++)
			ck_assert(!comes(ALICE, &unknown, BOB));
		assert_silent(ALICE);
		ck_assert_uint_eq(bob_at_alice()->handshake, 0);
	}
	/* New keys come into use meanwhile. */
	session = bob_at_alice()->current;
	pass_time(REKEY_US);
	alice_sends();
	comes(ALICE, &unknown, EVE);
	init = ends[ALICE].sent[0];
	ends[ALICE].n_sent = 0;
	ck_assert_uint_eq(init.to, ends[BOB].addr.blob[2]);
	comes(BOB, &init, ALICE);
	init = only_one(BOB, SEALED_PROOF, ALICE); /* that of before is too old */
	comes(ALICE, &init, BOB);
	init = only_one(ALICE, SEALED_INIT, BOB);
	handshake_finish(&init);
	ck_assert_ptr_ne(bob_at_alice()->current, session);
}
END_TEST

/* ---- PROOF ------------------------------------------------------------------------------- */

START_TEST(proof__answers_one_init)
{
	struct key_datagram init, proof, forged;

	route_open();
	init = only_one(ALICE, SEALED_INIT, BOB);
	comes(BOB, &init, ALICE);
	proof = forged = only_one(BOB, SEALED_PROOF, ALICE);
	forged.bytes[24] ^= 1;
	mac_remake(&forged);
	comes(ALICE, &forged, BOB);
	forged = proof;
	forged.bytes[PROOF_HEADER] = 1;
	mac_remake(&forged);
	comes(ALICE, &forged, BOB);
	assert_silent(ALICE);
	comes(ALICE, &proof, EVE);
	init = only_one(ALICE, SEALED_INIT, BOB);
	pass_time(BEFORE_US);
	comes(ALICE, &proof, BOB);
	assert_silent(ALICE);
	handshake_finish(&init);
}
END_TEST

/* ---- INIT -------------------------------------------------------------------------------- */

static void init_replay(const struct key_datagram *init)
{
	for (uint32_t i = 0; i < REPLAYS; i++)
		comes(BOB, init, ALICE);
	assert_silent(BOB);
}

START_TEST(init__replayed_costs_no_budget)
{
	struct key_datagram first = proven_init(), next, altered;

	handshake_finish(&first);
	init_replay(&first);
	/* A datagram with only the same MAC has no effect, either. */
	altered = first;
	altered.bytes[INIT_HEADER] ^= 1;
	init_replay(&altered);
	ck_assert_uint_eq(ends[BOB].ctx->stats.hellos, 1);
	/* Two handshakes in two periods of proofs. */
	bob_at_alice()->is_stale = true;
	pass_time(NEXT_US);
	alice_sends();
	next = ends[ALICE].sent[0];
	ck_assert_uint_eq(next.bytes[1], SEALED_INIT);
	ends[ALICE].n_sent = 0;
	init_replay(&first);
	handshake_finish(&next);
	init_replay(&first);
	init_replay(&next);
	ck_assert_uint_eq(ends[BOB].ctx->stats.hellos, 2);
	/* Its proof holds no longer: what answers is shorter. */
	pass_time(2 * NEXT_US);
	comes(BOB, &first, ALICE);
	next = only_one(BOB, SEALED_PROOF, ALICE);
	ck_assert_uint_lt(next.len, first.len);
}
END_TEST

/* ---- all --------------------------------------------------------------------------------- */

/* All kinds, from their senders and from elsewhere, again and again. */
START_TEST(answers__have_fewer_bytes)
{
	struct key_datagram passes[6];
	uint64_t in = 0, out = 0;

	route_open();
	passes[0] = only_one(ALICE, SEALED_INIT, BOB);
	comes(BOB, &passes[0], ALICE);
	passes[1] = only_one(BOB, SEALED_PROOF, ALICE);
	comes(ALICE, &passes[1], BOB);
	passes[2] = only_one(ALICE, SEALED_INIT, BOB);
	comes(BOB, &passes[2], ALICE);
	passes[3] = only_one(BOB, SEALED_REPLY, ALICE);
	comes(ALICE, &passes[3], BOB);
	passes[4] = only_one(ALICE, SEALED_DATA, BOB);
	comes(BOB, &passes[4], ALICE);
	passes[5] = unknown_of(EVE);
	for (int i = 0; i < 6 * ENDS * ENDS; i++) {
		const struct key_datagram *each = &passes[i % 6];
		int to = i / 6 % ENDS;

		for (int j = 0; j < 3; j++, in = out = 0) {
			comes(to, each, i / 6 / ENDS);
			in += each->len;
			for (; ends[to].n_sent; ends[to].n_sent--)
				out += ends[to].sent[ends[to].n_sent - 1].len;
			ck_assert_msg(2 * out <= 3 * in, "kind %u: %llu bytes in, %llu out",
				each->bytes[1], (unsigned long long)in, (unsigned long long)out);
		}
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {unknown__of_the_other_end_renews_keys,
		unknown__beside_forged_ones,
		unknown__of_another_context_begins_nothing, proof__answers_one_init,
		init__replayed_costs_no_budget, answers__have_fewer_bytes, NULL};

	return suite_run_between("attacked", tests, set_up, tear_down);
}
