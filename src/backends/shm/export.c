/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our memory for others to read: slabs of the pool, handed to a partner of our own user as
 * descriptors that it cannot write to, and a table per partner of the ranges that it may read.
 *
 * Design notes. A partner that has a slab mapped can look at it at any time: so only such slabs
 * are handed out that hold nothing else (pool.c). What the table decides is whether a read
 * counts. Its reader looks at the key before and after it copies; we change the key before the
 * range may change. So a read either ended while the range was whole, or fails; and nobody waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "segment.h"
#include "shm.h"

/* Makes the table and hands it over. */
static int exports_open(struct shm_out *out)
{
	struct shm_exports *exports = calloc(1, sizeof(*exports));
	void *table;
	int fd, error;

	if (!exports)
		return -ENOMEM;
	error = ripc__shm_segment_make(SHM_TABLE_LEN, true, &table, &fd);
	if (error)
		goto free_exports;
	error = ripc__shm_send_memory(out->watch.fd, SHM_TABLE, 0, SHM_TABLE_LEN, fd);
	close(fd);
	if (error)
		goto unmap;
	exports->table = table;
	out->exports = exports;
	out->port->dev->n_exports++;
	return 0;
unmap:
	ripc__shm_segment_unmap(table, SHM_TABLE_LEN);
free_exports:
	free(exports);
	return error;
}

/* Which of the partner's slabs is this? -ENOENT. */
static int find_slab(const struct shm_exports *exports, uint64_t id)
{
	for (uint32_t i = 0; i < SHM_SLABS; i++) {
		if (exports->slabs[i].memory.id == id)
			return (int)i;
	}
	return -ENOENT;
}

/* The index of a slab that the partner has, or gets now. */
static int give_slab(struct shm_out *out, const struct ripc__shared *memory)
{
	struct shm_exports *exports = out->exports;
	int found = find_slab(exports, memory->id), error;

	for (uint32_t i = 0; found < 0 && i < SHM_SLABS; i++) {
		uint32_t at = (exports->next_slab + i) % SHM_SLABS;

		if (exports->slabs[at].n_keys == 0)
			found = (int)at;
	}
	if (found < 0)
		return -EAGAIN;
	if (exports->slabs[found].memory.id == memory->id)
		return found;
	error = ripc__shm_send_memory(out->watch.fd, SHM_SLAB, (uint32_t)found, memory->len,
		memory->fd);
	if (error)
		return error;
	exports->slabs[found].memory = *memory;
	exports->next_slab = (uint32_t)found + 1;
	return found;
}

static int free_entry(const struct shm_exports *exports)
{
	for (uint32_t i = 0; i < SHM_KEYS; i++) {
		if (!atomic_load_explicit(&exports->table->entries[i].key, memory_order_relaxed))
			return (int)i;
	}
	return -EAGAIN;
}

static int draw_number(uint64_t *number)
{
	do {
		if (getrandom(number, sizeof(*number), 0) != sizeof(*number))
			return -EIO;
	} while (*number == 0);
	return 0;
}

/* Enters a range in the table under a new number. */
static int key_open(struct shm_out *out, const struct shm_entry *range, struct ripc__key *key)
{
	struct shm_key *made = malloc(sizeof(*made));
	int at = free_entry(out->exports), error = at < 0 ? at : draw_number(&key->key);
	struct shm_entry *entry;

	if (!made)
		return -ENOMEM;
	error = error ? error : ripc__map_put(&out->port->dev->keys, key->key, made);
	if (error) {
		free(made);
		return error;
	}
	*made = (struct shm_key){out, (uint32_t)at};
	entry = &out->exports->table->entries[at];
	entry->slab = range->slab;
	entry->offset = range->offset;
	entry->len = range->len;
	atomic_store_explicit(&entry->key, key->key, memory_order_release);
	out->exports->slabs[range->slab].n_keys++;
	key->address = (uint64_t)at;
	return 0;
}

int ripc__shm_mem_open(void *state, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	struct shm_device *dev = state;
	struct shm_out *out = ((struct shm_peer *)peer)->out;
	struct ripc__shared memory;
	struct shm_entry range = {.len = len};
	struct ripc__key made;
	int error, slab;

	if (writable)
		return -EACCES;
	error = ripc__shm_out_connect(out->port, out);
	/* Others are admitted to our rings, never to our memory. */
	if (!error && out->uid != geteuid())
		error = -EACCES;
	if (!error)
		error = dev->host.share ? dev->host.share(dev->host.arg, mem, len, &memory) :
			-EINVAL;
	if (!error && !out->exports)
		error = exports_open(out);
	if (error)
		return error;
	ripc__shm_exports_trim(out);
	slab = give_slab(out, &memory);
	if (slab < 0)
		return slab;
	range.slab = (uint64_t)slab;
	range.offset = (uint64_t)((uint8_t *)mem - memory.base);
	error = key_open(out, &range, &made);
	if (!error)
		*key = made;
	return error;
}

/* The range may change from now on. */
static void entry_close(struct shm_exports *exports, uint32_t at)
{
	struct shm_entry *entry = &exports->table->entries[at];

	exports->slabs[entry->slab].n_keys--;
	atomic_store_explicit(&entry->key, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

int ripc__shm_mem_close(void *state, const struct ripc__key *key, uint64_t cookie)
{
	struct shm_device *dev = state;
	struct shm_key *found = ripc__map_remove(&dev->keys, key->key);

	(void)cookie; /* nothing follows */
	if (!found)
		return -EINVAL;
	if (found->out)
		entry_close(found->out->exports, found->index);
	free(found);
	return 0;
}

void ripc__shm_exports_end(struct shm_out *out)
{
	struct shm_exports *exports = out->exports;

	if (!exports)
		return;
	for (uint32_t i = 0; i < SHM_KEYS; i++) {
		uint64_t number = atomic_load(&exports->table->entries[i].key);
		struct shm_key *key = number ? ripc__map_get(&out->port->dev->keys, number) : NULL;

		if (key) {
			entry_close(exports, i);
			key->out = NULL;
		}
	}
	ripc__shm_segment_unmap(exports->table, SHM_TABLE_LEN);
	free(exports);
	out->exports = NULL;
	out->port->dev->n_exports--;
}

void ripc__shm_exports_trim(struct shm_out *out)
{
	struct shm_exports *exports = out->exports;
	const struct ripc__host *host = &out->port->dev->host;

	for (uint32_t i = 0; exports && i < SHM_SLABS; i++) {
		if (!exports->slabs[i].memory.id ||
				host->is_shared(host->arg, &exports->slabs[i].memory))
			continue;
		if (ripc__shm_send_memory(out->watch.fd, SHM_SLAB, i, 0, -1) == 0)
			exports->slabs[i].memory.id = 0;
	}
}
