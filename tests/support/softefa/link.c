/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings in shared memory: see link.h.
 *
 * A ring has one writer and one reader, in two processes that do not trust each other. tail is the
 * writer's, head the reader's; each keeps its own in private and checks the other's. A message is
 * a length and its bytes, at a multiple of 16, never around the end: SKIP stands for the rest.
 * The memory is sealed against shrinking, and its reader has checked that.
 *
 * By the socket come: HELLO, with the ring; BELL, to wake a reader whose thread sleeps; NO_RING,
 * when the one who was to be woken knows no such ring, as another process had its name before.
 *
 * Datagrams in a ring whose reader has died, meant for another process that has its name now, must
 * not be lost with it: a ring names its reader (life), and HELLO its sender.
 */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define RING_LEN    (1u << 20) /* bytes of messages */
#define DATA_OFFSET 4096u
#define MAP_LEN	    (DATA_OFFSET + RING_LEN)
#define SKIP	    UINT32_MAX
#define ALIGNMENT   16u
#define RINGS_MAX   1024 /* from partners */
#define LOOK_EVERY  32	 /* calls: the socket has only what is rare */
#define SEALS	    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct shared {
	_Atomic uint64_t tail;
	uint8_t apart1[120];
	_Atomic uint64_t head;
	_Atomic uint32_t reader_sleeps, writer_left;
	_Atomic uint32_t reader_life; /* 0: nobody has it yet */
};

struct softefa_ring {
	TAILQ_ENTRY(softefa_ring) entry;
	struct softefa_peer peer;
	struct shared *shared;
	uint8_t *data;
	uint64_t id, at; /* at: the writer's tail, or the reader's head */
	uint64_t next;	 /* the reader's head once it has read what it holds */
};

static struct softefa_ring *ring_new(int fd, const struct softefa_peer *peer, uint64_t id)
{
	struct softefa_ring *ring = calloc(1, sizeof(*ring));
	void *map;

	if (!ring)
		return NULL;
	map = mmap(NULL, MAP_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		free(ring);
		return NULL;
	}
	madvise(map, MAP_LEN, MADV_DONTFORK);
	ring->shared = map;
	ring->data = (uint8_t *)map + DATA_OFFSET;
	ring->peer = *peer;
	ring->id = id;
	return ring;
}

static void ring_free(struct softefa_rings *list, struct softefa_ring *ring)
{
	TAILQ_REMOVE(list, ring, entry);
	munmap(ring->shared, MAP_LEN);
	free(ring);
}

static struct softefa_ring *find(struct softefa_rings *list, const struct softefa_peer *peer)
{
	struct softefa_ring *ring;

	TAILQ_FOREACH (ring, list, entry)
		if (softefa_peer_same(&ring->peer, peer))
			return ring;
	return NULL;
}

static void drop_in(struct softefa_link *link, struct softefa_ring *ring)
{
	if (link->held == ring)
		link->held = NULL;
	ring_free(&link->in, ring);
	link->n_in--;
}

int softefa_link_open(struct softefa_link *link, const char *fabric,
	const struct softefa_peer *self)
{
	int fd = softefa_wire_open(fabric, self);

	if (fd < 0)
		return fd;
	link->datagram = malloc(SOFTEFA_CHUNK);
	if (!link->datagram) {
		close(fd);
		return -ENOMEM;
	}
	/* Prevents that a ring of another process that had our name is taken for ours. */
	if (getrandom(&link->random, sizeof(link->random), 0) != (ssize_t)sizeof(link->random))
		link->random = (uint64_t)getpid() << 32;
	link->life = (uint32_t)link->random | 1;
	link->fabric = fabric;
	link->fd = fd;
	TAILQ_INIT(&link->out);
	TAILQ_INIT(&link->in);
	return 0;
}

void softefa_link_close(struct softefa_link *link)
{
	struct softefa_ring *ring;

	TAILQ_FOREACH (ring, &link->out, entry)
		atomic_store(&ring->shared->writer_left, 1);
	while ((ring = TAILQ_FIRST(&link->out)))
		ring_free(&link->out, ring);
	while ((ring = TAILQ_FIRST(&link->in)))
		drop_in(link, ring);
	close(link->fd);
	link->fd = -1;
	free(link->datagram);
	link->datagram = NULL;
}

/* The rings are not mapped here, which the kernel saw to. */
void softefa_link_forget(struct softefa_link *link)
{
	close(link->fd);
	link->fd = -1;
	TAILQ_INIT(&link->out);
	TAILQ_INIT(&link->in);
	link->held = NULL;
	link->n_in = 0;
}

static int tell(struct softefa_link *link, const struct softefa_peer *to, enum softefa_kind kind,
	uint64_t id, int passed_fd)
{
	struct softefa_header header = {.kind = (uint8_t)kind, .key = link->life, .address = id};

	return softefa_wire_pass(link->fabric, link->fd, to, &header, passed_fd);
}

