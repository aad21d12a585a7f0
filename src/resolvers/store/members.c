/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of groups that this context sends to, as the store lists them. The names under the
 * group's node are read, and then the value of each new one. A watch reports changes: core gets
 * a hint, and the changes are read when core next requests the list. While the store is away the
 * list reports that, and core keeps the members that it knows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ripc/ripc.h"

#define GROUPS_MAX  1024u
#define MEMBERS_MAX 4096u     /* of one group, as in core */
#define NAME_BIT    (1ull << 63) /* a name is the incarnation with this bit */

struct group {
	struct news hint;
	struct list node;       /* store->groups_order */
	uint64_t id, serial;    /* of the requests under way */
	int64_t session;        /* the session that watches it */
	struct ripc__map names; /* struct value by name; n_addrs 0: not known */
	uint32_t n_asked;       /* values that are being read */
	bool reading, stale, is_read;
};

static void members_changed(zhandle_t *zh, int type, int state, const char *path, void *arg);

static void hint(struct store *store, struct group *group)
{
	ripc__news(store, &group->hint, &(struct ripc__source_event){.kind = RIPC_SOURCE_HINT,
		.id = group->id});
}

/* The group of a completion; NULL: another reading has begun. */
static struct group *group_of(const struct request *request)
{
	struct group *group = ripc__map_get(&request->store->groups, request->id);

	return group && group->serial == request->serial ? group : NULL;
}

static void names_free(struct ripc__map *names)
{
	struct value *member;
	uint32_t at = 0;

	while ((member = ripc__map_next(names, &at)))
		free(member);
	ripc__map_free(names);
}

/* ---- reading ----------------------------------------------------------------------------- */

static void read_failed(struct group *group)
{
	group->reading = false;
	group->stale = true;
}

static void read_ended(struct store *store, struct group *group)
{
	group->reading = false;
	group->is_read = true;
	hint(store, group);
}

static void value_read(int rc, const char *bytes, int len, const struct Stat *stat,
		const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct group *group = group_of(request);
	struct value *member = group ? ripc__map_get(&group->names, request->name) : NULL;
	struct value value;

	(void)stat;
	if (member && rc == ZOK && ripc__value_decode(bytes, len, &value) == 0 &&
			(value.incarnation | NAME_BIT) == request->name)
		*member = value;
	free(request);
	if (!group)
		return;
	if (rc != ZOK && rc != ZNONODE)
		group->stale = true;
	if (--group->n_asked == 0)
		read_ended(store, group);
}

static void value_changed(zhandle_t *zh, int type, int state, const char *path, void *arg);

static void value_ask(struct store *store, struct group *group, uint64_t name, const char *child)
{
	struct request *request = ripc__request_make(store, group->id, group->serial);
	char path[STORE_PATH];
	size_t len;

	if (!request)
		return;
	request->name = name;
	ripc__path_make(store, path, SHELF_GROUP, group->id, 0);
	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "/%s", child);
	if (zoo_awget(store->zh, path, value_changed, store, value_read, request) == ZOK)
		group->n_asked++;
	else
		free(request);
}

/* The addresses of a member have changed. */
static void value_changed(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct store *store = arg;
	const char *child = type == ZOO_CHANGED_EVENT ? strrchr(path, '/') : NULL;
	char parent[STORE_PATH] = "";
	uint64_t name = child ? ripc__path_id(path) | NAME_BIT : 0;
	struct group *group = NULL;
	struct value *member;

	(void)state;
	if (child && child - path < STORE_PATH)
		memcpy(parent, path, (size_t)(child - path));
	if (zh == store->zh && ripc__path_id(parent))
		group = ripc__map_get(&store->groups, ripc__path_id(parent));
	member = group ? ripc__map_get(&group->names, name) : NULL;
	if (!member)
		return;
	member->n_addrs = 0;
	if (group->reading) /* the reading ends with the unknown values */
		return;
	ripc__session_sends(store);
	value_ask(store, group, name, child + 1);
}

/* A member that was known stays as it is. */
static void name_keep(struct store *store, struct group *group, struct ripc__map *old,
		const char *child)
{
	uint64_t name = ripc__path_id(child) | NAME_BIT;
	struct value *member = ripc__map_remove(old, name);

	member = member ? member : calloc(1, sizeof(*member));
	if (!member || ripc__map_put(&group->names, name, member)) {
		free(member);
		return;
	}
	if (!member->n_addrs)
		value_ask(store, group, name, child);
}

