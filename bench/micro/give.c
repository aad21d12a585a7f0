/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * give [RUNS]: how long it takes to give a buffer (RIPC_GIVE) to another process of this host, from
 * the call until it is known to be in the receiver's queue, by size. The receiver looks at nothing,
 * or (sum) reads every byte before it lets go. Medians. "again": the same buffer each time, as a
 * cache gives it, both sizes in turns; "fresh": another one each time, which the receiver has to
 * map, one size after the other, as 80 MiB that go back to the system delay what follows. The two
 * processes poll, and need a core each. Exit status 1: giving 80 MiB takes more than 1.5 times what
 * 1 MiB takes, or 20 us.
 */
#include <inttypes.h>
#include <ripc/ripc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB       ((size_t)1 << 20)
#define RUNS      200
#define RUNS_MAX  10000
#define WAIT_MS   20000
#define FACTOR    1.5
#define MOST_US   20.0
#define POLLS     10

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int open_service(struct ripc_context **ctx, struct ripc_service **svc)
{
	const struct ripc_config config = {.size = sizeof(config), .backends = "shm",
		.spin_us = 100000};
	int error = ripc_open(&config, ctx);

	return error ? error : ripc_service_open(*ctx, 0, 0, svc);
}

/* ---- the receiver ------------------------------------------------------------------------ */

static uint64_t sum_of(const struct iovec *item)
{
	const uint64_t *at = item->iov_base;
	uint64_t sum = 0;

	for (size_t i = 0; i < item->iov_len / sizeof(*at); i++)
		sum += at[i];
	return sum;
}

/*
 * Never returns. The first byte of a message says what to do with it. The process ends with its
 * parent.
 */
static void receive_all(int id_fd)
{
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc_msg *msg;
	uint64_t id;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (open_service(&ctx, &svc))
		_exit(1);
	id = ripc_service_id(svc);
	if (write(id_fd, &id, sizeof(id)) != sizeof(id))
		_exit(1);
	while (ripc_receive(svc, -1, &msg) == 0) {
		bool sums = *(const uint8_t *)msg->items[0].iov_base;
		uint64_t sum = sums ? sum_of(&msg->items[0]) : 0;
		struct iovec answer = {&sum, sizeof(sum)};
		uint64_t from = msg->from;

		if (ripc_send_long(svc, from, &answer, 1, WAIT_MS))
			_exit(1);
		ripc_msg_free(msg);
	}
	_exit(1);
}

/* ---- the giver --------------------------------------------------------------------------- */

/* The cost of one size. */
struct series {
	size_t len;
	void *cached;
	uint64_t ns[RUNS_MAX];
};

struct giver {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t to;
	int runs;
	struct series small, large;
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "give: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void *buffer_of(struct giver *giver, size_t len, bool sums)
{
	void *buffer;
	int error = ripc_buf_alloc(giver->ctx, len, &buffer);

	if (error)
		fail("no buffer", error);
	memset(buffer, 1, len);
	*(uint8_t *)buffer = sums;
	return buffer;
}

/* Giving memory back to the system takes long: that is not what is measured. */
static void wait_home(struct giver *giver)
{
	struct ripc_stats stats = {.size = sizeof(stats), .given_held_bytes = 1};
	struct ripc_msg *none;

	for (int i = 0; i < POLLS || stats.given_held_bytes; i++) {
		ripc_receive(giver->svc, 0, &none); /* nothing comes: it polls */
		ripc_stats_get(giver->ctx, &stats);
	}
}

/* Gives once. Returns the time until delivery; with sums until the answer. */
static uint64_t give(struct giver *giver, void *buffer, size_t len, bool sums)
{
	const struct iovec item = {buffer, len};
	const struct ripc_send send = {.size = sizeof(send), .to = giver->to, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_GIVE, .timeout_ms = WAIT_MS};
	uint64_t start = now_ns(), delivered, answered;
	struct ripc_msg *answer;
	int error = ripc_sendmsg(giver->svc, &send, NULL);

	delivered = now_ns();
	if (error)
		fail("not delivered", error);
	error = ripc_receive(giver->svc, WAIT_MS, &answer);
	if (error)
		fail("no answer", error);
	answered = now_ns();
	ripc_msg_free(answer);
	wait_home(giver);
	return (sums ? answered : delivered) - start;
}

static void give_one(struct giver *giver, struct series *series, int run, bool sums)
{
	void *buffer = series->cached ? series->cached : buffer_of(giver, series->len, sums);
	int error = series->cached ? ripc_buf_ref(giver->ctx, buffer) : 0;
	uint64_t ns;

	if (error)
		fail("no reference", error);
	ns = give(giver, buffer, series->len, sums);
	if (run >= 0) /* first they make each other's acquaintance */
		series->ns[run] = ns;
}

static double median_us(struct series *series, int runs)
{
	qsort(series->ns, (size_t)runs, sizeof(series->ns[0]), compare);
	return (double)series->ns[runs / 2] / 1000;
}

/* False: size matters, or it takes too long. */
static bool measure(struct giver *giver, bool fresh, bool sums)
{
	struct series *small = &giver->small, *large = &giver->large;
	int runs = fresh || sums ? giver->runs / 10 + 1 : giver->runs;
	double small_us, large_us;

	small->cached = fresh ? NULL : buffer_of(giver, small->len, sums);
	large->cached = fresh ? NULL : buffer_of(giver, large->len, sums);
	for (int run = -3; run < runs; run++) {
		give_one(giver, small, run, sums);
		if (!fresh)
			give_one(giver, large, run, sums);
	}
	for (int run = -3; fresh && run < runs; run++)
		give_one(giver, large, run, sums);
	ripc_buf_free(giver->ctx, small->cached);
	ripc_buf_free(giver->ctx, large->cached);
	small_us = median_us(small, runs);
	large_us = median_us(large, runs);
	printf("%-5s %-3s  1 MiB %9.2f us (least %.2f)  80 MiB %9.2f us (least %.2f)  ratio %.2f\n",
		fresh ? "fresh" : "again", sums ? "sum" : "", small_us,
		(double)small->ns[0] / 1000, large_us, (double)large->ns[0] / 1000,
		large_us / small_us);
	return sums || (large_us <= FACTOR * small_us && large_us < MOST_US);
}

int main(int argc, char **argv)
{
	static struct giver giver = {.small = {.len = MIB}, .large = {.len = 80 * MIB}};
	struct ripc_stats stats = {.size = sizeof(stats)};
	int fds[2], error;
	bool good;
	pid_t child;

	giver.runs = argc > 1 ? atoi(argv[1]) : RUNS;
	if (giver.runs < 1 || giver.runs > RUNS_MAX || pipe(fds))
		return 2;
	child = fork();
	if (child == 0)
		receive_all(fds[1]);
	close(fds[1]);
	if (child < 0 || read(fds[0], &giver.to, sizeof(giver.to)) != sizeof(giver.to))
		return 2;
	error = open_service(&giver.ctx, &giver.svc);
	if (error)
		fail("shared memory", error);
	good = measure(&giver, false, false);
	good &= measure(&giver, true, false);
	measure(&giver, false, true);
	ripc_stats_get(giver.ctx, &stats);
	printf("datagrams sent %" PRIu64 ", still held %" PRIu64 " bytes\n",
		stats.datagrams_sent, stats.given_held_bytes);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ripc_close(giver.ctx, 0);
	return good ? 0 : 1;
}
