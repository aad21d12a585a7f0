/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes that hand a message to and fro in shared memory, in ripc-bench: the least that an
 * exchange between two processors costs. The message is written and summed up where it lies, and
 * a number beside its first bytes says that it is there. Both ends spin, whatever --spin says:
 * there is nothing to sleep on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bench.h"

#define MESSAGE_MAX 65536

/* One direction. The first cache line has the number and the first bytes. */
struct cell {
	_Alignas(128) _Atomic uint64_t number;
	uint64_t bytes[MESSAGE_MAX / sizeof(uint64_t)];
};

struct table {
	struct cell there, back;
};

static int map_table(int fd, struct table **table)
{
	void *memory = mmap(NULL, sizeof(**table), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_POPULATE, fd, 0);

	if (memory == MAP_FAILED)
		return -errno;
	*table = memory;
	return 0;
}

/* True: message number is there. False: nothing has come for BENCH_WAIT_MS. */
static int await_number(struct cell *cell, uint64_t number)
{
	uint64_t begin_ns = 0;

	for (uint32_t i = 1;; i++) {
		if (atomic_load_explicit(&cell->number, memory_order_acquire) == number)
			return 1;
		if (i % 4096)
			continue;
		if (!begin_ns)
			begin_ns = tool_now_ns();
		if (tool_now_ns() - begin_ns > BENCH_WAIT_MS * 1000000ull)
			return 0;
	}
}

static int serve_latency(const struct bench_job *job, int ready_fd)
{
	char where[BENCH_WHERE_LEN];
	struct table *table = NULL;
	uint64_t number, seed;
	int fd = memfd_create("ripc-bench", MFD_CLOEXEC), err;

	if (job->size > MESSAGE_MAX)
		return -EMSGSIZE;
	if (fd < 0 || ftruncate(fd, sizeof(*table)) < 0)
		return -errno;
	err = map_table(fd, &table);
	snprintf(where, sizeof(where), "/proc/%d/fd/%d", (int)getpid(), fd);
	err = err ? err : bench_ready(ready_fd, where);
	if (err < 0)
		return err;
	for (number = 1;; number++) {
		while (!await_number(&table->there, number))
			continue; /* the client has not begun, or has ended; we are ended, too */
		if (bench_take(job, table->there.bytes, &seed) < 0)
			return -EBADMSG;
		bench_put(job, table->back.bytes, seed);
		atomic_store_explicit(&table->back.number, number, memory_order_release);
	}
}

static int measure_latency(const struct bench_job *job, struct bench_result *result)
{
	struct table *table = NULL;
	uint64_t i, begin_ns, seed, began_ns = tool_now_ns();
	int fd = open(job->where, O_RDWR | O_CLOEXEC), err;

	if (fd < 0)
		return bench_failed(result, "opening the server's memory", -errno);
	err = map_table(fd, &table);
	close(fd);
	if (err < 0)
		return bench_failed(result, "mapping", err);
	for (i = 0; i < job->count + job->warm_up; i++) {
		begin_ns = bench_turn_ns(job, began_ns, i);
		bench_put(job, table->there.bytes, i);
		atomic_store_explicit(&table->there.number, i + 1, memory_order_release);
		if (!await_number(&table->back, i + 1))
			return bench_failed(result, "waiting for the answer", -ETIMEDOUT);
		if (bench_take(job, table->back.bytes, &seed) < 0)
			result->wrong++;
		result->messages++;
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)(tool_now_ns() - begin_ns) / 1e3;
	}
	return 0;
}

const struct bench_peer bench_shm = {
	.name = "shm",
	.about = "two processes that spin on shared memory (latency only)",
	.halves = {
		[BENCH_LATENCY] = {serve_latency, measure_latency},
	},
};