static void names_set(struct store *store, struct group *group, const struct String_vector *names)
{
	struct ripc__map old = group->names;

	ripc__map_init(&group->names, store->host.context);
	for (int i = 0; names && i < names->count && group->names.count < MEMBERS_MAX; i++) {
		if (ripc__path_id(names->data[i]))
			name_keep(store, group, &old, names->data[i]);
	}
	names_free(&old);
	ripc__session_sends(store);
	if (!group->n_asked)
		read_ended(store, group);
}

static void read_begin(struct store *store, struct group *group);

/* There was no node, and a watch waits for one; unless one was made since. */
static void absence_read(int rc, const struct Stat *stat, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct group *group = group_of(request);

	(void)stat;
	free(request);
	if (!group)
		return;
	if (rc == ZNONODE)
		names_set(store, group, NULL);
	else
		read_failed(group);
	if (rc == ZOK && store->zh)
		read_begin(store, group);
}

static void names_read(int rc, const struct String_vector *names, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct group *group = group_of(request);
	char path[STORE_PATH];

	if (group && rc == ZNONODE && store->zh) {
		ripc__path_make(store, path, SHELF_GROUP, group->id, 0);
		ripc__session_sends(store);
		if (zoo_awexists(store->zh, path, members_changed, store, absence_read,
				request) == ZOK)
			return;
	}
	free(request);
	if (group && rc == ZOK && store->zh)
		names_set(store, group, names);
	else if (group)
		read_failed(group);
}

static void read_begin(struct store *store, struct group *group)
{
	struct request *request;
	char path[STORE_PATH];

	group->serial = ++store->serial;
	group->session = store->session;
	group->reading = true;
	group->stale = false;
	group->n_asked = 0;
	request = ripc__request_make(store, group->id, group->serial);
	ripc__session_sends(store);
	ripc__path_make(store, path, SHELF_GROUP, group->id, 0);
	if (request && zoo_awget_children(store->zh, path, members_changed, store, names_read,
			request) == ZOK)
		return;
	free(request);
	read_failed(group);
}

static void members_changed(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct store *store = arg;
	struct group *group = type == ZOO_SESSION_EVENT || zh != store->zh ? NULL :
		ripc__map_get(&store->groups, ripc__path_id(path));

	(void)state;
	if (!group)
		return;
	group->stale = true;
	hint(store, group);
}

/* ---- calls ------------------------------------------------------------------------------- */

static void group_free(struct store *store, struct group *group)
{
	ripc__map_remove(&store->groups, group->id);
	list_remove(&group->node);
	list_remove(&group->hint.node);
	names_free(&group->names);
	free(group);
}

/* The group that was listed last is the last in the order. */
static struct group *group_get(struct store *store, uint64_t id)
{
	struct group *group = ripc__map_get(&store->groups, id);

	if (group) {
		list_remove(&group->node);
		list_append(&store->groups_order, &group->node);
		return group;
	}
	if (store->groups.count >= GROUPS_MAX)
		group_free(store, list_entry(store->groups_order.next, struct group, node));
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->id = id;
	group->stale = true;
	list_init(&group->hint.node);
	ripc__map_init(&group->names, store->host.context);
	if (ripc__map_put(&store->groups, id, group)) {
		free(group);
		return NULL;
	}
	list_append(&store->groups_order, &group->node);
	return group;
}

int ripc__members_list(void *source, uint64_t id, void (*found)(void *arg, uint64_t name),
		void *arg)
{
	struct store *store = source;
	struct group *group = group_get(store, id);
	struct ripc__map_entry *entries;

	if (!group)
		return -ENOMEM;
	if (!store->session)
		return group->is_read || store->away_logged ? -EHOSTUNREACH : -EINPROGRESS;
	if ((group->stale || group->session != store->session) && !group->reading)
		read_begin(store, group);
	if (!group->is_read)
		return group->reading ? -EINPROGRESS : -EHOSTUNREACH;
	entries = group->names.entries;
	for (uint32_t i = 0; entries && i < group->names.capacity; i++) {
		const struct value *member = entries[i].value;

		if (member && member->n_addrs)
			found(arg, entries[i].key);
	}
	return 0;
}

