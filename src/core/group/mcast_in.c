/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See mcast_in.h. A multicast datagram counts like any packet of a partner: it must have the token
 * that we gave the partner, it must come from the address that the route leads to, and each number
 * counts once. Other datagrams are not answered.
 *
 * A multicast datagram has the sender's incarnation and the group. Several services of this context
 * may know the same stream: each has a partner of its own for it.
 *
 * The record of a stream begins with the first copy, which may overtake the packet that announces
 * the stream. The record is kept as long as the partner. Therefore no short is delivered twice, in
 * whatever order the copies and the multicast datagrams arrive. A sender whose address has changed
 * may have two partner objects here, one for each address. The sender sends STREAM and copies by
 * one of them, and only this one hears.
 */
#include <stdlib.h>

#include "core/events.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/wire/wire.h"
#include "mcast_in.h"
#include "mcast_out.h"
#include "util/hash/crc32c.h"
#include "util/hash/siphash.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"

#define WINDOW    64        /* numbers that struct numbers covers */
#define UNKNOWN   (1ull << 32) /* the upper half of a number, until STREAM reports it */

struct mcast_in {
	struct list node;       /* ctx->groups.mcast_in */
	struct mcast_in *same;     /* the next of this sender and group */
	struct partner *partner;
	uint64_t group;
	uint64_t token;         /* 0: no STREAM yet, only copies have come */
	uint64_t given;         /* our token when STREAM came; 0: the group was left since then */
	uint64_t first;         /* number from which on the stream may be heard */
	struct numbers numbers; /* numbers that have come, multicast or as copies */
	uint64_t top;           /* the highest that was multicast; 0: none was */
	uint64_t used_us;       /* when a short or STREAM last came */
};

/* ---- finding ----------------------------------------------------------------------------- */

static uint64_t key_of(const struct ripc_context *ctx, uint64_t incarnation, uint64_t group)
{
	const uint64_t pair[2] = {incarnation, group};

	return ripc__siphash(ctx->self.secret, pair, sizeof(pair));
}

static struct mcast_in *first_of(const struct ripc_context *ctx, uint64_t incarnation,
		uint64_t group)
{
	return ripc__map_get(&ctx->groups.mcast_in_by_sender, key_of(ctx, incarnation, group));
}

static struct mcast_in *in_of(const struct partner *partner, uint64_t group)
{
	struct mcast_in *in = NULL;

	if (partner->has_mcast_in)
		in = first_of(partner->service->ctx, partner->incarnation, group);
	while (in && (in->partner != partner || in->group != group))
		in = in->same;
	return in;
}

/* Has nothing come for so long that nothing is known about the numbers any more? */
static bool is_stale(const struct mcast_in *in)
{
	return in->partner->service->ctx->now_us - in->used_us >= PARTNER_IDLE_US;
}

static void answer(struct mcast_in *in)
{
	struct wire_packet packet;

	wire_clear(&packet);
	packet.stream = (struct wire_stream){in->group, in->token, in->top};
	ripc__partner_send(in->partner, &packet, WIRE_HEARD);
}

/* Ignores multicast shorts of the stream until STREAM comes, and notifies the sender. */
static void stop(struct mcast_in *in)
{
	if (!in->given)
		return;
	in->top = in->given = 0;
	if (in->partner->state == PARTNER_READY)
		answer(in);
}

/*
 * Can both be one sender? Anybody may claim any incarnation: a partner that is not resolved has no
 * effect on one that is.
 */
static bool may_be_same(const struct mcast_in *in, const struct mcast_in *other)
{
	const struct partner *one = in->partner, *two = other->partner;

	return two->service == one->service && two->incarnation == one->incarnation &&
		other->group == in->group && two->id == one->id && one->peer && two->peer &&
		two->peer->context == one->peer->context && (one->resolved || !two->resolved);
}

/* From "after" on: the next record of the same sender by another partner. */
static struct mcast_in *next_of_sender(const struct mcast_in *in, struct mcast_in *after)
{
	while (after && (after == in || !may_be_same(in, after)))
		after = after->same;
	return after;
}

static struct mcast_in *others(const struct mcast_in *in)
{
	return next_of_sender(in, first_of(in->partner->service->ctx,
		in->partner->incarnation, in->group));
}

/* The sender uses this partner now: its other partners do not hear any more. */
static void others_stop(struct mcast_in *in)
{
	for (struct mcast_in *other = others(in); other; other = next_of_sender(in, other->same))
		stop(other);
}

/*
 * Shorts that came by other partners of the sender count as come, up to this number. Numbers that
 * are far away are ignored: the others may be liars, who must not suppress many shorts of this one.
 */
static void others_lend(struct mcast_in *in, uint64_t most)
{
	for (struct mcast_in *other = others(in); other;
			other = next_of_sender(in, other->same)) {
		struct numbers numbers = other->numbers;
		int32_t ahead = (int32_t)((uint32_t)numbers.top - (uint32_t)in->numbers.top);

		if (is_stale(other) || ahead <= -WINDOW || ahead >= WINDOW)
			continue;
		numbers.top = in->numbers.top + (uint64_t)(int64_t)ahead;
		if (numbers.top > most) {
			uint64_t beyond = numbers.top - most;

			numbers.seen = beyond < WINDOW ? numbers.seen >> beyond : 0;
			numbers.top = most;
		}
		ripc__numbers_join(&in->numbers, &numbers);
	}
}

