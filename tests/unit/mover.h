/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that reads and writes remote memory; both, and fences, end when the test says so. */
#ifndef MOVER_H
#define MOVER_H

#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/message/returns.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "lone.h"

#define MIB        (1u << 20)
#define MOVES_MAX  64
#define KEY        0x4e1 /* of the first range that is opened */
#define LENT       (2 * MIB)

/* Memory that was registered: of the pool, or another's. */
struct fake_region {
	void *mem; /* NULL: free */
	size_t len;
	bool in_pool;
};

struct fake_move {
	uint64_t offset, cookie;
	struct ripc__key key; /* address: in theirs */
	void *mem;
	size_t len;
};

/* The partner's memory, and ours that it reads or writes. */
static uint8_t theirs[12 * MIB], lent[LENT];

static struct {
	struct ripc__backend backend;
	const struct ripc__backend *backends[2];
	uint32_t caps, read_max;
	struct fake_move reads[MOVES_MAX], writes[MOVES_MAX]; /* in progress */
	uint32_t n_reads, n_writes;
	uint32_t n_full;  /* calls of read and write that get -EAGAIN */
	int refusal;      /* the result that they get instead; 0: none */
	uint32_t n_begun; /* answers of which the first byte was written */
	struct ripc__event events[MOVES_MAX];
	uint32_t n_events;
	uint32_t n_open, n_writable, n_closed, n_regions;
	struct fake_region regions[MOVES_MAX];
	bool fences, opens_slowly, ends_when_waited_for;
	uint64_t fence;
} fake;

static inline int fake_open(void *port, const struct ripc__host *host, struct ripc__attr *attr)
{
	lone_open_port(port, host, attr);
	attr->caps = fake.caps;
	attr->read_max = fake.read_max;
	return 0;
}

static inline bool is_in_pool(void *port, const void *mem, size_t len)
{
	return ripc__pool_owns(((struct lone_port *)port)->lone->ctx->pool, mem, len);
}

static inline int fake_mem_reg(void *port, void *peer, void *mem, size_t len, bool source,
		void **region)
{
	uint32_t i = 0;

	ck_assert_int_eq(source, (fake.caps & RIPC_CAP_WRITE) != 0);
	(void)peer;
	while (fake.regions[i].mem)
		ck_assert_uint_lt(++i, MOVES_MAX);
	fake.regions[i] = (struct fake_region){mem, len, is_in_pool(port, mem, len)};
	*region = &fake.regions[i];
	fake.n_regions++;
	return 0;
}

/* While it is there: what was of the pool must not have gone back. */
static inline void fake_mem_dereg(void *port, void *state)
{
	struct fake_region *region = state;

	ck_assert_ptr_nonnull(region->mem);
	ck_assert_int_eq(is_in_pool(port, region->mem, region->len), region->in_pool);
	region->mem = NULL;
	fake.n_regions--;
}

static inline int fake_mem_open(void *port, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	(void)port;
	(void)peer;
	(void)len;
	*key = (struct ripc__key){(uintptr_t)mem, KEY + fake.n_open++};
	ck_assert(!writable || (fake.caps & RIPC_CAP_WRITE));
	fake.n_writable += writable;
	return 0;
}

static inline int fake_mem_close(void *port, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	(void)port;
	(void)how;
	(void)key;
	fake.n_closed++;
	if (!fake.fences)
		return 0;
	fake.fence = cookie;
	return -EINPROGRESS;
}

static inline int fake_peer_open(void *port, void *peer, const struct ripc__addr *addr)
{
	lone_peer_open(port, peer, addr);
	return fake.opens_slowly ? -EINPROGRESS : 0;
}

static inline int move_begins(struct fake_move *moves, uint32_t *n, struct fake_move move)
{
	if (fake.n_full > 0) {
		fake.n_full--;
		return fake.refusal ? fake.refusal : -EAGAIN;
	}
	ck_assert_uint_lt(*n, MOVES_MAX);
	moves[(*n)++] = move;
	return 0;
}

