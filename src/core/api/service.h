/* SPDX-License-Identifier: BSD-3-Clause */
/* Services: registration, draining, the end. */
#ifndef RIPC_SERVICE_H
#define RIPC_SERVICE_H

#include <stdint.h>

#include "core/objects.h"

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
