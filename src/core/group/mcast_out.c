/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See mcast_out.h. A service that sends shorts to many members of a group has a stream: a token, a
 * sequence of numbers, and a route by which one datagram reaches all who listen. STREAM packets by
 * their own routes announce the token and the number to the members.
 *
 * A network may accept multicast and not deliver it, or stop delivering it. Therefore a member
 * counts as reached only while its answers (HEARD) show that the stream arrives. All others get
 * copies. A copy names its number in the stream: a member that has also heard that number drops the
 * copy. So no short is delivered twice, even if the two ends know different states.
 *
 * After wait_us the stream is announced anew. After each announcement one short is multicast in any
 * case: the members' next answers must show this short, or a later one. There is no timer: a sender
 * that is silent needs no answer, and after a silence all members get copies until they have
 * answered.
 */
#include "mcast_out.h"

#include <stddef.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "core/wire/wire.h"
#include "util/hash/crc32c.h"
#include "util/map.h"
#include "util/probe.h"
#include "util/system/cancel.h"

#define PAYS_FROM      3u        /* for fewer, copies cost less (docs/decisions/groups.md) */
#define WAIT_FIRST_US  10000u    /* until the next announcement, at first; then it doubles */
#define WAIT_MOST_US   1000000u
#define WAIT_VAIN_US   16000000u /* the same while nobody hears */
#define FRESH_US       3000000u  /* time for which an answer is valid */
#define IDLE_US        60000000u
#define BEFORE_FIRST   (1ull << 32) /* numbers begin here (mcast_in.c, UNKNOWN) */

const struct ripc__option ripc__group_options[] = {
	{"group.many", RIPC_NUMBER, 0, 4096, 0},
	{0},
};

/* A member that knows the stream. */
struct hearer {
	uint64_t heard_us; /* when the member last answered; 0: never */
	uint32_t round;    /* of the last announcement to the member */
	bool hears;
};

struct mcast_out {
	uint64_t group, token;
	uint64_t number;          /* of the last multicast short */
	uint64_t proof;           /* a member hears if it has heard this short, or a later one */
	uint64_t shown;           /* the same after the next announcement */
	uint64_t used_us, told_us;
	uint32_t wait_us, round;
	uint32_t n_hear;
	bool shows;               /* the next short is multicast in any case */
	bool went;                /* the last short was multicast */
	struct device *device;
	void *route;              /* NULL: there is none */
	struct ripc__map hearers; /* struct hearer by incarnation */
};

/* ---- adding and removing ----------------------------------------------------------------- */

static void route_close(struct mcast_out *out)
{
	RIPC__HOLD_CANCEL;
	struct hearer *hearer;

	if (out->route)
		out->device->ops->route.close(out->device->port, out->route);
	free(out->route);
	out->route = NULL;
	out->n_hear = 0;
	for (uint32_t at = 0; (hearer = ripc__map_next(&out->hearers, &at));)
		hearer->hears = false;
}

static void hearers_free(struct mcast_out *out)
{
	struct hearer *hearer;

	for (uint32_t at = 0; (hearer = ripc__map_next(&out->hearers, &at));)
		free(hearer);
	ripc__map_free(&out->hearers);
	out->n_hear = 0;
}

static void out_free(struct ripc_service *service, struct mcast_out *out)
{
	ripc__map_remove(&service->mcast_out, out->group);
	route_close(out);
	hearers_free(out);
	free(out);
}

void ripc__mcast_out_free(struct ripc_service *service)
{
	struct mcast_out *out;
	uint32_t at = 0;

	for (; (out = ripc__map_next(&service->mcast_out, &at)); at = 0)
		out_free(service, out);
	ripc__map_free(&service->mcast_out);
}

static bool has_something(const struct mcast_out *out)
{
	return out->route || out->hearers.count || !out->round;
}

/*
 * Shrinks a stream that was not used for a while. Token and number are kept if a member may know
 * them, because none may be used twice.
 */
static void idle_shrink(struct ripc_service *service)
{
	uint64_t now_us = service->ctx->now_us;
	struct mcast_out *out;
	uint32_t at = 0;

	while ((out = ripc__map_next(&service->mcast_out, &at))) {
		if (now_us - out->used_us < IDLE_US || !has_something(out))
			continue;
		if (!out->round) {
			out_free(service, out);
			return; /* the map has changed: other streams have their turn later */
		}
		route_close(out);
		hearers_free(out);
	}
}

static struct mcast_out *out_new(struct ripc_service *service, uint64_t group)
{
	struct mcast_out *out;

