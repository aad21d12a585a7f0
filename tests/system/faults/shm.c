/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A partner in shared memory that writes whatever it can, wherever it can, without pause: slots
 * and lengths and offsets of its ring, what it has taken, everybody's bits and wake-ups. It spoils
 * its own link, as often as it comes back, and nothing else: another partner's messages go to and
 * fro beside it, all of them and unaltered; the memory is what it was.
 *
 * usage: faults-shm [--full]    RIPC_TEST_SEED repeats a run
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/shm/internal.h"
#include "core/net/backend.h"
#include "core/net/env.h"
#include "core/objects.h"
#include "fault.h"

#define LONG_LEN    100000u
#define PATIENCE_MS 20000
#define LINKS       20u  /* at least, and */
#define MESSAGES    100u /* beside them, however long that takes */
#define LATEST_MS   120000u

/* ---- the hostile partner ----------------------------------------------------------------- */

struct foe {
	uint64_t random, writes, links;
	uint8_t victim[SHM_NAME_LEN];
	int fd;
	struct shm_ring_memory *ring;
	struct shm_bits *bits;
};

/* A datagram that might be the next one, with a length and a place that may be anything. */
static void write_slot(struct foe *foe)
{
	static const uint32_t lens[] = {0, 1, 56, 200, SHM_INLINE, SHM_INLINE + 1, 4000,
		RIPC_DATAGRAM_MAX, RIPC_DATAGRAM_MAX + 1, UINT32_MAX};
	uint32_t number = atomic_load(&foe->ring->head) + 1 +
		(uint32_t)(fault_random(&foe->random) % SHM_SLOTS);
	uint32_t len = lens[fault_random(&foe->random) % (sizeof(lens) / sizeof(lens[0]))];
	struct shm_slot *slot = &foe->ring->slots[(number - 1) % SHM_SLOTS];
	uint64_t offset = fault_random(&foe->random) % (2 * SHM_AREA);

	/* Nonsense ends the link: let some be sound, so that the link lives for a while. */
	if (fault_random(&foe->random) % 64) {
		len = 1 + len % SHM_INLINE;
		offset = 0;
	}
	memcpy(slot->bytes, &offset, sizeof(offset));
	atomic_store(&slot->word, (uint64_t)number << 32 | len);
}

static void write_anything(struct foe *foe)
{
	uint64_t value = fault_random(&foe->random);
	size_t head = offsetof(struct shm_ring_memory, slots) / sizeof(value);
	size_t at = head + fault_random(&foe->random) % (SHM_RING_LEN / sizeof(value) - head);

	/* Not what tells it how far the victim is, which only it would miss. */
	((volatile uint64_t *)foe->ring)[at] = value;
	atomic_store(&foe->bits->rings[value % (SHM_RINGS_MAX / 64)].word, value >> 7);
	if (value % 16 == 0)
		atomic_store(&foe->bits->wakes, (uint32_t)(value >> 20));
}

/* Writes until it is thrown out, and once if its time is over. */
static void scribble(struct foe *foe, uint64_t until_ms)
{
	struct pollfd poller = {.fd = foe->fd, .events = POLLIN};

	do {
		for (int i = 0; i < 2000; i++) {
			if (i % 2)
				write_slot(foe);
			else
				write_anything(foe);
		}
		foe->writes += 2000;
		ripc__shm_send_head(foe->fd, SHM_WAKE);
	} while (poll(&poller, 1, 0) == 0 && fault_now_ms() < until_ms);
}

