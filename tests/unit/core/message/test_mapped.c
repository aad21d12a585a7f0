/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers transferred (RIPC_GIVE) and mapped: two contexts of one thread, on the loop backend and
 * over shared memory. The statistics show the holders.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "loop/loop.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/send/exposed.h"
#include "core/send/outgoing.h"
#include "suite.h"
#include "util/list.h"

#define LEN      ((size_t)3 << 20)
#define PATIENCE 2000000 /* polls */

struct world {
	struct ripc__loop_hub *hub;
	struct ripc_context *ctx[2];
	struct ripc_service *svc[2];
	bool is_loop;
};

enum { LOOP, SHM, UDP };

/* flags: of the receiving context, 1. */
static void world_open_with(struct world *world, int index, uint32_t flags)
{
	static char options[40];
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD | RIPC_NO_THREAD,
		.pool_bytes = 64u << 20, .interfaces = "lo", .options = options};
	static const struct ripc__backend *const backends[][2] = {
		[LOOP] = { &ripc__loop_backend, NULL }, [SHM] = { &ripc__shm_backend, NULL },
		[UDP] = { &ripc__udp_backend, NULL },
	};
	struct ripc__env env;

	snprintf(options, sizeof(options), "resolver.port=%d", 20000 + getpid() % 12000);
	ck_assert_int_eq(ripc__loop_hub_open(&world->hub), 0);
	ripc__env_init(&env);
	world->is_loop = index == LOOP;
	if (world->is_loop)
		env.arg = world->hub;
	env.backends = backends[index];
	for (int i = 0; i < 2; i++) {
		cfg.flags |= i ? flags : 0;
		ck_assert_int_eq(ripc__open_in(&cfg, &env, &world->ctx[i]), 0);
		ck_assert_int_eq(ripc_service_open(world->ctx[i], 0, 0, &world->svc[i]), 0);
	}
}

static void world_open(struct world *world, int index)
{
	world_open_with(world, index, 0);
}

static void world_close(struct world *world)
{
	for (int i = 0; i < 2; i++) {
		if (world->ctx[i])
			ck_assert_int_eq(ripc_close(world->ctx[i], 0), 0);
	}
	ripc__loop_hub_close(world->hub);
}

static struct ripc_stats stats_of(const struct world *world, int i)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_stats_get(world->ctx[i], &stats), 0);
	return stats;
}

static void pump(const struct world *world)
{
	for (int i = 0; i < 2; i++) {
		if (world->ctx[i])
			ripc_poll(world->ctx[i]);
	}
}

static struct ripc_msg *take(const struct world *world, int i)
{
	struct ripc_msg *msg = NULL;

	for (int n = 0; n < PATIENCE && ripc_receive(world->svc[i], 0, &msg); n++)
		pump(world);
	ck_assert_ptr_nonnull(msg);
	return msg;
}

static void *buffer(const struct world *world, size_t len, uint8_t byte)
{
	void *buf;

	ck_assert_int_eq(ripc_buf_alloc(world->ctx[0], len, &buf), 0);
	memset(buf, byte, len);
	return buf;
}

/* From 0 to 1. */
static void send_items(const struct world *world, const struct iovec *items, uint32_t n,
		uint32_t flags)
{
	struct ripc_send send = {.size = sizeof(send), .n_items = n, .items = items,
		.to = ripc_service_id(world->svc[1]), .timeout_ms = 20000,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | flags};

	ck_assert_int_eq(ripc_sendmsg(world->svc[0], &send, NULL), 0);
}

/* Sends from 0 to 1 and sees it delivered. */
static struct ripc_msg *pass(const struct world *world, const struct iovec *items, uint32_t n,
		uint32_t flags)
{
	struct ripc_msg *msg, *completion;

	send_items(world, items, n, flags);
	msg = take(world, 1);
	completion = take(world, 0);
	ck_assert_int_eq(completion->kind, RIPC_COMPLETION);
	ck_assert_int_eq(completion->outcome, RIPC_DELIVERED);
	ripc_msg_free(completion);
	return msg;
}

