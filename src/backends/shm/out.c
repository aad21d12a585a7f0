/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links from us to receivers: routes, connecting, and sending. A receiver that hands us memory
 * which could be taken away, or writes nonsense, loses its link and nothing else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "util/bytes.h"
#include "util/rare.h"
#include "util/system/cancel.h"

/* A receiver that closes this many links before they have a ring has no descriptors for them. */
#define TURNED_AWAY_MAX 3u

/* ---- routes ------------------------------------------------------------------------------ */

static struct shm_out *find(const struct shm_port *port, const uint8_t name[SHM_NAME_LEN])
{
	struct shm_out *out = ripc__map_get(&port->outs, get64(name));

	while (out && memcmp(out->name, name, SHM_NAME_LEN) != 0)
		out = out->next;
	return out;
}

static int add(struct shm_port *port, struct shm_out *out)
{
	struct shm_out *other = ripc__map_get(&port->outs, get64(out->name));

	if (!other)
		return ripc__map_put(&port->outs, get64(out->name), out);
	out->next = other->next;
	other->next = out;
	return 0;
}

static void drop(struct shm_port *port, struct shm_out *out)
{
	struct shm_out *first = ripc__map_get(&port->outs, get64(out->name));

	if (first != out) {
		while (first->next != out)
			first = first->next;
		first->next = out->next;
		return;
	}
	if (out->next)
		ripc__map_replace(&port->outs, get64(out->name), out->next);
	else
		ripc__map_remove(&port->outs, get64(out->name));
}

int ripc__shm_route_open(void *state, void *route_state, const struct ripc__addr *addr)
{
	struct shm_port *port = state;
	struct shm_route *route = route_state;
	struct shm_out *out;

	if (addr->len != SHM_ADDR_LEN)
		return -EINVAL;
	out = find(port, addr->blob + 8);
	if (!out) {
		out = calloc(1, sizeof(*out));
		if (!out)
			return -ENOMEM;
		out->watch = (struct shm_watch){SHM_OUT, -1};
		out->port = port;
		memcpy(out->name, addr->blob + 8, SHM_NAME_LEN);
		if (add(port, out)) {
			free(out);
			return -ENOMEM;
		}
	} else if (out->state == SHM_DEAD) {
		out->state = SHM_IDLE; /* a new route tries again */
		out->n_turned_away = 0;
	}
	out->refs++;
	route->out = out;
	return 0;
}

void ripc__shm_out_cut(struct shm_port *port, struct shm_out *out)
{
	port->n_socket_links -= out->state == SHM_EARLY;
	ripc__shm_exports_end(out);
	ripc__shm_unwatch(port, &out->watch);
	ripc__shm_point("out_closed");
	if (out->ring) {
		ripc__shm_segment_unmap(out->ring->memory, SHM_RING_LEN);
		ripc__shm_segment_unmap((void *)out->board, SHM_BOARD_LEN);
		ripc__shm_segment_unmap(out->bits, SHM_BITS_LEN);
		free(out->ring);
		out->ring = NULL;
	}
	ripc__shm_point("out_cut");
	/* The receiver may still be there: it, or the kernel, may just have been out of memory. */
	out->state = SHM_IDLE;
}

void ripc__shm_route_close(void *state, void *route_state)
{
	struct shm_port *port = state;
	struct shm_out *out = ((struct shm_route *)route_state)->out;

	if (--out->refs > 0)
		return;
	drop(port, out);
	ripc__shm_out_cut(port, out);
	free(out);
}

void ripc__shm_where(void *port, const void *route, struct ripc__where *where)
{
	const uint8_t *name = ((const struct shm_route *)route)->out->name;

	ripc__shm_addr_fill(port, name, &where->addr);
	where->reader = get64(name);
}

uint32_t ripc__shm_route_mtu(void *port, void *route)
{
	(void)port;
	(void)route;
	return RIPC_DATAGRAM_MAX;
}

