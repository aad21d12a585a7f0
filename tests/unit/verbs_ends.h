/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of the verbs backend on a libibverbs of our own (tests/support/fake), for its unit tests. */
#ifndef VERBS_ENDS_H
#define VERBS_ENDS_H

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../support/fake/verbs.h"
#include "backends/verbs/internal.h"
#include "virtual_clock.h"

#define BACKEND (&ripc__verbs_backend)

struct end {
	struct verbs_port port;
	struct verbs_route peer; /* the way to the other end */
	struct ripc__attr attr;
	struct ripc__event events[RIPC_EVENTS_MAX]; /* that came, without datagrams */
	uint32_t n_events, n_datagrams;
};

/* The options, as name, value, ..., NULL; and the last line that was logged. */
static const char *const *end_options;
static char end_log[512];
static uint64_t turn_us; /* clock time of a turn; more where only time passes */

static inline void end_log_line(void *arg, int level, const char *format, ...)
{
	va_list args;

	(void)arg;
	(void)level;
	va_start(args, format);
	vsnprintf(end_log, sizeof(end_log), format, args);
	va_end(args);
}

static inline const char *end_option(void *arg, const char *name)
{
	(void)arg;
	for (const char *const *at = end_options; at && at[0]; at += 2) {
		if (strcmp(at[0], name) == 0)
			return at[1];
	}
	return NULL;
}

static inline const struct ripc__host *end_host(void)
{
	static const struct ripc__host host = {.log = end_log_line, .option = end_option,
		.context = 1};

	return &host;
}

static inline void ends_begin(void)
{
	fake_verbs_reset();
	end_options = NULL;
	end_log[0] = '\0';
	turn_us = 1000;
}

/* Everything was given back, and no rule of the device was broken. */
static inline void ends_finish(void)
{
	const char *what;

	ck_assert_msg(fake_verbs_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_verbs_live(), 0);
}

static inline int end_open(struct end *end)
{
	memset(end, 0, sizeof(*end));
	return BACKEND->net.open(&end->port, end_host(), &end->attr);
}

static inline void end_close(struct end *end)
{
	if (end->peer.path)
		BACKEND->route.close(&end->port, &end->peer);
	BACKEND->net.close(&end->port);
}

/* Takes what is there; datagrams are counted and given back. */
static inline void end_move(struct end *end)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	int n = BACKEND->datagrams.poll(&end->port, events, RIPC_EVENTS_MAX, false);

	for (int i = 0; i < n; i++) {
		if (events[i].kind == RIPC_EV_DATAGRAM) {
			end->n_datagrams++;
			BACKEND->datagrams.release(&end->port, events[i].handle);
			continue;
		}
		ck_assert_uint_lt(end->n_events, RIPC_EVENTS_MAX);
		end->events[end->n_events++] = events[i];
	}
	BACKEND->net.arm(&end->port);
}

/* Time passes, unless helper threads are at something. */
static inline void turn_pass(struct end *const *ends, uint32_t n)
{
	uint32_t busy = 0;

	for (uint32_t i = 0; i < n; i++)
		busy += ripc__rdma_worker_pending(ends[i]->port.worker);
	if (!busy)
		clock_pass(turn_us);
}

/* Lets all move until one has so many events. */
static inline void ends_await(struct end *const *ends, uint32_t n, const struct end *who,
		uint32_t n_events)
{
	for (uint32_t turn = 0; who->n_events < n_events; turn++) {
		ck_assert_msg(turn < 20000, "nothing happens");
		for (uint32_t i = 0; i < n; i++)
			end_move(ends[i]);
		poll(NULL, 0, 1);
		turn_pass(ends, n);
	}
}

/* Lets all move until nothing is left to the helper threads. */
static inline void ends_settle(struct end *const *ends, uint32_t n)
{
	uint32_t busy = 1;

	while (busy) {
		busy = 0;
		for (uint32_t i = 0; i < n; i++) {
			end_move(ends[i]);
			busy += ripc__rdma_worker_pending(ends[i]->port.worker);
			busy += ends[i]->port.at < ends[i]->port.n_wcs;
		}
		poll(NULL, 0, 1);
	}
}

static inline void end_addr(struct end *of, struct ripc__addr *addr)
{
	uint8_t blob[RIPC_ADDR_MAX], host[16] = {0};
	int len = BACKEND->net.address(&of->port, blob);

	ck_assert_int_eq(BACKEND->route.choose(&of->port, blob, (size_t)len, host, addr), 0);
}

/* The way from one to another; returns what became of it. */
static inline int end_route(struct end *from, struct end *to)
{
	struct ripc__addr addr;
	int error;

	end_addr(to, &addr);
	error = BACKEND->route.open(&from->port, &from->peer, &addr);
	if (error != -EINPROGRESS)
		return error;
	from->n_events = 0;
	ends_await(&from, 1, from, 1);
	from->n_events = 0;
	ck_assert_int_eq(from->events[0].kind, RIPC_EV_PEER);
	return from->events[0].status;
}

static inline void ends_open(struct end *left, struct end *right)
{
	ends_begin();
	ck_assert_int_eq(end_open(left), 0);
	ck_assert_int_eq(end_open(right), 0);
	ck_assert_int_eq(end_route(left, right), 0);
	ck_assert_int_eq(end_route(right, left), 0);
}

static inline int end_send(struct end *from, uint32_t n, uint32_t len)
{
	static uint8_t bytes[8192];
	struct iovec iov = {.iov_base = bytes, .iov_len = len};
	struct ripc__tx tx[RIPC_EVENTS_MAX];

	for (uint32_t i = 0; i < n; i++)
		tx[i] = (struct ripc__tx){.iov = &iov, .n_iov = 1, .len = len};
	return BACKEND->datagrams.send(&from->port, &from->peer, tx, n);
}

#endif
