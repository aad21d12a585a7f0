/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The addresses of this host, which stand in its nodes. Core learns of a change, and stale nodes
 * are written again, or when the session is back. Readers that have asked for an ID watch its node.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "resolvers/inet.h"
#include "store.h"

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
