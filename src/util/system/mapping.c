/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of memory, and reserved addresses; see mapping.h. Owns nothing. */
#include "util/system/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

int ripc__memfd(void)
{
	int fd = memfd_create("libripc", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* the kernel does not know the last flag */
		fd = memfd_create("libripc", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

bool ripc__is_over_file_limit(size_t len)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
		len > limit.rlim_cur;
}

int ripc__memfd_size(int fd, size_t len, bool takes_memory)
{
	if (ripc__is_over_file_limit(len))
		return -EFBIG;
	if (ftruncate(fd, (off_t)len) || (takes_memory && fallocate(fd, 0, 0, (off_t)len)))
		return errno == ENOSPC ? -ENOMEM : -errno;
	return 0;
}

int ripc__reserve(size_t len, size_t align, uint8_t **at)
{
	size_t head, all = len + align;
	uint8_t *start;

	if (all < len)
		return -ENOMEM;
	start = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		return -errno;
	head = -(uintptr_t)start & (align - 1);
	if (head)
		munmap(start, head);
	munmap(start + head + len, align - head);
	*at = start + head;
	return 0;
}
