/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contexts of this host that our user may see (root: all), with what their pages tell. The
 * contents of a page are checked, and strings are printable; numbers may still have any value.
 */
#ifndef TOOLS_LOOK_H
#define TOOLS_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ripc/page.h>

#define LOOK_CONTEXTS_MAX 1024

/* One sample of a context. */
struct look_sample {
	uint64_t taken_ns;      /* tool_now_ns(); 0: none */
	struct ripc_page page;  /* page.stats is complete */
};

struct look_context {
	uint64_t context;       /* incarnation */
	uid_t uid;
	pid_t pid;              /* as the kernel has it; 0: of another PID namespace */
	char command[16];
	int fd;                 /* the connection */
	const void *memory;     /* NULL: it has shown nothing yet */
	size_t len;
	bool answered;          /* the last question; else only its counters are new */
	bool ended;
	struct look_sample now, before;
};

struct look_user {
	uid_t uid;
	size_t n;                 /* contexts in the list */
};

struct look {
	struct look_context *list[LOOK_CONTEXTS_MAX]; /* by process, then by incarnation */
	size_t n, max;            /* max: as many as there are descriptors for */
	struct look_user users[LOOK_CONTEXTS_MAX];
	size_t n_users;
};

/*
 * Users share the room: where it is full, a user with fewer contexts takes a place of the user with
 * most, so nobody hides others from root by opening many.
 *
 * Finds new contexts, drops those that have ended, and takes a sample of each; waits for their
 * answers for up to timeout_ms. A negative errno: contexts cannot be looked for.
 */
int look_update(struct look *look, int timeout_ms);
void look_end(struct look *look);

/*
 * Takes a sample of what a context shows. 0; -EBADMSG: it is no page that we know; -EAGAIN: it is
 * being written all the time. memory may change at any time.
 */
int look_read(const void *memory, size_t len, bool answered, struct look_sample *sample);

/* One figure of struct ripc_stats. */
struct figure {
	const char *name, *help;
	size_t offset;
	bool is_gauge;          /* false: a counter since the context was opened */
	bool is_gathered;       /* only up to date when the context has answered */
};

extern const struct figure look_figures[];
extern const size_t look_n_figures;

static inline uint64_t look_figure(const struct ripc_stats *stats, const struct figure *figure)
{
	return *(const uint64_t *)((const char *)stats + figure->offset);
}

/* How much something has grown a second between two samples; 0: there was no sample before. */
double look_rate(const struct look_context *of, uint64_t now, uint64_t before);
/* The same partner in the sample before, or NULL. */
const struct ripc_page_partner *look_before(const struct look_context *of,
		const struct ripc_page_partner *partner);

#endif
