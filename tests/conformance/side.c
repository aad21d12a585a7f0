/* SPDX-License-Identifier: BSD-3-Clause */
/* Sides, patterns and waiting for the conformance cases. */
#include "side.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory/memory.h"
#include "util/bytes.h"

#define PATIENCE_MS 20000
#define SIDES_MAX   8

const struct conformance *conformance_under_test;

static struct {
	void *env;
	conformance_options options, override;
	struct ripc__host host;
	struct ripc__shared memory;
} world;

static void log_line(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *find_option(conformance_options options, const char *name)
{
	for (; options && options[0]; options += 2) {
		if (strcmp(options[0], name) == 0)
			return options[1];
	}
	return NULL;
}

static const char *get_option(void *arg, const char *name)
{
	const char *value = find_option(world.override, name);

	(void)arg;
	return value ? value : find_option(world.options, name);
}

static int share(void *arg, const void *mem, size_t len, uint64_t reader,
		struct ripc__shared *shared)
{
	size_t offset = (size_t)((const uint8_t *)mem - world.memory.base);

	(void)arg;
	(void)reader;
	if (offset > world.memory.len || len > world.memory.len - offset)
		return -EINVAL;
	*shared = world.memory;
	return 0;
}

static bool is_shared(void *arg, const struct ripc__shared *shared)
{
	(void)arg;
	return shared->id == world.memory.id;
}

uint8_t *world_memory(size_t len)
{
	struct ripc__shared *memory = &world.memory;

	memory->id = 1;
	memory->len = ripc__memory_round(len);
	ck_assert_int_eq(ripc__memory_map_shared(memory->len, 4096, (void **)&memory->base,
		&memory->fd), 0);
	return memory->base;
}

void world_open(void)
{
	memset(&world, 0, sizeof(world));
	if (conformance_under_test->world_open)
		world.env = conformance_under_test->world_open();
}

void world_close(void)
{
	if (world.memory.base) {
		ripc__memory_unmap(world.memory.base, world.memory.len);
		close(world.memory.fd);
	}
	if (conformance_under_test->world_close)
		conformance_under_test->world_close(world.env);
}

void world_override(conformance_options options)
{
	world.override = options;
}

const struct ripc__host *world_host(int variant)
{
	world.options = conformance_under_test->variants[variant];
	world.host = (struct ripc__host){
		.log = log_line,
		.option = get_option,
		.context = 1,
		.identity = 1,
		.env = world.env,
		.share = share,
		.is_shared = is_shared,
	};
	return &world.host;
}

/* Every open side. */
static struct {
	struct side *open[SIDES_MAX];
	uint32_t n;
} sides;

static void sides_add(struct side *side)
{
	ck_assert_uint_lt(sides.n, SIDES_MAX);
	sides.open[sides.n++] = side;
}

static void sides_remove(const struct side *side)
{
	for (uint32_t i = 0; i < sides.n; i++) {
		if (sides.open[i] == side)
			sides.open[i--] = sides.open[--sides.n];
	}
}

static const struct ripc__backend *backend(void)
{
	return conformance_under_test->backend;
}

static void *zeroed(size_t len)
{
	void *state = calloc(1, len);

	ck_assert_ptr_nonnull(state);
	return state;
}

void side_open(struct side *side, int variant)
{
	memset(side, 0, sizeof(*side));
	side->port = zeroed(backend()->port_size);
	ck_assert_int_eq(backend()->net.open(side->port, world_host(variant), &side->attr), 0);
	sides_add(side);
}

void side_close(struct side *side)
{
	sides_remove(side);
	if (side->peer)
		side_unroute(side, side->peer);
	backend()->net.close(side->port);
	free(side->port);
	side->peer = side->port = NULL;
}

void side_address(const struct side *of, const struct side *seen_from, struct ripc__addr *addr)
{
	uint8_t blob[RIPC_ADDR_MAX];
	int len = backend()->net.address(of->port, blob);

	ck_assert_int_gt(len, 0);
	ck_assert_int_le(len, RIPC_ADDR_MAX);
	ck_assert_int_eq(backend()->route.choose(seen_from->port, blob, (size_t)len,
		conformance_under_test->host, addr), 0);
}

static int await_peer(const struct side *from, void *peer)
{
	struct ripc__event event;

	side_wait(from, &event, 1);
	ck_assert_int_eq(event.kind, RIPC_EV_PEER);
	ck_assert_ptr_eq(event.peer, peer);
	return event.status;
}

static void *route(const struct side *from, const struct ripc__addr *to, int *status)
{
	void *peer = zeroed(backend()->route_size);

	*status = backend()->route.open(from->port, peer, to);
	if (*status == -EINPROGRESS)
		*status = await_peer(from, peer);
	return peer;
}

void *side_route(const struct side *from, const struct ripc__addr *to)
{
	int status;
	void *peer = route(from, to, &status);

	/*
	 * A process that stood still for seconds, alone or with its machine, may be late; it is
	 * left alone for one second.
	 */
	for (int i = 0; status == -ETIMEDOUT && i < 5; i++) {
		side_unroute(from, peer);
		poll(NULL, 0, 300);
		peer = route(from, to, &status);
	}
	ck_assert_int_eq(status, 0);
	return peer;
}

void *side_route_maybe(const struct side *from, const struct ripc__addr *to)
{
	int status;

	return route(from, to, &status);
}

void side_unroute(const struct side *from, void *peer)
{
	backend()->route.close(from->port, peer);
	free(peer);
}

void pair_open(struct side *left, struct side *right, int variant)
{
	struct ripc__addr addr;

	side_open(left, variant);
	side_open(right, variant);
	side_address(right, left, &addr);
	left->peer = side_route(left, &addr);
	side_address(left, right, &addr);
	right->peer = side_route(right, &addr);
}

void pair_close(struct side *left, struct side *right)
{
	side_close(left);
	side_close(right);
}

void pattern_fill(uint8_t *bytes, uint32_t len, uint32_t number)
{
	for (uint32_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(number * 31 + i + (i >> 8));
	if (len >= 4)
		put32(bytes, number);
}

bool pattern_is(const uint8_t *bytes, uint32_t len, uint32_t number)
{
	uint8_t *expected = zeroed(len + 1);
	bool same;

	pattern_fill(expected, len, number);
	same = memcmp(bytes, expected, len) == 0;
	free(expected);
	return same;
}

uint32_t pattern_number(const uint8_t *bytes)
{
	return get32(bytes);
}

void side_send(const struct side *side, void *peer, uint32_t len, uint32_t number)
{
	static uint8_t bytes[DATAGRAM_ROOM];
	struct iovec iov = {.iov_base = bytes, .iov_len = len};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = len};
	int rc;

	pattern_fill(bytes, len, number);
	while ((rc = backend()->datagrams.send(side->port, peer, &tx, 1)) == 0) {
		if (conformance_under_test->both_ends)
			side_others_move(side);
		poll(NULL, 0, 1);
	}
	ck_assert_int_eq(rc, 1);
	memset(bytes, 0xee, len); /* the bytes are ours again */
}

/* Sleeps until poll may have something. */
static void sleep_on(const struct side *side)
{
	struct pollfd fd = {.events = POLLIN};

	fd.fd = side->attr.fd;
	if (fd.fd < 0) {
		poll(NULL, 0, 1);
		return;
	}
	if (backend()->net.arm && backend()->net.arm(side->port) == -EAGAIN)
		return;
	ck_assert_msg(poll(&fd, 1, PATIENCE_MS) == 1, "nothing came in");
}

void side_others_move(const struct side *side)
{
	struct ripc__event none;

	for (uint32_t i = 0; i < sides.n; i++) {
		struct side *other = sides.open[i];

		if (other == side)
			continue;
		ck_assert_int_eq(backend()->datagrams.poll(other->port, &none, 0, false), 0);
		if (backend()->net.arm)
			backend()->net.arm(other->port);
	}
}

int side_wait(const struct side *side, struct ripc__event *events, uint32_t n)
{
	int filled, turns = 0;

	while ((filled = backend()->datagrams.poll(side->port, events, n, false)) == 0) {
		if (!conformance_under_test->both_ends) {
			sleep_on(side);
			continue;
		}
		ck_assert_msg(turns++ < PATIENCE_MS, "nothing came in");
		side_others_move(side);
		if ((backend()->net.arm && backend()->net.arm(side->port) == 0) || turns > 1000)
			poll(NULL, 0, 1);
	}
	ck_assert_int_gt(filled, 0);
	ck_assert_int_le(filled, (int)n);
	return filled;
}

void side_expect(const struct side *side, uint32_t len, uint32_t number)
{
	struct ripc__event event;

	/* That another route has failed, leads nowhere, or takes again, may be told at any time. */
	do {
		side_wait(side, &event, 1);
	} while (event.kind == RIPC_EV_PEER || event.kind == RIPC_EV_HINT);
	ck_assert_int_eq(event.kind, RIPC_EV_DATAGRAM);
	ck_assert_uint_eq(event.len, len);
	ck_assert(pattern_is(event.data, len, number));
	backend()->datagrams.release(side->port, event.handle);
}

bool side_readable(const struct side *side)
{
	struct pollfd fd = {.fd = side->attr.fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

bool side_sleeps(const struct side *side)
{
	return side->attr.fd >= 0;
}

bool side_readable_soon(const struct side *side)
{
	for (int i = 0; conformance_under_test->later && i < PATIENCE_MS; i++) {
		if (side_readable(side))
			return true;
		side_others_move(side);
		poll(NULL, 0, 1);
	}
	return side_readable(side);
}
