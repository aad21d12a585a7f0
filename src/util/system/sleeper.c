/* SPDX-License-Identifier: BSD-3-Clause */
/* The sets of sleeper.h. Owns the epoll set and the timer, none of the other descriptors. */
#include "util/system/sleeper.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

int ripc__epoll_watch(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int ripc__sleeper_open(struct ripc__sleeper *sleeper, const int *fds, size_t n)
{
	int error;

	sleeper->set_us = UINT64_MAX;
	sleeper->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (sleeper->timer_fd < 0)
		return -errno;
	sleeper->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	error = sleeper->epoll_fd < 0 ? -errno :
		ripc__epoll_watch(sleeper->epoll_fd, sleeper->timer_fd);
	for (size_t i = 0; !error && i < n; i++)
		error = ripc__epoll_watch(sleeper->epoll_fd, fds[i]);
	if (error)
		ripc__sleeper_close(sleeper);
	return error;
}

void ripc__sleeper_close(struct ripc__sleeper *sleeper)
{
	if (sleeper->epoll_fd >= 0)
		close(sleeper->epoll_fd);
	close(sleeper->timer_fd);
}

void ripc__sleeper_set(struct ripc__sleeper *sleeper, uint64_t at_us)
{
	struct itimerspec at = {0};

	if (sleeper->set_us == at_us)
		return;
	if (at_us != UINT64_MAX) {
		at.it_value.tv_sec = (time_t)(at_us / 1000000);
		at.it_value.tv_nsec = (long)(at_us % 1000000) * 1000 + 1;
	}
	timerfd_settime(sleeper->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
	sleeper->set_us = at_us;
}

void ripc__sleeper_set_after(struct ripc__sleeper *sleeper, uint32_t us)
{
	struct itimerspec at = {.it_value.tv_sec = us / 1000000,
		.it_value.tv_nsec = (long)(us % 1000000) * 1000};

	if (us == 0 && sleeper->set_us == UINT64_MAX)
		return;
	timerfd_settime(sleeper->timer_fd, 0, &at, NULL);
	sleeper->set_us = us ? 0 : UINT64_MAX;
}
