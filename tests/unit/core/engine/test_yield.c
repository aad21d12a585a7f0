/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting where others keep the processor for long: each sched_yield() takes 2 ms. */
#include <sched.h>

#include "api.h"

#define ROUND_TRIPS 500u
#define SLICE_MS    2u
#define APART_MS    16u /* between two long yields of a context, at least */

static atomic_uint n_yields;

/* As beside a busy process. */
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	const struct timespec slice = {.tv_nsec = SLICE_MS * 1000000};

	atomic_fetch_add(&n_yields, 1);
	return nanosleep(&slice, NULL);
}

static void *echo_main(void *arg)
{
	const struct side *side = arg;

	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		struct ripc_msg *msg = take(side->svc, RIPC_SHORT);

		ck_assert_int_eq(ripc_send_short(side->svc, msg->from, msg->items, 1), 0);
		ripc_msg_free(msg);
	}
	return NULL;
}

/* Long yields are seldom, however long the round trips take. */
START_TEST(yield__little_where_yields_take_long)
{
	struct pair pair;
	pthread_t echo;
	uint64_t began_ms, took_ms;

	pair_open(&pair);
	acquaint(&pair.a, &pair.b);
	ck_assert_int_eq(pthread_create(&echo, NULL, echo_main, &pair.b), 0);
	began_ms = clock_ms();
	atomic_store(&n_yields, 0);
	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		struct iovec one = item("ping", 4);

		ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
		ripc_msg_free(take(pair.a.svc, RIPC_SHORT));
	}
	took_ms = clock_ms() - began_ms;
	ck_assert_int_eq(pthread_join(echo, NULL), 0);
	/* With two contexts, a lock may be given way to once and again. */
	ck_assert_uint_le(atomic_load(&n_yields), 2 * (took_ms / APART_MS + 8));
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { yield__little_where_yields_take_long, NULL };

	return suite_run("yield", tests);
}
