/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of a fuzzed session: clock, numbers, a network that takes what it is given or
 * refuses, and a resolver source. One datagram at a time waits to be polled.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/wire/record.h"
#include "session.h"

#define ARRIVAL_US 200u   /* until a packet is there, while a call waits */
#define IDLES_MAX  100000u /* a call that waits longer hangs */
#define WORKS_MAX  30000u  /* more than a full pool takes in reads of 1,000 bytes, one a poll */

static int world_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	why[0] = remedy[0] = 0;
	return 0;
}

static int world_port_open(void *port, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct session *session = host->env;

	((struct port *)port)->session = session;
	*attr = (struct ripc__attr){.fd = -1, .receive_buffer = 1 << 20,
		.caps = session->mover.caps, .read_max = session->mover.read_max};
	return 0;
}

static void world_port_close(void *port)
{
	session_port_closes(((struct port *)port)->session);
}

static int world_port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	(void)port;
	blob[0] = 1;
	return 1;
}

static int world_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	(void)port;
	(void)host;
	if (len != 1 || blob[0] == 0 || blob[0] > HOSTS)
		return -EINVAL;
	*addr = (struct ripc__addr){.len = 1, .blob = {blob[0]}};
	addr->host[15] = blob[0];
	return 0;
}

static int world_peer_open(void *port, void *peer, const struct ripc__addr *addr)
{
	struct session *session = ((struct port *)port)->session;

	CLAIM(addr->len == 1 && addr->blob[0] > 0 && addr->blob[0] <= HOSTS);
	if (session->refuses && session->refusal == -ENOMEM)
		return -ENOMEM;
	*(uint8_t *)peer = addr->blob[0];
	session->peers_open++;
	return session_route_open(session, peer);
}

static void world_peer_close(void *port, void *peer)
{
	CLAIM(*(uint8_t *)peer != 0);
	*(uint8_t *)peer = 0;
	((struct port *)port)->session->peers_open--;
}

static uint32_t world_peer_mtu(void *port, void *peer)
{
	(void)peer;
	return ((struct port *)port)->session->mtu;
}

static void world_text(const struct ripc__addr *addr, char text[64])
{
	snprintf(text, 64, "world:%u", addr->blob[0]);
}

static void world_where(void *port, const void *peer, struct ripc__where *where)
{
	(void)port;
	*where = (struct ripc__where){.addr = {.len = 1, .blob = {*(const uint8_t *)peer}}};
}

static bool world_peer_matches(void *port, const void *peer, const struct ripc__addr *from)
{
	(void)port;
	return *(const uint8_t *)peer == from->blob[0];
}

static void take(struct session *session, uint8_t host, const struct ripc__tx *tx)
{
	uint8_t data[MTU];
	size_t len = 0;

	CLAIM(tx->len <= MTU && tx->n_iov <= RIPC_IOV_MAX);
	for (uint32_t i = 0; i < tx->n_iov; i++) {
		CLAIM(len + tx->iov[i].iov_len <= tx->len);
		memcpy(data + len, tx->iov[i].iov_base, tx->iov[i].iov_len);
		len += tx->iov[i].iov_len;
	}
	CLAIM(len == tx->len);
	session_heard(session, host, data, len);
}

static int world_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n)
{
	struct session *session = ((struct port *)port)->session;

	for (uint32_t i = 0; i < n; i++) {
		if (session->refuses > 0) {
			session->refuses--;
			return i ? (int)i : session->refusal;
		}
		if (tx[i].len > session->mtu)
			return i ? (int)i : -EMSGSIZE;
		take(session, *(uint8_t *)peer, &tx[i]);
	}
	return (int)n;
}

static int world_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	struct session *session = ((struct port *)port)->session;
	int moved = session_device_poll(session, events, n);

	(void)all;
	CLAIM(n > 0);
	if (moved || !session->in_len || session->in_is_question)
		return moved;
	events[0] = (struct ripc__event){
		.kind = session->many.comes_by_multicast ? RIPC_EV_MULTICAST : RIPC_EV_DATAGRAM,
		.data = session->in,
		.len = (uint32_t)session->in_len,
		.from = &session->from};
	session->in_len = 0;
	return 1;
}

static void world_release(void *port, void *handle)
{
	(void)port;
	(void)handle;
}

static const struct ripc__backend world_backend = {
	.name = "world", .id = 99,
	.port_size = sizeof(struct port), .route_size = 8,
	.net = {.probe = world_probe, .open = world_port_open, .close = world_port_close,
		.address = world_port_addr},
	.route = {.choose = world_addr_choose, .text = world_text, .open = world_peer_open,
		.close = world_peer_close, .where = world_where, .mtu = world_peer_mtu,
		.matches = world_peer_matches},
	.datagrams = {.send = world_send, .poll = world_poll, .release = world_release},
	.mem = {.reg = session_mem_reg, .dereg = session_mem_dereg, .open = session_mem_open,
		.close = session_mem_close},
	.remote = {.move = session_move, .map = session_map, .unmap = session_unmap},
};
static const struct ripc__backend *const world_backends[] = {&world_backend, NULL};
/* The same, and one datagram can reach many. */
static struct ripc__backend many_backend;
static const struct ripc__backend *const many_backends[] = {&many_backend, NULL};

static const struct ripc__backend *const *backends_of(const struct session *session)
{
	many_backend = world_backend;
	many_backend.multicast.open = session_many_open;
	many_backend.multicast.hear = session_many_hear;
	many_backend.multicast.ignore = session_many_ignore;
	return session->has_groups ? many_backends : world_backends;
}

