/* SPDX-License-Identifier: BSD-3-Clause */
/* Watching: what is told when a holder comes, goes, dies, or is replaced, by each network. */
#include <sys/wait.h>

#include "../../../support/util/heap.h"
#include "api.h"
#include "ripc/call.h"

#define COOKIE    42u
#define KEPT      50u  /* notices that are not freed */
#define TURNS     4
#define LOST_MS   3000 /* a change on this host is told within this */
#define NOBODY_MS 2500 /* by then nobody was found once, which takes a second */

static const char *const backends[] = {"udp", "shm"};

static struct side watcher;
static struct ripc_config cfg;

static void set_up(int i)
{
	cfg = api_config(0);
	cfg.backends = backends[i];
	side_open_as(&watcher, &cfg, 0);
}

static uint64_t id_of(int i)
{
	return nobody + 500 + (uint64_t)i;
}

static uint64_t told(uint64_t id)
{
	struct ripc_msg *msg = take(watcher.svc, RIPC_NOTICE);
	uint64_t incarnation = msg->from_incarnation;

	ck_assert_uint_eq(msg->flags, RIPC_WATCHED);
	ck_assert_uint_eq(msg->from, id);
	ck_assert_uint_eq(msg->cookie, COOKIE);
	ck_assert_int_eq(msg->status, 0);
	ripc_msg_free(msg);
	return incarnation;
}

START_TEST(watch__comes_and_goes)
{
	struct side holder;

	set_up(_i);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), -EEXIST);
	ck_assert_uint_eq(told(id_of(_i)), 0);
	for (int times = 0; times < 3; times++) {
		side_open_as(&holder, &cfg, id_of(_i));
		ck_assert_uint_eq(told(id_of(_i)), ripc_service_incarnation(holder.svc));
		check_nothing(watcher.svc);
		side_close(&holder);
		ck_assert_uint_eq(told(id_of(_i)), 0);
	}
	ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(_i)), 0);
	ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(_i)), -ENOENT);
	side_close(&watcher);
}
END_TEST

START_TEST(watch__is_there_already)
{
	struct side holder;

	set_up(_i);
	side_open_as(&holder, &cfg, 0);
	acquaint(&watcher, &holder);
	ck_assert_int_eq(ripc_watch(watcher.svc, holder.id, COOKIE), 0);
	ck_assert_uint_eq(told(holder.id), ripc_service_incarnation(holder.svc));
	ck_assert_int_eq(ripc_service_close(holder.svc), 0); /* its context goes on */
	ck_assert_uint_eq(told(holder.id), 0);
	ck_assert_int_eq(ripc_close(holder.ctx, 0), 0);
	side_close(&watcher);
}
END_TEST

/* A service that has spoken to the watcher first. It is known as soon as the resolver has confirmed
 * it, not only with the next look a second later; of ten at least one is so quick on a busy
 * machine. */
START_TEST(watch__has_spoken_first)
{
	struct iovec word = item("me", 2);
	struct side speaker;
	int soon = 0;

	set_up(_i);
	for (int times = 0; times < 10 && !soon; times++) {
		struct ripc_msg *msg;
		uint64_t began_ms;

		side_open_as(&speaker, &cfg, 0);
		ck_assert_int_eq(ripc_send_long(speaker.svc, watcher.id, &word, 1, PATIENCE_MS), 0);
		msg = take(watcher.svc, RIPC_LONG);
		began_ms = clock_ms();
		ck_assert_int_eq(ripc_watch(watcher.svc, msg->from, COOKIE), 0);
		ripc_msg_free(msg);
		ck_assert_uint_eq(told(speaker.id), ripc_service_incarnation(speaker.svc));
		soon = clock_ms() - began_ms < 900;
		ck_assert_int_eq(ripc_unwatch(watcher.svc, speaker.id), 0);
		side_close(&speaker);
	}
	ck_assert(soon);
	side_close(&watcher);
}
END_TEST

