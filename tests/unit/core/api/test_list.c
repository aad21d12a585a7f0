/* SPDX-License-Identifier: BSD-3-Clause */
/* Listing services: with a callback, which returns or not, and without one. */
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "api.h"
#include "core/engine/internal.h"
#include "core/objects.h"
#include "ripc/list.h"
#include "util/list.h"

#define FEW 40 /* services of one context */

/* ---- with a callback --------------------------------------------------------------------- */

struct search {
	uint64_t id, incarnation;
	int n, n_seen;
};

static int seen(void *arg, const struct ripc_listing *listing)
{
	struct search *search = arg;

	search->n++;
	if (listing->id != search->id)
		return 0;
	ck_assert_uint_eq(listing->incarnation, search->incarnation);
	ck_assert_int_eq(listing->local, 1);
	ck_assert_ptr_nonnull(strstr(listing->address, "127.0.0.1"));
	ck_assert_str_ne(listing->source, "");
	search->n_seen++;
	return 0;
}

START_TEST(list__finds_services)
{
	struct search search = {0};
	struct pair pair;

	pair_open(&pair);
	search.id = pair.b.id;
	search.incarnation = ripc_service_incarnation(pair.b.svc);
	/* Longer each time: other tests of this host may have thousands of services. */
	for (int i = 1; i <= 20 && search.n_seen == 0; i++) {
		search.n = 0;
		ck_assert_int_eq(ripc_list(pair.a.ctx, i * 100, seen, &search), search.n);
	}
	ck_assert_int_ge(search.n_seen, 1);
	pair_close(&pair);
}
END_TEST

static int seen_nothing(void *arg, const struct ripc_listing *listing)
{
	(void)arg;
	(void)listing;
	return 0;
}

START_TEST(list__bad_arguments)
{
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_list(NULL, 0, seen_nothing, NULL), -EINVAL);
	ck_assert_int_eq(ripc_list(side.ctx, 0, NULL, NULL), -EINVAL);
	ck_assert_int_eq(ripc_list(side.ctx, -1, seen_nothing, NULL), -EINVAL);
	side_close(&side);
}
END_TEST

/* Ends the walk with the second service. */
static int take_two(void *arg, const struct ripc_listing *listing)
{
	(void)listing;
	return ++*(int *)arg == 2 ? -7 : 0;
}

/* Long before the timeout: else the test runs into its own limit. */
START_TEST(list__ends_when_callback_says_so)
{
	struct pair pair;
	int n = 0;

	pair_open(&pair);
	ck_assert_int_eq(ripc_list(pair.a.ctx, 3600000, take_two, &n), 2);
	ck_assert_int_eq(n, 2);
	ck_assert_int_ge(ripc_list(pair.a.ctx, 0, seen_nothing, NULL), 0);
	pair_close(&pair);
}
END_TEST

struct listed {
	struct ripc_context *ctx;
	atomic_bool seen;
};

/* Lists, nearly all the time, until that has been seen. */
static void *list_on(void *arg)
{
	struct listed *listed = arg;

	while (!atomic_load(&listed->seen))
		ripc_list(listed->ctx, 100, seen_nothing, NULL);
	return NULL;
}

