/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread, which does the work while no call does. */
#ifndef RIPC_THREAD_H
#define RIPC_THREAD_H

#include <pthread.h>

struct ripc_context;

/* Makes a thread that takes no signals. 0, or a positive errno. */
int ripc__thread_make(pthread_t *thread, void *(*begin)(void *arg), void *arg);

int ripc__thread_start(struct ripc_context *ctx);
void ripc__thread_end(struct ripc_context *ctx);

#endif
