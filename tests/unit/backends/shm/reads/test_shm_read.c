/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads through shared memory: what a reader sees of its holder, what ends a read, and holders
 * whose tables lie.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../../support/util/process.h"
#include "backends/shm/internal.h"
#include "core/memory/pool.h"
#include "suite.h"
#include "util/system/locks.h"

#define SHM (&ripc__shm_backend)
#define LEN (5u << 20) /* takes several steps */

struct side {
	struct shm_port port;
	struct ripc__attr attr;
	struct shm_route peer; /* the other side */
};

static struct side holder, reader;
static struct ripc__pool *pool;
static uint8_t *given, *taken;

static void no_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *no_option(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return NULL;
}

static int share(void *arg, const void *mem, size_t len, uint64_t to,
		struct ripc__shared *shared)
{
	(void)arg;
	return ripc__pool_share(pool, mem, len, to, shared);
}

static bool is_shared(void *arg, const struct ripc__shared *shared)
{
	(void)arg;
	return ripc__pool_is_shared(pool, shared);
}

static void side_open(struct side *side)
{
	const struct ripc__host host = {.log = no_log, .option = no_option, .context = 1,
		.identity = 7, .share = share, .is_shared = is_shared};

	memset(side, 0, sizeof(*side));
	ck_assert_int_eq(SHM->net.open(&side->port, &host, &side->attr), 0);
}

static void route(struct side *from, struct side *to)
{
	struct ripc__addr addr;

	ripc__shm_addr_fill(&from->port, to->port.name, &addr);
	ck_assert_int_eq(SHM->route.open(&from->port, &from->peer, &addr), 0);
}

static void side_close(struct side *side)
{
	SHM->route.close(&side->port, &side->peer);
	SHM->net.close(&side->port);
}

static void *new_buffer(size_t len)
{
	void *buffer;

	ck_assert_int_eq(ripc__pool_alloc(pool, len, &buffer), 0);
	return buffer;
}

static void set_up(void)
{
	ck_assert_int_eq(ripc__pool_open(0, true, &pool), 0);
	side_open(&holder);
	side_open(&reader);
	route(&holder, &reader);
	route(&reader, &holder);
	given = new_buffer(LEN);
	taken = malloc(LEN);
	for (size_t i = 0; i < LEN; i++)
		given[i] = (uint8_t)(i * 7 + (i >> 9));
	memset(taken, 0, LEN);
}

static void tear_down(void)
{
	side_close(&holder);
	side_close(&reader);
	ripc__pool_close(pool);
	free(taken);
}

static struct ripc__key open_key(void *mem, size_t len)
{
	struct ripc__key key = {0};

	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, mem, len, false, &key), 0);
	return key;
}

static void start(const struct ripc__key *key, uint64_t offset, size_t len, uint64_t cookie)
{
	ck_assert_int_eq(SHM->remote.move(&reader.port, &reader.peer,
		&(struct ripc__move){.key = *key, .offset = offset, .mem = taken, .len = len,
		.cookie = cookie}), 0);
}

/* Polls until a read ends; its status. */
static int finish(uint64_t cookie)
{
	struct ripc__event event;
	int n = 0;

	for (int polls = 0; n == 0; polls++) {
		ck_assert_int_lt(polls, 1000);
		n = SHM->datagrams.poll(&reader.port, &event, 1, false);
	}
	ck_assert_int_eq(event.kind, RIPC_EV_READ);
	ck_assert_uint_eq(event.cookie, cookie);
	return event.status;
}

static int read_all(const struct ripc__key *key, uint64_t offset, size_t len)
{
	start(key, offset, len, 5);
	return finish(5);
}

START_TEST(read__a_large_range)
{
	struct ripc__key key = open_key(given + 100, LEN - 100);

	ck_assert_int_eq(read_all(&key, 0, LEN - 100), 0);
	ck_assert_mem_eq(taken, given + 100, LEN - 100);
	ck_assert_int_eq(SHM->mem.close(&holder.port, &key, RIPC_CLOSE_DONE, 0), 0);
}
END_TEST

