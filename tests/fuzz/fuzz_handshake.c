/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two contexts with keys and somebody on the link who may also be a member with any payload in its
 * handshakes: the input says what passes, what is altered (with its MAC made right), what is made
 * up, and how time passes. Both ends are initiator and responder.
 *
 * Invariants: an end sends nothing but well-formed sealed datagrams; it computes a handshake only
 * for a valid proof; a session that nobody forged has the same keys at the other end; rights are
 * those that the authority has granted.
 */
#include <string.h>

#include "../support/util/key_end.h"
#include "core/base/base.h"
#include "input.h"
#include "keys.h"
#include "util/hash/siphash.h"

#define STEPS     24u
#define SHOWN     4u   /* capabilities: of both ends, one that expired, one that nobody signed */
#define HISTORY   256u
#define SERVICE   0x100u
#define UNTIL_S   5000u /* the clock of both ends begins at 1,000 s */

struct world {
	struct input input;
	struct key_end ends[2];
	bool forged;          /* somebody has taken part in a handshake in the name of an end */
	uint64_t valid[2];    /* datagrams with a valid proof that came to each end */
	struct key_datagram last[2]; /* the last INIT of each end; len 0: none */
	uint64_t keys[HISTORY]; /* hashes of the keys of all sessions that were seen */
	uint32_t n_keys;
};

static char dirs[2][KEY_END_DIR];
static uint8_t capabilities[SHOWN][CAPABILITY_LEN];
static struct world world;

/* ---- the two directories ----------------------------------------------------------------- */

static void dirs_remove(void)
{
	key_end_dir_remove(dirs[0]);
	key_end_dir_remove(dirs[1]);
}

static void capability_make(struct cipher_box *box, uint32_t i, const uint8_t authority[32],
		const uint8_t private[32])
{
	struct capability capability = {.what = CAPABILITY_BE | CAPABILITY_SEND,
		.id = SERVICE + i, .until_s = i == 2 ? 1 : UNTIL_S};

	CLAIM(box->ops->dh_public(box->lib, private, capability.holder) == 0);
	ripc__capability_encode(&capability, capabilities[i]);
	if (i < 3)
		CLAIM(ripc__capability_sign(box, authority, capabilities[i]) == 0);
}

static void setup(void)
{
	static const uint8_t secret[32] = {1}, authority[32] = {2}, private[2][32] = {{3}, {4}};
	char why[256], remedy[256];
	struct cipher_box box;
	uint8_t public[32];

	if (dirs[0][0])
		return;
	CLAIM(ripc__box_open(&box, fuzz_crypto(why, remedy)) == 0);
	CLAIM(box.ops->sign_public(box.lib, authority, public) == 0);
	for (uint32_t i = 0; i < SHOWN; i++)
		capability_make(&box, i, authority, private[i % 2]);
	for (int i = 0; i < 2; i++) {
		CLAIM(key_end_dir_make(dirs[i], private[i], secret));
		CLAIM(key_end_digits(dirs[i], "authority", public, 32));
		CLAIM(key_end_digits(dirs[i], "capabilities", capabilities[i], CAPABILITY_LEN));
	}
	atexit(dirs_remove);
	ripc__box_close(&box);
}

/* ---- what must hold ---------------------------------------------------------------------- */

static uint64_t keys_hash(const uint8_t *initiator, const uint8_t *responder, uint32_t len)
{
	static const uint8_t key[16] = "fuzz session key";
	uint8_t both[64] = {0};

	memcpy(both, initiator, len);
	memcpy(both + 32, responder, len);
	return ripc__siphash(key, both, sizeof(both)) | 1;
}

static bool is_seen(const struct world *w, uint64_t hash)
{
	for (uint32_t i = 0; i < w->n_keys; i++)
		if (w->keys[i] == hash)
			return true;
	return false;
}

/* The initiator has keys after the responder, and the same ones. */
static void check_session(struct world *w, const struct session *session)
{
	uint64_t hash;
	uint32_t len;

	if (!session)
		return;
	CLAIM(session->cipher == RIPC_CHACHA20_POLY1305 || session->cipher == RIPC_AES_128_GCM);
	CLAIM(session->index && session->their_index);
	len = ripc__cipher_key_len(session->cipher);
	hash = session->is_initiator ? keys_hash(session->keys, session->keys + len, len) :
		keys_hash(session->keys + len, session->keys, len);
	if (is_seen(w, hash))
		return;
	CLAIM(!session->is_initiator || w->forged);
	CLAIM(w->n_keys < HISTORY);
	w->keys[w->n_keys++] = hash;
}