/* ---- the resolver source ----------------------------------------------------------------- */

static void source_close(void *source)
{
	(void)source;
}

static int source_open(void *source, const struct ripc__host *host)
{
	((struct port *)source)->session = host->env;
	return 0;
}

static int source_ask(void *source, uint64_t id, const void *data, size_t len)
{
	struct session *session = ((struct port *)source)->session;
	struct wire_resolve question;

	CLAIM(wire_resolve_decode(data, len, &question) == 0 && question.record.id == id);
	session_many_asked(session, id, question.nonce);
	for (uint32_t i = 0; i < PERSONS; i++) {
		if (session->persons[i].service == id)
			session->persons[i].question = question.nonce;
	}
	return 1;
}

static int source_reply(void *source, const struct ripc__addr *to, const void *data, size_t len)
{
	struct wire_resolve answer;

	(void)source;
	CLAIM(to->len == 1);
	CLAIM(wire_resolve_decode(data, len, &answer) == 0 && answer.type != WIRE_QUERY);
	return 0;
}

static int source_notify(void *source, const void *data, size_t len)
{
	struct wire_resolve notice;

	(void)source;
	CLAIM(wire_resolve_decode(data, len, &notice) == 0 && notice.type != WIRE_QUERY);
	return 1;
}

static int source_poll(void *source, struct ripc__source_event *event)
{
	struct session *session = ((struct port *)source)->session;

	if (!session->in_len || !session->in_is_question)
		return 0;
	*event = (struct ripc__source_event){.data = session->in, .len = (uint32_t)session->in_len,
		.reply = session->from};
	memcpy(event->host, session->from.host, sizeof(event->host));
	session->in_len = 0;
	return 1;
}

static int source_wait_fd(void *source)
{
	(void)source;
	return -1;
}

static const struct ripc__source world_source = {
	.name = "world", .size = sizeof(struct port), .probe = world_probe, .open = source_open,
	.close = source_close, .ask = source_ask, .reply = source_reply, .notify = source_notify,
	.poll = source_poll, .wait_fd = source_wait_fd,
};
static const struct ripc__source *const world_sources[] = {&world_source, NULL};

/* ---- time -------------------------------------------------------------------------------- */

static uint64_t world_now_us(void *arg)
{
	return ((struct session *)arg)->now_us;
}

static uint64_t world_wall_ns(void *arg)
{
	return ((struct session *)arg)->now_us * 1000;
}

static int world_random(void *arg, void *bytes, size_t len)
{
	struct session *session = arg;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(++session->drawn * 0x9e3779b97f4a7c15u >> 56);
	return 0;
}

/* A call waits: partners may talk meanwhile. */
static void world_idle(void *arg, uint64_t until_us)
{
	struct session *session = arg;
	uint8_t kind = session->in_len ? 0 : input8(&session->input);
	uint64_t next_us = session_device_next_us(session);

	CLAIM(++session->idles < IDLES_MAX);
	if (kind & 1)
		session_packet(session);
	else if (kind & 2)
		session_answer(session);
	else if (kind & 4 && session->mover.caps)
		session_device_step(session);
	until_us = next_us < until_us ? next_us : until_us;
	if (session->in_len && until_us > session->now_us + ARRIVAL_US)
		session->now_us += ARRIVAL_US;
	else if (until_us > session->now_us)
		session->now_us = until_us;
}

void session_work(struct session *session)
{
	for (uint32_t i = 0; ripc_poll(session->ctx); i++)
		CLAIM(i < WORKS_MAX);
}

void session_pass(struct session *session, uint64_t us)
{
	uint64_t end_us = session->now_us + us;

	for (uint32_t i = 0; session->now_us < end_us; i++) {
		int64_t left = ripc_poll_timeout(session->ctx);
		uint64_t next_us = session_device_next_us(session);

		CLAIM(i < IDLES_MAX);
		left = left < 0 || (uint64_t)left > end_us - session->now_us ?
			(int64_t)(end_us - session->now_us) : left;
		if (next_us < session->now_us + (uint64_t)left)
			left = next_us > session->now_us ? (int64_t)(next_us - session->now_us) : 0;
		session->now_us += left ? (uint64_t)left : 1;
		ripc_poll(session->ctx);
	}
}

void session_open(struct session *session)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .pool_bytes = session->pool_bytes,
		.flags = RIPC_SINGLE_THREAD, .backends = "world",
		.options = session->has_groups ? "group.many=2" : NULL, .timeout_ms = 1000,
		.peer_timeout_ms = 2000};

	session->now_us = 1000000000;
	session->mtu = MTU;
	for (uint32_t i = 0; i < PERSONS; i++) {
		session->persons[i] = (struct person){.service = 0x100 + i,
			.incarnation = 0x200 + i, .context = 0x300 + i / 2, .token_in = 0x400 + i,
			.next_short = 1, .next_long = 1, .host = (uint8_t)(1 + i)};
	}
	session->env = (struct ripc__env){.arg = session, .now_us = world_now_us,
		.wall_ns = world_wall_ns, .random = world_random, .backends = backends_of(session),
		.sources = world_sources, .idle = world_idle, .host_identity = 7};
	CLAIM(ripc__open_in(&cfg, &session->env, &session->ctx) == 0);
	CLAIM(ripc_service_open(session->ctx, 0, 0, &session->services[0]) == 0);
}
