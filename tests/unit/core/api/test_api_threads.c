/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls from many threads, and after fork(). RIPC_TEST_ROUNDS repeats the threaded
 * cases so many times.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "api.h"

#define WORKERS   8
#define MESSAGES  100 /* of each worker and round */
#define MARK      0x6d61726bu
/* The thread sanitizer cannot follow threads that the child of a threaded process starts. */
#ifdef __SANITIZE_THREAD__
#define CHILD_FLAGS RIPC_NO_THREAD
#else
#define CHILD_FLAGS 0
#endif

static int rounds(void)
{
	const char *text = getenv("RIPC_TEST_ROUNDS");

	return text ? atoi(text) : 1;
}

/* ---- many threads on shared services ----------------------------------------------------- */

struct letter {
	uint32_t mark, worker, number, stop;
};

struct crowd {
	struct side from, to;
	atomic_uint got[WORKERS * MESSAGES];
	atomic_uint n_got, n_completed;
};

struct worker {
	struct crowd *crowd;
	uint32_t number;
	pthread_t thread;
};

/* Lengths from one packet to several grants; each letter ends with a copy of its head. */
static size_t letter_len(uint32_t worker, uint32_t number)
{
	static const size_t lens[] = {0, 300, 9000, 70000, 200000};

	return sizeof(struct letter) + lens[(worker + number) % 5];
}

static void *send_main(void *arg)
{
	struct worker *worker = arg;
	struct crowd *crowd = worker->crowd;
	char *bytes = calloc(1, 300000);

	for (uint32_t i = 0; i < MESSAGES; i++) {
		const struct letter letter = {MARK, worker->number, i, 0};
		size_t len = letter_len(worker->number, i);
		struct iovec one = item(bytes, len);
		struct ripc_send send = long_send(crowd->to.id, &one, 1);
		int error;

		memcpy(bytes + len - sizeof(letter), &letter, sizeof(letter));
		memcpy(bytes, &letter, sizeof(letter));
		send.cookie = worker->number * MESSAGES + i + 1;
		error = ripc_sendmsg(crowd->from.svc, &send, NULL);
		ck_assert_int_eq(error, 0);
		atomic_fetch_add(&crowd->n_completed, 1);
	}
	free(bytes);
	return NULL;
}

static void *receive_main(void *arg)
{
	struct crowd *crowd = arg;
	bool stop = false;

	while (!stop) {
		struct ripc_msg *msg;
		struct letter first, last;
		const struct iovec *one;

		ck_assert_int_eq(ripc_receive(crowd->to.svc, -1, &msg), 0);
		one = msg->items;
		ck_assert_uint_ge(one->iov_len, sizeof(first));
		memcpy(&first, one->iov_base, sizeof(first));
		memcpy(&last, (char *)one->iov_base + one->iov_len - sizeof(last), sizeof(last));
		ck_assert_uint_eq(first.mark, MARK);
		ck_assert_mem_eq(&first, &last, sizeof(first));
		stop = first.stop;
		if (!stop) {
			uint32_t at = first.worker * MESSAGES + first.number;

			ck_assert_uint_eq(one->iov_len, letter_len(first.worker, first.number));
			ck_assert_uint_lt(at, WORKERS * MESSAGES);
			ck_assert_uint_eq(atomic_fetch_add(&crowd->got[at], 1), 0);
			atomic_fetch_add(&crowd->n_got, 1);
		}
		ripc_msg_free(msg);
	}
	return NULL;
}

static void send_stop(struct crowd *crowd)
{
	const struct letter letter = {.mark = MARK, .stop = 1};
	const struct iovec one = item(&letter, sizeof(letter));

	ck_assert_int_eq(ripc_send_long(crowd->from.svc, crowd->to.id, &one, 1, PATIENCE_MS), 0);
}