/* As ripc_buf_alloc hands it out: there is memory behind all of it, though nobody wrote there. */
START_TEST(read__what_was_never_written)
{
	const size_t len = 9 << 20;
	uint8_t *fresh = new_buffer(len);
	struct ripc__key key;

	ck_assert_int_eq(ripc__pool_fault(pool, fresh, len), 0);
	key = open_key(fresh, len);
	taken[LEN - 1] = 1;
	ck_assert_int_eq(read_all(&key, len - LEN, LEN), 0);
	ck_assert_uint_eq(taken[LEN - 1], 0);
}
END_TEST

/* While a large one goes on, poll returns, and nobody falls asleep. */
START_TEST(read__goes_in_steps)
{
	struct ripc__key key = open_key(given, LEN);
	struct ripc__event event;

	start(&key, 0, LEN, 1);
	ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &event, 1, false), 0);
	ck_assert_int_eq(SHM->net.arm(&reader.port), -EAGAIN);
	ck_assert_int_eq(finish(1), 0);
	ck_assert_int_eq(SHM->net.arm(&reader.port), 0);
	SHM->mem.close(&holder.port, &key, RIPC_CLOSE_DONE, 0);
}
END_TEST

/* The range may change once mem_close has returned: what was half read does not count. */
START_TEST(mem_close__in_the_middle)
{
	struct ripc__key key = open_key(given, LEN);
	struct ripc__event event;

	start(&key, 0, LEN, 1);
	ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &event, 1, false), 0);
	ck_assert_int_eq(SHM->mem.close(&holder.port, &key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_int_eq(finish(1), -EACCES);
}
END_TEST

START_TEST(port_close__in_the_middle)
{
	struct ripc__key key = open_key(given, LEN);
	struct ripc__event event;

	start(&key, 0, LEN, 1);
	ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &event, 1, false), 0);
	side_close(&holder);
	ck_assert_int_lt(finish(1), 0);
	SHM->route.close(&reader.port, &reader.peer);
	side_open(&holder);
	route(&holder, &reader);
	key = open_key(given, LEN);
	route(&reader, &holder);
	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
}
END_TEST

/* Only what the application holds alone, in memory of its own, is shown. */
START_TEST(mem_open__what_is_shown)
{
	static uint8_t foreign[100];
	struct ripc__key key = {1, 2};
	void *small = new_buffer(1000);

	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, small, 1000, false, &key),
		-EINVAL);
	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, foreign, 100, false, &key),
		-EINVAL);
	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, given, 2 * LEN, false, &key),
		-EINVAL);
	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, given, LEN, true, &key),
		-EACCES);
	holder.peer.out->uid = geteuid() + 1;
	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, given, LEN, false, &key),
		-EACCES);
	ck_assert_uint_eq(key.address, 1);
	ck_assert_uint_eq(key.key, 2);
}
END_TEST

/* More keys, and more memory, than one partner can have at once. */
START_TEST(mem_open__limits)
{
	struct ripc__key keys[SHM_KEYS], key;
	void *buffers[SHM_SLABS];

	for (uint32_t i = 0; i < SHM_KEYS; i++)
		keys[i] = open_key(given, i + 1);
	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, given, 1, false, &key), -EAGAIN);
	for (uint32_t i = 0; i < SHM_KEYS; i++)
		ck_assert_int_eq(SHM->mem.close(&holder.port, &keys[i], RIPC_CLOSE_DONE, 0), 0);
	keys[0] = open_key(given, 1);
	for (uint32_t i = 1; i < SHM_SLABS; i++) {
		buffers[i] = new_buffer(1 << 20);
		keys[i] = open_key(buffers[i], 1 << 20);
	}
	buffers[0] = new_buffer(1 << 20);
	ck_assert_int_eq(SHM->mem.open(&holder.port, &holder.peer, buffers[0], 1, false, &key),
		-EAGAIN);
	/* The place of one that nobody reads goes to another. */
	ck_assert_int_eq(SHM->mem.close(&holder.port, &keys[3], RIPC_CLOSE_DONE, 0), 0);
	memset(buffers[0], 9, 100);
	key = open_key(buffers[0], 100);
	ck_assert_int_eq(read_all(&key, 0, 100), 0);
	ck_assert_uint_eq(taken[99], 9);
	ck_assert_int_eq(read_all(&keys[0], 0, 1), 0);
	ck_assert_uint_eq(taken[0], given[0]);
}
END_TEST

