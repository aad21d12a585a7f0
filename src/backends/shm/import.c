/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading others' memory: one copy from the holder's slab, which we have mapped, to where it is
 * wanted. A read waits its turn and goes a step at a time, so that a large one keeps nobody from
 * being polled. export.c says when it counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment.h"
#include "shm.h"
#include "util/bytes.h"

#define STEP      (1u << 20) /* bytes copied in one poll */
#define LOOKS_MAX 16u

/* ---- what holders hand over -------------------------------------------------------------- */

static bool take_table(struct shm_imports *imports, int fd)
{
	void *table;

	if (imports->table || ripc__shm_segment_map(fd, SHM_TABLE_LEN, false, &table))
		return false;
	imports->table = table;
	return true;
}

static bool take_slab(struct shm_imports *imports, uint32_t at, uint64_t len, int fd)
{
	if (imports->slabs[at].memory)
		ripc__shm_segment_unmap(imports->slabs[at].memory, imports->slabs[at].len);
	imports->slabs[at].memory = NULL;
	imports->slabs[at].len = 0;
	if (len == 0)
		return true;
	if (ripc__shm_segment_map(fd, len, false, &imports->slabs[at].memory))
		return false;
	imports->slabs[at].len = len;
	return true;
}

bool ripc__shm_import(struct shm_in *in, enum shm_message type, const uint8_t *bytes,
		const struct shm_received *received)
{
	bool sound = false;

	if (!in->imports)
		in->imports = calloc(1, sizeof(*in->imports));
	if (in->imports && type == SHM_TABLE)
		sound = take_table(in->imports, received->fd);
	else if (in->imports)
		sound = take_slab(in->imports, received->number, get64(bytes), received->fd);
	if (received->fd >= 0)
		close(received->fd);
	return sound;
}

void ripc__shm_imports_end(struct shm_port *port, struct shm_in *in)
{
	for (uint32_t i = 0; i < port->n_reads; i++) {
		struct shm_read *read = &port->reads[(port->first_read + i) % SHM_READS];

		if (read->from != in)
			continue;
		read->from = NULL;
		read->status = -ECONNRESET;
	}
	if (!in->imports)
		return;
	for (uint32_t i = 0; i < SHM_SLABS; i++) {
		if (in->imports->slabs[i].memory)
			ripc__shm_segment_unmap(in->imports->slabs[i].memory,
				in->imports->slabs[i].len);
	}
	if (in->imports->table)
		ripc__shm_segment_unmap(in->imports->table, SHM_TABLE_LEN);
	free(in->imports);
	in->imports = NULL;
}

/* ---- reading ----------------------------------------------------------------------------- */

int ripc__shm_read(void *state, void *peer, const struct ripc__key *key, uint64_t offset,
		void *mem, size_t len, uint64_t cookie)
{
	struct shm_port *port = state;
	struct shm_read *read;

	if (port->n_reads == SHM_READS)
		return -EAGAIN;
	read = &port->reads[(port->first_read + port->n_reads++) % SHM_READS];
	*read = (struct shm_read){.key = *key, .offset = offset, .cookie = cookie, .to = mem,
		.len = len};
	memcpy(read->name, ((struct shm_peer *)peer)->out->name, SHM_NAME_LEN);
	/* What the key speaks of was handed over before the key: perhaps it is in the socket. */
	port->look = true;
	return 0;
}

/* Is the key valid now? The table is the holder's: each value is copied before it is checked. */
static bool key_valid(const struct shm_in *in, const struct ripc__key *key)
{
	const struct shm_table *table = in->imports ? in->imports->table : NULL;

	return table && key->key && key->address < SHM_KEYS &&
		atomic_load_explicit(&table->entries[key->address].key, memory_order_acquire) ==
		key->key;
}

/* Names are claims, keys are secrets: of those who bear the name, the one who knows the key. */
static struct shm_in *find_holder(struct shm_port *port, const struct shm_read *read)
{
	list_for_each(node, &port->ins) {
		struct shm_in *in = list_entry(node, struct shm_in, node);

		if (in->from.len && memcmp(in->from.blob + 8, read->name, SHM_NAME_LEN) == 0 &&
				key_valid(in, &read->key))
			return in;
	}
	return NULL;
}

/* Where the read begins in the slab; NULL: it may not. */
static const uint8_t *locate(const struct shm_read *read)
{
	const struct shm_imports *imports = read->from->imports;
	const volatile struct shm_entry *entry = &imports->table->entries[read->key.address];
	uint64_t slab = entry->slab, offset = entry->offset, len = entry->len;

	if (slab >= SHM_SLABS || !imports->slabs[slab].memory)
		return NULL;
	if (read->offset > len || read->len > len - read->offset)
		return NULL;
	if (offset > imports->slabs[slab].len || len > imports->slabs[slab].len - offset)
		return NULL;
	return (const uint8_t *)imports->slabs[slab].memory + offset + read->offset;
}

/* Copies a step. False: the read has ended. */
static bool step(struct shm_port *port, struct shm_read *read, size_t *budget)
{
	size_t n = read->len - read->done < *budget ? read->len - read->done : *budget;
	const uint8_t *from;

	if (read->status)
		return false;
	if (!read->from)
		read->from = find_holder(port, read);
	from = read->from && key_valid(read->from, &read->key) ? locate(read) : NULL;
	if (!from && port->look && read->looks++ < LOOKS_MAX)
		return true;
	if (!from) {
		read->status = -EACCES;
		return false;
	}
	memcpy(read->to + read->done, from + read->done, n);
	read->done += n;
	*budget -= n;
	/* What was copied counts if the range was still ours to read after that. */
	atomic_thread_fence(memory_order_acquire);
	if (!key_valid(read->from, &read->key))
		read->status = -EACCES;
	return !read->status && read->done < read->len;
}

uint32_t ripc__shm_read_step(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	size_t budget = STEP;
	uint32_t filled = 0;

	while (port->n_reads && filled < n && budget) {
		struct shm_read *read = &port->reads[port->first_read];

		if (step(port, read, &budget))
			break;
		events[filled++] = (struct ripc__event){.kind = RIPC_EV_READ,
			.status = read->status, .cookie = read->cookie};
		port->first_read = (port->first_read + 1) % SHM_READS;
		port->n_reads--;
	}
	return filled;
}