static struct ripc_msg *give(const struct world *world, const struct iovec *items, uint32_t n)
{
	return pass(world, items, n, RIPC_GIVE);
}

static void check_held(const struct world *world, uint64_t bytes)
{
	for (int n = 0; n < PATIENCE && stats_of(world, 0).given_held_bytes != bytes; n++)
		pump(world);
	ck_assert_uint_eq(stats_of(world, 0).given_held_bytes, bytes);
	ck_assert_uint_eq(stats_of(world, 1).mapped_held_bytes, bytes);
}

static void check_bytes(const struct iovec *item, size_t len, uint8_t byte)
{
	const uint8_t *bytes = item->iov_base;

	ck_assert_uint_eq(item->iov_len, len);
	ck_assert_uint_eq(bytes[0], byte);
	ck_assert_mem_eq(bytes, bytes + 1, len - 1);
}

static void check_place(const struct ripc_msg *msg, uint32_t i, enum ripc_place place)
{
	ck_assert_ptr_nonnull(msg->places);
	ck_assert_uint_eq(msg->places[i].place, place);
	ck_assert_ptr_eq(msg->places[i].mem.iov_base, msg->items[i].iov_base);
	ck_assert_uint_eq(msg->places[i].mem.iov_len, msg->items[i].iov_len);
	ck_assert_uint_eq(msg->places[i].cookie, 0);
}

/* The very first message, too: nothing is copied, and freeing sends the reference home. */
START_TEST(give__is_read_in_place)
{
	struct world world;
	struct ripc_msg *msg;

	world_open(&world, _i);
	for (int i = 1; i < 4; i++) {
		const struct iovec item = {buffer(&world, LEN, (uint8_t)i), LEN};
		uint64_t used = stats_of(&world, 0).pool_used_bytes;

		msg = give(&world, &item, 1);
		check_place(msg, 0, RIPC_IN_SENDER);
		check_bytes(&msg->items[0], LEN, (uint8_t)i);
		check_held(&world, LEN);
		ck_assert_uint_ge(stats_of(&world, 0).pool_used_bytes, LEN);
		ck_assert_uint_lt(stats_of(&world, 1).pool_used_bytes, LEN);
		ripc_msg_free(msg);
		check_held(&world, 0);
		ck_assert_uint_le(stats_of(&world, 0).pool_used_bytes, used - LEN);
		ck_assert_uint_eq(stats_of(&world, 1).mapped_bytes, (uint64_t)i * LEN);
		ck_assert_uint_eq(stats_of(&world, 1).read_bytes, 0);
	}
	world_close(&world);
}
END_TEST

/*
 * A busy sender need not wait until the receiver has looked at a message and calls again: for
 * transferred, read and pulled messages.
 */
START_TEST(long__is_acknowledged_at_once)
{
	static const struct {
		int world;
		uint32_t flags;
	} ways[] = {{LOOP, RIPC_GIVE}, {SHM, RIPC_GIVE}, {LOOP, 0}, {SHM, 0}, {UDP, 0}};
	struct world world;
	struct ripc_msg *msg = NULL, *completion = NULL;
	struct iovec item;

	world_open(&world, ways[_i].world);
	ripc_msg_free(pass(&world, &(struct iovec){"x", 1}, 1, 0));
	item = (struct iovec){buffer(&world, LEN, 1), LEN};
	send_items(&world, &item, 1, ways[_i].flags);
	for (int n = 0; n < PATIENCE && ripc_receive(world.svc[1], 0, &msg); n++)
		ripc_poll(world.ctx[0]);
	ck_assert_ptr_nonnull(msg);
	for (int n = 0; n < PATIENCE && ripc_receive(world.svc[0], 0, &completion); n++)
		ripc_poll(world.ctx[0]);
	ck_assert_ptr_nonnull(completion);
	ck_assert_int_eq(completion->outcome, RIPC_DELIVERED);
	ck_assert_uint_eq(stats_of(&world, 1).read_bytes,
		ways[_i].world == UDP || ways[_i].flags ? 0 : LEN);
	ripc_msg_free(completion);
	ripc_msg_free(msg);
	check_held(&world, 0);
	if (!ways[_i].flags)
		ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), 0);
	world_close(&world);
}
END_TEST

