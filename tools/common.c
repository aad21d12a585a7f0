/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements common.h: what the command line tools share.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ripc/ripc.h>
#include "common.h"

int tool_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	int is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	unsigned long long number;
	char *end;

	/* strtoull() alone would accept blanks and signs. */
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, is_hex ? 16 : 10);
	/* In a bare "0x" the parser takes the 0 and leaves the x. */
	if (errno == ERANGE)
		return -ERANGE;
	if (errno != 0 || *end != '\0')
		return -EINVAL;
	if (number < least || number > most)
		return -ERANGE;
	*value = number;
	return 0;
}

int tool_parse_bytes(const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	unsigned long long number;
	unsigned int shift = 0;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	number = strtoull(text, &end, 10);
	suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix) {
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
		end++;
	}
	if (errno != 0 || *end != '\0')
		return -EINVAL;
	if (number > UINT64_MAX >> shift)
		return -ERANGE;
	*value = (uint64_t)number << shift;
	return 0;
}

/* FROM:TO:STEP, both ends included. Returns how many, or a negative errno. */
static int parse_range(char *text, uint64_t *values, unsigned int max)
{
	uint64_t from, to, step;
	char *to_text = strchr(text, ':'), *step_text = to_text ? strchr(to_text + 1, ':') : NULL;
	unsigned int n = 0;

	if (!step_text)
		return -EINVAL;
	*to_text++ = *step_text++ = '\0';
	if (tool_parse_bytes(text, &from) < 0 || tool_parse_bytes(to_text, &to) < 0 ||
		tool_parse_bytes(step_text, &step) < 0 || step == 0 || from > to)
		return -EINVAL;
	for (; from <= to; from += step) {
		if (n == max)
			return -E2BIG;
		values[n++] = from;
		if (to - from < step)
			break;
	}
	return (int)n;
}

static int parse_one_or_range(char *word, uint64_t *values, unsigned int max)
{
	int err;

	if (strchr(word, ':'))
		return parse_range(word, values, max);
	err = max ? tool_parse_bytes(word, values) : -E2BIG;
	return err < 0 ? err : 1;
}

int tool_parse_sizes(const char *text, uint64_t *sizes, unsigned int max)
{
	char *copy = strdup(text), *word, *state;
	unsigned int n = 0;
	int got = 0;

	if (!copy)
		return -ENOMEM;
	for (word = strtok_r(copy, ",", &state); word && got >= 0;
		word = strtok_r(NULL, ",", &state)) {
		got = parse_one_or_range(word, sizes + n, max - n);
		n += got > 0 ? (unsigned int)got : 0;
	}
	free(copy);
	if (got < 0)
		return got;
	return n > 0 ? (int)n : -EINVAL;
}

int tool_parse_service(const char *text, uint64_t *id)
{
	uint64_t number;
	int err = tool_parse_number(text, 1, UINT64_MAX, &number);

	if (err == 0) {
		*id = number;
		return 0;
	}
	/* 0, and what no 64 bits hold, are mistakes rather than names. */
	if (err == -ERANGE || text[0] == '\0' || strspn(text, "0123456789") == strlen(text))
		return -EINVAL;
	*id = ripc_id_from_name(text);
	return 0;
}

uint64_t tool_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void tool_sleep_ns(uint64_t ns)
{
	struct timespec span = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	nanosleep(&span, NULL);
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

void tool_sort(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_doubles);
}

double tool_median(const double *sorted, size_t n)
{
	if (n == 0)
		return 0;
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double tool_percentile(const double *sorted, size_t n, double fraction)
{
	/* Extra precision of a processor beyond a double would count as one more rank. */
	volatile double share = fraction * (double)n;
	size_t rank = (size_t)share;

	if (n == 0)
		return 0;
	if ((double)rank < share || rank == 0)
		rank++;
	return sorted[(rank < n ? rank : n) - 1];
}

void tool_json_string(FILE *stream, const char *text)
{
	const unsigned char *byte = (const unsigned char *)text;

	fputc('"', stream);
	for (; *byte; byte++) {
		if (*byte == '"' || *byte == '\\')
			fprintf(stream, "\\%c", *byte);
		else if (*byte < 0x20)
			fprintf(stream, "\\u%04x", *byte);
		else
			fputc(*byte, stream);
	}
	fputc('"', stream);
}

void tool_bad_value(const char *program, const char *arg)
{
	if (arg)
		fprintf(stderr, "%s: \"%s\" is not a valid value of this option\n", program, arg);
}

int tool_failed(const char *program, const char *what, int err)
{
	fprintf(stderr, "%s: %s: %s\n", program, what, ripc_strerror(err));
	return TOOL_FAILED;
}

void tool_log(void *arg, int level, const char *text)
{
	if (level <= RIPC_LOG_WARN)
		fprintf(stderr, "%s: %s\n", (const char *)arg, text);
}
