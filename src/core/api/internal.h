/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of core/api share. No other room includes them. */
#ifndef RIPC_API_INTERNAL_H
#define RIPC_API_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/objects.h"

/* ---- list -------------------------------------------------------------------------------- */

/* Listing services. */

/* The context is being closed: frees open listers, and the remains of walks. */
void ripc__listers_free(struct ripc_context *ctx);

/* ---- service ----------------------------------------------------------------------------- */

/* Services: registration, draining, the end. */

/* Another registration keeps the service's ID: the service drains, and its owner is notified. */
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

#endif