/* A process that holds the ID until it is killed. */
static pid_t holder_start(int i)
{
	int ends[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	(void)api_config(0); /* the child has the port of its parent */
	pid = fork();
	if (pid == 0) {
		struct side victim;

		cfg = api_config(0);
		cfg.backends = backends[i];
		side_open_as(&victim, &cfg, id_of(i));
		if (write(ends[1], "r", 1) == 1)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	close(ends[1]);
	return pid;
}

/* A holder that is killed, and whose place is taken. */
START_TEST(watch__is_killed)
{
	pid_t pid = holder_start(_i);
	struct side next;
	int status;

	set_up(_i);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	ck_assert_uint_ne(told(id_of(_i)), 0);
	kill(pid, SIGKILL);
	ck_assert_uint_eq(told(id_of(_i)), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	side_open_as(&next, &cfg, id_of(_i));
	ck_assert_uint_eq(told(id_of(_i)), ripc_service_incarnation(next.svc));
	side_close(&next);
	side_close(&watcher);
}
END_TEST

/* Silence is not nobody: a holder that was stopped before is told of when it goes on. */
START_TEST(watch__is_stopped)
{
	pid_t pid = holder_start(_i);
	struct ripc_msg *msg;
	int status;

	ck_assert_int_eq(kill(pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	set_up(_i);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	ck_assert_int_eq(ripc_receive(watcher.svc, 1500, &msg), -ETIMEDOUT);
	ck_assert_int_eq(kill(pid, SIGCONT), 0);
	ck_assert_uint_ne(told(id_of(_i)), 0);
	kill(pid, SIGKILL);
	ck_assert_uint_eq(told(id_of(_i)), 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	side_close(&watcher);
}
END_TEST

/* A draining service owns no ID any more. */
START_TEST(watch__is_replaced)
{
	struct side first, second;
	uint64_t incarnation;

	set_up(_i);
	side_open_as(&first, &cfg, id_of(_i));
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	ck_assert_uint_eq(told(id_of(_i)), ripc_service_incarnation(first.svc));
	ck_assert_int_eq(ripc_service_drain(first.svc, PATIENCE_MS), 0);
	side_open_as(&second, &cfg, id_of(_i));
	incarnation = told(id_of(_i));
	if (!incarnation) /* the watch saw the gap between the owners */
		incarnation = told(id_of(_i));
	ck_assert_uint_eq(incarnation, ripc_service_incarnation(second.svc));
	side_close(&first);
	check_nothing(watcher.svc);
	side_close(&second);
	side_close(&watcher);
}
END_TEST

/* Takes notices until one names this incarnation; all are kept. Returns the last. */
static struct ripc_msg *told_of(uint64_t incarnation)
{
	struct ripc_msg *msg;

	do {
		msg = take(watcher.svc, RIPC_NOTICE);
		ck_assert_uint_eq(msg->flags, RIPC_WATCHED);
		ck_assert_uint_eq(msg->cookie, COOKIE);
	} while (msg->from_incarnation != incarnation);
	return msg;
}

/* Each change is told while all earlier notices are kept, and a kept notice does not change. */
START_TEST(watch__notices_are_kept)
{
	struct side holder;
	struct ripc_msg *kept[2 * TURNS];
	uint64_t was[2 * TURNS];

	set_up(_i);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	for (int at = 0; at < 2 * TURNS; at += 2) {
		side_open_as(&holder, &cfg, id_of(_i));
		was[at] = ripc_service_incarnation(holder.svc);
		kept[at] = told_of(was[at]);
		side_close(&holder);
		was[at + 1] = 0;
		kept[at + 1] = told_of(0);
	}
	for (int at = 0; at < 2 * TURNS; at++) {
		ck_assert_uint_eq(kept[at]->from_incarnation, was[at]);
		ripc_msg_free(kept[at]);
	}
	check_nothing(watcher.svc);
	side_close(&watcher);
}
END_TEST

/* A notice that waits behind a full queue tells the newest, and the next change is told, too. */
START_TEST(watch__queue_is_full)
{
	const struct iovec word = item("x", 1);
	struct side holder;
	struct ripc_msg *msg;
	uint64_t dropped;

	set_up(_i);
	side_open_as(&holder, &cfg, id_of(_i));
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	(void)told_of(ripc_service_incarnation(holder.svc));
	dropped = stats_of(watcher.ctx).drop_queue_full;
	while (stats_of(watcher.ctx).drop_queue_full == dropped)
		(void)ripc_send_short(holder.svc, watcher.id, &word, 1);
	side_close(&holder);
	do {
		ck_assert_int_eq(ripc_receive(watcher.svc, PATIENCE_MS, &msg), 0);
		if (msg->kind != RIPC_NOTICE)
			ripc_msg_free(msg);
	} while (msg->kind != RIPC_NOTICE);
	ck_assert_uint_eq(msg->from_incarnation, 0);
	side_open_as(&holder, &cfg, id_of(_i));
	(void)told_of(ripc_service_incarnation(holder.svc));
	side_close(&holder);
	side_close(&watcher);
}
END_TEST

/* Takes what is left of the pool. */
static void exhaust(struct ripc_context *ctx)
{
	void *mem;

	for (size_t len = 1 << 20; len; len /= 2) {
		while (ripc_buf_alloc(ctx, len, &mem) == 0)
			;
	}
}

/* Without memory for copies the application gets the notice itself: nothing is told twice, and a
 * change meanwhile is told when the notice is freed. */
START_TEST(watch__no_memory)
{
	struct side holder;
	struct ripc_msg *kept, *msg;
	int error = 0;

	cfg = api_config(0);
	cfg.backends = backends[_i];
	cfg.pool_bytes = 4 << 20;
	side_open_as(&watcher, &cfg, 0);
	cfg.pool_bytes = 0;
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	exhaust(watcher.ctx);
	for (;;) { /* blocks that are kept for messages are used first */
		side_open_as(&holder, &cfg, id_of(_i));
		error = ripc_receive(watcher.svc, LOST_MS, &kept);
		if (!error && !kept->from_incarnation)
			error = ripc_receive(watcher.svc, LOST_MS, &kept);
		if (error)
			break;
		ck_assert_uint_eq(kept->from_incarnation, ripc_service_incarnation(holder.svc));
		exhaust(watcher.ctx);
		side_close(&holder);
		error = ripc_receive(watcher.svc, LOST_MS, &msg);
		if (error)
			break;
		ck_assert_uint_eq(msg->from_incarnation, 0);
		kept = msg;
	}
	ck_assert_int_eq(error, -ETIMEDOUT);
	ripc_msg_free(kept);
	ck_assert_int_eq(ripc_receive(watcher.svc, PATIENCE_MS, &msg), 0);
	ck_assert_uint_eq(msg->cookie, COOKIE);
	side_close(&watcher);
}
END_TEST

/* The notices of an earlier watch are kept, or still queued: the next watch tells its own. */
START_TEST(unwatch__notices_are_kept)
{
	struct side holder;
	struct ripc_msg *kept[TURNS];

	set_up(_i);
	side_open_as(&holder, &cfg, id_of(_i));
	for (uint64_t at = 0; at < TURNS; at++) {
		ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), at), 0);
		kept[at] = take(watcher.svc, RIPC_NOTICE);
		ck_assert_uint_eq(kept[at]->cookie, at);
		ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(_i)), 0);
		/* known already: this one is queued at once, and taken back */
		ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), at), 0);
		ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(_i)), 0);
		check_nothing(watcher.svc);
	}
	for (uint64_t at = 0; at < TURNS; at++) {
		ck_assert_uint_eq(kept[at]->cookie, at);
		ck_assert_uint_eq(kept[at]->from_incarnation, ripc_service_incarnation(holder.svc));
		ripc_msg_free(kept[at]);
	}
	side_close(&holder);
	side_close(&watcher);
}
END_TEST

