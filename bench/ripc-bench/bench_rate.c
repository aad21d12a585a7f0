/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients of a rate run: threads that warm up, begin together, and are counted together. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "bench.h"

struct crew {
	const struct bench_rate_calls *calls;
	pthread_barrier_t barrier;
	struct bench_sender senders[BENCH_THREADS_MAX];
	uint64_t begin_ns[BENCH_THREADS_MAX], end_ns[BENCH_THREADS_MAX];
};

struct member {
	struct crew *crew;
	struct bench_sender *sender;
};

static void *run_member(void *arg)
{
	struct member *member = arg;
	struct bench_sender *sender = member->sender;
	const struct bench_rate_calls *calls = member->crew->calls;
	uint64_t lost;
	int opened;

	sender->err = calls->open(sender);
	opened = sender->err == 0;
	if (opened)
		sender->err = calls->stream(sender, sender->job->warm_up);
	/* A failed thread comes along, too, or the others would wait for ever. */
	pthread_barrier_wait(&member->crew->barrier);
	member->crew->begin_ns[sender->index] = tool_now_ns();
	lost = sender->lost; /* or arrived wrong */
	sender->first = sender->job->warm_up;
	if (sender->err == 0)
		sender->err = calls->stream(sender, sender->job->count);
	member->crew->end_ns[sender->index] = tool_now_ns();
	sender->lost += lost;
	if (opened)
		calls->close(sender);
	return NULL;
}

static int add_up(
	const struct crew *crew, const struct bench_job *job, struct bench_result *result)
{
	uint64_t received = 0, begin_ns = crew->begin_ns[0], end_ns = crew->end_ns[0], i;

	for (i = 0; i < job->threads; i++) {
		if (crew->senders[i].err < 0)
			return bench_failed(result, "a client", crew->senders[i].err);
		received += crew->senders[i].received;
		result->lost += crew->senders[i].lost;
		result->messages += job->count + job->warm_up;
		if (crew->begin_ns[i] < begin_ns)
			begin_ns = crew->begin_ns[i];
		if (crew->end_ns[i] > end_ns)
			end_ns = crew->end_ns[i];
	}
	memcpy(result->note, crew->senders[0].note, sizeof(result->note));
	if (received)
		result->samples[result->n++] = (double)received * 1e9 / (double)(end_ns - begin_ns);
	return 0;
}

int bench_measure_rate(const struct bench_job *job, const struct bench_rate_calls *calls,
	struct bench_result *result)
{
	static struct crew crew;
	struct member members[BENCH_THREADS_MAX];
	pthread_t threads[BENCH_THREADS_MAX];
	uint64_t i;

	crew.calls = calls;
	if (pthread_barrier_init(&crew.barrier, NULL, (unsigned int)job->threads) != 0)
		return bench_failed(result, "threads", -ENOMEM);
	for (i = 0; i < job->threads; i++) {
		crew.senders[i] = (struct bench_sender){.job = job, .index = i};
		members[i] = (struct member){&crew, &crew.senders[i]};
		if (pthread_create(&threads[i], NULL, run_member, &members[i]) != 0)
			return bench_failed(result, "threads", -EAGAIN);
	}
	for (i = 0; i < job->threads; i++)
		pthread_join(threads[i], NULL);
	return add_up(&crew, job, result);
}
