/* SPDX-License-Identifier: BSD-3-Clause */
/* Helper threads: what is slow leaves one to the others, and closing hands everything back. */
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/rdma/rdma.h"
#include "suite.h"

#define SLOW        (2 * RIPC__RDMA_THREADS)
#define PATIENCE_MS 20000

struct job {
	struct ripc__rdma_job job;
	int gate; /* the worker runs until this can be read; -1: not */
	bool done;
};

static void job_run(struct ripc__rdma_job *job)
{
	struct job *own = (struct job *)job;
	struct pollfd gate = {own->gate, POLLIN, 0};

	if (own->gate >= 0)
		poll(&gate, 1, PATIENCE_MS);
}

static uint32_t n_done;

static void job_done(struct ripc__rdma_job *job)
{
	((struct job *)job)->done = true;
	n_done++;
}

static void submit(struct ripc__rdma_worker *worker, struct job *job, int gate)
{
	*job = (struct job){.job = {.run = job_run, .done = job_done, .is_slow = gate >= 0},
		.gate = gate};
	ripc__rdma_worker_submit(worker, &job->job);
}

static void await(struct ripc__rdma_worker *worker, const struct job *job)
{
	struct pollfd ready = {ripc__rdma_worker_fd(worker), POLLIN, 0};

	while (!job->done) {
		ck_assert_int_eq(poll(&ready, 1, PATIENCE_MS), 1);
		ripc__rdma_worker_done(worker);
	}
}

/* More silent neighbours than threads, and somebody who is there. */
START_TEST(worker_submit__slow_ones_leave_a_thread)
{
	struct job slow[SLOW], others[10];
	struct ripc__rdma_worker *worker;
	int gate[2];

	ck_assert_int_eq(pipe(gate), 0);
	ck_assert_int_eq(ripc__rdma_worker_open(&worker), 0);
	for (uint32_t i = 0; i < SLOW; i++)
		submit(worker, &slow[i], gate[0]);
	for (int i = 0; i < 10; i++) {
		submit(worker, &others[i], -1);
		await(worker, &others[i]);
	}
	ck_assert_uint_eq(n_done, 10);
	ck_assert_uint_eq(ripc__rdma_worker_pending(worker), SLOW);
	close(gate[1]);
	for (uint32_t i = 0; i < SLOW; i++)
		await(worker, &slow[i]);
	ck_assert_uint_eq(n_done, 10 + SLOW);
	ripc__rdma_worker_close(worker);
	close(gate[0]);
}
END_TEST

START_TEST(worker_close__hands_all_back)
{
	struct ripc__rdma_worker *worker;
	struct job slow[SLOW], other;
	uint32_t n_ran = 0;
	int gate[2];

	ck_assert_int_eq(pipe(gate), 0);
	ck_assert_int_eq(ripc__rdma_worker_open(&worker), 0);
	for (uint32_t i = 0; i < SLOW; i++)
		submit(worker, &slow[i], gate[0]);
	submit(worker, &other, -1);
	close(gate[1]);
	ripc__rdma_worker_close(worker);
	ck_assert_uint_eq(n_done, SLOW + 1);
	for (uint32_t i = 0; i < SLOW; i++) {
		ck_assert(slow[i].done);
		n_ran += slow[i].job.ran;
	}
	ck_assert_uint_le(n_ran, SLOW);
	ck_assert(other.done);
	close(gate[0]);
}
END_TEST

/* When all is done the descriptor is quiet, however a job's end and the look at it coincide. */
START_TEST(worker_done__leaves_nothing_to_read)
{
	struct ripc__rdma_worker *worker;
	struct pollfd ready = {.events = POLLIN};
	/* Rounds, but for no longer than a minute where others keep the machine busy. */
	time_t end = time(NULL) + 60;
	struct job job;

	ck_assert_int_eq(ripc__rdma_worker_open(&worker), 0);
	ready.fd = ripc__rdma_worker_fd(worker);
	for (uint32_t i = 0; i < 20000 && time(NULL) < end; i++) {
		submit(worker, &job, -1);
		while (!job.done)
			ripc__rdma_worker_done(worker);
		for (uint32_t turn = 0; poll(&ready, 1, 0) != 0; turn++) {
			ck_assert_uint_lt(turn, 1000000);
			ripc__rdma_worker_done(worker);
		}
	}
	ripc__rdma_worker_close(worker);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		worker_submit__slow_ones_leave_a_thread, worker_close__hands_all_back,
		worker_done__leaves_nothing_to_read, NULL,
	};

	return suite_run("rdma_worker", tests);
}
