/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every allocation and system call of the library fails once, one after the other, while two
 * contexts of one process do all there is to do; then bursts of them. No crash, no hang, no code
 * that makes no sense; afterwards the same contexts work, and nothing is left when they are
 * closed. One thread and a clock of our own make it repeatable.
 *
 * usage: faults-nomem [--full] [FIRST N]    FIRST and N: only that failure
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fault.h"
#include "ripc/list.h"
#include "shim.h"

#define EXTRA     20 /* services beside the first, for tables that grow */
#define LARGE_LEN (300u << 10)
#define DEADLINE_MS 300

struct end {
	struct world *world;
	struct end *other;
	struct ripc__env env;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id;
};

struct world {
	uint64_t now_us;
	struct end a, b;
	struct ripc_service *extra[EXTRA];
	void *buf;
	bool strict;   /* errors are failures of the test */
	bool threaded; /* the real clock, and progress threads */
	uint64_t first, n; /* of the calls that fail */
};

static char large[LARGE_LEN], foreign[5000], window[LARGE_LEN], lent_place[1000];

/* ---- a world without waiting ------------------------------------------------------------- */

static uint64_t world_now(void *arg)
{
	const struct end *end = arg;

	return end->world->now_us;
}

/* Somebody waits: the other side moves on, and the clock if nobody has anything to do. */
static void world_idle(void *arg, uint64_t until_us)
{
	struct end *end = arg;
	struct world *world = end->world;
	uint64_t step_us = until_us > world->now_us ? until_us - world->now_us : 0;

	if (end->other->ctx && ripc_poll(end->other->ctx) > 0)
		return;
	world->now_us += step_us < 500 ? step_us : 500;
}

static void turn(struct world *world, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		int work = 0;

		work += world->a.ctx ? ripc_poll(world->a.ctx) : 0;
		work += world->b.ctx ? ripc_poll(world->b.ctx) : 0;
		if (work == 0)
			world->now_us += 500;
	}
}

/* A call must return 0, a count, or the negative of an errno. */
static int checked(const struct world *world, const char *what, int status)
{
	if (status < -200)
		fault_fail("failing %llu+%llu: %s says %d", (unsigned long long)world->first,
			(unsigned long long)world->n, what, status);
	if (status < 0 && world->strict)
		fault_fail("after failing %llu+%llu: %s: %s", (unsigned long long)world->first,
			(unsigned long long)world->n, what, ripc_strerror(status));
	return status;
}

/* ---- opening and closing ----------------------------------------------------------------- */

static void end_open(struct world *world, struct end *end, uint64_t id)
{
	struct ripc_config cfg = fault_config();

	cfg.flags = world->threaded ? 0 : RIPC_NO_THREAD;
	cfg.peers = "127.0.0.1";
	cfg.timeout_ms = DEADLINE_MS;
	cfg.pool_bytes = end == &world->a ? 64 << 20 : 0;
	if (!end->ctx) {
		ripc__env_init(&end->env);
		if (!world->threaded) {
			end->env.arg = end;
			end->env.now_us = world_now;
			end->env.idle = world_idle;
		}
		checked(world, "open", ripc__open_in(&cfg, &end->env, &end->ctx));
	}
	if (end->ctx && !end->svc)
		checked(world, "service_open", ripc_service_open(end->ctx, id, 0, &end->svc));
	if (end->svc)
		end->id = ripc_service_id(end->svc);
}

static void end_close(struct world *world, struct end *end)
{
	if (end->ctx)
		checked(world, "close", ripc_close(end->ctx, DEADLINE_MS));
	end->ctx = NULL;
	end->svc = NULL;
}

/* ---- what is done ------------------------------------------------------------------------ */

/* Takes and frees what is there; answers what may be answered. Returns how many long messages. */
static int take_all(struct world *world, struct end *end)
{
	struct ripc_msg *msg;
	int n = 0;

	while (ripc_receive(end->svc, 0, &msg) == 0) {
		struct iovec answer = {"answer", 6};
		struct ripc_send send = {.size = sizeof(send), .to = msg->from, .items = &answer,
			.n_items = 1, .flags = RIPC_SEND_LONG, .timeout_ms = DEADLINE_MS,
			.reply_to = msg->reply};

		n += msg->kind == RIPC_LONG;
		if (msg->reply)
			checked(world, "answer", ripc_sendmsg(end->svc, &send, NULL));
		ripc_msg_free(msg);
	}
	return n;
}

static void use_memory(struct world *world)
{
	struct iovec place = {window, sizeof(window)};
	void *other;

	if (checked(world, "buf_alloc", ripc_buf_alloc(world->a.ctx, 3 << 20, &world->buf)) == 0)
		checked(world, "buf_ref", ripc_buf_ref(world->a.ctx, world->buf));
	if (world->buf)
		checked(world, "buf_free", ripc_buf_free(world->a.ctx, world->buf));
	if (checked(world, "buf_alloc", ripc_buf_alloc(world->a.ctx, 100, &other)) == 0)
		checked(world, "buf_free", ripc_buf_free(world->a.ctx, other));
	if (checked(world, "register", ripc_buf_register(world->a.ctx, foreign,
			sizeof(foreign))) == 0)
		checked(world, "unregister", ripc_buf_unregister(world->a.ctx, foreign));
	checked(world, "window", ripc_window_post(world->b.svc, &place, 1));
}