/* One life of a link. */
static void attack(struct foe *foe, uint64_t until_ms)
{
	uint8_t own[SHM_NAME_LEN];
	struct pollfd poller = {.events = POLLIN};
	struct shm_ring_offer offer;
	void *ring, *bits, *board;

	if (getrandom(own, sizeof(own), 0) != sizeof(own))
		fault_fail("no random numbers");
	foe->fd = ripc__shm_connect(foe->victim, own);
	/* A process that is slow to say hello is not waited for. */
	if (foe->fd == -EAGAIN || foe->fd == -ECONNREFUSED || foe->fd == -EPIPE)
		return;
	poller.fd = foe->fd;
	if (foe->fd < 0 || poll(&poller, 1, PATIENCE_MS) != 1 ||
			ripc__shm_receive_offer(foe->fd, &offer) != SHM_RING)
		fault_fail("no link to the victim: %d", foe->fd);
	if (ripc__shm_segment_map(offer.board_fd, SHM_BOARD_LEN, true, &board) == 0)
		fault_fail("the victim's board can be written");
	if (ripc__shm_segment_map(offer.ring_fd, SHM_RING_LEN, true, &ring) ||
			ripc__shm_segment_map(offer.bits_fd, SHM_BITS_LEN, true, &bits))
		fault_fail("the ring cannot be mapped");
	foe->ring = ring;
	foe->bits = bits;
	foe->links++;
	scribble(foe, until_ms);
	ripc__shm_segment_unmap(ring, SHM_RING_LEN);
	ripc__shm_segment_unmap(bits, SHM_BITS_LEN);
	close(offer.ring_fd);
	close(offer.board_fd);
	close(offer.bits_fd);
	close(foe->fd);
}

/* argv: --foe NAME SEED MILLISECONDS */
static int foe_main(char **argv)
{
	struct foe foe = {.random = strtoull(argv[3], NULL, 10)};
	uint64_t until_ms = fault_now_ms() + strtoull(argv[4], NULL, 10);
	unsigned int byte;
	char text[64];

	for (int i = 0; i < SHM_NAME_LEN; i++) {
		if (sscanf(argv[2] + 2 * i, "%2x", &byte) != 1)
			fault_fail("the victim has no name");
		foe.victim[i] = (uint8_t)byte;
	}
	while (fault_now_ms() < until_ms || foe.links < LINKS) {
		attack(&foe, until_ms);
		if (fault_now_ms() > until_ms + LATEST_MS)
			fault_fail("no more than %llu links", (unsigned long long)foe.links);
	}
	snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)foe.links,
		(unsigned long long)foe.writes);
	return write(FAULT_READY_FD, text, strlen(text)) > 0 ? 0 : 1;
}

/* ---- the victim and its friend ----------------------------------------------------------- */

static void open_service(uint32_t number, struct ripc__env *env, struct ripc_context **ctx,
		struct ripc_service **svc)
{
	struct ripc_config cfg = fault_config();

	ripc__env_init(env);
	fault_open(env, &cfg, ctx);
	if (ripc_service_open(*ctx, fault_id(number), 0, svc))
		fault_fail("no service");
}

/* There and back, unaltered. */
static void exchange(struct ripc_service *svc, void *bytes, size_t len, uint64_t seed)
{
	struct iovec item = {bytes, len};
	struct ripc_msg *msg;
	int error;

	fault_fill(bytes, len, seed);
	error = len > 4096 ? ripc_send_long(svc, fault_id(1), &item, 1, PATIENCE_MS) :
		ripc_send_short(svc, fault_id(1), &item, 1);
	if (error)
		fault_fail("message %llu: %s", (unsigned long long)seed, ripc_strerror(error));
	error = ripc_receive(svc, PATIENCE_MS, &msg);
	if (error)
		fault_fail("no answer to message %llu: %s", (unsigned long long)seed,
			ripc_strerror(error));
	if (msg->n_items != 1 || msg->items[0].iov_len != len ||
			!fault_filled(msg->items[0].iov_base, len, seed))
		fault_fail("the answer to message %llu is another", (unsigned long long)seed);
	ripc_msg_free(msg);
}

