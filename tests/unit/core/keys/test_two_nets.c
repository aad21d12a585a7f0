/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts with keys that have two networks, of which the better one is silent: sessions belong to
 * pairs of contexts, but who waits on one network is not forgotten when the other one has brought
 * the session; and while both are silent nobody is taken for one without rights.
 */
#include "core/engine/internal.h"
#include "core/keys/internal.h"
#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "key_dirs.h"
#include "ripc/group.h"
#include "util/map.h"

#define PEER_MS   2000
#define EXPIRES_S 5 /* a message is delivered before */

static struct ripc__backend mute, plain;
static const struct ripc__backend *backends[] = {&mute, &plain, NULL};
static struct ripc__env env;
static _Atomic bool swallows; /* the plain one, too */

/* All is taken, nothing arrives. */
static int mute_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	(void)port;
	(void)route;
	(void)tx;
	return (int)n;
}

static int plain_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	return swallows ? (int)n : ripc__udp_backend.datagrams.send(port, route, tx, n);
}

static void set_up(void)
{
	swallows = false;
	plain = ripc__udp_backend;
	plain.datagrams.send = plain_send;
	plain.net.wait = NULL;
	plain.net.wake = NULL;
	mute = plain;
	mute.name = "mute";
	mute.id = 9;
	mute.datagrams.send = mute_send;
	ripc__env_init(&env);
	env.backends = backends;
	env.module_get = NULL;
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

/*
 * Both ends begin; the second one's handshake is on its way when the first one has got a session.
 */
START_TEST(both_begin__by_a_silent_network)
{
	struct side a, b;
	struct sending sendings[2];
	pthread_t receives[2];

	key_dirs_make(0);
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

/* New keys by the second network, where the partners are on the first. */
static void rekey_by_second(struct side *from, uint64_t id)
{
	struct ripc_context *ctx = from->ctx;
	const struct device *device = &ctx->peers.devices[1];
	const struct ripc__answer *answer;
	struct ripc__addr addr = {.len = 0};
	struct partner *partner;

	ripc__lock_timely(ctx);
	answer = ripc__resolver_recall(ctx->resolver, id);
	partner = ripc__map_get(&from->svc->partners, id);
	ck_assert(answer && partner && partner->peer && partner->peer->device == 0);
	for (uint32_t i = 0; i < answer->record.n_addrs; i++) {
		if (answer->record.addrs[i].backend == device->ops->id)
			ck_assert_int_eq(device->ops->route.choose(device->port,
				answer->record.addrs[i].blob, answer->record.addrs[i].len,
				answer->host, &addr), 0);
	}
	addr.len -= 8; /* the member */
	ck_assert_int_eq(ripc__handshake_begin(&ctx->seal->nets[1],
		ripc__sealed_member_of(partner->peer->route), &addr), 0);
	ripc__unlock(ctx);
}

/* May the partner not send to us any more, if it is there at all? */
static bool is_denied(struct side *side, uint64_t id)
{
	const struct partner *partner;
	bool denied;

	ripc__lock_timely(side->ctx);
	partner = ripc__map_get(&side->svc->partners, id);
	denied = !partner || partner->dead || partner->denied;
	ripc__unlock(side->ctx);
	return denied;
}

/* One capability expires, another one stays: by whichever network the new keys have come. */
START_TEST(capability__expires_on_all_networks)
{
	struct iovec one = {"x", 1};
	struct side a, b;

	mute.datagrams.send = plain.datagrams.send;
	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	open_with(&a, 0);
	ck_assert_int_eq(ripc_service_open(a.ctx, nobody, 0, &a.svc), 0);
	a.id = nobody;
	key_grant(1, RIPC_MAY_SEND, a.id, EXPIRES_S);
	key_grant(1, RIPC_MAY_SEND, a.id + 1, 100);
	open_with(&b, 1);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, PEER_MS), 0);
	ck_assert(!is_denied(&a, b.id));
	sleep(EXPIRES_S + 1);
	rekey_by_second(&b, a.id);
	for (int i = 0; i < PATIENCE_MS / 10 && !is_denied(&a, b.id); i++)
		usleep(10000);
	ck_assert(is_denied(&a, b.id));
	ck_assert_int_lt(ripc_send_long(b.svc, a.id, &one, 1, PEER_MS), 0);
	side_close(&b);
	side_close(&a);
}
END_TEST

/* Have the handshakes by both networks failed? */
static bool is_given_up(struct side *side, uint64_t id)
{
	const struct partner *partner;
	bool given_up;

	ripc__lock_timely(side->ctx);
	partner = ripc__map_get(&side->svc->partners, id);
	given_up = partner && partner->peer && partner->peer->broken && !partner->peer->opening;
	ripc__unlock(side->ctx);
	return given_up;
}

/* Its name is known, but at first nothing gets through to it. */
START_TEST(member_of_group__is_asked_again)
{
	const struct iovec one = {"x", 1};
	struct side a, b;
	uint64_t group;
	int error;

	key_dirs_make(0);
	group = ripc_group_from_name(key_top);
	open_with(&a, 0);
	open_with(&b, 1);
	ck_assert_int_eq(ripc_join(b.svc, group), 0);
	ck_assert_int_eq(ripc_await(a.ctx, group, PATIENCE_MS), 0);
	swallows = true;
	ck_assert_int_eq(ripc_send_short(a.svc, group, &one, 1), 0);
	while (!is_given_up(&a, b.id))
		usleep(10000);
	swallows = false;
	do {
		error = ripc_send_long(a.svc, group, &one, 1, PEER_MS);
		ck_assert_int_ne(error, -EACCES);
	} while (error);
	side_close(&b);
	side_close(&a);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("two_nets");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, set_up, key_dirs_remove);
	tcase_add_test(tcase, both_begin__by_a_silent_network);
	tcase_add_test(tcase, capability__expires_on_all_networks);
	tcase_add_test(tcase, member_of_group__is_asked_again);
	return suite_finish("two_nets", tcase);
}
