/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of the model, shared by its files. */
#ifndef MODEL_INTERNAL_H
#define MODEL_INTERNAL_H

#include "model.h"

#include "model_contents.h"

enum send_state { PLANNED, IN_PROGRESS, ENDED };

struct tally {
	uint64_t key;
	uint32_t sent, refused, delivered, not_delivered, received;
};

struct send {
	struct model_send is;
	uint64_t from_id, sent_us, ended_us;
	uint32_t place, tally;
	enum send_state state;
	bool cancelled;
	bool refused, failed, delivered; /* by the call; as was told */
	uint32_t told_at;     /* when it ended: so many sends had been planned */
	uint64_t received_by; /* an incarnation; 0: nobody */
	bool recalled; /* its return buffers were taken back: answers may be refused */
};

struct service {
	uint64_t id, incarnation, born_us, ended_us; /* ended_us 0: lives */
	uint32_t place;
	bool again; /* a send met -EAGAIN, a notice has to come */
};

/* The state of a place to send to a service. */
struct right {
	uint64_t id, from_us, until_us;
	uint32_t place;
};

struct buffer {
	struct iovec mem;
	uint64_t owner, number;
	enum { LENT, BACK, WATCHED, GONE } state;
};

struct model {
	struct model_config cfg;
	struct model_totals totals;
	enum model_fault fault;
	char text[320];
	struct send *sends;
	struct tally *tallies;
	struct service *services;
	struct buffer *buffers;
	bool careless[MODEL_PLACES];
	struct right *rights;
	uint32_t n_rights;
	uint32_t n_sends, n_tallies, n_services, n_buffers;
	uint32_t *tiny; /* hash of indices into tallies plus one: messages without a number */
	uint32_t tiny_capacity, n_tiny, n_open;
	bool cut[MODEL_PLACES][MODEL_PLACES], blocked[MODEL_PLACES], lossy;
	uint64_t cut_since[MODEL_PLACES][MODEL_PLACES];
	uint64_t cut_until[MODEL_PLACES][MODEL_PLACES], jumped[MODEL_PLACES];
	uint64_t blocked_until[MODEL_PLACES], lossy_until;
	bool moved[MODEL_PLACES];
};

/* model.c */
void violation(struct model *m, enum model_fault fault, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Makes room for one more element; only memory can fail, and then there is no result at all. */
void *grown(void *array, uint32_t n, size_t size);
struct service *service_of(const struct model *m, uint64_t incarnation);
bool is_documented(const struct model *m, int status);
/* The last moment at which the send may be reported. */
uint64_t latest(const struct model *m, const struct send *send);
/* Was there, since the send began, a failure between its place and a holder of the ID? Or can it
 * happen that nothing came through for as long as one has to wait? */
bool has_excuse(const struct model *m, const struct send *send, uint64_t now_us);
/* Could its sender, or a holder of the ID, not look at what came, at some time since then? */
bool was_blocked(const struct model *m, const struct send *send, uint64_t since_us);
bool may_be_cancelled(const struct model *m, const struct send *send);
bool jumped_since(const struct model *m, uint32_t place, uint64_t since_us);

/* The send was received: its sender must have had the right at some time since the send began. */
void judge_right(struct model *m, const struct send *send, const struct service *at,
		uint64_t now_us);
/* The send ended with -EACCES: there must have been a time, lately, without the right. */
void judge_denial(struct model *m, const struct send *send, uint64_t now_us);

/* model_calls.c */
/* A question that is asked once waits for the answer of an incarnation that is gone. */
void judge_patience(struct model *m, const struct send *send, uint64_t now_us);

/* model_receipts.c */
uint32_t tally_new(struct model *m, uint64_t key);
/* The tally of small messages that look the same; with make it comes to be. */
struct tally *tiny_tally(struct model *m, uint64_t key, bool make);
uint64_t length_of(const struct ripc_msg *msg);
void judge_contents(struct model *m, const struct ripc_msg *msg, uint64_t len);
void judge_places(struct model *m, uint64_t incarnation, const struct ripc_msg *msg, uint64_t len);

/* model_order.c */
/* The message was received; judges its place among the ordered ones. */
void order_received(struct model *m, struct send *send, uint64_t incarnation);
/* A message that it had to follow has failed, or is not known to be delivered. */
bool order_was_broken(const struct model *m, const struct send *send);
/* Is the message in progress: has it waited for too long since its turn came? */
void judge_stall(struct model *m, const struct send *send, uint64_t now_us);

#endif