/* The giver writes to what it has given: the receiver sees that, but not in a copy. */
START_TEST(give__who_can_change_it)
{
	static const struct {
		int world;
		uint32_t flags;
		bool changes;
	} ways[] = {{LOOP, 0, true}, {SHM, 0, true}, {LOOP, RIPC_COPY_GIVEN, false},
		{SHM, RIPC_COPY_GIVEN, false}, {UDP, 0, false}};
	bool changes = ways[_i].changes;
	struct world world;
	struct ripc_msg *msg;
	struct iovec item = {.iov_len = LEN};

	world_open_with(&world, ways[_i].world, ways[_i].flags);
	item.iov_base = buffer(&world, LEN, 1);
	for (int i = 0; i < 3; i++) {
		memset(item.iov_base, 1, LEN);
		ck_assert_int_eq(ripc_buf_ref(world.ctx[0], item.iov_base), 0);
		msg = give(&world, &item, 1);
		check_bytes(&msg->items[0], LEN, 1);
		if (changes)
			check_place(msg, 0, RIPC_IN_SENDER);
		else
			ck_assert_ptr_null(msg->places); /* all in the pool */
		check_held(&world, changes ? LEN : 0);
		ck_assert_uint_eq(stats_of(&world, 1).mapped_bytes > 0, changes);
		memset(item.iov_base, 2, LEN);
		check_bytes(&msg->items[0], LEN, changes ? 2 : 1);
		ripc_msg_free(msg);
		check_held(&world, 0);
	}
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), 0);
	world_close(&world);
}
END_TEST

/* Items of one buffer, of another, and an empty one; some outlive the message. */
START_TEST(give__items_outlive_the_message)
{
	struct world world;
	struct ripc_msg *msg;
	struct iovec items[4], got[4];
	uint8_t *first;

	world_open(&world, _i);
	first = buffer(&world, LEN, 1);
	ck_assert_int_eq(ripc_buf_ref(world.ctx[0], first), 0);
	items[0] = (struct iovec){first, 1000};
	items[1] = (struct iovec){first + 5000, 200000};
	items[2] = (struct iovec){buffer(&world, LEN, 2), LEN};
	items[3] = (struct iovec){buffer(&world, 1, 3), 0};
	msg = give(&world, items, 4);
	memcpy(got, msg->items, sizeof(got));
	for (int i = 0; i < 3; i++)
		check_bytes(&got[i], items[i].iov_len, i == 2 ? 2 : 1);
	for (uint32_t i = 0; i < 4; i++)
		check_place(msg, i, i == 3 ? RIPC_IN_POOL : RIPC_IN_SENDER);
	ck_assert_uint_eq(got[3].iov_len, 0);
	ck_assert_int_eq(ripc_buf_ref(world.ctx[1], (uint8_t *)got[2].iov_base + 7), 0);
	ripc_msg_free(msg);
	for (int i = 0; i < 200; i++)
		pump(&world);
	/* The message's reference is one: it is home when all its items are. */
	ck_assert_uint_eq(stats_of(&world, 0).given_held_bytes, 201000 + LEN);
	ck_assert_uint_eq(stats_of(&world, 1).mapped_held_bytes, LEN);
	check_bytes(&got[2], LEN, 2);
	ck_assert_int_eq(ripc_buf_free(world.ctx[1], got[2].iov_base), 0);
	ck_assert_int_eq(ripc_buf_free(world.ctx[1], got[2].iov_base), -EINVAL);
	check_held(&world, 0);
	world_close(&world);
}
END_TEST

