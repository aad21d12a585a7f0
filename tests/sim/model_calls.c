/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge of calls. A question is a send whose end is told by its answer, or by a failure; an
 * answer is a send of which only the asker hears. So what holds for sends holds for them, and is
 * judged there: a question that is asked once is received once, and one that was NOT_DELIVERED by
 * nobody. Here: each call ends once; with an answer of whoever received its question, and no
 * other; or with a failure that is true, and has a reason.
 */
#include "model_internal.h"

#include <errno.h>

#define PATIENCE_US 2500000 /* beyond the peer timeout: as with sends that are given up */
#define ROUNDED_US  1000    /* deadlines within the library are whole milliseconds */
#define CROWD       256     /* messages that wait for one service, WAITING_MAX of the library */

bool model_is_call(const struct model *m, uint64_t number)
{
	return number > 0 && number <= m->n_sends &&
		m->sends[number - 1].is.kind == RIPC_REQUEST;
}

static unsigned long long number_of(const struct model *m, const struct send *send)
{
	return (unsigned long long)(send - m->sends) + 1;
}

/* ---- answered ---------------------------------------------------------------------------- */

/* Is this one an answer to that question, by a service that it was asked of? */
static bool is_answer_to(const struct model *m, const struct send *answer,
		const struct send *question)
{
	return answer->is.kind == RIPC_REPLY && !answer->refused &&
		answer->is.answers == number_of(m, question) &&
		answer->from_id == question->is.to &&
		answer->is.to_incarnation == question->is.from &&
		(!question->is.to_incarnation ||
		answer->is.from == question->is.to_incarnation);
}

/* The answer that this message is, by what it bears; an empty one, or an error, bears nothing. */
static const struct send *answer_meant(const struct model *m, const struct send *question,
		const struct ripc_msg *msg, uint64_t len)
{
	uint64_t number = contents_tag_received(msg, len);

	if (len >= CONTENTS_TAG_BYTES)
		return number > 0 && number <= m->n_sends ? &m->sends[number - 1] : NULL;
	for (const struct send *send = question; send < m->sends + m->n_sends; send++)
		if (is_answer_to(m, send, question) && send->is.error == -msg->status &&
				send->is.len == len && (!msg->from_incarnation ||
				send->is.from == msg->from_incarnation))
			return send;
	return NULL;
}

static void judge_answer(struct model *m, struct send *question, const struct ripc_msg *msg)
{
	uint64_t len = length_of(msg);
	const struct send *answer = answer_meant(m, question, msg, len);
	bool is_named = msg->status == 0 || msg->from_incarnation;

	m->totals.answered++;
	if (!answer || !is_answer_to(m, answer, question) || answer->is.error != -msg->status)
		violation(m, MODEL_ANSWER, "call %llu got an answer that is not its own",
				number_of(m, question));
	else if (is_named && (msg->from != answer->from_id ||
			msg->from_incarnation != answer->is.from))
		violation(m, MODEL_WRONG_SENDER, "the answer to call %llu bears another sender",
				number_of(m, question));
	else if (msg->outcome != RIPC_DELIVERED)
		violation(m, MODEL_STATUS, "call %llu is answered, and has outcome %d",
				number_of(m, question), (int)msg->outcome);
	if (m->fault != MODEL_OK || len == 0)
		return;
	if (answer->is.len != len)
		violation(m, MODEL_ALTERED, "the answer to call %llu has %llu bytes, not %llu",
				number_of(m, question), (unsigned long long)len,
				(unsigned long long)answer->is.len);
	judge_contents(m, msg, len);
	judge_places(m, question->is.from, msg, len);
}

/* ---- not answered ------------------------------------------------------------------------ */

/* The right to ask is missing: nothing is waited for. */
static bool is_denied(const struct model *m, const struct ripc_msg *msg)
{
	return m->cfg.rights && msg->status == -EACCES;
}

static bool may_say(const struct model *m, const struct send *call, const struct ripc_msg *msg)
{
	if (msg->status == -ECANCELED)
		return may_be_cancelled(m, call);
	switch (msg->outcome) {
	case RIPC_NOT_DELIVERED:
		return msg->status == -EAGAIN ||
			(is_documented(m, msg->status) && msg->status != -EMSGSIZE);
	case RIPC_DELIVERED:
		return msg->status == -ETIMEDOUT || msg->status == -ECONNRESET ||
			(call->is.idempotent && is_denied(m, msg));
	case RIPC_UNKNOWN:
		return msg->status == -ECONNRESET || (call->is.idempotent &&
			(msg->status == -ETIMEDOUT || is_denied(m, msg)));
	}
	return false;
}

/* Do so many messages wait for the server that a call which waits is refused, as others are? */
static bool is_crowded(const struct model *m, const struct send *call)
{
	uint32_t n_waiting = 0;

	for (uint32_t i = 0; i < m->n_sends; i++) {
		const struct send *send = &m->sends[i];

		n_waiting += send != call && send->state != ENDED &&
			send->is.kind != RIPC_SHORT && send->is.from == call->is.from &&
			send->is.to == call->is.to;
	}
	return n_waiting >= CROWD;
}

