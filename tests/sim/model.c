/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge: sends, outcomes and receipts, compared.
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
#include "model.h"

#include "model_contents.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_COOKIE (1ull << 40)
#define WATCH_BYTE    0xa5
#define EARLY_US      25000 /* an outcome may come this much before the time that excuses it */
#define STALE_US      30000000 /* for so long a dead holder of an ID may still be believed in */
#define HELD_US       10000000 /* longer than a short is held for a partner to be found */

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
	bool recalled; /* its return buffers were taken back: answers may be refused */
};

struct service {
	uint64_t id, incarnation, born_us, ended_us; /* ended_us 0: lives */
	uint32_t place;
	bool again; /* a send met -EAGAIN, a notice has to come */
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
	uint32_t n_sends, n_tallies, n_services, n_buffers;
	uint32_t *tiny; /* hash of indices into tallies plus one, for messages under CONTENTS_TAG_BYTES */
	uint32_t tiny_capacity, n_tiny, n_open;
	bool cut[MODEL_PLACES][MODEL_PLACES], blocked[MODEL_PLACES], lossy;
	uint64_t cut_until[MODEL_PLACES][MODEL_PLACES], jumped[MODEL_PLACES];
	uint64_t blocked_until[MODEL_PLACES], lossy_until;
};

static void __attribute__((format(printf, 3, 4)))
violation(struct model *m, enum model_fault fault, const char *format, ...)
{
	va_list args;

	if (m->fault != MODEL_OK)
		return;
	m->fault = fault;
	va_start(args, format);
	vsnprintf(m->text, sizeof(m->text), format, args);
	va_end(args);
}

/* A simulation that is out of memory has no result: there is nothing to go on with. */
static void *grown(void *array, uint32_t n, size_t size)
{
	if (n & (n - 1) || (n != 0 && n < 16))
		return array;
	array = realloc(array, (n == 0 ? 16 : 2 * (size_t)n) * size);
	if (!array)
		abort();
	return array;
}

struct model *model_open(const struct model_config *cfg)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->cfg = *cfg;
	return m;
}

void model_close(struct model *m)
{
	free(m->sends);
	free(m->tallies);
	free(m->services);
	free(m->buffers);
	free(m->tiny);
	free(m);
}

enum model_fault model_verdict(const struct model *m, const char **text)
{
	*text = m->text;
	return m->fault;
}

void model_totals(const struct model *m, struct model_totals *totals)
{
	*totals = m->totals;
}

void model_fail(struct model *m, const char *text)
{
	violation(m, MODEL_OTHER, "%s", text);
}

/* ---- the world ---------------------------------------------------------------------------- */

static struct service *service_of(const struct model *m, uint64_t incarnation)
{
	for (uint32_t i = m->n_services; i-- > 0;)
		if (m->services[i].incarnation == incarnation)
			return &m->services[i];
	return NULL;
}

void model_service(struct model *m, uint64_t now_us, uint32_t place, uint64_t id,
		uint64_t incarnation)
{
	if (incarnation == 0 || service_of(m, incarnation))
		violation(m, MODEL_OTHER, "incarnation %llx is not new",
				(unsigned long long)incarnation);
	m->services = grown(m->services, m->n_services, sizeof(*m->services));
	m->services[m->n_services++] = (struct service){
		.id = id, .incarnation = incarnation, .born_us = now_us, .place = place};
}

void model_service_end(struct model *m, uint64_t now_us, uint64_t incarnation)
{
	struct service *service = service_of(m, incarnation);

	if (!service || service->ended_us) {
		violation(m, MODEL_NO_SERVICE, "end of a service that does not live");
		return;
	}
	service->ended_us = now_us ? now_us : 1;
	for (uint32_t i = 0; i < m->n_sends; i++) {
		struct send *send = &m->sends[i];

		if (send->is.from != incarnation || send->state != IN_PROGRESS)
			continue;
		send->state = ENDED;
		send->ended_us = UINT64_MAX;
		m->n_open--;
		m->totals.cut_off++;
	}
}

void model_cut(struct model *m, uint64_t now_us, uint32_t a, uint32_t b, bool cut)
{
	m->cut[a][b] = m->cut[b][a] = cut;
	m->cut_until[a][b] = m->cut_until[b][a] = now_us;
}

void model_lossy(struct model *m, uint64_t now_us, bool lossy)
{
	m->lossy = lossy;
	m->lossy_until = now_us;
}

void model_jump(struct model *m, uint64_t now_us, uint32_t place)
{
	m->jumped[place] = now_us;
}

void model_blocked(struct model *m, uint64_t now_us, uint32_t place, bool blocked)
{
	m->blocked[place] = blocked;
	m->blocked_until[place] = now_us;
}

