/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See sealed.h: the slots of the sealed network.
 *
 * Design notes. A datagram is sealed into a buffer of the port, so the inner network gets one
 * piece per datagram. A received datagram is unsealed in place. A datagram that the inner network
 * does not take has used up its counter all the same: no nonce is used twice. While there is no
 * session the route is opening (-EINPROGRESS) or takes nothing (0), and RIPC_EV_PEER follows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/objects.h"
#include "internal.h"
#include "sealed.h"
#include "util/text.h"

/* ---- moves ------------------------------------------------------------------------------- */

/*
 * See internal.h.
 *
 * Design notes. Reads and writes by the network itself are not sealed. Only the keys of memory are
 * sealed, because packets carry them. Therefore reads and writes are used only if the kernel keeps
 * others out (shm), or if the configuration says that nobody else is on the network. Otherwise core
 * sends the bytes in sealed datagrams. On a network with reads and writes this file cannot exclude
 * that bytes are altered (RIPC_CAP_DUBIOUS): the checksum of the whole, which comes sealed, shows
 * it. Pages are transferred only between processes of one user.
 */

static bool is_shm(const struct ripc__backend *inner)
{
	return inner->id == ripc__shm_backend.id;
}

bool ripc__sealed_trusts(const struct ripc__host *host, const struct ripc__backend *inner)
{
	bool is_trusted = false;
	char name[32];

	snprintf(name, sizeof(name), "%.15s.trusted", inner->name);
	/* The option's value has been checked. */
	(void)ripc__parse_switch(host->option(host->arg, name), &is_trusted);
	return is_trusted || is_shm(inner);
}

uint32_t ripc__sealed_caps(const struct ripc__host *host, const struct ripc__backend *inner,
		uint32_t caps)
{
	uint32_t kept = caps & (RIPC_CAP_RELIABLE | RIPC_CAP_SIZED);

	if (!ripc__sealed_trusts(host, inner))
		return kept | RIPC_CAP_INTACT;
	kept |= caps & (RIPC_CAP_READ | RIPC_CAP_WRITE | RIPC_CAP_REGISTERED | RIPC_CAP_MAP |
		RIPC_CAP_LAZY);
	if (host->option(host->arg, "shm.uids") || host->option(host->arg, "shm.gids"))
		kept &= ~(uint32_t)RIPC_CAP_MAP;
	if (!(caps & RIPC_CAP_INTACT) || !is_shm(inner))
		kept |= RIPC_CAP_DUBIOUS;
	return kept | RIPC_CAP_INTACT;
}

static int sealed_reg(void *port, void *route, void *mem, size_t len, bool source, void **region)
{
	return inner_of(port)->mem.reg(inner_port(port), inner_route(route), mem, len, source,
		region);
}

static void sealed_dereg(void *port, void *region)
{
	inner_of(port)->mem.dereg(inner_port(port), region);
}

static int sealed_mem_open(void *port, void *route, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	return inner_of(port)->mem.open(inner_port(port), inner_route(route), mem, len, writable,
		key);
}

static int sealed_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	return inner_of(port)->mem.close(inner_port(port), key, how, cookie);
}

static int sealed_move(void *port, void *route, const struct ripc__move *move)
{
	return inner_of(port)->remote.move(inner_port(port), inner_route(route), move);
}

static int sealed_map(void *port, void *route, const struct ripc__key *key, size_t len,
		struct ripc__mapping *mapping)
{
	return inner_of(port)->remote.map(inner_port(port), inner_route(route), key, len, mapping);
}

static void sealed_unmap(void *port, void *handle)
{
	inner_of(port)->remote.unmap(inner_port(port), handle);
}

/* ---- sealed ------------------------------------------------------------------------------ */

#define NAME_LEN     8u
#define BATCH        64u   /* datagrams that are handed over at once */
#define ROOM         69632u /* their bytes: an offload batch, or one datagram of maximal length */

_Static_assert(SEALED_BYTES == SEALED_EXTRA, "sealed.h");

/* ---- addresses --------------------------------------------------------------------------- */

/*
 * Makes an address of the sealed network. Without an inner address (NULL) it matches each route to
 * the member. With the name 0 it matches each route to the inner address, whoever the member is.
 */
