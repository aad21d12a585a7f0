/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading others' memory: one copy from the owner's slab, which we have mapped, to the
 * destination. A read waits its turn and proceeds a step at a time: a large one does not keep
 * other links from being polled. export.c says when it counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/stream.h"
#include "util/system/cancel.h"
#include "util/system/kick.h"
#include "util/system/locks.h"

#define FAR       ((uint64_t)16 << 20) /* of an item: bytes behind this do not fit the cache, */
#define FAR_WHOLE ((uint64_t)32 << 20) /* and of a longer one none are kept there */
#define STEP      (1u << 20) /* bytes copied in one poll */
#define LOOKS_MAX 16u
/*
 * Slabs mapped at once: a quarter of the mappings that Linux allows a process
 * (vm.max_map_count).
 */
#define IMPORTS_MAX 16384u

/* ---- memory from owners ------------------------------------------------------------------ */

/*
 * Maps a page that was handed over. -EBADMSG: it is nonsense, and the link ends. Any other error
 * is our own lack: the link must go on, because its end would settle the claims of memory that
 * we read in place.
 */
static int map_page(int fd, size_t len, bool writable, void **memory)
{
	return fd < 0 ? -EMFILE : ripc__shm_segment_map(fd, len, writable, memory);
}

static bool take_table(struct shm_imports *imports, int fd)
{
	void *table;
	int error = imports->table ? -EBADMSG : map_page(fd, SHM_TABLE_LEN, false, &table);

	if (error)
		return error != -EBADMSG;
	imports->table = table;
	ripc__shm_point("table_mapped");
	return true;
}

/* The descriptor stays with the claims. A process that cannot lock the claims has none. */
static bool take_claims(struct shm_imports *imports, int *fd)
{
	void *claims;
	int error = imports->claims ? -EBADMSG : map_page(*fd, SHM_CLAIMS_LEN, true, &claims);

	if (error)
		return error != -EBADMSG;
	ripc__shm_point("claims_mapped");
	if (ripc__pledge(*fd, RIPC__PLEDGE_FIRST)) {
		ripc__shm_segment_unmap(claims, SHM_CLAIMS_LEN);
		return true;
	}
	imports->claims = claims;
	imports->claims_fd = *fd;
	ripc__shm_point("claims_pledged");
	*fd = -1;
	return true;
}

/*
 * May the link have another slab of len bytes mapped? Slabs that the partner has replaced, but
 * that core still holds, count, too. A link has at most half of what the others leave, and no
 * more slabs than an honest partner shows at once.
 */
static bool has_room(const struct shm_port *port, const struct shm_imports *imports, uint64_t len)
{
	uint64_t memory = port->dev.host.memory ? port->dev.host.memory : UINT64_MAX;
	uint64_t bytes_max = (memory - (port->import_bytes - imports->bytes)) / 2;
	uint32_t n_max = (IMPORTS_MAX - (port->n_imports - imports->n_mapped)) / 2;

	return imports->n_mapped < SHM_SLABS && imports->n_mapped < n_max && len <= bytes_max &&
		imports->bytes <= bytes_max - len;
}

/*
 * In place of the received lease we keep one of our own, which we can end. The file has been
 * checked: opening another kind may block. An error leaves nothing mapped.
 */
static int lease_own(struct shm_import *made, int *fd)
{
	int own = ripc__lease_make(*fd);

	if (own < 0) {
		ripc__shm_segment_unmap(made->memory, made->len);
		return own == -EBADMSG ? -EAGAIN : own;
	}
	close(*fd);
	*fd = own;
	return 0;
}

/*
 * Honest owners have filled a buffer before they show it: the part behind a hole is not read.
 * The descriptor is kept if possible: a lease must be.
 */
