/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which processes shared memory is for: peers of other users and groups connect, honest ones and
 * those that only appear to be in a group.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/util/kernel.h"
#include "backends/shm/internal.h"
#include "suite.h"

#define USER   64001u /* of the peer */
#define GROUP  64100u /* listed */
#define OTHER  64200u /* not listed */
#define MANY   200    /* more groups than fit where most fit */

struct peer {
	uid_t uid;
	gid_t gid, saved_gid;
	int n_groups;
	gid_t groups[MANY];
	bool claims;       /* GROUP is its number in a user namespace of its own */
	bool leaves;       /* all groups, once it has connected */
};

static const char *uids, *gids;

static void no_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *get_option(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "shm.uids") == 0 ? uids : strcmp(name, "shm.gids") == 0 ? gids : NULL;
}

static const struct ripc__host host = {.log = no_log, .option = get_option};

static void skip_unless_root(void)
{
	if (geteuid() == 0)
		return;
	puts("skipped: to be another user needs root");
	exit(0);
}

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	close(fd);
	return n < 0;
}

/* In a user namespace of its own GROUP is the number of its own group. */
static int claim(const struct peer *peer)
{
	char uid_map[64], gid_map[64];

	snprintf(uid_map, sizeof(uid_map), "0 %u 1\n", peer->uid);
	snprintf(gid_map, sizeof(gid_map), "%u %u 1\n", GROUP, peer->gid);
	return unshare(CLONE_NEWUSER) || write_to("/proc/self/setgroups", "deny") ||
		write_to("/proc/self/uid_map", uid_map) ||
		write_to("/proc/self/gid_map", gid_map) || getegid() != GROUP;
}

static int become(const struct peer *peer)
{
	return setgroups((size_t)peer->n_groups, peer->groups) ||
		setresgid(peer->gid, peer->gid, peer->saved_gid ? peer->saved_gid : peer->gid) ||
		setresuid(peer->uid, peer->uid, peer->uid) || (peer->claims && claim(peer));
}

/* Connects as that peer to a socket of ours. Ends with 77 if it cannot be that peer. */
static void run(const struct peer *peer, const struct sockaddr_un *at, socklen_t len)
{
	int fd;

	if (become(peer))
		_exit(77);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)at, len))
		_exit(1);
	_exit(recv(fd, &(char){0}, 1, 0) != 0);
}

/* The same, but root as long as it connects, and not in the group afterwards. */
static void run_leaving(struct peer *peer, const struct sockaddr_un *at, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (setgroups((size_t)peer->n_groups, peer->groups) || setegid(peer->gid) ||
			seteuid(peer->uid))
		_exit(77);
	if (connect(fd, (const struct sockaddr *)at, len) || seteuid(0) || setgroups(0, NULL))
		_exit(1);
	_exit(recv(fd, &(char){0}, 1, 0) != 0);
}

/* A connection from that peer; *child: its process. */
static int connection_from(struct peer *peer, pid_t *child)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(at);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fd = -1;
	int status = 0;

	ck_assert_int_eq(bind(listener, (struct sockaddr *)&at, sizeof(at.sun_family)), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	getsockname(listener, (struct sockaddr *)&at, &len);
	*child = fork();
	if (*child == 0 && peer->leaves)
		run_leaving(peer, &at, len);
	else if (*child == 0)
		run(peer, &at, len);
	while (fd < 0 && waitpid(*child, &status, WNOHANG) == 0) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		sched_yield();
	}
	close(listener);
	if (fd >= 0)
		return fd;
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 77, "status %d", status);
	puts("skipped: no such peer can be made here (user namespaces)");
	exit(0);
}

static bool admits(const char *users, const char *groups, struct peer *peer)
{
	struct shm_admission admission;
	struct ucred who;
	bool admitted;
	pid_t child;
	int fd = connection_from(peer, &child);

	uids = users;
	gids = groups;
	ck_assert_int_eq(ripc__shm_admission_read(&host, &admission), 0);
	ck_assert_int_eq(ripc__shm_who(fd, &who), 0);
	admitted = ripc__shm_admits(&admission, fd, &who);
	close(fd);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	return admitted;
}

START_TEST(admits__users_by_number)
{
	struct peer peer = {.uid = USER, .gid = GROUP};
	struct peer ours = {.uid = 0, .gid = GROUP};

	skip_unless_root();
	ck_assert(admits(NULL, NULL, &ours));
	ck_assert(!admits(NULL, NULL, &peer));
	ck_assert(admits("any", NULL, &peer));
	ck_assert(admits("1:64001", NULL, &peer));
	ck_assert(!admits("64002", NULL, &peer));
	/* The number of its group is no user's. */
	ck_assert(!admits("64100", NULL, &peer));
}
END_TEST

