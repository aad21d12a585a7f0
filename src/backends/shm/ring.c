/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Putting datagrams into a ring and taking them out.
 *
 * Design notes. A slot's word has the number of the datagram: a leftover from the lap before is
 * never taken for a new one, and the receiver writes nothing into slots. The receiver reports
 * how many it has taken once per half ring, and after each long datagram (the area is small);
 * the sender reads that only when the ring seems to be full. While both are quick, only the
 * lines of the datagram therefore move between two processors.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "util/rare.h"

_Static_assert(sizeof(struct shm_slot) == SHM_SLOT_LEN, "no holes between slots");
_Static_assert(SHM_AREA >= 2 * RIPC_DATAGRAM_MAX, "the longest must fit wherever the tail is");

/* Reads how many datagrams have been taken. False: nonsense. */
static RIPC__RARE bool refresh(struct shm_ring_out *ring)
{
	uint32_t head = atomic_load_explicit(&ring->memory->head, memory_order_acquire);

	if (ring->tail - head > ring->tail - ring->head_seen)
		return false;
	ripc__shm_point("ring_refreshed");
	if (head != ring->head_seen)
		ring->area_head = ring->area_end[(head - 1) % SHM_SLOTS];
	ring->head_seen = head;
	return true;
}

static bool has_slot(const struct shm_ring_out *ring)
{
	return ring->tail - ring->head_seen != SHM_SLOTS;
}

/* Finds len free bytes in the area, without a break; false: none now. */
static bool find_room(const struct shm_ring_out *ring, uint32_t len, uint64_t *start)
{
	uint64_t at = ring->area_tail;

	if (at % SHM_AREA + len > SHM_AREA)
		at += SHM_AREA - at % SHM_AREA;
	*start = at;
	return at + len - ring->area_head <= SHM_AREA;
}

/* Copies from the end on: the first line, which the receiver polls, is not kept for long. */
static void gather(uint8_t *to, const struct ripc__tx *tx)
{
	const struct iovec *iov = tx->iov + tx->n_iov;

	to += tx->len;
	while (iov-- > tx->iov) {
		to -= iov->iov_len;
		if (iov->iov_len)
			memcpy(to, iov->iov_base, iov->iov_len);
	}
}

/* Puts the datagram into the area, and its place into the slot. */
static RIPC__RARE bool put_long(struct shm_ring_out *ring, struct shm_slot *slot,
		const struct ripc__tx *tx)
{
	uint64_t start, offset;

	if (!find_room(ring, tx->len, &start) &&
			(!refresh(ring) || !find_room(ring, tx->len, &start)))
		return false;
	offset = start % SHM_AREA;
	gather(ring->memory->area + offset, tx);
	memcpy(slot->bytes, &offset, sizeof(offset));
	ripc__shm_point("area_filled");
	ring->area_tail = (start + tx->len + 63) & ~63ull;
	return true;
}

bool ripc__shm_ring_put(struct shm_ring_out *ring, const struct ripc__tx *tx)
{
	struct shm_slot *slot = &ring->memory->slots[ring->tail % SHM_SLOTS];

	if (!has_slot(ring) && (!refresh(ring) || !has_slot(ring)))
		return false;
	if (tx->len <= SHM_INLINE) {
		gather(slot->bytes, tx);
		ripc__shm_point("slot_filled");
	} else if (!put_long(ring, slot, tx)) {
		return false;
	}
	ring->area_end[ring->tail % SHM_SLOTS] = ring->area_tail;
	ring->tail++;
	atomic_store_explicit(&slot->word, (uint64_t)ring->tail << 32 | tx->len,
		memory_order_release);
	ripc__shm_point("ring_published");
	return true;
}

static void took(struct shm_ring_in *ring, uint32_t len)
{
	ring->head++;
	if (len <= SHM_INLINE && ring->head - ring->head_told < SHM_SLOTS / 2)
		return;
	ring->head_told = ring->head;
	atomic_store_explicit(&ring->memory->head, ring->head, memory_order_release);
	ripc__shm_point("ring_told");
}

/* Copies from the area. False: the place is impossible. */
static RIPC__RARE bool copy_long(const struct shm_ring_in *ring, const struct shm_slot *slot,
		uint8_t *bytes, uint32_t len)
{
	uint64_t offset = *(const volatile uint64_t *)slot->bytes;

	if (offset > SHM_AREA - len)
		return false;
	memcpy(bytes, ring->memory->area + offset, len);
	ripc__shm_point("area_copied");
	return true;
}

int ripc__shm_ring_take(struct shm_ring_in *ring, uint8_t *bytes)
{
	uint32_t head = ring->head;
	struct shm_slot *slot = &ring->memory->slots[head % SHM_SLOTS];
	uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
	uint32_t len = (uint32_t)word;

	if (word >> 32 != head + 1)
		return 0;
	if (len == 0 || len > RIPC_DATAGRAM_MAX)
		return -EBADMSG;
	ripc__shm_point("ring_found");
	if (len <= SHM_INLINE) {
		memcpy(bytes, slot->bytes, len);
		ripc__shm_point("slot_copied");
	} else if (!copy_long(ring, slot, bytes, len)) {
		return -EBADMSG;
	}
	took(ring, len);
	return (int)len;
}
