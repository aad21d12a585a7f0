/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread, which does the work while no call does. */
#ifndef RIPC_THREAD_H
#define RIPC_THREAD_H

struct ripc_context;

int ripc__thread_start(struct ripc_context *ctx);
void ripc__thread_end(struct ripc_context *ctx);

#endif