static uint32_t n_mapped(void)
{
	const struct shm_in *in = list_entry(reader.port.ins.next, struct shm_in, node);
	uint32_t n = 0;

	for (uint32_t i = 0; i < SHM_SLABS; i++)
		n += in->imports->slabs[i] != NULL;
	return n;
}

/* Memory that the holder has freed does not stay because the reader has it mapped. */
START_TEST(pool_free__reader_lets_go)
{
	struct ripc__key key = open_key(given, LEN);
	void *other = new_buffer(1 << 20);
	struct ripc__event event;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	ck_assert_uint_eq(n_mapped(), 1);
	SHM->mem.close(&holder.port, &key, RIPC_CLOSE_DONE, 0);
	ck_assert_int_eq(ripc__pool_free(pool, given), 0);
	key = open_key(other, 1 << 20);
	for (int polls = 0; polls < 200; polls++)
		ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &event, 1, false), 0);
	ck_assert_uint_eq(n_mapped(), 1);
	ck_assert_int_eq(read_all(&key, 0, 1 << 20), 0);
}
END_TEST

/* The table is the holder's to write: whatever it says, nothing outside a slab is read. */
START_TEST(read__from_a_table_that_lies)
{
	static const struct {
		uint64_t slab, offset, len;
	} lies[] = {
		{SHM_SLABS, 0, LEN}, {UINT64_MAX, 0, LEN}, {1 << 8 | 1, 0, LEN},
		{2 << 8, 0, LEN}, {0, UINT64_MAX, LEN},
		{0, 0, UINT64_MAX}, {0, UINT64_MAX - 10, 20}, {0, 1ull << 40, 16},
		{0, 16, 1ull << 40},
	};
	struct ripc__key key = open_key(given, LEN);
	struct shm_entry *entry = &holder.peer.out->exports->table->entries[key.address];
	const uint64_t slab = entry->slab;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		entry->slab = lies[i].slab ? lies[i].slab : slab;
		entry->offset = lies[i].offset;
		entry->len = lies[i].len;
		ck_assert_int_eq(read_all(&key, 0, 16), -EACCES);
		ck_assert_int_eq(read_all(&key, UINT64_MAX - 8, 16), -EACCES);
	}
	entry->slab = slab; /* for the end */
}
END_TEST

/* A process that pretends to be the owner knows no key. */
START_TEST(read__from_an_impostor)
{
	struct ripc__key key = open_key(given, LEN);
	int fd = ripc__shm_connect(reader.port.name, holder.port.name), table_fd;
	struct ripc__event event;
	void *table;

	ck_assert_int_eq(ripc__shm_segment_make(SHM_TABLE_LEN, true, &table, &table_fd), 0);
	((struct shm_table *)table)->entries[key.address].key = key.key + 1;
	ck_assert_int_eq(ripc__shm_send_memory(fd, SHM_TABLE, 0, SHM_TABLE_LEN, table_fd), 0);
	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	ck_assert_mem_eq(taken, given, LEN);
	/* A second table, or a slab that is none, ends the link. */
	ck_assert_int_eq(ripc__shm_send_memory(fd, SHM_SLAB, 0, 4096, table_fd), 0);
	ck_assert_int_eq(ripc__shm_send_memory(fd, SHM_TABLE, 0, SHM_TABLE_LEN, table_fd), 0);
	for (int polls = 0; polls < 200; polls++)
		ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &event, 1, false), 0);
	ck_assert_uint_eq(reader.port.n_ins, 1);
	close(fd);
	close(table_fd);
	ripc__shm_segment_unmap(table, SHM_TABLE_LEN);
}
END_TEST

