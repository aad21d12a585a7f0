/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time until a death is reported. A partner of the same host is killed at random moments while
 * we send to it, one message after the other; or it closes its context. Measured are: from its end,
 * as the kernel has it, until the send under way has ended; and from the registration of a
 * successor until that has a message. The outcome of a send that begins after the death is checked;
 * how long things take is printed, and only what hangs fails.
 *
 * usage: faults-death killed|closed|succeeded|forked BYTES [--full]
 * By which network, says RIPC_BACKENDS. forked: a child of the partner keeps its sockets.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"

#define SEND_MS     20000
#define PATIENCE_MS 20000
#define RUNS_MAX    100

enum { SERVICE_SURVIVOR = 1, SERVICE_VICTIM };

struct run {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	struct iovec item;
	int victim, ready, pidfd;
	uint32_t delay_us;
	uint64_t incarnation;    /* the only one that is meant, so that no next one is looked for */
	bool closes;             /* the victim is asked to close, not killed */
	_Atomic double killed_ms; /* just before it was */
	_Atomic double ended_ms; /* the kernel has ended it; 0: not yet */
};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- the victim -------------------------------------------------------------------------- */

static _Atomic int asked_to_close;

static void on_term(int number)
{
	(void)number;
	asked_to_close = 1;
}

/* A child that keeps all sockets of its parent, until the test ends. */
static void fork_keeper(void)
{
	int parent = getpid(), pid = fork();

	if (pid)
		return;
	close(FAULT_READY_FD);
	while (getppid() == parent && !asked_to_close)
		usleep(20000);
	usleep(2000000);
	_exit(0);
}

static int victim_main(const char *how)
{
	struct ripc_config cfg = fault_config();
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	double began_ms;

	cfg.backends = NULL;
	signal(SIGTERM, on_term);
	ripc__env_init(&env);
	fault_open(&env, &cfg, &ctx);
	if (ripc_service_open(ctx, fault_id(SERVICE_VICTIM), 0, &svc))
		fault_fail("victim: no service");
	if (strcmp(how, "forked") == 0)
		fork_keeper();
	began_ms = now_ms();
	if (write(FAULT_READY_FD, &began_ms, sizeof(began_ms)) != sizeof(began_ms))
		fault_fail("victim: cannot say that it is ready");
	while (!asked_to_close) {
		struct ripc_msg *msg;

		if (ripc_receive(svc, 5, &msg) == 0)
			ripc_msg_free(msg);
	}
	ripc_close(ctx, 1000);
	return 0;
}

/* ---- the survivor ------------------------------------------------------------------------ */

/* When it was ready. */
static double victim_start(struct run *run, const char *how)
{
	const char *argv[] = {"faults-death", "--victim", how, NULL};
	double ready_ms;

	run->victim = fault_spawn(argv, &run->ready);
	if (read(run->ready, &ready_ms, sizeof(ready_ms)) != sizeof(ready_ms))
		fault_fail("the victim does not start");
	run->pidfd = (int)syscall(SYS_pidfd_open, run->victim, 0);
	if (run->pidfd < 0)
		fault_fail("pidfd_open: %s", strerror(errno));
	run->ended_ms = 0;
	return ready_ms;
}

static void victim_reap(struct run *run)
{
	fault_await(run->victim, PATIENCE_MS);
	close(run->ready);
	close(run->pidfd);
}

static void *killer_main(void *arg)
{
	struct run *run = arg;
	struct pollfd ended = {.fd = run->pidfd, .events = POLLIN};

	usleep(run->delay_us);
	run->killed_ms = now_ms();
	kill(run->victim, run->closes ? SIGTERM : SIGKILL);
	if (poll(&ended, 1, PATIENCE_MS) != 1)
		fault_fail("the victim does not end");
	run->ended_ms = now_ms();
	return NULL;
}

static int send_one(struct run *run, enum ripc_outcome *outcome)
{
	struct ripc_send send = {.size = sizeof(send), .to = fault_id(SERVICE_VICTIM),
		.items = &run->item, .n_items = 1, .flags = RIPC_SEND_LONG,
		.to_incarnation = run->incarnation, .timeout_ms = SEND_MS};
	int error = ripc_sendmsg(run->svc, &send, outcome);

	if (!fault_documented(error, *outcome))
		fault_fail("a send ended with %d (%s), outcome %d", error, ripc_strerror(error),
			*outcome);
	return error;
}