static int ring_open(struct softefa_link *link, const struct softefa_peer *to,
	struct softefa_ring **opened)
{
	uint64_t id = ++link->random;
	struct softefa_ring *ring;
	int result, fd = memfd_create("softefa", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	result = -ENOMEM;
	if (ftruncate(fd, MAP_LEN) || fcntl(fd, F_ADD_SEALS, SEALS))
		goto close_fd;
	ring = ring_new(fd, to, id);
	if (!ring)
		goto close_fd;
	TAILQ_INSERT_HEAD(&link->out, ring, entry);
	result = tell(link, to, SOFTEFA_HELLO, id, fd);
	if (result)
		ring_free(&link->out, ring);
	else
		*opened = ring;
close_fd:
	close(fd);
	return result;
}

/* Puts one message in, or returns -EAGAIN; -EBADMSG if the reader's head cannot be. */
static int ring_write(struct softefa_ring *ring, const struct softefa_header *header,
	const struct iovec *parts, int n_parts)
{
	uint64_t used = ring->at - atomic_load_explicit(&ring->shared->head, memory_order_acquire);
	uint32_t place = (uint32_t)(ring->at % RING_LEN), left = RING_LEN - place;
	uint32_t len = sizeof(*header), taken;
	uint8_t *to;

	if (used > RING_LEN)
		return -EBADMSG;
	for (int i = 0; i < n_parts; i++)
		len += (uint32_t)parts[i].iov_len;
	taken = (len + (uint32_t)sizeof(len) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (taken > left) {
		if (RING_LEN - used < left + taken)
			return -EAGAIN;
		*(uint32_t *)(void *)(ring->data + place) = SKIP;
		ring->at += left;
		place = 0;
	} else if (RING_LEN - used < taken) {
		return -EAGAIN;
	}
	to = ring->data + place;
	memcpy(to, &len, sizeof(len));
	to += sizeof(len);
	memcpy(to, header, sizeof(*header));
	to += sizeof(*header);
	for (int i = 0; i < n_parts; to += parts[i++].iov_len)
		if (parts[i].iov_len)
			memcpy(to, parts[i].iov_base, parts[i].iov_len);
	ring->at += taken;
	atomic_store(&ring->shared->tail, ring->at);
	return 0;
}

int softefa_link_send(struct softefa_link *link, const struct softefa_peer *to,
	struct softefa_header *header, const struct iovec *parts, int n_parts)
{
	struct softefa_ring *ring = find(&link->out, to);
	int result = ring ? 0 : ring_open(link, to, &ring);

	if (result)
		return result;
	result = ring_write(ring, header, parts, n_parts);
	if (result == -EBADMSG) {
		ring_free(&link->out, ring);
		return -EAGAIN;
	}
	/* A full ring needs a reader no less; and who asks for an answer wants to know whether
	 * there is anyone. */
	if (!atomic_exchange(&ring->shared->reader_sleeps, 0) && header->kind != SOFTEFA_PROBE)
		return result;
	if (tell(link, to, SOFTEFA_BELL, ring->id, -1) != -ECONNREFUSED)
		return result;
	ring_free(&link->out, ring);
	return -ECONNREFUSED;
}

/* A ring whose writer ended without a word is given up when others come. */
static void drop_dead(struct softefa_link *link)
{
	struct softefa_ring *ring, *next;

	for (ring = TAILQ_FIRST(&link->in); ring; ring = next) {
		next = TAILQ_NEXT(ring, entry);
		if (atomic_load(&ring->shared->tail) == ring->at &&
			tell(link, &ring->peer, SOFTEFA_BELL, 0, -1) == -ECONNREFUSED)
			drop_in(link, ring);
	}
}

static bool on_hello(struct softefa_link *link, const struct softefa_peer *from, uint64_t id,
	int fd)
{
	struct softefa_ring *ring = find(&link->in, from);
	struct stat stat;
	int seals;

	if (ring)
		drop_in(link, ring);
	if (link->n_in)
		drop_dead(link);
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &stat) ||
		stat.st_size != MAP_LEN || link->n_in == RINGS_MAX)
		return false;
	ring = ring_new(fd, from, id);
	if (!ring)
		return false;
	TAILQ_INSERT_TAIL(&link->in, ring, entry);
	link->n_in++;
	atomic_store(&ring->shared->reader_life, link->life);
	return true;
}

/* Gives up the ring to a partner if it was for another process of that name. Returns whether. */
static bool drop_stale(struct softefa_link *link, const struct softefa_peer *to, uint32_t life)
{
	struct softefa_ring *ring = find(&link->out, to);
	uint32_t reader = ring ? atomic_load(&ring->shared->reader_life) : 0;

	if (!reader || reader == life)
		return false;
	ring_free(&link->out, ring);
	return true;
}

