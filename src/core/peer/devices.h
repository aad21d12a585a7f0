/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of a context, by which its peers are reached. */
#ifndef RIPC_DEVICES_H
#define RIPC_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "share.h"
#include "util/map.h"

struct ripc_context;

struct device {
	const struct ripc__backend *ops;
	void *port;
	struct ripc__attr attr;
	int many_fd;   /* of many.fd, since something is heard there; -1: none */
	uint8_t *blob; /* RIPC_BLOB_MAX bytes, behind the port */
	int blob_len;
};

struct ping {
	struct ping *next;
	uint64_t nonce, began_us, rtt_us;
	uint32_t n_sent;
	bool done;
};

/* What a context reaches, and by which devices. */
struct peers {
	struct ripc__host host;    /* what backends and sources get of the context */
	struct device devices[8];
	uint32_t n_devices;
	size_t route_bytes;        /* of the longest route of all devices */
	uint64_t retry_us;         /* when to try devices that failed again */
	bool any_broken;           /* a peer is broken (partner/roam.h) */
	struct ripc__map all, hosts;
	uint64_t held[SHARES], held_max[SHARES]; /* taken by all senders; the whole */
	struct ping *pings;
};

/* Opens all devices that can run; -ENODEV: none can; -EINVAL: an unknown backend is configured. */
int ripc__devices_open(struct ripc_context *ctx);
/* After this, devices send, read and write nothing, and no memory is registered with them. */
void ripc__devices_close(struct ripc_context *ctx);
/* Does the configuration name this backend, or none at all? */
bool ripc__backend_is_wanted(const struct ripc_context *ctx, const char *name);
/* The backend; if ops stands for a module, loads it. NULL: the module cannot be loaded. */
const struct ripc__backend *ripc__backend_get(const struct ripc_context *ctx,
		const struct ripc__backend *ops, char why[256], char remedy[256]);

#endif