static void addr_seal(struct ripc__addr *addr, const struct ripc__addr *inner, uint64_t name)
{
	if (inner)
		*addr = *inner;
	else
		memset(addr, 0, sizeof(*addr));
	put64(addr->blob + addr->len, name);
	addr->len += NAME_LEN;
}

/* Splits an address of the sealed network. False: the address is of another network. */
static bool addr_unseal(const struct ripc__addr *addr, struct ripc__addr *inner, uint64_t *name)
{
	if (addr->len < NAME_LEN)
		return false;
	*inner = *addr;
	inner->len -= NAME_LEN;
	*name = get64(addr->blob + inner->len);
	return true;
}

struct member *ripc__sealed_member(const struct seal *seal, const struct ripc__addr *addr)
{
	struct ripc__addr inner;
	uint64_t name;

	return addr_unseal(addr, &inner, &name) ? ripc__map_get(&seal->members, name) : NULL;
}

/* The blob for records: the inner network's blob, our key, our context. */
static int sealed_address(void *port, uint8_t *blob)
{
	const struct seal *seal = ((struct sealed_port *)port)->seal;
	int len = inner_of(port)->net.address(inner_port(port), blob);

	if (len < 0)
		return len;
	if (len + NAME_LEN > RIPC_ADDR_MAX)
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
	error = inner_of(port)->route.choose(inner_port(port), blob, len - 40, host, &inner);
	if (error)
		return error;
	if (inner.len + NAME_LEN > RIPC_ADDR_MAX)
		return -ENOTSUP;
	member = ripc__member_get(seal, blob + len - 40, get64(blob + len - 8));
	if (!member)
		return -ENOMEM;
	addr_seal(addr, &inner, member->name);
	return 0;
}

void ripc__sealed_proof(struct seal *seal, const struct ripc__addr *addr, uint64_t proof)
{
	struct member *member = ripc__sealed_member(seal, addr);

	if (member)
		ripc__handshake_proof(seal, member, proof);
}

/* ---- routes ------------------------------------------------------------------------------ */

static void inner_where(void *port, const void *route, struct ripc__addr *addr)
{
	struct ripc__where where;

	inner_of(port)->route.where(inner_port(port), (const struct sealed_route *)route + 1,
		&where);
	*addr = where.addr;
}

/*
 * Uses a session, or begins a handshake. opened: the result of the inner network. While the inner
 * network searches for a way, or a handshake goes on, the route is opening.
 */
static int way_begin(void *port, struct member *member, const struct ripc__addr *inner, int opened)
{
	struct sealed_net *net = net_of(port);
	int error;

	if (ripc__member_is_ready(net->seal, member))
		return opened;
	error = ripc__handshake_begin(net, member, inner);
	return error ? error : -EINPROGRESS;
}

static int route_open(void *port, void *route, const struct ripc__addr *addr)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;
	struct sealed_route *own = route;
	struct ripc__addr inner;
	struct member *member;
	uint64_t name;
	int error, opened;

	if (!addr_unseal(addr, &inner, &name))
		return -EINVAL;
	member = ripc__map_get(&seal->members, name);
	if (!member)
		return -EHOSTUNREACH;
	if (member->routes == ROUTES_MAX)
		return -ENOBUFS;
	opened = inner_of(port)->route.open(inner_port(port), inner_route(route), &inner);
	if (opened && opened != -EINPROGRESS)
		return opened;
	error = way_begin(port, member, &inner, opened);
	if (error && error != -EINPROGRESS) {
		inner_of(port)->route.close(inner_port(port), inner_route(route));
		return error;
	}
	own->member = member;
	ripc__member_hold(seal, member);
	return error;
}

int ripc__sealed_open(void *port, void *route)
{
	struct ripc__addr addr;

	inner_where(port, route, &addr);
	return way_begin(port, ((struct sealed_route *)route)->member, &addr, 0);
}

bool ripc__sealed_renew(void *port, void *route)
{
	struct member *member = ((struct sealed_route *)route)->member;
	struct seal *seal = net_of(port)->seal;
	struct ripc__addr addr;

	if (!member->lacks || (!member->handshake && ripc__member_is_unanswered(seal, member)))
		return false;
	if (ripc__member_is_ready(seal, member) && !member->is_stale && !member->handshake &&
			ripc__session_age_ms(seal, member->current) < REFUSED_MS)
		return false;
	inner_where(port, route, &addr);
	return ripc__handshake_begin(net_of(port), member, &addr) == 0;
}

