/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases about received buffers: who holds them, for how long, and giving them back. */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "cases.h"
#include "side.h"

#define BACKEND (conformance_under_test->backend)
#define HELD    12
#define MANY    400
#define ALL     2000 /* more than any network has buffers for */

/* Sends n datagrams one by one and takes them all, without giving any back. */
static void hold(const struct side *from, const struct side *to, struct ripc__event *events,
		uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		side_send(from, from->peer, 500, i);
		side_wait(to, &events[i], 1);
	}
}

static void check_held(const struct ripc__event *events, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(events[i].len, 500);
		ck_assert(pattern_is(events[i].data, 500, i));
	}
}

START_TEST(release__in_any_order)
{
	struct ripc__event events[HELD];
	struct side left, right;

	pair_open(&left, &right, _i);
	for (uint32_t turn = 0; turn < 30; turn++) {
		hold(&left, &right, events, HELD);
		check_held(events, HELD);
		for (uint32_t i = 0; i < HELD; i++)
			BACKEND->datagrams.release(right.port, events[i * 5 % HELD].handle);
	}
	pair_close(&left, &right);
}
END_TEST

START_TEST(release__after_close)
{
	struct ripc__event events[HELD];
	struct side left, right;

	pair_open(&left, &right, _i);
	hold(&left, &right, events, HELD);
	side_close(&right);
	check_held(events, HELD);
	for (uint32_t i = HELD; i-- > 0;) {
		check_held(events, i + 1);
		BACKEND->datagrams.release(NULL, events[i].handle);
	}
	side_close(&left);
}
END_TEST

/* Datagrams that came together share what they lie in. */
START_TEST(release__parts_of_a_batch)
{
	struct ripc__event events[HELD];
	uint8_t bytes[HELD][500];
	struct iovec iov[HELD];
	struct ripc__tx tx[HELD];
	struct side left, right;

	pair_open(&left, &right, _i);
	for (uint32_t i = 0; i < HELD; i++) {
		pattern_fill(bytes[i], 500, i);
		iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = 500};
		tx[i] = (struct ripc__tx){.iov = &iov[i], .n_iov = 1, .len = 500};
	}
	ck_assert_int_eq(BACKEND->datagrams.send(left.port, left.peer, tx, HELD), HELD);
	for (uint32_t i = 0; i < HELD; i++)
		side_wait(&right, &events[i], 1);
	check_held(events, HELD);
	for (uint32_t i = 1; i < HELD; i++)
		BACKEND->datagrams.release(right.port, events[i].handle);
	side_send(&left, left.peer, 900, 50);
	side_expect(&right, 900, 50);
	check_held(events, 1);
	side_close(&right);
	check_held(events, 1);
	BACKEND->datagrams.release(NULL, events[0].handle);
	side_close(&left);
}
END_TEST

/* Datagrams handed from the polling thread to another, which gives them back. */
struct conveyor {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ripc__event events[HELD];
	uint32_t first, n;
	void *port;
};

static void *release_all(void *arg)
{
	struct conveyor *belt = arg;

	for (uint32_t i = 0; i < MANY; i++) {
		struct ripc__event event;

		pthread_mutex_lock(&belt->lock);
		while (belt->n == 0)
			pthread_cond_wait(&belt->changed, &belt->lock);
		event = belt->events[belt->first];
		belt->first = (belt->first + 1) % HELD;
		belt->n--;
		pthread_cond_signal(&belt->changed);
		pthread_mutex_unlock(&belt->lock);
		if (event.len != 500 || !pattern_is(event.data, 500, i))
			return belt;
		BACKEND->datagrams.release(belt->port, event.handle);
	}
	return NULL;
}

static void convey(struct conveyor *belt, const struct ripc__event *event)
{
	pthread_mutex_lock(&belt->lock);
	while (belt->n == HELD)
		pthread_cond_wait(&belt->changed, &belt->lock);
	belt->events[(belt->first + belt->n++) % HELD] = *event;
	pthread_cond_signal(&belt->changed);
	pthread_mutex_unlock(&belt->lock);
}

START_TEST(release__from_another_thread)
{
	static struct conveyor belt = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
	};
	struct side left, right;
	struct ripc__event event;
	pthread_t thread;
	void *wrong;

	pair_open(&left, &right, _i);
	belt.port = right.port;
	ck_assert_int_eq(pthread_create(&thread, NULL, release_all, &belt), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		side_send(&left, left.peer, 500, i);
		side_wait(&right, &event, 1);
		convey(&belt, &event);
	}
	ck_assert_int_eq(pthread_join(thread, &wrong), 0);
	ck_assert_ptr_null(wrong);
	pair_close(&left, &right);
}
END_TEST

/* One event, which may be on its way still. */
static bool polls_soon(const struct side *side, struct ripc__event *event)
{
	int most_ms = conformance_under_test->later ? 3000 : 50;

	for (int i = 0; i < most_ms; i++) {
		if (BACKEND->datagrams.poll(side->port, event, 1, false) == 1)
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

/* When all buffers are held, poll has nothing; when one is given back, it goes on. */
START_TEST(poll__all_buffers_held)
{
	static struct ripc__event events[ALL];
	struct side left, right;
	uint32_t n = 0;

	pair_open(&left, &right, _i);
	side_send(&left, left.peer, 500, 0);
	side_wait(&right, &events[n++], 1);
	while (n < ALL - 1) {
		uint8_t bytes[500];
		struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
		struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = sizeof(bytes)};

		pattern_fill(bytes, sizeof(bytes), n);
		if (BACKEND->datagrams.send(left.port, left.peer, &tx, 1) == 0)
			break;
		if (!polls_soon(&right, &events[n]))
			break;
		n++;
	}
	ck_assert_uint_ge(n, HELD);
	ck_assert_uint_lt(n, ALL - 1);
	check_held(events, n);
	for (uint32_t i = 0; i < n; i++)
		BACKEND->datagrams.release(right.port, events[i].handle);
	/* Datagrams that arrived without a buffer have waited in the network. */
	side_send(&left, left.peer, 500, ALL);
	for (bool last = false; !last;) {
		side_wait(&right, events, 1);
		last = pattern_is(events[0].data, 500, ALL);
		ck_assert(last || pattern_is(events[0].data, 500, n));
		BACKEND->datagrams.release(right.port, events[0].handle);
	}
	pair_close(&left, &right);
}
END_TEST

void conformance_buffer_cases(TCase *tcase)
{
	const TTest *const cases[] = {
		release__in_any_order,
		release__after_close,
		release__parts_of_a_batch,
		release__from_another_thread,
		poll__all_buffers_held,
		NULL,
	};

	cases_add(tcase, cases);
}
