/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See internal.h.
 *
 * Design notes. A datagram from outside the deployment costs one HMAC, whose key only members know.
 * No Diffie-Hellman is computed before the address token was checked, nor for a host that has used
 * up its budget. A handshake changes no existing session before it has succeeded, and each
 * repetition is a handshake of its own: the stamp, which only grows, keeps an old one that comes
 * late from taking the place of a newer one. An INIT that comes twice costs its sender's host no
 * budget, because anybody on the link can send it again.
 *
 * A handshake is begun with an address that core sends to, and never with the sender address of a
 * datagram. All members can make the MACs of PROOF and UNKNOWN. Therefore PROOF shows the MAC of
 * the INIT that it answers, and UNKNOWN a number that only the two ends of a session know.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "util/hash/siphash.h"

#define AGAIN_US    100000u  /* until the first repetition, then twice as long each time, */
#define SLOWEST_US  1000000u /* up to this */
#define PROOF_US    20000u   /* address tokens cause at most one repetition in this time */
#define HINTED_US   300000u  /* timeout after a hint that nobody listens */
#define RECENT      65536u   /* datagrams that a quote may be behind */
#define DOUBTS      5u       /* UNKNOWNs without proof until core probes, with fewer bytes */

/* ---- payloads ---------------------------------------------------------------------------- */

/* The payloads of message 1 and of message 2. */
struct init_payload {
	uint64_t stamp;      /* grows with each handshake of a context */
	uint32_t index;      /* of the datagram's header, not of the payload */
	bool has_fast_aes;
	uint32_t n_capabilities;
	uint64_t reset;      /* shown by UNKNOWN if the sender loses the session */
};

struct reply_payload {
	uint32_t index;      /* the responder's, as in the header */
	uint8_t cipher;
	bool is_refused;     /* no capability counts: no session is made */
	uint64_t context;    /* the responder's */
	uint64_t reset;      /* as in init_payload */
	uint32_t n_capabilities;
};

/* Payloads are written without the capabilities that follow. Reading returns 0 or -EBADMSG. */

/* 0 u64 stamp   8 u8 fast AES   9 u8 n_capabilities   10 zero, 6 bytes   16 u64 reset */
static void init_payload_encode(const struct init_payload *payload,
		uint8_t bytes[INIT_PAYLOAD])
{
	memset(bytes, 0, INIT_PAYLOAD);
	put64(bytes, payload->stamp);
	bytes[8] = payload->has_fast_aes;
	bytes[9] = (uint8_t)payload->n_capabilities;
	put64(bytes + 16, payload->reset);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= bytes[i];
	return !any;
}

static int init_payload_decode(const uint8_t *bytes, size_t len,
		struct init_payload *payload)
{
	size_t end;

	if (len != INIT_SAID || bytes[8] > 1 || bytes[9] > CAPABILITIES_MAX ||
			get16(bytes + 10) || get32(bytes + 12))
		return -EBADMSG;
	end = INIT_PAYLOAD + bytes[9] * CAPABILITY_LEN;
	if (!is_zero(bytes + end, len - end))
		return -EBADMSG;
	payload->stamp = get64(bytes);
	payload->has_fast_aes = bytes[8];
	payload->n_capabilities = bytes[9];
	payload->reset = get64(bytes + 16);
	return 0;
}

/* 0 u32 index   4 u8 cipher   5 u8 refused   6 u8 n_capabilities   7 u8 zero   8 u64 context
 * 16 u64 reset */
static void reply_payload_encode(const struct reply_payload *payload,
		uint8_t bytes[REPLY_PAYLOAD])
{
	memset(bytes, 0, REPLY_PAYLOAD);
	put32(bytes, payload->index);
	bytes[4] = payload->cipher;
	bytes[5] = payload->is_refused;
	bytes[6] = (uint8_t)payload->n_capabilities;
	put64(bytes + 8, payload->context);
	put64(bytes + 16, payload->reset);
}

