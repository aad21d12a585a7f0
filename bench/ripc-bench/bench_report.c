/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output of ripc-bench: for each size and value the median of the runs of each peer, and the
 * ratio of ours to theirs. On the terminal a table or JSON lines; in files, if wanted, JSON lines
 * and CSV with the machine's description first, and for times one file for each peer, size and
 * value in the percentile format of HdrHistogram, which its own plotter reads.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ripc/ripc.h"
#include "bench.h"

static FILE *json_file, *csv_file;

static const char *variable_of(const struct bench_options *options)
{
	return bench_variables[options->test->variable];
}

/* ---- the table ---- */

static const char *wait_text(const struct bench_options *options)
{
	if (options->spin_us == RIPC_SPIN_NEVER)
		return "sleeping";
	return options->spin_us ? "spinning, then sleeping" : "waiting by default";
}

static void print_heading(const struct bench_options *options)
{
	int is_time = bench_less_is_better(options->test->kind);

	printf("%s: %s; %s; %s; %" PRIu64 " runs each, in turns\n"
	       "ratio: ripc / peer, %s than 1: ripc is faster; low, high: its 95 %% interval\n",
		options->test->name, options->test->about,
		is_time ? "us" : options->test->kind == BENCH_RATE ? "messages/s" : "MB/s",
		wait_text(options), options->pairs, is_time ? "less" : "more");
	printf("%10s ", "bytes");
	if (options->test->variable)
		printf("%9s ", variable_of(options));
	printf(" %-11s %11s", "peer", "median");
	if (is_time)
		printf(" %11s", "p99");
	printf(" %6s  %7s  %7s  %7s\n", "lost", "ratio", "low", "high");
}

static void print_cost(const struct bench_runs *runs)
{
	struct bench_cost each = bench_cost_each(runs);

	printf("%10s  us of a processor for each: client %.2f user, %.2f system; server %.2f, "
	       "%.2f; machine %.2f softirq, %.2f idle\n", "", each.client_user,
		each.client_system, each.server_user, each.server_system, each.softirq,
		each.idle);
}

static void print_row(
	const struct bench_options *options, const struct bench_series *series, unsigned int peer)
{
	const struct bench_runs *runs = &series->runs[peer];
	struct bench_ratio ratio;
	char size[32] = "", value[32] = "";

	if (peer == 0) {
		snprintf(size, sizeof(size), "%" PRIu64, series->size);
		snprintf(value, sizeof(value), "%" PRIu64, series->value);
	}
	printf("%10s ", size);
	if (options->test->variable)
		printf("%9s ", value);
	printf(" %-11s %11.2f", options->peers[peer]->name,
		bench_median(runs->medians, series->pairs));
	if (bench_less_is_better(options->test->kind))
		printf(" %11.2f", bench_median(runs->p99s, series->pairs));
	printf(" %6" PRIu64, runs->lost);
	if (peer > 0) {
		bench_ratio(series, peer, &ratio);
		printf("  %7.3f  %7.3f  %7.3f", ratio.median, ratio.low, ratio.high);
	}
	if (runs->wrong)
		printf("  %" PRIu64 " ARRIVED WRONG", runs->wrong);
	putchar('\n');
	if (strcmp(options->test->name, "cpu") == 0)
		print_cost(runs);
}

static void print_table(const struct bench_options *options, const struct bench_series *series)
{
	unsigned int i;

	for (i = 0; i < options->n_peers; i++)
		print_row(options, series, i);
	if (series->note[0])
		printf("%10s  path: %s\n", "", series->note);
}

/* ---- JSON: one line per size, value and peer ---- */

static const double percentiles[] = {0.5, 0.9, 0.99, 0.999, 0.9999};
static const char *const percentile_names[] = {"p50", "p90", "p99_all", "p999", "p9999"};
#define N_PERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

static void json_cost(FILE *stream, const struct bench_runs *runs)
{
	struct bench_cost each = bench_cost_each(runs);

	fprintf(stream,
		",\"cpu_us\":{\"client_user\":%.4f,\"client_system\":%.4f,\"server_user\":%.4f,"
		"\"server_system\":%.4f,\"softirq\":%.4f,\"steal\":%.4f,\"idle\":%.4f},"
		"\"wire_bytes\":%.1f",
		each.client_user, each.client_system, each.server_user, each.server_system,
		each.softirq, each.steal, each.idle, each.wire_bytes);
}

