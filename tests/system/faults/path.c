/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several paths between two processes of one host: long messages stream over shared memory, which
 * is broken, refused and admitted again under them; all are delivered, none twice, and the path is
 * what it can be. fork() with the traffic running. Two users who may not share memory.
 *
 * usage: faults-path move|fork|users [--full]    RIPC_TEST_SEED repeats a run
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "path.h"

#define DEADLINE_MS 10000
#define PATIENCE_MS 30000u
#define NOBODY      "65534"
#define SKIPPED     77
#define NOBODY_MOST 20u /* notes that find nobody at first, as the machine may stop the partner */

struct driver;

struct stream {
	struct driver *driver;
	pthread_t thread;
	uint32_t index, sent;
	uint64_t random;
	void *bytes;
};

struct driver {
	struct ripc__env env;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	int partner, said; /* the process, and what it says */
	struct stream streams[STREAMS];
	atomic_bool stop;
	atomic_uint delivered, nobody;
	uint64_t random;
};

/* ---- the partner ------------------------------------------------------------------------- */

static void partner_said(const struct driver *driver, void *bytes, size_t len)
{
	struct pollfd poller = {.fd = driver->said, .events = POLLIN};

	if (poll(&poller, 1, (int)PATIENCE_MS) != 1 ||
			read(driver->said, bytes, len) != (ssize_t)len)
		fault_fail("the partner says nothing");
}

static void partner_start(struct driver *driver, const char *uid)
{
	const char *argv[] = {"faults-path", "--partner", uid, NULL};
	char ready;

	driver->partner = fault_spawn(argv, &driver->said);
	partner_said(driver, &ready, 1);
}

static void partner_tell(const struct driver *driver, int signal)
{
	char done;

	kill(driver->partner, signal);
	partner_said(driver, &done, 1);
}

/* How many notes it has got. */
static uint32_t partner_end(const struct driver *driver)
{
	uint32_t got;

	kill(driver->partner, SIGNAL_END);
	partner_said(driver, &got, sizeof(got));
	if (fault_await(driver->partner, PATIENCE_MS))
		fault_fail("the partner did not end well");
	close(driver->said);
	return got;
}

/* ---- streams ----------------------------------------------------------------------------- */

static int send_note(struct driver *driver, struct note *note, void *bytes)
{
	const struct iovec items[2] = {{note, sizeof(*note)}, {bytes, note->len}};
	struct ripc_send send = {.size = sizeof(send), .to = fault_id(SERVICE_PARTNER),
		.items = items, .n_items = 2, .flags = RIPC_SEND_LONG, .timeout_ms = DEADLINE_MS};
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	enum ripc_outcome outcome = 0;
	int error;

	fault_fill(bytes, note->len, note_seed(note));
	error = ripc_sendmsg(driver->svc, &send, &outcome);
	/* A process that is silent for a second is considered gone, if it has to be found anew. */
	if (error == -ENOENT && atomic_fetch_add(&driver->nobody, 1) >= NOBODY_MOST)
		fault_fail("too many notes found nobody");
	while (error == -ENOENT && outcome == RIPC_NOT_DELIVERED && fault_now_ms() < until_ms) {
		usleep(10000);
		error = ripc_sendmsg(driver->svc, &send, &outcome);
	}
	if (error)
		fault_fail("note %u of stream %u, %u bytes: %s, outcome %d", note->number,
			note->stream, note->len, ripc_strerror(error), outcome);
	atomic_fetch_add(&driver->delivered, 1);
	return error;
}

static void *stream_main(void *arg)
{
	static const uint32_t most[STREAMS] = {60000, LEN_MAX, 500000};
	struct stream *stream = arg;

	while (!atomic_load(&stream->driver->stop)) {
		struct note note = {.stream = stream->index, .number = stream->sent++ % NUMBERS,
			.len = (uint32_t)(fault_random(&stream->random) % most[stream->index])};

		if (stream->sent > NUMBERS)
			fault_fail("more notes than have numbers");
		send_note(stream->driver, &note, stream->bytes);
	}
	return NULL;
}

