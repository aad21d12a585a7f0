/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IDs that are looked up. The store names the owner; the query is then sent to that owner by
 * UDP. The container is watched from then on: when another service claims the ID the store
 * reports it, its owner is read again, and core gets a hint.
 *
 * "Not found" is reported only after the server has caught up with its leader (sync) and has
 * been read again: a server of several may be behind, and a service that has just registered may
 * have notified us. As long as the store is away, the last known owner is queried: only the
 * owner of the ID answers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define KNOWN_MAX 65536u

static void send_read(struct store *store, struct known *known, bool is_private);
static void container_changed(zhandle_t *zh, int type, int state, const char *path, void *arg);

/* ---- queries ----------------------------------------------------------------------------- */

static void query_drop(struct known *known)
{
	free(known->query);
	known->query = NULL;
}

static void query_send(const struct store *store, struct known *known)
{
	if (known->query)
		ripc__value_send(store, &known->value, known->query, known->query_len);
	query_drop(known);
}

static void tell(struct store *store, struct known *known, enum ripc__source_kind kind)
{
	ripc__news(store, &known->told, &(struct ripc__source_event){.kind = kind,
		.id = known->id, .incarnation = known->value.incarnation});
}

/* ---- answers of the store ---------------------------------------------------------------- */

static void read_ended(struct store *store, struct known *known, bool is_there)
{
	bool again = known->again && !is_there;

	known->reading = known->again = known->confirming = false;
	if (again && store->zh) {
		send_read(store, known, false);
		return;
	}
	if (!is_there)
		known->value.n_addrs = 0;
	tell(store, known, is_there ? RIPC_SOURCE_HELD : RIPC_SOURCE_NOBODY);
	query_send(store, known);
}

static void unavailable(struct store *store, struct known *known)
{
	known->reading = known->again = known->confirming = false;
	tell(store, known, RIPC_SOURCE_UNAVAILABLE);
	query_send(store, known);
}

static struct known *known_of(const void *data)
{
	struct request *request = (void *)(uintptr_t)data;

	return ripc__map_get(&request->store->known, request->id);
}

/* A container alone, with INT64_MIN as owner, is free; an ephemeral node has an owner. */
static bool is_held(int rc, const char *bytes, int len, const struct Stat *stat,
		struct value *value)
{
	bool is_ephemeral = rc == ZOK && stat->ephemeralOwner &&
		stat->ephemeralOwner != INT64_MIN;

	return rc == ZOK && (stat->numChildren || is_ephemeral) &&
		ripc__value_decode(bytes, len, value) == 0;
}

/* Checks that the ID is certainly neither among the public ones nor among the private ones. */
static void confirm(struct store *store, struct known *known)
{
	char path[STORE_PATH];

	known->confirming = true;
	ripc__session_sends(store);
	ripc__path_make(store, path, SHELF_PUBLIC, known->id, 0);
	zoo_async(store->zh, path, ripc__result_ignore, NULL);
	send_read(store, known, false);
}

static void holder_read(struct store *store, struct known *known, int rc, bool is_private)
{
	int error = rc == ZNONODE ? 0 : ripc__session_error(rc);

	if (!store->zh || error)
		unavailable(store, known);
	else if (!is_private)
		send_read(store, known, true);
	else if (!known->confirming)
		confirm(store, known);
	else
		read_ended(store, known, false);
}

static void value_read(int rc, const char *bytes, int len, const struct Stat *stat,
		const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct known *known = known_of(data);
	bool is_private = request->serial;
	struct value value;

	free(request);
	if (!known || !known->reading)
		return;
	if (!is_held(rc, bytes, len, stat, &value)) {
		holder_read(store, known, rc, is_private);
		return;
	}
	known->value = value;
	read_ended(store, known, true);
}

static void send_read(struct store *store, struct known *known, bool is_private)
{
	struct request *request = ripc__request_make(store, known->id, is_private);
	char path[STORE_PATH];
	int rc = ZSYSTEMERROR;

	known->reading = true;
	ripc__session_sends(store);
	ripc__path_make(store, path, ripc__shelf(is_private), known->id, 0);
	if (request)
		rc = zoo_awget(store->zh, path, is_private ? NULL : container_changed, store,
			value_read, request);
	if (rc == ZOK)
		return;
	free(request);
	unavailable(store, known);
}