static void json_peer(FILE *stream, const struct bench_series *series, unsigned int peer)
{
	const struct bench_runs *runs = &series->runs[peer];
	unsigned int i;

	fprintf(stream,
		"{\"median\":%.4f,\"p99\":%.4f,\"lost\":%" PRIu64 ",\"wrong\":%" PRIu64
		",\"n\":%zu,\"min\":%.4f",
		bench_median(runs->medians, series->pairs), bench_median(runs->p99s, series->pairs),
		runs->lost, runs->wrong, runs->n_all, runs->n_all ? runs->all[0] : 0);
	for (i = 0; i < N_PERCENTILES; i++)
		if (bench_has_percentile(runs, percentiles[i]))
			fprintf(stream, ",\"%s\":%.4f", percentile_names[i],
				tool_percentile(runs->all, runs->n_all, percentiles[i]));
	fprintf(stream, ",\"max\":%.4f", runs->n_all ? runs->all[runs->n_all - 1] : 0);
	json_cost(stream, runs);
	fputs(",\"runs\":[", stream);
	for (i = 0; i < series->pairs; i++)
		fprintf(stream, "%s%.4f", i ? "," : "", runs->medians[i]);
	fputs("]}", stream);
}

static void json_line(FILE *stream, const struct bench_options *options,
	const struct bench_series *series, unsigned int peer)
{
	struct bench_ratio ratio;

	fprintf(stream,
		"{\"test\":\"%s\",\"size\":%" PRIu64 ",\"pairs\":%" PRIu64 ",\"count\":%" PRIu64
		",\"spin_us\":%" PRIu64 ",\"unit\":\"%s\",\"less_is_better\":%s,"
		"\"untouched\":%s,\"variable\":\"%s\",\"value\":%" PRIu64 ",\"path\":",
		options->test->name, series->size, series->pairs, series->count, options->spin_us,
		bench_unit(options->test->kind),
		bench_less_is_better(options->test->kind) ? "true" : "false",
		options->untouched ? "true" : "false", variable_of(options), series->value);
	tool_json_string(stream, series->note);
	fputs(",\"ripc\":", stream);
	json_peer(stream, series, 0);
	if (peer > 0) {
		bench_ratio(series, peer, &ratio);
		fprintf(stream, ",\"vs\":\"%s\",\"settings\":", options->peers[peer]->name);
		tool_json_string(stream, options->peers[peer]->settings ?
			options->peers[peer]->settings : "");
		fputs(",\"peer\":", stream);
		json_peer(stream, series, peer);
		fprintf(stream,
			",\"ratio\":{\"median\":%.4f,\"least\":%.4f,\"most\":%.4f,\"low\":%.4f,"
			"\"high\":%.4f}",
			ratio.median, ratio.least, ratio.most, ratio.low, ratio.high);
	}
	fputs("}\n", stream);
}

static void print_json(
	FILE *stream, const struct bench_options *options, const struct bench_series *series)
{
	unsigned int i;

	if (options->n_peers == 1)
		json_line(stream, options, series, 0);
	for (i = 1; i < options->n_peers; i++)
		json_line(stream, options, series, i);
	fflush(stream);
}

/* ---- files ---- */

static FILE *open_file(const struct bench_options *options, const char *rest)
{
	char path[512];
	FILE *stream;

	snprintf(path, sizeof(path), "%s%s", options->out, rest);
	stream = fopen(path, "w");
	if (!stream)
		fprintf(stderr, "%s: cannot write %s: %s\n", PROGRAM, path, strerror(errno));
	return stream;
}

/* Closes a file. -EIO: not all could be written. */
static int close_file(FILE **stream)
{
	int failed = 0;

	if (*stream) {
		failed = ferror(*stream);
		failed |= fclose(*stream) != 0;
	}
	*stream = NULL;
	if (failed)
		fprintf(stderr, "%s: a file could not be written\n", PROGRAM);
	return failed ? -EIO : 0;
}

static int open_files(const struct bench_options *options)
{
	struct bench_machine machine;

	json_file = open_file(options, ".jsonl");
	csv_file = json_file ? open_file(options, ".csv") : NULL;
	if (!csv_file)
		return -EIO;
	bench_machine(&machine);
	bench_machine_json(json_file, &machine);
	fprintf(csv_file, "# %s, %u processors, %.1f GiB, %s, %s, load %.2f\n"
		"# reading the clock takes %.1f ns; a loop was held up for %.2f us (p99), at most "
		"%.2f\n"
		"test,peer,unit,bytes,variable,value,runs,n,lost,wrong,median,min,p50,p90,p99,p999,"
		"max,application_bytes,wire_bytes,client_user_us,client_system_us,server_user_us,"
		"server_system_us,softirq_us\n",
		machine.processor, machine.processors, machine.memory_gib, machine.kernel,
		machine.date, machine.load, machine.clock_ns, machine.gap_p99_us, machine.gap_us);
	return 0;
}