/* The memory of the key is in the socket, behind a wake-up that was not received yet. */
START_TEST(map__behind_a_wake_up)
{
	const size_t len = 1 << 20;
	struct ripc__key key = open_key(given, LEN);
	void *other = new_buffer(len);
	struct ripc__mapping mapping;
	uint32_t asleep;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	ck_assert_int_eq(SHM->net.arm(&reader.port), 0);
	asleep = atomic_load(&reader.port.board->asleep);
	ck_assert_int_eq(ripc__shm_send_head(holder.peer.out->watch.fd, SHM_WAKE), 0);
	memset(other, 5, len);
	key = open_key(other, len);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, len, &mapping), 0);
	ck_assert_mem_eq(mapping.mem, other, len);
	/* A sleeping end can be woken again. */
	ck_assert_uint_ne(atomic_load(&reader.port.board->asleep), asleep);
	SHM->remote.unmap(&reader.port, mapping.handle);
}
END_TEST

/* Hands over what the reader has mapped. */
static struct ripc__mapping hand(uint64_t cookie)
{
	struct ripc__key key = open_key(given, LEN);
	struct ripc__mapping mapping;

	/* The reader gets to know the holder by a read. */
	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, LEN, &mapping), 0);
	ck_assert_int_eq(SHM->mem.close(&holder.port, &key, RIPC_CLOSE_HAND, cookie), -EINPROGRESS);
	ck_assert(holder.port.clock_runs);
	return mapping;
}

/* Both ends are in one process, which lives as long as this test. */
START_TEST(clock_strike__holder_in_this_process)
{
	struct ripc__mapping mapping = hand(3);
	struct ripc__event event;

	ripc__shm_clock_strike(&holder.port);
	ck_assert(holder.port.clock_runs);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 0);
	SHM->remote.unmap(&reader.port, mapping.handle);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
	ck_assert_int_eq(event.kind, RIPC_EV_FENCED);
	ripc__shm_clock_strike(&holder.port);
	ck_assert(!holder.port.clock_runs);
}
END_TEST

/* A process that has no lock is not there, whatever its sockets say. */
/* Leases may last as long as the process, which then sleeps longer and longer. */
START_TEST(clock_strike__only_leases_are_left)
{
	struct shm_port *port = &reader.port;

	port->n_leases++;
	ripc__shm_clock_start(port);
	ck_assert_uint_eq(port->clock_ms, 500);
	for (uint32_t ms = 1000; ms <= 8000; ms *= 2) {
		ripc__shm_clock_strike(port);
		ck_assert(port->clock_runs);
		ck_assert_uint_eq(port->clock_ms, ms);
	}
	ripc__shm_clock_strike(port);
	ck_assert_uint_eq(port->clock_ms, 8000);
	/* The clock strikes soon for memory that is handed over then. */
	ripc__shm_clock_start(port);
	ck_assert_uint_eq(port->clock_ms, 500);
	port->n_leases--;
	ripc__shm_clock_strike(port);
	ck_assert(!port->clock_runs);
}
END_TEST

START_TEST(clock_strike__holder_is_dead)
{
	struct ripc__mapping mapping = hand(3);
	struct ripc__event event;

	holder.peer.out->is_self = false; /* a process cannot see its own locks */
	ripc__shm_clock_strike(&holder.port);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
	ck_assert_int_eq(event.kind, RIPC_EV_FENCED);
	ck_assert_uint_eq(event.cookie, 3);
	ck_assert_int_eq(holder.peer.out->state, SHM_DEAD);
	ck_assert_int_eq(SHM->datagrams.send(&holder.port, &holder.peer, &(struct ripc__tx){
		&(struct iovec){given, 10}, 1, 10}, 1), -ECONNRESET);
	ck_assert_mem_eq(mapping.mem, given, LEN);
	SHM->remote.unmap(&reader.port, mapping.handle);
}
END_TEST

/* Hands over the file fd as the slab at, as the holder would. */
static void send_slab(uint32_t at, uint64_t len, int fd)
{
	ck_assert_int_eq(ripc__shm_send_memory(holder.peer.out->watch.fd, SHM_SLAB, at, len, fd),
		0);
}

/* Ports with rings look at their sockets when the coarse clock has moved on. */
static void poll_both(void)
{
	struct ripc__event event;

	for (int polls = 0; polls < 200; polls++) {
		if (polls == 100)
			usleep(12000);
		ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &event, 1, false), 0);
		ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 0);
	}
}