/* Until one is not delivered. Returns when that was. */
static double send_until_death(struct run *run, uint32_t outcomes[4])
{
	enum ripc_outcome outcome = 0;

	while (send_one(run, &outcome) == 0)
		;
	outcomes[outcome]++;
	return now_ms();
}

static void successor_serves(struct run *run, struct fault_took *took)
{
	double ready_ms = victim_start(run, "plain");
	enum ripc_outcome outcome = 0;
	double began_ms = now_ms();
	int error;

	/* Nobody may be known to have it for a moment. */
	while ((error = send_one(run, &outcome)) == -ENOENT && now_ms() - began_ms < FAULT_HANG_MS)
		usleep(1000);
	if (error)
		fault_fail("the successor has not got a message: %s", ripc_strerror(error));
	fault_took_add(took, now_ms() - ready_ms);
	kill(run->victim, SIGTERM);
	victim_reap(run);
}

static uint64_t incarnation_of(struct run *run)
{
	struct ripc_path path = {.size = sizeof(path)};
	enum ripc_outcome outcome = 0;

	if (send_one(run, &outcome) || ripc_path_info(run->svc, fault_id(SERVICE_VICTIM), &path))
		fault_fail("the victim cannot be reached");
	return path.incarnation;
}

static void one_run(struct run *run, const char *how, struct fault_took *told,
		struct fault_took *taken_over, uint32_t outcomes[4])
{
	enum ripc_outcome outcome = 0;
	pthread_t killer;
	double ended_ms;

	run->incarnation = 0;
	victim_start(run, how);
	fault_find(run->ctx, fault_id(SERVICE_VICTIM));
	run->incarnation = incarnation_of(run);
	pthread_create(&killer, NULL, killer_main, run);
	ended_ms = send_until_death(run, outcomes);
	pthread_join(killer, NULL);
	if (ended_ms < run->killed_ms)
		fault_fail("a send ended %.1f ms before the partner was %s",
			run->killed_ms - ended_ms, how);
	fault_took_add(told, ended_ms - run->ended_ms);
	victim_reap(run);
	run->incarnation = 0;
	if (strcmp(how, "succeeded") == 0)
		successor_serves(run, taken_over);
	else if (send_one(run, &outcome) == 0 || outcome == RIPC_UNKNOWN)
		fault_fail("a send that began after the death ended with %s",
			ripc_strerror(outcome == RIPC_UNKNOWN ? -ECONNRESET : 0));
}

static void survive(const char *how, size_t bytes, uint32_t n)
{
	static struct fault_took told = {.what = "told of the end"},
		taken_over = {.what = "from a registration to the successor's first message"};
	static struct run run;
	struct ripc_config cfg = fault_config();
	struct fault_left before = fault_left_now();
	uint64_t random = fault_seed();
	uint32_t outcomes[4] = {0};

	cfg.backends = NULL;
	run.closes = strcmp(how, "closed") == 0;
	run.item = (struct iovec){calloc(1, bytes), bytes};
	ripc__env_init(&run.env);
	fault_open(&run.env, &cfg, &run.ctx);
	if (ripc_service_open(run.ctx, fault_id(SERVICE_SURVIVOR), 0, &run.svc))
		fault_fail("the survivor has no service");
	for (uint32_t i = 0; i < n; i++) {
		run.delay_us = (uint32_t)(fault_random(&random) % 40000);
		one_run(&run, how, &told, &taken_over, outcomes);
	}
	printf("%s, %zu bytes: %u not delivered, %u unknown\n", how, bytes,
		outcomes[RIPC_NOT_DELIVERED], outcomes[RIPC_UNKNOWN]);
	fault_took_print(&told);
	fault_took_print(&taken_over);
	if (ripc_close(run.ctx, 1000))
		fault_fail("the survivor cannot close");
	free(run.item.iov_base);
	if (strcmp(how, "forked"))
		fault_left_check(&before, how);
}

int main(int argc, char **argv)
{
	bool full = fault_full(argc, argv);

	if (argc == 3 && strcmp(argv[1], "--victim") == 0)
		return victim_main(argv[2]);
	if (argc < 3) {
		fprintf(stderr, "usage: %s killed|closed|succeeded|forked BYTES [--full]\n",
			argv[0]);
		return 2;
	}
	survive(argv[1], strtoul(argv[2], NULL, 10), full ? RUNS_MAX : 10);
	return 0;
}
