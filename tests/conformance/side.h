/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code shared by the conformance cases: two contexts' worth of device, port and route ("sides"),
 * datagrams whose bytes tell what they should be, and waiting that cannot hang.
 */
#ifndef CONFORMANCE_SIDE_H
#define CONFORMANCE_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "suite.h"

#define DATAGRAM_ROOM 65536

struct side {
	struct ripc__attr attr;
	void *port;
	void *peer; /* route to the other side */
};

/* Set by conformance_run(). */
extern const struct conformance *conformance_under_test;

/* The world of a case: opened before each, closed after it. */
void world_open(void);
void world_close(void);
/* Options that hold for this case only, before those of the variant. */
void world_override(conformance_options options);
const struct ripc__host *world_host(int variant);

/* Memory that a backend may show to others (ripc__host.share); lives as long as the world. */
uint8_t *world_memory(size_t len);

void side_open(struct side *side, int variant);
void side_close(struct side *side);
void side_address(const struct side *of, const struct side *seen_from, struct ripc__addr *addr);
/* A new route; close it with side_unroute(). */
void *side_route(const struct side *from, const struct ripc__addr *to);
/* The same; it may turn out that it leads nowhere. */
void *side_route_maybe(const struct side *from, const struct ripc__addr *to);
void side_unroute(const struct side *from, void *peer);
/* Opens two sides and their routes to each other. */
void pair_open(struct side *left, struct side *right, int variant);
void pair_close(struct side *left, struct side *right);

/* Fills bytes that depend on number, which they begin with if there is room. */
void pattern_fill(uint8_t *bytes, uint32_t len, uint32_t number);
/* Are these the bytes of number? */
bool pattern_is(const uint8_t *bytes, uint32_t len, uint32_t number);
uint32_t pattern_number(const uint8_t *bytes);

/* One datagram of the pattern; sends until it is taken. */
void side_send(const struct side *side, void *peer, uint32_t len, uint32_t number);
/* Up to n events, at least one; fails the test when nothing comes in for 20 s. */
int side_wait(const struct side *side, struct ripc__event *events, uint32_t n);
/* Waits for one datagram and checks that it is the pattern of len and number; releases it. */
void side_expect(const struct side *side, uint32_t len, uint32_t number);
/* The other sides make progress, without delivering anything. */
void side_others_move(const struct side *side);
/* Is there something to sleep on? */
bool side_sleeps(const struct side *side);
/* Is the descriptor readable now? Or soon, where what was sent arrives later. */
bool side_readable_soon(const struct side *side);
bool side_readable(const struct side *side);

#endif
