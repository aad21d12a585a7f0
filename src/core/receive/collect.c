/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of an incoming long message: present ones, missing ones, and the checksum, put
 * together from those of the packets.
 *
 * Design notes. A range of bytes is written once: a packet is copied (and its checksum taken in
 * the same pass) only into a range that has not been received, and counts as received only if
 * the checksum is right. [0, have) is here; pieces are ranges that arrived beyond it, sorted,
 * disjoint, not adjacent to each other or to have.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "core/message/message.h"
#include "core/message/places.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/wire/wire.h"
#include "incoming.h"
#include "internal.h"
#include "util/hash/crc32c.h"

#define AHEAD      65536u /* bytes that get pages at once: a step of the pool's */

/* Copies bytes to their places; returns their checksum. */
static uint32_t store(struct incoming *incoming, uint64_t offset, const uint8_t *bytes,
		uint64_t len)
{
	const struct iovec *items = incoming->message->public.items;
	uint32_t crc = 0;

	if (offset < incoming->cursor_start) {
		incoming->cursor_item = 0;
		incoming->cursor_start = 0;
	}
	while (len > 0) {
		const struct iovec *item = &items[incoming->cursor_item];
		uint64_t skip = offset - incoming->cursor_start;
		uint64_t n = item->iov_len > skip ? item->iov_len - skip : 0;

		if (n == 0) {
			incoming->cursor_start += item->iov_len;
			incoming->cursor_item++;
			continue;
		}
		n = n < len ? n : len;
		crc = ripc__crc32c_copy(crc, (char *)item->iov_base + skip, bytes, n);
		bytes += n;
		offset += n;
		len -= n;
	}
	return crc;
}

