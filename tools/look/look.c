/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds contexts by the names of their sockets (docs/protocol.md, Life), connects to them, and
 * asks for their pages. The kernel says whose a context is. Memory that could be cut off is not
 * mapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "look.h"
#include "../common.h"

#define DESCRIPTORS_BESIDE 96u /* for all but contexts: files, clients (http.c), what comes */
#define LEN_MAX     (1u << 20) /* of a page, bytes; ours has 64 KiB */
#define MESSAGE_LEN 16
#define NAME        "@ripc-life/"

/* ---- who is there -------------------------------------------------------------------------- */

/* The user that the kernel tells for all that have none in this user namespace. */
static uid_t overflow_uid(void)
{
	unsigned int uid = 65534;
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");

	if (file && fscanf(file, "%u", &uid) != 1)
		uid = 65534;
	if (file)
		fclose(file);
	return uid;
}

static struct look_context *find(const struct look *look, uint64_t context, uid_t uid)
{
	for (size_t i = 0; i < look->n; i++) {
		if (look->list[i]->context == context && look->list[i]->uid == uid)
			return look->list[i];
	}
	return NULL;
}

static void read_command(struct look_context *of)
{
	char path[64];
	FILE *file;

	snprintf(of->command, sizeof(of->command), "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)of->pid);
	file = of->pid > 0 ? fopen(path, "re") : NULL;
	if (!file)
		return;
	if (fgets(of->command, sizeof(of->command), file))
		of->command[strcspn(of->command, "\n")] = '\0';
	fclose(file);
	for (char *at = of->command; *at; at++)
		*at = *at < ' ' || *at > '~' ? '?' : *at;
}

static void context_free(struct look_context *of)
{
	if (of->memory)
		munmap((void *)(uintptr_t)of->memory, of->len);
	close(of->fd);
	free(of);
}

/* Does the kernel say that the process that listens is the user's by whose name it listens? */
static bool is_owner(struct look_context *of)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(of->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid != of->uid ||
			who.uid == overflow_uid())
		return false;
	of->pid = who.pid;
	read_command(of);
	return true;
}

static int context_connect(struct look_context *of)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
		"ripc-life/%x/%016" PRIx64, (unsigned int)of->uid, of->context);
	socklen_t name_len;

	of->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (of->fd < 0)
		return -errno;
	name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
	if (connect(of->fd, (struct sockaddr *)&name, name_len) == 0 && is_owner(of))
		return 0;
	close(of->fd);
	return -ECONNREFUSED;
}

static struct look_user *user_find(struct look *look, uid_t uid)
{
	for (size_t i = 0; i < look->n_users; i++) {
		if (look->users[i].n && look->users[i].uid == uid)
			return &look->users[i];
	}
	return NULL;
}

/* Each user has a context, so there is an entry for one more while there is room for a context. */
static struct look_user *user_get(struct look *look, uid_t uid)
{
	struct look_user *user = user_find(look, uid);

	for (size_t i = 0; !user && i < look->n_users; i++) {
		if (!look->users[i].n)
			user = &look->users[i];
	}
	if (!user)
		user = &look->users[look->n_users++];
	user->uid = uid;
	return user;
}

static void forget(struct look *look, size_t place)
{
	user_find(look, look->list[place]->uid)->n--;
	context_free(look->list[place]);
	look->list[place] = look->list[--look->n];
}

/* Forgets a context of this user, one that has shown nothing if there is such. */
static void forget_one_of(struct look *look, uid_t uid)
{
	size_t place = look->n;

	for (size_t i = 0; i < look->n; i++) {
		if (look->list[i]->uid == uid && (place == look->n || !look->list[i]->memory))
			place = i;
	}
	forget(look, place);
}

/* The user that gives a place to one with fewer contexts, where all are taken. NULL: none does. */
static const struct look_user *giver(struct look *look, uid_t uid)
{
	const struct look_user *own = user_find(look, uid), *most = &look->users[0];

	for (size_t i = 1; i < look->n_users; i++) {
		if (look->users[i].n > most->n)
			most = &look->users[i];
	}
	return most->n > (own ? own->n : 0) + 1 ? most : NULL;
}

static void context_meet(struct look *look, uint64_t context, uid_t uid)
{
	bool is_full = look->n >= look->max;
	struct look_context *of;

	if (find(look, context, uid) || (is_full && !giver(look, uid)))
		return;
	of = calloc(1, sizeof(*of));
	if (!of)
		return;
	of->context = context;
	of->uid = uid;
	if (context_connect(of)) {
		free(of);
		return;
	}
	if (is_full)
		forget_one_of(look, giver(look, uid)->uid);
	look->list[look->n++] = of;
	user_get(look, uid)->n++;
}

