/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends of the rdmacm backend on the fake iWARP device, driven without core. */
#ifndef TEST_RDMACM_ENDS_H
#define TEST_RDMACM_ENDS_H

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "../support/fake/iwarp.h"
#include "backends/rdmacm/internal.h"
#include "virtual_clock.h"

#define BACKEND (&ripc__rdmacm_backend)
#define ENDS    12u
#define TURNS   20000u /* of a millisecond, at most */

struct end {
	struct rdmacm_port port;
	struct rdmacm_route peers[ENDS];
	struct ripc__attr attr;
	struct ripc__event events[RIPC_EVENTS_MAX]; /* that came, without datagrams */
	uint32_t n_events, n_datagrams;
	bool is_stopped; /* its process is: nothing is polled */
};

static struct end ends[ENDS];
static uint32_t n_ends;
static const char *const *options;
static uint64_t turn_us; /* clock time of a turn; more where only time passes */

static void log_nothing(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *option(void *arg, const char *name)
{
	(void)arg;
	for (const char *const *at = options; at && at[0]; at += 2) {
		if (strcmp(at[0], name) == 0)
			return at[1];
	}
	return NULL;
}

static const struct ripc__host host = {.log = log_nothing, .option = option, .context = 1};

static int end_open(struct end *end)
{
	memset(end, 0, sizeof(*end));
	return BACKEND->net.open(&end->port, &host, &end->attr);
}

static void begin(uint32_t n)
{
	fake_iwarp_reset();
	turn_us = 1000;
	for (n_ends = 0; n_ends < n; n_ends++)
		ck_assert_int_eq(end_open(&ends[n_ends]), 0);
}

/* Everything was given back, and no rule of the device was broken. */
static void finish(void)
{
	const char *what;

	fake_iwarp_give_up(); /* closing waits for that */
	for (uint32_t i = 0; i < n_ends; i++) {
		for (uint32_t k = 0; k < ENDS; k++) {
			if (ends[i].peers[k].link)
				BACKEND->route.close(&ends[i].port, &ends[i].peers[k]);
		}
		BACKEND->net.close(&ends[i].port);
	}
	n_ends = 0;
	options = NULL;
	ck_assert_msg(fake_iwarp_faults(&what) == 0, "%s", what);
	ck_assert_uint_eq(fake_iwarp_live(), 0);
}

static void move(void)
{
	for (uint32_t i = 0; i < n_ends; i++) {
		struct ripc__event events[RIPC_EVENTS_MAX];
		int n = ends[i].is_stopped ? 0 :
			BACKEND->datagrams.poll(&ends[i].port, events, RIPC_EVENTS_MAX, false);

		for (int k = 0; k < n; k++) {
			if (events[k].kind == RIPC_EV_DATAGRAM) {
				ends[i].n_datagrams++;
				BACKEND->datagrams.release(&ends[i].port, events[k].handle);
			} else {
				ends[i].events[ends[i].n_events++ % RIPC_EVENTS_MAX] = events[k];
			}
		}
		if (!ends[i].is_stopped)
			BACKEND->net.arm(&ends[i].port);
	}
}

/* Time passes, unless helper threads are at something that ends by itself. */
static void turn_pass(void)
{
	uint32_t pending = 0;

	for (uint32_t i = 0; i < n_ends; i++)
		pending += ripc__rdma_worker_pending(ends[i].port.worker);
	if (!pending || fake_iwarp.block)
		clock_pass(turn_us);
}

/* Lets all move until the condition holds. */
#define AWAIT(condition)                                                          \
	do {                                                                      \
		for (uint32_t moves = 0; !(condition); moves++) {                 \
			ck_assert_msg(moves < TURNS, "never: %s", #condition);    \
			move();                                                   \
			poll(NULL, 0, 1);                                         \
			turn_pass();                                              \
		}                                                                 \
	} while (0)

static int route(uint32_t from, uint32_t to)
{
	struct ripc__addr addr;

	ripc__rdmacm_addr_fill(&ends[to].port.self, &addr);
	return BACKEND->route.open(&ends[from].port, &ends[from].peers[to], &addr);
}

/* Opens a route; returns how that ended. */
static int connect_to(uint32_t from, uint32_t to)
{
	uint32_t before = ends[from].n_events;
	int error = route(from, to);

	if (error != -EINPROGRESS)
		return error;
	AWAIT(ends[from].n_events > before);
	ck_assert_int_eq(ends[from].events[before % RIPC_EVENTS_MAX].kind, RIPC_EV_PEER);
	return ends[from].events[before % RIPC_EVENTS_MAX].status;
}

static int send_one(uint32_t from, uint32_t to)
{
	uint8_t bytes[100] = {1};
	struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = sizeof(bytes)};

	return BACKEND->datagrams.send(&ends[from].port, &ends[from].peers[to], &tx, 1);
}

/* A datagram goes from one to the other. */
static void pass(uint32_t from, uint32_t to)
{
	uint32_t before = ends[to].n_datagrams;

	AWAIT(send_one(from, to) == 1);
	AWAIT(ends[to].n_datagrams > before);
	ck_assert_uint_eq(ends[to].n_datagrams, before + 1);
}

static struct rdmacm_link *link_of(uint32_t from, uint32_t to)
{
	return ends[from].peers[to].link;
}

#endif
