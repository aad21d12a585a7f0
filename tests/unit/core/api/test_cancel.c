/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that are cancelled (pthread_cancel()) in a call: the call goes on, and the thread ends
 * after it. Most tests make the call with the cancellation due already, so that the first
 * cancellation point that is met with cancellation enabled would end the thread.
 */
#include <fcntl.h>

#include "api.h"
#include "ripc/call.h"
#include "ripc/group.h"
#include "ripc/list.h"

#define LONG_BYTES (1u << 20)
#define SOON_MS    20 /* of calls that end at their deadline */
#define WORKERS    4u
#define ROUNDS     50u /* cancellations of each worker */

static const char *const nets[] = {"udp", "shm"};
static const uint32_t flags[] = {0, RIPC_NO_THREAD};
#define CASES 4

struct world {
	struct side own;  /* the side whose calls are cancelled */
	struct side peer; /* answers calls */
	pthread_t server;
	atomic_bool stop;
	uint64_t group;
	int log_fd;       /* the log goes there */
};

static void log_out(void *arg, int level, const char *text)
{
	const struct world *world = arg;

	(void)level;
	(void)!write(world->log_fd, text, strlen(text));
}

static struct ripc_config config_of(struct world *world, int i)
{
	struct ripc_config cfg = api_config(flags[i / 2]);

	cfg.backends = nets[i % 2];
	cfg.log = log_out;
	cfg.log_arg = world;
	return cfg;
}

static void *server_main(void *arg)
{
	struct world *world = arg;
	const struct iovec one = item("reply", 5);
	struct ripc_msg *msg;

	while (!atomic_load(&world->stop)) {
		if (ripc_receive(world->peer.svc, SOON_MS, &msg))
			continue;
		if (msg->kind == RIPC_REQUEST)
			(void)ripc_reply(world->peer.svc, msg, &one, 1, 0);
		ripc_msg_free(msg);
	}
	return NULL;
}

static void world_open(struct world *world, int i)
{
	struct ripc_config cfg = config_of(world, i);

	world->log_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(world->log_fd, 0);
	world->group = ripc_group_from_name("cancelled");
	side_open_as(&world->own, &cfg, 0);
	cfg.flags = 0;
	side_open_as(&world->peer, &cfg, 0);
	ck_assert_int_eq(ripc_join(world->peer.svc, world->group), 0);
	atomic_store(&world->stop, false);
	ck_assert_int_eq(pthread_create(&world->server, NULL, server_main, world), 0);
}

static void world_close(struct world *world)
{
	atomic_store(&world->stop, true);
	ck_assert_int_eq(pthread_join(world->server, NULL), 0);
	side_close(&world->own);
	side_close(&world->peer);
	close(world->log_fd);
}

/* ---- the calls: without Check, whose assertions are cancellation points -------------------- */

/* -EAGAIN: what was sent before waits for its receiver. */
static int send_one(struct world *world, uint64_t to)
{
	const struct iovec one = item("short", 5);
	int error = ripc_send_short(world->own.svc, to, &one, 1);

	return error == -EAGAIN ? 0 : error;
}

static int send_a_short(struct world *world)
{
	return send_one(world, world->peer.id);
}

static int send_to_itself(struct world *world)
{
	return send_one(world, world->own.id);
}

static int send_to_group(struct world *world)
{
	return send_one(world, world->group);
}

static int send_a_long(struct world *world)
{
	static const char bytes[LONG_BYTES];
	const struct iovec one = item(bytes, LONG_BYTES);
	struct ripc_send send = long_send(world->peer.id, &one, 1);

	return ripc_sendmsg(world->own.svc, &send, NULL);
}

static int send_and_await(struct world *world)
{
	static atomic_uint_least64_t cookies;
	struct ripc_msg *msg;
	struct ripc_send send;
	struct iovec one = {.iov_len = LONG_BYTES};
	int error = ripc_buf_alloc(world->own.ctx, one.iov_len, &one.iov_base);

	if (error)
		return error;
	send = long_send(world->peer.id, &one, 1);
	send.flags |= RIPC_NOWAIT | RIPC_AWAITED;
	send.cookie = atomic_fetch_add(&cookies, 1) + 1;
	error = ripc_sendmsg(world->own.svc, &send, NULL);
	error = error ? error :
		ripc_receive_end(world->own.svc, send.cookie, PATIENCE_MS, &msg);
	if (!error)
		ripc_msg_free(msg);
	return error ? error : ripc_buf_free(world->own.ctx, one.iov_base);
}

