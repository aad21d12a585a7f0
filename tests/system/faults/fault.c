/* SPDX-License-Identifier: BSD-3-Clause */
/* See fault.h. Owns the list of children that a failing test must not leave behind. */
#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILDREN_MAX 64
#define FIND_MS      20000

static int children[CHILDREN_MAX];

bool fault_full(int argc, char **argv)
{
	const char *text = getenv("RIPC_TEST_FULL");

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--full") == 0)
			return true;
	}
	return text && strcmp(text, "0") != 0;
}

static void children_end(void)
{
	for (int i = 0; i < CHILDREN_MAX; i++) {
		if (children[i] > 0)
			kill(children[i], SIGKILL);
	}
}

void fault_fail(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "failed: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	children_end();
	exit(1);
}

uint64_t fault_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t fault_random(uint64_t *state)
{
	uint64_t value = *state += 0x9e3779b97f4a7c15;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

uint64_t fault_seed(void)
{
	const char *text = getenv("RIPC_TEST_SEED");
	uint64_t seed = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();

	if (text)
		seed = strtoull(text, NULL, 0);
	printf("seed: RIPC_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

/* The number that all processes of one run share. */
static unsigned int run_number(void)
{
	const char *text = getenv("RIPC_TEST_RUN");
	char own[16];

	if (!text) {
		snprintf(own, sizeof(own), "%u", (unsigned int)getpid());
		setenv("RIPC_TEST_RUN", own, 1);
		text = getenv("RIPC_TEST_RUN");
	}
	return (unsigned int)strtoul(text, NULL, 10);
}

struct ripc_config fault_config(void)
{
	static char options[64];

	/* Below the range from which the kernel chooses ports. */
	snprintf(options, sizeof(options), "resolver.port=%u", 10000 + run_number() % 5000);
	return (struct ripc_config){.size = sizeof(struct ripc_config), .backends = "udp",
		.interfaces = "lo", .options = options};
}

void fault_open(struct ripc__env *env, const struct ripc_config *cfg, struct ripc_context **ctx)
{
	int error = ripc__open_in(cfg, env, ctx);

	if (error)
		fault_fail("a context cannot be opened: %s", ripc_strerror(error));
}

uint64_t fault_id(uint32_t number)
{
	return 0xfa01700000000000u | (uint64_t)run_number() << 16 | number;
}

void fault_find(struct ripc_context *ctx, uint64_t id)
{
	uint64_t began_ms = fault_now_ms();
	int error = ripc_resolve(ctx, id, FIND_MS);

	/* A process that is silent for a second is considered gone, but not sooner. */
	if (error == -ENOENT && fault_now_ms() - began_ms < 500)
		fault_fail("service %#llx was not looked for", (unsigned long long)id);
	while (error == -ENOENT && fault_now_ms() - began_ms < FIND_MS) {
		usleep(10000);
		error = ripc_resolve(ctx, id, FIND_MS);
	}
	if (error)
		fault_fail("service %#llx is not found: %s", (unsigned long long)id,
			ripc_strerror(error));
}

bool fault_documented(int status, enum ripc_outcome outcome)
{
	switch (status) {
	case 0:
		return outcome == RIPC_DELIVERED;
	case -ECONNRESET:
		return outcome == RIPC_UNKNOWN;
	case -ENOENT:
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETDOWN:
		return outcome == RIPC_NOT_DELIVERED;
	default:
		return false;
	}
}

/* ---- what is left behind ----------------------------------------------------------------- */

/* How many entries of a directory have the word in their name. */
static int entries(const char *path, const char *word)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	int n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		n += strstr(entry->d_name, word) != NULL;
	closedir(dir);
	return n;
}

static int names_of_run(void)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512], wanted[32];
	int n = 0;

	if (!file)
		return 0;
	/* The upper part of our IDs, as they stand in the names of the resolver's sockets. */
	snprintf(wanted, sizeof(wanted), "/%012llx", (unsigned long long)(fault_id(0) >> 16));
	while (fgets(line, sizeof(line), file))
		n += strstr(line, "@ripc/") && strstr(line, wanted);
	fclose(file);
	return n;
}

struct fault_left fault_left_now(void)
{
	return (struct fault_left){.descriptors = entries("/proc/self/fd", ""),
		.shared = entries("/dev/shm", "libripc"), .names = names_of_run()};
}

void fault_left_check(const struct fault_left *before, const char *when)
{
	uint64_t until_ms = fault_now_ms() + 20000; /* an EFA endpoint may be closed 5 s later */
	struct fault_left now;

	do {
		now = fault_left_now();
		/* Less is no leak: before, a partner may have been there that is gone now. */
		if (now.descriptors <= before->descriptors && now.shared <= before->shared &&
				now.names <= before->names)
			return;
		usleep(20000);
	} while (fault_now_ms() < until_ms);
	fault_fail("%s: descriptors %d, were %d; shared memory %d, was %d; names %d, were %d",
		when, now.descriptors, before->descriptors, now.shared, before->shared, now.names,
		before->names);
}

long fault_resident_kb(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long pages = 0, resident = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ---- processes --------------------------------------------------------------------------- */

static void child_remember(int pid)
{
	for (int i = 0; i < CHILDREN_MAX; i++) {
		if (children[i] == 0) {
			children[i] = pid;
			return;
		}
	}
	fault_fail("too many children");
}

static void child_forget(int pid)
{
	for (int i = 0; i < CHILDREN_MAX; i++) {
		if (children[i] == pid)
			children[i] = 0;
	}
}

int fault_spawn(const char *const *argv, int *ready)
{
	int ends[2], pid;

	run_number();
	if (pipe2(ends, O_CLOEXEC))
		fault_fail("pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		fault_fail("fork: %s", strerror(errno));
	if (pid == 0) {
		/*
		 * A process that is killed at a time-out leaves no process behind, stopped or
		 * waiting.
		 */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], FAULT_READY_FD);
		fcntl(FAULT_READY_FD, F_SETFD, 0); /* if it had been that number already */
		execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(ends[1]);
	child_remember(pid);
	*ready = ends[0];
	return pid;
}

int fault_await(int pid, uint64_t patience_ms)
{
	uint64_t until_ms = fault_now_ms() + patience_ms;
	int status, got;

	do {
		got = waitpid(pid, &status, WNOHANG);
		if (got == pid) {
			child_forget(pid);
			return status;
		}
		usleep(2000);
	} while (got == 0 && fault_now_ms() < until_ms);
	fault_fail("process %d does not end", pid);
}

/* ---- contents ---------------------------------------------------------------------------- */

void fault_took_add(struct fault_took *took, double ms)
{
	if (ms > FAULT_HANG_MS)
		fault_fail("%s took %.1f ms", took->what, ms);
	if (took->n < FAULT_TOOK_MAX)
		took->ms[took->n++] = ms > 0 ? ms : 0;
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return a < b ? -1 : a > b;
}

void fault_took_print(struct fault_took *took)
{
	qsort(took->ms, took->n, sizeof(took->ms[0]), by_size);
	if (took->n)
		printf("%s: median %.2f ms, most %.2f ms (%u)\n", took->what,
			took->ms[took->n / 2], took->ms[took->n - 1], took->n);
}

void fault_fill(void *bytes, size_t len, uint64_t seed)
{
	uint8_t *at = bytes;

	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)((seed + i) * 0x9e3779b97f4a7c15 >> 56);
}

bool fault_filled(const void *bytes, size_t len, uint64_t seed)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < len; i++) {
		if (at[i] != (uint8_t)((seed + i) * 0x9e3779b97f4a7c15 >> 56))
			return false;
	}
	return true;
}
