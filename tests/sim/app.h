/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated applications: services that send each other messages of every kind, lend
 * memory, cancel, hold what they got, and tell the model all of it.
 */
#ifndef SIM_APP_H
#define SIM_APP_H

#include "world.h"

#define SIM_SERVICES 16
#define SIM_RIVALS   2
#define SIM_RETURNS  4
#define SIM_FIRST_ID 1000
#define SIM_GROUPS   2
#define SIM_ROWS     6 /* of shorts to a group */
#define SIM_MET      64 /* senders that are remembered */

/* How the items of a send lie in memory. */
enum sim_memory {
	SIM_FOREIGN,    /* each its own malloc */
	SIM_REGISTERED, /* one malloc, registered */
	SIM_POOL,       /* each in a pool buffer */
	SIM_POOL_ONE,   /* all in one pool buffer */
	SIM_MEMORIES
};

struct sim_send {
	struct sim_send *next;
	struct sim_node *node;
	uint64_t number, incarnation;
	enum sim_memory memory;
	uint32_t n_items;
	bool given, limbo; /* limbo: ended UNKNOWN, still reachable */
	struct iovec items[5];
	uint64_t lens[5];
	void *block; /* SIM_REGISTERED, SIM_POOL_ONE */
	size_t block_len;
};

/* A window or a return buffer. */
struct sim_lent {
	struct sim_lent *next;
	struct sim_node *node;
	uint64_t cookie, number, incarnation;
	struct iovec mem;
	bool pool;
};

struct sim_held {
	struct sim_held *next;
	struct sim_node *node;
	uint64_t key;
	struct ripc_msg *msg;
};

/* A question that is answered later, perhaps by somebody whom nobody has asked. */
struct sim_late {
	struct sim_late *next;
	uint64_t key, number, by; /* by: incarnation */
	struct ripc_msg question;
};

/* The sender of a message (--handles): to be sent to later, when it may be there no more. */
struct sim_met {
	uint64_t by, from, incarnation, handle; /* by: incarnation of the service that got it */
	bool forged;                            /* nobody gets what is sent to it */
};

struct sim_fan;

struct sim_service {
	uint64_t id, incarnation, previous; /* incarnations; 0: none */
	uint32_t home;            /* slot of the node where it is or will be */
	struct ripc_service *svc; /* NULL: nowhere */
	bool busy;                /* opens, drains, closes */
	bool drained;
	bool yields;              /* to an older one, since a notice said so */
	uint64_t opened_us;
	uint32_t joined;          /* bit i: group i */
	uint64_t left_us[SIM_GROUPS];
};

struct sim_app {
	struct sim_world *world;
	/* The first plan.n_services are those that live on; then come rivals for their IDs. */
	struct sim_service services[SIM_SERVICES + SIM_RIVALS];
	uint32_t n_services;
	struct sim_send *sends;
	struct sim_lent *lent;
	struct sim_held *held;
	struct sim_late *late;
	struct sim_fan *fans;     /* messages to groups */
	uint64_t n_fans;
	struct sim_met met[SIM_MET];
	uint64_t n_met;
	uint32_t row_from[SIM_ROWS]; /* which service sends a row of shorts to a group */
	uint64_t held_key;
	bool patient; /* messages to groups wait for slow members */
	bool calm; /* the faults are over: no new ones begin */
};

static inline struct sim_node *sim_home(const struct sim_app *app, const struct sim_service *s)
{
	return &app->world->nodes[s->home];
}

/* app.c */
void sim_app_ready(struct sim_node *node);
/* Can this service make calls now? */
bool sim_usable(const struct sim_app *app, const struct sim_service *service);
void sim_act_short(struct sim_world *world, void *arg, uint64_t value);
void sim_act_long(struct sim_world *world, void *arg, uint64_t value);
void sim_act_burst(struct sim_world *world, void *arg, uint64_t value);
void sim_act_flow(struct sim_world *world, void *arg, uint64_t value);
struct sim_wish {
	uint64_t to, to_incarnation, len, reply_to, answers;
	uint64_t to_handle; /* not 0: only by this, and only to_incarnation may get it */
	enum ripc_kind kind;
	uint32_t timeout_ms;
	bool must_deliver;
	bool patient; /* must not be cancelled */
	bool ordered; /* sim_send() draws that */
	bool flow;    /* the message is ordered anyway */
	bool swift;   /* ordered, and so short that no packet of it is lost in a world of flows */
	bool idempotent;
};
/* Sends; returns what the call returned. */
int sim_send(struct sim_app *app, struct sim_service *from, struct sim_wish *wish);
/* A service that can act now, drawn at random; NULL if there is none. */
struct sim_service *sim_draw_usable(struct sim_app *app);
/* The destination; by service and length. */
void sim_draw_target(struct sim_app *app, struct sim_wish *wish);
/* Lends up to SIM_RETURNS buffers under a number; returns how many. Takes them back. */
uint32_t sim_lend_returns(struct sim_app *app, struct sim_service *from, uint64_t number,
		struct ripc_buffer returns[SIM_RETURNS]);
void sim_unlend(struct sim_app *app, uint64_t number);
/* The first bytes of a message. */
uint64_t sim_number_of(const struct ripc_msg *msg);

