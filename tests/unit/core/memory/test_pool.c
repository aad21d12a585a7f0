/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffer pool: blocks do not overlap, references count, what is not a live block is
 * refused, the limit holds, and memory comes back; from one thread and from several.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "core/net/backend.h"
#include "core/memory/pool.h"
#include "suite.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct ripc__pool *pool;

static void open_pool(uint64_t limit)
{
	ck_assert_int_eq(ripc__pool_open(limit, false, &pool), 0);
}

static void close_pool(void)
{
	ripc__pool_close(pool);
}

static struct ripc__pool_stats stats(void)
{
	struct ripc__pool_stats s;

	ripc__pool_stats(pool, &s);
	ck_assert_uint_le(s.used, s.taken);
	ck_assert_uint_le(s.taken, s.limit);
	return s;
}

static uint8_t *take(size_t len)
{
	void *buf = NULL;

	ck_assert_int_eq(ripc__pool_alloc(pool, len, &buf), 0);
	ck_assert_ptr_nonnull(buf);
	return buf;
}

static void give(const void *buf)
{
	ck_assert_int_eq(ripc__pool_free(pool, buf), 0);
}

/* ---- blocks ------------------------------------------------------------------------------ */

START_TEST(alloc__every_size)
{
	open_pool(0);
	for (size_t len = 0; len < 9 * MIB; len += 1 + len / 9) {
		uint8_t *buf = take(len);

		ck_assert_uint_eq((uintptr_t)buf % 64, 0);
		ck_assert_uint_ge(ripc__pool_room(pool, buf), len);
		ck_assert_uint_le(ripc__pool_room(pool, buf), len + len / 2 + 64);
		ck_assert_uint_eq(ripc__pool_refs(pool, buf), 1);
		ck_assert(ripc__pool_owns(pool, buf, len));
		ck_assert_uint_eq(stats().used, ripc__pool_room(pool, buf));
		memset(buf, 0xa5, len);
		give(buf);
		ck_assert_uint_eq(stats().used, 0);
	}
	close_pool();
}
END_TEST

#define SLOTS 600

struct slot {
	uint8_t *buf;
	size_t len;
	uint32_t refs;
	uint8_t mark;
};

static void check_slot(const struct slot *slot, uint64_t random)
{
	size_t inside = slot->len ? random % slot->len : 0;

	ck_assert_uint_eq(ripc__pool_refs(pool, slot->buf + inside), slot->refs);
	ck_assert(!slot->len || slot->buf[inside] == slot->mark);
	ck_assert(!slot->len || slot->buf[slot->len - 1] == slot->mark);
	ck_assert(ripc__pool_owns(pool, slot->buf + inside, slot->len - inside));
	ck_assert(!ripc__pool_owns(pool, slot->buf, ripc__pool_room(pool, slot->buf) + 1));
}

static void fill_slot(struct slot *slot, uint64_t random)
{
	slot->len = random % (random % 50 == 0 ? 3 * MIB : random % 5 ? 3000 : 200000);
	slot->buf = take(slot->len);
	slot->refs = 1;
	slot->mark = (uint8_t)(random >> 40);
	memset(slot->buf, slot->mark, slot->len);
}

/* Takes, refers, gives, from one end of the blocks or the middle, in random order. */
START_TEST(alloc__blocks_keep_apart)
{
	struct slot slots[SLOTS] = {{0}};
	uint64_t random = 3;

	open_pool(0);
	for (int round = 0; round < 60000; round++) {
		struct slot *slot = &slots[suite_random(&random) % SLOTS];

		if (!slot->refs) {
			fill_slot(slot, suite_random(&random));
			continue;
		}
		check_slot(slot, suite_random(&random));
		if (suite_random(&random) % 3 == 0) {
			ck_assert_int_eq(ripc__pool_ref(pool, slot->buf + slot->len / 2), 0);
			slot->refs++;
		} else {
			give(slot->buf + slot->len / 2);
			slot->refs--;
		}
	}
	for (int i = 0; i < SLOTS; i++) {
		for (; slots[i].refs; slots[i].refs--)
			give(slots[i].buf);
	}
	ck_assert_uint_eq(stats().used, 0);
	close_pool();
}
END_TEST

