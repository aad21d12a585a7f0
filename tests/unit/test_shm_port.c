/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports and links of the shm backend as a stranger meets them: one who connects and says
 * anything, one who hands out memory that is none, more senders than are looked at directly,
 * and a receiver that comes to its end.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../util/process.h"
#include "backends/shm/segment.h"
#include "backends/shm/shm.h"
#include "suite.h"

#define SHM (&ripc__shm_backend)

struct side {
	struct shm_device dev;
	struct shm_port port;
	struct ripc__attr attr;
};

static struct side left, right;

static void no_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

/* arg: the value of shm.uids. */
static const char *get_option(void *arg, const char *name)
{
	return strcmp(name, "shm.uids") == 0 ? arg : NULL;
}

static struct ripc__host host_with(const char *uids)
{
	return (struct ripc__host){.arg = (void *)uids, .log = no_log, .option = get_option,
		.context = 1, .identity = 7};
}

static void side_open(struct side *side, const char *uids)
{
	struct ripc__host host = host_with(uids);

	memset(side, 0, sizeof(*side));
	ck_assert_int_eq(SHM->dev_open(&side->dev, &host, &side->attr), 0);
	ck_assert_int_eq(SHM->port_open(&side->dev, &side->port), 0);
}

static void side_close(struct side *side)
{
	SHM->port_close(&side->port);
	SHM->dev_close(&side->dev);
}

static void set_up(void)
{
	side_open(&left, NULL);
	side_open(&right, NULL);
}

static void tear_down(void)
{
	side_close(&left);
	side_close(&right);
}

static void route(struct side *from, struct side *to, struct shm_peer *peer)
{
	struct ripc__addr addr;

	ripc__shm_addr_fill(&from->port, to->port.name, &addr);
	ck_assert_int_eq(SHM->peer_open(&from->port, peer, &addr), 0);
}

static int send_byte(struct side *from, struct shm_peer *peer, uint8_t byte)
{
	const struct iovec iov = {&byte, 1};
	const struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = 1};

	return SHM->send(&from->port, peer, &tx, 1);
}

/* Polls once; returns how many datagrams came, and drops them. */
static int drain(struct side *side)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	int n = SHM->poll(&side->port, events, RIPC_EVENTS_MAX);

	for (int i = 0; i < n; i++)
		SHM->release(&side->port, events[i].handle);
	return n;
}

/* As long as it can take until the sockets are looked at, and rings are offered. */
static int drain_all(struct side *side)
{
	int n = 0;

	for (int i = 0; i < 400; i++)
		n += drain(side);
	return n;
}

static void expect_byte(struct side *side, uint8_t byte)
{
	struct ripc__event event;

	ck_assert_int_eq(SHM->poll(&side->port, &event, 1), 1);
	ck_assert_uint_eq(event.len, 1);
	ck_assert_uint_eq(event.data[0], byte);
	SHM->release(&side->port, event.handle);
}

/* A socket of a stranger, connected to a side without a word. */
static int connect_raw(const struct side *to)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), len;

	len = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "ripc-shm/");
	for (int i = 0; i < SHM_NAME_LEN; i++)
		len += sprintf(at.sun_path + 1 + len, "%02x", to->port.name[i]);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&at,
		(socklen_t)(sizeof(at.sun_family) + 1 + (size_t)len)), 0);
	return fd;
}

static bool is_closed(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, 0) == 1 && poller.revents & POLLHUP;
}

/* A sender of its own making, which has said hello and has been given a ring. */
struct stranger {
	int fd;
	struct shm_ring_memory *ring;
};

static struct stranger stranger_linked(struct side *to)
{
	const uint8_t hello[24] = {1, 1, [8] = 5};
	struct stranger stranger = {.fd = connect_raw(to)};
	struct shm_ring_offer offer;
	void *ring;

	ck_assert_int_eq(send(stranger.fd, hello, sizeof(hello), 0), sizeof(hello));
	ck_assert_int_eq(drain_all(to), 0);
	ck_assert_int_eq(ripc__shm_receive_offer(stranger.fd, &offer), SHM_RING);
	ck_assert_int_eq(ripc__shm_segment_map(offer.ring_fd, SHM_RING_LEN, true, &ring), 0);
	close(offer.ring_fd);
	close(offer.board_fd);
	close(offer.bits_fd);
	stranger.ring = ring;
	return stranger;
}

