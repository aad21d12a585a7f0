/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the hostile-partner test: two contexts of this process, a pair of honest
 * services that talk all the time, and the service that is attacked beside them.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "fault.h"
#include "raw.h"

#define POOL_BYTES (64u << 20)

struct tap;

struct stage {
	struct ripc__env env_a, env_b;
	struct ripc_context *a, *b;
	struct ripc_service *a_honest, *b_honest, *b_target;
	struct ripc_service *a_finder; /* knows the way to the target */
	pthread_t writer, reader, target_reader;
	atomic_bool stop;
	atomic_uint written, read; /* letters of the honest pair */
	atomic_uint target_shorts, target_longs, target_completions;
	uint64_t seed;
	bool full;
	long resident_kb; /* before the first case */
};

void stage_open(struct stage *stage);
void stage_close(struct stage *stage);
/* An attack begins, and has ended: the honest pair went on, memory is within its bounds. */
void stage_begin(struct stage *stage, const char *what);
void stage_end(struct stage *stage, const char *what);
struct ripc_stats stage_stats(struct ripc_context *ctx);

/* hostile_tap.c: what a sends to b passes through here; some of it again, cut, or altered. */
const struct ripc__backend *const *tap_backends(void);
void tap_open(uint64_t seed);
void tap_attack(bool on);

/* hostile_flood.c: by strangers */
void flood_bad_proofs(struct stage *stage);
void flood_small_packets(struct stage *stage);
void flood_answers(struct stage *stage);
/* hostile_partner.c: by somebody with a valid token */
void partner_replays(struct stage *stage);
void partner_replays_after_restart(struct stage *stage);
void partner_announces_much(struct stage *stage);
void partner_lies(struct stage *stage);
void partner_asks_nonsense(struct stage *stage);
void partner_stops_reading(struct stage *stage);

#endif