	idle_shrink(service);
	out = calloc(1, sizeof(*out));
	if (!out)
		return NULL;
	if (ripc__map_put(&service->mcast_out, group, out)) {
		free(out);
		return NULL;
	}
	out->group = group;
	out->number = BEFORE_FIRST;
	while (!out->token)
		out->token = ripc__nonce(service->ctx);
	out->wait_us = WAIT_FIRST_US;
	ripc__map_init(&out->hearers, out->token);
	return out;
}

/* ---- announcing the stream --------------------------------------------------------------- */

/*
 * The member's partner, if a stream can be announced to it; else NULL. Copies are sent by the same
 * partner, because the member compares the numbers of stream and copies.
 */
static struct partner *partner_of(const struct ripc_service *service,
		const struct ripc__member *member)
{
	struct partner *partner = ripc__find_known_member(service, member);

	return partner && partner->resolved && !partner->dead && partner->state == PARTNER_READY &&
			       !partner->peer->opening &&
			       ripc__peer_device(service->ctx, partner->peer)->ops->multicast.open
		       ? partner
		       : NULL;
}

static void route_open(struct mcast_out *out, struct partner *partner)
{
	RIPC__HOLD_CANCEL;
	struct device *device = ripc__peer_device(partner->service->ctx, partner->peer);
	void *route = calloc(1, device->ops->route_size);

	if (route && device->ops->multicast.open(device->port, route, partner->peer->route,
			out->group) == 0) {
		out->device = device;
		out->route = route;
		/* Acknowledgements of another route say nothing about this one. */
		out->proof = out->shown = out->number + 1;
		return;
	}
	free(route);
}

/*
 * Opens a route, if enough members are on networks with multicast. The route is that of one of
 * these members. If nobody hears there, the next round takes the next member.
 */
static void route_find(struct ripc_service *service, struct mcast_out *out,
		const struct ripc__member *members, uint32_t n)
{
	struct partner *partner;
	uint32_t n_able = 0;

	for (uint32_t i = 0; i < n; i++)
		n_able += partner_of(service, &members[i]) != NULL;
	for (uint32_t i = 0; n_able >= service->ctx->groups.multicast_least && i < n &&
			!out->route; i++) {
		partner = partner_of(service, &members[(out->round + i) % n]);
		if (partner)
			route_open(out, partner);
	}
}

static struct hearer *hearer_get(struct mcast_out *out, uint64_t incarnation)
{
	struct hearer *hearer = ripc__map_get(&out->hearers, incarnation);

	if (hearer)
		return hearer;
	hearer = calloc(1, sizeof(*hearer));
	if (hearer && ripc__map_put(&out->hearers, incarnation, hearer) == 0)
		return hearer;
	free(hearer);
	return NULL;
}

static void hearer_set(struct mcast_out *out, struct hearer *hearer, bool hears)
{
	out->n_hear += (uint32_t)hears - (uint32_t)hearer->hears;
	hearer->hears = hears;
}

static void tell(struct mcast_out *out, struct partner *partner)
{
	struct hearer *hearer = hearer_get(out, partner->incarnation);
	struct wire_packet packet;

	if (!hearer)
		return;
	hearer->round = out->round;
	wire_clear(&packet);
	packet.stream = (struct wire_stream){out->group, out->token, out->number + 1};
	ripc__partner_touch(partner);
	ripc__partner_send(partner, &packet, WIRE_STREAM);
}

/* Forgets members without announcement. A member without a recent answer is not reached. */
static void hearers_sweep(struct ripc_context *ctx, struct mcast_out *out)
{
	struct ripc__map *hearers = &out->hearers;
	uint32_t at = 0;

	while (at < hearers->capacity) {
		struct hearer *hearer = hearers->entries[at].value;
		uint32_t capacity = hearers->capacity;

		if (hearer && hearer->hears && ctx->now_us - hearer->heard_us >= FRESH_US)
			hearer_set(out, hearer, false);
		if (!hearer || hearer->round == out->round) {
			at++;
			continue;
		}
		hearer_set(out, hearer, false);
		ripc__map_remove(hearers, hearers->entries[at].key); /* other entries move here */
		free(hearer);
		if (hearers->capacity != capacity)
			at = 0;
	}
}

static void members_tell(struct ripc_service *service, struct mcast_out *out,
		const struct ripc__member *members, uint32_t n)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *partner;

	out->round++;
	for (uint32_t i = 0; i < n; i++) {
		partner = partner_of(service, &members[i]);
		if (partner && ripc__peer_device(ctx, partner->peer) == out->device)
			tell(out, partner);
	}
	hearers_sweep(ctx, out);
	out->proof = out->shown;
	out->shows = true;
}

/* ---- sending ----------------------------------------------------------------------------- */

