/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context that is alone with the test: the test is its clock and its network, hands it the
 * packets of a partner who may say anything, and sees each packet that it sends. Its queries to the
 * resolver are answered by the test, or not at all.
 */
#ifndef LONE_H
#define LONE_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/net/env.h"
#include "core/wire/record.h"
#include "core/wire/wire.h"
#include "suite.h"
#include "util/hash/crc32c.h"

#define LONE_SENT_MAX 256
#define LONE_MTU      1452
#define LONE_EARLIER_MAX 8

struct lone {
	struct ripc__env env;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t now_us, seed;
	/* The partner: who it is, where, and the tokens. */
	uint64_t service, incarnation, context, token_in, token_out, proof;
	const uint64_t *keys; /* of what it announces; NULL: none */
	uint32_t unasked; /* bytes of a message that it takes unasked; 0: 64 KiB */
	uint8_t host;   /* its address */
	uint16_t house; /* which host that is, 0: of the same number */
	uint8_t via;    /* where its packets arrive, no part of its address; 0: not known */
	/* The packets for the next poll. */
	uint8_t in[LONE_MTU];
	size_t in_len;
	/* The packets before those, for the same poll. */
	uint8_t earlier[LONE_EARLIER_MAX][LONE_MTU];
	uint32_t earlier_len[LONE_EARLIER_MAX], n_earlier;
	struct ripc__addr from;
	/* The packets that the context has sent. */
	uint32_t n_sends; /* calls of send */
	uint32_t n_sent;
	uint8_t sent[LONE_SENT_MAX][LONE_MTU];
	uint32_t sent_len[LONE_SENT_MAX];
	uint8_t sent_to[LONE_SENT_MAX];
	uint64_t sent_bytes;
	uint32_t room;  /* for so many datagrams minus one the network has room; 0: for all */
	/* The last query of the resolver, and the answer to it. */
	uint64_t asked_id, asked_nonce;
	uint64_t heeds; /* queries about other IDs are not noted; 0: all are */
	uint32_t n_asked, n_asked_alone; /* alone: of the host that answered, and nobody else */
	uint64_t nonce_alone; /* of the last of these */
	uint8_t place[16]; /* the host where answers come from; zero: not known */
	uint8_t answer[WIRE_RECORD_MAX];
	size_t answer_len;
};

struct lone_port {
	struct lone *lone;
};

/* ---- the network ------------------------------------------------------------------------- */

static inline int lone_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	why[0] = remedy[0] = 0;
	return 0;
}

static inline int lone_open_port(void *port, const struct ripc__host *host,
		struct ripc__attr *attr)
{
	((struct lone_port *)port)->lone = host->env;
	*attr = (struct ripc__attr){.fd = -1, .receive_buffer = 4 << 20};
	return 0;
}

static inline void lone_close(void *state)
{
	(void)state;
}

static inline int lone_port_addr(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	(void)port;
	blob[0] = 1;
	return 1;
}

static inline int lone_addr_choose(void *port, const uint8_t *blob, size_t len,
		const uint8_t host[16], struct ripc__addr *addr)
{
	(void)port;
	(void)host;
	*addr = (struct ripc__addr){.len = (uint8_t)len};
	memcpy(addr->blob, blob, len);
	addr->host[15] = blob[0];
	return 0;
}

static inline int lone_peer_open(void *port, void *peer, const struct ripc__addr *addr)
{
	(void)port;
	*(uint8_t *)peer = addr->blob[0];
	return 0;
}

static inline void lone_peer_close(void *port, void *peer)
{
	(void)port;
	(void)peer;
}

static inline uint32_t lone_peer_mtu(void *port, void *peer)
{
	(void)port;
	(void)peer;
	return LONE_MTU;
}

static inline bool lone_peer_matches(void *port, const void *peer, const struct ripc__addr *from)
{
	(void)port;
	return *(const uint8_t *)peer == from->blob[0];
}

static inline void lone_where(void *port, const void *peer, struct ripc__where *where)
{
	*where = (struct ripc__where){.addr.len = 1, .addr.blob = {*(const uint8_t *)peer}};
	memcpy(where->addr.host, ((struct lone_port *)port)->lone->place,
		sizeof(where->addr.host));
}

static inline void lone_addr_text(const struct ripc__addr *addr, char text[64])
{
	snprintf(text, 64, "%u", addr->blob[0]);
}

