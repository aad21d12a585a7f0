/* SPDX-License-Identifier: BSD-3-Clause */
/* Mapping, faulting in and measuring memory, with and without the system's goodwill. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "../../../support/util/process.h"
#include "core/memory/memory.h"
#include "suite.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define MIB ((size_t)1 << 20)

/* The kernel is as old as the tests want it: what it does not know is -EINVAL, or accepted. */
static bool is_old_kernel, is_emulator;

int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice)
{
	bool is_new = advice == MADV_POPULATE_WRITE || advice == MADV_COLLAPSE;

	if (is_emulator && (is_new || advice == -1))
		return 0;
	if (!is_old_kernel || !is_new)
		return __real_madvise(at, len, advice);
	errno = EINVAL;
	return -1;
}

/* Whether the kernel can read a byte there. */
static bool is_mapped(const void *at)
{
	int ends[2];
	bool mapped;

	ck_assert_int_eq(pipe(ends), 0);
	mapped = write(ends[1], at, 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return mapped;
}

static size_t resident_pages(void *memory, size_t len)
{
	unsigned char pages[1024];
	size_t n = len / (size_t)sysconf(_SC_PAGESIZE), resident = 0;

	ck_assert_uint_le(n, sizeof(pages));
	ck_assert_int_eq(mincore(memory, len, pages), 0);
	for (size_t i = 0; i < n; i++)
		resident += pages[i] & 1;
	return resident;
}

START_TEST(memory_map__aligned_zeros_without_a_descriptor)
{
	size_t page = ripc__memory_round(1);
	int before = descriptors_open();

	for (size_t len = page; len < 5 * MIB; len = ripc__memory_round(3 * len)) {
		uint8_t *memory = NULL;

		ck_assert_int_eq(ripc__memory_map(len, 2 * MIB, (void **)&memory), 0);
		ck_assert_uint_eq((uintptr_t)memory % (2 * MIB), 0);
		for (size_t i = 0; i < len; i += page)
			ck_assert_uint_eq(memory[i], 0);
		memset(memory, 0x5a, len);
		ripc__memory_unmap(memory, len);
		ck_assert(!is_mapped(memory));
	}
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

START_TEST(memory_map__child_has_no_part)
{
	int status;
	void *memory;
	pid_t child;

	ck_assert_int_eq(ripc__memory_map(2 * MIB, 2 * MIB, &memory), 0);
	ck_assert(is_mapped(memory));
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(is_mapped(memory) ? 1 : 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ripc__memory_unmap(memory, 2 * MIB);
}
END_TEST

START_TEST(memory_map__no_descriptors)
{
	rlim_t before = descriptors_limit(0);
	uint8_t *memory, *shared;
	int fd = 0;

	ck_assert_int_eq(ripc__memory_map(2 * MIB, 2 * MIB, (void **)&memory), 0);
	ck_assert_int_eq(ripc__memory_map_shared(2 * MIB, 2 * MIB, (void **)&shared, &fd), 0);
	descriptors_limit(before);
	ck_assert_int_eq(fd, -1);
	memset(shared, 0x5a, 2 * MIB);
	ripc__memory_unmap(memory, 2 * MIB);
	ripc__memory_unmap(shared, 2 * MIB);
}
END_TEST

/* The kernel ends a process that makes a longer file (SIGXFSZ). */
START_TEST(memory_map__no_long_files)
{
	int before = descriptors_open(), fd = 0, short_fd = -1;
	uint8_t *memory = NULL, *part = NULL;
	rlim_t limit = file_limit(MIB);
	int error = ripc__memory_map_shared(2 * MIB, 2 * MIB, (void **)&memory, &fd);

	error = error ? error : ripc__memory_map_shared(MIB, 2 * MIB, (void **)&part, &short_fd);
	file_limit(limit);
	ck_assert_int_eq(error, 0);
	ck_assert_int_eq(fd, -1);
	ck_assert_int_eq(descriptors_open(), before + (short_fd >= 0));
	ck_assert_uint_eq((uintptr_t)memory % (2 * MIB), 0);
	ck_assert_uint_eq(memory[MIB], 0);
	ck_assert_int_eq(ripc__memory_fault(memory, 2 * MIB), 0);
	memset(memory, 0x5a, 2 * MIB);
	ripc__memory_unmap(memory, 2 * MIB);
	ripc__memory_unmap(part, MIB);
	if (short_fd >= 0)
		close(short_fd);
}
END_TEST

START_TEST(memory_map__no_addresses)
{
	/* More than 64 bits of address can reach, and cut off more than 32 bits can. */
	const size_t too_long = (size_t)(UINT64_C(1) << 50 | UINT64_C(3) << 30);
	int before = descriptors_open();
	void *memory = NULL;

	ck_assert_int_eq(ripc__memory_map(too_long, 2 * MIB, &memory), -ENOMEM);
	ck_assert_int_lt(ripc__memory_map(SIZE_MAX - MIB + 1, 2 * MIB, &memory), 0);
	ck_assert_ptr_null(memory);
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

static void check_fault(void)
{
	uint8_t *memory;

	ck_assert_int_eq(ripc__memory_map(2 * MIB, 2 * MIB, (void **)&memory), 0);
	memory[5000] = 77;
	ck_assert_uint_lt(resident_pages(memory, MIB), 256);
	ck_assert_int_eq(ripc__memory_fault(memory, MIB), 0);
	ck_assert_uint_eq(resident_pages(memory, MIB), MIB / ripc__memory_round(1));
	ck_assert_uint_eq(memory[5000], 77);
	ck_assert_uint_eq(memory[4096], 0);
	ripc__memory_unmap(memory, 2 * MIB);
}

START_TEST(memory_fault__gives_pages_and_keeps_contents)
{
	check_fault();
}
END_TEST

START_TEST(memory_fault__gives_pages_on_an_old_kernel)
{
	is_old_kernel = true;
	check_fault();
}
END_TEST

START_TEST(memory_fault__gives_pages_where_advice_is_only_accepted)
{
	is_emulator = true;
	check_fault();
}
END_TEST

/* How many bytes of the mapping that contains at are mapped by large pages. */
static size_t large_bytes(const void *at)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long from = 0, to = 0, kib = 0, is_there = 0;
	char line[512];

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			is_there = from <= (uintptr_t)at && (uintptr_t)at < to;
		else if (is_there && sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)
			break;
	}
	fclose(maps);
	return kib * 1024;
}

/* Whether this kernel makes large pages of a memfd when it is asked. */
static bool has_large_pages(void)
{
	bool made;
	uint8_t *memory;

	ck_assert_int_eq(ripc__memory_map(2 * MIB, 2 * MIB, (void **)&memory), 0);
	memory[0] = 1;
	made = madvise(memory, 2 * MIB, MADV_COLLAPSE) == 0 && large_bytes(memory) > 0;
	ripc__memory_unmap(memory, 2 * MIB);
	return made;
}

START_TEST(memory_fault__large_pages)
{
	size_t expected = has_large_pages() ? 4 * MIB : 0, page = ripc__memory_round(1);
	size_t n_pages = 6 * MIB / page - 2;
	uint8_t *memory;

	ck_assert_int_eq(ripc__memory_map(8 * MIB, 2 * MIB, (void **)&memory), 0);
	memory[3 * MIB + 5000] = 77;
	/* Whole ones are from 2 to 6 MiB. */
	ck_assert_int_eq(ripc__memory_fault(memory + MIB + page, n_pages * page), 0);
	ck_assert_uint_eq(resident_pages(memory + 2 * MIB, 4 * MIB), 4 * MIB / page);
	ck_assert_uint_eq(large_bytes(memory), expected);
	ck_assert_uint_eq(memory[3 * MIB + 5000], 77);
	ck_assert_uint_eq(resident_pages(memory + 7 * MIB, MIB), 0);
	ripc__memory_unmap(memory, 8 * MIB);
}
END_TEST

/* Where an access would be a SIGBUS: beyond the end of what is mapped. */
static void check_fault_not_possible(void)
{
	int fd = memfd_create("empty", MFD_CLOEXEC);
	void *memory = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(ripc__memory_fault(memory, MIB), -ENOMEM);
	munmap(memory, MIB);
	close(fd);
	ck_assert_int_eq(ripc__memory_fault(memory, MIB), -ENOMEM);
}

START_TEST(memory_fault__not_possible)
{
	check_fault_not_possible();
}
END_TEST

START_TEST(memory_fault__not_possible_on_an_old_kernel)
{
	is_old_kernel = true;
	check_fault_not_possible();
}
END_TEST

START_TEST(memory_fault__not_possible_where_advice_is_only_accepted)
{
	is_emulator = true;
	check_fault_not_possible();
}
END_TEST

START_TEST(memory_half__within_the_machine)
{
	uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	ck_assert_uint_gt(ripc__memory_half(), 0);
	ck_assert_uint_le(ripc__memory_half(), machine / 2);
}
END_TEST

START_TEST(memory_round__whole_pages)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	ck_assert_uint_eq(ripc__memory_round(0), 0);
	ck_assert_uint_eq(ripc__memory_round(1), page);
	ck_assert_uint_eq(ripc__memory_round(page), page);
	ck_assert_uint_eq(ripc__memory_round(page + 1), 2 * page);
	ck_assert_uint_ge(ripc__memory_round(SIZE_MAX), SIZE_MAX - page);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		memory_map__aligned_zeros_without_a_descriptor,
		memory_map__no_descriptors, memory_map__no_long_files, memory_map__no_addresses,
		memory_fault__gives_pages_and_keeps_contents, memory_fault__large_pages,
		memory_fault__not_possible, memory_fault__gives_pages_on_an_old_kernel,
		memory_fault__not_possible_on_an_old_kernel,
		memory_fault__gives_pages_where_advice_is_only_accepted,
		memory_fault__not_possible_where_advice_is_only_accepted,
		memory_half__within_the_machine, memory_round__whole_pages,
		kernel_runs(kernel_lacks_dontfork(), "memory_map__child_has_no_part", 1) ?
			memory_map__child_has_no_part : NULL, NULL,
	};

	return suite_run("memory", tests);
}
