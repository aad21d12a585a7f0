/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of core/api share: no other room includes this. */
#ifndef RIPC_API_INTERNAL_H
#define RIPC_API_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/objects.h"

struct partner;
struct ripc_config;
struct ripc_context;
struct ripc_path;

/* ---- config ------------------------------------------------------------------------------ */

/* A context's configuration: what the caller and the environment say, taken and checked. */

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

/* ---- list -------------------------------------------------------------------------------- */

/* Listing services. */

/* The context is being closed: frees listers that are open, and what is left of walks. */
void ripc__listers_free(struct ripc_context *ctx);

/* ---- others ------------------------------------------------------------------------------ */

/* Why a partner is not reached by other networks. */

/* Writes the text of ripc_path.others; none: for a service that no network leads to. */
void ripc__path_others(struct partner *partner, char *bytes, size_t size);
void ripc__path_none(struct ripc_context *ctx, uint64_t id, struct ripc_path *path);

/* ---- service ----------------------------------------------------------------------------- */

/* Services: registration, draining, the end. */

/* Begins to register. When service->publishing is false, call ripc__service_finish(). */
int ripc__service_start(struct ripc_context *ctx, uint64_t id, struct ripc_service **service);
/* The result of publishing; ends the service if it is not registered. */
int ripc__service_finish(struct ripc_service *service);
/* Another registration keeps its ID: it drains, as its owner is told. */
void ripc__service_yield(struct ripc_service *service);
int ripc__service_drain(struct ripc_service *service, int timeout_ms);
/* Calls that use the service afterwards find it closing (those that wait in it), or ended. */
void ripc__service_end(struct ripc_service *service);
/* Frees the memory of services that were ended. */
void ripc__services_free(struct ripc_context *ctx);
/* Notices of ended services that the application has. */
uint32_t ripc__notices_held(const struct ripc_context *ctx);
/* Waits until the network is done with the memory of services that were ended. */
void ripc__orphans_wait(struct ripc_context *ctx);

/* A call is going to wait in the service. */
static inline void ripc__service_get(struct ripc_service *service)
{
	service->n_waiting++;
}

/* The call has waited. */
static inline void ripc__service_put(struct ripc_service *service)
{
	service->n_waiting--;
}

#endif
