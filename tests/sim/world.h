/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated world: a virtual clock, a network with faults, and nodes, each of which is one
 * libripc context. Everything runs in one thread and is drawn from one seed, so that a seed
 * replays exactly.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/env.h"
#include "model.h"
#include "random.h"
#include "sha256.h"

#define SIM_NODES 8
#define SIM_NEVER UINT64_MAX
#define SIM_REHOMED (1ull << 24) /* added to the address of a node that gets another one */
#define SIM_SLACK_US 12000 /* tolerance after a deadline, beside poll_delay_us */
#define SIM_FAILED_US 200000 /* until a native read or write across a cut link is given up */

struct sim_world;
struct sim_node;
struct sim_store;

/* The world of one seed. Probabilities are per million. */
struct sim_plan {
	uint32_t n_nodes, n_services;
	uint32_t loss, reorder, duplicate, corrupt, forge, late; /* of packets */
	uint32_t data_loss, cancel_loss; /* of DATA, and of CANCEL packets */
	uint32_t n_flows;         /* ordered flows, in a world where only such packets are lost */
	uint32_t send_full;       /* of send calls: not all is taken */
	uint32_t delay_us[SIM_NODES][SIM_NODES], jitter_us, reorder_us;
	uint32_t mtu;             /* the route's datagrams, bytes */
	uint32_t hole_bytes;      /* longer datagrams vanish; 0: none do */
	uint32_t receive_buffer;  /* bytes waiting at a node; 0: no limit */
	uint32_t poll_delay_us;   /* how long a node takes to look at what came */
	uint32_t n_partitions, n_crashes, n_moves, n_reopens, n_jumps, n_stalls, n_rivals;
	uint32_t n_addresses;     /* changes of a host's address */
	uint32_t n_strands;       /* such changes right after a service was heard first */
	uint32_t peer_timeout_ms;
	uint32_t window, lend, give, cancel, hold, narrow, ordered; /* of sends or messages */
	uint64_t span_us;         /* of the phase with faults */
	uint64_t pause_us;        /* in its middle nothing is sent for so long */
	uint32_t late_us;         /* how late the late packets can be */
	uint32_t timeout_ms;      /* the longest of a send */
	bool long_cut;
	uint32_t burst;           /* more sends at one moment, to one service */
	uint32_t n_rehomes;       /* a node gets another address, and half of them notice */
	bool far;                 /* one node is far from all others */
	bool mild;                /* few faults: every patient send must arrive */
	bool incast;              /* at the end all send much to one at once */
	bool native, shared_hosts;
	bool store;               /* an exact source instead of the one that asks all */
	bool intact;              /* nothing is altered, and nothing has a checksum */
	uint32_t claims;          /* somebody claims to be others */
	uint32_t many[SIM_NODES]; /* bit b: what the node sends to many reaches node b */
	uint32_t many_loss, many_fails; /* of datagrams to many; of its opening and hearing */
	uint64_t many_off_us, many_on_us; /* between these nothing that is sent to many arrives */
};

/* A packet under way or waiting; also the handle that core releases. */
struct sim_packet {
	struct sim_packet *next;
	struct sim_world *world;
	uint64_t from;      /* address */
	uint32_t from_slot; /* node */
	uint32_t len;
	bool resolver;
	uint64_t many;      /* the number that it was sent to; 0: to one */
	bool hint;          /* returned from an address where no socket listens */
	uint8_t bytes[];
};

struct sim_queue {
	struct sim_packet *first, **last;
	uint64_t bytes; /* as a kernel would count them */
};

struct sim_event {
	uint64_t at, order;
	void (*run)(struct sim_world *world, void *arg, uint64_t value);
	void *arg;
	uint64_t value;
};

/* A range that a node has opened to others, to be read or to be written. */
struct sim_region {
	uint64_t address, key;
	uint8_t *mem;
	size_t len;
	bool open, writable;
};

/* Something that has ended at a node. */
struct sim_done {
	uint64_t cookie;
	int status;
	enum ripc__event_kind kind;
};

/*
 * A right of a node's key to send to a service: from the beginning until then (0: not), or granted
 * late.
 */
