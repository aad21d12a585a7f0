/* SPDX-License-Identifier: BSD-3-Clause */
/* Services through the public calls: IDs, moving, closing, descriptors, and a thousand of them. */

#include "api.h"
#include "core/api/internal.h"
#include "core/engine/internal.h"
#include "core/engine/wait.h"

#define MANY 1000

/* An ID that no other test uses: well-known ones are looked for in the whole host. */
static uint64_t own_id(uint32_t number)
{
	return 0x7e57000000000000u | (uint64_t)getpid() << 16 | number;
}

static void send_byte(const struct side *from, const struct side *to)
{
	const struct iovec one = item("x", 1);

	ck_assert_int_eq(ripc_send_long(from->svc, to->id, &one, 1, PATIENCE_MS), 0);
}

/* ---- IDs --------------------------------------------------------------------------------- */

START_TEST(service_open__private_ids_differ)
{
	struct ripc_service *services[20];
	struct side side;

	side_open(&side, 0);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(ripc_service_open(side.ctx, 0, 0, &services[i]), 0);
		ck_assert_uint_ne(ripc_service_id(services[i]), 0);
		ck_assert_uint_ne(ripc_service_incarnation(services[i]), 0);
		for (int j = 0; j < i; j++) {
			ck_assert_uint_ne(ripc_service_id(services[i]),
				ripc_service_id(services[j]));
			ck_assert_uint_ne(ripc_service_incarnation(services[i]),
				ripc_service_incarnation(services[j]));
		}
	}
	ck_assert_uint_eq(stats_of(side.ctx).services, 21);
	side_close(&side);
}
END_TEST

/* In use: so says the holder, unless its thread was stopped for as long as it is asked. */
static void check_in_use(struct ripc_context *ctx, uint64_t id)
{
	struct ripc_service *svc = NULL;
	int error = 0;

	for (int i = 0; i < 5 && !error; i++) {
		error = ripc_service_open(ctx, id, 0, &svc);
		if (!error)
			ck_assert_int_eq(ripc_service_close(svc), 0);
	}
	ck_assert_int_eq(error, -EADDRINUSE);
}

START_TEST(service_open__id_in_use)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_service *svc = NULL;
	struct pair pair;

	side_open_as(&pair.a, &cfg, own_id(1));
	side_open(&pair.b, 0);
	ck_assert_int_eq(ripc_service_open(pair.a.ctx, own_id(1), 0, &svc), -EADDRINUSE);
	ck_assert_ptr_null(svc);
	check_in_use(pair.b.ctx, own_id(1));
	acquaint(&pair.b, &pair.a);
	/* When it is free again others can have it. */
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	ck_assert_int_eq(ripc_service_open(pair.b.ctx, own_id(1), 0, &svc), 0);
	ck_assert_uint_eq(ripc_service_id(svc), own_id(1));
	check_in_use(pair.a.ctx, own_id(1));
	pair_close(&pair);
}
END_TEST

START_TEST(service_open__well_known_is_found)
{
	struct ripc_config cfg = api_config(0);
	struct pair pair;

	side_open_as(&pair.a, &cfg, own_id(2));
	side_open(&pair.b, 0);
	ck_assert_uint_eq(pair.a.id, own_id(2));
	ck_assert_int_eq(ripc_resolve(pair.b.ctx, pair.a.id, PATIENCE_MS), 0);
	acquaint(&pair.b, &pair.a);
	pair_close(&pair);
}
END_TEST

/* One call that needs to know who has the ID. */
static int call_to(struct side *side, uint64_t to, int which)
{
	const struct iovec one = item("x", 1);
	struct ripc_send request = long_send(to, &one, 1);
	uint64_t rtt_ns;

	switch (which) {
	case 0:
		return ripc_send_short(side->svc, to, &one, 1);
	case 1:
		request.flags |= RIPC_NOWAIT;
		return ripc_sendmsg(side->svc, &request, NULL);
	case 2:
		request.flags = 0;
		return ripc_sendmsg(side->svc, &request, NULL);
	case 3:
		return ripc_ping(side->svc, to, PATIENCE_MS, &rtt_ns);
	default:
		return ripc_resolve(side->ctx, to, 0);
	}
}

