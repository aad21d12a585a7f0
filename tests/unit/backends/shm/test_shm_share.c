/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many connections and rings of a port one process, or one user, can hold: whoever comes next
 * finds some left. Nobody really connects here.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "backends/shm/internal.h"
#include "suite.h"

#define FILES 300u
#define MOST  (FILES / 3)

static struct shm_port port;
static struct shm_in ins[FILES];
static uint32_t n_entered;

static void set_up(void)
{
	descriptors_limit(FILES);
	port = (struct shm_port){.dev.ring_bytes_max = UINT64_MAX};
	ripc__map_init(&port.holders, 1);
	n_entered = 0;
}

static void tear_down(void)
{
	while (n_entered > 0)
		ripc__shm_share_leave(&port, &ins[--n_entered]);
	ck_assert_uint_eq(port.n_ins, 0);
	ck_assert_uint_eq(port.holders.count, 0);
	ripc__map_free(&port.holders);
}

static int enter(pid_t pid, uid_t uid)
{
	const struct ucred who = {.pid = pid, .uid = uid};
	int error;

	ins[n_entered] = (struct shm_in){.watch = {SHM_IN, 3}};
	error = ripc__shm_share_enter(&port, &ins[n_entered], &who);
	n_entered += !error;
	return error;
}

/* How many connections it can get now. */
static uint32_t enter_all(pid_t pid, uid_t uid)
{
	uint32_t n = 0;
	int error;

	while ((error = enter(pid, uid)) == 0)
		n++;
	ck_assert_int_eq(error, -EUSERS);
	return n;
}

/* Half of what is left is for the next. */
START_TEST(enter__processes_of_our_user)
{
	uint32_t left = MOST;

	for (pid_t pid = 1; left; pid++) {
		uint32_t n = enter_all(pid, geteuid());

		ck_assert_uint_eq(n, (left + 1) / 2);
		left -= n;
	}
}
END_TEST

/* Another user holds no more with many processes than all others leave it. */
START_TEST(enter__processes_of_another_user)
{
	const uid_t other = geteuid() + 1;

	ck_assert_uint_eq(enter_all(1, other), (MOST + 2) / 3);
	for (pid_t pid = 2; pid < 50; pid++)
		enter_all(pid, other);
	ck_assert_uint_le(port.n_ins, MOST / 2 + 1);
	ck_assert_uint_ge(enter_all(50, geteuid()), MOST / 4 - 1);
	ck_assert_uint_ge(enter_all(51, other + 1), MOST / 12 - 1);
}
END_TEST

/* Processes that we cannot tell from each other are one. */
START_TEST(enter__another_pid_namespace)
{
	const uid_t other = geteuid() + 1;

	ck_assert_uint_eq(enter_all(0, other), MOST / 2);
	ck_assert_uint_eq(enter_all(0, geteuid()), MOST / 4);
}
END_TEST

/* The application's last descriptors are left to it, whoever has opened the others. */
START_TEST(enter__leaves_descriptors)
{
	const struct ucred who = {.pid = 1, .uid = geteuid()};
	struct shm_in in = {.watch = {SHM_IN, FILES - FILES / 8}};

	ck_assert_int_eq(ripc__shm_share_enter(&port, &in, &who), -EMFILE);
	ck_assert_uint_eq(port.holders.count, 0);
	in.watch.fd--;
	ck_assert_int_eq(ripc__shm_share_enter(&port, &in, &who), 0);
	ripc__shm_share_leave(&port, &in);
}
END_TEST

/* An ended partner leaves its share to others. */
START_TEST(leave__gives_back)
{
	ck_assert_uint_eq(enter_all(1, geteuid()), MOST / 2);
	while (n_entered > 0)
		ripc__shm_share_leave(&port, &ins[--n_entered]);
	ck_assert_uint_eq(port.holders.count, 0);
	ck_assert_uint_eq(enter_all(2, geteuid()), MOST / 2);
}
END_TEST

START_TEST(take__rings)
{
	port.dev.ring_bytes_max = 9 * SHM_RING_LEN;
	ck_assert_int_eq(enter(1, geteuid()), 0);
	ck_assert_int_eq(enter(2, geteuid()), 0);
	for (int i = 0; i < 5; i++) {
		ck_assert(ripc__shm_share_left(&port, &ins[0], SHM_SHARE_RINGS));
		ripc__shm_share_take(&ins[0], SHM_SHARE_RINGS, 1);
		port.dev.ring_bytes += SHM_RING_LEN;
	}
	ck_assert(!ripc__shm_share_left(&port, &ins[0], SHM_SHARE_RINGS));
	ck_assert(ripc__shm_share_left(&port, &ins[1], SHM_SHARE_RINGS));
	ripc__shm_share_take(&ins[0], SHM_SHARE_RINGS, -1);
	port.dev.ring_bytes -= SHM_RING_LEN;
	ck_assert(ripc__shm_share_left(&port, &ins[0], SHM_SHARE_RINGS));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		enter__processes_of_our_user,
		enter__processes_of_another_user,
		enter__another_pid_namespace,
		enter__leaves_descriptors,
		leave__gives_back,
		take__rings,
		NULL,
	};

	return suite_run_between("shm_share", tests, set_up, tear_down);
}
