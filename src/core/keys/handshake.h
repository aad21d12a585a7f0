/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes: how they begin, are answered, and are given up (docs/protocol.md, Handshake). A
 * handshake that succeeds ends in a session of a member.
 */
#ifndef RIPC_HANDSHAKE_H
#define RIPC_HANDSHAKE_H

#include <stdint.h>

#include "member.h"
#include "noise.h"
#include "util/list.h"

/* A handshake that we have begun. */
struct handshake {
	struct ripc__timer timer;
	struct list node;          /* of seal->under_way */
	struct member *member;
	struct noise noise;
	struct sealed_net *net;    /* by which it goes now */
	uint8_t nets;              /* by which routes wait for it: a bit for each */
	struct ripc__addr at;      /* the address of the member in the inner network */
	uint64_t began_us, wait_us, proof_us;
	uint64_t proof;            /* the address proof that INIT shows; 0: none */
	uint8_t mac[16];           /* of the last INIT: a PROOF must show it */
	uint64_t hinted_us;        /* when a hint came that nobody listens there; 0: no hint */
	uint32_t index;
	int thrown;                /* whether the last datagram could be sent there */
};

/* Begins a handshake, or goes on with one under way. -ENOMEM; -EACCES: refused a moment ago. */
int ripc__handshake_begin(struct sealed_net *net, struct member *member,
		const struct ripc__addr *at);
/* Our capabilities have changed: each handshake under way sends INIT again, with the new ones. */
void ripc__handshakes_renew(struct seal *seal);
/* There is a way to the address (status 0), or none: for handshakes that go there. */
void ripc__handshakes_way(struct sealed_net *net, const struct ripc__addr *at, int status);
/* The member gives us an address proof: for the handshake on its way, and the next ones. */
void ripc__handshake_proof(struct seal *seal, struct member *member, uint64_t proof);
void ripc__handshake_end(struct seal *seal, struct member *member);
/*
 * A datagram of a handshake came; bytes may be overwritten. Returns a member that seems to have
 * lost our session with it: core should ask. Else NULL.
 */
const struct member *ripc__handshake_input(struct sealed_net *net, uint8_t *bytes, uint32_t len,
		const struct ripc__addr *from);
/* A DATA came whose index has no session: answers with UNKNOWN. */
void ripc__unknown_answer(struct sealed_net *net, const uint8_t *bytes,
		const struct ripc__addr *from);
/* An ICMP message quotes a datagram: the member to which it was sent lately, or NULL. */
struct member *ripc__handshake_quoted(struct seal *seal, const uint8_t *quote, uint32_t len);
/* Sends one datagram to an address. 0, or why it cannot be sent there. */
int ripc__sealed_throw(struct sealed_net *net, const struct ripc__addr *to, const uint8_t *bytes,
		uint32_t len);
/* Sends an empty sealed datagram: it shows the member that the session works. */
void ripc__sealed_confirm(struct sealed_net *net, struct member *member,
		const struct ripc__addr *to);
/* Logs a sentence for people, at most one a second in the long run. */
void ripc__seal_say(struct sealed_net *net, const struct ripc__addr *from, const char *text);

#endif
