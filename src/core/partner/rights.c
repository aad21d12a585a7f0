/* SPDX-License-Identifier: BSD-3-Clause */
/* See rights.h. */
#include "rights.h"

#include <errno.h>

#include "core/peer/peer.h"

static int rights_of(const struct partner *partner)
{
	return ripc__sealed_rights(partner->service->ctx->seal, partner->peer->route,
		partner->service->id, partner->id);
}

bool ripc__rights_judge(struct partner *partner)
{
	int rights;

	if (!partner->service->ctx->seal || !partner->peer)
		return true;
	rights = rights_of(partner);
	if (rights == -EAGAIN)
		return true; /* its next handshake ends with a judgement */
	partner->denied = !(rights & SEALED_COMES);
	/* A right in our directory is useful only after a handshake has shown it. */
	partner->barred = !(rights & SEALED_GOES) || partner->refuses ||
		(partner->barred && rights & SEALED_STALE);
	return rights & SEALED_IS;
}

bool ripc__may_come(struct partner *partner)
{
	int rights = rights_of(partner);

	partner->denied = rights == -EAGAIN || !(rights & SEALED_COMES);
	return !partner->denied;
}

void ripc__say_denied(const struct partner *partner)
{
	ripc__sealed_say_denied(partner->service->ctx->seal, partner->peer->route, partner->id,
		partner->service->id);
}

/* If a handshake may bring the right, everything waits for its end. */
static bool waits_for_handshake(struct partner *partner)
{
	struct peer *peer = partner->peer;
	struct device *device = ripc__peer_device(partner->service->ctx, peer);

	if (!ripc__sealed_renew(device->port, peer->route))
		return false;
	peer->opening = true;
	partner->refuses = false;
	return true;
}

bool ripc__refused_waits(struct partner *partner)
{
	return partner->peer->opening || waits_for_handshake(partner);
}

bool ripc__refusal_is_old(struct partner *partner, uint64_t told_us)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (!ctx->seal || !partner->peer)
		return false;
	if (ripc__sealed_changed(ctx->seal, partner->peer->route, ctx->now_us - told_us))
		return true;
	ripc__sealed_refused(partner->peer->route);
	return ripc__refused_waits(partner);
}

int ripc__barred_look(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer = partner->peer;
	int error;

	if (!peer || peer->opening || peer->broken)
		return 0; /* the partner's messages wait anyway */
	error = ripc__sealed_lets_out(ctx->seal, peer->route, partner->service->id, partner->id);
	if (waits_for_handshake(partner))
		return 0;
	error = partner->refuses ? -EACCES : error;
	partner->barred = error;
	return error;
}
