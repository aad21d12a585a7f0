/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts with keys over each network (tests/conformance says which): all datagrams are sealed;
 * the network reads and writes by itself only where both ends say that it is trusted, and shared
 * memory always; and who has no keys is refused.
 */
#include <stdatomic.h>

#include "call_pair.h"
#include "core/keys/internal.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "ripc/keys.h"

#define LONGS 6

static const struct ripc__backend *inner;
static struct ripc__backend watched;
static const struct ripc__backend *backends[] = {&watched, NULL};
static struct ripc__env env;
static atomic_uint n_datagrams, n_moves;
static char top[32], dirs[2][48], why[RIPC_KEYS_WHY];

static int watched_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	int found = inner->datagrams.poll(port, events, n, all);

	for (int i = 0; i < found; i++) {
		if (events[i].kind != RIPC_EV_DATAGRAM)
			continue;
		ck_assert_uint_ge(events[i].len, SEALED_HEADER);
		ck_assert_uint_eq(events[i].data[0], SEALED_MAGIC);
		atomic_fetch_add(&n_datagrams, 1);
	}
	return found;
}

static int watched_move(void *port, void *route, const struct ripc__move *move)
{
	atomic_fetch_add(&n_moves, 1);
	return inner->remote.move(port, route, move);
}

static void watch(const char *name)
{
	char lacks[256], remedy[256];
	const struct ripc__host host = {0};

	if (inner && strcmp(inner->name, name) == 0)
		return; /* the thread of the first end looks at it already */
	ripc__env_init(&env);
	for (uint32_t i = 0; env.backends[i]; i++) {
		if (strcmp(env.backends[i]->name, name) == 0)
			inner = env.module_get ? env.module_get(env.backends[i], &host, lacks,
				remedy) : env.backends[i];
	}
	ck_assert_ptr_nonnull(inner);
	watched = *inner;
	watched.datagrams.poll = watched_poll;
	watched.remote.move = inner->remote.move ? watched_move : NULL;
	watched.net.wait = NULL;
	watched.net.wake = NULL;
	env.backends = backends;
	env.module_get = NULL;
}

static void set_up(void)
{
	if (calls_world.begin)
		calls_world.begin();
	strcpy(top, "/tmp/ripc-nets-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	for (int i = 0; i < 2; i++) {
		snprintf(dirs[i], sizeof(dirs[i]), "%s/%d", top, i);
		ck_assert_int_eq(ripc_keys_new(dirs[i], i ? dirs[0] : NULL, 0, why), 0);
	}
	atomic_store(&n_datagrams, 0);
	atomic_store(&n_moves, 0);
}

static void tear_down(void)
{
	char command[64];

	if (calls_world.end)
		calls_world.end();
	snprintf(command, sizeof(command), "rm -r %s", top);
	ck_assert_int_eq(system(command), 0);
}

/* The ith network of the world. trusted: does this end say so? */
static void open_with(struct side *side, int i, const char *keys, bool trusted)
{
	struct ripc_config cfg = config_of(2 * i, 0);
	char options[320];

	snprintf(options, sizeof(options), "%s%s%s%s", cfg.options, trusted ? "," : "",
		trusted ? cfg.backends : "", trusted ? ".trusted=yes" : "");
	cfg.options = options;
	cfg.keys = keys;
	watch(cfg.backends);
	ck_assert_int_eq(ripc__open_in(&cfg, &env, &side->ctx), 0);
	ck_assert_int_eq(ripc_service_open(side->ctx, 0, 0, &side->svc), 0);
	side->id = ripc_service_id(side->svc);
}

static void *receive(void *arg)
{
	const struct side *side = arg;
	struct ripc_msg *msg;

	for (uint64_t n = 0; n < LONGS;) {
		ck_assert_int_eq(ripc_receive(side->svc, PATIENCE_MS, &msg), 0);
		if (msg->kind == RIPC_LONG) {
			check_filled(msg->items[0].iov_base, msg->items[0].iov_len, n++);
		}
		ripc_msg_free(msg);
	}
	return NULL;
}

static void longs_pass(const struct side *from, struct side *to)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, receive, to), 0);
	for (uint64_t n = 0; n < LONGS; n++) {
		size_t len = n % 2 ? BIG : 5000;
		void *bytes = n % 4 < 2 ? filled(len, n) : pool_filled(from->ctx, len, n);
		struct iovec one = {bytes, len};

		ck_assert_int_eq(ripc_send_long(from->svc, to->id, &one, 1, PATIENCE_MS), 0);
		if (n % 4 < 2)
			free(bytes);
		else
			ripc_buf_free(from->ctx, bytes);
	}
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static bool is_by(int i, const char *name)
{
	return strcmp(calls_world.backends[i], name) == 0;
}

/* Which of the two ends say that the network is trusted. */
static const bool trusts[][2] = {{false, false}, {true, false}, {false, true}, {true, true}};
#define TRUSTS (sizeof(trusts) / sizeof(trusts[0]))

START_TEST(net__longs)
{
	const bool *trust = trusts[_i % (int)TRUSTS];
	int net = _i / (int)TRUSTS;
	struct side a, b;

	if ((is_by(net, "shm") || is_by(net, "udp")) && (trust[0] || trust[1]))
		return; /* there is no such option */
	open_with(&a, net, dirs[0], trust[0]);
	open_with(&b, net, dirs[1], trust[1]);
	longs_pass(&a, &b);
	longs_pass(&b, &a);
	ck_assert_uint_gt(atomic_load(&n_datagrams), 4 * LONGS);
	/* The message is read if the reader may read and the sender has said where. */
	if (inner->remote.move && (is_by(net, "shm") ||
			(trust[0] && trust[1] && calls_world.moves)))
		ck_assert_uint_gt(atomic_load(&n_moves), 0);
	else
		ck_assert_uint_eq(atomic_load(&n_moves), 0);
	side_close(&a);
	side_close(&b);
}
END_TEST

START_TEST(net__without_keys)
{
	struct iovec one = {"x", 1};
	struct ripc_msg *msg;
	struct side a, b;

	open_with(&a, _i, dirs[0], false);
	open_with(&b, _i, NULL, false);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 1500), -ENOKEY);
	ck_assert_int_lt(ripc_send_long(a.svc, b.id, &one, 1, 500), 0);
	ck_assert_int_eq(ripc_receive(a.svc, 0, &msg), -EAGAIN);
	ck_assert_int_eq(ripc_receive(b.svc, 0, &msg), -EAGAIN);
	ck_assert_uint_eq(atomic_load(&n_datagrams), 0);
	side_close(&a);
	side_close(&b);
}
END_TEST

int main(int n_args, char **args)
{
	TCase *tcase = tcase_create("sealed nets");
	int skips = calls_world_make(&calls_world, n_args, args);

	if (skips)
		return skips;
	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_loop_test(tcase, net__longs, 0, (int)(calls_world.n_backends * TRUSTS));
	tcase_add_loop_test(tcase, net__without_keys, 0, (int)calls_world.n_backends);
	return suite_finish("sealed nets", tcase);
}
