/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory shared by descriptor. Owns nothing. Whoever gets a descriptor could reopen it with more
 * rights than it bears, so rights are seals, set when the owner has its mapping. Without the seal
 * against shrinking, a partner could cut the memory off under us, which is SIGBUS.
 */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util/mapping.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

#define POPULATE_MAX (512u << 10) /* bytes that are mapped page by page at once: not slabs */

/* Slabs have large pages, which can only be mapped as such at a multiple of their length. */
static int map(int fd, size_t len, int protection, void **memory)
{
	int flags = MAP_SHARED | (len <= POPULATE_MAX ? MAP_POPULATE : 0), error = 0;
	uint8_t *reserved = NULL;
	void *at;

	if (len >= LARGE_PAGE)
		error = ripc__reserve(len, LARGE_PAGE, &reserved);
	if (error)
		return error;
	at = mmap(reserved, len, protection, reserved ? flags | MAP_FIXED : flags, fd, 0);
	if (at == MAP_FAILED) {
		error = -errno;
		if (reserved)
			munmap(reserved, len);
		return error;
	}
	/* A forked child would keep the memory alive, and could write. */
	if (madvise(at, len, MADV_DONTFORK)) {
		munmap(at, len);
		return -ENOMEM;
	}
	*memory = at;
	return 0;
}

int ripc__shm_segment_make(size_t len, bool read_only, void **memory, int *fd_out)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int fd = ripc__memfd(), error = 0;
	void *at = NULL;

	if (fd < 0)
		return fd;
	/* Memory is taken here, where its lack is an error, and not at a first touch. */
	if (ftruncate(fd, (off_t)len) || fallocate(fd, 0, 0, (off_t)len))
		error = errno == ENOSPC ? -ENOMEM : -errno;
	error = error ? error : map(fd, len, PROT_READ | PROT_WRITE, &at);
	if (error)
		goto close_fd;
	if (fcntl(fd, F_ADD_SEALS, read_only ? seals | F_SEAL_FUTURE_WRITE : seals)) {
		error = -errno;
		goto unmap;
	}
	*memory = at;
	*fd_out = fd;
	return 0;
unmap:
	munmap(at, len);
close_fd:
	close(fd);
	return error;
}

int ripc__shm_segment_map(int fd, size_t len, bool writable, void **memory)
{
	struct stat status;
	struct statfs system;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) || fstatfs(fd, &system))
		return -EBADMSG;
	/* Memory of huge pages (MFD_HUGETLB) can be lacking when it is touched. */
	if (system.f_type != TMPFS_MAGIC || (size_t)status.st_size != len)
		return -EBADMSG;
	return map(fd, len, writable ? PROT_READ | PROT_WRITE : PROT_READ, memory);
}

void ripc__shm_segment_unmap(void *memory, size_t len)
{
	munmap(memory, len);
}