static void check_rights(const struct member *member)
{
	for (uint32_t i = 0; member->rights && i < member->rights->n; i++) {
		uint64_t id = member->rights->may[i].id;

		CLAIM(!member->rights->all && member->rights->may[i].until_s == UNTIL_S);
		CLAIM(id == SERVICE || id == SERVICE + 1);
		/* A capability of its own key. */
		CLAIM(memcmp(capabilities[id - SERVICE] + 24, member->key, 32) == 0);
	}
}

static void check_list(struct world *w, const struct seal *seal, const struct list *members)
{
	list_for_each(node, members) {
		const struct member *member = list_entry(node, struct member, node);

		CLAIM(!member->current || member->is_admitted);
		check_rights(member);
		check_session(w, ripc__session_by(seal, member->next));
		check_session(w, member->current);
		check_session(w, ripc__session_by(seal, member->previous));
	}
}

static void check(struct world *w)
{
	/* Responders first: their sessions are older. */
	for (int i = 0; i < 2; i++) {
		struct seal *seal = w->ends[i].ctx->seal;

		list_for_each(node, &seal->idle)
			check_session(w, ripc__session_by(seal,
				list_entry(node, struct member, node)->next));
	}
	for (int i = 0; i < 2; i++) {
		const struct seal *seal = w->ends[i].ctx->seal;

		check_list(w, seal, &seal->idle);
		check_list(w, seal, &seal->used);
		CLAIM(w->ends[i].ctx->stats.hellos <= w->valid[i]);
	}
}

static void check_sent(struct world *w, int i, uint32_t from)
{
	struct key_end *end = &w->ends[i];

	for (; from < end->n_sent; from++) {
		const struct key_datagram *sent = &end->sent[from];

		CLAIM(sent->len >= 32 && sent->bytes[0] == SEALED_MAGIC && !get16(sent->bytes + 2));
		CLAIM(sent->bytes[1] >= SEALED_INIT && sent->bytes[1] <= SEALED_UNKNOWN);
		if (sent->bytes[1] == SEALED_INIT)
			w->last[i] = *sent;
	}
}

/* ---- what passes ------------------------------------------------------------------------- */

static void mac_remake(const struct key_end *end, struct key_datagram *datagram)
{
	struct seal *seal = end->ctx->seal;
	struct iovec in = {datagram->bytes, datagram->len - SEALED_MAC};
	uint8_t mac[32];

	if (datagram->len < SEALED_MAC)
		return;
	CLAIM(seal->box.ops->mac(seal->box.lib, seal->secrets[0].handshake_key, &in, 1, mac) == 0);
	memcpy(datagram->bytes + in.iov_len, mac, SEALED_MAC);
}

static void arrives(struct world *w, int to, const struct key_datagram *datagram, uint8_t from)
{
	struct key_end *end = &w->ends[to];
	uint32_t sent = end->n_sent;

	end->in = *datagram;
	end->in_from = w->ends[!to].addr;
	if (from % 8 == 7)
		end->in_from.host[15] ^= from;
	if (datagram->len >= INIT_HEADER && datagram->bytes[1] == SEALED_INIT &&
			ripc__proof_valid(end->ctx, get64(datagram->bytes + 8), end->in_from.host,
				get64(datagram->bytes + 24)))
		w->valid[to]++;
	for (int i = 0; i < 4; i++)
		ripc_poll(end->ctx);
	check_sent(w, to, sent);
	check(w);
}

/* Takes one of the datagrams that an end has sent; false: there is none. */
static bool take(struct key_end *end, uint8_t which, bool keeps, struct key_datagram *taken)
{
	uint32_t i;

	if (!end->n_sent)
		return false;
	i = which % end->n_sent;
	*taken = end->sent[i];
	if (!keeps && --end->n_sent)
		memmove(&end->sent[i], &end->sent[i + 1], (end->n_sent - i) * sizeof(*taken));
	return true;
}

static void pass(struct world *w, int from, bool alters)
{
	struct key_datagram datagram;
	uint8_t how = input8(&w->input);

	if (!take(&w->ends[from], how >> 4, how & 8, &datagram))
		return;
	for (uint8_t n = alters ? 1 + how % 3 : 0; n; n--) {
		uint32_t at = input16(&w->input) % datagram.len;

		datagram.bytes[at] ^= input8(&w->input);
	}
	if (alters && how & 4) {
		datagram.len = input16(&w->input) % (datagram.len + 40);
		datagram.len = datagram.len ? datagram.len : 1;
	}
	if (alters && datagram.len >= 2 && datagram.bytes[1] != SEALED_DATA)
		mac_remake(&w->ends[from], &datagram);
	arrives(w, !from, &datagram, alters ? 0 : how);
}