static int reply_payload_decode(const uint8_t *bytes, size_t len,
		struct reply_payload *payload)
{
	if (len < REPLY_PAYLOAD || !get32(bytes) || bytes[4] < RIPC_CHACHA20_POLY1305 ||
			bytes[4] > RIPC_AES_128_GCM || bytes[5] > 1 ||
			bytes[6] > CAPABILITIES_MAX || bytes[7] ||
			len != REPLY_PAYLOAD + bytes[6] * CAPABILITY_LEN)
		return -EBADMSG;
	payload->index = get32(bytes);
	payload->cipher = bytes[4];
	payload->is_refused = bytes[5];
	payload->n_capabilities = bytes[6];
	payload->context = get64(bytes + 8);
	payload->reset = get64(bytes + 16);
	return 0;
}

/* ---- both ends --------------------------------------------------------------------------- */

static int mac_of(struct seal *seal, uint32_t secret, const struct iovec *in, uint8_t mac[32])
{
	return seal->box.ops->mac(seal->box.lib, seal->secrets[secret].handshake_key, in, 1, mac);
}

/* Appends the MAC to len bytes. An answer uses the secret of the datagram that it answers. */
static uint32_t finish(struct seal *seal, uint8_t *bytes, uint32_t len)
{
	const struct iovec in = {bytes, len};
	uint8_t mac[32] = {0}; /* stays 0 without memory: then nobody accepts the datagram */

	(void)mac_of(seal, seal->secret, &in, mac);
	memcpy(bytes + len, mac, SEALED_MAC);
	return len + SEALED_MAC;
}

/* Has a member made the datagram? Sets seal->secret to the secret of the datagram. */
static bool is_ours(struct seal *seal, const uint8_t *bytes, uint32_t len)
{
	const struct iovec in = {(void *)bytes, len - SEALED_MAC};
	uint8_t mac[32];

	for (uint32_t i = 0; i < seal->dir.n_secrets; i++) {
		seal->secret = i;
		if (mac_of(seal, i, &in, mac) == 0 &&
				ripc__is_equal(mac, bytes + len - SEALED_MAC, SEALED_MAC))
			return true;
	}
	return false;
}

static int ephemeral_draw(struct seal *seal, uint8_t ephemeral[32])
{
	return seal->ctx->env.random(seal->ctx->env.arg, ephemeral, 32);
}

static struct iovec prologue_of(uint8_t prologue[16 + INIT_HEADER], const uint8_t *header)
{
	memcpy(prologue, "ripc handshake 2", 16);
	memcpy(prologue + 16, header, INIT_HEADER);
	return (struct iovec){prologue, 16 + INIT_HEADER};
}

/*
 * The number that UNKNOWN shows if we lose the session with this index. Only we can compute it, and
 * we can compute it again after the loss.
 */
static uint64_t reset_of(const struct seal *seal, uint32_t index)
{
	uint8_t bound[12] = "ripc end";

	put32(bound + 8, index);
	return ripc__siphash(seal->ctx->self.secret, bound, sizeof(bound));
}

/* ---- the initiator ----------------------------------------------------------------------- */

static uint64_t stamp_take(struct seal *seal)
{
	uint64_t now_us = seal->ctx->now_us;

	seal->last_stamp = now_us > seal->last_stamp ? now_us : seal->last_stamp + 1;
	return seal->last_stamp;
}

