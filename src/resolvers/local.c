/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source of one host: an abstract Unix datagram socket per published ID, so that
 * the kernel answers "nobody" at once and removes the name with the last process that holds it.
 *
 * The name is "\0ripc/<uid>/<id>/<k>" in hex. k is 0, unless the holder of a lower k is dead but
 * its name is not (a forked child has inherited the socket): then core displaces it with the
 * next k. A question goes to every k that exists. Whoever sends here must have our uid or be
 * root: the kernel vouches for that (SCM_CREDENTIALS), since anybody can send to such a socket.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/backend.h"
#include "core/wire.h"
#include "util/map.h"

#define NAMES_PER_ID 8   /* k */
#define READY_MAX    16  /* readable sockets fetched from the kernel at once */
#define ASK_ALL_MAX  1024 /* names that one question to everybody reaches */

/* One socket: of a published ID, or the one that asks. */
struct endpoint {
	uint64_t id; /* 0: asks */
	int fd;
};

struct local {
	struct ripc__host host;
	uid_t uid;
	int epoll_fd;
	struct endpoint asker;
	struct ripc__map endpoints;      /* by ID */
	struct endpoint *ready[READY_MAX]; /* NULL: closed since it was fetched */
	uint32_t n_ready, next_ready;
	uint8_t buffer[WIRE_RECORD_MAX + 1]; /* one more, to see what is too long */
};

/* Returns the length for bind and sendto. */
static socklen_t name_make(const struct local *local, uint64_t id, unsigned int k,
		struct sockaddr_un *name)
{
	int len;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "ripc/%x/%016" PRIx64 "/%x",
		(unsigned int)local->uid, id, k);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int socket_make(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, error;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static int watch(struct local *local, struct endpoint *endpoint)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = endpoint};

	return epoll_ctl(local->epoll_fd, EPOLL_CTL_ADD, endpoint->fd, &event) ? -errno : 0;
}

static int local_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	int fd = socket_make();

	(void)host;
	if (fd < 0) {
		snprintf(why, 256, "no Unix datagram sockets: %s", strerror(-fd));
		snprintf(remedy, 256, "%s", fd == -EMFILE || fd == -ENFILE ?
			"raise the limit of open files (ulimit -n)" :
			"allow AF_UNIX sockets (kernel CONFIG_UNIX, seccomp or sandbox rules)");
		return fd;
	}
	close(fd);
	snprintf(why, 256,
		"abstract Unix sockets: finds services of uid %u in this network namespace",
		(unsigned int)getuid());
	remedy[0] = '\0';
	return 0;
}

static int local_open(void *source, const struct ripc__host *host)
{
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	struct local *local = source;
	int error;

	*local = (struct local){.host = *host, .uid = getuid()};
	ripc__map_init(&local->endpoints, host->context);
	local->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (local->epoll_fd < 0)
		return -errno;
	local->asker.fd = socket_make();
	if (local->asker.fd < 0) {
		error = local->asker.fd;
		goto err_close_epoll;
	}
	/* An empty name asks the kernel for a free one, to which the answers go. */
	if (bind(local->asker.fd, (struct sockaddr *)&any, sizeof(any.sun_family)))
		error = -errno;
	else
		error = watch(local, &local->asker);
	if (!error)
		return 0;
	close(local->asker.fd);
err_close_epoll:
	close(local->epoll_fd);
	return error;
}

static void endpoint_free(struct endpoint *endpoint)
{
	close(endpoint->fd);
	free(endpoint);
}

static void local_close(void *source)
{
	struct local *local = source;
	struct endpoint *endpoint;
	uint32_t at = 0;

	while ((endpoint = ripc__map_next(&local->endpoints, &at)))
		endpoint_free(endpoint);
	ripc__map_free(&local->endpoints);
	close(local->asker.fd);
	close(local->epoll_fd);
}

/*
 * Does somebody hold one of the names after the first? Connecting delivers nothing, unlike
 * sending. 0: nobody; 1: somebody.
 */
static int others_held(const struct local *local, uint64_t id)
{
	struct sockaddr_un name;
	int fd = socket_make();
	int held = 0;

	if (fd < 0)
		return fd;
	for (unsigned int k = 1; k < NAMES_PER_ID && !held; k++) {
		socklen_t len = name_make(local, id, k, &name);

		held = connect(fd, (const struct sockaddr *)&name, len) == 0 ||
			errno != ECONNREFUSED;
	}
	close(fd);
	return held;
}

