/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake, by a vector of other people's: flynn/noise 1.1.0, vectors.txt,
 * Noise_IKpsk2_25519_ChaChaPoly_SHA256 with a payload; what is forged is refused. Sessions: the
 * replay window by a model, nonces, and what is altered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/keys/dir.h"
#include "core/keys/internal.h"
#include "suite.h"
#include "util/text.h"

#define LONGEST 256

static struct cipher_box box;
static struct static_keys initiator, responder;
static uint8_t initiator_e[32], responder_e[32], psk[32];
static struct noise ours, theirs;

static void assert_bytes(const uint8_t *bytes, const char *text)
{
	uint8_t expected[LONGEST];

	ck_assert(ripc__hex_read(text, expected, strlen(text) / 2));
	ck_assert_mem_eq(bytes, expected, strlen(text) / 2);
}

static void count_up(uint8_t bytes[32], uint8_t from)
{
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(from + i);
}

static void set_up(void)
{
	const struct iovec nothing = {NULL, 0};
	char why[256], remedy[256];

	ck_assert_int_eq(ripc__box_open(&box, ripc__crypto_load(why, remedy)), 0);
	count_up(initiator.secret, 0);
	count_up(responder.secret, 1);
	count_up(initiator_e, 0x20);
	count_up(responder_e, 0x41);
	memcpy(psk, "!verysecretverysecretverysecret!", 32);
	ck_assert_int_eq(box.ops->dh_public(box.lib, initiator.secret, initiator.public), 0);
	ck_assert_int_eq(box.ops->dh_public(box.lib, responder.secret, responder.public), 0);
	ck_assert_int_eq(ripc__noise_begin(&ours, &box, &nothing, responder.public), 0);
	ck_assert_int_eq(ripc__noise_begin(&theirs, &box, &nothing, responder.public), 0);
}

static void tear_down(void)
{
	ripc__box_close(&box);
}

START_TEST(handshake__as_in_the_vector)
{
	const struct iovec said = {"test_msg_0", 10}, answered = {"test_msg_1", 10};
	uint8_t first[NOISE_FIRST + 10], second[NOISE_SECOND + 10], out[32];
	const struct iovec in_first = {first, sizeof(first)}, in_second = {second, sizeof(second)};
	struct iovec payload = {out, 0};
	struct noise_keys a, b;

	ck_assert_int_eq(ripc__noise_write_first(&ours, &initiator, initiator_e, &said, first), 0);
	assert_bytes(first, "358072d6365880d1aeea329adf9121383851ed21a28e3b75e965d0d2cd166254"
		"5bdb2d5031ac09dcb167ccedf2898899c56e3e963e1e707a4df1bed7f3f9594b80af8aa87faa8e0f7b"
		"1b9c32a49360cdd218fc428fc8457cdf1952ae4c8d5ba601f8bf9547bc4e3b5083");
	ck_assert_int_eq(ripc__noise_read_first(&theirs, &responder, &in_first, &payload), 0);
	ck_assert_uint_eq(payload.iov_len, 10);
	ck_assert_mem_eq(out, "test_msg_0", 10);
	ck_assert_mem_eq(theirs.remote_s, initiator.public, 32);
	ck_assert_int_eq(ripc__noise_write_second(&theirs, responder_e, psk, &answered, second), 0);
	assert_bytes(second, "64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466"
		"b86d10d43f68d1d0667499f113d9a91c468559a52225e8f34d8c");
	ck_assert_int_eq(ripc__noise_read_second(&ours, &initiator, psk, &in_second, &payload), 0);
	ck_assert_mem_eq(out, "test_msg_1", 10);
	ck_assert_int_eq(ripc__noise_split(&ours, &a), 0);
	ck_assert_int_eq(ripc__noise_split(&theirs, &b), 0);
	ck_assert_mem_eq(&a, &b, sizeof(a));
	ck_assert_mem_ne(a.initiator, a.responder, 32);
}
END_TEST