static void crowd_run(struct crowd *crowd)
{
	struct worker senders[WORKERS];
	pthread_t receivers[WORKERS];

	for (uint32_t i = 0; i < WORKERS; i++) {
		struct worker *sender = &senders[i];

		*sender = (struct worker){.crowd = crowd, .number = i};
		ck_assert_int_eq(pthread_create(&receivers[i], NULL, receive_main, crowd), 0);
		ck_assert_int_eq(pthread_create(&sender->thread, NULL, send_main, sender), 0);
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(senders[i].thread, NULL);
	ck_assert_uint_eq(crowd->n_completed, WORKERS * MESSAGES);
	for (uint32_t i = 0; i < WORKERS; i++)
		send_stop(crowd);
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(receivers[i], NULL);
	ck_assert_uint_eq(crowd->n_got, WORKERS * MESSAGES);
}

/* Eight threads send on one service, eight receive on another. */
START_TEST(threads__share_two_services)
{
	for (int i = 0; i < rounds(); i++) {
		struct crowd *crowd = calloc(1, sizeof(*crowd));

		side_open(&crowd->from, 0);
		side_open(&crowd->to, 0);
		crowd_run(crowd);
		side_close(&crowd->from);
		side_close(&crowd->to);
		free(crowd);
	}
}
END_TEST

/* The same within one context, which so has no rest on either side. */
START_TEST(threads__share_one_context)
{
	for (int i = 0; i < rounds(); i++) {
		struct crowd *crowd = calloc(1, sizeof(*crowd));

		side_open(&crowd->from, 0);
		crowd->to.ctx = crowd->from.ctx;
		ck_assert_int_eq(ripc_service_open(crowd->to.ctx, 0, 0, &crowd->to.svc), 0);
		crowd->to.id = ripc_service_id(crowd->to.svc);
		crowd_run(crowd);
		side_close(&crowd->from);
		free(crowd);
	}
}
END_TEST

/* ---- a service for each thread ----------------------------------------------------------- */

struct ring {
	struct side sides[WORKERS];
	atomic_uint passed;
};

struct stand {
	struct ring *ring;
	uint32_t number;
	pthread_t thread;
};

/* Receives without end and passes on, a long and a short by turns, until the count is up. */
static void *pass_main(void *arg)
{
	struct stand *stand = arg;
	const struct side *own = &stand->ring->sides[stand->number];
	const struct side *next = &stand->ring->sides[(stand->number + 1) % WORKERS];
	uint32_t count = 1;

	while (count > 0) {
		struct iovec one = item(&count, sizeof(count));
		struct ripc_msg *msg;

		ck_assert_int_eq(ripc_receive(own->svc, -1, &msg), 0);
		memcpy(&count, msg->items[0].iov_base, sizeof(count));
		ripc_msg_free(msg);
		atomic_fetch_add(&stand->ring->passed, 1);
		count -= count > 0;
		ck_assert_int_eq(ripc_send_long(own->svc, next->id, &one, 1, PATIENCE_MS), 0);
	}
	return NULL;
}

/*
 * Several services in one context, each with a thread that waits for ever and is woken by what
 * another thread received or sent. The token goes round, and at the end round once more as 0,
 * which ends each thread; the last one finds nobody who would take it, but it is delivered.
 */
START_TEST(threads__a_service_each)
{
	static struct ring ring;
	struct stand stands[WORKERS];
	uint32_t count = 200;
	const struct iovec one = item(&count, sizeof(count));

	for (int round = 0; round < rounds(); round++) {
		side_open(&ring.sides[0], 0);
		for (uint32_t i = 1; i < WORKERS; i++) {
			ring.sides[i].ctx = ring.sides[0].ctx;
			ck_assert_int_eq(ripc_service_open(ring.sides[0].ctx, 0, 0,
				&ring.sides[i].svc), 0);
			ring.sides[i].id = ripc_service_id(ring.sides[i].svc);
		}
		atomic_store(&ring.passed, 0);
		for (uint32_t i = 0; i < WORKERS; i++) {
			stands[i] = (struct stand){.ring = &ring, .number = i};
			ck_assert_int_eq(pthread_create(&stands[i].thread, NULL, pass_main,
				&stands[i]), 0);
		}
		ck_assert_int_eq(ripc_send_long(ring.sides[0].svc, ring.sides[0].id, &one, 1,
			PATIENCE_MS), 0);
		for (uint32_t i = 0; i < WORKERS; i++)
			pthread_join(stands[i].thread, NULL);
		ck_assert_uint_ge(atomic_load(&ring.passed), count);
		side_close(&ring.sides[0]);
	}
}
END_TEST

struct waiter {
	struct ripc_service *svc;
	struct ripc_msg *msg;
	int status;
};

static void *wait_main(void *arg)
{
	struct waiter *waiter = arg;

	waiter->status = ripc_receive(waiter->svc, -1, &waiter->msg);
	return NULL;
}

/* A receive without end is woken by a message that another thread of the context sends. */
START_TEST(receive__woken_by_another_thread)
{
	const struct iovec one = item("wake up", 7);
	struct waiter waiter;
	struct side side;
	pthread_t thread;

	side_open(&side, 0);
	for (int i = 0; i < 20 * rounds(); i++) {
		waiter = (struct waiter){.svc = side.svc, .status = 1};
		ck_assert_int_eq(pthread_create(&thread, NULL, wait_main, &waiter), 0);
		if (i % 2)
			ck_assert_int_eq(ripc_send_short(side.svc, side.id, &one, 1), 0);
		else
			ck_assert_int_eq(ripc_send_long(side.svc, side.id, &one, 1, PATIENCE_MS),
				0);
		pthread_join(thread, NULL);
		ck_assert_int_eq(waiter.status, 0);
		ck_assert_mem_eq(waiter.msg->items[0].iov_base, "wake up", 7);
		ripc_msg_free(waiter.msg);
	}
	side_close(&side);
}
END_TEST

/*
 * While one call sleeps until something comes, another one sends to who does not answer: what it
 * sent is repeated, though the sleeper knew of no timer when it fell asleep, and the library's
 * thread rests.
 */
START_TEST(send__repeats_beside_a_sleeping_reader)
{
	const struct iovec one = item("anybody?", 8);
	struct waiter waiter = {.status = 1};
	struct pair pair;
	pthread_t thread;
	uint64_t before;

	side_open(&pair.a, _i ? RIPC_NO_THREAD : 0);
	side_open(&pair.b, RIPC_NO_THREAD); /* answers while it is called */
	ck_assert_int_eq(ripc_send_short(pair.b.svc, pair.a.id, &one, 1), 0);
	while (ripc_receive(pair.a.svc, 0, &waiter.msg) == -EAGAIN)
		ripc_poll(pair.b.ctx);
	ripc_msg_free(waiter.msg);
	while (ripc_resolve(pair.a.ctx, pair.b.id, 0))
		ripc_poll(pair.b.ctx);
	waiter.svc = pair.a.svc;
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_main, &waiter), 0);
	usleep(200000); /* without this, the thread does not rest yet, and this shows nothing */
	before = stats_of(pair.a.ctx).announcements_repeated;
	ck_assert_int_ne(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, 1000), 0);
	ck_assert_uint_gt(stats_of(pair.a.ctx).announcements_repeated, before);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.a.id, &one, 1), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(waiter.status, 0);
	ripc_msg_free(waiter.msg);
	ck_assert_int_eq(ripc_close(pair.a.ctx, 0), 0);
	side_close(&pair.b);
}
END_TEST

