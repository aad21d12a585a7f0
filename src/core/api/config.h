/* SPDX-License-Identifier: BSD-3-Clause */
/* A context's configuration: what the caller and the environment say, taken and checked. */
#ifndef RIPC_CONFIG_H
#define RIPC_CONFIG_H

struct ripc_config;
struct ripc_context;

/*
 * Copies cfg (NULL: defaults) and what the environment says instead into ctx->cfg. -EINVAL: it
 * is no configuration at all (logged, unless its size is wrong); -ENOMEM. What was taken until then
 * belongs to the context all the same.
 */
int ripc__config_take(struct ripc_context *ctx, const struct ripc_config *cfg);
/* Is each word in it known? -EINVAL: no; each one that is not has been logged. */
int ripc__config_check(struct ripc_context *ctx);
/* For struct ripc__host.option. arg: the context. */
const char *ripc__config_option(void *arg, const char *name);

#endif
