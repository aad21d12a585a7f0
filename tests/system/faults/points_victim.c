/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that is killed or stopped: it answers ("serve") or asks ("call"), and at the n-th
 * passing of a named point it sends itself the signal, in the middle of whatever the library does;
 * perhaps it leaves a child that has all its descriptors.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "points.h"

#define DEADLINE_MS 600u
#define POINTS_MAX  128

static const char *point = ""; /* "none": live; "count": and say what was passed */
static int signal_at_point;
static bool forks;
static atomic_int passings; /* until then */
static struct {
	_Atomic(const char *) name;
	atomic_int n;
} counts[POINTS_MAX];

void ripc__shm_point(const char *name);

static void count(const char *name)
{
	for (int i = 0; i < POINTS_MAX; i++) {
		const char *none = NULL, *known = atomic_load(&counts[i].name);

		if (!known && atomic_compare_exchange_strong(&counts[i].name, &none, name))
			known = name;
		if (!known || strcmp(known, name) != 0)
			continue;
		atomic_fetch_add(&counts[i].n, 1);
		return;
	}
}

/* Lives until nobody reads what it could say. It must not allocate: others may hold a lock. */
static void live_on(void)
{
	struct pollfd poller = {.fd = FAULT_READY_FD};

	poll(&poller, 1, -1);
	_exit(0);
}

static void reached(void)
{
	if (forks && fork() == 0)
		live_on();
	raise(signal_at_point);
}

void ripc__shm_point(const char *name)
{
	if (strcmp(name, point) == 0 && atomic_fetch_sub(&passings, 1) == 1)
		reached();
	else if (strcmp(point, "count") == 0)
		count(name);
}

static void on_point(void *arg, const char *name)
{
	(void)arg;
	ripc__shm_point(name);
}

static void print_counts(void)
{
	for (int i = 0; i < POINTS_MAX && atomic_load(&counts[i].name); i++)
		printf("%6d %s\n", atomic_load(&counts[i].n), atomic_load(&counts[i].name));
}

/* A partner may have given us up while we were stopped: then ask again. */
static void call_all(struct talker *talker)
{
	for (uint32_t i = 0; i < ROUNDS * KINDS; i++) {
		uint64_t until_ms = fault_now_ms() + PATIENCE_MS;
		int error;

		do
			error = talk_ask(talker, fault_id(SERVICE_DRIVER), i % KINDS);
		while (error && fault_now_ms() < until_ms);
		if (error)
			fault_fail("victim: nobody answers: %s", ripc_strerror(error));
	}
}

int victim_main(char **argv)
{
	static struct talker talker;
	int error;

	point = argv[3];
	atomic_store(&passings, atoi(argv[4]));
	signal_at_point = strcmp(argv[5], "stop") == 0 ? SIGSTOP : SIGKILL;
	forks = strcmp(argv[5], "fork") == 0;
	ripc__env_init(&talker.env);
	talker.env.point = on_point;
	talk_open(&talker, fault_id((uint32_t)atoi(argv[6])), (uint32_t)atoi(argv[7]),
		DEADLINE_MS);
	if (write(FAULT_READY_FD, "r", 1) != 1)
		fault_fail("victim: cannot say that it is ready");
	if (strcmp(argv[2], "call") == 0)
		call_all(&talker);
	while (strcmp(argv[2], "serve") == 0 && !talker.stopped)
		talk_serve(&talker, -1);
	error = talk_close(&talker);
	if (strcmp(point, "count") == 0)
		print_counts();
	return error ? 1 : 0;
}