static inline int lone_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n)
{
	struct lone *lone = ((struct lone_port *)port)->lone;

	lone->n_sends++;
	if (lone->room) {
		n = n < lone->room ? n : lone->room - 1;
		lone->room -= n;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = lone->n_sent++ % LONE_SENT_MAX;

		ck_assert_uint_le(tx[i].len, LONE_MTU);
		lone->sent_to[at] = *(uint8_t *)peer;
		lone->sent_len[at] = 0;
		lone->sent_bytes += tx[i].len;
		for (uint32_t v = 0; v < tx[i].n_iov; v++) {
			memcpy(lone->sent[at] + lone->sent_len[at], tx[i].iov[v].iov_base,
				tx[i].iov[v].iov_len);
			lone->sent_len[at] += (uint32_t)tx[i].iov[v].iov_len;
		}
	}
	return (int)n;
}

static inline int lone_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	struct lone *lone = ((struct lone_port *)port)->lone;
	uint32_t n_earlier = lone->n_earlier;

	(void)n;
	(void)all;
	if (!lone->in_len)
		return 0;
	for (uint32_t i = 0; i < n_earlier; i++)
		events[i] = (struct ripc__event){.kind = RIPC_EV_DATAGRAM, .data = lone->earlier[i],
			.len = lone->earlier_len[i], .from = &lone->from};
	events[n_earlier] = (struct ripc__event){.kind = RIPC_EV_DATAGRAM, .data = lone->in,
		.len = (uint32_t)lone->in_len, .from = &lone->from};
	lone->in_len = lone->n_earlier = 0;
	return (int)n_earlier + 1;
}

static inline void lone_release(void *port, void *handle)
{
	(void)port;
	(void)handle;
}

static const struct ripc__backend lone_backend = {
	.name = "lone", .id = 99,
	.port_size = sizeof(struct lone_port), .route_size = 8,
	.net = {.probe = lone_probe, .open = lone_open_port, .close = lone_close,
		.address = lone_port_addr},
	.route = {.choose = lone_addr_choose, .text = lone_addr_text, .open = lone_peer_open,
		.close = lone_peer_close, .where = lone_where, .mtu = lone_peer_mtu,
		.matches = lone_peer_matches},
	.datagrams = {.send = lone_send, .poll = lone_poll, .release = lone_release},
};
static const struct ripc__backend *const lone_backends[] = {&lone_backend, NULL};

/* ---- the resolver ------------------------------------------------------------------------ */

static inline int lone_source_open(void *source, const struct ripc__host *host)
{
	((struct lone_port *)source)->lone = host->env;
	return 0;
}

static inline int lone_ask(void *source, uint64_t id, const void *data, size_t len)
{
	struct lone *lone = ((struct lone_port *)source)->lone;
	struct wire_resolve query;

	ck_assert_int_eq(wire_resolve_decode(data, len, &query), 0);
	if (lone->heeds && lone->heeds != id)
		return 1;
	lone->asked_id = id;
	lone->asked_nonce = query.nonce;
	lone->n_asked++;
	return 1;
}

static inline int lone_ask_host(void *source, const uint8_t host[16], const void *data, size_t len)
{
	struct lone *lone = ((struct lone_port *)source)->lone;
	struct wire_resolve query;

	ck_assert_int_eq(wire_resolve_decode(data, len, &query), 0);
	ck_assert_mem_eq(host, lone->place, sizeof(lone->place));
	lone->asked_nonce = lone->nonce_alone = query.nonce;
	lone->asked_id = query.record.id;
	lone->n_asked_alone++;
	return 1;
}

static inline int lone_reply(void *source, const struct ripc__addr *to, const void *data,
		size_t len)
{
	(void)source;
	(void)to;
	(void)data;
	(void)len;
	return 0;
}

static inline int lone_source_poll(void *source, struct ripc__source_event *event)
{
	struct lone *lone = ((struct lone_port *)source)->lone;

	if (!lone->answer_len)
		return 0;
	*event = (struct ripc__source_event){.data = lone->answer,
		.len = (uint32_t)lone->answer_len};
	memcpy(event->host, lone->place, sizeof(event->host));
	lone->answer_len = 0;
	return 1;
}

static inline int lone_wait_fd(void *source)
{
	(void)source;
	return -1;
}

static const struct ripc__source lone_source = {
	.name = "lone", .size = sizeof(struct lone_port), .probe = lone_probe,
	.open = lone_source_open, .close = lone_close, .ask = lone_ask, .ask_host = lone_ask_host,
	.reply = lone_reply,
	.poll = lone_source_poll, .wait_fd = lone_wait_fd,
};
static const struct ripc__source *const lone_sources[] = {&lone_source, NULL};

/* ---- the world --------------------------------------------------------------------------- */

static inline uint64_t lone_now_us(void *arg)
{
	return ((struct lone *)arg)->now_us;
}

