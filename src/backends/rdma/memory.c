/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that devices may reach: a protection domain per partner, memory that is registered in
 * it to be read into or written from, and the keys by which that partner may read our memory or
 * write to it. And the reads and writes.
 *
 * A key is one registration of exactly the range, for one transfer, and closing it deregisters:
 * then a device has stopped using it (iWARP in software has not: rdmacm/fence.c). The upper half
 * of a key is a check of the rest: a key that was garbled on its way costs its message a detour.
 * Without the check it would cost all partners the connection, because that is what a device
 * does about a key that it does not know.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "rdma.h"
#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"
#include "util/rare.h"
#include "util/system/cancel.h"

struct open_key {
	struct ripc__rdma_space *space;
	struct ibv_mr *mr;
};

/* ---- registering ------------------------------------------------------------------------- */

/* Logged once per device: the same failure will come again. */
static void explain_memlock(struct ripc__rdma_device *device, size_t len, int error)
{
	const struct ripc__host *host = &device->host;
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (device->told_memlock || limit.rlim_cur == RLIM_INFINITY)
		return;
	device->told_memlock = true;
	host->log(host->arg, RIPC_LOG_WARN, "registering %zu bytes failed (%s): RLIMIT_MEMLOCK is "
		"%" PRIu64 " bytes; raise it by \"ulimit -l unlimited\", LimitMEMLOCK=infinity in "
		"systemd, or memlock in /etc/security/limits.conf", len, strerror(-error),
		(uint64_t)limit.rlim_cur);
}

static int register_range(struct ripc__rdma_device *device, struct ibv_pd *pd,
		const struct iovec *mem, int access, struct ibv_mr **mr)
{
	struct ibv_mr *made;
	int error;

	errno = 0;
	made = ibv_reg_mr(pd, mem->iov_base, mem->iov_len, access);
	if (made) {
		*mr = made;
		return 0;
	}
	error = errno ? -errno : -ENOMEM;
	/* A limit of zero is EPERM with some drivers. */
	if (error == -ENOMEM || error == -EPERM)
		explain_memlock(device, mem->iov_len, error);
	return error == -EPERM ? -ENOMEM : error;
}

int ripc__rdma_register_buffers(struct ripc__rdma_device *device, struct ibv_pd *pd,
		struct ripc__buffers *buffers, int access, struct ibv_mr **mr)
{
	struct iovec range;
	int error;

	ripc__buffers_range(buffers, &range);
	/* Without this the kernel copies registered pages at a fork (Linux 5.12). */
	(void)madvise(range.iov_base, range.iov_len, MADV_DONTFORK);
	error = register_range(device, pd, &range, access, mr);
	if (error)
		ripc__buffers_close(buffers);
	return error;
}

/* A device that cannot deregister is failing: it is not used any more. -EIO then. */
static int deregister(struct ripc__rdma_device *device, struct ibv_mr *mr)
{
	int error = ibv_dereg_mr(mr);

	if (!error)
		return 0;
	device->is_lost = true;
	device->host.log(device->host.arg, RIPC_LOG_WARN,
		"deregistering memory failed: %s", strerror(error));
	return -EIO;
}

/* ---- spaces ------------------------------------------------------------------------------ */

int ripc__rdma_space_open(struct ripc__rdma_device *device, struct ripc__rdma_space **space)
{
	struct ripc__rdma_space *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	made->device = device;
	made->refs = 1;
	made->pd = ibv_alloc_pd(device->context);
	if (!made->pd) {
		free(made);
		return -ENOMEM;
	}
	*space = made;
	return 0;
}

void ripc__rdma_space_get(struct ripc__rdma_space *space)
{
	space->refs++;
}

void ripc__rdma_space_put(struct ripc__rdma_space *space)
{
	if (--space->refs > 0)
		return;
	ibv_dealloc_pd(space->pd);
	free(space);
}

/* ---- regions ----------------------------------------------------------------------------- */

int ripc__rdma_region_open(struct ripc__rdma_space *space, const struct iovec *mem, int access,
		void **region)
{
	struct ripc__rdma_region *made = malloc(sizeof(*made));
	int error = made ? 0 : -ENOMEM;

	if (!error)
		error = register_range(space->device, space->pd, mem, access, &made->mr);
	if (error) {
		free(made);
		return error;
	}
	made->space = space;
	list_append(&space->device->regions, &made->node);
	ripc__rdma_space_get(space);
	*region = made;
	return 0;
}

