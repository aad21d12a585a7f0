/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of the public calls: two contexts in one process that reach each other over
 * real UDP loopback, contents that can be recognised, and functions that wait. IDs are private and
 * the resolver's port is this process's own, so that tests can run side by side.
 */
#ifndef API_H
#define API_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../support/util/clock.h"
#include "../support/util/process.h"
#include "ripc/ripc.h"
#include "suite.h"

#define PATIENCE_MS 20000 /* for what must come: only a failing test waits so long */

struct side {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id;
};

struct pair {
	struct side a, b;
};

static uint64_t nobody; /* from here on 65,536 IDs are this program's own, and its children's */

__attribute__((constructor)) static void nobody_set(void)
{
	nobody = 0x6e6f000000000000u + ((uint64_t)getpid() << 16);
}

static inline struct ripc_config api_config(uint32_t flags)
{
	static char options[64]; /* the same in forked children, which so meet their parent */

	if (!options[0])
		snprintf(options, sizeof(options), "resolver.port=%d", 20000 + getpid() % 12000);
	return (struct ripc_config){.size = sizeof(struct ripc_config), .flags = flags,
		.backends = "udp", .interfaces = "lo", .options = options};
}

static inline void side_open_as(struct side *side, const struct ripc_config *cfg, uint64_t id)
{
	ck_assert_int_eq(ripc_open(cfg, &side->ctx), 0);
	ck_assert_int_eq(ripc_service_open(side->ctx, id, 0, &side->svc), 0);
	side->id = ripc_service_id(side->svc);
}

static inline void side_open(struct side *side, uint32_t flags)
{
	struct ripc_config cfg = api_config(flags);

	side_open_as(side, &cfg, 0);
}

static inline void side_close(struct side *side)
{
	ck_assert_int_eq(ripc_close(side->ctx, PATIENCE_MS), 0);
}

static inline void pair_open(struct pair *pair)
{
	side_open(&pair->a, 0);
	side_open(&pair->b, 0);
}

static inline void pair_close(struct pair *pair)
{
	side_close(&pair->a);
	side_close(&pair->b);
}

/* ---- contents ---------------------------------------------------------------------------- */

static inline uint8_t content(uint64_t seed, size_t at)
{
	return (uint8_t)((seed + at) * 0x9e3779b97f4a7c15u >> 56);
}

static inline void fill(void *bytes, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = content(seed, i);
}

static inline void check_filled(const void *bytes, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++) {
		if (((const uint8_t *)bytes)[i] != content(seed, i))
			ck_abort_msg("byte %zu of %zu differs", i, len);
	}
}

static inline void *filled(size_t len, uint64_t seed)
{
	void *bytes = malloc(len + 1);

	ck_assert_ptr_nonnull(bytes);
	fill(bytes, len, seed);
	return bytes;
}

static inline void *pool_filled(struct ripc_context *ctx, size_t len, uint64_t seed)
{
	void *bytes;

	ck_assert_int_eq(ripc_buf_alloc(ctx, len, &bytes), 0);
	fill(bytes, len, seed);
	return bytes;
}

/* ---- sending and receiving --------------------------------------------------------------- */

static inline struct iovec item(const void *bytes, size_t len)
{
	return (struct iovec){(void *)(uintptr_t)bytes, len};
}

static inline struct ripc_send long_send(uint64_t to, const struct iovec *items, uint32_t n_items)
{
	return (struct ripc_send){.size = sizeof(struct ripc_send), .to = to, .items = items,
		.n_items = n_items, .flags = RIPC_SEND_LONG, .timeout_ms = PATIENCE_MS};
}

static inline struct ripc_msg *take(struct ripc_service *svc, enum ripc_kind kind)
{
	struct ripc_msg *msg = NULL;

	ck_assert_int_eq(ripc_receive(svc, PATIENCE_MS, &msg), 0);
	ck_assert_int_eq(msg->kind, kind);
	return msg;
}

static inline void take_completion(struct ripc_service *svc, uint64_t cookie,
		enum ripc_outcome outcome, int status)
{
	struct ripc_msg *msg = take(svc, RIPC_COMPLETION);

	ck_assert_uint_eq(msg->cookie, cookie);
	ck_assert_int_eq(msg->outcome, outcome);
	ck_assert_int_eq(msg->status, status);
	ripc_msg_free(msg);
}

static inline void check_nothing(struct ripc_service *svc)
{
	struct ripc_msg *msg = NULL;

	ck_assert_int_eq(ripc_receive(svc, 0, &msg), -EAGAIN);
	ck_assert_ptr_null(msg);
}

/*
 * A short from one to the other and back: afterwards both know each other. The answer goes when the
 * resolver has named the asker, which takes calls where there is no thread.
 */
static inline void acquaint(const struct side *from, const struct side *to)
{
	const struct iovec hello = item("hello", 5);
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_send_short(from->svc, to->id, &hello, 1), 0);
	msg = take(to->svc, RIPC_SHORT);
	ck_assert_int_eq(ripc_send_short(to->svc, msg->from, &hello, 1), 0);
	ripc_msg_free(msg);
	while (ripc_receive(from->svc, 0, &msg) == -EAGAIN)
		ripc_poll(to->ctx);
	ck_assert_int_eq(msg->kind, RIPC_SHORT);
	ripc_msg_free(msg);
}

static inline struct ripc_stats stats_of(struct ripc_context *ctx)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_stats_get(ctx, &stats), 0);
	return stats;
}

/* ---- a context that lives only as long as somebody turns its handle ---------------------- */

struct pump {
	pthread_t thread;
	struct ripc_context *ctx; /* opened with RIPC_NO_THREAD */
	atomic_bool stop;
};

static inline void *pump_main(void *arg)
{
	struct pump *pump = arg;
	const struct timespec pause = {.tv_nsec = 200000};

	while (!atomic_load(&pump->stop)) {
		if (ripc_poll(pump->ctx) == 0)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static inline void pump_start(struct pump *pump, struct ripc_context *ctx)
{
	pump->ctx = ctx;
	atomic_store(&pump->stop, false);
	ck_assert_int_eq(pthread_create(&pump->thread, NULL, pump_main, pump), 0);
}

static inline void pump_stop(struct pump *pump)
{
	atomic_store(&pump->stop, true);
	ck_assert_int_eq(pthread_join(pump->thread, NULL), 0);
}

#endif
