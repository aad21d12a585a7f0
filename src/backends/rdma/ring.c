/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers: one mapping, registered once. A buffer is posted, then with core (or kept, if
 * core does not get it), then idle, then posted again, in batches: one doorbell for many.
 *
 * The buffers outlive the ring as long as the application holds one (util/buffers.h). A child of
 * fork() does not get them, because the device would go on writing to pages that the parent no
 * longer sees.
 */
#include <errno.h>
#include <stdlib.h>

#include "rdma.h"
#include "util/rare.h"

#define BATCH_MAX 32u
#define COUNT_MIN 64u

static int map_buffers(struct ripc__rdma_ring *ring, struct ripc__rdma_device *device)
{
	int error = ripc__buffers_open(ring->count, ring->len, &ring->buffers);

	return error ? error : ripc__rdma_register_buffers(device, device->pd, ring->buffers,
		IBV_ACCESS_LOCAL_WRITE, &ring->mr);
}

int ripc__rdma_ring_open(struct ripc__rdma_ring *ring, struct ripc__rdma_device *device,
		uint32_t count, uint32_t len)
{
	int error;

	*ring = (struct ripc__rdma_ring){.count = count, .len = len,
		.mark = RIPC__RDMA_WR_RECV};
	do {
		error = map_buffers(ring, device);
		if (error != -ENOMEM || ring->count / 2 < COUNT_MIN)
			break;
		ring->count /= 2;
	} while (error);
	if (error)
		return error;
	ring->idle = calloc(2 * (size_t)ring->count, sizeof(uint32_t));
	if (!ring->idle) {
		ripc__rdma_ring_close(ring);
		return -ENOMEM;
	}
	ring->handed = ring->idle + ring->count;
	ring->batch = ring->count / 16 < BATCH_MAX ? ring->count / 16 : BATCH_MAX;
	for (uint32_t i = 0; i < ring->count; i++)
		ring->idle[ring->n_idle++] = i;
	return 0;
}

/*
 * Returns how many of n were posted: all, unless the device is short of something. If the
 * doorbell failed (in a forked child, when the device is gone) no request is bad: none counts.
 */
static uint32_t post(struct ripc__rdma_ring *ring, struct ibv_recv_wr *wr, uint32_t n)
{
	struct ibv_recv_wr *bad = wr;
	int error = ring->srq ? ibv_post_srq_recv(ring->srq, wr, &bad) :
		ibv_post_recv(ring->qp, wr, &bad);

	if (!error)
		return n;
	return bad >= wr && bad < wr + n ? (uint32_t)(bad - wr) : 0;
}

/* Posts up to a batch of the last idle buffers. False: not all of it. */
static bool post_batch(struct ripc__rdma_ring *ring)
{
	uint32_t n = ring->n_idle < ring->batch ? ring->n_idle : ring->batch, posted;
	struct ibv_recv_wr wr[BATCH_MAX];
	struct ibv_sge pieces[BATCH_MAX];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = ring->idle[ring->n_idle - 1 - i];
		struct ripc__buffer *buffer = ripc__buffers_at(ring->buffers, index);

		pieces[i] = (struct ibv_sge){.addr = (uintptr_t)buffer->data, .length = ring->len,
			.lkey = ring->mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = ring->mark | index,
			.sg_list = &pieces[i], .num_sge = 1,
			.next = i + 1 < n ? &wr[i + 1] : NULL};
	}
	posted = n ? post(ring, wr, n) : 0;
	ring->n_idle -= posted;
	return posted == n;
}

int ripc__rdma_ring_start(struct ripc__rdma_ring *ring, struct ibv_qp *qp, struct ibv_srq *srq)
{
	ring->qp = qp;
	ring->srq = srq;
	while (ring->n_idle) {
		if (!post_batch(ring))
			return -ENOMEM;
	}
	return 0;
}

void ripc__rdma_ring_close(struct ripc__rdma_ring *ring)
{
	ibv_dereg_mr(ring->mr);
	ripc__buffers_close(ring->buffers);
	free(ring->idle);
}

static struct ripc__buffer *buffer_of(const struct ripc__rdma_ring *ring, uint64_t wr_id)
{
	return ripc__buffers_at(ring->buffers, (uint32_t)wr_id);
}

const uint8_t *ripc__rdma_ring_bytes(const struct ripc__rdma_ring *ring, uint64_t wr_id)
{
	return buffer_of(ring, wr_id)->data;
}

struct ripc__buffer *ripc__rdma_ring_hand(struct ripc__rdma_ring *ring, uint64_t wr_id)
{
	struct ripc__buffer *buffer = buffer_of(ring, wr_id);

	ripc__buffer_hold(buffer, 1);
	ring->handed[ring->n_handed++] = (uint32_t)wr_id;
	return buffer;
}

void ripc__rdma_ring_keep(struct ripc__rdma_ring *ring, uint64_t wr_id)
{
	ring->idle[ring->n_idle++] = (uint32_t)wr_id;
}

/* Buffers that were released become idle. */
static RIPC__RARE void collect(struct ripc__rdma_ring *ring)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < ring->n_handed; i++) {
		uint32_t index = ring->handed[i];

		if (ripc__buffer_is_free(ripc__buffers_at(ring->buffers, index)))
			ring->idle[ring->n_idle++] = index;
		else
			ring->handed[kept++] = index;
	}
	ring->n_handed = kept;
}

void ripc__rdma_ring_refill(struct ripc__rdma_ring *ring)
{
	/* As long as there cannot be a batch, released buffers need not be looked for. */
	if (ring->n_idle + ring->n_handed < ring->batch)
		return;
	collect(ring);
	while (ring->n_idle >= ring->batch && post_batch(ring))
		; /* a failed batch is tried again next time */
}
