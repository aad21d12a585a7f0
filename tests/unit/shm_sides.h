/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ports of the shm backend that tests work, and strangers who connect to them. */
#ifndef RIPC_TEST_SHM_SIDES_H
#define RIPC_TEST_SHM_SIDES_H

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/shm/internal.h"
#include "suite.h"

#define SHM (&ripc__shm_backend)

struct side {
	struct shm_port port;
	struct ripc__attr attr;
};

static struct side left, right;

static inline void no_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

/* arg: the value of shm.uids. */
static inline const char *get_option(void *arg, const char *name)
{
	return strcmp(name, "shm.uids") == 0 ? arg : NULL;
}

static inline const char *get_gids(void *arg, const char *name)
{
	return strcmp(name, "shm.gids") == 0 ? arg : NULL;
}

static inline struct ripc__host host_with(const char *uids)
{
	return (struct ripc__host){.arg = (void *)uids, .log = no_log, .option = get_option,
		.context = 1, .identity = 7};
}

static inline struct ripc__host host_with_gids(const char *gids)
{
	struct ripc__host host = host_with(gids);

	host.option = get_gids;
	return host;
}

static inline void side_open(struct side *side, const char *uids)
{
	struct ripc__host host = host_with(uids);

	memset(side, 0, sizeof(*side));
	ck_assert_int_eq(SHM->net.open(&side->port, &host, &side->attr), 0);
}

static inline void side_close(struct side *side)
{
	SHM->net.close(&side->port);
}

static inline void set_up(void)
{
	side_open(&left, NULL);
	side_open(&right, NULL);
}

static inline void tear_down(void)
{
	side_close(&left);
	side_close(&right);
}

static inline void route(struct side *from, struct side *to, struct shm_route *peer)
{
	struct ripc__addr addr;

	ripc__shm_addr_fill(&from->port, to->port.name, &addr);
	ck_assert_int_eq(SHM->route.open(&from->port, peer, &addr), 0);
}

static inline int send_byte(struct side *from, struct shm_route *peer, uint8_t byte)
{
	const struct iovec iov = {&byte, 1};
	const struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = 1};

	return SHM->datagrams.send(&from->port, peer, &tx, 1);
}

/* Polls once; returns how many datagrams came, and drops them. */
static inline int drain(struct side *side)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	int n = SHM->datagrams.poll(&side->port, events, RIPC_EVENTS_MAX, false);

	for (int i = 0; i < n; i++)
		SHM->datagrams.release(&side->port, events[i].handle);
	return n;
}

/* As long as it can take until the sockets are looked at, and rings are offered. */
static inline int drain_all(struct side *side)
{
	int n = 0;

	for (int i = 0; i < 400; i++)
		n += drain(side);
	return n;
}

static inline void expect_byte(struct side *side, uint8_t byte)
{
	struct ripc__event event;

	ck_assert_int_eq(SHM->datagrams.poll(&side->port, &event, 1, false), 1);
	ck_assert_uint_eq(event.len, 1);
	ck_assert_uint_eq(event.data[0], byte);
	SHM->datagrams.release(&side->port, event.handle);
}

/* A socket of a stranger, connected to a side without a word. */
static inline int connect_raw(const struct side *to)
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

static inline bool is_closed(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, 0) == 1 && poller.revents & POLLHUP;
}

/* A sender of its own making, which has said hello and has been given a ring. */
struct stranger {
	int fd;
	struct shm_ring_memory *ring;
};

static inline struct stranger stranger_linked(struct side *to)
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
static inline void stranger_write(const struct stranger *stranger, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++)
		atomic_store(&stranger->ring->slots[i % SHM_SLOTS].word,
			(uint64_t)(i + 1) << 32 | 1);
}

/* A side ends, and the one it was linked to sees that at once. */
static inline void stranger_go(const struct stranger *stranger, struct side *to)
{
	struct shm_in *in = list_entry(to->port.ins.prev, struct shm_in, node);
	struct ripc__event event;

	close(stranger->fd);
	ck_assert_uint_eq(ripc__shm_in_input(&to->port, in, &event, 1), 0);
	ck_assert_int_eq(in->watch.fd, -1);
}

#endif
