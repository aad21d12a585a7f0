/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Golden datagrams (golden_sealed.h), which tests/system/interop/golden_sealed.py has made from the
 * text of docs/protocol.md: the library makes the same bytes from the same keys, and opens them.
 */
#include <string.h>

#include "../../../support/util/key_end.h"
#include "core/base/base.h"
#include "golden_sealed.h"
#include "hex.h"
#include "suite.h"

#define LONGEST 2048

enum { INITIATOR, RESPONDER };

static const struct scenario {
	const char *init, *reply, *there, *back, *empty;
	bool has_aes, has_authority;
} scenarios[] = {
	{GOLDEN_PLAIN_INIT, GOLDEN_PLAIN_REPLY, GOLDEN_PLAIN_THERE, GOLDEN_PLAIN_BACK,
		GOLDEN_PLAIN_EMPTY, false, false},
	{GOLDEN_AES_INIT, GOLDEN_AES_REPLY, GOLDEN_AES_THERE, GOLDEN_AES_BACK, GOLDEN_AES_EMPTY,
		true, false},
	{GOLDEN_MAY_INIT, GOLDEN_MAY_REPLY, GOLDEN_MAY_THERE, GOLDEN_MAY_BACK, GOLDEN_MAY_EMPTY,
		true, true},
	{GOLDEN_REFUSED_INIT, GOLDEN_REFUSED_REPLY, NULL, NULL, NULL, false, true},
};

static struct key_end ends[2];
static struct member *members[2];
static uint8_t ephemerals[2][32];
static char dirs[2][KEY_END_DIR];
static bool has_aes;
static struct ripc__crypto crypto;

static bool has_fast_aes(void)
{
	return has_aes;
}

static const struct ripc__crypto *crypto_load(char why[256], char remedy[256])
{
	const struct ripc__crypto *real = ripc__crypto_load(why, remedy);

	ck_assert_ptr_nonnull(real);
	crypto = *real;
	crypto.has_fast_aes = has_fast_aes;
	return &crypto;
}

static void assert_golden(const struct key_datagram *made, const char *text)
{
	uint8_t expected[LONGEST];
	size_t len = hex_bytes(text, expected);

	ck_assert_uint_eq(made->len, len);
	ck_assert_mem_eq(made->bytes, expected, len);
}

/* The one datagram that an end has sent since it was asked last. */
static const struct key_datagram *only_one(struct key_end *end)
{
	ck_assert_uint_eq(end->n_sent, 1);
	end->n_sent = 0;
	return &end->sent[0];
}

/* A golden datagram comes in. */
static void comes(struct key_end *end, const char *text)
{
	uint8_t bytes[LONGEST];
	uint32_t len = (uint32_t)hex_bytes(text, bytes);

	ripc__handshake_input(key_end_net(end), bytes, len, &ends[end == &ends[0]].addr);
}

static void dir_make(int i, bool has_authority, const char *capabilities)
{
	static const char *const keys[] = {GOLDEN_INITIATOR, GOLDEN_RESPONDER};
	uint8_t key[CAPABILITY_LEN], secret[32];

	hex_bytes(keys[i], key);
	hex_bytes(GOLDEN_SECRET, secret);
	ck_assert(key_end_dir_make(dirs[i], key, secret));
	if (!has_authority)
		return;
	hex_bytes(GOLDEN_AUTHORITY_PUBLIC, key);
	ck_assert(key_end_digits(dirs[i], "authority", key, 32));
	ck_assert_uint_eq(hex_bytes(capabilities, key), CAPABILITY_LEN);
	ck_assert(key_end_digits(dirs[i], "capabilities", key, CAPABILITY_LEN));
}

static void end_open(int i, uint64_t incarnation)
{
	ck_assert_int_eq(key_end_open(&ends[i], dirs[i], (uint8_t)(i + 1), crypto_load), 0);
	ends[i].ctx->incarnation = incarnation;
	ends[i].ephemeral = ephemerals[i];
}

