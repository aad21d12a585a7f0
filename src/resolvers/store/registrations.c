/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IDs of this context's services, as nodes in the store. A claim is made, and made again
 * whenever a session has begun that is not the one of its node. If another service has the ID by
 * then, the claim is lost.
 *
 * Public IDs that are to be claimed in one step are claimed by one transaction, up to BATCH_MAX
 * of them. If the transaction is refused, each is claimed alone.
 *
 * The outcome of a request is unknown when the connection breaks. The claim is then made again,
 * and a node with our incarnation that is in the way is ours if its session is. Nodes are
 * deleted by their own names, which contain the incarnation, hence no other node can be deleted
 * by mistake. A node of ours that may still be there is deleted until the store says that it is
 * not.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "ripc/ripc.h"

#define TRIES_MAX 16u /* others register the same ID meanwhile, or shelves are missing */
#define BATCH_MAX 32u /* claims in one transaction */
#define OPS_MAX   3u  /* of one of them */

static void send_registration(struct store *store, struct registration *registration);
static void send_read(struct store *store, struct registration *registration);

/* ---- reports to core --------------------------------------------------------------------- */

/* The node that shows the claim; a public ID has a container above it. */
static void registration_path(const struct store *store, const struct registration *registration,
		char path[STORE_PATH])
{
	ripc__path_make(store, path, ripc__shelf(registration->private_id), registration->id,
		registration->private_id ? 0 : registration->incarnation);
}

static void say_acl(struct store *store, const struct registration *registration)
{
	const struct ripc__host *host = &store->host;
	char path[STORE_PATH];

	if (store->refused_logged)
		return;
	store->refused_logged = true;
	ripc__path_make(store, path, ripc__shelf(registration->private_id), registration->id, 0);
	host->log(host->arg, RIPC_LOG_ERROR, "store: writing %.120s is refused: set store.auth to "
		"that of the programs that registered before, or use another store.cluster", path);
}

/* Has core heard that it is published? The event may still wait in the queue. */
static bool is_heard(const struct registration *registration)
{
	return registration->told && list_empty(&registration->news.node);
}

static void registration_tell(struct store *store, struct registration *registration, int status,
		const struct value *holder)
{
	struct ripc__source_event event = {.kind = RIPC_SOURCE_PUBLISHED, .status = status,
		.id = registration->id};

	registration->state = status ? REGISTRATION_REFUSED : REGISTRATION_MADE;
	if (status == -EACCES)
		say_acl(store, registration);
	if (holder) {
		event.incarnation = holder->incarnation;
		event.holder = holder->life && holder->life == store->host.life ?
			holder->context : 0;
	}
	if (registration->told && !status)
		return;
	if (is_heard(registration))
		event.kind = RIPC_SOURCE_LOST;
	registration->told = !status;
	ripc__news(store, &registration->news, &event);
}

static void registration_delayed(struct store *store, struct registration *registration)
{
	if (registration->told || !list_empty(&registration->news.node))
		return;
	ripc__news(store, &registration->news, &(struct ripc__source_event){
		.kind = RIPC_SOURCE_UNAVAILABLE, .id = registration->id});
}

