/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session with ZooKeeper. The client has no threads: it reports the descriptor that it waits
 * for, and until when, and is called then. A handle whose session has expired is closed, and
 * another one is opened at once; if none can be opened, or no server answers, another try
 * follows after STORE_RETRY_US, twice that, ... RETRY_MOST_US.
 *
 * Traps of the client: it writes to stderr, unless a handle has a function for that; its
 * descriptor is inherited by programs that are started; an unknown name gives no handle; by
 * default it looks up its servers' names whenever it is called. An ephemeral node made in the
 * same transaction as a container ends the program (an assertion): containers are therefore made
 * separately.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/system/clock.h"

#define RETRY_MOST_US 400000u
#define PACKETS_MAX   512 /* looked at in one step */
#define TOP           2   /* "/ripc/CLUSTER/s": the number of nodes above it */

int ripc__session_error(int rc)
{
	switch (rc) {
	case ZOK:
		return 0;
	case ZNOAUTH:
	case ZAUTHFAILED:
	case ZINVALIDACL:
		return -EACCES;
	case ZCONNECTIONLOSS:
	case ZOPERATIONTIMEOUT:
	case ZSESSIONEXPIRED:
	case ZSESSIONMOVED:
	case ZINVALIDSTATE:
	case ZCLOSING:
		return -EHOSTUNREACH;
	case ZMARSHALLINGERROR:
	case ZSYSTEMERROR:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

void ripc__result_ignore(int rc, const char *value, const void *data)
{
	(void)rc;
	(void)value;
	(void)data;
}

struct request *ripc__request_make(struct store *store, uint64_t id, uint64_t serial)
{
	struct request *request = calloc(1, sizeof(*request));

	if (request)
		*request = (struct request){.store = store, .id = id, .serial = serial};
	return request;
}

void ripc__news(struct store *store, struct news *news, const struct ripc__source_event *event)
{
	news->event = *event;
	list_remove(&news->node);
	list_append(&store->news, &news->node);
}

/* Everybody may read; with a credential, only its owners may do anything else. */
void ripc__acl_init(struct store *store)
{
	store->owned[0] = (struct ACL){ZOO_PERM_ALL, {(char *)"auth", (char *)""}};
	store->owned[1] = (struct ACL){ZOO_PERM_READ, {(char *)"world", (char *)"anyone"}};
	store->top = (struct ACL){ZOO_PERM_CREATE | ZOO_PERM_READ,
		{(char *)"world", (char *)"anyone"}};
	store->acl_top = (struct ACL_vector){1, &store->top};
	store->acl = store->auth ? (struct ACL_vector){2, store->owned} : ZOO_OPEN_ACL_UNSAFE;
}

static void parent_made(int rc, const char *value, const void *data)
{
	struct store *store = (void *)(uintptr_t)data;

	(void)value;
	if (rc == ZNOAUTH) /* otherwise a user of the node sees whether it exists */
		store->shelves_refused = true;
}

/*
 * The client that makes the node above all shelves makes these, too: most others find them
 * there.
 */
static void top_made(int rc, const char *value, const void *data)
{
	struct request *request = (void *)(uintptr_t)data;
	struct store *store = request->store;
	bool is_private = request->serial;

	free(request);
	parent_made(rc, value, store);
	for (uint64_t shard = 0; rc == ZOK && store->zh && shard < STORE_SHARDS; shard++)
		ripc__parents_make(store, shard, is_private);
}

static void top_make(struct store *store, const char *path, bool is_private)
{
	struct request *request = ripc__request_make(store, 0, is_private);

	if (request && zoo_acreate(store->zh, path, NULL, -1, &store->acl, ZOO_PERSISTENT,
			top_made, request) != ZOK)
		free(request);
}

void ripc__parents_make(struct store *store, uint64_t id, bool is_private)
{
	uint8_t *made = &store->made[is_private][id % STORE_SHARDS / 8];
	uint8_t bit = (uint8_t)(1u << id % 8);
	char path[STORE_PATH];
	int depth = 0;

	if (*made & bit)
		return;
	*made |= bit;
	ripc__path_make(store, path, ripc__shelf(is_private), id, 0);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'), depth++) {
		if (depth <= TOP && store->tops_made[is_private])
			continue;
		*slash = '\0';
		/* The first one is for all clusters, whatever their credentials. */
		if (depth == TOP)
			top_make(store, path, is_private);
		else
			zoo_acreate(store->zh, path, NULL, -1, depth ? &store->acl :
				&store->acl_top, ZOO_PERSISTENT, parent_made, store);
		*slash = '/';
	}
	store->tops_made[is_private] = true;
}

/* ---- connection -------------------------------------------------------------------------- */

static void logged(const char *line)
{
	(void)line; /* the source reports what matters, by the context's log */
}

static void connected(struct store *store)
{
	const struct ripc__host *host = &store->host;
	bool was_away = store->away_logged;

	store->session = zoo_client_id(store->zh)->client_id;
	store->away_us = 0;
	store->away_logged = false;
	store->retry_after_us = STORE_RETRY_US;
	memset(store->made, 0, sizeof(store->made));
	memset(store->tops_made, 0, sizeof(store->tops_made));
	if (was_away)
		host->log(host->arg, RIPC_LOG_WARN, "store: %.100s responds again", store->servers);
	store->began(store);
}

static void disconnected(struct store *store)
{
	store->session = 0;
	if (!store->away_us)
		store->away_us = ripc__clock_us();
}

/* The session's own events; those of nodes have watchers of their own. */
static void session_changed(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
	struct store *store = arg;

	(void)path;
	if (type != ZOO_SESSION_EVENT || !store || zh != store->zh)
		return;
	if (state == ZOO_CONNECTED_STATE) {
		connected(store);
		return;
	}
	disconnected(store);
	/* The handle cannot be closed from within itself. */
	if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
		store->renew = true;
}

static void retry_later(struct store *store, uint64_t now_us)
{
	store->retry_us = now_us + store->retry_after_us;
	if (store->retry_after_us < RETRY_MOST_US)
		store->retry_after_us *= 2;
}

static void session_open(struct store *store, uint64_t now_us)
{
	store->zh = zookeeper_init2(store->servers, NULL, (int)store->session_ms, NULL, store, 0,
		logged);
	if (!store->zh) { /* no memory, or no address for any name */
		retry_later(store, now_us);
		return;
	}
	zoo_set_watcher(store->zh, session_changed);
	zoo_set_servers_resolution_delay(store->zh, -1);
	if (store->auth)
		zoo_add_auth(store->zh, "digest", store->auth, (int)strlen(store->auth), NULL,
			NULL);
}

static void unwatch(struct store *store)
{
	if (store->watched_fd >= 0)
		epoll_ctl(store->epoll_fd, EPOLL_CTL_DEL, store->watched_fd, NULL);
	store->watched_fd = -1;
}

void ripc__session_close(struct store *store)
{
	zhandle_t *zh = store->zh;

	unwatch(store);
	store->zh = NULL; /* completions from now on make no more requests */
	store->session = 0;
	store->renew = false;
	if (zh)
		zookeeper_close(zh);
}

/*
 * The client may have closed a descriptor and got the same number again, which removes it from
 * the epoll set: changing it can then fail, and it is added.
 */
static void watch(struct store *store, int fd, int interest)
{
	struct epoll_event event = {.events = (interest & ZOOKEEPER_READ ? EPOLLIN : 0) |
		(interest & ZOOKEEPER_WRITE ? EPOLLOUT : 0)};

	if (fd != store->watched_fd)
		unwatch(store);
	if (fd < 0)
		return;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (epoll_ctl(store->epoll_fd, EPOLL_CTL_MOD, fd, &event))
		epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, fd, &event);
	store->watched_fd = fd;
	store->watched_events = event.events;
}

