/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a context (internal.h), and the functions for the rest of core (sealed.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/events.h"
#include "core/objects.h"
#include "internal.h"
#include "ripc/ripc.h"
#include "sealed.h"
#include "util/system/cancel.h"
#include "util/text.h"

#define INITS_PER_SECOND    1000u /* handshakes that others make us compute */
#define INITS_SHARE         4u    /* one host gets a quarter */
#define UNKNOWNS_PER_SECOND 1000u /* UNKNOWNs that cause a search for a session */
#define UNKNOWNS_SHARE      10u   /* one host gets a tenth */
#define QUOTES_PER_SECOND   100u  /* the same for quotes of the network, which anybody can forge */
#define LOOK_US             60000000u /* until the directory of keys is read again */

/* ---- keys of the context ----------------------------------------------------------------- */

static int derive(struct seal *seal, const uint8_t secret[32], const char *label, uint8_t key[32])
{
	const struct iovec in = {(void *)label, strlen(label)};

	return seal->box.ops->mac(seal->box.lib, secret, &in, 1, key);
}

/* Uses the contents of the directory from now on. -ENOMEM: nothing has changed. */
static int dir_use(struct seal *seal, const struct key_dir *dir)
{
	struct secret_keys made[SECRETS] = {0};
	int error = ripc__private_bits(&seal->box, dir->own.public, &seal->private_bits);

	for (uint32_t i = 0; i < dir->n_secrets && !error; i++) {
		error = derive(seal, dir->secrets[i], "ripc psk 1", made[i].psk);
		error = error ? error : derive(seal, dir->secrets[i], "ripc handshakes 1",
			made[i].handshake_key);
		error = error ? error : derive(seal, dir->secrets[i], "ripc records 1",
			made[i].record_key);
	}
	error = error ? error : ripc__grants_own(seal, dir);
	if (!error) {
		memcpy(seal->secrets, made, sizeof(made));
		memcpy(&seal->dir, dir, sizeof(*dir));
	}
	explicit_bzero(made, sizeof(made));
	return error;
}

static int dir_open(struct seal *seal)
{
	struct ripc_context *ctx = seal->ctx;
	struct key_dir found;
	char why[KEY_WHY];
	int error = ripc__key_dir_read(ctx->cfg.keys, &seal->box, &found, why);

	if (error) {
		ripc__log(ctx, RIPC_LOG_ERROR, "keys: %s", why);
		return error;
	}
	if (found.n_capabilities && !found.has_authority)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: %s has capabilities, but no file "
			"\"authority\": every program with the secret may be any service and send "
			"to any; copy the file from another host", ctx->cfg.keys);
	error = dir_use(seal, &found);
	ripc__key_dir_wipe(&found);
	return error;
}

/* ---- reading the directory again --------------------------------------------------------- */

/* Rights may have ended or begun: notifies partners, and sets the timer for the next end. */
static void rights_review(struct seal *seal)
{
	ripc__rights_changed(seal->ctx);
	ripc__grants_await_end(seal, ripc__grants_end_s(seal));
}

static void rights_end(void *owner, struct ripc__timer *timer)
{
	(void)owner;
	rights_review(list_entry(timer, struct seal, rights_end));
}

/*
 * A member with a revoked key is removed. All other members get a new handshake, which shows our
 * new capabilities to them, and theirs to us. Messages in progress go on meanwhile. If we have
 * other capabilities (shows_more), messages to a new partner wait until the partner knows them.
 */
static void members_review(struct seal *seal, struct list *members, bool shows_more)
{
	list_for_each_safe(node, members) {
		struct member *member = list_entry(node, struct member, node);

		member->is_stale = true;
		member->lacks |= shows_more;
		member->is_refused = false;
		if (ripc__key_dir_revokes(&seal->dir, member->key) && member->is_admitted)
			ripc__grants_lose(&seal->nets[member->net], member);
	}
}

/* The directory has another key: it is for another context, and so are its capabilities. */
static void own_differs(const struct seal *seal, struct key_dir *found)
{
	ripc__log(seal->ctx, RIPC_LOG_WARN, "keys: %s/private has changed: contexts that are "
		"opened from now on use the new key; this context keeps its "
		"own", seal->ctx->cfg.keys);
	found->n_capabilities = seal->dir.n_capabilities;
	memcpy(found->capabilities, seal->dir.capabilities, sizeof(found->capabilities));
}

