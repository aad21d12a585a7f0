/* SPDX-License-Identifier: BSD-3-Clause */
/* The local resolver source: names, who holds them, and who is believed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "core/wire/record.h"
#include "../../support/util/clock.h"
#include "../../support/util/kernel.h"
#include "sources.h"

#define MOMENT_MS 40 /* largest age of a reading */

static socklen_t local_name(struct sockaddr_un *name, unsigned int uid, uint64_t id)
{
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)sprintf(
		name->sun_path + 1, "ripc/%x/%016" PRIx64 "/0", uid, id));
}

/* A datagram to an ID's socket that no source has sent. Returns what sendmsg did. */
static ssize_t local_send_raw(unsigned int uid, uint64_t id, size_t len, int descriptor)
{
	static uint8_t bytes[4096];
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct sockaddr_un name;
	struct iovec iov = {bytes, len};
	struct msghdr message = {.msg_name = &name, .msg_namelen = local_name(&name, uid, id),
		.msg_iov = &iov, .msg_iovlen = 1};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ssize_t n;
	int error;

	if (descriptor >= 0) {
		struct cmsghdr *cmsg = &control.align;

		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &descriptor, sizeof(int));
	}
	n = sendmsg(fd, &message, 0);
	error = errno;
	close(fd);
	errno = error;
	return n;
}

static void count_ours(void *arg, uint64_t id, bool is_private)
{
	(void)is_private;
	*(int *)arg += id >= test_id(0) && id < test_id(4);
}

static void count_private(void *arg, uint64_t id, bool is_private)
{
	*(int *)arg += id == test_id(0) && is_private;
}

START_TEST(local__query_and_answer)
{
	struct side holder, asker;

	side_open(&holder, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 0);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 1);
	side_expect(&holder, "who");
	ck_assert(holder.event.local && !holder.event.group);
	expect_loopback(holder.event.host);
	ck_assert_int_eq(side_reply(&holder, "me"), 0);
	side_expect(&asker, "me");
	ck_assert(asker.event.local);
	ck_assert_int_eq(side_reply(&asker, "thanks"), 0);
	side_expect(&holder, "thanks");
	ck_assert_int_eq(side_poll(&holder) + side_poll(&asker), 0);
	side_close(&holder);
	side_close(&asker);
}
END_TEST

