/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holding off the cancellation of the calling thread (pthread_cancel()). A thread that is cancelled
 * inside the library leaves locks taken and the ports without a reader. A request to cancel takes
 * effect only at a cancellation point (pthreads(7)). Cancellation is therefore held off around
 * cancellation points, not in each call: a short message over shm meets none. syscall(), by which
 * thread.c sleeps, is no cancellation point. These functions can be used in signal handlers.
 */
#ifndef RIPC_CANCEL_H
#define RIPC_CANCEL_H

#include <pthread.h>

static inline int ripc__cancel_hold(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void ripc__cancel_release(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/* Among the declarations of a block: cancellation is held off until the block ends. Nests. */
#define RIPC__HOLD_CANCEL \
	__attribute__((cleanup(ripc__cancel_release), unused)) const int ripc__cancel_before = \
		ripc__cancel_hold()

#endif
