/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * groups [RUNS]: how long a given buffer (RIPC_GIVE) of 10 MB takes to the last of 20 members of a
 * group, each a process of this host, over shared memory; nobody looks at the bytes. Medians of so
 * many sends (60) of one buffer. "at once": the next send begins when the buffer is with all;
 * "apart": each begins 100 ms after the one before; "beside a stopped one": the same, for the other
 * 19, while a member is stopped. Exit status 1: one that runs does not get it within 20 s.
 */
#include <errno.h>
#include <ripc/group.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS  20
#define BYTES    10000000
#define RUNS     60
#define RUNS_MAX 10000
#define APART_MS 100
#define WAIT_MS  20000

/* In memory that all processes share: when the message came to each member; 0: it has not yet. */
static _Atomic uint64_t *came_ns;

struct sender {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t group;
	void *buffer;
	int runs;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t then_ns)
{
	const struct timespec then = {(time_t)(then_ns / 1000000000), (long)(then_ns % 1000000000)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "groups: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void open_service(struct ripc_context **ctx, struct ripc_service **svc)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = "shm"};

	check(ripc_open(&config, ctx), "open");
	check(ripc_service_open(*ctx, 0, 0, svc), "service");
}

/* Never returns; ends with its parent. */
static void be_member(uint64_t group, int i)
{
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc_msg *msg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_service(&ctx, &svc);
	check(ripc_join(svc, group), "join");
	while (ripc_receive(svc, -1, &msg) == 0) {
		came_ns[i] = now_ns();
		ripc_msg_free(msg);
	}
	_exit(1);
}

/* Gives the buffer to all, and keeps it, too. */
static void give(struct sender *sender, int timeout_ms, struct ripc_counts *counts)
{
	const struct iovec item = {sender->buffer, BYTES};
	struct ripc_send send = {.size = sizeof(send), .to = sender->group, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_GIVE, .timeout_ms = timeout_ms,
		.counts = counts};

	*counts = (struct ripc_counts){0};
	check(ripc_buf_ref(sender->ctx, sender->buffer), "reference");
	(void)ripc_sendmsg(sender->svc, &send, NULL); /* the counts say more */
	if (!counts->delivered && !counts->unknown)
		ripc_buf_free(sender->ctx, sender->buffer);
}

static void find_all(struct sender *sender)
{
	uint64_t until_ns = now_ns() + WAIT_MS * 1000000ull;
	struct ripc_counts counts = {0};

	while (counts.delivered < MEMBERS) {
		check(now_ns() < until_ns ? 0 : -ETIMEDOUT, "not all members are found");
		give(sender, WAIT_MS, &counts);
	}
}

/* When the last of n members has it. */
static uint64_t last_ns(int n)
{
	uint64_t until_ns = now_ns() + WAIT_MS * 1000000ull, last = 0;

	for (int i = 0; i < n; i++) {
		uint64_t came;

		while (!(came = came_ns[i])) {
			check(now_ns() < until_ns ? 0 : -ETIMEDOUT, "a member did not get it");
			sleep_until(now_ns() + 100000);
		}
		last = came > last ? came : last;
	}
	return last;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void measure(struct sender *sender, const char *what, int members, uint64_t apart_ms)
{
	static uint64_t took_ns[RUNS_MAX];
	struct ripc_counts counts;

	for (int run = 0; run < sender->runs; run++) {
		uint64_t began_ns;

		memset((void *)came_ns, 0, MEMBERS * sizeof(*came_ns));
		began_ns = now_ns();
		give(sender, members < MEMBERS ? APART_MS : WAIT_MS, &counts);
		took_ns[run] = last_ns(members) - began_ns;
		sleep_until(began_ns + apart_ms * 1000000);
	}
	qsort(took_ns, (size_t)sender->runs, sizeof(took_ns[0]), compare);
	printf("%-20s %d members have it after %.2f ms (least %.2f, most %.2f)\n", what, members,
		(double)took_ns[sender->runs / 2] / 1e6, (double)took_ns[0] / 1e6,
		(double)took_ns[sender->runs - 1] / 1e6);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sender sender = {.runs = argc > 1 ? atoi(argv[1]) : RUNS};
	pid_t children[MEMBERS];
	char name[32];

	if (sender.runs < 1 || sender.runs > RUNS_MAX)
		return 2;
	came_ns = mmap(NULL, MEMBERS * sizeof(*came_ns), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (came_ns == MAP_FAILED)
		return 2;
	snprintf(name, sizeof(name), "bench-groups-%d", getpid());
	sender.group = ripc_group_from_name(name);
	for (int i = 0; i < MEMBERS; i++) {
		children[i] = fork();
		if (children[i] == 0)
			be_member(sender.group, i);
		if (children[i] < 0)
			return 2;
	}
	open_service(&sender.ctx, &sender.svc);
	check(ripc_buf_alloc(sender.ctx, BYTES, &sender.buffer), "buffer");
	memset(sender.buffer, 1, BYTES);
	find_all(&sender);
	measure(&sender, "at once", MEMBERS, 0);
	measure(&sender, "apart", MEMBERS, APART_MS);
	kill(children[MEMBERS - 1], SIGSTOP);
	measure(&sender, "beside a stopped one", MEMBERS - 1, APART_MS);
	for (int i = 0; i < MEMBERS; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	ripc_buf_free(sender.ctx, sender.buffer);
	ripc_close(sender.ctx, 0);
	return 0;
}