/* ---- tallies ------------------------------------------------------------------------------ */

static uint32_t tally_new(struct model *m, uint64_t key)
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
static struct tally *tiny_tally(struct model *m, uint64_t key, bool make)
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

/* ---- sends -------------------------------------------------------------------------------- */

static uint64_t send_tag(const struct send *send, const struct model *m)
{
	return contents_tag((uint64_t)(send - m->sends) + 1, send->is.len);
}

static uint64_t send_key(const struct send *send, const struct model *m)
{
	return contents_key(send->is.from, send->is.kind, send->is.len, send_tag(send, m));
}

uint64_t model_plan(struct model *m, uint64_t now_us, const struct model_send *is)
{
	struct service *from = service_of(m, is->from);
	struct send *send;

	m->sends = grown(m->sends, m->n_sends, sizeof(*m->sends));
	send = &m->sends[m->n_sends++];
	*send = (struct send){.is = *is, .sent_us = now_us, .state = PLANNED};
	if (from) {
		send->from_id = from->id;
		send->place = from->place;
	}
	if (is->len >= CONTENTS_TAG_BYTES)
		send->tally = tally_new(m, 0);
	else
		send->tally = (uint32_t)(tiny_tally(m, send_key(send, m) + contents_mix(is->to), true) -
				m->tallies);
	m->tallies[send->tally].sent++;
	return m->n_sends;
}

uint32_t model_items(const struct model *m, uint64_t number, uint64_t lens[5])
{
	const struct send *send = &m->sends[number - 1];

	return contents_split(send_key(send, m), send->is.kind, send->is.len, lens);
}

void model_contents(const struct model *m, uint64_t number, uint8_t *bytes)
{
	const struct send *send = &m->sends[number - 1];

	contents_write(send_key(send, m), send_tag(send, m), 0, bytes, send->is.len);
}

static const int documented[] = {-ENOENT, -ETIMEDOUT, -EMSGSIZE, -ENOBUFS, -ECANCELED, -ENETDOWN,
	-EHOSTUNREACH};

static bool is_documented(int status)
{
	for (size_t i = 0; i < sizeof(documented) / sizeof(documented[0]); i++)
		if (documented[i] == status)
			return true;
	return false;
}

void model_sent(struct model *m, uint64_t number, int status)
{
	struct send *send = &m->sends[number - 1];
	struct service *from = service_of(m, send->is.from);

	if (status == 0 && send->is.kind == RIPC_LONG) {
		send->state = IN_PROGRESS;
		m->n_open++;
		m->totals.longs++;
		return;
	}
	send->state = ENDED;
	send->ended_us = UINT64_MAX;
	if (status == 0) {
		m->totals.shorts++;
		return;
	}
	m->totals.refused++;
	m->tallies[send->tally].refused++;
	if (status == -EAGAIN && send->is.kind == RIPC_LONG && from)
		from->again = true;
	else if (status != -EAGAIN && !is_documented(status))
		violation(m, MODEL_STATUS, "send %llu returned %d", (unsigned long long)number,
				status);
	if (send->is.must_deliver)
		violation(m, MODEL_UNDELIVERED, "send %llu had to be taken and returned %d",
				(unsigned long long)number, status);
}

void model_cancelled(struct model *m, uint64_t number)
{
	m->sends[number - 1].cancelled = true;
}

bool model_in_progress(const struct model *m, uint64_t number)
{
	return m->sends[number - 1].state == IN_PROGRESS;
}

uint32_t model_open_sends(const struct model *m)
{
	return m->n_open;
}

/* The last moment at which the send may be reported. */
static uint64_t latest(const struct model *m, const struct send *send)
{
	uint64_t at = send->sent_us + 1000ull * send->is.timeout_ms;

	if (at < m->blocked_until[send->place])
		at = m->blocked_until[send->place];
	return at + m->cfg.slack_us;
}

void model_overdue(struct model *m, uint64_t now_us)
{
	for (uint32_t i = 0; i < m->n_sends && m->n_open > 0; i++) {
		struct send *send = &m->sends[i];

		if (send->state != IN_PROGRESS || m->blocked[send->place] || now_us <= latest(m, send))
			continue;
		violation(m, MODEL_HUNG, "send %u of %llu bytes was not completed %llu us after "
				"its deadline", i + 1, (unsigned long long)send->is.len,
				(unsigned long long)(now_us - send->sent_us -
				1000ull * send->is.timeout_ms));
	}
}

/* ---- outcomes ----------------------------------------------------------------------------- */

