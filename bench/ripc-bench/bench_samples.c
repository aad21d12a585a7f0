/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results of the runs of one size and value. The ratio of ours to a peer's is taken within each
 * pair of runs that took turns; of these ratios the median counts. How far to trust it: the least
 * and the greatest of them, and the bootstrap interval (B. Efron, 1979; percentile method): the
 * median of as many ratios drawn with replacement, again and again, from a fixed seed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

#define DRAWS	 1000u
#define BEYOND	 100 /* samples that a percentile needs beyond it */

static void runs_free(struct bench_runs *runs)
{
	free(runs->medians);
	free(runs->p99s);
	free(runs->all);
}

void bench_series_free(struct bench_series *series)
{
	unsigned int i;

	for (i = 0; i < series->n_peers; i++)
		runs_free(&series->runs[i]);
}

int bench_series_begin(struct bench_series *series, unsigned int n_peers, uint64_t pairs)
{
	unsigned int i;

	series->n_peers = n_peers;
	series->pairs = pairs;
	for (i = 0; i < n_peers; i++) {
		series->runs[i].medians = calloc(pairs, sizeof(double));
		series->runs[i].p99s = calloc(pairs, sizeof(double));
		if (!series->runs[i].medians || !series->runs[i].p99s) {
			bench_series_free(series);
			return -ENOMEM;
		}
	}
	return 0;
}

static int keep_all(struct bench_runs *runs, const double *samples, size_t n)
{
	size_t room = 2 * (runs->n_all + n);
	double *all;

	if (runs->n_all + n > runs->room) {
		all = realloc(runs->all, room * sizeof(*all));
		if (!all)
			return -ENOMEM;
		runs->all = all;
		runs->room = room;
	}
	memcpy(runs->all + runs->n_all, samples, n * sizeof(*samples));
	runs->n_all += n;
	return 0;
}

static void add_cost(struct bench_cost *sum, const struct bench_cost *cost)
{
	sum->client_user += cost->client_user;
	sum->client_system += cost->client_system;
	sum->server_user += cost->server_user;
	sum->server_system += cost->server_system;
	sum->softirq += cost->softirq;
	sum->steal += cost->steal;
	sum->idle += cost->idle;
	sum->wire_bytes += cost->wire_bytes;
}

int bench_series_add(struct bench_series *series, unsigned int peer, uint64_t pair,
	struct bench_result *result)
{
	struct bench_runs *runs = &series->runs[peer];

	tool_sort(result->samples, result->n);
	runs->medians[pair] = tool_median(result->samples, result->n);
	runs->p99s[pair] = tool_percentile(result->samples, result->n, 0.99);
	runs->lost += result->lost;
	runs->wrong += result->wrong;
	runs->messages += result->messages;
	add_cost(&runs->cost, &result->cost);
	if (peer == 0 && result->note[0])
		memcpy(series->note, result->note, sizeof(series->note));
	return keep_all(runs, result->samples, result->n);
}

void bench_series_end(struct bench_series *series)
{
	unsigned int i;

	for (i = 0; i < series->n_peers; i++)
		tool_sort(series->runs[i].all, series->runs[i].n_all);
}

double bench_median(const double *of_runs, uint64_t pairs)
{
	double *copy = malloc(pairs * sizeof(*copy)), median;

	if (!copy)
		return 0;
	memcpy(copy, of_runs, pairs * sizeof(*copy));
	tool_sort(copy, pairs);
	median = tool_median(copy, pairs);
	free(copy);
	return median;
}

/* SplitMix64 (G. Steele, 2014): the same draws each time. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void bootstrap(const double *ratios, uint64_t n, double *scratch, struct bench_ratio *ratio)
{
	double medians[DRAWS];
	uint64_t state = 1, i;
	unsigned int turn;

	for (turn = 0; turn < DRAWS; turn++) {
		for (i = 0; i < n; i++)
			scratch[i] = ratios[draw(&state) % n];
		tool_sort(scratch, n);
		medians[turn] = tool_median(scratch, n);
	}
	tool_sort(medians, DRAWS);
	ratio->low = tool_percentile(medians, DRAWS, 0.025);
	ratio->high = tool_percentile(medians, DRAWS, 0.975);
}

void bench_ratio(const struct bench_series *series, unsigned int peer, struct bench_ratio *ratio)
{
	const double *ours = series->runs[0].medians, *theirs = series->runs[peer].medians;
	double *ratios = malloc(2 * series->pairs * sizeof(*ratios));
	uint64_t i;

	memset(ratio, 0, sizeof(*ratio));
	if (!ratios)
		return;
	for (i = 0; i < series->pairs; i++)
		ratios[i] = theirs[i] > 0 ? ours[i] / theirs[i] : 0;
	tool_sort(ratios, series->pairs);
	ratio->median = tool_median(ratios, series->pairs);
	ratio->least = ratios[0];
	ratio->most = ratios[series->pairs - 1];
	bootstrap(ratios, series->pairs, ratios + series->pairs, ratio);
	free(ratios);
}

struct bench_cost bench_cost_each(const struct bench_runs *runs)
{
	double n = runs->messages ? (double)runs->messages : 1;
	const struct bench_cost *sum = &runs->cost;

	return (struct bench_cost){
		.client_user = sum->client_user / n,
		.client_system = sum->client_system / n,
		.server_user = sum->server_user / n,
		.server_system = sum->server_system / n,
		.softirq = sum->softirq / n,
		.steal = sum->steal / n,
		.idle = sum->idle / n,
		.wire_bytes = sum->wire_bytes / n,
	};
}

int bench_has_percentile(const struct bench_runs *runs, double fraction)
{
	return (double)runs->n_all * (1 - fraction) >= BEYOND;
}
