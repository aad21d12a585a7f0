/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The judge: what happens in the world, sends and their outcomes. Received messages are judged in
 * model_receipts.c.
 */
#include "model_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLLOWED_MS   1000  /* a partner that has another address is found within it */
#define EARLY_US      25000 /* an outcome may come this much before the time that excuses it */
#define STALE_US      130000000 /* for so long a dead holder of an ID may still be believed in */
#define RESOLVE_US    1000000  /* longer than an answer about an ID can be under way */
#define GIVE_UP_US    2500000  /* beyond the peer timeout: back-off is up to 1 s */
#define RIGHT_US      1000000 /* the end of a right takes effect so soon */
#define DENIED_US     7000000 /* a right counts so long after it was granted, at the latest */
#define LONGS_MAX     64       /* that are in progress to a partner at once; more wait */

void violation(struct model *m, enum model_fault fault, const char *format, ...)
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
void *grown(void *array, uint32_t n, size_t size)
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
	free(m->rights);
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

/* ---- the world --------------------------------------------------------------------------- */

struct service *service_of(const struct model *m, uint64_t incarnation)
{
	for (uint32_t i = m->n_services; i-- > 0;)
		if (m->services[i].incarnation == incarnation)
			return &m->services[i];
	return NULL;
}

/* Nothing can have hindered two places from hearing of each other. */
static bool in_touch(const struct model *m, uint32_t a, uint32_t b, uint64_t now_us)
{
	uint64_t since = now_us > RESOLVE_US ? now_us - RESOLVE_US : 0;

	return !m->lossy && !m->cut[a][b] && m->cut_until[a][b] <= since && !m->blocked[a] &&
		!m->blocked[b] && m->blocked_until[b] <= since;
}

static void judge_registration(struct model *m, uint64_t now_us, uint32_t place, uint64_t id)
{
	for (uint32_t i = 0; i < m->n_services; i++) {
		const struct service *other = &m->services[i];

		if (other->id == id && !other->ended_us && other->born_us + RESOLVE_US < now_us &&
				in_touch(m, place, other->place, now_us))
			violation(m, MODEL_DUPLICATE, "service %llu is registered at place %u, "
					"though it lives at place %u", (unsigned long long)id,
					place, other->place);
	}
}

void model_service_refused(struct model *m, uint64_t now_us, uint64_t id)
{
	for (uint32_t i = 0; i < m->n_services; i++)
		if (m->services[i].id == id && (!m->services[i].ended_us ||
				m->services[i].ended_us + RESOLVE_US > now_us))
			return;
	violation(m, MODEL_DUPLICATE, "service %llu cannot be registered, though nobody has it",
			(unsigned long long)id);
}

void model_service(struct model *m, uint64_t now_us, uint32_t place, uint64_t id,
		uint64_t incarnation)
{
	judge_registration(m, now_us, place, id);
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
	if (cut && !m->cut[a][b])
		m->cut_since[a][b] = m->cut_since[b][a] = now_us;
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

void model_moved(struct model *m, uint32_t place)
{
	m->moved[place] = true;
}

void model_blocked(struct model *m, uint64_t now_us, uint32_t place, bool blocked)
{
	m->blocked[place] = blocked;
	m->blocked_until[place] = now_us;
}

/* ---- sends ------------------------------------------------------------------------------- */

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
		send->tally = (uint32_t)(tiny_tally(m, send_key(send, m) + contents_mix(is->to),
				true) - m->tallies);
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

bool is_documented(const struct model *m, int status)
{
	if (status == -EACCES)
		return m->cfg.keys;
	for (size_t i = 0; i < sizeof(documented) / sizeof(documented[0]); i++)
		if (documented[i] == status)
			return true;
	return false;
}

static uint64_t *total_of(struct model *m, enum ripc_kind kind)
{
	return kind == RIPC_SHORT ? &m->totals.shorts : kind == RIPC_LONG ? &m->totals.longs :
		kind == RIPC_REQUEST ? &m->totals.calls : &m->totals.answers;
}

/* Somebody is told of its end. */
static bool is_told(const struct send *send)
{
	return send->is.kind == RIPC_LONG || send->is.kind == RIPC_REQUEST;
}

void model_sent(struct model *m, uint64_t number, int status)
{
	struct send *send = &m->sends[number - 1];
	struct service *from = service_of(m, send->is.from);

	if (status == 0)
		++*total_of(m, send->is.kind);
	if (status == 0 && is_told(send)) {
		send->state = IN_PROGRESS;
		m->n_open++;
		return;
	}
	send->state = ENDED;
	send->ended_us = UINT64_MAX;
	if (status == 0)
		return;
	if (status == -EACCES)
		judge_denial(m, send, send->sent_us);
	send->refused = true;
	m->totals.refused++;
	m->tallies[send->tally].refused++;
	if (status == -EAGAIN && send->is.kind != RIPC_SHORT && from)
		from->again = true;
	else if (status != -EAGAIN && !is_documented(m, status))
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

uint64_t latest(const struct model *m, const struct send *send)
{
	uint64_t at = send->sent_us + 1000ull * send->is.timeout_ms;

	if (m->blocked[send->place])
		return UINT64_MAX;
	if (at < m->blocked_until[send->place])
		at = m->blocked_until[send->place];
	/* Answers may be written, and their items are in use until the last write has ended. */
	if (send->is.answers || send->is.kind == RIPC_REQUEST)
		at += m->cfg.write_us;
	return at + m->cfg.slack_us;
}

/* Since when has nobody been there who could answer? UINT64_MAX: somebody is. */
static uint64_t nobody_since(const struct model *m, const struct send *send)
{
	uint64_t since = send->sent_us;

	for (uint32_t i = 0; i < m->n_services; i++) {
		const struct service *to = &m->services[i];
		uint64_t at = to->ended_us ? to->ended_us : m->cut_since[send->place][to->place];

		if (to->id != send->is.to)
			continue;
		if (!to->ended_us && !m->cut[send->place][to->place])
			return UINT64_MAX;
		since = at > since ? at : since;
	}
	return since;
}

/* A send that waits for others to be given up first need not be given up in time. */
static bool has_company(const struct model *m, const struct send *send)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n_sends; i++)
		n += m->sends[i].is.from == send->is.from && m->sends[i].is.to == send->is.to &&
			m->sends[i].is.kind != RIPC_SHORT;
	return n >= LONGS_MAX;
}

