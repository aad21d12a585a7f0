/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners and an application that do anything in any order to one context. For any input, each
 * accepted long message ends exactly once, a window or return buffer comes back at most once, and
 * no partner reaches it or sent memory any more; messages have the bytes that were sent, and those
 * to groups come once; no call outlives its deadline, sent packets are well-formed, and at the end
 * nothing is left: no credit, buffers, partners, descriptors.
 */
#include <errno.h>
#include <string.h>

#include "core/net/backend.h"
#include "core/partner/death.h"
#include "core/partner/roam.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "session.h"
#include "util/list.h"

#define STEPS_MAX     256u
#define LENDS_COOKIE  0x7000u
#define ASKS_COOKIE   0x6000u
#define WAITS_COOKIE  UINT64_MAX
#define LENT_BYTES    (100u << 10) /* where others may write into it */
#define SOURCE_BYTES  (256u << 10)
#define WINDOW_COOKIE 0x8000u
#define WINDOW_BYTES  8192u
#define LATE_US       10000u   /* a tick */
#define MOVES         128u     /* of the input's first byte: the next two say what the device can */
#define GROUPS        0x58u    /* of these bits of the first byte: there are groups */
#define GROUPS_MASK   0x78u
#define FENCED_US     400000u  /* longest time of closing, which waits for transferred memory */
#define SETTLED_MS    10000u   /* after so long of silence everything has ended */

/* Sent and posted memory of the application is separate: for others it may be in use. */
static uint8_t memory[SOURCE_BYTES], sources[LONGS][SOURCE_BYTES];
static uint8_t windows[WINDOWS][WINDOW_BYTES], lent[LONGS + ASKS][LENT_BYTES];

static bool is_within(const void *mem, size_t len, const void *whole, size_t whole_len)
{
	uintptr_t offset = (uintptr_t)mem - (uintptr_t)whole;

	return offset < whole_len && len <= whole_len - offset;
}

bool session_app_owns(const void *mem, size_t len)
{
	bool owns = is_within(mem, len, memory, sizeof(memory));

	for (uint32_t i = 0; i < LONGS; i++)
		owns |= is_within(mem, len, sources[i], SOURCE_BYTES);
	for (uint32_t i = 0; i < WINDOWS; i++)
		owns |= is_within(mem, len, windows[i], WINDOW_BYTES);
	for (uint32_t i = 0; i < LONGS + ASKS; i++)
		owns |= is_within(mem, len, lent[i], LENT_BYTES);
	return owns;
}

/* The memory is the application's again. */
static void check_ours(const struct session *session, const void *mem, size_t len)
{
	CLAIM(!session_device_uses(session, mem, len));
}

static struct ripc_buffer lent_buffer(const struct session *session, uint32_t i)
{
	return (struct ripc_buffer){.cookie = LENDS_COOKIE + i,
		.mem = {lent[i], session->mover.caps ? LENT_BYTES : WINDOW_BYTES}};
}

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

/* ---- sending ----------------------------------------------------------------------------- */

static void send_short(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how);
	struct iovec items[2] = {{memory, length(session)}, {memory, how >> 4}};

	if (service)
		ripc_send_short(service, whom(session), items, 1 + (how >> 3 & 1));
}

/* Fills in a long message of that memory. Returns its pool buffer, if it is to be given. */
static void *long_fill(struct session *session, uint8_t how, struct ripc_send *send,
		struct iovec items[3], uint8_t *source)
{
	void *buffer = NULL;

	*send = (struct ripc_send){.size = sizeof(*send), .flags = RIPC_SEND_LONG,
		.to = whom(session), .items = items, .n_items = 1 + how % 3,
		.timeout_ms = 1 + how * 5};
	items[0] = (struct iovec){source, length(session)};
	items[1] = (struct iovec){source, how};
	items[2] = (struct iovec){source, input16(&session->input)};
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
	struct ripc_buffer returns = lent_buffer(session, session->n_longs);
	struct iovec items[3];
	struct ripc_send send;
	void *given;