/* Makes the next slots ready, one byte in each. */
static void stranger_write(const struct stranger *stranger, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		atomic_store(&stranger->ring->slots[i % SHM_SLOTS].word,
			(uint64_t)(i + 1) << 32 | 1);
}

/* It goes, and the one it was linked to sees that at once. */
static void stranger_go(const struct stranger *stranger, struct side *to)
{
	struct shm_in *in = list_entry(to->port.ins.prev, struct shm_in, node);
	struct ripc__event event;

	close(stranger->fd);
	ck_assert_uint_eq(ripc__shm_in_input(&to->port, in, &event, 1), 0);
	ck_assert_int_eq(in->watch.fd, -1);
}

START_TEST(dev_open__refuses_wrong_options)
{
	static const char *const wrong[] = {"", "x", "1,2", "1:", ":1", "-1", "4294967295",
		"0:1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16"};
	char why[256] = "", remedy[256] = "";
	struct ripc__attr attr = {.caps = 99};
	struct shm_device dev;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ripc__host host = host_with(wrong[i]);

		ck_assert_int_eq(SHM->dev_open(&dev, &host, &attr), -EINVAL);
		ck_assert_int_eq(SHM->probe(&host, why, remedy), -EINVAL);
		ck_assert_uint_eq(attr.caps, 99);
	}
}
END_TEST

START_TEST(dev_open__refuses_an_unknown_host)
{
	struct ripc__host host = host_with(NULL);
	char why[256] = "", remedy[256] = "";
	struct ripc__attr attr;
	struct shm_device dev;

	host.identity = 0;
	ck_assert_int_eq(SHM->dev_open(&dev, &host, &attr), -ENODEV);
	ck_assert_int_eq(SHM->probe(&host, why, remedy), -ENODEV);
	ck_assert_uint_gt(strlen(remedy), 0);
}
END_TEST

START_TEST(uid_admitted__by_option)
{
	struct side side;

	ck_assert(ripc__shm_uid_admitted(&left.dev, geteuid()));
	ck_assert(!ripc__shm_uid_admitted(&left.dev, geteuid() + 1));
	side_open(&side, "77:78");
	ck_assert(ripc__shm_uid_admitted(&side.dev, 78));
	ck_assert(ripc__shm_uid_admitted(&side.dev, geteuid()));
	ck_assert(!ripc__shm_uid_admitted(&side.dev, 79));
	side_close(&side);
	side_open(&side, "any");
	ck_assert(ripc__shm_uid_admitted(&side.dev, 79));
	side_close(&side);
}
END_TEST

START_TEST(addr_choose__refuses_other_hosts)
{
	struct ripc__addr addr = {.len = 1};
	uint8_t blob[RIPC_ADDR_MAX];

	ck_assert_int_eq(SHM->port_addr(&left.port, blob), SHM_ADDR_LEN);
	ck_assert_int_eq(SHM->addr_choose(&right.port, blob, SHM_ADDR_LEN, NULL, &addr), 0);
	addr.len = 1;
	blob[0] ^= 1;
	ck_assert_int_eq(SHM->addr_choose(&right.port, blob, SHM_ADDR_LEN, NULL, &addr),
		-EHOSTUNREACH);
	ck_assert_uint_eq(addr.len, 1);
}
END_TEST

/* Whoever says something else than its due loses its link; others notice nothing. */
START_TEST(input__nonsense_ends_the_link)
{
	static const struct {
		uint8_t bytes[32];
		size_t len;
	} words[] = {
		{{1, 1}, 1},                     /* no head */
		{{1, 1}, 8},                     /* a hello without a name */
		{{1, 2}, 24},                    /* another version */
		{{1, 1, 1}, 24},                 /* what must be zero */
		{{3, 1, 0, 0, 1}, 9},            /* a datagram before hello */
		{{9, 1}, 8},                     /* an unknown type */
		{{2, 1}, 16},                    /* an offer, from a sender */
		{{4, 1}, 9},                     /* a wake with bytes */
	};
	struct shm_peer peer;

	route(&left, &right, &peer);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		int fd = connect_raw(&right);

		ck_assert_int_eq(send(fd, words[i].bytes, words[i].len, 0), (int)words[i].len);
		ck_assert_int_eq(drain_all(&right), 0);
		ck_assert(is_closed(fd));
		close(fd);
		ck_assert_int_eq(send_byte(&left, &peer, (uint8_t)i), 1);
		expect_byte(&right, (uint8_t)i);
	}
	SHM->peer_close(&left.port, &peer);
}
END_TEST

