/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See moves.h.
 *
 * Design notes. Reads and writes by the network itself are not sealed: only the keys of memory
 * are, as they travel in packets. So reads and writes are used where the kernel keeps others out
 * (shm), or where the configuration says that nobody else is on the network. Elsewhere core sends
 * the bytes in sealed datagrams. On such a network bytes may be altered for all that this file
 * knows (RIPC_CAP_DUBIOUS): the checksum of the whole, which comes sealed, tells. Pages are given
 * away as they are only between processes of one user.
 */
#include "moves.h"

#include <stdio.h>

#include "sealed.h"
#include "sealed_port.h"
#include "util/parse.h"

static bool is_shm(const struct ripc__backend *inner)
{
	return inner->id == ripc__shm_backend.id;
}

bool ripc__sealed_trusts(const struct ripc__host *host, const struct ripc__backend *inner)
{
	bool is_trusted = false;
	char name[32];

	snprintf(name, sizeof(name), "%.15s.trusted", inner->name);
	/* The option's value has been checked. */
	(void)ripc__parse_switch(host->option(host->arg, name), &is_trusted);
	return is_trusted || is_shm(inner);
}

uint32_t ripc__sealed_caps(const struct ripc__host *host, const struct ripc__backend *inner,
		uint32_t caps)
{
	uint32_t kept = caps & (RIPC_CAP_RELIABLE | RIPC_CAP_SIZED);

	if (!ripc__sealed_trusts(host, inner))
		return kept | RIPC_CAP_INTACT;
	kept |= caps & (RIPC_CAP_READ | RIPC_CAP_WRITE | RIPC_CAP_REGISTERED | RIPC_CAP_MAP |
		RIPC_CAP_LAZY);
	if (host->option(host->arg, "shm.uids") || host->option(host->arg, "shm.gids"))
		kept &= ~(uint32_t)RIPC_CAP_MAP;
	if (!(caps & RIPC_CAP_INTACT) || !is_shm(inner))
		kept |= RIPC_CAP_DUBIOUS;
	return kept | RIPC_CAP_INTACT;
}

int ripc__sealed_reg(void *port, void *route, void *mem, size_t len, bool source, void **region)
{
	return inner_of(port)->mem.reg(inner_port(port), inner_route(route), mem, len, source,
		region);
}

void ripc__sealed_dereg(void *port, void *region)
{
	inner_of(port)->mem.dereg(inner_port(port), region);
}

int ripc__sealed_mem_open(void *port, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	return inner_of(port)->mem.open(inner_port(port), inner_route(route), mem, len, writable,
		key);
}

int ripc__sealed_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	return inner_of(port)->mem.close(inner_port(port), key, how, cookie);
}

int ripc__sealed_move(void *port, void *route, const struct ripc__move *move)
{
	return inner_of(port)->remote.move(inner_port(port), inner_route(route), move);
}

int ripc__sealed_map(void *port, void *route, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping)
{
	return inner_of(port)->remote.map(inner_port(port), inner_route(route), key, len, mapping);
}

void ripc__sealed_unmap(void *port, void *handle)
{
	inner_of(port)->remote.unmap(inner_port(port), handle);
}
