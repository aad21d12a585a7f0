/* SPDX-License-Identifier: BSD-3-Clause */
/* Ending calls that wait: by ripc_wake(), from threads and signal handlers, and by signals. */
#include <signal.h>

#include "api.h"
#include "ripc/call.h"
#include "ripc/list.h"

#define AN_HOUR_MS 3600000 /* longer than a test may take: only a signal ends it */
#define LONG_BYTES (16u << 20)

/* The thread sanitizer holds back signals of a thread that sleeps on a futex by itself. */
#ifdef __SANITIZE_THREAD__
#define SIGNALS_COME false
#else
#define SIGNALS_COME true
#endif

/* A call that waits in a thread of its own. */
struct caller {
	pthread_t thread;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t whom; /* the ID to ping, or to find */
	enum { RECEIVES, PINGS, RESOLVES, AWAITS, LISTS, LISTS_BY_LISTER, AWAITS_AN_END,
		DRAINS } what;
	atomic_int result;
	atomic_bool done;
};

static int seen_nothing(void *arg, const struct ripc_listing *listing)
{
	(void)arg;
	(void)listing;
	return 0;
}

/* ripc_list() returns how many services it has found. */
static int list(struct ripc_context *ctx)
{
	int n = ripc_list(ctx, AN_HOUR_MS, seen_nothing, NULL);

	return n < 0 ? n : -EINTR;
}

static int list_by_lister(struct ripc_context *ctx)
{
	struct ripc_lister *lister;
	struct ripc_listing one;
	int n;

	ck_assert_int_eq(ripc_lister_open(ctx, &lister), 0);
	do
		n = ripc_lister_next(lister, AN_HOUR_MS, &one, 1, sizeof(one));
	while (n > 0);
	ck_assert_int_eq(ripc_lister_close(lister), 0);
	return n;
}

/* The end of a call without an answer. */
static int await_end(const struct caller *caller)
{
	const struct iovec one = item("x", 1);
	const struct ripc_request call = {.size = sizeof(call), .to = caller->whom, .items = &one,
		.n_items = 1, .flags = RIPC_AWAITED, .timeout_ms = AN_HOUR_MS, .cookie = 1};
	struct ripc_msg *msg = NULL;
	int result, error;

	ck_assert_int_eq(ripc_call_start(caller->svc, &call), 0);
	result = ripc_receive_end(caller->svc, 1, -1, &msg);
	ck_assert_int_eq(ripc_cancel(caller->svc, 1), 0);
	do /* more signals come */
		error = ripc_receive_end(caller->svc, 1, PATIENCE_MS, &msg);
	while (error == -EINTR);
	ck_assert_int_eq(error, 0);
	ck_assert_int_eq(msg->status, -ECANCELED);
	ripc_msg_free(msg);
	return result;
}

static void *caller_main(void *arg)
{
	struct caller *caller = arg;
	struct ripc_msg *msg = NULL;
	uint64_t rtt_ns;
	int result;

	if (caller->what == PINGS)
		result = ripc_ping(caller->svc, caller->whom, PATIENCE_MS, &rtt_ns);
	else if (caller->what == RESOLVES)
		result = ripc_resolve(caller->ctx, caller->whom, PATIENCE_MS);
	else if (caller->what == AWAITS)
		result = ripc_await(caller->ctx, caller->whom, PATIENCE_MS);
	else if (caller->what == DRAINS)
		result = ripc_service_drain(caller->svc, AN_HOUR_MS);
	else if (caller->what == LISTS)
		result = list(caller->ctx);
	else if (caller->what == AWAITS_AN_END)
		result = await_end(caller);
	else if (caller->what == LISTS_BY_LISTER)
		result = list_by_lister(caller->ctx);
	else
		result = ripc_receive(caller->svc, -1, &msg);
	ripc_msg_free(msg);
	atomic_store(&caller->result, result);
	atomic_store(&caller->done, true);
	return NULL;
}