START_TEST(free__twice)
{
	static const size_t lens[] = { 0, 100, 4096, 512 * KIB, 512 * KIB + 1, 3 * MIB };

	open_pool(0);
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		uint8_t *other = take(lens[i]), *buf = take(lens[i]);

		ck_assert_int_eq(ripc__pool_ref(pool, buf), 0);
		ck_assert_uint_eq(ripc__pool_refs(pool, buf), 2);
		give(buf);
		ck_assert_uint_eq(ripc__pool_refs(pool, buf), 1);
		give(buf);
		ck_assert_int_eq(ripc__pool_free(pool, buf), -EINVAL);
		ck_assert_int_eq(ripc__pool_ref(pool, buf), -EINVAL);
		ck_assert_uint_eq(ripc__pool_refs(pool, buf), 0);
		ck_assert_uint_eq(ripc__pool_room(pool, buf), 0);
		ck_assert(!ripc__pool_owns(pool, buf, 0));
		ck_assert_uint_eq(ripc__pool_refs(pool, other), 1);
		give(other);
	}
	close_pool();
}
END_TEST

START_TEST(free__not_a_block)
{
	void *unmapped = mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *block, *big;
	int on_stack;

	open_pool(0);
	block = take(1000);
	big = take(5 * MIB);
	munmap(unmapped, MIB);
	const void *const others[] = {
		NULL, (void *)1, (void *)UINTPTR_MAX, (void *)(UINTPTR_MAX / 2), &on_stack, &pool,
		pool, unmapped, block + 1024, block - 1, block + 2 * MIB - 1, block + 2 * MIB,
		big - 1, big + ripc__pool_room(pool, big),
	};
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		if (others[i] == block || others[i] == big)
			continue; /* the slabs happen to be neighbours */
		ck_assert_int_eq(ripc__pool_free(pool, others[i]), -EINVAL);
		ck_assert_int_eq(ripc__pool_ref(pool, others[i]), -EINVAL);
		ck_assert_uint_eq(ripc__pool_refs(pool, others[i]), 0);
		ck_assert_uint_eq(ripc__pool_room(pool, others[i]), 0);
		ck_assert(!ripc__pool_owns(pool, others[i], 0));
	}
	give(block);
	give(big);
	close_pool();
}
END_TEST

START_TEST(room__from_inside)
{
	uint8_t *block, *big;

	open_pool(0);
	block = take(1000);
	big = take(3 * MIB);
	ck_assert_uint_eq(ripc__pool_room(pool, block), 1024);
	ck_assert_uint_eq(ripc__pool_room(pool, block + 1000), 24);
	ck_assert_uint_eq(ripc__pool_room(pool, block + 1023), 1);
	ck_assert_uint_eq(ripc__pool_room(pool, big + 2 * MIB + 5), MIB - 5);
	ck_assert(ripc__pool_owns(pool, block + 1000, 24));
	ck_assert(!ripc__pool_owns(pool, block + 1000, 25));
	ck_assert(!ripc__pool_owns(pool, block, SIZE_MAX));
	ck_assert(ripc__pool_owns(pool, big + MIB, 2 * MIB));
	ck_assert(!ripc__pool_owns(pool, big + MIB, 2 * MIB + 1));
	close_pool(); /* with live blocks */
}
END_TEST

START_TEST(ref__as_many_as_can_be_counted)
{
	uint8_t *buf;

	open_pool(0);
	buf = take(10);
	for (int i = 0; i < 100000; i++)
		ck_assert_int_eq(ripc__pool_ref(pool, buf), 0);
	ck_assert_uint_eq(ripc__pool_refs(pool, buf), 100001);
	for (int i = 0; i < 100001; i++)
		give(buf);
	ck_assert_int_eq(ripc__pool_free(pool, buf), -EINVAL);
	close_pool();
}
END_TEST

/* ---- limit and memory -------------------------------------------------------------------- */

/* Takes blocks until there are no more; returns how many. */
static size_t take_all(size_t len, void **bufs, size_t most)
{
	size_t n = 0;
	int err = 0;

	while (n < most) {
		void *buf = bufs;

		err = ripc__pool_alloc(pool, len, &buf);
		if (err) {
			ck_assert_ptr_eq(buf, bufs); /* untouched */
			break;
		}
		bufs[n++] = buf;
	}
	ck_assert_int_eq(err, -ENOMEM);
	stats();
	return n;
}