static int import_make(struct shm_port *port, struct shm_imports *imports, uint64_t len,
		bool is_lease, int *fd, struct shm_import **import)
{
	struct shm_import *made = calloc(1, sizeof(*made));
	bool keep = ripc__shm_may_keep(port, *fd);
	int error = !made ? -ENOMEM : *fd < 0 || (is_lease && !keep) ? -EMFILE : 0;

	if (!error) {
		made->len = made->file_len = len;
		error = ripc__shm_segment_map_filled(*fd, &made->len, &made->memory);
	}
	if (!error && is_lease)
		error = lease_own(made, fd);
	if (error) {
		free(made);
		return error;
	}
	made->fd = keep ? *fd : -1;
	*fd = keep ? -1 : *fd;
	port->n_kept += keep;
	made->is_lease = is_lease;
	made->refs = 1;
	made->serial = imports->last_serial;
	made->imports = imports;
	*import = made;
	return 0;
}

static bool take_slab(struct shm_port *port, struct shm_imports *imports,
		const struct shm_received *received, uint64_t len, bool is_lease, int *fd)
{
	uint32_t at = received->number;
	int error;

	ripc__shm_import_put(port, imports->slabs[at]);
	imports->slabs[at] = NULL;
	imports->last_serial++;
	ripc__shm_point("slab_dropped");
	if (len == 0 || !has_room(port, imports, len) || (is_lease && !imports->claims))
		return true;
	error = import_make(port, imports, len, is_lease, fd, &imports->slabs[at]);
	if (error)
		return error != -EBADMSG;
	port->import_bytes += imports->slabs[at]->len;
	port->n_imports++;
	imports->bytes += imports->slabs[at]->len;
	imports->n_mapped++;
	imports->n_leases += is_lease;
	port->n_leases += is_lease;
	if (is_lease)
		ripc__shm_clock_start(port);
	ripc__shm_point("slab_mapped");
	return true;
}

/* Other users are admitted to our rings; their memory is left alone, and they send the bytes. */
static bool is_foreign(const struct shm_in *in)
{
	struct ucred who;

	return ripc__shm_who(in->watch.fd, &who) || who.uid != geteuid();
}

bool ripc__shm_import(struct shm_port *port, struct shm_in *in, enum shm_message type,
		const uint8_t *bytes, const struct shm_received *received)
{
	bool foreign = is_foreign(in), sound = true;
	int fd = received->fd;

	if (!foreign && !in->imports)
		in->imports = calloc(1, sizeof(*in->imports));
	if (foreign || !in->imports)
		goto close_memory;
	if (type == SHM_TABLE)
		sound = take_table(in->imports, fd);
	else if (type == SHM_CLAIMS)
		sound = take_claims(in->imports, &fd);
	else
		sound = take_slab(port, in->imports, received, get64(bytes), type == SHM_PASSED,
			&fd);
close_memory:
	if (fd >= 0)
		close(fd);
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
	list_for_each(node, &port->grips) {
		struct shm_grip *grip = list_entry(node, struct shm_grip, node);

		if (grip->in == in) {
			grip->in = NULL;
			ripc__shm_import_detach(port, grip->import);
		}
	}
	list_for_each(node, &port->passed) {
		struct shm_import *import = list_entry(node, struct shm_import, node);

		if (import->imports == in->imports)
			ripc__shm_import_detach(port, import);
	}
	for (uint32_t i = 0; i < SHM_SLABS; i++)
		ripc__shm_import_put(port, in->imports->slabs[i]);
	if (in->imports->table)
		ripc__shm_segment_unmap(in->imports->table, SHM_TABLE_LEN);
	if (in->imports->claims) {
		ripc__shm_segment_unmap(in->imports->claims, SHM_CLAIMS_LEN);
		close(in->imports->claims_fd);
	}
	free(in->imports);
	in->imports = NULL;
}

/* ---- reading ----------------------------------------------------------------------------- */

int ripc__shm_read(void *state, void *route, const struct ripc__move *move)
{
	RIPC__HOLD_CANCEL;
	struct shm_port *port = state;
	struct shm_read *read;

	if (port->n_reads == SHM_READS)
		return -EAGAIN;
	read = &port->reads[(port->first_read + port->n_reads++) % SHM_READS];
	*read = (struct shm_read){.key = move->key, .offset = move->offset,
		.cookie = move->cookie, .to = move->mem, .len = move->len};
	memcpy(read->name, ((struct shm_route *)route)->out->name, SHM_NAME_LEN);
	/* The slab of the key was handed over before the key: perhaps it is still in the socket. */
	port->look = true;
	ripc__shm_point("read_posted");
	return 0;
}

