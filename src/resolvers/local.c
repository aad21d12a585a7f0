/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver source of one host: an abstract Unix datagram socket per published ID. The kernel
 * thus answers at once if a name is not bound, and removes the name with the last process that
 * has it.
 *
 * The name is "\0ripc/<uid>/<id>/<k>" in hex. k is 0, unless the owner of a lower k
 * is dead but its name is not (a forked child has inherited the socket), or is another user's:
 * then core displaces it with the next k, and when all are taken, with one that cannot be
 * predicted. A query is sent to every k that exists. Each member of a group binds a name of the
 * group's ID, with a k of its own. A sender must have our uid or be root: the kernel vouches for
 * its uid (SCM_CREDENTIALS), because any process can send to, or bind, such a socket.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/net/backend.h"
#include "core/wire/record.h"
#include "internal.h"
#include "ripc/ripc.h"
#include "util/map.h"
#include "util/system/clock.h"
#include "util/system/remedy.h"
#include "util/system/users.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define READY_MAX    16   /* readable sockets fetched from the kernel at once */
#define ASK_ALL_MAX  1024 /* names that one query for all reaches */

#define NAMES_PER_ID 8u     /* tried without reading which names exist */
#define NAME_PRIVATE 8u
#define LIFETIME_US  40000u /* names that were read are recent for this long, */
#define COST_TIMES   50u    /* or 50 times as long as the reading took: a fiftieth of a processor */
#define NAMES_MAX    65536u

/*
 * The name of a service that a process of this host has bound. k is a number in hex. 0: the first
 * owner's. 1 to 7: of an owner that displaced one that did not respond. 8: of a private ID. Larger
 * ones: drawn at random by a process that found 0 to 7 taken, hence no process can take all. The k
 * of a group's member is its incarnation, with the highest bit set.
 */
struct name {
	uint64_t id, k;
};

struct name_list {
	struct name *at;
	uint32_t n, room;
};

/*
 * The names that were read last from /proc/net/unix; reading takes milliseconds where there are
 * thousands of sockets.
 */
struct names {
	struct name_list own, others; /* of our user; of other users */
	uint64_t read_us, took_us;    /* read_us 0: never */
};

/* One socket: of a published ID, or the one that sends queries. */
struct endpoint {
	uint64_t id; /* or member_key(); 0: sends queries */
	int fd;
};

struct local {
	struct liveness
		liveness; /* the first member: some slots of the source are functions of life */
	struct ripc__host host;
	uid_t uid;
	bool is_user;                    /* uid is of one user, and not of all unknown ones */
	int epoll_fd;
	struct endpoint asker;
	struct ripc__map endpoints;      /* by ID */
	struct names names;
	struct endpoint *ready[READY_MAX]; /* NULL: closed since it was fetched, or of life */
	uint32_t n_ready, next_ready;
	uint8_t buffer[WIRE_RESOLVE_MAX + 1]; /* one more, to detect longer ones */
};

/* ---- names ------------------------------------------------------------------------------- */

/* Returns the length for bind and sendto. */
static socklen_t name_make(uid_t uid, uint64_t id, uint64_t k, struct sockaddr_un *name)
{
	int len;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
		"ripc/%x/%016" PRIx64 "/%" PRIx64, (unsigned int)uid, id, k);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int name_bind(const struct local *local, uint64_t id, uint64_t k, int fd)
{
	struct sockaddr_un name;
	socklen_t len = name_make(local->uid, id, k, &name);

	return bind(fd, (const struct sockaddr *)&name, len) ? -errno : 0;
}

/* Parses "... @ripc/<uid>/<id>/<k>". */
static bool line_parse(const char *line, unsigned int *uid, struct name *found)
{
	const char *at = strchr(line, '@');
	struct sockaddr_un again;
	size_t len;

	if (!at || sscanf(at, "@ripc/%8x/%16" SCNx64 "/%16" SCNx64, uid, &found->id,
			&found->k) != 3)
		return false;
	/* There is one way to write it. */
	name_make(*uid, found->id, found->k, &again);
	len = strlen(again.sun_path + 1);
	return found->id && strncmp(at + 1, again.sun_path + 1, len) == 0 &&
		(at[1 + len] == '\n' || at[1 + len] == '\0');
}