static int call(struct world *world)
{
	const struct iovec one = item("request", 7);
	const struct ripc_request request = {.size = sizeof(request), .to = world->peer.id,
		.items = &one, .n_items = 1, .timeout_ms = PATIENCE_MS};
	struct ripc_msg *reply;
	int error = ripc_call(world->own.svc, &request, &reply, NULL);

	if (!error)
		ripc_msg_free(reply);
	return error;
}

/* Until the deadline, or for what others have sent to itself. */
static int receive(struct world *world)
{
	struct ripc_msg *msg;
	int error = ripc_receive(world->own.svc, SOON_MS, &msg);

	if (!error)
		ripc_msg_free(msg);
	return error == -ETIMEDOUT ? 0 : error;
}

static int ping(struct world *world)
{
	uint64_t rtt_ns;

	return ripc_ping(world->own.svc, world->peer.id, PATIENCE_MS, &rtt_ns);
}

static int resolve(struct world *world)
{
	return ripc_resolve(world->own.ctx, world->peer.id, PATIENCE_MS);
}

static int await(struct world *world)
{
	int error = ripc_await(world->own.ctx, nobody, SOON_MS);

	return error == -ENOENT || error == -ETIMEDOUT ? 0 : error;
}

static int found(void *arg, const struct ripc_listing *listing)
{
	(void)listing;
	log_out(arg, 0, "found"); /* a cancellation point of the application */
	return 0;
}

static int list(struct world *world)
{
	int n = ripc_list(world->own.ctx, SOON_MS, found, world);

	return n == -EBUSY || n > 0 ? 0 : n;
}

static int list_by_lister(struct world *world)
{
	struct ripc_lister *lister;
	struct ripc_listing one;
	int n = ripc_lister_open(world->own.ctx, &lister);

	if (n)
		return n == -EBUSY ? 0 : n;
	do
		n = ripc_lister_next(lister, SOON_MS, &one, 1, sizeof(one));
	while (n > 0);
	ripc_lister_close(lister);
	return n == -ETIMEDOUT ? 0 : n;
}

static int path_info(struct world *world)
{
	struct ripc_path path = {.size = sizeof(path)};

	return ripc_path_info(world->own.svc, world->peer.id, &path);
}

static int poll_once(struct world *world)
{
	int n = ripc_poll(world->own.ctx);

	return n < 0 ? n : 0;
}

static int watch(struct world *world)
{
	int error = ripc_watch(world->own.svc, world->peer.id, 1);

	if (error)
		return error == -EALREADY || error == -EEXIST ? 0 : error;
	error = ripc_unwatch(world->own.svc, world->peer.id);
	return error == -ENOENT ? 0 : error;
}

/* A service of its own: it has a descriptor, is in a group, is sent to, drains, and is closed. */
static int serve(struct world *world)
{
	const struct iovec one = item("short", 5);
	struct ripc_service *svc;
	struct ripc_msg *msg;
	int error = ripc_service_open(world->own.ctx, 0, 0, &svc);

	if (error)
		return error;
	error = ripc_service_fd(svc) < 0 ? -EBADF : ripc_join(svc, world->group);
	error = error ? error : ripc_send_short(world->peer.svc, ripc_service_id(svc), &one, 1);
	error = error ? error : ripc_receive(svc, PATIENCE_MS, &msg);
	if (!error)
		ripc_msg_free(msg);
	error = error ? error : ripc_leave(svc, world->group);
	error = error ? error : ripc_service_drain(svc, PATIENCE_MS);
	return error ? error : ripc_service_close(svc);
}

static int wake(struct world *world)
{
	struct ripc_msg *msg;
	int error = ripc_wake(world->own.svc);

	error = error ? error : ripc_receive(world->own.svc, PATIENCE_MS, &msg);
	return error == -EINTR ? 0 : error ? error : -EBUSY;
}

static int buffers(struct world *world)
{
	void *bytes[8] = {NULL};
	int error = 0;

	for (int i = 0; i < 8 && !error; i++)
		error = ripc_buf_alloc(world->own.ctx, LONG_BYTES << i % 3, &bytes[i]);
	for (int i = 0; i < 8; i++)
		(void)ripc_buf_free(world->own.ctx, bytes[i]);
	return error;
}

static int count(struct world *world)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	return ripc_stats_get(world->own.ctx, &stats);
}

static int open_and_close(struct world *world)
{
	struct ripc_config cfg = config_of(world, 1);
	struct ripc_context *ctx;
	int error = ripc_open(&cfg, &ctx);

	return error ? error : ripc_close(ctx, PATIENCE_MS);
}

static int report(void *arg, const struct ripc_finding *finding)
{
	log_out(arg, 0, finding->name);
	return 0;
}

