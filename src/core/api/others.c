/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a partner is reached by the network that it is reached by, in words: what is wrong with each
 * of the others, as far as one of the two ends has them; and of all, where there is no network that
 * both can use. Only looks; nobody is asked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "others.h"

/* A text that grows until it is full. */
struct text {
	char *bytes;
	size_t size, len;
};

static void add(struct text *text, const char *name, const char *why)
{
	int len = snprintf(text->bytes + text->len, text->size - text->len, "%s%s: %s",
		text->len ? "; " : "", name, why);

	text->len += (size_t)len;
	if (text->len >= text->size)
		text->len = text->size - 1;
}

/* The address that the partner has for a backend, or NULL. */
static const struct wire_record_addr *address_of(const struct ripc__answer *answer, uint8_t backend)
{
	for (uint32_t i = 0; answer && i < answer->record.n_addrs; i++) {
		if (answer->record.addrs[i].backend == backend)
			return &answer->record.addrs[i];
	}
	return NULL;
}

static const char *unreachable(int error)
{
	switch (error) {
	case -EHOSTUNREACH:
		return "another host, or another network namespace";
	case -EAFNOSUPPORT:
		return "no address family in common";
	case -EBADMSG:
		return "its address cannot be parsed; the partner may run another version of "
			"libripc";
	default:
		return ripc_strerror(error);
	}
}

/* Why has a way failed that was there? Of messages the same codes may say more. */
static const char *broken(int error)
{
	switch (error) {
	case -EACCES:
		return "another user's process (as of ripc_open()): set shm.uids or shm.gids on "
			"both sides";
	case -ECONNRESET:
		return "the partner or the network ended the connection";
	case -ETIMEDOUT:
		return "no response";
	default:
		return ripc_strerror(error);
	}
}

/* Why is a device of ours not used? peer: NULL if none is. */
static const char *why_not(struct ripc_context *ctx, const struct peer *peer, uint32_t index,
		const struct ripc__answer *answer)
{
	struct device *device = &ctx->devices[index];
	const struct wire_record_addr *address = address_of(answer, device->ops->id);
	struct ripc__addr addr;
	int error;

	if (!answer)
		return "unknown whether the partner has this backend";
	if (!address)
		return "the partner does not have this backend";
	error = device->ops->route.choose(device->port, address->blob, address->len, answer->host,
		&addr);
	if (error)
		return unreachable(error);
	return peer && index > peer->device ? "lower priority" : "not tried yet, tried soon";
}

static void add_device(struct text *text, struct ripc_context *ctx, const struct peer *peer,
		uint32_t index, const struct ripc__answer *answer)
{
	const char *name = ctx->devices[index].ops->name;
	char why[128];

	if (peer && peer->left == index + 1) {
		snprintf(why, sizeof(why), peer->why == EACCES ? "%s" :
			"failed (%s), tried again later", broken(-peer->why));
		add(text, name, why);
	} else if (peer && peer->failed >> index & 1) {
		add(text, name, "failed, tried again later");
	} else {
		add(text, name, why_not(ctx, peer, index, answer));
	}
}

/* A backend that only the partner has. */
static void add_foreign(struct text *text, struct ripc_context *ctx, uint8_t id)
{
	char name[16];

	for (uint32_t i = 0; ctx->env.backends[i]; i++) {
		const char *known = ctx->env.backends[i]->name;

		if (ctx->env.backends[i]->id != id)
			continue;
		add(text, known, ripc__backend_is_wanted(ctx, known) ? "cannot run on this host" :
			"left out by configuration");
		return;
	}
	snprintf(name, sizeof(name), "backend %u", id);
	add(text, name, "not built in");
}

static bool is_ours(const struct ripc_context *ctx, uint8_t id)
{
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		if (ctx->devices[i].ops->id == id)
			return true;
	}
	return false;
}

/* All but the one in use, if there is one. */
static void add_all(struct text *text, struct ripc_context *ctx, const struct peer *peer,
		const struct ripc__answer *answer)
{
	text->bytes[0] = '\0';
	for (uint32_t i = 0; i < ctx->n_devices; i++) {
		if (!peer || i != peer->device)
			add_device(text, ctx, peer, i, answer);
	}
	for (uint32_t i = 0; answer && i < answer->record.n_addrs; i++) {
		if (!is_ours(ctx, answer->record.addrs[i].backend))
			add_foreign(text, ctx, answer->record.addrs[i].backend);
	}
}

void ripc__path_others(struct partner *partner, char *bytes, size_t size)
{
	struct ripc_context *ctx = partner->service->ctx;
	const struct ripc__answer *answer = ripc__resolver_recall(ctx->resolver, partner->id);
	struct text text = {bytes, size, 0};

	if (answer && answer->record.incarnation != partner->incarnation)
		answer = NULL;
	add_all(&text, ctx, partner->peer, answer);
}

void ripc__path_none(struct ripc_context *ctx, uint64_t id, struct ripc_path *path)
{
	struct ripc_path own = {.size = path->size};
	struct text text = {own.others, sizeof(own.others), 0};

	add_all(&text, ctx, NULL, ripc__resolver_recall(ctx->resolver, id));
	ripc__struct_fill(path, path->size, &own, sizeof(own));
}
