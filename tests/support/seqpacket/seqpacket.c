/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backend over Unix seqpacket sockets, the example of docs/adding-a-backend.md: small, complete,
 * with datagrams only. It is for tests and for readers; the shm backend does the same better.
 *
 * A port listens at an abstract name, which the kernel removes with the process. A sender connects
 * when its first datagram goes; a connection leads one way, and each datagram begins with the
 * sender's name. That name is a claim, as any source address is: core proves addresses by an echo.
 * Only processes of this user are spoken to.
 */
#include "seqpacket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/buffers.h"
#include "util/bytes.h"
#include "util/list.h"
#include "util/system/cancel.h"

#define DATAGRAM_MAX 8192u
#define NAME_LEN     8u   /* before each datagram: the sender's name */
#define BLOB_LEN     16   /* identity of the host, name */
#define BUFFERS      128u
#define BACKLOG      64

/* A socket in the epoll set. A connection leads one way, from OUT to IN. */
struct link {
	enum { LISTENER, IN, OUT } kind;
	int fd;           /* -1: not connected */
	struct list node; /* port->links */
	uint64_t name;    /* OUT: of the receiver */
};

struct port {
	struct link listener;
	int epoll_fd;
	uint64_t name, identity;
	struct list links;
	struct ripc__buffers *buffers;
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the last poll's events */
};

/* A route has only a pointer to its link, as core may move the route. */
static struct link *out_of(const void *route)
{
	return *(struct link *const *)route;
}

