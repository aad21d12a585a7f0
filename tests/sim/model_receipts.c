/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge: what was received, and the memory that was lent for it.
 *
 * A message of eight bytes or more bears its number in its first bytes, so that it is known
 * again. Shorter ones bear what fits of it; those that look the same are judged together, by
 * count. So everything is kept in tallies: how many were sent, how many ended how, how many
 * were received. At any time
 *
 *	received <= sent - refused - not delivered
 *
 * and at the end received >= delivered, because the driver empties a service's queue before it
 * closes the service or lets it crash.
 */
#include "model_internal.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_COOKIE (1ull << 40)
#define WATCH_BYTE    0xa5
#define HELD_US       10000000 /* longer than a short is held for a partner to be found */

/* ---- tallies ----------------------------------------------------------------------------- */

uint32_t tally_new(struct model *m, uint64_t key)
{
	m->tallies = grown(m->tallies, m->n_tallies, sizeof(*m->tallies));
	m->tallies[m->n_tallies] = (struct tally){.key = key};
	return m->n_tallies++;
}

static uint32_t *tiny_slot(const struct model *m, uint64_t key)
{
	uint32_t at = (uint32_t)contents_mix(key) & (m->tiny_capacity - 1);

	while (m->tiny[at] && m->tallies[m->tiny[at] - 1].key != key)
		at = (at + 1) & (m->tiny_capacity - 1);
	return &m->tiny[at];
}

static void tiny_grow(struct model *m)
{
	uint32_t *old = m->tiny, capacity = m->tiny_capacity;

	m->tiny_capacity = capacity ? 2 * capacity : 64;
	m->tiny = calloc(m->tiny_capacity, sizeof(*m->tiny));
	if (!m->tiny)
		abort();
	for (uint32_t i = 0; i < capacity; i++)
		if (old[i])
			*tiny_slot(m, m->tallies[old[i] - 1].key) = old[i];
	free(old);
}

/* The tally of small messages that look the same; with make it comes to be. */
struct tally *tiny_tally(struct model *m, uint64_t key, bool make)
{
	uint32_t *slot;

	if (2 * m->n_tiny >= m->tiny_capacity)
		tiny_grow(m);
	slot = tiny_slot(m, key);
	if (!*slot && make) {
		*slot = tally_new(m, key) + 1;
		m->n_tiny++;
	}
	return *slot ? &m->tallies[*slot - 1] : NULL;
}

/* ---- receipts ---------------------------------------------------------------------------- */

static void judge_incarnation(struct model *m, const struct send *send,
		const struct service *at)
{
	unsigned long long number = (unsigned long long)(send - m->sends) + 1;

	if (send->is.to_incarnation && send->is.to_incarnation != at->incarnation)
		violation(m, MODEL_INCARNATION, "send %llu was for another incarnation", number);
	else if (send->ended_us != UINT64_MAX && send->ended_us && at->born_us > send->ended_us)
		violation(m, MODEL_INCARNATION, "send %llu had ended before the incarnation that "
				"received it was born", number);
	else if (send->is.kind == RIPC_SHORT && at->born_us > send->sent_us + HELD_US)
		violation(m, MODEL_INCARNATION, "short %llu is older than its receiver", number);
}

/* may_repeat: once or more often is all the same. */
static void judge_tally(struct model *m, struct tally *tally, uint64_t number, bool may_repeat)
{
	uint32_t most = tally->sent - tally->refused - tally->not_delivered;

	tally->received++;
	if (tally->received <= most || (most && may_repeat))
		return;
	if (tally->received <= tally->sent)
		violation(m, MODEL_NOT_DELIVERED, "send %llu was received after it had been "
				"refused or NOT_DELIVERED", (unsigned long long)number);
	else
		violation(m, MODEL_TWICE, "send %llu was received %u times",
				(unsigned long long)number, tally->received);
}

