/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration: which key opens which memory, for whom. Half of a key names an entry of the
 * table, the other half changes with each registration, so that the key of closed memory opens
 * nothing for a long time.
 */
#include "softefa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define TABLE_LEN 65536

struct region {
	struct ibv_mr ibv;
	uint64_t iova; /* the address by which work requests name the first byte */
	int access;
};

static struct region *table[TABLE_LEN];
static uint32_t n_table, first_free; /* no entry before first_free is free */
static uint16_t round_of_keys = 1;

static int table_add(struct region *region)
{
	uint32_t i = first_free;

	while (i < n_table && table[i])
		i++;
	if (i == TABLE_LEN)
		return ENOMEM;
	if (i == n_table)
		n_table++;
	first_free = i + 1;
	table[i] = region;
	if (++round_of_keys == 0)
		round_of_keys = 1;
	region->ibv.lkey = region->ibv.rkey = (uint32_t)round_of_keys << 16 | i;
	return 0;
}

static struct region *find(uint32_t key)
{
	struct region *region = table[key & 0xffff];

	return region && region->ibv.lkey == key ? region : NULL;
}

bool softefa_memory_allows(const struct ibv_context *context, const struct ibv_pd *pd,
	uint32_t key, uint64_t address, uint64_t len, int access)
{
	const struct region *region = find(key);

	if (!region || region->ibv.context != context || (pd && region->ibv.pd != pd))
		return false;
	if ((region->access & access) != access || address < region->iova)
		return false;
	/* EFA's regions begin at their own address: iova never differs from it here. */
	return address - region->iova <= region->ibv.length &&
		len <= region->ibv.length - (address - region->iova);
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *address, size_t len, uint64_t iova, int access)
{
	const int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_OPTIONAL_RANGE;
	struct region *region;

	if (!len || (access & ~known) || (uintptr_t)address + len < (uintptr_t)address ||
		iova != (uintptr_t)address) {
		errno = EINVAL;
		return NULL;
	}
	if (access & IBV_ACCESS_REMOTE_READ && !softefa_settings()->has_rdma_read) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	region = calloc(1, sizeof(*region));
	if (!region)
		return NULL;
	region->ibv.context = pd->context;
	region->ibv.pd = pd;
	region->ibv.addr = address;
	region->ibv.length = len;
	region->iova = iova;
	region->access = access;
	pthread_mutex_lock(&softefa_lock);
	errno = table_add(region);
	pthread_mutex_unlock(&softefa_lock);
	if (!errno)
		return &region->ibv;
	free(region);
	return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t len, int access)
{
	return reg(pd, address, len, (uintptr_t)address, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t len, uint64_t iova,
	int access)
{
	return reg(pd, address, len, iova, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t len, uint64_t iova,
	unsigned int access)
{
	return reg(pd, address, len, iova, (int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova,
	int fd, int access)
{
	(void)pd, (void)offset, (void)len, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	uint32_t i = mr->lkey & 0xffff;

	pthread_mutex_lock(&softefa_lock);
	table[i] = NULL;
	if (i < first_free)
		first_free = i;
	pthread_mutex_unlock(&softefa_lock);
	free(mr);
	return 0;
}
