/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of a context: which backends it opens, in which order; what they grant together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/keys/sealed.h"
#include "core/objects.h"
#include "devices.h"

static int device_open(struct ripc_context *ctx, const struct ripc__backend *named)
{
	const struct ripc__backend *ops = ctx->seal ? ripc__sealed(ctx, named) : named;
	struct device *device = &ctx->peers.devices[ctx->peers.n_devices];
	int error = -ENOMEM;

	if (!ops) {
		ripc__log(ctx, RIPC_LOG_INFO, "backend %s is left out: it cannot encrypt, and this "
			"context has keys", named->name);
		return -ENODEV;
	}
	*device = (struct device){.ops = ops, .multicast_fd = -1};
	device->port = calloc(1, ops->port_size + RIPC_BLOB_MAX);
	if (!device->port)
		goto err_free;
	device->blob = (uint8_t *)device->port + ops->port_size;
	error = ops->net.open(device->port, &ctx->peers.host, &device->attr);
	if (error)
		goto err_free;
	device->blob_len = ops->net.address(device->port, device->blob);
	if (device->blob_len < 0) {
		error = device->blob_len;
		goto err_close;
	}
	if (ops->route_size > ctx->peers.route_bytes)
		ctx->peers.route_bytes = ops->route_size;
	ctx->peers.n_devices++;
	return 0;
err_close:
	ops->net.close(device->port);
err_free:
	free(device->port);
	ripc__log(ctx, RIPC_LOG_WARN, "backend %s cannot be opened: %s", ops->name,
		strerror(-error));
	return error;
}

void ripc__devices_close(struct ripc_context *ctx)
{
	while (ctx->peers.n_devices > 0) {
		struct device *device = &ctx->peers.devices[--ctx->peers.n_devices];

		device->ops->net.close(device->port);
		free(device->port);
	}
}

/* Is this name written there, in len bytes? */
static bool is_named(const char *at, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(at, name, len) == 0;
}

/* The backend of that name, which exists: config_check() has checked that. */
static const struct ripc__backend *backend_named(struct ripc_context *ctx, const char *name,
		size_t len)
{
	for (uint32_t i = 0; ctx->env.backends[i]; i++) {
		if (is_named(name, len, ctx->env.backends[i]->name))
			return ctx->env.backends[i];
	}
	return NULL;
}

bool ripc__backend_is_wanted(const struct ripc_context *ctx, const char *name)
{
	const char *at = ctx->cfg.backends;

	while (at && *at) {
		size_t len = strcspn(at, ",");

		if (is_named(at, len, name))
			return true;
		at += len + (at[len] == ',');
	}
	return !ctx->cfg.backends;
}

const struct ripc__backend *ripc__backend_get(const struct ripc_context *ctx,
		const struct ripc__backend *ops, char why[256], char remedy[256])
{
	return ctx->env.module_get ? ctx->env.module_get(ops, &ctx->peers.host, why, remedy) : ops;
}

/* Opens a device that the configuration names. */
static int device_open_named(struct ripc_context *ctx, const struct ripc__backend *ops)
{
	char why[256], remedy[256];
	const struct ripc__backend *loaded = ripc__backend_get(ctx, ops, why, remedy);

	if (loaded)
		return device_open(ctx, loaded);
	ripc__log(ctx, RIPC_LOG_WARN, "backend %s: %s", ops->name, why);
	return -ENODEV;
}

/* Does the process or the host lack something that every backend needs? */
static bool is_lack(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM;
}

static int devices_open_named(struct ripc_context *ctx)
{
	const char *at = ctx->cfg.backends;
	int error = -ENODEV;

	while (*at && ctx->peers.n_devices < 8) {
		size_t len = strcspn(at, ",");
		int last = device_open_named(ctx, backend_named(ctx, at, len));

		if (last == -EINVAL)
			return last;
		error = is_lack(error) ? error : last;
		at += len + (at[len] == ',');
	}
	return error;
}

static int devices_open_all(struct ripc_context *ctx)
{
	char why[256], remedy[256];
	int error = 0;

	for (uint32_t i = 0; ctx->env.backends[i] && ctx->peers.n_devices < 8; i++) {
		const struct ripc__backend *ops =
			ripc__backend_get(ctx, ctx->env.backends[i], why, remedy);
		int last = ops ? ops->net.probe(&ctx->peers.host, why, remedy) : -ENODEV;

		if (!last)
			last = device_open(ctx, ops);
		if (last == -EINVAL)
			return last;
		error = is_lack(error) ? error : last;
	}
	return error;
}

/*
 * Sets the payload that may be in flight to us: a quarter of the granted buffer, counted with
 * the kernel's costs for each datagram of ordinary size (protocol.md, credit).
 */
static void credit_set(struct ripc_context *ctx)
{
	ctx->peers.quota_max[SHARE_CREDIT] = 1u << 30; /* nothing bounds it: more is never used */
	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		const struct ripc__attr *attr = &ctx->peers.devices[i].attr;
		uint64_t payload = 1400;
		uint64_t credit = attr->receive_buffer / 4;

		if (attr->receive_buffer == 0)
			continue;
		credit = credit * payload / (payload + attr->datagram_overhead);
		if (credit < ctx->peers.quota_max[SHARE_CREDIT])
			ctx->peers.quota_max[SHARE_CREDIT] = credit;
	}
}

/*
 * Opens as many devices as possible; if none opens, the reason is a lack, or otherwise that of
 * the last one.
 */
int ripc__devices_open(struct ripc_context *ctx)
{
	int error = ctx->cfg.backends ? devices_open_named(ctx) : devices_open_all(ctx);

	if (error != -EINVAL && ctx->peers.n_devices > 0) {
		credit_set(ctx);
		return 0;
	}
	ripc__devices_close(ctx);
	if (error == -EINVAL || is_lack(error))
		return error;
	ripc__log(ctx, RIPC_LOG_ERROR, "no backend can run on this host: \"ripc doctor\" reports "
		"why");
	return -ENODEV;
}
