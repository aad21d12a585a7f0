/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes at their edges: when they are repeated, memory that is short, a member with two
 * addresses, and addresses that are longer than any of ours.
 */
#include <errno.h>

#include "core/engine/internal.h"
#include "core/keys/internal.h"
#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/peer/peer.h"
#include "key_dirs.h"
#include "util/map.h"

/* UDP, but for what the test adds to the events of one context, and what it swallows. */
static struct ripc__backend net;
static const struct ripc__backend *backends[] = {&net, NULL};
static struct ripc__env env;
static struct ripc__event added;
static _Atomic bool swallows;
static void *_Atomic adds_to; /* a port; the progress threads of other contexts look, too */

static int net_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	return swallows ? (int)n : ripc__udp_backend.datagrams.send(port, route, tx, n);
}

static int net_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	if (port != adds_to)
		return ripc__udp_backend.datagrams.poll(port, events, n, all);
	events[0] = added;
	return 1;
}

static void set_up(void)
{
	net = ripc__udp_backend;
	net.net.wait = NULL;
	net.net.wake = NULL;
	net.datagrams.send = net_send;
	net.datagrams.poll = net_poll;
	swallows = false;
	adds_to = NULL;
	ripc__env_init(&env);
	env.backends = backends;
	env.module_get = NULL;
}

static void open_with(struct side *side, int keys, uint64_t id, uint32_t flags)
{
	struct ripc_config cfg = api_config(flags);

	cfg.backends = NULL;
	cfg.keys = key_dirs[keys];
	cfg.peer_timeout_ms = 20000;
	ck_assert_int_eq(ripc__open_in(&cfg, &env, &side->ctx), 0);
	ck_assert_int_eq(ripc_service_open(side->ctx, id, 0, &side->svc), 0);
	side->id = ripc_service_id(side->svc);
}

/* A member that nobody is, and the address of the context itself in the inner network. */
static struct member *member_make(struct ripc_context *ctx, struct ripc__addr *at)
{
	const uint8_t key[32] = {9}, host[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct sealed_net *sealed = &ctx->seal->nets[0];
	uint8_t blob[RIPC_ADDR_MAX];
	int len = sealed->inner->net.address(sealed->inner_port, blob);

	ck_assert_int_gt(len, 0);
	ck_assert_int_eq(sealed->inner->route.choose(sealed->inner_port, blob, (size_t)len, host,
		at), 0);
	return ripc__member_get(ctx->seal, key, 77);
}

/* ---- repetition -------------------------------------------------------------------------- */

static uint64_t clock_us;

static uint64_t clock_now(void *arg)
{
	(void)arg;
	return clock_us;
}

/* docs/protocol.md: after 100, 200, ... 1,000 ms. */
START_TEST(init__is_repeated_more_and_more_rarely)
{
	static const uint32_t after_ms[] = {100, 200, 400, 800, 1000, 1000, 1000};
	struct handshake *handshake;
	struct member *member;
	struct ripc__addr at;
	struct side a;

	key_dirs_make(0);
	open_with(&a, 0, 0, RIPC_NO_THREAD);
	swallows = true;
	clock_us = ripc__real_now_us(NULL);
	a.ctx->env.now_us = clock_now;
	a.ctx->loop.has_ticks = false;
	ripc__lock_timely(a.ctx);
	member = member_make(a.ctx, &at);
	ck_assert_int_eq(ripc__handshake_begin(&a.ctx->seal->nets[0], member, &at), 0);
	handshake = ripc__map_get(&a.ctx->seal->handshakes, member->handshake);
	for (size_t i = 0; i < sizeof(after_ms) / sizeof(after_ms[0]); i++) {
		uint32_t index = handshake->index;

		ck_assert_uint_eq(handshake->timer.at_us, clock_us + 1000 * after_ms[i]);
		clock_us = handshake->timer.at_us;
		ripc__unlock(a.ctx);
		ripc_poll(a.ctx);
		ripc__lock_timely(a.ctx);
		ck_assert_uint_ne(handshake->index, index);
	}
	ripc__unlock(a.ctx);
	side_close(&a);
}
END_TEST

/* ---- memory that is short ----------------------------------------------------------------- */

static struct ripc__crypto short_of_memory;
static const struct ripc__crypto *real;
static atomic_int fails; /* number of failures */

static int verify(void *lib, const uint8_t key[32], const struct iovec *data,
		const uint8_t signature[64])
{
	if (atomic_load(&fails) > 0 && atomic_fetch_sub(&fails, 1) > 0)
		return -ENOMEM;
	return real->verify(lib, key, data, signature);
}

static const struct ripc__crypto *crypto(char why[256], char remedy[256])
{
	real = ripc__crypto_load(why, remedy);
	ck_assert_ptr_nonnull(real);
	short_of_memory = *real;
	short_of_memory.verify = verify;
	return &short_of_memory;
}

/* A member with a capability is not refused if memory was short for a moment. */
START_TEST(memory__short_at_the_responder)
{
	const uint64_t id = (uint64_t)getpid() << 20 | 0x78;
	struct iovec one = {"x", 1};
	struct side a, b;

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE | RIPC_MAY_SEND, 0, 100);
	key_grant(1, RIPC_MAY_SEND, id, 100);
	open_with(&b, 1, 0, 0);
	env.crypto = crypto;
	open_with(&a, 0, id, 0);
	atomic_store(&fails, 2);
	ck_assert_int_eq(ripc_send_long(b.svc, id, &one, 1, 5000), 0);
	ck_assert_int_eq(atomic_load(&fails), 0);
	/* Our own rights stay as they were, too. */
	ripc__lock_timely(a.ctx);
	atomic_store(&fails, 1);
	ck_assert_int_eq(ripc__grants_own(a.ctx->seal, &a.ctx->seal->dir), -ENOMEM);
	ck_assert(ripc__sealed_may_be(a.ctx->seal, id));
	ripc__unlock(a.ctx);
	side_close(&b);
	side_close(&a);
}
END_TEST

