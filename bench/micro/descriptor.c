/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * descriptor returns|latency [BACKEND [SECONDS]], descriptor many [COUNT]: what an event loop has
 * from ripc_service_fd().
 *
 * returns: how often epoll_wait returns for each message that comes, at 1,000, 10,000 and 100,000
 * short messages in a second. latency: round trips of 100 B to a server that sleeps in epoll_wait;
 * the client waits in ripc_receive(). Both for four kinds of loop: level- and edge-triggered, each
 * fed by the progress thread and (own) by ripc_context_fd() and ripc_poll(). many: so many services
 * (10,000) in one epoll, each of which gets a long message. BACKEND: shm, udp (udp); SECONDS: 2.
 */
#include <inttypes.h>
#include <ripc/ripc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE      100
#define EVENTS    64
#define WAIT_MS   5000
#define RTTS_MAX  1000000u
#define END       1 /* first byte of a message: the last one */

struct loop {
	const char *name;
	bool edge, own;
};

static const struct loop loops[] = {{"level", false, false}, {"edge", true, false},
	{"level own", false, true}, {"edge own", true, true}};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int open_service(const char *backend, struct ripc_context **ctx, struct ripc_service **svc)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = backend};
	int error = ripc_open(&config, ctx);

	return error ? error : ripc_service_open(*ctx, 0, 0, svc);
}

static int watch(int epoll_fd, int fd, bool edge, uint64_t what)
{
	struct epoll_event event = {.events = EPOLLIN | (edge ? (uint32_t)EPOLLET : 0),
		.data.u64 = what};

	return fd < 0 ? fd : epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* ---- the server -------------------------------------------------------------------------- */

struct server {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t returns, own_returns, messages, client;
	bool echoes, ended;
};

static void serve_one(struct server *server, struct ripc_msg *msg)
{
	bool last = *(const uint8_t *)msg->items[0].iov_base == END;

	server->client = msg->from;
	server->ended |= last;
	server->messages += !last;
	if (server->echoes)
		ripc_send_short(server->svc, msg->from, msg->items, 1);
	ripc_msg_free(msg);
}

/* Level-triggered, one message for each return, as simple programs do; else all there are. */
static void serve_ready(struct server *server, bool edge)
{
	struct ripc_msg *msg;

	while (!server->ended && ripc_receive(server->svc, 0, &msg) == 0) {
		serve_one(server, msg);
		if (!edge)
			return;
	}
}

static void serve(struct server *server, const struct loop *loop)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event events[EVENTS];

	if (watch(epoll_fd, ripc_service_fd(server->svc), loop->edge, 1))
		_exit(1);
	if (loop->own && watch(epoll_fd, ripc_context_fd(server->ctx), false, 0))
		_exit(1);
	while (!server->ended) {
		int n = epoll_wait(epoll_fd, events, EVENTS, loop->own ? 10 : WAIT_MS);

		for (int i = 0; i < n; i++) {
			server->returns += events[i].data.u64 == 1;
			server->own_returns += events[i].data.u64 == 0;
			if (events[i].data.u64)
				serve_ready(server, loop->edge);
			else
				ripc_poll(server->ctx);
		}
		if (loop->own && n <= 0)
			ripc_poll(server->ctx);
	}
	close(epoll_fd);
}

/* Never returns. Tells its ID first, and what it counted at the end. */
static void server_main(const char *backend, const struct loop *loop, bool echoes, int to)
{
	struct server server = {.echoes = echoes};
	uint64_t counts[4];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (open_service(backend, &server.ctx, &server.svc))
		_exit(1);
	counts[0] = ripc_service_id(server.svc);
	if (write(to, counts, sizeof(counts[0])) != sizeof(counts[0]))
		_exit(1);
	serve(&server, loop);
	counts[0] = server.messages;
	counts[1] = server.returns;
	counts[2] = server.own_returns;
	counts[3] = 0;
	if (write(to, counts, sizeof(counts)) != sizeof(counts))
		_exit(1);
	ripc_close(server.ctx, 1000);
	_exit(0);
}