static void judge_silence(struct model *m, const struct send *send, uint64_t now_us)
{
	uint64_t since = nobody_since(m, send);
	uint64_t patience = 1000ull * m->cfg.peer_timeout_ms + m->cfg.slack_us + GIVE_UP_US;

	if (since > now_us || now_us - since <= patience || m->cfg.held ||
			m->blocked_until[send->place] > since || has_company(m, send))
		return;
	violation(m, MODEL_NOT_GIVEN_UP, "send %llu still waits, though nobody could answer for "
			"%llu us", (unsigned long long)(send - m->sends) + 1,
			(unsigned long long)(now_us - since));
}

void model_overdue(struct model *m, uint64_t now_us)
{
	for (uint32_t i = 0; i < m->n_sends && m->n_open > 0; i++) {
		struct send *send = &m->sends[i];

		if (send->state != IN_PROGRESS || m->blocked[send->place])
			continue;
		if (send->is.kind == RIPC_REQUEST)
			judge_patience(m, send, now_us);
		else
			judge_silence(m, send, now_us);
		if (send->is.swift)
			judge_stall(m, send, now_us);
		if (now_us > latest(m, send))
			violation(m, MODEL_HUNG, "send %u of %llu bytes was not completed %llu us "
					"after its deadline", i + 1,
					(unsigned long long)send->is.len, (unsigned long long)
					(now_us - send->sent_us - 1000ull * send->is.timeout_ms));
	}
}

/* ---- rights ------------------------------------------------------------------------------ */

void model_right(struct model *m, uint32_t place, uint64_t id, uint64_t from_us, uint64_t until_us)
{
	m->rights = grown(m->rights, m->n_rights, sizeof(*m->rights));
	m->rights[m->n_rights++] = (struct right){id, from_us, until_us, place};
}

void model_careless(struct model *m, uint32_t place)
{
	m->careless[place] = true;
}

void judge_right(struct model *m, const struct send *send, const struct service *at,
		uint64_t now_us)
{
	/* Replies to a loan or a request need none. */
	if (!m->cfg.rights || send->is.answers || m->careless[at->place])
		return;
	for (uint32_t i = 0; i < m->n_rights; i++) {
		const struct right *right = &m->rights[i];

		if (right->place == send->place && right->id == send->is.to &&
				right->from_us <= now_us &&
				(right->until_us + RIGHT_US >= send->sent_us ||
				m->blocked_until[at->place] >= right->until_us))
			return;
	}
	violation(m, MODEL_RIGHT, "send %llu was received, and its sender had no right to send it",
			(unsigned long long)(send - m->sends) + 1);
}

void judge_denial(struct model *m, const struct send *send, uint64_t now_us)
{
	uint64_t since_us = send->sent_us > DENIED_US ? send->sent_us - DENIED_US : 0;

	for (uint32_t i = 0; m->cfg.rights && i < m->n_rights; i++) {
		const struct right *right = &m->rights[i];

		if (right->place == send->place && right->id == send->is.to &&
				right->from_us <= since_us && right->until_us > now_us)
			violation(m, MODEL_RIGHT, "send %llu was refused, though its sender had "
					"the right to send it", (unsigned long long)
					(send - m->sends) + 1);
	}
}