/* A cache: one buffer, many holders; each sends its own reference home, in any order. */
START_TEST(give__one_buffer_to_many)
{
	enum { N = 20 };
	struct world world;
	struct ripc_msg *msg[N];
	struct iovec item = {.iov_len = LEN};

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 9);
	for (int i = 0; i < N; i++) {
		ck_assert_int_eq(ripc_buf_ref(world.ctx[0], item.iov_base), 0);
		msg[i] = give(&world, &item, 1);
	}
	check_held(&world, N * LEN);
	for (int i = 0; i < N; i++) {
		check_bytes(&msg[i * 7 % N]->items[0], LEN, 9);
		ripc_msg_free(msg[i * 7 % N]);
		check_held(&world, (uint64_t)(N - 1 - i) * LEN);
	}
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), 0);
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), -EINVAL);
	world_close(&world);
}
END_TEST

/* When it has come home it can be written and given again; who reads it keeps it mapped. */
START_TEST(give__the_same_buffer_again)
{
	struct world world;
	struct ripc_msg *msg;
	struct iovec item = {.iov_len = LEN};
	const void *there = NULL;

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 0);
	for (uint8_t i = 1; i <= 10; i++) {
		ck_assert_int_eq(ripc_buf_refs(world.ctx[0], item.iov_base), 1);
		memset(item.iov_base, i, LEN);
		ck_assert_int_eq(ripc_buf_ref(world.ctx[0], item.iov_base), 0);
		msg = give(&world, &item, 1);
		ck_assert_int_eq(ripc_buf_refs(world.ctx[0], item.iov_base), 2);
		check_bytes(&msg->items[0], LEN, i);
		if (!world.is_loop && i > 1)
			ck_assert_ptr_eq(msg->items[0].iov_base, there);
		there = msg->items[0].iov_base;
		ripc_msg_free(msg);
		check_held(&world, 0);
	}
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), 0);
	world_close(&world);
}
END_TEST

struct holders {
	struct ripc_holder all[4];
	int n;
};

static int note_holder(void *arg, const struct ripc_holder *holder)
{
	struct holders *holders = arg;

	ck_assert_int_lt(holders->n, 4);
	holders->all[holders->n++] = *holder;
	return 0;
}

static struct holders holders_of(const struct world *world, int i)
{
	struct holders holders = {.n = 0};

	ck_assert_int_eq(ripc_holders(world->ctx[i], note_holder, &holders), holders.n);
	return holders;
}

static void check_holder(const struct ripc_holder *holder, const struct ripc_service *svc,
		uint64_t bytes, uint64_t messages)
{
	ck_assert_uint_eq(holder->id, ripc_service_id(svc));
	ck_assert_uint_eq(holder->incarnation, ripc_service_incarnation(svc));
	ck_assert_uint_eq(holder->bytes, bytes);
	ck_assert_uint_eq(holder->messages, messages);
}

/* By service, whoever holds most first. */
START_TEST(holders__by_service)
{
	struct world world;
	struct ripc_service *other;
	struct ripc_msg *msg[3];
	struct holders holders;

	world_open(&world, _i);
	ck_assert_int_eq(ripc_service_open(world.ctx[1], 0, 0, &other), 0);
	for (int i = 0; i < 3; i++) {
		struct iovec item = {buffer(&world, LEN, 1), LEN};

		/* Two to the other one. */
		if (i == 1) {
			struct ripc_service *first = world.svc[1];

			world.svc[1] = other;
			other = first;
		}
		msg[i] = give(&world, &item, 1);
	}
	holders = holders_of(&world, 0);
	ck_assert_int_eq(holders.n, 2);
	check_holder(&holders.all[0], world.svc[1], 2 * LEN, 2);
	check_holder(&holders.all[1], other, LEN, 1);
	ck_assert_int_eq(holders_of(&world, 1).n, 0);
	ripc_msg_free(msg[0]);
	ripc_msg_free(msg[2]);
	check_held(&world, LEN);
	holders = holders_of(&world, 0);
	ck_assert_int_eq(holders.n, 1);
	check_holder(&holders.all[0], world.svc[1], LEN, 1);
	ripc_msg_free(msg[1]);
	check_held(&world, 0);
	ck_assert_int_eq(holders_of(&world, 0).n, 0);
	ck_assert_int_eq(ripc_holders(world.ctx[0], NULL, NULL), -EINVAL);
	ck_assert_int_eq(ripc_holders(NULL, note_holder, NULL), -EINVAL);
	world_close(&world);
}
END_TEST