static void make_up(struct world *w, int to)
{
	struct key_datagram datagram = {.bytes = {SEALED_MAGIC, 1 + input8(&w->input) % 5}};
	const uint8_t *bytes;
	size_t len = input_bytes(&w->input, input16(&w->input) % 1300, &bytes);

	memcpy(datagram.bytes + 4, bytes, len);
	datagram.len = (uint32_t)len + 4;
	mac_remake(&w->ends[to], &datagram);
	arrives(w, to, &datagram, 0);
}

/* ---- a member that says anything --------------------------------------------------------- */

/* A payload with a good beginning, then altered; and capabilities, or any bytes in their place. */
static uint32_t payload_make(struct world *w, uint8_t *payload, uint32_t head, uint32_t n_at)
{
	uint8_t n = input8(&w->input) % (CAPABILITIES_MAX + 2), how = input8(&w->input);
	uint32_t len = head;
	const uint8_t *bytes;
	size_t size;

	payload[n_at] = n;
	for (uint8_t i = 0; i < n; i++, len += CAPABILITY_LEN) {
		uint8_t which = input8(&w->input) % (SHOWN + 1);

		memset(payload + len, 0, CAPABILITY_LEN);
		if (which < SHOWN)
			memcpy(payload + len, capabilities[which], CAPABILITY_LEN);
		else if ((size = input_bytes(&w->input, CAPABILITY_LEN, &bytes)))
			memcpy(payload + len, bytes, size);
	}
	if (how & 1)
		payload[input16(&w->input) % len] ^= input8(&w->input);
	if (how & 2)
		len -= input16(&w->input) % len;
	return len;
}

/* INIT in the name of the other end. */
static void init_forge(struct world *w, int to)
{
	struct seal *ours = w->ends[!to].ctx->seal, *theirs = w->ends[to].ctx->seal;
	uint8_t payload[INIT_PAYLOAD + (CAPABILITIES_MAX + 2) * CAPABILITY_LEN] = {0};
	uint8_t prologue[16 + INIT_HEADER], ephemeral[32] = {input8(&w->input), 1};
	struct key_datagram made = {.len = 0};
	struct iovec said = {prologue, sizeof(prologue)}, in = {payload, 0};
	struct noise noise;

	put64(payload, 2000000000 + input16(&w->input));
	payload[8] = input8(&w->input) % 3;
	in.iov_len = payload_make(w, payload, INIT_PAYLOAD, 9);
	if (payload[0] % 8)
		in.iov_len = INIT_SAID; /* remaining bytes: zero, or an alteration */
	ripc__datagram_begin(made.bytes, SEALED_INIT, 1 + input8(&w->input));
	put64(made.bytes + 8, ours->ctx->incarnation ^ (input8(&w->input) % 4 == 3));
	put64(made.bytes + 16, theirs->ctx->incarnation);
	put64(made.bytes + 24, ripc__proof(theirs->ctx, get64(made.bytes + 8),
		w->ends[!to].addr.host, 0));
	memcpy(prologue, "ripc handshake 2", 16);
	memcpy(prologue + 16, made.bytes, INIT_HEADER);
	CLAIM(ripc__noise_begin(&noise, &ours->box, &said, theirs->dir.own.public) == 0);
	CLAIM(ripc__noise_write_first(&noise, &ours->dir.own, ephemeral, &in,
		made.bytes + INIT_HEADER) == 0);
	made.len = INIT_HEADER + NOISE_FIRST + (uint32_t)in.iov_len + SEALED_MAC;
	mac_remake(&w->ends[to], &made);
	arrives(w, to, &made, 0);
}

