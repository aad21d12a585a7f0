/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our memory for others to read: slabs of the pool, handed to a partner of our own user as
 * descriptors that it cannot write to, and a table per partner of the ranges that it may read.
 *
 * Design notes. A partner that has a slab mapped can look at it at any time: only slabs that
 * hold nothing else are handed out (pool.c). The table decides whether a read counts. Its reader
 * looks at the key before and after it copies; we change the key before the range may change. A
 * read therefore either ended while the range was whole, or fails; and neither end waits.
 *
 * Core at the other end may map a given message. The partner says so in its claims, a page of
 * its own: a word per entry, which it clears when the range is free. Hence no message can be
 * lost, and there is no limit to how long it takes. All claims are settled when the link ends.
 *
 * All this is under core's lock. But a thread that sleeps in wait() looks without it whether any
 * memory came home: code that changes the list of handed-out memory, or ends a link whose claims
 * the list leads to, therefore holds handed_lock. A function that only reads the list under
 * core's lock needs no other lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/system/cancel.h"
#include "util/system/kick.h"
#include "util/system/locks.h"

/* ---- passed ------------------------------------------------------------------------------ */

/*
 * Memory of others that is passed on: slabs that we have mapped, and show to more readers.
 *
 * Design notes. Our own claim stays until all to whom we gave the memory have released it. The
 * owner therefore need not know these readers while we live. If we die, the owner cannot learn
 * of them from us. Therefore each reader has a lease: a descriptor of the slab with a lock. The
 * kernel keeps the lock from the moment when we send the lease until the last copy of the lease
 * is closed. The owner looks for leases when a process to which it gave the slab is gone, or
 * reports that others may read on (shm_claim_left()). Only the owner looks, by a descriptor that
 * is no lease. A process in between passes the report on.
 */

#define PASSED_IDS (1ull << 63) /* the pool's numbers are lower */

void ripc__shm_import_detach(struct shm_port *port, struct shm_import *import)
{
	if (!import->imports)
		return;
	import->imports->n_leases -= import->is_lease;
	port->n_leases -= import->is_lease;
	import->imports = NULL;
}

void ripc__shm_import_put(struct shm_port *port, struct shm_import *import)
{
	if (!import || --import->refs > 0)
		return;
	port->import_bytes -= import->len;
	port->n_imports--;
	if (import->imports) {
		import->imports->bytes -= import->len;
		import->imports->n_mapped--;
		ripc__shm_import_detach(port, import);
	}
	ripc__shm_segment_unmap(import->memory, import->len);
	if (import->is_lease)
		ripc__lease_end(import->fd);
	else if (import->fd >= 0)
		close(import->fd);
	port->n_kept -= import->fd >= 0;
	if (import->passed) {
		list_remove(&import->node);
		port->freed = true; /* other processes have the memory mapped */
	}
	free(import);
}

static bool holds(const struct shm_import *import, const void *mem, size_t len)
{
	size_t from = (size_t)((uintptr_t)mem - (uintptr_t)import->memory);

	return from < import->len && len <= import->len - from;
}

/*
 * The mapped memory that [mem, mem + len) lies in, if it can be passed on; NULL. *memory: as it
 * is shown to others.
 */
static struct shm_import *shm_import_find(struct shm_port *port, const void *mem, size_t len,
		struct ripc__shared *memory)
{
	struct shm_import *found = NULL;

	list_for_each(node, &port->grips) {
		struct shm_import *import = list_entry(node, struct shm_grip, node)->import;

		if (holds(import, mem, len))
			found = import;
	}
	/* Without a link or a lease the owner would not learn that others read it from now on. */
	if (!found || found->fd < 0 || (!found->imports && !found->is_lease))
		return NULL;
	if (!found->passed)
		list_append(&port->passed, &found->node);
	found->passed = true;
	if (!found->id)
		found->id = PASSED_IDS | ++port->last_passed_id;
	*memory = (struct ripc__shared){found->id, found->memory, found->file_len, found->fd};
	return found;
}

static bool shm_import_is_id(uint64_t id)
{
	return id & PASSED_IDS;
}