static int bind_first_free(const struct local *local, uint64_t id, int fd)
{
	struct sockaddr_un name;

	for (unsigned int k = 0; k < NAMES_PER_ID; k++) {
		socklen_t len = name_make(local, id, k, &name);

		if (bind(fd, (struct sockaddr *)&name, len) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

/* Binds name 0 only, and only if nobody holds any other (having displaced somebody once). */
static int bind_sole(const struct local *local, uint64_t id, int fd)
{
	struct sockaddr_un name;
	socklen_t len = name_make(local, id, 0, &name);

	int held;

	if (bind(fd, (struct sockaddr *)&name, len))
		return -errno;
	held = others_held(local, id);
	return held > 0 ? -EADDRINUSE : held;
}

static int local_publish(void *source, uint64_t id, bool displace)
{
	struct local *local = source;
	struct endpoint *endpoint;
	int error;

	if (ripc__map_get(&local->endpoints, id))
		return -EADDRINUSE;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return -ENOMEM;
	endpoint->id = id;
	endpoint->fd = socket_make();
	if (endpoint->fd < 0) {
		error = endpoint->fd;
		goto err_free;
	}
	error = displace ? bind_first_free(local, id, endpoint->fd) :
		bind_sole(local, id, endpoint->fd);
	error = error ? error : watch(local, endpoint);
	error = error ? error : ripc__map_put(&local->endpoints, id, endpoint);
	if (!error)
		return 0;
	close(endpoint->fd);
err_free:
	free(endpoint);
	return error;
}

static void local_withdraw(void *source, uint64_t id)
{
	struct local *local = source;
	struct endpoint *endpoint = ripc__map_remove(&local->endpoints, id);

	if (!endpoint)
		return;
	for (uint32_t i = local->next_ready; i < local->n_ready; i++) {
		if (local->ready[i] == endpoint)
			local->ready[i] = NULL;
	}
	/* A forked child may keep the socket, and with it the entry in our set, alive. */
	epoll_ctl(local->epoll_fd, EPOLL_CTL_DEL, endpoint->fd, NULL);
	endpoint_free(endpoint);
}

/* Returns to how many it was sent. A full queue counts: somebody is there. */
static int send_to(struct local *local, const struct sockaddr_un *name, socklen_t name_len,
		const struct iovec *data)
{
	ssize_t n = sendto(local->asker.fd, data->iov_base, data->iov_len, MSG_NOSIGNAL,
		(const struct sockaddr *)name, name_len);

	return n >= 0 || errno == EAGAIN || errno == ENOBUFS;
}

/* ---- who is there: /proc/net/unix ------------------------------------------------------- */

/* Takes "...  @ripc/<uid>/<id>/<k>" apart. */
static bool line_parse(const struct local *local, const char *line, uint64_t *id, unsigned int *k)
{
	const char *at = strchr(line, '@');
	unsigned int uid, number;
	uint64_t found;
	int end = 0;

	if (!at || sscanf(at, "@ripc/%8x/%16" SCNx64 "/%1x%n", &uid, &found, &number, &end) != 3)
		return false;
	if ((at[end] != '\n' && at[end] != '\0') || uid != local->uid || !found ||
			number >= NAMES_PER_ID)
		return false;
	*id = found;
	*k = number;
	return true;
}

/* Calls visit for each of our names until it returns false. */
static int names_each(struct local *local, bool (*visit)(void *arg, uint64_t id, unsigned int k),
		void *arg)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char *line = NULL;
	size_t size = 0;
	unsigned int k;
	uint64_t id;

	if (!file)
		return -errno;
	while (getline(&line, &size, file) >= 0) {
		if (line_parse(local, line, &id, &k) && !visit(arg, id, k))
			break;
	}
	free(line);
	fclose(file);
	return 0;
}

struct ask_all {
	struct local *local;
	struct iovec data;
	int sent;
};

static bool ask_one(void *arg, uint64_t id, unsigned int k)
{
	struct ask_all *all = arg;
	struct sockaddr_un name;
	socklen_t len = name_make(all->local, id, k, &name);

	all->sent += send_to(all->local, &name, len, &all->data);
	return all->sent < ASK_ALL_MAX;
}

struct list_call {
	void (*found)(void *arg, uint64_t id);
	void *arg;
};

static bool list_one(void *arg, uint64_t id, unsigned int k)
{
	const struct list_call *call = arg;

	(void)k;
	call->found(call->arg, id);
	return true;
}

static int local_list(void *source, void (*found)(void *arg, uint64_t id), void *arg)
{
	struct list_call call = {found, arg};

	return names_each(source, list_one, &call);
}

/* ---- datagrams -------------------------------------------------------------------------- */

static int local_ask(void *source, uint64_t id, const void *data, size_t len)
{
	struct ask_all all = {source, {(void *)(uintptr_t)data, len}, 0};

	if (!id) {
		int error = names_each(source, ask_one, &all);

		return error ? error : all.sent;
	}
	for (unsigned int k = 0; k < NAMES_PER_ID; k++)
		ask_one(&all, id, k);
	return all.sent;
}

static int local_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	const struct local *local = source;
	socklen_t name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + to->len);
	ssize_t n;

	/* Only abstract names: a path would make us write to somebody's file system. */
	if (to->len < 2 || to->len > RIPC_ADDR_MAX || to->blob[0] != '\0')
		return -EINVAL;
	memcpy(name.sun_path, to->blob, to->len);
	n = sendto(local->asker.fd, data, len, MSG_NOSIGNAL, (struct sockaddr *)&name, name_len);
	return n < 0 ? -errno : 0;
}