static void give_all(void **bufs, size_t n)
{
	while (n)
		give(bufs[--n]);
}

START_TEST(alloc__limit)
{
	static const size_t lens[] = { 64, 1000, 3 * KIB, 64 * KIB, 500 * KIB, 700 * KIB, 3 * MIB };
	static void *bufs[200000];

	open_pool(8 * MIB);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
			size_t n = take_all(lens[i], bufs, 200000);

			/* All of the limit serves each size in turn; a part is lost in rounding. */
			ck_assert_uint_ge(n * lens[i], 5 * MIB);
			ck_assert_uint_le(n * lens[i], 8 * MIB);
			give_all(bufs, n);
			ck_assert_uint_eq(stats().used, 0);
		}
	}
	close_pool();
}
END_TEST

START_TEST(alloc__limit_is_used_to_the_end)
{
	void *buf;

	open_pool(100 * MIB);
	ck_assert_int_eq(ripc__pool_alloc(pool, 100 * MIB + 1, &buf), -ENOMEM);
	ck_assert_int_eq(ripc__pool_alloc(pool, SIZE_MAX, &buf), -ENOMEM);
	buf = take(97 * MIB); /* rounding up must not push it over the limit */
	ck_assert_int_eq(ripc__pool_alloc(pool, 4 * MIB, &(void *){NULL}), -ENOMEM);
	give(buf);
	give(take(100 * MIB));
	give(take(1)); /* at the expense of the idle big one */
	close_pool();
}
END_TEST

/* Lengths that would wrap to nothing when they are rounded up, whatever the limit is. */
START_TEST(alloc__longer_than_memory)
{
	void *buf = &buf;

	open_pool(UINT64_MAX);
	for (size_t less = 0; less < 70; less++) {
		/* Half of what 32 bits reach may be there. */
		for (unsigned int shift = 0; shift < (SIZE_MAX > UINT32_MAX ? 4 : 1); shift++) {
			size_t len = (SIZE_MAX >> shift) - less;

			ck_assert_int_eq(ripc__pool_alloc(pool, len, &buf), -ENOMEM);
			ck_assert_int_eq(ripc__pool_alloc(pool, len - 4096 * less, &buf), -ENOMEM);
		}
	}
	ck_assert_ptr_eq(buf, &buf);
	ck_assert_uint_eq(stats().taken, 0);
	buf = take(10);
	ck_assert(!ripc__pool_owns(pool, buf, SIZE_MAX));
	ck_assert_int_eq(ripc__pool_fault(pool, buf, SIZE_MAX - 10), 0);
	give(buf);
	close_pool();
}
END_TEST

START_TEST(open__limits)
{
	open_pool(1);
	ck_assert_uint_eq(stats().limit, 2 * MIB);
	give(take(1));
	close_pool();
	open_pool(0);
	ck_assert_uint_ge(stats().limit, 2 * MIB);
	ck_assert_uint_eq(stats().taken, 0);
	close_pool();
}
END_TEST

START_TEST(alloc__big_ones_are_used_again)
{
	uint8_t *buf, *again;

	open_pool(0);
	buf = take(80 * MIB);
	ck_assert_uint_eq(stats().taken, 80 * MIB);
	give(buf);
	again = take(75 * MIB); /* wastes less than a quarter */
	ck_assert_ptr_eq(again, buf);
	give(again);
	again = take(40 * MIB);
	ck_assert_ptr_ne(again, buf);
	give(again);
	ck_assert_uint_eq(stats().taken, 120 * MIB);
	ck_assert_uint_eq(stats().used, 0);
	close_pool();
}
END_TEST

/* Pages of [buf, buf + len), whole pages, that have memory. */
static size_t resident_bytes(uint8_t *buf, size_t len)
{
	static unsigned char pages[8192];
	size_t page = (size_t)sysconf(_SC_PAGESIZE), resident = 0;

	ck_assert_uint_le(len / page, sizeof(pages));
	ck_assert_int_eq(mincore(buf, len, pages), 0);
	for (size_t i = 0; i < len / page; i++)
		resident += pages[i] & 1 ? page : 0;
	return resident;
}