/* Is memory still there that was passed on? */
static bool shm_import_is_there(const struct shm_port *port, const struct ripc__shared *memory)
{
	list_for_each(node, &port->passed) {
		if (list_entry(node, struct shm_import, node)->id == memory->id)
			return true;
	}
	return false;
}

/* One key less shows the memory to others. is_left: the owner of the key may read on. */
static void shm_import_unref(struct shm_port *port, struct shm_import *import, bool is_left)
{
	import->n_keys--;
	import->left |= is_left;
	ripc__shm_import_put(port, import);
}

/* ---- life -------------------------------------------------------------------------------- */

/*
 * Liveness of the process that has mapped our memory. The end of its sockets does not show its
 * end: a child that it forked may keep them open for ever. The process therefore locks its
 * claims (a record lock of fcntl(2)): the kernel takes the lock when the process ends, however
 * it ends, and its children do not inherit it. The lock costs no privilege, and is visible from
 * another PID namespace.
 *
 * Design notes. A process loses all its locks on a file with any descriptor of that file that it
 * closes. The owner makes the page of the claims for one partner and sends it once: no other
 * process has another descriptor of it that it could make the partner close. A process does not
 * see its own locks: a context that shares a process with its partner lives as long as the
 * partner.
 *
 * No process is woken when a lock is lost. A timer checks, while memory is held or a sender has
 * not responded. If only leases of ours are left, which may last as long as the process, the
 * gaps between its checks grow.
 */

#define LOOK_MS   500
#define LEASES_MS 8000 /* between two looks at most, where only leases are left */

static void clock_set(struct shm_port *port, uint32_t ms)
{
	const struct itimerspec once = {.it_value = {.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000l}};

	port->clock_runs = timerfd_settime(port->clock.fd, 0, &once, NULL) == 0;
	port->clock_ms = ms;
}

void ripc__shm_clock_start(struct shm_port *port)
{
	if (!port->clock_runs || port->clock_ms > LOOK_MS)
		clock_set(port, LOOK_MS);
}

static bool is_dead(const struct shm_out *out)
{
	return out->exports && out->exports->n_handed && !out->is_self &&
		!ripc__is_pledged(out->exports->claims_fd, RIPC__PLEDGE_FIRST);
}

void ripc__shm_clock_strike(struct shm_port *port)
{
	struct shm_out *out;
	uint32_t at = 0;

	ripc__kick_drain(port->clock.fd);
	port->clock_runs = false;
	port->look_leases = true;
	port->freed |= port->untrimmed;
	port->untrimmed = false;
	while ((out = ripc__map_next(&port->outs, &at))) {
		for (; out; out = out->next) {
			if (!is_dead(out))
				continue;
			ripc__shm_out_cut(port, out);
			/* The dead process's child may still accept in its name. */
			shm_out_die(out, -ECONNRESET);
		}
	}
	if (!list_empty(&port->handed) || port->n_silent || port->n_offered)
		ripc__shm_clock_start(port);
	else if (port->n_leases)
		clock_set(port, port->clock_ms < LEASES_MS ? 2 * port->clock_ms : LEASES_MS);
}

/* ---- export ------------------------------------------------------------------------------ */

/* Makes a page and sends it to the receiver. */
static int page_open(struct shm_out *out, enum shm_message type, bool read_only, void **page,
		int *fd_out)
{
	void *made;
	int fd, error = ripc__shm_segment_make(SHM_TABLE_LEN, read_only, &made, &fd);

	if (error)
		return error;
	ripc__shm_point("page_made");
	error = ripc__shm_send_memory(out->watch.fd, type, 0, SHM_TABLE_LEN, fd);
	if (error) {
		ripc__shm_segment_unmap(made, SHM_TABLE_LEN);
		close(fd);
		return error;
	}
	*page = made;
	*fd_out = fd;
	return 0;
}

