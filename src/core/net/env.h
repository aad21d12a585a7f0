/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a context: clock, random numbers, backends, resolver sources. A program gets
 * the real ones through ripc_open(); the simulator brings its own.
 */
#ifndef RIPC_ENV_H
#define RIPC_ENV_H

#include <stddef.h>
#include <stdint.h>

#include "backend.h"
#include "crypto.h"
#include "ripc/ripc.h"

/* The clock of an environment that is not virtual. */
uint64_t ripc__real_now_us(void *arg);

struct ripc__env {
	void *arg;
	uint64_t (*now_us)(void *arg);                      /* monotonic, microseconds */
	uint64_t (*wall_ns)(void *arg);                     /* wall clock, nanoseconds */
	int (*random)(void *arg, void *bytes, size_t len);  /* 0 or a negative errno */
	const struct ripc__backend *const *backends;        /* NULL-terminated, best first */
	/* As ripc__module_get(). NULL: none of the backends is a module. */
	const struct ripc__backend *(*module_get)(const struct ripc__backend *named,
			const struct ripc__host *host, char why[256], char remedy[256]);
	const struct ripc__source *const *sources;          /* NULL-terminated, in query order */
	/* Loads cryptography for a context with keys. NULL: there is none. */
	const struct ripc__crypto *(*crypto)(char why[256], char remedy[256]);
	uint64_t host_identity;        /* hash of boot ID and namespace; 0: unknown */
	/*
	 * Called at named points of the protocol, for fault tests; NULL: not called. The names:
	 * "announced", "first_grant", "mid_data", "last_data", "before_checksum", "before_done",
	 * "after_done", "in_hello", "in_resolve", "in_close", "in_keys" (without the
	 * lock, before the directory of keys is read again).
	 */
	void (*point)(void *arg, const char *name);
	/*
	 * Called by a waiting call instead of sleeping, without lock; NULL: sleep. Must return by
	 * until_us or when something has arrived, and must not call into the same context.
	 */
	void (*idle)(void *arg, uint64_t until_us);
};

/*
 * ripc_open() with another environment. env must live as long as the context. Backends and sources
 * find env->arg in ripc__host.env.
 */
int ripc__open_in(const struct ripc_config *cfg, const struct ripc__env *env,
		struct ripc_context **ctx);

/* The real environment: clock, getrandom(), built-in backends and sources. */
void ripc__env_init(struct ripc__env *env);

#endif