static inline int fake_move(void *port, void *peer, const struct ripc__move *move)
{
	struct fake_move made = {move->offset, move->cookie, move->key, move->mem, move->len};
	int error = move->writes ? move_begins(fake.writes, &fake.n_writes, made) :
		move_begins(fake.reads, &fake.n_reads, made);

	(void)port;
	(void)peer;
	ck_assert_int_eq(!move->region, !(fake.caps & RIPC_CAP_REGISTERED));
	fake.n_begun += move->writes && !error && move->offset == 0 && move->key.key == 77;
	return error;
}

/* Registered memory goes with the port, while it is still there. */
static inline void fake_close(void *port)
{
	for (uint32_t i = 0; i < MOVES_MAX; i++) {
		if (fake.regions[i].mem)
			fake_mem_dereg(port, &fake.regions[i]);
	}
	lone_close(port);
}

/* The event of this kind comes with the next poll. */
static inline void event(struct ripc__event event)
{
	ck_assert_uint_lt(fake.n_events, MOVES_MAX);
	fake.events[fake.n_events++] = event;
}

/* A read in progress ends; what it got is the partner's memory at that address. */
static inline void read_ends(uint32_t at, int status)
{
	struct fake_move *read = &fake.reads[at];

	if (status == 0)
		memcpy(read->mem, theirs + read->key.address + read->offset, read->len);
	event((struct ripc__event){.kind = RIPC_EV_READ, .cookie = read->cookie,
		.status = status});
	*read = fake.reads[--fake.n_reads];
}

/* A write in progress ends, in the partner's memory at that address. */
static inline void write_ends(uint32_t at, int status)
{
	struct fake_move *write = &fake.writes[at];

	if (status == 0)
		memcpy(theirs + write->key.address + write->offset, write->mem, write->len);
	event((struct ripc__event){.kind = RIPC_EV_WRITE, .cookie = write->cookie,
		.status = status});
	*write = fake.writes[--fake.n_writes];
}

static inline void fenced(void)
{
	event((struct ripc__event){.kind = RIPC_EV_FENCED, .cookie = fake.fence});
}

static inline int fake_poll(void *port, struct ripc__event *events, uint32_t n, bool all)
{
	uint32_t filled;

	while (fake.ends_when_waited_for && fake.n_reads)
		read_ends(0, -ETIMEDOUT);
	if (fake.ends_when_waited_for && fake.fence)
		fenced();
	fake.ends_when_waited_for = false;
	filled = fake.n_events;
	if (filled == 0)
		return lone_poll(port, events, n, all);
	memcpy(events, fake.events, filled * sizeof(*events));
	fake.n_events = 0;
	return (int)filled;
}

/* The partner has what is pseudo-random; the device moves at most read_max bytes at once. */
static inline void mover_open_most(struct lone *lone, uint32_t caps, uint32_t read_max)
{
	memset(&fake, 0, sizeof(fake));
	memset(lent, 0, sizeof(lent));
	fake.caps = caps;
	fake.read_max = read_max;
	fake.backend = lone_backend;
	fake.backend.net.open = fake_open;
	fake.backend.net.close = fake_close;
	fake.backend.mem.reg = fake_mem_reg;
	fake.backend.mem.dereg = fake_mem_dereg;
	fake.backend.mem.open = fake_mem_open;
	fake.backend.mem.close = fake_mem_close;
	fake.backend.route.open = fake_peer_open;
	fake.backend.remote.move = fake_move;
	fake.backend.datagrams.poll = fake_poll;
	fake.backends[0] = &fake.backend;
	lone_open_on(lone, fake.backends);
	for (size_t i = 0; i < sizeof(theirs); i++)
		theirs[i] = (uint8_t)(i * 2654435761u >> 16);
}

static inline void mover_open(struct lone *lone, uint32_t caps)
{
	mover_open_most(lone, caps, 0);
}

#endif
