/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, and what is said with a request and before a message: bytes from outside. */
#ifndef RIPC_RDMACM_ADDR_H
#define RIPC_RDMACM_ADDR_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "core/net/backend.h"

#define RDMACM_VERSION     1
#define RDMACM_ADDR_LEN    20
#define RDMACM_HELLO_LEN   56u   /* what a request may carry on any network */
#define RDMACM_PREAMBLE    16u
#define RDMACM_BUFFER      4096u /* bytes of a message with its preamble */
#define RDMACM_RESERVE     2u    /* of a window, only for messages without a datagram */

/* Where a partner listens; and over UDP, at the same number. */
struct rdmacm_addr {
	uint8_t ip[16];
	uint16_t port;
	bool by_udp; /* datagrams go over UDP */
};

enum rdmacm_hello_type { RDMACM_REQUEST = 1, RDMACM_ACCEPT, RDMACM_REFUSE };
/* Why a request is refused. */
enum rdmacm_reason {
	RDMACM_GLARE = 1, /* mine is under way, or I am connected to you already */
	RDMACM_BUSY,      /* come again in a while */
	RDMACM_UNKNOWN,   /* that is not the last connection I know of; I ask you */
};

/* The private data of a request and its answer. */
struct rdmacm_hello {
	uint8_t type, reason;
	uint64_t nonce;  /* of this connection, drawn by who asks for it */
	uint64_t last;   /* of the last one that who asks knows */
	uint32_t window; /* messages that the other end may send at first */
	uint32_t buffer; /* bytes of the longest of them */
	struct rdmacm_addr addr;
};

enum rdmacm_message {
	RDMACM_DATAGRAM = 1, /* a datagram follows */
	RDMACM_CREDIT,       /* nothing does */
	RDMACM_BYE,          /* the last message on this connection */
};

/* Before every message. */
struct rdmacm_preamble {
	uint32_t type;
	uint32_t received; /* messages that have come from the other end so far, modulo 2^32 */
	uint32_t limit;    /* that it may send, counted from the first one */
};

bool ripc__rdmacm_is_v4(const uint8_t ip[16]);
void ripc__rdmacm_addr_encode(const struct rdmacm_addr *addr, uint8_t blob[RDMACM_ADDR_LEN]);
/* -EBADMSG: it is none. */
int ripc__rdmacm_addr_decode(const uint8_t *blob, size_t len, struct rdmacm_addr *addr);
void ripc__rdmacm_addr_fill(const struct rdmacm_addr *own, struct ripc__addr *addr);
void ripc__rdmacm_addr_text(const struct ripc__addr *addr, char text[64]);
bool ripc__rdmacm_addr_is(const struct rdmacm_addr *one, const struct rdmacm_addr *other);
/* An order of addresses that both ends know. */
bool ripc__rdmacm_addr_before(const struct rdmacm_addr *one, const struct rdmacm_addr *other);
void ripc__rdmacm_to_socket(const struct rdmacm_addr *addr, struct sockaddr_storage *name);
/* An address that others can reach, or a negative errno. */
int ripc__rdmacm_from_socket(const struct sockaddr *name, struct rdmacm_addr *addr);
void ripc__rdmacm_hello_encode(const struct rdmacm_hello *hello, uint8_t bytes[RDMACM_HELLO_LEN]);
int ripc__rdmacm_hello_decode(const uint8_t *bytes, size_t len, struct rdmacm_hello *hello);
/* For a message of len bytes with its preamble: what follows that is there already. */
void ripc__rdmacm_preamble_encode(const struct rdmacm_preamble *preamble, uint8_t *bytes,
		size_t len);
/* -EBADMSG: it is none, or the message was altered. */
int ripc__rdmacm_preamble_decode(const uint8_t *bytes, size_t len,
		struct rdmacm_preamble *preamble);

#endif
