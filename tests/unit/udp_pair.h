/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the udp backend: two ports with routes to each other. */
#ifndef UDP_PAIR_H
#define UDP_PAIR_H

#include <poll.h>
#include <string.h>

#include "backends/udp/udp.h"
#include "suite.h"

#define UDP (&ripc__udp_backend)

struct udp_side {
	struct udp_port port;
	struct udp_route peer; /* the other side */
	struct ripc__attr attr;
};

static void no_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

/* arg: name, value, ..., NULL; or NULL. */
static const char *pair_option(void *arg, const char *name)
{
	for (const char *const *options = arg; options && *options; options += 2) {
		if (strcmp(options[0], name) == 0)
			return options[1];
	}
	return NULL;
}

static inline struct ripc__host pair_host(const char *const *options)
{
	return (struct ripc__host){.arg = (void *)options, .log = no_log, .option = pair_option};
}

static inline void udp_side_open(struct udp_side *side, const char *const *options)
{
	struct ripc__host host = pair_host(options);

	memset(side, 0, sizeof(*side));
	ck_assert_int_eq(UDP->net.open(&side->port, &host, &side->attr), 0);
}

/* The address of a side, as seen from another on the same host. */
static inline void udp_side_addr(struct udp_side *side, const uint8_t host[16],
		struct ripc__addr *addr)
{
	uint8_t blob[RIPC_ADDR_MAX];
	int len = UDP->net.address(&side->port, blob);

	ck_assert_int_eq(UDP->route.choose(&side->port, blob, (size_t)len, host, addr), 0);
}

static const uint8_t localhost[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

static inline void udp_pair_open(struct udp_side *left, struct udp_side *right,
		const char *const *options)
{
	struct ripc__addr addr;

	udp_side_open(left, options);
	udp_side_open(right, options);
	udp_side_addr(right, localhost, &addr);
	ck_assert_int_eq(UDP->route.open(&left->port, &left->peer, &addr), 0);
	udp_side_addr(left, localhost, &addr);
	ck_assert_int_eq(UDP->route.open(&right->port, &right->peer, &addr), 0);
}

static inline void udp_pair_close(struct udp_side *left, struct udp_side *right)
{
	UDP->route.close(&left->port, &left->peer);
	UDP->route.close(&right->port, &right->peer);
	UDP->net.close(&left->port);
	UDP->net.close(&right->port);
}

static inline struct ripc__net_stats udp_stats(struct udp_side *side)
{
	struct ripc__net_stats stats;

	UDP->net.stats(&side->port, &stats);
	return stats;
}

/* Sends n datagrams of len bytes, numbered in their bytes. Returns what send did. */
static inline int udp_post(struct udp_side *side, uint32_t len, uint32_t n)
{
	static uint8_t bytes[64][65536];
	static struct iovec iov[64];
	static struct ripc__tx tx[64];

	for (uint32_t i = 0; i < n; i++) {
		memset(bytes[i], (int)i, len);
		iov[i] = (struct iovec){.iov_base = bytes[i], .iov_len = len};
		tx[i] = (struct ripc__tx){.iov = &iov[i], .n_iov = 1, .len = len};
	}
	return UDP->datagrams.send(&side->port, &side->peer, tx, n);
}

/* Expects n such datagrams, in order, and nothing after them. */
static inline void udp_expect(struct udp_side *side, uint32_t len, uint32_t n)
{
	struct pollfd fd = {.fd = side->attr.fd, .events = POLLIN};
	struct ripc__event event;

	for (uint32_t i = 0; i < n; i++) {
		while (UDP->datagrams.poll(&side->port, &event, 1, false) == 0)
			ck_assert_int_eq(poll(&fd, 1, 20000), 1);
		ck_assert_uint_eq(event.len, len);
		ck_assert_uint_eq(event.data[0], i);
		ck_assert_uint_eq(event.data[len - 1], i);
		UDP->datagrams.release(&side->port, event.handle);
	}
	ck_assert_int_eq(UDP->datagrams.poll(&side->port, &event, 1, false), 0);
}

#endif