	if (!service || session->n_longs == LONGS)
		return;
	given = long_fill(session, how, &send, items, sources[session->n_longs]);
	send.flags |= RIPC_NOWAIT | (how & 4 ? RIPC_ORDERED : 0);
	send.cookie = session->n_longs;
	send.returns = &returns;
	send.n_returns = how >> 3 & 1 && !session_device_uses(session, returns.mem.iov_base,
		returns.mem.iov_len);
	if (ripc_sendmsg(service, &send, NULL)) {
		ripc_buf_free(session->ctx, given);
		return;
	}
	*expected = (struct expected){.service = service, .sent_by = service, .given = given,
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
	given = long_fill(session, how, &send, items, memory);
	send.cookie = WAITS_COOKIE;
	error = ripc_sendmsg(service, &send, &outcome);
	check_time(session, began_us, send.timeout_ms);
	CLAIM((error == 0) == (outcome == RIPC_DELIVERED));
	CLAIM((error == -ECONNRESET) == (outcome == RIPC_UNKNOWN));
	session->n_unknown += outcome == RIPC_UNKNOWN;
	if (session->n_unknown == 0)
		check_ours(session, memory, sizeof(memory));
	if (outcome != RIPC_DELIVERED && outcome != RIPC_UNKNOWN)
		ripc_buf_free(session->ctx, given);
}

/* A short question that lends, and waits for an answer; or what it has lent is taken back. */
static void ask_short(struct session *session)
{
	uint8_t how = input8(&session->input);
	struct ripc_service *service = service_choose(session, how >> 6);
	struct ripc_service **asked = &session->asked[how % ASKS];
	uint32_t i = LONGS + how % ASKS;
	struct ripc_buffer returns = lent_buffer(session, i);
	struct iovec item = {memory, how};
	struct ripc_send send = {.size = sizeof(send), .items = &item, .n_items = 1,
		.returns = &returns, .n_returns = 1, .cookie = ASKS_COOKIE + i};

	if (*asked) {
		/* Nothing is lent any more: the answer is there, or was. */
		if (ripc_cancel(*asked, send.cookie) && !session->lent_back[i])
			return;
		check_ours(session, lent[i], LENT_BYTES);
		*asked = NULL;
	} else if (service && !session_device_uses(session, lent[i], LENT_BYTES)) {
		/*
		 * Without this, a failed call had opened a service that has no user and is being
		 * closed.
		 */
		send.to = whom(session);
		session->lent_back[i] = false;
		if (ripc_sendmsg(service, &send, NULL) == 0)
			*asked = service;
	}
}

/* ---- receiving --------------------------------------------------------------------------- */

static void completion(struct session *session, const struct ripc_msg *msg)
{
	struct expected *expected = &session->longs[msg->cookie];

	CLAIM(msg->cookie < session->n_longs && expected->service && !expected->ended);
	CLAIM((msg->status == 0) == (msg->outcome == RIPC_DELIVERED));
	CLAIM((msg->status == -ECONNRESET) == (msg->outcome == RIPC_UNKNOWN));
	CLAIM(msg->outcome >= RIPC_NOT_DELIVERED && msg->outcome <= RIPC_UNKNOWN);
	expected->ended = true;
	check_ours(session, sources[msg->cookie], SOURCE_BYTES);
	if (msg->outcome == RIPC_NOT_DELIVERED)
		ripc_buf_free(session->ctx, expected->given);
	expected->given = NULL;
}

static void check_place(struct session *session, const struct ripc_buffer *place)
{
	uint64_t i = place->cookie - WINDOW_COOKIE, at = place->cookie - LENDS_COOKIE;

	if (place->place == RIPC_IN_RETURN) {
		CLAIM(at < LONGS + ASKS && !session->lent_back[at]);
		CLAIM(place->mem.iov_base == lent[at]);
		check_ours(session, lent[at], LENT_BYTES);
		session->lent_back[at] = true;
	}
	if (place->place != RIPC_IN_WINDOW)
		return;
	CLAIM(i < session->n_posted && session->posted[i]);
	CLAIM(place->mem.iov_base == windows[i]);
	check_ours(session, windows[i], WINDOW_BYTES);
	session->posted[i] = false;
}

/* A partner for which nothing is compared can hear of a written answer that was not written. */
static bool may_be_wrong(const struct session *session, const struct ripc_msg *msg, uint32_t i)
{
	const uint32_t caps = session->mover.caps & (RIPC_CAP_INTACT | RIPC_CAP_DUBIOUS);

	return session->altered || (caps == RIPC_CAP_INTACT && msg->places &&
		msg->places[i].place == RIPC_IN_RETURN);
}

static void message(struct session *session, const struct ripc_msg *msg)
{
	CLAIM(msg->n_items <= RIPC_ITEMS_MAX);
	for (uint32_t i = 0; i < msg->n_items; i++) {
		const uint8_t *bytes = msg->items[i].iov_base;
		bool is_known = !may_be_wrong(session, msg, i);

		for (size_t at = 0; at < msg->items[i].iov_len; at += 512) {
			session->read ^= bytes[at];
			CLAIM(!is_known || bytes[at] == 0);
		}
		if (msg->places)
			check_place(session, &msg->places[i]);
	}
}

/* One message, completion or notice that the service had. */
static void look_at(struct session *session, const struct ripc_msg *msg)
{
	if (msg->kind == RIPC_COMPLETION)
		completion(session, msg);
	else if (msg->kind != RIPC_NOTICE)
		message(session, msg);
	else if (msg->cookie == WAITS_COOKIE)
		session->n_unknown--;
}

/* Takes one message and keeps it where another one was. Returns what receiving said. */
static int receive(struct session *session, struct ripc_service *service, uint8_t how)
{
	struct ripc_msg **held = &session->held[how % HELD], *msg;
	int error = ripc_receive(service, 0, &msg);

	if (error)
		return error;
	look_at(session, msg);
	session_many_took(session, service, msg);
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
	look_at(session, msg);
	session_many_took(session, service, msg);
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

/* ---- services and buffers ---------------------------------------------------------------- */

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
	session->posted_on[i] = service;
	session->n_posted++;
}

/* No partner reaches memory of a closed service: neither posted nor sent memory. */
static void check_ended(struct session *session, const struct ripc_service *service)
{
	for (uint32_t i = 0; i < session->n_posted; i++) {
		if (session->posted_on[i] == service)
			check_ours(session, windows[i], WINDOW_BYTES);
	}
	for (uint32_t i = 0; i < session->n_longs; i++) {
		if (session->longs[i].sent_by != service)
			continue;
		check_ours(session, sources[i], SOURCE_BYTES);
		check_ours(session, lent[i], LENT_BYTES);
	}
	for (uint32_t i = 0; i < ASKS; i++) {
		if (session->asked[i] != service)
			continue;
		check_ours(session, lent[LONGS + i], LENT_BYTES);
		session->asked[i] = NULL;
	}
}

static void service_end(struct session *session, uint32_t at)
{
	struct ripc_service *service = session->services[at];

	for (uint32_t i = 0; i < session->n_longs; i++) {
		if (session->longs[i].service == service && !session->longs[i].ended)
			session->longs[i].service = NULL;
	}
	session->services[at] = NULL; /* partners still talk while it waits */
	CLAIM(ripc_service_close(service) == 0);
	check_ended(session, service);
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

/* ---- all of it --------------------------------------------------------------------------- */

static void step(struct session *session)
{
	static void (*const steps[])(struct session *) = {packet, packet, packet, packet, raw,
		session_greet, session_greet, question, pass, pass, send_short, send_nowait,
		send_nowait, send_waiting, receive_some, receive_some, post, serve, buffers, ask,
		disturb, cancel, ask_short, session_device_step, session_device_step,
		session_device_step};
	/* The last ones are for devices that move bytes. */
	uint32_t n = sizeof(steps) / sizeof(steps[0]) - (session->mover.caps ? 0 : 4);

	if (session->has_groups && input8(&session->input) & 1)
		session_many_step(session);
	else
		steps[input8(&session->input) % n](session);
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
	session->mover.silent = true;
	session->mover.n_refusals = 0;
	receive_all(session);
	for (uint32_t ms = 0; !all_ended(session); ms += 100) {
		CLAIM(ms < SETTLED_MS);
		session_pass(session, 100000);
		receive_all(session);
	}
}

/* Messages and buffers, which may be of a closed context. */
static void free_all(struct session *session)
{
	for (uint32_t i = 0; i < HELD; i++) {
		ripc_msg_free(session->held[i]);
		session->held[i] = NULL;
	}
	for (uint32_t i = 0; i < BLOCKS; i++) {
		CLAIM(!session->blocks[i] ||
			ripc_buf_free(session->ctx, session->blocks[i]) == 0);
		session->blocks[i] = NULL;
	}
}

static void give_back(struct session *session)
{
	free_all(session);
	for (uint32_t i = 0; i < SERVICES; i++) {
		if (session->services[i])
			service_end(session, i);
	}
}

static void check_empty(const struct session *session)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	CLAIM(ripc_stats_get(session->ctx, &stats) == 0);
	CLAIM(stats.mapped_held_bytes == 0 && stats.given_held_bytes == 0);
	CLAIM(stats.partners == 0 && stats.services == 0);
	CLAIM(stats.granted_bytes == 0);
	for (uint32_t i = 0; i < SHARES; i++)
		CLAIM(session->ctx->peers.quota[i] == 0);
	CLAIM(session->ctx->loop.n_busy == 0 && session->ctx->loop.n_timers ==
		DEATH_TIMERS + HINT_TIMERS + FOLLOW_TIMERS);
	CLAIM(stats.pool_used_bytes == 0);
	CLAIM(session->peers_open == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct session session = {.input = {data, data + len}, .pool_bytes = 2u << 20};
	uint64_t fds = open_fds();
	uint8_t ending = input8(&session.input);
	int error;

	list_init(&session.mover.uses);
	session.has_groups = (ending & GROUPS_MASK) == GROUPS;
	if (session.has_groups)
		session.pool_bytes = 8u << 20; /* for shorts of several lengths */
	if (ending & MOVES)
		session_device_choose(&session);
	session_open(&session);
	for (uint32_t i = 0; i < STEPS_MAX && !input_ends(&session.input); i++)
		step(&session);
	session.input.at = session.input.end;
	if (ending % 4) {
		settle(&session);
		give_back(&session);
		session_pass(&session, FENCED_US);
		check_empty(&session);
	}
	error = ripc_close(session.ctx, ending % 8 ? 0 : 500);
	CLAIM(error == 0 || error == -ETIMEDOUT);
	CLAIM(session.peers_open == 0);
	free_all(&session);
	CLAIM(open_fds() == fds);
	return 0;
}
