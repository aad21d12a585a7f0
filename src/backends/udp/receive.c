/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over UDP. The kernel delivers one datagram, or several equal ones joined (UDP_GRO),
 * into a buffer with one reference per datagram. A lone datagram costs exactly one recvmsg. Now
 * and then one call requests several (recvmmsg), and again while there are several. Several
 * joined ones are never requested at once: one buffer that stays in the cache is worth more than
 * the calls saved.
 */
#include <errno.h>
#include <time.h> /* which errqueue.h lacks with musl */
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>

#include "udp.h"
#include "util/system/cancel.h"

/* ---- errors ------------------------------------------------------------------------------ */

/*
 * Late reports of the network about packets that were sent (ICMP): the kernel keeps them in the
 * socket's error queue (IP_RECVERR). An error that says that no socket listens at an address is
 * a failure hint for core, together with the beginning of the datagram that the error quotes.
 * The kernel checks nothing of an error but that its quote names our port: core compares the
 * rest (core/partner/death.c).
 *
 * Design notes. The kernel also fails the next call on the socket, whatever partner that is for.
 * Each call that fails therefore has the queue read, and a send is then tried again: its own
 * error comes back. Until the queue is read the socket polls as readable, and the queue uses the
 * receive buffer.
 */

#define READ_MAX      64u /* errors that are read at once */
#define CONTROL_BYTES 256

static const struct sock_extended_err *find(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if ((c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR) ||
				(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR))
			return (const struct sock_extended_err *)CMSG_DATA(c);
	}
	return NULL;
}

/* Hints without room are dropped: the network reports again, if it matters. */
static void note(struct udp_port *port, const struct sockaddr_in6 *name, const uint8_t *quote,
		size_t len)
{
	struct udp_hint *hint = &port->hints[port->n_hints];
	struct udp_addr own = {0};

	if (port->n_hints == UDP_HINTS)
		return;
	port->n_hints++;
	ripc__udp_read_name(name, &own.at);
	ripc__udp_addr_fill(&hint->at, &own);
	hint->len = (uint32_t)len;
	memcpy(hint->quote, quote, len);
}

/* Reads one error: 0 if it was the network's, 1 if our own kernel's; negative: there is none. */
static int read_one(struct udp_port *port)
{
	_Alignas(struct cmsghdr) char control[CONTROL_BYTES];
	const struct sock_extended_err *error;
	struct sockaddr_in6 name = {0};
	uint8_t quote[UDP_QUOTE];
	struct iovec iov = {.iov_base = quote, .iov_len = sizeof(quote)};
	struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof(name),
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(port->fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (len < 0)
		return -errno;
	error = find(&message);
	if (!error || (error->ee_origin != SO_EE_ORIGIN_ICMP &&
			error->ee_origin != SO_EE_ORIGIN_ICMP6))
		return 1;
	if (error->ee_errno == ECONNREFUSED && message.msg_namelen)
		note(port, &name, quote, (size_t)len);
	return 0;
}

/* Reads the error queue. Was there an error of the network? */
static bool udp_errors_read(struct udp_port *port)
{
	bool any = false;
	int rc;

	atomic_store_explicit(&port->failed, false, memory_order_relaxed);
	for (uint32_t i = 0; i < READ_MAX; i++) {
		rc = read_one(port);
		if (rc < 0)
			return any;
		any |= rc == 0;
	}
	atomic_store_explicit(&port->failed, true, memory_order_relaxed);
	return any;
}

bool ripc__udp_is_late(struct udp_port *port, int error)
{
	if (udp_is_full(error))
		return false;
	return udp_errors_read(port) || error == -ECONNREFUSED;
}

/* Fills in up to n events about addresses without a listener; returns how many. */
static uint32_t udp_hints_tell(struct udp_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0;

	/* Hints that the last poll returned are core's no more. */
	memmove(port->hints, port->hints + port->n_told,
		(port->n_hints - port->n_told) * sizeof(port->hints[0]));
	port->n_hints -= port->n_told;
	for (; filled < n && filled < port->n_hints; filled++)
		events[filled] = (struct ripc__event){.kind = RIPC_EV_HINT,
			.data = port->hints[filled].quote, .len = port->hints[filled].len,
			.from = &port->hints[filled].at};
	port->n_told = filled;
	return filled;
}

/* ---- receive ----------------------------------------------------------------------------- */

#define SEVERAL_EVERY 8   /* of the polls, one requests several */
/* How long to sleep while all buffers are held: another thread has to release one first. */
#define NO_BUFFER_MS 1

static void prepare(struct msghdr *message, struct udp_envelope *e,
		const struct ripc__buffer *buffer)
{
	e->iov = (struct iovec){.iov_base = buffer->data, .iov_len = UDP_BUFFER};
	*message = (struct msghdr){
		.msg_name = &e->name,
		.msg_namelen = sizeof(e->name),
		.msg_iov = &e->iov,
		.msg_iovlen = 1,
		.msg_control = e->control,
		.msg_controllen = sizeof(e->control),
	};
}

void ripc__udp_map_v4(struct in6_addr *ip, const struct in_addr *v4)
{
	memset(ip, 0, sizeof(*ip));
	memset(&ip->s6_addr[10], 0xff, 2);
	memcpy(&ip->s6_addr[12], v4, sizeof(*v4));
}

void ripc__udp_read_name(const struct sockaddr_in6 *name, struct sockaddr_in6 *at)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)name;

	if (name->sin6_family == AF_INET6) {
		*at = *name;
		return;
	}
	*at = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = in->sin_port};
	ripc__udp_map_v4(&at->sin6_addr, &in->sin_addr);
}

