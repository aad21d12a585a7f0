/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving over UDP. The kernel hands over one datagram, or several equal ones joined
 * (UDP_GRO), into a buffer with one reference per datagram. A lone datagram after a send or a
 * pause costs exactly one recvmsg: only when lone ones come in a row are more asked for at once
 * (recvmmsg). Joined ones are never asked for in numbers: one buffer that stays in the cache is
 * worth more than the calls saved.
 */
#include "udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>

#define STREAK 2 /* lone datagrams in a row after which several are asked for */

/* What one datagram brings beside its bytes. */
struct envelope {
	struct sockaddr_storage name;
	_Alignas(struct cmsghdr) char control[UDP_CONTROL];
	struct iovec iov;
};

static void prepare(struct msghdr *message, struct envelope *e, const struct ripc__buffer *buffer)
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

static void map_v4(uint8_t ip[16], const struct in_addr *v4)
{
	memset(ip + 10, 0xff, 2);
	memcpy(ip + 12, v4, 4);
}

static void read_name(const struct sockaddr_storage *name, struct udp_addr *own)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)name;
	const struct sockaddr_in *in = (const struct sockaddr_in *)name;

	if (name->ss_family == AF_INET6) {
		memcpy(own->ip, &in6->sin6_addr, 16);
		own->scope = in6->sin6_scope_id;
		own->port = ntohs(in6->sin6_port);
	} else {
		map_v4(own->ip, &in->sin_addr);
		own->port = ntohs(in->sin_port);
	}
}

static void read_control(struct udp_port *port, struct cmsghdr *c, struct udp_addr *own,
		uint32_t *segment)
{
	const void *data = CMSG_DATA(c);
	struct in_pktinfo info;
	int size;

	if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(own->local, data, sizeof(own->local));
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&info, data, sizeof(info));
		map_v4(own->local, &info.ipi_spec_dst);
	} else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
		memcpy(&size, data, sizeof(size));
		if (size > 0)
			*segment = (uint32_t)size;
	} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
		memcpy(&port->kernel_dropped, data, sizeof(port->kernel_dropped));
	}
}

/* Files what one message brought. False: cut off, which is dropped and counted. */
static bool file_arrival(struct udp_port *port, struct msghdr *message, uint32_t len,
		struct ripc__buffer *buffer)
{
	struct udp_arrival *arrival = &port->arrivals[port->n_arrivals];
	struct udp_addr own = {0};
	uint32_t segment = len, n;

	read_name(message->msg_name, &own);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
		read_control(port, c, &own, &segment);
	/* Without its ancillary data, joined datagrams would be taken for one. */
	if (message->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		port->dropped++;
		return false;
	}
	if (!segment || segment > len)
		segment = len;
	n = len > segment ? (len + segment - 1) / segment : 1;
	arrival->buffer = buffer;
	arrival->at = 0;
	arrival->left = n;
	arrival->len = len;
	arrival->segment = segment;
	ripc__udp_addr_fill(&arrival->from, &own);
	ripc__buffer_hold(buffer, n);
	port->n_arrivals++;
	return true;
}

/* One recvmsg. An error says only that nothing was received; it is no datagram's fault. */
static void receive_one(struct udp_port *port)
{
	struct envelope e;
	struct msghdr message;
	uint32_t at = 0;
	struct ripc__buffer *buffer = ripc__buffers_find(port->buffers, &at);
	ssize_t len;

	if (!buffer)
		return;
	prepare(&message, &e, buffer);
	len = recvmsg(port->fd, &message, MSG_DONTWAIT);
	if (len < 0)
		port->streak = 0;
	else if (file_arrival(port, &message, (uint32_t)len, buffer))
		port->streak = port->arrivals[0].left == 1 ? port->streak + 1 : 0;
}

