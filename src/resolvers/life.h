/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proof that a context of this host lives, or that it has ended (docs/protocol.md, Life): each
 * context holds a record lock and shows it to those that ask; its connection to them ends with it.
 */
#ifndef RIPC_LIFE_H
#define RIPC_LIFE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/net/backend.h"
#include "util/list.h"
#include "util/map.h"

#define LIFE_LINKS_MAX 4096u /* contexts that one is connected with; of others nothing is proven */

struct life {
	struct ripc__host host;
	uid_t uid;
	bool is_user;           /* uid is of one user (util/uid.h) */
	int epoll_fd;           /* the source's */
	int listener, lock_fd;  /* -1: we can show nothing */
	dev_t lock_dev;
	ino_t lock_ino;
	struct ripc__map links; /* struct life_link by context */
	struct list unnamed;    /* those that have connected and said nothing yet */
	struct list closed;     /* freed by ripc__life_tend() */
	uint32_t n_links;       /* with a connection */
	uint32_t look_at;       /* where the next look begins */
};

/* Without a means to do it nothing is proven; that is no error. epoll_fd: wakes for it. */
void ripc__life_open(struct life *life, const struct ripc__host *host, uid_t uid, int epoll_fd);
void ripc__life_close(struct life *life);
/* The end of this context is to be told (host.gone), if it is on this host; counted. */
void ripc__life_watch(struct life *life, uint64_t context);
void ripc__life_unwatch(struct life *life, uint64_t context);
/* Looks at some of the locks: a forked child may keep a connection. Are there any? */
bool ripc__life_look(struct life *life);

/* Does what an event of epoll_fd points to belong here? Then: it is readable. */
static inline bool ripc__life_owns(const void *data)
{
	return (uintptr_t)data & 1;
}
void ripc__life_ready(struct life *life, void *data);
/* By what contexts know that they can prove each other's end; 0: this one cannot. */
uint64_t ripc__life_number(const struct life *life);
/* Has this context ended, which has the same number? */
bool ripc__life_ended(const struct life *life, uint64_t context);
/* Between two calls of epoll_wait: no event refers to what was closed before. */
void ripc__life_tend(struct life *life);

#endif
