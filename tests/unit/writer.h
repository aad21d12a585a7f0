/* SPDX-License-Identifier: BSD-3-Clause */
/* A device that can write, whose writes and fences end when the test says so. */
#ifndef WRITER_H
#define WRITER_H

#include "lone.h"

#define MIB        (1u << 20)
#define WRITES_MAX 64
#define KEY        0x4e1 /* of the first range that is opened */
#define LENT       (2 * MIB)

struct fake_write {
	uint64_t offset, cookie;
	struct ripc__key key;
	const uint8_t *mem;
	size_t len;
};

static uint8_t ours[4 * MIB], theirs[4 * MIB], lent[LENT];

static struct {
	struct ripc__backend backend;
	const struct ripc__backend *backends[2];
	uint32_t caps;
	struct fake_write writes[WRITES_MAX]; /* in progress */
	uint32_t n_writes, n_full;            /* calls of write that get -EAGAIN */
	uint32_t n_begun;                     /* answers of which the first byte was written */
	struct ripc__event events[WRITES_MAX];
	uint32_t n_events;
	uint32_t n_open, n_writable, n_closed, n_regions;
	bool fences, ends_when_waited_for;
	uint64_t fence;
} fake;

static inline int fake_dev_open(void *dev, const struct ripc__host *host, struct ripc__attr *attr)
{
	lone_dev_open(dev, host, attr);
	attr->caps = fake.caps;
	return 0;
}

static inline int fake_mem_reg(void *dev, void *peer, void *mem, size_t len, bool source,
		void **region)
{
	ck_assert(source);
	(void)dev;
	(void)peer;
	(void)len;
	*region = mem;
	fake.n_regions++;
	return 0;
}

static inline void fake_mem_dereg(void *dev, void *region)
{
	(void)dev;
	(void)region;
	fake.n_regions--;
}

static inline int fake_mem_open(void *dev, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	(void)dev;
	(void)peer;
	(void)len;
	*key = (struct ripc__key){(uintptr_t)mem, KEY + fake.n_open++};
	fake.n_writable += writable;
	return 0;
}

static inline int fake_mem_close(void *dev, const struct ripc__key *key, uint64_t cookie)
{
	(void)dev;
	(void)key;
	fake.n_closed++;
	fake.fence = cookie;
	return fake.fences ? -EINPROGRESS : 0;
}

static inline int fake_read(void *port, void *peer, const struct ripc__key *key, uint64_t offset,
		void *mem, size_t len, uint64_t cookie)
{
	(void)port;
	(void)peer;
	(void)key;
	(void)offset;
	(void)mem;
	(void)len;
	(void)cookie;
	return -EAGAIN;
}

static inline int fake_write(void *port, void *peer, const struct ripc__key *key, uint64_t offset,
		const void *mem, size_t len, uint64_t cookie)
{
	(void)port;
	(void)peer;
	if (fake.n_full > 0) {
		fake.n_full--;
		return -EAGAIN;
	}
	ck_assert_uint_lt(fake.n_writes, WRITES_MAX);
	fake.n_begun += offset == 0 && key->key == 77;
	fake.writes[fake.n_writes++] = (struct fake_write){offset, cookie, *key, mem, len};
	return 0;
}

/* The event of this kind comes with the next poll. */
static inline void event(struct ripc__event event)
{
	ck_assert_uint_lt(fake.n_events, WRITES_MAX);
	fake.events[fake.n_events++] = event;
}

/* A write in progress ends, in the partner's memory at that address. */
static inline void write_ends(uint32_t at, int status)
{
	struct fake_write *write = &fake.writes[at];

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

static inline int fake_poll(void *port, struct ripc__event *events, uint32_t n)
{
	uint32_t filled;

	if (fake.ends_when_waited_for) {
		fake.ends_when_waited_for = false;
		fenced();
	}
	filled = fake.n_events;
	if (filled == 0)
		return lone_poll(port, events, n);
	memcpy(events, fake.events, filled * sizeof(*events));
	fake.n_events = 0;
	return (int)filled;
}

static inline void writer_open(struct lone *lone, uint32_t caps)
{
	memset(&fake, 0, sizeof(fake));
	memset(theirs, 0, sizeof(theirs));
	memset(lent, 0, sizeof(lent));
	fake.caps = caps;
	fake.backend = lone_backend;
	fake.backend.dev_open = fake_dev_open;
	fake.backend.mem_reg = fake_mem_reg;
	fake.backend.mem_dereg = fake_mem_dereg;
	fake.backend.mem_open = fake_mem_open;
	fake.backend.mem_close = fake_mem_close;
	fake.backend.read = fake_read;
	fake.backend.write = fake_write;
	fake.backend.poll = fake_poll;
	fake.backends[0] = &fake.backend;
	lone_open_on(lone, fake.backends);
	for (size_t i = 0; i < sizeof(ours); i++)
		ours[i] = (uint8_t)(i * 2654435761u >> 16);
	lone_introduce(lone);
}

#define CAPS (RIPC_CAP_READ | RIPC_CAP_WRITE | RIPC_CAP_INTACT)

#endif