START_TEST(local__a_name_has_one_holder)
{
	struct side first, second;

	side_open(&first, &ripc__local_source);
	side_open(&second, &ripc__local_source);
	ck_assert_int_eq(first.ops->publish(first.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	ck_assert_int_eq(first.ops->publish(first.state, test_id(0), 1, RIPC_NAME_DISPLACE),
		-EADDRINUSE);
	ck_assert_int_eq(second.ops->publish(second.state, test_id(0), 1, RIPC_NAME_FIRST),
		-EADDRINUSE);
	first.ops->withdraw(first.state, test_id(0));
	first.ops->withdraw(first.state, test_id(0));
	ck_assert_int_eq(side_ask(&first, test_id(0), "who"), 0);
	ck_assert_int_eq(second.ops->publish(second.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	side_close(&first);
	side_close(&second);
}
END_TEST

START_TEST(local__displaced_holder_and_the_next_both_hear)
{
	struct side old, next, third;

	side_open(&old, &ripc__local_source);
	side_open(&next, &ripc__local_source);
	side_open(&third, &ripc__local_source);
	ck_assert_int_eq(old.ops->publish(old.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	ck_assert_int_eq(next.ops->publish(next.state, test_id(0), 1, RIPC_NAME_DISPLACE), 0);
	ck_assert_int_eq(side_ask(&third, test_id(0), "who"), 1);
	side_expect(&old, "who");
	ck_assert_int_eq(side_poll(&next), 0); /* asked where the other one is silent */
	ck_assert_int_eq(side_ask_again(&third, test_id(0), "who"), 2);
	side_expect(&old, "who");
	side_expect(&next, "who");
	side_close(&old);
	/* The first name is free now, but the second one's holder lives. */
	ck_assert_int_eq(third.ops->publish(third.state, test_id(0), 1, RIPC_NAME_FIRST),
		-EADDRINUSE);
	ck_assert_int_eq(side_ask(&third, test_id(0), "who"), 1);
	side_close(&next);
	ck_assert_int_eq(third.ops->publish(third.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	side_close(&third);
}
END_TEST

/* Somebody who takes all names that can be foreseen keeps nobody from registering. */
START_TEST(local__all_eight_names_are_taken)
{
	struct side sides[10], asker;

	for (int i = 0; i < 10; i++) {
		side_open(&sides[i], &ripc__local_source);
		ck_assert_int_eq(sides[i].ops->publish(sides[i].state, test_id(0), 1,
			RIPC_NAME_DISPLACE), 0);
	}
	side_open(&asker, &ripc__local_source);
	ck_assert_int_eq(side_ask_again(&asker, test_id(0), "who"), 10);
	for (int i = 0; i < 10; i++)
		side_expect(&sides[i], "who");
	for (int i = 0; i < 10; i++)
		side_close(&sides[i]);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 0);
	side_close(&asker);
}
END_TEST

START_TEST(local__private_is_found_but_listed_as_such)
{
	struct side holder, asker;
	int n = 0;

	side_open(&holder, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_PRIVATE), 0);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 1);
	side_expect(&holder, "who");
	asker.ops->list(asker.state, count_private, &n);
	ck_assert_int_eq(n, 1);
	ck_assert_int_eq(asker.ops->publish(asker.state, test_id(0), 1, RIPC_NAME_PRIVATE),
		-EADDRINUSE);
	side_close(&holder);
	side_close(&asker);
}
END_TEST

static void pipe_open(int fds[2])
{
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
}

/* Publishes in a child that then ends; its own child, if wanted, keeps the socket alive. */
static pid_t publish_and_die(uint64_t id, bool leave_child)
{
	pid_t keeper = 0, child;
	int fds[2];

	pipe_open(fds);
	child = fork();
	if (child == 0) {
		struct side side;

		side_open(&side, &ripc__local_source);
		if (side.ops->publish(side.state, id, 1, RIPC_NAME_FIRST))
			_exit(1);
		if (leave_child) {
			keeper = fork();
			while (keeper == 0)
				pause();
		}
		_exit(write(fds[1], &keeper, sizeof(keeper)) != sizeof(keeper));
	}
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], &keeper, sizeof(keeper)), sizeof(keeper));
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(fds[0]);
	return keeper;
}

START_TEST(local__nothing_is_left_after_death)
{
	struct side side;

	side_open(&side, &ripc__local_source);
	publish_and_die(test_id(0), false);
	ck_assert_int_eq(side_ask(&side, test_id(0), "who"), 0);
	ck_assert_int_eq(side.ops->publish(side.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	side_close(&side);
}
END_TEST

START_TEST(local__dead_holder_with_a_living_child_is_displaced)
{
	struct side side, asker;
	pid_t keeper;

	side_open(&side, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	keeper = publish_and_die(test_id(0), true);
	ck_assert_int_gt(keeper, 0);
	ck_assert_int_eq(side.ops->publish(side.state, test_id(0), 1, RIPC_NAME_FIRST),
		-EADDRINUSE);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 1);
	ck_assert_int_eq(side.ops->publish(side.state, test_id(0), 1, RIPC_NAME_DISPLACE), 0);
	ck_assert_int_eq(side_ask_again(&asker, test_id(0), "who"), 2);
	side_expect(&side, "who");
	kill(keeper, SIGKILL);
	side_close(&side);
	side_close(&asker);
}
END_TEST

START_TEST(local__full_queue_counts_as_sent)
{
	struct side holder, asker;
	int heard = 0;

	side_open(&holder, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	for (int i = 0; i < 3000; i++)
		ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 1);
	while (side_poll(&holder))
		heard++;
	ck_assert_int_gt(heard, 0);
	ck_assert_int_lt(heard, 3000);
	side_close(&holder);
	side_close(&asker);
}
END_TEST

START_TEST(local__a_flood_at_one_id_does_not_starve_another)
{
	struct side holder, asker;
	int polls = 0;

	side_open(&holder, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	for (int k = 0; k < 2; k++)
		ck_assert_int_eq(holder.ops->publish(holder.state, test_id(k), 1,
			RIPC_NAME_FIRST), 0);
	for (int i = 0; i < 10; i++)
		side_ask(&asker, test_id(0), "flood");
	side_ask(&asker, test_id(1), "who");
	do {
		ck_assert_int_eq(side_poll(&holder), 1);
		polls++;
	} while (holder.event.len != 3);
	ck_assert_int_le(polls, 2);
	side_close(&holder);
	side_close(&asker);
}
END_TEST

START_TEST(local__withdrawn_between_two_polls)
{
	struct side holder, asker;
	int heard = 0;

	side_open(&holder, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	for (int k = 0; k < 8; k++) {
		ck_assert_int_eq(holder.ops->publish(holder.state, test_id(k), 1,
			RIPC_NAME_FIRST), 0);
		side_ask(&asker, test_id(k), "who");
	}
	ck_assert_int_eq(side_poll(&holder), 1);
	for (int k = 0; k < 8; k++)
		holder.ops->withdraw(holder.state, test_id(k));
	while (side_poll(&holder))
		heard++;
	ck_assert_int_eq(heard, 0);
	side_close(&holder);
	side_close(&asker);
}
END_TEST

START_TEST(local__too_long_is_dropped)
{
	struct side holder;

	side_open(&holder, &ripc__local_source);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	ck_assert_int_eq(local_send_raw(getuid(), test_id(0), WIRE_RESOLVE_MAX + 1, -1),
		WIRE_RESOLVE_MAX + 1);
	ck_assert_int_eq(local_send_raw(getuid(), test_id(0), 4096, -1), 4096);
	ck_assert_int_eq(side_poll(&holder), 0);
	ck_assert_int_eq(local_send_raw(getuid(), test_id(0), WIRE_RESOLVE_MAX, -1),
		WIRE_RESOLVE_MAX);
	ck_assert_int_eq(side_poll(&holder), 1);
	ck_assert_uint_eq(holder.event.len, WIRE_RESOLVE_MAX);
	ck_assert_int_eq(side_reply(&holder, "who are you?"), -EINVAL); /* the asker has no name */
	side_close(&holder);
}
END_TEST

/* Has this process a lock on the file? Another one sees it. */
static bool is_locked(int fd)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status == 0;
}

START_TEST(local__descriptors_that_come_along_do_no_harm)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	FILE *file = tmpfile();
	struct side holder;
	int before;

	ck_assert_ptr_nonnull(file);
	ck_assert_int_eq(fcntl(fileno(file), F_SETLK, &lock), 0);
	side_open(&holder, &ripc__local_source);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	before = descriptors(false);
	for (int i = 0; i < 5; i++) {
		ssize_t n = local_send_raw(getuid(), test_id(0), 10, fileno(file));

		/* From Linux 6.16 on they are refused. */
		ck_assert(n == 10 || (n < 0 && errno == EPERM));
		side_poll(&holder);
	}
	ck_assert_int_eq(descriptors(false), before);
	ck_assert(is_locked(fileno(file)));
	side_close(&holder);
	fclose(file);
}
END_TEST

START_TEST(local__answers_go_to_abstract_names_only)
{
	struct ripc__addr to = {.len = 9, .blob = "/tmp/ripc"};
	struct side side;

	side_open(&side, &ripc__local_source);
	ck_assert_int_eq(side.ops->reply(side.state, &to, "x", 1), -EINVAL);
	to = (struct ripc__addr){.len = 0};
	ck_assert_int_eq(side.ops->reply(side.state, &to, "x", 1), -EINVAL);
	to = (struct ripc__addr){.len = 200};
	ck_assert_int_eq(side.ops->reply(side.state, &to, "x", 1), -EINVAL);
	side_close(&side);
}
END_TEST

START_TEST(local__list_sees_what_is_published)
{
	uint64_t began_ms = clock_ms();
	struct side side, other, late;
	int n = 0, again = 0;

	side_open(&side, &ripc__local_source);
	side_open(&other, &ripc__local_source);
	for (int k = 0; k < 4; k++)
		ck_assert_int_eq(side.ops->publish(side.state, test_id(k), 1, RIPC_NAME_FIRST), 0);
	ck_assert_int_eq(other.ops->list(other.state, count_ours, &n), 0);
	ck_assert_int_eq(n, 4);
	ck_assert_int_ge(side_ask(&other, 0, "all"), 4);
	for (int k = 0; k < 4; k++)
		side_expect(&side, "all");
	side.ops->withdraw(side.state, test_id(0));
	/* A recent reader does not read again; another one sees the current names. */
	other.ops->list(other.state, count_ours, &again);
	ck_assert(again == 4 || (again == 3 && clock_ms() - began_ms >= MOMENT_MS));
	side_open(&late, &ripc__local_source);
	n = 0;
	late.ops->list(late.state, count_ours, &n);
	ck_assert_int_eq(n, 3);
	side_close(&late);
	side_close(&side);
	side_close(&other);
}
END_TEST

START_TEST(local__one_descriptor_per_id_and_none_left)
{
	int before = descriptors(false), kept = descriptors(true), opened;
	struct side side;

	side_open(&side, &ripc__local_source);
	opened = descriptors(false);
	for (int k = 0; k < 50; k++)
		ck_assert_int_eq(side.ops->publish(side.state, test_id(k), 1, RIPC_NAME_FIRST), 0);
	ck_assert_int_eq(descriptors(false), opened + 50);
	ck_assert_int_eq(descriptors(true), kept);
	for (int k = 0; k < 25; k++)
		side.ops->withdraw(side.state, test_id(k));
	ck_assert_int_eq(descriptors(false), opened + 25);
	side_close(&side);
	ck_assert_int_eq(descriptors(false), before);
}
END_TEST

START_TEST(local__probe_says_what_it_finds)
{
	int before = descriptors(false);
	struct side side;

	side_init(&side, &ripc__local_source);
	strcpy(side.remedy, "untouched");
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "abstract Unix sockets"));
	ck_assert_str_eq(side.remedy, "");
	ck_assert_int_eq(descriptors(false), before);
}
END_TEST

START_TEST(open__without_descriptors_says_so_and_leaves_none)
{
	open_without_descriptors(&ripc__local_source, NULL);
}
END_TEST

/* A name of another user: whoever has bound it, nothing can be said of that ID. */
START_TEST(local__sees_what_another_user_holds)
{
	struct sockaddr_un name;
	socklen_t len = local_name(&name, getuid() + 1, test_id(0));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct side side;

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, len), 0);
	side_open(&side, &ripc__local_source);
	ck_assert_int_eq(side.ops->publish(side.state, test_id(1), 1, RIPC_NAME_FIRST), 0);
	ck_assert(side.ops->is_others(side.state, test_id(0)));
	ck_assert(!side.ops->is_others(side.state, test_id(1)));
	ck_assert(!side.ops->is_others(side.state, test_id(2)));
	side_close(&side);
	close(fd);
}
END_TEST

