/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source for networks that multicast does not pass: hosts named in the
 * configuration (ripc_config.peers, RIPC_PEERS) are queried one by one. This source only sends
 * queries; the socket on which every context listens for queries is the multicast source's. If
 * several processes listen on one host, one of them gets the query: core there queries the
 * host's other processes.
 *
 * The kernel there chooses the process, by addresses and ports: always the same for one socket
 * of ours, even if that process is stopped. Queries are therefore sent from several sockets in
 * turn, and a repeated query reaches another process.
 *
 * The addresses of a name may change: a thread resolves the names again now and then.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "internal.h"
#include "ripc/ripc.h"
#include "util/system/clock.h"
#include "util/system/remedy.h"
#include "util/system/thread.h"
#include "util/text.h"

#define ASKERS        4
#define ENTRY_MAX     280      /* longest "host:port": a DNS name has at most 253 characters */
#define NAMES_S       30u      /* until names are resolved again */
#define NAMES_SOON_US 1000000u /* the name service has not answered, or a name has no address yet */

struct static_source {
	struct ripc__host host;
	int epoll_fd; /* -1: no host to query, now and later */
	int askers[ASKERS];
	uint32_t ask_turn, poll_turn;
	struct peers peers;
	in_port_t port;       /* for entries without one, host order */
	uint32_t names_s;     /* 0: names are resolved once */
	int renewed_fd;       /* readable: the renewal is done */
	uint64_t due_us;      /* when the next one begins */
	struct renewal *renewal; /* or NULL */
	uint8_t buffer[WIRE_RESOLVE_MAX + 1];
};

/* ---- hosts ------------------------------------------------------------------------------- */

/* Splits "host[:port]" in place. -EINVAL: no host, or no port number behind the colon. */
static int entry_split(char *entry, in_port_t *port)
{
	char *colon = strchr(entry, ':');
	uint32_t number = 0;

	if (colon) {
		*colon = '\0';
		if (ripc__parse_number(colon + 1, UINT16_MAX, &number) || !number)
			return -EINVAL;
		*port = (in_port_t)number;
	}
	return *entry ? 0 : -EINVAL;
}

/* "::1" or "[::1]:80", which make no sense as host[:port]. */
static bool is_ipv6(const char *entry)
{
	char address[INET6_ADDRSTRLEN];
	struct in6_addr parsed;

	entry += *entry == '[';
	snprintf(address, sizeof(address), "%.*s", (int)strcspn(entry, "]%"), entry);
	return inet_pton(AF_INET6, address, &parsed) == 1;
}

static bool has(const struct peers *peers, const struct sockaddr_in *address)
{
	for (uint32_t i = 0; i < peers->n_places; i++) {
		if (peers->addresses[i].sin_port == address->sin_port &&
				peers->addresses[i].sin_addr.s_addr == address->sin_addr.s_addr)
			return true;
	}
	return false;
}

static int address_add(struct peers *peers, const struct sockaddr_in *address)
{
	if (has(peers, address))
		return 0;
	if (peers->n == PEERS_MAX)
		return -EINVAL;
	peers->addresses[peers->n++] = *address;
	peers->n_places = peers->n;
	return 0;
}

/*
 * Adds the IPv4 addresses of one entry. Names, but not addresses, are resolved by the name
 * service, which may take long. -EINVAL: the entry cannot be understood, or is one too many;
 * -EAGAIN: no host has that name now, or the name service does not answer.
 */
static int entry_add(struct peers *peers, const char *text, in_port_t port)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found = NULL;
	char entry[ENTRY_MAX];
	struct in_addr literal;
	int error;

	snprintf(entry, sizeof(entry), "%s", text);
	/* An entry that fills the buffer has been cut, or is longer than any name. */
	if (strlen(entry) == ENTRY_MAX - 1 || is_ipv6(text) || entry_split(entry, &port)) {
		snprintf(peers->why_not, sizeof(peers->why_not), "peers: \"%.80s\" is %s", text,
			is_ipv6(text) ? "an IPv6 address; hosts are queried over IPv4 only" :
			"not host[:port]");
		return -EINVAL;
	}
	peers->has_names |= inet_pton(AF_INET, entry, &literal) != 1;
	error = getaddrinfo(entry, NULL, &hints, &found);
	if (error) {
		peers->is_silent |= error == EAI_AGAIN || error == EAI_FAIL ||
			error == EAI_SYSTEM;
		snprintf(peers->why_not, sizeof(peers->why_not),
			"peers: no IPv4 address for \"%.80s\": %.40s", text, gai_strerror(error));
		return error == EAI_MEMORY ? -ENOMEM : -EAGAIN;
	}
	for (struct addrinfo *info = found; info && !error; info = info->ai_next) {
		struct sockaddr_in address;

		memcpy(&address, info->ai_addr, sizeof(address));
		address.sin_port = htons(port);
		error = address_add(peers, &address);
	}
	freeaddrinfo(found);
	if (error)
		snprintf(peers->why_not, sizeof(peers->why_not), "peers: more than %d at \"%.80s\"",
			PEERS_MAX, text);
	return error;
}