START_TEST(input__second_hello_ends_the_link)
{
	const uint8_t hello[24] = {1, 1, [8] = 5};
	int fd = connect_raw(&right);

	send(fd, hello, sizeof(hello), 0);
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, 1);
	send(fd, hello, sizeof(hello), 0);
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert(recv(fd, (uint8_t[16]){0}, 16, 0) == 16 && is_closed(fd));
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_uint_eq(right.port.n_ins, 0);
	close(fd);
}
END_TEST

/* Who says no hello is not waited for; who has said it is, however silent then. */
START_TEST(accept__silent_links_end)
{
	const uint8_t hello[24] = {1, 1, [8] = 5};
	int silent = connect_raw(&right), polite = connect_raw(&right);

	ck_assert_int_eq(send(polite, hello, sizeof(hello), 0), sizeof(hello));
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert(right.port.clock_runs);
	for (int strikes = 0; strikes < 10; strikes++)
		ripc__shm_clock_strike(&right.port);
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert(is_closed(silent));
	ck_assert(!is_closed(polite));
	ck_assert_uint_eq(right.port.n_ins, 1);
	ck_assert_uint_eq(right.port.n_silent, 0);
	close(silent);
	close(polite);
}
END_TEST

/* One process takes all that it can get: another is heard, and the application can open files. */
START_TEST(accept__from_who_wants_all)
{
	enum { FILES = 400, N = 120, SHARE = 67 };
	uint32_t n_before;
	int fds[N], child, status;
	struct side other;

	descriptors_limit(FILES);
	for (int i = 0; i < N; i++) {
		fds[i] = connect_raw(&right);
		drain_all(&right);
	}
	n_before = right.port.n_ins;
	ck_assert_uint_le(n_before, SHARE);
	child = fork();
	if (child == 0) {
		struct shm_peer peer;

		side_open(&other, NULL);
		route(&other, &right, &peer);
		_exit(send_byte(&other, &peer, 77) != 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	expect_byte(&right, 77);
	for (int i = 0; i < N; i++)
		close(fds[i]);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ins, 0);
}
END_TEST

/* A receiver that hands out no memory, or such as could be cut off, gets no link. */
START_TEST(out_input__refuses_bad_memory)
{
	uint8_t name[SHM_NAME_LEN] = "a receiver";
	int listener = ripc__shm_listen(name), fds[3], fd;
	struct shm_ring_offer offer = {0};
	struct ripc__addr addr;
	struct shm_peer peer;

	ripc__shm_addr_fill(&left.port, name, &addr);
	ck_assert_int_eq(SHM->peer_open(&left.port, &peer, &addr), 0);
	ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
	fd = accept(listener, NULL, NULL);
	ck_assert_int_eq(pipe(fds), 0);
	fds[2] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fds[2], SHM_RING_LEN), 0);
	offer.ring_fd = fds[2];
	offer.board_fd = fds[0];
	offer.bits_fd = fds[1];
	ck_assert_int_eq(ripc__shm_send_offer(fd, &offer), 0);
	ck_assert_int_eq(send_byte(&left, &peer, 2), 1);
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	send(fd, "what?", 5, 0);
	ck_assert_int_eq(send_byte(&left, &peer, 3), 1);
	ck_assert_int_ne(peer.out->state, SHM_LINKED);
	SHM->peer_close(&left.port, &peer);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(fd);
	close(listener);
}
END_TEST

/* A message of len bytes of zero that brings as many descriptors as are taken at once. */
static void send_descriptors(int fd, size_t len)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {0};
	struct iovec iov = {(uint8_t[8]){0}, len};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(4 * sizeof(int));
	memcpy(CMSG_DATA(c), (int[4]){fd, fd, fd, fd}, 4 * sizeof(int));
	ck_assert_int_eq(sendmsg(fd, &message, 0), (int)len);
}

/* Nobody can fill our table of descriptors; not even by messages that look like the end. */
START_TEST(input__unwanted_descriptors_are_closed)
{
	int before = descriptors_open();

	for (size_t len = 0; len <= 8; len += 8) {
		int fd = connect_raw(&right);

		send_descriptors(fd, len);
		ck_assert_int_eq(drain_all(&right), 0);
		ck_assert(is_closed(fd));
		close(fd);
		ck_assert_int_eq(descriptors_open(), before);
	}
}
END_TEST

