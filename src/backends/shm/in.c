/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links from senders to us: accepting them, giving them rings, and taking their datagrams. A
 * sender that violates the protocol loses its link; no other sender notices.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "util/buffers.h"
#include "util/system/cancel.h"
#include "util/system/locks.h"

#define ACCEPTS_MAX  8    /* connections accepted in one go */
#define MESSAGES_MAX 16   /* taken from one socket in one go */
#define TAKES_MAX    32   /* datagrams taken from one ring in one go */
#define STRIKES_MAX  3    /* of the clock, 1 to 1.5 s: the wait for hello, or a WAKE */
#define EARLY_MIN    2    /* datagrams over its socket, or */
#define OWED_POLLS   128  /* polls since hello: then it gets a ring once all else is done; */
#define EARLY_MAX    16   /* after so many datagrams in any case; if there is none, after so many */
#define TRIES_MAX    8    /* again, and each time twice as many: they double so often */

/* ---- coming and going -------------------------------------------------------------------- */

static int in_make(struct shm_port *port, int fd)
{
	struct shm_in *in;
	struct ucred who;
	int error = ripc__shm_who(fd, &who);

	if (error)
		return error;
	if (!ripc__shm_admits(&port->dev.admission, fd, &who))
		return -EACCES;
	in = calloc(1, sizeof(*in));
	if (!in)
		return -ENOMEM;
	in->watch = (struct shm_watch){SHM_IN, fd};
	in->index = SHM_RINGS_MAX;
	error = ripc__shm_share_enter(port, in, &who);
	if (error)
		goto free_in;
	error = ripc__shm_watch(port, &in->watch);
	if (error)
		goto leave_share;
	list_init(&in->end);
	list_append(&port->ins, &in->node);
	port->n_socket_links++;
	port->n_silent++;
	ripc__shm_clock_start(port);
	return 0;
leave_share:
	ripc__shm_share_leave(port, in);
free_in:
	free(in);
	return error;
}

/*
 * There is no descriptor for the next sender. The reserved one is given up to accept and close
 * the connection at once, which informs the sender; the sender may connect again. Otherwise the
 * socket would stay readable all the time.
 */
static void turn_away(struct shm_port *port)
{
	int fd;

	if (port->spare_fd >= 0)
		close(port->spare_fd);
	fd = accept4(port->listener.fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	port->spare_fd = fcntl(port->bell.fd, F_DUPFD_CLOEXEC, 0);
}

void ripc__shm_accept(struct shm_port *port)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(port->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		int error;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			turn_away(port);
		if (fd < 0)
			return;
		port->look = true; /* at its messages, and for more links */
		ripc__shm_point("accepted");
		error = in_make(port, fd);
		if (error == -EACCES)
			(void)ripc__shm_send_head(fd, SHM_REFUSED);
		if (error)
			close(fd);
		ripc__shm_point("admitted");
	}
}

/* Notes how the sender's datagrams arrive, as far as we know. */
static void way_set(struct shm_port *port, struct shm_in *in, enum shm_way way)
{
	uint32_t rings = (uint32_t)((way == SHM_BY_RING) - (in->way == SHM_BY_RING));

	port->n_ring_links += rings;
	port->n_socket_links -= rings;
	port->n_offered += (uint32_t)((way == SHM_OFFERED) - (in->way == SHM_OFFERED));
	in->way = way;
}

static void ring_close(struct shm_port *port, struct shm_in *in)
{
	if (!in->ring.memory)
		return;
	ripc__shm_segment_unmap(in->ring.memory, SHM_RING_LEN);
	in->ring.memory = NULL;
	way_set(port, in, SHM_BY_SOCKET);
	port->dev.ring_bytes -= SHM_RING_LEN;
	ripc__shm_share_take(in, SHM_SHARE_RINGS, -1);
	port->rings[in->index] = NULL;
	while (port->n_rings > 0 && !port->rings[port->n_rings - 1])
		port->n_rings--;
}

void ripc__shm_in_free(struct shm_port *port, struct shm_in *in)
{
	port->n_owed -= in->owed;
	ring_close(port, in);
	ripc__shm_point("ring_closed");
	ripc__shm_imports_end(port, in);
	ripc__shm_point("imports_ended");
	ripc__shm_unwatch(port, &in->watch);
	list_remove(&in->node);
	list_remove(&in->end);
	port->n_silent -= in->from.len == 0;
	port->n_socket_links--;
	ripc__shm_share_leave(port, in);
	free(in);
}