static void read_control(struct cmsghdr *c, struct udp_addr *own, uint32_t *segment,
		uint32_t *dropped)
{
	const void *data = CMSG_DATA(c);
	struct in_pktinfo info;
	int size;

	if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&own->local, data, sizeof(own->local));
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&info, data, sizeof(info));
		ripc__udp_map_v4(&own->local, &info.ipi_spec_dst);
	} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
		memcpy(&size, data, sizeof(size));
		if (size > 0 && (uint32_t)size < *segment)
			*segment = (uint32_t)size;
	} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
		memcpy(dropped, data, sizeof(*dropped));
	}
}

/*
 * Files one message. Empty messages are wakes; truncated ones are dropped, and counted. many: by
 * the second socket.
 */
static void file_arrival(struct udp_port *port, struct msghdr *message, uint32_t len,
		struct ripc__buffer *buffer, bool many)
{
	struct udp_arrival *arrival = &port->arrivals[port->n_arrivals];
	struct udp_addr own = {0};
	uint32_t segment = len;

	/* Without its ancillary data, joined datagrams would be taken for one. */
	if (message->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		port->dropped++;
		return;
	}
	if (len == 0)
		return;
	ripc__udp_read_name(message->msg_name, &own.at);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
		read_control(c, &own, &segment,
			many ? &port->multicast_dropped : &port->kernel_dropped);
	arrival->buffer = buffer;
	arrival->at = 0;
	arrival->len = len;
	arrival->segment = segment;
	arrival->left = (len + segment - 1) / segment;
	arrival->multicast = many;
	ripc__udp_addr_fill(&arrival->from, &own);
	ripc__buffer_hold(buffer, arrival->left);
	port->n_arrivals++;
}

static void note_error(struct udp_port *port)
{
	if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		atomic_store_explicit(&port->failed, true, memory_order_relaxed);
}

static bool has_failed(const struct udp_port *port)
{
	return atomic_load_explicit(&port->failed, memory_order_relaxed);
}

/*
 * One recvmsg, filed later: wait, which runs without the lock, thus touches nothing that other
 * slots use. An error is about an earlier send: the error queue has it (see errors).
 */
static void receive_one(struct udp_port *port, int flags)
{
	struct udp_received *received = &port->received;
	uint32_t at = 0;
	struct ripc__buffer *buffer = ripc__buffers_find(port->buffers, &at);
	ssize_t len;

	if (!buffer)
		return;
	prepare(&received->message, &received->envelope, buffer);
	len = recvmsg(port->fd, &received->message, flags);
	if (len < 0) {
		note_error(port);
		return;
	}
	received->buffer = buffer;
	received->len = (uint32_t)len;
}

