/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ripc-bench on two hosts. The one with --server registers a control service; the other one asks
 * it, by libripc itself, to start a server process for each run and to end it again. The server's
 * parent never opens a context, as it forks: the control service lives in a child, which hands
 * each command to the parent through a pair of sockets.
 *
 * Commands and answers are lines of text in a long message each:
 *   start PEER KIND SIZE WARM_UP SPIN DEPTH THREADS SERVICES PARTNERS UNTOUCHED HOST
 *                                    ->  ok HANDLE WHERE  |  no ERRNO
 *   stop HANDLE                      ->  ok 0 -           |  no ERRNO
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ripc/ripc.h>
#include "bench.h"

#define LINE_MAX_BYTES 384
#define SERVERS_MAX    4 /* at a time: what strangers can make us do is bounded */
#define SIZE_LIMIT     (1ull << 32)
#define CONTROL_MS     15000

/* ---- the host that serves: the parent ---- */

struct runs {
	int pids[SERVERS_MAX];
};

/* Forgets servers that have ended by themselves. */
static void reap(struct runs *runs)
{
	unsigned int i;

	for (i = 0; i < SERVERS_MAX; i++)
		if (runs->pids[i] && waitpid(runs->pids[i], NULL, WNOHANG) == runs->pids[i])
			runs->pids[i] = 0;
}

/* Reads a job; a stranger may have written it. */
static int read_job(const char *line, char *peer, struct bench_job *job)
{
	unsigned int kind;

	if (sscanf(line, "start %15s %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
			 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %63s", peer, &kind, &job->size,
		    &job->warm_up, &job->spin_us, &job->depth, &job->threads, &job->services,
		    &job->partners, &job->untouched, job->host) != 11)
		return -EBADMSG;
	if (kind >= BENCH_KINDS || job->size > SIZE_LIMIT || job->depth < 1 ||
		job->depth > BENCH_DEPTH_MAX || job->threads < 1 ||
		job->threads > BENCH_THREADS_MAX || job->services < 1 ||
		job->services > job->threads || job->partners < 1 ||
		job->partners > BENCH_PARTNERS_MAX || job->untouched > 1)
		return -EINVAL;
	job->kind = (enum bench_kind)kind;
	return 0;
}

static void write_job(char *line, const struct bench_peer *peer, const struct bench_job *job)
{
	snprintf(line, LINE_MAX_BYTES,
		"start %s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		" %" PRIu64 " %" PRIu64 " %s",
		peer->name, (unsigned int)job->kind, job->size, job->warm_up, job->spin_us,
		job->depth, job->threads, job->services, job->partners, job->untouched, job->host);
}

/* Returns the handle, which is not 0, or a negative errno. */
static int start_run(struct runs *runs, const char *line, struct bench_job *job, int cpu)
{
	const struct bench_peer *peer;
	unsigned int i = 0;
	char name[16];
	int pid, err = read_job(line, name, job);

	if (err < 0)
		return err;
	err = bench_find_peer(name, &peer);
	if (err < 0)
		return err;
	if (!peer->halves[job->kind].serve)
		return -EOPNOTSUPP;
	while (i < SERVERS_MAX && runs->pids[i])
		i++;
	if (i == SERVERS_MAX)
		return -EBUSY;
	err = bench_start_server(peer, job, cpu, &pid);
	if (err < 0)
		return err;
	runs->pids[i] = pid;
	return pid;
}

static int stop_run(struct runs *runs, const char *line)
{
	unsigned int i;
	int pid;

	if (sscanf(line, "stop %d", &pid) != 1 || pid <= 0)
		return -EBADMSG;
	for (i = 0; i < SERVERS_MAX; i++) {
		if (runs->pids[i] != pid)
			continue;
		bench_end_process(pid);
		runs->pids[i] = 0;
		return 0;
	}
	return -ENOENT;
}

static void answer_line(struct runs *runs, const char *line, char *answer, int cpu)
{
	struct bench_job job = {.where = "-"};
	int result;

	reap(runs);
	if (strncmp(line, "start ", 6) == 0)
		result = start_run(runs, line, &job, cpu);
	else
		result = stop_run(runs, line);
	if (result < 0)
		snprintf(answer, LINE_MAX_BYTES, "no %d", -result);
	else
		snprintf(answer, LINE_MAX_BYTES, "ok %d %s", result, job.where);
}

/* ---- the host that serves: the child with the control service ---- */

/* Has a command done by the parent and sends the answer. */
static int relay(struct ripc_service *svc, const struct ripc_msg *msg, int parent)
{
	char line[LINE_MAX_BYTES];
	struct iovec item = {line, 0};
	ssize_t got;

	if (msg->kind != RIPC_LONG || msg->n_items != 1 || msg->items[0].iov_len >= sizeof(line))
		return 0;
	memcpy(line, msg->items[0].iov_base, msg->items[0].iov_len);
	line[msg->items[0].iov_len] = '\0';
	if (send(parent, line, msg->items[0].iov_len + 1, MSG_NOSIGNAL) < 0)
		return -errno;
	got = recv(parent, line, sizeof(line), 0);
	if (got <= 0)
		return got < 0 ? -errno : -ESHUTDOWN;
	item.iov_len = (size_t)got;
	/* If the other one is gone meanwhile, its server ends by its own clock. */
	ripc_send_long(svc, msg->from, &item, 1, CONTROL_MS);
	return 0;
}