/* A link that got only one of the pages is cut: it would get that one twice. */
static int exports_open(struct shm_out *out)
{
	struct shm_exports *exports = calloc(1, sizeof(*exports));
	void *table, *claims;
	int table_fd, error = exports ? page_open(out, SHM_TABLE, true, &table, &table_fd) :
		-ENOMEM;

	if (error)
		goto free_exports;
	close(table_fd);
	ripc__shm_point("table_sent");
	error = page_open(out, SHM_CLAIMS, false, &claims, &exports->claims_fd);
	if (error)
		goto unmap;
	ripc__shm_point("claims_sent");
	exports->table = table;
	exports->claims = claims;
	out->exports = exports;
	out->port->dev.n_exports++;
	return 0;
unmap:
	ripc__shm_segment_unmap(table, SHM_TABLE_LEN);
	ripc__shm_out_cut(out->port, out);
free_exports:
	free(exports);
	return error;
}

/* The index of the partner's slab with this ID; -ENOENT. */
static int find_slab(const struct shm_exports *exports, uint64_t id)
{
	for (uint32_t i = 0; i < SHM_SLABS; i++) {
		if (exports->slabs[i].memory.id == id)
			return (int)i;
	}
	return -ENOENT;
}

/* Locks as the partner does: our end becomes visible, even if a child of ours has our sockets. */
static int pledge_once(struct shm_exports *exports)
{
	int error = exports->is_pledged ? 0 : ripc__pledge(exports->claims_fd, RIPC__PLEDGE_SECOND);

	exports->is_pledged = !error;
	return error;
}

/*
 * Another's memory is passed on with a lease: its owner sees that it is read, even when we are
 * gone. The lease is the receiver's, and does not depend on ours (ripc__lease_end()).
 */
static int pass_slab(struct shm_out *out, uint32_t at, const struct ripc__shared *memory,
		const struct shm_import *import)
{
	int error = pledge_once(out->exports), fd = error ? error : ripc__lease_make(import->fd);

	if (fd < 0)
		return fd;
	error = ripc__shm_send_memory(out->watch.fd, SHM_PASSED, at, memory->len, fd);
	close(fd);
	return error;
}

/* The index of a slab that the partner has, or gets now. import: the owner's memory; NULL: ours. */
static int give_slab(struct shm_out *out, const struct ripc__shared *memory,
		const struct shm_import *import)
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
	error = import ? pass_slab(out, (uint32_t)found, memory, import) :
		ripc__shm_send_memory(out->watch.fd, SHM_SLAB, (uint32_t)found, memory->len,
			memory->fd);
	if (error)
		return error;
	ripc__shm_point("slab_sent");
	exports->slabs[found].memory = *memory;
	exports->slabs[found].serial = ++exports->last_serial;
	exports->next_slab = (uint32_t)found + 1;
	return found;
}

static int free_entry(const struct shm_exports *exports)
{
	return exports->used == UINT64_MAX ? -EAGAIN : __builtin_ctzll(~exports->used);
}

static int draw_number(uint64_t *number)
{
	do {
		if (getrandom(number, sizeof(*number), 0) != sizeof(*number))
			return -EIO;
	} while (*number < SHM_KEY_LEAST);
	return 0;
}

/* Enters a range of this memory in the table under a new number. */
static int key_open(struct shm_out *out, const struct shm_entry *range,
		const struct ripc__shared *memory, struct shm_import *import, struct ripc__key *key)
{
	struct shm_key *made = malloc(sizeof(*made));
	int at = free_entry(out->exports), error = at < 0 ? at : draw_number(&key->key);
	struct shm_entry *entry;

	if (!made)
		return -ENOMEM;
	error = error ? error : ripc__map_put(&out->port->dev.keys, key->key, made);
	if (error) {
		free(made);
		return error;
	}
	*made = (struct shm_key){.out = out, .index = (uint32_t)at, .number = key->key,
		.import = import, .memory = *memory};
	list_init(&made->node);
	if (import) {
		import->refs++;
		import->n_keys++;
	}
	entry = &out->exports->table->entries[at];
	entry->slab = range->slab;
	entry->offset = range->offset;
	entry->len = range->len;
	ripc__shm_point("key_entered");
	atomic_store_explicit(&entry->key, key->key, memory_order_release);
	ripc__shm_point("key_opened");
	out->exports->slabs[range->slab & 255].n_keys++;
	out->exports->used |= 1ull << at;
	key->address = (uint64_t)at;
	return 0;
}

