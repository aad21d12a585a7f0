/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "ripc metrics": what the contexts of this user do, for Prometheus and what reads the same.
 */
#include <errno.h>
#include <getopt.h>
#include <unistd.h>
#include "look/metrics.h"
#include "ripc_tool.h"

#define ANSWER_MS 300 /* as long a context may take to write its page */

static const char usage_text[] =
	"usage: ripc metrics [--listen [HOST:]PORT]\n"
	"\n"
	"Prints metrics of all contexts of this user on this host (root: of all users) in the\n"
	"OpenMetrics format: once, or with --listen for each request. Every client that can\n"
	"connect can read them.\n"
	"\n"
	"  --listen [HOST:]PORT   serves http://HOST:PORT/metrics; HOST defaults to 127.0.0.1\n";

static int print_all(void *arg, FILE *to)
{
	struct look *look = arg;
	int error = look_update(look, ANSWER_MS);

	if (!error)
		metrics_print(to, look);
	return error;
}

static int serve(struct look *look, const char *where)
{
	char listening[128];
	int fd = http_listen(where, listening), error;

	if (fd < 0)
		return tool_failed(PROGRAM, where, fd);
	printf("http://%s/metrics\n", listening);
	fflush(stdout);
	error = http_serve(fd, print_all, look);
	close(fd);
	return tool_failed(PROGRAM, "cannot serve metrics", error);
}

int ripc_metrics_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"listen", required_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	static struct look look;
	const char *where = NULL;
	int option, error;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return TOOL_OK;
		}
		if (option != 'l')
			return usage_error(usage_text, "invalid option");
		where = optarg;
	}
	if (optind < argc)
		return usage_error(usage_text, "no argument is allowed");
	if (where)
		return serve(&look, where);
	error = print_all(&look, stdout);
	look_end(&look);
	return error ? tool_failed(PROGRAM, "cannot read contexts", error) : TOOL_OK;
}