static int control(uint64_t id, int parent)
{
	struct ripc_config config = {
		.size = sizeof(config),
		.log = tool_log,
		.log_arg = (void *)PROGRAM,
	};
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc_msg *msg;
	int err = ripc_open(&config, &ctx);

	if (err == 0)
		err = ripc_service_open(ctx, id, 0, &svc);
	if (err < 0)
		return tool_failed(PROGRAM, "cannot register the control service", err);
	printf("%s: serving; on the other host: --to 0x%016" PRIx64 "\n", PROGRAM,
		ripc_service_id(svc));
	fflush(stdout);
	while (err == 0) {
		err = ripc_receive(svc, -1, &msg);
		if (err == 0) {
			err = relay(svc, msg, parent);
			ripc_msg_free(msg);
		}
	}
	return tool_failed(PROGRAM, "the control service ended", err);
}

int bench_join_serve(const struct bench_options *options)
{
	char line[LINE_MAX_BYTES], answer[LINE_MAX_BYTES];
	struct runs runs = {{0}};
	int fds[2], pid;
	ssize_t got;

	if (options->backend)
		setenv("RIPC_BACKENDS", options->backend, 1);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[0]);
		_exit(control(options->server_id, fds[1]));
	}
	close(fds[1]);
	while ((got = recv(fds[0], line, sizeof(line) - 1, 0)) > 0) {
		line[got] = '\0';
		answer_line(&runs, line, answer, options->cpus[1]);
		if (send(fds[0], answer, strlen(answer) + 1, MSG_NOSIGNAL) < 0)
			break;
	}
	/* The control service ended and has said why. */
	waitpid(pid, NULL, 0);
	return -ESHUTDOWN;
}

/* ---- the host that measures ---- */

/* In a process of its own: asks and leaves the answer, and the server's address, to the parent. */
struct question {
	char line[LINE_MAX_BYTES], answer[LINE_MAX_BYTES], host[64];
	int err;
};

/* Takes the host out of an address in words: "192.0.2.1:15511", "[2001:db8::1]:15511". */
static void copy_host(const char *address, char *host, size_t len)
{
	const char *end = strrchr(address, ':');
	size_t host_len = end ? (size_t)(end - address) : strlen(address);

	if (address[0] == '[') {
		address++;
		host_len = strcspn(address, "]");
	}
	snprintf(host, len, "%.*s", (int)host_len, address);
}

static int ask(uint64_t to, struct question *question)
{
	struct iovec item = {question->line, strlen(question->line) + 1};
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc_msg *msg;
	int err = ripc_open(NULL, &ctx);

	if (err == 0)
		err = ripc_service_open(ctx, 0, 0, &svc);
	if (err == 0)
		err = ripc_resolve(ctx, to, CONTROL_MS);
	if (err == 0)
		err = ripc_path_info(svc, to, &path);
	if (err == 0)
		err = ripc_send_long(svc, to, &item, 1, CONTROL_MS);
	if (err == 0)
		err = ripc_receive(svc, CONTROL_MS, &msg);
	if (err < 0)
		return err;
	copy_host(path.address, question->host, sizeof(question->host));
	if (msg->kind == RIPC_LONG && msg->from == to && msg->n_items == 1 &&
		msg->items[0].iov_len < LINE_MAX_BYTES)
		memcpy(question->answer, msg->items[0].iov_base, msg->items[0].iov_len);
	ripc_msg_free(msg);
	ripc_close(ctx, 1000);
	return 0;
}

/* Puts a line to the other host. 0 or a negative errno; *question is filled. */
static int put_question(uint64_t to, struct question *question)
{
	struct question *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pid;

	if (shared == MAP_FAILED)
		return -errno;
	*shared = *question;
	shared->err = -ECHILD;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		shared->err = ask(to, shared);
		_exit(TOOL_OK);
	}
	if (pid < 0)
		shared->err = -errno;
	else
		waitpid(pid, NULL, 0);
	*question = *shared;
	munmap(shared, sizeof(*shared));
	question->answer[LINE_MAX_BYTES - 1] = '\0';
	return question->err;
}

int bench_join_host(uint64_t to, char *host, size_t len)
{
	/* There is no such run; the answer proves the path, and that tells the address. */
	struct question question = {.line = "stop 0"};
	int err = put_question(to, &question);

	if (err == 0)
		snprintf(host, len, "%s", question.host);
	return err;
}

int bench_join_start(uint64_t to, const struct bench_peer *peer, struct bench_job *job, int *handle)
{
	struct question question = {.line = ""};
	char where[BENCH_WHERE_LEN];
	int err, number;

	write_job(question.line, peer, job);
	err = put_question(to, &question);
	if (err < 0)
		return err;
	if (sscanf(question.answer, "no %d", &number) == 1)
		return number > 0 ? -number : -EBADMSG;
	if (sscanf(question.answer, "ok %d %95s", &number, where) != 2)
		return -EBADMSG;
	*handle = number;
	memcpy(job->where, where, sizeof(where));
	return 0;
}

void bench_join_stop(uint64_t to, int handle)
{
	struct question question = {.line = ""};

	snprintf(question.line, sizeof(question.line), "stop %d", handle);
	/* If this fails, the server ends by its own clock. */
	put_question(to, &question);
}