static inline uint64_t lone_wall_ns(void *arg)
{
	return ((struct lone *)arg)->now_us * 1000;
}

static inline int lone_random(void *arg, void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)suite_random(&((struct lone *)arg)->seed);
	return 0;
}

/* A waiting call: time passes until its next deadline. */
static inline void lone_idle(void *arg, uint64_t until_us)
{
	struct lone *lone = arg;

	lone->now_us = until_us > lone->now_us ? until_us : lone->now_us + 1;
}

/* Opens the context, on such a device, and its one service; the partner is nobody yet. */
static inline void lone_open_on(struct lone *lone, const struct ripc__backend *const *backends)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .pool_bytes = 64u << 20,
		.flags = RIPC_SINGLE_THREAD, .backends = "lone"};

	*lone = (struct lone){.now_us = 1000000000, .seed = 1, .service = 0x5e41, .context = 0xc0,
		.incarnation = 0x14c, .token_in = 0x70ce4, .host = 2};
	lone->env = (struct ripc__env){.arg = lone, .now_us = lone_now_us,
		.wall_ns = lone_wall_ns, .random = lone_random, .backends = backends,
		.sources = lone_sources, .idle = lone_idle};
	ck_assert_int_eq(ripc__open_in(&cfg, &lone->env, &lone->ctx), 0);
	ck_assert_int_eq(ripc_service_open(lone->ctx, 0, 0, &lone->svc), 0);
}

static inline void lone_open(struct lone *lone)
{
	lone_open_on(lone, lone_backends);
}

static inline struct ripc_stats lone_stats(struct lone *lone)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_stats_get(lone->ctx, &stats), 0);
	return stats;
}

/* Lets time pass and the timers run. */
static inline void lone_pass(struct lone *lone, uint64_t us)
{
	for (uint64_t end_us = lone->now_us + us; lone->now_us < end_us;) {
		int64_t left = ripc_poll_timeout(lone->ctx);

		left = left < 0 || (uint64_t)left > end_us - lone->now_us ?
			(int64_t)(end_us - lone->now_us) : left;
		lone->now_us += left ? (uint64_t)left : 1;
		ripc_poll(lone->ctx);
	}
}

/* ---- the partner ------------------------------------------------------------------------- */

/* Fills in the header, with a hello while there is no token. The next poll hands it over. */
static inline void lone_put(struct lone *lone, struct wire_packet *packet, const uint64_t *lens,
		const void *payload)
{
	size_t len;

	packet->h.src = lone->incarnation;
	packet->h.dst = ripc_service_incarnation(lone->svc);
	packet->h.token = lone->token_out;
	if (packet->h.type == WIRE_ANSWER)
		packet->h.number = packet->ack.number;
	if (!lone->token_out) {
		packet->h.flags |= WIRE_F_HELLO;
		packet->hello = (struct wire_hello){.token = lone->token_in,
			.service = lone->service, .context = lone->context,
			.to_service = ripc_service_id(lone->svc), .proof = lone->proof,
			.unasked = lone->unasked ? lone->unasked : 65536};
	}
	len = wire_encode(lone->in, packet, lens, lone->keys);
	ck_assert_uint_le(len + packet->payload_len, LONE_MTU);
	wire_checksum(lone->in, len, ripc__crc32c(0, payload, packet->payload_len));
	if (payload)
		memcpy(lone->in + len, payload, packet->payload_len);
	lone->in_len = len + packet->payload_len;
	lone->from = (struct ripc__addr){.len = lone->via ? 2 : 1, .blob = {lone->host, lone->via}};
	lone->from.host[14] = (uint8_t)(lone->house >> 8);
	lone->from.host[15] = (uint8_t)(lone->house ? lone->house : lone->host);
}

static inline void lone_say(struct lone *lone, struct wire_packet *packet, const uint64_t *lens,
		const void *payload)
{
	lone_put(lone, packet, lens, payload);
	while (lone->in_len)
		ripc_poll(lone->ctx);
}

/* The same, but the poll that finds it finds what is said next, too. */
static inline void lone_say_before(struct lone *lone, struct wire_packet *packet,
		const uint64_t *lens, const void *payload)
{
	uint32_t at = lone->n_earlier;

	ck_assert_uint_lt(at, LONE_EARLIER_MAX);
	lone_put(lone, packet, lens, payload);
	memcpy(lone->earlier[at], lone->in, lone->in_len);
	lone->earlier_len[at] = (uint32_t)lone->in_len;
	lone->n_earlier++;
	lone->in_len = 0;
}

