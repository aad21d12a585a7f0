/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context alone with a fuzz input, which is its clock, its network, all of its partners and
 * its application. session_world.c is the world, session_device.c what its device can move by
 * itself, session_many.c groups, session_packet.c what else partners say, and fuzz_session.c what
 * the application does and what must hold.
 */
#ifndef FUZZ_SESSION_H
#define FUZZ_SESSION_H

#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "core/partner/death.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "core/resolve/internal.h"
#include "core/wire/wire.h"
#include "input.h"
#include "util/list.h"

#define MTU           1452u
#define PERSONS       4u    /* partners, each at an address of its own */
#define HOSTS         5u    /* addresses: 1 to 5; nobody lives at the last one */
#define SERVICES      3u
#define LONGS         64u   /* with RIPC_NOWAIT; the cookie tells which */
#define HELD          16u
#define WINDOWS       16u
#define BLOCKS        8u
#define ASKS          8u    /* short questions that have lent a return buffer */
#define WELL_KNOWN    0x3e11
#define SEGMENTS      4u    /* of memory that partners let us map */
#define SHORTS        256u  /* of partners to groups */
#define SHORT_TAKERS  8u    /* services that one of them may come to */

/* A partner, as the context sees it, and what it has learned from the context's packets. */
struct person {
	uint64_t service, incarnation, context, token_in, token_out, proof, question;
	uint64_t heard_long, heard_total; /* the last announcement to it */
	uint64_t heard_lent;              /* memory posted with the request */
	uint64_t said_total, said_before; /* of its own last announcements */
	uint64_t echo, echo_stamp;        /* the last question whether it is there */
	uint64_t to;                      /* the incarnation that talked to it last */
	uint64_t next_short, next_long;
	struct wire_stream heard_stream;  /* the last that it was told of */
	uint8_t host;
};

/* A long message that was accepted with RIPC_NOWAIT. */
struct expected {
	struct ripc_service *service; /* NULL: does not matter any more */
	const struct ripc_service *sent_by;
	bool ended, lent;
	void *given; /* the pool buffer that goes with it, or NULL */
};

/* Transfers in the hands of the device. */
enum use_kind {
	USE_READ = 1, /* in progress; their memory is the device's */
	USE_WRITE,
	USE_REGION,   /* registered, to read into */
	USE_SOURCE,   /* and to write from */
	USE_OPEN,     /* partners reach it */
	USE_CLOSING,  /* transfers that may still happen; RIPC_EV_FENCED follows */
	USE_HANDED,   /* a partner has mapped the memory; RIPC_EV_FENCED follows some time */
	USE_MAPPED,   /* a partner's, by us */
	USE_ROUTE     /* being made; RIPC_EV_PEER follows */
};

struct use {
	struct list node; /* device.uses */
	enum use_kind kind;
	bool writable;
	uint8_t host;     /* ROUTE */
	uint8_t *mem;
	size_t len;
	uint64_t cookie, key, due_us; /* the time by which it ends at the latest */
};

/* A device that moves bytes by itself, as far as caps go. */
struct fuzz_mover {
	uint32_t caps, read_max;
	bool fences, opens_slowly; /* closing takes its time; so do routes */
	bool silent;               /* partners are: what waits for them ends */
	struct list uses;
	uint32_t n_uses, n_refusals; /* calls that get refusal */
	int refusal;
	uint64_t drawn;              /* keys */
	uint32_t n_events;
	struct ripc__event events[RIPC_EVENTS_MAX];
	struct ripc__addr froms[RIPC_EVENTS_MAX], told[RIPC_EVENTS_MAX];
	uint8_t *segments[SEGMENTS]; /* partners' memory, as far as it is mapped */
	uint32_t n_mapped[SEGMENTS];
};

/* A partner's stream to a group. */
struct said_stream {
	uint64_t incarnation, token;
	uint64_t number, told; /* of the last short; of the one with which it was said to begin */
	uint64_t told_us;
};

/* A partner's short to a group, which goes to many, and to one service also as a copy. */
struct said_short {
	struct person *person;
	uint64_t incarnation, group, token, number;
	uint64_t to, token_out, copy_number; /* of the copy */
	uint64_t made_us;
	uint64_t took[SHORT_TAKERS];         /* incarnations of services that it has come to */
	uint32_t n_took;
};

