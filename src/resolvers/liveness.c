/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Liveness of contexts on this host. A context listens at an abstract Unix socket with its
 * incarnation as the name, and holds a record lock (fcntl(2)) on a file without a name. Two
 * contexts that have to do with each other are connected, and each has a descriptor of the
 * other's file.
 *
 * Design notes. The end of the connection is only the cause to look; the lock is the proof. The
 * kernel takes the lock from a process that ends, however that ends, before it ends the
 * process's sockets; a forked child inherits the connection, but not the lock. A connection that
 * ends while the lock is held proves nothing: the other context needs us no more. A context that
 * ends before it has shown its lock is proven to have ended when no socket listens there any
 * more, or when the process that listened has ended. The number of that process may belong to
 * another by then: a process that has ended proves the end, a process that lives proves nothing.
 * A process loses its locks on a file with any descriptor of it that it closes: our own file is
 * therefore not accepted from others, and the lock is taken anew if another process hands the
 * file to us. A process does not see its own locks: contexts of one process are not connected,
 * they end together.
 *
 * A process that can connect and has our uid is believed; it could end us, too. Such a process,
 * and root, may also request our page (ripc/page.h), again and again on one connection. If two
 * contexts connect to each other at once, the connection of the lesser incarnation stays.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/bytes.h"
#include "util/hash/siphash.h"
#include "util/system/locks.h"
#include "util/system/users.h"

#define MAGIC       0x4546494cu /* "LIFE" */
#define MAGIC_PAGE  0x45474150u /* "PAGE" */
#define VERSION     1u
#define MESSAGE_LEN 16
#define BACKLOG     128
#define ACCEPTS_MAX (2 * BACKLOG) /* more than can wait: a later connection is a new edge */
#define UNNAMED_MAX 64u
#define LOOKS_MAX   64u /* locks in one look */

struct liveness_link {
	struct list node;      /* liveness->unnamed, or liveness->closed */
	struct liveness *liveness;
	uint64_t context;      /* 0: unnamed */
	uint32_t refs;         /* watches */
	int fd, lock_fd;       /* -1: none */
	bool ours;             /* we have connected */
};

/* ---- locks ------------------------------------------------------------------------------- */

static int lock_open(struct liveness *liveness)
{
	struct stat stat;
	int fd = memfd_create("ripc-life", MFD_CLOEXEC), error;

	if (fd < 0)
		return -errno;
	error = fstat(fd, &stat) ? -errno : ripc__pledge(fd, RIPC__PLEDGE_FIRST);
	if (error) {
		close(fd);
		return error;
	}
	liveness->lock_fd = fd;
	liveness->lock_dev = stat.st_dev;
	liveness->lock_ino = stat.st_ino;
	return 0;
}

/* Closes a descriptor that another process has sent to us. */
static void lock_drop(struct liveness *liveness, int fd)
{
	struct stat stat;
	bool own = fstat(fd, &stat) == 0 && stat.st_dev == liveness->lock_dev &&
		stat.st_ino == liveness->lock_ino;

	close(fd);
	if (own && liveness->lock_fd >= 0)
		(void)ripc__pledge(liveness->lock_fd, RIPC__PLEDGE_FIRST);
}

/* ---- sockets ----------------------------------------------------------------------------- */

