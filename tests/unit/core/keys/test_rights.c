/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The right to send counts for each message and direction, whoever wrote first, for as long as a
 * partner is known: a table of rights, and each kind of message in each row of it, both ways,
 * before and after new session keys. Each row is run with a sender that looks at its own rights,
 * and with one that does not, so that the receiver alone decides.
 *
 * usage: PROGRAM NETWORK      (udp, shm, seqpacket)
 */
#include "../support/seqpacket/seqpacket.h"
#include "core/engine/internal.h"
#include "core/keys/internal.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "key_dirs.h"
#include "ripc/call.h"
#include "ripc/group.h"

#define LONG_BYTES 300000u
#define LATER_S    100000  /* a right ends so much later, by the clock of the one who checks it */
#define BUFFER     65536u

enum kind {
	SHORT, LONG, ORDERED, GIVEN, REQUEST, IDEMPOTENT, LENDING_REQUEST, LOAN_SHORT, LOAN_LONG,
	GROUP_SHORT, GROUP_LONG, HANDLE_SHORT, HANDLE_LONG, PING, CANCEL, KINDS
};

static const char *const kind_names[KINDS] = {
	"short", "long", "ordered", "given", "request", "idempotent request",
	"request with return buffers", "short that lends", "long that lends", "group short",
	"group long", "short by handle", "long by handle", "ping", "cancel"
};

/* The rights of the first end towards the second. */
enum right { GRANTED, NEVER, EXPIRED, REVOKED, LATER, REVERSE, RIGHTS };

static const char *const right_names[RIGHTS] = {
	"granted", "never granted", "expired", "revoked", "granted later", "reverse only"
};

static const char *network;

/* ---- two ends ---------------------------------------------------------------------------- */

/* Each end takes all messages, answers requests, and counts the rest. */
static struct end {
	struct side side;
	struct ripc__env env;
	_Atomic int64_t ahead_ns;   /* its clock is ahead of the true one */
	uint64_t id, group;
	pthread_t thread;
	atomic_bool stop;
	atomic_uint n_came, n_replies; /* messages that need a right; replies into what was lent */
	atomic_int completed;       /* status of the last completion; 1: none yet */
	_Atomic uint64_t handle;    /* of the other end's last message; 0: none has come */
	_Atomic uint64_t watched;   /* incarnation of the last notice of a watch; 1: none yet */
	atomic_uint n_denials;      /* log lines */
	/*
	 * A service answers the ECHO of a partner that it sends to. So an end without the right,
	 * which does not look at its own rights, may get an answer to its ping.
	 */
	bool is_answered;
} ends[2];

static struct ripc__backend sealable;

static uint64_t skewed_ns(void *arg)
{
	const struct end *end = arg;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec +
		(uint64_t)atomic_load(&end->ahead_ns);
}

static uint64_t real_now(void *arg)
{
	struct ripc__env env;

	(void)arg;
	ripc__env_init(&env);
	return env.now_us(env.arg);
}

static int real_random(void *arg, void *bytes, size_t len)
{
	struct ripc__env env;

	(void)arg;
	ripc__env_init(&env);
	return env.random(env.arg, bytes, len);
}

static void hear(void *arg, int level, const char *text)
{
	struct end *end = arg;

	(void)level;
	if (strstr(text, "may not be service"))
		atomic_fetch_add(&end->n_denials, 1);
}

static void lend_back(const struct end *end, const struct ripc_msg *msg)
{
	struct ripc_send send = {.size = sizeof(send), .to = msg->from, .reply_to = msg->reply,
		.items = msg->items, .n_items = 1, .timeout_ms = PATIENCE_MS,
		.flags = msg->kind == RIPC_LONG ? RIPC_SEND_LONG | RIPC_NOWAIT : 0};
	struct iovec one = {msg->items[0].iov_base, 100};

	send.items = &one;
	ck_assert_int_eq(ripc_sendmsg(end->side.svc, &send, NULL), 0);
}