static void file_received(struct udp_port *port)
{
	struct udp_received *received = &port->received;

	if (received->buffer)
		file_arrival(port, &received->message, received->len, received->buffer, false);
	received->buffer = NULL;
}

/* One recvmmsg into all free buffers, by one socket or (many) the other. */
static void receive_several(struct udp_port *port, bool many)
{
	struct ripc__buffer *buffers[UDP_BATCH];
	struct udp_envelope e[UDP_BATCH];
	struct mmsghdr messages[UDP_BATCH];
	/* Neither socket keeps the other from being read. */
	uint32_t most = many || port->multicast_fd < 0 ? UDP_BATCH : UDP_BATCH / 2;
	uint32_t n = 0, n_most = most - port->n_arrivals, at = 0;
	int received;

	while (n < n_most && (buffers[n] = ripc__buffers_find(port->buffers, &at))) {
		prepare(&messages[n].msg_hdr, &e[n], buffers[n]);
		n++;
	}
	if (!n)
		return;
	received = recvmmsg(many ? port->multicast_fd : port->fd, messages, n, MSG_DONTWAIT, NULL);
	if (received < 0 && !many)
		note_error(port);
	for (int i = 0; i < received; i++)
		file_arrival(port, &messages[i].msg_hdr, messages[i].msg_len, buffers[i], many);
}

/* Receives one or many, depending on the last time. */
static void receive(struct udp_port *port)
{
	if (!port->several && ++port->polls % SEVERAL_EVERY) {
		receive_one(port, MSG_DONTWAIT);
		return;
	}
	receive_several(port, false);
	port->several = port->n_arrivals > 1 && port->arrivals[0].left == 1;
}

static void hand_over(struct udp_arrival *arrival, struct ripc__event *event)
{
	uint32_t len = arrival->len - arrival->at;

	if (len > arrival->segment)
		len = arrival->segment;
	*event = (struct ripc__event){
		.kind = arrival->multicast ? RIPC_EV_MULTICAST : RIPC_EV_DATAGRAM,
		.data = arrival->buffer->data + arrival->at,
		.len = len,
		.handle = arrival->buffer,
		.from = &arrival->from,
	};
	arrival->at += len;
	arrival->left--;
}

/* The failed call may have received nothing though there was something. */
static void after_failure(struct udp_port *port)
{
	udp_errors_read(port);
	if (!port->received.buffer && !port->n_arrivals)
		receive(port);
}

int ripc__udp_poll(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	RIPC__HOLD_CANCEL;
	struct udp_port *port = state;
	uint32_t filled = 0;

	(void)all;
	if (port->next == port->n_arrivals) {
		port->next = port->n_arrivals = 0;
		if (!port->received.buffer)
			receive(port);
		if (has_failed(port))
			after_failure(port);
		file_received(port);
		if (port->multicast_fd >= 0)
			receive_several(port, true);
	}
	if (port->n_hints)
		filled = udp_hints_tell(port, events, n);
	while (filled < n && port->next < port->n_arrivals) {
		struct udp_arrival *arrival = &port->arrivals[port->next];

		hand_over(arrival, &events[filled++]);
		if (!arrival->left)
			port->next++;
	}
	return (int)filled;
}

int ripc__udp_wait_arm(void *state)
{
	const struct udp_port *port = state;

	/* Datagrams that left the socket but were not returned yet do not make it readable. */
	return port->received.buffer || port->next < port->n_arrivals ||
		port->n_hints > port->n_told || has_failed(port) ? -EAGAIN : 0;
}

/* Sleeps in recvmsg itself, which saves a call that only sleeps. */
void ripc__udp_wait(void *state)
{
	struct udp_port *port = state;
	uint32_t at = 0;

	if (ripc__udp_wait_arm(port))
		return;
	if (ripc__buffers_find(port->buffers, &at))
		receive_one(port, 0);
	else
		poll(NULL, 0, NO_BUFFER_MS);
}
