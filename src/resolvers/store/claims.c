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

static void send_claim(struct store *store, struct claim *claim);
static void send_read(struct store *store, struct claim *claim);

/* ---- reports to core --------------------------------------------------------------------- */

/* The node that shows the claim; a public ID has a container above it. */
static void claim_path(const struct store *store, const struct claim *claim, char path[STORE_PATH])
{
	ripc__path_make(store, path, ripc__shelf(claim->private_id), claim->id,
		claim->private_id ? 0 : claim->incarnation);
}

static void say_acl(struct store *store, const struct claim *claim)
{
	const struct ripc__host *host = &store->host;
	char path[STORE_PATH];

	if (store->refused_logged)
		return;
	store->refused_logged = true;
	ripc__path_make(store, path, ripc__shelf(claim->private_id), claim->id, 0);
	host->log(host->arg, RIPC_LOG_ERROR, "store: writing %.120s is refused: set store.auth to "
		"that of the programs that registered before, or use another store.cluster", path);
}

static void claim_tell(struct store *store, struct claim *claim, int status,
		const struct value *holder)
{
	struct ripc__source_event event = {.kind = RIPC_SOURCE_PUBLISHED, .status = status,
		.id = claim->id};

	claim->state = status ? CLAIM_REFUSED : CLAIM_MADE;
	if (status == -EACCES)
		say_acl(store, claim);
	if (holder) {
		event.incarnation = holder->incarnation;
		event.holder = holder->life && holder->life == store->host.life ?
			holder->context : 0;
	}
	if (claim->told && !status)
		return;
	if (claim->told)
		event.kind = RIPC_SOURCE_LOST;
	claim->told = !status;
	ripc__news(store, &claim->news, &event);
}

static void claim_delayed(struct store *store, struct claim *claim)
{
	if (claim->told || !list_empty(&claim->news.node))
		return;
	ripc__news(store, &claim->news, &(struct ripc__source_event){
		.kind = RIPC_SOURCE_UNAVAILABLE, .id = claim->id});
}

/* With -EHOSTUNREACH the outcome is unknown. Any other error is final. */
static void claim_failed(struct store *store, struct claim *claim, int rc)
{
	int error = ripc__session_error(rc);

	if (error == -EHOSTUNREACH)
		claim->state = CLAIM_WANTED;
	else
		claim_tell(store, claim, error, NULL);
}

/* ---- requests ---------------------------------------------------------------------------- */

/* The claim of a completion; NULL: it has been withdrawn since, or requested again. */
static struct claim *claim_of(const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct claim *claim = ripc__map_get(&request->store->claims, request->id);

	return claim && claim->serial == request->serial ? claim : NULL;
}

static struct request *request_of(struct store *store, struct claim *claim)
{
	claim->serial = ++store->serial;
	claim->state = CLAIM_MAKING;
	ripc__session_sends(store);
	return ripc__request_make(store, claim->id, claim->serial);
}

static void retry(struct store *store, struct claim *claim, bool reads)
{
	if (!store->zh)
		claim->state = CLAIM_WANTED;
	else if (++claim->tries > TRIES_MAX)
		claim_tell(store, claim, store->shelves_refused ? -EACCES : -EAGAIN, NULL);
	else if (reads)
		send_read(store, claim);
	else
		send_claim(store, claim);
}

static void claim_done(struct store *store, struct claim *claim, int rc)
{
	if (rc == ZOK) {
		claim->session = store->session;
		claim->version = claim->version < 0 ? 1 : claim->version + 1;
		claim->rival = 0;
		claim_tell(store, claim, 0, NULL);
		ripc__claim_rewrite(store, claim);
	} else if (rc == ZBADVERSION || rc == ZNODEEXISTS) {
		retry(store, claim, true);
	} else if (rc == ZNONODE && claim->rival) {
		claim->rival = 0; /* the rival has gone by itself */
		retry(store, claim, true);
	} else if (rc == ZNONODE) {
		claim->version = -1;
		retry(store, claim, false);
	} else {
		claim_failed(store, claim, rc);
	}
}