/* One at a time: the second one is refused, and may list when the first one is done. */
START_TEST(list__while_another_thread_lists)
{
	struct listed listed = {0};
	struct pair pair;
	pthread_t thread;

	pair_open(&pair);
	listed.ctx = pair.a.ctx;
	ck_assert_int_eq(pthread_create(&thread, NULL, list_on, &listed), 0);
	while (ripc_list(pair.a.ctx, 0, seen_nothing, NULL) != -EBUSY)
		sched_yield();
	atomic_store(&listed.seen, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_ge(ripc_list(pair.a.ctx, 0, seen_nothing, NULL), 0);
	pair_close(&pair);
}
END_TEST

/* ---- callbacks that do not return, against the rule -------------------------------------- */

static jmp_buf away;

static int jump_away(void *arg, const struct ripc_listing *listing)
{
	(void)arg;
	(void)listing;
	longjmp(away, 1);
}

/* The context can list, send and be closed. */
START_TEST(list__left_by_longjmp)
{
	const struct iovec one = item("one", 3);
	struct search search = {0};
	volatile int times = 0;
	struct pair pair;

	pair_open(&pair);
	if (setjmp(away) || times) {
		ck_assert_int_le(times, 3);
	}
	if (times++ < 3) {
		ripc_list(pair.a.ctx, PATIENCE_MS, jump_away, NULL);
		ck_abort_msg("a callback returned");
	}
	search.id = pair.b.id;
	search.incarnation = ripc_service_incarnation(pair.b.svc);
	for (int i = 1; i <= 20 && search.n_seen == 0; i++)
		ck_assert_int_gt(ripc_list(pair.a.ctx, i * 100, seen, &search), 0);
	ck_assert_int_ge(search.n_seen, 1);
	ck_assert_int_eq(ripc_send_short(pair.a.svc, pair.b.id, &one, 1), 0);
	ripc_msg_free(take(pair.b.svc, RIPC_SHORT));
	if (!setjmp(away))
		ripc_list(pair.a.ctx, PATIENCE_MS, jump_away, NULL);
	pair_close(&pair);
}
END_TEST

static int exit_thread(void *arg, const struct ripc_listing *listing)
{
	(void)arg;
	(void)listing;
	pthread_exit(NULL);
}

static void *list_and_exit(void *ctx)
{
	ripc_list(ctx, 300, exit_thread, NULL);
	return NULL;
}

/* Other threads can list once the time of the call that was left is over. */
START_TEST(list__left_by_pthread_exit)
{
	pthread_t thread;
	struct side side;
	int n;

	side_open(&side, 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, list_and_exit, side.ctx), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	while ((n = ripc_list(side.ctx, 100, seen_nothing, NULL)) == -EBUSY)
		usleep(1000);
	ck_assert_int_ge(n, 1);
	side_close(&side);
}
END_TEST

/* Lists once more, from within. */
static int list_within(void *arg, const struct ripc_listing *listing)
{
	struct listed *listed = arg;

	(void)listing;
	if (!atomic_exchange(&listed->seen, true))
		ck_assert_int_ge(ripc_list(listed->ctx, 100, seen_nothing, NULL), 1);
	return 0;
}

START_TEST(list__callback_lists)
{
	struct listed listed = {0};
	struct side side;

	side_open(&side, 0);
	listed.ctx = side.ctx;
	ck_assert_int_ge(ripc_list(side.ctx, 200, list_within, &listed), 1);
	ck_assert(listed.seen);
	ck_assert_int_ge(ripc_list(side.ctx, 0, seen_nothing, NULL), 0);
	side_close(&side);
}
END_TEST

/* ---- without a callback ------------------------------------------------------------------ */

/* Takes up to 3 services at a time until all of ids were found; each is found once. */
static void find_all(struct ripc_lister *lister, const uint64_t *ids)
{
	struct ripc_listing list[3];
	int found[FEW] = {0}, n_found = 0;

	while (n_found < FEW) {
		int n = ripc_lister_next(lister, 1, list, 3, sizeof(*list));

		if (n != -ETIMEDOUT)
			ck_assert_int_ge(n, 1);
		ck_assert_int_le(n, 3);
		for (int i = 0; i < n; i++) {
			for (int at = 0; at < FEW; at++)
				n_found += list[i].id == ids[at] && !found[at]++;
		}
	}
	for (int at = 0; at < FEW; at++)
		ck_assert_int_eq(found[at], 1);
}

/* The time of each call is too short for a round of queries: the search goes on in between. */
START_TEST(lister__goes_on_between_calls)
{
	struct ripc_service *svcs[FEW];
	struct ripc_lister *lister;
	uint64_t ids[FEW] = {0};
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_services_open(pair.b.ctx, ids, FEW, 0, svcs), FEW);
	for (int i = 0; i < FEW; i++)
		ids[i] = ripc_service_id(svcs[i]);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc_lister_open(pair.a.ctx, &lister), 0);
		find_all(lister, ids);
		ck_assert_int_eq(ripc_lister_close(lister), 0);
	}
	pair_close(&pair);
}
END_TEST

/* Until nothing is left: no call waits. */
static int drain(struct ripc_lister *lister)
{
	struct ripc_listing list[2];
	int n;

	do
		n = ripc_lister_next(lister, 0, list, 2, sizeof(*list));
	while (n > 0);
	return n;
}

START_TEST(lister__nothing_there)
{
	struct ripc_lister *lister;
	struct ripc_listing one;
	struct side side;
	int n;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_lister_open(side.ctx, &lister), 0);
	ck_assert_int_eq(drain(lister), -EAGAIN);
	do /* other tests of this host have services, too */
		n = ripc_lister_next(lister, 20, &one, 1, sizeof(one));
	while (n > 0);
	ck_assert_int_eq(n, -ETIMEDOUT);
	ck_assert_int_eq(ripc_lister_close(lister), 0);
	side_close(&side);
}
END_TEST