static void hold_back(const struct store *store, int on)
{
	if (store->watched_fd >= 0)
		(void)setsockopt(store->watched_fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

void ripc__session_sends(struct store *store)
{
	if (!store->sent)
		hold_back(store, 1);
	store->sent = true;
}

/* Sets what the client waits for next. The client connects, and pings, in here. */
static void attend(struct store *store, uint64_t now_us)
{
	struct timeval after = {0};
	int fd = -1, interest = 0;
	int rc = zookeeper_interest(store->zh, &fd, &interest, &after);

	if (store->sent)
		hold_back(store, 0);
	store->sent = false;
	watch(store, rc == ZOK ? fd : -1, interest);
	store->due_us = now_us + (uint64_t)after.tv_sec * 1000000u + (uint64_t)after.tv_usec;
	if (rc == ZOK)
		return;
	disconnected(store);
	if (is_unrecoverable(store->zh))
		store->renew = true;
	retry_later(store, now_us);
	store->due_us = store->retry_us;
}

static int readiness(const struct store *store)
{
	struct pollfd fd = {.fd = store->watched_fd, .events = (short)store->watched_events};

	if (store->watched_fd < 0 || poll(&fd, 1, 0) <= 0)
		return 0;
	/* The client finds an error by either of the two that it waits for. */
	return (fd.revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
		(fd.revents & (POLLOUT | POLLHUP | POLLERR) ? ZOOKEEPER_WRITE : 0);
}

/* Handles packets; each call takes one at most. */
static bool process(struct store *store)
{
	int ready = readiness(store), n = 0, rc = ZOK;
	bool any = ready;

	while (ready && rc == ZOK && n++ < PACKETS_MAX && !store->renew) {
		rc = zookeeper_process(store->zh, ready);
		ready &= ZOOKEEPER_READ;
	}
	store->busy = any && rc == ZOK && n >= PACKETS_MAX;
	return any;
}

static void say_away(struct store *store, uint64_t now_us)
{
	const struct ripc__host *host = &store->host;

	if (!store->away_us || now_us - store->away_us < STORE_GRACE_US)
		return;
	ripc__registrations_delayed(store);
	if (!store->away_logged)
		host->log(host->arg, RIPC_LOG_WARN,
			"store: no ZooKeeper server responds at %.100s; still "
			"trying", store->servers);
	store->away_logged = true;
}

void ripc__session_step(struct store *store)
{
	uint64_t now_us = ripc__clock_us();

	if (store->renew)
		ripc__session_close(store);
	if (!store->zh && now_us >= store->retry_us)
		session_open(store, now_us);
	if (store->zh && (process(store) || store->sent || now_us >= store->due_us)) {
		ripc__registrations_send(store);
		attend(store, now_us);
	}
	say_away(store, now_us);
	if (!store->zh)
		store->due_us = store->retry_us;
	if (store->renew)
		store->due_us = 0;
	/* Notifies those that wait; afterwards each new one is notified when it arrives. */
	if (store->away_us && !store->away_logged && store->due_us >
			store->away_us + STORE_GRACE_US)
		store->due_us = store->away_us + STORE_GRACE_US;
}