/* Two ends; the initiator knows an address proof, and the responder takes it. */
static void set_up(const struct scenario *scenario)
{
	bool is_refused = !scenario->there;

	has_aes = scenario->has_aes;
	hex_bytes(GOLDEN_FIRST, ephemerals[INITIATOR]);
	hex_bytes(GOLDEN_SECOND, ephemerals[RESPONDER]);
	dir_make(INITIATOR, scenario->has_authority, is_refused ? GOLDEN_CAPABILITY_EXPIRED :
		GOLDEN_CAPABILITY_SEND);
	dir_make(RESPONDER, scenario->has_authority, GOLDEN_CAPABILITY_BE);
	end_open(INITIATOR, GOLDEN_CONTEXT_INITIATOR);
	end_open(RESPONDER, GOLDEN_CONTEXT_RESPONDER);
	members[INITIATOR] = key_end_member(&ends[INITIATOR], &ends[RESPONDER]);
	ck_assert_ptr_nonnull(members[INITIATOR]);
	ripc__member_proof_keep(ends[INITIATOR].ctx->seal, members[INITIATOR],
		ripc__proof(ends[RESPONDER].ctx, GOLDEN_CONTEXT_INITIATOR,
		ends[INITIATOR].addr.host, 0));
}

static void tear_down(void)
{
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc_close(ends[i].ctx, 0), 0);
		key_end_dir_remove(dirs[i]);
	}
}

static void passes(struct session *from, struct session *to, const char *text, uint64_t counter,
		const char *packet)
{
	struct key_datagram made;
	uint8_t plain[LONGEST], golden[LONGEST];
	const struct iovec in = {plain, hex_bytes(packet, plain)};
	uint32_t len = (uint32_t)hex_bytes(text, golden);

	from->sent = counter;
	made.len = (uint32_t)in.iov_len + SEALED_EXTRA;
	ck_assert_int_eq(ripc__session_seal(&ends[from != members[INITIATOR]->current].ctx->seal->
		ciphers, from, &in, 1, made.bytes), 0);
	assert_golden(&made, text);
	ck_assert_int_eq(ripc__session_unseal(&ends[to != members[INITIATOR]->current].ctx->seal->
		ciphers, to, golden, len), 0);
	ck_assert_uint_eq(len - SEALED_EXTRA, in.iov_len);
	ck_assert_mem_eq(golden + SEALED_HEADER, plain, in.iov_len);
}

START_TEST(handshake__as_the_text_says)
{
	const struct scenario *scenario = &scenarios[_i];

	set_up(scenario);
	ck_assert_int_eq(ripc__handshake_begin(key_end_net(&ends[INITIATOR]), members[INITIATOR],
		&ends[RESPONDER].addr), 0);
	assert_golden(only_one(&ends[INITIATOR]), scenario->init);
	comes(&ends[RESPONDER], scenario->init);
	assert_golden(only_one(&ends[RESPONDER]), scenario->reply);
	comes(&ends[INITIATOR], scenario->reply);
	members[RESPONDER] = key_end_member(&ends[RESPONDER], &ends[INITIATOR]);
	if (!scenario->there) {
		ck_assert_uint_eq(ends[INITIATOR].n_sent, 0);
		ck_assert_ptr_null(members[INITIATOR]->current);
		ck_assert_uint_eq(members[RESPONDER]->next, 0);
	} else {
		struct session *ours = members[INITIATOR]->current;
		struct session *theirs = ripc__session_by(ends[RESPONDER].ctx->seal,
			members[RESPONDER]->next);

		assert_golden(only_one(&ends[INITIATOR]), scenario->empty);
		passes(ours, theirs, scenario->there, GOLDEN_COUNTER_THERE, GOLDEN_PACKET);
		passes(theirs, ours, scenario->back, GOLDEN_COUNTER_BACK, GOLDEN_PACKET);
	}
	tear_down();
}
END_TEST

