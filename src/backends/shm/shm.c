/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shm backend: its table and its device; a port with its socket, its epoll set, and the two
 * pages that it shares with all its senders; and polling.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ripc/ripc.h"
#include "util/buffers.h"
#include "util/bytes.h"
#include "util/rare.h"
#include "util/system/cancel.h"
#include "util/system/kick.h"
#include "util/system/remedy.h"

#define RINGS_PART 16u /* rings take at most this part of all memory */

static int read_options(const struct ripc__host *host, struct shm_device *dev)
{
	*dev = (struct shm_device){.host = *host};
	return ripc__shm_admission_read(host, &dev->admission);
}

/* The words for the sentence of probe(). */
static const char *admitted_text(const struct shm_admission *admission)
{
	if (admission->all)
		return "all users that admit this user";
	if (admission->uids.n || admission->gids.n)
		return "this user, and of users in shm.uids and shm.gids that admit this user";
	return "this user (others: option shm.uids or shm.gids, on both sides)";
}

/*
 * Tries those features of the kernel that a port needs and that work without a name. *lack: the
 * missing one.
 */
static int try_kernel(const char **lack)
{
	void *page;
	int fd, error = ripc__shm_segment_make(SHM_BOARD_LEN, true, &page, &fd);

	*lack = "memory that is sealed and shared (memfd_create)";
	if (error)
		return error;
	ripc__shm_segment_unmap(page, SHM_BOARD_LEN);
	close(fd);
	*lack = "Unix socket (AF_UNIX)";
	fd = ripc__shm_listen(NULL);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct shm_device dev;
	int error = read_options(host, &dev);
	const char *lack;

	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "an option of the shm backend is wrong");
		snprintf(remedy, 256, "correct shm.uids or shm.gids");
		return error;
	}
	error = try_kernel(&lack);
	if (error) {
		snprintf(why, 256, "no %s: %s", lack, strerror(-error));
		ripc__remedy(error, "allow memfd_create and AF_UNIX in this sandbox (seccomp, "
			"container), and use Linux 5.1 or later", remedy);
		return error;
	}
	if (!host->identity) {
		snprintf(why, 256, "the processes of this host cannot be identified");
		snprintf(remedy, 256, "mount /proc");
		return -ENODEV;
	}
	snprintf(why, 256, "shared memory with processes of %s in this network namespace",
		admitted_text(&dev.admission));
	return 0;
}

/* ---- the port ---------------------------------------------------------------------------- */

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
	port->clock = (struct shm_watch){SHM_CLOCK,
		timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)};
	error = port->clock.fd < 0 ? -errno : ripc__shm_watch(port, &port->clock);
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

static int open_all(struct shm_port *port)
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

static void close_port(void *state)
{
	struct shm_port *port = state;

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
	ripc__shm_keys_free(port);
}

/* The reason why the host's identity is not known: perhaps there is no free descriptor. */
static int why_unknown(void)
{
	const char *lack;
	int error = try_kernel(&lack);

	return error ? error : -ENODEV;
}

static int open_port(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct shm_port *port = state;
	int error = host->identity ? read_options(host, &port->dev) : why_unknown();

	if (error)
		return error;
	ripc__map_init(&port->dev.keys, host->context);
	port->dev.ring_bytes_max = host->memory ? host->memory / RINGS_PART : UINT64_MAX;
	error = open_all(port);
	if (error)
		return error;
	*attr = (struct ripc__attr){
		.caps = RIPC_CAP_RELIABLE | RIPC_CAP_INTACT | RIPC_CAP_READ | RIPC_CAP_MAP |
			RIPC_CAP_LAZY,
		.fd = port->epoll_fd,
		/* The contents of the area, however it wraps, beside what arrives unasked. */
		.peer_buffer = 3 * SHM_AREA / 4,
	};
	return 0;
}

/* ---- poll -------------------------------------------------------------------------------- */

/*
 * Polling for arrivals. A few rings are polled one after the other. With many rings, senders
 * mark in the bits which have datagrams. A hostile sender can clear the others' bits: all rings
 * are therefore polled now and then, and before sleeping.
 *
 * The sockets cost a system call. They are polled when there is a sign of arrivals, when there
 * were none elsewhere for a while, and every few milliseconds even if messages flow through the
 * rings: handling these can take so long that few polls last many milliseconds.
 */

#define LOOK_AFTER 256u /* polls in a row that found nothing: some 5 us */
#define TIME_EVERY 8u  /* of them, one reads the coarse clock */
#define TIME_EVERY_BUSY 16u /* the same of polls that found something */
#define LOOKS_MAX  3  /* at the sockets, in one poll */
#define READY_MAX  16