/* ---- addresses --------------------------------------------------------------------------- */

/* The events of the inner network for an event of the outer one. Returns how many events. */
static int told(struct ripc_context *ctx, const struct ripc__addr *from, struct ripc__event *events)
{
	const struct device *device = &ctx->peers.devices[0];
	int n;

	added = (struct ripc__event){.kind = RIPC_EV_PEER, .from = from};
	adds_to = inner_port(device->port);
	n = device->ops->datagrams.poll(device->port, events, RIPC_EVENTS_MAX, true);
	adds_to = NULL;
	return n;
}

/* Each of its routes hears of its own address, whichever was opened last. */
START_TEST(addresses__two_of_one_member)
{
	_Alignas(16) char routes[2][256] = {{0}};
	struct ripc__event events[RIPC_EVENTS_MAX];
	struct ripc__addr addr[2], inner;
	const struct device *device;
	struct iovec one = {"x", 1};
	struct ripc__where where;
	struct peer *peer;
	struct side a, b;
	uint32_t at = 0;

	key_dirs_make(0);
	open_with(&a, 0, 0, 0);
	open_with(&b, 1, 0, 0);
	ck_assert_int_eq(ripc_send_long(b.svc, a.id, &one, 1, 5000), 0);
	ripc__lock_timely(b.ctx);
	device = &b.ctx->peers.devices[0];
	peer = ripc__map_next(&b.ctx->peers.all, &at);
	ck_assert_ptr_nonnull(peer);
	device->ops->route.where(device->port, peer->route, &where);
	addr[0] = addr[1] = where.addr;
	addr[1].blob[3] ^= 1; /* of the port in a sockaddr_in6 */
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(device->ops->route.open(device->port, routes[i], &addr[i]), 0);
	for (int i = 0; i < 2; i++) {
		inner = addr[i];
		inner.len -= 8;
		ck_assert_int_eq(told(b.ctx, &inner, events), 1);
		ck_assert(device->ops->route.matches(device->port, routes[i], events[0].from));
		ck_assert(!device->ops->route.matches(device->port, routes[!i], events[0].from));
	}
	for (int i = 0; i < 2; i++)
		device->ops->route.close(device->port, routes[i]);
	ripc__unlock(b.ctx);
	side_close(&b);
	side_close(&a);
}
END_TEST

/* Strangers choose their addresses: one without room for a name behind it leads nowhere. */
START_TEST(addresses__too_long)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	struct ripc__addr from = {.len = RIPC_ADDR_MAX};
	struct side a;

	key_dirs_make(0);
	open_with(&a, 0, 0, RIPC_NO_THREAD);
	ripc__lock_timely(a.ctx);
	ck_assert_int_eq(told(a.ctx, &from, events), 0);
	from.len = RIPC_ADDR_MAX - 8;
	ck_assert_int_eq(told(a.ctx, &from, events), 1);
	ripc__unlock(a.ctx);
	side_close(&a);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("handshake");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, set_up, key_dirs_remove);
	tcase_add_test(tcase, init__is_repeated_more_and_more_rarely);
	tcase_add_test(tcase, memory__short_at_the_responder);
	tcase_add_test(tcase, addresses__two_of_one_member);
	tcase_add_test(tcase, addresses__too_long);
	return suite_finish("handshake", tcase);
}