/* The second process sends from memory of the pool, which the partner reads directly. */
static void streams_start(struct driver *driver)
{
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct stream *stream = &driver->streams[i];

		*stream = (struct stream){.driver = driver, .index = i,
			.random = fault_random(&driver->random)};
		if (i == 1 && ripc_buf_alloc(driver->ctx, LEN_MAX, &stream->bytes))
			fault_fail("no buffer");
		else if (i != 1)
			stream->bytes = malloc(LEN_MAX);
		if (!stream->bytes ||
				pthread_create(&stream->thread, NULL, stream_main, stream))
			fault_fail("no thread");
	}
}

static void streams_end(struct driver *driver)
{
	atomic_store(&driver->stop, true);
	for (uint32_t i = 0; i < STREAMS; i++) {
		pthread_join(driver->streams[i].thread, NULL);
		if (i == 1)
			ripc_buf_free(driver->ctx, driver->streams[i].bytes);
		else
			free(driver->streams[i].bytes);
	}
}

/* Waits until n more have been delivered. */
static void streams_await(struct driver *driver, uint32_t n)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	uint32_t begin = atomic_load(&driver->delivered);

	while (atomic_load(&driver->delivered) - begin < n) {
		if (fault_now_ms() > until_ms)
			fault_fail("the streams stand still");
		usleep(1000);
	}
}

static void path_await(struct driver *driver, const char *wanted, const char *when)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
	struct ripc_path path = {.size = sizeof(path)};

	while (ripc_path_info(driver->svc, fault_id(SERVICE_PARTNER), &path) ||
			strcmp(path.backend, wanted) != 0) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the path is %s, not %s", when, path.backend, wanted);
		usleep(1000);
	}
}

static void driver_open(struct driver *driver, const char *partner_uid)
{
	struct ripc_config cfg = fault_config();

	memset(driver, 0, sizeof(*driver));
	driver->random = fault_seed();
	partner_start(driver, partner_uid);
	ripc__env_init(&driver->env);
	fault_open(&driver->env, &cfg, &driver->ctx);
	if (ripc_service_open(driver->ctx, fault_id(SERVICE_DRIVER), 0, &driver->svc))
		fault_fail("no service");
	fault_find(driver->ctx, fault_id(SERVICE_PARTNER));
}

static void driver_close(struct driver *driver)
{
	uint32_t got = partner_end(driver), delivered = atomic_load(&driver->delivered);

	if (got != delivered)
		fault_fail("%u notes were delivered, the partner got %u", delivered, got);
	if (ripc_close(driver->ctx, DEADLINE_MS))
		fault_fail("cannot close");
}

/* ---- the path moves ---------------------------------------------------------------------- */

static void moves(bool full)
{
	static struct driver driver;
	struct ripc_stats stats = {.size = sizeof(stats)};
	uint32_t cycles = full ? 50 : 2;

	driver_open(&driver, NULL);
	streams_start(&driver);
	for (uint32_t i = 0; i < cycles; i++) {
		path_await(&driver, "shm", "admitted");
		for (int breaks = 0; breaks < 10; breaks++) {
			streams_await(&driver, 1 + fault_random(&driver.random) % 20);
			partner_tell(&driver, SIGNAL_BREAK);
		}
		path_await(&driver, "shm", "broken");
		streams_await(&driver, 1 + fault_random(&driver.random) % 20);
		partner_tell(&driver, SIGNAL_REFUSE);
		path_await(&driver, "udp", "refused");
		streams_await(&driver, 10);
		partner_tell(&driver, SIGNAL_ADMIT);
	}
	path_await(&driver, "shm", "admitted");
	streams_await(&driver, 10);
	streams_end(&driver);
	ripc_stats_get(driver.ctx, &stats);
	printf("%u notes, %u times away from shared memory and back, the path changed %llu times\n",
		atomic_load(&driver.delivered), cycles,
		(unsigned long long)stats.path_changes);
	driver_close(&driver);
}

/* ---- fork -------------------------------------------------------------------------------- */

/* The address sanitizer of gcc 12: the child of a threaded process may not allocate. */
#ifdef __SANITIZE_ADDRESS__
#define TALKS false
#else
#define TALKS true
#endif

