/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A partner without a library: speaks the protocol over a UDP socket of its own and can so say
 * whatever it likes. Counts the bytes that it sends and gets back.
 */
#ifndef RAW_H
#define RAW_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/wire/wire.h"
#include "ripc/ripc.h"

#define RAW_PACKET_MAX 65507

struct raw {
	int fd;
	struct sockaddr_in to;
	uint64_t service, incarnation, context;       /* its own */
	uint64_t their_service, their_incarnation;
	uint64_t token_in, token_out, proof;          /* token_out 0: a stranger */
	uint64_t sent_bytes, received_bytes;
	uint64_t seed;
	size_t len;                                   /* of the last packet */
	uint8_t bytes[RAW_PACKET_MAX];                /* the last packet that was sent */
	uint8_t received[RAW_PACKET_MAX];
};

/* Sends to the service svc of a process that another service can reach: by its path. */
void raw_open(struct raw *raw, struct ripc_service *from, struct ripc_service *svc, uint64_t seed);
void raw_close(struct raw *raw);
/* The same partner from another port. */
void raw_rebind(struct raw *raw);
void raw_send(struct raw *raw, const void *bytes, size_t len);
/* Fills in the header, with a hello for a stranger, encodes into raw->bytes, and sends. */
void raw_say(struct raw *raw, struct wire_packet *packet, const uint64_t *lens,
		const void *payload);
/* The next packet within timeout_ms. False: none. */
bool raw_hear(struct raw *raw, struct wire_packet *packet, int timeout_ms);
/* Reads until nothing comes any more. */
void raw_drain(struct raw *raw);
/* Becomes a partner: gets a proof, says hello with it, takes the token. */
void raw_introduce(struct raw *raw);

#endif
