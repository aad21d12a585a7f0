/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The items of an outgoing long message, opened so that its receiver can read them by itself, and
 * closed again before the application gets them back.
 *
 * Design notes. Items are opened for one device: when the route moves to another device, they
 * are closed, and the receiver asks for the bytes. A key that a device cannot close at once may
 * be used until RIPC_EV_FENCED; until then the message holds its memory (outgoing.c). A message
 * often begins with a header of the application, in memory that is not to be shown: the first
 * items, as far as they are short, are carried by each announcement. The checksum of a long
 * message is computed while the receiver already reads, by the call that sends the message.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/message/message.h"
#include "core/net/backend.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "exposed.h"
#include "outgoing.h"
#include "util/hash/blocksum.h"
#include "util/list.h"

#define CARRIED_MAX 512u /* bytes that an announcement carries */

static int item_open(struct exposed *exposed, const struct iovec *item)
{
	struct device *device = exposed->device;
	struct exposed_item *at = &exposed->items[exposed->n];
	struct peer *peer = exposed->fence.outgoing->partner->peer;

	*at = (struct exposed_item){.len = item->iov_len};
	if (!at->len)
		return 0;
	return device->ops->mem.open(device->port, peer->route, item->iov_base, at->len, false,
		&at->key);
}

static void close_all(struct outgoing *outgoing, bool hand, bool is_done)
{
	struct exposed *exposed = outgoing->exposed;
	struct device *device;
	enum ripc__closing how;

	if (!exposed)
		return;
	outgoing->exposed = NULL;
	device = exposed->device;
	how = hand && exposed->given ? RIPC_CLOSE_HAND :
		is_done ? RIPC_CLOSE_DONE : RIPC_CLOSE_REVOKE;
	for (uint32_t i = 0; i < exposed->n; i++) {
		if (exposed->items[i].len && device->ops->mem.close(device->port,
				&exposed->items[i].key, how, (uintptr_t)exposed) == -EINPROGRESS)
			exposed->n_fencing++;
	}
	if (exposed->n_fencing == 0) {
		free(exposed);
		return;
	}
	list_append(&outgoing->fencing, &exposed->fence.node);
}

static uint32_t keyed_prefix(const struct outgoing *outgoing)
{
	return WIRE_HEADER_MAX + ripc__extra_bytes(outgoing) + WIRE_ANNOUNCE_BODY +
		24 * outgoing->n_items;
}

/*
 * Bytes of the first items that an announcement carries: repeated bytes must fit into any
 * datagram.
 */
uint32_t ripc__exposed_carried(const struct outgoing *outgoing)
{
	uint32_t prefix = keyed_prefix(outgoing), most = CARRIED_MAX, bytes = 0;

	if (prefix + most > ripc__datagram_base(outgoing->service->ctx))
		return 0;
	for (uint32_t i = 0; i < outgoing->n_items; i++) {
		if (outgoing->items[i].iov_len > most - bytes)
			break;
		bytes += (uint32_t)outgoing->items[i].iov_len;
	}
	return bytes;
}

uint32_t ripc__exposed_least(const struct outgoing *outgoing)
{
	return keyed_prefix(outgoing) + ripc__exposed_carried(outgoing);
}

uint32_t ripc__exposed_room(const struct outgoing *outgoing)
{
	struct ripc_context *ctx = outgoing->message.ctx;
	struct peer *peer = outgoing->partner->peer;
	uint32_t room = ripc__peer_payload(ctx, peer) + WIRE_HEADER + WIRE_DATA_BODY;
	uint32_t least = ripc__exposed_least(outgoing);
	uint32_t most = ripc__datagram_base(ctx); /* large datagrams may be what vanishes */

	if (ripc__peer_device(ctx, peer)->attr.caps & (RIPC_CAP_RELIABLE | RIPC_CAP_SIZED) &&
			least > most)
		most = least;
	return room < most ? room : most;
}

