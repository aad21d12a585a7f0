/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of others that is given on: slabs that we have mapped, and show to more readers.
 *
 * Design notes. Our own claim stays until all to whom we gave the memory have let go of it. So the
 * owner need not know these readers while we live. If we die, the owner cannot learn of them from
 * us. Therefore each reader has a lease: a descriptor of the slab with a lock. The kernel keeps the
 * lock from the moment when we send the lease until the last copy of the lease is closed. The owner
 * looks for leases when a process to which it gave the slab is gone, or reports that others may
 * read on (shm_claim_left()). Only the owner looks, by a descriptor that is no lease. A process in
 * between passes the report on.
 */
#include <stdlib.h>
#include <unistd.h>

#include "backends/shm/memory/segment.h"
#include "backends/shm/shm.h"
#include "util/system/lease.h"

#define PASSED_IDS (1ull << 63) /* the pool does not count so far */

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
		port->freed = true; /* others have it mapped */
	}
	free(import);
}

static bool holds(const struct shm_import *import, const void *mem, size_t len)
{
	size_t from = (size_t)((uintptr_t)mem - (uintptr_t)import->memory);

	return from < import->len && len <= import->len - from;
}

struct shm_import *ripc__shm_import_find(struct shm_port *port, const void *mem, size_t len,
		struct ripc__shared *memory)
{
	struct shm_import *found = NULL;

	list_for_each(node, &port->grips) {
		struct shm_import *import = list_entry(node, struct shm_grip, node)->import;

		if (holds(import, mem, len))
			found = import;
	}
	/* Without a link or a lease nothing tells the owner that others read it from now on. */
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

bool ripc__shm_import_is_id(uint64_t id)
{
	return id & PASSED_IDS;
}

bool ripc__shm_import_is_there(const struct shm_port *port, const struct ripc__shared *memory)
{
	list_for_each(node, &port->passed) {
		if (list_entry(node, struct shm_import, node)->id == memory->id)
			return true;
	}
	return false;
}

void ripc__shm_import_ref(struct shm_import *import)
{
	import->refs++;
	import->n_keys++;
}

void ripc__shm_import_unref(struct shm_port *port, struct shm_import *import, bool is_left)
{
	import->n_keys--;
	import->left |= is_left;
	ripc__shm_import_put(port, import);
}
