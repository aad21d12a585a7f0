/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the network says later of what was sent (ICMP): the kernel keeps it in the socket's error
 * queue (IP_RECVERR). An error that says that nobody listens at an address is a hint for core,
 * together with the beginning of the datagram that the error quotes. The kernel checks nothing of
 * an error but that its quote names our port: core compares the rest (hint.c).
 *
 * Design notes. The kernel also fails the next call on the socket, whatever partner that is for.
 * So each call that fails has the queue read, and a send is then tried again: its own error comes
 * back. Until the queue is read the socket polls as readable, and it takes of the receive buffer.
 */
#include "udp.h"

#include <errno.h>
#include <time.h> /* which errqueue.h lacks with musl */
#include <linux/errqueue.h>
#include <string.h>

#define READ_MAX      64u /* errors that are read at once */
#define CONTROL_BYTES 256

static bool is_full(int error)
{
	return error == -EAGAIN || error == -EWOULDBLOCK || error == -ENOBUFS || error == -ENOMEM;
}

static const struct sock_extended_err *find(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if ((c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR) ||
				(c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR))
			return (const struct sock_extended_err *)CMSG_DATA(c);
	}
	return NULL;
}

/* What there is no room for is said again, if it matters. */
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

bool ripc__udp_errors_read(struct udp_port *port)
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
	if (is_full(error))
		return false;
	return ripc__udp_errors_read(port) || error == -ECONNREFUSED;
}

uint32_t ripc__udp_hints_tell(struct udp_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0;

	/* Those that were told with the last poll are core's no more. */
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
