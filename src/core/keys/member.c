/* SPDX-License-Identifier: BSD-3-Clause */
/* See internal.h: the tables of members and sessions, and the end of their entries. */
#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "internal.h"
#include "util/hash/siphash.h"

/* ---- session ----------------------------------------------------------------------------- */

/* See internal.h. The replay window is that of RFC 6479. */

#define GATHERED_MAX 2048u /* bytes */

/* Turns the window into a ring: its bits are those of the word, and lower counters have come. */
static bool ring_make(struct session *session)
{
	uint64_t *ring = malloc(REPLAY_WORDS * sizeof(*ring));
	uint32_t next = session->next;

	if (!ring)
		return false;
	memset(ring, next ? 0xff : 0, REPLAY_WORDS * sizeof(*ring));
	if (next % 64)
		ring[next / 64 % REPLAY_WORDS] = (1ull << next % 64) - 1;
	for (uint32_t i = 0; i < 64 && i < next; i++) {
		uint32_t counter = next - 1 - i;

		if (session->missing >> i & 1)
			ring[counter / 64 % REPLAY_WORDS] &= ~(1ull << counter % 64);
	}
	session->ring = ring;
	session->is_ring = true;
	return true;
}

/* Would a missing counter leave the word if this counter were the highest? */
static bool outgrows(const struct session *session, uint32_t counter)
{
	uint32_t by = counter + 1 - session->next;

	return by > 64 || session->missing >> (64 - by);
}

static void word_note(struct session *session, uint32_t counter)
{
	uint32_t by = counter + 1 - session->next;

	if (counter < session->next) {
		session->missing &= ~(1ull << (session->next - 1 - counter));
		return;
	}
	session->missing = by < 64 ? session->missing << by | ((1ull << by) - 2) : UINT64_MAX - 1;
	session->next = counter + 1;
}

bool ripc__replay_allows(const struct session *session, uint64_t counter)
{
	uint64_t behind = session->next - 1 - counter;

	if (counter >= session->next)
		return counter < UINT32_MAX;
	if (session->is_ring)
		return behind < REPLAY_WINDOW &&
			!(session->ring[counter / 64 % REPLAY_WORDS] >> counter % 64 & 1);
	return behind < 64 && session->missing >> behind & 1;
}

void ripc__replay_note(struct session *session, uint64_t counter)
{
	uint64_t at = session->next ? (session->next - 1) / 64 : 0, to = counter / 64;

	if (!session->is_ring && (counter < session->next ||
			!outgrows(session, (uint32_t)counter) || !ring_make(session))) {
		word_note(session, (uint32_t)counter);
		return;
	}
	if (counter >= session->next) {
		for (uint32_t i = 1; i <= REPLAY_WORDS && at + i <= to; i++)
			session->ring[(at + i) % REPLAY_WORDS] = 0;
		session->next = (uint32_t)counter + 1;
	}
	session->ring[to % REPLAY_WORDS] |= 1ull << counter % 64;
}

/* ---- ciphers ----------------------------------------------------------------------------- */

static void slot_clear(struct ciphers *ciphers, struct cipher_slot *slot)
{
	if (slot->aead) /* without cryptography there is none */
		ciphers->box->ops->aead_free(slot->aead);
	*slot = (struct cipher_slot){0};
}

/* The cipher of a session, with its key. NULL: no memory. */
static void *cipher_of(struct ciphers *ciphers, struct session *session, bool seals)
{
	const struct ripc__crypto *ops = ciphers->box->ops;
	struct cipher_slot *slot = &ciphers->slots[seals][session->slots[seals]];

	if (slot->session == session)
		return slot->aead;
	session->slots[seals] = (uint8_t)(ciphers->next[seals]++ % SESSION_SLOTS);
	slot = &ciphers->slots[seals][session->slots[seals]];
	if (slot->cipher != session->cipher)
		slot_clear(ciphers, slot);
	if (!slot->aead)
		slot->aead = ops->aead_alloc(ciphers->box->lib, session->cipher, seals);
	slot->cipher = session->cipher;
	slot->session = NULL;
	if (!slot->aead || ops->aead_key(slot->aead, session->keys +
			(seals ? 0 : ripc__cipher_key_len(session->cipher))))
		return NULL;
	slot->session = session;
	return slot->aead;
}

