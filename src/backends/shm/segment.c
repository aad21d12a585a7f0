/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory shared by descriptor. Owns nothing. A partner that gets a descriptor could reopen it
 * with more rights than it has: rights are therefore seals, set when the owner has its mapping.
 * Without the seal against shrinking, a partner could cut the memory off while we use it, which
 * is SIGBUS. If the file has holes, reading them would allocate memory, and be charged to us.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "internal.h"
#include "util/system/mapping.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

/*
 * populate: all pages are mapped at once. Slabs are not populated, and have large pages, which
 * can only be mapped as such at a multiple of their length.
 */
static int map(int fd, size_t len, int protection, bool populate, void **memory)
{
	int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0), error = 0;
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
	int fd = ripc__memfd(), error;
	void *at = NULL;

	if (fd < 0)
		return fd;
	/*
	 * Memory is allocated here, where its lack is an error, and not at a first touch.
	 * (Allocated but untouched memory counts as a hole: the partner that maps it looks for
	 * touched memory, too.)
	 */
	error = ripc__memfd_size(fd, len, true);
	error = error ? error : map(fd, len, PROT_READ | PROT_WRITE, true, &at);
	if (error)
		goto close_fd;
	if (lseek(fd, 0, SEEK_HOLE) < (off_t)len) /* emulators drop MAP_POPULATE */
		memset(at, 0, len);
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

/* Is the file sealed? Memory that no other process writes cannot be punched, either. */
static bool is_sealed(int fd, bool writable)
{
	int needed = F_SEAL_SHRINK | F_SEAL_GROW | (writable ? 0 : F_SEAL_FUTURE_WRITE);
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & needed) == needed;
}

/*
 * How much of the file has memory behind it, from its beginning on; -EBADMSG: it is no such
 * file. In a hole our faults would allocate memory, or kill us if there is none.
 */
static int check(int fd, size_t len, bool writable, size_t *filled)
{
	struct stat status;
	struct statfs system;
	off_t hole;

	if (!is_sealed(fd, writable) || fstat(fd, &status) || fstatfs(fd, &system))
		return -EBADMSG;
	/* Part of a page would be mapped, but not unmapped with the addresses reserved for it. */
	if (len & ((size_t)sysconf(_SC_PAGESIZE) - 1))
		return -EBADMSG;
	/* Memory of huge pages (MFD_HUGETLB) can be lacking at a touch. */
	if (system.f_type != TMPFS_MAGIC || (size_t)status.st_size != len)
		return -EBADMSG;
	hole = lseek(fd, 0, SEEK_HOLE);
	*filled = hole > 0 ? (size_t)hole : 0;
	return 0;
}

int ripc__shm_segment_map(int fd, size_t len, bool writable, void **memory)
{
	size_t filled;

	if (check(fd, len, writable, &filled) || filled < len)
		return -EBADMSG;
	return map(fd, len, writable ? PROT_READ | PROT_WRITE : PROT_READ, true, memory);
}

int ripc__shm_segment_map_filled(int fd, size_t *len, void **memory)
{
	size_t filled;
	int error = check(fd, *len, false, &filled);

	if (!error && !filled)
		error = -ENODATA;
	error = error ? error : map(fd, filled, PROT_READ, false, memory);
	if (!error)
		*len = filled;
	return error;
}

void ripc__shm_segment_unmap(void *memory, size_t len)
{
	munmap(memory, len);
}