static void route_close(void *port, void *route)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;

	inner_of(port)->route.close(inner_port(port), inner_route(route));
	ripc__member_drop(seal, ((struct sealed_route *)route)->member);
}

static void route_where(void *port, const void *route, struct ripc__where *where)
{
	const struct sealed_route *own = route;

	inner_of(port)->route.where(inner_port(port), own + 1, where);
	addr_seal(&where->addr, &where->addr, own->member->name);
}

static uint32_t route_mtu(void *port, void *route)
{
	return inner_of(port)->route.mtu(inner_port(port), inner_route(route)) - SEALED_EXTRA;
}

/* Has core got all reports about the member's handshakes, and did the last one succeed? */
static bool is_settled(const struct seal *seal, const struct member *member)
{
	return !member->due && ripc__member_is_ready(seal, member);
}

static bool route_matches(void *port, const void *route, const struct ripc__addr *from)
{
	const struct sealed_route *own = route;
	struct ripc__addr inner;
	uint64_t name;

	if (!addr_unseal(from, &inner, &name) || (name ? name != own->member->name :
			!is_settled(((const struct sealed_port *)port)->seal, own->member)))
		return false;
	return !inner.len || inner_of(port)->route.matches(inner_port(port), own + 1, &inner);
}

struct member *ripc__sealed_member_of(const void *route)
{
	return ((const struct sealed_route *)route)->member;
}

bool ripc__sealed_same(const void *route, const struct ripc__addr *from)
{
	const struct sealed_route *own = route;

	return from->len >= NAME_LEN &&
		get64(from->blob + from->len - NAME_LEN) == own->member->name;
}

void ripc__sealed_text(const void *port, const struct ripc__addr *addr, char text[64])
{
	struct ripc__addr inner;
	uint64_t name;

	text[0] = 0;
	if (addr_unseal(addr, &inner, &name))
		inner_of(port)->route.text(&inner, text);
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Makes new keys in time: the initiator begins, or later the responder, if the initiator fails. */
static void rekey_if_due(struct sealed_port *port, void *route, struct member *member)
{
	struct seal *seal = port->seal;
	const struct session *session = member->current;
	uint32_t wait_ms = session->is_initiator ? REKEY_MS : REKEY_MS + REKEY_MS / 4;
	struct ripc__addr addr;

	if (ripc__session_age_ms(seal, session) < wait_ms && session->sent < REKEY_COUNT &&
			!member->is_stale && !session->is_lost)
		return;
	if (member->handshake)
		return;
	inner_where(port, route, &addr);
	(void)ripc__handshake_begin(port->net, member, &addr);
}

/* Seals as many datagrams as there is room for. Returns their number, or -ENOMEM. */
static int seal_batch(struct sealed_port *port, struct session *session, const struct ripc__tx *tx,
		uint32_t n, struct iovec iov[BATCH])
{
	uint8_t *at = port->room;
	uint32_t i;

	for (i = 0; i < n && i < BATCH; i++) {
		uint32_t len = tx[i].len + SEALED_EXTRA;

		if (len > ROOM)
			return i ? (int)i : -EMSGSIZE;
		if ((size_t)(at - port->room) + len > ROOM)
			break;
		if (ripc__session_seal(&port->seal->ciphers, session, tx[i].iov, tx[i].n_iov, at))
			return i ? (int)i : -ENOMEM;
		iov[i] = (struct iovec){at, len};
		at += len;
	}
	return (int)i;
}

static int send_batch(struct sealed_port *port, void *route, struct session *session,
		const struct ripc__tx *tx, uint32_t n)
{
	struct iovec iov[BATCH];
	struct ripc__tx sealed[BATCH];
	int filled = seal_batch(port, session, tx, n, iov);

	for (int i = 0; i < filled; i++)
		sealed[i] = (struct ripc__tx){&iov[i], 1, (uint32_t)iov[i].iov_len};
	return filled < 0 ? filled : inner_of(port)->datagrams.send(inner_port(port),
		inner_route(route), sealed, (uint32_t)filled);
}

static int sealed_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	struct seal *seal = ((struct sealed_port *)port)->seal;
	struct member *member = ((struct sealed_route *)route)->member;
	struct ripc__addr addr;
	uint32_t taken = 0;

	if (!ripc__member_is_ready(seal, member)) {
		inner_where(port, route, &addr);
		return ripc__handshake_begin(net_of(port), member, &addr) == -EACCES ? -EACCES : 0;
	}
	rekey_if_due(port, route, member);
	while (taken < n) {
		int rc = send_batch(port, route, member->current, tx + taken, n - taken);

		if (rc <= 0)
			return taken ? (int)taken : rc;
		taken += (uint32_t)rc;
	}
	return (int)taken;
}

