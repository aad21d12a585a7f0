/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of the shm backend and the messages on them (docs/protocol.md). Abstract names: the
 * kernel forgets them with the process, and nothing is in the file system. No call here blocks.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/system/cancel.h"
#include "util/system/users.h"

#define BACKLOG   128
#define HEAD_LEN  8 /* type, version, two bytes of zero, a number */
#define HELLO_LEN (HEAD_LEN + SHM_NAME_LEN)
#define OFFER_LEN (HEAD_LEN + 8)
#define MEMORY_LEN (HEAD_LEN + 8)
#define OFFER_FDS 3
#define SNDBUF    (1 << 20)

/* "\0ripc-shm/" and the name in hex. Returns the length for bind and connect. */
static socklen_t make_name(const uint8_t name[SHM_NAME_LEN], struct sockaddr_un *to)
{
	int len;

	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	len = snprintf(to->sun_path + 1, sizeof(to->sun_path) - 1, "ripc-shm/");
	for (int i = 0; i < SHM_NAME_LEN; i++)
		len += snprintf(to->sun_path + 1 + len, sizeof(to->sun_path) - 1 - (size_t)len,
			"%02x", name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int make_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int ripc__shm_listen(const uint8_t name[SHM_NAME_LEN])
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	socklen_t len = name ? make_name(name, &at) : sizeof(at.sun_family);
	int fd = make_socket(), error;

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

static void make_head(uint8_t *bytes, enum shm_message type, uint32_t number)
{
	bytes[0] = (uint8_t)type;
	bytes[1] = SHM_VERSION;
	put16(bytes + 2, 0);
	put32(bytes + 4, number);
}

static int push(int fd, const struct msghdr *message)
{
	ssize_t n;

	do
		n = sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	/* Too long for the allowed size of the socket's buffer: the ring will take it. */
	return errno == ENOBUFS || errno == EMSGSIZE ? -EAGAIN : -errno;
}

int ripc__shm_connect(const uint8_t to[SHM_NAME_LEN], const uint8_t own[SHM_NAME_LEN])
{
	uint8_t bytes[HELLO_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	const struct msghdr hello = {.msg_iov = &iov, .msg_iovlen = 1};
	struct sockaddr_un at;
	socklen_t len = make_name(to, &at);
	int fd = make_socket(), size = SNDBUF, error = 0;

	if (fd < 0)
		return fd;
	ripc__shm_point("socket_made");
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* as much as is allowed */
	if (connect(fd, (struct sockaddr *)&at, len))
		error = -errno;
	ripc__shm_point("connected");
	make_head(bytes, SHM_HELLO, 0);
	memcpy(bytes + HEAD_LEN, own, SHM_NAME_LEN);
	error = error ? error : push(fd, &hello);
	ripc__shm_point("hello_sent");
	if (!error)
		return fd;
	close(fd);
	return error;
}

int ripc__shm_who(int fd, struct ucred *who)
{
	socklen_t len = sizeof(*who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &len))
		return -errno;
	/*
	 * The overflow number stands for all users without one in our user namespace: it is no
	 * user's.
	 */
	return ripc__uid_is_user(who->uid) ? 0 : -EACCES;
}

bool ripc__shm_is_self(int fd)
{
	struct ucred who;

	return ripc__shm_who(fd, &who) == 0 && who.pid == getpid();
}

int ripc__shm_send_datagram(int fd, const struct ripc__tx *tx)
{
	struct iovec iov[RIPC_IOV_MAX + 1];
	const struct msghdr message = {.msg_iov = iov, .msg_iovlen = tx->n_iov + 1};
	uint8_t head[HEAD_LEN];

	make_head(head, SHM_DATAGRAM, tx->len);
	iov[0] = (struct iovec){head, sizeof(head)};
	memcpy(iov + 1, tx->iov, tx->n_iov * sizeof(iov[0]));
	return push(fd, &message);
}

int ripc__shm_send_head(int fd, enum shm_message type)
{
	uint8_t head[HEAD_LEN];
	struct iovec iov = {head, sizeof(head)};
	const struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	make_head(head, type, 0);
	return push(fd, &message);
}

/* Adds descriptors to a message. control: CMSG_SPACE of them. */
static void add_descriptors(struct msghdr *message, void *control, const int *fds, size_t n)
{
	struct cmsghdr *c = control;

	memset(control, 0, CMSG_SPACE(n * sizeof(*fds)));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(*fds));
	memcpy(CMSG_DATA(c), fds, n * sizeof(*fds));
	message->msg_control = control;
	message->msg_controllen = CMSG_SPACE(n * sizeof(*fds));
}

int ripc__shm_send_memory(int fd, enum shm_message type, uint32_t number, uint64_t len,
		int memory_fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	uint8_t bytes[MEMORY_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	make_head(bytes, type, number);
	put64(bytes + HEAD_LEN, len);
	if (memory_fd >= 0)
		add_descriptors(&message, control, &memory_fd, 1);
	return push(fd, &message);
}

int ripc__shm_send_offer(int fd, const struct shm_ring_offer *offer)
{
	const int fds[OFFER_FDS] = {offer->ring_fd, offer->board_fd, offer->bits_fd};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fds))];
	uint8_t bytes[OFFER_LEN];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	make_head(bytes, SHM_RING, offer->index);
	put32(bytes + HEAD_LEN, SHM_SLOTS);
	put32(bytes + HEAD_LEN + 4, SHM_AREA);
	add_descriptors(&message, control, fds, OFFER_FDS);
	return push(fd, &message);
}