static int probe(struct world *world)
{
	struct ripc_config cfg = config_of(world, 1);

	return ripc_probe(&cfg, report, world);
}

static const struct {
	const char *name;
	int (*make)(struct world *world);
} calls[] = {
	{"first short", send_a_short}, /* destination: a service that it does not know yet */
	{"short", send_a_short},
	{"short to itself", send_to_itself},
	{"receive", receive},
	{"short to a group", send_to_group},
	{"long", send_a_long},
	{"end", send_and_await},
	{"call", call},
	{"receive until the deadline", receive},
	{"ping", ping},
	{"resolve", resolve},
	{"await", await},
	{"list", list},
	{"lister", list_by_lister},
	{"path", path_info},
	{"poll", poll_once},
	{"watch", watch},
	{"service", serve},
	{"buffers", buffers},
	{"stats", count},
	{"open and close", open_and_close},
	{"probe", probe},
	{"wake", wake},
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

/* ---- with the cancellation due ----------------------------------------------------------- */

struct cancelled {
	struct world *world;
	int (*make)(struct world *world);
	int result;
	bool returned;
};

static void *cancelled_main(void *arg)
{
	struct cancelled *cancelled = arg;

	pthread_cancel(pthread_self());
	cancelled->result = cancelled->make(cancelled->world);
	cancelled->returned = true;
	pthread_testcancel();
	return NULL;
}

static void check_cancelled(struct world *world, const char *name, int (*make)(struct world *world))
{
	struct cancelled cancelled = {.world = world, .make = make};
	void *ended = NULL;
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, cancelled_main, &cancelled), 0);
	ck_assert_int_eq(pthread_join(thread, &ended), 0);
	if (!cancelled.returned)
		ck_abort_msg("%s: the thread ended in the call", name);
	if (cancelled.result)
		ck_abort_msg("%s: %s", name, ripc_strerror(cancelled.result));
	ck_assert_msg(ended == PTHREAD_CANCELED, "%s: cancellation stays disabled", name);
}

START_TEST(calls__go_on)
{
	struct world world;

	world_open(&world, _i);
	for (size_t i = 0; i < CALLS; i++)
		check_cancelled(&world, calls[i].name, calls[i].make);
	world_close(&world);
}
END_TEST

/* The same once more, where the ports have descriptors of the application. */
START_TEST(calls__go_on_with_descriptors)
{
	struct world world;

	world_open(&world, _i);
	ck_assert_int_ge(ripc_context_fd(world.own.ctx), 0);
	ck_assert_int_ge(ripc_service_fd(world.own.svc), 0);
	for (size_t i = 0; i < CALLS; i++)
		check_cancelled(&world, calls[i].name, calls[i].make);
	world_close(&world);
}
END_TEST

/* ---- at any time ------------------------------------------------------------------------- */

static atomic_uint seeds;

static void *worker_main(void *arg)
{
	unsigned int random = atomic_fetch_add(&seeds, 1);

	for (;;) {
		size_t at = (size_t)rand_r(&random) % CALLS;

		/* Another worker's ripc_wake() may end one that waits. */
		if (calls[at].make != wake)
			(void)calls[at].make(arg);
		pthread_testcancel();
	}
	return NULL;
}

START_TEST(calls__at_any_time)
{
	pthread_t workers[WORKERS];
	unsigned int random = 1;
	struct world world;
	void *ended;

	world_open(&world, _i);
	for (uint32_t i = 0; i < WORKERS; i++)
		ck_assert_int_eq(pthread_create(&workers[i], NULL, worker_main, &world), 0);
	for (uint32_t i = 0; i < WORKERS * ROUNDS; i++) {
		pthread_t *worker = &workers[i % WORKERS];

		for (int turns = rand_r(&random) % 8; turns > 0; turns--)
			ck_assert_int_eq(send_a_short(&world), 0);
		ck_assert_int_eq(pthread_cancel(*worker), 0);
		ck_assert_int_eq(pthread_join(*worker, &ended), 0);
		ck_assert_ptr_eq(ended, PTHREAD_CANCELED);
		ck_assert_int_eq(pthread_create(worker, NULL, worker_main, &world), 0);
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		ck_assert_int_eq(pthread_cancel(workers[i]), 0);
		ck_assert_int_eq(pthread_join(workers[i], &ended), 0);
	}
	for (size_t i = 0; i < CALLS; i++)
		ck_assert_int_eq(calls[i].make(&world), 0);
	world_close(&world);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{calls__go_on, CASES},
		{calls__go_on_with_descriptors, CASES},
		{calls__at_any_time, CASES},
		{0},
	};

	return suite_run_loops("cancel", loops);
}