static int name_add(struct name_list *list, const struct name *name)
{
	if (list->n == list->room) {
		uint32_t room = list->room ? 2 * list->room : 64;
		struct name *more = realloc(list->at, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->at = more;
		list->room = room;
	}
	list->at[list->n++] = *name;
	return 0;
}

/* Reads the names, unless they are recent. */
static int names_refresh(struct local *local)
{
	struct names *names = &local->names;
	uint64_t now_us = ripc__clock_us();
	uint64_t patience_us = COST_TIMES * names->took_us;
	uint64_t began_us; /* of this thread's processor time: other threads may run in between */
	unsigned int uid;
	struct name found;
	char *line = NULL;
	size_t size = 0;
	int error = 0;
	FILE *file;

	patience_us = patience_us < LIFETIME_US ? LIFETIME_US : patience_us;
	if (names->read_us && now_us - names->read_us < patience_us)
		return 0;
	began_us = ripc__clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000;
	file = fopen("/proc/net/unix", "re");
	if (!file)
		return -errno;
	names->own.n = names->others.n = 0;
	while (!error && names->own.n < NAMES_MAX && getline(&line, &size, file) >= 0) {
		if (!line_parse(line, &uid, &found))
			continue;
		if (uid == local->uid)
			error = name_add(&names->own, &found);
		else if (names->others.n < NAMES_MAX) /* no room of our own is taken */
			error = name_add(&names->others, &found);
	}
	free(line);
	fclose(file);
	names->read_us = ripc__clock_us();
	names->took_us = ripc__clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000 - began_us;
	return error;
}

/* ---- sockets ----------------------------------------------------------------------------- */

/*
 * No sender has descriptors to pass to us, and some do harm when they are closed: closing a
 * socket that lingers blocks. If the kernel knows the option (6.16), they are refused.
 */
static int socket_make(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, off = 0, error;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
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
		ripc__remedy(fd, "allow AF_UNIX sockets (kernel CONFIG_UNIX, seccomp or sandbox "
			"rules)", remedy);
		return fd;
	}
	close(fd);
	snprintf(why, 256,
		"abstract Unix sockets: finds services of this user (uid %u) in this network "
		"namespace; the next sources find those of other users",
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
	local->is_user = ripc__uid_is_user(local->uid);
	if (!local->is_user && host->log)
		host->log(host->arg, RIPC_LOG_WARN, "local: uid %u stands for all users without a "
			"number in this user namespace: only root's services are found",
			(unsigned int)local->uid);
	ripc__map_init(&local->endpoints, host->context);
	local->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (local->epoll_fd < 0)
		return -errno;
	local->asker.fd = socket_make();
	if (local->asker.fd < 0) {
		error = local->asker.fd;
		goto err_close_epoll;
	}
	/* An empty name makes the kernel choose a free one, which gets the answers. */
	if (bind(local->asker.fd, (struct sockaddr *)&any, sizeof(any.sun_family)))
		error = -errno;
	else
		error = watch(local, &local->asker);
	ripc__liveness_open(&local->liveness, host, local->uid, local->epoll_fd);
	if (!error)
		return 0;
	ripc__liveness_close(&local->liveness);
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

	ripc__liveness_close(&local->liveness);
	while ((endpoint = ripc__map_next(&local->endpoints, &at)))
		endpoint_free(endpoint);
	ripc__map_free(&local->endpoints);
	free(local->names.own.at);
	free(local->names.others.at);
	close(local->asker.fd);
	close(local->epoll_fd);
}

/*
 * Checks the names after the first. 0: none is bound; 1: one is. Connecting delivers nothing,
 * unlike sending.
 */
static int others_held(const struct local *local, uint64_t id)
{
	struct sockaddr_un name;
	int fd = socket_make();
	int held = 0;

	if (fd < 0)
		return fd;
	for (unsigned int k = 1; k < NAMES_PER_ID && !held; k++) {
		socklen_t len = name_make(local->uid, id, k, &name);

		held = connect(fd, (const struct sockaddr *)&name, len) == 0 ||
			errno != ECONNREFUSED;
	}
	close(fd);
	return held;
}

/* All names are taken: by displaced services, or by an attacker. */
static int bind_random(const struct local *local, uint64_t id, int fd)
{
	uint64_t k;

	if (getrandom(&k, sizeof(k), 0) != sizeof(k))
		return -EADDRINUSE;
	return name_bind(local, id, k | 1ull << 63, fd);
}

static int bind_first_free(const struct local *local, uint64_t id, int fd)
{
	for (unsigned int k = 0; k < NAMES_PER_ID; k++) {
		int error = name_bind(local, id, k, fd);

		if (error != -EADDRINUSE)
			return error;
	}
	return bind_random(local, id, fd);
}

/* Binds name 0 only, and only if no other is bound (by a service that displaced another). */
static int bind_sole(const struct local *local, uint64_t id, int fd)
{
	int error = name_bind(local, id, 0, fd), held;

	if (error)
		return error;
	held = others_held(local, id);
	return held > 0 ? -EADDRINUSE : held;
}

static int bind_as(const struct local *local, uint64_t id, int fd, enum ripc__naming naming)
{
	if (naming == RIPC_NAME_PRIVATE)
		return name_bind(local, id, NAME_PRIVATE, fd);
	return naming == RIPC_NAME_DISPLACE ? bind_first_free(local, id, fd) :
		bind_sole(local, id, fd);
}

/* Makes an endpoint without a name. */
static int endpoint_make(const struct local *local, uint64_t key, struct endpoint **endpoint_out)
{
	struct endpoint *endpoint;
	int fd;

	if (ripc__map_get(&local->endpoints, key))
		return -EADDRINUSE;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return -ENOMEM;
	fd = socket_make();
	if (fd < 0) {
		free(endpoint);
		return fd;
	}
	*endpoint = (struct endpoint){key, fd};
	*endpoint_out = endpoint;
	return 0;
}

/* Enters the endpoint. error: of binding its name. */
static int endpoint_enter(struct local *local, struct endpoint *endpoint, int error)
{
	error = error ? error : watch(local, endpoint);
	error = error ? error : ripc__map_put(&local->endpoints, endpoint->id, endpoint);
	if (error)
		endpoint_free(endpoint);
	return error;
}

static int local_publish(void *source, uint64_t id, uint64_t incarnation, enum ripc__naming naming)
{
	struct local *local = source;
	struct endpoint *endpoint;
	int error = endpoint_make(local, id, &endpoint);

	(void)incarnation; /* the answering process sends its incarnation */
	if (error)
		return error;
	error = endpoint_enter(local, endpoint, bind_as(local, id, endpoint->fd, naming));
	if (!error && naming == RIPC_NAME_DISPLACE && local->host.log)
		local->host.log(local->host.arg, RIPC_LOG_WARN, "local: the name of service "
			"%016" PRIx64 " is bound by a process that does not respond, or by another "
			"user's; the service is registered under another name", id);
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

/*
 * Returns how many sockets it was sent to. Only the kernel's error that the name is not bound
 * counts as such: a full queue has an owner. A socket of another type is not of libripc.
 */
static int ask_one(struct local *local, const struct name *at, const struct iovec *data)
{
	struct sockaddr_un name;
	socklen_t len = name_make(local->uid, at->id, at->k, &name);
	ssize_t n = sendto(local->asker.fd, data->iov_base, data->iov_len, MSG_NOSIGNAL,
		(const struct sockaddr *)&name, len);

	return n >= 0 || (errno != ECONNREFUSED && errno != EPROTOTYPE);
}

/*
 * Sends to the bound names: of all IDs (id 0), otherwise to those of this ID that cannot be
 * predicted.
 */
static int ask_bound(struct local *local, uint64_t id, const struct iovec *data)
{
	int error = names_refresh(local), sent = 0;

	for (uint32_t i = 0; !error && i < local->names.own.n && sent < ASK_ALL_MAX; i++) {
		const struct name *name = &local->names.own.at[i];

		if (id ? name->id == id && name->k > NAME_PRIVATE : name->k != NAME_PRIVATE)
			sent += ask_one(local, name, data);
	}
	return error ? error : sent;
}

/* Queries all owners of a name. */
static int local_ask_again(void *source, uint64_t id, const void *data, size_t len)
{
	const struct iovec iov = {(void *)(uintptr_t)data, len};
	struct local *local = source;
	uint32_t sent = 0, more;

	if (!id || wire_is_group(id))
		return ask_bound(local, id, &iov);
	for (uint64_t k = 0; k < NAMES_PER_ID; k++)
		sent += (uint32_t)ask_one(local, &(struct name){id, k}, &iov);
	more = sent == NAMES_PER_ID;
	sent += (uint32_t)ask_one(local, &(struct name){id, NAME_PRIVATE}, &iov);
	/* Without the list, only the predictable names are known. */
	if (more) {
		int n = ask_bound(local, id, &iov);

		sent += n > 0 ? (uint32_t)n : 0;
	}
	return (int)sent;
}

/*
 * Mostly there is one owner. Others, which have displaced it, are queried when it does not
 * respond.
 */
static int local_ask(void *source, uint64_t id, const void *data, size_t len)
{
	const struct iovec iov = {(void *)(uintptr_t)data, len};

	if (id && !wire_is_group(id) && ask_one(source, &(struct name){id, 0}, &iov))
		return 1;
	return local_ask_again(source, id, data, len);
}

/*
 * Any process can bind a name with the user ID of another: only a negative answer follows from
 * it.
 */
static bool local_is_others(void *source, uint64_t id)
{
	struct local *local = source;
	int error = names_refresh(local);

	for (uint32_t i = 0; !error && i < local->names.others.n; i++) {
		if (local->names.others.at[i].id == id)
			return true;
	}
	return false;
}

static int local_list(void *source, void (*found)(void *arg, uint64_t id, bool is_private),
		void *arg)
{
	struct local *local = source;
	int error = names_refresh(local);

	for (uint32_t i = 0; !error && i < local->names.own.n; i++)
		found(arg, local->names.own.at[i].id, local->names.own.at[i].k == NAME_PRIVATE);
	return error;
}

/* ---- groups ------------------------------------------------------------------------------ */

/* The key of a membership among the endpoints: incarnations are random numbers. */
static uint64_t member_key(uint64_t group, uint64_t incarnation)
{
	return group ^ incarnation;
}

static int local_join(void *source, uint64_t group, uint64_t incarnation)
{
	struct local *local = source;
	struct endpoint *endpoint;
	int error = endpoint_make(local, member_key(group, incarnation), &endpoint);

	if (error)
		return error;
	return endpoint_enter(local, endpoint, name_bind(local, group, incarnation | 1ull << 63,
		endpoint->fd));
}

static void local_leave(void *source, uint64_t group, uint64_t incarnation)
{
	local_withdraw(source, member_key(group, incarnation));
}

static int local_members(void *source, uint64_t group, void (*found)(void *arg, uint64_t name),
		void *arg)
{
	struct local *local = source;
	int error = names_refresh(local);

	for (uint32_t i = 0; !error && i < local->names.own.n; i++) {
		if (local->names.own.at[i].id == group && local->names.own.at[i].k >> 63)
			found(arg, local->names.own.at[i].k);
	}
	return error;
}

static int local_ask_member(void *source, uint64_t group, uint64_t name, const void *data,
		size_t len)
{
	const struct iovec iov = {(void *)(uintptr_t)data, len};

	return ask_one(source, &(struct name){group, name}, &iov);
}

static int local_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	const struct local *local = source;
	socklen_t name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + to->len);
	ssize_t n;

	/* Only abstract names: a path would make us write to another's file system. */
	if (to->len < 2 || to->len > RIPC_ADDR_MAX || to->blob[0] != '\0')
		return -EINVAL;
	memcpy(name.sun_path, to->blob, to->len);
	n = sendto(local->asker.fd, data, len, MSG_NOSIGNAL, (struct sockaddr *)&name, name_len);
	return n < 0 ? -errno : 0;
}

