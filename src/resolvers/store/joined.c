/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members of groups that live here, as nodes in the store. A member has a node of its own, which
 * its incarnation names: so nobody else's is in the way. One that is there already was made by an
 * attempt whose end is not known, or in a session that has ended, and is made anew.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ripc/ripc.h"
#include "store.h"

#define TRIES_MAX 16u /* the nodes above are missing, or go at that moment */

enum joined_state { JOINED_WANTED, JOINED_MAKING, JOINED_MADE, JOINED_LEAVING };

struct joined {
	uint64_t group, incarnation;
	uint64_t serial;  /* of its request: those of earlier ones do not count */
	uint64_t moves;   /* store->moves, when it was written */
	int64_t session;  /* whose node it is, if it is made */
	uint32_t tries;
	enum joined_state state;
};

static void send_join(struct store *store, struct joined *joined);

/* Incarnations are random numbers. */
static uint64_t key_of(uint64_t group, uint64_t incarnation)
{
	return group ^ incarnation;
}

/* What a completion is about; NULL: another request has followed. Frees the request. */
static struct joined *joined_of(struct request *request)
{
	struct joined *joined = ripc__map_get(&request->store->joined, request->id);
	bool is_it = joined && joined->serial == request->serial;

	free(request);
	return is_it ? joined : NULL;
}

static struct request *request_of(struct store *store, struct joined *joined)
{
	joined->serial = ++store->serial;
	ripc__session_sends(store);
	return ripc__request_make(store, key_of(joined->group, joined->incarnation),
		joined->serial);
}

/* ---- joining ----------------------------------------------------------------------------- */

/* The request that follows sees whether it was done. */
static void node_made(int rc, const char *value, const void *data)
{
	(void)rc;
	(void)value;
	(void)data;
}

static void node_gone(int rc, const void *data)
{
	node_made(rc, NULL, data);
}

/* What the group's node stands on. The first one is for all clusters. */
static void shelves_make(struct store *store, const char *container)
{
	char path[STORE_PATH];
	size_t n = 0;

	for (const char *at = container; *at; at++) {
		if (*at == '/' && n) {
			path[n] = '\0';
			zoo_acreate(store->zh, path, NULL, -1, at == strchr(container + 1, '/') ?
				&store->acl_top : &store->acl, ZOO_PERSISTENT, node_made, NULL);
		}
		path[n++] = *at;
	}
}

static void say_refused(struct store *store, const struct joined *joined)
{
	const struct ripc__host *host = &store->host;
	char path[STORE_PATH];

	if (store->refused_logged)
		return;
	store->refused_logged = true;
	ripc__path_group(store, path, joined->group, joined->incarnation);
	host->log(host->arg, RIPC_LOG_ERROR, "store: writing %.120s is refused: set store.auth to "
		"that of the programs that joined before, or use another store.cluster", path);
}

static void join_made(int rc, const char *value, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct joined *joined = joined_of(request);

	(void)value;
	if (!joined)
		return;
	joined->state = rc == ZOK ? JOINED_MADE : JOINED_WANTED;
	joined->session = store->session;
	if (rc == ZOK || !store->zh)
		return;
	if ((rc == ZNONODE || rc == ZNODEEXISTS) && ++joined->tries <= TRIES_MAX)
		send_join(store, joined);
	else if (ripc__session_error(rc) == -EACCES)
		say_refused(store, joined); /* the next session tries again */
}

static int joined_value(struct store *store, const struct joined *joined,
		uint8_t bytes[STORE_VALUE])
{
	struct value value = {.incarnation = joined->incarnation, .port = store->port,
		.context = store->host.context, .life = store->host.life};

	ripc__addresses_get(store, &value);
	return (int)ripc__value_encode(&value, bytes);
}

