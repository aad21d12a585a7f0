/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server of HTTP/1.1 with one page. Each connection brings one request, of limited length, and
 * has limited time. While all places are taken, a new connection takes the place of the oldest one
 * without a whole request, so a client that is slow or silent keeps nobody else waiting.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "metrics.h"
#include "../common.h"

#define CLIENTS_MAX 32
#define REQUEST_MAX 4096     /* bytes */
#define PATIENCE_NS 5000000000u /* for a request and its answer */
#define FRESH_NS    100000000u  /* lifetime of a cached text */
#define DEAF_NS     100000000u  /* without a descriptor for a connection */
#define UNREAD_MAX  64          /* REQUEST_MAX each, of what a client says after its request */

struct page {
	int (*text)(void *arg, FILE *to);
	void *arg;
	char *bytes;
	size_t len;
	uint64_t made_ns;
};

struct client {
	int fd; /* -1: none */
	uint64_t until_ns;
	uint64_t moved_ns; /* when it was accepted, or took a part of its answer */
	char request[REQUEST_MAX + 1];
	size_t len;
	char *answer; /* NULL: the request has not come yet */
	size_t answer_len, sent;
};

struct server {
	int listener;
	uint64_t deaf_until_ns; /* nobody is accepted */
	struct client clients[CLIENTS_MAX];
	struct page page;
};

/* ---- listening ----------------------------------------------------------------------------- */

/* Takes "[HOST]:PORT", "HOST:PORT" or "PORT" apart. */
static int split(const char *where, char host[128], const char **port)
{
	const char *colon = strrchr(where, ':');
	const char *begin = where[0] == '[' ? where + 1 : where;
	size_t len = colon ? (size_t)(colon - begin) : 0;

	*port = colon ? colon + 1 : where;
	if (where[0] == '[' && (!colon || len == 0 || colon[-1] != ']'))
		return -EINVAL;
	if (where[0] == '[')
		len--;
	if (len >= 128 || **port == '\0')
		return -EINVAL;
	snprintf(host, 128, "%.*s", (int)len, begin);
	return 0;
}

