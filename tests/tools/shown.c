/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process with many services, to be looked at by "ripc top". Talks with the other processes of
 * its kind as it is told, line by line; answers each line with one.
 *
 *   shown INDEX PROCESSES SERVICES BASE    service n of process i has the ID BASE + 256 i + n;
 *                                          service 0 is a member of a group
 *
 *   load     from now on its services send to those of the others
 *   idle     no more
 *   stats    the bytes of struct ripc_stats, in hexadecimal
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ripc/group.h"
#include "ripc/ripc.h"

#define SERVICES_MAX 64

struct shown {
	struct ripc_context *ctx;
	struct ripc_service *services[SERVICES_MAX];
	uint64_t index, n_processes, n_services, base, round;
	int loaded;
};

static void check(const char *what, int error)
{
	if (error >= 0)
		return;
	fprintf(stderr, "shown: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void open_all(struct shown *shown)
{
	struct ripc_config config = RIPC_INIT(struct ripc_config);

	check("open", ripc_open(&config, &shown->ctx));
	for (uint64_t i = 0; i < shown->n_services; i++)
		check("service", ripc_service_open(shown->ctx,
			shown->base + 256 * shown->index + i, 0, &shown->services[i]));
	check("join", ripc_join(shown->services[0], 0xffull << 56 | (shown->base & ~0ull >> 8)));
}

static void take_all(struct shown *shown)
{
	struct ripc_msg *message;

	for (uint64_t i = 0; i < shown->n_services; i++) {
		while (ripc_receive(shown->services[i], 0, &message) == 0)
			ripc_msg_free(message);
	}
}

/* Each service sends shorts to one of another process, and every eighth time a long one. */
static void talk(struct shown *shown)
{
	static char bytes[3000];
	uint64_t other = (shown->index + 1 + shown->round % (shown->n_processes - 1)) %
		shown->n_processes;

	for (uint64_t i = 0; i < shown->n_services; i++) {
		uint64_t to = shown->base + 256 * other + (i + shown->round) % shown->n_services;
		struct iovec item = {bytes, 100 + i};

		(void)ripc_send_short(shown->services[i], to, &item, 1);
		item.iov_len = sizeof(bytes);
		if (shown->round % 8 == 0)
			(void)ripc_send_long(shown->services[i], to, &item, 1, 500);
	}
	shown->round++;
}

static void say_stats(struct shown *shown)
{
	struct ripc_stats stats = RIPC_INIT(struct ripc_stats);

	check("stats", ripc_stats_get(shown->ctx, &stats));
	for (size_t i = 0; i < sizeof(stats); i++)
		printf("%02x", ((unsigned char *)&stats)[i]);
	printf("\n");
}

static void obey(struct shown *shown, const char *line)
{
	if (strcmp(line, "stats\n") == 0) {
		say_stats(shown);
	} else {
		shown->loaded = strcmp(line, "load\n") == 0;
		printf("ok\n");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	struct shown shown = {0};
	char line[64];

	if (argc != 5)
		return 2;
	setvbuf(stdin, NULL, _IONBF, 0);
	shown.index = strtoull(argv[1], NULL, 0);
	shown.n_processes = strtoull(argv[2], NULL, 0);
	shown.n_services = strtoull(argv[3], NULL, 0);
	shown.base = strtoull(argv[4], NULL, 0);
	if (shown.n_services > SERVICES_MAX)
		return 2;
	open_all(&shown);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		if (poll(&input, 1, shown.loaded ? 1 : 20) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			obey(&shown, line);
		}
		if (shown.loaded)
			talk(&shown);
		take_all(&shown);
	}
	return ripc_close(shown.ctx, 0) == 0 ? 0 : 1;
}
