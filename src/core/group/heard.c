/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See heard.h. A multicast datagram counts like any packet of a partner: it must have the token
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
#include "heard.h"
#include "stream.h"
#include "util/hash/crc32c.h"
#include "util/hash/siphash.h"
#include "util/list.h"
#include "util/map.h"
#include "util/system/cancel.h"

#define WINDOW    64        /* numbers that struct numbers covers */
#define UNKNOWN   (1ull << 32) /* the upper half of a number, until STREAM reports it */

struct heard {
	struct list node;       /* ctx->groups.heard */
	struct heard *same;     /* the next of this sender and group */
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

static struct heard *first_of(const struct ripc_context *ctx, uint64_t incarnation, uint64_t group)
{
	return ripc__map_get(&ctx->groups.heard_by_sender, key_of(ctx, incarnation, group));
}

static struct heard *heard_of(const struct partner *partner, uint64_t group)
{
	struct heard *heard = NULL;

	if (partner->streams)
		heard = first_of(partner->service->ctx, partner->incarnation, group);
	while (heard && (heard->partner != partner || heard->group != group))
		heard = heard->same;
	return heard;
}

/* Has nothing come for so long that nothing is known about the numbers any more? */
static bool is_stale(const struct heard *heard)
{
	return heard->partner->service->ctx->now_us - heard->used_us >= PARTNER_IDLE_US;
}

static void answer(struct heard *heard)
{
	struct wire_packet packet;

	wire_clear(&packet);
	packet.stream = (struct wire_stream){heard->group, heard->token, heard->top};
	ripc__partner_send(heard->partner, &packet, WIRE_HEARD);
}

/* Ignores multicast shorts of the stream until STREAM comes, and notifies the sender. */
static void stop(struct heard *heard)
{
	if (!heard->given)
		return;
	heard->top = heard->given = 0;
	if (heard->partner->state == PARTNER_READY)
		answer(heard);
}

/*
 * Can both be one sender? Anybody may claim any incarnation: a partner that is not resolved has no
 * effect on one that is.
 */
static bool may_be_same(const struct heard *heard, const struct heard *other)
{
	const struct partner *one = heard->partner, *two = other->partner;

	return two->service == one->service && two->incarnation == one->incarnation &&
		other->group == heard->group && two->id == one->id && one->peer && two->peer &&
		two->peer->context == one->peer->context && (one->resolved || !two->resolved);
}

/* From "after" on: the next record of the same sender by another partner. */
static struct heard *next_of_sender(const struct heard *heard, struct heard *after)
{
	while (after && (after == heard || !may_be_same(heard, after)))
		after = after->same;
	return after;
}

static struct heard *others(const struct heard *heard)
{
	return next_of_sender(heard, first_of(heard->partner->service->ctx,
		heard->partner->incarnation, heard->group));
}

/* The sender uses this partner now: its other partners do not hear any more. */
static void others_stop(struct heard *heard)
{
	for (struct heard *other = others(heard); other; other = next_of_sender(heard, other->same))
		stop(other);
}

/*
 * Shorts that came by other partners of the sender count as come, up to this number. Numbers that
 * are far away are ignored: the others may be liars, who must not suppress many shorts of this one.
 */
static void others_lend(struct heard *heard, uint64_t most)
{
	for (struct heard *other = others(heard); other;
			other = next_of_sender(heard, other->same)) {
		struct numbers numbers = other->numbers;
		int32_t ahead = (int32_t)((uint32_t)numbers.top - (uint32_t)heard->numbers.top);

		if (is_stale(other) || ahead <= -WINDOW || ahead >= WINDOW)
			continue;
		numbers.top = heard->numbers.top + (uint64_t)(int64_t)ahead;
		if (numbers.top > most) {
			uint64_t beyond = numbers.top - most;

			numbers.seen = beyond < WINDOW ? numbers.seen >> beyond : 0;
			numbers.top = most;
		}
		ripc__numbers_join(&heard->numbers, &numbers);
	}
}

/* ---- adding and removing ----------------------------------------------------------------- */

static struct heard *heard_add(struct partner *partner, uint64_t group)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t key = key_of(ctx, partner->incarnation, group);
	struct heard *first = ripc__map_get(&ctx->groups.heard_by_sender, key), *heard;

