/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mapping, faulting in and measuring memory, for the pool. This file owns nothing. Memory that will
 * not be shared has no descriptor, because descriptors are few.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "util/system/mapping.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

static size_t page_len(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

size_t ripc__memory_round(size_t len)
{
	size_t page = page_len(), rounded = (len + page - 1) & ~(page - 1);

	return rounded < len ? SIZE_MAX & ~(page - 1) : rounded;
}

/* ---- mapping ----------------------------------------------------------------------------- */

/* Opens a memfd. -1: there is none. Then the memory is of the same kind, but cannot be shared. */
static int open_memfd(size_t len)
{
	int fd = ripc__memfd();

	if (fd >= 0 && ripc__memfd_size(fd, len, false)) {
		close(fd);
		fd = -1;
	}
	return fd < 0 ? -1 : fd;
}

/* Maps memory at an address. Even anonymous shared memory takes a file of the system (ENFILE). */
static void *map_fixed(uint8_t *at, size_t len, int fd)
{
	const int access = PROT_READ | PROT_WRITE, nameless = MAP_FIXED | MAP_ANONYMOUS;
	void *mapped;

	if (fd >= 0)
		return mmap(at, len, access, MAP_SHARED | MAP_FIXED, fd, 0);
	mapped = mmap(at, len, access, MAP_SHARED | nameless, -1, 0);
	return mapped != MAP_FAILED || errno != ENFILE ? mapped :
		mmap(at, len, access, MAP_PRIVATE | nameless, -1, 0);
}

static int map_over(uint8_t *at, size_t len, int fd)
{
	void *mapped = map_fixed(at, len, fd);

	if (mapped == MAP_FAILED || madvise(at, len, MADV_DONTFORK) < 0)
		return -errno;
	return 0;
}

static int map_aligned(size_t len, size_t align, int fd, void **memory)
{
	uint8_t *at = NULL;
	int error = ripc__reserve(len, align, &at);

	if (error)
		return error;
	error = map_over(at, len, fd);
	if (error) {
		munmap(at, len);
		return error;
	}
	/* Before Linux 6.1 only this gives large pages, and only if the system allows it. */
	if (len >= align)
		(void)madvise(at, len, MADV_HUGEPAGE);
	*memory = at;
	return 0;
}

int ripc__memory_map(size_t len, size_t align, void **memory)
{
	return len > PTRDIFF_MAX ? -ENOMEM : map_aligned(len, align, -1, memory);
}

/*
 * Lets a child of fork() find zeros. These zeros show the child that a message is its parent's
 * (ripc_msg_free()). If the kernel cannot clear the memory, the child does not get the mapping.
 */
static int keep_from_children(uint8_t *at, size_t len)
{
	if (madvise(at, len, MADV_WIPEONFORK) == 0 && ripc__memory_heeds_advice(at))
		return 0;
	return madvise(at, len, MADV_DONTFORK);
}

int ripc__memory_map_private(size_t len, size_t align, void **memory)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	uint8_t *at = NULL;
	int error = ripc__reserve(len, align, &at);

	if (error)
		return error;
	if (mmap(at, len, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ||
			keep_from_children(at, len)) {
		error = -errno;
		munmap(at, len);
		return error;
	}
	(void)madvise(at, len, MADV_NOHUGEPAGE); /* the pool takes memory in steps (pool.c) */
	*memory = at;
	return 0;
}

/*
 * LeakSanitizer, in programs that have it. LeakSanitizer finds pointers only in registered
 * mappings: without them it would report allocations of a context with keys as leaks.
 */
__attribute__((weak)) void __lsan_register_root_region(const void *memory, size_t len);
__attribute__((weak)) void __lsan_unregister_root_region(const void *memory, size_t len);

int ripc__memory_map_secret(size_t len, size_t align, void **memory)
{
	int error = ripc__memory_map_private(len, align, memory);

	if (error)
		return error;
	(void)madvise(*memory, len, MADV_DONTDUMP);
	if (__lsan_register_root_region)
		__lsan_register_root_region(*memory, len);
	return 0;
}

void ripc__memory_unmap_secret(void *memory, size_t len)
{
	if (__lsan_unregister_root_region)
		__lsan_unregister_root_region(memory, len);
	ripc__memory_unmap(memory, len);
}

int ripc__memory_map_shared(size_t len, size_t align, void **memory, int *fd)
{
	int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int made = len > PTRDIFF_MAX ? -1 : open_memfd(len);
	int error = len > PTRDIFF_MAX ? -ENOMEM : map_aligned(len, align, made, memory);

	/* The owner's mapping stays writable. */
	if (made >= 0 && (error || fcntl(made, F_ADD_SEALS, seals))) {
		close(made);
		made = -1;
	}
	if (!error)
		*fd = made;
	return error;
}

void ripc__memory_unmap(void *memory, size_t len)
{
	munmap(memory, len);
}

/* ---- faulting in ------------------------------------------------------------------------- */

bool ripc__memory_heeds_advice(void *page)
{
	return madvise(page, page_len(), -1) != 0;
}

/*
 * For kernels without MADV_POPULATE_WRITE. A write by this process would raise SIGBUS if the system
 * has no memory. Therefore the kernel writes: FUTEX_WAKE_OP adds 0 to a word, and returns EFAULT
 * where this process would die (futex(2)). The addition is atomic, because other threads may use
 * the word. Nobody waits on the word; if the application does, it gets one spurious wake-up.
 */
static int populate_by_word(uint8_t *at, size_t len)
{
	size_t page = page_len();
	uint32_t none = 0;

	for (size_t offset = 0; offset < len; offset += page) {
		if (syscall(SYS_futex, &none, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
				at + offset, FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0)) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Checks all pages with one system call. False: the result is not known. */
static bool can_populate(void *memory, size_t len)
{
	uint8_t *at = (uint8_t *)((uintptr_t)memory & ~(uintptr_t)(page_len() - 1));

	return madvise(at, (size_t)((uint8_t *)memory + len - at), MADV_POPULATE_READ) == 0 &&
		ripc__memory_heeds_advice(at);
}

/*
 * FUTEX_WAIT reads the word. If the word has another value, the call returns at once; if it has the
 * same value, the time is over. Neither needs a descriptor, a signal handler or a special right.
 */
int ripc__memory_probe(void *memory, size_t len)
{
	static const struct timespec at_once = {0};
	uintptr_t page = page_len(), end = (uintptr_t)memory + len;
	uintptr_t at = (uintptr_t)memory & ~(uintptr_t)3;

	if (can_populate(memory, len))
		return 0;
	while (at < end) {
		long error = syscall(SYS_futex, at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0x9e3779b9u,
			&at_once);

		if (error < 0 && errno == EFAULT)
			return -EFAULT;
		at = (at & -page) + page;
	}
	return 0;
}

static int populate(void *memory, size_t len)
{
	int result;

	do
		result = madvise(memory, len, MADV_POPULATE_WRITE);
	while (result < 0 && (errno == EINTR || errno == EAGAIN));
	/* The test takes 0.1 us, the shortest step 20 us: therefore no result is cached. */
	if (result == 0 && ripc__memory_heeds_advice(memory))
		return 0;
	return result == 0 || errno == EINVAL || errno == ENOSYS ?
		populate_by_word(memory, len) : -ENOMEM;
}

/*
 * Gives large pages to those parts of the memory that hold whole ones. A large page is made at
 * once, and a process that is shown it maps it at once. By default the system makes none for
 * memfds. MADV_COLLAPSE makes them whatever the settings are (madvise(2)). The advice is refused
 * for a range without any page, therefore each range gets a page first. Without free large pages
 * the memory keeps small ones.
 */
static void fault_large(uint8_t *at, size_t len)
{
	size_t head = -(uintptr_t)at & (LARGE_PAGE - 1);

	if (len < head + LARGE_PAGE)
		return;
	at += head;
	len = (len - head) & ~(LARGE_PAGE - 1);
	for (size_t offset = 0; offset < len; offset += LARGE_PAGE)
		if (populate(at + offset, page_len()))
			return;
	(void)madvise(at, len, MADV_COLLAPSE);
}

int ripc__memory_fault(void *memory, size_t len)
{
	fault_large(memory, len);
	return populate(memory, len);
}

/* ---- measuring --------------------------------------------------------------------------- */

/* Reads the file into a string of at most size - 1 bytes. */
static int read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, text, size - 1);
	close(fd);
	if (len < 0)
		return -EIO;
	text[len] = '\0';
	return 0;
}

/* For each version of control groups: the mark of a group's name, and the file of its limit. */
static const struct hierarchy {
	const char *mark; /* before the group's path */
	const char *root, *file;
} hierarchies[] = {
	{"0::", "/sys/fs/cgroup", "/memory.max"},
	{":memory:", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes"},
};

/* The limit of one control group; UINT64_MAX if it sets none. */
static uint64_t group_limit(const struct hierarchy *hierarchy, const char *group)
{
	char path[4200], text[64], *end;
	uint64_t limit;

	snprintf(path, sizeof(path), "%s%s%s", hierarchy->root, group, hierarchy->file);
	if (read_file(path, text, sizeof(text)) < 0)
		return UINT64_MAX;
	limit = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : limit; /* "max" */
}

/* The least limit of our control group and all groups above it. */
static uint64_t groups_limit(const struct hierarchy *hierarchy)
{
	char text[4096], *group, *slash;
	uint64_t least = UINT64_MAX, limit;

	if (read_file("/proc/self/cgroup", text, sizeof(text)) < 0)
		return UINT64_MAX;
	group = strstr(text, hierarchy->mark);
	if (!group)
		return UINT64_MAX;
	group += strlen(hierarchy->mark);
	group[strcspn(group, "\n")] = '\0';
	while ((slash = strrchr(group, '/'))) {
		limit = group_limit(hierarchy, group);
		least = limit < least ? limit : least;
		*slash = '\0';
	}
	limit = group_limit(hierarchy, "");
	return limit < least ? limit : least;
}

uint64_t ripc__memory_half(void)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * page_len();
	uint64_t least = machine;

	for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++) {
		uint64_t groups = groups_limit(&hierarchies[i]);

		least = groups < least ? groups : least;
	}
	return least / 2;
}
