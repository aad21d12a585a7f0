/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of this host, which stand in its nodes. When they change, core learns of it, and
 * each node that says something else is written again: a public one in a transaction that also looks
 * for our child, as another holder may have the ID by now. Whoever has asked for it watches the
 * node. What cannot be written while the store is away is written when the session is back.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "resolvers/changes.h"
#include "store.h"

/* A transaction that is under way. */
struct rewriting {
	struct request request;
	uint64_t moves;
	zoo_op_result_t results[2];
	zoo_op_t ops[2];
	char paths[2][STORE_PATH];
	uint8_t value[STORE_VALUE];
};

void ripc__moved_open(struct store *store)
{
	struct epoll_event event = {.events = EPOLLIN};

	store->changes = ripc__changes_open();
	if (store->changes >= 0)
		(void)epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->changes, &event);
}

void ripc__moved_close(const struct store *store)
{
	if (store->changes >= 0)
		close(store->changes);
}

/* ---- writing again ----------------------------------------------------------------------- */

/* Not done: the claim is made anew in the next session, or somebody else has the ID. */
static void rewritten(int rc, const void *data)
{
	struct rewriting *rewriting = (void *)(uintptr_t)data;
	struct store *store = rewriting->request.store;
	struct claim *claim = ripc__map_get(&store->claims, rewriting->request.id);

	if (rc == ZOK && claim && claim->serial == rewriting->request.serial)
		claim->moves = rewriting->moves;
	free(rewriting);
}

static void set_done(int rc, const struct Stat *stat, const void *data)
{
	(void)stat;
	rewritten(rc, data);
}

static int node_write(struct store *store, const struct claim *claim, struct rewriting *rewriting)
{
	size_t len = ripc__claim_value(store, claim, rewriting->value);
	char *value = (char *)rewriting->value;

	ripc__session_sends(store);
	ripc__path_make(store, rewriting->paths[0], claim->id, claim->private_id);
	if (claim->private_id)
		return zoo_aset(store->zh, rewriting->paths[0], value, (int)len, -1, set_done,
			rewriting);
	ripc__path_child(store, rewriting->paths[1], claim->id, claim->incarnation);
	zoo_check_op_init(&rewriting->ops[0], rewriting->paths[1], -1);
	zoo_set_op_init(&rewriting->ops[1], rewriting->paths[0], value, (int)len, -1, NULL);
	return zoo_amulti(store->zh, 2, rewriting->ops, rewriting->results, rewritten, rewriting);
}

void ripc__claim_rewrite(struct store *store, struct claim *claim)
{
	struct rewriting *rewriting;

	if (claim->state != CLAIM_MADE || claim->session != store->session ||
			claim->moves == store->moves || !store->session)
		return;
	rewriting = calloc(1, sizeof(*rewriting));
	if (!rewriting)
		return;
	rewriting->request = (struct request){.store = store, .id = claim->id,
		.serial = claim->serial};
	rewriting->moves = store->moves;
	if (node_write(store, claim, rewriting) != ZOK)
		free(rewriting);
}

/* ---- changes ----------------------------------------------------------------------------- */

/* Private nodes and members are like public ones in this: what is stale is written again. */
static void rewrite_all(struct store *store)
{
	struct claim *claim;
	uint32_t at = 0;

	while ((claim = ripc__map_next(&store->claims, &at)))
		ripc__claim_rewrite(store, claim);
	ripc__joined_renew(store);
}

bool ripc__moved_step(struct store *store)
{
	if (!ripc__changes_read(store->changes) || !ripc__addresses_look(store))
		return false;
	store->moves++;
	if (store->session)
		rewrite_all(store);
	return true;
}