/* ---- making and freeing ------------------------------------------------------------------ */

static size_t bytes_of(uint8_t cipher)
{
	return sizeof(struct session) + 2 * ripc__cipher_key_len(cipher);
}

struct session *ripc__session_alloc(struct ciphers *ciphers, uint8_t cipher,
		const uint8_t send_key[32], const uint8_t receive_key[32])
{
	uint32_t len = ripc__cipher_key_len(cipher);
	struct session *session = ripc__secret_alloc(&ciphers->memory, bytes_of(cipher));

	if (!session)
		return NULL;
	session->cipher = cipher;
	memcpy(session->keys, send_key, len);
	memcpy(session->keys + len, receive_key, len);
	return session;
}

void ripc__session_free(struct ciphers *ciphers, struct session *session)
{
	for (int seals = 0; seals < 2; seals++) {
		struct cipher_slot *slot = &ciphers->slots[seals][session->slots[seals]];

		if (slot->session == session)
			slot_clear(ciphers, slot);
	}
	if (session->is_ring)
		free(session->ring);
	ripc__secret_free(&ciphers->memory, session, bytes_of(session->cipher));
}

void ripc__ciphers_free(struct ciphers *ciphers)
{
	for (uint32_t i = 0; i < SESSION_SLOTS; i++) {
		slot_clear(ciphers, &ciphers->slots[0][i]);
		slot_clear(ciphers, &ciphers->slots[1][i]);
	}
}

/* ---- datagrams --------------------------------------------------------------------------- */

/* The nonce as in Noise (section 12): little-endian, but big-endian for AES-GCM. */
static void nonce_of(const struct session *session, uint64_t counter,
		uint8_t nonce[RIPC_NONCE_LEN])
{
	uint64_t bytes = session->cipher == RIPC_AES_128_GCM ? htobe64(counter) : htole64(counter);

	memset(nonce, 0, 4);
	memcpy(nonce + 4, &bytes, 8);
}

/* Copies small pieces to the place of the ciphertext: a copy costs less than a call. */
static uint32_t gather(const struct iovec **in, uint32_t n, uint8_t *out, struct iovec *whole)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += (*in)[i].iov_len;
	if (n < 2 || len > GATHERED_MAX)
		return n;
	*whole = (struct iovec){out, len};
	for (uint32_t i = 0; i < n; out += (*in)[i++].iov_len)
		if ((*in)[i].iov_len)
			memcpy(out, (*in)[i].iov_base, (*in)[i].iov_len);
	*in = whole;
	return 1;
}

int ripc__session_seal(struct ciphers *ciphers, struct session *session, const struct iovec *in,
		uint32_t n, uint8_t *out)
{
	uint8_t nonce[RIPC_NONCE_LEN];
	struct iovec whole;
	const struct ripc__beside beside = {nonce, out, SEALED_HEADER};
	void *aead = cipher_of(ciphers, session, true);
	uint64_t counter = session->sent;

	if (!aead)
		return -ENOMEM;
	if (counter >= REJECT_COUNT)
		return -EKEYEXPIRED;
	session->sent++;
	nonce_of(session, counter, nonce);
	ripc__datagram_begin(out, SEALED_DATA, session->their_index);
	put64(out + 8, counter);
	n = gather(&in, n, out + SEALED_HEADER, &whole);
	return ciphers->box->ops->seal(aead, &beside, in, n, out + SEALED_HEADER);
}