/* ---- outcomes ---------------------------------------------------------------------------- */

static bool cut_since(const struct model *m, uint32_t a, uint32_t b, uint64_t since_us)
{
	return m->cut[a][b] || (m->cut_until[a][b] > 0 && m->cut_until[a][b] >= since_us);
}

bool jumped_since(const struct model *m, uint32_t place, uint64_t since_us)
{
	return m->jumped[place] > 0 && m->jumped[place] >= since_us;
}

/* A failure between its place and a holder of the ID. */
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

bool was_blocked(const struct model *m, const struct send *send, uint64_t since_us)
{
	if (blocked_since(m, send->place, since_us))
		return true;
	for (uint32_t i = 0; i < m->n_services; i++)
		if (m->services[i].id == send->is.to &&
				blocked_since(m, m->services[i].place, since_us))
			return true;
	return false;
}

/* The first message since goes to the old address, and may not have the time to be sent again. */
static bool may_go_astray(const struct model *m, const struct send *send)
{
	if (send->is.timeout_ms >= FOLLOWED_MS)
		return false;
	if (m->moved[send->place])
		return true;
	for (uint32_t i = 0; i < m->n_services; i++)
		if (m->services[i].id == send->is.to && m->moved[m->services[i].place])
			return true;
	return false;
}

/* Packets may have been lost, or one of the two was not there to answer. */
static bool may_be_silent(const struct model *m, const struct send *send)
{
	return m->lossy || (m->lossy_until > 0 && m->lossy_until >= send->sent_us) ||
		may_go_astray(m, send) || was_blocked(m, send, send->sent_us);
}

/* All packets may have been lost for as long as one has to wait. */
static bool fell_silent(const struct model *m, const struct send *send, uint64_t now_us)
{
	uint64_t took = now_us - send->sent_us + EARLY_US;

	return may_be_silent(m, send) && (took >= 1000ull * send->is.timeout_ms ||
		took >= 1000ull * m->cfg.peer_timeout_ms);
}

bool has_excuse(const struct model *m, const struct send *send, uint64_t now_us)
{
	return partner_failed(m, send) || fell_silent(m, send, now_us);
}

bool may_be_cancelled(const struct model *m, const struct send *send)
{
	return send->cancelled || (send->is.ordered && order_was_broken(m, send)) ||
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
		right = is_documented(m, msg->status) && msg->status != -EMSGSIZE &&
			(msg->status != -ECANCELED || may_be_cancelled(m, send));
		break;
	case RIPC_UNKNOWN:
		m->totals.unknown++;
		right = msg->status == -ECONNRESET;
		if (!has_excuse(m, send, now_us))
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
	if (send->state != IN_PROGRESS || send->is.from != incarnation ||
			send->is.kind != RIPC_LONG) {
		violation(m, MODEL_COMPLETION, "completion of send %llu, which is %s",
				(unsigned long long)msg->cookie,
				send->state != IN_PROGRESS ? "not in progress" :
				"another service's, or a call");
		return;
	}
	if (now_us > latest(m, send))
		violation(m, MODEL_LATE, "send %llu was completed %llu us after its deadline",
				(unsigned long long)msg->cookie, (unsigned long long)
				(now_us - send->sent_us - 1000ull * send->is.timeout_ms));
	judge_outcome(m, send, msg, now_us);
	if (msg->status == -EACCES)
		judge_denial(m, send, now_us);
	send->delivered = msg->outcome == RIPC_DELIVERED;
	send->failed = !send->delivered;
	send->told_at = m->n_sends;
	send->state = ENDED;
	send->ended_us = now_us;
	m->n_open--;
}

/* The older registration keeps the ID: only the younger one is told. A store decides otherwise. */
static void judge_conflict(struct model *m, const struct service *told)
{
	for (uint32_t i = 0; i < m->n_services; i++) {
		const struct service *other = &m->services[i];

		if (other->id == told->id && other->incarnation != told->incarnation &&
				(other->born_us <= told->born_us || m->cfg.held) &&
				(!other->ended_us || other->ended_us > told->born_us))
			return;
	}
	violation(m, MODEL_NOTICE, "service %llu is told of an older one, and there was none",
			(unsigned long long)told->id);
}

void model_noticed(struct model *m, uint64_t incarnation, const struct ripc_msg *msg)
{
	struct service *service = service_of(m, incarnation);

	if (msg->status == -EADDRINUSE && service) {
		judge_conflict(m, service);
		return;
	}
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

/* ---- the end ----------------------------------------------------------------------------- */

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