/* ---- everything at once ------------------------------------------------------------------ */

struct bustle {
	struct pair pair;
	atomic_bool stop;
};

static void *open_main(void *arg)
{
	struct bustle *bustle = arg;

	while (!atomic_load(&bustle->stop)) {
		struct ripc_service *svc;
		struct side own;

		ck_assert_int_eq(ripc_service_open(bustle->pair.a.ctx, 0, 0, &svc), 0);
		own = (struct side){bustle->pair.a.ctx, svc, ripc_service_id(svc)};
		acquaint(&own, &own);
		ck_assert_int_ge(ripc_service_fd(svc), 0);
		ck_assert_int_eq(ripc_service_close(svc), 0);
	}
	return NULL;
}

static void *buffer_main(void *arg)
{
	struct bustle *bustle = arg;
	static char mine[4096];

	while (!atomic_load(&bustle->stop)) {
		void *buf;

		ck_assert_int_eq(ripc_buf_alloc(bustle->pair.a.ctx, 3 << 20, &buf), 0);
		ck_assert_int_eq(ripc_buf_ref(bustle->pair.a.ctx, buf), 0);
		ck_assert_int_eq(ripc_buf_free(bustle->pair.a.ctx, buf), 0);
		ck_assert_int_eq(ripc_buf_register(bustle->pair.a.ctx, mine, sizeof(mine)), 0);
		ck_assert_int_eq(ripc_buf_unregister(bustle->pair.a.ctx, mine), 0);
		ck_assert_int_eq(ripc_buf_free(bustle->pair.a.ctx, buf), 0);
	}
	return NULL;
}