/* The memory that may be shown to the receiver: ours, or another's that we have mapped. */
static int find_memory(struct shm_out *out, const void *mem, size_t len,
		struct ripc__shared *memory, struct shm_import **import)
{
	const struct ripc__host *host = &out->port->dev.host;
	int error = host->share ? host->share(host->arg, mem, len, get64(out->name), memory) :
		-EINVAL;

	*import = NULL;
	if (error != -EINVAL)
		return error;
	*import = shm_import_find(out->port, mem, len, memory);
	return *import ? 0 : -EINVAL;
}

int ripc__shm_mem_open(void *state, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	RIPC__HOLD_CANCEL;
	struct shm_out *out = ((struct shm_route *)route)->out;
	struct ripc__shared memory;
	struct shm_import *import;
	struct shm_entry range = {.len = len};
	struct ripc__key made;
	int error, slab;

	if (writable)
		return -EACCES;
	error = ripc__shm_out_connect(state, out);
	/* Other users are admitted to our rings, never to our memory. */
	if (!error && out->uid != geteuid())
		error = -EACCES;
	if (!error)
		error = find_memory(out, mem, len, &memory, &import);
	if (!error && !out->exports)
		error = exports_open(out);
	if (error)
		return error;
	ripc__shm_exports_trim(out);
	slab = give_slab(out, &memory, import);
	if (slab < 0)
		return slab;
	range.slab = out->exports->slabs[slab].serial << 8 | (uint64_t)slab;
	range.offset = (uint64_t)((uint8_t *)mem - memory.base);
	error = key_open(out, &range, &memory, import, &made);
	if (!error)
		*key = made;
	return error;
}

/* The range may change from now on. */
static void entry_close(struct shm_exports *exports, uint32_t at)
{
	atomic_store_explicit(&exports->table->entries[at].key, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
}

/* Another key may have the entry. */
static void entry_free(struct shm_exports *exports, uint32_t at)
{
	exports->slabs[exports->table->entries[at].slab & 255].n_keys--;
	exports->used &= ~(1ull << at);
}

static uint64_t claim_of(const struct shm_key *key)
{
	return atomic_load_explicit(&key->out->exports->claims->keys[key->index],
		memory_order_acquire);
}

/* Does the partner claim the key? A lie only costs us the memory that it was given. */
static bool is_mapped(const struct shm_key *key)
{
	return !key->ended && claim_of(key) == key->number;
}

/* Has the partner released its mapping, or ended, while others may still read the memory? */
static bool is_left(const struct shm_key *key)
{
	return key->ended || claim_of(key) == shm_claim_left(key->number);
}

/* Memory that the partner has shown to others is not used again. */
static void tell_spread(const struct shm_port *port, const struct shm_key *key)
{
	const struct ripc__host *host = &port->dev.host;

	if (!key->import && host->spread && (is_left(key) ||
			claim_of(key) == shm_claim_passed(key->number)))
		host->spread(host->arg, &key->memory);
}

/* is_left: others may still read the memory that the partner showed them. */
static void key_free(struct shm_port *port, struct shm_key *key, bool is_left)
{
	if (key->import)
		shm_import_unref(port, key->import, is_left);
	free(key);
}

static int key_close(struct shm_port *port, const struct ripc__key *key)
{
	struct shm_key *found = ripc__map_remove(&port->dev.keys, key->key);

	if (!found)
		return -EINVAL;
	if (found->out) {
		entry_close(found->out->exports, found->index);
		ripc__shm_point("key_closed");
		tell_spread(port, found);
		entry_free(found->out->exports, found->index);
	}
	key_free(port, found, false);
	return 0;
}

/*
 * In one step: a thread that looks for memory that came home finds the key in the list, or
 * announced before that it sleeps.
 */
static bool handed_enter(struct shm_port *port, struct shm_key *key)
{
	bool entered;

	ripc__mutex_lock(&port->handed_lock);
	entered = is_mapped(key) || is_left(key);
	if (entered)
		list_append(&port->handed, &key->node);
	ripc__mutex_unlock(&port->handed_lock);
	return entered;
}

/*
 * A partner that maps the range claims it, then looks whether the key is still open; we close the
 * key, then look at the claim. With a full fence between, at least one of us sees the other.
 */
static int key_hand(struct shm_port *port, const struct ripc__key *key, uint64_t cookie)
{
	struct shm_key *found = ripc__map_get(&port->dev.keys, key->key);

	if (!found || (!found->out && !found->ended))
		return key_close(port, key);
	if (found->out)
		entry_close(found->out->exports, found->index);
	ripc__shm_point("hand_closed");
	if (!handed_enter(port, found))
		return key_close(port, key);
	ripc__map_remove(&port->dev.keys, key->key);
	found->cookie = cookie;
	if (found->out) {
		found->out->refs++; /* the link stays: its end shows the partner's */
		found->out->exports->n_handed++;
	}
	ripc__shm_clock_start(port);
	ripc__shm_point("handed");
	return -EINPROGRESS;
}

/* A closed key is out of reach at once, except one that is handed over. */
int ripc__shm_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	RIPC__HOLD_CANCEL;

	return how == RIPC_CLOSE_HAND ? key_hand(port, key, cookie) : key_close(port, key);
}