/* ---- hints ------------------------------------------------------------------------------- */

static void hint_read(int rc, const char *bytes, int len, const struct Stat *stat,
		const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct known *known = known_of(data);
	struct value value = {0};

	free(request);
	if (!known || rc != ZOK)
		return;
	if (is_held(rc, bytes, len, stat, &value))
		known->value = value;
	ripc__news(store, &known->hint, &(struct ripc__source_event){.kind = RIPC_SOURCE_HINT,
		.id = known->id, .incarnation = value.incarnation});
}

/* A container that is removed has been free for a while. */
static void container_changed(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct store *store = arg;
	uint64_t id = type == ZOO_CHANGED_EVENT ? ripc__path_id(path) : 0;
	struct known *known = id ? ripc__map_get(&store->known, id) : NULL;
	struct request *request;

	(void)state;
	if (!known || zh != store->zh)
		return;
	request = ripc__request_make(store, id, 0);
	ripc__session_sends(store);
	if (request && zoo_awget(zh, path, container_changed, store, hint_read, request) != ZOK)
		free(request);
}

/* ---- calls ------------------------------------------------------------------------------- */

static void known_free(struct store *store, struct known *known)
{
	ripc__map_remove(&store->known, known->id);
	list_remove(&known->node);
	list_remove(&known->told.node);
	list_remove(&known->hint.node);
	query_drop(known);
	free(known);
}

static struct known *known_get(struct store *store, uint64_t id)
{
	struct known *known = ripc__map_get(&store->known, id);

	if (known) {
		list_remove(&known->node);
		list_append(&store->known_order, &known->node);
		return known;
	}
	if (store->known.count >= KNOWN_MAX)
		known_free(store, list_entry(store->known_order.next, struct known, node));
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->id = id;
	list_init(&known->told.node);
	list_init(&known->hint.node);
	if (ripc__map_put(&store->known, id, known)) {
		free(known);
		return NULL;
	}
	list_append(&store->known_order, &known->node);
	return known;
}

int ripc__known_ask(void *source, uint64_t id, const void *data, size_t len)
{
	struct store *store = source;
	struct known *known = id ? known_get(store, id) : NULL;
	uint8_t *query = known ? malloc(len) : NULL;

	if (!id)
		return 0;
	if (!query)
		return 1; /* queried again without memory for it */
	memcpy(query, data, len);
	query_drop(known);
	known->query = query;
	known->query_len = (uint32_t)len;
	if (known->reading)
		known->again = true;
	else if (store->session)
		send_read(store, known, false);
	else
		unavailable(store, known);
	return 1;
}

static void shard_read(int rc, const struct String_vector *names, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	bool is_wanted = store->found && request->serial == store->listing;

	free(request);
	for (int i = 0; is_wanted && rc == ZOK && i < names->count; i++) {
		uint64_t id = ripc__path_id(names->data[i]);

		if (id)
			store->found(store->found_arg, id, false);
	}
}

int ripc__known_list(void *source, void (*found)(void *arg, uint64_t id, bool is_private),
		void *arg)
{
	struct store *store = source;

	store->listing++;
	store->found = found;
	store->found_arg = arg;
	for (uint64_t shard = 0; found && store->session && shard < STORE_SHARDS; shard++) {
		struct request *request = ripc__request_make(store, shard, store->listing);
		char path[STORE_PATH];

		ripc__path_make(store, path, SHELF_PUBLIC, shard, 0);
		*strrchr(path, '/') = '\0';
		ripc__session_sends(store);
		if (request && zoo_aget_children(store->zh, path, 0, shard_read, request) != ZOK)
			free(request);
	}
	return -EINPROGRESS;
}

void ripc__known_free(struct store *store)
{
	while (!list_empty(&store->known_order))
		known_free(store, list_entry(store->known_order.next, struct known, node));
	ripc__map_free(&store->known);
}
