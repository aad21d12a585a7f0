/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that devices may reach: a protection domain per partner, what was registered in it to be
 * read into or written from, and the keys by which that partner may read of ours or write to it.
 *
 * A key is one registration of exactly the range, for one transfer, and closing it deregisters:
 * then a device has stopped using it (iWARP in software has not: rdmacm/fence.c). The upper half
 * of a key is a check of the rest: one that was garbled on its way costs its message a detour, not
 * everybody the connection, which is what a device does about a key that it does not know.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "rdma.h"
#include "ripc/ripc.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

struct open_key {
	struct ripc__rdma_space *space;
	struct ibv_mr *mr;
};

/* ---- registering ------------------------------------------------------------------------- */

/* Told once per device: the same failure will come again. */
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

int ripc__rdma_register(struct ripc__rdma_device *device, struct ibv_pd *pd,
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

/* A device that cannot is failing: it is not used any more. -EIO then. */
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
		struct ripc__rdma_region **region)
{
	struct ripc__rdma_region *made = malloc(sizeof(*made));
	int error = made ? 0 : -ENOMEM;

	if (!error)
		error = ripc__rdma_register(space->device, space->pd, mem, access, &made->mr);
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

void ripc__rdma_region_close(struct ripc__rdma_region *region)
{
	struct ripc__rdma_space *space = region->space;

	list_remove(&region->node);
	(void)deregister(space->device, region->mr);
	free(region);
	ripc__rdma_space_put(space);
}

void ripc__rdma_regions_close(struct ripc__rdma_device *device)
{
	while (!list_empty(&device->regions))
		ripc__rdma_region_close(list_entry(device->regions.next,
			struct ripc__rdma_region, node));
}

/* ---- keys -------------------------------------------------------------------------------- */

static uint32_t check_of(uint64_t address, uint32_t rkey)
{
	uint8_t bytes[12];

	put64(bytes, address);
	put32(bytes + 8, rkey);
	return ripc__crc32c(0, bytes, sizeof(bytes));
}

void ripc__rdma_keys_init(struct ripc__rdma_keys *keys, uint64_t seed)
{
	ripc__map_init(&keys->map, seed);
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

void ripc__rdma_keys_close(struct ripc__rdma_keys *keys)
{
	struct open_key *open;
	uint32_t at = 0;

	while ((open = ripc__map_next(&keys->map, &at)))
		(void)key_free(open);
	ripc__map_free(&keys->map);
}

int ripc__rdma_key_open(struct ripc__rdma_keys *keys, struct ripc__rdma_space *space,
		const struct iovec *mem, bool writable, struct ripc__key *key)
{
	int access = writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE :
		IBV_ACCESS_REMOTE_READ;
	struct open_key *open = malloc(sizeof(*open));
	uint64_t address = (uintptr_t)mem->iov_base;
	int error;

	if (!open)
		return -ENOMEM;
	error = ripc__rdma_register(space->device, space->pd, mem, access, &open->mr);
	if (error)
		goto err_free;
	error = ripc__map_put(&keys->map, open->mr->rkey, open);
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

int ripc__rdma_key_close(struct ripc__rdma_keys *keys, const struct ripc__key *key)
{
	struct open_key *open = ripc__map_get(&keys->map, (uint32_t)key->key);

	if (!open || (uintptr_t)open->mr->addr != key->address)
		return -EINVAL;
	ripc__map_remove(&keys->map, (uint32_t)key->key);
	return key_free(open);
}

const struct ripc__rdma_space *ripc__rdma_key_space(const struct ripc__rdma_keys *keys,
		const struct ripc__key *key)
{
	const struct open_key *open = ripc__map_get(&keys->map, (uint32_t)key->key);

	return open ? open->space : NULL;
}

int ripc__rdma_key_parse(const struct ripc__key *key, uint64_t offset, uint64_t *address,
		uint32_t *rkey)
{
	if (key->key >> 32 != check_of(key->address, (uint32_t)key->key) ||
			key->address + offset < key->address)
		return -EINVAL;
	*address = key->address + offset;
	*rkey = (uint32_t)key->key;
	return 0;
}
