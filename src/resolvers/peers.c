/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a list of hosts: see internal.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "util/system/thread.h"
#include "util/text.h"

#define ENTRY_MAX 280 /* longest "host:port": a DNS name has at most 253 characters */

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

static bool has(const struct peers *peers, const struct sockaddr_in *address)
{
	for (uint32_t i = 0; i < peers->n_places; i++) {
		if (peers->addresses[i].sin_port == address->sin_port &&
				peers->addresses[i].sin_addr.s_addr == address->sin_addr.s_addr)
			return true;
	}
	return false;
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
 * Reading a list of hosts again, in a thread that ends with it (internal.h). The name service
 * may be slow: a thread whose result is not needed any more frees it when it has ended.
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

struct renewal *ripc__renewal_begin(const char *text, in_port_t port, int fd)
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

bool ripc__renewal_take(struct renewal *renewal, struct peers *newer, int *error)
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

void ripc__renewal_leave(struct renewal *renewal)
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