/* Nothing more will arrive over its socket: the link is freed once its ring is empty. */
static void shm_in_end(struct shm_port *port, struct shm_in *in)
{
	ripc__shm_unwatch(port, &in->watch);
	ripc__shm_point("in_ended");
	in->head_at_end = in->ring.head;
	list_remove(&in->end);
	list_append(&port->ended, &in->end);
}

/*
 * Has a partner died that had shown us others' memory? A child of the partner may keep the
 * socket open. The end of the link ends our leases of memory that we do not read, for which the
 * owner waits.
 */
static bool is_giver_dead(const struct shm_in *in)
{
	return in->watch.fd >= 0 && in->imports && in->imports->n_leases &&
		!ripc__shm_is_self(in->watch.fd) &&
		!ripc__is_pledged(in->imports->claims_fd, RIPC__PLEDGE_SECOND);
}

void ripc__shm_ins_strike(struct shm_port *port)
{
	list_for_each(node, &port->ins) {
		struct shm_in *in = list_entry(node, struct shm_in, node);
		bool has_hello = in->from.len > 0;

		if (port->n_leases && is_giver_dead(in))
			shm_in_end(port, in);
		if (in->watch.fd < 0 || (has_hello && in->way != SHM_OFFERED) ||
				++in->n_strikes < STRIKES_MAX)
			continue;
		if (has_hello)
			way_set(port, in, SHM_BY_RING);
		else
			shm_in_end(port, in);
	}
}

/*
 * Does the ring of an ended link still count? Its sender may still write there, but no more
 * messages than the ring can have held when the link ended.
 */
bool ripc__shm_in_lasts(const struct shm_in *in)
{
	return in->ring.memory && in->ring.head - in->head_at_end < SHM_SLOTS &&
		ripc__shm_ring_ready(&in->ring);
}

/* ---- the ring ---------------------------------------------------------------------------- */

static uint32_t free_index(const struct shm_port *port)
{
	uint32_t i = 0;

	while (i < port->n_rings && port->rings[i])
		i++;
	return i;
}

/* Gives a sender its ring. False: there is none now, for want of memory, or beyond the limits. */
static bool ring_offer(struct shm_port *port, struct shm_in *in)
{
	struct shm_ring_offer offer = {free_index(port), -1, port->board_fd, port->bits_fd};
	void *memory;
	bool sent;

	if (offer.index == SHM_RINGS_MAX || !ripc__shm_share_left(port, in, SHM_SHARE_RINGS))
		return false;
	if (ripc__shm_segment_make(SHM_RING_LEN, false, &memory, &offer.ring_fd))
		return false;
	ripc__shm_point("ring_made");
	sent = ripc__shm_send_offer(in->watch.fd, &offer) == 0;
	if (sent) {
		ripc__shm_point("offer_sent");
		in->ring = (struct shm_ring_in){.memory = memory};
		in->index = offer.index;
		in->n_strikes = 0;
		way_set(port, in, SHM_OFFERED);
		ripc__shm_clock_start(port);
		port->rings[in->index] = in;
		if (in->index >= port->n_rings)
			port->n_rings = in->index + 1;
		if (port->n_rings > SHM_DIRECT_MAX)
			atomic_store(&port->board->crowded, 1);
		port->dev.ring_bytes += SHM_RING_LEN;
		ripc__shm_share_take(in, SHM_SHARE_RINGS, 1);
	} else {
		ripc__shm_segment_unmap(memory, SHM_RING_LEN);
	}
	close(offer.ring_fd);
	ripc__shm_point("ring_entered");
	return sent;
}

/*
 * If there is no ring, the sender goes on over the socket, which is slower, and its own
 * datagrams cause another try: a sender that waits costs us nothing.
 */
static void offer_now(struct shm_port *port, struct shm_in *in)
{
	port->n_owed -= in->owed;
	in->owed = false;
	in->offer_at = 0;
	if (in->watch.fd < 0 || ring_offer(port, in))
		return;
	in->offer_at = in->n_early + (EARLY_MAX << in->n_tries);
	in->n_tries += in->n_tries < TRIES_MAX;
}

void ripc__shm_offer_owed(struct shm_port *port)
{
	RIPC__HOLD_CANCEL;

	list_for_each(node, &port->ins) {
		struct shm_in *in = list_entry(node, struct shm_in, node);

		if (in->owed && (in->n_early >= EARLY_MIN ||
				port->polls - in->greeted_at >= OWED_POLLS))
			offer_now(port, in);
	}
}