/* REPLY to the last INIT of an end, in the name of the other one. */
static void reply_forge(struct world *w, int to)
{
	struct seal *ours = w->ends[!to].ctx->seal;
	uint8_t payload[REPLY_PAYLOAD + (CAPABILITIES_MAX + 2) * CAPABILITY_LEN] = {0};
	uint8_t prologue[16 + INIT_HEADER], ephemeral[32] = {input8(&w->input), 2};
	uint8_t first[INIT_LEN];
	const struct key_datagram *init = &w->last[to];
	struct key_datagram made = {.len = 0};
	struct iovec said = {prologue, sizeof(prologue)}, in = {payload, 0}, out = {first, 0};
	struct iovec message = {(void *)(init->bytes + INIT_HEADER),
		init->len - INIT_HEADER - SEALED_MAC};
	struct noise noise;

	if (!init->len)
		return;
	put32(payload, 1 + input8(&w->input));
	payload[4] = (uint8_t)(1 + input8(&w->input) % 3);
	payload[5] = input8(&w->input) % 8 == 7;
	put64(payload + 8, ours->ctx->incarnation ^ (input8(&w->input) % 4 == 3));
	in.iov_len = payload_make(w, payload, REPLY_PAYLOAD, 6);
	ripc__datagram_begin(made.bytes, SEALED_REPLY, get32(init->bytes + 4));
	memcpy(made.bytes + 8, payload, 4);
	memcpy(prologue, "ripc handshake 2", 16);
	memcpy(prologue + 16, init->bytes, INIT_HEADER);
	CLAIM(ripc__noise_begin(&noise, &ours->box, &said, ours->dir.own.public) == 0);
	if (ripc__noise_read_first(&noise, &ours->dir.own, &message, &out))
		return; /* INIT for another member */
	CLAIM(ripc__noise_write_second(&noise, ephemeral, ours->secrets[0].psk, &in,
		made.bytes + REPLY_HEADER) == 0);
	made.len = REPLY_HEADER + NOISE_SECOND + (uint32_t)in.iov_len + SEALED_MAC;
	mac_remake(&w->ends[to], &made);
	w->forged = true;
	arrives(w, to, &made, 0);
}

/* ---- the ends themselves ----------------------------------------------------------------- */

static void begin(struct world *w, int from)
{
	uint32_t sent = w->ends[from].n_sent;
	struct member *member = key_end_member(&w->ends[from], &w->ends[!from]);
	uint8_t how = input8(&w->input);

	CLAIM(member);
	if (how & 1)
		ripc__member_proof_keep(w->ends[from].ctx->seal, member,
			ripc__proof(w->ends[!from].ctx, w->ends[from].ctx->incarnation,
			w->ends[from].addr.host, how >> 1 & 1));
	(void)ripc__handshake_begin(key_end_net(&w->ends[from]), member, &w->ends[!from].addr);
	check_sent(w, from, sent);
}

/* A datagram that core sends: a sealed packet, or the first bytes of one. */
static void talk(struct world *w, int from)
{
	struct seal *seal = w->ends[from].ctx->seal;
	struct member *member = key_end_member(&w->ends[from], &w->ends[!from]);
	struct key_datagram made = {.len = 0};
	struct iovec in;
	const uint8_t *bytes;

	in.iov_len = input_bytes(&w->input, input8(&w->input), &bytes);
	in.iov_base = (void *)bytes;
	if (!member || !ripc__member_is_ready(seal, member))
		return;
	CLAIM(ripc__session_seal(&seal->ciphers, member->current, &in, 1, made.bytes) == 0);
	made.len = (uint32_t)in.iov_len + SEALED_EXTRA;
	arrives(w, !from, &made, 0);
}

static void time_passes(struct world *w)
{
	uint64_t us = (uint64_t)input16(&w->input) << input8(&w->input) % 14;

	for (int i = 0; i < 2; i++) {
		uint32_t sent = w->ends[i].n_sent;

		w->ends[i].now_us += us;
		ripc_poll(w->ends[i].ctx);
		check_sent(w, i, sent);
	}
	check(w);
}

static void step(struct world *w)
{
	uint8_t what = input8(&w->input);
	int end = what >> 7;

	switch (what % 10) {
	case 0: begin(w, end); break;
	case 1: case 2: pass(w, end, false); break;
	case 3: case 4: pass(w, end, true); break;
	case 5: make_up(w, end); break;
	case 6: init_forge(w, end); break;
	case 7: reply_forge(w, end); break;
	case 8: talk(w, end); break;
	default: time_passes(w);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	setup();
	world.input = (struct input){data, data + len};
	world.forged = false;
	world.n_keys = 0;
	for (int i = 0; i < 2; i++) {
		world.valid[i] = world.last[i].len = 0;
		CLAIM(key_end_open(&world.ends[i], dirs[i], (uint8_t)(i + 1), fuzz_crypto) == 0);
	}
	for (uint32_t i = 0; i < STEPS && !input_ends(&world.input); i++)
		step(&world);
	for (int i = 0; i < 2; i++)
		CLAIM(ripc_close(world.ends[i].ctx, 0) == 0);
	return 0;
}
