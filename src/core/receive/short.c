/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages that arrive: each is delivered at most once (protocol.md, numbers). */
#include <string.h>

#include "core/call/call.h"
#include "core/group/mcast_in.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/partner/rights.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "util/hash/crc32c.h"
#include "util/probe.h"

/* False: seen before, or too old to tell. */
static bool number_is_new(struct ripc_stats *stats, struct numbers *numbers, uint64_t number)
{
	if (number > numbers->top) {
		uint64_t ahead = number - numbers->top;

		numbers->seen = ahead < 64 ? numbers->seen << ahead : 0;
		numbers->seen |= 1;
		numbers->top = number;
		return true;
	}
	if (numbers->top - number >= 64) {
		stats->drop_late++;
		return false;
	}
	if (numbers->seen >> (numbers->top - number) & 1) {
		stats->drop_duplicate++;
		return false;
	}
	numbers->seen |= 1ull << (numbers->top - number);
	return true;
}

/* Moves the items of a reply into the return buffers that were posted for it, if they fit. */
static struct message *into_returns(struct message *message, struct lent *lent)
{
	uint32_t n = message->public.n_items;
	struct message *moved;
	struct ripc_buffer *places;

	for (uint32_t i = 0; i < n; i++) {
		if (i >= lent->n || message->public.items[i].iov_len > lent->buffers[i].mem.iov_len)
			return message;
	}
	moved = ripc__message_alloc(message->ctx, n, true);
	if (!moved)
		return message;
	places = (struct ripc_buffer *)moved->public.places;
	for (uint32_t i = 0; i < n; i++) {
		struct iovec *item = (struct iovec *)&moved->public.items[i];

		*item = (struct iovec){lent->buffers[i].mem.iov_base,
			message->public.items[i].iov_len};
		memcpy(item->iov_base, message->public.items[i].iov_base, item->iov_len);
		places[i] = (struct ripc_buffer){.mem = *item, .place = RIPC_IN_RETURN,
			.cookie = lent->buffers[i].cookie};
	}
	ripc__message_free(message);
	ripc__lent_free(lent);
	return moved;
}

/* Fills in a message of len bytes that has arrived from the partner. */
static inline void sign(struct partner *partner, struct message *message, uint32_t len)
{
	struct ripc_stats *stats = &partner->service->ctx->stats;

	message->public.kind = RIPC_SHORT;
	message->public.from = partner->id;
	message->public.from_incarnation = partner->incarnation;
	message->public.from_handle = ripc__handle_of(partner);
	stats->short_received++;
	stats->short_received_bytes += len;
	RIPC__PROBE(receive, RIPC__PROBE_SHORT, partner->service->id, partner->id, len);
}

static void deliver(struct partner *partner, const struct wire_packet *packet,
		struct message *message)
{
	struct lent *lent = ripc__lent_for(partner, packet);

	if (lent)
		message = into_returns(message, lent);
	sign(partner, message, packet->payload_len);
	ripc__message_is_call(message, packet);
	if (message->public.kind == RIPC_REPLY)
		ripc__answer_came(partner, message);
	else
		ripc__service_deliver(partner, message, NULL,
			sizeof(*message) + packet->payload_len);
}

/* Is it a reply that must wait, because its return buffers are still open to its sender? */
static bool may_land(struct partner *partner, const struct wire_packet *packet)
{
	const struct lent *lent = ripc__lent_for(partner, packet);

	if (!lent || !lent->permit)
		return true;
	if (wire_verify(packet, packet->intact ? 0 :
			ripc__crc32c(0, packet->payload, packet->payload_len)))
		return ripc__answer_may_land(partner, packet);
	partner->service->ctx->stats.drop_checksum++;
	return false;
}

static inline bool has_room(const struct partner *partner)
{
	return ripc__queue_has_room(partner) && !partner->service->draining;
}

static inline bool has_share(const struct partner *partner, const struct wire_packet *packet)
{
	return ripc__share_left(partner, SHARE_SMALL) >= packet->payload_len;
}

/* Is the copy of a multicast message new, that is, not received by multicast before? */
static bool is_new_in_stream(struct partner *partner, const struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint64_t number;
	struct numbers *numbers = ripc__mcast_in_copy(partner, packet, &number);

	return !numbers || number_is_new(&ctx->stats, numbers, number);
}

/*
 * The message, copied and verified; NULL: it was dropped and counted. numbers: the arrived
 * numbers of its kind.
 */
static inline struct message *copy_verified(struct partner *partner,
		const struct wire_packet *packet, struct numbers *numbers)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct message *message = ripc__message_whole(ctx, packet);
	uint8_t *bytes;
	uint32_t crc = 0;

	if (!message) {
		ctx->stats.drop_no_memory++;
		return NULL;
	}
	bytes = message->public.items[0].iov_base;
	if (packet->intact)
		memcpy(bytes, packet->payload, packet->payload_len);
	else
		crc = ripc__crc32c_copy(0, bytes, packet->payload, packet->payload_len);
	if (!wire_verify(packet, crc))
		ctx->stats.drop_checksum++;
	else if (number_is_new(&ctx->stats, numbers, packet->h.number))
		return message;
	ripc__message_free(message);
	return NULL;
}

void ripc__short_plain(struct partner *partner, const struct wire_packet *packet)
{
	struct message *message;

	if (!has_room(partner) || !has_share(partner, packet)) {
		partner->service->ctx->stats.drop_queue_full++;
		return;
	}
	message = copy_verified(partner, packet, &partner->shorts_in);
	if (!message)
		return;
	sign(partner, message, packet->payload_len);
	ripc__service_deliver(partner, message, NULL, sizeof(*message) + packet->payload_len);
}

void ripc__short_numbered(struct partner *partner, const struct wire_packet *packet,
		struct numbers *numbers)
{
	struct message *message;

	/* A reply has room of its own: it ends its call at once, or is dropped. */
	if (!wire_is_answer(packet) && (!has_room(partner) || !has_share(partner, packet))) {
		partner->service->ctx->stats.drop_queue_full++;
		return;
	}
	if (wire_group(packet) && !ripc__may_publish(partner, wire_group(packet))) {
		partner->service->ctx->stats.drop_no_member++;
		return;
	}
	if (packet->replies && !may_land(partner, packet))
		return;
	message = copy_verified(partner, packet, numbers);
	if (!message)
		return;
	if (wire_copies_stream(packet) && !is_new_in_stream(partner, packet)) {
		ripc__message_free(message);
		return;
	}
	if (packet->n_returns)
		ripc__offer_note(partner, packet);
	deliver(partner, packet, message);
}

bool ripc__short_spend(struct partner *partner, const struct wire_packet *packet)
{
	return number_is_new(&partner->service->ctx->stats, &partner->shorts_in, packet->h.number);
}

void ripc__short_input(struct partner *partner, const struct wire_packet *packet)
{
	ripc__short_numbered(partner, packet, &partner->shorts_in);
}
