/* SPDX-License-Identifier: BSD-3-Clause */
/* An epoll set with a timer: the one descriptor on which a port with several descriptors sleeps. */
#ifndef RIPC_SLEEPER_H
#define RIPC_SLEEPER_H

#include <stddef.h>
#include <stdint.h>

struct ripc__sleeper {
	int epoll_fd, timer_fd; /* events name their descriptor (data.fd) */
	uint64_t set_us;        /* when the timer fires; UINT64_MAX: never; 0: it has fired */
};

/* Adds a descriptor to an epoll set, whose events name it. 0 or a negative errno. */
int ripc__epoll_watch(int epoll_fd, int fd);
/* Opens the set, with the timer and these descriptors in it. 0 or a negative errno. */
int ripc__sleeper_open(struct ripc__sleeper *sleeper, const int *fds, size_t n);
void ripc__sleeper_close(struct ripc__sleeper *sleeper);
/* Sets the timer to a time of CLOCK_MONOTONIC; costs nothing if it is set to that already. */
void ripc__sleeper_set(struct ripc__sleeper *sleeper, uint64_t at_us);
/* Sets the timer to so long from now; 0: never. */
void ripc__sleeper_set_after(struct ripc__sleeper *sleeper, uint32_t us);

#endif