bool ripc__shm_any_home(struct shm_port *port)
{
	bool any = false;

	ripc__mutex_lock(&port->handed_lock);
	list_for_each(node, &port->handed) {
		const struct shm_key *key = list_entry(node, struct shm_key, node);

		any |= !is_mapped(key) && !key->lingers;
	}
	ripc__mutex_unlock(&port->handed_lock);
	return any;
}

static void handed_free(struct shm_port *port, struct shm_key *key)
{
	struct shm_route route = {key->out};
	bool left = is_mapped(key) || is_left(key), had_entry = !key->ended;

	ripc__mutex_lock(&port->handed_lock);
	list_remove(&key->node);
	ripc__mutex_unlock(&port->handed_lock);
	if (had_entry) {
		entry_free(key->out->exports, key->index);
		key->out->exports->n_handed--;
	}
	if (key->out)
		ripc__shm_route_close(port, &route);
	key_free(port, key, left);
}

/* False: not now. */
static bool take_back(struct shm_out *out, uint32_t at)
{
	if (ripc__shm_send_memory(out->watch.fd, SHM_SLAB, at, 0, -1))
		return false;
	out->exports->slabs[at].memory.id = 0;
	ripc__shm_point("slab_trimmed");
	out->exports->last_serial++;
	return true;
}

/*
 * We wait for leases of this memory. Partners that have it, but nothing of it mapped, may have
 * passed it on to others that do not read it either: they release it, and all their leases end.
 */
static void take_back_unread(struct shm_port *port, uint64_t id)
{
	struct shm_out *out;
	uint32_t next = 0;

	while ((out = ripc__map_next(&port->outs, &next))) {
		for (; out; out = out->next) {
			int at = out->exports ? find_slab(out->exports, id) : -ENOENT;

			if (at >= 0 && out->exports->slabs[at].n_keys == 0)
				(void)take_back(out, (uint32_t)at);
		}
	}
}

/*
 * Is the memory free of readers? Another's memory is watched by its owner, to which we report
 * that others may read on. The end of a lease raises no event: the clock makes us look again.
 */
static bool is_home(struct shm_port *port, struct shm_key *key)
{
	bool lingers;

	if (is_mapped(key) || (key->lingers && !port->look_leases))
		return false;
	tell_spread(port, key);
	lingers = is_left(key) && !key->import && ripc__is_leased(key->memory.fd);
	ripc__mutex_lock(&port->handed_lock);
	key->lingers = lingers;
	ripc__mutex_unlock(&port->handed_lock);
	if (lingers)
		take_back_unread(port, key->memory.id);
	return !lingers;
}