/* A note there and back, by a context of the child's own. */
static int child_talks(uint32_t number)
{
	static struct driver own;
	struct ripc_config cfg = fault_config();
	struct note note = {.stream = 0, .number = NUMBERS - 1 - number, .len = 100000, .echo = 1};
	struct note answer;
	struct ripc_msg *msg;
	void *bytes = malloc(LEN_MAX);

	ripc__env_init(&own.env);
	fault_open(&own.env, &cfg, &own.ctx);
	if (!bytes || ripc_service_open(own.ctx, fault_id(SERVICE_CHILD), 0, &own.svc))
		return 3;
	fault_find(own.ctx, fault_id(SERVICE_PARTNER));
	send_note(&own, &note, bytes);
	if (ripc_receive(own.svc, DEADLINE_MS, &msg))
		return 4;
	if (note_read(msg, &answer) || answer.number != note.number)
		return 5;
	ripc_msg_free(msg);
	free(bytes);
	return ripc_close(own.ctx, DEADLINE_MS) ? 6 : 0;
}

static int child_main(struct driver *driver, uint32_t number)
{
	struct ripc_path path = {.size = sizeof(path)};
	const struct iovec item = {"child", 5};
	struct ripc_msg *msg;

	if (ripc_send_short(driver->svc, fault_id(SERVICE_PARTNER), &item, 1) != -EOWNERDEAD ||
			ripc_send_long(driver->svc, fault_id(SERVICE_PARTNER), &item, 1, 100) !=
			-EOWNERDEAD || ripc_receive(driver->svc, 0, &msg) != -EOWNERDEAD ||
			ripc_path_info(driver->svc, fault_id(SERVICE_PARTNER), &path) !=
			-EOWNERDEAD)
		return 2;
	return TALKS ? child_talks(number) : 0;
}

static void forks(bool full)
{
	static struct driver driver;
	uint32_t children = full ? 100 : 10;

	driver_open(&driver, NULL);
	streams_start(&driver);
	for (uint32_t i = 0; i < children; i++) {
		int child, status;

		streams_await(&driver, 1 + fault_random(&driver.random) % 5);
		child = fork();
		if (child == 0)
			_exit(child_main(&driver, i));
		status = child < 0 ? -1 : fault_await(child, PATIENCE_MS);
		if (status)
			fault_fail("child %u ended with %#x", i, status);
		atomic_fetch_add(&driver.delivered, TALKS);
		streams_await(&driver, 5);
	}
	streams_end(&driver);
	printf("%u notes beside %u forked children%s\n", atomic_load(&driver.delivered), children,
		TALKS ? "" : ", which could open nothing under the address sanitizer");
	driver_close(&driver);
}

/* ---- users ------------------------------------------------------------------------------- */

static void users(const char *uid, const char *wanted)
{
	static struct driver driver;

	driver_open(&driver, uid);
	streams_start(&driver);
	path_await(&driver, wanted, "users");
	streams_await(&driver, 100);
	path_await(&driver, wanted, "users");
	streams_end(&driver);
	printf("%u notes to %s, by %s\n", atomic_load(&driver.delivered),
		uid ? "another user" : "our own user", wanted);
	driver_close(&driver);
}

static int users_both(void)
{
	if (geteuid() != 0) {
		printf("skipped: to start a process of another user needs root\n");
		return SKIPPED;
	}
	users(NULL, "shm");
	users(NOBODY, "udp");
	return 0;
}

int main(int argc, char **argv)
{
	bool full = fault_full(argc, argv);
	struct fault_left before;
	int status = 0;

	if (argc >= 2 && strcmp(argv[1], "--partner") == 0)
		return partner_main(argv[2]);
	setenv("RIPC_BACKENDS", "shm,udp", 1);
	before = fault_left_now();
	if (argc >= 2 && strcmp(argv[1], "move") == 0) {
		moves(full);
	} else if (argc >= 2 && strcmp(argv[1], "fork") == 0) {
		forks(full);
	} else if (argc >= 2 && strcmp(argv[1], "users") == 0) {
		status = users_both();
	} else {
		fprintf(stderr, "usage: %s move|fork|users [--full]\n", argv[0]);
		return 2;
	}
	fault_left_check(&before, "at the end");
	return status;
}
