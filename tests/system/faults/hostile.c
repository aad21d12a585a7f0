/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks by strangers and by partners, over real UDP. An honest pair of services on the same
 * two contexts talks all the time: each of its messages must arrive, whole and once, within its
 * deadline. After each attack memory is within its bounds.
 *
 * usage: faults-hostile [--full]    RIPC_TEST_SEED repeats a run
 */
#include "hostile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LETTER_LEN  (150u << 10)
#define DEADLINE_MS 10000
#define LETTERS     5u        /* of the honest pair that must pass during an attack */
#define GROWTH_KB   (160l << 10) /* both pools and what the attacker itself keeps */

struct ripc_stats stage_stats(struct ripc_context *ctx)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	int error = ripc_stats_get(ctx, &stats);

	if (error)
		fault_fail("stats: %s", ripc_strerror(error));
	return stats;
}

/* ---- the honest pair ------------------------------------------------------------------------- */

static void *writer_main(void *arg)
{
	struct stage *stage = arg;
	static char bytes[LETTER_LEN];

	while (!atomic_load(&stage->stop)) {
		uint32_t number = atomic_load(&stage->written);
		const struct iovec items[2] = {{&number, sizeof(number)}, {bytes, sizeof(bytes)}};
		int error;

		fault_fill(bytes, sizeof(bytes), number);
		error = ripc_send_long(stage->a_honest, ripc_service_id(stage->b_honest), items, 2,
			DEADLINE_MS);
		if (error)
			fault_fail("an honest message was not delivered: %s", ripc_strerror(error));
		atomic_fetch_add(&stage->written, 1);
		/* A queue that fills the pool would be the pair's own doing. */
		while (!atomic_load(&stage->stop) &&
				atomic_load(&stage->written) > atomic_load(&stage->read) + 8)
			usleep(100);
	}
	return NULL;
}

static void *reader_main(void *arg)
{
	struct stage *stage = arg;
	struct ripc_msg *msg;

	while (!atomic_load(&stage->stop)) {
		uint32_t number;

		if (ripc_receive(stage->b_honest, 50, &msg))
			continue;
		memcpy(&number, msg->items[0].iov_base, sizeof(number));
		if (msg->from != ripc_service_id(stage->a_honest) || msg->n_items != 2 ||
				number != atomic_load(&stage->read) ||
				!fault_filled(msg->items[1].iov_base, LETTER_LEN, number))
			fault_fail("an honest message is not what was sent");
		atomic_fetch_add(&stage->read, 1);
		ripc_msg_free(msg);
	}
	return NULL;
}