/* A slab without memory is not mapped; what the reader has mapped stays, and is settled. */
START_TEST(import__of_nothing)
{
	const uint64_t len = 1ull << 47; /* more addresses than there are */
	struct ripc__mapping mapping = hand(3);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ripc__event event;

	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
		0);
	send_slab(SHM_SLABS - 1, len, fd);
	poll_both();
	ck_assert_uint_eq(n_mapped(), 1);
	ck_assert_mem_eq(mapping.mem, given, LEN);
	SHM->remote.unmap(&reader.port, mapping.handle);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
	ck_assert_int_eq(event.kind, RIPC_EV_FENCED);
	close(fd);
}
END_TEST

START_TEST(import__without_descriptors)
{
	const size_t len = 1 << 20;
	struct ripc__mapping mapping = hand(3);
	void *lost = new_buffer(len), *other = new_buffer(len);
	rlim_t before = descriptors_limit(0);
	struct ripc__key key = open_key(lost, len);
	struct ripc__event event;

	ck_assert_int_eq(read_all(&key, 0, len), -EACCES);
	descriptors_limit(before);
	poll_both();
	memset(other, 8, len);
	key = open_key(other, len);
	ck_assert_int_eq(read_all(&key, 0, len), 0);
	ck_assert_mem_eq(taken, other, len);
	SHM->remote.unmap(&reader.port, mapping.handle);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
	ck_assert_int_eq(event.kind, RIPC_EV_FENCED);
}
END_TEST

/* The holder's sleep, as core has it: without the lock, while others send and give. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool sleeps;

static void *sleep_again_and_again(void *arg)
{
	bool goes_on = true;

	while (goes_on) {
		SHM->net.wait(&holder.port);
		pthread_mutex_lock(&lock);
		goes_on = sleeps;
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

static void sleep_end(pthread_t thread)
{
	pthread_mutex_lock(&lock);
	sleeps = false;
	pthread_mutex_unlock(&lock);
	SHM->net.wake(&holder.port);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Concurrent events of a send: memory is handed, and the link is cut. For the thread sanitizer. */
START_TEST(wait__while_memory_is_handed)
{
	for (int round = 0; round < 20; round++) {
		struct ripc__mapping mapping;
		struct ripc__event event;
		pthread_t thread;

		sleeps = true;
		ck_assert_int_eq(pthread_create(&thread, NULL, sleep_again_and_again, NULL), 0);
		pthread_mutex_lock(&lock);
		mapping = hand(3);
		pthread_mutex_unlock(&lock);
		pthread_mutex_lock(&lock);
		ripc__shm_out_cut(&holder.port, holder.peer.out);
		pthread_mutex_unlock(&lock);
		sleep_end(thread);
		ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
		ck_assert_int_eq(event.kind, RIPC_EV_FENCED);
		SHM->remote.unmap(&reader.port, mapping.handle);
	}
}
END_TEST

/* A slab of len bytes with memory behind it. */
static int make_slab(size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	for (size_t at = 0; at < len; at += 4096)
		ck_assert_int_eq(pwrite(fd, (char[4096]){0}, 4096, (off_t)at), 4096);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE),
		0);
	return fd;
}

/* A partner has at most half of what there is mapped by us; the rest is not there. */
START_TEST(import__too_many_bytes)
{
	const size_t len = 65536;
	struct ripc__key key = open_key(given, LEN);
	int fd = make_slab(len);

	reader.port.dev.host.memory = 5 * len;
	ck_assert_int_eq(read_all(&key, 0, LEN), -EACCES);
	ck_assert_uint_eq(n_mapped(), 0);
	for (uint32_t at = 10; at < 20; at++)
		send_slab(at, len, fd);
	poll_both();
	ck_assert_uint_eq(n_mapped(), 2);
	ck_assert_uint_eq(reader.port.import_bytes, 2 * len);
	/* A link that ends makes room. */
	send_slab(10, 0, -1);
	send_slab(15, len, fd);
	send_slab(16, len, fd);
	poll_both();
	ck_assert_uint_eq(n_mapped(), 2);
	ck_assert_uint_eq(reader.port.import_bytes, 2 * len);
	close(fd);
}
END_TEST