static void caller_start(struct caller *caller, const struct side *side, int what)
{
	caller->ctx = side->ctx;
	caller->svc = side->svc;
	caller->what = what;
	atomic_store(&caller->done, false);
	ck_assert_int_eq(pthread_create(&caller->thread, NULL, caller_main, caller), 0);
}

static void caller_join(struct caller *caller, int result)
{
	ck_assert_int_eq(pthread_join(caller->thread, NULL), 0);
	ck_assert_int_eq(atomic_load(&caller->result), result);
}

static void pass_time(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	nanosleep(&pause, NULL);
}

/* ---- ripc_wake() ------------------------------------------------------------------------- */

static const struct kind {
	const char *backend;
	uint32_t flags, spin_us;
	bool talks; /* before: then it sleeps in the port's own wait */
} kinds[] = {
	{"udp", 0, 0, false}, {"udp", 0, 0, true}, {"udp", 0, RIPC_SPIN_NEVER, true},
	{"udp", 0, 50000000, false}, {"udp", RIPC_NO_THREAD, 0, false},
	{"udp", RIPC_INTERRUPTIBLE, 0, true}, {"shm", 0, 0, false}, {"shm", 0, 0, true},
	{"shm", 0, RIPC_SPIN_NEVER, true}, {"shm", 0, 50000000, true},
	{"shm", RIPC_NO_THREAD, 0, false}, {"shm,udp", 0, 0, true},
};

static void kind_open(struct pair *pair, const struct kind *kind)
{
	struct ripc_config cfg = api_config(kind->flags);

	cfg.backends = kind->backend;
	cfg.spin_us = kind->spin_us;
	side_open_as(&pair->a, &cfg, 0);
	cfg.flags = cfg.spin_us = 0;
	side_open_as(&pair->b, &cfg, 0);
	for (int i = 0; kind->talks && i < 100; i++)
		acquaint(&pair->b, &pair->a);
}

/* Wherever the call is: looking, yielding, about to sleep, asleep. */
START_TEST(wake__ends_a_call)
{
	struct caller caller = {0};
	struct pair pair;

	kind_open(&pair, &kinds[_i]);
	for (int i = 0; i < 60; i++) {
		caller_start(&caller, &pair.a, RECEIVES);
		for (int j = 0; j < i % 8; j++)
			pass_time();
		ck_assert_int_eq(ripc_wake(pair.a.svc), 0);
		caller_join(&caller, -EINTR);
	}
	check_nothing(pair.a.svc);
	pair_close(&pair);
}
END_TEST

START_TEST(wake__before_the_call)
{
	struct ripc_msg *msg = NULL;
	struct side side;

	side_open(&side, _i ? RIPC_SINGLE_THREAD : 0);
	ck_assert_int_eq(ripc_wake(side.svc), 0);
	check_nothing(side.svc);
	ck_assert_int_eq(ripc_receive(side.svc, -1, &msg), -EINTR);
	ck_assert_int_eq(ripc_wake(side.svc), 0);
	ck_assert_int_eq(ripc_wake(side.svc), 0);
	ck_assert_int_eq(ripc_receive(side.svc, PATIENCE_MS, &msg), -EINTR);
	ck_assert_int_eq(ripc_receive(side.svc, PATIENCE_MS, &msg), -EINTR);
	ck_assert_int_eq(ripc_receive(side.svc, 10, &msg), -ETIMEDOUT);
	ck_assert_int_eq(ripc_wake(NULL), -EINVAL);
	side_close(&side);
}
END_TEST

/* A server that always has something to do is ended, too, and nothing gets lost. */
START_TEST(wake__while_messages_are_there)
{
	const struct iovec one = item("x", 1);
	struct ripc_msg *msg = NULL;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_wake(pair.b.svc), 0);
	ck_assert_int_eq(ripc_receive(pair.b.svc, -1, &msg), -EINTR);
	ck_assert_int_eq(ripc_receive(pair.b.svc, -1, &msg), 0);
	ripc_msg_free(msg);
	pair_close(&pair);
}
END_TEST