/* Takes what is sent to the target, and counts it. */
static void *target_main(void *arg)
{
	struct stage *stage = arg;
	struct ripc_msg *msg;

	while (!atomic_load(&stage->stop)) {
		if (ripc_receive(stage->b_target, 50, &msg))
			continue;
		if (msg->kind == RIPC_SHORT)
			atomic_fetch_add(&stage->target_shorts, 1);
		else if (msg->kind == RIPC_LONG)
			atomic_fetch_add(&stage->target_longs, 1);
		else if (msg->kind == RIPC_COMPLETION)
			atomic_fetch_add(&stage->target_completions, 1);
		ripc_msg_free(msg);
	}
	return NULL;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void service_open(struct ripc_context *ctx, struct ripc_service **svc)
{
	int error = ripc_service_open(ctx, 0, 0, svc);

	if (error)
		fault_fail("no service: %s", ripc_strerror(error));
}

void stage_open(struct stage *stage)
{
	struct ripc_config cfg = fault_config();

	cfg.pool_bytes = POOL_BYTES;
	ripc__env_init(&stage->env_a);
	ripc__env_init(&stage->env_b);
	stage->env_a.backends = tap_backends();
	fault_open(&stage->env_a, &cfg, &stage->a);
	fault_open(&stage->env_b, &cfg, &stage->b);
	service_open(stage->a, &stage->a_honest);
	service_open(stage->a, &stage->a_finder);
	service_open(stage->b, &stage->b_honest);
	service_open(stage->b, &stage->b_target);
	fault_find(stage->a, ripc_service_id(stage->b_target));
	if (pthread_create(&stage->writer, NULL, writer_main, stage) ||
			pthread_create(&stage->reader, NULL, reader_main, stage) ||
			pthread_create(&stage->target_reader, NULL, target_main, stage))
		fault_fail("no thread");
	/* The bytes needed to talk at all do not count as the attack's. */
	while (atomic_load(&stage->read) < LETTERS)
		usleep(1000);
	stage->resident_kb = fault_resident_kb();
}

void stage_close(struct stage *stage)
{
	atomic_store(&stage->stop, true);
	pthread_join(stage->writer, NULL);
	pthread_join(stage->reader, NULL);
	pthread_join(stage->target_reader, NULL);
	ripc_close(stage->a, DEADLINE_MS);
	ripc_close(stage->b, DEADLINE_MS);
}

/* The honest pair gets on by so many letters. */
static void await_letters(struct stage *stage, const char *what)
{
	unsigned int wanted = atomic_load(&stage->read) + LETTERS;
	uint64_t until_ms = fault_now_ms() + 3 * DEADLINE_MS;

	while ((int)(atomic_load(&stage->read) - wanted) < 0) {
		if (fault_now_ms() > until_ms)
			fault_fail("%s: the honest pair does not get on", what);
		usleep(1000);
	}
}

void stage_begin(struct stage *stage, const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
	await_letters(stage, what);
}

void stage_end(struct stage *stage, const char *what)
{
	struct ripc_stats stats;
	long grown_kb;

	await_letters(stage, what);
	stats = stage_stats(stage->b);
	grown_kb = fault_resident_kb() - stage->resident_kb;
	if (stats.pool_bytes > stats.pool_limit_bytes)
		fault_fail("%s: the pool took %llu bytes, its limit is %llu", what,
			(unsigned long long)stats.pool_bytes,
			(unsigned long long)stats.pool_limit_bytes);
	/* A sanitizer's own memory grows with everything that happens. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	if (grown_kb > GROWTH_KB)
		fault_fail("%s: %ld KiB more memory than before", what, grown_kb);
#endif
	printf("  %u honest letters so far; %llu partners take %llu bytes; %ld KiB grown\n",
		atomic_load(&stage->read), (unsigned long long)stats.partners,
		(unsigned long long)stats.partner_bytes, grown_kb);
}

static bool all_counted(const struct ripc_stats *before, const struct ripc_stats *now)
{
	return now->drop_duplicate != before->drop_duplicate &&
		now->drop_checksum != before->drop_checksum &&
		now->drop_malformed != before->drop_malformed &&
		now->drop_version != before->drop_version;
}

/* Packets of a are also sent again, cut off and altered, from the very address that b knows. */
static void altered_path(struct stage *stage)
{
	uint64_t until_ms = fault_now_ms() + 60000;
	struct ripc_stats before = stage_stats(stage->b), now;

	tap_attack(true);
	usleep(stage->full ? 20000000 : 1000000);
	/* On a slow machine little has been sent by now. */
	do {
		usleep(10000);
		now = stage_stats(stage->b);
	} while (!all_counted(&before, &now) && fault_now_ms() < until_ms);
	tap_attack(false);
	if (!all_counted(&before, &now))
		fault_fail("not everything was counted: duplicate %llu, checksum %llu, "
			"malformed %llu, version %llu",
			(unsigned long long)(now.drop_duplicate - before.drop_duplicate),
			(unsigned long long)(now.drop_checksum - before.drop_checksum),
			(unsigned long long)(now.drop_malformed - before.drop_malformed),
			(unsigned long long)(now.drop_version - before.drop_version));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *what;
		void (*attack)(struct stage *stage);
	} cases[] = {
		{"first packets with bad proofs", flood_bad_proofs},
		{"small packets of all types", flood_small_packets},
		{"answers that nobody asked for", flood_answers},
		{"replayed, cut and altered packets on the honest path", altered_path},
		{"replays by a partner", partner_replays},
		{"replays after a restart", partner_replays_after_restart},
		{"announcements without end", partner_announces_much},
		{"lies about lengths", partner_lies},
		{"nonsense asked for", partner_asks_nonsense},
		{"a partner that stops reading", partner_stops_reading},
	};
	static struct stage stage;
	struct fault_left left = fault_left_now();

	stage.full = fault_full(argc, argv);
	stage.seed = fault_seed();
	tap_open(stage.seed);
	stage_open(&stage);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stage_begin(&stage, cases[i].what);
		cases[i].attack(&stage);
		stage_end(&stage, cases[i].what);
	}
	stage_close(&stage);
	fault_left_check(&left, "closed");
	return 0;
}
