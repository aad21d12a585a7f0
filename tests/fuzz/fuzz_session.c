/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners and an application that do anything in any order to one context. Whatever they do:
 * each long message that was accepted ends exactly once, a window or return buffer comes back
 * at most once, no call outlives its deadline, what the context sends is well-formed, and at the
 * end nothing is left: no credit, buffers, partners, descriptors.
 */
#include <errno.h>
#include <string.h>

#include "session.h"

#define STEPS_MAX     256u
#define LENDS_COOKIE  0x7000u
#define WINDOW_COOKIE 0x8000u
#define WINDOW_BYTES  8192u
#define LATE_US       10000u   /* a tick */
#define SETTLED_MS    10000u   /* after so long of silence everything has ended */

static uint8_t memory[256 << 10], windows[WINDOWS][WINDOW_BYTES], lent[WINDOW_BYTES];

static struct ripc_service *service_choose(struct session *session, uint8_t how)
{
	for (uint32_t i = 0; i < SERVICES; i++) {
		if (session->services[(how + i) % SERVICES])
			return session->services[(how + i) % SERVICES];
	}
	return NULL;
}

static uint64_t whom(struct session *session)
{
	uint8_t how = input8(&session->input);

	if (how < 240)
		return session->persons[how % PERSONS].service;
	return how < 250 ? 0x777 : ripc_id_from_name("itself") - how;
}

static size_t length(struct session *session)
{
	static const size_t lengths[] = {0, 1, 100, RIPC_SHORT_MIN, 1300, 1452, 5000, 65536,
		65537, 70000, 200000};

	return lengths[input8(&session->input) % (sizeof(lengths) / sizeof(lengths[0]))];
}

/* No call comes back later than it said. */
static void check_time(const struct session *session, uint64_t began_us, int timeout_ms)
{
	CLAIM(session->now_us - began_us <= (uint64_t)timeout_ms * 1000 + LATE_US);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void send_short(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how);
	struct iovec items[2] = {{memory, length(session)}, {memory, how >> 4}};

	if (service)
		ripc_send_short(service, whom(session), items, 1 + (how >> 3 & 1));
}

/* Fills in a long message. Returns its pool buffer, if it is to be given. */
static void *long_fill(struct session *session, uint8_t how, struct ripc_send *send,
		struct iovec items[3])
{
	static const struct ripc_buffer returns[] = {{.mem = {lent, sizeof(lent)},
		.cookie = LENDS_COOKIE}};
	void *buffer = NULL;

	*send = (struct ripc_send){.size = sizeof(*send), .flags = RIPC_SEND_LONG,
		.to = whom(session), .items = items, .n_items = 1 + how % 3,
		.timeout_ms = 1 + how * 5};
	items[0] = (struct iovec){memory, length(session)};
	items[1] = (struct iovec){memory, how};
	items[2] = (struct iovec){memory, input16(&session->input)};
	if (how & 8) {
		send->returns = returns;
		send->n_returns = 1;
	}
	if (how & 16) {
		send->reply_to = session->held[0] ? session->held[0]->reply : how;
		send->to_incarnation = session->persons[how % PERSONS].incarnation;
	}
	if (how & 32 && ripc_buf_alloc(session->ctx, items[0].iov_len, &buffer) == 0) {
		memset(buffer, 0, items[0].iov_len);
		items[0].iov_base = buffer;
		send->n_items = 1;
		send->flags |= RIPC_GIVE;
	}
	return buffer;
}

static void send_nowait(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how >> 6);
	struct expected *expected = &session->longs[session->n_longs];
	struct iovec items[3];
	struct ripc_send send;
	void *given;

	if (!service || session->n_longs == LONGS)
		return;
	given = long_fill(session, how, &send, items);
	send.flags |= RIPC_NOWAIT;
	send.cookie = session->n_longs;
	if (ripc_sendmsg(service, &send, NULL)) {
		ripc_buf_free(session->ctx, given);
		return;
	}
	*expected = (struct expected){.service = service, .given = given,
		.lent = send.n_returns > 0};
	session->n_longs++;
}