/* The index of the first piece that ends after offset. */
static uint32_t piece_after(const struct incoming *incoming, uint64_t offset)
{
	uint32_t low = 0, high = incoming->n_pieces;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (incoming->pieces[middle].end > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static bool pieces_room(struct incoming *incoming)
{
	uint32_t n = incoming->max_pieces ? incoming->max_pieces * 2 : 16;
	struct piece *pieces;

	if (incoming->n_pieces < incoming->max_pieces)
		return true;
	if (n > PIECES_MAX)
		return false;
	pieces = realloc(incoming->pieces, n * sizeof(*pieces));
	if (!pieces)
		return false;
	incoming->pieces = pieces;
	incoming->max_pieces = n;
	return true;
}

/* Is there room for the range? Bytes that continue the beginning need no piece. */
static bool has_room(struct incoming *incoming, struct wire_range range)
{
	return range.start == incoming->have || pieces_room(incoming);
}

static void piece_remove(struct incoming *incoming, uint32_t at)
{
	incoming->n_pieces--;
	memmove(incoming->pieces + at, incoming->pieces + at + 1,
		(incoming->n_pieces - at) * sizeof(struct piece));
}

/* Appends a range that begins where a piece ends; joins it with the next if they meet. */
static void piece_extend(struct incoming *incoming, uint32_t at, struct wire_range range,
		uint32_t crc)
{
	struct piece *piece = &incoming->pieces[at];

	piece->crc = ripc__crc32c_shift(piece->crc, range.end - range.start) ^ crc;
	piece->end = range.end;
	if (at + 1 < incoming->n_pieces && piece[1].start == piece->end) {
		piece->crc = ripc__crc32c_shift(piece->crc, piece[1].end - piece[1].start) ^
			piece[1].crc;
		piece->end = piece[1].end;
		piece_remove(incoming, at + 1);
	}
}

static void piece_insert(struct incoming *incoming, struct wire_range range, uint32_t crc)
{
	uint32_t at = piece_after(incoming, range.start);
	struct piece *next = &incoming->pieces[at];

	if (at > 0 && next[-1].end == range.start) {
		piece_extend(incoming, at - 1, range, crc);
		return;
	}
	if (at < incoming->n_pieces && next->start == range.end) {
		next->crc = ripc__crc32c_shift(crc, next->end - next->start) ^ next->crc;
		next->start = range.start;
		return;
	}
	memmove(next + 1, next, (incoming->n_pieces - at) * sizeof(*next));
	*next = (struct piece){.start = range.start, .end = range.end, .crc = crc,
		.seen_us = context_of(incoming)->now_us, .seen_at = incoming->arrivals};
	if (at < incoming->n_pieces) { /* the range is in a gap that may have been asked for */
		next->asked_us = next[1].asked_us;
		next->asked_limit = next[1].asked_limit;
	}
	incoming->n_pieces++;
	incoming->fresh++;
}

/* [start, end) is in its place and right. */
static void mark(struct incoming *incoming, struct wire_range range, uint32_t crc)
{
	uint64_t len = range.end - range.start;

	incoming->got += len;
	if (range.end > incoming->high)
		incoming->high = range.end;
	if (range.start > incoming->have) {
		piece_insert(incoming, range, crc);
		return;
	}
	incoming->crc = ripc__crc32c_shift(incoming->crc, len) ^ crc;
	incoming->have = range.end;
	while (incoming->n_pieces && incoming->pieces[0].start == incoming->have) {
		struct piece *piece = &incoming->pieces[0];

		incoming->crc = ripc__crc32c_shift(incoming->crc, piece->end - piece->start) ^
			piece->crc;
		incoming->have = piece->end;
		piece_remove(incoming, 0);
	}
}

/* Part of the range is here already: take only what is missing. The packet is verified. */
static void take_parts(struct incoming *incoming, struct wire_range range, const uint8_t *bytes)
{
	while (range.start < range.end) {
		uint64_t base = range.start;
		struct wire_range part = range;
		uint32_t at = piece_after(incoming, range.start);
		uint32_t crc;

		if (part.start < incoming->have)
			part.start = incoming->have;
		else if (at < incoming->n_pieces && incoming->pieces[at].start <= part.start)
			part.start = incoming->pieces[at++].end;
		if (part.start >= part.end)
			return;
		at = piece_after(incoming, part.start);
		if (at < incoming->n_pieces && incoming->pieces[at].start < part.end)
			part.end = incoming->pieces[at].start;
		if (part.end > part.start && has_room(incoming, part)) {
			crc = store(incoming, part.start, bytes + (part.start - base),
				part.end - part.start);
			mark(incoming, part, crc);
		}
		if (part.end <= range.start)
			return;
		bytes += part.end - range.start;
		range.start = part.end;
	}
}

static bool is_missing(const struct incoming *incoming, struct wire_range range)
{
	uint32_t at = piece_after(incoming, range.start);

	if (range.start < incoming->have)
		return false;
	return at == incoming->n_pieces || incoming->pieces[at].start >= range.end;
}

/* Makes pages ready for arriving bytes, a step ahead where bytes arrive in order. -ENOMEM. */
static int make_ready(struct incoming *incoming, struct wire_range range)
{
	uint64_t end = (range.end + AHEAD - 1) / AHEAD * AHEAD;
	int error;

	if (range.end <= incoming->ready)
		return 0;
	end = end < incoming->total ? end : incoming->total;
	error = ripc__places_fault(incoming->message, range.start, end);
	if (!error && range.start <= incoming->ready)
		incoming->ready = end;
	return error;
}

int64_t ripc__collect(struct incoming *incoming, const struct wire_packet *packet, uint64_t offset)
{
	struct wire_range range = {offset, offset + packet->payload_len};
	uint64_t got = incoming->got;
	uint32_t crc;

	if (make_ready(incoming, range))
		return -ENOMEM;

	if (is_missing(incoming, range) && has_room(incoming, range)) {
		crc = store(incoming, offset, packet->payload, packet->payload_len);
		if (!wire_verify(packet, crc))
			return -EBADMSG;
		if (packet->payload_len)
			mark(incoming, range, crc);
	} else {
		if (!wire_verify(packet, ripc__crc32c(0, packet->payload, packet->payload_len)))
			return -EBADMSG;
		take_parts(incoming, range, packet->payload);
	}
	if (packet->h.flags & WIRE_F_LAST && packet->h.type == WIRE_DATA) {
		incoming->sum = packet->sum;
		incoming->sum_known = true;
	} else if (packet->h.flags & WIRE_F_LAST && packet->payload_len == incoming->total) {
		incoming->sum = packet->announce.sum; /* otherwise it is of moved bytes */
		incoming->sum_known = true;
	}
	return (int64_t)(incoming->got - got);
}

/* Fills holes with the ranges that are missing before end; returns their number. */
static uint32_t collect_holes(const struct incoming *incoming, uint64_t end,
		struct wire_range holes[WIRE_HOLES_MAX])
{
	uint64_t at = incoming->have;
	uint32_t n = 0;

	for (uint32_t i = 0; i < incoming->n_pieces && n < WIRE_HOLES_MAX; i++) {
		if (incoming->pieces[i].start > end)
			break;
		holes[n++] = (struct wire_range){at, incoming->pieces[i].start};
		at = incoming->pieces[i].end;
	}
	if (at < end && n < WIRE_HOLES_MAX)
		holes[n++] = (struct wire_range){at, end};
	return n;
}

/* ---- holes ------------------------------------------------------------------------------- */

/*
 * The gaps of an incoming long message, and which of them are asked for now (protocol.md, long
 * messages).
 *
 * Design notes. Each gap is asked for by itself: first when the gap is more than reordering, and
 * again when the answer is overdue, or must have arrived because bytes that were sent later
 * have. A path that loses much at once is therefore asked for the next gaps while the answer to
 * the last request is on its way. Gaps are gathered for a quarter of a round trip, unless they
 * fill half a request.
 */

#define REORDER_DATAGRAMS 3u

static const struct peer *peer_of(const struct incoming *incoming)
{
	return incoming->partner->peer;
}

/*
 * Is the gap before this piece more than reordering? Three later datagrams show that, or a
 * quarter of a round trip. On a path that has proved to reorder, only time does, and more of it.
 */
static bool is_ripe(const struct incoming *incoming, const struct piece *piece)
{
	const struct peer *peer = peer_of(incoming);
	uint64_t age_us = context_of(incoming)->now_us - piece->seen_us;

	if (peer->reorder == 0 && incoming->arrivals - piece->seen_at >= REORDER_DATAGRAMS)
		return true;
	return age_us > (uint64_t)peer->srtt_us << peer->reorder >> 2;
}

/* The gap was asked for, and the answer may still come. */
static bool is_under_way(const struct incoming *incoming, const struct piece *piece)
{
	const struct peer *peer = peer_of(incoming);
	uint64_t beyond = piece->asked_limit + REORDER_DATAGRAMS * incoming->datagram_bytes;

	if (!piece->asked_us || (!peer->reorder && incoming->high >= beyond))
		return false;
	return context_of(incoming)->now_us - piece->asked_us <
		ripc__peer_patience(context_of(incoming), peer);
}

bool ripc__holes_may_be_due(const struct incoming *incoming)
{
	return incoming->n_pieces && (!incoming->asked_us ||
		incoming->fresh >= WIRE_HOLES_MAX / 2 ||
		context_of(incoming)->now_us - incoming->asked_us > peer_of(incoming)->srtt_us / 4);
}

static void asked(struct incoming *incoming, struct piece *piece)
{
	piece->asked_us = context_of(incoming)->now_us;
	piece->asked_limit = incoming->limit;
}

static void asked_some(struct incoming *incoming)
{
	incoming->asked_us = incoming->resent_us = context_of(incoming)->now_us;
	incoming->fresh = 0;
}

uint64_t ripc__holes_due(struct incoming *incoming, struct wire_pull *pull)
{
	uint64_t at = incoming->have, bytes = 0;

	for (uint32_t i = 0; i < incoming->n_pieces && pull->n_holes < WIRE_HOLES_MAX; i++) {
		struct piece *piece = &incoming->pieces[i];

		if (is_ripe(incoming, piece) && !is_under_way(incoming, piece)) {
			pull->holes[pull->n_holes++] = (struct wire_range){at, piece->start};
			bytes += piece->start - at;
			asked(incoming, piece);
		}
		at = piece->end;
	}
	if (bytes)
		asked_some(incoming);
	return bytes;
}

void ripc__holes_all(struct incoming *incoming, uint64_t end, struct wire_pull *pull)
{
	pull->n_holes = collect_holes(incoming, end, pull->holes);
	for (uint32_t i = 0; i < incoming->n_pieces && i < pull->n_holes; i++)
		asked(incoming, &incoming->pieces[i]);
	asked_some(incoming);
}