START_TEST(out_input__unwanted_descriptors_are_closed)
{
	uint8_t name[SHM_NAME_LEN] = "a receiver";
	int listener = ripc__shm_listen(name), before = descriptors_open(), fd;
	struct ripc__addr addr;
	struct shm_peer peer;

	ripc__shm_addr_fill(&left.port, name, &addr);
	for (size_t len = 0; len <= 8; len += 8) {
		ck_assert_int_eq(SHM->peer_open(&left.port, &peer, &addr), 0);
		ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
		fd = accept(listener, NULL, NULL);
		send_descriptors(fd, len);
		drain_all(&left);
		ck_assert(is_closed(fd));
		SHM->peer_close(&left.port, &peer);
		close(fd);
		ck_assert_int_eq(descriptors_open(), before);
	}
	close(listener);
}
END_TEST

/* Without memory for rings datagrams go over the socket. */
START_TEST(send__without_a_ring)
{
	struct shm_peer peer;

	right.dev.ring_bytes_max = SHM_RING_LEN - 1;
	route(&left, &right, &peer);
	for (uint8_t i = 0; i < 200; i++) {
		ck_assert_int_eq(send_byte(&left, &peer, i), 1);
		expect_byte(&right, i);
	}
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	ck_assert_uint_eq(right.port.n_rings, 0);
	SHM->peer_close(&left.port, &peer);
}
END_TEST

/* Sends until there is a ring, up to n times; all of it arrives. */
static void send_early(struct shm_peer *peer, uint32_t n)
{
	for (uint32_t i = 0; i < n && peer->out->state != SHM_LINKED; i++) {
		ck_assert_int_eq(send_byte(&left, peer, (uint8_t)i), 1);
		expect_byte(&right, (uint8_t)i);
	}
}

/* There was no memory for a ring, or no descriptor; later there is. */
START_TEST(send__ring_at_the_next_try)
{
	const uint64_t ring_bytes_max = right.dev.ring_bytes_max;
	rlim_t before;
	struct shm_peer peer;
	int next = dup(0);

	close(next);
	route(&left, &right, &peer);
	send_early(&peer, 1);
	before = descriptors_limit((rlim_t)next + 2); /* the two ends of the link */
	ck_assert_int_eq(dup(0), -1);
	send_early(&peer, 20);
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	descriptors_limit(before);
	right.dev.ring_bytes_max = SHM_RING_LEN - 1;
	send_early(&peer, 1000);
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	right.dev.ring_bytes_max = ring_bytes_max;
	send_early(&peer, 2000);
	ck_assert_int_eq(peer.out->state, SHM_LINKED);
	ck_assert_uint_eq(right.port.n_rings, 1);
	SHM->peer_close(&left.port, &peer);
}
END_TEST

/* Who has just come is answered first; a ring is made for it later, or if there is never time. */
START_TEST(poll__rings_come_later)
{
	struct shm_peer peer;
	uint8_t i = 0;

	route(&left, &right, &peer);
	ck_assert_int_eq(send_byte(&left, &peer, i++), 1);
	ck_assert_int_eq(drain(&right), 1);
	ck_assert_int_eq(drain(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_int_eq(send_byte(&left, &peer, i++), 1);
	ck_assert_int_eq(drain(&right), 1);
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_int_eq(drain(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, 1);
	SHM->peer_close(&left.port, &peer);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ins, 0);

	route(&left, &right, &peer);
	for (; right.port.n_rings == 0; i++) {
		ck_assert_int_lt(i, 100);
		ck_assert_int_eq(send_byte(&left, &peer, i), 1);
		ck_assert_int_eq(drain(&right), 1);
	}
	SHM->peer_close(&left.port, &peer);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_owed, 0);
}
END_TEST

static void say(const struct stranger *stranger, const void *bytes, size_t len, uint32_t by_ring)
{
	ck_assert(!len || send(stranger->fd, bytes, len, 0) == (ssize_t)len);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ring_links, by_ring);
	ck_assert_uint_eq(right.port.n_socket_links, !by_ring);
	ck_assert(by_ring || (right.port.n_offered == 1 && right.port.clock_runs));
}