/* Is the key valid now? The table is the owner's: each value is copied before it is checked. */
static bool key_valid(const struct shm_in *in, const struct ripc__key *key)
{
	const struct shm_table *table = in->imports ? in->imports->table : NULL;

	return table && key->key && key->address < SHM_KEYS &&
		atomic_load_explicit(&table->entries[key->address].key, memory_order_acquire) ==
		key->key;
}

/*
 * Names are claims, keys are secrets: among the senders of this name, finds the one that knows
 * the key.
 */
static struct shm_in *find_holder(struct shm_port *port, const uint8_t name[SHM_NAME_LEN],
		const struct ripc__key *key)
{
	list_for_each(node, &port->ins) {
		struct shm_in *in = list_entry(node, struct shm_in, node);

		if (in->from.len && memcmp(in->from.blob + 8, name, SHM_NAME_LEN) == 0 &&
				key_valid(in, key))
			return in;
	}
	return NULL;
}

/* The address of len bytes of a key's range, in its slab; NULL: they may not be read. */
static const uint8_t *locate(const struct shm_in *in, uint64_t index, uint64_t from, size_t len,
		struct shm_import **import)
{
	const struct shm_imports *imports = in->imports;
	const volatile struct shm_entry *entry = &imports->table->entries[index];
	uint64_t slab = entry->slab, offset = entry->offset, range = entry->len;
	struct shm_import *found = (slab & 255) < SHM_SLABS ? imports->slabs[slab & 255] : NULL;

	/* The slab of the entry may still be in the socket, and another slab in its place. */
	if (!found || found->serial != slab >> 8 || from > range || len > range - from)
		return NULL;
	if (offset > found->len || range > found->len - offset)
		return NULL;
	*import = found;
	return (const uint8_t *)found->memory + offset + from;
}

/* Will the step have left the cache when the item is complete? The length is the owner's claim. */
static bool is_far(const struct shm_in *in, const struct shm_read *read)
{
	const volatile struct shm_entry *entry = &in->imports->table->entries[read->key.address];

	return read->offset >= FAR || entry->len > FAR_WHOLE;
}

/* Copies a step. False: the read has ended. */
static bool step(struct shm_port *port, struct shm_read *read, size_t *budget)
{
	size_t n = read->len - read->done < *budget ? read->len - read->done : *budget;
	const uint8_t *from = NULL;
	struct shm_import *import;

	if (read->status)
		return false;
	if (!read->from)
		read->from = find_holder(port, read->name, &read->key);
	if (read->from && key_valid(read->from, &read->key))
		from = locate(read->from, read->key.address, read->offset, read->len, &import);
	if (!from && port->look && read->looks++ < LOOKS_MAX)
		return true;
	if (!from) {
		read->status = -EACCES;
		return false;
	}
	if (port->dev.host.fault && port->dev.host.fault(port->dev.host.arg,
			read->to + read->done, n)) {
		read->status = -ENOMEM;
		return false;
	}
	if (is_far(read->from, read))
		ripc__copy_past_cache(read->to + read->done, from + read->done, n);
	else
		memcpy(read->to + read->done, from + read->done, n);
	ripc__shm_point("read_copied");
	read->done += n;
	*budget -= n;
	/* The copied bytes count if the range was still ours to read after that. */
	atomic_thread_fence(memory_order_acquire);
	if (!key_valid(read->from, &read->key))
		read->status = -EACCES;
	return !read->status && read->done < read->len;
}

uint32_t ripc__shm_read_step(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	RIPC__HOLD_CANCEL;
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
		ripc__shm_point("read_ended");
	}
	return filled;
}

/* ---- mapping ----------------------------------------------------------------------------- */

/*
 * The address of the key's memory; NULL: it has not arrived. The memory was sent before the key,
 * perhaps on another path.
 */
