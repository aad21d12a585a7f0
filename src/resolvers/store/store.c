/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source that queries a store shared by many hosts: ZooKeeper (internal.h). The
 * source owns the options, the UDP socket that receives and sends queries, and the one epoll
 * descriptor that is readable when either socket is.
 */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "resolvers/internal.h"
#include "ripc/ripc.h"
#include "util/options.h"
#include "util/system/clock.h"
#include "util/system/remedy.h"

#define SESSION_MS     6000
#define RECEIVE_BUFFER (4 << 20) /* answers to many queries at once */
#define PROBE_US       1500000u
#define AUTH_MAX       256

/* ---- moved ------------------------------------------------------------------------------- */

/*
 * The addresses of this host, which are in its nodes. Core is notified of a change, and stale
 * nodes are written again, at once or when the session is back. Readers that have looked up an
 * ID watch its node.
 */

static void moved_open(struct store *store)
{
	struct epoll_event event = {.events = EPOLLIN};

	store->changes = ripc__changes_open();
	if (store->changes >= 0)
		(void)epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->changes, &event);
}

/* Writes all stale nodes again: public ones, private ones, and members. */
static void rewrite_all(struct store *store)
{
	struct registration *registration;
	uint32_t at = 0;

	while ((registration = ripc__map_next(&store->registrations, &at)))
		ripc__registration_rewrite(store, registration);
	ripc__joined_renew(store);
}

/* Have the addresses of this host changed? */
static bool moved_step(struct store *store)
{
	if (!ripc__changes_read(store->changes) || !ripc__addresses_look(store))
		return false;
	store->moves++;
	if (store->session)
		rewrite_all(store);
	return true;
}

/* ---- options ----------------------------------------------------------------------------- */

/* Reads the cluster's name, which is part of paths. */
static int cluster_read(struct store *store, const char *text)
{
	const struct ripc__host *host = &store->host;
	size_t len;

	text = text && *text ? text : "default";
	len = strlen(text);
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && !strchr("-_", text[i]))
			len = STORE_CLUSTER;
	}
	if (len >= STORE_CLUSTER) {
		host->log(host->arg, RIPC_LOG_ERROR,
			"option store.cluster: \"%.80s\" is not at most %d of A-Z, a-z, 0-9, - "
			"and _", text, STORE_CLUSTER - 1);
		return -EINVAL;
	}
	memcpy(store->cluster, text, len + 1);
	return 0;
}

/* Reads the first line of the file, "user:password". */
static int auth_read(struct store *store, const char *path)
{
	const struct ripc__host *host = &store->host;
	FILE *file = path ? fopen(path, "re") : NULL;
	char line[AUTH_MAX] = "";
	int error = 0;

	if (!path)
		return 0;
	if (!file || !fgets(line, sizeof(line), file))
		error = file ? -ENODATA : -errno;
	if (file)
		fclose(file);
	line[strcspn(line, "\r\n")] = '\0';
	if (error || !strchr(line, ':') || strlen(line) == AUTH_MAX - 1) {
		host->log(host->arg, RIPC_LOG_ERROR, "option store.auth: the first line of "
			"\"%.100s\" is not user:password%s%s", path, error ? ": " : "",
			error ? strerror(-error) : "");
		return -EINVAL;
	}
	store->auth = strdup(line);
	return store->auth ? 0 : -ENOMEM;
}

static int servers_read(struct store *store, const char *text)
{
	if (!text || !*text) {
		store->host.log(store->host.arg, RIPC_LOG_ERROR,
			"resolver.sources names the store, but store.servers is not set");
		return -EINVAL;
	}
	store->servers = strdup(text);
	if (!store->servers)
		return -ENOMEM;
	for (char *at = store->servers; (at = strchr(at, ';'));)
		*at = ',';
	return 0;
}

static int options_read(struct store *store)
{
	struct store_wish wish = {.session_ms = SESSION_MS};
	int error = ripc__options_read(&store->host, ripc__store_options, &wish);

	store->session_ms = wish.session_ms;
	error = error ? error : cluster_read(store, wish.cluster);
	error = error ? error : auth_read(store, wish.auth);
	ripc__acl_init(store);
	return error ? error : servers_read(store, wish.servers);
}

/* ---- open and close ---------------------------------------------------------------------- */

static int udp_open(struct store *store)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct epoll_event event = {.events = EPOLLIN};
	socklen_t len = sizeof(any);
	int size = RECEIVE_BUFFER, error;
	int fd = ripc__inet_socket();

	if (fd < 0)
		return fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (bind(fd, (struct sockaddr *)&any, sizeof(any)) ||
			getsockname(fd, (struct sockaddr *)&any, &len) ||
			epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		error = -errno;
		close(fd);
		return error == -EINVAL ? -EADDRNOTAVAIL : error;
	}
	store->udp = fd;
	store->port = any.sin_port;
	return 0;
}

static void options_free(struct store *store)
{
	free(store->servers);
	free(store->auth);
}

