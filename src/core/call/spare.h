/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory for calls. */
#ifndef RIPC_CALL_SPARE_H
#define RIPC_CALL_SPARE_H

struct call;
struct ripc_context;
struct ripc_request;
struct ripc_service;

/* A call with only the fields that the application's request gives. NULL: no memory. */
struct call *ripc__call_alloc(struct ripc_service *service, const struct ripc_request *request);
void ripc__call_free(struct call *call);
/* The context is closed: frees all calls that are left. */
void ripc__calls_free(struct ripc_context *ctx);

#endif