static void got(struct end *end, const struct ripc_msg *msg)
{
	if (msg->from_handle)
		atomic_store(&end->handle, msg->from_handle);
	switch (msg->kind) {
	case RIPC_COMPLETION:
		atomic_store(&end->completed, msg->status);
		break;
	case RIPC_NOTICE:
		if (msg->flags & RIPC_WATCHED)
			atomic_store(&end->watched, msg->from_incarnation);
		break;
	case RIPC_REQUEST:
		atomic_fetch_add(&end->n_came, 1);
		(void)ripc_reply(end->side.svc, msg, msg->items, msg->n_items, 0);
		break;
	case RIPC_SHORT:
	case RIPC_LONG:
		if (msg->places && msg->places[0].place == RIPC_IN_RETURN) {
			atomic_fetch_add(&end->n_replies, 1);
			break;
		}
		atomic_fetch_add(&end->n_came, 1);
		if (msg->reply)
			lend_back(end, msg);
		break;
	default:
		break;
	}
}

static void *run(void *arg)
{
	struct end *end = arg;
	struct ripc_msg *msg;

	while (!atomic_load(&end->stop)) {
		if (ripc_receive(end->side.svc, 20, &msg))
			continue;
		got(end, msg);
		ripc_msg_free(msg);
	}
	return NULL;
}

static void end_open(struct end *end, int dir)
{
	static const struct ripc__backend *backends[] = {&sealable, NULL};
	struct ripc_config cfg = api_config(0);

	ripc__env_init(&end->env);
	end->env.now_us = real_now;
	end->env.random = real_random;
	end->env.wall_ns = skewed_ns;
	end->env.arg = end;
	cfg.backends = network;
	cfg.keys = key_dirs[dir];
	cfg.log = hear;
	cfg.log_arg = end;
	if (strcmp(network, "seqpacket") == 0) {
		end->env.backends = backends;
		cfg.backends = NULL;
	}
	atomic_store(&end->n_came, 0);
	atomic_store(&end->handle, 0);
	atomic_store(&end->n_replies, 0);
	atomic_store(&end->n_denials, 0);
	atomic_store(&end->ahead_ns, 0);
	atomic_store(&end->stop, false);
	ck_assert_int_eq(ripc__open_in(&cfg, &end->env, &end->side.ctx), 0);
	ck_assert_int_eq(ripc_service_open(end->side.ctx, end->id, 0, &end->side.svc), 0);
	ck_assert_int_eq(ripc_join(end->side.svc, end->group), 0);
	ck_assert_int_eq(pthread_create(&end->thread, NULL, run, end), 0);
}

static void end_close(struct end *end)
{
	atomic_store(&end->stop, true);
	ck_assert_int_eq(pthread_join(end->thread, NULL), 0);
	side_close(&end->side);
}

/* ---- one message of a kind --------------------------------------------------------------- */

static uint8_t bytes[LONG_BYTES];

static int send_as(const struct end *from, const struct end *to, size_t len, uint32_t flags)
{
	struct iovec one = {bytes, len};
	struct ripc_send send = {.size = sizeof(send), .to = to->id, .items = &one, .n_items = 1,
		.flags = RIPC_SEND_LONG | flags, .timeout_ms = PATIENCE_MS};

	return ripc_sendmsg(from->side.svc, &send, NULL);
}

static int send_given(const struct end *from, const struct end *to)
{
	struct iovec one = {NULL, LONG_BYTES};
	struct ripc_send send = {.size = sizeof(send), .to = to->id, .items = &one, .n_items = 1,
		.flags = RIPC_SEND_LONG | RIPC_GIVE, .timeout_ms = PATIENCE_MS};
	enum ripc_outcome outcome;
	int status;

	one.iov_base = pool_filled(from->side.ctx, LONG_BYTES, 1);
	status = ripc_sendmsg(from->side.svc, &send, &outcome);
	if (outcome == RIPC_NOT_DELIVERED)
		ripc_buf_free(from->side.ctx, one.iov_base);
	return status;
}