/* With -EHOSTUNREACH the outcome is unknown. Any other error is final. */
static void registration_failed(struct store *store, struct registration *registration, int rc)
{
	int error = ripc__session_error(rc);

	if (error == -EHOSTUNREACH)
		registration->state = REGISTRATION_WANTED;
	else
		registration_tell(store, registration, error, NULL);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* The claim of a completion; NULL: it has been withdrawn since, or requested again. */
static struct registration *registration_of(const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct registration *registration =
		ripc__map_get(&request->store->registrations, request->id);

	return registration && registration->serial == request->serial ? registration : NULL;
}

static struct request *request_of(struct store *store, struct registration *registration)
{
	registration->serial = ++store->serial;
	registration->state = REGISTRATION_MAKING;
	ripc__session_sends(store);
	return ripc__request_make(store, registration->id, registration->serial);
}

static void retry(struct store *store, struct registration *registration, bool reads)
{
	if (!store->zh)
		registration->state = REGISTRATION_WANTED;
	else if (++registration->tries > TRIES_MAX)
		registration_tell(store, registration, store->shelves_refused ? -EACCES : -EAGAIN,
				NULL);
	else if (reads)
		send_read(store, registration);
	else
		send_registration(store, registration);
}

static void registration_done(struct store *store, struct registration *registration, int rc)
{
	if (rc == ZOK) {
		registration->session = store->session;
		registration->version = registration->version < 0 ? 1 : registration->version + 1;
		registration->rival = 0;
		registration_tell(store, registration, 0, NULL);
		ripc__registration_rewrite(store, registration);
	} else if (rc == ZBADVERSION || rc == ZNODEEXISTS) {
		retry(store, registration, true);
	} else if (rc == ZNONODE && registration->rival) {
		registration->rival = 0; /* the rival has gone by itself */
		retry(store, registration, true);
	} else if (rc == ZNONODE) {
		registration->version = -1;
		retry(store, registration, false);
	} else {
		registration_failed(store, registration, rc);
	}
}

static void private_made(int rc, const char *value, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct registration *registration = registration_of(data);

	(void)value;
	free(request);
	if (registration)
		registration_done(store, registration, rc);
}

static void send_private(struct store *store, struct registration *registration)
{
	struct request *request = request_of(store, registration);
	char path[STORE_PATH];
	uint8_t bytes[STORE_VALUE];
	int len = ripc__value_make(store, registration->incarnation, bytes);
	int rc = ZSYSTEMERROR;

	registration->moves = store->moves;
	if (registration->tries) /* mostly the shelf is there */
		ripc__parents_make(store, registration->id, true);
	ripc__path_make(store, path, SHELF_PRIVATE, registration->id, 0);
	if (request)
		rc = zoo_acreate(store->zh, path, (const char *)bytes, len, &store->acl,
			ZOO_EPHEMERAL, private_made, request);
	if (rc == ZOK)
		return;
	free(request);
	registration_failed(store, registration, rc);
}

/* A public claim waits for others, until the end of this step: one transaction claims them all. */
static void send_registration(struct store *store, struct registration *registration)
{
	if (registration->private_id) {
		send_private(store, registration);
		return;
	}
	registration->serial = ++store->serial;
	registration->state = REGISTRATION_MAKING;
	list_remove(&registration->node);
	list_append(&store->registering, &registration->node);
	ripc__session_sends(store);
}

/* ---- transactions ------------------------------------------------------------------------ */

/* The claims of one transaction, and its operations. */
struct batch {
	struct store *store;
	uint32_t n, n_ops;
	struct request of[BATCH_MAX];
	zoo_op_result_t results[BATCH_MAX * OPS_MAX];
	zoo_op_t ops[BATCH_MAX * OPS_MAX];
	char paths[BATCH_MAX * OPS_MAX][STORE_PATH];
	uint8_t values[BATCH_MAX][STORE_VALUE];
};

/*
 * Does the result hold for all claims of the batch? If a shelf is missing, most are: all are
 * made.
 */
static bool is_of_all(const struct batch *batch, int rc)
{
	return batch->n == 1 || rc == ZOK || rc == ZNONODE ||
		ripc__session_error(rc) == -EHOSTUNREACH;
}

/* The store does not say which of several claims was refused: each is made alone. */
static void batch_made(int rc, const void *data)
{
	struct batch *batch = (void *)(uintptr_t)data;
	struct store *store = batch->store;
	bool is_known = is_of_all(batch, rc);

	for (uint32_t i = 0; i < batch->n; i++) {
		struct registration *registration = registration_of(&batch->of[i]);

		if (!registration)
			continue;
		registration->alone = !is_known;
		if (is_known)
			registration_done(store, registration, rc);
		else if (store->zh)
			send_registration(store, registration);
		else
			registration->state = REGISTRATION_WANTED;
	}
	free(batch);
}

/* Adds the operations of internal.h; an ended rival's node is deleted by them. */
static void batch_add(struct batch *batch, struct registration *registration)
{
	struct store *store = batch->store;
	int version = registration->version < 0 ? 0 : registration->version;
	uint8_t *value = batch->values[batch->n];
	char *path = batch->paths[batch->n_ops];
	int len = ripc__value_make(store, registration->incarnation, value);

	registration->moves = store->moves;
	list_remove(&registration->node);
	batch->of[batch->n++] = (struct request){.store = store, .id = registration->id,
		.serial = registration->serial};
	if (registration->tries)
		ripc__parents_make(store, registration->id, false);
	ripc__path_make(store, path, SHELF_PUBLIC, registration->id, 0);
	if (registration->version < 0)
		zoo_acreate(store->zh, path, NULL, -1, &store->acl, ZOO_CONTAINER,
			ripc__result_ignore, NULL);
	zoo_set_op_init(&batch->ops[batch->n_ops++], path, (char *)value, len, version, NULL);
	if (registration->rival) {
		path = batch->paths[batch->n_ops];
		ripc__path_make(store, path, SHELF_PUBLIC, registration->id, registration->rival);
		zoo_delete_op_init(&batch->ops[batch->n_ops++], path, -1);
	}
	path = batch->paths[batch->n_ops];
	ripc__path_make(store, path, SHELF_PUBLIC, registration->id, registration->incarnation);
	zoo_create_op_init(&batch->ops[batch->n_ops++], path, NULL, -1, &store->acl, ZOO_EPHEMERAL,
		NULL, 0);
}

static void batch_fill(struct batch *batch)
{
	list_for_each_safe(node, &batch->store->registering) {
		struct registration *registration = list_entry(node, struct registration, node);

		if (batch->n == BATCH_MAX || (registration->alone && batch->n))
			break;
		batch_add(batch, registration);
		if (registration->alone)
			break;
	}
}

/* There is no session any more, or no memory. */
static void registering_failed(struct store *store, int rc)
{
	list_for_each_safe(node, &store->registering) {
		struct registration *registration = list_entry(node, struct registration, node);

		list_remove(&registration->node);
		registration_failed(store, registration, rc);
	}
}

static void batch_send(struct batch *batch)
{
	int rc;

	batch_fill(batch);
	rc = zoo_amulti(batch->store->zh, (int)batch->n_ops, batch->ops, batch->results,
		batch_made, batch);
	if (rc != ZOK)
		batch_made(rc, batch);
}

void ripc__registrations_send(struct store *store)
{
	while (!list_empty(&store->registering)) {
		struct batch *batch = store->session ? calloc(1, sizeof(*batch)) : NULL;

		if (!batch) {
			registering_failed(store, store->session ? ZSYSTEMERROR : ZCONNECTIONLOSS);
			return;
		}
		batch->store = store;
		batch_send(batch);
	}
}

/* ---- the owner of the ID ----------------------------------------------------------------- */

/* A node of our incarnation was there already. */
static void own_seen(int rc, const struct Stat *stat, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct registration *registration = registration_of(data);

	free(request);
	if (!registration)
		return;
	if (rc == ZOK && stat->ephemeralOwner == store->session) {
		registration->session = store->session;
		registration_tell(store, registration, 0, NULL);
	} else if (rc == ZOK && !registration->private_id) { /* of a session that we have lost */
		registration->rival = registration->incarnation;
		retry(store, registration, false);
	} else if (rc == ZOK) {
		registration_tell(store, registration, -EADDRINUSE, NULL);
	} else if (rc == ZNONODE) {
		retry(store, registration, false);
	} else {
		registration_failed(store, registration, rc);
	}
}

static void send_look(struct store *store, struct registration *registration)
{
	struct request *request = request_of(store, registration);
	char path[STORE_PATH];
	int rc = ZSYSTEMERROR;

	registration_path(store, registration, path);
	if (request)
		rc = zoo_aexists(store->zh, path, 0, own_seen, request);
	if (rc == ZOK)
		return;
	free(request);
	registration_failed(store, registration, rc);
}

/* The container was read: its version if it is free, or the owner. */
static void holder_read(int rc, const char *bytes, int len, const struct Stat *stat,
		const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct registration *registration = registration_of(data);
	struct value holder = {0};

	free(request);
	if (!registration)
		return;
	if (rc == ZNONODE) {
		registration->version = -1;
		registration->rival = 0;
		retry(store, registration, false);
		return;
	}
	if (rc != ZOK) {
		registration_failed(store, registration, rc);
		return;
	}
	registration->version = stat->version;
	if (stat->numChildren && ripc__value_decode(bytes, len, &holder))
		registration_tell(store, registration, -EADDRINUSE, NULL);
	else if (!stat->numChildren ||
		 (registration->rival && registration->rival == holder.incarnation))
		retry(store, registration, false);
	else if (holder.incarnation == registration->incarnation)
		send_look(store, registration);
	else
		registration_tell(store, registration, -EADDRINUSE, &holder);
}

static void send_read(struct store *store, struct registration *registration)
{
	struct request *request;
	char path[STORE_PATH];
	int rc = ZSYSTEMERROR;

	if (registration->private_id) {
		send_look(store, registration);
		return;
	}
	request = request_of(store, registration);
	ripc__path_make(store, path, SHELF_PUBLIC, registration->id, 0);
	if (request)
		rc = zoo_aget(store->zh, path, 0, holder_read, request);
	if (rc == ZOK)
		return;
	free(request);
	registration_failed(store, registration, rc);
}

/* ---- writing again ----------------------------------------------------------------------- */

/* The transaction checks for our child: another owner may have the ID by now. */
struct rewriting {
	struct request request;
	uint64_t moves;
	zoo_op_result_t results[2];
	zoo_op_t ops[2];
	char paths[2][STORE_PATH];
	uint8_t value[STORE_VALUE];
};

/* On failure the claim is made again in the next session, or another service has the ID. */
static void rewritten(int rc, const void *data)
{
	struct rewriting *rewriting = (void *)(uintptr_t)data;
	struct store *store = rewriting->request.store;
	struct registration *registration =
		ripc__map_get(&store->registrations, rewriting->request.id);

	if (rc == ZOK && registration && registration->serial == rewriting->request.serial)
		registration->moves = rewriting->moves;
	free(rewriting);
}

static void set_done(int rc, const struct Stat *stat, const void *data)
{
	(void)stat;
	rewritten(rc, data);
}

static int node_write(struct store *store, const struct registration *registration,
		struct rewriting *rewriting)
{
	int len = ripc__value_make(store, registration->incarnation, rewriting->value);
	char *value = (char *)rewriting->value;

	ripc__session_sends(store);
	ripc__path_make(store, rewriting->paths[0], ripc__shelf(registration->private_id),
		registration->id, 0);
	if (registration->private_id)
		return zoo_aset(store->zh, rewriting->paths[0], value, len, -1, set_done,
			rewriting);
	ripc__path_make(store, rewriting->paths[1], SHELF_PUBLIC, registration->id,
		registration->incarnation);
	zoo_check_op_init(&rewriting->ops[0], rewriting->paths[1], -1);
	zoo_set_op_init(&rewriting->ops[1], rewriting->paths[0], value, len, -1, NULL);
	return zoo_amulti(store->zh, 2, rewriting->ops, rewriting->results, rewritten, rewriting);
}

void ripc__registration_rewrite(struct store *store, struct registration *registration)
{
	struct rewriting *rewriting;

	if (registration->state != REGISTRATION_MADE || registration->session != store->session ||
			registration->moves == store->moves || !store->session)
		return;
	rewriting = calloc(1, sizeof(*rewriting));
	if (!rewriting)
		return;
	rewriting->request = (struct request){.store = store, .id = registration->id,
		.serial = registration->serial};
	rewriting->moves = store->moves;
	if (node_write(store, registration, rewriting) != ZOK)
		free(rewriting);
}

/* ---- calls ------------------------------------------------------------------------------- */

static struct registration *registration_alloc(struct store *store, uint64_t id)
{
	struct registration *registration = calloc(1, sizeof(*registration));

	if (!registration)
		return NULL;
	registration->id = id;
	registration->version = -1;
	list_init(&registration->news.node);
	list_init(&registration->node);
	if (ripc__map_put(&store->registrations, id, registration) == 0)
		return registration;
	free(registration);
	return NULL;
}

static void registration_begin(struct store *store, struct registration *registration)
{
	registration->tries = 0;
	if (store->session)
		send_registration(store, registration);
	else if (store->away_logged)
		registration_delayed(store, registration);
}

int ripc__registration_publish(void *source, uint64_t id, uint64_t incarnation,
		enum ripc__naming naming)
{
	struct store *store = source;
	struct registration *registration = ripc__map_get(&store->registrations, id);
	uint64_t rival = registration ? registration->news.event.incarnation : 0;

	if (registration && registration->state != REGISTRATION_REFUSED)
		return is_heard(registration) ? -EADDRINUSE : -EINPROGRESS;
	if (!registration)
		registration = registration_alloc(store, id);
	if (!registration)
		return -ENOMEM;
	registration->incarnation = incarnation;
	registration->private_id = naming == RIPC_NAME_PRIVATE;
	registration->state = REGISTRATION_WANTED;
	registration->rival = naming == RIPC_NAME_DISPLACE ? rival : 0;
	if (!registration->rival && registration->version >= 0 &&
		store->session) { /* refused before */
		registration->tries = 0;
		send_read(store, registration);
	} else {
		registration_begin(store, registration);
	}
	return -EINPROGRESS;
}

static void registration_left(int rc, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	bool unknown = rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT;

	list_for_each_safe(node, &store->leaving) {
		struct registration *registration = list_entry(node, struct registration, node);

		if (registration->serial != request->serial)
			continue;
		if (!unknown) {
			list_remove(&registration->node);
			free(registration);
		}
		break;
	}
	free(request);
}

static void send_leave(struct store *store, struct registration *registration)
{
	struct request *request;
	char path[STORE_PATH];

	registration->serial = ++store->serial;
	request = ripc__request_make(store, registration->id, registration->serial);
	if (!request)
		return; /* the node is removed with the session */
	registration_path(store, registration, path);
	ripc__session_sends(store);
	if (zoo_adelete(store->zh, path, -1, registration_left, request) != ZOK)
		free(request);
}

void ripc__registration_withdraw(void *source, uint64_t id)
{
	struct store *store = source;
	struct registration *registration = ripc__map_remove(&store->registrations, id);
	bool is_there;

	if (!registration)
		return;
	list_remove(&registration->news.node);
	list_remove(&registration->node);
	/* A request under way may still be carried out; the store keeps the order. */
	is_there = registration->state == REGISTRATION_MADE ||
		   registration->state == REGISTRATION_MAKING || registration->session ||
		   registration->tries;
	if (!is_there || !store->zh) {
		free(registration);
		return;
	}
	registration->state = REGISTRATION_LEAVING;
	list_append(&store->leaving, &registration->node);
	if (store->session)
		send_leave(store, registration);
}

void ripc__registrations_renew(struct store *store)
{
	struct registration *registration;
	uint32_t at = 0;

	list_for_each_safe(node, &store->leaving)
		send_leave(store, list_entry(node, struct registration, node));
	while ((registration = ripc__map_next(&store->registrations, &at))) {
		if (registration->state == REGISTRATION_MADE &&
			registration->session == store->session) {
			ripc__registration_rewrite(store, registration);
			continue;
		}
		if (registration->state == REGISTRATION_REFUSED ||
			registration->state == REGISTRATION_MAKING)
			continue;
		registration->rival = 0;
		registration_begin(store, registration);
	}
}

void ripc__registrations_delayed(struct store *store)
{
	struct registration *registration;
	uint32_t at = 0;

	if (store->away_logged)
		return;
	while ((registration = ripc__map_next(&store->registrations, &at))) {
		if (registration->state == REGISTRATION_WANTED ||
			registration->state == REGISTRATION_MAKING)
			registration_delayed(store, registration);
	}
}

void ripc__registrations_free(struct store *store)
{
	struct registration *registration;
	uint32_t at = 0;

	while ((registration = ripc__map_next(&store->registrations, &at)))
		free(registration);
	list_for_each_safe(node, &store->leaving)
		free(list_entry(node, struct registration, node));
	ripc__map_free(&store->registrations);
}