struct sim_right {
	uint64_t until_us;
	bool is_late;
};

#define SIM_RIGHTS 7 /* services that a key can be granted to send to, one by one */
#define SIM_ENDED_MAX 16u
#define SIM_HEARD_MAX 4u

struct sim_node {
	struct sim_world *world;
	uint32_t slot, generation;
	uint64_t address;         /* host << 16 | port */
	bool up;                  /* there is a port at the address */
	bool cut;                 /* crashed: nothing comes in or goes out any more */
	bool waiting;             /* in a call that waits */
	bool rehomed;             /* its source is about to report another address */
	struct ripc_context *ctx; /* NULL: down */
	struct ripc_context *closed; /* the one before, while buffers of it are left */
	struct ripc__env env;
	struct sim_random random;
	uint64_t clock_offset_us; /* its clock before the world's */
	uint64_t poll_at, wake_at, stalled_until;
	uint64_t idle_at;
	uint32_t n_idle;
	struct sim_queue datagrams, questions;
	struct sim_packet *hinted; /* the packet of the last hint that core was given */
	uint64_t context;         /* its incarnation */
	uint64_t ended[SIM_ENDED_MAX]; /* contexts whose end it is about to be told of */
	uint32_t n_ended;
	uint32_t overflows;
	struct sim_region *regions;
	uint32_t n_regions;
	struct sim_done *done;
	uint32_t n_done;
	uint64_t heard[SIM_HEARD_MAX]; /* numbers that it hears; 0: a free place */
};

/* A service that the claimant says it is, to another one. */
struct sim_claim {
	uint64_t to;              /* address */
	uint64_t src, id, context; /* claimed */
	uint64_t dst, to_id;
	uint64_t token_in, token_out, proof, number;
	struct sim_claim *reflected; /* the same the other way round; or NULL */
};

#define SIM_CLAIMS 32u

struct sim_claimant {
	struct sim_node node;     /* nothing but an address: it has no context */
	struct sim_random random;
	struct sim_claim claims[SIM_CLAIMS];
	uint32_t n;
};

struct sim_counts {
	uint64_t packets, bytes, lost, cut, corrupted, forged, duplicated, late, overflowed, holes;
	uint64_t polls;
	uint64_t writes, late_writes; /* native: that landed; after they had failed */
	uint64_t to_many, heard;      /* datagrams to many: sent; taken by those who hear them */
};

struct sim_world {
	struct sim_random random; /* of the world; nodes have their own */
	struct sim_plan plan;
	uint64_t seed, now_us, order;
	struct sim_event *events; /* binary heap */
	uint32_t n_events, events_capacity;
	struct sim_node nodes[SIM_NODES];
	struct sim_claimant claimant;
	bool cut[SIM_NODES][SIM_NODES];
	/* the time until which long sends may fail because of a new address */
	uint64_t moved_until[SIM_NODES];
	uint64_t paused_until_us; /* 0: no pause is planned */
	bool faults;              /* packets are lost, altered, ... */
	bool verbose, groups, addresses, handles;
	const char *keys;         /* the directory of all contexts; NULL: they have none */
	bool all_granted;         /* nothing is granted late any more */
	bool has_authority;       /* each node has a directory of its own (rights.c) */
	struct sim_right rights[SIM_NODES][SIM_RIGHTS];
	uint32_t n_held;          /* datagrams that core has not released */
	uint32_t n_addresses;     /* given to hosts whose address has changed */
	uint32_t n_steps_now;     /* steps since the clock last moved */
	struct sha256 trace;
	struct model *model;
	struct sim_store *store;  /* NULL: there is none */
	struct sim_counts counts;
	void *app;
	void (*ready)(struct sim_node *node); /* takes what the services of a node have received */
};

/* world.c */
void sim_world_open(struct sim_world *world, uint64_t seed);
void sim_world_close(struct sim_world *world);
/* Calls run at a time (now, if it is over). */
void sim_at(struct sim_world *world, uint64_t at_us,
		void (*run)(struct sim_world *world, void *arg, uint64_t value), void *arg,
		uint64_t value);