static void hand_over(struct shm_in *in, struct ripc__buffer *buffer, uint32_t len,
		struct ripc__event *event)
{
	ripc__buffer_hold(buffer, 1);
	event->kind = RIPC_EV_DATAGRAM;
	event->data = buffer->data;
	event->len = len;
	event->handle = buffer;
	event->from = &in->from;
}

uint32_t ripc__shm_in_take(struct shm_port *port, struct shm_in *in, struct ripc__event *events,
		uint32_t n)
{
	uint32_t at = 0, taken = 0;

	n = n < TAKES_MAX ? n : TAKES_MAX;
	do {
		struct ripc__buffer *buffer = ripc__buffers_find(port->buffers, &at);
		int len = buffer ? ripc__shm_ring_take(&in->ring, buffer->data) : 0;

		if (len < 0) {
			ring_close(port, in);
			shm_in_end(port, in);
			return taken;
		}
		if (len == 0)
			return taken;
		hand_over(in, buffer, (uint32_t)len, &events[taken++]);
	} while (taken < n && ripc__shm_ring_ready(&in->ring));
	return taken;
}

/* ---- the socket -------------------------------------------------------------------------- */

static bool greet(struct shm_port *port, struct shm_in *in, const uint8_t *bytes)
{
	if (in->from.len)
		return false;
	ripc__shm_addr_fill(port, bytes, &in->from);
	port->n_silent--;
	ripc__shm_point("greeted");
	in->owed = true;
	in->offer_at = EARLY_MAX;
	in->greeted_at = port->polls;
	port->n_owed++;
	return true;
}

/* Takes one message. False: the message makes no sense. */
static bool take_message(struct shm_port *port, struct shm_in *in, struct ripc__buffer *buffer,
		struct shm_received *received, int *got)
{
	bool sound;

	*got = ripc__shm_receive(in->watch.fd, buffer->data, received);
	sound = *got == SHM_NOTHING || *got == SHM_WAKE || (*got == SHM_DATAGRAM && in->from.len);
	/* Before WAKE the sender has not mapped its ring yet, or cannot. */
	if (in->ring.memory && (*got == SHM_DATAGRAM || *got == SHM_WAKE))
		way_set(port, in, *got == SHM_WAKE ? SHM_BY_RING : SHM_BY_SOCKET);
	if (*got == SHM_WAKE)
		port->roused |= atomic_load(&port->board->asleep) % 4 == SHM_ASLEEP_ON_SOCKETS;
	if (*got == SHM_HELLO)
		sound = greet(port, in, buffer->data);
	else if (shm_brings_memory(*got))
		sound = ripc__shm_import(port, in, *got, buffer->data, received);
	return sound;
}

uint32_t ripc__shm_in_input(struct shm_port *port, struct shm_in *in, struct ripc__event *events,
		uint32_t n)
{
	struct shm_received received;
	uint32_t at = 0, taken = 0;

	/* The clock may have ended the link after the sockets were polled. */
	if (in->watch.fd < 0)
		return 0;
	if (in->offer_at && in->n_early >= in->offer_at)
		offer_now(port, in);
	for (uint32_t i = 0; i < MESSAGES_MAX; i++) {
		struct ripc__buffer *buffer = taken < n ?
			ripc__buffers_find(port->buffers, &at) : NULL;
		int got;

		if (!buffer)
			break;
		if (!take_message(port, in, buffer, &received, &got)) {
			shm_in_end(port, in);
			return taken;
		}
		if (got == SHM_NOTHING)
			return taken;
		ripc__shm_point("socket_taken");
		if (got == SHM_DATAGRAM)
			hand_over(in, buffer, received.len, &events[taken++]);
		in->n_early += got == SHM_DATAGRAM;
	}
	port->look = true;
	return taken;
}

void ripc__shm_in_memory(struct shm_port *port, struct shm_in *in)
{
	struct shm_received received;
	uint32_t at = 0;
	struct ripc__buffer *buffer = ripc__buffers_find(port->buffers, &at);

	for (uint32_t i = 0; buffer && in->watch.fd >= 0 && i < 2 * SHM_SLABS; i++) {
		int next = ripc__shm_next(in->watch.fd), got;

		if (!shm_brings_memory(next) && next != SHM_WAKE)
			break;
		if (!take_message(port, in, buffer, &received, &got))
			shm_in_end(port, in);
	}
	/* No poll will rearm it. */
	if (port->roused)
		ripc__shm_rearm(port);
}
