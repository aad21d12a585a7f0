/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases: how long they last, and whose they are. */
#include "util/system/locks.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "suite.h"

static int file, other;

static void set_up(void)
{
	file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	other = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(file, 0);
	ck_assert_int_ge(other, 0);
	ck_assert_int_eq(ftruncate(file, 4096), 0);
	ck_assert_int_eq(ftruncate(other, 4096), 0);
}

static void tear_down(void)
{
	close(file);
	close(other);
}

/* Also in one process, and with copies of the file's own descriptor. */
START_TEST(lease__last_copy_ends_it)
{
	int lease = ripc__lease_make(file), second = ripc__lease_make(file), copy = dup(file);
	int of_lease = dup(lease);

	ck_assert_int_ge(lease, 0);
	ck_assert_int_ge(second, 0);
	ck_assert(ripc__is_leased(file) && ripc__is_leased(copy));
	ck_assert(!ripc__is_leased(other));
	close(second);
	close(copy);
	ck_assert(ripc__is_leased(file));
	close(lease);
	ck_assert(ripc__is_leased(file));
	close(of_lease);
	ck_assert(!ripc__is_leased(file));
	ck_assert(!ripc__is_leased(file));
}
END_TEST

/* Copies of the descriptor are leases no more; a second lease stays. */
START_TEST(lease_end__with_all_copies)
{
	int lease = ripc__lease_make(file), of_lease = dup(lease);
	int second = ripc__lease_make(lease);

	ripc__lease_end(lease);
	ck_assert(ripc__is_leased(file));
	ripc__lease_end(second);
	ck_assert(!ripc__is_leased(file));
	close(of_lease);
}
END_TEST

START_TEST(lease__cannot_write)
{
	int lease = ripc__lease_make(file);

	ck_assert_int_eq(fcntl(lease, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_eq(fcntl(lease, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	ck_assert_int_lt(write(lease, "x", 1), 0);
	ck_assert_ptr_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, lease, 0), MAP_FAILED);
	close(lease);
}
END_TEST

/* In a socket it lasts as long as it is on its way. */
START_TEST(lease__on_its_way)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {"x", 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int lease = ripc__lease_make(file), ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &lease, sizeof(int));
	ck_assert_int_eq(sendmsg(ends[0], &message, 0), 1);
	close(lease);
	close(ends[0]);
	ck_assert(ripc__is_leased(file));
	close(ends[1]);
	ck_assert(!ripc__is_leased(file));
}
END_TEST

START_TEST(lease__ends_with_its_process)
{
	int said[2];
	char byte;
	pid_t child;

	ck_assert_int_eq(pipe(said), 0);
	child = fork();
	if (child == 0) {
		if (ripc__lease_make(file) < 0 || write(said[1], "l", 1) != 1)
			_exit(1);
		pause();
	}
	ck_assert_int_eq(read(said[0], &byte, 1), 1);
	ck_assert(ripc__is_leased(file));
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert(!ripc__is_leased(file));
}
END_TEST

START_TEST(lease__without_descriptors)
{
	rlim_t before = descriptors_limit(0);
	int lease = ripc__lease_make(file);

	descriptors_limit(before);
	ck_assert_int_lt(lease, 0);
	ck_assert(!ripc__is_leased(file));
}
END_TEST

START_TEST(is_same_file__of_two)
{
	int lease = ripc__lease_make(file), copy = dup(file);

	ck_assert(ripc__is_same_file(file, lease) && ripc__is_same_file(file, copy));
	ck_assert(!ripc__is_same_file(other, lease));
	ck_assert(!ripc__is_same_file(-1, -1));
	close(lease);
	close(copy);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		lease__last_copy_ends_it, lease_end__with_all_copies, lease__cannot_write,
		lease__on_its_way,
		lease__ends_with_its_process, lease__without_descriptors, is_same_file__of_two,
		NULL,
	};

	return suite_run_between("lease", tests, set_up, tear_down);
}
