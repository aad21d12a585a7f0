/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of a context, as ripc_log_next() takes it. */
#include "api.h"

#include "core/base/base.h"
#include "core/objects.h"

#define KEPT     64
#define THREADS  4
#define MESSAGES 500

static struct ripc_log_message next(struct ripc_context *ctx)
{
	struct ripc_log_message message = {.size = sizeof(message), .lost = 99};

	ck_assert_int_eq(ripc_log_next(ctx, &message), 0);
	ck_assert_uint_eq(message.size, sizeof(message));
	return message;
}

static void check_next(struct ripc_context *ctx, int level, const char *text, uint64_t lost)
{
	struct ripc_log_message message = next(ctx);

	ck_assert_int_eq(message.level, level);
	ck_assert_str_eq(message.text, text);
	ck_assert_uint_eq(message.lost, lost);
}

static void check_empty(struct ripc_context *ctx)
{
	struct ripc_log_message message = {.size = sizeof(message), .lost = 99};

	ck_assert_int_eq(ripc_log_next(ctx, &message), -EAGAIN);
	ck_assert_uint_eq(message.lost, 99);
}

static struct ripc_context *opened(void)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx;

	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	return ctx;
}

START_TEST(log_next__in_order)
{
	struct ripc_context *ctx = opened();
	char text[600];

	check_empty(ctx);
	ripc__log(ctx, RIPC_LOG_WARN, "one %d", 1);
	ripc__log(ctx, RIPC_LOG_DEBUG, "two");
	check_next(ctx, RIPC_LOG_WARN, "one 1", 0);
	ripc__log(ctx, RIPC_LOG_ERROR, "three");
	check_next(ctx, RIPC_LOG_DEBUG, "two", 0);
	check_next(ctx, RIPC_LOG_ERROR, "three", 0);
	check_empty(ctx);
	memset(text, 'x', sizeof(text));
	ripc__log(ctx, RIPC_LOG_INFO, "%.*s", (int)sizeof(text), text);
	text[511] = '\0';
	check_next(ctx, RIPC_LOG_INFO, text, 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

START_TEST(log_next__tells_what_was_lost)
{
	struct ripc_context *ctx = opened();
	char text[32];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < KEPT + 5; i++)
			ripc__log(ctx, RIPC_LOG_WARN, "message %d", i);
		check_next(ctx, RIPC_LOG_WARN, "message 5", 5);
		ripc__log(ctx, RIPC_LOG_WARN, "message %d", KEPT + 5);
		ripc__log(ctx, RIPC_LOG_WARN, "message %d", KEPT + 6);
		for (int i = 7; i < KEPT + 7; i++) {
			snprintf(text, sizeof(text), "message %d", i);
			check_next(ctx, RIPC_LOG_WARN, text, i == 7);
		}
		check_empty(ctx);
	}
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

/* The callback gets each message, too. */
static void count(void *arg, int level, const char *text)
{
	*(int *)arg += level == RIPC_LOG_WARN && strstr(text, "pool_bytes");
}

START_TEST(log_next__beside_a_callback)
{
	struct ripc_config cfg = api_config(0);
	struct ripc_context *ctx;
	void *buf;
	int n = 0;

	cfg.pool_bytes = 1u << 20;
	cfg.log = count;
	cfg.log_arg = &n;
	ck_assert_int_eq(ripc_open(&cfg, &ctx), 0);
	ck_assert_int_eq(ripc_buf_alloc(ctx, 1u << 30, &buf), -ENOMEM);
	ck_assert_int_eq(n, 1);
	ck_assert_ptr_nonnull(strstr(next(ctx).text, "pool_bytes"));
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

START_TEST(log_next__any_size)
{
	struct {
		struct ripc_log_message known;
		uint64_t later;
	} newer = {.known = {.size = sizeof(newer)}, .later = 99};
	struct ripc_log_message small = {.size = sizeof(small) - 1};
	struct ripc_context *ctx = opened();

	ripc__log(ctx, RIPC_LOG_WARN, "one");
	ck_assert_int_eq(ripc_log_next(NULL, &newer.known), -EINVAL);
	ck_assert_int_eq(ripc_log_next(ctx, NULL), -EINVAL);
	ck_assert_int_eq(ripc_log_next(ctx, &small), -EINVAL);
	small.size = 4097;
	ck_assert_int_eq(ripc_log_next(ctx, &small), -E2BIG);
	ck_assert_int_eq(ripc_log_next(ctx, &newer.known), 0);
	ck_assert_str_eq(newer.known.text, "one");
	ck_assert_uint_eq(newer.known.size, sizeof(newer));
	ck_assert_uint_eq(newer.later, 0);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

static void *log_many(void *ctx)
{
	for (int i = 0; i < MESSAGES; i++)
		ripc__log(ctx, RIPC_LOG_INFO, "message");
	return NULL;
}

/* The taken and the lost messages are all messages. */
START_TEST(log_next__many_threads)
{
	struct ripc_log_message message = {.size = sizeof(message)};
	struct ripc_context *ctx = opened();
	pthread_t threads[THREADS];
	uint64_t n = 0;

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, log_many, ctx), 0);
	while (n < THREADS * MESSAGES) {
		if (ripc_log_next(ctx, &message) == 0)
			n += 1 + message.lost;
	}
	ck_assert_uint_eq(n, THREADS * MESSAGES);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	check_empty(ctx);
	ck_assert_int_eq(ripc_close(ctx, 0), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		log_next__in_order, log_next__tells_what_was_lost, log_next__beside_a_callback,
		log_next__any_size, log_next__many_threads, NULL,
	};

	return suite_run("log", tests);
}