START_TEST(fault__as_far_as_asked)
{
	uint8_t *buf, *small;
	int on_stack;

	open_pool(0);
	buf = take(20 * MIB);
	ck_assert_uint_eq(resident_bytes(buf, 4 * MIB), 4 * MIB);
	ck_assert_int_eq(ripc__pool_fault(pool, buf + 5 * MIB, 2 * MIB), 0);
	ck_assert_uint_eq(resident_bytes(buf + 5 * MIB, 2 * MIB), 2 * MIB);
	ck_assert_int_eq(ripc__pool_fault(pool, buf + 19 * MIB, MIB), 0);
	ck_assert_uint_eq(resident_bytes(buf + 19 * MIB, MIB), MIB);
	ck_assert_uint_eq(resident_bytes(buf + 9 * MIB, 8 * MIB), 0);
	ck_assert_int_eq(ripc__pool_fault(pool, buf, 20 * MIB), 0);
	ck_assert_uint_eq(resident_bytes(buf, 20 * MIB), 20 * MIB);
	ck_assert_int_eq(ripc__pool_fault(pool, buf, SIZE_MAX), 0);
	small = take(100 * KIB);
	ck_assert_int_eq(ripc__pool_fault(pool, small + 10, 100), 0);
	ck_assert_int_eq(ripc__pool_fault(pool, &on_stack, sizeof(on_stack)), 0);
	ck_assert_int_eq(ripc__pool_fault(pool, NULL, 1), 0);
	give(small);
	give(buf);
	close_pool();
}
END_TEST

/*
 * Promised memory counts against the limit, and takes no memory before bytes come: no more than
 * these want.
 */
START_TEST(promise__takes_no_memory)
{
	static const size_t lens[] = {100 * KIB, 500 * KIB, MIB, 20 * MIB};
	uint8_t *buf;

	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		size_t whole = lens[i] / (64 * KIB) * (64 * KIB);

		open_pool(0);
		ck_assert_int_eq(ripc__pool_promise(pool, lens[i], 0, (void **)&buf), 0);
		ck_assert_uint_ge(stats().used, lens[i]);
		ck_assert_uint_eq(resident_bytes(buf, whole), 0);
		ck_assert_int_eq(ripc__pool_fault(pool, buf, 1), 0);
		ck_assert_uint_eq(resident_bytes(buf, whole), 64 * KIB);
		ck_assert_int_eq(ripc__pool_fault(pool, buf + lens[i] - 1, 1), 0);
		ck_assert_uint_le(resident_bytes(buf, whole), 192 * KIB);
		ck_assert_int_eq(ripc__pool_fault(pool, buf, lens[i]), 0);
		ck_assert_uint_eq(resident_bytes(buf, whole), whole);
		give(buf);
		close_pool();
	}
}
END_TEST

/* Neighbours of a small slab: each has pages when its own bytes come. */
START_TEST(promise__beside_others)
{
	uint8_t *bufs[8];

	open_pool(0);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(ripc__pool_promise(pool, 256 * KIB, 0, (void **)&bufs[i]), 0);
	ck_assert_int_eq(ripc__pool_fault(pool, bufs[7], 256 * KIB), 0);
	ck_assert_uint_eq(resident_bytes(bufs[7], 256 * KIB), 256 * KIB);
	for (int i = 0; i < 7; i++)
		ck_assert_uint_eq(resident_bytes(bufs[i], 256 * KIB), 0);
	ck_assert_int_eq(ripc__pool_fault(pool, bufs[2], 256 * KIB), 0);
	ck_assert_uint_eq(resident_bytes(bufs[2], 256 * KIB), 256 * KIB);
	close_pool();
}
END_TEST

#define READER 77u
#define OTHER  78u

static struct ripc__shared shown;

static int show(const void *buf, uint64_t reader)
{
	return ripc__pool_share(pool, buf, MIB, reader, &shown);
}