static int init_write(struct seal *seal, struct handshake *handshake, uint8_t bytes[INIT_LEN])
{
	const struct init_payload says = {.stamp = stamp_take(seal),
		.has_fast_aes = seal->box.ops->has_fast_aes(),
		.n_capabilities = seal->dir.n_capabilities,
		.reset = reset_of(seal, handshake->index)};
	uint8_t payload[INIT_SAID] = {0}, prologue[16 + INIT_HEADER], ephemeral[32];
	struct member *member = handshake->member;
	struct iovec said, in = {payload, sizeof(payload)};
	int error;

	init_payload_encode(&says, payload);
	memcpy(payload + INIT_PAYLOAD, seal->dir.capabilities,
		says.n_capabilities * CAPABILITY_LEN);
	ripc__datagram_begin(bytes, SEALED_INIT, handshake->index);
	put64(bytes + 8, seal->ctx->incarnation);
	put64(bytes + 16, member->context);
	put64(bytes + 24, handshake->proof);
	said = prologue_of(prologue, bytes);
	error = ephemeral_draw(seal, ephemeral);
	error = error ? error : ripc__noise_begin(&handshake->noise, &seal->box, &said,
		member->key);
	error = error ? error : ripc__noise_write_first(&handshake->noise, &seal->dir.own,
		ephemeral, &in, bytes + INIT_HEADER);
	explicit_bzero(ephemeral, sizeof(ephemeral));
	seal->secret = 0;
	if (error)
		return error;
	(void)finish(seal, bytes, INIT_LEN - SEALED_MAC);
	memcpy(handshake->mac, bytes + INIT_LEN - SEALED_MAC, SEALED_MAC);
	return 0;
}

/* Sends an INIT: each time a new one, with another index and another ephemeral key. */
static int init_send(struct seal *seal, struct handshake *handshake)
{
	uint8_t bytes[INIT_LEN];
	uint32_t index = ripc__index_draw(seal);
	int error = ripc__map_put(&seal->handshakes, index, handshake);

	if (error)
		return error;
	ripc__map_remove(&seal->handshakes, handshake->index);
	handshake->index = handshake->member->handshake = index;
	error = init_write(seal, handshake, bytes);
	if (!error)
		handshake->thrown = ripc__sealed_throw(handshake->net, &handshake->at, bytes,
			sizeof(bytes));
	ripc__timer_set(&seal->ctx->loop.timers, &handshake->timer,
		seal->ctx->now_us + handshake->wait_us);
	return error;
}

static struct handshake *handshake_of(const struct seal *seal, const struct member *member)
{
	return ripc__map_get(&seal->handshakes, member->handshake);
}

static void handshake_free(struct seal *seal, struct handshake *handshake)
{
	ripc__timer_dismiss(seal->ctx, &handshake->timer);
	ripc__map_remove(&seal->handshakes, handshake->index);
	list_remove(&handshake->node);
	handshake->member->handshake = 0;
	ripc__noise_wipe(&handshake->noise);
	ripc__secret_free(&seal->ciphers.memory, handshake, sizeof(*handshake));
}

void ripc__handshake_end(struct seal *seal, struct member *member)
{
	struct handshake *handshake = handshake_of(seal, member);

	if (handshake)
		handshake_free(seal, handshake);
}

/*
 * The handshake has failed. An existing session stays, and the failure is reported to core only if
 * there is none. With a session, routes that wait for the handshake go on with it: the member may
 * have begun it by another network. These routes wait for no other handshake soon, because core
 * must see that the member does not respond. If another context answered, the address is not tried
 * again at once.
 */
static void fail(struct sealed_net *net, struct member *member, int status)
{
	struct seal *seal = net->seal;
	const struct handshake *handshake = handshake_of(seal, member);
	uint8_t nets = sealed_net_bit(net) | (handshake ? handshake->nets : 0);

	ripc__handshake_end(seal, member);
	if (ripc__member_is_ready(seal, member)) {
		ripc__member_unanswered(seal, member);
		ripc__member_tell_all(seal, member, nets, 0);
		return;
	}
	if (status == -ECONNRESET) {
		ripc__member_refuse(seal, member, true);
		status = -EHOSTUNREACH; /* core takes ECONNRESET for "perhaps delivered" */
	}
	ripc__member_tell_all(seal, member, nets, status);
}

/* Timeout of a handshake. With several networks it is as short as core's for a silent network. */
static uint64_t patience_us(const struct seal *seal)
{
	uint64_t all_us = 1000ull * seal->ctx->cfg.peer_timeout_ms;

	return seal->n_nets > 1 ? all_us / 4 : all_us;
}

