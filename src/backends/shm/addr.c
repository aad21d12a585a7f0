/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the shm backend: the host's identity (an abstract name is known within one network
 * namespace) and the random name of a port's socket.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm.h"
#include "util/bytes.h"

void ripc__shm_addr_fill(const struct shm_port *port, const uint8_t name[SHM_NAME_LEN],
		struct ripc__addr *addr)
{
	/* As the resolver's local source names this host, to which address proofs are bound. */
	static const uint8_t loopback[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	memcpy(addr->host, loopback, sizeof(loopback));
	addr->len = SHM_ADDR_LEN;
	put64(addr->blob, port->dev.host.identity);
	memcpy(addr->blob + 8, name, SHM_NAME_LEN);
}

int ripc__shm_port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct shm_port *port = state;
	struct ripc__addr addr;

	ripc__shm_addr_fill(port, port->name, &addr);
	memcpy(blob, addr.blob, SHM_ADDR_LEN);
	return SHM_ADDR_LEN;
}

int ripc__shm_addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	static const uint8_t zeros[SHM_NAME_LEN];
	const struct shm_port *port = state;

	(void)host;
	if (len != SHM_ADDR_LEN || memcmp(blob + 8, zeros, SHM_NAME_LEN) == 0)
		return -EBADMSG;
	if (get64(blob) != port->dev.host.identity)
		return -EHOSTUNREACH;
	ripc__shm_addr_fill(port, blob + 8, addr);
	return 0;
}

void ripc__shm_addr_text(const struct ripc__addr *addr, char text[64])
{
	if (addr->len == SHM_ADDR_LEN)
		snprintf(text, 64, "shm:%02x%02x%02x%02x", addr->blob[8], addr->blob[9],
			addr->blob[10], addr->blob[11]);
	else
		snprintf(text, 64, "?");
}
