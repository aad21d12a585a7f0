/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The costs of many open requests, and of many watched services.
 *
 * crowd calls [BACKEND [CLIENTS [EACH [SECONDS]]]]
 *     So many clients (1,000 services, of ten contexts in a process of their own) call one server,
 *     which has one epoll, with so many requests of 50 B open each (10). First the server keeps
 *     all of them: prints the bytes that each takes on both sides. Then the server replies to what
 *     comes: prints replies per second, and how long they take; at last also beside a slow
 *     handler, to which one request in 100 goes, and which takes 10 ms for each.
 *
 * crowd watch [BACKEND [SERVICES [SECONDS]]]
 *     Watches so many services (1,000) of ten contexts of another process, and prints how much of
 *     a processor that takes while nothing changes.
 */
#include <errno.h>
#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <ripc/call.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTEXTS    10u
#define CLIENTS_MAX 10000u
#define OPEN_MAX    16000u
#define EVENTS      64
#define CALL_MS     120000
#define SLOW_US     10000
#define SLOW_PER    100u
#define TIMES_MAX   4000000u

/* In memory that both processes share. */
struct board {
	volatile bool keeps, counts; /* the server never replies; says what memory it has */
	volatile unsigned int n_kept, n_ready;
	volatile size_t server_bytes;
	uint64_t ids[CLIENTS_MAX];
};

struct text {
	uint64_t began_ns;
	bool slow;
	char rest[39];
};

static struct board *board;

static int check(int error, const char *what)
{
	if (error >= 0)
		return error;
	fprintf(stderr, "crowd: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_ms(long ms)
{
	const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

/* Bytes that the process has from the allocator; 0 where it does not tell, or only in int. */
static size_t heap_bytes(void)
{
#if defined(M_ARENA_MAX) && __GLIBC_MINOR__ >= 33
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#else
	return 0;
#endif
}

static size_t bytes_of(struct ripc_context *ctx)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	check(ripc_stats_get(ctx, &stats), "stats");
	return heap_bytes() + stats.pool_used_bytes;
}

static void context_open(const char *backend, struct ripc_context **ctx)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = backend};

	check(ripc_open(&config, ctx), "open");
}

static pid_t process_start(void (*run)(const char *backend, unsigned int n), const char *backend,
		unsigned int n)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(backend, n);
		_exit(0);
	}
	return pid;
}

/* ---- the server -------------------------------------------------------------------------- */

struct slow {
	struct ripc_service *svc;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct ripc_msg *kept[OPEN_MAX];
	unsigned int from, to;
};

static struct slow slow = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static struct ripc_msg *kept[OPEN_MAX];

static void answer(struct ripc_service *svc, struct ripc_msg *request)
{
	check(ripc_reply(svc, request, request->items, request->n_items, 0), "reply");
	ripc_msg_free(request);
}

static void *handle_slowly(void *arg)
{
	(void)arg;
	for (;;) {
		struct ripc_msg *request;

		pthread_mutex_lock(&slow.lock);
		while (slow.from == slow.to)
			pthread_cond_wait(&slow.more, &slow.lock);
		request = slow.kept[slow.from++ % OPEN_MAX];
		pthread_mutex_unlock(&slow.lock);
		sleep_ms(SLOW_US / 1000);
		answer(slow.svc, request);
	}
	return NULL;
}

static void hand_over(struct ripc_msg *request)
{
	pthread_mutex_lock(&slow.lock);
	slow.kept[slow.to++ % OPEN_MAX] = request;
	pthread_cond_signal(&slow.more);
	pthread_mutex_unlock(&slow.lock);
}

static void take(struct ripc_service *svc, struct ripc_msg *msg)
{
	const struct text *text = msg->items[0].iov_base;

	if (board->keeps)
		kept[board->n_kept++] = msg;
	else if (text->slow)
		hand_over(msg);
	else
		answer(svc, msg);
}

static void take_all(struct ripc_service *svc)
{
	struct ripc_msg *msg;

	while (ripc_receive(svc, 0, &msg) == 0) {
		if (msg->kind == RIPC_REQUEST)
			take(svc, msg);
		else
			ripc_msg_free(msg);
	}
}