static int find_contexts(struct look *look)
{
	uid_t own = getuid();
	char line[256];
	FILE *file = fopen("/proc/net/unix", "re");

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, NAME);
		unsigned int uid;
		uint64_t context;

		if (name && sscanf(name + strlen(NAME), "%x/%16" SCNx64, &uid, &context) == 2 &&
				(own == 0 || uid == own))
			context_meet(look, context, uid);
	}
	fclose(file);
	return 0;
}

/* ---- asking -------------------------------------------------------------------------------- */

static void put32(uint8_t *to, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(value >> 8 * i);
}

static void ask(struct look_context *of)
{
	uint8_t question[MESSAGE_LEN] = {0};

	put32(question, RIPC_PAGE_MAGIC);
	put32(question + 4, RIPC_PAGE_VERSION);
	of->answered = false;
	if (send(of->fd, question, sizeof(question), MSG_NOSIGNAL) < 0 && errno != EAGAIN)
		of->ended = true;
}

/* Maps what nobody can cut off. */
static void take_memory(struct look_context *of, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat stat;
	void *memory;

	if (of->memory || seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW) ||
			fstat(fd, &stat) || stat.st_size <= 0 || stat.st_size > LEN_MAX)
		return;
	memory = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return;
	of->memory = memory;
	of->len = (size_t)stat.st_size;
}

static void take_descriptors(struct look_context *of, struct msghdr *message)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		size_t n = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; at->cmsg_type == SCM_RIGHTS && i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(fd));
			take_memory(of, fd);
			close(fd);
		}
	}
}

static void hear(struct look_context *of)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	uint8_t bytes[MESSAGE_LEN + 1];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(of->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		take_descriptors(of, &message);
	of->answered = n == MESSAGE_LEN;
	of->ended = n != MESSAGE_LEN;
}

/* Waits until all have answered or ended, or the time is over. */
static void hear_all(struct look *look, int timeout_ms)
{
	uint64_t until_ns = tool_now_ns() + (uint64_t)timeout_ms * 1000000u, now_ns;
	struct pollfd *fds = calloc(look->n + 1, sizeof(*fds));
	size_t waiting = 1;

	while (fds && waiting > 0 && (now_ns = tool_now_ns()) < until_ns) {
		waiting = 0;
		for (size_t i = 0; i < look->n; i++) {
			bool waits = !look->list[i]->answered && !look->list[i]->ended;

			fds[i] = (struct pollfd){.fd = waits ? look->list[i]->fd : -1,
				.events = POLLIN};
			waiting += waits;
		}
		if (!waiting || poll(fds, look->n, (int)((until_ns - now_ns) / 1000000u) + 1) < 0)
			break;
		for (size_t i = 0; i < look->n; i++) {
			if (fds[i].revents)
				hear(look->list[i]);
		}
	}
	free(fds);
}

/* ---- samples ------------------------------------------------------------------------------- */

static void sample(struct look_context *of)
{
	of->before = of->now;
	of->now.taken_ns = 0;
	if (of->memory) /* a file that is no page leaves the sample empty */
		(void)look_read(of->memory, of->len, of->answered, &of->now);
}

static int compare(const void *a, const void *b)
{
	const struct look_context *left = *(struct look_context *const *)a;
	const struct look_context *right = *(struct look_context *const *)b;

	if (left->pid != right->pid)
		return left->pid < right->pid ? -1 : 1;
	return left->context < right->context ? -1 : left->context > right->context;
}

static void drop_ended(struct look *look)
{
	for (size_t i = look->n; i-- > 0;) {
		if (look->list[i]->ended)
			forget(look, i);
	}
}

/* One descriptor for each context may be more than the usual limit. Returns the new limit. */
static size_t want_descriptors(void)
{
	struct rlimit limit, most;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return DESCRIPTORS_BESIDE;
	most = (struct rlimit){limit.rlim_max, limit.rlim_max};
	if (limit.rlim_cur != limit.rlim_max && setrlimit(RLIMIT_NOFILE, &most) == 0)
		limit = most;
	return limit.rlim_cur < LOOK_CONTEXTS_MAX + DESCRIPTORS_BESIDE ? (size_t)limit.rlim_cur :
		LOOK_CONTEXTS_MAX + DESCRIPTORS_BESIDE;
}

static size_t room_for(size_t descriptors)
{
	return descriptors > 2 * DESCRIPTORS_BESIDE ? descriptors - DESCRIPTORS_BESIDE :
		descriptors / 2;
}

int look_update(struct look *look, int timeout_ms)
{
	int error;

	look->max = room_for(want_descriptors());
	error = find_contexts(look);
	if (error)
		return error;
	for (size_t i = 0; i < look->n; i++)
		ask(look->list[i]);
	hear_all(look, timeout_ms);
	for (size_t i = 0; i < look->n; i++)
		sample(look->list[i]);
	drop_ended(look);
	qsort(look->list, look->n, sizeof(look->list[0]), compare);
	return 0;
}

void look_end(struct look *look)
{
	for (size_t i = 0; i < look->n; i++)
		context_free(look->list[i]);
	look->n = look->n_users = 0;
}