int ripc__session_unseal(struct ciphers *ciphers, struct session *session, uint8_t *bytes,
		uint32_t len)
{
	uint8_t nonce[RIPC_NONCE_LEN];
	const struct ripc__beside beside = {nonce, bytes, SEALED_HEADER};
	const struct iovec in = {bytes + SEALED_HEADER, len - SEALED_HEADER};
	uint64_t counter = get64(bytes + 8);
	void *aead;
	int error;

	if (!ripc__replay_allows(session, counter))
		return -EALREADY;
	aead = cipher_of(ciphers, session, false);
	if (!aead)
		return -ENOMEM;
	nonce_of(session, counter, nonce);
	error = ciphers->box->ops->unseal(aead, &beside, &in, bytes + SEALED_HEADER);
	if (!error)
		ripc__replay_note(session, counter);
	return error;
}

/* ---- member ------------------------------------------------------------------------------ */

#define SWEEP_US 10000000u

static uint64_t name_of(const struct seal *seal, const uint8_t key[32], uint64_t context)
{
	uint8_t both[40];

	memcpy(both, key, 32);
	memcpy(both + 32, &context, 8);
	return ripc__siphash(seal->ctx->self.secret, both, sizeof(both));
}

static void member_free(struct seal *seal, struct member *member)
{
	struct member **at = &seal->opened;

	ripc__handshake_end(seal, member);
	ripc__sessions_end(seal, member);
	ripc__map_remove(&seal->members, member->name);
	while (member->due && *at != member)
		at = &(*at)->opened;
	if (member->due)
		ripc__exposed_remove(seal, at);
	list_remove(&member->node);
	seal->n_idle -= member->routes == 0;
	free(member->rights);
	free(member);
}

/* Bytes of a member. All networks of a context exist before its first member. */
static size_t member_bytes(const struct seal *seal)
{
	size_t bytes = offsetof(struct member, errors) + seal->n_nets;

	return bytes < sizeof(struct member) ? sizeof(struct member) : bytes;
}

static struct member *member_new(struct seal *seal, const uint8_t key[32], uint64_t context)
{
	struct member *member;

	if (seal->n_idle >= MEMBERS_IDLE)
		member_free(seal, list_entry(seal->idle.next, struct member, node));
	member = calloc(1, member_bytes(seal));
	if (!member)
		return NULL;
	member->context = context;
	memcpy(member->key, key, 32);
	member->name = name_of(seal, key, context);
	list_init(&member->node);
	if (ripc__map_put(&seal->members, member->name, member)) {
		free(member);
		return NULL;
	}
	list_append(&seal->idle, &member->node);
	seal->n_idle++;
	return member;
}

struct member *ripc__member_get(struct seal *seal, const uint8_t key[32], uint64_t context)
{
	struct member *member = ripc__map_get(&seal->members, name_of(seal, key, context));

	if (!member)
		return member_new(seal, key, context);
	/* Two keys with one name: with 64 bits under our secret this does not happen. */
	if (member->context != context || !ripc__is_equal(member->key, key, 32))
		return NULL;
	if (!member->routes) {
		list_remove(&member->node);
		list_append(&seal->idle, &member->node);
	}
	return member;
}

void ripc__member_hold(struct seal *seal, struct member *member)
{
	if (member->routes++)
		return;
	list_remove(&member->node);
	list_append(&seal->used, &member->node);
	seal->n_idle--;
}

void ripc__member_drop(struct seal *seal, struct member *member)
{
	if (--member->routes)
		return;
	list_remove(&member->node);
	list_append(&seal->idle, &member->node);
	seal->n_idle++;
}

/* Reports to core that a handshake with the member has succeeded (status 0), or failed. */
static void member_tell(struct sealed_net *net, struct member *member, int status)
{
	struct seal *seal = net->seal;
	bool is_due = member->due;

	member->net = sealed_net_nth(net) % SEALED_NETS;
	member->due |= sealed_net_bit(net);
	member->errors[member->net] = (uint8_t)-status;
	if (is_due)
		return;
	member->opened = NULL;
	*seal->exposed_end = member;
	seal->exposed_end = &member->opened;
}

void ripc__member_tell_all(struct seal *seal, struct member *member, uint8_t nets, int status)
{
	for (uint32_t i = 0; i < seal->n_nets; i++) {
		if (nets >> i & 1 && seal->nets[i].port)
			member_tell(&seal->nets[i], member, status);
	}
}