/* The groups of the session. */
struct many {
	struct said_stream streams[PERSONS][2];
	struct said_short shorts[SHORTS];
	uint32_t n_shorts;
	uint64_t drawn, heard; /* tokens; the number that the device hears */
	uint64_t question[2];  /* of the resolver, about each group */
	bool comes_by_multicast;    /* the next datagrams are multicast */
};

/* The state of the device, and of its port. */
struct port {
	struct session *session;
};

struct session {
	struct input input;
	struct fuzz_mover mover;
	bool has_groups; /* and a device that reaches many with one datagram */
	struct many many;
	struct ripc__env env;
	struct ripc_context *ctx;
	uint64_t now_us, drawn;
	uint32_t steps, idles, pool_bytes;
	/* the network */
	uint8_t in[MTU];
	size_t in_len;
	bool in_is_question;
	struct ripc__addr from;
	uint32_t peers_open, refuses; /* datagrams that are not taken */
	int refusal;
	uint32_t mtu;
	const uint64_t *keys; /* of the announcement that is being made; NULL: none */
	/* the partners */
	struct person persons[PERSONS];
	/* the application */
	struct ripc_service *services[SERVICES];
	struct expected longs[LONGS];
	uint32_t n_longs;
	struct ripc_msg *held[HELD];
	uint32_t n_unknown; /* waiting sends that may still be using their memory */
	struct ripc_service *asked[ASKS];
	bool lent_back[LONGS + ASKS];
	bool posted[WINDOWS];
	const struct ripc_service *posted_on[WINDOWS];
	uint32_t n_posted;
	void *blocks[BLOCKS];
	uint8_t read; /* of received items: so that they are looked at */
	bool altered; /* partners may have sent bytes that are not 0 */
};

/* session_world.c */
void session_open(struct session *session);
/* Lets the context do what it can do now. */
void session_work(struct session *session);
/* Lets time pass, and timers run. */
void session_pass(struct session *session, uint64_t us);

/* session_device.c */
/* Gives the device what the input says. */
void session_device_choose(struct session *session);
/* Something of what it has in hand ends, or its partners reach what they can reach. */
void session_device_step(struct session *session);
/* Ends due transfers. Up to n events. */
int session_device_poll(struct session *session, struct ripc__event *events, uint32_t n);
/* When the next one is due; UINT64_MAX: nothing is. */
uint64_t session_device_next_us(const struct session *session);
/* Can anybody but the application reach any byte of it? */
bool session_device_uses(const struct session *session, const void *mem, size_t len);
/* A route is to be made: 0 or -EINPROGRESS. peer has 8 bytes. */
int session_route_open(struct session *session, uint8_t *peer);
/* Memory that the context has not returned by then is lost. */
void session_port_closes(struct session *session);
/* Slots of the backend. */
int session_mem_reg(void *port, void *peer, void *mem, size_t len, bool source, void **region);
void session_mem_dereg(void *port, void *region);
int session_mem_open(void *port, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key);
int session_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie);
int session_move(void *port, void *peer, const struct ripc__move *move);
int session_map(void *port, void *peer, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping);
void session_unmap(void *port, void *handle);

/* session_many.c */
/* Partners or the application do something about groups. */
void session_many_step(struct session *session);
/* The context asks the resolver's sources about an ID. */
void session_many_asked(struct session *session, uint64_t id, uint64_t nonce);
/* A service has got a message. */
void session_many_took(struct session *session, struct ripc_service *service,
		const struct ripc_msg *msg);
/* Slots of the backend. */
int session_many_open(void *port, void *route, const void *partner, uint64_t number);
int session_many_hear(void *port, const void *partner, uint64_t number);
void session_many_ignore(void *port, uint64_t number);

/* fuzz_session.c */
/* Does it all belong to the application, and not to the pool? */
bool session_app_owns(const void *mem, size_t len);

/* session_packet.c */
/* Makes the packet that the input describes: it is there at the next poll. */
void session_packet(struct session *session);
/* The same with bytes that are the input's own. */
void session_raw(struct session *session);
/* A partner does what it takes to be known. */
void session_greet(struct session *session);
/* The resolver's answer about a partner. */
void session_answer(struct session *session);
/* A packet of zeros, or (session_answer_with) an answer, that comes from a host. */
void session_hand_over(struct session *session, const struct wire_packet *packet, uint8_t host);
void session_answer_with(struct session *session, const struct wire_resolve *answer,
		uint8_t host);
/* A datagram of the context to a host. */
void session_heard(struct session *session, uint8_t host, const uint8_t *data, size_t len);

#endif