/* calls.c */
void sim_act_call(struct sim_world *world, void *arg, uint64_t value);
/* Asks; with waits by ripc_call(), while nobody else waits. */
void sim_call(struct sim_app *app, struct sim_service *from, const struct sim_wish *wish,
		bool waits);
/* A question has come; the message stays the caller's. */
void sim_asked(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg);
void sim_late_free(struct sim_app *app);
/* A call has ended. */
void sim_answered(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg);

/* memory.c */
struct sim_send *sim_send_new(struct sim_app *app, struct sim_service *from, uint64_t number,
		bool give);
void sim_send_free(struct sim_app *app, struct sim_send *send);
/* The sender's memory is its own again: scribbles over it and frees it. */
void sim_send_end(struct sim_app *app, struct sim_send *send);
struct sim_send *sim_send_find(struct sim_app *app, uint64_t number);
struct sim_lent *sim_lend(struct sim_app *app, struct sim_service *service, uint64_t number,
		size_t len);
void sim_lent_free(struct sim_app *app, struct sim_lent *lent);
void sim_act_cancel(struct sim_world *world, void *arg, uint64_t value);
void sim_cancel(struct sim_app *app, struct sim_service *service, uint64_t number);
/* Memory posted under this number (0: all) is the owner's again. */
void sim_taken_back(struct sim_app *app, uint64_t incarnation, uint64_t number);
void sim_hold(struct sim_app *app, struct sim_node *node, struct ripc_msg *msg);
/* Frees a message and watches the lent memory that it had used. */
void sim_done_with(struct sim_app *app, struct ripc_msg *msg);
/* Forgets what belongs to a service that is closed, or to a node whose context is closed. */
void sim_forget_service(struct sim_app *app, uint64_t incarnation);
/* Gives back everything that the applications of a node still have, its services being closed. */
void sim_give_back(struct sim_app *app, struct sim_node *node);
void sim_forget_node(struct sim_app *app, struct sim_node *node, bool before);

/* life.c */
bool sim_somebody_waits(const struct sim_world *world);
void sim_app_open(struct sim_app *app, struct sim_world *world);
uint64_t sim_draw_moment(struct sim_world *world, uint64_t from_us);
void sim_app_plan(struct sim_app *app, uint64_t from_us);
/* No more faults: heals what is cut. */
void sim_app_calm(struct sim_app *app);
/* Are all services up, and no rivals? Sees to it that rivals end. */
bool sim_app_settled(struct sim_app *app);
/* value: the service. It has heard that its ID is another's. */
void sim_act_lose(struct sim_world *world, void *arg, uint64_t value);
void sim_app_close(struct sim_app *app);
/* When the faults are over: a node ends without a word, and is up again soon (or not). */
void sim_app_end_node(struct sim_app *app, uint32_t slot, bool again);
void sim_app_begin_node(struct sim_app *app, uint32_t slot);
/* A service has received a message of an incarnation: perhaps that one is stranded now. */
void sim_app_strand(struct sim_app *app, const struct sim_service *receiver, uint64_t incarnation);
/* Another service gets the ID of this one, at a node that hears nothing of it. NULL: no room. */
struct sim_service *sim_app_raise(struct sim_app *app, const struct sim_service *first,
		uint32_t home);

/* met.c: the senders of messages, who are sent to by their handles; only with --handles */
void sim_met(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg,
		bool forged);
/* Now and then the message goes to a sender that its service has met, perhaps long ago. */
void sim_meet_again(struct sim_app *app, const struct sim_service *from, struct sim_wish *wish);

/* groups.c: nothing happens there but with --groups */
void sim_groups_plan(struct sim_app *app, uint64_t from_us);
/* A service was opened. */
void sim_groups_join(struct sim_app *app, struct sim_service *service);
/* A service gets a message to a group; a COMPLETION of one. */
void sim_groups_got(struct sim_app *app, struct sim_service *service, const struct ripc_msg *msg);
void sim_groups_completed(struct sim_app *app, struct sim_service *service,
		const struct ripc_msg *msg);
/* A service has ended: its sends are not completed any more. */
void sim_groups_forget(struct sim_app *app, const struct sim_service *service);
bool sim_groups_busy(const struct sim_app *app);
/* A long message to the first group. Has it ended; with no member that it did not reach? */
struct sim_fan *sim_groups_send(struct sim_app *app, struct sim_service *from);
bool sim_groups_ended(const struct sim_fan *fan);
bool sim_groups_succeeded(const struct sim_fan *fan);
/* Has the service got it? */
bool sim_groups_has(const struct sim_fan *fan, const struct sim_service *service);
/* The faults are over: every service joins, and must be found. */
void sim_groups_calm(struct sim_app *app,
		void (*go_on)(struct sim_world *world, uint64_t until_us));
void sim_groups_end(struct sim_app *app);

/* fates.c: members die, and begin anew, and two have one ID */
void sim_fates(struct sim_app *app, void (*go_on)(struct sim_world *world, uint64_t until_us));

/* claimant.c: it claims until the faults are over */
void sim_claimant_begin(struct sim_app *app);

#endif
