/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ripc-bench prints: for each size the median of the runs of each peer, and the ratio of
 * ours to theirs. The ratio is taken within each pair of runs that took turns; of these ratios
 * the median counts, the least and the greatest say how far to trust it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ripc/ripc.h"
#include "bench.h"

struct summary {
	double median, p99;	       /* over the runs */
	double ratio, least, greatest; /* of ours to this one; 0 for ours itself */
};

static double median_of(const double *values, uint64_t n)
{
	double *copy = malloc(n * sizeof(*copy)), median;

	if (!copy)
		return 0;
	memcpy(copy, values, n * sizeof(*copy));
	tool_sort(copy, n);
	median = tool_median(copy, n);
	free(copy);
	return median;
}

static void summarize(const struct bench_series *series, unsigned int peer, struct summary *summary)
{
	const double *ours = series->medians[0], *theirs = series->medians[peer];
	double *ratios = malloc(series->pairs * sizeof(*ratios));
	uint64_t i;

	memset(summary, 0, sizeof(*summary));
	summary->median = median_of(theirs, series->pairs);
	summary->p99 = median_of(series->p99s[peer], series->pairs);
	if (!ratios)
		return;
	for (i = 0; i < series->pairs; i++)
		ratios[i] = ours[i] / theirs[i];
	tool_sort(ratios, series->pairs);
	summary->ratio = tool_median(ratios, series->pairs);
	summary->least = ratios[0];
	summary->greatest = ratios[series->pairs - 1];
	free(ratios);
}

/* ---- the table ---- */

static void print_row(
	const struct bench_options *options, const struct bench_series *series, unsigned int peer)
{
	struct summary summary;
	char size[32] = "";

	summarize(series, peer, &summary);
	if (peer == 0)
		snprintf(size, sizeof(size), "%" PRIu64, series->size);
	printf("%10s  %-6s %11.2f", size, options->peers[peer]->name, summary.median);
	if (options->test == BENCH_LATENCY)
		printf(" %11.2f", summary.p99);
	printf(" %6" PRIu64, series->lost[peer]);
	if (peer > 0)
		printf("  %7.3f  %7.3f  %7.3f", summary.ratio, summary.least, summary.greatest);
	if (series->wrong[peer])
		printf("  %" PRIu64 " ARRIVED WRONG", series->wrong[peer]);
	putchar('\n');
}

static const char *wait_text(const struct bench_options *options)
{
	if (options->spin_us == RIPC_SPIN_NEVER)
		return "sleeping";
	return options->spin_us ? "spinning, then sleeping" : "waiting by default";
}

void bench_report_begin(const struct bench_options *options)
{
	if (options->json)
		return;
	if (options->test == BENCH_LATENCY)
		printf("round trips, us, %s; %" PRIu64 " runs each, in turns; ratio: ripc / peer, "
		       "less than 1: ripc is faster\n%10s  %-6s %11s %11s %6s  %7s  %7s  %7s\n",
			wait_text(options), options->pairs, "bytes", "peer", "median", "p99",
			"lost", "ratio", "least", "most");
	else
		printf("one message after the other, MB/s, %s; %" PRIu64
		       " runs each, in turns; ratio: "
		       "ripc / peer, more than 1: ripc is faster\n%10s  %-6s %11s %6s  %7s  %7s  "
		       "%7s\n",
			wait_text(options), options->pairs, "bytes", "peer", "median", "lost",
			"ratio", "least", "most");
}

static void print_table(const struct bench_options *options, const struct bench_series *series)
{
	unsigned int i;

	for (i = 0; i < options->n_peers; i++)
		print_row(options, series, i);
	if (series->note[0])
		printf("%10s  path: %s\n", "", series->note);
}

/* ---- JSON: one line per size and peer ---- */

static void print_json(
	const struct bench_options *options, const struct bench_series *series, unsigned int peer)
{
	const char *unit = options->test == BENCH_LATENCY ? "us" : "mb_per_s";
	struct summary ours, theirs;

	summarize(series, 0, &ours);
	summarize(series, peer, &theirs);
	printf("{\"test\":\"%s\",\"size\":%" PRIu64 ",\"pairs\":%" PRIu64 ",\"count\":%" PRIu64
	       ",\"spin_us\":%" PRIu64 ",\"unit\":\"%s\",\"path\":",
		options->test == BENCH_LATENCY ? "latency" : "bandwidth", series->size,
		series->pairs, series->count, options->spin_us, unit);
	tool_json_string(stdout, series->note);
	printf(",\"ripc\":{\"median\":%.4f,\"p99\":%.4f,\"lost\":%" PRIu64 ",\"wrong\":%" PRIu64
	       "}",
		ours.median, ours.p99, series->lost[0], series->wrong[0]);
	if (peer > 0)
		printf(",\"vs\":\"%s\",\"peer\":{\"median\":%.4f,\"p99\":%.4f,\"lost\":%" PRIu64
		       ",\"wrong\":%" PRIu64 "},\"ratio\":{\"median\":%.4f,\"least\":%.4f,"
		       "\"most\":%.4f}",
			options->peers[peer]->name, theirs.median, theirs.p99, series->lost[peer],
			series->wrong[peer], theirs.ratio, theirs.least, theirs.greatest);
	puts("}");
}

void bench_report(const struct bench_options *options, const struct bench_series *series)
{
	unsigned int i;

	if (!options->json)
		print_table(options, series);
	else if (options->n_peers == 1)
		print_json(options, series, 0);
	for (i = 1; options->json && i < options->n_peers; i++)
		print_json(options, series, i);
	fflush(stdout);
}

void bench_progress(const struct bench_options *options, const char *text)
{
	(void)options;
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K%s", text ? text : "");
}