uint32_t ripc__shm_come_home(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	bool look_again = false;
	uint32_t filled = 0;

	list_for_each_safe(node, &port->handed) {
		struct shm_key *key = list_entry(node, struct shm_key, node);

		look_again |= filled == n;
		if (filled == n || !is_home(port, key))
			continue;
		ripc__shm_point("came_home");
		events[filled++] = (struct ripc__event){.kind = RIPC_EV_FENCED,
			.cookie = key->cookie};
		handed_free(port, key);
		ripc__shm_point("home_settled");
	}
	port->look_leases &= look_again;
	port->freed |= filled > 0;
	return filled;
}

void ripc__shm_handed_free(struct shm_port *port)
{
	while (!list_empty(&port->handed))
		handed_free(port, list_entry(port->handed.next, struct shm_key, node));
}

void ripc__shm_keys_free(struct shm_port *port)
{
	struct shm_key *key;
	uint32_t at = 0;

	while ((key = ripc__map_next(&port->dev.keys, &at)))
		key_free(port, key, key->ended);
	ripc__map_free(&port->dev.keys);
}

void ripc__shm_exports_end(struct shm_out *out)
{
	struct shm_exports *exports = out->exports;

	if (!exports)
		return;
	for (uint32_t i = 0; i < SHM_KEYS; i++) {
		uint64_t number = atomic_load(&exports->table->entries[i].key);
		struct shm_key *key = number ? ripc__map_get(&out->port->dev.keys, number) : NULL;

		if (!key)
			continue;
		entry_close(exports, i);
		tell_spread(out->port, key);
		key->ended = is_mapped(key) || is_left(key);
		key->out = NULL;
	}
	/* From then on the claims are not read any more. */
	ripc__mutex_lock(&out->port->handed_lock);
	list_for_each(node, &out->port->handed) {
		struct shm_key *key = list_entry(node, struct shm_key, node);

		key->ended |= key->out == out;
	}
	ripc__mutex_unlock(&out->port->handed_lock);
	ripc__shm_point("keys_ended");
	ripc__shm_segment_unmap(exports->claims, SHM_CLAIMS_LEN);
	ripc__shm_segment_unmap(exports->table, SHM_TABLE_LEN);
	close(exports->claims_fd);
	free(exports);
	out->exports = NULL;
	out->port->dev.n_exports--;
}

/* The descriptor is the pool's, and valid as long as the memory is shared. */
static const struct ripc__shared *exported_to(const struct shm_out *out, int fd)
{
	const struct ripc__host *host = &out->port->dev.host;

	for (uint32_t i = 0; out->exports && i < SHM_SLABS; i++) {
		const struct ripc__shared *memory = &out->exports->slabs[i].memory;

		if (memory->id && !shm_import_is_id(memory->id) &&
				host->is_shared(host->arg, memory) &&
				ripc__is_same_file(memory->fd, fd))
			return memory;
	}
	return NULL;
}

const struct ripc__shared *ripc__shm_exported(struct shm_port *port, int fd)
{
	const struct ripc__shared *found = NULL;
	struct shm_out *out;
	uint32_t at = 0;

	while (!found && (out = ripc__map_next(&port->outs, &at))) {
		for (; out && !found; out = out->next)
			found = exported_to(out, fd);
	}
	return found;
}

static bool is_there(const struct shm_port *port, const struct ripc__shared *memory)
{
	const struct ripc__host *host = &port->dev.host;

	return shm_import_is_id(memory->id) ? shm_import_is_there(port, memory) :
		host->is_shared(host->arg, memory);
}

void ripc__shm_exports_trim(struct shm_out *out)
{
	const struct shm_exports *exports = out->exports;
	bool done = true;

	for (uint32_t i = 0; exports && i < SHM_SLABS; i++) {
		if (exports->slabs[i].memory.id && !is_there(out->port, &exports->slabs[i].memory))
			done &= take_back(out, i);
	}
	out->port->untrimmed |= !done;
	if (!done)
		ripc__shm_clock_start(out->port);
}