/* Without a valid proof INIT is answered PROOF, and INIT with that one comes. */
START_TEST(proof__as_the_text_says)
{
	set_up(&scenarios[0]);
	ripc__member_proof_keep(ends[INITIATOR].ctx->seal, members[INITIATOR], 0);
	ck_assert_int_eq(ripc__handshake_begin(key_end_net(&ends[INITIATOR]), members[INITIATOR],
		&ends[RESPONDER].addr), 0);
	assert_golden(only_one(&ends[INITIATOR]), GOLDEN_UNPROVEN_INIT);
	comes(&ends[RESPONDER], GOLDEN_UNPROVEN_INIT);
	assert_golden(only_one(&ends[RESPONDER]), GOLDEN_PROOF);
	comes(&ends[INITIATOR], GOLDEN_PROOF);
	assert_golden(only_one(&ends[INITIATOR]), GOLDEN_PROVEN_INIT);
	tear_down();
}
END_TEST

/* DATA of a session that is not known here. */
START_TEST(unknown__as_the_text_says)
{
	uint8_t bytes[LONGEST];

	hex_bytes(GOLDEN_PLAIN_THERE, bytes);
	set_up(&scenarios[0]);
	ripc__unknown_answer(key_end_net(&ends[RESPONDER]), bytes, &ends[INITIATOR].addr);
	assert_golden(only_one(&ends[RESPONDER]), GOLDEN_UNKNOWN);
	tear_down();
}
END_TEST

START_TEST(mark__as_the_text_says)
{
	struct key_datagram made = {.len = 0};
	struct seal *seal;
	uint8_t blob[RIPC_ADDR_MAX];
	int len;

	set_up(&scenarios[0]);
	seal = ends[RESPONDER].ctx->seal;
	made.len = (uint32_t)hex_bytes(GOLDEN_RECORD, made.bytes) - SEALED_MARK;
	ck_assert(ripc__sealed_mark_is_right(seal, made.bytes, made.len));
	memset(made.bytes + made.len, 0, SEALED_MARK);
	ck_assert(!ripc__sealed_mark_is_right(seal, made.bytes, made.len));
	ripc__sealed_mark(seal, made.bytes, made.len);
	made.len += SEALED_MARK;
	assert_golden(&made, GOLDEN_RECORD);
	len = seal->nets[0].ops.net.address(ends[RESPONDER].ctx->peers.devices[0].port, blob);
	ck_assert_int_eq(len, 44);
	ck_assert_uint_eq(seal->nets[0].ops.id, 129);
	ck_assert_mem_eq(blob, made.bytes + 91, 44); /* behind the backend and the length */
	ck_assert_uint_eq(ripc__sealed_private(seal, 0x123456), GOLDEN_PRIVATE_ID);
	tear_down();
}
END_TEST

START_TEST(capability__as_the_text_says)
{
	static const char *const texts[] = {GOLDEN_CAPABILITY_BE, GOLDEN_CAPABILITY_SEND,
		GOLDEN_CAPABILITY_EXPIRED};
	uint8_t golden[CAPABILITY_LEN], made[CAPABILITY_LEN], authority[32], public[32];
	struct capability capability;
	struct cipher_box *box;

	set_up(&scenarios[0]);
	box = &ends[0].ctx->seal->box;
	hex_bytes(texts[_i], golden);
	hex_bytes(GOLDEN_AUTHORITY, authority);
	ck_assert_int_eq(ripc__capability_decode(golden, &capability), 0);
	ripc__capability_encode(&capability, made);
	ck_assert_int_eq(ripc__capability_sign(box, authority, made), 0);
	ck_assert_mem_eq(made, golden, CAPABILITY_LEN);
	hex_bytes(GOLDEN_AUTHORITY_PUBLIC, public);
	ck_assert_int_eq(ripc__capability_verify(box, public, golden), 0);
	tear_down();
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{handshake__as_the_text_says, sizeof(scenarios) / sizeof(scenarios[0])},
		{proof__as_the_text_says, 1}, {unknown__as_the_text_says, 1},
		{mark__as_the_text_says, 1}, {capability__as_the_text_says, 3}, {NULL, 0}};

	return suite_run_loops("golden_sealed", loops);
}