bool ripc__shm_route_matches(void *port, const void *route, const struct ripc__addr *from)
{
	const struct shm_out *out = ((const struct shm_route *)route)->out;

	(void)port;
	return from->len == SHM_ADDR_LEN && memcmp(from->blob + 8, out->name, SHM_NAME_LEN) == 0;
}

/* ---- connecting -------------------------------------------------------------------------- */

/* 0; -EAGAIN: the receiver is behind with accepting; other errors: no receiver is there for us. */
static int connect_to(struct shm_port *port, struct shm_out *out)
{
	int fd = ripc__shm_connect(out->name, port->name), error;
	struct ucred who;

	if (fd < 0)
		return fd;
	out->watch.fd = fd;
	error = ripc__shm_who(fd, &who);
	if (!error && !ripc__shm_admits(&port->dev.admission, fd, &who))
		error = -EACCES;
	if (!error)
		out->uid = who.uid;
	error = error ? error : ripc__shm_watch(port, &out->watch);
	if (error)
		ripc__shm_unwatch(port, &out->watch);
	else
		out->state = SHM_EARLY;
	ripc__shm_point("link_begun");
	out->is_self = !error && ripc__shm_is_self(fd);
	port->n_socket_links += !error;
	return error;
}

static int map_offer(struct shm_out *out, const struct shm_ring_offer *offer)
{
	void *memory, *board, *bits;
	int error = ripc__shm_segment_map(offer->ring_fd, SHM_RING_LEN, true, &memory);

	if (error)
		return error;
	ripc__shm_point("offer_half_mapped");
	error = ripc__shm_segment_map(offer->board_fd, SHM_BOARD_LEN, false, &board);
	if (error)
		goto unmap_ring;
	error = ripc__shm_segment_map(offer->bits_fd, SHM_BITS_LEN, true, &bits);
	if (error)
		goto unmap_board;
	out->ring = calloc(1, sizeof(*out->ring));
	if (out->ring) {
		out->ring->memory = memory;
		out->board = board;
		out->bits = bits;
		out->index = offer->index;
		return 0;
	}
	error = -ENOMEM;
	ripc__shm_segment_unmap(bits, SHM_BITS_LEN);
unmap_board:
	ripc__shm_segment_unmap(board, SHM_BOARD_LEN);
unmap_ring:
	ripc__shm_segment_unmap(memory, SHM_RING_LEN);
	return error;
}

/*
 * No more datagrams are sent over the socket. A receiver that cannot be notified goes on polling
 * it, which costs time, and is notified by the next WAKE. That WAKE also ends a sleep, hence the
 * first datagram in the ring need not send another.
 */
static void tell_linked(struct shm_out *out)
{
	uint32_t asleep = atomic_load(&out->board->asleep);

	if (ripc__shm_send_head(out->watch.fd, SHM_WAKE) == 0 &&
			asleep % 4 == SHM_ASLEEP_ON_SOCKETS)
		out->rung = asleep;
}

void ripc__shm_out_input(struct shm_port *port, struct shm_out *out)
{
	struct shm_ring_offer offer;
	bool is_early;
	int got;

	if (out->watch.fd < 0)
		return;
	got = ripc__shm_receive_offer(out->watch.fd, &offer);
	/* Without descriptors, or without memory, the socket stays in use. */
	if (got == SHM_NOTHING || got == -EMFILE)
		return;
	if (got == SHM_RING) {
		ripc__shm_point("offer_taken");
		/* Without memory for the ring the socket stays in use. */
		if (out->state == SHM_EARLY && map_offer(out, &offer) == 0) {
			out->state = SHM_LINKED;
			out->n_turned_away = 0;
			port->n_socket_links--;
			tell_linked(out);
		}
		ripc__shm_point("linked");
		close(offer.ring_fd);
		close(offer.board_fd);
		close(offer.bits_fd);
		return;
	}
	is_early = out->state == SHM_EARLY;
	ripc__shm_out_cut(port, out);
	if (got == SHM_REFUSED)
		shm_out_die(out, -EACCES);
	else if (is_early)
		out->n_turned_away++;
}