/* Copies the text before the next comma, without blanks around it. Returns the text behind it. */
static const char *entry_next(const char *at, char entry[ENTRY_MAX])
{
	size_t skip = strspn(at, " \t");
	size_t len = strcspn(at + skip, ",");
	const char *next = at + skip + len;

	at += skip;
	while (len && strchr(" \t", at[len - 1]))
		len--;
	snprintf(entry, ENTRY_MAX, "%.*s", (int)(len < ENTRY_MAX ? len : ENTRY_MAX - 1), at);
	return *next ? next + 1 : next;
}

int ripc__peers_read(const char *text, in_port_t port, struct peers *peers)
{
	char entry[ENTRY_MAX];
	int error = 0;

	*peers = (struct peers){0};
	while (*text && (!error || error == -EAGAIN)) {
		text = entry_next(text, entry);
		error = *entry ? entry_add(peers, entry, port) : 0;
	}
	return error == -EAGAIN ? 0 : error;
}

/*
 * Enters the address into a free place. Each missing address has one: newer has no more
 * addresses than there are places.
 */
static void place(struct peers *peers, const struct sockaddr_in *address)
{
	uint32_t at = 0;

	while (at < peers->n_places && peers->addresses[at].sin_port)
		at++;
	peers->addresses[at] = *address;
	if (at == peers->n_places)
		peers->n_places++;
}

void ripc__peers_update(struct peers *peers, const struct peers *newer)
{
	for (uint32_t i = 0; i < peers->n_places; i++) {
		if (peers->addresses[i].sin_port && !has(newer, &peers->addresses[i]))
			peers->addresses[i] = (struct sockaddr_in){0};
	}
	for (uint32_t i = 0; i < newer->n; i++) {
		if (!has(peers, &newer->addresses[i]))
			place(peers, &newer->addresses[i]);
	}
	peers->n = newer->n;
	memcpy(peers->why_not, newer->why_not, sizeof(peers->why_not));
}

/* ---- renewal ----------------------------------------------------------------------------- */

/*
 * A list of hosts is read again in a thread that ends with it. The name service may be slow: a
 * thread whose result is not needed any more frees it when it has ended.
 */
struct renewal {
	pthread_mutex_t lock;
	pthread_t thread;
	char *text;
	in_port_t port;
	int fd;
	bool is_done, is_left;
	int error;
	struct peers peers;
};

static void renewal_free(struct renewal *renewal)
{
	pthread_mutex_destroy(&renewal->lock);
	free(renewal->text);
	free(renewal);
}