static pid_t server_start(const char *backend, const struct loop *loop, bool echoes, int *from)
{
	int fds[2];
	pid_t pid;

	fflush(stdout);
	if (pipe(fds))
		return -1;
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		server_main(backend, loop, echoes, fds[1]);
	}
	close(fds[1]);
	*from = fds[0];
	return pid;
}

/* ---- the client -------------------------------------------------------------------------- */

struct client {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t server;
	uint8_t bytes[SIZE];
};

static int client_open(struct client *client, const char *backend, int from)
{
	memset(client, 0, sizeof(*client));
	if (read(from, &client->server, sizeof(client->server)) != sizeof(client->server))
		return -1;
	if (open_service(backend, &client->ctx, &client->svc))
		return -1;
	return ripc_resolve(client->ctx, client->server, WAIT_MS);
}

static int client_send(struct client *client, uint8_t what)
{
	struct iovec item = {client->bytes, SIZE};

	client->bytes[0] = what;
	return ripc_send_short(client->svc, client->server, &item, 1);
}

/* Ends the server, which says what it has counted, and gives up itself. */
static int client_close(struct client *client, int from, uint64_t counts[4])
{
	const struct timespec pause = {.tv_nsec = 20000000};
	ssize_t got;

	nanosleep(&pause, NULL); /* all messages in progress arrive first */
	client_send(client, END);
	got = read(from, counts, 4 * sizeof(counts[0]));
	close(from);
	ripc_close(client->ctx, 1000);
	wait(NULL);
	return got == (ssize_t)(4 * sizeof(counts[0])) ? 0 : -1;
}

static void send_at_rate(struct client *client, uint64_t rate, uint64_t seconds)
{
	uint64_t began_ns = now_ns(), n = rate * seconds;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t due_ns = began_ns + i * 1000000000 / rate, at_ns = now_ns();

		if (due_ns > at_ns + 100000) {
			const struct timespec pause = {.tv_nsec = (long)(due_ns - at_ns - 60000)};

			nanosleep(&pause, NULL);
		}
		while (now_ns() < due_ns)
			;
		client_send(client, 0);
	}
}