/* One recvmmsg into all free buffers. */
static void receive_many(struct udp_port *port)
{
	struct ripc__buffer *buffers[UDP_BATCH];
	struct envelope e[UDP_BATCH];
	struct mmsghdr messages[UDP_BATCH];
	uint32_t n = 0, at = 0;
	int received;

	while (n < UDP_BATCH && (buffers[n] = ripc__buffers_find(port->buffers, &at))) {
		prepare(&messages[n].msg_hdr, &e[n], buffers[n]);
		n++;
	}
	if (!n)
		return;
	received = recvmmsg(port->fd, messages, n, MSG_DONTWAIT, NULL);
	if (received <= 0)
		port->streak = 0;
	for (int i = 0; i < received; i++) {
		if (!file_arrival(port, &messages[i].msg_hdr, messages[i].msg_len, buffers[i]))
			continue;
		if (port->arrivals[port->n_arrivals - 1].left > 1)
			port->streak = 0;
	}
}

/* ---- sleeping in recvmsg ------------------------------------------------------------------ */

/* What wait has received; filed by the next poll, so that wait touches nothing else. */
struct udp_waited {
	struct envelope e;
	struct msghdr message;
	struct ripc__buffer *buffer;
	ssize_t len; /* negative: nothing */
};

int ripc__udp_wait_open(struct udp_port *port)
{
	const struct timeval most = {.tv_usec = 100000};

	port->waited = calloc(1, sizeof(*port->waited));
	if (!port->waited)
		return -ENOMEM;
	port->waited->len = -1;
	if (setsockopt(port->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0)
		return 0;
	free(port->waited);
	return -errno;
}

void ripc__udp_wait_close(struct udp_port *port)
{
	free(port->waited);
}

void ripc__udp_wait(void *state)
{
	struct udp_port *port = state;
	struct udp_waited *waited = port->waited;
	uint32_t at = 0;

	waited->buffer = ripc__buffers_find(port->buffers, &at);
	if (!waited->buffer)
		return;
	prepare(&waited->message, &waited->e, waited->buffer);
	waited->len = recvmsg(port->fd, &waited->message, 0);
}

/* An empty datagram to ourselves, over loopback; poll drops it. */
void ripc__udp_wake(void *state)
{
	const struct udp_port *port = state;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port->number)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6.sin6_port,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	map_v4(in6.sin6_addr.s6_addr, &in.sin_addr);
	if (port->family == AF_INET6)
		sendto(port->fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&in6, sizeof(in6));
	else
		sendto(port->fd, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&in, sizeof(in));
}

/* Files what wait has received. False: it has received nothing. */
static bool take_waited(struct udp_port *port)
{
	struct udp_waited *waited = port->waited;
	ssize_t len = waited->len;

	waited->len = -1;
	if (len > 0)
		file_arrival(port, &waited->message, (uint32_t)len, waited->buffer);
	return len > 0;
}

static void hand_over(struct udp_arrival *arrival, struct ripc__event *event)
{
	uint32_t len = arrival->len - arrival->at;

	if (len > arrival->segment)
		len = arrival->segment;
	*event = (struct ripc__event){
		.kind = RIPC_EV_DATAGRAM,
		.data = arrival->buffer->data + arrival->at,
		.len = len,
		.handle = arrival->buffer,
		.from = &arrival->from,
	};
	arrival->at += len;
	arrival->left--;
}

int ripc__udp_poll(void *state, struct ripc__event *events, uint32_t n)
{
	struct udp_port *port = state;
	uint32_t filled = 0;

	if (port->next == port->n_arrivals) {
		port->next = port->n_arrivals = 0;
		if (take_waited(port))
			;
		else if (port->streak < STREAK)
			receive_one(port);
		else
			receive_many(port);
	}
	while (filled < n && port->next < port->n_arrivals) {
		struct udp_arrival *arrival = &port->arrivals[port->next];

		hand_over(arrival, &events[filled++]);
		if (!arrival->left)
			port->next++;
	}
	return (int)filled;
}

void ripc__udp_release(void *port, void *handle)
{
	(void)port; /* may be closed already */
	ripc__buffer_put(handle, 1);
}

int ripc__udp_wait_arm(void *state)
{
	const struct udp_port *port = state;

	/* What has left the socket but not been handed over does not make it readable. */
	return port->next < port->n_arrivals || port->waited->len >= 0 ? -EAGAIN : 0;
}

void ripc__udp_arrival_drop(const struct udp_arrival *arrival)
{
	ripc__buffer_put(arrival->buffer, arrival->left);
}