int ripc__shm_out_connect(struct shm_port *port, struct shm_out *out)
{
	int error = 0;

	if (out->state == SHM_IDLE)
		error = connect_to(port, out);
	else if (out->state == SHM_DEAD)
		error = out->why;
	return error;
}

/* ---- sending ----------------------------------------------------------------------------- */

/* Sends through the socket. Returns how many were taken. */
static uint32_t send_early(struct shm_port *port, struct shm_out *out, const struct ripc__tx *tx,
		uint32_t n)
{
	uint32_t taken;

	for (taken = 0; taken < n && tx[taken].len <= RIPC_DATAGRAM_MAX; taken++) {
		int error = ripc__shm_send_datagram(out->watch.fd, &tx[taken]);

		if (error && error != -EAGAIN)
			ripc__shm_out_input(port, out); /* the receiver may have said why */
		if (error && error != -EAGAIN && out->state == SHM_EARLY)
			ripc__shm_out_cut(port, out);
		if (error)
			break;
		ripc__shm_point("early_sent");
	}
	return taken;
}

/* 0; -EAGAIN: nothing can be sent now; -EMFILE: one of the two has no descriptor for the link. */
static int link_begin(struct shm_port *port, struct shm_out *out)
{
	int error;

	if (out->n_turned_away >= TURNED_AWAY_MAX) {
		out->n_turned_away = 0;
		return -EMFILE;
	}
	error = connect_to(port, out);
	/* The name of a socket that is gone is never used again. */
	if (error == -ECONNREFUSED || error == -EACCES) {
		shm_out_die(out, error == -EACCES ? error : -ECONNRESET);
		return 0;
	}
	if (error == -EMFILE || error == -ENFILE)
		return -EMFILE;
	return error ? -EAGAIN : 0;
}

/* Advances the link; errors as above. */
static int advance(struct shm_port *port, struct shm_out *out)
{
	if (out->state == SHM_IDLE)
		return link_begin(port, out);
	if (out->state == SHM_EARLY)
		ripc__shm_out_input(port, out);
	return 0;
}

static uint32_t put_all(struct shm_out *out, const struct ripc__tx *tx, uint32_t n)
{
	struct shm_ring_out *ring = out->ring;
	const struct ripc__tx *at = tx, *end = tx + n;

	while (at < end && at->len <= RIPC_DATAGRAM_MAX && ripc__shm_ring_put(ring, at))
		at++;
	if (at > tx)
		ripc__shm_rouse(out);
	return (uint32_t)(at - tx);
}

void ripc__shm_out_rouse(struct shm_port *port, const uint8_t name[SHM_NAME_LEN])
{
	struct shm_out *out = find(port, name);

	if (out && out->state == SHM_LINKED)
		ripc__shm_rouse(out);
}

/* Sends without a ring: none yet, or not any more. */
static RIPC__RARE int send_unlinked(struct shm_port *port, struct shm_route *route,
		const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct shm_out *out = route->out;
	uint32_t taken = 0;
	int error = advance(port, out);

	/* The link has just been cut, and is advanced again at once. */
	if (!error && out->state == SHM_IDLE)
		error = advance(port, out);
	if (error)
		return error == -EAGAIN ? 0 : error;
	if (out->state == SHM_LINKED)
		return ripc__shm_send(port, route, tx, n);
	if (out->state == SHM_EARLY)
		taken = send_early(port, out, tx, n);
	return !taken && out->state == SHM_DEAD ? out->why : (int)taken;
}

int ripc__shm_send(void *port, void *route, const struct ripc__tx *tx, uint32_t n)
{
	struct shm_out *out = ((struct shm_route *)route)->out;

	if (tx->len > RIPC_DATAGRAM_MAX)
		return -EMSGSIZE;
	if (out->state != SHM_LINKED)
		return send_unlinked(port, route, tx, n);
	return (int)put_all(out, tx, n);
}