static void private_made(int rc, const char *value, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct claim *claim = claim_of(data);

	(void)value;
	free(request);
	if (claim)
		claim_done(store, claim, rc);
}

static void send_private(struct store *store, struct claim *claim)
{
	struct request *request = request_of(store, claim);
	char path[STORE_PATH];
	uint8_t bytes[STORE_VALUE];
	int len = ripc__value_make(store, claim->incarnation, bytes);
	int rc = ZSYSTEMERROR;

	claim->moves = store->moves;
	if (claim->tries) /* mostly the shelf is there */
		ripc__parents_make(store, claim->id, true);
	ripc__path_make(store, path, SHELF_PRIVATE, claim->id, 0);
	if (request)
		rc = zoo_acreate(store->zh, path, (const char *)bytes, len, &store->acl,
			ZOO_EPHEMERAL, private_made, request);
	if (rc == ZOK)
		return;
	free(request);
	claim_failed(store, claim, rc);
}

/* A public claim waits for others, until the end of this step: one transaction claims them all. */
static void send_claim(struct store *store, struct claim *claim)
{
	if (claim->private_id) {
		send_private(store, claim);
		return;
	}
	claim->serial = ++store->serial;
	claim->state = CLAIM_MAKING;
	list_remove(&claim->node);
	list_append(&store->claiming, &claim->node);
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
		struct claim *claim = claim_of(&batch->of[i]);

		if (!claim)
			continue;
		claim->alone = !is_known;
		if (is_known)
			claim_done(store, claim, rc);
		else if (store->zh)
			send_claim(store, claim);
		else
			claim->state = CLAIM_WANTED;
	}
	free(batch);
}

/* Adds the operations of internal.h; an ended rival's node is deleted by them. */
static void batch_add(struct batch *batch, struct claim *claim)
{
	struct store *store = batch->store;
	int version = claim->version < 0 ? 0 : claim->version;
	uint8_t *value = batch->values[batch->n];
	char *path = batch->paths[batch->n_ops];
	int len = ripc__value_make(store, claim->incarnation, value);

	claim->moves = store->moves;
	list_remove(&claim->node);
	batch->of[batch->n++] = (struct request){.store = store, .id = claim->id,
		.serial = claim->serial};
	if (claim->tries)
		ripc__parents_make(store, claim->id, false);
	ripc__path_make(store, path, SHELF_PUBLIC, claim->id, 0);
	if (claim->version < 0)
		zoo_acreate(store->zh, path, NULL, -1, &store->acl, ZOO_CONTAINER,
			ripc__result_ignore, NULL);
	zoo_set_op_init(&batch->ops[batch->n_ops++], path, (char *)value, len, version, NULL);
	if (claim->rival) {
		path = batch->paths[batch->n_ops];
		ripc__path_make(store, path, SHELF_PUBLIC, claim->id, claim->rival);
		zoo_delete_op_init(&batch->ops[batch->n_ops++], path, -1);
	}
	path = batch->paths[batch->n_ops];
	ripc__path_make(store, path, SHELF_PUBLIC, claim->id, claim->incarnation);
	zoo_create_op_init(&batch->ops[batch->n_ops++], path, NULL, -1, &store->acl, ZOO_EPHEMERAL,
		NULL, 0);
}

static void batch_fill(struct batch *batch)
{
	list_for_each_safe(node, &batch->store->claiming) {
		struct claim *claim = list_entry(node, struct claim, node);

		if (batch->n == BATCH_MAX || (claim->alone && batch->n))
			break;
		batch_add(batch, claim);
		if (claim->alone)
			break;
	}
}

