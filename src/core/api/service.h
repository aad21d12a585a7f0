/* SPDX-License-Identifier: BSD-3-Clause */
/* Services: registration, draining, the end. */
#ifndef RIPC_SERVICE_H
#define RIPC_SERVICE_H

#include <stdint.h>

struct ripc_context;
struct ripc_service;

/* Begins to register; service->publishing says how long that goes on. Then finish it. */
int ripc__service_start(struct ripc_context *ctx, uint64_t id, struct ripc_service **service);
/* The result of publishing; ends the service if it is not registered. */
int ripc__service_finish(struct ripc_service *service);
int ripc__service_drain(struct ripc_service *service, int timeout_ms);
/* Nobody may use it afterwards but calls that wait in it: they find it closing. */
void ripc__service_end(struct ripc_service *service);
/* Waits until the network is done with the memory of services that were ended. */
void ripc__orphans_wait(struct ripc_context *ctx);
/* A call that is going to wait in it, and has waited. */
void ripc__service_get(struct ripc_service *service);
void ripc__service_put(struct ripc_service *service);

#endif
