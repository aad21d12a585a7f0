/* SPDX-License-Identifier: BSD-3-Clause */
/* See dir.h. The layout (docs/protocol.md has it as a table):
 *
 *    0 u8 version 1   1 u8 what   2 u16 zero   4 u32 zero   8 u64 id   16 u64 until_s
 *   24 holder's X25519 key, 32 bytes   56 signature, 64 bytes
 *
 * The signature is Ed25519 of the 17 bytes "ripc capability 1" and the 56 bytes before it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "internal.h"
#include "ripc/ripc.h"
#include "sealed.h"
#include "util/text.h"

/* ---- grants ------------------------------------------------------------------------------ */

/* See dir.h. Without an authority, each holder of the deployment's secret has all rights. */

#define AWAIT_S 90u /* longer than the time between two checks of the directory (seal.c) */

static size_t rights_bytes(const struct rights *rights)
{
	return offsetof(struct rights, may) + rights->n * sizeof(rights->may[0]);
}

static bool is_private(uint64_t id, uint64_t bits)
{
	return id >> (64 - PRIVATE_BITS) == bits >> (64 - PRIVATE_BITS);
}

static uint64_t now_s(const struct seal *seal)
{
	return seal->ctx->env.wall_ns(seal->ctx->env.arg) / 1000000000;
}

/* Numbers of shown capabilities that do not count, by reason. */
struct faults {
	uint32_t expired, of_another, unsigned_;
};

/* Adds a capability's rights, if it counts. -ENOMEM: there was no memory to verify it. */
static int take_one(struct seal *seal, const struct key_dir *dir, const uint8_t holder[32],
		const uint8_t *bytes, struct rights *rights, struct faults *faults)
{
	struct capability capability;
	int error = ripc__capability_decode(bytes, &capability);

	if (!error && !ripc__is_equal(capability.holder, holder, 32)) {
		faults->of_another++;
		return 0;
	}
	if (!error && capability.until_s <= now_s(seal)) {
		faults->expired++;
		return 0;
	}
	error = error ? error : ripc__capability_verify(&seal->box, dir->authority, bytes);
	if (!error)
		ripc__rights_add(rights, &capability);
	faults->unsigned_ += error && error != -ENOMEM;
	return error == -ENOMEM ? error : 0;
}

static void say_refused(struct sealed_net *net, const struct member *member,
		const struct faults *faults, uint32_t n, const struct ripc__addr *from)
{
	char text[320], key[65] = "";

	ripc__hex_write(key, member->key, 32);
	if (!n) {
		snprintf(text, sizeof(text), "is refused: it has no capabilities; \"ripc key "
			"grant\" makes capabilities for its key %s", key);
		ripc__seal_say(net, from, text);
		return;
	}
	snprintf(text, sizeof(text), "is refused: none of its %u capabilities is valid (%u "
		"expired, %u of another key, %u not signed by our authority): \"ripc key grant\" "
		"makes new ones for its key %s",
		n, faults->expired, faults->of_another, faults->unsigned_, key);
	ripc__seal_say(net, from, text);
}

int ripc__grants_own(struct seal *seal, const struct key_dir *dir)
{
	struct rights rights = {.all = !dir->has_authority};
	uint32_t n = dir->n_capabilities, faulty;
	struct faults faults = {0};
	int error = 0;

	for (uint32_t i = 0; i < n && dir->has_authority && !error; i++)
		error = take_one(seal, dir, dir->own.public, dir->capabilities[i], &rights,
			&faults);
	if (error)
		return error;
	seal->rights = rights;
	faulty = faults.expired + faults.of_another + faults.unsigned_;
	if (faulty > seal->n_faulty)
		ripc__log(seal->ctx, RIPC_LOG_WARN, "keys: %u of our %u capabilities are not valid "
			"(%u expired, %u of another key, %u not signed by our authority): \"ripc "
			"key show\" lists them, \"ripc key grant\" makes new ones", faulty, n,
			faults.expired, faults.of_another, faults.unsigned_);
	seal->n_faulty = faulty;
	return 0;
}

bool ripc__grants_are_revoked(struct sealed_net *net, const struct member *member,
		const struct ripc__addr *at)
{
	char digits[65] = "", text[160];

	if (!ripc__key_dir_revokes(&net->seal->dir, member->key))
		return false;
	ripc__hex_write(digits, member->key, 32);
	snprintf(text, sizeof(text), "is refused: its key %s is revoked (our file \"revoked\")",
		digits);
	ripc__seal_say(net, at, text);
	return true;
}

