/* SPDX-License-Identifier: BSD-3-Clause */
/* Eventfds that end a sleep. Neither function needs a lock; both work in a signal handler. */
#ifndef RIPC_SYSTEM_KICK_H
#define RIPC_SYSTEM_KICK_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#include "util/system/cancel.h"

/* Makes an eventfd readable. */
static inline void ripc__kick(int fd)
{
	RIPC__HOLD_CANCEL;
	uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Makes an eventfd, or a timerfd, unreadable. */
static inline void ripc__kick_drain(int fd)
{
	RIPC__HOLD_CANCEL;
	uint64_t count;

	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

#endif