START_TEST(unwatch__with_what_was_told)
{
	struct ripc_msg *held;

	set_up(_i);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE), 0);
	held = take(watcher.svc, RIPC_NOTICE);
	ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(_i)), 0);
	ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i), COOKIE + 1), 0);
	usleep(1200000); /* nobody has it, it is found: that waits in the queue */
	ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(_i)), 0);
	check_nothing(watcher.svc);
	ripc_msg_free(held);
	for (uint64_t i = 0; i < 100; i++)
		ck_assert_int_eq(ripc_watch(watcher.svc, id_of(_i) + i, i), 0);
	side_close(&watcher); /* with those */
}
END_TEST

/* ---- waiting for whoever comes ----------------------------------------------------------- */

struct comer {
	int i;
	struct side side;
};

static void *come_later(void *arg)
{
	struct comer *comer = arg;

	usleep(1300000); /* nobody was found once by then */
	side_open_as(&comer->side, &cfg, id_of(comer->i));
	return NULL;
}

START_TEST(await__somebody_comes)
{
	const struct iovec hello = item("hello", 5);
	struct ripc_send send = long_send(id_of(_i), &hello, 1);
	struct comer comer = {.i = _i};
	enum ripc_outcome outcome = 0;
	pthread_t thread;

	set_up(_i);
	ck_assert_int_eq(ripc_await(watcher.ctx, id_of(_i), NOBODY_MS), -ENOENT);
	send.flags |= RIPC_WAIT;
	send.timeout_ms = NOBODY_MS;
	ck_assert_int_eq(ripc_sendmsg(watcher.svc, &send, &outcome), -ENOENT);
	ck_assert_int_eq(outcome, RIPC_NOT_DELIVERED);
	ck_assert_int_eq(pthread_create(&thread, NULL, come_later, &comer), 0);
	send.timeout_ms = PATIENCE_MS;
	ck_assert_int_eq(ripc_sendmsg(watcher.svc, &send, &outcome), 0);
	ck_assert_int_eq(outcome, RIPC_DELIVERED);
	pthread_join(thread, NULL);
	ripc_msg_free(take(comer.side.svc, RIPC_LONG));
	check_nothing(comer.side.svc);
	side_close(&comer.side);
	ck_assert_int_eq(pthread_create(&thread, NULL, come_later, &comer), 0);
	ck_assert_int_eq(ripc_await(watcher.ctx, id_of(_i), PATIENCE_MS), 0);
	pthread_join(thread, NULL);
	side_close(&comer.side);
	side_close(&watcher);
}
END_TEST

