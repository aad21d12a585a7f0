/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sealed.h: the slots of the sealed network.
 *
 * Design notes. What is sent is sealed into a buffer of the port, so the inner network gets one
 * piece per datagram; what comes is unsealed where it lies. A datagram that the inner network does
 * not take has used up its counter all the same: no nonce is used twice. While there is no session
 * the route is opening (-EINPROGRESS) or takes nothing (0), and RIPC_EV_PEER follows.
 */
#include "sealed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "datagram.h"
#include "handshake.h"
#include "member.h"

#define NUMBER_LEN   8u
#define BATCH        64u   /* datagrams that are handed over at once */
#define ROOM         69632u /* bytes of them: an offload batch, or one datagram of the longest */
#define QUOTE_LEN    40u

_Static_assert(SEALED_BYTES == SEALED_EXTRA, "sealed.h");

/* In front of the inner port, which begins at a multiple of 16. */
struct sealed_port {
	_Alignas(16) struct seal *seal;
	uint8_t *room;
	struct ripc__addr from[RIPC_EVENTS_MAX]; /* of the events of one poll */
	uint8_t quotes[RIPC_EVENTS_MAX][QUOTE_LEN];
};

struct sealed_route {
	_Alignas(16) struct member *member;
};

static void *inner_port(void *port)
{
	return (struct sealed_port *)port + 1;
}

static void *inner_route(void *route)
{
	return (struct sealed_route *)route + 1;
}

static const struct ripc__backend *inner_of(const void *port)
{
	return ((const struct sealed_port *)port)->seal->inner;
}

/* ---- addresses --------------------------------------------------------------------------- */

/* Nowhere in particular (inner NULL): matches each route that leads to the member. */
static void addr_seal(struct ripc__addr *addr, const struct ripc__addr *inner, uint64_t number)
{
	if (inner)
		*addr = *inner;
	else
		memset(addr, 0, sizeof(*addr));
	put64(addr->blob + addr->len, number);
	addr->len += NUMBER_LEN;
}

/* False: that is none of ours. */
static bool addr_unseal(const struct ripc__addr *addr, struct ripc__addr *inner, uint64_t *number)
{
	if (addr->len < NUMBER_LEN)
		return false;
	*inner = *addr;
	inner->len -= NUMBER_LEN;
	*number = get64(addr->blob + inner->len);
	return true;
}

struct member *ripc__sealed_member(const struct seal *seal, const struct ripc__addr *addr)
{
	struct ripc__addr inner;
	uint64_t number;

	return addr_unseal(addr, &inner, &number) ? ripc__member_by_number(seal, number) : NULL;
}

/* A blob of a record: that of the inner network, our key, our context. */
static int sealed_address(void *port, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct seal *seal = ((struct sealed_port *)port)->seal;
	int len = seal->inner->net.address(inner_port(port), blob);

	if (len < 0)
		return len;
	if (len + 40 > RIPC_ADDR_MAX)
		return -ENOTSUP;
	memcpy(blob + len, seal->dir.own.public, 32);
	put64(blob + len + 32, seal->ctx->incarnation);
	return len + 40;
}

static int addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;
	struct ripc__addr inner;
	struct member *member;
	int error;

	if (len < 40 || !get64(blob + len - 8))
		return -EBADMSG;
	error = seal->inner->route.choose(inner_port(port), blob, len - 40, host, &inner);
	if (error)
		return error;
	if (inner.len + NUMBER_LEN > RIPC_ADDR_MAX)
		return -ENOTSUP;
	member = ripc__member_get(seal, blob + len - 40, get64(blob + len - 8));
	if (!member)
		return -ENOMEM;
	addr_seal(addr, &inner, member->number);
	return 0;
}

void ripc__sealed_proof(struct seal *seal, const struct ripc__addr *addr, uint64_t proof)
{
	struct member *member = ripc__sealed_member(seal, addr);

	if (member)
		member->proof = proof;
}

/* ---- routes ------------------------------------------------------------------------------ */