/* argv: --friend MILLISECONDS */
static int friend_main(char **argv)
{
	uint64_t until_ms = fault_now_ms() + strtoull(argv[2], NULL, 10), n = 0;
	static char bytes[LONG_LEN];
	struct ripc__env env;
	struct ripc_context *ctx;
	struct ripc_service *svc;
	char text[32];

	open_service(2, &env, &ctx, &svc);
	fault_find(ctx, fault_id(1));
	while (fault_now_ms() < until_ms || n < MESSAGES) {
		exchange(svc, bytes, n % 16 == 15 ? LONG_LEN : 50 + n % 1000, n);
		n++;
	}
	ripc_close(ctx, PATIENCE_MS);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return write(FAULT_READY_FD, text, strlen(text)) > 0 ? 0 : 1;
}

/*
 * Returns to its sender what comes, until the partner has ended. The victim must do so while either
 * lives: links to it are made by nobody else.
 */
static int serve(struct ripc_service *svc, int partner)
{
	int status;

	while (waitpid(partner, &status, WNOHANG) == 0) {
		struct ripc_msg *msg;
		int error = ripc_receive(svc, 100, &msg);

		if (error == -ETIMEDOUT)
			continue;
		if (error)
			fault_fail("the victim's receive: %s", ripc_strerror(error));
		if (msg->kind == RIPC_LONG)
			error = ripc_send_long(svc, msg->from, msg->items, msg->n_items,
				PATIENCE_MS);
		else if (msg->kind == RIPC_SHORT)
			error = ripc_send_short(svc, msg->from, msg->items, msg->n_items);
		if (error)
			fault_fail("the victim's send: %s", ripc_strerror(error));
		ripc_msg_free(msg);
	}
	return status;
}

static void victim_name(const struct ripc_context *ctx, char text[2 * SHM_NAME_LEN + 1])
{
	for (int i = 0; i < SHM_NAME_LEN; i++)
		sprintf(text + 2 * i, "%02x", ctx->peers.devices[0].blob[8 + i]);
}

static void read_said(int fd, const char *format, unsigned long long *a, unsigned long long *b)
{
	char text[64] = "";

	if (read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, format, a, b) < 1)
		fault_fail("a partner said nothing");
	close(fd);
}

static void run(uint64_t seed, const char *duration_ms)
{
	char name[2 * SHM_NAME_LEN + 1], number[32];
	const char *foe_argv[] = {"faults-shm", "--foe", name, number, duration_ms, NULL};
	const char *friend_argv[] = {"faults-shm", "--friend", duration_ms, NULL};
	unsigned long long links = 0, writes = 0, messages = 0;
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	int foe, friend, foe_ready, friend_ready, status;

	open_service(1, &env, &ctx, &svc);
	victim_name(ctx, name);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)seed);
	foe = fault_spawn(foe_argv, &foe_ready);
	friend = fault_spawn(friend_argv, &friend_ready);
	status = serve(svc, friend);
	if (status)
		fault_fail("the friend ended with %#x", status);
	status = serve(svc, foe);
	if (status)
		fault_fail("the foe ended with %#x", status);
	read_said(foe_ready, "%llu %llu", &links, &writes);
	read_said(friend_ready, "%llu", &messages, NULL);
	ripc_stats_get(ctx, &stats);
	if (links < LINKS || messages < MESSAGES || stats.drop_malformed < 100)
		fault_fail("%llu links, %llu messages, %llu dropped: nobody was attacked", links,
			messages, (unsigned long long)stats.drop_malformed);
	if (ripc_close(ctx, PATIENCE_MS))
		fault_fail("the victim cannot close");
	printf("%llu links of a foe that wrote %llu times, %llu messages beside it\n", links,
		writes, messages);
}

int main(int argc, char **argv)
{
	bool full = fault_full(argc, argv);
	struct fault_left before;

	setenv("RIPC_BACKENDS", "shm", 1);
	if (argc == 5 && strcmp(argv[1], "--foe") == 0)
		return foe_main(argv);
	if (argc == 3 && strcmp(argv[1], "--friend") == 0)
		return friend_main(argv);
	before = fault_left_now();
	run(fault_seed(), full ? "60000" : "3000");
	fault_left_check(&before, "after the attack");
	return 0;
}