/* Keeps our key: the key of a context is its name for others. */
static void own_stays(const struct seal *seal, struct key_dir *found)
{
	if (!ripc__is_equal(found->own.secret, seal->dir.own.secret, 32))
		own_differs(seal, found);
	found->own = seal->dir.own; /* with the public key, which was not computed again */
}

/* Refuses a directory that has lost its authority: else all members would have all rights. */
static int authority_check(const struct seal *seal, const struct key_dir *found, char why[KEY_WHY])
{
	if (found->has_authority || !seal->dir.has_authority)
		return 0;
	snprintf(why, KEY_WHY, "%.100s/authority is missing: restore it; to run without an "
		"authority, restart the program", seal->ctx->cfg.keys);
	return -ENOENT;
}

int ripc__seal_renew(struct ripc_context *ctx, struct key_dir *found, char *why)
{
	struct seal *seal = ctx->seal;
	int error = authority_check(seal, found, why);
	bool has_changed, shows_more;

	if (error)
		return error;
	own_stays(seal, found);
	shows_more = found->n_capabilities != seal->dir.n_capabilities || memcmp(
		found->capabilities, seal->dir.capabilities, sizeof(found->capabilities));
	has_changed = !ripc__is_equal(found, &seal->dir, sizeof(*found));
	error = has_changed ? dir_use(seal, found) : 0;
	if (error) {
		snprintf(why, KEY_WHY, "no memory");
	} else if (has_changed) {
		ctx->self.proves = seal->dir.has_authority;
		members_review(seal, &seal->idle, shows_more);
		members_review(seal, &seal->used, shows_more);
		ripc__handshakes_renew(seal);
		rights_review(seal);
		ripc__log(ctx, RIPC_LOG_INFO, "keys: %s has changed and was reloaded",
			ctx->cfg.keys);
	}
	return error;
}

static void look(void *owner, struct ripc__timer *timer)
{
	struct ripc_context *ctx = owner;

	ripc__reread_begin(ctx);
	(void)ripc__grants_own(ctx->seal, &ctx->seal->dir); /* capabilities may have expired */
	rights_review(ctx->seal); /* the clock may have been set */
	ripc__timer_set(&ctx->loop.timers, timer, ctx->now_us + LOOK_US);
}

/* ---- open and close ---------------------------------------------------------------------- */

static int crypto_open(struct seal *seal)
{
	struct ripc_context *ctx = seal->ctx;
	char why[256] = "not found", remedy[256] = "";
	const struct ripc__crypto *ops = ctx->env.crypto ? ctx->env.crypto(why, remedy) : NULL;

	if (ops)
		return ripc__box_open(&seal->box, ops);
	ripc__log(ctx, RIPC_LOG_ERROR, "keys: no cryptography: %s: %s", why, remedy);
	return -ENODEV;
}

static void seal_free(struct seal *seal)
{
	ripc__ciphers_free(&seal->ciphers);
	ripc__box_close(&seal->box);
	ripc__secret_close(&seal->ciphers.memory);
	ripc__secret_unmap(seal, sizeof(*seal));
}

static int timers_admit(struct seal *seal)
{
	struct ripc__timer *const timers[] = {&seal->sweep, &seal->look, &seal->rights_end};

	for (uint32_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++) {
		int error = ripc__timer_admit(seal->ctx);

		while (error && i--)
			ripc__timer_dismiss(seal->ctx, timers[i]);
		if (error)
			return error;
	}
	return 0;
}

int ripc__seal_open(struct ripc_context *ctx)
{
	uint64_t key[2] = {ripc__nonce(ctx), ripc__nonce(ctx)};
	struct seal *seal = ripc__secret_map(sizeof(*seal));
	int error;

	if (!seal)
		return -ENOMEM;
	seal->ctx = ctx;
	seal->ciphers.box = &seal->box;
	ripc__budget_init(&seal->inits, INITS_PER_SECOND, INITS_PER_SECOND / 2, INITS_SHARE, key);
	ripc__budget_init(&seal->unknowns, UNKNOWNS_PER_SECOND, UNKNOWNS_PER_SECOND,
		UNKNOWNS_SHARE, key);
	ripc__bucket_init(&seal->quotes, QUOTES_PER_SECOND, QUOTES_PER_SECOND);
	error = crypto_open(seal);
	error = error ? error : dir_open(seal);
	error = error ? error : timers_admit(seal);
	if (error) {
		seal_free(seal);
		return error;
	}
	ripc__members_open(seal);
	seal->look.fire = look;
	ripc__timer_set(&ctx->loop.timers, &seal->look, ctx->now_us + LOOK_US);
	seal->rights_end.fire = rights_end;
	ripc__grants_await_end(seal, ripc__grants_end_s(seal));
	ctx->seal = seal;
	ctx->self.proves = seal->dir.has_authority;
	return 0;
}