static void send_join(struct store *store, struct joined *joined)
{
	struct request *request = request_of(store, joined);
	char container[STORE_PATH], path[STORE_PATH];
	uint8_t bytes[STORE_VALUE];
	int len;

	joined->state = JOINED_WANTED;
	joined->moves = store->moves;
	if (!request)
		return;
	ripc__path_group(store, container, joined->group, 0);
	ripc__path_group(store, path, joined->group, joined->incarnation);
	len = joined_value(store, joined, bytes);
	if (joined->tries) { /* mostly all is as it should be */
		shelves_make(store, container);
		zoo_adelete(store->zh, path, -1, node_gone, NULL);
	}
	zoo_acreate(store->zh, container, NULL, -1, &store->acl, ZOO_CONTAINER, node_made, NULL);
	if (zoo_acreate(store->zh, path, (const char *)bytes, len, &store->acl, ZOO_EPHEMERAL,
			join_made, request) == ZOK)
		joined->state = JOINED_MAKING;
	else
		free(request);
}

int ripc__joined_join(struct store *store, uint64_t group, uint64_t incarnation)
{
	struct joined *joined = ripc__map_get(&store->joined, key_of(group, incarnation));
	int error;

	if (joined && joined->state != JOINED_LEAVING)
		return -EADDRINUSE;
	if (!joined) {
		joined = calloc(1, sizeof(*joined));
		if (!joined)
			return -ENOMEM;
		error = ripc__map_put(&store->joined, key_of(group, incarnation), joined);
		if (error) {
			free(joined);
			return error;
		}
	}
	*joined = (struct joined){.group = group, .incarnation = incarnation};
	if (store->session)
		send_join(store, joined);
	return 0;
}

static void addresses_written(int rc, const struct Stat *stat, const void *data)
{
	struct joined *joined = joined_of((void *)(uintptr_t)data);

	(void)stat;
	if (joined && rc != ZOK)
		joined->moves--; /* the next session tries again */
}

/* The addresses of this host have changed: the node says so. */
static void send_addresses(struct store *store, struct joined *joined)
{
	struct request *request = request_of(store, joined);
	char path[STORE_PATH];
	uint8_t bytes[STORE_VALUE];
	int len = joined_value(store, joined, bytes);

	joined->moves = store->moves;
	ripc__path_group(store, path, joined->group, joined->incarnation);
	if (request && zoo_aset(store->zh, path, (const char *)bytes, len, -1, addresses_written,
			request) != ZOK)
		free(request);
}

/* ---- leaving ----------------------------------------------------------------------------- */

static void joined_free(struct store *store, struct joined *joined)
{
	ripc__map_remove(&store->joined, key_of(joined->group, joined->incarnation));
	free(joined);
}

/* When nobody knows whether it was done, the node goes with the session, or at the next try. */
static void left(int rc, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct joined *joined = joined_of(request);

	if (joined && (ripc__session_error(rc) != -EHOSTUNREACH || !store->zh))
		joined_free(store, joined);
}

static void send_leave(struct store *store, struct joined *joined)
{
	struct request *request = request_of(store, joined);
	char path[STORE_PATH];

	ripc__path_group(store, path, joined->group, joined->incarnation);
	if (request && zoo_adelete(store->zh, path, -1, left, request) != ZOK)
		free(request);
}

/* A request under way may be done yet; the store keeps the order. */
void ripc__joined_leave(struct store *store, uint64_t group, uint64_t incarnation)
{
	struct joined *joined = ripc__map_get(&store->joined, key_of(group, incarnation));

	if (!joined || joined->state == JOINED_LEAVING)
		return;
	if (!store->zh) {
		joined_free(store, joined);
		return;
	}
	joined->state = JOINED_LEAVING;
	if (store->session)
		send_leave(store, joined);
}

/* ---- sessions ---------------------------------------------------------------------------- */

void ripc__joined_renew(struct store *store)
{
	struct joined *joined;
	uint32_t at = 0;

	while ((joined = ripc__map_next(&store->joined, &at))) {
		if (joined->state == JOINED_LEAVING) {
			send_leave(store, joined);
		} else if (joined->state == JOINED_WANTED || (joined->state == JOINED_MADE &&
				joined->session != store->session)) {
			joined->tries = 0;
			send_join(store, joined);
		} else if (joined->state == JOINED_MADE && joined->moves != store->moves) {
			send_addresses(store, joined);
		}
	}
}

void ripc__joined_free(struct store *store)
{
	struct joined *joined;
	uint32_t at = 0;

	while ((joined = ripc__map_next(&store->joined, &at)))
		free(joined);
	ripc__map_free(&store->joined);
}