int ripc__members_ask(void *source, uint64_t id, uint64_t name, const void *data, size_t len)
{
	const struct store *store = source;
	const struct group *group = ripc__map_get(&store->groups, id);
	const struct value *member = group ? ripc__map_get(&group->names, name) : NULL;

	if (!member || !member->n_addrs)
		return 0;
	ripc__value_send(store, member, data, len);
	return 1;
}

void ripc__members_renew(struct store *store)
{
	list_for_each(node, &store->groups_order) {
		struct group *group = list_entry(node, struct group, node);

		if (!group->is_read && !group->reading)
			read_begin(store, group);
	}
}

void ripc__members_free(struct store *store)
{
	while (!list_empty(&store->groups_order))
		group_free(store, list_entry(store->groups_order.next, struct group, node));
	ripc__map_free(&store->groups);
}

/* ---- joined ------------------------------------------------------------------------------ */

/*
 * Members of groups of this context, as nodes in the store. A member has a node of its own,
 * named by its incarnation: no other member's node is in the way. An existing one was made by an
 * attempt whose outcome is unknown, or in a session that has ended, and is made again.
 */

#define TRIES_MAX 16u /* the nodes above are missing, or are removed meanwhile */

enum joined_state { JOINED_WANTED, JOINED_MAKING, JOINED_MADE, JOINED_LEAVING };

struct joined {
	uint64_t group, incarnation;
	uint64_t serial;  /* of its request: those of earlier ones do not count */
	uint64_t moves;   /* store->moves, when it was written */
	int64_t session;  /* the node's session, if the node is made */
	uint32_t tries;
	enum joined_state state;
};

static void send_join(struct store *store, struct joined *joined);

/* Incarnations are random numbers. */
static uint64_t key_of(uint64_t group, uint64_t incarnation)
{
	return group ^ incarnation;
}

/* The object of a completion; NULL: another request has followed. Frees the request. */
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

static void node_gone(int rc, const void *data)
{
	ripc__result_ignore(rc, NULL, data);
}

/* Makes the nodes above the group's node. The first one is for all clusters. */
static void shelves_make(struct store *store, const char *container)
{
	char path[STORE_PATH];
	size_t n = 0;

	for (const char *at = container; *at; at++) {
		if (*at == '/' && n) {
			path[n] = '\0';
			zoo_acreate(store->zh, path, NULL, -1, at == strchr(container + 1, '/') ?
				&store->acl_top : &store->acl, ZOO_PERSISTENT,
				ripc__result_ignore, NULL);
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
	ripc__path_make(store, path, SHELF_GROUP, joined->group, joined->incarnation);
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
	ripc__path_make(store, container, SHELF_GROUP, joined->group, 0);
	ripc__path_make(store, path, SHELF_GROUP, joined->group, joined->incarnation);
	len = ripc__value_make(store, joined->incarnation, bytes);
	if (joined->tries) { /* mostly the nodes above exist */
		shelves_make(store, container);
		zoo_adelete(store->zh, path, -1, node_gone, NULL);
	}
	zoo_acreate(store->zh, container, NULL, -1, &store->acl, ZOO_CONTAINER,
		ripc__result_ignore, NULL);
	if (zoo_acreate(store->zh, path, (const char *)bytes, len, &store->acl, ZOO_EPHEMERAL,
			join_made, request) == ZOK)
		joined->state = JOINED_MAKING;
	else
		free(request);
}

int ripc__joined_join(void *source, uint64_t group, uint64_t incarnation)
{
	struct store *store = source;
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

/* Writes the changed addresses of this host into the node. */
static void send_addresses(struct store *store, struct joined *joined)
{
	struct request *request = request_of(store, joined);
	char path[STORE_PATH];
	uint8_t bytes[STORE_VALUE];
	int len = ripc__value_make(store, joined->incarnation, bytes);

	joined->moves = store->moves;
	ripc__path_make(store, path, SHELF_GROUP, joined->group, joined->incarnation);
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

/* If the outcome is unknown, the node is removed with the session, or at the next try. */
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

	ripc__path_make(store, path, SHELF_GROUP, joined->group, joined->incarnation);
	if (request && zoo_adelete(store->zh, path, -1, left, request) != ZOK)
		free(request);
}

/* A request under way may still be carried out; the store keeps the order. */
void ripc__joined_leave(void *source, uint64_t group, uint64_t incarnation)
{
	struct store *store = source;
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