/*
 * A call that waits until its deadline may fail then; a server is not reported as gone without a
 * reason.
 */
static void judge_reason(struct model *m, const struct send *call, const struct ripc_msg *msg,
		uint64_t now_us)
{
	uint64_t deadline_us = call->sent_us + 1000ull * call->is.timeout_ms;
	bool is_due = now_us + ROUNDED_US >= deadline_us ||
		jumped_since(m, call->place, call->sent_us);
	bool is_cancelled = msg->status == -ECANCELED;
	bool is_refused = msg->status == -EAGAIN && is_crowded(m, call);
	/* The reply was a short message, whose arrival is not reported. */
	bool is_guess = call->is.idempotent && msg->outcome == RIPC_UNKNOWN &&
		(is_due || is_cancelled || is_denied(m, msg));

	if (!is_due && !is_cancelled && !is_refused && msg->status != -ECONNRESET &&
			!is_denied(m, msg))
		violation(m, MODEL_EARLY, "call %llu ended with outcome %d, status %d %llu us "
				"before its deadline", number_of(m, call), (int)msg->outcome,
				msg->status, (unsigned long long)(deadline_us - now_us));
	if ((msg->status == -ECONNRESET || msg->outcome == RIPC_UNKNOWN) && !is_guess &&
			!has_excuse(m, call, now_us))
		violation(m, MODEL_UNKNOWN, "call %llu ended with outcome %d, status %d after "
				"%llu us, and nothing had failed", number_of(m, call),
				(int)msg->outcome, msg->status,
				(unsigned long long)(now_us - call->sent_us));
}

static void judge_failure(struct model *m, const struct send *call, const struct ripc_msg *msg,
		uint64_t now_us)
{
	struct tally *tally = &m->tallies[call->tally];

	m->totals.failed++;
	m->totals.failed_unknown += msg->outcome == RIPC_UNKNOWN;
	tally->delivered += msg->outcome == RIPC_DELIVERED;
	tally->not_delivered += msg->outcome == RIPC_NOT_DELIVERED;
	if (!may_say(m, call, msg))
		violation(m, MODEL_STATUS, "call %llu ended with outcome %d, status %d",
				number_of(m, call), (int)msg->outcome, msg->status);
	if (call->is.must_deliver)
		violation(m, MODEL_UNDELIVERED, "call %llu had to be answered and ended with "
				"outcome %d, status %d", number_of(m, call), (int)msg->outcome,
				msg->status);
	if (msg->outcome == RIPC_NOT_DELIVERED && tally->received)
		violation(m, MODEL_NOT_DELIVERED, "call %llu ended NOT_DELIVERED, status %d, "
				"after it had been received", number_of(m, call), msg->status);
	if (msg->n_items)
		violation(m, MODEL_STATUS, "call %llu failed, and has an answer",
				number_of(m, call));
	judge_reason(m, call, msg, now_us);
	if (msg->status == -EACCES)
		judge_denial(m, call, now_us);
}

void model_answered(struct model *m, uint64_t now_us, uint64_t incarnation,
		const struct ripc_msg *msg)
{
	struct send *call;

	if (!model_is_call(m, msg->request_cookie)) {
		violation(m, MODEL_COMPLETION, "an answer says that it is to call %llx, which was "
				"never made", (unsigned long long)msg->request_cookie);
		return;
	}
	call = &m->sends[msg->request_cookie - 1];
	if (call->state != IN_PROGRESS || call->is.from != incarnation) {
		violation(m, MODEL_COMPLETION, "call %llu has an answer more, or it is another "
				"service's", number_of(m, call));
		return;
	}
	if (now_us > latest(m, call))
		violation(m, MODEL_LATE, "call %llu ended %llu us after its deadline",
				number_of(m, call), (unsigned long long)(now_us - call->sent_us -
				1000ull * call->is.timeout_ms));
	if (msg->status == 0 || msg->status <= -MODEL_ERROR)
		judge_answer(m, call, msg);
	else
		judge_failure(m, call, msg, now_us);
	call->state = ENDED;
	call->ended_us = now_us;
	m->n_open--;
}

/* ---- who waits for nothing --------------------------------------------------------------- */

void judge_patience(struct model *m, const struct send *call, uint64_t now_us)
{
	const struct service *server = call->received_by ? service_of(m, call->received_by) : NULL;
	uint64_t patience = 1000ull * m->cfg.peer_timeout_ms + m->cfg.slack_us + PATIENCE_US;

	if (!server || call->is.idempotent || !server->ended_us ||
			now_us <= server->ended_us + patience ||
			m->blocked_until[call->place] > server->ended_us ||
			jumped_since(m, call->place, server->ended_us))
		return;
	violation(m, MODEL_NOT_GIVEN_UP, "call %llu still waits, though its server ended %llu us "
			"ago", number_of(m, call), (unsigned long long)(now_us - server->ended_us));
}
