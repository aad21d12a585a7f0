/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory shared by descriptor: what its owner may, what others may, what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../support/util/kernel.h"
#include "../../../../support/util/process.h"
#include "backends/shm/internal.h"
#include "suite.h"
#include "util/system/mapping.h"

#define LEN 8192

/* Opens the descriptor's file anew, with all rights that can be had. */
static int reopen(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

START_TEST(segment_make__is_shared)
{
	void *own, *other;
	int fd;

	ck_assert_int_eq(ripc__shm_segment_make(LEN, false, &own, &fd), 0);
	ck_assert_int_eq(ripc__shm_segment_map(fd, LEN, true, &other), 0);
	close(fd);
	strcpy(own, "there");
	ck_assert_str_eq(other, "there");
	strcpy((char *)other + 5000, "back");
	ck_assert_str_eq((char *)own + 5000, "back");
	ripc__shm_segment_unmap(own, LEN);
	ck_assert_str_eq(other, "there");
	ripc__shm_segment_unmap(other, LEN);
}
END_TEST

START_TEST(segment_make__keeps_its_length)
{
	void *own;
	int fd;

	ck_assert_int_eq(ripc__shm_segment_make(LEN, false, &own, &fd), 0);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(ftruncate(fd, 2 * LEN), -1);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(fd);
	ripc__shm_segment_unmap(own, LEN);
}
END_TEST

/* Only the owner writes what is read-only, whatever another does with the descriptor. */
START_TEST(segment_make__read_only)
{
	void *own, *other;
	int fd, again;

	ck_assert_int_eq(ripc__shm_segment_make(LEN, true, &own, &fd), 0);
	again = reopen(fd);
	ck_assert_int_lt(ripc__shm_segment_map(fd, LEN, true, &other), 0);
	ck_assert_int_lt(again < 0 ? -1 : ripc__shm_segment_map(again, LEN, true, &other), 0);
	ck_assert_int_eq(write(again, "x", 1), -1);
	ck_assert_int_eq(ripc__shm_segment_map(fd, LEN, false, &other), 0);
	ck_assert_int_eq(mprotect(other, LEN, PROT_READ | PROT_WRITE), -1);
	strcpy(own, "mine");
	ck_assert_str_eq(other, "mine");
	ripc__shm_segment_unmap(other, LEN);
	ripc__shm_segment_unmap(own, LEN);
	close(fd);
	close(again);
}
END_TEST

START_TEST(segment_map__refuses_what_could_go_away)
{
	int plain = memfd_create("test", MFD_CLOEXEC), file = open("/proc/self/exe", O_RDONLY);
	int sealable = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), ends[2];
	void *memory = &plain;

	ck_assert_int_eq(ftruncate(plain, LEN), 0);
	ck_assert_int_eq(ftruncate(sealable, LEN), 0);
	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(ripc__shm_segment_map(plain, LEN, true, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(sealable, LEN, true, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(file, LEN, false, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(ends[0], LEN, false, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(-1, LEN, false, &memory), -EBADMSG);
	ck_assert_int_eq(pwrite(sealable, (char[LEN]){0}, LEN, 0), LEN);
	ck_assert_int_eq(fcntl(sealable, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	ck_assert_int_eq(ripc__shm_segment_map(sealable, LEN, true, &memory), -EBADMSG);
	ck_assert_int_eq(fcntl(sealable, F_ADD_SEALS, F_SEAL_GROW), 0);
	ck_assert_int_eq(ripc__shm_segment_map(sealable, LEN, false, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(sealable, 2 * LEN, true, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(sealable, LEN / 2, true, &memory), -EBADMSG);
	ck_assert_ptr_eq(memory, &plain);
	ck_assert_int_eq(ripc__shm_segment_map(sealable, LEN, true, &memory), 0);
	ripc__shm_segment_unmap(memory, LEN);
	close(plain);
	close(sealable);
	close(file);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

/* len bytes of which n pages have memory, from that numbered first on; sealed. */
static int make_holes(size_t len, size_t first, size_t n)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	for (size_t i = first; i < first + n; i++)
		ck_assert_int_eq(pwrite(fd, "x", 1, (off_t)(i * page)), 1);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
		0);
	return fd;
}

/* Nobody makes us pay for his memory. */
START_TEST(segment_map__takes_no_memory)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 16 * page;
	int empty = make_holes(all, 0, 0), late = make_holes(all, 1, 15);
	int begun = make_holes(all, 0, 3);
	struct stat status;
	size_t len = all;
	void *memory = &len;

	ck_assert_int_eq(ripc__shm_segment_map(empty, all, false, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(late, all, false, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map(begun, all, false, &memory), -EBADMSG);
	ck_assert_int_eq(ripc__shm_segment_map_filled(empty, &len, &memory), -ENODATA);
	ck_assert_int_eq(ripc__shm_segment_map_filled(late, &len, &memory), -ENODATA);
	ck_assert_int_eq(fstat(empty, &status), 0);
	ck_assert_int_eq(status.st_blocks, 0);
	ck_assert_uint_eq(len, all);
	ck_assert_ptr_eq(memory, &len);
	ck_assert_int_eq(ripc__shm_segment_map_filled(begun, &len, &memory), 0);
	ck_assert_uint_eq(len, 3 * page);
	ck_assert_int_eq(((char *)memory)[2 * page], 'x');
	/* The partner cannot make holes afterwards, either. */
	ck_assert_int_eq(fallocate(begun, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		(off_t)page), -1);
	ripc__shm_segment_unmap(memory, len);
	close(empty);
	close(late);
	close(begun);
}
END_TEST

/* No address stays reserved. */
START_TEST(segment_map__refuses_parts_of_pages)
{
	const size_t len = LARGE_PAGE + 1;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *memory = &fd;

	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	ck_assert_int_eq(fallocate(fd, 0, 0, (off_t)len), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
		0);
	ck_assert_int_eq(ripc__shm_segment_map(fd, len, false, &memory), -EBADMSG);
	ck_assert_ptr_eq(memory, &fd);
	close(fd);
}
END_TEST

/* A forked child has not got the memory. */
START_TEST(segment_make__is_not_inherited)
{
	void *own;
	int fd, status;
	pid_t child;

	ck_assert_int_eq(ripc__shm_segment_make(LEN, false, &own, &fd), 0);
	child = fork();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer would report it */
		*(volatile char *)own = 1;
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	ck_assert_int_eq(*(char *)own, 0);
	ripc__shm_segment_unmap(own, LEN);
	close(fd);
}
END_TEST

/* Aligned, so that memory with large pages can be mapped by them. */
START_TEST(segment_map__large_ones_are_aligned)
{
	void *own, *other;
	int fd;

	for (size_t len = LARGE_PAGE - LEN; len <= LARGE_PAGE + LEN; len += LEN) {
		ck_assert_int_eq(ripc__shm_segment_make(len, false, &own, &fd), 0);
		ck_assert_int_eq(ripc__shm_segment_map(fd, len, true, &other), 0);
		close(fd);
		ck_assert_uint_eq(len < LARGE_PAGE ? 0 : (uintptr_t)other % LARGE_PAGE, 0);
		strcpy((char *)own + len - 6, "there");
		ck_assert_str_eq((char *)other + len - 6, "there");
		ripc__shm_segment_unmap(own, len);
		ripc__shm_segment_unmap(other, len);
	}
}
END_TEST

START_TEST(segment_make__no_long_files)
{
	int fd = -1, before = descriptors_open();
	rlim_t limit = file_limit(LEN - 1);
	void *own = NULL;
	int error = ripc__shm_segment_make(LEN, false, &own, &fd);

	file_limit(limit);
	ck_assert_int_eq(error, -EFBIG);
	ck_assert_int_eq(descriptors_open(), before);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		segment_make__is_shared,
		segment_make__keeps_its_length,
		segment_make__read_only,
		segment_map__refuses_what_could_go_away,
		segment_map__takes_no_memory,
		segment_map__refuses_parts_of_pages,
		segment_map__large_ones_are_aligned,
		segment_make__no_long_files,
		kernel_runs(kernel_lacks_dontfork(), "segment_make__is_not_inherited", 1) ?
			segment_make__is_not_inherited : NULL,
		NULL,
	};

	return suite_run("shm_segment", tests);
}
