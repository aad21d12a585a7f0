/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library: the application's signals are not for them. */
#ifndef RIPC_UTIL_THREAD_H
#define RIPC_UTIL_THREAD_H

#include <pthread.h>

/* Makes a thread that has all signals blocked. 0, or a positive errno. */
int ripc__thread_make(pthread_t *thread, void *(*begin)(void *arg), void *arg);

#endif
