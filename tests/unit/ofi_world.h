/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ports of the ofi backend on libfabric's tcp provider, for tests that come between the backend
 * and the provider: they put functions of their own into the tables of its objects.
 */
#ifndef TEST_OFI_WORLD_H
#define TEST_OFI_WORLD_H

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/ofi/internal.h"
#include "util/buffers.h"

#define SKIPPED   77
#define TURNS_MAX 20000 /* of 1 ms at most, until what must come has come */

struct end {
	struct ofi_port port;
	struct ofi_route peer; /* the way to the other end */
	struct ripc__attr attr;
};

static void log_nothing(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *world_provider = "tcp;ofi_rxm";
static const char *world_reads; /* the option ofi.reads */

static const char *world_option(void *arg, const char *name)
{
	(void)arg;
	if (strcmp(name, "ofi.reads") == 0)
		return world_reads;
	return strcmp(name, "ofi.provider") == 0 ? world_provider :
		strcmp(name, "ofi.receives") == 0 ? "128" : NULL;
}

static const struct ripc__host world_host = {.log = log_nothing, .option = world_option,
	.context = 1};

static inline bool world_can(void)
{
	char why[256], remedy[256];

	if (ripc__ofi_backend.net.probe(&world_host, why, remedy) == 0)
		return true;
	printf("skipped: %s (%s)\n", why, remedy);
	return false;
}

static inline void end_open(struct end *end)
{
	memset(end, 0, sizeof(*end));
	ck_assert_int_eq(ripc__ofi_backend.net.open(&end->port, &world_host, &end->attr), 0);
}

static inline void end_close(struct end *end)
{
	ripc__ofi_backend.net.close(&end->port);
}

static inline void end_addr(struct end *end, struct end *seen_from, struct ripc__addr *addr)
{
	static const uint8_t host[16];
	uint8_t blob[RIPC_ADDR_MAX];
	int len = ripc__ofi_port_addr(&end->port, blob);

	ck_assert_int_eq(ripc__ofi_addr_choose(&seen_from->port, blob, (size_t)len, host, addr), 0);
}


/* A datagram that begins with a number. */
static inline int end_send(struct end *end, uint32_t number, uint32_t len)
{
	static uint8_t bytes[RIPC_DATAGRAM_MAX];
	struct iovec iov = {bytes, len};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = len};

	memcpy(bytes, &number, sizeof(number));
	return ripc__ofi_send(&end->port, &end->peer, &tx, 1);
}

/* The next event; other moves meanwhile (NULL: nobody). */
static inline void end_next(struct end *end, struct end *other, struct ripc__event *event)
{
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		struct ripc__event none;

		if (ripc__ofi_poll(&end->port, event, 1, false) == 1)
			return;
		if (other)
			ripc__ofi_poll(&other->port, &none, 0, false);
		poll(NULL, 0, turn > 100);
	}
	ck_abort_msg("nothing came in");
}

/* A route, once there is a connection. */
static inline void end_route_by(struct end *from, struct end *to, struct ofi_route *peer)
{
	struct ripc__event event;
	struct ripc__addr addr;
	int error;

	end_addr(to, from, &addr);
	error = ripc__ofi_route_open(&from->port, peer, &addr);
	if (error == -EINPROGRESS) {
		end_next(from, to, &event);
		ck_assert_int_eq(event.kind, RIPC_EV_PEER);
		ck_assert_ptr_eq(event.peer, peer);
		ck_assert(ripc__ofi_route_matches(&from->port, peer, event.from));
		error = event.status;
	}
	ck_assert_int_eq(error, 0);
}

static inline void end_route(struct end *from, struct end *to)
{
	end_route_by(from, to, &from->peer);
}

static inline uint32_t end_number(struct end *end, struct end *other)
{
	struct ripc__event event;
	uint32_t number;

	do {
		end_next(end, other, &event);
	} while (event.kind == RIPC_EV_PEER);
	memcpy(&number, event.data, sizeof(number));
	ripc__buffer_release(&end->port, event.handle);
	return number;
}

#endif