static socklen_t socket_name(uint64_t name, struct sockaddr_un *at)
{
	int len;

	*at = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "ripc-seqpacket/%016llx",
		(unsigned long long)name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

static int watch(struct port *port, struct link *link, uint32_t what, int how)
{
	struct epoll_event event = {.events = what, .data.ptr = link};

	return epoll_ctl(port->epoll_fd, how, link->fd, &event) ? -errno : 0;
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	int fd = host->identity ? open_socket() : -ENODEV;

	snprintf(why, 256, fd < 0 ? "no Unix socket can be opened: %s" :
		"seqpacket sockets, for processes of this user", strerror(-fd));
	snprintf(remedy, 256, "%s", fd < 0 ? "allow AF_UNIX sockets; mount /proc" : "");
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static int listen_on(struct port *port)
{
	struct sockaddr_un at;
	socklen_t len = socket_name(port->name, &at);
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	port->listener = (struct link){.kind = LISTENER, .fd = fd};
	rc = bind(fd, (struct sockaddr *)&at, len) || listen(fd, BACKLOG) ? -errno :
		watch(port, &port->listener, EPOLLIN, EPOLL_CTL_ADD);
	if (rc)
		close(fd);
	return rc;
}

static int open_port(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct port *port = state;
	int rc;

	if (!host->identity)
		return -ENODEV;
	port->identity = host->identity;
	list_init(&port->links);
	if (getrandom(&port->name, sizeof(port->name), 0) != sizeof(port->name))
		return -EIO;
	port->name |= 1; /* never 0 */
	rc = ripc__buffers_open(BUFFERS, NAME_LEN + DATAGRAM_MAX, &port->buffers);
	if (rc)
		return rc;
	port->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rc = port->epoll_fd < 0 ? -errno : listen_on(port);
	if (!rc) {
		*attr = (struct ripc__attr){.fd = port->epoll_fd,
			.caps = RIPC_CAP_RELIABLE | RIPC_CAP_INTACT | RIPC_CAP_SIZED};
		return 0;
	}
	if (port->epoll_fd >= 0)
		close(port->epoll_fd);
	ripc__buffers_close(port->buffers);
	return rc;
}

static void link_cut(struct link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

static void link_free(struct link *link)
{
	link_cut(link);
	list_remove(&link->node);
	free(link);
}

/* Routes that are still open lead nowhere. */
static void close_port(void *state)
{
	struct port *port = state;

	list_for_each_safe(node, &port->links) {
		struct link *link = list_entry(node, struct link, node);

		link_cut(link);
		if (link->kind == IN)
			link_free(link);
	}
	close(port->listener.fd);
	close(port->epoll_fd);
	ripc__buffers_close(port->buffers);
}

static void addr_fill(const struct port *port, uint64_t name, struct ripc__addr *addr)
{
	*addr = (struct ripc__addr){.host = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .len = BLOB_LEN};
	put64(addr->blob, port->identity);
	put64(addr->blob + 8, name);
}

static int address(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct port *port = state;

	put64(blob, port->identity);
	put64(blob + 8, port->name);
	return BLOB_LEN;
}

static int choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct port *port = state;

	(void)host;
	if (len != BLOB_LEN || get64(blob + 8) == 0)
		return -EBADMSG;
	if (get64(blob) != port->identity)
		return -EHOSTUNREACH;
	addr_fill(port, get64(blob + 8), addr);
	return 0;
}

static void text(const struct ripc__addr *addr, char text[64])
{
	snprintf(text, 64, addr->len == BLOB_LEN ? "seqpacket:%016llx" : "(none)",
		(unsigned long long)get64(addr->blob + 8));
}

static int route_open(void *state, void *route, const struct ripc__addr *addr)
{
	struct port *port = state;
	struct link *out = addr->len == BLOB_LEN ? malloc(sizeof(*out)) : NULL;

	if (!out)
		return addr->len == BLOB_LEN ? -ENOMEM : -EINVAL;
	*out = (struct link){.kind = OUT, .fd = -1, .name = get64(addr->blob + 8)};
	list_append(&port->links, &out->node);
	*(struct link **)route = out;
	return 0;
}

static void route_close(void *port, void *route)
{
	(void)port;
	link_free(out_of(route));
}

static void where(void *port, const void *route, struct ripc__where *where)
{
	addr_fill(port, out_of(route)->name, &where->addr);
	where->reader = 0;
}

static uint32_t mtu(void *port, void *route)
{
	(void)port;
	(void)route;
	return DATAGRAM_MAX;
}

static bool matches(void *port, const void *route, const struct ripc__addr *from)
{
	(void)port;
	return from->len == BLOB_LEN &&
		get64(from->blob + 8) == out_of(route)->name;
}

/* 0; -EAGAIN: the receiver is behind with accepting. Other errors: nobody is there for us. */
static int connect_out(struct port *port, struct link *out)
{
	struct sockaddr_un at;
	socklen_t len = socket_name(out->name, &at);
	int fd = open_socket(), rc;

	if (fd < 0)
		return fd;
	rc = connect(fd, (struct sockaddr *)&at, len) ? -errno : is_ours(fd) ? 0 : -EACCES;
	out->fd = fd;
	if (!rc)
		rc = watch(port, out, 0, EPOLL_CTL_ADD);
	if (rc)
		link_cut(out);
	return rc == -ECONNREFUSED ? -ECONNRESET : rc;
}

static int send_one(struct port *port, struct link *out, const struct ripc__tx *tx)
{
	struct iovec iov[1 + RIPC_IOV_MAX];
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 1 + tx->n_iov};
	uint8_t name[NAME_LEN];

	if (tx->len > DATAGRAM_MAX)
		return -EMSGSIZE;
	put64(name, port->name);
	iov[0] = (struct iovec){name, sizeof(name)};
	memcpy(iov + 1, tx->iov, tx->n_iov * sizeof(iov[0]));
	return sendmsg(out->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int send_datagrams(void *state, void *route, const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct link *out = out_of(route);
	struct port *port = state;
	int rc = out->fd < 0 ? connect_out(port, out) : 0;
	uint32_t taken = 0;

	while (!rc && taken < n) {
		rc = send_one(port, out, &tx[taken]);
		taken += rc == 0;
	}
	if (rc == -EAGAIN && out->fd >= 0)
		watch(port, out, EPOLLOUT, EPOLL_CTL_MOD); /* RIPC_EV_PEER then */
	if (rc == -EPIPE || rc == -ECONNRESET) {
		link_cut(out);
		rc = -ECONNRESET;
	}
	return taken || rc == -EAGAIN ? (int)taken : rc;
}

static void accept_all(struct port *port)
{
	int fd;

	while ((fd = accept4(port->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct link *in = is_ours(fd) ? malloc(sizeof(*in)) : NULL;

		if (!in) {
			close(fd);
			continue;
		}
		*in = (struct link){.kind = IN, .fd = fd};
		list_append(&port->links, &in->node);
		if (watch(port, in, EPOLLIN, EPOLL_CTL_ADD))
			link_free(in);
	}
}

/* One datagram of a sender. 1; 0: there is none, or no buffer. */
static uint32_t take(struct port *port, struct link *in, struct ripc__event *event,
		struct ripc__addr *from)
{
	uint32_t first = 0;
	struct ripc__buffer *buffer = ripc__buffers_find(port->buffers, &first);
	ssize_t len;

	if (!buffer)
		return 0;
	len = recv(in->fd, buffer->data, NAME_LEN + DATAGRAM_MAX, MSG_DONTWAIT | MSG_TRUNC);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* The sender has gone, or is none of us. */
	if (len < (ssize_t)NAME_LEN || len > (ssize_t)(NAME_LEN + DATAGRAM_MAX)) {
		link_free(in);
		return 0;
	}
	ripc__buffer_hold(buffer, 1);
	addr_fill(port, get64(buffer->data), from);
	*event = (struct ripc__event){.kind = RIPC_EV_DATAGRAM, .data = buffer->data + NAME_LEN,
		.len = (uint32_t)len - NAME_LEN, .handle = buffer, .from = from};
	return 1;
}

/* The route takes again, or leads nowhere any more, as the next send will find. */
static void take_out(struct port *port, struct link *out, uint32_t happened,
		struct ripc__event *event, struct ripc__addr *from)
{
	if (happened & (EPOLLERR | EPOLLHUP))
		link_cut(out);
	else
		watch(port, out, 0, EPOLL_CTL_MOD);
	addr_fill(port, out->name, from);
	*event = (struct ripc__event){.kind = RIPC_EV_PEER, .from = from};
}

/* Takes the events of one descriptor. Returns how many events that made. */
static uint32_t look_at(struct port *port, const struct epoll_event *ready,
		struct ripc__event *event, struct ripc__addr *from)
{
	struct link *link = ready->data.ptr;

	if (link->kind == IN)
		return take(port, link, event, from);
	if (link->kind == OUT)
		take_out(port, link, ready->events, event, from);
	else
		accept_all(port);
	return link->kind == OUT;
}

/* Twice, as a connection that was just accepted may have something to say. */
static int poll_events(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	RIPC__HOLD_CANCEL;
	struct epoll_event ready[RIPC_EVENTS_MAX];
	struct port *port = state;
	uint32_t filled = 0;

	(void)all;
	n = n < RIPC_EVENTS_MAX ? n : RIPC_EVENTS_MAX;
	for (int turn = 0; turn < 2 && filled == 0; turn++) {
		int n_ready = epoll_wait(port->epoll_fd, ready, RIPC_EVENTS_MAX, 0);

		for (int i = 0; i < n_ready && filled < n; i++)
			filled += look_at(port, &ready[i], &events[filled], &port->from[filled]);
	}
	return (int)filled;
}

static void release(void *port, void *handle)
{
	(void)port; /* may be gone */
	ripc__buffer_put(handle, 1);
}

const struct ripc__backend seqpacket_backend = {
	.name = "seqpacket",
	.id = 254,
	.port_size = sizeof(struct port),
	.route_size = sizeof(struct link *),
	.net = {.probe = probe, .open = open_port, .close = close_port, .address = address},
	.route = {.choose = choose, .text = text, .open = route_open, .close = route_close,
		.where = where, .mtu = mtu, .matches = matches},
	.datagrams = {.send = send_datagrams, .poll = poll_events, .release = release},
};