/* ---- as root: who is believed ------------------------------------------------------------ */

START_TEST(local__other_users_are_not_heard)
{
	uint64_t id = test_id(0); /* a child would make another one */
	struct side holder;
	int status;
	pid_t child;

	side_open(&holder, &ripc__local_source);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	child = fork();
	if (child == 0) {
		if (setuid(12345))
			_exit(2);
		_exit(local_send_raw(0, id, 10, -1) != 10);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(side_poll(&holder), 0);
	side_close(&holder);
}
END_TEST

START_TEST(local__root_is_heard_by_all)
{
	uint64_t id = test_id(0);
	int ready[2], status;
	char byte = 0;
	pid_t child;

	pipe_open(ready);
	child = fork();
	if (child == 0) {
		struct pollfd fd = {.events = POLLIN};
		struct side holder;

		if (setuid(12345))
			_exit(2);
		side_open(&holder, &ripc__local_source);
		if (holder.ops->publish(holder.state, id, 1, RIPC_NAME_FIRST))
			_exit(3);
		fd.fd = holder.ops->wait_fd(holder.state);
		if (write(ready[1], &byte, 1) != 1 || poll(&fd, 1, PATIENCE_MS) != 1)
			_exit(4);
		_exit(side_poll(&holder) != 1);
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert_int_eq(local_send_raw(12345, id, 10, -1), 10);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		local__query_and_answer,
		local__a_name_has_one_holder,
		local__displaced_holder_and_the_next_both_hear,
		local__all_eight_names_are_taken,
		local__private_is_found_but_listed_as_such,
		local__nothing_is_left_after_death,
		local__dead_holder_with_a_living_child_is_displaced,
		local__full_queue_counts_as_sent,
		local__a_flood_at_one_id_does_not_starve_another,
		local__withdrawn_between_two_polls,
		local__too_long_is_dropped,
		local__answers_go_to_abstract_names_only,
		local__list_sees_what_is_published,
		local__sees_what_another_user_holds,
		local__one_descriptor_per_id_and_none_left,
		local__probe_says_what_it_finds,
		open__without_descriptors_says_so_and_leaves_none,
	};
	TCase *tcase = tcase_create("local");

	tcase_add_checked_fixture(tcase, own_network, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, local__descriptors_that_come_along_do_no_harm, 0, kernel_runs(
		kernel_lacks_closing(), "local__descriptors_that_come_along_do_no_harm", 1));
	if (getuid() == 0) {
		tcase_add_test(tcase, local__other_users_are_not_heard);
		tcase_add_test(tcase, local__root_is_heard_by_all);
	} else {
		puts("skipped: who is believed (needs root)");
	}
	return suite_finish("local", tcase);
}
