/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of an outgoing long message on their way to the network: gathered from the items,
 * with their checksums, in batches of equal datagrams.
 *
 * Design notes. Bytes are sent for the first time in order: the checksum of the whole is
 * continued with each datagram, without reading a byte twice for it.
 */
#include <errno.h>

#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/packet.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "outgoing.h"
#include "util/hash/crc32c.h"
#include "util/probe.h"

#define BATCH_DATAGRAMS 64u
#define BATCH_BYTES     65000u
#define BATCH_IOVECS    320u

/* Datagrams that are passed to the network in one go. */
struct batch {
	const struct device *device;
	uint32_t n, n_iov, bytes;
	struct ripc__tx tx[BATCH_DATAGRAMS];
	struct iovec iov[BATCH_IOVECS];
	struct wire_packet packet; /* the fields that all datagrams share */
	uint8_t headers[BATCH_DATAGRAMS][WIRE_HEADER + WIRE_DATA_BODY];
	uint64_t sent[BATCH_DATAGRAMS]; /* of the message before each datagram, and its checksum */
	uint32_t crc[BATCH_DATAGRAMS];
};

uint32_t ripc__gather(const struct outgoing *outgoing, struct wire_range range,
		struct iovec *iov, uint32_t max, uint32_t *crc)
{
	uint64_t at = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < outgoing->n_items && range.start < range.end; i++) {
		const struct iovec *item = &outgoing->items[i];
		uint64_t skip = range.start - at, len = item->iov_len;

		at += len;
		if (skip >= len)
			continue;
		len = len - skip < range.end - range.start ? len - skip : range.end - range.start;
		if (n == max)
			return 0;
		iov[n] = (struct iovec){(char *)item->iov_base + skip, len};
		*crc = ripc__crc32c(*crc, iov[n].iov_base, len);
		n++;
		range.start += len;
	}
	return n;
}

/* Sends the datagrams of the batch; false: the network is full, and the rest was not sent. */
static bool batch_flush(struct outgoing *outgoing, struct batch *batch)
{
	struct partner *partner = outgoing->partner;
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t sent = 0, wanted = batch->n;

	while (sent < batch->n) {
		int n = ripc__partner_transmit(partner, batch->tx + sent, batch->n - sent);

		if (n == -EMSGSIZE) {
			partner->peer->datagram = 0; /* read anew from the route */
			ctx->stats.datagram_size_fallbacks++;
		}
		if (n <= 0)
			break;
		sent += (uint32_t)n;
	}
	if (sent < wanted) {
		outgoing->sent = batch->sent[sent];
		outgoing->crc = batch->crc[sent];
	}
	batch->n = batch->n_iov = batch->bytes = 0;
	return sent == wanted;
}

static bool batch_full(const struct batch *batch, uint32_t payload)
{
	return batch->n == BATCH_DATAGRAMS || batch->n_iov + RIPC_IOV_MAX > BATCH_IOVECS ||
		batch->bytes + payload + WIRE_HEADER + WIRE_DATA_BODY > BATCH_BYTES;
}

/*
 * Adds a DATA packet; the message's checksum is continued when these bytes are sent for the
 * first time.
 */
static void batch_add(struct outgoing *outgoing, struct batch *batch, struct wire_range range)
{
	struct wire_packet *packet = &batch->packet;
	struct iovec *iov = batch->iov + batch->n_iov;
	uint8_t *header = batch->headers[batch->n];
	uint32_t crc = 0, n_iov, len = (uint32_t)(range.end - range.start);
	size_t header_len;

	n_iov = ripc__gather(outgoing, range, iov + 1, RIPC_ITEMS_MAX, &crc);
	batch->sent[batch->n] = outgoing->sent;
	batch->crc[batch->n] = outgoing->crc;
	if (range.start == outgoing->sent) {
		outgoing->crc = ripc__crc32c_shift(outgoing->crc, len) ^ crc;
		outgoing->sent = range.end;
	}
	packet->offset = range.start;
	packet->h.flags = range.end == outgoing->total ? WIRE_F_LAST : 0;
	packet->sum = range.end == outgoing->total ? outgoing->crc : 0;
	header_len = wire_encode(header, packet, NULL, NULL);
	ripc__put_crc(batch->device, header, header_len, crc);
	iov[0] = (struct iovec){header, header_len};
	batch->tx[batch->n++] = (struct ripc__tx){iov, n_iov + 1, (uint32_t)header_len + len};
	batch->n_iov += n_iov + 1;
	batch->bytes += (uint32_t)header_len + len;
}