	if (!ripc__share_left(partner, SHARE_STREAMS))
		return NULL;
	heard = calloc(1, sizeof(*heard));
	if (!heard)
		return NULL;
	if (first) {
		heard->same = first->same;
		first->same = heard;
	} else if (ripc__map_put(&ctx->groups.heard_by_sender, key, heard)) {
		free(heard);
		return NULL;
	}
	heard->partner = partner;
	heard->group = group;
	heard->used_us = ctx->now_us;
	partner->streams = true;
	list_append(&ctx->groups.heard, &heard->node);
	ripc__share_take(partner, SHARE_STREAMS, 1);
	return heard;
}

struct numbers *ripc__heard_copy(struct partner *partner, const struct wire_packet *packet,
		uint64_t *number)
{
	struct heard *heard = heard_of(partner, wire_group(packet));
	uint64_t now_us = partner->service->ctx->now_us;
	uint32_t value = packet->call.value;
	bool is_new = !heard;
	int32_t ahead;

	if (is_new)
		heard = heard_add(partner, wire_group(packet));
	if (!heard) {
		partner->unheard = true;
		return NULL;
	}
	/* The upper half may have changed by now, and earlier shorts do not come any more. */
	if (is_new || is_stale(heard)) {
		heard->token = heard->given = heard->top = 0;
		heard->numbers = (struct numbers){.top = UNKNOWN + value};
		others_lend(heard, UNKNOWN + value + WINDOW - 1); /* more copies may have waited */
	}
	others_stop(heard);
	ahead = (int32_t)(value - (uint32_t)heard->numbers.top);
	heard->used_us = now_us;
	*number = heard->numbers.top + (uint64_t)(int64_t)ahead;
	return &heard->numbers;
}

static void heard_remove(struct heard *heard)
{
	struct ripc_context *ctx = heard->partner->service->ctx;
	uint64_t key = key_of(ctx, heard->partner->incarnation, heard->group);
	struct heard *at = ripc__map_get(&ctx->groups.heard_by_sender, key);

	if (at == heard && at->same)
		ripc__map_replace(&ctx->groups.heard_by_sender, key, at->same);
	else if (at == heard)
		ripc__map_remove(&ctx->groups.heard_by_sender, key);
	while (at != heard && at->same != heard)
		at = at->same;
	at->same = heard->same;
	list_remove(&heard->node);
	ripc__share_take(heard->partner, SHARE_STREAMS, -1);
	free(heard);
}

void ripc__heard_forget(struct partner *partner)
{
	if (!partner->streams)
		return;
	partner->streams = false;
	list_for_each_safe(node, &partner->service->ctx->groups.heard) {
		struct heard *heard = list_entry(node, struct heard, node);

		if (heard->partner == partner)
			heard_remove(heard);
	}
}

void ripc__heard_lost(struct partner *partner)
{
	if (!partner->streams)
		return;
	list_for_each(node, &partner->service->ctx->groups.heard) {
		struct heard *heard = list_entry(node, struct heard, node);

		if (heard->partner == partner)
			heard->given = heard->top = 0;
	}
}

void ripc__heard_count(struct partner *partner, bool is_held)
{
	if (!partner->streams)
		return;
	list_for_each(node, &partner->service->ctx->groups.heard) {
		if (list_entry(node, struct heard, node)->partner == partner)
			ripc__share_take(partner, SHARE_STREAMS, is_held ? 1 : -1);
	}
}