/* Answers the last query: that ID means this incarnation, which lives at this host. */
static inline void lone_answer(struct lone *lone, uint64_t incarnation, uint64_t context,
		uint8_t host)
{
	struct wire_resolve answer = {.type = WIRE_RECORD, .nonce = lone->asked_nonce,
		.proof = 0x900f};
	struct wire_record_addr *addr = answer.record.addrs;

	answer.record.id = lone->asked_id;
	answer.record.incarnation = incarnation;
	answer.record.stamp = 1;
	answer.record.context = context;
	answer.record.n_addrs = 1;
	addr->backend = lone_backend.id;
	addr->len = 1;
	addr->blob[0] = host;
	lone->answer_len = wire_resolve_encode(lone->answer, &answer);
	while (lone->answer_len) {
		lone->now_us += 20000; /* the sources are looked at so often, at least */
		ripc_poll(lone->ctx);
	}
}

/* The last packet of a type that went out since *since packets had; false: none. */
static inline bool lone_hear(struct lone *lone, uint32_t since, uint8_t type,
		struct wire_packet *packet)
{
	for (uint32_t i = lone->n_sent; i-- > since && lone->n_sent - i <= LONE_SENT_MAX;) {
		uint32_t at = i % LONE_SENT_MAX;

		if (wire_decode(lone->sent[at], lone->sent_len[at], packet) == 0 &&
				packet->h.type == type)
			return true;
	}
	return false;
}

/* The resolver says that the partner is what it claims to be. */
static inline void lone_confirm(struct lone *lone)
{
	lone->asked_id = 0;
	ripc_resolve(lone->ctx, lone->service, 0);
	if (lone->asked_id == lone->service)
		lone_answer(lone, lone->incarnation, lone->context, lone->host);
	lone->n_asked = 0;
}

/* Gets a proof, says hello with it, and takes the token: a claim. */
static inline void lone_claim(struct lone *lone)
{
	struct wire_packet hello = {.h.type = WIRE_HELLO_ONLY}, packet;
	uint32_t since = lone->n_sent;

	lone_say(lone, &hello, NULL, NULL);
	ck_assert(lone_hear(lone, since, WIRE_RETRY, &packet));
	lone->proof = packet.value;
	lone_say(lone, &hello, NULL, NULL);
	ck_assert(lone_hear(lone, since, WIRE_HELLO_ONLY, &packet));
	lone->token_out = packet.hello.token;
	hello.h.flags = 0;
	lone_say(lone, &hello, NULL, NULL); /* the token comes back */
}

static inline void lone_introduce(struct lone *lone)
{
	lone_claim(lone);
	lone_confirm(lone);
}

/* From now on another partner speaks, of a context of its own, which lives on this host. */
static inline void lone_newcomer(struct lone *lone, uint8_t host)
{
	lone->service++;
	lone->incarnation++;
	lone->context++;
	lone->token_in++;
	lone->token_out = lone->proof = 0;
	lone->host = host;
	lone_introduce(lone);
}

#define LONE_LONG 100000 /* more bytes than go unasked */

/* Sends a message of so many bytes, whose end is told. incarnation 0: also to a successor. */
static inline int lone_send_long(struct lone *lone, uint64_t incarnation, size_t len)
{
	static char bytes[LONE_LONG];
	const struct iovec item = {bytes, len};
	const struct ripc_send send = {.size = sizeof(send), .to = lone->service, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | RIPC_NOWAIT, .timeout_ms = 60000,
		.to_incarnation = incarnation};

	return ripc_sendmsg(lone->svc, &send, NULL);
}

static inline void lone_expect_end(struct lone *lone, enum ripc_outcome outcome)
{
	struct ripc_msg *msg;

	ck_assert_int_eq(ripc_receive(lone->svc, 0, &msg), 0);
	ck_assert_int_eq(msg->kind, RIPC_COMPLETION);
	ck_assert_int_eq(msg->outcome, outcome);
	ripc_msg_free(msg);
}

/* The next holder of the ID is told to live there: what is left goes to it. */
static inline void lone_expect_next_holder(struct lone *lone, uint8_t host)
{
	uint32_t since = lone->n_sent;
	struct wire_packet packet;

	lone_answer(lone, lone->incarnation + 1, lone->context + 1, host);
	ck_assert(lone_hear(lone, since, WIRE_ANNOUNCE, &packet));
	ck_assert_uint_eq(packet.h.dst, lone->incarnation + 1);
}

static inline void lone_close_all(struct lone *lone)
{
	int error = ripc_close(lone->ctx, 0);

	ck_assert(error == 0 || error == -ETIMEDOUT);
}

#endif