/* As a partner that shows ever new slabs in one place, and takes back our claims. */
static int map_another(int fd, uint64_t serial, struct ripc__mapping *mapping)
{
	struct shm_exports *exports = holder.peer.out->exports;
	const struct ripc__key key = {.address = SHM_KEYS - 1, .key = serial};

	send_slab(SHM_SLABS - 1, 4096, fd);
	exports->table->entries[key.address].slab = serial << 8 | (SHM_SLABS - 1);
	exports->table->entries[key.address].len = 4096;
	atomic_store(&exports->table->entries[key.address].key, key.key);
	atomic_store(&exports->claims->keys[key.address], 0);
	return SHM->remote.map(&reader.port, &reader.peer, &key, 4096, mapping);
}

/* Held parts of slabs that were replaced count as long as we hold them, and no longer. */
START_TEST(import__too_many_held)
{
	struct ripc__mapping mappings[SHM_SLABS];
	struct ripc__key key = open_key(given, LEN);
	int fd = make_slab(4096), n = SHM_SLABS - 1;
	uint64_t serial = 2;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(map_another(fd, serial++, &mappings[i]), 0);
	ck_assert_int_eq(map_another(fd, serial++, &mappings[n]), -EACCES);
	ck_assert_uint_eq(reader.port.n_imports, SHM_SLABS);
	SHM->remote.unmap(&reader.port, mappings[0].handle);
	ck_assert_int_eq(map_another(fd, serial++, &mappings[0]), 0);
	side_close(&holder);
	while (reader.port.n_ins)
		ck_assert_int_eq(SHM->datagrams.poll(&reader.port, &(struct ripc__event){0}, 1,
			false), 0);
	ck_assert_uint_eq(reader.port.n_imports, n);
	for (int i = 0; i < n; i++)
		SHM->remote.unmap(&reader.port, mappings[i].handle);
	ck_assert_uint_eq(reader.port.n_imports, 0);
	ck_assert_uint_eq(reader.port.import_bytes, 0);
	side_open(&holder);
	route(&holder, &reader);
	close(fd);
}
END_TEST

/* ---- memory that others have given on ---------------------------------------------------- */

static void send_passed(uint32_t at, uint64_t len, int fd)
{
	ck_assert_int_eq(ripc__shm_send_memory(holder.peer.out->watch.fd, SHM_PASSED, at, len, fd),
		0);
}

/* An entry of the holder's table. */
static struct ripc__key enter(uint64_t serial, uint32_t at, uint64_t offset, uint64_t len)
{
	struct shm_entry *entry = &holder.peer.out->exports->table->entries[SHM_KEYS - 1];
	const struct ripc__key key = {.address = SHM_KEYS - 1, .key = 77};

	entry->slab = serial << 8 | at;
	entry->offset = offset;
	entry->len = len;
	atomic_store(&entry->key, key.key);
	return key;
}

/* Memory that could be cut off, or that others can write, is not mapped, whoever it is from. */
START_TEST(import__passed_memory_is_checked)
{
	static const struct {
		int seals;
		size_t len, said;
		uint32_t at;
	} lies[] = {
		{0, 4096, 4096, 1},
		{F_SEAL_SHRINK | F_SEAL_GROW, 4096, 4096, 1},
		{F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 4096, 4096, 1},
		{F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 4096, 8192, 1},
		{F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 4097, 4097, 1},
		{F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 4096, 0, 1},
		{F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, 4096, 4096, SHM_SLABS},
		{-1, 0, 4096, 1}, /* no memfd at all */
	};
	struct ripc__key key = open_key(given, LEN);
	int fd = lies[_i].seals < 0 ? open("/dev/zero", O_RDONLY | O_CLOEXEC) :
		memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	if (lies[_i].len)
		ck_assert_int_eq(pwrite(fd, given, lies[_i].len, 0), (ssize_t)lies[_i].len);
	if (lies[_i].seals >= 0)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, lies[_i].seals), 0);
	send_passed(lies[_i].at, lies[_i].said, fd);
	poll_both();
	ck_assert_uint_eq(reader.port.n_ins, 0);
	ck_assert_uint_eq(reader.port.n_imports, 0);
	ck_assert_uint_eq(reader.port.n_kept, 0);
	close(fd);
}
END_TEST

