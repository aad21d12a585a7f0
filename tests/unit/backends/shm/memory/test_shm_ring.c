/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings of the shm backend, with honest and with dishonest ends. */
#include <errno.h>
#include <string.h>

#include "backends/shm/internal.h"
#include "suite.h"

static struct shm_ring_memory *memory;
static struct shm_ring_out out;
static struct shm_ring_in in;
static uint8_t sent[RIPC_DATAGRAM_MAX], got[RIPC_DATAGRAM_MAX];

static void set_up(void)
{
	memory = aligned_alloc(128, sizeof(*memory));
	ck_assert_ptr_nonnull(memory);
	memset(memory, 0, sizeof(*memory));
	memset(&out, 0, sizeof(out));
	memset(&in, 0, sizeof(in));
	out.memory = in.memory = memory;
}

static void tear_down(void)
{
	free(memory);
}

static void fill(uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		sent[i] = (uint8_t)(seed * 7 + i + (i >> 8));
}

/* In two pieces, as core does. */
static bool put(uint32_t len, uint32_t seed)
{
	uint32_t first = len < 40 ? len : 40;
	const struct iovec iov[2] = {{sent, first}, {sent + first, len - first}};
	const struct ripc__tx tx = {.iov = iov, .n_iov = 2, .len = len};

	fill(len, seed);
	return ripc__shm_ring_put(&out, &tx);
}

static void expect(uint32_t len, uint32_t seed)
{
	ck_assert(ripc__shm_ring_ready(&in));
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), (int)len);
	fill(len, seed);
	ck_assert_mem_eq(got, sent, len);
}

START_TEST(put__lengths_around_the_slot)
{
	static const uint32_t lens[] = {1, SHM_INLINE - 1, SHM_INLINE, SHM_INLINE + 1, 1400,
		RIPC_DATAGRAM_MAX - 1, RIPC_DATAGRAM_MAX};

	for (uint32_t turn = 0; turn < 100; turn++) {
		for (uint32_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			ck_assert(put(lens[i], turn + i));
			expect(lens[i], turn + i);
		}
	}
	ck_assert(!ripc__shm_ring_ready(&in));
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), 0);
}
END_TEST

START_TEST(put__until_it_is_full)
{
	for (uint32_t turn = 0; turn < 5; turn++) {
		uint32_t n = 0;

		while (put(50, n))
			n++;
		ck_assert_uint_eq(n, SHM_SLOTS);
		for (uint32_t i = 0; i < n; i++)
			expect(50, i);
	}
}
END_TEST

/* Lengths and moments at random; all comes out once, in order, unaltered. */
START_TEST(put__at_random)
{
	uint64_t random = 3;
	uint32_t lens[SHM_SLOTS], n_put = 0, n_got = 0;

	while (n_got < 20000) {
		uint32_t len = 1 + (uint32_t)(suite_random(&random) % 40000);

		if (suite_random(&random) % 3)
			len = 1 + len % 300;
		if (suite_random(&random) % 2 && put(len, n_put)) {
			lens[n_put++ % SHM_SLOTS] = len;
		} else if (n_got < n_put) {
			expect(lens[n_got % SHM_SLOTS], n_got);
			n_got++;
		}
	}
}
END_TEST

/* As after four thousand million datagrams. */
START_TEST(put__numbers_wrap)
{
	out.tail = out.head_seen = in.head = in.head_told = UINT32_MAX - 70;
	atomic_store(&memory->head, in.head);
	for (uint32_t i = 0; i < 300; i++) {
		ck_assert(put(i % 2 ? 60 : 3000, i));
		expect(i % 2 ? 60 : 3000, i);
	}
}
END_TEST

static void set_word(uint32_t number, uint32_t len)
{
	atomic_store(&memory->slots[(number - 1) % SHM_SLOTS].word, (uint64_t)number << 32 | len);
}

START_TEST(take__refuses_nonsense)
{
	uint64_t offset;

	set_word(1, 0);
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), -EBADMSG);
	set_word(1, RIPC_DATAGRAM_MAX + 1);
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), -EBADMSG);
	set_word(1, UINT32_MAX);
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), -EBADMSG);
	set_word(1, 1000);
	offset = SHM_AREA - 999;
	memcpy(memory->slots[0].bytes, &offset, sizeof(offset));
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), -EBADMSG);
	offset = UINT64_MAX - 10;
	memcpy(memory->slots[0].bytes, &offset, sizeof(offset));
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), -EBADMSG);
	ck_assert_uint_eq(in.head, 0);
	offset = SHM_AREA - 1000;
	memcpy(memory->slots[0].bytes, &offset, sizeof(offset));
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), 1000);
}
END_TEST

/* A number that is not the next one is what the lap before has left. */
START_TEST(take__waits_for_its_number)
{
	set_word(SHM_SLOTS + 1, 10);
	ck_assert(!ripc__shm_ring_ready(&in));
	ck_assert_int_eq(ripc__shm_ring_take(&in, got), 0);
}
END_TEST

/* The receiver says that it has taken what was never put. */
START_TEST(put__survives_a_wrong_head)
{
	static const uint32_t heads[] = {SHM_SLOTS + 1, UINT32_MAX, 1u << 31};

	for (uint32_t i = 0; i < SHM_SLOTS; i++)
		ck_assert(put(50, i));
	for (uint32_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		atomic_store(&memory->head, heads[i]);
		ck_assert(!put(50, 1));
		ck_assert(!put(5000, 1));
	}
	atomic_store(&memory->head, SHM_SLOTS);
	ck_assert(put(5000, 1));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		put__lengths_around_the_slot,
		put__until_it_is_full,
		put__at_random,
		put__numbers_wrap,
		take__refuses_nonsense,
		take__waits_for_its_number,
		put__survives_a_wrong_head,
		NULL,
	};

	return suite_run_between("shm_ring", tests, set_up, tear_down);
}