START_TEST(wait__bad_arguments)
{
	const struct iovec hello = item("hello", 5);
	struct ripc_send send = long_send(id_of(_i), &hello, 1);

	set_up(_i);
	send.flags = RIPC_WAIT;
	ck_assert_int_eq(ripc_sendmsg(watcher.svc, &send, NULL), -EINVAL);
	send.flags = RIPC_WAIT | RIPC_SEND_LONG | RIPC_NOWAIT;
	ck_assert_int_eq(ripc_sendmsg(watcher.svc, &send, NULL), -EINVAL);
	send.flags = RIPC_WAIT | RIPC_SEND_LONG;
	send.to_incarnation = 5;
	ck_assert_int_eq(ripc_sendmsg(watcher.svc, &send, NULL), -EINVAL);
	ck_assert_int_eq(ripc_await(NULL, 1, 1), -EINVAL);
	ck_assert_int_eq(ripc_await(watcher.ctx, 0, 1), -EINVAL);
	ck_assert_int_eq(ripc_await(watcher.ctx, 1, -1), -EINVAL);
	side_close(&watcher);
}
END_TEST

static size_t open_and_close(int i)
{
	struct ripc_msg *kept[KEPT];

	set_up(i);
	for (uint32_t n = 0; n < KEPT; n++)
		ck_assert_int_eq(ripc_watch(watcher.svc, id_of(i) + 100 + n, COOKIE), 0);
	for (uint32_t n = 0; n < KEPT; n++)
		kept[n] = take(watcher.svc, RIPC_NOTICE);
	ck_assert_int_eq(ripc_unwatch(watcher.svc, id_of(i) + 100), 0);
	side_close(&watcher);
	for (uint32_t n = 0; n < KEPT; n++)
		ripc_msg_free(kept[n]);
	return heap_bytes();
}

/* The last message that is freed after the context gives back all of the context. */
START_TEST(close__with_notices_kept)
{
	size_t before = 0;

	/* The allocator keeps a little more of each of the first contexts. */
	for (int times = 0; times < 12; times++)
		before = open_and_close(_i);
	ck_assert_uint_lt(open_and_close(_i), before + KEPT * sizeof(struct ripc_msg));
}
END_TEST

START_TEST(watch__bad_arguments)
{
	set_up(_i);
	ck_assert_int_eq(ripc_watch(NULL, 1, 1), -EINVAL);
	ck_assert_int_eq(ripc_watch(watcher.svc, 0, 1), -EINVAL);
	ck_assert_int_eq(ripc_unwatch(NULL, 1), -EINVAL);
	ck_assert_int_eq(ripc_unwatch(watcher.svc, 0), -EINVAL);
	side_close(&watcher);
}
END_TEST

int main(void)
{
	const struct suite_loop loops[] = {
		{ watch__comes_and_goes, 2 }, { watch__is_there_already, 2 },
		{ watch__has_spoken_first, 2 }, { watch__is_killed, 2 }, { watch__is_stopped, 2 },
		{ watch__is_replaced, 2 },
		{ watch__notices_are_kept, 2 }, { watch__queue_is_full, 1 },
		{ watch__no_memory, 2 }, { unwatch__notices_are_kept, 2 },
		{ unwatch__with_what_was_told, 2 }, { watch__bad_arguments, 2 },
		{ close__with_notices_kept, 2 }, { await__somebody_comes, 2 },
		{ wait__bad_arguments, 2 }, { NULL, 0 },
	};

	return suite_run_loops("watch", loops);
}