static void region_close(struct ripc__rdma_region *region)
{
	struct ripc__rdma_space *space = region->space;

	list_remove(&region->node);
	(void)deregister(space->device, region->mr);
	free(region);
	ripc__rdma_space_put(space);
}

void ripc__rdma_mem_dereg(void *port, void *region)
{
	RIPC__HOLD_CANCEL;

	(void)port;
	region_close(region);
}

/* ---- keys -------------------------------------------------------------------------------- */

static uint32_t check_of(uint64_t address, uint32_t rkey)
{
	uint8_t bytes[12];

	put64(bytes, address);
	put32(bytes + 8, rkey);
	return ripc__crc32c(0, bytes, sizeof(bytes));
}

static int key_free(struct open_key *open)
{
	struct ripc__rdma_space *space = open->space;
	int error = deregister(space->device, open->mr);

	space->n_keys--;
	free(open);
	ripc__rdma_space_put(space);
	return error;
}

void ripc__rdma_memory_close(struct ripc__rdma_device *device)
{
	struct open_key *open;
	uint32_t at = 0;

	while (!list_empty(&device->regions))
		region_close(list_entry(device->regions.next, struct ripc__rdma_region, node));
	while ((open = ripc__map_next(&device->keys, &at)))
		(void)key_free(open);
	ripc__map_free(&device->keys);
}

int ripc__rdma_key_open(struct ripc__rdma_space *space, const struct iovec *mem, bool writable,
		struct ripc__key *key)
{
	int access = writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE :
		IBV_ACCESS_REMOTE_READ;
	struct open_key *open = malloc(sizeof(*open));
	uint64_t address = (uintptr_t)mem->iov_base;
	int error;

	if (!open)
		return -ENOMEM;
	error = register_range(space->device, space->pd, mem, access, &open->mr);
	if (error)
		goto err_free;
	error = ripc__map_put(&space->device->keys, open->mr->rkey, open);
	if (error)
		goto err_deregister;
	open->space = space;
	space->n_keys++;
	ripc__rdma_space_get(space);
	*key = (struct ripc__key){.address = address, .key = open->mr->rkey |
		(uint64_t)check_of(address, open->mr->rkey) << 32};
	return 0;
err_deregister:
	(void)deregister(space->device, open->mr);
err_free:
	free(open);
	return error;
}

int ripc__rdma_key_close(struct ripc__rdma_device *device, const struct ripc__key *key)
{
	struct open_key *open = ripc__map_get(&device->keys, (uint32_t)key->key);

	if (!open || (uintptr_t)open->mr->addr != key->address)
		return -EINVAL;
	ripc__map_remove(&device->keys, (uint32_t)key->key);
	return key_free(open);
}

const struct ripc__rdma_space *ripc__rdma_key_space(const struct ripc__rdma_device *device,
		const struct ripc__key *key)
{
	const struct open_key *open = ripc__map_get(&device->keys, (uint32_t)key->key);

	return open ? open->space : NULL;
}

/*
 * Decodes a partner's key and an offset for the device. -EINVAL: the key is garbled, or the
 * offset is beyond all memory: trying it on the device would cost the connection.
 */
static int rdma_key_parse(const struct ripc__key *key, uint64_t offset, uint64_t *address,
		uint32_t *rkey)
{
	if (key->key >> 32 != check_of(key->address, (uint32_t)key->key) ||
			key->address + offset < key->address)
		return -EINVAL;
	*address = key->address + offset;
	*rkey = (uint32_t)key->key;
	return 0;
}

/* ---- reads ------------------------------------------------------------------------------- */

/*
 * Reads in progress, and writes, of which all of this is true, too. Owns their slots. A read
 * waits until its flow has a queue pair with room, is posted, and ends: by its completion, by
 * being refused while it waits, or by the end of its queue pair. A read that waits when a queue
 * pair fails uses the next one. After its end a read touches its memory no more, and its event
 * is returned once. A write completes when the other end has acknowledged it: then the bytes are
 * in the other end's memory. On iWARP a write completes when the network has it: then the bytes
 * arrive before whatever follows on that queue pair.
 *
 * All reads are signalled and there are at most RIPC__RDMA_READS of them, hence a completion
 * queue with room for that many more entries is never overrun by them.
 */

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
			/* Reads in progress will make room. */
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
		error = rdma_key_parse(&move->key, move->offset, &read->address,
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