/* Polls all rings, beginning where the last look had to end. */
static uint32_t take_all(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled = 0, n_rings = port->n_rings;
	uint32_t at = port->first < n_rings ? port->first : 0;

	for (uint32_t i = 0; i < n_rings && filled < n; i++) {
		struct shm_in *in = port->rings[at];

		if (in && ripc__shm_ring_ready(&in->ring))
			filled += ripc__shm_in_take(port, in, events + filled, n - filled);
		at = at + 1 < n_rings ? at + 1 : 0;
	}
	port->first = at;
	return filled;
}

/* Takes from the ring if there is one; true: it has more. */
static bool take_marked(struct shm_port *port, uint32_t index, struct ripc__event *events,
		uint32_t n, uint32_t *filled)
{
	struct shm_in *in = port->rings[index];

	if (in && ripc__shm_ring_ready(&in->ring))
		*filled += ripc__shm_in_take(port, in, events + *filled, n - *filled);
	in = port->rings[index];
	return in && ripc__shm_ring_ready(&in->ring);
}

/* Polls the rings that are marked in the bits. */
static uint32_t take_by_bits(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	uint32_t words = (port->n_rings + 63) / 64, filled = 0;

	for (uint32_t i = 0; i < words && filled < n; i++) {
		uint32_t word = (port->first + i) % words;
		uint64_t marked = port->todo[word], rest = 0;

		if (atomic_load_explicit(&port->bits->rings[word].word, memory_order_relaxed))
			marked |= atomic_exchange(&port->bits->rings[word].word, 0);
		for (; marked && filled < n; marked &= marked - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(marked);

			if (take_marked(port, word * 64 + bit, events, n, &filled))
				rest |= 1ull << bit;
		}
		port->todo[word] = marked | rest;
	}
	port->first = words ? (port->first + 1) % words : 0;
	return filled;
}

static uint32_t take_from_rings(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	if (port->n_rings <= SHM_DIRECT_MAX || port->polls % SHM_SCAN_EVERY == 0)
		return take_all(port, events, n);
	return take_by_bits(port, events, n);
}

static void drain_bell(struct shm_port *port)
{
	port->roused = true;
	ripc__kick_drain(port->bell.fd);
}

/* Ends links that sent nothing for long, and links to dead processes. */
static void look_at_lives(struct shm_port *port)
{
	ripc__shm_ins_strike(port);
	ripc__shm_clock_strike(port);
}

static uint32_t look_once(struct shm_port *port, struct ripc__event *events, uint32_t n)
{
	struct epoll_event ready[READY_MAX];
	int n_ready = epoll_wait(port->epoll_fd, ready, READY_MAX, 0);
	uint32_t filled = 0;

	port->idle_polls = 0;
	port->look = n_ready == READY_MAX;
	ripc__shm_point("sockets_ready");
	for (int i = 0; i < n_ready; i++) {
		struct shm_watch *watch = ready[i].data.ptr;

		if (watch->kind == SHM_LISTENER)
			ripc__shm_accept(port);
		else if (watch->kind == SHM_BELL)
			drain_bell(port);
		else if (watch->kind == SHM_CLOCK)
			look_at_lives(port);
		else if (watch->kind == SHM_OUT)
			ripc__shm_out_input(port, (struct shm_out *)watch);
		else
			filled += ripc__shm_in_input(port, (struct shm_in *)watch, events + filled,
				n - filled);
	}
	return filled;
}

/* A sender that was just accepted may have sent messages already. */
static RIPC__RARE uint32_t take_from_sockets(struct shm_port *port, struct ripc__event *events,
		uint32_t n)
{
	RIPC__HOLD_CANCEL;
	uint32_t filled = 0;

	for (int i = 0; i < LOOKS_MAX && filled == 0 && (i == 0 || port->look); i++)
		filled = look_once(port, events, n);
	port->look_all = port->look_all && (filled > 0 || port->look);
	return filled;
}

/* Notifies partners of freed memory, which must not stay because they have mapped it. */
static RIPC__RARE void trim_exports(struct shm_port *port)
{
	RIPC__HOLD_CANCEL;
	struct shm_out *out;
	uint32_t at = 0;

	port->freed = false;
	while ((out = ripc__map_next(&port->outs, &at))) {
		for (; out; out = out->next)
			ripc__shm_exports_trim(out);
	}
}

/* Has the coarse clock advanced (some milliseconds) since the sockets were polled? */
static bool is_time(struct shm_port *port)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_nsec == port->looked.tv_nsec && now.tv_sec == port->looked.tv_sec)
		return false;
	port->looked = now;
	if (port->dev.n_exports)
		trim_exports(port);
	return true;
}

static bool should_look(struct shm_port *port, uint32_t filled, uint32_t n)
{
	if (filled == n)
		return false;
	if (port->look_all || (port->n_reads && port->look))
		return true;
	if (filled == 0)
		return port->look || port->n_socket_links > port->n_offered || port->n_rings == 0 ||
			++port->idle_polls >= LOOK_AFTER ||
			(port->idle_polls % TIME_EVERY == 0 && is_time(port));
	port->idle_polls = 0;
	if (port->look && port->polls % SHM_SCAN_EVERY == 0)
		return true;
	return port->polls % TIME_EVERY_BUSY == 0 && is_time(port);
}