/*
 * Memory held by others is in use; when they free it there is room again, without a poll between.
 */
START_TEST(give__owner_out_of_memory)
{
	enum { MOST = 32 };
	struct world world;
	struct holders holders;
	struct ripc_msg *msg[MOST];
	struct iovec item = {.iov_len = LEN};
	int n = 0;

	world_open(&world, _i);
	while (ripc_buf_alloc(world.ctx[0], LEN, &item.iov_base) == 0) {
		ck_assert_int_lt(n, MOST);
		msg[n++] = give(&world, &item, 1);
	}
	ck_assert_int_ge(n, 15);
	ck_assert_int_eq(ripc_buf_alloc(world.ctx[0], LEN, &item.iov_base), -ENOMEM);
	ck_assert_uint_eq(stats_of(&world, 0).given_held_bytes, (uint64_t)n * LEN);
	holders = holders_of(&world, 0);
	ck_assert_int_eq(holders.n, 1);
	check_holder(&holders.all[0], world.svc[1], (uint64_t)n * LEN, (uint64_t)n);
	ripc_msg_free(msg[--n]);
	ck_assert_int_eq(ripc_buf_alloc(world.ctx[0], LEN, &item.iov_base), 0);
	while (n > 0)
		ripc_msg_free(msg[--n]);
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), 0);
	world_close(&world);
}
END_TEST

/* The holder goes without a word about what it holds: its references are settled. */
START_TEST(give__holder_closes)
{
	struct world world;
	struct ripc_msg *msg;
	struct iovec item = {.iov_len = LEN};

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 1);
	msg = give(&world, &item, 1);
	ck_assert_int_eq(ripc_close(world.ctx[1], 0), 0);
	world.ctx[1] = NULL;
	for (int n = 0; n < PATIENCE && stats_of(&world, 0).given_held_bytes; n++)
		pump(&world);
	ck_assert_uint_eq(stats_of(&world, 0).given_held_bytes, 0);
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], item.iov_base), -EINVAL);
	ck_assert_uint_eq(msg->items[0].iov_len, LEN); /* the item itself is not mapped any more */
	ripc_msg_free(msg);
	world_close(&world);
}
END_TEST

/* The reference of the application outlives the message, and then the context, which it keeps. */
START_TEST(give__item_outlives_its_holder)
{
	struct ripc_context *holder;
	struct ripc_msg *msg;
	struct world world;
	struct iovec item = {.iov_len = LEN};

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 1);
	msg = give(&world, &item, 1);
	holder = world.ctx[1];
	item = msg->items[0];
	ck_assert_int_eq(ripc_buf_ref(holder, item.iov_base), 0);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_close(holder, 0), 0);
	world.ctx[1] = NULL;
	for (int n = 0; n < PATIENCE && stats_of(&world, 0).given_held_bytes; n++)
		pump(&world);
	ck_assert_uint_eq(stats_of(&world, 0).given_held_bytes, 0);
	ck_assert_int_eq(ripc_buf_ref(holder, item.iov_base), 0);
	ck_assert_int_eq(ripc_buf_free(holder, item.iov_base), 0);
	ck_assert_int_eq(ripc_poll(holder), -ESHUTDOWN);
	ck_assert_int_eq(ripc_buf_free(holder, item.iov_base), 0);
	world_close(&world);
}
END_TEST

/* The owner goes: what it gave stays readable. Neither its service nor it waits for the holder. */
START_TEST(give__owner_closes)
{
	struct world world;
	struct ripc_msg *msg;
	struct iovec item = {.iov_len = LEN};

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 5);
	msg = give(&world, &item, 1);
	ck_assert_int_eq(ripc_service_close(world.svc[0]), 0);
	ck_assert_int_eq(ripc_close(world.ctx[0], 0), 0);
	world.ctx[0] = NULL;
	for (int i = 0; i < 1000; i++)
		pump(&world);
	check_bytes(&msg->items[0], LEN, 5);
	ripc_msg_free(msg);
	ck_assert_uint_eq(stats_of(&world, 1).mapped_held_bytes, 0);
	world_close(&world);
}
END_TEST

