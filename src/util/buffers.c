/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive buffers that outlive their owner: one mapping that holds the list and the bytes.
 * While the set is open each buffer has one reference of the owner's, so a user's put is one
 * atomic operation and never the last one; close takes those references back.
 */
#include "buffers.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Buffers do not begin at equal places of their pages, or all would share few cache sets. */
#define STAGGER 192

struct ripc__buffers {
	size_t mapped;         /* bytes, with this header */
	size_t head;           /* bytes before the first buffer's */
	_Atomic uint32_t live; /* buffers that are not released for good */
	uint32_t count;
	struct ripc__buffer list[];
};

static size_t round_up(size_t len, size_t unit)
{
	return (len + unit - 1) / unit * unit;
}

int ripc__buffers_open(uint32_t count, size_t len, struct ripc__buffers **set)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t head = round_up(sizeof(**set) + count * sizeof((*set)->list[0]), page);
	size_t stride = round_up(len, 64) + STAGGER;
	size_t mapped = round_up(head + count * stride, page);
	struct ripc__buffers *made;

	made = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return -errno;
	made->mapped = mapped;
	made->head = head;
	made->count = count;
	atomic_init(&made->live, count);
	for (uint32_t i = 0; i < count; i++) {
		atomic_init(&made->list[i].refs, 1);
		made->list[i].set = made;
		made->list[i].data = (uint8_t *)made + head + i * stride;
	}
	memset(made->list[0].data, 0, len);
	*set = made;
	return 0;
}

void ripc__buffers_close(struct ripc__buffers *set)
{
	/* The last put unmaps the set, which may be the one of this loop's last turn. */
	uint32_t count = set->count;

	for (uint32_t i = 0; i < count; i++)
		ripc__buffer_put(&set->list[i], 1);
}

struct ripc__buffer *ripc__buffers_at(struct ripc__buffers *set, uint32_t index)
{
	return &set->list[index];
}

bool ripc__buffer_is_free(const struct ripc__buffer *buffer)
{
	/* Acquire: the last user's reads happen before our next write. */
	return atomic_load_explicit(&buffer->refs, memory_order_acquire) == 1;
}

void ripc__buffers_range(const struct ripc__buffers *set, struct iovec *range)
{
	*range = (struct iovec){.iov_base = (uint8_t *)set + set->head,
		.iov_len = set->mapped - set->head};
}

struct ripc__buffer *ripc__buffers_find(struct ripc__buffers *set, uint32_t *at)
{
	while (*at < set->count) {
		struct ripc__buffer *buffer = &set->list[(*at)++];

		if (ripc__buffer_is_free(buffer))
			return buffer;
	}
	return NULL;
}

void ripc__buffer_hold(struct ripc__buffer *buffer, uint32_t n)
{
	/* No other thread knows a free buffer, hence no atomic addition is needed. */
	atomic_store_explicit(&buffer->refs, 1 + n, memory_order_relaxed);
}

void ripc__buffer_put(struct ripc__buffer *buffer, uint32_t n)
{
	struct ripc__buffers *set = buffer->set;

	if (atomic_fetch_sub_explicit(&buffer->refs, n, memory_order_acq_rel) != n)
		return;
	if (atomic_fetch_sub_explicit(&set->live, 1, memory_order_acq_rel) == 1)
		munmap(set, set->mapped);
}

void ripc__buffer_release(void *port, void *handle)
{
	(void)port; /* may be closed already */
	ripc__buffer_put(handle, 1);
}