static int request(const struct end *from, const struct end *to, uint32_t flags, bool lends)
{
	static uint8_t place[BUFFER];
	const struct ripc_buffer buffer = {.mem = {place, sizeof(place)}};
	struct iovec one = {bytes, 100};
	struct ripc_request question = {.size = sizeof(question), .to = to->id, .items = &one,
		.n_items = 1, .flags = flags, .timeout_ms = PATIENCE_MS,
		.returns = lends ? &buffer : NULL, .n_returns = lends};
	struct ripc_msg *answer;
	int status = ripc_call(from->side.svc, &question, &answer, NULL);

	if (!status)
		ripc_msg_free(answer);
	return status;
}

/* The reply lands in what is lent. */
static int lend_once(const struct end *from, const struct end *to, bool is_long, int patience_ms)
{
	static uint8_t places[2][BUFFER];
	uint8_t *place = places[from == &ends[1]];
	const struct ripc_buffer buffer = {.mem = {place, BUFFER}};
	struct iovec one = {bytes, 100};
	struct ripc_send send = {.size = sizeof(send), .to = to->id, .items = &one, .n_items = 1,
		.flags = is_long ? RIPC_SEND_LONG : 0, .timeout_ms = PATIENCE_MS,
		.returns = &buffer, .n_returns = 1, .cookie = 77};
	uint32_t before = atomic_load(&from->n_replies);
	int status = ripc_sendmsg(from->side.svc, &send, NULL);

	for (int i = 0; !status && i < patience_ms && atomic_load(&from->n_replies) == before; i++)
		usleep(1000);
	if (atomic_load(&from->n_replies) != before)
		return 0;
	(void)ripc_cancel(from->side.svc, 77);
	return status ? status : -ETIMEDOUT;
}

/* A short says nothing of its fate: the next one is refused, as in short_passes(). */
static int lend(const struct end *from, const struct end *to, bool is_long)
{
	int status = -ETIMEDOUT;

	if (is_long)
		return lend_once(from, to, true, 2000);
	for (int i = 0; i < 10 && status == -ETIMEDOUT; i++)
		status = lend_once(from, to, false, 1000);
	return status;
}

/* To the sender of the other end's last message, or, as none has come, by its ID. */
static int handle_send(const struct end *from, uint64_t to, uint32_t flags)
{
	struct iovec one = {bytes, 100};
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = &one, .n_items = 1,
		.to_handle = atomic_load(&from->handle), .flags = flags,
		.timeout_ms = PATIENCE_MS};

	return ripc_sendmsg(from->side.svc, &send, NULL);
}

/* by_handle: if there is one. */
static int short_send(const struct end *from, uint64_t to, bool by_handle)
{
	struct iovec one = {bytes, 100};

	return by_handle ? handle_send(from, to, 0) :
		ripc_send_short(from->side.svc, to, &one, 1);
}

/* A short says nothing of its fate: it has come, or the next one is refused. */
static int short_passes(const struct end *from, const struct end *to, uint64_t id, bool by_handle)
{
	uint32_t before = atomic_load(&to->n_came);
	int status = 0;

	for (int i = 0; i < 2000 && !status && atomic_load(&to->n_came) == before; i++) {
		status = short_send(from, id, by_handle);
		status = status == -EAGAIN ? 0 : status;
		for (int j = 0; j < 10 && !status && atomic_load(&to->n_came) == before; j++)
			usleep(1000);
	}
	return atomic_load(&to->n_came) != before ? 0 : status ? status : -ETIMEDOUT;
}