/*
 * Its word that it is there has come, but nobody has read it: that nobody was there a moment ago
 * must not be said any more. A context that only works in calls makes sure that nobody has.
 */
START_TEST(service_open__found_at_once_by_who_knew_of_nobody)
{
	struct ripc_config cfg = api_config(RIPC_SINGLE_THREAD);
	struct side asker, late;
	int error = 0;

	side_open_as(&asker, &cfg, 0);
	for (int i = 0; i < 10 && error != -ENOENT; i++) { /* the service is known for a second */
		ck_assert_int_eq(ripc_resolve(asker.ctx, own_id(3), PATIENCE_MS), -ENOENT);
		/* A waiting send, or a resolve, asks again, and does not know yet. */
		error = _i == 1 || _i == 4 ? -ENOENT : call_to(&asker, own_id(3), _i);
	}
	ck_assert_int_eq(error, -ENOENT);
	cfg.flags = 0;
	side_open_as(&late, &cfg, own_id(3));
	ck_assert_int_ne(call_to(&asker, own_id(3), _i), -ENOENT);
	ck_assert_int_eq(ripc_resolve(asker.ctx, own_id(3), PATIENCE_MS), 0);
	side_close(&asker);
	side_close(&late);
}
END_TEST

/* The same for who knew another one, which has gone meanwhile. */
START_TEST(service_open__found_at_once_by_who_knew_another)
{
	struct ripc_config cfg = api_config(RIPC_SINGLE_THREAD);
	const struct iovec one = item("x", 1);
	struct ripc_send request = long_send(own_id(4), &one, 1);
	struct side asker, old, next;

	side_open_as(&asker, &cfg, 0);
	cfg.flags = 0;
	side_open_as(&old, &cfg, own_id(4));
	ck_assert_int_eq(ripc_sendmsg(asker.svc, &request, NULL), 0);
	ck_assert_int_eq(ripc_close(old.ctx, 0), 0);
	side_open_as(&next, &cfg, own_id(4));
	ck_assert_int_eq(ripc_sendmsg(asker.svc, &request, NULL), 0);
	ripc_msg_free(take(next.svc, RIPC_LONG));
	side_close(&asker);
	side_close(&next);
}
END_TEST

START_TEST(service_open__bad_arguments)
{
	struct ripc_service *svc = NULL;
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_service_open(NULL, 0, 0, &svc), -EINVAL);
	ck_assert_int_eq(ripc_service_open(side.ctx, 0, 0, NULL), -EINVAL);
	ck_assert_int_eq(ripc_service_open(side.ctx, 0, 1, &svc), -EINVAL);
	ck_assert_ptr_null(svc);
	ck_assert_uint_eq(stats_of(side.ctx).services, 1);
	side_close(&side);
}
END_TEST

START_TEST(id_from_name__is_siphash)
{
	/* SipHash-2-4 under the key 0, as any implementation computes it. */
	ck_assert_uint_eq(ripc_id_from_name(""), 0x1e924b9d737700d7u);
	ck_assert_uint_ne(ripc_id_from_name("a"), ripc_id_from_name("b"));
	ck_assert_uint_ne(ripc_id_from_name(NULL), 0);
}
END_TEST

/* ---- draining, closing, restarting ------------------------------------------------------- */

START_TEST(service_drain__hands_out_what_is_queued)
{
	const struct iovec one = item("x", 1);
	struct ripc_msg *msg;
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 3; i++)
		send_byte(&pair.a, &pair.b);
	ck_assert_int_eq(ripc_service_drain(pair.b.svc, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), -ENOENT);
	ck_assert_int_eq(ripc_service_drain(pair.b.svc, 0), 0);
	for (int i = 0; i < 3; i++)
		ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	ck_assert_int_eq(ripc_receive(pair.b.svc, 0, &msg), -ESHUTDOWN);
	ck_assert_int_eq(ripc_receive(pair.b.svc, -1, &msg), -ESHUTDOWN);
	ck_assert_int_eq(ripc_service_close(pair.b.svc), 0);
	pair_close(&pair);
}
END_TEST