static void server_main(const char *backend, unsigned int n)
{
	struct epoll_event event = {.events = EPOLLIN};
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct ripc_context *ctx;
	pthread_t thread;

	(void)n;
	context_open(backend, &ctx);
	check(ripc_service_open(ctx, 0, 0, &slow.svc), "service");
	board->ids[0] = ripc_service_id(slow.svc);
	if (pthread_create(&thread, NULL, handle_slowly, NULL) || epoll_ctl(epoll_fd,
			EPOLL_CTL_ADD, ripc_service_fd(slow.svc), &event))
		exit(1);
	board->n_ready = 1;
	for (;;) {
		if (epoll_wait(epoll_fd, &event, 1, 100) < 0)
			exit(1);
		take_all(slow.svc);
		for (; !board->keeps && board->n_kept; board->n_kept--)
			answer(slow.svc, kept[board->n_kept - 1]);
		if (board->counts)
			board->server_bytes = bytes_of(ctx);
	}
}

/* ---- the clients ------------------------------------------------------------------------- */

static struct ripc_context *contexts[CONTEXTS];
static struct ripc_service *services[CLIENTS_MAX];
static struct text texts[OPEN_MAX];
static unsigned int n_clients, n_each;
static float *times_us;
static size_t n_times;
static bool some_slow;

static void ask(unsigned int slot)
{
	const struct iovec item = {&texts[slot], sizeof(texts[slot])};
	const struct ripc_request request = {.size = sizeof(request), .to = board->ids[0],
		.items = &item, .n_items = 1, .cookie = slot, .timeout_ms = CALL_MS};
	int error;

	texts[slot].began_ns = now_ns();
	texts[slot].slow = some_slow && slot % SLOW_PER == 0;
	while ((error = ripc_call_start(services[slot / n_each], &request)) == -EAGAIN)
		sleep_ms(1);
	check(error, "call");
}

/* Takes what has come to a service; asks: the next request is sent. */
static void take_answers(struct ripc_service *svc, bool asks)
{
	struct ripc_msg *msg;

	while (ripc_receive(svc, 0, &msg) == 0) {
		unsigned int slot = (unsigned int)msg->request_cookie;

		if (msg->kind == RIPC_REPLY) {
			check(msg->status, "reply");
			if (!texts[slot].slow && n_times < TIMES_MAX)
				times_us[n_times++] = (float)(now_ns() -
					texts[slot].began_ns) / 1000;
			if (asks)
				ask(slot);
		}
		ripc_msg_free(msg);
	}
}

static void clients_open(const char *backend, int epoll_fd)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		context_open(backend, &contexts[i]);
	for (unsigned int i = 0; i < n_clients; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};

		check(ripc_service_open(contexts[i % CONTEXTS], 0, 0, &services[i]), "service");
		if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ripc_service_fd(services[i]), &event))
			check(-errno, "epoll");
	}
}

static void run_for(int epoll_fd, uint64_t ms, bool asks)
{
	uint64_t until_ns = now_ns() + ms * 1000000;
	struct epoll_event events[EVENTS];

	while (now_ns() < until_ns) {
		int n = epoll_wait(epoll_fd, events, EVENTS, 50);

		for (int i = 0; i < n; i++)
			take_answers(services[events[i].data.u32], asks);
	}
}

static size_t client_bytes(void)
{
	size_t bytes = heap_bytes();

	for (unsigned int i = 0; i < CONTEXTS; i++)
		bytes += bytes_of(contexts[i]) - heap_bytes();
	return bytes;
}

static int compare(const void *a, const void *b)
{
	float left = *(const float *)a, right = *(const float *)b;

	return (left > right) - (left < right);
}

static void print_times(const char *what, double seconds)
{
	if (n_times == 0)
		check(-ETIMEDOUT, what);
	qsort(times_us, n_times, sizeof(*times_us), compare);
	printf("%s: %.0f replies per second, %.1f ms in the median, %.1f p99, %.1f at most\n", what,
		(double)n_times / seconds, times_us[n_times / 2] / 1000.0,
		times_us[n_times - 1 - n_times / 100] / 1000.0, times_us[n_times - 1] / 1000.0);
	n_times = 0;
}

static void ask_all(void)
{
	for (unsigned int slot = 0; slot < n_clients * n_each; slot++)
		ask(slot);
}