int ripc__grants_take(struct sealed_net *net, struct member *member, const uint8_t *capabilities,
		uint32_t n, const struct ripc__addr *from)
{
	struct seal *seal = net->seal;
	struct rights rights = {0}, *kept;
	struct faults faults = {0};
	int error = 0;

	if (ripc__grants_are_revoked(net, member, from))
		return -EACCES;
	if (!seal->dir.has_authority) {
		free(member->rights);
		member->rights = NULL;
		member->is_admitted = true;
		return 0;
	}
	for (uint32_t i = 0; i < n && !error; i++)
		error = take_one(seal, &seal->dir, member->key, capabilities + i * CAPABILITY_LEN,
			&rights, &faults);
	if (error)
		return error;
	if (!rights.n) {
		say_refused(net, member, &faults, n, from);
		return -EACCES;
	}
	kept = ripc__private_bits(&seal->box, member->key, &rights.private_bits) ? NULL :
		malloc(rights_bytes(&rights));
	if (!kept)
		return -ENOMEM;
	memcpy(kept, &rights, rights_bytes(&rights));
	free(member->rights);
	member->rights = kept;
	member->is_admitted = true;
	for (uint32_t i = 0; i < rights.n; i++)
		ripc__grants_await_end(seal, rights.may[i].until_s);
	return 0;
}

void ripc__grants_lose(struct sealed_net *net, struct member *member)
{
	struct seal *seal = net->seal;

	member->is_admitted = false;
	ripc__member_refuse(seal, member, false);
	free(member->rights);
	member->rights = NULL;
	ripc__sessions_end(seal, member);
	ripc__member_tell_all(seal, member, UINT8_MAX, -EACCES);
}

static bool may(const struct seal *seal, const struct rights *rights, enum capability_what what,
		uint64_t id)
{
	return rights && ripc__rights_has(rights, what, id, now_s(seal));
}

/* Is the private ID the member's? This holds, too, if the member was admitted without authority. */
static bool is_private_of(const struct seal *seal, const struct member *member, uint64_t id)
{
	uint64_t bits;

	if (member->rights)
		return is_private(id, member->rights->private_bits);
	return ripc__private_bits(&seal->box, member->key, &bits) == 0 &&
		is_private(id, bits);
}

/* May the member have this ID? */
static bool may_be(const struct seal *seal, const struct member *member, uint64_t id)
{
	return may(seal, member->rights, CAPABILITY_BE, id) || is_private_of(seal, member, id);
}

bool ripc__sealed_may_be(const struct seal *seal, uint64_t id)
{
	return is_private(id, seal->private_bits) ||
		may(seal, &seal->rights, CAPABILITY_BE, id);
}

bool ripc__grants_are_known(const struct seal *seal, const struct member *member)
{
	return !seal->dir.has_authority || !member->is_admitted || !member->is_stale ||
		member->rights;
}

bool ripc__grants_let_be(const struct seal *seal, const struct member *member, uint64_t id)
{
	return member->is_admitted && (!seal->dir.has_authority || may_be(seal, member, id));
}

bool ripc__grants_let_in(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to)
{
	if (!seal->dir.has_authority)
		return member->is_admitted;
	return member->is_admitted && may_be(seal, member, from) &&
		(is_private(to, seal->private_bits) ||
			may(seal, member->rights, CAPABILITY_SEND, to));
}

const char *ripc__grants_lack(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to)
{
	if (!member->is_admitted)
		return "has presented no capability";
	if (!seal->dir.has_authority)
		return NULL;
	if (!may_be(seal, member, to))
		return "may not be that service: its key lacks the capability (ripc key grant "
			"--be)";
	if (!ripc__sealed_may_be(seal, from))
		return "receives nothing from us: our key lacks the capability to be the sending "
			"service (ripc key grant --be)";
	if (!is_private_of(seal, member, to) &&
			!may(seal, &seal->rights, CAPABILITY_SEND, to))
		return "receives nothing from us: our key lacks the capability to send to it (ripc "
			"key grant --send)";
	return NULL;
}

/* The time when the first of these rights ends, or end_s, if that is earlier. */
static uint64_t end_of(const struct rights *rights, uint64_t after_s, uint64_t end_s)
{
	for (uint32_t i = 0; rights && i < rights->n; i++) {
		uint64_t until_s = rights->may[i].until_s;

		end_s = until_s > after_s && until_s < end_s ? until_s : end_s;
	}
	return end_s;
}

uint64_t ripc__grants_end_s(const struct seal *seal)
{
	const struct list *const lists[2] = {&seal->idle, &seal->used};
	uint64_t after_s = now_s(seal), end_s = end_of(&seal->rights, after_s, UINT64_MAX);

	for (int i = 0; i < 2; i++) {
		for (const struct list *node = lists[i]->next; node != lists[i]; node = node->next)
			end_s = end_of(list_entry(node, struct member, node)->rights, after_s,
				end_s);
	}
	return end_s;
}

