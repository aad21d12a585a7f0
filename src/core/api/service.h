/* SPDX-License-Identifier: BSD-3-Clause */
/* Services: registration, draining, the end. */
#ifndef RIPC_SERVICE_H
#define RIPC_SERVICE_H

#include <stdint.h>
#include <stdlib.h>

#include "core/objects.h"

/* Begins to register. When service->publishing is false, call ripc__service_finish(). */
int ripc__service_start(struct ripc_context *ctx, uint64_t id, struct ripc_service **service);
/* The result of publishing; ends the service if it is not registered. */
int ripc__service_finish(struct ripc_service *service);
/* Another registration keeps its ID: it drains, as its owner is told. */
void ripc__service_yield(struct ripc_service *service);
int ripc__service_drain(struct ripc_service *service, int timeout_ms);
/* Only calls that wait in the service may use it afterwards: they find it closing. */
void ripc__service_end(struct ripc_service *service);
/* Waits until the network is done with the memory of services that were ended. */
void ripc__orphans_wait(struct ripc_context *ctx);

/* A call is going to wait in the service. */
static inline void ripc__service_get(struct ripc_service *service)
{
	service->n_waiting++;
}

/* The call has waited. The last one frees a service that was closed meanwhile. */
static inline void ripc__service_put(struct ripc_service *service)
{
	if (--service->n_waiting == 0 && service->ended)
		free(service);
}

#endif
