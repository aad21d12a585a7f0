/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge of the simulation: it hears what applications did and what they got back, and says
 * whether libripc's guarantees held. It knows nothing but ripc.h: no packet, no timer, no
 * internal name. Contents and lengths of messages come from here, so that each received byte
 * can be told right or wrong.
 *
 * A place is where a context runs (a simulated process), numbered from 0; failures of the
 * network happen between two places.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ripc/ripc.h"

#define MODEL_PLACES 16

enum model_fault {
	MODEL_OK,
	MODEL_NEVER_SENT,      /* received, but nobody sent it */
	MODEL_MISDIRECTED,     /* received by another service than it was sent to */
	MODEL_WRONG_SENDER,    /* from, from_incarnation or kind are not the sender's */
	MODEL_ALTERED,         /* a length, a split into items or a byte differs */
	MODEL_TWICE,           /* received more often than sent */
	MODEL_NOT_DELIVERED,   /* NOT_DELIVERED was reported, yet it was received */
	MODEL_LOST,            /* DELIVERED was reported, yet it was never received */
	MODEL_INCARNATION,     /* received by an incarnation that it was not for */
	MODEL_NO_SERVICE,      /* received by a service that does not live */
	MODEL_UNKNOWN,         /* UNKNOWN without a failure of partner or network */
	MODEL_UNDELIVERED,     /* had to arrive, and did not */
	MODEL_STATUS,          /* outcome and status contradict, or an undocumented code */
	MODEL_COMPLETION,      /* a completion for no send in progress */
	MODEL_LATE,            /* completed after its deadline */
	MODEL_HUNG,            /* never completed */
	MODEL_BUFFER,          /* a lent buffer came back twice, or was never lent */
	MODEL_BUFFER_WRITTEN,  /* written to after it had come back */
	MODEL_NOTICE,          /* a notice without reason, or none where one was due */
	MODEL_DUPLICATE,       /* registered though alive elsewhere, or refused without reason */
	MODEL_NOT_GIVEN_UP,    /* waits for a partner that has been silent for too long */
	MODEL_ORDER,           /* ordered ones were received out of order */
	MODEL_GAP,             /* received, though one that it had to follow was not */
	MODEL_STALL,           /* an ordered one waits, though nothing is left to wait for */
	MODEL_ANSWER,          /* an answer to another question, or by somebody else */
	MODEL_EARLY,           /* a call failed before its deadline, with no reason to */
	MODEL_RIGHT,           /* received without the right to send it, or refused with it */
	MODEL_OTHER,           /* found by the driver itself (model_fail) */
};

struct model;

struct model_config {
	uint32_t write_us; /* until a native write ends whose target cannot be reached; 0: none */
	uint32_t slack_us;        /* how late a completion may be */
	bool held;                /* a store says who has an ID: a silent holder is waited for */
	bool rights;              /* an authority grants them: see model_right() */
	bool keys;                /* a program with other keys, or a forger, may answer for an ID */
	uint32_t peer_timeout_ms; /* after so long a silence a partner is given up */
};

struct model_send {
	uint64_t from;      /* incarnation of the sender */
	uint64_t to, to_incarnation;
	uint64_t len;       /* bytes of all items */
	enum ripc_kind kind; /* RIPC_SHORT, RIPC_LONG; RIPC_REQUEST, RIPC_REPLY: of calls */
	uint32_t timeout_ms; /* of a long send, or a call */
	uint64_t answers;   /* number of the question whose return buffers it may use; 0 */
	int error;          /* of an answer: it is this, a number from MODEL_ERROR on; 0: bytes */
	bool idempotent;    /* of a question: RIPC_IDEMPOTENT */
	bool ordered;       /* RIPC_ORDERED */
	bool swift;         /* ordered: no packet of it is lost, so it waits only for its turn */
	bool must_deliver;  /* nothing excuses another outcome than DELIVERED, or answered */
};

#define MODEL_ERROR 2000 /* no error of the library's is so large */

struct model_totals {
	uint64_t shorts, shorts_received, longs, longs_received;
	uint64_t delivered, not_delivered, unknown, refused, cut_off;
	uint64_t in_window, in_return;
	uint64_t calls, questions, answers; /* made; received; tried */
	uint64_t answered, failed, failed_unknown; /* calls: ended by the server, or without it */
};