/* Several calls that wait, in one service and in others of the context. */
START_TEST(wake__each_ends_one)
{
	struct caller callers[4] = {0}, other = {0};
	const struct iovec one = item("x", 1);
	struct side sides[2];

	side_open(&sides[0], _i ? RIPC_INTERRUPTIBLE : 0);
	sides[1] = sides[0];
	ck_assert_int_eq(ripc_service_open(sides[0].ctx, 0, 0, &sides[1].svc), 0);
	caller_start(&other, &sides[1], RECEIVES);
	for (int i = 0; i < 4; i++)
		caller_start(&callers[i], &sides[0], RECEIVES);
	pass_time();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(ripc_wake(sides[0].svc), 0);
	for (int i = 0; i < 4; i++)
		caller_join(&callers[i], -EINTR);
	ck_assert(!atomic_load(&other.done));
	ck_assert_int_eq(ripc_send_long(sides[0].svc, ripc_service_id(sides[1].svc), &one, 1,
		PATIENCE_MS), 0);
	caller_join(&other, 0);
	check_nothing(sides[0].svc);
	side_close(&sides[0]);
}
END_TEST

START_TEST(wake__ends_a_ping)
{
	struct caller caller = {0};
	struct side side, silent;

	side_open(&side, 0);
	side_open(&silent, RIPC_NO_THREAD);
	caller.whom = silent.id;
	caller_start(&caller, &side, PINGS);
	ck_assert_int_eq(ripc_wake(side.svc), 0);
	caller_join(&caller, -EINTR);
	side_close(&side);
	side_close(&silent);
}
END_TEST

/* The call reports the outcome, and the wake is kept. */
START_TEST(wake__does_not_end_a_send)
{
	const struct iovec one = item("x", 1);
	struct ripc_msg *msg = NULL;
	struct pair pair;

	pair_open(&pair);
	ck_assert_int_eq(ripc_wake(pair.a.svc), 0);
	ck_assert_int_eq(ripc_send_long(pair.a.svc, pair.b.id, &one, 1, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_receive(pair.a.svc, -1, &msg), -EINTR);
	pair_close(&pair);
}
END_TEST

/* ---- signals ----------------------------------------------------------------------------- */

static struct ripc_service *to_wake;
static atomic_int n_handled;

static void on_signal(int number)
{
	(void)number;
	atomic_fetch_add(&n_handled, 1);
	if (to_wake)
		ripc_wake(to_wake);
}

static void handle_signals(struct ripc_service *svc)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	to_wake = svc;
	atomic_store(&n_handled, 0);
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

/* In whatever the thread is doing when the signal comes, be it with the lock. */
START_TEST(wake__from_a_signal_handler)
{
	struct caller caller = {0};
	struct pair pair;

	kind_open(&pair, &kinds[_i]);
	handle_signals(pair.a.svc);
	for (int i = 0; i < 60; i++) {
		caller_start(&caller, &pair.a, RECEIVES);
		for (int j = 0; j < i % 8; j++)
			pass_time();
		ck_assert_int_eq(pthread_kill(caller.thread, SIGUSR1), 0);
		caller_join(&caller, -EINTR);
	}
	ck_assert_int_eq(atomic_load(&n_handled), 60);
	check_nothing(pair.a.svc);
	pair_close(&pair);
}
END_TEST

/* Signals until it has ended: one that comes before the call ends nothing. */
static void signal_until_done(struct caller *caller)
{
	for (int i = 0; i < PATIENCE_MS && !atomic_load(&caller->done); i++) {
		ck_assert_int_eq(pthread_kill(caller->thread, SIGUSR1), 0);
		pass_time();
	}
	caller_join(caller, -EINTR);
}

START_TEST(interruptible__ends_by_a_signal)
{
	struct kind kind = kinds[_i];
	struct caller caller = {0};
	struct side silent; /* is looked for until the deadline */
	struct pair pair;

	kind.flags |= RIPC_INTERRUPTIBLE;
	kind_open(&pair, &kind);
	side_open(&silent, RIPC_NO_THREAD);
	caller.whom = silent.id;
	handle_signals(NULL);
	for (int what = RECEIVES; what < DRAINS; what++) {
		caller_start(&caller, &pair.a, what);
		signal_until_done(&caller);
	}
	check_nothing(pair.a.svc);
	pair_close(&pair);
	side_close(&silent);
}
END_TEST

/* The message that is being received is waited for again. */
START_TEST(interruptible__ends_a_drain)
{
	struct iovec data = item(calloc(1, LONG_BYTES), LONG_BYTES);
	struct ripc_config cfg = api_config(RIPC_INTERRUPTIBLE);
	struct caller caller = {0};
	struct ripc_msg *msg;
	struct ripc_send send;
	struct pair pair;

	cfg.backends = "udp";
	side_open_as(&pair.a, &cfg, 0);
	cfg.flags = RIPC_NO_THREAD;
	side_open_as(&pair.b, &cfg, 0);
	handle_signals(NULL);
	send = long_send(pair.a.id, &data, 1);
	send.flags |= RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(pair.b.svc, &send, NULL), 0);
	while (!stats_of(pair.a.ctx).granted_bytes)
		ripc_poll(pair.b.ctx);
	caller_start(&caller, &pair.a, DRAINS);
	signal_until_done(&caller);
	ck_assert_int_eq(ripc_receive(pair.a.svc, 0, &msg), -EAGAIN);
	caller_start(&caller, &pair.a, DRAINS);
	while (!atomic_load(&caller.done))
		ripc_poll(pair.b.ctx);
	caller_join(&caller, 0);
	msg = take(pair.a.svc, RIPC_LONG);
	ck_assert_uint_eq(msg->items[0].iov_len, LONG_BYTES);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_receive(pair.a.svc, 0, &msg), -ESHUTDOWN);
	pair_close(&pair);
	free(data.iov_base);
}
END_TEST

