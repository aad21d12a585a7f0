/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls by the backends of the tests.
 *
 * usage: PROGRAM loop|seqpacket
 */
#include "loop/loop.h"

#include <string.h>

#include "../unit/call_pair.h"
#include "core/net/env.h"
#include "seqpacket/seqpacket.h"

static const struct ripc__backend *backends[2];
static struct ripc__env env;
static struct ripc__loop_hub *hub;

static void hub_open(void)
{
	ck_assert_int_eq(ripc__loop_hub_open(&hub), 0);
}

static void hub_close(void)
{
	ripc__loop_hub_close(hub);
}

static int ours_open(const struct ripc_config *cfg, struct ripc_context **ctx)
{
	ripc__env_init(&env);
	env.arg = hub;
	env.backends = backends;
	return ripc__open_in(cfg, &env, ctx);
}

int calls_world_make(struct calls_world *world, int n_args, char **args)
{
	bool is_loop = n_args > 1 && strcmp(args[1], "loop") == 0;

	backends[0] = is_loop ? &ripc__loop_backend : &seqpacket_backend;
	*world = (struct calls_world){.backends = {backends[0]->name}, .n_backends = 1,
		.open = ours_open, .one_process = is_loop};
	if (is_loop) {
		world->begin = hub_open;
		world->end = hub_close;
	}
	return 0;
}