static int route_open(void *port, void *route, const struct ripc__addr *addr)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;
	struct sealed_route *own = route;
	struct ripc__addr inner;
	struct member *member;
	uint64_t number;
	int error;

	if (!addr_unseal(addr, &inner, &number))
		return -EINVAL;
	member = ripc__member_by_number(seal, number);
	if (!member)
		return -EHOSTUNREACH;
	error = ripc__member_is_ready(seal, member) ? 0 :
		ripc__handshake_begin(seal, member, &inner);
	if (error)
		return error;
	error = seal->inner->route.open(inner_port(port), inner_route(route), &inner);
	if (error)
		return error;
	own->member = member;
	ripc__member_hold(seal, member);
	return ripc__member_is_ready(seal, member) ? 0 : -EINPROGRESS;
}

int ripc__sealed_open(struct seal *seal, void *route)
{
	struct sealed_route *own = route;
	struct ripc__where where;
	int error;

	if (ripc__member_is_ready(seal, own->member))
		return 0;
	seal->inner->route.where(seal->inner_port, inner_route(route), &where);
	error = ripc__handshake_begin(seal, own->member, &where.addr);
	return error ? error : -EINPROGRESS;
}

static void route_close(void *port, void *route)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;

	seal->inner->route.close(inner_port(port), inner_route(route));
	ripc__member_drop(seal, ((struct sealed_route *)route)->member);
}

static void route_where(void *port, const void *route, struct ripc__where *where)
{
	const struct sealed_route *own = route;

	inner_of(port)->route.where(inner_port(port), own + 1, where);
	addr_seal(&where->addr, &where->addr, own->member->number);
}

static uint32_t route_mtu(void *port, void *route)
{
	return inner_of(port)->route.mtu(inner_port(port), inner_route(route)) - SEALED_EXTRA;
}

static bool route_matches(void *port, const void *route, const struct ripc__addr *from)
{
	const struct sealed_route *own = route;
	struct ripc__addr inner;
	uint64_t number;

	return addr_unseal(from, &inner, &number) && number == own->member->number &&
		(!inner.len || inner_of(port)->route.matches(inner_port(port), own + 1, &inner));
}

struct member *ripc__sealed_member_of(const void *route)
{
	return ((const struct sealed_route *)route)->member;
}

bool ripc__sealed_same(const void *route, const struct ripc__addr *from)
{
	const struct sealed_route *own = route;

	return from->len >= NUMBER_LEN &&
		get64(from->blob + from->len - NUMBER_LEN) == own->member->number;
}

/* This slot is told of no port, so what udp does not understand has no words. */
static void addr_text(const struct ripc__addr *addr, char text[64])
{
	struct ripc__addr inner;
	uint64_t number;

	text[0] = 0;
	if (addr_unseal(addr, &inner, &number))
		ripc__udp_backend.route.text(&inner, text);
}

/* ---- sending ----------------------------------------------------------------------------- */

/* New keys in good time: by the initiator, or later by the responder, should that one not. */
static void rekey_if_due(struct seal *seal, void *route, struct member *member)
{
	const struct session *session = member->current;
	uint64_t age_us = seal->ctx->now_us - session->born_us;
	uint64_t wait_us = session->is_initiator ? REKEY_US : REKEY_US + REKEY_US / 4;
	struct ripc__where where;

	if (age_us < wait_us && session->sent < REKEY_COUNT)
		return;
	if (member->handshake)
		return;
	seal->inner->route.where(inner_port(seal->port), inner_route(route), &where);
	(void)ripc__handshake_begin(seal, member, &where.addr);
}

/* Seals as many as there is room for. Returns how many, or -ENOMEM. */
static int seal_batch(struct seal *seal, struct session *session, const struct ripc__tx *tx,
		uint32_t n, struct iovec iov[BATCH])
{
	uint8_t *at = seal->port->room;
	uint32_t i;

	for (i = 0; i < n && i < BATCH; i++) {
		uint32_t len = tx[i].len + SEALED_EXTRA;

		if (len > ROOM)
			return i ? (int)i : -EMSGSIZE;
		if ((size_t)(at - seal->port->room) + len > ROOM)
			break;
		if (ripc__session_seal(&seal->ciphers, session, tx[i].iov, tx[i].n_iov, at))
			return i ? (int)i : -ENOMEM;
		iov[i] = (struct iovec){at, len};
		at += len;
	}
	return (int)i;
}