void ripc__exposed_remove(struct seal *seal, struct member **at)
{
	struct member *member = *at;

	*at = member->opened;
	if (!*at)
		seal->exposed_end = at;
	member->due = 0;
}

/* ---- state that lasts some seconds ------------------------------------------------------- */

uint64_t ripc__member_proof(const struct seal *seal, const struct member *member)
{
	for (uint32_t i = 0; i < PROOFS; i++)
		if (seal->proofs[i].name == member->name)
			return seal->proofs[i].proof;
	return 0;
}

void ripc__member_proof_keep(struct seal *seal, const struct member *member, uint64_t proof)
{
	uint32_t i = 0;

	while (i < PROOFS && seal->proofs[i].name != member->name)
		i++;
	if (i == PROOFS)
		i = seal->n_proofs++ % PROOFS;
	seal->proofs[i].name = member->name;
	seal->proofs[i].proof = proof;
}

static uint32_t now_ms(const struct seal *seal)
{
	return (uint32_t)(seal->ctx->now_us / 1000);
}

void ripc__member_refuse(struct seal *seal, struct member *member, bool is_elsewhere)
{
	member->is_refused = true;
	member->is_elsewhere = is_elsewhere;
	member->refused_ms = (uint16_t)now_ms(seal);
}

void ripc__member_unanswered(struct seal *seal, struct member *member)
{
	member->is_unanswered = true;
	member->refused_ms = (uint16_t)now_ms(seal);
}

/*
 * Was a handshake with the member refused, or not answered, lately? The sweep clears both states
 * before the time, which has 16 bits, wraps around.
 */
static bool was_lately(const struct seal *seal, const struct member *member)
{
	return (uint16_t)(now_ms(seal) - member->refused_ms) < REFUSED_MS;
}

bool ripc__member_is_refused(const struct seal *seal, const struct member *member)
{
	return member->is_refused && was_lately(seal, member);
}

bool ripc__member_is_unanswered(const struct seal *seal, const struct member *member)
{
	return member->is_unanswered && was_lately(seal, member);
}

/* ---- sessions ---------------------------------------------------------------------------- */

uint32_t ripc__session_age_ms(const struct seal *seal, const struct session *session)
{
	return now_ms(seal) - session->born_ms;
}

uint32_t ripc__session_used_ms(const struct seal *seal, const struct session *session)
{
	return now_ms(seal) - session->used_ms;
}

static bool is_fresh(const struct seal *seal, const struct session *session)
{
	return ripc__session_age_ms(seal, session) < REJECT_MS && session->sent < REJECT_COUNT;
}

bool ripc__member_is_ready(const struct seal *seal, const struct member *member)
{
	return member->current && is_fresh(seal, member->current);
}

uint32_t ripc__index_draw(struct seal *seal)
{
	uint32_t index;

	do
		index = (uint32_t)ripc__nonce(seal->ctx);
	while (!index || ripc__map_get(&seal->sessions, index) ||
			ripc__map_get(&seal->handshakes, index));
	return index;
}

struct session *ripc__session_make(struct seal *seal, struct member *member, uint32_t index,
		uint8_t cipher, const struct noise_keys *keys, bool is_initiator)
{
	struct session *session = is_initiator ?
		ripc__session_alloc(&seal->ciphers, cipher, keys->initiator, keys->responder) :
		ripc__session_alloc(&seal->ciphers, cipher, keys->responder, keys->initiator);

	if (!session)
		return NULL;
	session->member = member;
	session->born_ms = now_ms(seal);
	session->index = index;
	session->is_initiator = is_initiator;
	if (ripc__map_put(&seal->sessions, index, session) == 0)
		return session;
	ripc__session_free(&seal->ciphers, session);
	return NULL;
}

struct session *ripc__session_by(const struct seal *seal, uint32_t index)
{
	return ripc__map_get(&seal->sessions, index);
}