/*
 * Rights end by the wall clock. For a right that ends after the next check of the directory, that
 * check sets the timer.
 */
void ripc__grants_await_end(struct seal *seal, uint64_t end_s)
{
	struct ripc_context *ctx = seal->ctx;
	uint64_t wall_us = ctx->env.wall_ns(ctx->env.arg) / 1000, at_us;

	if (end_s > wall_us / 1000000 + AWAIT_S)
		return;
	at_us = ctx->now_us + (end_s * 1000000 > wall_us ? end_s * 1000000 - wall_us : 0);
	if (!seal->rights_end.index || at_us < seal->rights_end.at_us)
		ripc__timer_set(&ctx->loop.timers, &seal->rights_end, at_us);
}

/* ---- capability -------------------------------------------------------------------------- */

#define VERSION      1
#define SIGNATURE_AT 56u
#define LABEL        "ripc capability 1"
#define LABEL_LEN    (sizeof(LABEL) - 1)

int ripc__capability_decode(const uint8_t bytes[CAPABILITY_LEN], struct capability *capability)
{
	if (bytes[0] != VERSION || bytes[1] == 0 || bytes[1] > (CAPABILITY_BE | CAPABILITY_SEND) ||
			get16(bytes + 2) || get32(bytes + 4))
		return -EBADMSG;
	capability->what = bytes[1];
	capability->id = get64(bytes + 8);
	capability->until_s = get64(bytes + 16);
	memcpy(capability->holder, bytes + 24, 32);
	return 0;
}

void ripc__capability_encode(const struct capability *capability, uint8_t bytes[CAPABILITY_LEN])
{
	memset(bytes, 0, CAPABILITY_LEN);
	bytes[0] = VERSION;
	bytes[1] = capability->what;
	put64(bytes + 8, capability->id);
	put64(bytes + 16, capability->until_s);
	memcpy(bytes + 24, capability->holder, 32);
}

static void signed_part(const uint8_t bytes[CAPABILITY_LEN], uint8_t part[LABEL_LEN + SIGNATURE_AT])
{
	memcpy(part, LABEL, LABEL_LEN);
	memcpy(part + LABEL_LEN, bytes, SIGNATURE_AT);
}

int ripc__capability_sign(struct cipher_box *box, const uint8_t authority_secret[32],
		uint8_t bytes[CAPABILITY_LEN])
{
	uint8_t part[LABEL_LEN + SIGNATURE_AT];
	const struct iovec data = {part, sizeof(part)};

	signed_part(bytes, part);
	return box->ops->sign(box->lib, authority_secret, &data, bytes + SIGNATURE_AT);
}

int ripc__capability_verify(struct cipher_box *box, const uint8_t authority[32],
		const uint8_t bytes[CAPABILITY_LEN])
{
	uint8_t part[LABEL_LEN + SIGNATURE_AT];
	const struct iovec data = {part, sizeof(part)};

	signed_part(bytes, part);
	return box->ops->verify(box->lib, authority, &data, bytes + SIGNATURE_AT);
}

void ripc__rights_add(struct rights *rights, const struct capability *capability)
{
	if (rights->n == CAPABILITIES_MAX)
		return;
	rights->may[rights->n].id = capability->id;
	rights->may[rights->n].until_s = capability->until_s;
	rights->may[rights->n++].what = capability->what;
}

bool ripc__rights_has(const struct rights *rights, enum capability_what what, uint64_t id,
		uint64_t now_s)
{
	for (uint32_t i = 0; i < rights->n && !rights->all; i++) {
		if (rights->may[i].what & what && now_s < rights->may[i].until_s &&
				(!rights->may[i].id || rights->may[i].id == id))
			return true;
	}
	return rights->all;
}

bool ripc__rights_any(const struct rights *rights, uint64_t now_s)
{
	for (uint32_t i = 0; i < rights->n && !rights->all; i++) {
		if (now_s < rights->may[i].until_s)
			return true;
	}
	return rights->all;
}

int ripc__private_bits(const struct cipher_box *box, const uint8_t key[32], uint64_t *bits)
{
	const struct iovec in[2] = {{"ripc private 1", 14}, {(void *)key, 32}};
	uint8_t digest[32];
	int error = box->ops->hash(box->lib, in, 2, digest);

	if (!error)
		*bits = get64(digest) & INT64_MAX; /* no private ID is that of a group */
	return error;
}