/* The vector's next two messages: the keys are those, and a nonce is what Noise says. */
START_TEST(session__seals_as_the_vector)
{
	const struct iovec said = {"test_msg_0", 10}, answered = {"test_msg_1", 10};
	const struct iovec text = {"yellowsubmarine", 15};
	uint8_t first[NOISE_FIRST + 10], second[NOISE_SECOND + 10], out[64], nonce[12] = {0};
	const struct iovec in_first = {first, sizeof(first)}, in_second = {second, sizeof(second)};
	const struct ripc__beside nothing = {nonce, NULL, 0};
	struct iovec payload = {out, 0};
	struct noise_keys keys;

	ck_assert_int_eq(ripc__noise_write_first(&ours, &initiator, initiator_e, &said, first), 0);
	ck_assert_int_eq(ripc__noise_read_first(&theirs, &responder, &in_first, &payload), 0);
	ck_assert_int_eq(ripc__noise_write_second(&theirs, responder_e, psk, &answered, second), 0);
	ck_assert_int_eq(ripc__noise_read_second(&ours, &initiator, psk, &in_second, &payload), 0);
	ck_assert_int_eq(ripc__noise_split(&ours, &keys), 0);
	ck_assert_int_eq(box.ops->aead_key(box.seals, keys.initiator), 0);
	ck_assert_int_eq(box.ops->seal(box.seals, &nothing, &text, 1, out), 0);
	/* msg_2 of the vector */
	assert_bytes(out, "abbc8826715c00752948d22874560b57dc102dbf6c3dd853037efdd9499ad0");
}
END_TEST

