/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes: who begins them, what is answered, and when they are given up (docs/protocol.md,
 * Handshake). They end in a session of a member.
 */
#ifndef RIPC_HANDSHAKE_H
#define RIPC_HANDSHAKE_H

#include <stdint.h>

#include "noise.h"
#include "member.h"

/* One that we have begun. */
struct handshake {
	struct ripc__timer timer;
	struct member *member;
	struct noise noise;
	struct ripc__addr at;      /* where it goes to, as the inner network has it */
	uint64_t began_us, wait_us, proof_us;
	uint64_t hinted_us;        /* nobody seems to listen there; 0: no hint */
	uint32_t index;
};

/* Begins one, or goes on with the one under way there. -ENOMEM; -EACCES: refused a moment ago. */
int ripc__handshake_begin(struct seal *seal, struct member *member, const struct ripc__addr *at);
void ripc__handshake_end(struct seal *seal, struct member *member);
/* A datagram of a handshake that came; bytes may be overwritten. */
void ripc__handshake_input(struct seal *seal, uint8_t *bytes, uint32_t len,
		const struct ripc__addr *from);
/* DATA with an index that nothing has. */
void ripc__unknown_answer(struct seal *seal, const uint8_t *bytes, uint32_t len,
		const struct ripc__addr *from);
/* The member whose datagram this quotes (an ICMP message), if it was sent lately; or NULL. */
struct member *ripc__handshake_quoted(struct seal *seal, const uint8_t *quote, uint32_t len);
/* Sends one datagram to an address. */
void ripc__sealed_throw(struct seal *seal, const struct ripc__addr *to, const uint8_t *bytes,
		uint32_t len);
/* An empty datagram. */
void ripc__sealed_confirm(struct seal *seal, struct member *member, const struct ripc__addr *to);
/* A sentence for people, at most one a second in the long run. */
void ripc__seal_say(struct seal *seal, const struct ripc__addr *from, const char *text);

#endif