/* Lets the world go on until a time, or until the model has found a violation. */
void sim_run(struct sim_world *world, uint64_t until_us);
bool sim_failed(const struct sim_world *world);
/* A line of the trace. */
void sim_trace(struct sim_world *world, const char *format, ...)
		__attribute__((format(printf, 2, 3)));

/* node.c */
void sim_env_init(struct sim_node *node);
int sim_node_open(struct sim_node *node, uint64_t address);
/* Closes the context; with crash nothing of that reaches the network. */
void sim_node_close(struct sim_node *node, bool crash);
/* After a call into the node's context: when has it to be polled? */
void sim_node_schedule(struct sim_node *node);
void sim_node_wake(struct sim_node *node, uint64_t at_us);
uint64_t sim_node_next(const struct sim_node *node);
void sim_node_step(struct sim_node *node);
struct sim_node *sim_node_at(struct sim_world *world, uint64_t address);
void sim_host(uint64_t address, uint8_t host[16]);

/* network.c: packets under way */
void sim_transmit(struct sim_node *from, uint64_t to, bool resolver, const struct iovec *iov,
		uint32_t n_iov);
/* To all on other hosts who hear the number, and whom what this node sends to many reaches. */
void sim_transmit_many(struct sim_node *from, uint64_t number, const struct iovec *iov,
		uint32_t n_iov);
bool sim_hears(const struct sim_node *node, uint64_t number);
void sim_queue_clear(struct sim_queue *queue);
struct sim_packet *sim_queue_pop(struct sim_queue *queue);
/* The address of a node has changed: what follows from that is no fault. */
void sim_moved(struct sim_world *world, uint32_t slot);
void sim_partition(struct sim_world *world, uint32_t a, uint32_t b, bool cut);

/* forge.c: makes a forged packet of a true one; false: this one cannot be used */
bool sim_forge(struct sim_random *random, struct sim_packet *packet);

/*
 * keys.c: the directory of all contexts' keys is made once, and removed; what is asked of
 * cryptography is watched from sim_keys_begin() to _end().
 */
#define SIM_NOWHERE (0x7eull << 16 | 1) /* an address at which nobody lives */
extern char sim_keys_dir[];
bool sim_keys_make(void);
void sim_keys_remove(void);
void sim_keys_begin(struct sim_world *world);
void sim_keys_end(void);
const struct ripc__crypto *sim_crypto(char why[256], char remedy[256]);
/* A context with keys sends this: is that what it may? */
void sim_keys_sent(struct sim_world *world, const struct sim_packet *packet, uint64_t to);
bool sim_keys_forge(struct sim_random *random, struct sim_packet *packet);

/* rights.c: as sim_keys_make() and _remove(), after and before these; the directory of a node. */
bool sim_rights_make(void);
void sim_rights_remove(void);
void sim_rights_dir(const struct sim_node *node, char path[96]);
/* Draws who may send to whom, and when; at last everybody may send to everybody. */
void sim_rights_begin(struct sim_world *world);
void sim_rights_calm(struct sim_world *world);

/* claimant.c: a packet has reached its address */
void sim_claimant_input(struct sim_world *world, const struct sim_packet *packet);

/* sim_net.c, sim_source.c, plan.c */
extern const struct ripc__backend sim_backend, sim_open_backend, sim_native_backend;
extern const struct ripc__source sim_source, sim_store_source;
/* State shared by both: outgoing answers, and received packets of the resolver. */
int sim_questions_reply(struct sim_node *node, const struct ripc__addr *to, const void *data,
		size_t len);
int sim_questions_poll(struct sim_node *node, const struct ripc__host *host,
		struct sim_packet **last, struct ripc__source_event *event);
/* sim_store.c: has the store ever had this holder? */
bool sim_store_granted(struct sim_world *world, uint64_t incarnation);
void sim_store_free(struct sim_world *world);
/* The node has crashed: some of the others are told so by proof. */
void sim_source_crashed(struct sim_node *node);
void sim_plan_draw(struct sim_world *world, bool native, bool store);

#endif
