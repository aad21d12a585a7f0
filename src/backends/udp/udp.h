/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the udp backend: the state of device, port and partner. Addresses are
 * kept as IPv6 (IPv4 as v4-mapped), whatever the socket is.
 */
#ifndef RIPC_UDP_H
#define RIPC_UDP_H

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/net/backend.h"
#include "util/buffers.h"

#define UDP_HEADERS_4 28
#define UDP_HEADERS_6 48
#define UDP_MAX       (65535 - UDP_HEADERS_4) /* longest datagram, bytes of payload */
/* The size that every route is assumed to carry: IPv6's least MTU less headers (RFC 8200, 5). */
#define UDP_FLOOR     (1280 - UDP_HEADERS_6)
#define UDP_BATCH     16 /* datagrams of one recvmmsg, and receive buffers of a port */
#define UDP_BUFFER    65536
#define UDP_CONTROL   128 /* bytes of ancillary data of one datagram */
#define UDP_MANY      15512 /* UDP port of multicast (docs/protocol.md) */
#define UDP_HEARD     20  /* multicast groups that one port receives */
#define UDP_HINTS     8   /* addresses without a listener, until core gets them */
#define UDP_QUOTE     64  /* bytes of the datagram sent there: core finds a token */

struct udp_device {
	struct in6_addr ip; /* to bind to; zero: all of this host */
	uint32_t port;   /* the same; 0: any */
	uint32_t rcvbuf; /* bytes to request */
	bool gso, gro;   /* allowed by the options */
};

/* The contents of ripc__addr.blob, which never leave the process. */
struct udp_addr {
	struct sockaddr_in6 at;
	struct in6_addr local; /* our address that was addressed; zero: unknown */
};

/* One datagram, or several equal ones that the kernel has joined, not yet returned. */
struct udp_arrival {
	struct ripc__buffer *buffer;
	uint32_t at, len; /* bytes returned, bytes in all */
	uint32_t segment; /* length of each datagram but the last, bytes */
	uint32_t left;    /* datagrams not yet returned */
	bool multicast;   /* sent by multicast */
	struct ripc__addr from;
};

/* A received message with its ancillary data. */
struct udp_envelope {
	struct sockaddr_in6 name;
	_Alignas(struct cmsghdr) char control[UDP_CONTROL];
	struct iovec iov;
};

/* A message that wait or poll has received alone, not yet filed as an arrival. */
struct udp_received {
	struct ripc__buffer *buffer; /* NULL: none */
	uint32_t len;
	struct msghdr message;
	struct udp_envelope envelope;
};

/* A multicast group that is received: its number, by the interface with this address. */
struct udp_heard {
	uint64_t number;
	struct in_addr local;
};

/* No socket listens at an address; the beginning of the datagram that was sent there. */
struct udp_hint {
	struct ripc__addr at;
	uint32_t len;
	uint8_t quote[UDP_QUOTE];
};

struct udp_port {
	struct udp_device dev;
	int fd;
	int family;         /* AF_INET6 also carries IPv4; AF_INET where IPv6 is off */
	uint16_t number;    /* UDP port that it is bound to */
	bool gso;
	uint32_t granted;   /* bytes of receive buffer, as the kernel counts them */
	uint32_t fallbacks; /* since the last report */
	uint32_t dropped;   /* by us, since the last report */
	uint32_t kernel_dropped, kernel_told; /* the kernel's running count; what was reported */
	uint32_t multicast_dropped, multicast_told; /* the same of the second socket */
	uint32_t polls;     /* of the socket */
	bool several;       /* the last poll found several datagrams */
	uint32_t next, n_arrivals;
	struct ripc__buffers *buffers;
	struct udp_arrival arrivals[UDP_BATCH];
	struct udp_received received;
	int multicast_fd;        /* the second socket (send.c); -1: no group is received */
	uint32_t n_heard;
	struct udp_heard heard[UDP_HEARD];
	atomic_bool failed; /* a call failed: the error queue is read with the next poll */
	/* The last poll returned the first n_told. Sleepers look without the lock. */
	_Atomic uint32_t n_hints, n_told;
	struct udp_hint hints[UDP_HINTS];
};

struct udp_route {
	struct sockaddr_in6 to;
	struct in6_addr local; /* to send from, if pinned */
	uint16_t mtu;          /* longest datagram, bytes */
	bool pinned;           /* the kernel would choose another source address than local */
	bool no_gso;           /* offload has failed on this route */
};

/* Has the kernel no room for a datagram now? */
static inline bool udp_is_full(int error)
{
	return error == -EAGAIN || error == -EWOULDBLOCK || error == -ENOBUFS || error == -ENOMEM;
}

/* udp.c */
/* Requests a receive buffer. Returns the granted bytes, as the kernel counts them. */
uint32_t ripc__udp_grow_receive_buffer(int fd, uint32_t len);
/* Opens a port at one address and number of this host; the other options stay. */
int ripc__udp_open_at(struct udp_port *port, const struct ripc__host *host, const uint8_t ip[16],
		uint32_t number, struct ripc__attr *attr);
void ripc__udp_addr_fill(struct ripc__addr *addr, const struct udp_addr *own);
/* Converts an address for a socket of one family. Returns its length. */
socklen_t ripc__udp_sockaddr(const struct sockaddr_in6 *at, int family, struct sockaddr_in6 *to);
uint32_t ripc__udp_route_mtu(void *port, void *route);
/*
 * The longest datagram of the kernel's route to an address, and the source address of that
 * route. A sandbox or an emulator may not report the MTU: then it is the least possible.
 * -EMFILE, -ENFILE, -ENOMEM, -ENOBUFS: could not find out; any other error: there is no route.
 */
int ripc__udp_ask_route(const struct sockaddr_in6 *at, uint16_t *len_max,
		struct in6_addr *source);
/* The kernel refused len bytes: reads the route's present limit, which is less than len. */
void ripc__udp_route_shrink(struct udp_route *route, uint32_t len);

/* send.c: see struct ripc__backend */
int ripc__udp_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n);
int ripc__udp_multicast_open(void *port, void *route_state, const void *partner, uint64_t number);
int ripc__udp_multicast_hear(void *port, const void *partner, uint64_t number);
void ripc__udp_multicast_ignore(void *port, uint64_t number);
int ripc__udp_multicast_fd(void *port);

/* receive.c */
/* May this error of a send be about an earlier one? Then the send is tried again. */
bool ripc__udp_is_late(struct udp_port *port, int error);
void ripc__udp_map_v4(struct in6_addr *ip, const struct in_addr *v4);
/* Converts a name from the kernel to IPv6. */
void ripc__udp_read_name(const struct sockaddr_in6 *name, struct sockaddr_in6 *at);
int ripc__udp_poll(void *port, struct ripc__event *events, uint32_t n, bool all);
int ripc__udp_wait_arm(void *port);
void ripc__udp_wait(void *port);

#endif