/* Between polls, or when this one has found nothing: no event refers to a link any more. */
static RIPC__RARE void reap(struct shm_port *port)
{
	RIPC__HOLD_CANCEL;

	ripc__shm_point("reap_due");
	list_for_each_safe(node, &port->ended) {
		struct shm_in *in = list_entry(node, struct shm_in, end);

		if (!ripc__shm_in_lasts(in))
			ripc__shm_in_free(port, in);
	}
}

static int poll_port(void *state, struct ripc__event *events, uint32_t n, bool all)
{
	struct shm_port *port = state;
	uint32_t filled;

	if (!list_empty(&port->ended))
		reap(port);
	/* A sleeper may have been woken by a message. */
	port->look |= port->armed;
	port->armed = false;
	port->polls++;
	port->look_all |= all;
	/*
	 * At once: the partner needs long to return memory to the system, which delays later
	 * messages.
	 */
	if (port->freed)
		trim_exports(port);
	filled = take_from_rings(port, events, port->look_all ? n / 2 : n);
	if (should_look(port, filled, n))
		filled += take_from_sockets(port, events + filled, n - filled);
	if (port->n_reads)
		filled += ripc__shm_read_step(port, events + filled, n - filled);
	if (!list_empty(&port->handed) && (filled == 0 || port->polls % SHM_SCAN_EVERY == 0))
		filled += ripc__shm_come_home(port, events + filled, n - filled);
	if (filled == 0 && !list_empty(&port->ended))
		reap(port);
	if (filled == 0 && port->freed)
		trim_exports(port);
	if (filled == 0 && port->n_owed)
		ripc__shm_offer_owed(port);
	if (port->roused)
		ripc__shm_rearm(port);
	return (int)filled;
}

/* ---- addresses --------------------------------------------------------------------------- */

/*
 * Addresses of the shm backend: the host's identity (an abstract name is known within one network
 * namespace) and the random name of a port's socket.
 */

void ripc__shm_addr_fill(const struct shm_port *port, const uint8_t name[SHM_NAME_LEN],
		struct ripc__addr *addr)
{
	/*
	 * The name of this host in the resolver's local source, to which address tokens are
	 * bound.
	 */
	static const uint8_t loopback[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	memcpy(addr->host, loopback, sizeof(loopback));
	addr->len = SHM_ADDR_LEN;
	put64(addr->blob, port->dev.host.identity);
	memcpy(addr->blob + 8, name, SHM_NAME_LEN);
}

static int port_addr(void *state, uint8_t blob[RIPC_ADDR_MAX])
{
	const struct shm_port *port = state;
	struct ripc__addr addr;

	ripc__shm_addr_fill(port, port->name, &addr);
	memcpy(blob, addr.blob, SHM_ADDR_LEN);
	return SHM_ADDR_LEN;
}

static int addr_choose(void *state, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	static const uint8_t zeros[SHM_NAME_LEN];
	const struct shm_port *port = state;

	(void)host;
	if (len != SHM_ADDR_LEN || memcmp(blob + 8, zeros, SHM_NAME_LEN) == 0)
		return -EBADMSG;
	if (get64(blob) != port->dev.host.identity)
		return -EHOSTUNREACH;
	ripc__shm_addr_fill(port, blob + 8, addr);
	return 0;
}

static void addr_text(const struct ripc__addr *addr, char text[64])
{
	if (addr->len == SHM_ADDR_LEN)
		snprintf(text, 64, "shm:%02x%02x%02x%02x", addr->blob[8], addr->blob[9],
			addr->blob[10], addr->blob[11]);
	else
		snprintf(text, 64, "?");
}

const struct ripc__backend ripc__shm_backend = {
	.name = "shm",
	.id = 2,
	.port_size = sizeof(struct shm_port),
	.route_size = sizeof(struct shm_route),
	.is_sealable = true,
	.net = {
		.probe = probe,
		.open = open_port,
		.close = close_port,
		.address = port_addr,
		.arm = ripc__shm_wait_arm,
		.wait = ripc__shm_wait,
		.wake = ripc__shm_wake,
	},
	.route = {
		.choose = addr_choose,
		.text = addr_text,
		.open = ripc__shm_route_open,
		.close = ripc__shm_route_close,
		.where = ripc__shm_where,
		.mtu = ripc__shm_route_mtu,
		.matches = ripc__shm_route_matches,
	},
	.datagrams = {
		.send = ripc__shm_send,
		.poll = poll_port,
		.release = ripc__buffer_release,
	},
	.mem = {
		.open = ripc__shm_mem_open,
		.close = ripc__shm_mem_close,
	},
	.remote = {
		.move = ripc__shm_read,
		.map = ripc__shm_map,
		.unmap = ripc__shm_unmap,
	},
};