/*
 * Sends [start, end) as far as the network takes it; the rest is sent with the next request of
 * the receiver. False: the network is full.
 */
static bool send_range(struct outgoing *outgoing, struct batch *batch, struct wire_range range)
{
	uint32_t payload = ripc__peer_payload(outgoing->service->ctx, outgoing->partner->peer);

	while (range.start < range.end) {
		struct wire_range piece = {range.start, range.start + payload};

		if (piece.end > range.end)
			piece.end = range.end;
		if (batch_full(batch, payload) && !batch_flush(outgoing, batch))
			return false;
		batch_add(outgoing, batch, piece);
		range.start = piece.end;
	}
	return true;
}

void ripc__pump(struct outgoing *outgoing)
{
	struct batch batch;
	uint64_t limit = outgoing->limit < outgoing->total ? outgoing->limit : outgoing->total;
	bool open = true;

	batch.device = ripc__peer_device(outgoing->service->ctx, outgoing->partner->peer);
	batch.n = batch.n_iov = batch.bytes = 0;
	batch.packet.lends = batch.packet.replies = 0;
	batch.packet.n_returns = 0;
	batch.packet.call = (struct wire_call){0};
	batch.packet.h = (struct wire_header){.number = outgoing->number};
	ripc__partner_header(outgoing->partner, &batch.packet, WIRE_DATA);
	for (uint32_t i = 0; open && i < outgoing->n_holes; i++) {
		outgoing->service->ctx->stats.data_resent_bytes +=
			outgoing->holes[i].end - outgoing->holes[i].start;
		open = send_range(outgoing, &batch, outgoing->holes[i]);
	}
	outgoing->n_holes = 0;
	if (open && outgoing->sent < limit) {
		if (limit < outgoing->total)
			ripc__point(outgoing->service->ctx, "mid_data");
		send_range(outgoing, &batch, (struct wire_range){outgoing->sent, limit});
		if (outgoing->sent == outgoing->total)
			ripc__point(outgoing->service->ctx, "last_data");
	}
	batch_flush(outgoing, &batch);
}

/* ---- unasked bytes ----------------------------------------------------------------------- */

void ripc__unasked_count(struct outgoing *outgoing, uint64_t bytes)
{
	outgoing->partner->under_way += (uint32_t)bytes - outgoing->unasked;
	outgoing->unasked = (uint32_t)bytes;
}

/* Bytes that are sent unasked: hardly any of a message that the receiver reads. */
static uint64_t goes_unasked(const struct outgoing *outgoing, const struct device *device)
{
	const struct partner *partner = outgoing->partner;

	if (outgoing->total > UNASKED_BYTES && device->attr.caps & RIPC_CAP_READ &&
			partner->token_out)
		return 0;
	return outgoing->total < partner->unasked ? outgoing->total : partner->unasked;
}

/* If a partner accepts less than usual of one message, that is an eighth of its credit. */
bool ripc__unasked_has_room(const struct outgoing *outgoing)
{
	const struct partner *partner = outgoing->partner;
	const struct device *device = ripc__peer_device(partner->service->ctx, partner->peer);
	uint64_t most = partner->unasked < UNASKED_BYTES ? 8ull * partner->unasked : UINT64_MAX;

	if (device->attr.peer_buffer && device->attr.peer_buffer < most)
		most = device->attr.peer_buffer;
	return partner->under_way + goes_unasked(outgoing, device) <= most;
}

void ripc__busy_update(struct outgoing *outgoing)
{
	bool busy = outgoing->state < OUT_FENCING && !outgoing->had_keys &&
		!(outgoing->announced && outgoing->sent == outgoing->total);

	outgoing->message.ctx->loop.n_busy += (uint32_t)busy - (uint32_t)outgoing->busy;
	outgoing->busy = busy;
}