void ripc__heard_move(struct partner *from, struct partner *to)
{
	if (!from->streams)
		return;
	list_for_each(node, &from->service->ctx->groups.heard) {
		struct heard *heard = list_entry(node, struct heard, node);

		if (heard->partner != from || heard_of(to, heard->group))
			continue;
		ripc__share_take(from, SHARE_STREAMS, -1);
		ripc__share_take(to, SHARE_STREAMS, 1);
		heard->partner = to;
		to->streams = true;
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
	list_for_each(node, &service->ctx->groups.heard) {
		struct heard *heard = list_entry(node, struct heard, node);

		if (heard->partner->service == service && heard->group == group)
			stop(heard);
	}
}

void ripc__heard_leave(struct ripc_service *service, uint64_t group)
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
static void begin(struct heard *heard, const struct wire_stream *stream)
{
	int32_t ahead = (int32_t)((uint32_t)heard->numbers.top - (uint32_t)stream->number);

	heard->numbers.top = heard->numbers.top ? stream->number + (uint64_t)(int64_t)ahead :
		stream->number - 1;
	heard->token = stream->token;
	heard->first = stream->number;
	heard->top = 0;
}

/* A partner multicasts to a group from now on, or still does. */
static void stream_told(struct partner *partner, const struct wire_packet *packet)
{
	const struct wire_stream *stream = &packet->stream;
	struct heard *heard = heard_of(partner, stream->group);

	if (partner->unheard || !ripc__map_get(&partner->service->groups, stream->group) ||
			!listen_to(partner, stream->group))
		return;
	if (!heard)
		heard = heard_add(partner, stream->group);
	if (!heard || (heard->token && heard->token != stream->token))
		return;
	if (is_stale(heard)) {
		heard->token = 0;
		heard->numbers = (struct numbers){0};
	}
	if (!heard->token)
		begin(heard, stream);
	if (!heard->given)
		others_lend(heard, stream->number);
	others_stop(heard);
	heard->used_us = partner->service->ctx->now_us;
	heard->given = partner->token_in;
	answer(heard);
}

/* ---- multicast datagrams ----------------------------------------------------------------- */

static bool is_authentic(const struct heard *heard, const struct device *device,
		const struct wire_packet *packet, const struct ripc__event *event)
{
	const struct partner *partner = heard->partner;

	return heard->token && heard->token == packet->h.token && heard->group == packet->h.dst &&
		partner->incarnation == packet->h.src && !partner->dead &&
		heard->given == partner->token_in &&
		ripc__peer_is_at(partner->service->ctx, partner->peer, device, event->from);
}

static void take(struct heard *heard, const struct wire_packet *packet)
{
	struct partner *partner = heard->partner;
	uint64_t number = packet->h.number;
	bool is_first;

	partner->heard = ripc__now_1024us(partner->service->ctx);
	heard->used_us = partner->service->ctx->now_us;
	ripc__partner_touch(partner);
	if (number >= heard->first)
		ripc__short_numbered(partner, packet, &heard->numbers);
	if (number <= heard->top)
		return;
	/* The number was recorded, unless there was no room, or the packet was altered. */
	if (number > heard->numbers.top && !wire_verify(packet, packet->intact ? 0 :
			ripc__crc32c(0, packet->payload, packet->payload_len)))
		return;
	is_first = heard->top == 0;
	heard->top = number;
	if (is_first)
		answer(heard);
}

static bool is_multicast(const struct wire_packet *packet)
{
	return packet->h.type == WIRE_SHORT && wire_group(packet) == packet->h.dst &&
		!(packet->h.flags & (WIRE_F_HELLO | WIRE_F_ACK));
}

void ripc__heard_input(struct ripc_context *ctx, struct device *device,
		const struct ripc__event *event)
{
	struct heard *heard, *next;
	struct wire_packet packet;
	bool any = false;

	ctx->stats.datagrams_received++;
	if (wire_decode(event->data, event->len, &packet) || !is_multicast(&packet)) {
		ctx->stats.drop_malformed++;
		return;
	}
	packet.intact = ripc__is_intact(device);
	for (heard = first_of(ctx, packet.h.src, packet.h.dst); heard; heard = next) {
		next = heard->same;
		if (!is_authentic(heard, device, &packet, event))
			continue;
		take(heard, &packet);
		any = true;
	}
	ctx->stats.drop_token += !any;
}

packet_handler *const ripc__group_handlers[WIRE_TYPE_END] = {
	[WIRE_STREAM] = stream_told,
	[WIRE_HEARD] = ripc__stream_heard,
};