static void *ask_main(void *arg)
{
	struct bustle *bustle = arg;
	struct pair *pair = &bustle->pair;

	while (!atomic_load(&bustle->stop)) {
		struct ripc_path path = {.size = sizeof(path)};
		uint64_t rtt_ns;

		ck_assert_uint_ge(stats_of(pair->a.ctx).services, 1);
		ck_assert_int_eq(ripc_ping(pair->a.svc, pair->b.id, PATIENCE_MS, &rtt_ns), 0);
		ck_assert_int_eq(ripc_path_info(pair->a.svc, pair->b.id, &path), 0);
		ck_assert_int_eq(ripc_resolve(pair->a.ctx, pair->b.id, PATIENCE_MS), 0);
		ck_assert_int_ge(ripc_poll(pair->a.ctx), 0);
		ck_assert_int_ge(ripc_poll_timeout(pair->a.ctx), -1);
	}
	return NULL;
}

static void *cancel_main(void *arg)
{
	struct bustle *bustle = arg;
	struct pair *pair = &bustle->pair;
	const size_t len = 300000;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_send send = long_send(pair->b.id, &one, 1);
	uint32_t n = 0;

	send.flags |= RIPC_NOWAIT;
	while (!atomic_load(&bustle->stop)) {
		struct ripc_msg *msg;

		send.cookie = ++n;
		ck_assert_int_eq(ripc_sendmsg(pair->a.svc, &send, NULL), 0);
		ck_assert_int_eq(ripc_cancel(pair->a.svc, n + 1), -ENOENT);
		if (n % 2)
			ripc_cancel(pair->a.svc, n);
		msg = take(pair->a.svc, RIPC_COMPLETION);
		ck_assert_uint_eq(msg->cookie, n);
		ck_assert(msg->status == 0 || msg->status == -ECANCELED);
		ripc_msg_free(msg);
	}
	free(one.iov_base);
	return NULL;
}

static void *drain_main(void *arg)
{
	struct bustle *bustle = arg;
	struct ripc_msg *msg;

	while (!atomic_load(&bustle->stop)) {
		if (ripc_receive(bustle->pair.b.svc, 10, &msg) == 0)
			ripc_msg_free(msg);
	}
	return NULL;
}

/* All the other calls, each in its own thread, on one context. */
START_TEST(threads__all_calls_at_once)
{
	void *(*const mains[])(void *) = {open_main, buffer_main, ask_main, cancel_main,
		drain_main};
	struct bustle bustle = {.stop = false};
	pthread_t threads[5];

	pair_open(&bustle.pair);
	acquaint(&bustle.pair.a, &bustle.pair.b);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, mains[i], &bustle), 0);
	usleep(500000 * (useconds_t)rounds());
	atomic_store(&bustle.stop, true);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	pair_close(&bustle.pair);
}
END_TEST

/* ---- fork -------------------------------------------------------------------------------- */