static void *renewal_main(void *arg)
{
	struct renewal *renewal = arg;
	uint64_t one = 1;
	bool is_left;

	renewal->error = ripc__peers_read(renewal->text, renewal->port, &renewal->peers);
	pthread_mutex_lock(&renewal->lock);
	renewal->is_done = true;
	is_left = renewal->is_left;
	while (!is_left && write(renewal->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_mutex_unlock(&renewal->lock);
	if (is_left)
		renewal_free(renewal);
	return NULL;
}

/* fd, an eventfd, becomes readable at its end. NULL: there is no thread, or no memory. */
static struct renewal *renewal_begin(const char *text, in_port_t port, int fd)
{
	struct renewal *renewal = calloc(1, sizeof(*renewal));

	if (!renewal)
		return NULL;
	pthread_mutex_init(&renewal->lock, NULL);
	renewal->text = strdup(text);
	renewal->port = port;
	renewal->fd = fd;
	if (renewal->text &&
			ripc__thread_make(&renewal->thread, renewal_main, renewal) == 0)
		return renewal;
	renewal_free(renewal);
	return NULL;
}

/*
 * False: the reading is not done yet. Otherwise it is freed, and newer and error are its
 * results.
 */
static bool renewal_take(struct renewal *renewal, struct peers *newer, int *error)
{
	bool is_done;

	pthread_mutex_lock(&renewal->lock);
	is_done = renewal->is_done;
	pthread_mutex_unlock(&renewal->lock);
	if (!is_done)
		return false;
	pthread_join(renewal->thread, NULL);
	*newer = renewal->peers;
	*error = renewal->error;
	renewal_free(renewal);
	return true;
}

/* The result is not needed any more. Does not block. */
static void renewal_leave(struct renewal *renewal)
{
	pthread_t thread = renewal->thread;
	bool is_done;

	pthread_mutex_lock(&renewal->lock);
	is_done = renewal->is_done;
	renewal->is_left = true;
	pthread_mutex_unlock(&renewal->lock);
	if (!is_done) {
		pthread_detach(thread);
		return;
	}
	pthread_join(thread, NULL);
	renewal_free(renewal);
}

/* ---- probing ----------------------------------------------------------------------------- */

/* As ripc__peers_read(). */
static int peers_parse(const struct ripc__host *host, struct peers *peers)
{
	int port = ripc__inet_port(host);

	return port < 0 ? port : ripc__peers_read(host->peers ? host->peers : "", (in_port_t)port,
		peers);
}

static int static_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct peers *peers = calloc(1, sizeof(*peers));
	int error = peers ? peers_parse(host, peers) : -ENOMEM;
	const char *why_not = peers ? peers->why_not : "";

	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "%s", *why_not ? why_not : strerror(-error));
		ripc__remedy(error, "correct RIPC_PEERS: \"host[:port],...\"", remedy);
	} else if (!peers->n) {
		error = -ENOENT;
		snprintf(why, 256, "%s", *why_not ? why_not : "no peers are configured");
		snprintf(remedy, 256,
			"if multicast does not pass, set RIPC_PEERS=host[:port],...");
	} else {
		snprintf(why, 256, "queries %u address%s by unicast%s%s", peers->n,
			peers->n == 1 ? "" : "es", *why_not ? "; " : "", why_not);
	}
	if ((!error || error == -ENOENT) && *why_not)
		snprintf(remedy, 256, "correct the name in RIPC_PEERS, or the name service");
	free(peers);
	return error;
}

static void askers_close(const struct static_source *state, uint32_t n)
{
	while (n-- > 0)
		close(state->askers[n]);
}

static int renewed_open(struct static_source *state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int error;

	state->renewed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (state->renewed_fd < 0)
		return -errno;
	if (epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, state->renewed_fd, &event) == 0)
		return 0;
	error = -errno;
	close(state->renewed_fd);
	return error;
}

static int askers_open(struct static_source *state)
{
	struct epoll_event event = {.events = EPOLLIN};
	uint32_t n = 0;
	int error = 0;

	state->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (state->epoll_fd < 0)
		return -errno;
	while (n < ASKERS && !error) {
		int fd = ripc__inet_socket();

		if (fd < 0) {
			error = fd;
			break;
		}
		state->askers[n++] = fd;
		if (epoll_ctl(state->epoll_fd, EPOLL_CTL_ADD, fd, &event))
			error = -errno;
	}
	error = error ? error : renewed_open(state);
	if (!error)
		return 0;
	askers_close(state, n);
	close(state->epoll_fd);
	return error;
}

/* ---- names, resolved again --------------------------------------------------------------- */

static void renew_later(struct static_source *state)
{
	uint64_t after_us = 1000000ull * state->names_s;

	if (*state->peers.why_not && after_us > NAMES_SOON_US)
		after_us = NAMES_SOON_US;
	state->due_us = state->names_s ? ripc__clock_us() + after_us : UINT64_MAX;
}

/* The last addresses of the names count until the name service answers. */
static void names_take(struct static_source *state)
{
	const struct ripc__host *host = &state->host;
	bool was_well = !*state->peers.why_not;
	struct peers newer;
	uint64_t count;
	int error;

	if (!renewal_take(state->renewal, &newer, &error))
		return;
	(void)!read(state->renewed_fd, &count, sizeof(count));
	state->renewal = NULL;
	if (!error && !newer.is_silent)
		ripc__peers_update(&state->peers, &newer);
	else
		memcpy(state->peers.why_not, newer.why_not, sizeof(newer.why_not));
	if (was_well && *newer.why_not)
		host->log(host->arg, RIPC_LOG_WARN, "%s", newer.why_not);
	renew_later(state);
}