static void fire(void *owner, struct ripc__timer *timer)
{
	struct handshake *handshake = list_entry(timer, struct handshake, timer);
	struct ripc_context *ctx = owner;
	struct seal *seal = ctx->seal;
	bool is_hinted = handshake->hinted_us && ctx->now_us - handshake->hinted_us >= HINTED_US;

	if (is_hinted || ctx->now_us - handshake->began_us >= patience_us(seal)) {
		fail(handshake->net, handshake->member, -EHOSTUNREACH);
		return;
	}
	handshake->wait_us = handshake->wait_us < SLOWEST_US / 2 ? 2 * handshake->wait_us :
		SLOWEST_US;
	if (init_send(seal, handshake))
		fail(handshake->net, handshake->member, -ENOMEM);
}

static bool is_same(const struct ripc__addr *a, const struct ripc__addr *b)
{
	return a->len == b->len && memcmp(a->blob, b->blob, a->len) == 0;
}

void ripc__handshakes_way(struct sealed_net *net, const struct ripc__addr *at, int status)
{
	list_for_each_safe(node, &net->seal->under_way) {
		struct handshake *handshake = list_entry(node, struct handshake, node);

		if (handshake->net != net || !is_same(&handshake->at, at))
			continue;
		handshake->thrown = status;
		if (!status && init_send(net->seal, handshake))
			fail(net, handshake->member, -ENOMEM);
		else if (handshake->thrown)
			fail(net, handshake->member, -EHOSTUNREACH);
	}
}

void ripc__handshakes_renew(struct seal *seal)
{
	list_for_each_safe(node, &seal->under_way) {
		struct handshake *handshake = list_entry(node, struct handshake, node);

		if (init_send(seal, handshake))
			fail(handshake->net, handshake->member, -ENOMEM);
	}
}

int ripc__handshake_begin(struct sealed_net *net, struct member *member,
		const struct ripc__addr *at)
{
	struct seal *seal = net->seal;
	uint64_t now_us = seal->ctx->now_us;
	struct handshake *handshake = handshake_of(seal, member);

	if (ripc__member_is_refused(seal, member))
		return member->is_elsewhere ? -EHOSTUNREACH : -EACCES;
	if (ripc__grants_are_revoked(net, member, at))
		return -EACCES;
	if (handshake) {
		handshake->net = net;
		handshake->nets |= sealed_net_bit(net);
		handshake->at = *at;
		return 0;
	}
	handshake = ripc__secret_alloc(&seal->ciphers.memory, sizeof(*handshake));
	if (!handshake)
		return -ENOMEM;
	if (ripc__timer_admit(seal->ctx)) {
		ripc__secret_free(&seal->ciphers.memory, handshake, sizeof(*handshake));
		return -ENOMEM;
	}
	*handshake = (struct handshake){.timer.fire = fire, .member = member, .net = net,
		.nets = sealed_net_bit(net), .at = *at, .began_us = now_us, .wait_us = AGAIN_US,
		.proof = ripc__member_proof(seal, member)};
	list_append(&seal->under_way, &handshake->node);
	if (init_send(seal, handshake) == 0)
		return 0;
	handshake_free(seal, handshake);
	return -ENOMEM;
}

void ripc__handshake_proof(struct seal *seal, struct member *member, uint64_t proof)
{
	struct handshake *handshake = handshake_of(seal, member);

	ripc__member_proof_keep(seal, member, proof);
	if (handshake)
		handshake->proof = proof;
}

static void proof_input(struct seal *seal, const uint8_t *bytes)
{
	struct handshake *handshake = ripc__map_get(&seal->handshakes, get32(bytes + 4));
	uint64_t now_us = seal->ctx->now_us;

	if (!handshake || get64(bytes + 8) != seal->ctx->incarnation ||
			!ripc__is_equal(bytes + 24, handshake->mac, SEALED_MAC) ||
			(handshake->proof_us && now_us - handshake->proof_us < PROOF_US))
		return;
	handshake->proof_us = now_us;
	ripc__handshake_proof(seal, handshake->member, get64(bytes + 16));
	if (init_send(seal, handshake))
		fail(handshake->net, handshake->member, -ENOMEM);
}