/* As an old kernel is, and as an emulator. */
enum kernel { KERNEL, KERNEL_WITHOUT_WIPEONFORK, KERNEL_ACCEPTS_ALL, N_KERNELS };
static enum kernel kernel;

int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice)
{
	bool is_fork = advice == MADV_WIPEONFORK;

	if (kernel == KERNEL_ACCEPTS_ALL && (is_fork || advice == -1))
		return 0;
	if (kernel != KERNEL_WITHOUT_WIPEONFORK || !is_fork)
		return __real_madvise(at, len, advice);
	errno = EINVAL;
	return -1;
}

static int child_refused(const struct pair *pair, void *buf)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_path path = {.size = sizeof(path)};
	const struct iovec one = item("x", 1);
	const struct ripc_send send = long_send(pair->b.id, &one, 1);
	struct ripc_service *svc;
	struct ripc_msg *msg;
	uint64_t rtt_ns;
	void *other;
	/* Messages and buffers of the parent are not mapped in the child: none is touched here. */
	const int statuses[] = {
		ripc_poll(pair->a.ctx),
		ripc_service_open(pair->a.ctx, 0, 0, &svc),
		ripc_service_drain(pair->a.svc, 0),
		ripc_service_close(pair->a.svc),
		ripc_service_fd(pair->a.svc),
		ripc_resolve(pair->a.ctx, pair->b.id, 10),
		ripc_buf_alloc(pair->a.ctx, 10, &other),
		ripc_buf_ref(pair->a.ctx, buf),
		ripc_buf_free(pair->a.ctx, buf),
		ripc_buf_register(pair->a.ctx, &stats, sizeof(stats)),
		ripc_buf_unregister(pair->a.ctx, &stats),
		ripc_window_post(pair->a.svc, &one, 0),
		ripc_send_short(pair->a.svc, pair->b.id, &one, 1),
		ripc_send_long(pair->a.svc, pair->b.id, &one, 1, 10),
		ripc_sendmsg(pair->a.svc, &send, NULL),
		ripc_cancel(pair->a.svc, 1),
		ripc_receive(pair->a.svc, 0, &msg),
		ripc_path_info(pair->a.svc, pair->b.id, &path),
		ripc_ping(pair->a.svc, pair->b.id, 10, &rtt_ns),
		ripc_stats_get(pair->a.ctx, &stats),
		ripc_close(pair->a.ctx, 0),
	};

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		if (statuses[i] != -EOWNERDEAD)
			return 100 + (int)i;
	}
	return ripc_poll_timeout(pair->a.ctx) == -1 ? 0 : 1;
}

static void await_child(pid_t child)
{
	int status = -1;

	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
}

START_TEST(fork__child_is_refused)
{
	struct ripc_msg *msg;
	struct pair pair;
	pid_t child;
	void *buf;

	kernel = (enum kernel)_i;
	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	ck_assert_int_eq(ripc_send_short(pair.b.svc, pair.a.id, &(struct iovec){"x", 1}, 1), 0);
	msg = take(pair.a.svc, RIPC_SHORT);
	buf = pool_filled(pair.a.ctx, 1000, 5);
	child = fork();
	if (child == 0)
		_exit(child_refused(&pair, buf));
	await_child(child);
	/* The parent is unharmed. */
	check_filled(buf, 1000, 5);
	ck_assert_int_eq(ripc_buf_free(pair.a.ctx, buf), 0);
	ripc_msg_free(msg);
	acquaint(&pair.a, &pair.b);
	acquaint(&pair.b, &pair.a);
	pair_close(&pair);
}
END_TEST