static void renew(struct static_source *state)
{
	if (state->renewal) {
		names_take(state);
	} else if (ripc__clock_us() >= state->due_us) {
		state->renewal = renewal_begin(state->host.peers, state->port,
			state->renewed_fd);
		renew_later(state);
	}
}

static uint64_t static_deadline(void *source)
{
	const struct static_source *state = source;

	return state->renewal ? UINT64_MAX : state->due_us;
}

/* ---- open and close ---------------------------------------------------------------------- */

static int static_open(void *source, const struct ripc__host *host)
{
	struct static_source *state = source;
	int error;

	*state = (struct static_source){.host = *host, .epoll_fd = -1};
	error = peers_parse(host, &state->peers);
	if (*state->peers.why_not)
		host->log(host->arg, error ? RIPC_LOG_ERROR : RIPC_LOG_WARN, "%s%s",
			state->peers.why_not, error ? "" : " (left out)");
	if (error)
		return error;
	error = ripc__inet_number(host, "resolver.names_s", NAMES_S);
	if (error < 0)
		return error;
	state->names_s = state->peers.has_names ? (uint32_t)error : 0;
	state->port = (in_port_t)ripc__inet_port(host);
	renew_later(state);
	return state->peers.n || state->names_s ? askers_open(state) : 0;
}

static void static_close(void *source)
{
	const struct static_source *state = source;

	if (state->epoll_fd < 0)
		return;
	if (state->renewal)
		renewal_leave(state->renewal);
	askers_close(state, ASKERS);
	close(state->renewed_fd);
	close(state->epoll_fd);
}

static int static_notify(void *source, const void *data, size_t len)
{
	struct static_source *state = source;
	int fd = state->askers[state->ask_turn++ % ASKERS];
	int sent = 0;

	/* A host that cannot be reached now must not keep the others from being queried. */
	for (uint32_t i = 0; i < state->peers.n_places; i++) {
		const struct sockaddr_in *to = &state->peers.addresses[i];

		sent += to->sin_port && (sendto(fd, data, len, MSG_NOSIGNAL,
			(const struct sockaddr *)to, sizeof(*to)) >= 0 || errno == EAGAIN ||
			errno == ENOBUFS);
	}
	return sent;
}

static int static_ask(void *source, uint64_t id, const void *data, size_t len)
{
	(void)id;
	return static_notify(source, data, len);
}

static int static_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	const struct static_source *state = source;

	return ripc__inet_reply(state->askers[0], to, data, len);
}

static uint32_t static_n_peers(void *source)
{
	const struct static_source *state = source;

	return state->peers.n;
}

/* The number of the host that sent it, from 1; 0: none of them. */
static uint16_t peer_of(const struct peers *peers, const struct ripc__source_event *event)
{
	for (uint32_t i = 0; i < peers->n_places; i++) {
		const struct sockaddr_in *address = &peers->addresses[i];

		if (memcmp(event->reply.blob, &address->sin_addr, 4) == 0 &&
				memcmp(event->reply.blob + 4, &address->sin_port, 2) == 0)
			return (uint16_t)(i + 1);
	}
	return 0;
}

static int static_poll(void *source, struct ripc__source_event *event)
{
	struct static_source *state = source;

	if (state->epoll_fd < 0)
		return 0;
	if (state->names_s)
		renew(state);
	for (uint32_t i = 0; i < ASKERS; i++) {
		int fd = state->askers[state->poll_turn++ % ASKERS];

		if (ripc__inet_receive(fd, state->buffer, event)) {
			event->peer = peer_of(&state->peers, event);
			return 1;
		}
	}
	return 0;
}

static int static_wait_fd(void *source)
{
	const struct static_source *state = source;

	return state->epoll_fd;
}

const struct ripc__source ripc__static_source = {
	.name = "static",
	.size = sizeof(struct static_source),
	.probe = static_probe,
	.open = static_open,
	.close = static_close,
	.ask = static_ask,
	.n_peers = static_n_peers,
	.reply = static_reply,
	.notify = static_notify,
	.poll = static_poll,
	.wait_fd = static_wait_fd,
	.deadline = static_deadline,
};