/* Both ends have the keys: makes the session. */
static int initiator_done(struct seal *seal, struct handshake *handshake, struct noise *noise,
		const struct reply_payload *says)
{
	struct member *member = handshake->member;
	struct session *session;
	struct noise_keys keys;
	int error = ripc__noise_split(noise, &keys);

	if (error)
		return error;
	session = ripc__session_make(seal, member, handshake->index, says->cipher, &keys, true);
	explicit_bzero(&keys, sizeof(keys));
	if (!session)
		return -ENOMEM;
	session->their_index = says->index;
	session->their_reset = (uint32_t)says->reset;
	member->is_stale = false;
	ripc__session_use(seal, session);
	return 0;
}

/* Judges the responder's statements about itself. 0: it is the member we mean, and may be it. */
static int reply_judge(struct sealed_net *net, struct member *member, const uint8_t *payload,
		const struct reply_payload *says, const struct ripc__addr *from)
{
	if (says->context != member->context)
		return -ECONNRESET; /* another context has the address now */
	if (says->is_refused) {
		ripc__seal_say(net, from, "refuses us: none of our capabilities is valid there, or "
			"our key is revoked: see \"ripc key show\", and have new ones granted "
			"(ripc key grant)");
		return -EACCES;
	}
	if (says->cipher == RIPC_AES_128_GCM && !net->seal->box.ops->has_fast_aes())
		return -EBADMSG;
	return ripc__grants_take(net, member, payload + REPLY_PAYLOAD, says->n_capabilities, from);
}

static void reply_input(struct sealed_net *net, uint8_t *bytes, uint32_t len,
		const struct ripc__addr *from)
{
	struct seal *seal = net->seal;
	struct handshake *handshake = ripc__map_get(&seal->handshakes, get32(bytes + 4));
	const struct iovec in = {bytes + REPLY_HEADER, len - REPLY_HEADER - SEALED_MAC};
	uint8_t payload[REPLY_PAYLOAD + CAPABILITIES_MAX * CAPABILITY_LEN];
	struct iovec out = {payload, 0};
	struct reply_payload says;
	struct member *member;
	struct noise noise;
	struct sealed_net *by;
	struct ripc__addr at;
	uint8_t nets;
	int error;

	if (!handshake)
		return;
	member = handshake->member;
	noise = handshake->noise; /* a forged reply changes nothing */
	if (ripc__noise_read_second(&noise, &seal->dir.own, seal->secrets[seal->secret].psk, &in,
				&out) ||
			reply_payload_decode(payload, out.iov_len, &says) ||
			says.index != get32(bytes + 8)) {
		ripc__noise_wipe(&noise);
		seal->ctx->stats.drop_token++;
		return;
	}
	error = reply_judge(net, member, payload, &says, from);
	error = error ? error : initiator_done(seal, handshake, &noise, &says);
	ripc__noise_wipe(&noise);
	if (error == -EACCES)
		ripc__grants_lose(net, member);
	if (error) {
		fail(net, member, error);
		return;
	}
	nets = handshake->nets | sealed_net_bit(net);
	by = handshake->net;
	at = handshake->at; /* REPLY may have been sent again from another address */
	ripc__handshake_end(seal, member);
	member->is_refused = false;
	ripc__sealed_confirm(by, member, &at);
	ripc__member_tell_all(seal, member, nets, 0);
}

/* ---- the responder ----------------------------------------------------------------------- */

static void proof_send(struct sealed_net *net, const uint8_t *init, const struct ripc__addr *to)
{
	uint64_t context = get64(init + 8);
	uint8_t bytes[PROOF_LEN] = {0};

	ripc__datagram_begin(bytes, SEALED_PROOF, get32(init + 4));
	put64(bytes + 8, context);
	put64(bytes + 16, ripc__proof(net->seal->ctx, context, to->host, 0));
	memcpy(bytes + 24, init + INIT_LEN - SEALED_MAC, SEALED_MAC);
	net->seal->ctx->stats.retries++;
	(void)ripc__sealed_throw(net, to, bytes, finish(net->seal, bytes, PROOF_LEN - SEALED_MAC));
}