static int send_batch(struct seal *seal, void *route, struct session *session,
		const struct ripc__tx *tx, uint32_t n)
{
	struct iovec iov[BATCH];
	struct ripc__tx sealed[BATCH];
	int filled = seal_batch(seal, session, tx, n, iov);

	for (int i = 0; i < filled; i++)
		sealed[i] = (struct ripc__tx){&iov[i], 1, (uint32_t)iov[i].iov_len};
	return filled < 0 ? filled : seal->inner->datagrams.send(inner_port(seal->port),
		inner_route(route), sealed, (uint32_t)filled);
}

static int sealed_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;
	struct member *member = ((struct sealed_route *)route)->member;
	struct ripc__where where;
	uint32_t taken = 0;

	if (!ripc__member_is_ready(seal, member)) {
		seal->inner->route.where(inner_port(port), inner_route(route), &where);
		return ripc__handshake_begin(seal, member, &where.addr) == -EACCES ? -EACCES : 0;
	}
	rekey_if_due(seal, route, member);
	if (tx->iov[0].iov_len >= 32)
		memcpy(member->sent, (const uint8_t *)tx->iov[0].iov_base + 8, 24);
	while (taken < n) {
		int rc = send_batch(seal, route, member->current, tx + taken, n - taken);

		if (rc <= 0)
			return taken ? (int)taken : rc;
		taken += (uint32_t)rc;
	}
	return (int)taken;
}

/* ---- receiving --------------------------------------------------------------------------- */

static bool data_input(struct seal *seal, struct ripc__event *event, struct ripc__addr *from)
{
	uint8_t *bytes = (uint8_t *)event->data;
	struct session *session = ripc__map_get(&seal->sessions, get32(bytes + 4));
	int error;

	if (event->len < SEALED_EXTRA || get16(bytes + 2)) {
		seal->ctx->stats.drop_malformed++;
		return false;
	}
	if (!session || seal->ctx->now_us - session->born_us >= REJECT_US) {
		seal->ctx->stats.drop_token++;
		ripc__unknown_answer(seal, bytes, event->len, event->from);
		return false;
	}
	error = ripc__session_unseal(&seal->ciphers, session, bytes, event->len);
	if (error) {
		seal->ctx->stats.drop_duplicate += error == -EALREADY;
		seal->ctx->stats.drop_checksum += error != -EALREADY;
		return false;
	}
	ripc__session_confirm(seal, session);
	addr_seal(from, event->from, session->member->number);
	event->data = bytes + SEALED_HEADER;
	event->len -= SEALED_EXTRA;
	event->from = from;
	return event->len > 0;
}

/* Returns whether core gets it. */
static bool datagram_input(struct seal *seal, struct ripc__event *event, struct ripc__addr *from)
{
	if (event->len < SEALED_HEADER || event->data[0] != SEALED_MAGIC) {
		seal->ctx->stats.drop_malformed++;
		ripc__seal_say(seal, event->from, "sends without keys: refused; give that program "
			"keys, too (RIPC_KEYS)");
		return false;
	}
	if (event->data[1] == SEALED_DATA)
		return data_input(seal, event, from);
	ripc__handshake_input(seal, (uint8_t *)event->data, event->len, event->from);
	return false;
}

/* As if core had sent the datagram that is quoted itself. */
static void hint_of(const struct member *member, const struct ripc__addr *inner,
		struct ripc__event *event, struct ripc__addr *from, uint8_t quote[QUOTE_LEN])
{
	memset(quote, 0, QUOTE_LEN);
	memcpy(quote + 8, member->sent, 24);
	addr_seal(from, inner, member->number);
	event->kind = RIPC_EV_HINT;
	event->data = quote;
	event->len = QUOTE_LEN;
	event->from = from;
}

static bool hint_input(struct seal *seal, struct ripc__event *event, struct ripc__addr *from,
		uint8_t quote[QUOTE_LEN])
{
	const struct member *member = ripc__handshake_quoted(seal, event->data, event->len);

	if (member)
		hint_of(member, event->from, event, from, quote);
	return member;
}

