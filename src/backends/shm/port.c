/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A port of the shm backend: its socket, its epoll set, and the two pages that it shares with
 * all who send to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "memory/segment.h"
#include "shm.h"
#include "util/bytes.h"

/* The pages that senders map: one that only we can write, one for all. */
static int open_pages(struct shm_port *port)
{
	void *board, *bits;
	int error = ripc__shm_segment_make(SHM_BOARD_LEN, true, &board, &port->board_fd);

	if (error)
		return error;
	error = ripc__shm_segment_make(SHM_BITS_LEN, false, &bits, &port->bits_fd);
	if (error) {
		ripc__shm_segment_unmap(board, SHM_BOARD_LEN);
		close(port->board_fd);
		return error;
	}
	port->board = board;
	port->bits = bits;
	return 0;
}

static void close_pages(struct shm_port *port)
{
	ripc__shm_segment_unmap(port->board, SHM_BOARD_LEN);
	ripc__shm_segment_unmap(port->bits, SHM_BITS_LEN);
	close(port->board_fd);
	close(port->bits_fd);
}

static void close_spare(struct shm_port *port)
{
	if (port->spare_fd >= 0)
		close(port->spare_fd);
}

/* The socket, the bell, the clock, and the set that watches them. */
static int open_descriptors(struct shm_port *port)
{
	int error;

	port->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (port->epoll_fd < 0)
		return -errno;
	port->bell = (struct shm_watch){SHM_BELL, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
	error = port->bell.fd < 0 ? -errno : ripc__shm_watch(port, &port->bell);
	if (error)
		goto close_bell;
	port->clock = (struct shm_watch){SHM_CLOCK, ripc__shm_clock_open()};
	error = port->clock.fd < 0 ? port->clock.fd : ripc__shm_watch(port, &port->clock);
	if (error)
		goto close_clock;
	port->listener = (struct shm_watch){SHM_LISTENER, ripc__shm_listen(port->name)};
	error = port->listener.fd < 0 ? port->listener.fd : ripc__shm_watch(port, &port->listener);
	port->spare_fd = fcntl(port->bell.fd, F_DUPFD_CLOEXEC, 0);
	if (!error)
		return 0;
	close_spare(port);
	ripc__shm_unwatch(port, &port->listener);
close_clock:
	ripc__shm_unwatch(port, &port->clock);
close_bell:
	ripc__shm_unwatch(port, &port->bell);
	close(port->epoll_fd);
	return error;
}

int ripc__shm_port_open(struct shm_port *port)
{
	int error;

	list_init(&port->ins);
	list_init(&port->ended);
	list_init(&port->handed);
	list_init(&port->grips);
	list_init(&port->passed);
	if (getrandom(port->name, sizeof(port->name), 0) != sizeof(port->name))
		return -EIO;
	/* Keys are names that partners draw. */
	ripc__map_init(&port->outs, get64(port->name) ^ port->dev.host.context);
	ripc__map_init(&port->holders, get64(port->name) ^ port->dev.host.context);
	error = ripc__buffers_open(SHM_BUFFERS, RIPC_DATAGRAM_MAX, &port->buffers);
	if (error)
		return error;
	error = open_pages(port);
	if (error)
		goto close_buffers;
	ripc__shm_point("pages_made");
	error = open_descriptors(port);
	ripc__shm_point("port_opened");
	if (!error)
		return 0;
	close_pages(port);
close_buffers:
	ripc__buffers_close(port->buffers);
	return error;
}

static void close_links(struct shm_port *port)
{
	struct shm_out *out;
	uint32_t at = 0;

	while (!list_empty(&port->grips))
		ripc__shm_unmap(port, list_entry(port->grips.next, struct shm_grip, node));
	while (!list_empty(&port->ins))
		ripc__shm_in_free(port, list_entry(port->ins.next, struct shm_in, node));
	/* Routes that are still open keep their link, but it leads nowhere. */
	while ((out = ripc__map_next(&port->outs, &at))) {
		for (; out; out = out->next)
			ripc__shm_out_cut(port, out);
	}
}

void ripc__shm_port_close(struct shm_port *port)
{
	ripc__shm_point("port_closing");
	ripc__shm_handed_free(port);
	ripc__shm_point("handed_freed");
	close_links(port);
	ripc__shm_point("links_closed");
	ripc__map_free(&port->outs);
	ripc__map_free(&port->holders);
	ripc__shm_unwatch(port, &port->listener);
	ripc__shm_unwatch(port, &port->clock);
	ripc__shm_unwatch(port, &port->bell);
	close_spare(port);
	close(port->epoll_fd);
	ripc__shm_point("sockets_closed");
	close_pages(port);
	ripc__shm_point("pages_closed");
	ripc__buffers_close(port->buffers);
}