static int measure_returns(const char *backend, uint64_t seconds)
{
	static const uint64_t rates[] = {1000, 10000, 100000};

	printf("%-10s %10s %10s %10s %12s %12s\n", "loop", "sent /s", "received", "returns",
		"per message", "own returns");
	for (size_t i = 0; i < 4 * 3; i++) {
		const struct loop *loop = &loops[i / 3];
		struct client client;
		uint64_t counts[4];
		int from;

		if (server_start(backend, loop, false, &from) < 0 ||
				client_open(&client, backend, from))
			return 1;
		send_at_rate(&client, rates[i % 3], seconds);
		if (client_close(&client, from, counts))
			return 1;
		printf("%-10s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %12.3f %12" PRIu64 "\n",
			loop->name, rates[i % 3], counts[0], counts[1],
			(double)counts[1] / (double)counts[0], counts[2]);
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* How many round trips there were. */
static size_t round_trips(struct client *client, uint64_t seconds, double *rtts_us)
{
	uint64_t end_ns = now_ns() + seconds * 1000000000;
	struct ripc_msg *msg;
	size_t n = 0;

	while (n < RTTS_MAX && now_ns() < end_ns) {
		uint64_t began_ns = now_ns();

		if (client_send(client, 0) || ripc_receive(client->svc, 100, &msg))
			continue;
		ripc_msg_free(msg);
		rtts_us[n++] = (double)(now_ns() - began_ns) / 1000;
	}
	return n;
}

static int measure_latency(const char *backend, uint64_t seconds)
{
	double *rtts_us = malloc(RTTS_MAX * sizeof(*rtts_us));

	printf("%-10s %10s %10s %10s %10s %10s\n", "loop", "mean us", "median", "p99", "trips",
		"returns");
	for (size_t i = 0; rtts_us && i < 4; i++) {
		struct client client;
		uint64_t counts[4];
		double sum = 0;
		size_t n;
		int from;

		if (server_start(backend, &loops[i], true, &from) < 0 ||
				client_open(&client, backend, from))
			return 1;
		n = round_trips(&client, seconds, rtts_us);
		if (client_close(&client, from, counts) || n == 0)
			return 1;
		for (size_t j = 0; j < n; j++)
			sum += rtts_us[j];
		qsort(rtts_us, n, sizeof(*rtts_us), compare);
		printf("%-10s %10.2f %10.2f %10.2f %10zu %10.3f\n", loops[i].name, sum / (double)n,
			rtts_us[n / 2], rtts_us[n - 1 - n / 100], n,
			(double)counts[1] / (double)counts[0]);
	}
	free(rtts_us);
	return 0;
}

/* ---- many -------------------------------------------------------------------------------- */

/* A long message to each of the services, which it takes when its own descriptor says so. */
static int exchange(struct ripc_service *sender, struct ripc_service **services, size_t count,
		int epoll_fd)
{
	struct iovec item = {(void *)(uintptr_t)"x", 1};
	size_t received = 0, returns = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t to = ripc_service_id(services[i]);
		struct epoll_event event;
		struct ripc_msg *msg;

		if (ripc_send_long(sender, to, &item, 1, WAIT_MS) ||
				epoll_wait(epoll_fd, &event, 1, WAIT_MS) != 1)
			break;
		returns++;
		if (event.data.u64 != i || ripc_receive(services[i], 0, &msg))
			break;
		received++;
		ripc_msg_free(msg);
	}
	printf("%zu services in one epoll: %zu messages, %zu returns\n", count, received, returns);
	return received < count;
}

/* Two descriptors for each service: fewer, where there may not be as many. */
static size_t count_allowed(size_t count)
{
	struct rlimit limit = {2 * count + 200, 2 * count + 200};

	if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return count;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return (limit.rlim_cur - 200) / 2 < count ? (limit.rlim_cur - 200) / 2 : count;
}

static int measure_many(const char *backend, size_t count)
{
	struct ripc_service **services = calloc(count, sizeof(*services));
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), error;
	struct ripc_context *ctx = NULL, *sending = NULL;
	struct ripc_service *sender;

	count = count_allowed(count);
	error = services ? open_service(backend, &ctx, services) : 1;
	error = error ? error : open_service(backend, &sending, &sender);
	for (size_t i = 1; !error && i < count; i++)
		error = ripc_service_open(ctx, 0, 0, &services[i]);
	for (size_t i = 0; !error && i < count; i++)
		error = watch(epoll_fd, ripc_service_fd(services[i]), i % 2, i);
	if (error)
		fputs("descriptor: cannot watch as many\n", stderr);
	else
		error = exchange(sender, services, count, epoll_fd);
	if (sending)
		ripc_close(sending, 1000);
	if (ctx)
		ripc_close(ctx, 1000);
	free(services);
	return error != 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const char *backend = argc > 2 ? argv[2] : "udp";
	uint64_t seconds = argc > 3 ? strtoull(argv[3], NULL, 10) : 2;

	if (strcmp(what, "returns") == 0)
		return measure_returns(backend, seconds);
	if (strcmp(what, "latency") == 0)
		return measure_latency(backend, seconds);
	if (strcmp(what, "many") == 0)
		return measure_many("udp", argc > 2 ? strtoull(argv[2], NULL, 10) : 10000);
	fputs("usage: descriptor returns|latency [BACKEND [SECONDS]]\n"
		"       descriptor many [COUNT]\n", stderr);
	return 2;
}