static int listen_at(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, error;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, CLIENTS_MAX) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static void tell_address(int fd, char listening[128])
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);
	char host[64] = "?", port[16] = "?";

	if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
		getnameinfo((struct sockaddr *)&at, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(listening, 128, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int http_listen(const char *where, char listening[128])
{
	struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM}, *found;
	const char *port;
	char host[128];
	int fd = split(where, host, &port);

	if (fd < 0 || getaddrinfo(host[0] ? host : "127.0.0.1", port, &hints, &found))
		return -EINVAL;
	fd = listen_at(found);
	freeaddrinfo(found);
	if (fd >= 0)
		tell_address(fd, listening);
	return fd;
}

/* ---- answers ------------------------------------------------------------------------------- */

static int page_make(struct page *page)
{
	uint64_t now_ns = tool_now_ns();
	char *bytes = NULL;
	size_t len = 0;
	FILE *to;
	int error;

	if (page->bytes && now_ns - page->made_ns < FRESH_NS)
		return 0;
	to = open_memstream(&bytes, &len);
	if (!to)
		return -ENOMEM;
	error = page->text(page->arg, to);
	if (fclose(to) || error) {
		free(bytes);
		return error ? error : -ENOMEM;
	}
	free(page->bytes);
	page->bytes = bytes;
	page->len = len;
	page->made_ns = tool_now_ns();
	return 0;
}

static void answer(struct client *client, const char *status, const char *type, const char *body,
		size_t len)
{
	char *bytes = malloc(len + 512);
	int head;

	if (!bytes) {
		client->until_ns = 0; /* to be closed */
		return;
	}
	head = snprintf(bytes, 512, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
		"%sConnection: close\r\n\r\n", status, type, len,
		strncmp(status, "405", 3) ? "" : "Allow: GET\r\n");
	memcpy(bytes + head, body, len);
	client->answer = bytes;
	client->answer_len = (size_t)head + len;
}

static void answer_error(struct client *client, const char *status)
{
	char body[64];
	int len = snprintf(body, sizeof(body), "%s\n", status);

	answer(client, status, "text/plain; charset=utf-8", body, (size_t)len);
}

/* "GET /metrics HTTP/1.x", perhaps with a query, which is not looked at. */
static const char *refusal(const char *request)
{
	const char *target = strchr(request, ' ');
	const char *version = target ? strchr(target + 1, ' ') : NULL;
	size_t line = strcspn(request, "\r\n");

	if (!version || (size_t)(version - request) > line ||
			strncmp(version, " HTTP/1.", strlen(" HTTP/1.")) != 0)
		return "400 Bad Request";
	if (strncmp(request, "GET ", 4) != 0)
		return "405 Method Not Allowed";
	if (strncmp(target, " /metrics", 9) != 0 || (target[9] != ' ' && target[9] != '?'))
		return "404 Not Found";
	return NULL;
}

static void respond(struct server *server, struct client *client)
{
	const char *refused;

	client->request[client->len] = '\0';
	refused = refusal(client->request);
	if (!refused && page_make(&server->page))
		refused = "503 Service Unavailable";
	if (refused)
		answer_error(client, refused);
	else
		answer(client, "200 OK", METRICS_TYPE, server->page.bytes, server->page.len);
}

/* ---- connections --------------------------------------------------------------------------- */

static void client_close(struct client *client)
{
	close(client->fd);
	free(client->answer);
	*client = (struct client){.fd = -1};
}

static void client_read(struct server *server, struct client *client)
{
	ssize_t n = recv(client->fd, client->request + client->len, REQUEST_MAX - client->len, 0);

	if (n <= 0) {
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			client->until_ns = 0;
		return;
	}
	client->len += (size_t)n;
	client->request[client->len] = '\0';
	if (strstr(client->request, "\r\n\r\n") || strstr(client->request, "\n\n"))
		respond(server, client);
	else if (memchr(client->request, '\0', client->len))
		answer_error(client, "400 Bad Request");
	else if (client->len == REQUEST_MAX)
		answer_error(client, "431 Request Header Fields Too Large");
}

static void client_write(struct client *client)
{
	ssize_t n = send(client->fd, client->answer + client->sent,
		client->answer_len - client->sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		client->until_ns = 0;
	if (n > 0) {
		client->sent += (size_t)n;
		client->moved_ns = tool_now_ns();
	}
	if (client->sent == client->answer_len) {
		/* Unread input would discard the answer on close. */
		shutdown(client->fd, SHUT_WR);
		for (int i = 0; i < UNREAD_MAX &&
				recv(client->fd, client->request, REQUEST_MAX, 0) > 0; i++)
			;
		client->until_ns = 0;
	}
}

/* Loses one its place rather than two: without a whole request, or deaf for longer? */
static bool is_idler(const struct client *one, const struct client *two)
{
	if (!one->answer != !two->answer)
		return !one->answer;
	return one->moved_ns < two->moved_ns;
}

static struct client *place_get(struct server *server)
{
	struct client *idlest = server->clients;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		struct client *client = &server->clients[i];

		if (client->fd < 0)
			return client;
		if (is_idler(client, idlest))
			idlest = client;
	}
	client_close(idlest);
	return idlest;
}

static void accept_one(struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	uint64_t now_ns = tool_now_ns();

	if (fd < 0)
		server->deaf_until_ns = now_ns + DEAF_NS;
	else
		*place_get(server) = (struct client){.fd = fd, .moved_ns = now_ns,
			.until_ns = now_ns + PATIENCE_NS};
}

/* Waits for connections and for all clients. */
static int wait_for_any(const struct server *server, struct pollfd fds[CLIENTS_MAX + 1])
{
	bool deaf = tool_now_ns() < server->deaf_until_ns;
	bool any = false;

	for (int i = 0; i < CLIENTS_MAX; i++) {
		const struct client *client = &server->clients[i];

		fds[i] = (struct pollfd){.fd = client->fd,
			.events = client->answer ? POLLOUT : POLLIN};
		any |= client->fd >= 0;
	}
	fds[CLIENTS_MAX] = (struct pollfd){.fd = deaf ? -1 : server->listener, .events = POLLIN};
	/* A second: that of clients whose time is over is noticed. */
	return poll(fds, CLIENTS_MAX + 1, deaf ? (int)(DEAF_NS / 1000000u) :
		any ? 1000 : -1) < 0 && errno != EINTR ? -errno : 0;
}

int http_serve(int listener, int (*text)(void *arg, FILE *to), void *arg)
{
	static struct server server; /* too large for the stack */
	struct pollfd fds[CLIENTS_MAX + 1];
	int error;

	server = (struct server){.listener = listener, .page = {.text = text, .arg = arg}};
	for (int i = 0; i < CLIENTS_MAX; i++)
		server.clients[i].fd = -1;
	while ((error = wait_for_any(&server, fds)) == 0) {
		for (int i = 0; i < CLIENTS_MAX; i++) {
			struct client *client = &server.clients[i];

			if (client->fd >= 0 && fds[i].revents && client->answer)
				client_write(client);
			else if (client->fd >= 0 && fds[i].revents)
				client_read(&server, client);
			if (client->fd >= 0 && tool_now_ns() > client->until_ns)
				client_close(client);
		}
		if (fds[CLIENTS_MAX].revents)
			accept_one(&server);
	}
	return error;
}