static uint8_t *come(uint64_t from)
{
	uint8_t *buf = NULL;

	ck_assert_int_eq(ripc__pool_promise(pool, MIB, from, (void **)&buf), 0);
	ck_assert_int_eq(ripc__pool_fault(pool, buf, MIB), 0);
	return buf;
}

/* Memory that is returned to its origin is the same each time, and is mapped. */
START_TEST(share__again_with_its_sender)
{
	uint64_t id = 0;

	open_pool(0);
	for (int i = 0; i < 5; i++) {
		uint8_t *buf = come(READER);

		ck_assert_int_eq(show(buf, READER), 0);
		ck_assert(i == 0 || shown.id == id);
		id = shown.id;
		give(buf);
		ck_assert(ripc__pool_is_shared(pool, &shown));
		ck_assert_uint_eq(stats().taken, MIB);
	}
	close_pool();
}
END_TEST

/* When the sender has shown it to others, they must not see what comes next from the sender. */
START_TEST(share__spread_by_its_sender)
{
	uint8_t *buf;

	open_pool(0);
	buf = come(READER);
	ck_assert_int_eq(show(buf, READER), 0);
	ripc__pool_spread(pool, &shown);
	give(buf);
	ck_assert(!ripc__pool_is_shared(pool, &shown));
	ripc__pool_spread(pool, &shown); /* too late */
	ck_assert_uint_eq(stats().taken, 0);
	close_pool();
}
END_TEST

/* Memory that held others' bytes is cleared for the next buffer, once one was to be shown. */
START_TEST(share__after_others)
{
	uint8_t *buf;

	open_pool(0);
	buf = come(OTHER);
	memset(buf, 0x55, MIB);
	give(buf);
	buf = take(MIB);
	ck_assert_int_eq(show(buf, READER), -EINVAL);
	memset(buf, 0x55, MIB);
	give(buf);
	ck_assert_ptr_eq(take(MIB), buf);
	for (size_t i = 0; i < MIB; i++)
		ck_assert_uint_eq(buf[i], 0);
	ck_assert_int_eq(show(buf, READER), 0);
	give(buf);
	close_pool();
}
END_TEST

/* Nobody else sees it, and its reader sees nothing else. */
START_TEST(share__not_with_others)
{
	uint8_t *buf, *other;

	open_pool(0);
	buf = come(READER);
	ck_assert_int_eq(show(buf, READER), 0);
	give(buf);
	other = come(OTHER);
	ck_assert_ptr_ne(other, buf);
	give(take(MIB));
	ck_assert_uint_eq(stats().taken, 3 * MIB);
	give(other);
	buf = come(READER);
	ck_assert_int_eq(show(buf, OTHER), -EINVAL); /* the earlier contents were another's */
	ck_assert_int_eq(show(buf, 0), -EINVAL);
	give(buf);
	/* A buffer that two have seen, or one that did not send it, goes when it is freed. */
	buf = take(3 * MIB);
	ck_assert_int_eq(show(buf, READER), 0);
	give(buf);
	ck_assert(!ripc__pool_is_shared(pool, &shown));
	ck_assert_int_eq(ripc__pool_promise(pool, 5 * MIB, READER, (void **)&buf), 0);
	ck_assert_int_eq(show(buf, READER), 0);
	ck_assert_int_eq(show(buf, OTHER), 0);
	give(buf);
	ck_assert(!ripc__pool_is_shared(pool, &shown));
	close_pool();
}
END_TEST

/* All but a little goes back to the system, in pieces, when it has been idle for a turn. */
START_TEST(turn__gives_idle_memory_back)
{
	uint8_t *bufs[20];
	int n_turns = 0;

	open_pool((uint64_t)1024 * MIB);
	ck_assert(!ripc__pool_is_large(pool));
	for (int i = 0; i < 20; i++)
		bufs[i] = take(8 * MIB);
	ck_assert(ripc__pool_is_large(pool));
	ck_assert(!ripc__pool_turn(pool));
	for (int i = 1; i < 20; i++)
		give(bufs[i]);
	ck_assert(!ripc__pool_turn(pool)); /* not idle for long enough */
	ck_assert_uint_eq(stats().taken, 160 * MIB);
	while (ripc__pool_turn(pool))
		ck_assert_int_lt(++n_turns, 20);
	ck_assert_int_gt(n_turns, 2);
	ck_assert_uint_le(stats().taken, (8 + 16) * MIB);
	ck_assert_uint_eq(stats().used, 8 * MIB);
	give(bufs[0]);
	close_pool();
}
END_TEST

