/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge of order: what was sent with RIPC_ORDERED by one service to one ID. An incarnation gets
 * it in the order in which it was sent. And no gap is silent: where a service has only ever had one
 * incarnation, what was sent before has been received there, or its sender had been told that it
 * failed before it sent the later one.
 */
#include "model_internal.h"

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

/* It had failed, and whoever sent the other one knew that, or it never was under way. */
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

bool order_was_broken(const struct model *m, const struct send *send)
{
	for (const struct send *other = m->sends; other < send; other++)
		if (same_stream(send, other) && !other->refused && !other->delivered)
			return true;
	return false;
}