static void use_shorts(struct world *world)
{
	struct iovec items[2] = {{"short", 5}, {foreign, 500}};
	struct ripc_buffer lent = {.mem = {lent_place, sizeof(lent_place)}};
	struct ripc_send send = {.size = sizeof(send), .to = world->b.id, .items = items,
		.n_items = 2, .returns = &lent, .n_returns = 1, .cookie = 7};

	checked(world, "send_short", ripc_send_short(world->a.svc, world->b.id, items, 2));
	checked(world, "sendmsg", ripc_sendmsg(world->a.svc, &send, NULL));
	turn(world, 60);
	take_all(world, &world->b);
	turn(world, 20);
	take_all(world, &world->a);
	ripc_cancel(world->a.svc, 7);
}

static void use_longs(struct world *world)
{
	struct iovec items[3] = {{large, sizeof(large)}, {foreign, 0}, {foreign, sizeof(foreign)}};
	struct ripc_buffer lent = {.mem = {lent_place, sizeof(lent_place)}};
	struct ripc_send send = {.size = sizeof(send), .to = world->b.id, .items = items,
		.n_items = 3, .returns = &lent, .n_returns = 1, .cookie = 8,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT};

	checked(world, "nowait", ripc_sendmsg(world->a.svc, &send, NULL));
	items[0].iov_len = 100;
	send.cookie = 9;
	checked(world, "nowait", ripc_sendmsg(world->a.svc, &send, NULL));
	turn(world, 100);
	take_all(world, &world->b);
	turn(world, 50);
	take_all(world, &world->a);
	items[0].iov_len = sizeof(large);
	checked(world, "send_long", ripc_send_long(world->b.svc, world->a.id, items, 1,
		DEADLINE_MS));
	take_all(world, &world->a);
	send.cookie = 10;
	checked(world, "nowait", ripc_sendmsg(world->a.svc, &send, NULL));
	ripc_cancel(world->a.svc, 8);
	ripc_cancel(world->a.svc, 9);
	ripc_cancel(world->a.svc, 10);
	turn(world, 50);
	take_all(world, &world->a);
	take_all(world, &world->b);
}

/* A send of a pool buffer that is given away, if it was delivered. */
static void use_give(struct world *world)
{
	struct iovec item = {world->buf, 70000};
	struct ripc_send send = {.size = sizeof(send), .to = world->b.id, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_GIVE, .timeout_ms = DEADLINE_MS};
	enum ripc_outcome outcome = RIPC_NOT_DELIVERED;

	if (!world->buf)
		return;
	memset(world->buf, 1, item.iov_len);
	checked(world, "give", ripc_sendmsg(world->a.svc, &send, &outcome));
	if (outcome == RIPC_NOT_DELIVERED)
		checked(world, "buf_free", ripc_buf_free(world->a.ctx, world->buf));
	world->buf = NULL;
	take_all(world, &world->b);
}

static int ignore_finding(void *arg, const struct ripc_listing *listing)
{
	(void)arg;
	(void)listing;
	return 0;
}

static int ignore_probe(void *arg, const struct ripc_finding *finding)
{
	(void)arg;
	(void)finding;
	return 0;
}

static void use_questions(struct world *world)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc_config cfg = fault_config();
	uint64_t rtt_ns;

	checked(world, "fd", ripc_service_fd(world->b.svc));
	checked(world, "resolve", ripc_resolve(world->a.ctx, world->b.id, DEADLINE_MS));
	ripc_resolve(world->a.ctx, fault_id(999), DEADLINE_MS);
	checked(world, "ping", ripc_ping(world->a.svc, world->b.id, DEADLINE_MS, &rtt_ns));
	checked(world, "path_info", ripc_path_info(world->a.svc, world->b.id, &path));
	checked(world, "list", ripc_list(world->a.ctx, 30, ignore_finding, NULL));
	checked(world, "stats", ripc_stats_get(world->a.ctx, &stats));
	checked(world, "probe", ripc_probe(&cfg, ignore_probe, NULL));
}

static void use_many(struct world *world)
{
	struct iovec item = {"x", 1};

	for (int i = 0; i < EXTRA; i++) {
		struct ripc_service *svc = NULL;

		checked(world, "service_open", ripc_service_open(world->b.ctx, 0, 0, &svc));
		world->extra[i] = svc;
		if (svc)
			checked(world, "send_short", ripc_send_short(world->a.svc,
				ripc_service_id(svc), &item, 1));
	}
	turn(world, 30);
	for (int i = 0; i < EXTRA; i++) {
		if (!world->extra[i])
			continue;
		if (i % 2)
			checked(world, "drain", ripc_service_drain(world->extra[i], 10));
		checked(world, "service_close", ripc_service_close(world->extra[i]));
		world->extra[i] = NULL;
	}
}