/* A message that bears its number. */
static void judge_numbered(struct model *m, const struct service *at, const struct ripc_msg *msg,
		uint64_t now_us)
{
	uint64_t len = length_of(msg);
	uint64_t number = contents_tag_received(msg, len);
	struct send *send;

	if (number == 0 || number > m->n_sends) {
		violation(m, MODEL_NEVER_SENT, "a message of %llu bytes bears number %llx",
				(unsigned long long)len, (unsigned long long)number);
		return;
	}
	send = &m->sends[number - 1];
	if (send->is.len != len || send->is.kind != msg->kind)
		violation(m, MODEL_ALTERED, "send %llu has %llu bytes, received were %llu",
				(unsigned long long)number, (unsigned long long)send->is.len,
				(unsigned long long)len);
	else if (send->is.to != at->id)
		violation(m, MODEL_MISDIRECTED, "send %llu was for service %llu, received by %llu",
				(unsigned long long)number, (unsigned long long)send->is.to,
				(unsigned long long)at->id);
	else if (send->is.from != msg->from_incarnation || send->from_id != msg->from)
		violation(m, MODEL_WRONG_SENDER, "send %llu bears another sender",
				(unsigned long long)number);
	else if (msg->kind == RIPC_REQUEST &&
			send->is.idempotent != ((msg->flags & RIPC_IDEMPOTENT) != 0))
		violation(m, MODEL_ALTERED, "question %llu is received as %s",
				(unsigned long long)number, send->is.idempotent ?
				"one to be carried out once" : "idempotent");
	judge_incarnation(m, send, at);
	judge_right(m, send, at, now_us);
	judge_tally(m, &m->tallies[send->tally], number, send->is.idempotent);
	order_received(m, send, at->incarnation);
}

static void judge_tiny(struct model *m, const struct service *at, const struct ripc_msg *msg,
		uint64_t len)
{
	const struct service *from = service_of(m, msg->from_incarnation);
	uint64_t key = contents_key(msg->from_incarnation, msg->kind, len,
			contents_tag_received(msg, len));
	struct tally *tally = tiny_tally(m, key + contents_mix(at->id), false);

	if (!from || from->id != msg->from)
		violation(m, MODEL_WRONG_SENDER, "a message of %llu bytes bears a sender that "
				"never lived", (unsigned long long)len);
	if (!tally)
		violation(m, MODEL_NEVER_SENT, "a message of %llu bytes that was never sent",
				(unsigned long long)len);
	else
		judge_tally(m, tally, 0, false);
}

void judge_contents(struct model *m, const struct ripc_msg *msg, uint64_t len)
{
	uint64_t tag = contents_tag_received(msg, len), lens[5];
	uint64_t key = contents_key(msg->from_incarnation, msg->kind, len, tag);
	uint32_t n = contents_split(key, msg->kind, len, lens);
	int64_t wrong = contents_differ(key, tag, msg->items, msg->n_items);

	if (wrong >= 0)
		violation(m, MODEL_ALTERED, "message %llu of %llu bytes is wrong at byte %lld",
				(unsigned long long)tag, (unsigned long long)len, (long long)wrong);
	for (uint32_t i = 0; n == msg->n_items && i < n; i++)
		if (lens[i] != msg->items[i].iov_len)
			n = 0;
	if (n != msg->n_items)
		violation(m, MODEL_ALTERED, "message %llu of %llu bytes is cut into other items",
				(unsigned long long)tag, (unsigned long long)len);
}

/* Which return buffers may this message have used? Those of the send that it answers. */
static bool may_use(const struct model *m, const struct ripc_msg *msg, uint64_t len,
		const struct buffer *buffer)
{
	uint64_t number = contents_tag_received(msg, len);

	if (buffer->number == 0)
		return msg->kind != RIPC_SHORT && msg->kind != RIPC_REPLY;
	if (msg->kind == RIPC_REPLY || model_is_call(m, buffer->number))
		return msg->kind == RIPC_REPLY && buffer->number == msg->request_cookie;
	return len >= CONTENTS_TAG_BYTES && number > 0 && number <= m->n_sends &&
		m->sends[number - 1].is.answers == buffer->number;
}

static void judge_place(struct model *m, uint64_t incarnation, const struct ripc_msg *msg,
		uint32_t i, uint64_t len)
{
	const struct ripc_buffer *place = &msg->places[i];
	uint64_t at = place->cookie - BUFFER_COOKIE;
	struct buffer *buffer;

	if (place->place == RIPC_IN_POOL || place->place == RIPC_IN_SENDER)
		return;
	if (at >= m->n_buffers) {
		violation(m, MODEL_BUFFER, "an item lies in a buffer that was never lent");
		return;
	}
	buffer = &m->buffers[at];
	if (buffer->state != LENT)
		violation(m, MODEL_BUFFER, "buffer %llu came back though it was not lent",
				(unsigned long long)at);
	else if (buffer->owner != incarnation ||
			(buffer->number != 0) != (place->place == RIPC_IN_RETURN) ||
			!may_use(m, msg, len, buffer))
		violation(m, MODEL_BUFFER, "buffer %llu was used for what it was not lent for",
				(unsigned long long)at);
	else if (msg->items[i].iov_base != buffer->mem.iov_base ||
			msg->items[i].iov_len > buffer->mem.iov_len)
		violation(m, MODEL_BUFFER, "buffer %llu does not hold the item",
				(unsigned long long)at);
	buffer->state = BACK;
	m->totals.in_window += place->place == RIPC_IN_WINDOW;
	m->totals.in_return += place->place == RIPC_IN_RETURN;
}

