/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Given memory (RIPC_GIVE) and sudden death, over shared memory: a holder that is killed gives back
 * all that it held, also if a child that it has forked lives on with its descriptors, and from
 * another PID namespace; what a killed owner had given stays readable until it is freed.
 *
 * usage: faults-give holder | forked | namespace | owner
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define LEN         ((size_t)2 << 20)
#define GIFTS       5
#define ROUNDS      10
#define PATIENCE_MS 20000
#define SKIPPED     77

enum death { HOLDER, FORKED, NAMESPACE, OWNER, DEATHS };

static const char *const names[DEATHS] = {"holder", "forked", "namespace", "owner"};

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "%s: %s\n", what, ripc_strerror(error));
	exit(1);
}

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t outlived; /* bytes that those held who were killed */
};

static void end_open(struct end *end)
{
	const struct ripc_config cfg = {.size = sizeof(cfg), .backends = "shm"};

	check(ripc_open(&cfg, &end->ctx), "open");
	check(ripc_service_open(end->ctx, 0, 0, &end->svc), "service");
}

static struct ripc_stats stats_of(const struct end *end)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	check(ripc_stats_get(end->ctx, &stats), "stats");
	return stats;
}

static void give_all(const struct end *end, uint64_t to)
{
	int error = -ENOENT;

	/* A process that is silent for a second is considered gone, for another second. */
	for (int i = 0; i < 40 && error == -ENOENT; i++) {
		usleep(i ? 500000 : 0);
		error = ripc_resolve(end->ctx, to, PATIENCE_MS);
	}
	check(error, "find");
	for (int i = 0; i < GIFTS; i++) {
		struct iovec item = {.iov_len = LEN};
		const struct ripc_send send = {.size = sizeof(send), .to = to, .items = &item,
			.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_GIVE,
			.timeout_ms = PATIENCE_MS};

		check(ripc_buf_alloc(end->ctx, LEN, &item.iov_base), "buffer");
		memset(item.iov_base, i + 1, LEN);
		check(ripc_sendmsg(end->svc, &send, NULL), "give");
	}
}

static void receive_all(const struct end *end, struct ripc_msg *msgs[GIFTS])
{
	for (int i = 0; i < GIFTS; i++)
		check(ripc_receive(end->svc, PATIENCE_MS, &msgs[i]), "receive");
}

static void put_number(int fd, uint64_t number)
{
	check(write(fd, &number, sizeof(number)) == sizeof(number) ? 0 : -EIO, "pipe");
}

static uint64_t get_number(int fd)
{
	uint64_t number = 0;

	check(read(fd, &number, sizeof(number)) == sizeof(number) ? 0 : -EIO, "pipe");
	return number;
}

/* ---- the holder is killed ---------------------------------------------------------------- */

/* Lives as long as its pipe, with all that it has inherited. */
static void live_on(int in)
{
	struct pollfd poller = {.fd = in};

	/* The contents are not for us. */
	while (poll(&poller, 1, -1) < 0 && errno == EINTR)
		;
	_exit(0);
}

/* Until it is told to die. */
static void hold(int in, int out, bool forks)
{
	struct ripc_msg *msgs[GIFTS];
	struct end end;
	int alive[2];

	end_open(&end);
	put_number(out, ripc_service_id(end.svc));
	receive_all(&end, msgs);
	check(pipe(alive) ? -errno : 0, "pipe");
	if (forks && fork() == 0) {
		/* The child is ready: its parent may go. */
		put_number(alive[1], 1);
		live_on(in);
	}
	if (forks)
		get_number(alive[0]);
	put_number(out, stats_of(&end).mapped_held_bytes);
	get_number(in);
	raise(SIGKILL);
}

static void write_map(const char *path, unsigned int id)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	char text[32];

	snprintf(text, sizeof(text), "%u %u 1", id, id);
	check(fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0, path);
	close(fd);
}

/* The same in a PID namespace of its own, whose init is not the one that dies. */
static void hold_elsewhere(int in, int out)
{
	unsigned int uid = geteuid();
	pid_t init, holder;

	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0)
		write_map("/proc/self/uid_map", uid);
	init = fork();
	if (init == 0) {
		check(getpid() == 1 ? 0 : -EPERM, "namespace");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		holder = fork();
		if (holder == 0)
			hold(in, out, true);
		waitpid(holder, NULL, 0);
		live_on(in);
	}
	waitpid(init, NULL, 0);
	_exit(0);
}

/* Are there PID namespaces for us? */
static bool has_namespaces(void)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0)
		_exit(unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID));
	check(child < 0 || waitpid(child, &status, 0) != child ? -errno : 0, "fork");
	return status == 0;
}