static void send_waiting(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how >> 6);
	enum ripc_outcome outcome = 0;
	uint64_t began_us = session->now_us;
	struct iovec items[3];
	struct ripc_send send;
	void *given;
	int error;

	if (!service)
		return;
	given = long_fill(session, how & ~8, &send, items);
	send.cookie = UINT64_MAX;
	error = ripc_sendmsg(service, &send, &outcome);
	check_time(session, began_us, send.timeout_ms);
	CLAIM((error == 0) == (outcome == RIPC_DELIVERED));
	CLAIM((error == -ECONNRESET) == (outcome == RIPC_UNKNOWN));
	if (outcome != RIPC_DELIVERED && outcome != RIPC_UNKNOWN)
		ripc_buf_free(session->ctx, given);
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void completion(struct session *session, const struct ripc_msg *msg)
{
	struct expected *expected = &session->longs[msg->cookie];

	CLAIM(msg->cookie < session->n_longs && expected->service && !expected->ended);
	CLAIM((msg->status == 0) == (msg->outcome == RIPC_DELIVERED));
	CLAIM((msg->status == -ECONNRESET) == (msg->outcome == RIPC_UNKNOWN));
	CLAIM(msg->outcome >= RIPC_NOT_DELIVERED && msg->outcome <= RIPC_UNKNOWN);
	expected->ended = true;
	if (msg->outcome == RIPC_NOT_DELIVERED)
		ripc_buf_free(session->ctx, expected->given);
	expected->given = NULL;
}

static void check_place(struct session *session, const struct ripc_buffer *place)
{
	uint64_t i = place->cookie - WINDOW_COOKIE;

	if (place->place != RIPC_IN_WINDOW)
		return;
	CLAIM(i < session->n_posted && session->posted[i]);
	CLAIM(place->mem.iov_base == windows[i]);
	session->posted[i] = false;
}

static void message(struct session *session, const struct ripc_msg *msg)
{
	CLAIM(msg->n_items <= RIPC_ITEMS_MAX);
	for (uint32_t i = 0; i < msg->n_items; i++) {
		const uint8_t *bytes = msg->items[i].iov_base;

		for (size_t at = 0; at < msg->items[i].iov_len; at += 512)
			session->read ^= bytes[at];
		if (msg->places)
			check_place(session, &msg->places[i]);
	}
}

/* Takes one message and keeps it where another one was. Returns what receiving said. */
static int receive(struct session *session, struct ripc_service *service, uint8_t how)
{
	struct ripc_msg **held = &session->held[how % HELD], *msg;
	int error = ripc_receive(service, 0, &msg);

	if (error)
		return error;
	if (msg->kind == RIPC_COMPLETION)
		completion(session, msg);
	else if (msg->kind != RIPC_NOTICE)
		message(session, msg);
	ripc_msg_free(*held);
	*held = msg;
	return 0;
}

static void receive_waiting(struct session *session, struct ripc_service *service, int timeout_ms)
{
	uint64_t began_us = session->now_us;
	struct ripc_msg *msg;

	if (ripc_receive(service, timeout_ms, &msg)) {
		check_time(session, began_us, timeout_ms);
		return;
	}
	if (msg->kind == RIPC_COMPLETION)
		completion(session, msg);
	else if (msg->kind != RIPC_NOTICE)
		message(session, msg);
	ripc_msg_free(msg);
}

static void receive_some(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how);

	if (!service)
		return;
	if (how >= 240)
		receive_waiting(session, service, how - 240);
	else
		receive(session, service, how >> 2);
}

static void receive_all(struct session *session)
{
	for (uint32_t i = 0; i < SERVICES; i++) {
		for (uint8_t n = 0; session->services[i]; n++) {
			if (receive(session, session->services[i], n))
				break;
		}
	}
}

/* ---- services and buffers ------------------------------------------------------------------ */

static void post(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how);
	uint32_t i = session->n_posted;
	struct iovec mem;

	if (!service || i == WINDOWS)
		return;
	mem = (struct iovec){windows[i], how & 64 ? WINDOW_BYTES : how};
	if (ripc_window_post(service, &mem, WINDOW_COOKIE + i))
		return;
	session->posted[i] = true;
	session->n_posted++;
}

static void service_end(struct session *session, uint32_t at)
{
	for (uint32_t i = 0; i < session->n_longs; i++) {
		struct expected *expected = &session->longs[i];

		if (expected->service != session->services[at] || expected->ended)
			continue;
		session->gave_and_closed |= expected->given != NULL;
		expected->service = NULL;
	}
	CLAIM(ripc_service_close(session->services[at]) == 0);
	session->services[at] = NULL;
}

static void serve(struct session *session)
{
	uint8_t how = input8(&session->input);
	uint32_t at = how % SERVICES;
	uint64_t began_us = session->now_us;

	if (!session->services[at]) {
		ripc_service_open(session->ctx, how & 64 ? WELL_KNOWN : 0, 0,
			&session->services[at]);
	} else if (how & 128) {
		service_end(session, at);
	} else if (how & 64) {
		ripc_service_drain(session->services[at], how & 15);
		check_time(session, began_us, how & 15);
	} else {
		ripc_service_fd(session->services[at]);
	}
}