void judge_places(struct model *m, uint64_t incarnation, const struct ripc_msg *msg, uint64_t len)
{
	for (uint32_t i = 0; msg->places && i < msg->n_items; i++)
		judge_place(m, incarnation, msg, i, len);
}

uint64_t length_of(const struct ripc_msg *msg)
{
	uint64_t len = 0;

	for (uint32_t i = 0; i < msg->n_items; i++)
		len += msg->items[i].iov_len;
	return len;
}

void model_received(struct model *m, uint64_t now_us, uint64_t incarnation,
		const struct ripc_msg *msg)
{
	struct service *at = service_of(m, incarnation);
	uint64_t len = length_of(msg);

	if (!at || at->ended_us) {
		violation(m, MODEL_NO_SERVICE, "received by a service that does not live");
		return;
	}
	if (msg->kind == RIPC_SHORT)
		m->totals.shorts_received++;
	else if (msg->kind == RIPC_LONG)
		m->totals.longs_received++;
	else
		m->totals.questions++;
	if (len >= CONTENTS_TAG_BYTES)
		judge_numbered(m, at, msg, now_us);
	else
		judge_tiny(m, at, msg, len);
	judge_contents(m, msg, len);
	judge_places(m, incarnation, msg, len);
}

bool model_forged(struct model *m, const struct ripc_msg *msg)
{
	if (contents_tag_received(msg, length_of(msg)) != MODEL_FORGED)
		return false;
	if (msg->sender != RIPC_SENDER_CLAIMED)
		violation(m, MODEL_WRONG_SENDER, "a forged message looks as if its sender were "
				"known");
	return true;
}

void model_recheck(struct model *m, const struct ripc_msg *msg)
{
	uint64_t len = length_of(msg);

	if (msg->kind != RIPC_REPLY || len) /* an empty one, and a failure, have none */
		judge_contents(m, msg, len);
}

/* ---- lent memory ------------------------------------------------------------------------- */

uint64_t model_lend(struct model *m, uint64_t incarnation, uint64_t number,
		const struct iovec *mem)
{
	m->buffers = grown(m->buffers, m->n_buffers, sizeof(*m->buffers));
	m->buffers[m->n_buffers] = (struct buffer){
		.mem = *mem, .owner = incarnation, .number = number, .state = LENT};
	return BUFFER_COOKIE + m->n_buffers++;
}

bool model_lent(const struct model *m, uint64_t cookie)
{
	return m->buffers[cookie - BUFFER_COOKIE].state == LENT;
}

void model_taken_back(struct model *m, uint64_t cookie)
{
	struct buffer *buffer = &m->buffers[cookie - BUFFER_COOKIE];

	if (buffer->state != LENT)
		return;
	buffer->state = BACK;
	model_recalled(m, buffer->number);
}

void model_recalled(struct model *m, uint64_t number)
{
	if (number > 0 && number <= m->n_sends)
		m->sends[number - 1].recalled = true;
}

void model_watch(struct model *m, uint64_t cookie)
{
	struct buffer *buffer = &m->buffers[cookie - BUFFER_COOKIE];

	if (buffer->state != BACK)
		return;
	memset(buffer->mem.iov_base, WATCH_BYTE, buffer->mem.iov_len);
	buffer->state = WATCHED;
}

void model_unwatch(struct model *m, uint64_t cookie)
{
	struct buffer *buffer = &m->buffers[cookie - BUFFER_COOKIE];
	const uint8_t *bytes = buffer->mem.iov_base;

	for (size_t i = 0; buffer->state == WATCHED && i < buffer->mem.iov_len; i++)
		if (bytes[i] != WATCH_BYTE) {
			violation(m, MODEL_BUFFER_WRITTEN, "buffer %llu was written to at byte %zu "
					"after it had come back",
					(unsigned long long)(cookie - BUFFER_COOKIE), i);
			break;
		}
	buffer->state = GONE;
}