START_TEST(free__idle_memory_is_bounded)
{
	uint8_t *bufs[4];

	open_pool((uint64_t)2048 * MIB);
	for (int i = 0; i < 4; i++)
		bufs[i] = take(96 * MIB);
	for (int i = 0; i < 4; i++)
		give(bufs[i]);
	ck_assert_uint_le(stats().taken, 256 * MIB);
	ck_assert_uint_ge(stats().taken, 96 * MIB);
	close_pool();
}
END_TEST

START_TEST(alloc__no_descriptors)
{
	rlim_t before;

	open_pool(0);
	before = descriptors_limit(0);
	give(take(10 * MIB));
	give(take(10));
	descriptors_limit(before);
	close_pool();
}
END_TEST

/* ---- foreign memory ---------------------------------------------------------------------- */

START_TEST(register__pieces)
{
	static uint8_t memory[4096];

	open_pool(0);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 1000, 1000), 0);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 3000, 1000), 0);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 2000, 1000), 0); /* touches both */
	ck_assert(ripc__pool_owns(pool, memory + 1000, 1000));
	ck_assert(ripc__pool_owns(pool, memory + 1999, 1));
	ck_assert(ripc__pool_owns(pool, memory + 2000, 1000));
	ck_assert(!ripc__pool_owns(pool, memory + 999, 1));
	ck_assert(!ripc__pool_owns(pool, memory + 4000, 0));
	ck_assert(!ripc__pool_owns(pool, memory + 1500, 501)); /* across two pieces */
	ck_assert(!ripc__pool_owns(pool, memory + 1500, SIZE_MAX));
	ck_assert_uint_eq(ripc__pool_refs(pool, memory + 1000), 0);
	ck_assert_int_eq(ripc__pool_free(pool, memory + 1000), -EINVAL);
	ck_assert_int_eq(ripc__pool_unregister(pool, memory + 1001), -ENOENT);
	ck_assert_int_eq(ripc__pool_unregister(pool, memory + 2000), 0);
	ck_assert_int_eq(ripc__pool_unregister(pool, memory + 2000), -ENOENT);
	ck_assert(!ripc__pool_owns(pool, memory + 2000, 1));
	ck_assert(ripc__pool_owns(pool, memory + 3999, 1));
	close_pool();
}
END_TEST

START_TEST(register__refused)
{
	static uint8_t memory[4096];
	uint8_t *block, *big;

	open_pool(0);
	block = take(100);
	big = take(5 * MIB);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 1000, 1000), 0);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 1000, 1000), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 1999, 1), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, memory, 1001), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, memory, 4096), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 1200, 10), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, memory, 0), -EINVAL);
	ck_assert_int_eq(ripc__pool_register(pool, NULL, 10), -EINVAL);
	ck_assert_int_eq(ripc__pool_register(pool, memory, SIZE_MAX), -EINVAL);
	ck_assert_int_eq(ripc__pool_register(pool, block + 50, 10), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, big + 4 * MIB, 10), -EEXIST);
	ck_assert_int_eq(ripc__pool_register(pool, big - 4096, 5 * MIB), -EEXIST);
	close_pool();
}
END_TEST

