/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the test of named points (points.c): a talk of all kinds of messages. */
#ifndef POINTS_H
#define POINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/env.h"
#include "ripc/ripc.h"

#define SERVICE_DRIVER    1 /* numbers of fault_id() */
#define SERVICE_VICTIM    2
#define SERVICE_COMPANION 3

#define ROUNDS      3u   /* of a conversation: all kinds, one after the other */
#define PATIENCE_MS 20000u
#define SLICE_MS    250u /* of a wait: long enough to sleep in the port's own way */
#define PENDING_MAX 64
#define SEEN_MAX    4096u

/* The kinds of messages by their way. */
enum kind {
	KIND_SHORT,  /* in a slot of a ring */
	KIND_WIDE,   /* in its area; with many beside it that want no answer */
	KIND_LONG,   /* comes unasked */
	KIND_PULLED, /* long, from memory that nobody can be shown */
	KIND_READ,   /* long, read by its receiver */
	KIND_GIVEN,  /* mapped, and kept until the next one */
	KINDS,
	KIND_STOP,
};

/* The first bytes of each message; what follows is filled by it. */
struct note {
	uint32_t number, life; /* of who asks, which no other process has */
	uint32_t kind;
	uint32_t is_answer, is_quiet; /* quiet: wants none */
	uint32_t is_hosts; /* was sent by the process of the test itself */
};

/* One end of a talk. */
struct talker {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	uint32_t life, number, deadline_ms;
	struct ripc_msg *kept;
	bool is_host; /* in the process of the test itself */
	struct pending { /* sends of unknown outcome, whose memory a notice gives back */
		uint64_t cookie;
		void *mem;
		bool in_pool;
	} pending[PENDING_MAX];
	uint64_t cookies;
	uint64_t seen[SEEN_MAX]; /* long messages, by asker and number */
	uint32_t n_seen;
	bool stopped; /* KIND_STOP has come */
};

/* ---- points_talk.c ----------------------------------------------------------------------- */
void talk_open(struct talker *talker, uint64_t id, uint32_t life, uint32_t deadline_ms);
/* 0, or how ripc_close() has ended. */
int talk_close(struct talker *talker);
/* Sends and gets the answer; answers what else comes. 0, or why not; -ENOMSG: none came. */
int talk_ask(struct talker *talker, uint64_t to, enum kind kind);
/* Answers what comes first within this time. */
void talk_serve(struct talker *talker, int timeout_ms);
/* Sends shorts to one that is dead, until it is told that nobody is there: -ENOENT. */
int talk_until_nobody(struct talker *talker, uint64_t to);
void talk_stop(struct talker *talker, uint64_t to, int pid);
/* Looks once more at what was given to us, and frees it. */
void talk_drop_kept(struct talker *talker);
/* The pool keeps nothing that it has not got to: it would show none of that to others. */
void talk_tidy(struct talker *talker);

/* ---- points_victim.c --------------------------------------------------------------------- */
/* The body of the other processes: "--victim serve|call POINT N kill|fork|stop SERVICE LIFE". */
int victim_main(char **argv);

/* ---- points_left.c ----------------------------------------------------------------------- */
/* The resources of a process, which it may leave behind. */
struct left {
	int descriptors, names, mappings;
	uint64_t pool_bytes, given_bytes, mapped_bytes;
};

struct left left_now(struct talker *talker);
/* Is nothing more than before; without all, of the memory that others may hold? The library keeps a
 * little of the pool and of the mappings for later. */
bool left_is_less(const struct left *now, const struct left *before, bool all);
/* The abstract name of another process's port, as it stands in /proc/net/unix; "": none. */
void left_port_name(int pid, char name[64]);
bool left_name_exists(const char *name);

#endif
