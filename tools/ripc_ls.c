/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "ripc ls": lists the services that can be found from here, each once.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <ripc/list.h>
#include <stdlib.h>
#include <string.h>
#include "ripc_tool.h"

static const char usage_text[] =
	"usage: ripc ls [--json] [--timeout MS]\n"
	"\n"
	"Lists the services that can be found: ID, incarnation, whether on this host, address.\n"
	"Each member of a group on this host has a line; members on other hosts are not listed.\n"
	"Services of other users on this host, and hosts that queries do not reach, are not\n"
	"found. The search continues while it finds more.\n"
	"\n"
	"  --timeout MS   shortest time of the search (default 500)\n"
	"  --json         one JSON object per service\n";

struct services {
	struct ripc_listing *list;
	size_t n, capacity;
	int no_memory;
	uint64_t found_ns; /* the last one */
};

static int take_listing(void *arg, const struct ripc_listing *found)
{
	struct services *services = arg;
	size_t capacity = services->capacity ? services->capacity * 2 : 64;
	struct ripc_listing *list;

	if (services->n == services->capacity) {
		list = realloc(services->list, capacity * sizeof(*list));
		if (!list) {
			services->no_memory = 1;
			return 1;
		}
		services->list = list;
		services->capacity = capacity;
	}
	services->found_ns = tool_now_ns();
	services->list[services->n++] = *found;
	return 0;
}

static int compare_services(const void *a, const void *b)
{
	const struct ripc_listing *left = a, *right = b;

	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	if (left->incarnation != right->incarnation)
		return left->incarnation < right->incarnation ? -1 : 1;
	/* Records of this host arrive first, and are shown. */
	return right->local - left->local;
}

/* Two sources may have found the same service. */
static void keep_each_once(struct services *services)
{
	struct ripc_listing *list = services->list;
	size_t i, n = 0;

	if (services->n > 0)
		qsort(list, services->n, sizeof(*list), compare_services);
	for (i = 0; i < services->n; i++)
		if (n == 0 || list[n - 1].id != list[i].id ||
			list[n - 1].incarnation != list[i].incarnation)
			list[n++] = list[i];
	services->n = n;
}

static const char *address_of(const struct ripc_listing *service)
{
	return service->address[0] ? service->address : "(no network in common)";
}

static void print_table(const struct services *services)
{
	const struct ripc_listing *service;
	size_t i;

	printf("%-18s  %-18s  %-6s  %-10s  %s\n", "service", "incarnation", "where", "source",
		"address");
	for (i = 0; i < services->n; i++) {
		service = &services->list[i];
		printf("0x%016" PRIx64 "  0x%016" PRIx64 "  %-6s  %-10s  %s%s\n", service->id,
			service->incarnation, service->local ? "here" : "remote", service->source,
			address_of(service),
			tool_is_group(service->id) ? " (member of a group)" : "");
	}
}

/* 64-bit numbers go as strings: many readers of JSON keep 53 bits only. */
static void print_json(const struct services *services)
{
	const struct ripc_listing *service;
	size_t i;

	for (i = 0; i < services->n; i++) {
		service = &services->list[i];
		printf("{\"id\":\"0x%016" PRIx64 "\",\"incarnation\":\"0x%016" PRIx64
		       "\",\"local\":%s,"
		       "\"source\":",
			service->id, service->incarnation, service->local ? "true" : "false");
		tool_json_string(stdout, service->source);
		fputs(",\"address\":", stdout);
		tool_json_string(stdout, service->address);
		printf(",\"group\":%s}\n", tool_is_group(service->id) ? "true" : "false");
	}
}

/* Goes on, for twice as long, while something new was found in the second half of the time. */
static int look(struct ripc_context *ctx, int timeout_ms, struct services *services)
{
	uint64_t half_ns;
	size_t before;
	int err;

	do {
		before = services->n;
		half_ns = tool_now_ns() + (uint64_t)timeout_ms * 500000;
		err = ripc_list(ctx, timeout_ms, take_listing, services);
		keep_each_once(services);
		timeout_ms = timeout_ms < 30000 ? 2 * timeout_ms : timeout_ms;
	} while (err >= 0 && services->n > before && !services->no_memory &&
		services->found_ns > half_ns);
	return err;
}

static int list_services(int timeout_ms, int json)
{
	struct ripc_config config = {
		.size = sizeof(config),
		.log = tool_log,
		.log_arg = (void *)PROGRAM,
	};
	struct services services = {0};
	struct ripc_context *ctx;
	int err = ripc_open(&config, &ctx);

	if (err < 0)
		return tool_cannot_start(err);
	err = look(ctx, timeout_ms, &services);
	ripc_close(ctx, 0);
	if (err >= 0 && services.no_memory)
		err = -ENOMEM;
	if (err >= 0 && json)
		print_json(&services);
	else if (err >= 0)
		print_table(&services);
	free(services.list);
	return err < 0 ? tool_failed(PROGRAM, "cannot search for services", err) : TOOL_OK;
}

int ripc_ls_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	uint64_t timeout_ms = 500;
	int option, json = 0;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return TOOL_OK;
		}
		if (option == 'j') {
			json = 1;
		} else if (option != 't' ||
				tool_parse_number(optarg, 1, 3600000, &timeout_ms) < 0) {
			tool_bad_value(PROGRAM, optarg);
			return usage_error(usage_text, "invalid option");
		}
	}
	if (optind < argc)
		return usage_error(usage_text, "no argument is allowed");
	return list_services((int)timeout_ms, json);
}