/* Left empty where there are too few samples. */
static void csv_percentile(const struct bench_runs *runs, double fraction)
{
	fputc(',', csv_file);
	if (bench_has_percentile(runs, fraction))
		fprintf(csv_file, "%.4f", tool_percentile(runs->all, runs->n_all, fraction));
}

static void csv_row(const struct bench_options *options, const struct bench_series *series,
	unsigned int peer)
{
	const struct bench_runs *runs = &series->runs[peer];
	struct bench_cost each = bench_cost_each(runs);

	fprintf(csv_file, "%s,%s,%s,%" PRIu64 ",%s,%" PRIu64 ",%" PRIu64 ",%zu,%" PRIu64 ",%" PRIu64
		",%.4f,%.4f", options->test->name, options->peers[peer]->name,
		bench_unit(options->test->kind), series->size, variable_of(options), series->value,
		series->pairs, runs->n_all, runs->lost, runs->wrong,
		bench_median(runs->medians, series->pairs), runs->n_all ? runs->all[0] : 0);
	csv_percentile(runs, 0.5);
	csv_percentile(runs, 0.9);
	csv_percentile(runs, 0.99);
	csv_percentile(runs, 0.999);
	fprintf(csv_file, ",%.4f,%" PRIu64 ",%.1f,%.4f,%.4f,%.4f,%.4f,%.4f\n",
		runs->n_all ? runs->all[runs->n_all - 1] : 0, series->size,
		each.wire_bytes, each.client_user, each.client_system, each.server_user,
		each.server_system, each.softirq);
}

/* Percentiles that come ever closer to 1: half of what is left, in five steps. */
static void write_percentiles(FILE *stream, const struct bench_runs *runs)
{
	double fraction = 0, left = 1;
	unsigned int step = 0;
	size_t rank;

	fprintf(stream, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
		"1/(1-Percentile)");
	while (left * (double)runs->n_all >= 1) {
		rank = (size_t)(fraction * (double)runs->n_all);
		fprintf(stream, "%12.3f %2.12f %10zu %14.2f\n",
			tool_percentile(runs->all, runs->n_all, fraction), fraction,
			rank ? rank : 1, 1 / (1 - fraction));
		fraction += left / 10;
		if (++step % 5 == 0) {
			left /= 2;
			fraction = 1 - left;
		}
	}
	fprintf(stream, "%12.3f %2.12f %10zu\n", runs->all[runs->n_all - 1], 1.0, runs->n_all);
}

static int write_histogram(const struct bench_options *options, const struct bench_series *series,
	unsigned int peer)
{
	const struct bench_runs *runs = &series->runs[peer];
	double sum = 0, squares = 0, mean, variance;
	char rest[160];
	FILE *stream;
	size_t i;

	snprintf(rest, sizeof(rest), "-%s-%s-%" PRIu64 "-%" PRIu64 ".hgrm", options->test->name,
		options->peers[peer]->name, series->size, series->value);
	stream = open_file(options, rest);
	if (!stream)
		return -EIO;
	for (i = 0; i < runs->n_all; i++) {
		sum += runs->all[i];
		squares += runs->all[i] * runs->all[i];
	}
	mean = sum / (double)runs->n_all;
	variance = squares / (double)runs->n_all - mean * mean;
	write_percentiles(stream, runs);
	fprintf(stream, "#[Mean    = %12.3f, Variance       = %12.3f]\n"
		"#[Max     = %12.3f, Total count    = %12zu]\n#[Buckets = 0, SubBuckets = 0]\n",
		mean, variance, runs->all[runs->n_all - 1], runs->n_all);
	return close_file(&stream);
}

static int write_files(const struct bench_options *options, const struct bench_series *series)
{
	unsigned int i;
	int err = 0;

	print_json(json_file, options, series);
	for (i = 0; i < options->n_peers; i++)
		csv_row(options, series, i);
	for (i = 0; err == 0 && i < options->n_peers; i++)
		if (bench_less_is_better(options->test->kind) && series->runs[i].n_all)
			err = write_histogram(options, series, i);
	return err;
}

/* ---- all of it ---- */

int bench_report_begin(const struct bench_options *options)
{
	int err = options->out ? open_files(options) : 0;

	if (err == 0 && !options->json)
		print_heading(options);
	return err;
}

int bench_report(const struct bench_options *options, const struct bench_series *series)
{
	if (options->json)
		print_json(stdout, options, series);
	else
		print_table(options, series);
	fflush(stdout);
	return options->out ? write_files(options, series) : 0;
}

int bench_report_end(const struct bench_options *options)
{
	int err = close_file(&json_file), csv_err = close_file(&csv_file);

	(void)options;
	return err < 0 ? err : csv_err;
}

void bench_progress(const char *text)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K%s", text ? text : "");
}