/* There is no session any more, or no memory. */
static void claiming_failed(struct store *store, int rc)
{
	list_for_each_safe(node, &store->claiming) {
		struct claim *claim = list_entry(node, struct claim, node);

		list_remove(&claim->node);
		claim_failed(store, claim, rc);
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

void ripc__claims_send(struct store *store)
{
	while (!list_empty(&store->claiming)) {
		struct batch *batch = store->session ? calloc(1, sizeof(*batch)) : NULL;

		if (!batch) {
			claiming_failed(store, store->session ? ZSYSTEMERROR : ZCONNECTIONLOSS);
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
	struct claim *claim = claim_of(data);

	free(request);
	if (!claim)
		return;
	if (rc == ZOK && stat->ephemeralOwner == store->session) {
		claim->session = store->session;
		claim_tell(store, claim, 0, NULL);
	} else if (rc == ZOK && !claim->private_id) { /* of a session that we have lost */
		claim->rival = claim->incarnation;
		retry(store, claim, false);
	} else if (rc == ZOK) {
		claim_tell(store, claim, -EADDRINUSE, NULL);
	} else if (rc == ZNONODE) {
		retry(store, claim, false);
	} else {
		claim_failed(store, claim, rc);
	}
}

static void send_look(struct store *store, struct claim *claim)
{
	struct request *request = request_of(store, claim);
	char path[STORE_PATH];
	int rc = ZSYSTEMERROR;

	claim_path(store, claim, path);
	if (request)
		rc = zoo_aexists(store->zh, path, 0, own_seen, request);
	if (rc == ZOK)
		return;
	free(request);
	claim_failed(store, claim, rc);
}

/* The container was read: its version if it is free, or the owner. */
static void holder_read(int rc, const char *bytes, int len, const struct Stat *stat,
		const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	struct claim *claim = claim_of(data);
	struct value holder = {0};

	free(request);
	if (!claim)
		return;
	if (rc == ZNONODE) {
		claim->version = -1;
		claim->rival = 0;
		retry(store, claim, false);
		return;
	}
	if (rc != ZOK) {
		claim_failed(store, claim, rc);
		return;
	}
	claim->version = stat->version;
	if (stat->numChildren && ripc__value_decode(bytes, len, &holder))
		claim_tell(store, claim, -EADDRINUSE, NULL);
	else if (!stat->numChildren || (claim->rival && claim->rival == holder.incarnation))
		retry(store, claim, false);
	else if (holder.incarnation == claim->incarnation)
		send_look(store, claim);
	else
		claim_tell(store, claim, -EADDRINUSE, &holder);
}

static void send_read(struct store *store, struct claim *claim)
{
	struct request *request;
	char path[STORE_PATH];
	int rc = ZSYSTEMERROR;

	if (claim->private_id) {
		send_look(store, claim);
		return;
	}
	request = request_of(store, claim);
	ripc__path_make(store, path, SHELF_PUBLIC, claim->id, 0);
	if (request)
		rc = zoo_aget(store->zh, path, 0, holder_read, request);
	if (rc == ZOK)
		return;
	free(request);
	claim_failed(store, claim, rc);
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
	int len = ripc__value_make(store, claim->incarnation, rewriting->value);
	char *value = (char *)rewriting->value;

	ripc__session_sends(store);
	ripc__path_make(store, rewriting->paths[0], ripc__shelf(claim->private_id), claim->id, 0);
	if (claim->private_id)
		return zoo_aset(store->zh, rewriting->paths[0], value, len, -1, set_done,
			rewriting);
	ripc__path_make(store, rewriting->paths[1], SHELF_PUBLIC, claim->id, claim->incarnation);
	zoo_check_op_init(&rewriting->ops[0], rewriting->paths[1], -1);
	zoo_set_op_init(&rewriting->ops[1], rewriting->paths[0], value, len, -1, NULL);
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

/* ---- calls ------------------------------------------------------------------------------- */

static struct claim *claim_alloc(struct store *store, uint64_t id)
{
	struct claim *claim = calloc(1, sizeof(*claim));

	if (!claim)
		return NULL;
	claim->id = id;
	claim->version = -1;
	list_init(&claim->news.node);
	list_init(&claim->node);
	if (ripc__map_put(&store->claims, id, claim) == 0)
		return claim;
	free(claim);
	return NULL;
}

static void claim_begin(struct store *store, struct claim *claim)
{
	claim->tries = 0;
	if (store->session)
		send_claim(store, claim);
	else if (store->away_logged)
		claim_delayed(store, claim);
}

int ripc__claim_publish(void *source, uint64_t id, uint64_t incarnation, enum ripc__naming naming)
{
	struct store *store = source;
	struct claim *claim = ripc__map_get(&store->claims, id);
	uint64_t rival = claim ? claim->news.event.incarnation : 0;

	if (claim && claim->state != CLAIM_REFUSED)
		return claim->told ? -EADDRINUSE : -EINPROGRESS;
	if (!claim)
		claim = claim_alloc(store, id);
	if (!claim)
		return -ENOMEM;
	claim->incarnation = incarnation;
	claim->private_id = naming == RIPC_NAME_PRIVATE;
	claim->state = CLAIM_WANTED;
	claim->rival = naming == RIPC_NAME_DISPLACE ? rival : 0;
	if (!claim->rival && claim->version >= 0 && store->session) { /* refused before */
		claim->tries = 0;
		send_read(store, claim);
	} else {
		claim_begin(store, claim);
	}
	return -EINPROGRESS;
}

static void claim_left(int rc, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	bool unknown = rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT;

	list_for_each_safe(node, &store->leaving) {
		struct claim *claim = list_entry(node, struct claim, node);

		if (claim->serial != request->serial)
			continue;
		if (!unknown) {
			list_remove(&claim->node);
			free(claim);
		}
		break;
	}
	free(request);
}

static void send_leave(struct store *store, struct claim *claim)
{
	struct request *request;
	char path[STORE_PATH];

	claim->serial = ++store->serial;
	request = ripc__request_make(store, claim->id, claim->serial);
	if (!request)
		return; /* the node is removed with the session */
	claim_path(store, claim, path);
	ripc__session_sends(store);
	if (zoo_adelete(store->zh, path, -1, claim_left, request) != ZOK)
		free(request);
}

void ripc__claim_withdraw(void *source, uint64_t id)
{
	struct store *store = source;
	struct claim *claim = ripc__map_remove(&store->claims, id);
	bool is_there;

	if (!claim)
		return;
	list_remove(&claim->news.node);
	list_remove(&claim->node);
	/* A request under way may still be carried out; the store keeps the order. */
	is_there = claim->state == CLAIM_MADE || claim->state == CLAIM_MAKING || claim->session ||
		claim->tries;
	if (!is_there || !store->zh) {
		free(claim);
		return;
	}
	claim->state = CLAIM_LEAVING;
	list_append(&store->leaving, &claim->node);
	if (store->session)
		send_leave(store, claim);
}

void ripc__claims_renew(struct store *store)
{
	struct claim *claim;
	uint32_t at = 0;

	list_for_each_safe(node, &store->leaving)
		send_leave(store, list_entry(node, struct claim, node));
	while ((claim = ripc__map_next(&store->claims, &at))) {
		if (claim->state == CLAIM_MADE && claim->session == store->session) {
			ripc__claim_rewrite(store, claim);
			continue;
		}
		if (claim->state == CLAIM_REFUSED || claim->state == CLAIM_MAKING)
			continue;
		claim->rival = 0;
		claim_begin(store, claim);
	}
}

void ripc__claims_delayed(struct store *store)
{
	struct claim *claim;
	uint32_t at = 0;

	if (store->away_logged)
		return;
	while ((claim = ripc__map_next(&store->claims, &at))) {
		if (claim->state == CLAIM_WANTED || claim->state == CLAIM_MAKING)
			claim_delayed(store, claim);
	}
}

void ripc__claims_free(struct store *store)
{
	struct claim *claim;
	uint32_t at = 0;

	while ((claim = ripc__map_next(&store->claims, &at)))
		free(claim);
	list_for_each_safe(node, &store->leaving)
		free(list_entry(node, struct claim, node));
	ripc__map_free(&store->claims);
}