/* The address sanitizer of gcc 12 locks nothing at fork: in the child, an allocation may hang. */
#ifndef __SANITIZE_ADDRESS__
/* In the child: a context of its own, which reaches the parent's partner. */
static int child_works(const struct pair *pair)
{
	struct ripc_config cfg = api_config(CHILD_FLAGS);
	const struct iovec one = item("from the child", 14);
	struct side own;
	int error = ripc_open(&cfg, &own.ctx);

	if (!error)
		error = ripc_service_open(own.ctx, 0, 0, &own.svc);
	if (!error)
		error = ripc_send_long(own.svc, pair->b.id, &one, 1, PATIENCE_MS);
	return error ? -error : ripc_close(own.ctx, PATIENCE_MS) != 0;
}

START_TEST(fork__child_opens_its_own)
{
	struct ripc_msg *msg;
	struct pair pair;
	pid_t child;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	child = fork();
	if (child == 0)
		_exit(child_works(&pair));
	msg = take(pair.b.svc, RIPC_LONG);
	ck_assert_mem_eq(msg->items[0].iov_base, "from the child", 14);
	ck_assert_uint_ne(msg->from, pair.a.id);
	ripc_msg_free(msg);
	await_child(child);
	acquaint(&pair.a, &pair.b);
	pair_close(&pair);
}
END_TEST
#endif

/* The partner's first sends may find the place that is no more; one of the next arrives. */
static void send_until_delivered(const struct side *from, const struct side *to)
{
	const struct iovec one = item("x", 1);
	int error = -ECONNRESET;

	for (int i = 0; i < 5 && error; i++) {
		error = ripc_send_long(from->svc, to->id, &one, 1, 2000);
		ck_assert(error == 0 || error == -ECONNRESET || error == -EHOSTUNREACH ||
			error == -ETIMEDOUT || error == -ENOENT);
		if (error == -ECONNRESET)
			ripc_msg_free(take(from->svc, RIPC_NOTICE));
	}
	ck_assert_int_eq(error, 0);
	ripc_msg_free(take(to->svc, RIPC_LONG));
}

/* A child that only lives on does not keep the parent's ID, sockets or partners. */
START_TEST(fork__child_outlives_the_parents_context)
{
	struct ripc_config cfg = api_config(0);
	uint64_t id = 0x7e58000000000000u | (uint64_t)getpid();
	int stop[2];
	struct pair pair;
	pid_t child;
	char byte;

	ck_assert_int_eq(pipe(stop), 0);
	side_open_as(&pair.a, &cfg, id);
	side_open(&pair.b, 0);
	acquaint(&pair.b, &pair.a);
	child = fork();
	if (child == 0) {
		close(stop[1]);
		_exit(read(stop[0], &byte, 1) == 0 ? 0 : 1);
	}
	side_close(&pair.a);
	side_open_as(&pair.a, &cfg, id);
	send_until_delivered(&pair.b, &pair.a);
	acquaint(&pair.b, &pair.a);
	close(stop[1]);
	await_child(child);
	close(stop[0]);
	acquaint(&pair.b, &pair.a);
	pair_close(&pair);
}
END_TEST

/* exec leaks no descriptor: all are closed on it. */
START_TEST(exec__leaks_no_descriptor)
{
	int before[1024], n = 0, kept = 0;
	struct pair pair;

	for (int fd = 0; fd < 1024; fd++)
		before[fd] = fcntl(fd, F_GETFD) >= 0;
	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	ck_assert_int_ge(ripc_service_fd(pair.a.svc), 0);
	for (int fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (flags < 0 || before[fd])
			continue;
		n++;
		kept += !(flags & FD_CLOEXEC);
	}
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(kept, 0);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ threads__share_two_services, 1 }, { threads__share_one_context, 1 },
		{ threads__a_service_each, 1 }, { receive__woken_by_another_thread, 1 },
		{ send__repeats_beside_a_sleeping_reader, 2 }, { threads__all_calls_at_once, 1 },
		{ fork__child_is_refused, N_KERNELS },
		{ fork__child_outlives_the_parents_context, 1 },
		{ exec__leaks_no_descriptor, 1 },
#ifndef __SANITIZE_ADDRESS__
		{ fork__child_opens_its_own, 1 },
#endif
		{ NULL, 0 },
	};

	return suite_run_loops("api_threads", loops);
}