/* ---- adding and removing ----------------------------------------------------------------- */

static struct mcast_in *in_add(struct partner *partner, uint64_t group)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t key = key_of(ctx, partner->incarnation, group);
	struct mcast_in *first = ripc__map_get(&ctx->groups.mcast_in_by_sender, key), *in;

	if (!ripc__share_left(partner, SHARE_MCAST_IN))
		return NULL;
	in = calloc(1, sizeof(*in));
	if (!in)
		return NULL;
	if (first) {
		in->same = first->same;
		first->same = in;
	} else if (ripc__map_put(&ctx->groups.mcast_in_by_sender, key, in)) {
		free(in);
		return NULL;
	}
	in->partner = partner;
	in->group = group;
	in->used_us = ctx->now_us;
	partner->has_mcast_in = true;
	list_append(&ctx->groups.mcast_in, &in->node);
	ripc__share_take(partner, SHARE_MCAST_IN, 1);
	return in;
}

struct numbers *ripc__mcast_in_copy(struct partner *partner, const struct wire_packet *packet,
		uint64_t *number)
{
	struct mcast_in *in = in_of(partner, wire_group(packet));
	uint64_t now_us = partner->service->ctx->now_us;
	uint32_t value = packet->call.value;
	bool is_new = !in;
	int32_t ahead;

	if (is_new)
		in = in_add(partner, wire_group(packet));
	if (!in) {
		partner->unheard = true;
		return NULL;
	}
	/* The upper half may have changed by now, and earlier shorts do not come any more. */
	if (is_new || is_stale(in)) {
		in->token = in->given = in->top = 0;
		in->numbers = (struct numbers){.top = UNKNOWN + value};
		others_lend(in, UNKNOWN + value + WINDOW - 1); /* more copies may have waited */
	}
	others_stop(in);
	ahead = (int32_t)(value - (uint32_t)in->numbers.top);
	in->used_us = now_us;
	*number = in->numbers.top + (uint64_t)(int64_t)ahead;
	return &in->numbers;
}

static void in_remove(struct mcast_in *in)
{
	struct ripc_context *ctx = in->partner->service->ctx;
	uint64_t key = key_of(ctx, in->partner->incarnation, in->group);
	struct mcast_in *at = ripc__map_get(&ctx->groups.mcast_in_by_sender, key);

	if (at == in && at->same)
		ripc__map_replace(&ctx->groups.mcast_in_by_sender, key, at->same);
	else if (at == in)
		ripc__map_remove(&ctx->groups.mcast_in_by_sender, key);
	while (at != in && at->same != in)
		at = at->same;
	at->same = in->same;
	list_remove(&in->node);
	ripc__share_take(in->partner, SHARE_MCAST_IN, -1);
	free(in);
}

void ripc__mcast_in_forget(struct partner *partner)
{
	if (!partner->has_mcast_in)
		return;
	partner->has_mcast_in = false;
	list_for_each_safe(node, &partner->service->ctx->groups.mcast_in) {
		struct mcast_in *in = list_entry(node, struct mcast_in, node);

		if (in->partner == partner)
			in_remove(in);
	}
}

void ripc__mcast_in_lost(struct partner *partner)
{
	if (!partner->has_mcast_in)
		return;
	list_for_each(node, &partner->service->ctx->groups.mcast_in) {
		struct mcast_in *in = list_entry(node, struct mcast_in, node);

		if (in->partner == partner)
			in->given = in->top = 0;
	}
}

void ripc__mcast_in_count(struct partner *partner, bool is_held)
{
	if (!partner->has_mcast_in)
		return;
	list_for_each(node, &partner->service->ctx->groups.mcast_in) {
		if (list_entry(node, struct mcast_in, node)->partner == partner)
			ripc__share_take(partner, SHARE_MCAST_IN, is_held ? 1 : -1);
	}
}

void ripc__mcast_in_move(struct partner *from, struct partner *to)
{
	if (!from->has_mcast_in)
		return;
	list_for_each(node, &from->service->ctx->groups.mcast_in) {
		struct mcast_in *in = list_entry(node, struct mcast_in, node);

		if (in->partner != from || in_of(to, in->group))
			continue;
		ripc__share_take(from, SHARE_MCAST_IN, -1);
		ripc__share_take(to, SHARE_MCAST_IN, 1);
		in->partner = to;
		to->has_mcast_in = true;
	}
}

static bool is_joined(const struct ripc_context *ctx, uint64_t group)
{
	list_for_each(node, &ctx->services.all) {
		const struct ripc_service *service = list_entry(node, struct ripc_service, node);

		if (ripc__map_get(&service->groups, group))
			return true;
	}
	return false;
}

