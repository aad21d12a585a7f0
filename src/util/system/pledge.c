/* SPDX-License-Identifier: BSD-3-Clause */
/* Record locks as signs of life. Keeps no state. */
#include "util/system/pledge.h"

#include <errno.h>
#include <fcntl.h>

static int byte_lock(int fd, off_t at)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(fd, F_SETLK, &lock) ? -errno : 0;
}

static bool byte_is_locked(int fd, off_t at)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK;
}

int ripc__pledge(int fd)
{
	return byte_lock(fd, 0);
}

bool ripc__is_pledged(int fd)
{
	return byte_is_locked(fd, 0);
}

int ripc__pledge_second(int fd)
{
	return byte_lock(fd, 1);
}

bool ripc__is_pledged_second(int fd)
{
	return byte_is_locked(fd, 1);
}