/* Opens all items except the carried ones, or none. */
static bool open_all(struct outgoing *outgoing, struct device *device)
{
	struct exposed *exposed = calloc(1, sizeof(*exposed) +
		outgoing->n_items * sizeof(struct exposed_item));
	uint64_t end = 0;

	if (!exposed)
		return false;
	exposed->fence.outgoing = outgoing;
	exposed->device = device;
	exposed->given = outgoing->flags & RIPC_GIVE && device->attr.caps & RIPC_CAP_MAP;
	exposed->carried = ripc__exposed_carried(outgoing);
	outgoing->exposed = exposed;
	for (; exposed->n < outgoing->n_items; exposed->n++) {
		end += outgoing->items[exposed->n].iov_len;
		if (end > exposed->carried && item_open(exposed, &outgoing->items[exposed->n])) {
			outgoing->unopenable = true;
			close_all(outgoing, false, true); /* no partner knows of them yet */
			return false;
		}
	}
	return true;
}

/*
 * A message that is mostly sent unasked needs no keys; nor does one that is under way already. A
 * partner that has not answered yet, or may be gone, gets none: its end then leaves no outcome
 * unknown. An announcement without keys ends a reading: either all announcements of a message
 * have room for keys, or none has any.
 */
bool ripc__exposed_may(const struct outgoing *outgoing)
{
	const struct partner *partner = outgoing->partner;
	const struct device *device = ripc__peer_device(outgoing->service->ctx, partner->peer);

	return device->attr.caps & RIPC_CAP_READ && !outgoing->unopenable &&
		outgoing->state == OUT_ACTIVE &&
		outgoing->total > UNASKED_BYTES && outgoing->limit <= UNASKED_BYTES &&
		partner->token_out && partner->current &&
	       (partner->resolved || outgoing->direct) &&
	       ripc__exposed_least(outgoing) <= ripc__exposed_room(outgoing);
}

bool ripc__exposed_keys(struct outgoing *outgoing, uint32_t room, uint64_t *keys)
{
	struct device *device = ripc__peer_device(outgoing->service->ctx,
		outgoing->partner->peer);

	/* The items of a given message may have been mapped there, and delivered. */
	if (outgoing->exposed && outgoing->exposed->device != device)
		ripc__exposed_hand(outgoing, false);
	if (room < ripc__exposed_least(outgoing))
		return false;
	if (!outgoing->exposed && (outgoing->had_keys || !ripc__exposed_may(outgoing) ||
			!open_all(outgoing, device)))
		return false;
	for (uint32_t i = 0; i < outgoing->n_items; i++) {
		keys[2 * i] = outgoing->exposed->items[i].key.address;
		keys[2 * i + 1] = outgoing->exposed->items[i].key.key;
	}
	outgoing->had_keys = true;
	return true;
}

static bool may_follow(const struct outgoing *outgoing)
{
	return outgoing->sums && !outgoing->summed && outgoing->exposed &&
		!outgoing->exposed->given;
}

/* If bytes may be altered on the way, the receiver compares the checksum of moved bytes. */
void ripc__exposed_sum(struct outgoing *outgoing, struct wire_packet *packet)
{
	const struct device *device = ripc__peer_device(outgoing->message.ctx,
		outgoing->partner->peer);

	if (ripc__moves_intact(&device->attr))
		return;
	if (may_follow(outgoing)) {
		packet->announce.keys = WIRE_KEYS_SUMMING;
		outgoing->exposed->is_summing = true;
		return;
	}
	if (!outgoing->summed)
		outgoing->sum = ripc__blocksum_items(outgoing->items, outgoing->n_items,
			packet->payload_len);
	outgoing->summed = true;
	packet->h.flags |= WIRE_F_LAST;
	packet->announce.sum = outgoing->sum;
}

void ripc__exposed_close(struct outgoing *outgoing)
{
	close_all(outgoing, false, false);
}

void ripc__exposed_hand(struct outgoing *outgoing, bool is_done)
{
	close_all(outgoing, true, is_done);
}

void ripc__exposed_fenced(uint64_t cookie)
{
	struct exposed *exposed = (struct exposed *)(uintptr_t)cookie;

	if (--exposed->n_fencing > 0)
		return;
	ripc__fence_lift(&exposed->fence);
	free(exposed);
}

void ripc__exposed_forget(struct outgoing *outgoing)
{
	while (!list_empty(&outgoing->fencing))
		free(list_entry(list_pop(&outgoing->fencing), struct fence, node));
}