struct mcast_out *ripc__mcast_out_for(struct ripc_service *service, uint64_t group,
		const struct ripc__member *members, uint32_t n)
{
	struct mcast_out *out = ripc__map_get(&service->mcast_out, group);
	uint64_t now_us = service->ctx->now_us;
	uint32_t most_us;

	if (!out &&
		(n < service->ctx->groups.multicast_least || !service->ctx->groups.multicast_least))
		return NULL;
	if (!out)
		out = out_new(service, group);
	if (!out)
		return NULL;
	out->used_us = now_us;
	out->went = false;
	if (out->told_us && now_us - out->told_us < out->wait_us)
		return out;
	out->told_us = now_us;
	if (out->wait_us >= WAIT_MOST_US && !out->n_hear)
		route_close(out);
	if (!out->route)
		route_find(service, out, members, n);
	if (out->route)
		members_tell(service, out, members, n);
	most_us = out->n_hear ? WAIT_MOST_US : WAIT_VAIN_US;
	out->wait_us = 2 * out->wait_us < most_us ? 2 * out->wait_us : most_us;
	return out;
}

static int transmit(const struct mcast_out *out, const struct ripc_service *service,
		const struct ripc_send *request, uint32_t *len)
{
	const struct ripc__backend *ops = out->device->ops;
	struct wire_packet packet;
	uint8_t prefix[WIRE_CALL_PLAIN + 2 * RIPC_ITEMS_MAX];
	struct iovec iov[RIPC_ITEMS_MAX + 1];
	uint64_t lens[RIPC_ITEMS_MAX];
	struct ripc__tx tx = {.iov = iov, .n_iov = request->n_items + 1};
	uint32_t crc = 0;

	wire_clear(&packet);
	packet.h = (struct wire_header){.version = WIRE_VERSION, .type = WIRE_SHORT,
		.flags = WIRE_F_LENDS | WIRE_F_CALL, .src = service->incarnation,
		.dst = out->group, .token = out->token, .number = out->number};
	packet.lends = out->group;
	packet.call.kind = WIRE_CALL_GROUP;
	packet.n_items = request->n_items;
	for (uint32_t i = 0; i < request->n_items; i++) {
		iov[i + 1] = request->items[i];
		lens[i] = request->items[i].iov_len;
		packet.payload_len += (uint32_t)lens[i];
		if (!ripc__is_intact(out->device))
			crc = ripc__crc32c(crc, iov[i + 1].iov_base, lens[i]);
	}
	tx.len = (uint32_t)wire_encode(prefix, &packet, lens, NULL);
	ripc__put_crc(out->device, prefix, tx.len, crc);
	iov[0] = (struct iovec){prefix, tx.len};
	tx.len += packet.payload_len;
	*len = packet.payload_len;
	RIPC__PROBE(send, RIPC__PROBE_SHORT, service->id, out->group, packet.payload_len);
	return ops->datagrams.send(out->device->port, out->route, &tx, 1);
}

/* The next number. Numbers whose lower half is 0 are skipped: in copies 0 means none. */
static uint64_t number_after(uint64_t number)
{
	return (uint32_t)(number + 1) ? number + 1 : number + 2;
}

bool ripc__mcast_out_send(struct mcast_out *out, struct ripc_service *service,
		const struct ripc_send *request, uint32_t *len)
{
	struct ripc_context *ctx = service->ctx;
	int sent;

	if (!out->route || !(out->shows || out->n_hear >= PAYS_FROM))
		return false;
	out->number = number_after(out->number);
	out->went = true; /* also if the send may have failed */
	sent = transmit(out, service, request, len);
	if (sent != 1) {
		ctx->stats.drop_send_full++;
		if (sent < 0)
			route_close(out);
		return false;
	}
	if (out->shows)
		out->shown = out->number;
	out->shows = false;
	ctx->stats.datagrams_sent++;
	ctx->stats.many_sent++;
	return true;
}

bool ripc__mcast_out_reaches(const struct mcast_out *out, uint64_t incarnation)
{
	const struct hearer *hearer = ripc__map_get(&out->hearers, incarnation);

	return hearer && hearer->hears;
}

uint32_t ripc__mcast_out_number(const struct mcast_out *out)
{
	return out->went ? (uint32_t)out->number : 0;
}

void ripc__mcast_out_heard(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_service *service = partner->service;
	struct mcast_out *out = ripc__map_get(&service->mcast_out, packet->stream.group);
	struct hearer *hearer = NULL;
	uint64_t top = packet->stream.number;

	if (out && out->token == packet->stream.token)
		hearer = ripc__map_get(&out->hearers, partner->incarnation);
	if (!hearer || top > out->number)
		return;
	hearer_set(out, hearer, top && top >= out->proof && out->route);
	hearer->heard_us = service->ctx->now_us;
	/* The member gets no copies from now on: notice soon if it does not hear any more. */
	if (hearer->hears && out->wait_us > WAIT_MOST_US)
		out->wait_us = WAIT_MOST_US;
}