/* ---- receiving --------------------------------------------------------------------------- */

static bool data_input(struct sealed_net *net, struct ripc__event *event, struct ripc__addr *from)
{
	struct seal *seal = net->seal;
	uint8_t *bytes = (uint8_t *)event->data;
	struct session *session = ripc__map_get(&seal->sessions, get32(bytes + 4));
	int error;

	if (event->len < SEALED_EXTRA || get16(bytes + 2)) {
		seal->ctx->stats.drop_malformed++;
		return false;
	}
	if (!session || ripc__session_age_ms(seal, session) >= REJECT_MS) {
		seal->ctx->stats.drop_token++;
		ripc__unknown_answer(net, bytes, event->from);
		return false;
	}
	error = ripc__session_unseal(&seal->ciphers, session, bytes, event->len);
	if (error) {
		seal->ctx->stats.drop_duplicate += error == -EALREADY;
		seal->ctx->stats.drop_checksum += error != -EALREADY;
		return false;
	}
	ripc__session_confirm(net, session);
	addr_seal(from, event->from, session->member->name);
	event->data = bytes + SEALED_HEADER;
	event->len -= SEALED_EXTRA;
	event->from = from;
	event->is_old = session != session->member->current;
	return event->len > 0;
}

/*
 * The member may have lost our session, without proof. Core gets a failure hint, as if a network
 * had reported that nobody listens.
 */
static bool doubt_input(struct sealed_net *net, struct ripc__event *event,
		const struct member *member, struct ripc__addr *from)
{
	if (!member)
		return false;
	inner_of(net->port)->datagrams.release(net->inner_port, event->handle);
	addr_seal(from, NULL, member->name);
	*event = (struct ripc__event){.kind = RIPC_EV_HINT, .from = from};
	return true;
}

/* True: core gets the datagram. */
static bool datagram_input(struct sealed_net *net, struct ripc__event *event,
		struct ripc__addr *from)
{
	if (event->len < SEALED_HEADER || event->data[0] != SEALED_MAGIC) {
		net->seal->ctx->stats.drop_malformed++;
		ripc__seal_say(net, event->from, "sends without keys: refused; configure keys for "
			"that program, too (RIPC_KEYS)");
		return false;
	}
	if (event->data[1] == SEALED_DATA)
		return data_input(net, event, from);
	return doubt_input(net, event, ripc__handshake_input(net, (uint8_t *)event->data,
		event->len, event->from), from);
}

/* Passes the hint to core without the quote, which is of a sealed datagram. */
static bool hint_input(struct seal *seal, struct ripc__event *event, struct ripc__addr *from)
{
	const struct member *member = ripc__handshake_quoted(seal, event->data, event->len);

	if (!member)
		return false;
	addr_seal(from, event->from, member->name);
	event->data = NULL;
	event->len = 0;
	event->from = from;
	return true;
}

/*
 * The inner network has found a way (status 0), or none, or accepts datagrams again. This concerns
 * handshakes, and all routes to the address: one event to core covers these, however many members
 * there are.
 */
static bool way_input(struct sealed_net *net, struct ripc__event *event, struct ripc__addr *from)
{
	if (!event->from)
		return false;
	ripc__handshakes_way(net, event->from, event->status);
	addr_seal(from, event->from, 0);
	event->from = from;
	return true;
}

/* Reports the results of handshakes. */
static uint32_t exposed_tell(struct sealed_port *port, struct ripc__event *events, uint32_t at,
		uint32_t n)
{
	struct member **opened = &port->seal->opened, *member;
	uint8_t bit = sealed_net_bit(port->net);

	while (at < n && (member = *opened)) {
		if (!(member->due & bit)) {
			opened = &member->opened;
			continue;
		}
		member->due &= (uint8_t)~bit;
		if (member->due)
			opened = &member->opened;
		else
			ripc__exposed_remove(port->seal, opened);
		addr_seal(&port->from[at], NULL, member->name);
		events[at] = (struct ripc__event){.kind = RIPC_EV_PEER, .from = &port->from[at],
			.status = -member->errors[sealed_net_nth(port->net)]};
		at++;
	}
	return at;
}