static bool sender_believed(const struct local *local, struct msghdr *message)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	bool believed = false;

	for (; cmsg; cmsg = CMSG_NXTHDR(message, cmsg)) {
		struct ucred credentials;

		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_RIGHTS) {
			/* Nobody asked for descriptors; kept, they would exhaust ours. */
			size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
			const unsigned char *at = CMSG_DATA(cmsg);

			for (size_t i = 0; i < n; i++) {
				int fd;

				memcpy(&fd, at + i * sizeof(fd), sizeof(fd));
				close(fd);
			}
		} else if (cmsg->cmsg_type == SCM_CREDENTIALS &&
				cmsg->cmsg_len == CMSG_LEN(sizeof(credentials))) {
			memcpy(&credentials, CMSG_DATA(cmsg), sizeof(credentials));
			believed = credentials.uid == local->uid || credentials.uid == 0;
		}
	}
	return believed;
}

/* Receives one datagram. 1; 0: there was none, or one that does not count; nothing is said. */
static int receive(struct local *local, int fd, struct ripc__source_event *event)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
	} control;
	struct sockaddr_un from = {.sun_family = AF_UNIX};
	struct iovec iov = {local->buffer, sizeof(local->buffer)};
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov,
		.msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	size_t name_len;

	if (n < 0 || !sender_believed(local, &message) || n > WIRE_RECORD_MAX)
		return 0;
	*event = (struct ripc__source_event){.data = local->buffer, .len = (uint32_t)n,
		.host = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .local = true};
	memcpy(event->reply.host, event->host, sizeof(event->host));
	name_len = message.msg_namelen > offsetof(struct sockaddr_un, sun_path) ?
		message.msg_namelen - offsetof(struct sockaddr_un, sun_path) : 0;
	if (name_len <= RIPC_ADDR_MAX) {
		event->reply.len = (uint8_t)name_len;
		memcpy(event->reply.blob, from.sun_path, name_len);
	}
	return 1;
}

static void ready_fetch(struct local *local)
{
	struct epoll_event events[READY_MAX];
	int n = epoll_wait(local->epoll_fd, events, READY_MAX, 0);

	local->next_ready = 0;
	local->n_ready = n > 0 ? (uint32_t)n : 0;
	for (uint32_t i = 0; i < local->n_ready; i++)
		local->ready[i] = events[i].data.ptr;
}

/*
 * One datagram per readable socket and turn, so that a flood at one ID does not keep the others
 * waiting. What does not count is passed over, a bounded number of times.
 */
static int local_poll(void *source, struct ripc__source_event *event)
{
	struct local *local = source;

	for (uint32_t tries = 0; tries < READY_MAX; tries++) {
		struct endpoint *endpoint;

		if (local->next_ready == local->n_ready)
			ready_fetch(local);
		if (local->n_ready == 0)
			return 0;
		endpoint = local->ready[local->next_ready++];
		if (endpoint && receive(local, endpoint->fd, event))
			return 1;
	}
	return 0;
}

static int local_wait_fd(void *source)
{
	const struct local *local = source;

	return local->epoll_fd;
}

const struct ripc__source ripc__local_source = {
	.name = "local",
	.size = sizeof(struct local),
	.probe = local_probe,
	.open = local_open,
	.close = local_close,
	.publish = local_publish,
	.withdraw = local_withdraw,
	.ask = local_ask,
	.reply = local_reply,
	.poll = local_poll,
	.wait_fd = local_wait_fd,
	.list = local_list,
};