/* What handshakes have come to. */
static uint32_t opened_tell(struct sealed_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	struct seal *seal = port->seal;

	for (; at < n && !list_empty(&seal->opened); at++) {
		struct member *member = list_entry(list_pop(&seal->opened), struct member, opened);

		addr_seal(&port->from[at], NULL, member->number);
		events[at] = (struct ripc__event){.kind = RIPC_EV_PEER, .status = member->status,
			.from = &port->from[at]};
	}
	return at;
}

static int sealed_poll(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	struct sealed_port *port = state;
	struct seal *seal = port->seal;
	int found = seal->inner->datagrams.poll(inner_port(port), events, n, all);
	uint32_t kept = 0;

	for (int i = 0; i < found; i++) {
		struct ripc__event event = events[i];
		bool is_datagram = event.kind == RIPC_EV_DATAGRAM;

		if (is_datagram ? datagram_input(seal, &event, &port->from[kept]) :
				event.kind == RIPC_EV_HINT && hint_input(seal, &event,
					&port->from[kept], port->quotes[kept]))
			events[kept++] = event;
		else if (is_datagram)
			seal->inner->datagrams.release(inner_port(port), event.handle);
	}
	return (int)opened_tell(port, events, kept, n);
}

/* ---- the rest is the inner network's ----------------------------------------------------- */

static int sealed_net_open(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct seal *seal = ((struct ripc_context *)host->arg)->seal;
	struct sealed_port *port = state;
	int error;

	port->seal = seal;
	port->room = malloc(ROOM);
	if (!port->room)
		return -ENOMEM;
	error = seal->inner->net.open(inner_port(port), host, attr);
	if (error) {
		free(port->room);
		return error;
	}
	attr->caps = (attr->caps & (RIPC_CAP_RELIABLE | RIPC_CAP_SIZED)) | RIPC_CAP_INTACT;
	seal->port = port;
	seal->inner_port = inner_port(port);
	return 0;
}

static void sealed_net_close(void *state)
{
	struct sealed_port *port = state;

	port->seal->inner->net.close(inner_port(port));
	free(port->room);
	port->room = NULL;
}

static int sealed_arm(void *port)
{
	if (!list_empty(&((struct sealed_port *)port)->seal->opened))
		return -EAGAIN;
	return inner_of(port)->net.arm ? inner_of(port)->net.arm(inner_port(port)) : 0;
}

static void sealed_wait(void *port)
{
	inner_of(port)->net.wait(inner_port(port));
}

static void sealed_wake(void *port)
{
	inner_of(port)->net.wake(inner_port(port));
}

static void sealed_stats(void *port, struct ripc__net_stats *stats)
{
	inner_of(port)->net.stats(inner_port(port), stats);
}

const struct ripc__backend *ripc__sealed(struct ripc_context *ctx,
		const struct ripc__backend *inner)
{
	struct seal *seal = ctx->seal;

	if (!inner->is_sealable || seal->inner)
		return NULL;
	seal->inner = inner;
	seal->ops = (struct ripc__backend){
		.name = inner->name,
		.id = (uint8_t)(inner->id + SEALED_ID),
		.port_size = sizeof(struct sealed_port) + inner->port_size,
		.route_size = sizeof(struct sealed_route) + inner->route_size,
		.net = {
			.probe = inner->net.probe,
			.open = sealed_net_open,
			.close = sealed_net_close,
			.address = sealed_address,
			.arm = sealed_arm,
			.wait = inner->net.wait ? sealed_wait : NULL,
			.wake = inner->net.wake ? sealed_wake : NULL,
			.stats = inner->net.stats ? sealed_stats : NULL,
		},
		.route = {
			.choose = addr_choose,
			.text = addr_text,
			.open = route_open,
			.close = route_close,
			.where = route_where,
			.mtu = route_mtu,
			.matches = route_matches,
		},
		.datagrams = {
			.send = sealed_send,
			.poll = sealed_poll,
			.release = inner->datagrams.release, /* uses no port */
		},
	};
	return &seal->ops;
}