static int reply_send(struct sealed_net *net, struct noise *noise, const struct reply_payload *says,
		uint32_t index, const struct ripc__addr *to)
{
	struct seal *seal = net->seal;
	uint8_t payload[REPLY_PAYLOAD + sizeof(seal->dir.capabilities)];
	uint8_t bytes[REPLY_LEN(CAPABILITIES_MAX)], ephemeral[32];
	const struct iovec in = {payload, REPLY_PAYLOAD + says->n_capabilities * CAPABILITY_LEN};
	int error = ephemeral_draw(seal, ephemeral);

	reply_payload_encode(says, payload);
	memcpy(payload + REPLY_PAYLOAD, seal->dir.capabilities, in.iov_len - REPLY_PAYLOAD);
	memset(bytes, 0, REPLY_HEADER);
	ripc__datagram_begin(bytes, SEALED_REPLY, index);
	put32(bytes + 8, says->index);
	error = error ? error : ripc__noise_write_second(noise, ephemeral,
		seal->secrets[seal->secret].psk, &in, bytes + REPLY_HEADER);
	explicit_bzero(ephemeral, sizeof(ephemeral));
	if (!error)
		(void)ripc__sealed_throw(net, to, bytes, finish(seal, bytes,
			REPLY_LEN(says->n_capabilities) - SEALED_MAC));
	return error;
}

/* Makes a session, which becomes current with the first datagram that it sealed. */
static void responder_done(struct seal *seal, struct member *member, struct noise *noise,
		const struct reply_payload *says, const struct init_payload *said)
{
	struct noise_keys keys;
	struct session *session;

	if (ripc__noise_split(noise, &keys))
		return;
	ripc__session_end(seal, ripc__session_by(seal, member->next));
	session = ripc__session_make(seal, member, says->index, says->cipher, &keys, false);
	explicit_bzero(&keys, sizeof(keys));
	if (!session)
		return;
	session->their_index = said->index;
	session->their_reset = (uint32_t)said->reset;
	member->next = says->index;
	member->is_refused = member->is_stale = false;
}

/* Message 1 has been read: identifies the member, and admits or refuses it. */
static void init_answer(struct sealed_net *net, struct noise *noise, const struct iovec *payload,
		const uint8_t *bytes, const struct ripc__addr *from)
{
	struct seal *seal = net->seal;
	struct reply_payload says = {.cipher = RIPC_CHACHA20_POLY1305,
		.context = seal->ctx->incarnation, .n_capabilities = seal->dir.n_capabilities};
	struct init_payload said;
	struct member *member;
	int error;

	if (init_payload_decode(payload->iov_base, payload->iov_len, &said))
		return;
	said.index = get32(bytes + 4);
	member = ripc__member_get(seal, noise->remote_s, get64(bytes + 8));
	if (!member || said.stamp <= member->stamp) {
		seal->ctx->stats.drop_duplicate++;
		return;
	}
	member->stamp = said.stamp;
	error = ripc__grants_take(net, member, (uint8_t *)payload->iov_base + INIT_PAYLOAD,
		said.n_capabilities, from);
	if (error && error != -EACCES)
		return; /* the member will repeat its INIT */
	says.is_refused = error == -EACCES;
	says.n_capabilities = says.is_refused ? 0 : says.n_capabilities;
	if (said.has_fast_aes && seal->box.ops->has_fast_aes())
		says.cipher = RIPC_AES_128_GCM;
	says.index = ripc__index_draw(seal);
	says.reset = reset_of(seal, says.index);
	if (reply_send(net, noise, &says, get32(bytes + 4), from))
		return;
	if (says.is_refused)
		ripc__grants_lose(net, member);
	else
		responder_done(seal, member, noise, &says, &said);
}

/*
 * Was this INIT computed in this period of address tokens, or in the one before? Older tokens are
 * invalid. Without memory, or with more INITs than the budget allows, a known INIT counts as new:
 * then it costs budget, and its stamp shows that it is old.
 */
