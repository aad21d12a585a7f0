/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands that the tests of the store give to processes. Knows nothing but ripc.h. Prints the
 * results as lines of JSON; ends when its input does.
 *
 *   store crowd P N FIRST FILE    P processes register N IDs each, at once, from FIRST on, and
 *                                 write "ID incarnation" of each to FILE
 *   store each N FIRST            says that it is there; at a line of input registers N IDs, one
 *                                 after the other, from FIRST on; says so, and stays
 *   store find FIRST N T FILE     T threads look up N IDs, then FILE says whether all are right
 *   store one                     obeys lines: open ID, close ID, resolve ID MS, ping ID MS,
 *                                 list MS; and says what notices its services get
 *   store stream ID               sends shorts to ID, numbered from 1, one per ms
 *   store count ID                has ID as soon as nobody else has, says when a hundred of these
 *                                 have come, and which, and when the first and the last one
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ripc/list.h"

#define SERVICES_MAX 64
#define TIMEOUT_MS   5000
#define COUNT_MAX    100000

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- crowd ------------------------------------------------------------------------------- */

struct result {
	int opened, error;
	double ended_ms, processor_ms; /* of opening alone */
};

static double processor_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

static void write_holders(const char *file, struct ripc_service *const *services, uint32_t n)
{
	char line[64];
	FILE *to = fopen(file, "ae");

	if (!to)
		exit(1);
	setvbuf(to, NULL, _IOLBF, sizeof(line)); /* a line is written as a whole */
	for (uint32_t i = 0; i < n; i++) {
		if (services[i])
			fprintf(to, "%" PRIu64 " %" PRIu64 "\n", ripc_service_id(services[i]),
				ripc_service_incarnation(services[i]));
	}
	fclose(to);
}

static void crowd_one(uint64_t first, uint32_t n, const char *file, const int pipes[4])
{
	struct ripc_service **services = calloc(n, sizeof(struct ripc_service *));
	uint64_t *ids = calloc(n, sizeof(*ids));
	struct result result = {0};
	struct ripc_service *own;
	struct ripc_context *ctx;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(pipes[1]);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = first + i;
	result.error = ripc_open(NULL, &ctx);
	if (!result.error) /* the session stands when this returns */
		result.error = ripc_service_open(ctx, 0, 0, &own);
	if (write(pipes[3], &result, sizeof(result)) < 0 || read(pipes[0], &byte, 1) < 0)
		_exit(1);
	result.processor_ms = -processor_ms();
	if (!result.error)
		result.opened = ripc_services_open(ctx, ids, n, 0, services);
	result.processor_ms += processor_ms();
	result.error = result.opened < 0 ? result.opened : result.error;
	result.ended_ms = now_ms();
	if (result.opened > 0)
		write_holders(file, services, n);
	if (write(pipes[3], &result, sizeof(result)) < 0)
		_exit(1);
	pause();
	_exit(0);
}

static int crowd(uint32_t n_processes, uint32_t n, uint64_t first, const char *file)
{
	int opened = 0, error = 0, pipes[4];
	double began_ms, ended_ms = 0, used_ms = 0;
	struct result result;
	pid_t *children = calloc(n_processes, sizeof(*children));
	char byte;

	if (!children || pipe(pipes) || pipe(pipes + 2))
		return 1;
	for (uint32_t i = 0; i < n_processes; i++) {
		children[i] = fork();
		if (children[i] == 0)
			crowd_one(first + (uint64_t)i * n, n, file, pipes);
		if (children[i] < 0)
			return 1;
	}
	for (uint32_t i = 0; i < n_processes; i++) {
		if (read(pipes[2], &result, sizeof(result)) != sizeof(result))
			return 1;
	}
	usleep(300000); /* all sleep */
	began_ms = now_ms();
	close(pipes[1]); /* go */
	for (uint32_t i = 0; i < n_processes; i++) {
		if (read(pipes[2], &result, sizeof(result)) != sizeof(result))
			return 1;
		opened += result.opened > 0 ? result.opened : 0;
		error = result.error ? result.error : error;
		used_ms += result.processor_ms;
		ended_ms = result.ended_ms > ended_ms ? result.ended_ms : ended_ms;
	}
	printf("{\"opened\": %d, \"error\": %d, \"ms\": %.0f, \"processor_ms\": %.0f}\n",
		opened, error, ended_ms - began_ms, used_ms);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (uint32_t i = 0; i < n_processes; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0) /* when this ends, nobody holds an ID */
		;
	free(children);
	return 0;
}

static int each(uint32_t n, uint64_t first)
{
	struct ripc_service *service;
	struct ripc_context *ctx;
	int error = ripc_open(NULL, &ctx);

	printf("{\"error\": %d}\n", error);
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (uint32_t i = 0; i < n && !error; i++)
		error = ripc_service_open(ctx, first + i, 0, &service);
	printf("{\"error\": %d}\n", error);
	fflush(stdout);
	return getchar() != EOF || ripc_close(ctx, 100) != 0;
}

/* ---- find -------------------------------------------------------------------------------- */