/* Notifies senders at once that copies are needed again: the service may soon be back. */
static void leave(struct ripc_service *service, uint64_t group)
{
	list_for_each(node, &service->ctx->groups.mcast_in) {
		struct mcast_in *in = list_entry(node, struct mcast_in, node);

		if (in->partner->service == service && in->group == group)
			stop(in);
	}
}

void ripc__mcast_in_leave(struct ripc_service *service, uint64_t group)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = service->ctx;

	leave(service, group);
	for (uint32_t i = 0; i < ctx->peers.n_devices && !is_joined(ctx, group); i++) {
		const struct device *device = &ctx->peers.devices[i];

		if (device->ops->multicast.ignore)
			device->ops->multicast.ignore(device->port, group);
	}
}

/* ---- announcements ----------------------------------------------------------------------- */

/* From now on this context hears datagrams to the group on the partner's network. */
static bool listen_to(struct partner *partner, uint64_t group)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = partner->service->ctx;
	struct device *device = ripc__peer_device(ctx, partner->peer);
	const struct ripc__backend *ops = device->ops;

	if (!ops->multicast.hear || !ctx->groups.multicast_least || partner->peer->opening ||
			ops->multicast.hear(device->port, partner->peer->route, group))
		return false;
	if (ops->multicast.fd && device->multicast_fd < 0) {
		device->multicast_fd = ops->multicast.fd(device->port);
		ripc__port_widened(ctx, device);
	}
	return true;
}

/* The stream may be heard from now on: earlier shorts have come as copies, or will. */
static void begin(struct mcast_in *in, const struct wire_stream *stream)
{
	int32_t ahead = (int32_t)((uint32_t)in->numbers.top - (uint32_t)stream->number);

	in->numbers.top = in->numbers.top ? stream->number + (uint64_t)(int64_t)ahead :
		stream->number - 1;
	in->token = stream->token;
	in->first = stream->number;
	in->top = 0;
}

/* A partner multicasts to a group from now on, or still does. */
static void stream_told(struct partner *partner, const struct wire_packet *packet)
{
	const struct wire_stream *stream = &packet->stream;
	struct mcast_in *in = in_of(partner, stream->group);

	if (partner->unheard || !ripc__map_get(&partner->service->groups, stream->group) ||
			!listen_to(partner, stream->group))
		return;
	if (!in)
		in = in_add(partner, stream->group);
	if (!in || (in->token && in->token != stream->token))
		return;
	if (is_stale(in)) {
		in->token = 0;
		in->numbers = (struct numbers){0};
	}
	if (!in->token)
		begin(in, stream);
	if (!in->given)
		others_lend(in, stream->number);
	others_stop(in);
	in->used_us = partner->service->ctx->now_us;
	in->given = partner->token_in;
	answer(in);
}

/* ---- multicast datagrams ----------------------------------------------------------------- */

static bool is_authentic(const struct mcast_in *in, const struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	const struct partner *partner = in->partner;

	return in->token && in->token == packet->h.token && in->group == packet->h.dst &&
		partner->incarnation == packet->h.src && !partner->dead &&
		in->given == partner->token_in &&
		ripc__peer_is_at(partner->service->ctx, partner->peer, device, event->from);
}

static void take(struct mcast_in *in, const struct wire_packet *packet)
{
	struct partner *partner = in->partner;
	uint64_t number = packet->h.number;
	bool is_first;

	partner->heard = ripc__now_1024us(partner->service->ctx);
	in->used_us = partner->service->ctx->now_us;
	ripc__partner_touch(partner);
	if (number >= in->first)
		ripc__short_numbered(partner, packet, &in->numbers);
	if (number <= in->top)
		return;
	/* The number was recorded, unless there was no room, or the packet was altered. */
	if (number > in->numbers.top && !wire_verify(packet, packet->intact ? 0 :
			ripc__crc32c(0, packet->payload, packet->payload_len)))
		return;
	is_first = in->top == 0;
	in->top = number;
	if (is_first)
		answer(in);
}

static bool is_multicast(const struct wire_packet *packet)
{
	return packet->h.type == WIRE_SHORT && wire_group(packet) == packet->h.dst &&
		!(packet->h.flags & (WIRE_F_HELLO | WIRE_F_ACK));
}

void ripc__mcast_in_input(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	struct mcast_in *in, *next;
	struct wire_packet packet;
	bool any = false;

	ctx->stats.datagrams_received++;
	if (wire_decode(event->data, event->len, &packet) || !is_multicast(&packet)) {
		ctx->stats.drop_malformed++;
		return;
	}
	packet.intact = ripc__is_intact(device);
	for (in = first_of(ctx, packet.h.src, packet.h.dst); in; in = next) {
		next = in->same;
		if (!is_authentic(in, device, &packet, event))
			continue;
		take(in, &packet);
		any = true;
	}
	ctx->stats.drop_token += !any;
}

packet_handler *const ripc__group_handlers[WIRE_TYPE_END] = {
	[WIRE_STREAM] = stream_told,
	[WIRE_HEARD] = ripc__mcast_out_heard,
};