/* No memory outside of the transferred pieces is mapped, whatever the table says. */
START_TEST(map__passed_by_a_table_that_lies)
{
	static const struct {
		uint64_t serial, offset, len;
	} lies[] = {
		{1, 0, 4096}, {3, 0, 4096}, {2, 4096, 1}, {2, 8192, 4096}, {2, UINT64_MAX, 16},
		{2, UINT64_MAX - 10, 20}, {2, 0, 100}, {2, 1, 4096}, {2, 1ull << 40, 4096},
	};
	struct ripc__key key = open_key(given, LEN);
	int fd = make_slab(4096), lease = ripc__lease_make(fd);
	struct ripc__mapping mapping;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	send_passed(1, 4096, lease);
	close(lease);
	poll_both();
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		key = enter(lies[i].serial, 1, lies[i].offset, lies[i].len);
		ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, 4096, &mapping),
			-EACCES);
	}
	ck_assert(ripc__is_leased(fd));
	key = enter(2, 1, 0, 4096);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, 4096, &mapping), 0);
	/* The memory stays leased as long as it is read, also when the link has ended. */
	ripc__shm_out_cut(&holder.port, holder.peer.out);
	while (reader.port.n_ins)
		SHM->datagrams.poll(&reader.port, &(struct ripc__event){0}, 1, false);
	ck_assert(ripc__is_leased(fd));
	SHM->remote.unmap(&reader.port, mapping.handle);
	ck_assert(!ripc__is_leased(fd));
	ck_assert_uint_eq(reader.port.n_kept, 0);
	close(fd);
}
END_TEST

/* The reader's own memory, given back: it is found where it is, and no further than it goes. */
START_TEST(map__own_memory)
{
	const size_t len = 1 << 20;
	struct ripc__key key = open_key(given, LEN), own_key;
	uint8_t *own = new_buffer(len);
	struct ripc__mapping mapping;
	int fd, lease;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	ck_assert_int_eq(SHM->mem.open(&reader.port, &reader.peer, own, len, false, &own_key), 0);
	fd = reader.peer.out->exports->slabs[0].memory.fd;
	lease = ripc__lease_make(fd);
	ck_assert_int_ge(lease, 0);
	send_passed(1, len, lease);
	poll_both();
	key = enter(2, 1, 4096, 100);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, 100, &mapping), 0);
	ck_assert_ptr_null(mapping.handle);
	ck_assert_ptr_eq(mapping.mem, own + 4096);
	ck_assert_uint_eq(atomic_load(&holder.peer.out->exports->claims->keys[SHM_KEYS - 1]), 0);
	key = enter(2, 1, 4096, len);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, len, &mapping),
		-EACCES);
	/* Memory that is not the reader's any more is another's. */
	ck_assert_int_eq(SHM->mem.close(&reader.port, &own_key, RIPC_CLOSE_DONE, 0), 0);
	ck_assert_int_eq(ripc__pool_free(pool, own), 0);
	key = enter(2, 1, 0, len);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, len, &mapping), 0);
	ck_assert_ptr_nonnull(mapping.handle);
	SHM->remote.unmap(&reader.port, mapping.handle);
	close(lease);
}
END_TEST

/* A lease whose descriptor cannot be kept is none: the bytes will be sent. The link goes on. */
START_TEST(import__lease_cannot_be_kept)
{
	struct ripc__key key = open_key(given, LEN);
	int fd = make_slab(4096), lease = ripc__lease_make(fd);

	reader.port.n_kept = 100000;
	ck_assert_int_eq(read_all(&key, 0, LEN), 0); /* this one needs none */
	ck_assert_uint_eq(n_mapped(), 1);
	send_passed(1, 4096, lease);
	poll_both();
	ck_assert_uint_eq(n_mapped(), 1);
	reader.port.n_kept = 0;
	send_passed(1, 4096, lease);
	poll_both();
	ck_assert_uint_eq(n_mapped(), 2);
	ck_assert_uint_eq(reader.port.n_kept, 1);
	close(lease);
	close(fd);
}
END_TEST