/* Each client has sent one request, and knows the server. Then all their requests are open. */
static void measure_bytes(int epoll_fd)
{
	unsigned int n = n_clients * n_each;
	size_t server, clients;

	for (unsigned int slot = 0; slot < n; slot += n_each)
		ask(slot);
	board->counts = true;
	run_for(epoll_fd, 3000, false);
	server = board->server_bytes;
	clients = client_bytes();
	board->keeps = true;
	sleep_ms(200);
	ask_all();
	for (unsigned int i = 0; board->n_kept < n && i < 600; i++)
		run_for(epoll_fd, 50, false);
	run_for(epoll_fd, 2000, false);
	printf("%u open: %.0f bytes each at the server, which keeps the message; %.0f at the "
		"client\n", board->n_kept, (double)(board->server_bytes - server) / n,
		(double)(client_bytes() - clients) / n);
	n_times = 0;
	board->counts = false;
	board->keeps = false;
}

static int calls(const char *backend, unsigned int seconds)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	pid_t pid = process_start(server_main, backend, 0);

	times_us = malloc(TIMES_MAX * sizeof(*times_us));
	while (!board->n_ready)
		sleep_ms(10);
	clients_open(backend, epoll_fd);
	measure_bytes(epoll_fd);
	run_for(epoll_fd, 1000, true);
	n_times = 0;
	run_for(epoll_fd, seconds * 1000, true);
	print_times("each replied to at once", seconds);
	some_slow = true;
	run_for(epoll_fd, 1000, true);
	n_times = 0;
	run_for(epoll_fd, seconds * 1000, true);
	print_times("beside a slow handler", seconds);
	kill(pid, SIGKILL);
	return 0;
}

/* ---- watching ---------------------------------------------------------------------------- */

static void holder_main(const char *backend, unsigned int n)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		context_open(backend, &contexts[i]);
	for (unsigned int i = 0; i < n; i++) {
		struct ripc_service *svc;

		check(ripc_service_open(contexts[i % CONTEXTS], 0, 0, &svc), "service");
		board->ids[i] = ripc_service_id(svc);
	}
	board->n_ready = 1;
	pause();
}

static double processor_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int watch(const char *backend, unsigned int n, unsigned int seconds)
{
	pid_t pid = process_start(holder_main, backend, n);
	unsigned int n_told = 0;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc_msg *msg;
	double began_s;

	while (!board->n_ready)
		sleep_ms(10);
	context_open(backend, &ctx);
	check(ripc_service_open(ctx, 0, 0, &svc), "service");
	for (unsigned int i = 0; i < n; i++)
		check(ripc_watch(svc, board->ids[i], i), "watch");
	while (ripc_receive(svc, n_told < n ? 10000 : 3000, &msg) == 0) {
		n_told += msg->kind == RIPC_NOTICE && msg->flags & RIPC_WATCHED &&
			msg->from_incarnation;
		ripc_msg_free(msg);
	}
	began_s = processor_s();
	sleep_ms((long)seconds * 1000);
	printf("%u watched, %u are there: %.3f %% of a processor, over %u s\n", n, n_told,
		(processor_s() - began_s) * 100 / seconds, seconds);
	kill(pid, SIGKILL);
	return n_told < n;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *backend = argc > 2 ? argv[2] : "shm";

	n_clients = argc > 3 ? (unsigned int)atoi(argv[3]) : 1000;
	n_each = argc > 4 && strcmp(what, "calls") == 0 ? (unsigned int)atoi(argv[4]) : 10;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (board == MAP_FAILED || n_clients < 1 || n_clients > CLIENTS_MAX || n_each < 1 ||
			n_clients * n_each > OPEN_MAX)
		what = "";
	if (strcmp(what, "calls") == 0)
		return calls(backend, argc > 5 ? (unsigned int)atoi(argv[5]) : 5);
	if (strcmp(what, "watch") == 0)
		return watch(backend, n_clients, argc > 4 ? (unsigned int)atoi(argv[4]) : 20);
	fprintf(stderr, "usage: crowd calls [BACKEND [CLIENTS [EACH [SECONDS]]]]\n"
		"       crowd watch [BACKEND [SERVICES [SECONDS]]]\n");
	return 2;
}
