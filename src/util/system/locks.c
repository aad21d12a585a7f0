/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared locks as leases. Keeps no state.
 *
 * Design notes. A lock of flock(2) belongs to the open file of one open(2), and to all copies of
 * that descriptor: a lease is opened anew, hence the file's own descriptors have no part in it.
 * Record locks (locks.h) belong to a process, and cannot be sent along.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "locks.h"

int ripc__lease_make(int fd)
{
	char path[32];
	int lease;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	lease = open(path, O_RDONLY | O_CLOEXEC);
	if (lease < 0)
		return -errno;
	/* If another file system is at /proc, the path leads to another file. */
	if (ripc__is_same_file(fd, lease) && flock(lease, LOCK_SH | LOCK_NB) == 0)
		return lease;
	close(lease);
	return -EAGAIN;
}

void ripc__lease_end(int lease)
{
	flock(lease, LOCK_UN);
	close(lease);
}

bool ripc__is_leased(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB))
		return true;
	flock(fd, LOCK_UN);
	return false;
}

/* The kernel may reuse the number of a file that is gone, but with another time. */
bool ripc__is_same_file(int fd, int other)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino && a.st_size == b.st_size &&
		a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

/* ---- pledge ------------------------------------------------------------------------------ */

int ripc__pledge(int fd, enum ripc__pledge which)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};

	return fcntl(fd, F_SETLK, &lock) ? -errno : 0;
}

bool ripc__is_pledged(int fd, enum ripc__pledge which)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = which, .l_len = 1};

	return fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK;
}