void ripc__seal_close(struct ripc_context *ctx)
{
	if (!ctx->seal)
		return;
	ripc__timer_dismiss(ctx, &ctx->seal->look);
	ripc__timer_dismiss(ctx, &ctx->seal->rights_end);
	ripc__members_close(ctx->seal);
	seal_free(ctx->seal);
	ctx->seal = NULL;
}

/* ---- rights ------------------------------------------------------------------------------ */

/* May the log mention this member? A refused member retries often, and is mentioned seldom. */
static bool may_say(struct seal *seal, const struct member *member)
{
	uint64_t now_us = seal->ctx->now_us, name = member->name;
	uint64_t *said_us = &seal->said[name % SAID].us;

	if (seal->said[name % SAID].name == name && now_us - *said_us < SAID_US)
		return false;
	if (!ripc__bucket_take(&seal->ctx->partners.words, now_us))
		return false;
	seal->said[name % SAID].name = name;
	*said_us = now_us;
	return true;
}

static void say_denied(struct seal *seal, const struct member *member, uint64_t from, uint64_t to)
{
	char text[65] = "";

	if (!may_say(seal, member))
		return;
	ripc__hex_write(text, member->key, 32);
	ripc__log(seal->ctx, RIPC_LOG_WARN, "keys: the key %s may not be service %#llx and send to "
		"%#llx: refused (ripc key grant)", text, (unsigned long long)from,
		(unsigned long long)to);
}

bool ripc__sealed_lets_in(struct seal *seal, const struct ripc__addr *addr, uint64_t context,
		uint64_t from, uint64_t to)
{
	struct member *member = ripc__sealed_member(seal, addr);

	if (member && member->context == context && ripc__grants_let_in(seal, member, from, to))
		return true;
	if (member)
		say_denied(seal, member, from, to);
	return false;
}

void ripc__sealed_say_denied(struct seal *seal, const void *route, uint64_t from, uint64_t to)
{
	say_denied(seal, ripc__sealed_member_of(route), from, to);
}

int ripc__sealed_lets_out(struct seal *seal, const void *route, uint64_t from, uint64_t to)
{
	struct member *member = ripc__sealed_member_of(route);
	const char *lacks = ripc__grants_lack(seal, member, from, to);

	if (!lacks)
		return 0;
	member->lacks = true;
	if (may_say(seal, member))
		ripc__log(seal->ctx, RIPC_LOG_WARN, "keys: the program that responds for service "
			"%#llx %s",
			(unsigned long long)to, lacks);
	return -EACCES;
}

int ripc__sealed_rights(struct seal *seal, const void *route, uint64_t own, uint64_t other)
{
	struct member *member = ripc__sealed_member_of(route);
	int rights = 0;

	if (!ripc__grants_are_known(seal, member))
		return -EAGAIN;
	if (ripc__grants_let_be(seal, member, other))
		rights |= SEALED_IS;
	if (ripc__grants_let_in(seal, member, other, own))
		rights |= SEALED_COMES;
	if (ripc__grants_lack(seal, member, own, other))
		member->lacks |= member->is_admitted;
	else
		rights |= SEALED_GOES;
	return rights | (member->is_stale ? SEALED_STALE : 0);
}

void ripc__sealed_refused(const void *route)
{
	ripc__sealed_member_of(route)->lacks = true;
}

bool ripc__sealed_changed(const struct seal *seal, const void *route, uint64_t within_us)
{
	const struct member *member = ripc__sealed_member_of(route);

	return member->current &&
		ripc__session_used_ms(seal, member->current) <= within_us / 1000;
}

bool ripc__sealed_lets_send(const struct seal *seal, const void *route, uint64_t from,
		uint64_t group)
{
	return ripc__grants_let_in(seal, ripc__sealed_member_of(route), from, group);
}

void ripc__sealed_registers(struct seal *seal, uint64_t id)
{
	if (!ripc__sealed_may_be(seal, id))
		ripc__log(seal->ctx, RIPC_LOG_WARN, "keys: service %#llx: our key lacks the "
			"capability to be it, so others will refuse it (ripc key grant --be)",
			(unsigned long long)id);
}