struct finding {
	struct ripc_context *ctx;
	uint64_t first;
	uint32_t n, next, found;
	int error;
};

static void *find_some(void *arg)
{
	struct finding *finding = arg;
	uint32_t i;

	while ((i = __atomic_fetch_add(&finding->next, 1, __ATOMIC_RELAXED)) < finding->n) {
		int error = ripc_resolve(finding->ctx, finding->first + i, TIMEOUT_MS);

		if (error)
			finding->error = error;
		else
			__atomic_fetch_add(&finding->found, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* How many lines of the file name whom we have found. */
static uint32_t count_right(struct ripc_context *ctx, const char *file)
{
	uint64_t id, incarnation;
	struct ripc_service *service;
	FILE *from = fopen(file, "re");
	uint32_t right = 0;

	if (!from || ripc_service_open(ctx, 0, 0, &service))
		return 0;
	while (fscanf(from, "%" SCNu64 " %" SCNu64, &id, &incarnation) == 2) {
		struct ripc_path path = {.size = sizeof(path)};

		right += ripc_path_info(service, id, &path) == 0 &&
			path.incarnation == incarnation;
	}
	fclose(from);
	return right;
}

static int find(uint64_t first, uint32_t n, uint32_t n_threads, const char *file)
{
	struct finding finding = {.first = first, .n = n};
	pthread_t threads[256];
	struct ripc_service *service;
	double began_ms, took_ms, used_ms;
	int error = ripc_open(NULL, &finding.ctx);

	if (!error) /* the session stands when this returns */
		error = ripc_service_open(finding.ctx, 0, 0, &service);
	if (error) {
		printf("{\"error\": %d}\n", error);
		return 1;
	}
	n_threads = n_threads < 256 ? n_threads : 256;
	began_ms = now_ms();
	used_ms = processor_ms();
	for (uint32_t i = 0; i < n_threads; i++)
		pthread_create(&threads[i], NULL, find_some, &finding);
	for (uint32_t i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	took_ms = now_ms() - began_ms;
	used_ms = processor_ms() - used_ms;
	printf("{\"found\": %u, \"error\": %d, \"ms\": %.0f, \"processor_ms\": %.0f, "
		"\"right\": %u}\n", finding.found, finding.error, took_ms, used_ms,
		count_right(finding.ctx, file));
	return ripc_close(finding.ctx, 100) != 0;
}

/* ---- one --------------------------------------------------------------------------------- */

static struct ripc_service *services[SERVICES_MAX];

static struct ripc_service **service_of(uint64_t id)
{
	for (int i = 0; i < SERVICES_MAX; i++) {
		if (id ? services[i] && ripc_service_id(services[i]) == id : !services[i])
			return &services[i];
	}
	return NULL;
}

static int count_one(void *arg, const struct ripc_listing *listing)
{
	(void)listing;
	++*(int *)arg;
	return 0;
}

static int ping(struct ripc_context *ctx, uint64_t id, int ms)
{
	static struct ripc_service *own;
	uint64_t rtt_ns;
	int error = own ? 0 : ripc_service_open(ctx, 0, 0, &own);

	return error ? error : ripc_ping(own, id, ms, &rtt_ns);
}

static int close_one(uint64_t id)
{
	struct ripc_service **at = service_of(id);
	int error = at ? ripc_service_close(*at) : -ENOENT;

	if (at)
		*at = NULL;
	return error;
}

static int obey_one(struct ripc_context *ctx, const char *verb, uint64_t id, int ms)
{
	struct ripc_service **at = service_of(0);
	int n = 0, error;

	if (strcmp(verb, "open") == 0)
		return at ? ripc_service_open(ctx, id, 0, at) : -ENOSPC;
	if (strcmp(verb, "close") == 0)
		return close_one(id);
	if (strcmp(verb, "resolve") == 0)
		return ripc_resolve(ctx, id, ms);
	if (strcmp(verb, "ping") == 0)
		return ping(ctx, id, ms);
	if (strcmp(verb, "list") == 0) {
		error = ripc_list(ctx, (int)id, count_one, &n);
		return error < 0 ? error : n;
	}
	return -EINVAL;
}

static void obey(struct ripc_context *ctx, const char *line)
{
	char verb[16] = "";
	uint64_t id = 0;
	int ms = 0, status;
	double began_ms = now_ms();

	sscanf(line, "%15s %" SCNu64 " %d", verb, &id, &ms);
	status = obey_one(ctx, verb, id, ms);
	printf("{\"did\": \"%s\", \"status\": %d, \"ms\": %.1f}\n", verb, status,
		now_ms() - began_ms);
	fflush(stdout);
}

static void hear(void)
{
	struct ripc_msg *msg;

	for (int i = 0; i < SERVICES_MAX; i++) {
		if (!services[i] || ripc_receive(services[i], 0, &msg))
			continue;
		if (msg->kind == RIPC_NOTICE)
			printf("{\"notice\": %d, \"id\": %" PRIu64 "}\n", msg->status,
				ripc_service_id(services[i]));
		fflush(stdout);
		ripc_msg_free(msg);
	}
}

static int one(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct ripc_context *ctx;
	char line[128] = "";
	size_t len = 0;
	int error = ripc_open(NULL, &ctx);

	printf("{\"did\": \"begin\", \"status\": %d}\n", error);
	fflush(stdout);
	while (!error) {
		if (poll(&input, 1, 5) == 0) {
			hear();
			continue;
		}
		if (len + 1 >= sizeof(line) || read(STDIN_FILENO, line + len, 1) <= 0)
			break;
		if (line[len++] != '\n')
			continue;
		line[len] = '\0';
		obey(ctx, line);
		len = 0;
	}
	return error ? 1 : ripc_close(ctx, 100) != 0;
}

/* ---- stream ------------------------------------------------------------------------------ */

static int stream(uint64_t to)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct ripc_service *service;
	struct ripc_context *ctx;
	uint32_t number = 0, refused = 0;
	int error = ripc_open(NULL, &ctx);

	error = error ? error : ripc_service_open(ctx, 0, 0, &service);
	while (!error && poll(&input, 1, 0) == 0) {
		struct iovec item = {&number, sizeof(number)};

		number++;
		refused += ripc_send_short(service, to, &item, 1) < 0;
		usleep(1000);
	}
	printf("{\"sent\": %u, \"refused\": %u, \"error\": %d}\n", number, refused, error);
	return error ? 1 : ripc_close(ctx, 100) != 0;
}

struct counting {
	uint8_t *seen;
	uint32_t n, twice;
	double first_ms, last_ms;
};

static void count_message(struct counting *counting, const struct ripc_msg *msg)
{
	uint32_t number;

	if (msg->kind != RIPC_SHORT || msg->items[0].iov_len != sizeof(number))
		return;
	memcpy(&number, msg->items[0].iov_base, sizeof(number));
	if (number >= COUNT_MAX)
		return;
	counting->twice += counting->seen[number];
	counting->seen[number] = 1;
	counting->last_ms = now_ms();
	counting->first_ms = counting->n++ ? counting->first_ms : counting->last_ms;
	if (counting->n == 100) {
		printf("{\"came\": 100}\n");
		fflush(stdout);
	}
}

/* Which have come, as runs: "first-last ". */
static void say_runs(const struct counting *counting)
{
	printf("{\"runs\": \"");
	for (uint32_t i = 0; i < COUNT_MAX; i++) {
		uint32_t first = i;

		if (!counting->seen[i])
			continue;
		while (i + 1 < COUNT_MAX && counting->seen[i + 1])
			i++;
		printf("%u-%u ", first, i);
	}
	printf("\", \"n\": %u, \"twice\": %u, \"first\": %.1f, \"last\": %.1f}\n",
		counting->n, counting->twice, counting->first_ms, counting->last_ms);
}

static int count(uint64_t id)
{
	static uint8_t seen[COUNT_MAX];
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct counting counting = {.seen = seen};
	struct ripc_service *service = NULL;
	struct ripc_context *ctx;
	struct ripc_msg *msg;
	int error = ripc_open(NULL, &ctx);

	printf("{\"did\": \"begin\", \"status\": %d}\n", error);
	fflush(stdout);
	while (!error && !service) {
		error = ripc_service_open(ctx, id, 0, &service);
		error = error == -EADDRINUSE ? 0 : error;
	}
	printf("{\"did\": \"open\", \"status\": %d}\n", error);
	fflush(stdout);
	while (!error && poll(&input, 1, 0) == 0) {
		error = ripc_receive(service, 2, &msg);
		if (error == 0) {
			count_message(&counting, msg);
			ripc_msg_free(msg);
		}
		error = error == -ETIMEDOUT ? 0 : error;
	}
	error = error ? error : ripc_service_drain(service, 1000);
	while (!error && ripc_receive(service, 0, &msg) == 0) {
		count_message(&counting, msg);
		ripc_msg_free(msg);
	}
	say_runs(&counting);
	return error ? 1 : ripc_close(ctx, 100) != 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && strcmp(argv[1], "crowd") == 0)
		return crowd((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
			strtoull(argv[4], NULL, 0), argv[5]);
	if (argc == 4 && strcmp(argv[1], "each") == 0)
		return each((uint32_t)atoi(argv[2]), strtoull(argv[3], NULL, 0));
	if (argc == 6 && strcmp(argv[1], "find") == 0)
		return find(strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]),
			(uint32_t)atoi(argv[4]), argv[5]);
	if (argc == 2 && strcmp(argv[1], "one") == 0)
		return one();
	if (argc == 3 && strcmp(argv[1], "stream") == 0)
		return stream(strtoull(argv[2], NULL, 0));
	if (argc == 3 && strcmp(argv[1], "count") == 0)
		return count(strtoull(argv[2], NULL, 0));
	fprintf(stderr, "usage: store crowd P N FIRST FILE | each N FIRST | find FIRST N T FILE |\n"
		"             one | stream ID | count ID\n");
	return 2;
}