static void session_began(struct store *store)
{
	ripc__registrations_renew(store);
	ripc__joined_renew(store);
	ripc__members_renew(store);
}

static int store_open(void *source, const struct ripc__host *host)
{
	struct store *store = source;
	int error;

	*store = (struct store){.host = *host, .began = session_began, .watched_fd = -1,
		.epoll_fd = -1};
	ripc__map_init(&store->registrations, host->context);
	ripc__map_init(&store->known, host->context);
	ripc__map_init(&store->joined, host->context);
	ripc__map_init(&store->groups, host->context);
	list_init(&store->registering);
	list_init(&store->leaving);
	list_init(&store->known_order);
	list_init(&store->groups_order);
	list_init(&store->news);
	error = options_read(store);
	if (error)
		goto err_free;
	store->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (store->epoll_fd < 0) {
		error = -errno;
		goto err_free;
	}
	error = udp_open(store);
	if (error)
		goto err_close;
	moved_open(store);
	(void)ripc__addresses_look(store);
	store->away_us = ripc__clock_us();
	store->retry_after_us = STORE_RETRY_US;
	ripc__session_step(store);
	return 0;
err_close:
	close(store->epoll_fd);
err_free:
	options_free(store);
	return error;
}

static void store_close(void *source)
{
	struct store *store = source;

	ripc__session_close(store);
	ripc__registrations_free(store);
	ripc__known_free(store);
	ripc__joined_free(store);
	ripc__members_free(store);
	options_free(store);
	if (store->changes >= 0)
		close(store->changes);
	close(store->udp);
	close(store->epoll_fd);
}

/* ---- probing ----------------------------------------------------------------------------- */

static void wait_connected(struct store *store)
{
	uint64_t end_us = ripc__clock_us() + PROBE_US;

	while (!store->session && ripc__clock_us() < end_us) {
		struct pollfd fd = {.fd = store->epoll_fd, .events = POLLIN};

		(void)poll(&fd, 1, 10);
		ripc__session_step(store);
	}
}

/* Adds this to the remedy. */
static void say_unprotected(const char *servers, char remedy[256])
{
	size_t len = strlen(remedy);

	if (!ripc__servers_are_here(servers))
		snprintf(remedy + len, 256 - len, "%sthe connection is not protected: an attacker "
			"who can alter its packets can end this process, even one with keys; use a "
			"tunnel (stunnel: docs/security.md)", len ? "; " : "");
}

static int store_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct store *store = calloc(1, sizeof(*store));
	int error = store ? store_open(store, host) : -ENOMEM;

	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "%s", error == -EINVAL ? "an option is invalid" :
			strerror(-error));
		ripc__remedy(error, "correct store.servers (host:port;...), store.cluster, "
			"store.session_ms or store.auth in RIPC_OPTIONS", remedy);
		free(store);
		return error;
	}
	wait_connected(store);
	if (store->session) {
		snprintf(why, 256, "ZooKeeper at %.100s, cluster \"%s\"%s: a session of %d ms",
			store->servers, store->cluster, store->auth ? ", with a credential" : "",
			zoo_recv_timeout(store->zh));
	} else {
		error = -EHOSTUNREACH;
		snprintf(why, 256, "no ZooKeeper server responds at %.150s", store->servers);
		snprintf(remedy, 256, "start one (docs/discovery.md), correct store.servers, or "
			"check for a firewall");
	}
	say_unprotected(store->servers, remedy);
	store_close(store);
	free(store);
	return error;
}

/* ---- work -------------------------------------------------------------------------------- */

static int store_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	const struct store *store = source;

	return ripc__inet_reply(store->udp, to, data, len);
}

static int store_poll(void *source, struct ripc__source_event *event)
{
	struct store *store = source;

	if (moved_step(store)) {
		*event = (struct ripc__source_event){.kind = RIPC_SOURCE_REHOMED};
		return 1;
	}
	if (list_empty(&store->news))
		ripc__session_step(store);
	if (!list_empty(&store->news)) {
		const struct news *news = list_entry(list_pop(&store->news), struct news, node);

		*event = news->event;
		return 1;
	}
	return ripc__inet_receive(store->udp, store->buffer, event);
}

static int store_wait_fd(void *source)
{
	const struct store *store = source;

	return store->epoll_fd;
}

static uint64_t store_deadline(void *source)
{
	const struct store *store = source;
	bool now = !list_empty(&store->news) || store->busy || store->sent || store->renew;

	return now ? 0 : store->due_us;
}

const struct ripc__source ripc__store_source = {
	.name = "store",
	.size = sizeof(struct store),
	.exact = true,
	.probe = store_probe,
	.open = store_open,
	.close = store_close,
	.publish = ripc__registration_publish,
	.withdraw = ripc__registration_withdraw,
	.ask = ripc__known_ask,
	.list = ripc__known_list,
	.group = {ripc__joined_join, ripc__joined_leave, ripc__members_list, ripc__members_ask},
	.reply = store_reply,
	.poll = store_poll,
	.wait_fd = store_wait_fd,
	.deadline = store_deadline,
};