/* A message that never ends is waited for as long as was said, and then refused. */
START_TEST(service_drain__message_that_does_not_end)
{
	const size_t len = 1 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_msg *msg = NULL;
	struct ripc_send send;
	struct pair pair;
	struct pump pump;

	side_open(&pair.a, RIPC_NO_THREAD);
	side_open(&pair.b, 0);
	pump_start(&pump, pair.a.ctx);
	acquaint(&pair.b, &pair.a);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	/* An announced message arrives now; then b requests data from a sleeping context. */
	pump_stop(&pump);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	while (stats_of(pair.b.ctx).pull_requests == 0)
		ck_assert_int_ne(ripc_receive(pair.b.svc, 1, &msg), 0);
	ck_assert_int_eq(ripc_service_drain(pair.b.svc, 20), -ETIMEDOUT);
	ck_assert_int_eq(ripc_receive(pair.b.svc, 0, &msg), -ESHUTDOWN);
	pump_start(&pump, pair.a.ctx);
	take_completion(pair.a.svc, 0, RIPC_NOT_DELIVERED, -ENOENT);
	pump_stop(&pump);
	free(one.iov_base);
	pair_close(&pair);
}
END_TEST

/* A service whose ID is another's does not wait for a sender that is silent. */
START_TEST(service_yield__message_that_does_not_end)
{
	const size_t len = 1 << 20;
	const struct iovec one = item(filled(len, 0), len);
	struct ripc_config cfg = api_config(0);
	struct ripc_msg *msg = NULL;
	struct ripc_send send;
	struct pair pair;
	struct pump pump;

	side_open(&pair.a, RIPC_NO_THREAD);
	cfg.peer_timeout_ms = 60 * PATIENCE_MS;
	side_open_as(&pair.b, &cfg, 0);
	pump_start(&pump, pair.a.ctx);
	acquaint(&pair.b, &pair.a);
	send = long_send(pair.b.id, &one, 1);
	send.flags |= RIPC_NOWAIT;
	pump_stop(&pump);
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	while (stats_of(pair.b.ctx).pull_requests == 0)
		ck_assert_int_ne(ripc_receive(pair.b.svc, 1, &msg), 0);
	ripc__lock(pair.b.ctx);
	ripc__service_yield(pair.b.svc);
	ripc__unlock(pair.b.ctx);
	msg = take(pair.b.svc, RIPC_NOTICE);
	ck_assert_int_eq(msg->status, -EADDRINUSE);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_receive(pair.b.svc, PATIENCE_MS, &msg), -ESHUTDOWN);
	pair_close(&pair);
	free(one.iov_base);
}
END_TEST

/*
 * Sends to a service that has moved. As long as the old place exists it says so. If even its
 * context is gone, a message that went there first is lost, with an unknown outcome.
 */
static void send_after_move(const struct side *from, const struct side *to, bool old_is_gone)
{
	const struct iovec one = item("x", 1);
	int error = ripc_send_long(from->svc, to->id, &one, 1, PATIENCE_MS);

	if (old_is_gone && error == -ECONNRESET) {
		ripc_msg_free(take(from->svc, RIPC_NOTICE));
		error = ripc_send_long(from->svc, to->id, &one, 1, PATIENCE_MS);
	}
	ck_assert_int_eq(error, 0);
}