/* Cancelled at once: it was refused, cancelled, or had been delivered before. */
static int cancelled(struct end *from, const struct end *to)
{
	struct iovec one = {bytes, LONG_BYTES};
	struct ripc_send send = {.size = sizeof(send), .to = to->id, .items = &one, .n_items = 1,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = PATIENCE_MS, .cookie = 5};
	int status;

	atomic_store(&from->completed, 1);
	status = ripc_sendmsg(from->side.svc, &send, NULL);
	if (status)
		return status;
	(void)ripc_cancel(from->side.svc, 5);
	for (int i = 0; i < PATIENCE_MS && atomic_load(&from->completed) == 1; i++)
		usleep(1000);
	return atomic_load(&from->completed);
}

static int try(enum kind kind, struct end *from, struct end *to)
{
	uint64_t rtt_ns;

	switch (kind) {
	case SHORT: return short_passes(from, to, to->id, false);
	case LONG: return send_as(from, to, LONG_BYTES, 0);
	case ORDERED: return send_as(from, to, 1000, RIPC_ORDERED);
	case GIVEN: return send_given(from, to);
	case REQUEST: return request(from, to, 0, false);
	case IDEMPOTENT: return request(from, to, RIPC_IDEMPOTENT, false);
	case LENDING_REQUEST: return request(from, to, 0, true);
	case LOAN_SHORT: return lend(from, to, false);
	case LOAN_LONG: return lend(from, to, true);
	case GROUP_SHORT: return short_passes(from, to, to->group, false);
	case HANDLE_SHORT: return short_passes(from, to, to->id, true);
	case HANDLE_LONG: return handle_send(from, to->id, RIPC_SEND_LONG);
	case GROUP_LONG: {
		struct end group = {.id = to->group};

		return send_as(from, &group, 1000, 0);
	}
	case PING: return ripc_ping(from->side.svc, to->id, PATIENCE_MS, &rtt_ns);
	default: return cancelled(from, to);
	}
}

/* ---- rights ------------------------------------------------------------------------------ */

/* Has the timer fired that is set for the end of a right? */
static bool has_looked(struct end *end, uint64_t since_us)
{
	struct ripc__timer *timer = &end->side.ctx->seal->rights_end;
	bool has;

	ripc__lock_timely(end->side.ctx);
	has = !timer->index || timer->at_us > since_us;
	ripc__leave(end->side.ctx);
	return has;
}

/* The clock was set: the timer fires now. */
static void look_now(struct end *end)
{
	struct ripc_context *ctx = end->side.ctx;
	uint64_t now_us;

	ripc__lock_timely(ctx);
	now_us = ctx->now_us;
	ripc__timer_set(&ctx->loop.timers, &ctx->seal->rights_end, now_us);
	ripc__leave(ctx);
	for (int i = 0; i < PATIENCE_MS && !has_looked(end, now_us); i++)
		usleep(1000);
	ck_assert(has_looked(end, now_us));
}

static bool is_any_stale(struct end *end)
{
	struct ripc_context *ctx = end->side.ctx;
	bool any = false;

	ripc__lock_timely(ctx);
	list_for_each(node, &ctx->seal->used)
		any |= list_entry(node, struct member, node)->is_stale;
	ripc__leave(ctx);
	return any;
}

/* New session keys with all members, as after two minutes. */
static void rekey(struct end *end, struct end *other)
{
	struct ripc_context *ctx = end->side.ctx;

	ripc__lock_timely(ctx);
	list_for_each(node, &ctx->seal->used)
		list_entry(node, struct member, node)->is_stale = true;
	ripc__leave(ctx);
	for (int i = 0; i < 2000 && is_any_stale(end); i++) {
		ck_assert_int_eq(try(PING, end, other), 0);
		usleep(1000);
	}
	ck_assert(!is_any_stale(end));
}

/* All rights but the one at stake last longer than the test. */
#define LONG_S (100 * LATER_S)