/* All of it, as far as what it needs is there. With threads only what they do. */
static void use_all(struct world *world)
{
	struct iovec item = {large, sizeof(large)};

	end_open(world, &world->a, fault_id(1));
	end_open(world, &world->b, 0);
	if (!world->a.svc || !world->b.svc)
		return;
	if (world->threaded) {
		checked(world, "send_long", ripc_send_long(world->a.svc, world->b.id, &item, 1,
			DEADLINE_MS));
		take_all(world, &world->b);
		return;
	}
	use_memory(world);
	use_shorts(world);
	use_longs(world);
	use_give(world);
	use_questions(world);
	use_many(world);
}

/* ---- one failure ------------------------------------------------------------------------- */

/* The same contexts work, both ways. */
static void check_usable(struct world *world)
{
	struct iovec item = {large, sizeof(large)};

	world->strict = true;
	end_open(world, &world->a, fault_id(1));
	end_open(world, &world->b, 0);
	take_all(world, &world->a);
	take_all(world, &world->b);
	checked(world, "send_long", ripc_send_long(world->a.svc, world->b.id, &item, 1, 5000));
	if (take_all(world, &world->b) < 1)
		fault_fail("after failing %llu+%llu: nothing received",
			(unsigned long long)world->first, (unsigned long long)world->n);
	checked(world, "send_long", ripc_send_long(world->b.svc, world->a.id, &item, 1, 5000));
	if (take_all(world, &world->a) < 1)
		fault_fail("after failing %llu+%llu: nothing received",
			(unsigned long long)world->first, (unsigned long long)world->n);
	world->strict = false;
}

static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (file && fgets(line, sizeof(line), file))
		n += strstr(line, "memfd:libripc") || strstr(line, "/dev/zero");
	if (file)
		fclose(file);
	return n;
}

static void allow_files(rlim_t n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fault_fail("getrlimit: %s", strerror(errno));
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fault_fail("setrlimit: %s", strerror(errno));
}

/* Calls first to first + n - 1 fail, and files more descriptors than now may be open. Returns
 * how many calls there were. */
static uint64_t run_with(struct world how, uint32_t files)
{
	static struct world world;
	int64_t blocks = shim_blocks();
	struct fault_left left = fault_left_now();
	uint64_t first = how.first, n = how.n, calls;
	int maps = mappings();

	world = how;
	world.now_us = 1000000000;
	world.a.world = world.b.world = &world;
	world.a.other = &world.b;
	world.b.other = &world.a;
	allow_files(3 + files);
	shim_arm(first, n);
	use_all(&world);
	calls = shim_disarm();
	allow_files(1024);
	check_usable(&world);
	end_close(&world, &world.b);
	end_close(&world, &world.a);
	fault_left_check(&left, "closed");
	if (shim_blocks() != blocks || mappings() != maps)
		fault_fail("failing %llu+%llu: %lld blocks and %d mappings are left",
			(unsigned long long)first, (unsigned long long)n,
			(long long)(shim_blocks() - blocks), mappings() - maps);
	return calls;
}

static uint64_t run(uint64_t first, uint64_t n)
{
	return run_with((struct world){.first = first, .n = n}, 1000);
}

static uint64_t sweep_threaded(uint64_t calls, uint64_t step)
{
	uint64_t points = 0;

	for (uint64_t first = 1; first <= calls; first += step) {
		run_with((struct world){.first = first, .n = 1, .threaded = true}, 1000);
		points++;
	}
	return points;
}

static uint64_t sweep_files(uint32_t most)
{
	for (uint32_t files = 0; files < most; files++)
		run_with((struct world){.first = 0}, files);
	return most;
}

/* Every step-th call, beginning with the first; n in a row. */
static uint64_t sweep(uint64_t calls, uint64_t step, uint64_t n)
{
	uint64_t points = 0;

	for (uint64_t first = 1; first <= calls; first += step) {
		run(first, n);
		points++;
	}
	return points;
}

int main(int argc, char **argv)
{
	const char *backends = getenv("RIPC_BACKENDS");
	bool full = fault_full(argc, argv), all;
	uint64_t calls, threaded, points;

	fault_fill(large, sizeof(large), 1);
	if (argc == 3) {
		run(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
		return 0;
	}
	calls = run(0, 0);
	points = sweep(calls, full ? 1 : calls * FAULT_FEWER / 400 + 1, 1);
	points += sweep(calls, full ? 2 : calls * FAULT_FEWER / 100 + 1, 5);
	points += sweep(calls, full ? 10 : calls * FAULT_FEWER / 50 + 1, 1000000);
	points += sweep_files(60);
	threaded = run_with((struct world){.threaded = true}, 1000);
	points += sweep_threaded(threaded, full ? 1 : threaded / 20 + 1);
	/* With shared memory alone the library makes fewer calls. */
	all = !backends || strcmp(backends, "shm") != 0;
	if (full && shim_never_failed(all))
		fault_fail("%s was never made to fail", shim_never_failed(all));
	printf("%llu calls in a run; %llu runs with failures\n", (unsigned long long)calls,
		(unsigned long long)points);
	return 0;
}