/*
 * Returns the n descriptors that a message should have, or closes all that it has. -EBADMSG: it
 * has others, or none are wanted. -EMFILE: we could not get as many.
 */
static int take_descriptors(struct msghdr *message, int *fds, size_t n, bool wanted)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	bool cut = message->msg_flags & MSG_CTRUNC;
	int got[OFFER_FDS + 1];
	size_t n_got = 0;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		n_got = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	n_got = n_got < OFFER_FDS + 1 ? n_got : OFFER_FDS + 1;
	if (n_got)
		memcpy(got, CMSG_DATA(c), n_got * sizeof(int));
	if (wanted && n_got == n && !cut) {
		memcpy(fds, got, n * sizeof(int));
		return 0;
	}
	for (size_t i = 0; i < n_got; i++)
		close(got[i]);
	return wanted && n_got < n && cut ? -EMFILE : -EBADMSG;
}

/*
 * The bytes received; 0: nothing now. A partner that closes without having read all resets the
 * connection: the kernel reports the reset once, before the partner's messages.
 */
static int pull(int fd, struct msghdr *message)
{
	bool reset = false, again;
	ssize_t n;

	do {
		n = recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		again = n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset));
		reset |= n < 0 && errno == ECONNRESET;
	} while (again);
	if (n > 0)
		return (int)n;
	/* A message without a byte looks like the end, but can bring descriptors. */
	if (n == 0)
		take_descriptors(message, NULL, 0, false);
	return n < 0 && errno == EAGAIN ? 0 : -ECONNRESET;
}

/* Has a message of a sender the bytes of its type? n: after the head. */
static bool is_sound(const uint8_t *head, const uint8_t *bytes, int n)
{
	uint32_t number = get32(head + 4);

	if (n < 0 || head[1] != SHM_VERSION || get16(head + 2))
		return false;
	switch (head[0]) {
	case SHM_HELLO:
		return n == SHM_NAME_LEN;
	case SHM_DATAGRAM:
		return n > 0 && number == (uint32_t)n;
	case SHM_WAKE:
		return n == 0;
	case SHM_TABLE:
		return n == 8 && get64(bytes) == SHM_TABLE_LEN;
	case SHM_CLAIMS:
		return n == 8 && get64(bytes) == SHM_CLAIMS_LEN;
	case SHM_SLAB:
		return n == 8 && number < SHM_SLABS;
	case SHM_PASSED:
		return n == 8 && number < SHM_SLABS && get64(bytes);
	default:
		return false;
	}
}

int ripc__shm_receive(int fd, uint8_t *bytes, struct shm_received *received)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE((OFFER_FDS + 1) * sizeof(int))];
	uint8_t head[HEAD_LEN];
	struct iovec iov[2] = {{head, sizeof(head)}, {bytes, RIPC_DATAGRAM_MAX}};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = control,
		.msg_controllen = sizeof(control)};
	int n = pull(fd, &message), memory_fd = -1;
	bool sound, has_memory;

	if (n <= 0)
		return n < 0 ? n : SHM_NOTHING;
	n -= HEAD_LEN;
	sound = !(message.msg_flags & MSG_TRUNC) && is_sound(head, bytes, n);
	/* Memory that is taken back has no length, and no descriptor. */
	has_memory = sound && shm_brings_memory(head[0]) && get64(bytes);
	if (take_descriptors(&message, &memory_fd, has_memory, sound) == -EBADMSG)
		return -EBADMSG;
	*received = (struct shm_received){(uint32_t)n, get32(head + 4), memory_fd};
	return head[0];
}

int ripc__shm_next(int fd)
{
	uint8_t type;

	return recv(fd, &type, 1, MSG_PEEK | MSG_DONTWAIT) == 1 ? type : SHM_NOTHING;
}

int ripc__shm_receive_offer(int fd, struct shm_ring_offer *offer)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE((OFFER_FDS + 1) * sizeof(int))];
	uint8_t bytes[OFFER_LEN] = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control)};
	int n = pull(fd, &message), fds[OFFER_FDS], error;
	bool sound = n == OFFER_LEN && !(message.msg_flags & MSG_TRUNC) &&
		bytes[0] == SHM_RING && bytes[1] == SHM_VERSION && get16(bytes + 2) == 0 &&
		get32(bytes + 4) < SHM_RINGS_MAX && get32(bytes + HEAD_LEN) == SHM_SLOTS &&
		get32(bytes + HEAD_LEN + 4) == SHM_AREA;
	bool refused = n == HEAD_LEN && bytes[0] == SHM_REFUSED && bytes[1] == SHM_VERSION;

	if (n <= 0)
		return n < 0 ? n : SHM_NOTHING;
	error = take_descriptors(&message, fds, OFFER_FDS, sound);
	if (error)
		return refused ? SHM_REFUSED : error;
	*offer = (struct shm_ring_offer){get32(bytes + 4), fds[0], fds[1], fds[2]};
	return SHM_RING;
}

/* ---- the set that is watched ------------------------------------------------------------- */

int ripc__shm_watch(struct shm_port *port, struct shm_watch *watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};

	return epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) ? -errno : 0;
}

void ripc__shm_unwatch(struct shm_port *port, struct shm_watch *watch)
{
	RIPC__HOLD_CANCEL;

	if (watch->fd < 0)
		return;
	/* A forked child may keep the descriptor, and with it the entry in our set, alive. */
	epoll_ctl(port->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	if (watch->kind != SHM_BELL && watch->kind != SHM_CLOCK)
		shutdown(watch->fd, SHUT_RDWR);
	close(watch->fd);
	watch->fd = -1;
}
