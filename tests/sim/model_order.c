/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge of order: what was sent with RIPC_ORDERED by one service to one ID. An incarnation gets
 * it in the order in which it was sent. And no gap is silent: where a service has only ever had one
 * incarnation, what was sent before has been received there, or its sender had been told that it
 * failed before it sent the later one.
 *
 * Nothing waits longer than its own path needs either: what loses no packet is received soon after
 * all that was sent before it has ended. Its sender was told of these ends, so no loss of a packet
 * that concerns another message is an excuse.
 */
#include "model_internal.h"

#define STALL_US 500000 /* several repetition times of the longest path */
#define CROWD    32u    /* with so many behind one in progress, the 64 numbers may be used up */

static bool same_stream(const struct send *a, const struct send *b)
{
	return a->is.ordered && b->is.ordered && a->is.from == b->is.from && a->is.to == b->is.to;
}

/* Has the ID ever meant more than one? Then each has a stream of its own. */
static bool has_successors(const struct model *m, uint64_t id)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_services; i++)
		n += m->services[i].id == id;
	return n > 1;
}

/*
 * Had the earlier one failed, to the knowledge of the sender of the other, or was it never under
 * way?
 */
static bool was_told(const struct send *send, uint32_t index)
{
	return send->state == ENDED && (send->refused || (send->failed && send->told_at <= index));
}

void order_received(struct model *m, struct send *send, uint64_t incarnation)
{
	uint32_t at = (uint32_t)(send - m->sends);
	bool alone = !has_successors(m, send->is.to);

	send->received_by = incarnation;
	for (uint32_t i = 0; i < m->n_sends && send->is.ordered; i++) {
		const struct send *other = &m->sends[i];

		if (i == at || !same_stream(send, other))
			continue;
		if (i > at && other->received_by == incarnation)
			violation(m, MODEL_ORDER, "send %u was received after send %u, which was "
					"sent after it", at + 1, i + 1);
		if (i < at && alone && !other->received_by && !was_told(other, at))
			violation(m, MODEL_GAP, "send %u was received, but not send %u, which was "
					"sent before it", at + 1, i + 1);
	}
}

/*
 * A message that it had to follow has failed, and its sender did not know it: it will not arrive.
 */
static bool order_was_cut(const struct model *m, const struct send *send)
{
	for (const struct send *other = m->sends; other < send; other++)
		if (same_stream(send, other) && other->failed &&
				!was_told(other, (uint32_t)(send - m->sends)))
			return true;
	return false;
}

bool order_was_broken(const struct model *m, const struct send *send)
{
	for (const struct send *other = m->sends; other < send; other++)
		if (same_stream(send, other) && !other->refused && !other->delivered)
			return true;
	return false;
}

/* Since when has it waited for nobody? UINT64_MAX: one that was sent before is in progress. */
static uint64_t free_since(const struct model *m, const struct send *send)
{
	uint64_t since_us = send->sent_us;

	for (const struct send *other = m->sends; other < send; other++) {
		if (!same_stream(send, other) || other->refused)
			continue;
		if (other->state != ENDED)
			return UINT64_MAX;
		if (since_us < other->ended_us)
			since_us = other->ended_us;
	}
	return since_us;
}

/* Numbers for 64 messages are open to one partner, ordered or not: the oldest holds up others. */
static bool may_lack_a_number(const struct model *m, const struct send *send)
{
	uint32_t n = 0;

	for (const struct send *other = m->sends; other < send; other++) {
		if (other->is.from == send->is.from && other->is.to == send->is.to &&
				other->is.kind != RIPC_SHORT)
			n += n > 0 || other->state == IN_PROGRESS;
	}
	return n >= CROWD;
}

void judge_stall(struct model *m, const struct send *send, uint64_t now_us)
{
	uint64_t since_us = send->received_by ? UINT64_MAX : free_since(m, send);

	if (since_us > now_us || now_us - since_us <= STALL_US + m->cfg.slack_us ||
			was_blocked(m, send, since_us) || order_was_cut(m, send) ||
			may_lack_a_number(m, send))
		return;
	violation(m, MODEL_STALL, "send %u was not received %llu us after all before it had ended",
			(uint32_t)(send - m->sends) + 1,
			(unsigned long long)(now_us - since_us));
}
