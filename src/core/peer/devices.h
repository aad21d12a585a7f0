/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of a context, by which its peers are reached. */
#ifndef RIPC_DEVICES_H
#define RIPC_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"

struct ripc_context;

struct device {
	const struct ripc__backend *ops;
	void *port;
	struct ripc__attr attr;
	int many_fd;   /* of many.fd, since something is heard there; -1: none */
	uint8_t *blob; /* RIPC_BLOB_MAX bytes, behind the port */
	int blob_len;
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