static socklen_t name_make(const struct liveness *liveness, uint64_t context,
		struct sockaddr_un *name)
{
	int len;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
		"ripc-life/%x/%016" PRIx64, (unsigned int)liveness->uid, context);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int watch_fd(struct liveness *liveness, int fd, uint32_t events, void *owner)
{
	struct epoll_event event = {.events = events, .data.ptr = (char *)owner + 1};

	return epoll_ctl(liveness->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void unwatch_fd(struct liveness *liveness, int fd)
{
	/* A forked child may keep the descriptor, and with it the entry in our set, alive. */
	epoll_ctl(liveness->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

/* The upper half of the descriptors is not used for proofs. */
static bool is_affordable(int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		(rlim_t)fd < limit.rlim_cur / 2;
}

static bool is_believed(const struct liveness *liveness, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
		who.uid == liveness->uid && liveness->is_user && who.pid != getpid();
}

/* May the other end see our page? Yes if its user is ours, or root. */
static bool may_look(const struct liveness *liveness, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
		(who.uid == 0 || (who.uid == liveness->uid && liveness->is_user));
}

/* Sends our context, and a descriptor; -1: none. */
static int say(const struct liveness *liveness, int fd, uint32_t magic, int shown_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	uint8_t bytes[MESSAGE_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = shown_fd < 0 ? 0 : sizeof(control)};
	struct cmsghdr *cmsg = &control.align;

	put32(bytes, magic);
	put32(bytes + 4, VERSION);
	put64(bytes + 8, liveness->host.context);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &shown_fd, sizeof(int));
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int introduce(const struct liveness *liveness, int fd)
{
	return say(liveness, fd, MAGIC, liveness->lock_fd);
}

static int show_page(const struct liveness *liveness, int fd)
{
	return say(liveness, fd, MAGIC_PAGE,
		liveness->host.page ? liveness->host.page(liveness->host.arg) : -1);
}

/* Takes the one descriptor that a message should have; -1: it has another number of them. */
static int take_descriptor(struct liveness *liveness, struct msghdr *message)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	int fds[4], wanted = -1;
	size_t n = 0;

	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	n = n < 4 ? n : 4;
	memcpy(fds, n ? CMSG_DATA(cmsg) : (void *)fds, n * sizeof(int));
	if (n == 1 && !(message->msg_flags & MSG_CTRUNC))
		wanted = fds[0];
	for (size_t i = 0; i < n && wanted < 0; i++)
		lock_drop(liveness, fds[i]);
	return wanted;
}

/* Is it a file that can be locked, and not our own? */
static bool is_lock(const struct liveness *liveness, int fd)
{
	struct stat stat;

	return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) &&
		(stat.st_dev != liveness->lock_dev || stat.st_ino != liveness->lock_ino);
}

/*
 * Receives the other end's message about itself. 1: its context and lock; 2: a request for our
 * page; 0: nothing yet; -ECONNRESET: the connection has ended; -EBADMSG: nonsense.
 */
static int hear(struct liveness *liveness, int fd, uint64_t *context, int *lock_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	uint8_t bytes[MESSAGE_LEN + 1];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -ECONNRESET;
	*lock_fd = take_descriptor(liveness, &message);
	if (n == 0 && *lock_fd < 0)
		return -ECONNRESET;
	if (n == MESSAGE_LEN && get32(bytes) == MAGIC_PAGE && get32(bytes + 4) == VERSION &&
			*lock_fd < 0)
		return 2;
	if (n == MESSAGE_LEN && get32(bytes) == MAGIC && get32(bytes + 4) == VERSION &&
			*lock_fd >= 0 && is_affordable(*lock_fd) && is_lock(liveness, *lock_fd)) {
		*context = get64(bytes + 8);
		return *context && *context != liveness->host.context ? 1 : -EBADMSG;
	}
	return -EBADMSG;
}

/* ---- links ------------------------------------------------------------------------------- */

static void link_cut(struct liveness *liveness, struct liveness_link *link)
{
	if (link->fd >= 0) {
		unwatch_fd(liveness, link->fd);
		liveness->n_links--;
	}
	if (link->lock_fd >= 0)
		lock_drop(liveness, link->lock_fd);
	link->fd = link->lock_fd = -1;
}

static void link_end(struct liveness *liveness, struct liveness_link *link)
{
	link_cut(liveness, link);
	if (link->context)
		ripc__map_remove(&liveness->links, link->context);
	list_remove(&link->node);
	list_append(&liveness->closed, &link->node);
}

static struct liveness_link *link_make(struct liveness *liveness, uint64_t context)
{
	struct liveness_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	*link = (struct liveness_link){
		.liveness = liveness, .context = context, .fd = -1, .lock_fd = -1};
	list_init(&link->node);
	if (context && ripc__map_put(&liveness->links, context, link)) {
		free(link);
		return NULL;
	}
	return link;
}

/* The lock is gone. The link stays, without a connection, while it is watched. */
static void tell(struct liveness *liveness, struct liveness_link *link)
{
	uint64_t context = link->context;

	if (link->refs)
		link_cut(liveness, link);
	else
		link_end(liveness, link);
	liveness->host.gone(liveness->host.arg, context);
}

/* Connects to where a context listens as long as it lives. Returns the socket. */
static int connect_to(const struct liveness *liveness, uint64_t context)
{
	struct sockaddr_un name;
	socklen_t len = name_make(liveness, context, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&name, len) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* Is there no listener? */
static bool is_deserted(const struct liveness *liveness, uint64_t context)
{
	int fd = connect_to(liveness, context);

	if (fd >= 0)
		close(fd);
	return fd == -ECONNREFUSED;
}

/* Has the process ended that listened at the other end? A child of it may still have the socket. */
static bool is_over(int fd)
{
	struct pollfd end = {.events = POLLIN};
	struct ucred who;
	socklen_t len = sizeof(who);
	bool over;

	/* 0: a process of a PID namespace that we do not see. */
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.pid <= 0)
		return false;
	end.fd = (int)syscall(SYS_pidfd_open, who.pid, 0);
	if (end.fd < 0)
		return errno == ESRCH;
	over = poll(&end, 1, 0) == 1;
	close(end.fd);
	return over;
}

/* Is the lock gone, or has a context ended that had not shown it yet? */
static bool is_proven(const struct liveness *liveness, const struct liveness_link *link, bool ended)
{
	if (link->lock_fd >= 0)
		return !ripc__is_pledged(link->lock_fd, RIPC__PLEDGE_FIRST);
	return link->ours && (is_over(link->fd) || (ended && is_deserted(liveness, link->context)));
}

/* Checks a link whose connection has ended, or that is in doubt. */
static void look_at(struct liveness *liveness, struct liveness_link *link, bool ended)
{
	if (is_proven(liveness, link, ended)) {
		tell(liveness, link);
		return;
	}
	if (!ended)
		return;
	if (!link->refs) {
		link_end(liveness, link);
		return;
	}
	/*
	 * The other context lives, and needs us no more; perhaps it is about to close. Its lock
	 * stays here.
	 */
	unwatch_fd(liveness, link->fd);
	liveness->n_links--;
	link->fd = -1;
	liveness->host.gone(liveness->host.arg, 0);
}

static bool link_watch(struct liveness *liveness, struct liveness_link *link, int fd)
{
	if (liveness->n_links >= LIFE_LINKS_MAX || !is_affordable(fd) ||
			watch_fd(liveness, fd, EPOLLIN, link))
		return false;
	link->fd = fd;
	liveness->n_links++;
	return true;
}

/*
 * 0; -ECONNREFUSED: the context is not here, or has ended; -EPIPE: it was here, and accepts no
 * message.
 */
static int link_connect(struct liveness *liveness, struct liveness_link *link)
{
	int fd = connect_to(liveness, link->context), error = 0;

	if (fd < 0)
		return fd;
	if (!is_believed(liveness, fd))
		error = -EACCES;
	if (!error && introduce(liveness, fd))
		error = -EPIPE;
	if (!error && link_watch(liveness, link, fd)) {
		link->ours = true;
		return 0;
	}
	close(fd);
	return error ? error : -EMFILE;
}

/* A context that has connected to us has sent its incarnation. */
static void name_link(struct liveness *liveness, struct liveness_link *link, uint64_t context,
		int lock_fd)
{
	struct liveness_link *other = ripc__map_get(&liveness->links, context);

	/* If both have connected, the connection of the lesser incarnation stays. */
	if (other && other->fd >= 0 && other->ours && liveness->host.context < context) {
		lock_drop(liveness, lock_fd);
		link_end(liveness, link);
		return;
	}
	if (introduce(liveness, link->fd) ||
		(!other && ripc__map_put(&liveness->links, context, link))) {
		lock_drop(liveness, lock_fd);
		link_end(liveness, link);
		return;
	}
	list_remove(&link->node);
	link->context = context;
	link->lock_fd = lock_fd;
	if (!other)
		return;
	link->refs = other->refs;
	ripc__map_replace(&liveness->links, context, link);
	link_cut(liveness, other);
	list_append(&liveness->closed, &other->node);
}

static void link_input(struct liveness *liveness, struct liveness_link *link)
{
	uint64_t context = 0;
	int lock_fd = -1, got = hear(liveness, link->fd, &context, &lock_fd);

	if (got == 0)
		return;
	if (got == 2 && !link->context && may_look(liveness, link->fd) &&
			show_page(liveness, link->fd) == 0)
		return;
	if (got == 1 && !link->context && is_believed(liveness, link->fd)) {
		name_link(liveness, link, context, lock_fd);
		return;
	}
	if (got == 1 && link->ours && link->lock_fd < 0 && context == link->context) {
		link->lock_fd = lock_fd;
		return;
	}
	/* The end; or a message that does not belong there, which ends the link. */
	if (lock_fd >= 0)
		lock_drop(liveness, lock_fd);
	if (link->context)
		look_at(liveness, link, true);
	else
		link_end(liveness, link);
}

static void drop_oldest_unnamed(struct liveness *liveness)
{
	uint32_t n = 0;

	list_for_each(node, &liveness->unnamed)
		n++;
	if (n > UNNAMED_MAX)
		link_end(liveness, list_entry(liveness->unnamed.next, struct liveness_link, node));
}

/*
 * The listener wakes once for each connection: without a descriptor left, waiting ones would
 * keep it readable all the time. They are accepted with the next one, or when one is looked for.
 */
static void accept_all(struct liveness *liveness)
{
	for (int i = 0; liveness->listener >= 0 && i < ACCEPTS_MAX; i++) {
		int fd = accept4(liveness->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct liveness_link *link = NULL;

		if (fd < 0)
			return;
		if (may_look(liveness, fd))
			link = link_make(liveness, 0);
		if (!link || !link_watch(liveness, link, fd)) {
			close(fd);
			free(link);
			continue;
		}
		list_append(&liveness->unnamed, &link->node);
		drop_oldest_unnamed(liveness);
		link_input(liveness, link);
	}
}

/* ---- calls of the source ----------------------------------------------------------------- */

static int listener_open(struct liveness *liveness)
{
	struct sockaddr_un name;
	socklen_t len = name_make(liveness, liveness->host.context, &name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	error = bind(fd, (struct sockaddr *)&name, len) || listen(fd, BACKLOG) ? -errno :
		watch_fd(liveness, fd, EPOLLIN | EPOLLET, liveness);
	if (error) {
		close(fd);
		return error;
	}
	liveness->listener = fd;
	return 0;
}

void ripc__liveness_open(struct liveness *liveness, const struct ripc__host *host, uid_t uid,
		int epoll_fd)
{
	*liveness = (struct liveness){.host = *host, .uid = uid, .is_user = ripc__uid_is_user(uid),
		.epoll_fd = epoll_fd, .listener = -1, .lock_fd = -1};
	ripc__map_init(&liveness->links, host->context);
	list_init(&liveness->unnamed);
	list_init(&liveness->closed);
	if (!host->gone || lock_open(liveness))
		return;
	if (listener_open(liveness) == 0)
		return;
	close(liveness->lock_fd);
	liveness->lock_fd = -1;
}

void ripc__liveness_close(struct liveness *liveness)
{
	struct liveness_link *link;

	/*
	 * First of all: a process that learns of the end by its connection must find the lock
	 * gone.
	 */
	if (liveness->lock_fd >= 0)
		close(liveness->lock_fd);
	liveness->lock_fd = -1;
	while (!list_empty(&liveness->unnamed))
		link_end(liveness, list_entry(liveness->unnamed.next, struct liveness_link, node));
	while ((link = ripc__map_any(&liveness->links)))
		link_end(liveness, link);
	ripc__liveness_tend(liveness);
	ripc__map_free(&liveness->links);
	if (liveness->listener >= 0)
		unwatch_fd(liveness, liveness->listener);
	liveness->listener = -1;
}

void ripc__liveness_watch(void *source, uint64_t context)
{
	struct liveness *liveness = source;
	struct liveness_link *link;

	if (liveness->lock_fd < 0 || !context || context == liveness->host.context)
		return;
	link = ripc__map_get(&liveness->links, context);
	if (!link) {
		accept_all(liveness); /* the context may just have connected to us */
		link = ripc__map_get(&liveness->links, context);
	}
	link = link ? link : link_make(liveness, context);
	if (!link)
		return;
	link->refs++;
	if (link->fd < 0 && link_connect(liveness, link) == -EPIPE &&
		is_deserted(liveness, context))
		tell(liveness, link);
}

void ripc__liveness_unwatch(void *source, uint64_t context)
{
	struct liveness *liveness = source;
	struct liveness_link *link = context ? ripc__map_get(&liveness->links, context) : NULL;

	if (link && link->refs && --link->refs == 0)
		link_end(liveness, link);
}

bool ripc__liveness_look(void *source)
{
	struct liveness *liveness = source;
	uint32_t at = liveness->look_at, n = 0;
	struct liveness_link *link;

	while (n < LOOKS_MAX && (link = ripc__map_next(&liveness->links, &at))) {
		if (link->lock_fd < 0 && link->fd < 0)
			continue;
		n++;
		look_at(liveness, link, false);
	}
	liveness->look_at = n < LOOKS_MAX ? 0 : at;
	return n > 0 || liveness->look_at > 0;
}

void ripc__liveness_ready(struct liveness *liveness, void *data)
{
	void *owner = (char *)data - 1;
	struct liveness_link *link = owner;

	if (owner == liveness)
		accept_all(liveness);
	else if (link->fd >= 0)
		link_input(liveness, link);
}

void ripc__liveness_tend(struct liveness *liveness)
{
	while (!list_empty(&liveness->closed))
		free(list_entry(list_pop(&liveness->closed), struct liveness_link, node));
}

uint64_t ripc__liveness_number(void *source)
{
	const struct liveness *liveness = source;
	static const uint8_t key[16];
	const uint64_t shared[2] = {liveness->host.identity, liveness->uid};

	if (liveness->listener < 0 || !liveness->is_user || !liveness->host.identity)
		return 0;
	return ripc__siphash(key, shared, sizeof(shared));
}

bool ripc__liveness_ended(void *source, uint64_t context)
{
	const struct liveness *liveness = source;

	return context != liveness->host.context && is_deserted(liveness, context);
}