/* Its datagrams may come by the socket until it says that it uses the ring, or is silent. */
START_TEST(poll__ring_that_is_used_or_not)
{
	const uint8_t datagram[9] = {3, 1, [4] = 1}, wake[8] = {4, 1};
	struct stranger stranger = stranger_linked(&right);

	for (int i = 0; i < 3; i++) {
		say(&stranger, datagram, i ? 0 : sizeof(datagram), 0);
		ripc__shm_ins_strike(&right.port);
	}
	say(&stranger, NULL, 0, 1);
	say(&stranger, datagram, sizeof(datagram), 0);
	say(&stranger, wake, sizeof(wake), 1);
	ck_assert_uint_eq(atomic_load(&right.port.board->asleep), 0);
	stranger_go(&stranger, &right);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_socket_links + right.port.n_ring_links, 0);
}
END_TEST

/* More senders than are looked at one by one: each is heard, and the bits are asked. */
START_TEST(poll__many_senders)
{
	enum { N = 40, TURNS = 30 };
	static struct side sides[N];
	struct shm_peer peers[N];

	for (int i = 0; i < N; i++) {
		side_open(&sides[i], NULL);
		route(&sides[i], &right, &peers[i]);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		int got = 0;

		for (int i = turn % 3; i < N; i += 1 + turn % 3)
			got -= send_byte(&sides[i], &peers[i], (uint8_t)i);
		for (int polls = 0; got < 0; polls++) {
			ck_assert_int_lt(polls, 100);
			got += drain(&right);
		}
		ck_assert_int_eq(got, 0);
	}
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, N);
	ck_assert_uint_eq(atomic_load(&right.port.board->crowded), 1);
	for (int i = 0; i < N; i++) {
		SHM->peer_close(&sides[i].port, &peers[i]);
		side_close(&sides[i]);
	}
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_uint_eq(right.dev.ring_bytes, 0);
}
END_TEST

/* One of many clears the bits of all: nobody is forgotten, neither awake nor before sleeping. */
START_TEST(poll__bits_that_somebody_clears)
{
	enum { N = 12 };
	static struct side sides[N];
	struct shm_peer peers[N];
	int got = 0;

	for (int i = 0; i < N; i++) {
		side_open(&sides[i], NULL);
		route(&sides[i], &right, &peers[i]);
		send_byte(&sides[i], &peers[i], 0);
		ck_assert_int_eq(drain_all(&right), 1);
	}
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(send_byte(&sides[i], &peers[i], 0), 1);
	atomic_store(&right.port.bits->rings[0].word, 0);
	ck_assert_int_eq(SHM->wait_arm(&right.port), -EAGAIN);
	for (uint32_t polls = 0; polls <= SHM_SCAN_EVERY; polls++)
		got += drain(&right);
	ck_assert_int_eq(got, N);
	for (int i = 0; i < N; i++) {
		SHM->peer_close(&sides[i].port, &peers[i]);
		side_close(&sides[i]);
	}
}
END_TEST

/* What was put into the ring before the end is not lost. */
START_TEST(poll__last_words)
{
	struct shm_peer peer;

	route(&left, &right, &peer);
	ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
	expect_byte(&right, 1);
	drain_all(&right);
	for (uint8_t i = 0; i < 10; i++)
		ck_assert_int_eq(send_byte(&left, &peer, i), 1);
	ck_assert_int_eq(peer.out->state, SHM_LINKED);
	SHM->peer_close(&left.port, &peer);
	for (uint8_t i = 0; i < 10; i++)
		expect_byte(&right, i);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ins, 0);
}
END_TEST

/* Who takes back its last words is not waited for. */
START_TEST(poll__last_words_taken_back)
{
	struct stranger stranger = stranger_linked(&right);

	stranger_write(&stranger, 0, 3);
	stranger_go(&stranger, &right);
	ck_assert_uint_eq(right.port.n_ins, 1);
	atomic_store(&stranger.ring->slots[0].word, 0);
	ck_assert_int_eq(drain(&right), 0);
	ck_assert_uint_eq(right.port.n_ins, 0);
	ck_assert_uint_eq(right.dev.ring_bytes, 0);
	ripc__shm_segment_unmap(stranger.ring, SHM_RING_LEN);
}
END_TEST

/* Who goes on writing after its end is heard no longer than its ring was long. */
START_TEST(poll__last_words_without_end)
{
	struct stranger stranger = stranger_linked(&right);
	uint32_t got = 0;

	stranger_write(&stranger, 0, SHM_SLOTS);
	stranger_go(&stranger, &right);
	for (int polls = 0; polls < 1000 && right.port.n_ins; polls++) {
		uint32_t n = (uint32_t)drain(&right);

		got += n;
		stranger_write(&stranger, got, SHM_SLOTS);
	}
	ck_assert_uint_ge(got, SHM_SLOTS);
	ck_assert_uint_lt(got, 2 * SHM_SLOTS);
	ck_assert_uint_eq(right.port.n_ins, 0);
	ripc__shm_segment_unmap(stranger.ring, SHM_RING_LEN);
}
END_TEST