/* The ID goes to another context: the partner's next sends find it there. */
START_TEST(service_drain__then_elsewhere)
{
	struct ripc_config cfg = api_config(0);
	struct side old, new, client;
	struct ripc_msg *msg;

	side_open_as(&old, &cfg, own_id(3));
	side_open(&client, 0);
	for (int i = 0; i < 3; i++) {
		send_byte(&client, &old);
		ck_assert_int_eq(ripc_service_drain(old.svc, PATIENCE_MS), 0);
		ripc_msg_free(take(old.svc, RIPC_LONG));
		ck_assert_int_eq(ripc_receive(old.svc, 0, &msg), -ESHUTDOWN);
		side_open_as(&new, &cfg, own_id(3));
		if (i % 2)
			side_close(&old);
		send_after_move(&client, &new, i % 2);
		msg = take(new.svc, RIPC_LONG);
		ck_assert_uint_eq(msg->from, client.id);
		ripc_msg_free(msg);
		if (i % 2 == 0)
			side_close(&old);
		old = new;
	}
	side_close(&old);
	side_close(&client);
}
END_TEST

struct receiver {
	struct ripc_service *svc;
	pthread_t thread;
	int status;
};

static void *receiver_main(void *arg)
{
	struct receiver *receiver = arg;
	struct ripc_msg *msg;

	receiver->status = ripc_receive(receiver->svc, -1, &msg);
	return NULL;
}

static uint32_t n_waiting(struct ripc_service *svc)
{
	uint32_t n;

	ck_assert_int_eq(ripc__enter(svc->ctx), 0);
	n = svc->n_waiting;
	ripc__leave(svc->ctx);
	return n;
}

START_TEST(service_close__wakes_who_waits)
{
	struct receiver receivers[4] = {{0}};
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < 4; i++) {
		receivers[i].svc = pair.a.svc;
		ck_assert_int_eq(pthread_create(&receivers[i].thread, NULL, receiver_main,
			&receivers[i]), 0);
	}
	while (n_waiting(pair.a.svc) < 4)
		usleep(1000);
	ck_assert_int_eq(ripc_service_close(pair.a.svc), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(receivers[i].thread, NULL);
		ck_assert_int_eq(receivers[i].status, -ESHUTDOWN);
	}
	pair_close(&pair);
}
END_TEST

START_TEST(service_close__frees_what_is_queued)
{
	struct pair pair;
	uint64_t used;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	used = stats_of(pair.b.ctx).pool_used_bytes;
	for (int i = 0; i < 10; i++)
		send_byte(&pair.a, &pair.b);
	ck_assert_uint_gt(stats_of(pair.b.ctx).pool_used_bytes, used);
	ck_assert_int_eq(ripc_service_close(pair.b.svc), 0);
	ck_assert_uint_eq(stats_of(pair.b.ctx).pool_used_bytes, used);
	ck_assert_uint_eq(stats_of(pair.b.ctx).services, 0);
	ck_assert_uint_eq(stats_of(pair.b.ctx).partners, 0);
	pair_close(&pair);
}
END_TEST

/* Nothing sent to or by a predecessor reaches the next holder of the ID. */
START_TEST(service_close__successor_gets_nothing_of_it)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_send send;
	const struct iovec one = item("x", 1);
	struct pair pair;
	uint64_t before;

	side_open(&pair.a, 0);
	side_open_as(&pair.b, &cfg, own_id(4));
	acquaint(&pair.a, &pair.b);
	before = ripc_service_incarnation(pair.b.svc);
	ck_assert_int_eq(ripc_service_close(pair.b.svc), 0);
	ck_assert_int_eq(ripc_service_open(pair.b.ctx, own_id(4), 0, &pair.b.svc), 0);
	ck_assert_uint_ne(ripc_service_incarnation(pair.b.svc), before);
	send = long_send(pair.b.id, &one, 1);
	send.to_incarnation = before;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), -ENOENT);
	check_nothing(pair.b.svc);
	send.to_incarnation = 0;
	ck_assert_int_eq(ripc_sendmsg(pair.a.svc, &send, NULL), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_LONG));
	pair_close(&pair);
}
END_TEST

