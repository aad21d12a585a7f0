/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads in progress, and writes, of which all of this is true, too. Owns their slots. A read waits
 * until its flow has a queue pair with room, is posted, and ends: by its completion, by being
 * refused while it waits, or by the end of its queue pair. What waits when a queue pair fails goes
 * by the next one. After that nothing is done to its memory, and its event is handed over once. A
 * write completes when the other end has acknowledged it: then it is in its memory. On iWARP it
 * completes when the network has it: then it is there before whatever follows on that queue pair.
 *
 * All reads are signalled and there are at most RIPC__RDMA_READS of them, so a completion queue
 * with room for that many more entries is never overrun by them.
 */
#include <errno.h>
#include <string.h>

#include "rdma.h"
#include "util/rare.h"

void ripc__rdma_reads_init(struct ripc__rdma_reads *reads)
{
	memset(reads, 0, sizeof(*reads));
	list_init(&reads->free);
	list_init(&reads->ended);
	for (uint32_t i = 0; i < RIPC__RDMA_READS; i++)
		list_append(&reads->free, &reads->slots[i].node);
}

void ripc__rdma_flow_init(struct ripc__rdma_flow *flow, struct ripc__rdma_reads *reads)
{
	*flow = (struct ripc__rdma_flow){.reads = reads};
	list_init(&flow->waiting);
}

static void end(struct ripc__rdma_read *read, int status)
{
	struct ripc__rdma_reads *reads = read->flow->reads;

	read->status = status;
	read->flow = NULL;
	read->posted = false;
	read->number++;
	list_remove(&read->node);
	list_append(&reads->ended, &read->node);
}

/* ---- posting ----------------------------------------------------------------------------- */

static int post(struct ripc__rdma_flow *flow, struct ripc__rdma_read *read)
{
	struct ibv_sge piece = {.addr = (uintptr_t)read->mem, .length = read->len,
		.lkey = read->lkey};
	struct ibv_send_wr wr = {
		.wr_id = RIPC__RDMA_WR_READ | (uint64_t)read->number << 16 |
			(uint64_t)(read - flow->reads->slots),
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = read->writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = read->address, .rkey = read->rkey},
	};
	struct ibv_send_wr *bad;

	return -ripc__rdma_post(flow->qp, flow->reads->guarded, &wr, &bad);
}

static void post_waiting(struct ripc__rdma_flow *flow)
{
	while (flow->qp && !flow->failed && flow->n_posted < flow->most_posted &&
			!list_empty(&flow->waiting)) {
		struct ripc__rdma_read *read = list_entry(list_pop(&flow->waiting),
			struct ripc__rdma_read, node);
		int error = post(flow, read);

		read->posted = error == 0;
		if (error == 0) {
			flow->n_posted++;
		} else if (error == -ENOMEM && flow->n_posted) {
			/* Those in progress make room. */
			list_prepend(&flow->waiting, &read->node);
			return;
		} else {
			flow->failed = true;
			end(read, error);
		}
	}
}

void ripc__rdma_flow_start(struct ripc__rdma_flow *flow, struct ibv_qp *qp, uint32_t most_posted)
{
	flow->qp = qp;
	flow->most_posted = most_posted;
	post_waiting(flow);
}

void ripc__rdma_flow_fail(struct ripc__rdma_flow *flow)
{
	flow->failed = true;
}

void ripc__rdma_flow_refuse(struct ripc__rdma_flow *flow, int status)
{
	while (!list_empty(&flow->waiting))
		end(list_entry(flow->waiting.next, struct ripc__rdma_read, node), status);
}

void ripc__rdma_flow_stop(struct ripc__rdma_flow *flow, int status)
{
	flow->qp = NULL;
	flow->failed = false;
	for (uint32_t i = 0; i < RIPC__RDMA_READS && flow->n_posted; i++) {
		struct ripc__rdma_read *read = &flow->reads->slots[i];

		if (read->flow != flow || !read->posted)
			continue;
		end(read, status);
		flow->n_posted--;
	}
}

/* ---- the beginning and the end of one ----------------------------------------------------- */

int ripc__rdma_move(struct ripc__rdma_flow *flow, const struct ripc__move *move)
{
	struct ripc__rdma_reads *reads = flow->reads;
	const struct ripc__rdma_region *region = move->region;
	struct ripc__rdma_read *read;
	int error = 0;

	if (list_empty(&reads->free))
		return -EAGAIN;
	if (move->len && !region)
		return -EINVAL;
	read = list_entry(list_pop(&reads->free), struct ripc__rdma_read, node);
	if (move->len)
		error = ripc__rdma_key_parse(&move->key, move->offset, &read->address,
			&read->rkey);
	read->flow = flow;
	read->cookie = move->cookie;
	read->mem = move->mem;
	read->len = (uint32_t)move->len;
	read->writes = move->writes;
	read->lkey = region ? region->mr->lkey : 0;
	list_append(&flow->waiting, &read->node);
	if (error || !move->len)
		end(read, error);
	else
		post_waiting(flow);
	return 0;
}

/* Flushed: something else broke the connection. */
static int status_of(const struct ibv_wc *wc)
{
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return -EACCES;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNRESET;
	default:
		return -EIO;
	}
}

struct ripc__rdma_flow *ripc__rdma_read_completed(struct ripc__rdma_reads *reads,
		const struct ibv_wc *wc)
{
	uint32_t index = wc->wr_id & 0xffff, number = (uint32_t)(wc->wr_id >> 16);
	struct ripc__rdma_read *read = &reads->slots[index % RIPC__RDMA_READS];
	struct ripc__rdma_flow *flow = read->flow;
	int status = status_of(wc);

	if (index >= RIPC__RDMA_READS || read->number != number || !flow)
		return NULL;
	flow->n_posted--;
	end(read, status);
	if (status)
		flow->failed = true;
	post_waiting(flow);
	return flow;
}

RIPC__RARE uint32_t ripc__rdma_reads_events(struct ripc__rdma_reads *reads,
		struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0;

	while (filled < n && !list_empty(&reads->ended)) {
		struct ripc__rdma_read *read = list_entry(list_pop(&reads->ended),
			struct ripc__rdma_read, node);

		events[filled++] = (struct ripc__event){
			.kind = read->writes ? RIPC_EV_WRITE : RIPC_EV_READ,
			.cookie = read->cookie, .status = read->status};
		list_append(&reads->free, &read->node);
	}
	return filled;
}
