/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address handles. As with EFA, all handles of a device for one GID have the same number, and a
 * completion names its sender by that number, if the receiver has such a handle.
 */
#include "softefa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LEN 4096 /* numbers, of all devices of the process */

static struct {
	const struct ibv_device *device;
	uint8_t gid[SOFTEFA_GID_LEN];
	uint32_t n_handles;
} table[TABLE_LEN];
static uint32_t n_table; /* entries from here on were never used */

static uint32_t find(const struct ibv_device *device, const uint8_t *gid)
{
	uint32_t i = 0;

	while (i < n_table && !(table[i].n_handles && table[i].device == device &&
				      memcmp(table[i].gid, gid, SOFTEFA_GID_LEN) == 0))
		i++;
	return i;
}

uint16_t softefa_ah_number(const struct ibv_context *context, const uint8_t *gid)
{
	uint32_t i = find(context->device, gid);

	return i < n_table ? (uint16_t)i : SOFTEFA_AH_UNKNOWN;
}

static uint32_t free_entry(void)
{
	uint32_t i = 0;

	while (i < n_table && table[i].n_handles)
		i++;
	if (i == n_table && n_table < TABLE_LEN)
		n_table++;
	return i < n_table ? i : TABLE_LEN;
}

static int number_take(const struct ibv_device *device, const uint8_t *gid, uint16_t *number)
{
	uint32_t i = find(device, gid);

	if (i == n_table) {
		i = free_entry();
		if (i == TABLE_LEN)
			return ENOMEM;
		table[i].device = device;
		memcpy(table[i].gid, gid, SOFTEFA_GID_LEN);
	}
	table[i].n_handles++;
	*number = (uint16_t)i;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct softefa_ah *ah;

	if (!attr->is_global || attr->port_num != 1) {
		errno = EINVAL;
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	memcpy(ah->gid, attr->grh.dgid.raw, SOFTEFA_GID_LEN);
	pthread_mutex_lock(&softefa_lock);
	errno = number_take(pd->context->device, ah->gid, &ah->number);
	pthread_mutex_unlock(&softefa_lock);
	if (!errno)
		return &ah->ibv;
	free(ah);
	return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
	struct softefa_ah *ah = (struct softefa_ah *)ibv;

	pthread_mutex_lock(&softefa_lock);
	table[ah->number].n_handles--;
	pthread_mutex_unlock(&softefa_lock);
	free(ah);
	return 0;
}

int efadv_query_ah(struct ibv_ah *ibv, struct efadv_ah_attr *attr, uint32_t inlen)
{
	struct softefa_ah *ah = (struct softefa_ah *)ibv;

	if (inlen < offsetof(struct efadv_ah_attr, ahn) + sizeof(attr->ahn))
		return EINVAL;
	memset(attr, 0, inlen);
	attr->ahn = ah->number;
	return 0;
}