static int add_bytes(void *arg, const struct ripc_holder *holder)
{
	struct ripc_holder *sought = arg;

	if (holder->id == sought->id)
		sought->bytes += holder->bytes;
	return 0;
}

/* The memory of ours that a service holds. */
static uint64_t held_by(const struct end *end, uint64_t id)
{
	struct ripc_holder sought = {.id = id};
	int n = ripc_holders(end->ctx, add_bytes, &sought);

	check(n < 0 ? n : 0, "holders");
	return sought.bytes;
}

static void outlive_holder(struct end *end, int in, int out)
{
	struct ripc_msg *msg;
	uint64_t used = stats_of(end).pool_used_bytes, held, id = get_number(in);

	give_all(end, id);
	held = get_number(in);
	/* The first ones may have been copied, before the two knew each other. */
	check(stats_of(end).given_held_bytes == held ? 0 : -EPROTO, "held");
	check(held_by(end, id) == held ? 0 : -EPROTO, "holder");
	end->outlived += held;
	put_number(out, 1);
	for (int i = 0; i < PATIENCE_MS && stats_of(end).given_held_bytes; i++)
		check(ripc_receive(end->svc, 1, &msg) == -ETIMEDOUT ? 0 : -EPROTO, "silence");
	check(stats_of(end).given_held_bytes == 0 ? 0 : -ETIMEDOUT, "settled");
	check(held_by(end, id) == 0 ? 0 : -EPROTO, "holder is gone");
	check(stats_of(end).pool_used_bytes <= used ? 0 : -ENOMEM, "baseline");
}

/* ---- the owner is killed ----------------------------------------------------------------- */

static void own(int in, int out)
{
	struct end end;

	end_open(&end);
	give_all(&end, get_number(in));
	put_number(out, 1);
	get_number(in);
	raise(SIGKILL);
}

static void outlive_owner(struct end *end, int in, int out)
{
	struct ripc_msg *msgs[GIFTS], *msg;
	char byte;

	put_number(out, ripc_service_id(end->svc));
	receive_all(end, msgs);
	get_number(in);
	end->outlived += stats_of(end).mapped_held_bytes;
	put_number(out, 1);
	check(read(in, &byte, 1) == 0 ? 0 : -EPROTO, "death");
	for (int i = 0; i < GIFTS; i++) {
		const uint8_t *bytes = msgs[i]->items[0].iov_base;
		uint8_t first = bytes[0];

		ripc_receive(end->svc, 1, &msg); /* the end learns of the death */
		check(first == i + 1 && memcmp(bytes, bytes + 1, LEN - 1) == 0 ? 0 : -EBADMSG,
			"bytes");
		ripc_msg_free(msgs[i]);
	}
	check(stats_of(end).mapped_held_bytes == 0 ? 0 : -EPROTO, "still held");
}

/* The body of a process that dies. */
static void die(enum death death, int in, int out)
{
	if (death == OWNER)
		own(in, out);
	else if (death == NAMESPACE)
		hold_elsewhere(in, out);
	else
		hold(in, out, death == FORKED);
}

/* In the child of a process that may have threads. */
static void start_anew(enum death death, int in, int out)
{
	char from[16], to[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(from, sizeof(from), "%d", in);
	snprintf(to, sizeof(to), "%d", out);
	execl("/proc/self/exe", "faults-give", names[death], from, to, NULL);
	_exit(127);
}

static void round_of(struct end *end, enum death death)
{
	int to[2], from[2];
	pid_t child;

	check(pipe(to) || pipe(from) ? -errno : 0, "pipe");
	child = fork();
	if (child == 0) {
		close(to[1]);
		close(from[0]);
		start_anew(death, to[0], from[1]);
	}
	check(child < 0 ? -errno : 0, "fork");
	close(to[0]);
	close(from[1]);
	(death == OWNER ? outlive_owner : outlive_holder)(end, from[0], to[1]);
	/* The survivor may end now. */
	close(to[1]);
	close(from[0]);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	struct end end = {.outlived = 0};
	enum death death = 0;

	while ((argc == 2 || argc == 4) && death < DEATHS && strcmp(argv[1], names[death]))
		death++;
	if ((argc != 2 && argc != 4) || death == DEATHS)
		return 2;
	if (argc == 4)
		die(death, atoi(argv[2]), atoi(argv[3]));
	if (death == NAMESPACE && !has_namespaces()) {
		printf("skipped: there is no PID namespace for us\n");
		return SKIPPED;
	}
	end_open(&end);
	for (int i = 0; i < ROUNDS; i++)
		round_of(&end, death);
	check(end.outlived ? 0 : -EPROTO, "nothing was held");
	check(ripc_close(end.ctx, PATIENCE_MS), "close");
	printf("%d of them killed, each with %d gifts\n", ROUNDS, GIFTS);
	return 0;
}