/* A receiver that is gone: the sender is told, and nothing is left. */
START_TEST(send__to_who_is_gone)
{
	struct side gone;
	struct shm_peer peer;

	side_open(&gone, NULL);
	route(&left, &gone, &peer);
	ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
	expect_byte(&gone, 1);
	drain_all(&gone);
	ck_assert_int_eq(send_byte(&left, &peer, 2), 1);
	ck_assert_int_eq(peer.out->state, SHM_LINKED);
	side_close(&gone);
	for (int i = 0; i < 5; i++)
		drain(&left);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(send_byte(&left, &peer, 3), -ECONNRESET);
	ck_assert_int_eq(peer.out->state, SHM_DEAD);
	ck_assert_int_eq(peer.out->watch.fd, -1);
	SHM->peer_close(&left.port, &peer);
}
END_TEST

/* Two names that begin alike are two links. */
START_TEST(peer_open__names_that_begin_alike)
{
	struct ripc__addr a, b;
	struct shm_peer first, second, third;
	uint8_t name[SHM_NAME_LEN] = "beginning";

	ripc__shm_addr_fill(&left.port, name, &a);
	name[15] = 1;
	ripc__shm_addr_fill(&left.port, name, &b);
	ck_assert_int_eq(SHM->peer_open(&left.port, &first, &a), 0);
	ck_assert_int_eq(SHM->peer_open(&left.port, &second, &b), 0);
	ck_assert_int_eq(SHM->peer_open(&left.port, &third, &a), 0);
	ck_assert_ptr_ne(first.out, second.out);
	ck_assert_ptr_eq(first.out, third.out);
	ck_assert(SHM->peer_matches(&left.port, &second, &b));
	ck_assert(!SHM->peer_matches(&left.port, &second, &a));
	SHM->peer_close(&left.port, &first);
	SHM->peer_close(&left.port, &third);
	ck_assert_int_eq(SHM->peer_open(&left.port, &third, &b), 0);
	ck_assert_ptr_eq(second.out, third.out);
	SHM->peer_close(&left.port, &second);
	SHM->peer_close(&left.port, &third);
}
END_TEST

/* Sleeps on what wakes the left one, as anybody may who can write it. */
static void *sleep_there(void *seen)
{
	syscall(SYS_futex, &left.port.bits->wakes, FUTEX_WAIT, *(uint32_t *)seen, NULL, NULL, 0);
	return NULL;
}

/* Moved to where they are, they are only counted. */
static long n_sleepers(void)
{
	_Atomic uint32_t *word = &left.port.bits->wakes;

	return syscall(SYS_futex, word, FUTEX_REQUEUE, 0, (long)INT_MAX, word, 0);
}

/* A wake-up that somebody takes is not missed by whom it was meant for. */
START_TEST(wake__others_sleep_there)
{
	uint32_t seen = atomic_load(&left.port.bits->wakes);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, sleep_there, &seen), 0);
	while (n_sleepers() < 4)
		sched_yield();
	SHM->wake(&left.port);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		dev_open__refuses_wrong_options,
		dev_open__refuses_an_unknown_host,
		uid_admitted__by_option,
		addr_choose__refuses_other_hosts,
		input__nonsense_ends_the_link,
		input__second_hello_ends_the_link,
		input__unwanted_descriptors_are_closed,
		accept__silent_links_end,
		accept__from_who_wants_all,
		out_input__refuses_bad_memory,
		out_input__unwanted_descriptors_are_closed,
		send__without_a_ring,
		send__ring_at_the_next_try,
		poll__rings_come_later,
		poll__ring_that_is_used_or_not,
		poll__many_senders,
		poll__bits_that_somebody_clears,
		poll__last_words,
		poll__last_words_taken_back,
		poll__last_words_without_end,
		send__to_who_is_gone,
		peer_open__names_that_begin_alike,
		wake__others_sleep_there,
		NULL,
	};
	TCase *tcase = tcase_create("shm_port");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	for (const TTest *const *test = tests; *test; test++)
		tcase_add_test(tcase, *test);
	return suite_finish("shm_port", tcase);
}