static bool cut_since(const struct model *m, uint32_t a, uint32_t b, uint64_t since_us)
{
	return m->cut[a][b] || (m->cut_until[a][b] > 0 && m->cut_until[a][b] >= since_us);
}

static bool jumped_since(const struct model *m, uint32_t place, uint64_t since_us)
{
	return m->jumped[place] > 0 && m->jumped[place] >= since_us;
}

/* Was there, since the send began, a failure between its place and a holder of the ID? */
static bool partner_failed(const struct model *m, const struct send *send)
{
	bool anybody = false;

	if (jumped_since(m, send->place, send->sent_us))
		return true;
	for (uint32_t i = 0; i < m->n_services; i++) {
		const struct service *to = &m->services[i];

		if (to->id != send->is.to ||
				(to->ended_us && to->ended_us + STALE_US < send->sent_us))
			continue;
		anybody = true;
		if (to->ended_us || cut_since(m, send->place, to->place, send->sent_us) ||
				jumped_since(m, to->place, send->sent_us))
			return true;
	}
	return !anybody;
}

static bool blocked_since(const struct model *m, uint32_t place, uint64_t since_us)
{
	return m->blocked[place] ||
		(m->blocked_until[place] > 0 && m->blocked_until[place] >= since_us);
}

/* Packets may have been lost, or one of the two was not there to answer. */
static bool may_be_silent(const struct model *m, const struct send *send)
{
	if (m->lossy || (m->lossy_until > 0 && m->lossy_until >= send->sent_us) ||
			blocked_since(m, send->place, send->sent_us))
		return true;
	for (uint32_t i = 0; i < m->n_services; i++)
		if (m->services[i].id == send->is.to &&
				blocked_since(m, m->services[i].place, send->sent_us))
			return true;
	return false;
}

/* It can happen that nothing came through for as long as one has to wait. */
static bool fell_silent(const struct model *m, const struct send *send, uint64_t now_us)
{
	uint64_t took = now_us - send->sent_us + EARLY_US;

	return may_be_silent(m, send) && (took >= 1000ull * send->is.timeout_ms ||
		took >= 1000ull * m->cfg.peer_timeout_ms);
}

static bool may_be_cancelled(const struct model *m, const struct send *send)
{
	return send->cancelled ||
		(send->is.answers && m->sends[send->is.answers - 1].recalled);
}

static void judge_outcome(struct model *m, const struct send *send, const struct ripc_msg *msg,
		uint64_t now_us)
{
	unsigned long long number = (unsigned long long)(send - m->sends) + 1;
	struct tally *tally = &m->tallies[send->tally];
	bool right = false;

	switch (msg->outcome) {
	case RIPC_DELIVERED:
		m->totals.delivered++;
		tally->delivered++;
		right = msg->status == 0;
		break;
	case RIPC_NOT_DELIVERED:
		m->totals.not_delivered++;
		tally->not_delivered++;
		right = is_documented(msg->status) && msg->status != -EMSGSIZE &&
			(msg->status != -ECANCELED || may_be_cancelled(m, send));
		break;
	case RIPC_UNKNOWN:
		m->totals.unknown++;
		right = msg->status == -ECONNRESET;
		if (!partner_failed(m, send) && !fell_silent(m, send, now_us))
			violation(m, MODEL_UNKNOWN, "send %llu of %llu bytes ended UNKNOWN after "
					"%llu us, and nothing had failed", number,
					(unsigned long long)send->is.len,
					(unsigned long long)(now_us - send->sent_us));
		break;
	}
	if (!right)
		violation(m, MODEL_STATUS, "send %llu ended with outcome %d, status %d", number,
				(int)msg->outcome, msg->status);
	if (send->is.must_deliver && msg->outcome != RIPC_DELIVERED)
		violation(m, MODEL_UNDELIVERED, "send %llu of %llu bytes had to arrive and ended "
				"with outcome %d, status %d", number,
				(unsigned long long)send->is.len, (int)msg->outcome, msg->status);
	if (tally->received > tally->sent - tally->refused - tally->not_delivered)
		violation(m, MODEL_NOT_DELIVERED, "send %llu ended NOT_DELIVERED, status %d, after "
				"it had been received", number, msg->status);
}

