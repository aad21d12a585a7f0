/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts with keys that have two networks, of which the better one is silent: sessions belong to
 * pairs of contexts, but who waits on one network is not forgotten when the other one has brought
 * the session.
 */
#include "core/net/backend.h"
#include "core/net/env.h"
#include "key_dirs.h"

#define PEER_MS 2000

static struct ripc__backend mute, plain;
static const struct ripc__backend *backends[] = {&mute, &plain, NULL};
static struct ripc__env env;

/* All is taken, nothing arrives. */
static int mute_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	(void)port;
	(void)route;
	(void)tx;
	return (int)n;
}

static void set_up(void)
{
	plain = ripc__udp_backend;
	plain.net.wait = NULL;
	plain.net.wake = NULL;
	mute = plain;
	mute.name = "mute";
	mute.id = 9;
	mute.datagrams.send = mute_send;
	ripc__env_init(&env);
	env.backends = backends;
	env.module_get = NULL;
	key_dirs_make(0);
}

static void open_with(struct side *side, int keys)
{
	struct ripc_config cfg = api_config(0);

	cfg.backends = NULL;
	cfg.keys = key_dirs[keys];
	cfg.peer_timeout_ms = PEER_MS;
	ck_assert_int_eq(ripc__open_in(&cfg, &env, &side->ctx), 0);
	ck_assert_int_eq(ripc_service_open(side->ctx, 0, 0, &side->svc), 0);
	side->id = ripc_service_id(side->svc);
}

struct sending {
	const struct side *from;
	uint64_t to;
	uint32_t after_ms;
	int status;
	pthread_t thread;
};

static void *send_one(void *arg)
{
	struct sending *sending = arg;
	struct iovec one = {"x", 1};

	usleep(1000 * sending->after_ms);
	sending->status = ripc_send_long(sending->from->svc, sending->to, &one, 1, 5 * PEER_MS);
	return NULL;
}

static void *receive_one(void *arg)
{
	const struct side *side = arg;
	struct ripc_msg *msg;

	while (ripc_receive(side->svc, 6 * PEER_MS, &msg) == 0) {
		bool is_it = msg->kind == RIPC_LONG;

		ripc_msg_free(msg);
		if (is_it)
			break;
	}
	return NULL;
}

/* Both begin; the second one's handshake is on its way when the first one has got a session. */
START_TEST(both_begin__by_a_silent_network)
{
	struct side a, b;
	struct sending sendings[2];
	pthread_t receives[2];

	open_with(&a, 0);
	open_with(&b, 1);
	sendings[0] = (struct sending){.from = &b, .to = a.id};
	sendings[1] = (struct sending){.from = &a, .to = b.id, .after_ms = PEER_MS / 8};
	ck_assert_int_eq(pthread_create(&receives[0], NULL, receive_one, &a), 0);
	ck_assert_int_eq(pthread_create(&receives[1], NULL, receive_one, &b), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&sendings[i].thread, NULL, send_one,
			&sendings[i]), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(pthread_join(sendings[i].thread, NULL), 0);
		ck_assert_int_eq(sendings[i].status, 0);
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(receives[i], NULL), 0);
	side_close(&a);
	side_close(&b);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("two_nets");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, set_up, key_dirs_remove);
	tcase_add_test(tcase, both_begin__by_a_silent_network);
	return suite_finish("two_nets", tcase);
}
