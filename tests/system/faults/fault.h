/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code shared by the fault tests: failing in words, remains of a process, contexts that only this
 * test's processes meet, and the permitted results of a call when its partner fails.
 */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/env.h"
#include "ripc/ripc.h"

/* --full on the command line, or RIPC_TEST_FULL=1: the counts that are stated for a release. */
bool fault_full(int argc, char **argv);
/* Where a sanitizer makes each slow, a run that is not full has so many times fewer cases. */
#ifdef __SANITIZE_ADDRESS__
#define FAULT_FEWER 3
#else
#define FAULT_FEWER 1
#endif
/* Says what went wrong, ends the children, and exits with 1. */
void fault_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

uint64_t fault_now_ms(void);
/* SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t fault_random(uint64_t *state);
/* RIPC_TEST_SEED, or drawn; it is printed, so that a failing run can be repeated. */
uint64_t fault_seed(void);

/* A configuration whose resolver is this test's own; children that get the name meet there. */
struct ripc_config fault_config(void);
/* Opens with a hook at the named points. env must outlive the context. */
void fault_open(struct ripc__env *env, const struct ripc_config *cfg, struct ripc_context **ctx);
uint64_t fault_id(uint32_t number);
/* Finds a service that is there, though the machine may have stopped its process for a while. */
void fault_find(struct ripc_context *ctx, uint64_t id);

/* May a waiting long send that ends so be explained by a partner that failed? */
bool fault_documented(int status, enum ripc_outcome outcome);

/* Possible remains of a process: its descriptors, shared memory, abstract socket names. */
struct fault_left {
	int descriptors, shared, names;
};

struct fault_left fault_left_now(void);
/* Fails unless all is as before; waits a little for what other processes are just closing. */
void fault_left_check(const struct fault_left *before, const char *when);
long fault_resident_kb(void);

#define FAULT_READY_FD 3
/* Starts this program again with these arguments; what it writes to FAULT_READY_FD can be read
 * from *ready, which ends with it. */
int fault_spawn(const char *const *argv, int *ready);
/* Waits for a process to end; fails if it does not. Returns its wait status. */
int fault_await(int pid, uint64_t patience_ms);

/* How long things took, ms. Times are printed; only what hangs fails: silence would end it, too,
 * after the peer timeout of 10 s. */
#define FAULT_HANG_MS  8000.0
#define FAULT_TOOK_MAX 65536u

struct fault_took {
	const char *what;
	uint32_t n;
	double ms[FAULT_TOOK_MAX];
};

void fault_took_add(struct fault_took *took, double ms);
/* Median and longest, if there are any. */
void fault_took_print(struct fault_took *took);

/* Contents that can be recognised. */
void fault_fill(void *bytes, size_t len, uint64_t seed);
bool fault_filled(const void *bytes, size_t len, uint64_t seed);

#endif
