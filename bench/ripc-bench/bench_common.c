/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that all peers of ripc-bench share: messages and their check, turns, reports. */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"

#define SLEEP_EARLY_NS 200000 /* a sleep may last so much longer than it should */

/* ---- messages ---- */

/* A message is words of seed, seed + 1, ... and, if it is shorter than a word, one byte of it. */
void bench_fill(void *buffer, size_t size, uint64_t seed)
{
	size_t n = size / sizeof(uint64_t), i;
	uint64_t *words = buffer;

	for (i = 0; i < n; i++)
		words[i] = seed + i;
	memset((char *)buffer + n * sizeof(uint64_t), (int)(seed & 0xff), size % sizeof(uint64_t));
}

static uint64_t first_word(const uint8_t *bytes, size_t size)
{
	uint64_t word = size ? bytes[0] : 0;

	if (size >= sizeof(word))
		memcpy(&word, bytes, sizeof(word));
	return word;
}

int bench_check(const void *buffer, size_t size, uint64_t *seed)
{
	const uint8_t *bytes = buffer;
	size_t n = size / sizeof(uint64_t), i;
	uint64_t sum = 0, expected, word;

	*seed = first_word(buffer, size);
	/* Some libraries put messages anywhere. */
	for (i = 0; i < n; i++) {
		memcpy(&word, bytes + i * sizeof(word), sizeof(word));
		sum += word;
	}
	for (i = n * sizeof(uint64_t); i < size; i++)
		sum += bytes[i];
	/* n consecutive numbers from seed on; n * (n - 1) is even, so that nothing is lost. */
	expected = n ? n * *seed + n * (n - 1) / 2 : 0;
	expected += (size % sizeof(uint64_t)) * (*seed & 0xff);
	return sum == expected ? 0 : -EBADMSG;
}

/* A message of the warm-up is, in any case. */
static int is_touched(const struct bench_job *job, uint64_t number)
{
	return !job->untouched || number < job->warm_up || job->size <= sizeof(number);
}

void bench_put(const struct bench_job *job, void *buffer, uint64_t number)
{
	bench_fill(buffer, is_touched(job, number) ? job->size : sizeof(number), number);
}

int bench_take(const struct bench_job *job, const void *buffer, uint64_t *number)
{
	*number = first_word(buffer, job->size);
	return is_touched(job, *number) ? bench_check(buffer, job->size, number) : 0;
}

/* ---- how it went ---- */

int bench_ready(int ready_fd, const char *where)
{
	size_t len = strlen(where) + 1;

	return write(ready_fd, where, len) == (ssize_t)len ? 0 : -EPIPE;
}

int bench_failed(struct bench_result *result, const char *where, int err)
{
	snprintf(result->failed_at, sizeof(result->failed_at), "%s", where);
	result->err = err;
	return err;
}

/* ---- time ---- */

/* Asleep as long as that is exact enough, then in a loop. */
static void await_ns(uint64_t due_ns)
{
	uint64_t now_ns = tool_now_ns();

	if (now_ns + SLEEP_EARLY_NS < due_ns)
		tool_sleep_ns(due_ns - SLEEP_EARLY_NS - now_ns);
	while (tool_now_ns() < due_ns)
		;
}

uint64_t bench_turn_ns(const struct bench_job *job, uint64_t began_ns, uint64_t i)
{
	/* Not i times a rounded interval, which would add up. */
	uint64_t due_ns = job->rate_hz ?
		began_ns + (uint64_t)((double)i * 1e9 / (double)job->rate_hz) : 0;

	if (due_ns) {
		await_ns(due_ns);
		return due_ns;
	}
	if (job->gap_us)
		tool_sleep_ns(job->gap_us * 1000);
	return tool_now_ns();
}

uint64_t bench_ack_step(const struct bench_job *job)
{
	return job->depth > 1 ? job->depth / 2 : 1;
}