START_TEST(service__bad_arguments)
{
	ck_assert_int_eq(ripc_service_close(NULL), -EINVAL);
	ck_assert_int_eq(ripc_service_drain(NULL, 0), -EINVAL);
	ck_assert_uint_eq(ripc_service_id(NULL), 0);
	ck_assert_uint_eq(ripc_service_incarnation(NULL), 0);
}
END_TEST

/* ---- many -------------------------------------------------------------------------------- */

/* A thousand services in one process, each of them found and spoken to: a thousand partners of
 * one service. */
START_TEST(services__thousand_and_partners_of_one)
{
	const struct iovec one = item("x", 1);
	static struct ripc_service *services[MANY];
	struct ripc_stats stats;
	struct pair pair;

	pair_open(&pair);
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(ripc_service_open(pair.b.ctx, 0, 0, &services[i]), 0);
	ck_assert_uint_eq(stats_of(pair.b.ctx).services, MANY + 1);
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(ripc_send_long(pair.a.svc, ripc_service_id(services[i]), &one, 1,
			PATIENCE_MS), 0);
		ripc_msg_free(take(services[i], RIPC_LONG));
	}
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(ripc_send_short(services[i], pair.a.id, &one, 1), 0);
		ripc_msg_free(take(pair.a.svc, RIPC_SHORT));
	}
	stats = stats_of(pair.a.ctx);
	ck_assert_uint_eq(stats.partners, MANY);
	ck_assert_uint_le(stats.partner_bytes / stats.partners, 568);
	stats = stats_of(pair.b.ctx);
	ck_assert_uint_eq(stats.partners, MANY);
	ck_assert_uint_le(stats.partner_bytes / stats.partners, 568);
	pair_close(&pair);
}
END_TEST

/* The same from as many contexts, each of which is a peer by itself: idle ones cost no more. */
START_TEST(services__partners_in_many_contexts)
{
	const struct iovec one = item("x", 1);
	struct side side, other;
	struct ripc_stats stats;

	side_open(&side, 0);
	for (int i = 0; i < MANY / 4; i++) {
		side_open(&other, RIPC_SINGLE_THREAD);
		ck_assert_int_eq(ripc_send_long(other.svc, side.id, &one, 1, PATIENCE_MS), 0);
		side_close(&other);
		ripc_msg_free(take(side.svc, RIPC_LONG));
	}
	stats = stats_of(side.ctx);
	ck_assert_uint_eq(stats.partners, MANY / 4);
	ck_assert_uint_le(stats.partner_bytes / stats.partners, 568);
	side_close(&side);
}
END_TEST

/* Opening and closing leaves nothing behind. */
START_TEST(close__gives_everything_back)
{
	int n, cycles = getenv("RIPC_TEST_FULL") ? 1000 : 20;
	struct pair pair;

	pair_open(&pair);
	pair_close(&pair);
	n = descriptors_open();
	for (int i = 0; i < cycles; i++) {
		pair_open(&pair);
		acquaint(&pair.a, &pair.b);
		ck_assert_int_ge(ripc_service_fd(pair.a.svc), 0);
		pair_close(&pair);
	}
	ck_assert_int_eq(descriptors_open(), n);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		service_open__private_ids_differ, service_open__id_in_use,
		service_open__well_known_is_found,
		service_open__found_at_once_by_who_knew_another, service_open__bad_arguments,
		id_from_name__is_siphash, service_drain__hands_out_what_is_queued,
		service_drain__message_that_does_not_end,
		service_yield__message_that_does_not_end, service_drain__then_elsewhere,
		service_close__wakes_who_waits, service_close__frees_what_is_queued,
		service_close__successor_gets_nothing_of_it, service__bad_arguments,
		services__thousand_and_partners_of_one, services__partners_in_many_contexts,
		close__gives_everything_back,
	};
	TCase *tcase = tcase_create("api_service");

	if (descriptors_allow() < MANY + 200) {
		printf("skipped: RLIMIT_NOFILE allows less than %d files\n", MANY + 200);
		return 77;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, service_open__found_at_once_by_who_knew_of_nobody, 0, 5);
	return suite_finish("api_service", tcase);
}