/* While another thread reads: that one goes on. */
START_TEST(interruptible__beside_another)
{
	struct caller first = {0}, second = {0};
	struct side side;

	side_open(&side, RIPC_INTERRUPTIBLE);
	handle_signals(NULL);
	caller_start(&first, &side, RECEIVES);
	caller_start(&second, &side, RECEIVES);
	signal_until_done(&second);
	ck_assert(!atomic_load(&first.done));
	signal_until_done(&first);
	side_close(&side);
}
END_TEST

/* Afterwards no signal is held back. */
START_TEST(interruptible__again_and_again)
{
	struct caller caller = {0};
	struct ripc_msg *msg;
	struct side side;
	sigset_t mask;

	side_open(&side, RIPC_INTERRUPTIBLE);
	handle_signals(NULL);
	for (int i = 0; i < 20; i++) {
		caller_start(&caller, &side, RECEIVES);
		signal_until_done(&caller);
	}
	ck_assert_int_eq(ripc_receive(side.svc, 10, &msg), -ETIMEDOUT);
	ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
	ck_assert_int_eq(sigismember(&mask, SIGUSR1), 0);
	side_close(&side);
}
END_TEST

int main(void)
{
	const size_t n = (sizeof(kinds) / sizeof(kinds[0]));
	const struct suite_loop loops[] = {
		{ wake__ends_a_call, n }, { wake__before_the_call, 2 },
		{ wake__while_messages_are_there, 1 }, { wake__each_ends_one, 2 },
		{ wake__ends_a_ping, 1 }, { wake__does_not_end_a_send, 1 },
		{ wake__from_a_signal_handler, SIGNALS_COME ? n : 0 },
		{ interruptible__ends_by_a_signal, n }, { interruptible__ends_a_drain, 1 },
		{ interruptible__beside_another, 1 }, { interruptible__again_and_again, 1 },
		{ NULL, 0 },
	};

	if (!SIGNALS_COME)
		puts("skipped: wakes from a signal handler: the thread sanitizer delays signals");
	return suite_run_loops("interrupt", loops);
}