static void directories_make(enum right right, bool looks)
{
	char path[96];

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	for (int i = 0; i < 2; i++) {
		key_grant(i + 1, RIPC_MAY_BE, ends[i].id, LONG_S);
		key_grant(i + 1, RIPC_MAY_BE | RIPC_MAY_SEND, ends[0].group, LONG_S);
		key_grant(i + 1, RIPC_MAY_BE | RIPC_MAY_SEND, ends[1].group, LONG_S);
	}
	if (right == GRANTED || right == REVOKED)
		key_grant(1, RIPC_MAY_SEND, ends[1].id, LONG_S);
	else if (right == EXPIRED)
		key_grant(1, RIPC_MAY_SEND, ends[1].id, LATER_S);
	if (right != NEVER)
		key_grant(2, RIPC_MAY_SEND, ends[0].id, LONG_S);
	snprintf(path, sizeof(path), "%s/authority", key_dirs[1]);
	if (!looks)
		ck_assert_int_eq(unlink(path), 0);
}

static void change(enum right right)
{
	char key[65];

	if (right == EXPIRED) {
		for (int i = 0; i < 2; i++) {
			atomic_store(&ends[i].ahead_ns, 2ll * LATER_S * 1000000000);
			look_now(&ends[i]);
		}
	} else if (right == REVOKED) {
		key_public(1, key);
		ck_assert_int_eq(ripc_keys_revoke(key_dirs[2], key, key_why), 0);
		ck_assert_int_eq(ripc_keys_reload(ends[1].side.ctx), 0);
	} else if (right == LATER) {
		key_grant(1, RIPC_MAY_SEND, ends[1].id, LONG_S);
		ck_assert_int_eq(ripc_keys_reload(ends[0].side.ctx), 0);
	}
}

static void check_passes(int from, const char *when)
{
	for (int kind = 0; kind < KINDS; kind++) {
		uint32_t before = atomic_load(&ends[!from].n_came);
		int status = try(kind, &ends[from], &ends[!from]);

		if (kind == CANCEL && status == -ECANCELED)
			status = 0;
		ck_assert_msg(status == 0, "%s %s, end %d: %d", when, kind_names[kind], from,
			status);
		for (int i = 0; i < PATIENCE_MS && kind != PING && kind != CANCEL &&
				atomic_load(&ends[!from].n_came) == before; i++)
			usleep(1000); /* the message is in the queue of the other end */
		if (kind != PING && kind != CANCEL)
			ck_assert_uint_ne(atomic_load(&ends[!from].n_came), before);
	}
}

static void check_refused(int from, const char *when)
{
	for (int kind = 0; kind < KINDS; kind++) {
		uint32_t before = atomic_load(&ends[!from].n_came);
		int status = try(kind, &ends[from], &ends[!from]);

		if (kind == CANCEL && status == -ECANCELED)
			status = -EACCES;
		if (kind == PING && status == 0 && ends[from].is_answered)
			status = -EACCES;
		/* A partner that refuses our key is lost, and its handle with it. */
		if ((kind == HANDLE_SHORT || kind == HANDLE_LONG) && status == -ENOENT)
			status = -EACCES;
		ck_assert_msg(status == -EACCES, "%s %s, end %d: %d", when, kind_names[kind], from,
			status);
		ck_assert_msg(atomic_load(&ends[!from].n_came) == before, "%s %s, end %d: came",
			when, kind_names[kind], from);
	}
}

/*
 * A watch asks for nothing but a sign of life: whoever is known is seen. One with which no session
 * is allowed is not.
 */
static void check_watch(struct end *from, const struct end *to, bool is_seen)
{
	atomic_store(&from->watched, 1);
	ck_assert_int_eq(ripc_watch(from->side.svc, to->id, 3), 0);
	for (int i = 0; i < PATIENCE_MS && atomic_load(&from->watched) == 1; i++)
		usleep(1000);
	ck_assert_int_eq(ripc_unwatch(from->side.svc, to->id), 0);
	ck_assert_uint_eq(atomic_load(&from->watched), is_seen ?
		ripc_service_incarnation(to->side.svc) : 0);
}

static void check(int from, bool passes, const char *when)
{
	if (passes)
		check_passes(from, when);
	else
		check_refused(from, when);
}