static bool is_seen(const struct seal *seal, uint64_t mac)
{
	uint64_t period = seal->ctx->now_us / PROOF_PERIOD_US;

	for (uint32_t i = 0; i < 2; i++)
		if (seal->inits_seen[i].period + 1 >= period &&
				ripc__map_get(&seal->inits_seen[i].macs, mac))
			return true;
	return false;
}

static void seen_add(struct seal *seal, uint64_t mac)
{
	uint64_t period = seal->ctx->now_us / PROOF_PERIOD_US;
	struct ripc__map *macs = &seal->inits_seen[period % 2].macs;

	if (seal->inits_seen[period % 2].period != period) {
		ripc__map_free(macs);
		seal->inits_seen[period % 2].period = period;
	}
	if (macs->count < INITS_SEEN)
		(void)ripc__map_put(macs, mac, seal);
}

static void init_input(struct sealed_net *net, uint8_t *bytes, const struct ripc__addr *from)
{
	struct seal *seal = net->seal;
	const struct iovec in = {bytes + INIT_HEADER, NOISE_FIRST + INIT_SAID};
	uint64_t mac = get64(bytes + INIT_LEN - SEALED_MAC);
	uint8_t said[INIT_SAID], prologue[16 + INIT_HEADER];
	struct ripc_context *ctx = seal->ctx;
	struct iovec payload = {said, 0}, begins;
	struct noise noise;

	if (!ripc__proof_valid(ctx, get64(bytes + 8), from->host, get64(bytes + 24))) {
		ctx->stats.drop_proof++;
		proof_send(net, bytes, from);
		return;
	}
	if (!ripc__budget_spend(&seal->inits, from->host, ctx->now_us, 1)) {
		ctx->stats.drop_partner_limit++;
		return;
	}
	seen_add(seal, mac);
	begins = prologue_of(prologue, bytes);
	if (ripc__noise_begin(&noise, &seal->box, &begins, seal->dir.own.public) == 0 &&
			ripc__noise_read_first(&noise, &seal->dir.own, &in, &payload) == 0) {
		ctx->stats.hellos++;
		init_answer(net, &noise, &payload, bytes, from);
	} else {
		ctx->stats.drop_token++;
	}
	ripc__noise_wipe(&noise);
}

/* ---- hints ------------------------------------------------------------------------------- */

/* DATA has at least SEALED_EXTRA bytes, and 1.5 times these are more than UNKNOWN has. */
_Static_assert(2 * UNKNOWN_LEN <= 3 * SEALED_EXTRA, "UNKNOWN_LEN");

void ripc__unknown_answer(struct sealed_net *net, const uint8_t *bytes,
		const struct ripc__addr *from)
{
	struct ripc_context *ctx = net->seal->ctx;
	uint8_t answer[UNKNOWN_LEN];

	if (!ripc__bucket_take(&ctx->partners.strangers, ctx->now_us))
		return;
	ripc__datagram_begin(answer, SEALED_UNKNOWN, get32(bytes + 4));
	memcpy(answer + 8, bytes + 8, 8);
	put64(answer + 16, reset_of(net->seal, get32(bytes + 4)));
	net->seal->secret = 0;
	(void)ripc__sealed_throw(net, from, answer, finish(net->seal, answer,
		UNKNOWN_LEN - SEALED_MAC));
}

/* The member whose session has their index, and has just used this counter; or NULL. */
static struct member *sent_by(struct seal *seal, uint32_t their_index, uint64_t counter)
{
	list_for_each(node, &seal->used) {
		struct member *member = list_entry(node, struct member, node);
		const struct session *session = member->current;

		if (session && session->their_index == their_index && counter < session->sent &&
				session->sent - counter <= RECENT)
			return member;
	}
	return NULL;
}

/*
 * The member's context has lost the session. From now on each datagram to it begins a handshake,
 * unless one is in progress, until another session is in use. A replayed UNKNOWN has no effect.
 */
static void session_lost(struct member *member)
{
	member->is_stale |= !member->current->is_lost;
	member->current->is_lost = true;
}

