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
	uint8_t blob[RIPC_ADDR_MAX];
	int blob_len;
};

/* As many as can be; -ENODEV: none, -EINVAL: the configuration names one that there is not. */
int ripc__devices_open(struct ripc_context *ctx);
/* Nothing is sent, read or written by them any more, and no memory is registered with them. */
void ripc__devices_close(struct ripc_context *ctx);
/* Does the configuration name it, or none at all? */
bool ripc__backend_is_wanted(const struct ripc_context *ctx, const char *name);
/* The backend itself, where this stands for a module; NULL: the module cannot be loaded. */
const struct ripc__backend *ripc__backend_get(const struct ripc_context *ctx,
		const struct ripc__backend *ops, char why[256], char remedy[256]);

#endif
