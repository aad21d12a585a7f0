/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See points.h. Owns what a talk says: messages that can be recognised, sent in all the ways that
 * there are, and checked when they come: whole, unaltered, the long ones once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "points.h"

#define POOL_BYTES (32u << 20)
#define QUIET_N  140u  /* more than a ring has slots */
#define SLACK_MS 12000u /* a call that takes so much longer than its deadline hangs */

/* Received and sent messages of a process must differ in length: otherwise the pool would use the
 * same memory again, which it then shares with no partner. */
static size_t len_of(const struct note *note)
{
	static const size_t lens[KINDS] = {50, 600, 30000, 200000, 600 << 10, 600 << 10};

	if (note->kind >= KINDS)
		return sizeof(*note);
	return note->is_hosts || note->kind < KIND_READ ? lens[note->kind] : 1 << 20;
}

static uint64_t seed_of(const struct note *note)
{
	return (uint64_t)note->life << 32 | note->number << 1 | note->is_answer;
}

static bool in_pool(const struct note *note)
{
	return note->kind == KIND_READ || note->kind == KIND_GIVEN;
}

static void body_free(struct talker *talker, void *mem, bool pool)
{
	if (!pool)
		free(mem);
	else if (ripc_buf_free(talker->ctx, mem))
		fault_fail("a buffer that was ours is not in the pool");
}

static void *body_make(struct talker *talker, const struct note *note, size_t len)
{
	void *mem = NULL;
	int error = 0;

	if (in_pool(note))
		error = ripc_buf_alloc(talker->ctx, len, &mem);
	else
		mem = malloc(len);
	if (error || !mem)
		fault_fail("no memory for a message: %s", ripc_strerror(error));
	memcpy(mem, note, sizeof(*note));
	fault_fill((uint8_t *)mem + sizeof(*note), len - sizeof(*note), seed_of(note));
	return mem;
}

/* ---- sending ----------------------------------------------------------------------------- */

static int send_short(struct talker *talker, uint64_t to, const struct note *note)
{
	struct iovec item = {.iov_len = len_of(note)};
	int error;

	item.iov_base = body_make(talker, note, item.iov_len);
	error = ripc_send_short(talker->svc, to, &item, 1);
	free(item.iov_base);
	if (error && error != -EAGAIN && error != -ENOENT)
		fault_fail("a short ended with %d (%s)", error, ripc_strerror(error));
	return error;
}

static void pending_add(struct talker *talker, uint64_t cookie, void *mem, bool pool)
{
	for (int i = 0; i < PENDING_MAX; i++) {
		if (talker->pending[i].mem)
			continue;
		talker->pending[i] = (struct pending){cookie, mem, pool};
		return;
	}
	fault_fail("too many sends of unknown outcome");
}

static void pending_settle(struct talker *talker, uint64_t cookie)
{
	for (int i = 0; i < PENDING_MAX; i++) {
		struct pending *pending = &talker->pending[i];

		if (!pending->mem || pending->cookie != cookie)
			continue;
		body_free(talker, pending->mem, pending->in_pool);
		pending->mem = NULL;
	}
}

static int send_long(struct talker *talker, uint64_t to, const struct note *note)
{
	struct iovec item = {.iov_len = len_of(note)};
	bool gives = note->kind == KIND_GIVEN;
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = &item, .n_items = 1,
		.flags = RIPC_SEND_LONG | (gives ? RIPC_GIVE : 0), .cookie = ++talker->cookies,
		.timeout_ms = (int32_t)talker->deadline_ms};
	uint64_t began_ms = fault_now_ms();
	enum ripc_outcome outcome = 0;
	int error;

	item.iov_base = body_make(talker, note, item.iov_len);
	error = ripc_sendmsg(talker->svc, &send, &outcome);
	if (fault_now_ms() - began_ms > talker->deadline_ms + SLACK_MS)
		fault_fail("a send took %llu ms, its deadline was %u",
			(unsigned long long)(fault_now_ms() - began_ms), talker->deadline_ms);
	if (!fault_documented(error, outcome))
		fault_fail("a send of kind %u ended with %d (%s), outcome %d", note->kind, error,
			ripc_strerror(error), outcome);
	if (outcome == RIPC_UNKNOWN && !gives)
		pending_add(talker, send.cookie, item.iov_base, in_pool(note));
	else if (outcome == RIPC_NOT_DELIVERED || !gives)
		body_free(talker, item.iov_base, in_pool(note));
	return error;
}

static int send_note(struct talker *talker, uint64_t to, const struct note *note)
{
	uint64_t until_ms = fault_now_ms() + talker->deadline_ms;
	struct note quiet = *note;
	int error = 0;

	if (note->kind >= KIND_LONG && note->kind < KINDS)
		return send_long(talker, to, note);
	quiet.is_quiet = 1;
	for (uint32_t i = 0; note->kind == KIND_WIDE && !error && i < QUIET_N; i++)
		error = send_short(talker, to, &quiet);
	/* Until the partner has taken what it got. */
	do {
		error = send_short(talker, to, note);
		if (error == -EAGAIN)
			usleep(100);
	} while (error == -EAGAIN && fault_now_ms() < until_ms);
	return error;
}

int talk_until_nobody(struct talker *talker, uint64_t to)
{
	uint64_t until_ms = fault_now_ms() + PATIENCE_MS / 2;
	int error = 0;

	while (error != -ENOENT && fault_now_ms() < until_ms) {
		error = send_short(talker, to, &(struct note){.kind = KIND_SHORT, .is_quiet = 1});
		talk_serve(talker, 5);
	}
	return error;
}

