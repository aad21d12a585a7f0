/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions shared by the command line tools: reading arguments, statistics, time, and JSON.
 * Functions that can fail return 0 or a negative errno and leave outputs untouched.
 */
#ifndef TOOLS_COMMON_H
#define TOOLS_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The meaning of the exit statuses, everywhere. */
enum tool_status { TOOL_OK, TOOL_FAILED, TOOL_USAGE };

/* A whole unsigned number, decimal or 0x..., between least and most. */
int tool_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value);
/* A number of bytes: 50, 64K, 8M, 1G. */
int tool_parse_bytes(const char *text, uint64_t *value);
/* Up to max numbers of bytes, or ranges FROM:TO:STEP, separated by commas. Returns how many. */
int tool_parse_sizes(const char *text, uint64_t *sizes, unsigned int max);
/* A service: a number if it reads like one, else a name. 0 is not a service. */
int tool_parse_service(const char *text, uint64_t *id);

uint64_t tool_now_ns(void);
/* Sleeps for ns nanoseconds; less if a signal comes. */
void tool_sleep_ns(uint64_t ns);

/* Sorts in place: the others below need sorted values. */
void tool_sort(double *values, size_t n);
double tool_median(const double *sorted, size_t n);
/* The least value that at least this fraction of all is not above; 0 of none. */
double tool_percentile(const double *sorted, size_t n, double fraction);

/* Prints text as a JSON string with its quotes. */
void tool_json_string(FILE *stream, const char *text);

/* Names an option's value that is wrong; arg is optarg: NULL if getopt_long() has said what is. */
void tool_bad_value(const char *program, const char *arg);

/* Prints "PROGRAM: what: why" on stderr and returns TOOL_FAILED. */
int tool_failed(const char *program, const char *what, int err);

/* For ripc_config.log: errors and warnings go to stderr; arg is the program's name. */
void tool_log(void *arg, int level, const char *text);

#endif