START_TEST(handshake__refuses_what_is_forged)
{
	const struct iovec said = {"test_msg_0", 10}, nothing = {NULL, 0};
	uint8_t first[NOISE_FIRST + 10], altered[NOISE_FIRST + 10], out[32];
	const struct iovec in = {altered, sizeof(altered)};
	struct iovec payload = {out, 0};

	ck_assert_int_eq(ripc__noise_write_first(&ours, &initiator, initiator_e, &said, first), 0);
	for (size_t bit = 0; bit < 8 * sizeof(first); bit += 5) {
		if (bit == 255)
			continue; /* the one bit of an X25519 key that means nothing */
		memcpy(altered, first, sizeof(first));
		altered[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(ripc__noise_begin(&theirs, &box, &nothing, responder.public), 0);
		ck_assert_int_eq(ripc__noise_read_first(&theirs, &responder, &in, &payload),
			-EKEYREJECTED);
	}
	/* For another responder. */
	memcpy(altered, first, sizeof(first));
	ck_assert_int_eq(ripc__noise_begin(&theirs, &box, &nothing, initiator.public), 0);
	ck_assert_int_eq(ripc__noise_read_first(&theirs, &initiator, &in, &payload), -EKEYREJECTED);
}
END_TEST

START_TEST(handshake__needs_the_secret)
{
	const struct iovec nothing = {NULL, 0};
	uint8_t first[NOISE_FIRST], second[NOISE_SECOND], out[32];
	const struct iovec in_first = {first, sizeof(first)}, in_second = {second, sizeof(second)};
	struct iovec payload = {out, 0};

	ck_assert_int_eq(ripc__noise_write_first(&ours, &initiator, initiator_e, &nothing, first),
		0);
	ck_assert_int_eq(ripc__noise_read_first(&theirs, &responder, &in_first, &payload), 0);
	ck_assert_int_eq(ripc__noise_write_second(&theirs, responder_e, psk, &nothing, second), 0);
	psk[0] ^= 1;
	ck_assert_int_eq(ripc__noise_read_second(&ours, &initiator, psk, &in_second, &payload),
		-EKEYREJECTED);
}
END_TEST

/* ---- sessions ---------------------------------------------------------------------------- */

START_TEST(replay__as_a_model_says)
{
	static uint8_t came[20000];
	struct session session = {0};
	uint64_t state = 42, top = 0, at = 0;
	bool any = false;

	memset(came, 0, sizeof(came));
	for (int i = 0; i < 200000; i++) {
		uint64_t r = suite_random(&state);
		uint64_t counter;
		bool allowed;

		at += r % 8 == 0 ? r / 8 % 3 : 0;
		at += r % 40000 == 1 ? 900 : 0;
		counter = at + r / 1000 % 8;
		counter = r % 2 && counter > 1100 ? counter - r / 100000 % 1100 : counter;
		if (counter >= sizeof(came))
			break;
		allowed = !came[counter] && (!any || counter > top ||
			top - counter < REPLAY_WINDOW);
		ck_assert_int_eq(ripc__replay_allows(&session, counter), allowed);
		if (!allowed)
			continue;
		ripc__replay_note(&session, counter);
		came[counter] = any = true;
		top = counter > top ? counter : top;
	}
	ck_assert_uint_gt(top, 5000);
	free(session.ring);
}
END_TEST

/* Numbers lost, or late by less than a word, need no ring; those that leave the word do. */
START_TEST(replay__small_while_in_order)
{
	struct session session = {0};

	for (uint32_t counter = 0; counter < 5024; counter++)
		ripc__replay_note(&session, counter ^ 31);
	ck_assert(!session.is_ring);
	ck_assert(!ripc__replay_allows(&session, 4000));
	ripc__replay_note(&session, 5056); /* 5024 is the first that may still come */
	ck_assert(!session.is_ring);
	ck_assert(ripc__replay_allows(&session, 5024));
	ripc__replay_note(&session, 5088);
	ck_assert(session.is_ring);
	for (uint32_t counter = 4000; counter < 5090; counter++)
		ck_assert_int_eq(ripc__replay_allows(&session, counter), counter > 5088 ||
			(counter >= 5024 && counter != 5056 && counter != 5088));
	free(session.ring);
}
END_TEST

START_TEST(replay__edges)
{
	struct session session = {0};

	ripc__replay_note(&session, 5000);
	ck_assert(ripc__replay_allows(&session, 5000 - REPLAY_WINDOW + 1));
	ck_assert(!ripc__replay_allows(&session, 5000 - REPLAY_WINDOW));
	ck_assert(!ripc__replay_allows(&session, 5000));
	/* The highest that there can be. */
	ck_assert(!ripc__replay_allows(&session, UINT32_MAX));
	ck_assert(!ripc__replay_allows(&session, UINT64_MAX));
	ripc__replay_note(&session, UINT32_MAX - 1);
	ck_assert(!ripc__replay_allows(&session, UINT32_MAX - 1));
	ck_assert(ripc__replay_allows(&session, UINT32_MAX - 2));
	ck_assert(!ripc__replay_allows(&session, 5001));
	free(session.ring);
}
END_TEST

static void pair_up(struct ciphers *ciphers, struct session **a, struct session **b,
		uint8_t cipher, uint8_t first)
{
	uint8_t there[32], back[32] = {0};

	memset(there, 0x11, 32);
	there[0] = first;
	*a = ripc__session_alloc(ciphers, cipher, there, back);
	*b = ripc__session_alloc(ciphers, cipher, back, there);
	ck_assert(*a && *b);
	(*a)->their_index = (*b)->index = 7;
}

/* A session's counters end before a nonce could come again. */
START_TEST(session__ends_by_itself)
{
	struct ciphers ciphers = {.box = &box};
	uint8_t bytes[SEALED_EXTRA];
	struct session *a, *b;

	pair_up(&ciphers, &a, &b, RIPC_CHACHA20_POLY1305, 1);
	a->sent = REJECT_COUNT - 1;
	ck_assert_int_eq(ripc__session_seal(&ciphers, a, NULL, 0, bytes), 0);
	ck_assert_int_eq(ripc__session_seal(&ciphers, a, NULL, 0, bytes), -EKEYEXPIRED);
	ck_assert_uint_eq(a->sent, REJECT_COUNT);
	ripc__session_free(&ciphers, a);
	ripc__session_free(&ciphers, b);
	ripc__ciphers_free(&ciphers);
	ripc__secret_close(&ciphers.memory);
}
END_TEST

START_TEST(session__each_datagram_once)
{
	const struct iovec in[2] = {{"header", 6}, {"and payload", 11}};
	uint8_t bytes[SEALED_EXTRA + 17], copy[SEALED_EXTRA + 17], before[SEALED_EXTRA + 17] = {0};
	struct ciphers ciphers = {.box = &box};
	struct session *a, *b;

	pair_up(&ciphers, &a, &b, _i ? RIPC_AES_128_GCM : RIPC_CHACHA20_POLY1305, 1);
	for (uint64_t counter = 0; counter < 3000; counter++) {
		ck_assert_int_eq(ripc__session_seal(&ciphers, a, in, 2, bytes), 0);
		ck_assert_uint_eq(get64(bytes + 8), counter);
		/* Another nonce: nothing of the ciphertext is as it was. */
		ck_assert_mem_ne(bytes + SEALED_HEADER, before + SEALED_HEADER, 8);
		memcpy(before, bytes, sizeof(bytes));
		memcpy(copy, bytes, sizeof(bytes));
		copy[(counter * 7) % sizeof(copy)] ^= 1;
		if ((counter * 7) % sizeof(copy) >= 8) /* kind and index are looked at before */
			ck_assert_int_ne(ripc__session_unseal(&ciphers, b, copy, sizeof(copy)), 0);
		memcpy(copy, bytes, sizeof(bytes));
		ck_assert_int_eq(ripc__session_unseal(&ciphers, b, copy, sizeof(copy)), 0);
		ck_assert_mem_eq(copy + SEALED_HEADER, "headerand payload", 17);
		ck_assert_int_eq(ripc__session_unseal(&ciphers, b, bytes, sizeof(bytes)),
			-EALREADY);
	}
	ripc__session_free(&ciphers, a);
	ripc__session_free(&ciphers, b);
	ripc__ciphers_free(&ciphers);
	ripc__secret_close(&ciphers.memory);
}
END_TEST

/* More sessions than ciphers that are kept: each finds its own key again. */
START_TEST(session__many_share_the_ciphers)
{
	struct session *a[3 * SESSION_SLOTS], *b[3 * SESSION_SLOTS];
	struct ciphers ciphers = {.box = &box};
	uint8_t bytes[SEALED_EXTRA + 4];
	const struct iovec in = {"four", 4};

	for (uint32_t i = 0; i < 3 * SESSION_SLOTS; i++) {
		pair_up(&ciphers, &a[i], &b[i], i % 2 ? RIPC_AES_128_GCM :
			RIPC_CHACHA20_POLY1305, (uint8_t)i);
	}
	for (uint32_t i = 0; i < 20 * SESSION_SLOTS; i++) {
		uint32_t at = i * 7 % (3 * SESSION_SLOTS);

		ck_assert_int_eq(ripc__session_seal(&ciphers, a[at], &in, 1, bytes), 0);
		ck_assert_int_eq(ripc__session_unseal(&ciphers, b[at], bytes, sizeof(bytes)), 0);
		ck_assert_mem_eq(bytes + SEALED_HEADER, "four", 4);
	}
	for (uint32_t i = 0; i < 3 * SESSION_SLOTS; i++) {
		ripc__session_free(&ciphers, a[i]);
		ripc__session_free(&ciphers, b[i]);
	}
	ripc__ciphers_free(&ciphers);
	ripc__secret_close(&ciphers.memory);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {handshake__as_in_the_vector,
		session__seals_as_the_vector, handshake__refuses_what_is_forged,
		handshake__needs_the_secret, replay__as_a_model_says, replay__edges,
		replay__small_while_in_order, session__ends_by_itself,
		session__many_share_the_ciphers};
	TCase *tcase = tcase_create("noise");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, session__each_datagram_once, 0, 2);
	return suite_finish("noise", tcase);
}