static bool sender_believed(const struct local *local, struct msghdr *message)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	struct ucred credentials;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_CREDENTIALS ||
			cmsg->cmsg_len != CMSG_LEN(sizeof(credentials)))
		return false;
	memcpy(&credentials, CMSG_DATA(cmsg), sizeof(credentials));
	return credentials.uid == 0 || (credentials.uid == local->uid && local->is_user);
}

/*
 * There is room for the credentials alone: descriptors that arrive with them are never ours.
 * Closing one of a file would drop all locks that this process has on it (fcntl(2)).
 */
/* Receives one datagram. 1; 0: there was none, or one that does not count and is not reported. */
static int receive(struct local *local, int fd, struct ripc__source_event *event)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct sockaddr_un from = {.sun_family = AF_UNIX};
	struct iovec iov = {local->buffer, sizeof(local->buffer)};
	struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov,
		.msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	size_t name_len;

	if (n < 0 || !sender_believed(local, &message) || n > WIRE_RESOLVE_MAX)
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
	int n;

	ripc__liveness_tend(&local->liveness);
	n = epoll_wait(local->epoll_fd, events, READY_MAX, 0);
	local->next_ready = 0;
	local->n_ready = n > 0 ? (uint32_t)n : 0;
	for (uint32_t i = 0; i < local->n_ready; i++) {
		bool is_liveness = ripc__liveness_owns(events[i].data.ptr);

		if (is_liveness)
			ripc__liveness_ready(&local->liveness, events[i].data.ptr);
		local->ready[i] = is_liveness ? NULL : events[i].data.ptr;
	}
}

/*
 * One datagram per readable socket and turn: a flood at one ID does not keep the others waiting.
 * A datagram that does not count is passed over, a bounded number of times.
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
	.ask_again = local_ask_again,
	.is_others = local_is_others,
	.reply = local_reply,
	.poll = local_poll,
	.wait_fd = local_wait_fd,
	.list = local_list,
	.group = {
		.join = local_join,
		.leave = local_leave,
		.list = local_members,
		.ask = local_ask_member,
	},
	.watch = ripc__liveness_watch,
	.unwatch = ripc__liveness_unwatch,
	.look = ripc__liveness_look,
	.life = ripc__liveness_number,
	.ended = ripc__liveness_ended,
};