/* One for who was there before may be held until another one comes. */
void talk_stop(struct talker *talker, uint64_t to, int pid)
{
	send_short(talker, to, &(struct note){.kind = KIND_STOP, .life = talker->life,
		.number = (uint32_t)pid});
}

/* ---- receiving --------------------------------------------------------------------------- */

static void check_whole(const struct ripc_msg *msg, struct note *note)
{
	const struct iovec *item = msg->items;

	if (msg->n_items != 1 || item->iov_len < sizeof(*note))
		fault_fail("a message is not whole");
	memcpy(note, item->iov_base, sizeof(*note));
	if (item->iov_len != len_of(note) || !fault_filled((uint8_t *)item->iov_base +
			sizeof(*note), item->iov_len - sizeof(*note), seed_of(note)))
		fault_fail("a message of kind %u is not what was sent", note->kind);
}

static void check_once(struct talker *talker, const struct note *note)
{
	for (uint32_t i = 0; i < SEEN_MAX && i < talker->n_seen; i++) {
		if (talker->seen[i] == seed_of(note))
			fault_fail("a message of kind %u came twice", note->kind);
	}
	talker->seen[talker->n_seen++ % SEEN_MAX] = seed_of(note);
}

void talk_drop_kept(struct talker *talker)
{
	struct note note;

	if (!talker->kept)
		return;
	check_whole(talker->kept, &note);
	ripc_msg_free(talker->kept);
	talker->kept = NULL;
}

/* True: a message, which was checked; a given one is kept. */
static bool next(struct talker *talker, int timeout_ms, struct note *note, uint64_t *from)
{
	struct ripc_msg *msg;
	int error = ripc_receive(talker->svc, timeout_ms, &msg);
	bool is_message;

	if (error == -ETIMEDOUT || error == -EAGAIN)
		return false;
	if (error)
		fault_fail("a receive ended with %d (%s)", error, ripc_strerror(error));
	is_message = msg->kind == RIPC_SHORT || msg->kind == RIPC_LONG;
	if (msg->kind == RIPC_NOTICE && msg->cookie)
		pending_settle(talker, msg->cookie);
	if (is_message)
		check_whole(msg, note);
	if (msg->kind == RIPC_LONG)
		check_once(talker, note);
	*from = msg->from;
	if (is_message && note->kind == KIND_GIVEN) {
		talk_drop_kept(talker);
		talker->kept = msg;
		return true;
	}
	ripc_msg_free(msg);
	return is_message;
}

static void answer(struct talker *talker, uint64_t to, const struct note *question)
{
	struct note note = *question;

	if (question->kind == KIND_STOP && question->number == (uint32_t)getpid())
		talker->stopped = true;
	if (question->kind == KIND_STOP || question->is_answer || question->is_quiet)
		return;
	note.is_answer = 1;
	note.is_hosts = talker->is_host;
	send_note(talker, to, &note);
}

int talk_ask(struct talker *talker, uint64_t to, enum kind kind)
{
	const struct note note = {.number = ++talker->number, .life = talker->life, .kind = kind,
		.is_hosts = talker->is_host};
	uint64_t until_ms = fault_now_ms() + talker->deadline_ms, from;
	int error = send_note(talker, to, &note);

	if (error)
		return error;
	while (fault_now_ms() < until_ms) {
		struct note got;

		if (!next(talker, (int)talker->deadline_ms, &got, &from))
			continue;
		if (got.is_answer && !got.is_quiet && seed_of(&got) == (seed_of(&note) | 1))
			return 0;
		answer(talker, from, &got);
	}
	return -ENOMSG;
}

void talk_serve(struct talker *talker, int timeout_ms)
{
	struct note note;
	uint64_t from;

	if (next(talker, timeout_ms, &note, &from))
		answer(talker, from, &note);
}

/* One buffer takes all that is left: what the pool has kept for later goes. */
void talk_tidy(struct talker *talker)
{
	int error = -ENOMEM;
	void *mem;

	for (size_t len = POOL_BYTES; error && len; len -= 1 << 20)
		error = ripc_buf_alloc(talker->ctx, len, &mem);
	if (error || ripc_buf_free(talker->ctx, mem))
		fault_fail("no memory is left: %s", ripc_strerror(error));
}

/* ---- beginning and end ------------------------------------------------------------------- */

void talk_open(struct talker *talker, uint64_t id, uint32_t life, uint32_t deadline_ms)
{
	struct ripc_config cfg = fault_config();
	int error;

	cfg.peer_timeout_ms = 300;
	cfg.pool_bytes = POOL_BYTES;
	talker->life = life;
	talker->deadline_ms = deadline_ms;
	fault_open(&talker->env, &cfg, &talker->ctx);
	error = ripc_service_open(talker->ctx, id, 0, &talker->svc);
	if (error)
		fault_fail("no service: %s", ripc_strerror(error));
}

int talk_close(struct talker *talker)
{
	int error;

	talk_drop_kept(talker);
	error = ripc_close(talker->ctx, (int)talker->deadline_ms);
	/* Messages in the pool are gone with it. */
	for (int i = 0; i < PENDING_MAX; i++) {
		if (talker->pending[i].mem && !talker->pending[i].in_pool)
			free(talker->pending[i].mem);
	}
	return error;
}