/* A page that cannot be read, wherever it is; memory that cannot be written to is no fault. */
START_TEST(register__unreadable)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 5 * page;
	uint8_t *memory;

	open_pool(0);
	memory = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(memory, MAP_FAILED);
	ck_assert_int_eq(ripc__pool_register(pool, memory, len), 0);
	ck_assert_int_eq(ripc__pool_unregister(pool, memory), 0);
	for (size_t at = 0; at < 5; at += 2) {
		ck_assert_int_eq(mprotect(memory + at * page, page, PROT_NONE), 0);
		/* of the first and the last page as little as can be */
		ck_assert_int_eq(ripc__pool_register(pool, memory + page - 1, len - 2 * page + 2),
			-EFAULT);
		ck_assert_int_eq(ripc__pool_register(pool, memory + at * page + 1, 1), -EFAULT);
		ck_assert(!ripc__pool_owns(pool, memory + page, 1));
		ck_assert_int_eq(mprotect(memory + at * page, page, PROT_READ), 0);
	}
	ck_assert_int_eq(ripc__pool_register(pool, memory + page - 1, len - 2 * page + 2), 0);
	ck_assert_int_eq(munmap(memory + 2 * page, page), 0);
	ck_assert_int_eq(ripc__pool_register(pool, memory + 4 * page + 1, page - 1), 0);
	ck_assert_int_eq(ripc__pool_unregister(pool, memory + page - 1), 0);
	ck_assert_int_eq(ripc__pool_register(pool, memory, 4 * page), -EFAULT);
	munmap(memory, 2 * page); /* not the hole, which may be in use again */
	munmap(memory + 3 * page, 2 * page);
	close_pool();
}
END_TEST

START_TEST(register__many_in_any_order)
{
	static uint8_t memory[1000][16];

	open_pool(0);
	for (uint32_t i = 0; i < 1000; i++)
		ck_assert_int_eq(ripc__pool_register(pool, memory[i * 389 % 1000], 12), 0);
	for (uint32_t i = 0; i < 1000; i += 2)
		ck_assert_int_eq(ripc__pool_unregister(pool, memory[i]), 0);
	for (uint32_t i = 0; i < 1000; i++) {
		ck_assert_int_eq(ripc__pool_owns(pool, memory[i], 12), i % 2);
		ck_assert(!ripc__pool_owns(pool, memory[i], 13));
		ck_assert(!ripc__pool_owns(pool, memory[i] + 12, 1));
	}
	close_pool();
}
END_TEST

/* ---- threads ----------------------------------------------------------------------------- */

#define THREADS 4
#define SHARED  64

/* Buffers on their way from one thread to whoever takes them next. */
static void *shared[SHARED];

static size_t thread_len(uint64_t random)
{
	return 1 + (random % 100 ? random % 5000 : random % (2 * MIB));
}

/* The buffer of another thread must hold what that thread wrote all over it. */
static void take_over(uint8_t *theirs)
{
	size_t len;

	if (!theirs)
		return;
	memcpy(&len, theirs, sizeof(len));
	ck_assert_uint_eq(theirs[len - 1], (uint8_t)len);
	ck_assert_uint_ge(ripc__pool_refs(pool, theirs), 2);
	give(theirs + len / 2);
	give(theirs);
}

static void *thread_main(void *arg)
{
	uint64_t random = (uintptr_t)arg;

	for (int round = 0; round < 20000; round++) {
		size_t len = sizeof(len) + thread_len(suite_random(&random));
		uint8_t *ours = take(len);

		memset(ours, (uint8_t)len, len);
		memcpy(ours, &len, sizeof(len));
		ck_assert_int_eq(ripc__pool_ref(pool, ours + len / 3), 0);
		take_over(__atomic_exchange_n(&shared[suite_random(&random) % SHARED], ours,
			__ATOMIC_ACQ_REL));
	}
	return NULL;
}

START_TEST(pool__from_several_threads)
{
	pthread_t threads[THREADS];

	ck_assert_int_eq(ripc__pool_open(512 * MIB, true, &pool), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, thread_main, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < SHARED; i++)
		take_over(shared[i]);
	ck_assert_uint_eq(stats().used, 0);
	close_pool();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		alloc__every_size, alloc__blocks_keep_apart, free__twice, free__not_a_block,
		room__from_inside, ref__as_many_as_can_be_counted, alloc__limit,
		alloc__limit_is_used_to_the_end, alloc__longer_than_memory, open__limits,
		alloc__big_ones_are_used_again,
		fault__as_far_as_asked, free__idle_memory_is_bounded, alloc__no_descriptors,
		promise__takes_no_memory, promise__beside_others, share__again_with_its_sender,
		share__spread_by_its_sender,
		share__after_others,
		share__not_with_others, turn__gives_idle_memory_back, register__pieces,
		register__refused, register__unreadable, register__many_in_any_order,
		pool__from_several_threads, NULL,
	};

	return suite_run("pool", tests);
}