void ripc__session_end(struct seal *seal, struct session *session)
{
	struct member *member = session ? session->member : NULL;

	if (!session)
		return;
	if (member->current == session)
		member->current = NULL;
	else if (member->previous == session->index)
		member->previous = 0;
	else if (member->next == session->index)
		member->next = 0;
	ripc__map_remove(&seal->sessions, session->index);
	ripc__session_free(&seal->ciphers, session);
}

void ripc__sessions_end(struct seal *seal, struct member *member)
{
	ripc__session_end(seal, member->current);
	ripc__session_end(seal, ripc__session_by(seal, member->previous));
	ripc__session_end(seal, ripc__session_by(seal, member->next));
}

void ripc__session_use(struct seal *seal, struct session *session)
{
	struct member *member = session->member;

	ripc__session_end(seal, ripc__session_by(seal, member->previous));
	member->previous = member->current ? member->current->index : 0;
	member->current = session;
	session->used_ms = now_ms(seal);
	member->is_unanswered = false;
	/* If our keys have changed since the agreement, the next session may bring more rights. */
	member->lacks &= member->is_stale;
}

void ripc__session_confirm(struct sealed_net *net, struct session *session)
{
	struct member *member = session->member;

	if (member->next != session->index)
		return;
	ripc__session_use(net->seal, session);
	member->next = 0;
	member_tell(net, member, 0);
}

/* ---- forgetting -------------------------------------------------------------------------- */

static void old_end(struct seal *seal, struct session *session)
{
	if (session && !is_fresh(seal, session))
		ripc__session_end(seal, session);
}

static void sweep_list(struct seal *seal, struct list *members)
{
	list_for_each_safe(node, members) {
		struct member *member = list_entry(node, struct member, node);

		old_end(seal, member->current);
		old_end(seal, ripc__session_by(seal, member->previous));
		old_end(seal, ripc__session_by(seal, member->next));
		member->is_refused = ripc__member_is_refused(seal, member);
		member->is_unanswered = ripc__member_is_unanswered(seal, member);
		if (!member->routes && !member->current && !member->next && !member->handshake)
			member_free(seal, member);
	}
}

/* Frees the records of INITs after some time without handshakes. */
static void sweep_inits(struct seal *seal)
{
	for (uint32_t i = 0; i < 2; i++)
		if (seal->inits_seen[i].period + 1 < seal->ctx->now_us / PROOF_PERIOD_US)
			ripc__map_free(&seal->inits_seen[i].macs);
}

static void sweep(void *owner, struct ripc__timer *timer)
{
	struct seal *seal = list_entry(timer, struct seal, sweep);

	(void)owner;
	sweep_list(seal, &seal->idle);
	sweep_list(seal, &seal->used);
	sweep_inits(seal);
	ripc__timer_set(&seal->ctx->loop.timers, timer, seal->ctx->now_us + SWEEP_US);
}

void ripc__members_open(struct seal *seal)
{
	uint64_t seed = ripc__nonce(seal->ctx);

	ripc__map_init(&seal->sessions, seed);
	ripc__map_init(&seal->handshakes, seed);
	ripc__map_init(&seal->members, seed);
	for (uint32_t i = 0; i < 2; i++)
		ripc__map_init(&seal->inits_seen[i].macs, seed);
	list_init(&seal->idle);
	list_init(&seal->used);
	list_init(&seal->under_way);
	seal->exposed_end = &seal->opened;
	seal->sweep.fire = sweep;
	ripc__timer_set(&seal->ctx->loop.timers, &seal->sweep, seal->ctx->now_us + SWEEP_US);
}

void ripc__members_close(struct seal *seal)
{
	ripc__timer_dismiss(seal->ctx, &seal->sweep);
	while (!list_empty(&seal->idle))
		member_free(seal, list_entry(seal->idle.next, struct member, node));
	while (!list_empty(&seal->used))
		member_free(seal, list_entry(seal->used.next, struct member, node));
	ripc__map_free(&seal->sessions);
	ripc__map_free(&seal->handshakes);
	ripc__map_free(&seal->members);
	for (uint32_t i = 0; i < 2; i++)
		ripc__map_free(&seal->inits_seen[i].macs);
}
