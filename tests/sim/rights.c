/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An authority in the simulated world: each node has a key of its own, which may be any service,
 * and may send to some. A right lasts, ends while services talk, or is granted then; when all has
 * calmed down each key gets all rights. The model is told when each right exists. A third of the
 * nodes looks at no rights: what these send, their receivers alone can refuse.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/net/crypto.h"
#include "ripc/keys.h"
#include "util/text.h"

#define WALL_S   1700000000u /* the wall clock when the world's is 0 */
#define FOREVER  100000u     /* seconds */
#define RETRY_US 5000u       /* a node that waits or stands still reads its keys later */
#define FILES    4

static const char *const files[FILES] = {"private", "secret", "authority", "capabilities"};
static char keys[SIM_NODES][65]; /* public, of each node */
static char authority[65];       /* public */

/* ---- directories ------------------------------------------------------------------------- */

static void path_of(char path[96], uint32_t slot, const char *name)
{
	snprintf(path, 96, "%s/n%u%s%s", sim_keys_dir, slot, *name ? "/" : "", name);
}

static bool file_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	return file && fchmod(fileno(file), 0600) == 0 && fputs(text, file) >= 0 &&
		fclose(file) == 0;
}

static bool node_make(const struct ripc__crypto *ops, void *lib, uint32_t slot)
{
	uint8_t secret[32], public[32];
	char path[96], text[66];

	memset(secret, 0x40 + (int)slot, sizeof(secret)); /* the same each time: a seed replays */
	if (ops->dh_public(lib, secret, public))
		return false;
	ripc__hex_write(keys[slot], public, 32);
	ripc__hex_write(text, secret, 32);
	path_of(path, slot, "");
	if (mkdir(path, 0700))
		return false;
	path_of(path, slot, "private");
	if (!file_write(path, text))
		return false;
	path_of(path, slot, "secret");
	memset(text, 'b', 64);
	text[64] = 0;
	return file_write(path, text);
}

bool sim_rights_make(void)
{
	char why[256], remedy[256], path[96], text[66];
	const struct ripc__crypto *ops = ripc__crypto_load(why, remedy);
	uint8_t secret[32], public[32];
	bool good;
	void *lib;

	if (!ops || ops->open(&lib))
		return false;
	memset(secret, 0x77, sizeof(secret));
	ripc__hex_write(text, secret, 32);
	snprintf(path, sizeof(path), "%s/authority.private", sim_keys_dir);
	good = file_write(path, text) && ops->sign_public(lib, secret, public) == 0;
	ripc__hex_write(authority, public, 32);
	for (uint32_t slot = 0; good && slot < SIM_NODES; slot++)
		good = node_make(ops, lib, slot);
	ops->close(lib);
	return good;
}

void sim_rights_remove(void)
{
	char path[96];

	for (uint32_t slot = 0; slot < SIM_NODES; slot++) {
		for (int i = 0; i < FILES; i++) {
			path_of(path, slot, files[i]);
			unlink(path);
		}
		path_of(path, slot, "");
		rmdir(path);
	}
	snprintf(path, sizeof(path), "%s/authority.private", sim_keys_dir);
	unlink(path);
}

void sim_rights_dir(const struct sim_node *node, char path[96])
{
	path_of(path, node->slot, "");
}

/* ---- capabilities ------------------------------------------------------------------------ */

static void line_add(FILE *file, uint32_t slot, uint32_t what, uint64_t id, uint64_t until_us)
{
	char text[RIPC_CAPABILITY], why[RIPC_KEYS_WHY];
	const struct ripc_grant grant = {.size = sizeof(grant), .key = keys[slot], .id = id,
		.what = what, .until_s = WALL_S + until_us / 1000000};

	if (ripc_keys_grant(sim_keys_dir, &grant, text, why) || fprintf(file, "%s\n", text) < 0)
		abort();
}