void model_completed(struct model *m, uint64_t now_us, uint64_t incarnation,
		const struct ripc_msg *msg)
{
	struct send *send;

	if (msg->cookie == 0 || msg->cookie > m->n_sends) {
		violation(m, MODEL_COMPLETION, "completion with cookie %llx, which was never used",
				(unsigned long long)msg->cookie);
		return;
	}
	send = &m->sends[msg->cookie - 1];
	if (send->state != IN_PROGRESS || send->is.from != incarnation) {
		violation(m, MODEL_COMPLETION, "completion of send %llu, which is %s",
				(unsigned long long)msg->cookie,
				send->state == IN_PROGRESS ? "another service's" : "not in progress");
		return;
	}
	if (now_us > latest(m, send))
		violation(m, MODEL_LATE, "send %llu was completed %llu us after its deadline",
				(unsigned long long)msg->cookie, (unsigned long long)
				(now_us - send->sent_us - 1000ull * send->is.timeout_ms));
	judge_outcome(m, send, msg, now_us);
	send->state = ENDED;
	send->ended_us = now_us;
	m->n_open--;
}

void model_noticed(struct model *m, uint64_t incarnation, const struct ripc_msg *msg)
{
	struct service *service = service_of(m, incarnation);

	if (msg->status == -EADDRINUSE && m->cfg.conflicts)
		return;
	if (msg->status != 0 || !service) {
		violation(m, MODEL_NOTICE, "notice with status %d", msg->status);
		return;
	}
	if (msg->cookie == 0)
		service->again = false;
	else if (msg->cookie > m->n_sends || m->sends[msg->cookie - 1].state != ENDED)
		violation(m, MODEL_NOTICE, "notice of send %llu, which has not ended",
				(unsigned long long)msg->cookie);
}

/* ---- receipts ----------------------------------------------------------------------------- */

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

static void judge_tally(struct model *m, struct tally *tally, uint64_t number)
{
	tally->received++;
	if (tally->received <= tally->sent - tally->refused - tally->not_delivered)
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
		uint64_t len)
{
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
	judge_incarnation(m, send, at);
	judge_tally(m, &m->tallies[send->tally], number);
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
		judge_tally(m, tally, 0);
}

static void judge_contents(struct model *m, const struct ripc_msg *msg, uint64_t len)
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
		return msg->kind == RIPC_LONG;
	return len >= CONTENTS_TAG_BYTES && number > 0 && number <= m->n_sends &&
		m->sends[number - 1].is.answers == buffer->number;
}

static void judge_place(struct model *m, uint64_t incarnation, const struct ripc_msg *msg,
		uint32_t i, uint64_t len)
{
	const struct ripc_buffer *place = &msg->places[i];
	uint64_t at = place->cookie - BUFFER_COOKIE;
	struct buffer *buffer;

	if (place->place == RIPC_IN_POOL)
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

static uint64_t length_of(const struct ripc_msg *msg)
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

	(void)now_us;
	if (!at || at->ended_us) {
		violation(m, MODEL_NO_SERVICE, "received by a service that does not live");
		return;
	}
	if (msg->kind == RIPC_SHORT)
		m->totals.shorts_received++;
	else
		m->totals.longs_received++;
	if (len >= CONTENTS_TAG_BYTES)
		judge_numbered(m, at, msg, len);
	else
		judge_tiny(m, at, msg, len);
	judge_contents(m, msg, len);
	for (uint32_t i = 0; msg->places && i < msg->n_items; i++)
		judge_place(m, incarnation, msg, i, len);
}

void model_recheck(struct model *m, const struct ripc_msg *msg)
{
	judge_contents(m, msg, length_of(msg));
}

/* ---- lent memory -------------------------------------------------------------------------- */

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
	if (buffer->number > 0 && buffer->number <= m->n_sends)
		m->sends[buffer->number - 1].recalled = true;
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

/* ---- the end ------------------------------------------------------------------------------ */

static void finish_send(struct model *m, const struct send *send)
{
	unsigned long long number = (unsigned long long)(send - m->sends) + 1;
	const struct tally *tally = &m->tallies[send->tally];

	if (send->state == IN_PROGRESS)
		violation(m, MODEL_HUNG, "send %llu of %llu bytes was never completed", number,
				(unsigned long long)send->is.len);
	if (tally->received < tally->delivered)
		violation(m, MODEL_LOST, "send %llu of %llu bytes ended DELIVERED, but was never "
				"received", number, (unsigned long long)send->is.len);
	if (send->is.must_deliver && tally->received < tally->sent - tally->refused &&
			send->is.len >= CONTENTS_TAG_BYTES)
		violation(m, MODEL_UNDELIVERED, "send %llu of %llu bytes had to arrive", number,
				(unsigned long long)send->is.len);
}

void model_finish(struct model *m, uint64_t now_us)
{
	(void)now_us;
	for (uint32_t i = 0; i < m->n_sends; i++)
		finish_send(m, &m->sends[i]);
	for (uint32_t i = 0; i < m->n_services; i++)
		if (m->services[i].again && !m->services[i].ended_us)
			violation(m, MODEL_NOTICE, "a send met -EAGAIN and no notice said when to "
					"try again");
}