uint64_t ripc__sealed_private(const struct seal *seal, uint64_t random)
{
	uint64_t drawn = UINT64_MAX >> PRIVATE_BITS;

	return (seal->private_bits & ~drawn) | (random & drawn);
}

/* ---- the resolver's datagrams ------------------------------------------------------------ */

void ripc__sealed_mark(struct seal *seal, uint8_t *bytes, size_t len)
{
	const struct iovec in = {bytes, len};
	uint8_t mac[32] = {0};

	/* Without memory the mark is wrong: then nobody accepts the datagram. */
	(void)seal->box.ops->mac(seal->box.lib, seal->secrets[0].record_key, &in, 1, mac);
	memcpy(bytes + len, mac, SEALED_MARK);
}

bool ripc__sealed_mark_is_right(struct seal *seal, const uint8_t *bytes, size_t len)
{
	const struct iovec in = {(void *)bytes, len};
	uint8_t mac[32];

	for (uint32_t i = 0; i < seal->dir.n_secrets; i++) {
		if (seal->box.ops->mac(seal->box.lib, seal->secrets[i].record_key, &in, 1,
					mac) == 0 &&
				ripc__is_equal(mac, bytes + len, SEALED_MARK))
			return true;
	}
	return false;
}

/* ---- outward ----------------------------------------------------------------------------- */

/* Output of a context with keys beside its packets: handshakes, and sentences for people. */

int ripc__sealed_throw(struct sealed_net *net, const struct ripc__addr *to, const uint8_t *bytes,
		uint32_t len)
{
	RIPC__HOLD_CANCEL;
	_Alignas(16) char route[256] = {0};
	const struct iovec iov = {(void *)bytes, len};
	const struct ripc__tx tx = {&iov, 1, len};
	int rc = net->inner->route_size > sizeof(route) ? -ENOBUFS :
		net->inner->route.open(net->inner_port, route, to);

	if (rc && rc != -EINPROGRESS)
		return rc;
	/* While the backend searches for a way, it may keep this datagram. */
	rc = net->inner->datagrams.send(net->inner_port, route, &tx, 1);
	net->seal->ctx->stats.datagrams_sent += rc == 1;
	net->inner->route.close(net->inner_port, route);
	return rc < 0 ? rc : 0;
}

void ripc__sealed_confirm(struct sealed_net *net, struct member *member,
		const struct ripc__addr *to)
{
	uint8_t bytes[SEALED_EXTRA];

	if (ripc__session_seal(&net->seal->ciphers, member->current, NULL, 0, bytes) == 0)
		(void)ripc__sealed_throw(net, to, bytes, sizeof(bytes));
}

void ripc__seal_say(struct sealed_net *net, const struct ripc__addr *from, const char *text)
{
	char at[64] = "somebody";

	if (!ripc__bucket_take(&net->seal->ctx->partners.words, net->seal->ctx->now_us))
		return;
	if (from)
		net->inner->route.text(from, at);
	ripc__log(net->seal->ctx, RIPC_LOG_WARN, "keys: %s %s", at, text);
}

static void host_text(const uint8_t host[16], char text[40])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	if (memcmp(host, mapped, sizeof(mapped)) == 0) {
		snprintf(text, 40, "%u.%u.%u.%u", host[12], host[13], host[14], host[15]);
		return;
	}
	for (int i = 0; i < 8; i++) {
		ripc__hex_write(text + 5 * i, host + 2 * i, 2);
		text[5 * i + 4] = i < 7 ? ':' : 0;
	}
}

void ripc__sealed_stranger(struct ripc_context *ctx, uint64_t id, const uint8_t host[16], bool asks)
{
	char at[40];

	if (!ripc__bucket_take(&ctx->partners.words, ctx->now_us))
		return;
	host_text(host, at);
	if (asks)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: a program %s at %s queried service %#llx: "
			"refused, because this program has %s: give both the same keys (RIPC_KEYS)",
			ctx->seal ? "without keys, or with other keys," : "with keys", at,
			(unsigned long long)id, ctx->seal ? "keys" : "none");
	else
		ripc__log(ctx, RIPC_LOG_WARN, "keys: service %#llx at %s %s: not used; give both "
			"programs the same keys (RIPC_KEYS)", (unsigned long long)id, at,
			ctx->seal ? "has no keys, or other keys" :
			"has keys, and this program has none");
}