/* Programs that know fewer fields than the library are not possible yet; those that know more. */
START_TEST(lister__any_entry_size)
{
	struct {
		struct ripc_listing known;
		uint64_t later;
	} newer[3];
	struct ripc_lister *lister;
	struct pair pair;
	int n;

	pair_open(&pair);
	ck_assert_int_eq(ripc_lister_open(pair.a.ctx, &lister), 0);
	memset(newer, 0x55, sizeof(newer));
	n = ripc_lister_next(lister, PATIENCE_MS, &newer[0].known, 2, sizeof(newer[0]));
	ck_assert_int_ge(n, 1);
	for (int i = 0; i < n; i++) {
		ck_assert_uint_ne(newer[i].known.id, 0);
		ck_assert_str_ne(newer[i].known.source, "");
		ck_assert_uint_eq(newer[i].later, 0);
	}
	ck_assert_uint_eq(newer[n].later, 0x5555555555555555u);
	ck_assert_int_eq(ripc_lister_next(lister, 0, &newer[0].known, 1,
		sizeof(struct ripc_listing) - 1), -EINVAL);
	ck_assert_int_eq(ripc_lister_next(lister, 0, &newer[0].known, 1, 4097), -E2BIG);
	ck_assert_int_eq(ripc_lister_close(lister), 0);
	pair_close(&pair);
}
END_TEST

START_TEST(lister__bad_arguments)
{
	struct ripc_lister *lister = NULL, *second = NULL;
	struct ripc_listing one;
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_lister_open(NULL, &lister), -EINVAL);
	ck_assert_int_eq(ripc_lister_open(side.ctx, NULL), -EINVAL);
	ck_assert_int_eq(ripc_lister_close(NULL), -EINVAL);
	ck_assert_int_eq(ripc_lister_next(NULL, 0, &one, 1, sizeof(one)), -EINVAL);
	ck_assert_int_eq(ripc_lister_open(side.ctx, &lister), 0);
	ck_assert_int_eq(ripc_lister_open(side.ctx, &second), -EBUSY);
	ck_assert_ptr_null(second);
	ck_assert_int_eq(ripc_list(side.ctx, 0, seen_nothing, NULL), -EBUSY);
	ck_assert_int_eq(ripc_lister_next(lister, -1, &one, 1, sizeof(one)), -EINVAL);
	ck_assert_int_eq(ripc_lister_next(lister, 0, NULL, 1, sizeof(one)), -EINVAL);
	ck_assert_int_eq(ripc_lister_next(lister, 0, &one, 0, sizeof(one)), -EINVAL);
	ck_assert_int_eq(ripc_lister_next(lister, 0, &one, UINT32_MAX, sizeof(one)), -EINVAL);
	side_close(&side); /* with the lister */
}
END_TEST

/* A child has no part in its parent's search, and does not disturb it. */
START_TEST(lister__in_a_child)
{
	struct ripc_log_message message = {.size = sizeof(message)};
	struct ripc_lister *lister;
	struct ripc_listing one;
	struct side side;
	int status;
	pid_t child;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_lister_open(side.ctx, &lister), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0)
		_exit(ripc_lister_next(lister, 1000, &one, 1, sizeof(one)) != -EOWNERDEAD ||
			ripc_lister_close(lister) != -EOWNERDEAD ||
			ripc_log_next(side.ctx, &message) != -EOWNERDEAD);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(ripc_lister_next(lister, PATIENCE_MS, &one, 1, sizeof(one)), 1);
	ck_assert_int_eq(ripc_lister_close(lister), 0);
	side_close(&side);
}
END_TEST

static void *next_once(void *lister)
{
	struct ripc_listing one;

	ripc_lister_next(lister, 2000, &one, 1, sizeof(one));
	return NULL;
}

static bool someone_waits(struct ripc_context *ctx)
{
	bool waits;

	ripc__lock(ctx);
	waits = !list_empty(&ctx->loop.waiters);
	ripc__unlock(ctx);
	return waits;
}

START_TEST(lister__close_while_in_use)
{
	struct ripc_lister *lister;
	struct ripc_listing one;
	pthread_t thread;
	struct side side;

	side_open(&side, 0);
	ck_assert_int_eq(ripc_lister_open(side.ctx, &lister), 0);
	while (ripc_lister_next(lister, 500, &one, 1, sizeof(one)) > 0)
		; /* until the search has ended: now the other thread can only wait */
	ck_assert_int_eq(pthread_create(&thread, NULL, next_once, lister), 0);
	while (!someone_waits(side.ctx))
		sched_yield();
	ck_assert_int_eq(ripc_lister_close(lister), -EBUSY);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(ripc_lister_close(lister), 0);
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		list__finds_services, list__bad_arguments, list__ends_when_callback_says_so,
		list__while_another_thread_lists, list__left_by_longjmp,
		list__left_by_pthread_exit, list__callback_lists, lister__goes_on_between_calls,
		lister__nothing_there, lister__any_entry_size, lister__bad_arguments,
		lister__in_a_child, lister__close_while_in_use, NULL,
	};

	return suite_run("list", tests);
}