/* A place that was posted is used: then it is a copy, and the reference is home at once. */
START_TEST(give__into_a_window)
{
	static uint8_t window[LEN];
	const struct iovec place = {window, LEN};
	struct world world;
	struct ripc_msg *msg;
	struct iovec item = {.iov_len = LEN};

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 6);
	ck_assert_int_eq(ripc_window_post(world.svc[1], &place, 3), 0);
	msg = give(&world, &item, 1);
	ck_assert_ptr_nonnull(msg->places);
	ck_assert_int_eq(msg->places[0].place, RIPC_IN_WINDOW);
	check_bytes(&msg->items[0], LEN, 6);
	check_held(&world, 0);
	ripc_msg_free(msg);
	ck_assert_uint_eq(stats_of(&world, 1).mapped_bytes, 0);
	world_close(&world);
}
END_TEST

/* A held buffer is forwarded to others: from there it is a copy. */
START_TEST(give__goes_on)
{
	struct world world;
	struct ripc_msg *msg, *back;
	struct iovec item = {.iov_len = LEN};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.timeout_ms = 20000, .flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE};

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 8);
	msg = give(&world, &item, 1);
	item.iov_base = msg->items[0].iov_base;
	send.to = msg->from;
	ck_assert_int_eq(ripc_buf_ref(world.ctx[1], item.iov_base), 0);
	ck_assert_int_eq(ripc_sendmsg(world.svc[1], &send, NULL), 0);
	ripc_msg_free(msg);
	back = take(&world, 0);
	/* By the loop it goes as a copy; over shared memory it is the owner's own buffer again. */
	ck_assert_int_eq(back->places == NULL, world.is_loop);
	check_bytes(&back->items[0], LEN, 8);
	ripc_msg_free(back);
	back = take(&world, 1);
	ck_assert_int_eq(back->outcome, RIPC_DELIVERED);
	ripc_msg_free(back);
	check_held(&world, 0);
	world_close(&world);
}
END_TEST

/* A few bytes of a buffer, by a short message, are a copy, too. */
START_TEST(give__goes_on_as_a_short)
{
	struct world world;
	struct iovec items[2] = {{.iov_len = LEN}, {.iov_len = 100}}, item;
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.flags = RIPC_GIVE};
	struct ripc_msg *msg;

	world_open(&world, _i);
	for (int i = 0; i < 2; i++)
		items[i].iov_base = buffer(&world, LEN, (uint8_t)i);
	ck_assert_int_eq(ripc_buf_ref(world.ctx[0], items[1].iov_base), 0);
	msg = give(&world, items, 2);
	item = msg->items[1];
	send.to = msg->from;
	ck_assert_int_eq(ripc_buf_ref(world.ctx[1], item.iov_base), 0);
	ripc_msg_free(msg);
	check_bytes(&item, 100, 1);
	ck_assert_uint_eq(stats_of(&world, 1).mapped_held_bytes, 100);
	ck_assert_int_eq(ripc_sendmsg(world.svc[1], &send, NULL), 0);
	check_held(&world, 0);
	ck_assert_int_eq(ripc_buf_refs(world.ctx[0], items[1].iov_base), 1);
	msg = take(&world, 0);
	ck_assert_int_eq(msg->kind, RIPC_SHORT);
	check_bytes(&msg->items[0], 100, 1);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_buf_free(world.ctx[0], items[1].iov_base), 0);
	world_close(&world);
}
END_TEST

/* The only message that 0 has under way, once it has shown its items; NULL: not yet. */
static struct outgoing *shown(const struct world *world)
{
	list_for_each(node, &world->ctx[0]->partners.all) {
		struct partner *partner = list_entry(node, struct partner, node);
		const struct list *outgoing = &partner->longs.outgoing;
		struct outgoing *first = list_empty(outgoing) ? NULL :
			list_entry(outgoing->next, struct outgoing, node);

		if (first && first->exposed)
			return first;
	}
	return NULL;
}

