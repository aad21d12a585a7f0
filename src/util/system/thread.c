/* SPDX-License-Identifier: BSD-3-Clause */
/* See thread.h. */
#include "util/system/thread.h"

#include <signal.h>

int ripc__thread_make(pthread_t *thread, void *(*begin)(void *arg), void *arg)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, NULL, begin, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
