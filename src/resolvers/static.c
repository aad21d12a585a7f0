/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source for where multicast does not pass: hosts named in the configuration
 * (ripc_config.peers, RIPC_PEERS) are asked one by one. This source only asks; the socket on which
 * every context listens for questions is the multicast source's. Of several processes that listen
 * on one host one gets the question: core there asks the host's other processes.
 *
 * Which one gets it is decided by the kernel there, from the addresses and ports: always the
 * same for one socket of ours, even if that process is stopped. So questions are sent from
 * several sockets in turn, and a question asked again reaches another process.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "resolvers/inet.h"
#include "ripc/ripc.h"
#include "util/parse.h"

#define ENTRY_MAX 280 /* longest "host:port": a DNS name has at most 253 characters */
#define PEERS_MAX RIPC_PEERS_MAX
#define ASKERS    4

struct peers {
	struct sockaddr_in addresses[PEERS_MAX];
	uint32_t n;
	char why_not[160]; /* the entry that cannot be used, in words; "" if all can */
};

struct static_source {
	int epoll_fd; /* -1: nobody to ask */
	int askers[ASKERS];
	uint32_t ask_turn, poll_turn;
	struct peers peers;
	uint8_t buffer[WIRE_RESOLVE_MAX + 1];
};

/* Splits "host[:port]" in place. -EINVAL: no host, or no port number behind the colon. */
static int entry_split(char *entry, int *port)
{
	char *colon = strchr(entry, ':');
	uint32_t number = 0;

	if (colon) {
		*colon = '\0';
		if (ripc__parse_number(colon + 1, UINT16_MAX, &number) || !number)
			return -EINVAL;
		*port = (int)number;
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

static int address_add(struct peers *peers, const struct sockaddr_in *address)
{
	for (uint32_t i = 0; i < peers->n; i++) {
		if (peers->addresses[i].sin_addr.s_addr == address->sin_addr.s_addr &&
				peers->addresses[i].sin_port == address->sin_port)
			return 0;
	}
	if (peers->n == PEERS_MAX)
		return -EINVAL;
	peers->addresses[peers->n++] = *address;
	return 0;
}

/*
 * Adds the IPv4 addresses of one entry. For a name, not for an address, the name service is asked,
 * which may take long. -EINVAL: it cannot be understood, or is one too many; -EAGAIN: nobody has
 * that name now, or the name service does not answer.
 */
static int entry_add(struct peers *peers, const char *text, int port)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found = NULL;
	char entry[ENTRY_MAX];
	int error;

	snprintf(entry, sizeof(entry), "%s", text);
	/* What fills the room has been cut, or is longer than any name. */
	if (strlen(entry) == ENTRY_MAX - 1 || is_ipv6(text) || entry_split(entry, &port)) {
		snprintf(peers->why_not, sizeof(peers->why_not), "peers: \"%.80s\" is %s", text,
			is_ipv6(text) ? "an IPv6 address; hosts are asked over IPv4 only" :
			"not host[:port]");
		return -EINVAL;
	}
	error = getaddrinfo(entry, NULL, &hints, &found);
	if (error) {
		snprintf(peers->why_not, sizeof(peers->why_not),
			"peers: no IPv4 address for \"%.80s\": %.40s", text, gai_strerror(error));
		return error == EAI_MEMORY ? -ENOMEM : -EAGAIN;
	}
	for (struct addrinfo *info = found; info && !error; info = info->ai_next) {
		struct sockaddr_in address;

		memcpy(&address, info->ai_addr, sizeof(address));
		address.sin_port = htons((uint16_t)port);
		error = address_add(peers, &address);
	}
	freeaddrinfo(found);
	if (error)
		snprintf(peers->why_not, sizeof(peers->why_not), "peers: more than %d at \"%.80s\"",
			PEERS_MAX, text);
	return error;
}

/* Copies what stands before the next comma, without blanks around it. Returns what follows it. */
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

/*
 * -EINVAL: an entry cannot be understood, or the default port; why_not says which. A name that has
 * no address now is left out: hosts come and go, and so do their names.
 */
static int peers_parse(const struct ripc__host *host, struct peers *peers)
{
	const char *at = host->peers ? host->peers : "";
	int port = ripc__inet_port(host);
	char entry[ENTRY_MAX];

	if (port < 0)
		return port;
	while (*at) {
		int error;

		at = entry_next(at, entry);
		if (!*entry)
			continue;
		error = entry_add(peers, entry, port);
		if (error && error != -EAGAIN)
			return error;
		if (error)
			host->log(host->arg, RIPC_LOG_WARN, "%s (left out)", peers->why_not);
	}
	return 0;
}

static int static_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct peers *peers = calloc(1, sizeof(*peers));
	int error = peers ? peers_parse(host, peers) : -ENOMEM;
	const char *why_not = peers ? peers->why_not : "";

	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "%s", *why_not ? why_not : strerror(-error));
		snprintf(remedy, 256, "%s", error == -ENOMEM ? "close other programs" :
			"correct RIPC_PEERS: \"host[:port],...\"");
	} else if (!peers->n) {
		error = -ENOENT;
		snprintf(why, 256, "%s", *why_not ? why_not : "no peers are configured");
		snprintf(remedy, 256,
			"where multicast does not pass, set RIPC_PEERS=host[:port],...");
	} else {
		snprintf(why, 256, "asks %u address%s by unicast%s%s", peers->n,
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
	if (!error)
		return 0;
	askers_close(state, n);
	close(state->epoll_fd);
	return error;
}

static int static_open(void *source, const struct ripc__host *host)
{
	struct static_source *state = source;
	int error;

	*state = (struct static_source){.epoll_fd = -1};
	error = peers_parse(host, &state->peers);
	if (error) {
		if (*state->peers.why_not)
			host->log(host->arg, RIPC_LOG_ERROR, "%s", state->peers.why_not);
		return error;
	}
	return state->peers.n ? askers_open(state) : 0;
}

static void static_close(void *source)
{
	const struct static_source *state = source;

	if (state->epoll_fd < 0)
		return;
	askers_close(state, ASKERS);
	close(state->epoll_fd);
}

static int static_notify(void *source, const void *data, size_t len)
{
	struct static_source *state = source;
	int fd = state->askers[state->ask_turn++ % ASKERS];
	int sent = 0;

	/* A host that cannot be reached now must not keep the others from being asked. */
	for (uint32_t i = 0; i < state->peers.n; i++) {
		ssize_t n = sendto(fd, data, len, MSG_NOSIGNAL,
			(const struct sockaddr *)&state->peers.addresses[i],
			sizeof(state->peers.addresses[i]));

		sent += n >= 0 || errno == EAGAIN || errno == ENOBUFS;
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

/* Which of the hosts it came from, from 1; 0: none of them. */
static uint16_t peer_of(const struct peers *peers, const struct ripc__source_event *event)
{
	for (uint32_t i = 0; i < peers->n; i++) {
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
};
