/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Services that are watched, and who watches them, for the tests of deaths. Knows nothing but
 * ripc.h. Both end when their input does.
 *
 *   lives hold CONTEXTS SERVICES [FIRST]
 *                                  so many contexts with so many services each, under private
 *                                  IDs, or from FIRST on; says the IDs, one a line, and "ready"
 *   lives watch                    reads IDs up to an empty line, and watches them; says "there"
 *                                  when all are, and then each that goes, as JSON
 */
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ripc/call.h"
#include "ripc/ripc.h"

#define CONTEXTS_MAX 256
#define STEP_MS      100

static struct ripc_context *contexts[CONTEXTS_MAX];

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static int has_ended(void)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char byte;

	return poll(&in, 1, 0) > 0 && read(0, &byte, 1) <= 0;
}

static int hold(uint32_t n_contexts, uint32_t n_services, uint64_t first)
{
	char byte;

	for (uint32_t i = 0; i < n_contexts && i < CONTEXTS_MAX; i++) {
		if (ripc_open(NULL, &contexts[i]))
			return 1;
		for (uint32_t k = 0; k < n_services; k++) {
			struct ripc_service *service;

			if (ripc_service_open(contexts[i], first ? first++ : 0, 0, &service))
				return 1;
			printf("%016" PRIx64 "\n", ripc_service_id(service));
		}
	}
	printf("ready\n");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}

static int read_ids(struct ripc_service *service)
{
	char line[64];
	int n = 0;

	while (fgets(line, sizeof(line), stdin) && line[0] != '\n') {
		if (ripc_watch(service, strtoull(line, NULL, 16), 0))
			return -1;
		n++;
	}
	return n;
}

static int watch(void)
{
	struct ripc_service *service;
	struct ripc_context *ctx;
	int n, there = 0;

	if (ripc_open(NULL, &ctx) || ripc_service_open(ctx, 0, 0, &service))
		return 1;
	setvbuf(stdin, NULL, _IONBF, 0); /* poll() sees what is left */
	n = read_ids(service);
	while (n > 0 && !has_ended()) {
		struct ripc_msg *msg;

		if (ripc_receive(service, STEP_MS, &msg))
			continue;
		if (msg->from_incarnation)
			there++;
		else
			printf("{\"gone\": \"%016" PRIx64 "\", \"at_us\": %" PRIu64 "}\n",
				msg->from, now_us());
		if (msg->from_incarnation && there == n)
			printf("there\n");
		fflush(stdout);
		ripc_msg_free(msg);
	}
	return ripc_close(ctx, 0);
}

int main(int argc, char **argv)
{
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "hold") == 0)
		return hold((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]),
			argc == 5 ? strtoull(argv[4], NULL, 0) : 0);
	if (argc == 2 && strcmp(argv[1], "watch") == 0)
		return watch();
	return 2;
}