static const uint8_t *locate_now(struct shm_port *port, const uint8_t name[SHM_NAME_LEN],
		const struct ripc__key *key, size_t len, struct shm_grip *grip)
{
	const uint8_t *mem = NULL;

	grip->in = find_holder(port, name, key);
	if (grip->in)
		mem = locate(grip->in, key->address, 0, len, &grip->import);
	return mem && grip->in->imports->claims ? mem : NULL;
}

static const uint8_t *locate_late(struct shm_port *port, const uint8_t name[SHM_NAME_LEN],
		const struct ripc__key *key, size_t len, struct shm_grip *grip)
{
	const uint8_t *mem = locate_now(port, name, key, len, grip);

	if (mem)
		return mem;
	list_for_each_safe(node, &port->ins) {
		struct shm_in *in = list_entry(node, struct shm_in, node);

		if (in->from.len && memcmp(in->from.blob + 8, name, SHM_NAME_LEN) == 0)
			ripc__shm_in_memory(port, in);
	}
	return locate_now(port, name, key, len, grip);
}

int ripc__shm_map(void *state, void *route, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping)
{
	RIPC__HOLD_CANCEL;
	struct shm_port *port = state;
	struct shm_grip *grip = malloc(sizeof(*grip));
	const struct ripc__shared *own;
	_Atomic uint64_t *claim;
	const uint8_t *mem;

	if (!grip)
		return -ENOMEM;
	mem = locate_late(port, ((struct shm_route *)route)->out->name, key, len, grip);
	claim = mem ? &grip->in->imports->claims->keys[key->address] : NULL;
	if (!claim || atomic_load(claim) == key->key) {
		free(grip);
		return -EACCES;
	}
	own = grip->import->is_lease ? ripc__shm_exported(port, grip->import->fd) : NULL;
	if (own) {
		/* The partner keeps the memory as long as the key is valid. */
		*mapping = (struct ripc__mapping){.mem = own->base +
			(mem - (const uint8_t *)grip->import->memory)};
		free(grip);
		return 0;
	}
	ripc__shm_point("map_located");
	atomic_store(claim, key->key);
	ripc__shm_point("map_claimed");
	atomic_thread_fence(memory_order_seq_cst);
	if (!key_valid(grip->in, key)) {
		atomic_store(claim, 0);
		free(grip);
		return -EACCES;
	}
	ripc__shm_point("map_confirmed");
	grip->key = *key;
	grip->import->refs++;
	grip->import->n_grips++;
	list_append(&port->grips, &grip->node);
	ripc__shm_point("mapped");
	*mapping = (struct ripc__mapping){.mem = (void *)mem, .base = grip->import->memory,
		.base_len = grip->import->len, .handle = grip};
	return 0;
}

/* The last claim of a slab counts for all. */
static uint64_t claim_after(const struct shm_import *import, uint64_t key)
{
	if (import->n_grips == 0 && (import->left || import->n_keys))
		return shm_claim_left(key);
	return import->passed ? shm_claim_passed(key) : 0;
}

/*
 * Other processes that have the memory mapped, and do not read it, must let go of it: its owner
 * waits for them.
 */
static void take_back(struct shm_port *port, struct shm_import *import)
{
	import->left = false;
	import->id = 0;
	port->freed = true;
}

void ripc__shm_unmap(void *state, void *handle)
{
	RIPC__HOLD_CANCEL;
	struct shm_port *port = state;
	struct shm_grip *grip = handle;

	grip->import->n_grips--;
	if (grip->in) {
		_Atomic uint64_t *claim = &grip->in->imports->claims->keys[grip->key.address];

		ripc__shm_point("unmap_begun");
		if (atomic_load(claim) == grip->key.key)
			atomic_store(claim, claim_after(grip->import, grip->key.key));
		ripc__shm_point("unclaimed");
		ripc__shm_out_rouse(port, grip->in->from.blob + 8);
	}
	if (grip->import->n_grips == 0 && grip->import->left)
		take_back(port, grip->import);
	list_remove(&grip->node);
	ripc__shm_import_put(port, grip->import);
	/* No message wakes us for memory that others must release. */
	if (port->freed)
		ripc__kick(port->bell.fd);
	ripc__shm_point("unmapped");
	free(grip);
}