START_TEST(admits__groups_by_number)
{
	struct peer first = {.uid = USER, .gid = GROUP};
	struct peer further = {.uid = USER, .gid = OTHER, .n_groups = 3,
		.groups = {1, GROUP, OTHER + 1}};

	skip_unless_root();
	ck_assert(admits(NULL, "64100", &first));
	ck_assert(admits(NULL, "1000:64100", &first));
	ck_assert(admits(NULL, "64100", &further));
	ck_assert(!admits(NULL, "64300", &first));
	ck_assert(!admits(NULL, "64300", &further));
	/* Its own number as a user is no group's. */
	ck_assert(!admits(NULL, "64001", &first));
	/* One of the two options is enough. */
	ck_assert(admits("5", "64100", &further));
	ck_assert(admits("64001", "64300", &further));
}
END_TEST

START_TEST(admits__one_of_many_groups)
{
	struct peer peer = {.uid = USER, .gid = OTHER, .n_groups = MANY};

	skip_unless_root();
	for (int i = 0; i < MANY; i++)
		peer.groups[i] = GROUP - (MANY - 1) + (gid_t)i;
	ck_assert(admits(NULL, "64100", &peer));
	ck_assert(!admits(NULL, "64300", &peer));
}
END_TEST

/* Its saved group is one that it could take, and has not. */
START_TEST(admits__no_group_that_is_only_saved)
{
	struct peer peer = {.uid = USER, .gid = OTHER, .saved_gid = GROUP};

	skip_unless_root();
	ck_assert(!admits(NULL, "64100", &peer));
}
END_TEST

/* A process that may make user namespaces chooses the numbers in them. */
START_TEST(admits__no_group_of_another_user_namespace)
{
	struct peer peer = {.uid = USER, .gid = OTHER, .claims = true};

	skip_unless_root();
	ck_assert(!admits(NULL, "64100", &peer));
}
END_TEST

/* As for the user: what it was when it connected. */
START_TEST(admits__by_the_groups_at_connect)
{
	struct peer peer = {.uid = USER, .gid = OTHER, .n_groups = 1, .groups = {GROUP},
		.leaves = true};

	skip_unless_root();
	ck_assert(admits(NULL, "64100", &peer));
}
END_TEST

/* In a user namespace without that group its number, and all others' there, is 65534. */
START_TEST(admits__not_the_overflow_gid_of_a_namespace)
{
	struct peer peer = {.uid = USER, .gid = GROUP};
	struct ucred who = {.uid = USER, .gid = 65534};
	struct shm_admission admission;
	pid_t child, checker;
	int fd, status;

	skip_unless_root();
	fd = connection_from(&peer, &child);
	gids = "65534";
	ck_assert_int_eq(ripc__shm_admission_read(&host, &admission), 0);
	ck_assert(ripc__shm_admits(&admission, fd, &who));
	checker = fork();
	if (checker == 0) {
		if (unshare(CLONE_NEWUSER) || write_to("/proc/self/uid_map", "0 0 1\n") ||
				write_to("/proc/self/setgroups", "deny") ||
				write_to("/proc/self/gid_map", "0 0 1\n"))
			_exit(77);
		_exit(ripc__shm_admits(&admission, fd, &who));
	}
	close(fd);
	ck_assert_int_eq(waitpid(checker, &status, 0), checker);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	if (WEXITSTATUS(status) == 77)
		puts("skipped: no user namespaces");
	else
		ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(read__names)
{
	struct shm_admission admission;

	uids = "7:root";
	gids = "root:8";
	ck_assert_int_eq(ripc__shm_admission_read(&host, &admission), 0);
	ck_assert_uint_eq(admission.uids.n, 2);
	ck_assert_uint_eq(admission.uids.ids[0], 7);
	ck_assert_uint_eq(admission.uids.ids[1], 0);
	ck_assert_uint_eq(admission.gids.n, 2);
	ck_assert_uint_eq(admission.gids.ids[0], 0);
	ck_assert_uint_eq(admission.gids.ids[1], 8);
	ck_assert(!admission.all);
	gids = NULL;
	uids = "any";
	ck_assert_int_eq(ripc__shm_admission_read(&host, &admission), 0);
	ck_assert(admission.all);
	ck_assert_uint_eq(admission.uids.n + admission.gids.n, 0);
}
END_TEST

int main(void)
{
	int n_groups = kernel_runs(kernel_lacks_peer_groups(), "further groups of a peer", 1);
	const struct suite_loop loops[] = {
		{ admits__users_by_number, 1 },
		{ admits__groups_by_number, n_groups },
		{ admits__one_of_many_groups, n_groups },
		{ admits__no_group_that_is_only_saved, 1 },
		{ admits__no_group_of_another_user_namespace, 1 },
		{ admits__by_the_groups_at_connect, n_groups },
		{ admits__not_the_overflow_gid_of_a_namespace, n_groups },
		{ read__names, 1 },
		{ NULL, 0 },
	};

	return suite_run_loops("shm_admission", loops);
}