/* The route moves when the message has come, and its sender has not heard so yet. */
START_TEST(give__moves_when_it_was_mapped)
{
	struct world world;
	struct ripc_msg *msg = NULL, *completion;
	struct iovec item = {.iov_len = LEN};
	struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
		.timeout_ms = 20000, .flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE};
	struct outgoing *outgoing;
	uint64_t keys[2];

	world_open(&world, _i);
	item.iov_base = buffer(&world, LEN, 9);
	send.to = ripc_service_id(world.svc[1]);
	ck_assert_int_eq(ripc_sendmsg(world.svc[0], &send, NULL), 0);
	for (int n = 0; n < PATIENCE && !shown(&world); n++)
		pump(&world);
	ck_assert_ptr_nonnull(shown(&world));
	for (int n = 0; n < PATIENCE && ripc_receive(world.svc[1], 0, &msg); n++)
		ripc_poll(world.ctx[1]);
	ck_assert_ptr_nonnull(msg);
	/* To another device, and back. */
	world.ctx[0]->peers.devices[1] = world.ctx[0]->peers.devices[0];
	outgoing = shown(&world);
	outgoing->partner->peer->device = 1;
	ck_assert(!ripc__exposed_keys(outgoing, 1000, keys));
	ck_assert_ptr_null(shown(&world));
	outgoing->partner->peer->device = 0;
	completion = take(&world, 0);
	ck_assert_int_eq(completion->outcome, RIPC_DELIVERED);
	ripc_msg_free(completion);
	check_held(&world, LEN);
	check_bytes(&msg->items[0], LEN, 9);
	ripc_msg_free(msg);
	check_held(&world, 0);
	world_close(&world);
}
END_TEST

/* A header in a small buffer, which is not shown, and an empty item after it: given, and lent. */
START_TEST(give__header_goes_along)
{
	struct world world;
	struct iovec items[3] = {{.iov_len = 500}, {.iov_len = 0}, {.iov_len = LEN}};
	struct ripc_msg *msg;

	world_open(&world, _i);
	for (int i = 0; i < 3; i++)
		items[i].iov_base = buffer(&world, items[i].iov_len, (uint8_t)i);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ripc_buf_ref(world.ctx[0], items[i].iov_base), 0);
	msg = give(&world, items, 3);
	for (int i = 0; i < 3; i += 2)
		check_bytes(&msg->items[i], items[i].iov_len, (uint8_t)i);
	for (uint32_t i = 0; i < 3; i++)
		check_place(msg, i, i == 2 ? RIPC_IN_SENDER : RIPC_IN_POOL);
	ck_assert_uint_eq(stats_of(&world, 1).mapped_bytes, LEN);
	ck_assert_uint_eq(stats_of(&world, 1).mapped_held_bytes, LEN);
	ripc_msg_free(msg);
	check_held(&world, 0);
	msg = pass(&world, items, 3, 0);
	for (int i = 0; i < 3; i += 2)
		check_bytes(&msg->items[i], items[i].iov_len, (uint8_t)i);
	ck_assert_uint_eq(stats_of(&world, 1).read_bytes, LEN);
	ripc_msg_free(msg);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ripc_buf_free(world.ctx[0], items[i].iov_base), 0);
	world_close(&world);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ give__is_read_in_place, 2 }, { long__is_acknowledged_at_once, 5 },
		{ give__who_can_change_it, 5 },
		{ give__items_outlive_the_message, 2 },
		{ give__one_buffer_to_many, 2 }, { give__the_same_buffer_again, 2 },
		{ give__owner_out_of_memory, 2 },
		{ give__holder_closes, 2 }, { give__item_outlives_its_holder, 2 },
		{ give__owner_closes, 2 }, { give__into_a_window, 2 }, { give__goes_on, 2 },
		{ give__goes_on_as_a_short, 2 },
		{ give__moves_when_it_was_mapped, 2 },
		{ give__header_goes_along, 2 }, { holders__by_service, 2 }, { NULL, 0 },
	};

	return suite_run_loops("mapped", loops);
}