/*
 * An UNKNOWN without proof: another context has the address, or a member lies. DOUBTS UNKNOWNs are
 * a hint, if they answer different datagrams: their counters modulo DOUBTS must follow each other.
 */
static bool is_doubtful(struct session *session, uint64_t counter)
{
	if (counter % DOUBTS != session->doubts)
		return false;
	session->doubts = (uint8_t)((session->doubts + 1) % DOUBTS);
	return !session->doubts;
}

/* Returns the member if core should probe it; else NULL. */
static const struct member *unknown_input(struct seal *seal, const uint8_t *bytes,
		const struct ripc__addr *from)
{
	uint64_t counter = get64(bytes + 8);
	uint32_t reset = get32(bytes + 16);
	struct member *member;

	if (!ripc__budget_spend(&seal->unknowns, from->host, seal->ctx->now_us, 1))
		return NULL;
	member = sent_by(seal, get32(bytes + 4), counter);
	if (!member)
		return NULL;
	if (ripc__is_equal(&member->current->their_reset, &reset, sizeof(reset))) {
		session_lost(member);
		return NULL;
	}
	return is_doubtful(member->current, counter) ? member : NULL;
}

struct member *ripc__handshake_quoted(struct seal *seal, const uint8_t *quote, uint32_t len)
{
	struct handshake *handshake;

	if (len < SEALED_HEADER || quote[0] != SEALED_MAGIC)
		return NULL;
	if (quote[1] == SEALED_DATA && ripc__bucket_take(&seal->quotes, seal->ctx->now_us))
		return sent_by(seal, get32(quote + 4), get64(quote + 8));
	handshake = quote[1] == SEALED_INIT ?
		ripc__map_get(&seal->handshakes, get32(quote + 4)) : NULL;
	if (handshake && get64(quote + 8) == seal->ctx->incarnation && !handshake->hinted_us)
		handshake->hinted_us = seal->ctx->now_us;
	return NULL;
}

/* ---- input ------------------------------------------------------------------------------- */

/* Does the length fit the kind, and are the reserved fields zero? */
static bool is_formed(const uint8_t *bytes, uint32_t len)
{
	if (get16(bytes + 2) || !get32(bytes + 4))
		return false;
	switch (bytes[1]) {
	case SEALED_INIT:
		return len == INIT_LEN;
	case SEALED_REPLY:
		return len >= REPLY_LEN(0) && len <= REPLY_LEN(CAPABILITIES_MAX) &&
			get32(bytes + 12) == 0;
	case SEALED_PROOF:
		return len == PROOF_LEN && is_zero(bytes + PROOF_HEADER,
			len - PROOF_HEADER - SEALED_MAC);
	case SEALED_UNKNOWN:
		return len == UNKNOWN_LEN;
	default:
		return false;
	}
}

const struct member *ripc__handshake_input(struct sealed_net *net, uint8_t *bytes, uint32_t len,
		const struct ripc__addr *from)
{
	struct seal *seal = net->seal;

	if (!is_formed(bytes, len)) {
		seal->ctx->stats.drop_malformed++;
		return NULL;
	}
	/* An INIT with a known MAC is a repetition, or is forged. */
	if (bytes[1] == SEALED_INIT && is_seen(seal, get64(bytes + INIT_LEN - SEALED_MAC))) {
		seal->ctx->stats.drop_duplicate++;
		return NULL;
	}
	if (!is_ours(seal, bytes, len)) {
		seal->ctx->stats.drop_token++;
		ripc__seal_say(net, from, "has keys of another deployment, or its packets are "
			"altered or forged: dropped; both need the same file \"secret\"");
		return NULL;
	}
	if (bytes[1] == SEALED_INIT)
		init_input(net, bytes, from);
	else if (bytes[1] == SEALED_REPLY)
		reply_input(net, bytes, len, from);
	else if (bytes[1] == SEALED_PROOF)
		proof_input(seal, bytes);
	else
		return unknown_input(seal, bytes, from);
	return NULL;
}
