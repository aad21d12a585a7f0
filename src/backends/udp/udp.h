/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the udp backend share: the state of device, port and partner. Addresses are
 * kept as IPv6 (IPv4 as v4-mapped), whatever the socket is.
 */
#ifndef RIPC_UDP_H
#define RIPC_UDP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/backend.h"
#include "util/buffers.h"

#define UDP_PAYLOAD_MAX_4 65507 /* 65,535 less IPv4 and UDP headers */
#define UDP_PAYLOAD_MAX_6 65487 /* the same for IPv6, with room as for a header in the length */
/* Every route is taken to carry this much: IPv6's least MTU less headers (RFC 8200, 5). */
#define UDP_PAYLOAD_FLOOR (1280 - 48)
#define UDP_HEADERS_4     28
#define UDP_HEADERS_6     48
#define UDP_BATCH         16 /* datagrams of one recvmmsg, and receive buffers of a port */
#define UDP_BUFFER        65536
#define UDP_CONTROL       128 /* bytes for the ancillary data of one datagram */
/* A port's address in a record: kind, 0, port (little-endian); the host is known from the answer. */
#define UDP_BLOB_KIND 1
#define UDP_BLOB_LEN  4

struct udp_device {
	const struct ripc__host *host;
	uint16_t port;   /* to bind to; 0: any */
	uint32_t rcvbuf; /* bytes to ask for */
	bool gso, gro;   /* allowed by the options */
};

/* What ripc__addr.blob holds; never leaves the process. */
struct udp_addr {
	uint8_t ip[16];
	uint8_t local[16]; /* our address that was addressed; zero: unknown */
	uint32_t scope;    /* interface of a link-local address, else 0 */
	uint16_t port;
	uint16_t zero;
};

/* One datagram, or several equal ones that the kernel has joined, not yet handed over. */
struct udp_arrival {
	struct ripc__buffer *buffer;
	uint32_t at, len;  /* bytes handed over, bytes in all */
	uint32_t segment;  /* length of each datagram but the last, bytes */
	uint32_t left;     /* datagrams not yet handed over */
	struct ripc__addr from;
};

struct udp_port {
	struct udp_device *dev;
	int fd;
	int family;          /* AF_INET6 also carries IPv4; AF_INET where IPv6 is off */
	uint16_t number;     /* UDP port that it is bound to */
	bool gso;
	uint32_t fallbacks;  /* since last asked */
	uint32_t dropped;    /* by us, since last asked */
	uint32_t kernel_dropped, kernel_told; /* the kernel's running count; what was reported */
	uint32_t streak;     /* lone datagrams in a row without a send or an empty poll */
	uint32_t next, n_arrivals;
	struct ripc__buffers *buffers;
	struct udp_waited *waited; /* what wait has received and poll has not yet taken */
	struct udp_arrival arrivals[UDP_BATCH];
};

struct udp_peer {
	union {
		struct sockaddr_in6 in6;
		struct sockaddr_in in;
	} to;
	uint8_t local[16]; /* to send from, if pinned */
	uint16_t mtu;      /* longest datagram, bytes */
	bool pinned;       /* the kernel would choose another source address than local */
	bool no_gso;       /* offload has failed on this route */
};

/* addr.c */
int ripc__udp_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr);
void ripc__udp_addr_text(const struct ripc__addr *addr, char text[64]);
void ripc__udp_addr_fill(struct ripc__addr *addr, const struct udp_addr *own);
int ripc__udp_peer_open(void *port, void *peer, const struct ripc__addr *addr);
void ripc__udp_peer_close(void *port, void *peer);
uint32_t ripc__udp_peer_mtu(void *port, void *peer);
bool ripc__udp_peer_matches(void *port, const void *peer, const struct ripc__addr *from);
/* The kernel refused len bytes: asks it what the route takes now, which is less than len. */
void ripc__udp_peer_shrink(struct udp_port *port, struct udp_peer *peer, uint32_t len);

/* send.c */
int ripc__udp_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n);

/* receive.c */
int ripc__udp_poll(void *port, struct ripc__event *events, uint32_t n);
void ripc__udp_release(void *port, void *handle);
int ripc__udp_wait_arm(void *port);
int ripc__udp_wait_open(struct udp_port *port);
void ripc__udp_wait_close(struct udp_port *port);
void ripc__udp_wait(void *port);
void ripc__udp_wake(void *port);
/* Gives up what of an arrival was not yet handed over. */
void ripc__udp_arrival_drop(const struct udp_arrival *arrival);

#endif
