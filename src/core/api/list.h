/* SPDX-License-Identifier: BSD-3-Clause */
/* Listing services. */
#ifndef RIPC_API_LIST_H
#define RIPC_API_LIST_H

struct ripc_context;

/* The context is being closed: frees listers that are open, and what is left of walks. */
void ripc__listers_free(struct ripc_context *ctx);

#endif