/* ---- the table --------------------------------------------------------------------------- */

static const struct row {
	bool before, after;         /* does the first end's message pass: then and in the end */
	bool back_before, back_after; /* the second one's */
} rows[RIGHTS] = {
	[GRANTED] = {true, true, true, true},
	[NEVER] = {false, false, false, false},
	[EXPIRED] = {true, false, true, true},
	[REVOKED] = {true, false, true, false},
	[LATER] = {false, true, true, true},
	[REVERSE] = {false, false, true, true},
};

static void end_name(int i)
{
	char name[48];

	snprintf(name, sizeof(name), "rights %d %d", getpid(), i);
	ends[i].group = ripc_group_from_name(name);
	ends[i].id = nobody + 1 + (uint64_t)i;
}

START_TEST(rights__of_each_message)
{
	enum right right = (enum right)(_i / 2);
	const struct row *row = &rows[right];
	bool looks = _i % 2;
	char when[64];

	end_name(0);
	end_name(1);
	directories_make(right, looks);
	end_open(&ends[0], 1);
	end_open(&ends[1], 2);
	snprintf(when, sizeof(when), "%s, %s sender,", right_names[right],
		looks ? "honest" : "altered");
	ck_assert_int_eq(ripc_await(ends[0].side.ctx, ends[1].group, PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_await(ends[1].side.ctx, ends[0].group, PATIENCE_MS), 0);
	ends[0].is_answered = !looks && row->back_before;
	check(1, row->back_before, when);
	check(0, row->before, when);
	if (row->before && row->back_before) {
		rekey(&ends[0], &ends[1]);
		check(0, row->before, when);
		check(1, row->back_before, when);
	}
	change(right);
	ends[0].is_answered = !looks && row->back_after;
	check(0, row->after, when);
	check(1, row->back_after, when);
	check_watch(&ends[0], &ends[1], row->back_after);
	check_watch(&ends[1], &ends[0], row->back_after);
	if (row->back_after) {
		rekey(&ends[1], &ends[0]);
		check(0, row->after, when);
		check(1, row->back_after, when);
	}
	if (!looks && (right == EXPIRED || right == REVERSE))
		ck_assert_uint_ge(atomic_load(&ends[1].n_denials), 1);
	end_close(&ends[0]);
	end_close(&ends[1]);
}
END_TEST

/* By the true clock: a right that ends is of no use from then on, by a timer. */
START_TEST(rights__end_in_time)
{
	uint64_t until_s, seen_s;
	int status;

	end_name(0);
	end_name(1);
	directories_make(REVERSE, false);
	until_s = (uint64_t)time(NULL) + 3;
	key_grant(1, RIPC_MAY_SEND, ends[1].id, 3);
	end_open(&ends[0], 1);
	end_open(&ends[1], 2);
	ck_assert_int_eq(try(LONG, &ends[0], &ends[1]), 0);
	while ((status = try(SHORT, &ends[0], &ends[1])) == 0)
		;
	seen_s = (uint64_t)time(NULL);
	ck_assert_int_eq(status, -EACCES);
	ck_assert_uint_ge(seen_s, until_s);
	ck_assert_int_eq(try(LONG, &ends[0], &ends[1]), -EACCES);
	check_passes(1, "after the end");
	end_close(&ends[0]);
	end_close(&ends[1]);
}
END_TEST

int main(int n_args, char **args)
{
	TCase *tcase = tcase_create("rights");

	network = n_args > 1 ? args[1] : "udp";
	sealable = seqpacket_backend;
	sealable.is_sealable = true;
	tcase_set_timeout(tcase, 120);
	tcase_add_checked_fixture(tcase, NULL, key_dirs_remove);
	tcase_add_loop_test(tcase, rights__of_each_message, 0, 2 * RIGHTS);
	tcase_add_test(tcase, rights__end_in_time);
	return suite_finish("rights", tcase);
}
