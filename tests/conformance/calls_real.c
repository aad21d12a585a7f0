/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls by networks that programs use, between processes, too.
 *
 * usage: PROGRAM [--options OPTIONS] [BACKEND...]      (udp and shm, if none is named)
 */
#include <stdio.h>
#include <string.h>

#include "../unit/call_pair.h"

#define SKIPPED 77

static const struct ripc_config *probed;
static bool any_missing;

static int report(void *arg, const struct ripc_finding *finding)
{
	(void)arg;
	if (strcmp(finding->kind, "backend") || strcmp(finding->name, probed->backends) ||
			finding->usable)
		return 0;
	printf("skipped: %s: %s (%s)\n", finding->name, finding->detail, finding->remedy);
	any_missing = true;
	return 0;
}

/* Can all of them run? */
static bool all_run(const struct calls_world *world)
{
	for (uint32_t i = 0; i < world->n_backends; i++) {
		const struct ripc_config cfg = {.size = sizeof(cfg),
			.backends = world->backends[i], .options = world->options};

		probed = &cfg;
		if (ripc_probe(&cfg, report, NULL))
			any_missing = true;
	}
	return !any_missing;
}

int calls_world_make(struct calls_world *world, int n_args, char **args)
{
	*world = (struct calls_world){.backends = {"udp", "shm"}, .n_backends = 2};
	if (n_args > 2 && strcmp(args[1], "--options") == 0) {
		world->options = args[2];
		n_args -= 2;
		args += 2;
	}
	if (n_args > 1)
		world->n_backends = 0;
	for (int i = 1; i < n_args && world->n_backends < CALLS_BACKENDS_MAX; i++)
		world->backends[world->n_backends++] = args[i];
	return all_run(world) ? 0 : SKIPPED;
}