struct model *model_open(const struct model_config *cfg);
void model_close(struct model *model);
/* The first violation, MODEL_OK if there is none, and what it was in words. */
enum model_fault model_verdict(const struct model *model, const char **text);
void model_totals(const struct model *model, struct model_totals *totals);
/* A violation that the driver saw. */
void model_fail(struct model *model, const char *text);

/* ---- what happens around the sends ---- */
void model_service(struct model *model, uint64_t now_us, uint32_t place, uint64_t id,
		uint64_t incarnation);
/* A registration was refused because the ID is said to be alive elsewhere. */
void model_service_refused(struct model *model, uint64_t now_us, uint64_t id);
/* Closed or crashed. Its sends in progress will never be reported; its queue was emptied. */
void model_service_end(struct model *model, uint64_t now_us, uint64_t incarnation);
/* From now on packets between two places are cut off, or pass again. */
void model_cut(struct model *model, uint64_t now_us, uint32_t a, uint32_t b, bool cut);
/* Packets are lost at random from now on, or not any more. */
void model_lossy(struct model *model, uint64_t now_us, bool lossy);
/* The services at a place may send to a service between these moments. */
void model_right(struct model *model, uint32_t place, uint64_t id, uint64_t from_us,
		uint64_t until_us);
/* The context at a place accepts messages from anybody. */
void model_careless(struct model *model, uint32_t place);
/* A place's clock has jumped, which makes partners look silent. */
void model_jump(struct model *model, uint64_t now_us, uint32_t place);
/* A place has another address: who has not spoken to it since looks for it first. */
void model_moved(struct model *model, uint32_t place);
/* A place cannot look at its completions from now on (it waits or stands still), or can. */
void model_blocked(struct model *model, uint64_t now_us, uint32_t place, bool blocked);

/* ---- sends ---- */
/* Announces a send that is about to be tried; returns its number, which is its cookie. */
uint64_t model_plan(struct model *model, uint64_t now_us, const struct model_send *send);
/* The lengths of the items that the send is to have; returns how many, at most 5. */
uint32_t model_items(const struct model *model, uint64_t number, uint64_t lens[5]);
/* Its bytes, all items one after the other. */
void model_contents(const struct model *model, uint64_t number, uint8_t *bytes);
/* The results of the call. */
void model_sent(struct model *model, uint64_t number, int status);
void model_cancelled(struct model *model, uint64_t number);
bool model_in_progress(const struct model *model, uint64_t number);
uint32_t model_open_sends(const struct model *model);
/* The sends that are overdue now are hung. */
void model_overdue(struct model *model, uint64_t now_us);

/* ---- what a service got: each message from ripc_receive() goes to one of these ---- */
void model_received(struct model *model, uint64_t now_us, uint64_t incarnation,
		const struct ripc_msg *msg);
/*
 * Is it one of the claimant's, who says that he is somebody else? Then that must be told apart, and
 * it goes no further.
 */
#define MODEL_FORGED 0xf0f1f2f3f4f5f6f7u
bool model_forged(struct model *model, const struct ripc_msg *msg);
/* The message once more, later: its bytes must still be there. */
void model_recheck(struct model *model, const struct ripc_msg *msg);
void model_completed(struct model *model, uint64_t now_us, uint64_t incarnation,
		const struct ripc_msg *msg);
/* A RIPC_REPLY; or what ripc_call() returned, as if it were one. */
void model_answered(struct model *model, uint64_t now_us, uint64_t incarnation,
		const struct ripc_msg *msg);
/* Is it the number of a question? */
bool model_is_call(const struct model *model, uint64_t number);
void model_noticed(struct model *model, uint64_t incarnation, const struct ripc_msg *msg);

/* ---- lent memory: windows (number 0) and return buffers of the send with that number ---- */
uint64_t model_lend(struct model *model, uint64_t incarnation, uint64_t number,
		const struct iovec *mem);
bool model_lent(const struct model *model, uint64_t cookie);
/* Memory posted under a send's number is about to be taken back. */
void model_recalled(struct model *model, uint64_t number);
/* The memory was not taken, or was taken back by ripc_cancel() or by closing the service. */
void model_taken_back(struct model *model, uint64_t cookie);
/* The memory is back and unused: fills it with a pattern that must not change. */
void model_watch(struct model *model, uint64_t cookie);
/* Looks at the pattern; afterwards the memory can be freed. Harmless if it is not watched. */
void model_unwatch(struct model *model, uint64_t cookie);

/* The end: nothing is in progress any more, all queues were emptied. */
void model_finish(struct model *model, uint64_t now_us);

#endif