/* Is nothing of it home, and can the holder sleep? */
static void expect_lingering(void)
{
	for (int polls = 0; polls < 200; polls++)
		ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &(struct ripc__event){0}, 1,
			false), 0);
	ck_assert(!ripc__shm_any_home(&holder.port));
}

/*
 * The reader has let go, or (_i) is gone, and others may read: the memory comes home when they have
 * ended, which the clock finds.
 */
START_TEST(come_home__after_others)
{
	struct ripc__mapping mapping = hand(5);
	const struct shm_key *key = list_entry(holder.port.handed.next, struct shm_key, node);
	int lease = ripc__lease_make(key->memory.fd);
	struct ripc__event event;

	ck_assert_int_ge(lease, 0);
	if (_i)
		ripc__shm_out_cut(&holder.port, holder.peer.out);
	else
		atomic_store(&holder.peer.out->exports->claims->keys[key->index],
			shm_claim_left(key->number));
	expect_lingering();
	ripc__shm_clock_strike(&holder.port);
	ck_assert(holder.port.clock_runs);
	expect_lingering();
	close(lease);
	expect_lingering();
	ripc__shm_clock_strike(&holder.port);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
	ck_assert_int_eq(event.kind, RIPC_EV_FENCED);
	ck_assert_uint_eq(event.cookie, 5);
	SHM->remote.unmap(&reader.port, mapping.handle);
}
END_TEST

/* The link ends after the reader has mapped it, and before the holder hands it over. */
START_TEST(mem_close__others_have_it_when_the_link_ends)
{
	struct ripc__key key = open_key(given, LEN);
	struct ripc__mapping mapping;
	struct ripc__event event;
	int lease;

	ck_assert_int_eq(read_all(&key, 0, LEN), 0);
	ck_assert_int_eq(SHM->remote.map(&reader.port, &reader.peer, &key, LEN, &mapping), 0);
	lease = ripc__lease_make(holder.peer.out->exports->slabs[0].memory.fd);
	ripc__shm_out_cut(&holder.port, holder.peer.out);
	ck_assert_int_eq(SHM->mem.close(&holder.port, &key, RIPC_CLOSE_HAND, 6), -EINPROGRESS);
	expect_lingering();
	close(lease);
	ripc__shm_clock_strike(&holder.port);
	ck_assert_int_eq(SHM->datagrams.poll(&holder.port, &event, 1, false), 1);
	ck_assert_uint_eq(event.cookie, 6);
	SHM->remote.unmap(&reader.port, mapping.handle);
}
END_TEST

static TCase *cases_of_passed(void)
{
	TCase *tcase = tcase_create("passed");

	tcase_add_checked_fixture(tcase, set_up, tear_down);
	tcase_add_loop_test(tcase, import__passed_memory_is_checked, 0, 8);
	tcase_add_test(tcase, map__passed_by_a_table_that_lies);
	tcase_add_test(tcase, map__own_memory);
	tcase_add_test(tcase, import__lease_cannot_be_kept);
	tcase_add_loop_test(tcase, come_home__after_others, 0, 2);
	tcase_add_test(tcase, mem_close__others_have_it_when_the_link_ends);
	return tcase;
}

int main(void)
{
	const TTest *const tests[] = {
		read__a_large_range,
		read__what_was_never_written,
		read__goes_in_steps,
		mem_close__in_the_middle,
		port_close__in_the_middle,
		mem_open__what_is_shown,
		mem_open__limits,
		pool_free__reader_lets_go,
		read__from_a_table_that_lies,
		read__from_an_impostor,
		map__behind_a_wake_up,
		clock_strike__holder_in_this_process,
		clock_strike__only_leases_are_left,
		clock_strike__holder_is_dead,
		import__of_nothing,
		import__without_descriptors,
		import__too_many_bytes,
		import__too_many_held,
		wait__while_memory_is_handed,
		NULL,
	};

	return suite_run_between("shm_read", tests, set_up, tear_down) |
		suite_finish("shm_passed", cases_of_passed());
}
