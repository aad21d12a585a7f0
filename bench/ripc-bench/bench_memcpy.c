/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memcpy(3) in ripc-bench: what it costs to copy a message once, within the client, from memory
 * that was just written to memory that was touched before; both of large pages where the system
 * has them. The server does nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bench.h"

#define ALIGNMENT ((size_t)2 << 20)

static int serve_bandwidth(const struct bench_job *job, int ready_fd)
{
	int err = bench_ready(ready_fd, "nowhere");

	(void)job;
	while (err == 0)
		pause();
	return err;
}

static void *touched(size_t size)
{
	size_t whole = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	void *buffer = aligned_alloc(ALIGNMENT, whole);

	if (buffer) {
		(void)madvise(buffer, whole, MADV_HUGEPAGE);
		memset(buffer, 1, whole);
	}
	return buffer;
}

static int measure_bandwidth(const struct bench_job *job, struct bench_result *result)
{
	void *from = touched(job->size), *to = touched(job->size);
	uint64_t i, begin_ns, ns, seed;

	if (!from || !to)
		return bench_failed(result, "taking memory", -ENOMEM);
	for (i = 0; i < job->count + job->warm_up; i++) {
		bench_fill(from, job->size, i);
		begin_ns = tool_now_ns();
		memcpy(to, from, job->size);
		ns = tool_now_ns() - begin_ns;
		if (bench_check(to, job->size, &seed) < 0 || seed != i)
			result->wrong++;
		result->messages++;
		if (i >= job->warm_up)
			result->samples[result->n++] = (double)job->size * 1e3 / (double)(ns + !ns);
	}
	return 0;
}

const struct bench_peer bench_memcpy = {
	.name = "memcpy",
	.about = "a copy within the client (bandwidth only)",
	.halves = {
		[BENCH_BANDWIDTH] = {serve_bandwidth, measure_bandwidth},
	},
};