/* Returns 1 for what is no message between links, and -ENOLINK as softefa_link_receive(). */
static int on_control(struct softefa_link *link, const struct softefa_peer *from,
	const struct softefa_header *header, int fd)
{
	struct softefa_ring *ring;

	switch (header->kind) {
	case SOFTEFA_HELLO:
		if (fd >= 0)
			on_hello(link, from, header->address, fd);
		return drop_stale(link, from, header->key) ? -ENOLINK : 0;
	case SOFTEFA_BELL:
		ring = find(&link->in, from);
		if (header->address && (!ring || ring->id != header->address))
			tell(link, from, SOFTEFA_NO_RING, header->address, -1);
		return 0;
	case SOFTEFA_NO_RING:
		ring = find(&link->out, from);
		if (!ring || ring->id != header->address)
			return 0;
		ring_free(&link->out, ring);
		return -ENOLINK;
	default:
		return 1;
	}
}

static int socket_read(struct softefa_link *link, struct softefa_peer *from,
	struct softefa_header *header, const uint8_t **payload)
{
	struct iovec room = {link->datagram, SOFTEFA_CHUNK};
	int len, fd, result;

	do {
		len = softefa_wire_receive(link->fabric, link->fd, from, header, &room, &fd);
		result = len >= 0 ? on_control(link, from, header, fd) : 1;
		if (fd >= 0)
			close(fd);
	} while (!result);
	*payload = link->datagram;
	return result < 0 ? result : len;
}

/* Looks at the first message, past a SKIP. Returns its length, 0 (none) or -EBADMSG. */
static int ring_first(struct softefa_ring *ring, uint32_t *place)
{
	uint64_t there = atomic_load_explicit(&ring->shared->tail, memory_order_acquire) - ring->at;
	uint32_t len;

	if (!there)
		return 0;
	*place = (uint32_t)(ring->at % RING_LEN);
	if (there > RING_LEN || there % ALIGNMENT)
		return -EBADMSG;
	memcpy(&len, ring->data + *place, sizeof(len));
	if (len == SKIP) {
		if (there <= RING_LEN - *place)
			return -EBADMSG;
		there -= RING_LEN - *place;
		ring->at += RING_LEN - *place;
		*place = 0;
		memcpy(&len, ring->data, sizeof(len));
	}
	if (len < sizeof(struct softefa_header) ||
		len > SOFTEFA_CHUNK + sizeof(struct softefa_header))
		return -EBADMSG;
	if (len + sizeof(len) > there || len + sizeof(len) > RING_LEN - *place)
		return -EBADMSG;
	return (int)len;
}

static int ring_read(struct softefa_link *link, struct softefa_ring *ring,
	struct softefa_header *header, const uint8_t **payload)
{
	uint32_t place;
	int len = ring_first(ring, &place);

	if (len == 0) {
		if (atomic_load(&ring->shared->writer_left) &&
			atomic_load(&ring->shared->tail) == ring->at)
			drop_in(link, ring);
		return -EAGAIN;
	}
	if (len < 0) {
		drop_in(link, ring);
		return -EBADMSG;
	}
	memcpy(header, ring->data + place + sizeof(uint32_t), sizeof(*header));
	*payload = ring->data + place + sizeof(uint32_t) + sizeof(*header);
	ring->next = ring->at +
		((uint32_t)len + sizeof(uint32_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	link->held = ring;
	if (header->has_imm > 1 || header->zero[0] || header->zero[1])
		return -EBADMSG;
	return len - (int)sizeof(*header);
}

static void release(struct softefa_link *link)
{
	struct softefa_ring *ring = link->held;

	if (!ring)
		return;
	ring->at = ring->next;
	atomic_store_explicit(&ring->shared->head, ring->at, memory_order_release);
	/* The other links have their turn. */
	TAILQ_REMOVE(&link->in, ring, entry);
	TAILQ_INSERT_TAIL(&link->in, ring, entry);
	link->held = NULL;
}

int softefa_link_receive(struct softefa_link *link, struct softefa_peer *from,
	struct softefa_header *header, const uint8_t **payload, bool all)
{
	struct softefa_ring *ring, *next;

	release(link);
	for (ring = TAILQ_FIRST(&link->in); ring; ring = next) {
		int len;

		next = TAILQ_NEXT(ring, entry);
		*from = ring->peer;
		len = ring_read(link, ring, header, payload);
		if (len != -EAGAIN)
			return len;
	}
	if (!all && link->n_in && ++link->n_receives % LOOK_EVERY)
		return -EAGAIN;
	return socket_read(link, from, header, payload);
}

bool softefa_link_sleep(struct softefa_link *link)
{
	struct softefa_ring *ring;
	bool is_empty = true;

	release(link);
	TAILQ_FOREACH (ring, &link->in, entry) {
		atomic_store(&ring->shared->reader_sleeps, 1);
		atomic_thread_fence(memory_order_seq_cst);
		is_empty = is_empty && atomic_load(&ring->shared->tail) == ring->at;
	}
	return is_empty;
}
