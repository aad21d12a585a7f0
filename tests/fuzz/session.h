/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context alone with a fuzz input, which is its clock, its network, all of its partners and
 * its application. session_world.c is the world, session_packet.c what partners say, and
 * fuzz_session.c what the application does and what must hold.
 */
#ifndef FUZZ_SESSION_H
#define FUZZ_SESSION_H

#include "core/core.h"
#include "input.h"

#define MTU           1452u
#define PERSONS       4u    /* partners, each at an address of its own */
#define HOSTS         5u    /* addresses: 1 to 5; nobody lives at the last one */
#define SERVICES      3u
#define LONGS         64u   /* with RIPC_NOWAIT; the cookie tells which */
#define HELD          16u
#define WINDOWS       16u
#define BLOCKS        8u
#define WELL_KNOWN    0x3e11

/* A partner, as the context sees it, and what it has learned from the context's packets. */
struct person {
	uint64_t service, incarnation, context, token_in, token_out, proof, question;
	uint64_t heard_long, heard_total; /* the last announcement to it */
	uint64_t heard_lent;              /* what was lent with it */
	uint64_t said_total;              /* of its own last announcement */
	uint64_t echo, echo_stamp;        /* the last question whether it is there */
	uint64_t to;                      /* the incarnation that talked to it last */
	uint64_t next_short, next_long;
	uint8_t host;
};

/* A long message that was accepted with RIPC_NOWAIT. */
struct expected {
	struct ripc_service *service; /* NULL: does not matter any more */
	bool ended, lent;
	void *given; /* the pool buffer that goes with it, or NULL */
};

struct session {
	struct input input;
	struct ripc__env env;
	struct ripc_context *ctx;
	uint64_t now_us, drawn;
	uint32_t steps, idles;
	/* the network */
	uint8_t in[MTU];
	size_t in_len;
	bool in_is_question;
	struct ripc__addr from;
	uint32_t peers_open, refuses; /* so many datagrams are not taken */
	int refusal;
	uint32_t mtu;
	/* the partners */
	struct person persons[PERSONS];
	/* the application */
	struct ripc_service *services[SERVICES];
	struct expected longs[LONGS];
	uint32_t n_longs;
	struct ripc_msg *held[HELD];
	bool posted[WINDOWS];
	uint32_t n_posted;
	void *blocks[BLOCKS];
	uint8_t read; /* of received items: so that they are looked at */
	bool gave_and_closed; /* who has what was given is not known */
};

/* session_world.c */
void session_open(struct session *session);
/* Lets the context do what it can do now. */
void session_work(struct session *session);
/* Lets time pass, and timers run. */
void session_pass(struct session *session, uint64_t us);

/* session_packet.c */
/* Makes the packet that the input describes: it is there at the next poll. */
void session_packet(struct session *session);
/* The same with bytes that are the input's own. */
void session_raw(struct session *session);
/* A partner does what it takes to be known. */
void session_greet(struct session *session);
/* The resolver's answer about a partner. */
void session_answer(struct session *session);
/* A datagram of the context to a host. */
void session_heard(struct session *session, uint8_t host, const uint8_t *data, size_t len);

#endif