/* ---- resend ------------------------------------------------------------------------------ */

/*
 * Repetition of bytes that the receiver of a long message requests again: how many are sent, and
 * what the request shows about the path.
 */

#define BLACK_HOLE_PULLS 2u     /* repetitions of the same request that show one */
#define RESEND_BYTES     65536u /* repeated per time-out, besides the bytes that were sent */

/*
 * If the receiver requests the same bytes again and again, small packets pass and large ones do
 * not: smaller ones are used from now on (protocol.md, packet sizes).
 */
static void watch_for_black_hole(struct outgoing *outgoing, const struct wire_pull *pull)
{
	struct ripc_context *ctx = outgoing->service->ctx;
	struct peer *peer = outgoing->partner->peer;
	uint64_t most_us = ripc__rto_most_us(ctx);
	uint64_t apart_us = 2ull * peer->srtt_us < most_us ? 2ull * peer->srtt_us : most_us;
	uint32_t now_us = (uint32_t)ctx->now_us;
	uint32_t base = ripc__datagram_base(ctx);
	uint64_t missing = 0;

	/* If no round trip is known, the bytes may still be on their way. */
	if (ripc__peer_device(ctx, peer)->attr.caps & (RIPC_CAP_SIZED | RIPC_CAP_RELIABLE) ||
			peer->srtt_us == 0)
		return;
	for (uint32_t i = 0; i < pull->n_holes; i++)
		missing += pull->holes[i].end - pull->holes[i].start;
	if (pull->have != outgoing->asked_have || missing != outgoing->asked_missing)
		outgoing->asked_same = 0;
	else if (ctx->now_us - outgoing->asked_us < apart_us)
		return; /* the answer to the last request may still be on its way */
	else
		outgoing->asked_same++;
	outgoing->asked_us = ctx->now_us;
	outgoing->asked_have = pull->have;
	outgoing->asked_missing = missing;
	if (outgoing->asked_same < BLACK_HOLE_PULLS || peer->datagram <= base)
		return;
	peer->datagram = base;
	peer->shrunk_us = now_us ? now_us : UINT32_MAX; /* 0 means never */
	ctx->stats.datagram_size_fallbacks++;
}

/*
 * Bytes that may be sent again now. On a path that loses two of three, for each byte that was
 * sent for the first time two must be sent again; time adds a little more. A receiver that
 * requests the same again and again therefore draws little.
 */
static uint64_t resend_left(struct outgoing *outgoing)
{
	const struct ripc_context *ctx = outgoing->service->ctx;
	uint64_t passed_us = ctx->now_us - outgoing->resend_us;
	uint64_t rto_us = ripc__peer_rto(ctx, outgoing->partner->peer);

	outgoing->resend_us = ctx->now_us;
	if (passed_us > PULL_MAX / RESEND_BYTES * rto_us)
		passed_us = PULL_MAX / RESEND_BYTES * rto_us;
	if (outgoing->resend_left < PULL_MAX)
		outgoing->resend_left += passed_us * RESEND_BYTES / rto_us;
	return outgoing->resend_left < PULL_MAX ? outgoing->resend_left : PULL_MAX;
}

/*
 * A receiver that requests more than a window only delays others: the rest is for the next PULL.
 */
void ripc__resend(struct outgoing *outgoing, const struct wire_pull *pull)
{
	uint64_t left, sent = outgoing->sent;

	watch_for_black_hole(outgoing, pull);
	left = resend_left(outgoing);
	for (uint32_t i = 0; left && i < pull->n_holes && pull->holes[i].start < sent; i++) {
		struct wire_range hole = pull->holes[i];

		if (hole.end > sent)
			hole.end = sent;
		if (hole.end - hole.start > left)
			hole.end = hole.start + left;
		left -= hole.end - hole.start;
		outgoing->resend_left -= hole.end - hole.start;
		outgoing->holes[outgoing->n_holes++] = hole;
		RIPC__PROBE(retransmit, outgoing->service->id, outgoing->partner->id,
			outgoing->number, hole.end - hole.start);
	}
}
