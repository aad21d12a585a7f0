/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's configuration: what the caller and the environment say, taken and checked. */
#ifndef RIPC_CONFIG_H
#define RIPC_CONFIG_H

struct ripc_config;
struct ripc_context;

/*
 * Copies cfg (NULL: defaults) into ctx->cfg, with values of the environment in its place. -EINVAL:
 * cfg is no configuration (logged, unless its size is wrong); -E2BIG: cfg has more than the library
 * knows; -ENOMEM. Values that were taken before a failure belong to the context all the same.
 */
int ripc__config_take(struct ripc_context *ctx, const struct ripc_config *cfg);
/* Checks each word of the configuration. -EINVAL: some are unknown; each of them was logged. */
int ripc__config_check(struct ripc_context *ctx);
/* For struct ripc__host.option. arg: the context. */
const char *ripc__config_option(void *arg, const char *name);

#endif