static FILE *capabilities_open(uint32_t slot)
{
	char path[96];
	FILE *file;

	path_of(path, slot, "capabilities");
	file = fopen(path, "w");
	if (!file || fchmod(fileno(file), 0600))
		abort();
	line_add(file, slot, RIPC_MAY_BE, 0, 1000000ull * FOREVER);
	return file;
}

/* The key of a node has new capabilities, all of them or what is granted late. */
static void granted(struct sim_world *world, struct sim_node *node, bool all)
{
	uint64_t end_us = 1000000ull * FOREVER;
	uint32_t slot = node->slot;
	FILE *file = capabilities_open(slot);

	if (all)
		line_add(file, slot, RIPC_MAY_SEND, 0, end_us);
	for (uint32_t i = 0; i < world->plan.n_services; i++) {
		struct sim_right *right = &world->rights[slot][i];

		if (all || right->is_late)
			model_right(world->model, slot, SIM_FIRST_ID + i, world->now_us, end_us);
		if (!all && (right->is_late || right->until_us))
			line_add(file, slot, RIPC_MAY_SEND, SIM_FIRST_ID + i,
				right->is_late ? end_us : right->until_us);
	}
	if (fclose(file))
		abort();
	sim_trace(world, "node %u gets rights", slot);
	if (node->ctx && ripc_keys_reload(node->ctx))
		model_fail(world->model, "keys cannot be read again");
	if (node->ctx)
		sim_node_schedule(node);
}

static void act_grant(struct sim_world *world, void *arg, uint64_t all)
{
	struct sim_node *node = arg;

	if (sim_failed(world) || (!all && world->all_granted))
		return;
	if (node->ctx && (node->waiting || node->stalled_until > world->now_us))
		sim_at(world, world->now_us + RETRY_US, act_grant, node, all);
	else
		granted(world, node, all);
}

static struct sim_right right_draw(const struct sim_world *world, struct sim_random *random)
{
	uint64_t end_us = 1000000ull * FOREVER, draw = sim_below(random, 10);
	uint64_t span_s = world->plan.span_us / 1000000 + 1;

	if (draw < 5)
		return (struct sim_right){.until_us = end_us};
	if (draw < 7)
		return (struct sim_right){.until_us = 1000000 * (2 + sim_below(random, span_s))};
	return (struct sim_right){.is_late = draw < 9};
}

/* Without the file a node looks at nobody's rights, not even its own. */
static void authority_put(struct sim_world *world, uint32_t slot)
{
	char path[96];

	path_of(path, slot, "authority");
	if ((slot + world->seed) % 3 == 0) {
		unlink(path);
		model_careless(world->model, slot);
	} else if (!file_write(path, authority)) {
		abort();
	}
}

void sim_rights_begin(struct sim_world *world)
{
	struct sim_random random;

	sim_random_seed(&random, world->seed ^ 0x5167);
	for (uint32_t slot = 0; slot < world->plan.n_nodes; slot++) {
		uint64_t late_us = world->now_us + sim_below(&random, world->plan.span_us);
		FILE *file = capabilities_open(slot);

		authority_put(world, slot);
		for (uint32_t i = 0; i < world->plan.n_services; i++) {
			struct sim_right right = right_draw(world, &random);

			world->rights[slot][i] = right;
			if (!right.until_us)
				continue;
			line_add(file, slot, RIPC_MAY_SEND, SIM_FIRST_ID + i, right.until_us);
			model_right(world->model, slot, SIM_FIRST_ID + i, 0, right.until_us);
		}
		if (fclose(file))
			abort();
		sim_at(world, late_us, act_grant, &world->nodes[slot], false);
	}
}

void sim_rights_calm(struct sim_world *world)
{
	world->all_granted = true;
	for (uint32_t slot = 0; slot < world->plan.n_nodes; slot++)
		sim_at(world, world->now_us, act_grant, &world->nodes[slot], true);
}