static void buffers(struct session *session)
{
	uint8_t how = input8(&session->input);
	void **block = &session->blocks[how % BLOCKS];

	if (!*block)
		ripc_buf_alloc(session->ctx, length(session) << (how >> 5), block);
	else if (how & 64 && ripc_buf_ref(session->ctx, *block) == 0)
		CLAIM(ripc_buf_free(session->ctx, *block) == 0);
	else if (ripc_buf_free(session->ctx, *block) == 0)
		*block = NULL;
}

static void ask(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how >> 6);
	struct ripc_path path = {.size = sizeof(path)};
	uint64_t began_us = session->now_us, rtt_ns;

	if (!service)
		return;
	if (how & 1)
		ripc_ping(service, whom(session), how & 63, &rtt_ns);
	else if (how & 2)
		ripc_resolve(session->ctx, whom(session), how & 63);
	else
		ripc_path_info(service, whom(session), &path);
	check_time(session, began_us, how & 63);
}

/* A partner dies and comes again; the network takes no more, or shorter datagrams. */
static void disturb(struct session *session)
{
	static const int refusals[] = {0, -ENOBUFS, -ENETUNREACH, -ENOMEM};
	uint8_t how = input8(&session->input);
	struct person *person = &session->persons[how % PERSONS];

	if (how & 128) {
		person->incarnation += PERSONS;
		person->token_in += 0x10000;
		person->token_out = person->heard_long = 0;
		person->next_short = person->next_long = 1;
	} else if (how & 64) {
		session->refuses = how >> 2 & 15;
		session->refusal = refusals[how % 4];
	} else {
		session->mtu = how & 32 ? DATAGRAM_BASE : MTU;
		person->host = (uint8_t)(1 + how % HOSTS);
	}
}

static void cancel(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how >> 6);

	if (service)
		ripc_cancel(service, how & 63);
}

static void packet(struct session *session)
{
	session_packet(session);
	session_work(session);
}

static void question(struct session *session)
{
	session_answer(session);
	session_pass(session, 1100);
}

static void raw(struct session *session)
{
	session_raw(session);
	if (session->in_is_question)
		session_pass(session, 1100);
	session_work(session);
}

static void pass(struct session *session)
{
	uint32_t how = input16(&session->input);

	session_pass(session, (uint64_t)(how >> 4) << (how & 15));
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void step(struct session *session)
{
	static void (*const steps[])(struct session *) = {packet, packet, packet, packet, raw,
		session_greet, session_greet, question, pass, pass, send_short, send_nowait,
		send_nowait, send_waiting, receive_some, receive_some, post, serve, buffers, ask,
		disturb, cancel};

	steps[input8(&session->input) % (sizeof(steps) / sizeof(steps[0]))](session);
}

static bool all_ended(const struct session *session)
{
	for (uint32_t i = 0; i < session->n_longs; i++) {
		if (session->longs[i].service && !session->longs[i].ended)
			return false;
	}
	return true;
}

/* The partners fall silent: what is in progress ends by itself. */
static void settle(struct session *session)
{
	receive_all(session);
	for (uint32_t ms = 0; !all_ended(session); ms += 100) {
		CLAIM(ms < SETTLED_MS);
		session_pass(session, 100000);
		receive_all(session);
	}
}

static void give_back(struct session *session)
{
	for (uint32_t i = 0; i < HELD; i++)
		ripc_msg_free(session->held[i]);
	for (uint32_t i = 0; i < BLOCKS; i++)
		CLAIM(ripc_buf_free(session->ctx, session->blocks[i]) == 0);
	for (uint32_t i = 0; i < SERVICES; i++) {
		if (session->services[i])
			service_end(session, i);
	}
}

static void check_empty(const struct session *session)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	CLAIM(ripc_stats(session->ctx, &stats) == 0);
	CLAIM(stats.partners == 0 && stats.services == 0);
	CLAIM(stats.granted_bytes == 0);
	for (uint32_t i = 0; i < SHARES; i++)
		CLAIM(session->ctx->held[i] == 0);
	CLAIM(session->ctx->n_granted == 0);
	CLAIM(session->ctx->n_busy == 0 && session->ctx->n_timers == 0);
	CLAIM(session->gave_and_closed || stats.pool_used_bytes == 0);
	CLAIM(session->peers_open == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct session session = {.input = {data, data + len}};
	uint64_t fds = open_fds();
	uint8_t ending = input8(&session.input);
	int error;

	session_open(&session);
	for (uint32_t i = 0; i < STEPS_MAX && !input_ends(&session.input); i++)
		step(&session);
	session.input.at = session.input.end;
	if (ending % 4) {
		settle(&session);
		give_back(&session);
		check_empty(&session);
	}
	error = ripc_close(session.ctx, ending % 8 ? 0 : 500);
	CLAIM(error == 0 || error == -ETIMEDOUT);
	CLAIM(session.peers_open == 0);
	CLAIM(open_fds() == fds);
	return 0;
}