/* True: core gets the event. events[kept] and its address are free to use. */
static bool event_input(struct sealed_port *port, struct ripc__event *event, uint32_t kept)
{
	/* Some networks have addresses of any length, which strangers choose. */
	bool is_long = event->from && event->from->len + NAME_LEN > RIPC_ADDR_MAX;

	switch (event->kind) {
	case RIPC_EV_DATAGRAM:
		if (!is_long && datagram_input(port->net, event, &port->from[kept]))
			return true;
		port->seal->ctx->stats.drop_malformed += is_long;
		inner_of(port)->datagrams.release(inner_port(port), event->handle);
		return false;
	case RIPC_EV_HINT:
		return !is_long && hint_input(port->seal, event, &port->from[kept]);
	case RIPC_EV_PEER:
		return !is_long && way_input(port->net, event, &port->from[kept]);
	default:
		return true;
	}
}

static int sealed_poll(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	struct sealed_port *port = state;
	int found = inner_of(port)->datagrams.poll(inner_port(port), events, n, all);
	uint32_t kept = 0;

	for (int i = 0; i < found; i++) {
		struct ripc__event event = events[i];

		if (event_input(port, &event, kept))
			events[kept++] = event;
	}
	return (int)exposed_tell(port, events, kept, n);
}

/* ---- slots of the inner network ---------------------------------------------------------- */

static int sealed_net_open(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct seal *seal = ((struct ripc_context *)host->arg)->seal;
	struct sealed_port *port = state;
	int error;

	port->seal = seal;
	port->net = &seal->nets[seal->n_nets - 1]; /* the network that ripc__sealed() added last */
	port->room = malloc(ROOM);
	if (!port->room)
		return -ENOMEM;
	error = inner_of(port)->net.open(inner_port(port), host, attr);
	if (error) {
		free(port->room);
		return error;
	}
	attr->caps = ripc__sealed_caps(host, inner_of(port), attr->caps);
	port->net->port = port;
	port->net->inner_port = inner_port(port);
	return 0;
}

static void sealed_net_close(void *state)
{
	struct sealed_port *port = state;

	inner_of(port)->net.close(inner_port(port));
	port->net->port = NULL;
	free(port->room);
	port->room = NULL;
}

static int sealed_arm(void *port)
{
	if (((struct sealed_port *)port)->seal->opened)
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

static const struct ripc__backend sealed_ops = {
	.net = {
		.open = sealed_net_open,
		.close = sealed_net_close,
		.address = sealed_address,
		.arm = sealed_arm,
	},
	.route = {
		.choose = addr_choose,
		.open = route_open,
		.close = route_close,
		.where = route_where,
		.mtu = route_mtu,
		.matches = route_matches,
	},
	.datagrams = {
		.send = sealed_send,
		.poll = sealed_poll,
	},
	.mem = {
		.reg = sealed_reg,
		.dereg = sealed_dereg,
		.open = sealed_mem_open,
		.close = sealed_mem_close,
	},
	.remote = {
		.move = sealed_move,
		.map = sealed_map,
		.unmap = sealed_unmap,
	},
};

const struct ripc__backend *ripc__sealed(struct ripc_context *ctx,
		const struct ripc__backend *inner)
{
	struct seal *seal = ctx->seal;
	struct sealed_net *net = &seal->nets[seal->n_nets];

	if (!inner->is_sealable || seal->n_nets == SEALED_NETS)
		return NULL;
	seal->n_nets++;
	*net = (struct sealed_net){.seal = seal, .inner = inner, .ops = sealed_ops};
	net->ops.name = inner->name;
	net->ops.id = (uint8_t)(inner->id + SEALED_ID);
	net->ops.port_size = sizeof(struct sealed_port) + inner->port_size;
	net->ops.route_size = sizeof(struct sealed_route) + inner->route_size;
	net->ops.net.probe = inner->net.probe;
	net->ops.net.wait = inner->net.wait ? sealed_wait : NULL;
	net->ops.net.wake = inner->net.wake ? sealed_wake : NULL;
	net->ops.net.stats = inner->net.stats ? sealed_stats : NULL;
	net->ops.datagrams.release = inner->datagrams.release; /* uses no port */
	return &net->ops;
}
