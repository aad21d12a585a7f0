/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of resolvers: no other room includes this. */
#ifndef RIPC_RESOLVERS_INTERNAL_H
#define RIPC_RESOLVERS_INTERNAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "core/net/backend.h"
#include "util/list.h"
#include "util/map.h"

struct renewal;

/* ---- names ------------------------------------------------------------------------------- */

/*
 * The names of services that this host's processes have bound, "\0ripc/<uid>/<id>/<k>": how the
 * names are made, and how existing ones are read from /proc/net/unix.
 *
 * k is a number in hex. 0: the first owner's. 1 to 7: of an owner that displaced one that did
 * not respond. 8: of a private ID. Larger ones: drawn at random by a process that found 0 to 7
 * taken, hence no process can take all. The k of a group's member is its incarnation, with the
 * highest bit set.
 */

#define NAMES_PER_ID  8u /* that are looked for without reading which there are */
#define NAME_PRIVATE  8u

struct name {
	uint64_t id, k;
};

/*
 * The names that were read last; reading takes milliseconds where there are thousands of
 * sockets.
 */
struct names {
	uid_t uid;
	struct name *at;
	uint32_t n, room;
	uint64_t *others;   /* IDs of names that other users have bound */
	uint32_t n_others, others_room;
	uint64_t read_us, took_us; /* read_us 0: never */
};

/* Returns the length for bind and sendto. */
socklen_t ripc__name_make(uid_t uid, const struct name *wanted, struct sockaddr_un *name);
/*
 * Sees to it that at[0..n) and others[0..n_others) are as of late: of the last 40 ms, or 50 times
 * what reading takes.
 */
int ripc__names_refresh(struct names *names);
void ripc__names_free(struct names *names);

/* ---- life -------------------------------------------------------------------------------- */

/*
 * Proof that a context of this host lives, or that it has ended (docs/protocol.md, Life): each
 * context holds a record lock and shows it to those that ask; its connection to them ends with it.
 */

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
	struct list unnamed;    /* processes that have connected and sent nothing yet */
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

/* ---- peers ------------------------------------------------------------------------------- */

/*
 * The hosts that a configuration names ("host[:port],..."), as addresses: read, and read anew, as
 * what a name means may change.
 */

#define PEERS_MAX RIPC_PEERS_MAX

struct peers {
	struct sockaddr_in addresses[PEERS_MAX]; /* port 0: a free place */
	uint32_t n, n_places; /* addresses; places that are taken, and free ones between them */
	bool has_names;       /* of entries that are no addresses */
	bool is_silent;       /* the name service does not answer for one of them */
	char why_not[160];    /* an entry that cannot be used, in words; "" if all can */
};

/*
 * Reads a list. For names the name service is asked, which may take long. A name that has no
 * address now is left out, and why_not names it: hosts come and go, and so do their names. -EINVAL:
 * an entry cannot be understood, or there are more than PEERS_MAX, as why_not says; -ENOMEM.
 */
int ripc__peers_read(const char *text, in_port_t port, struct peers *peers);
/* Takes over what a newer reading has found. An address that is still there keeps its place. */
void ripc__peers_update(struct peers *peers, const struct peers *newer);

/* A reading by a thread of its own, since the name service may keep it waiting. */

/* fd, an eventfd, becomes readable at its end. NULL: there is no thread, or no memory. */
struct renewal *ripc__renewal_begin(const char *text, in_port_t port, int fd);
/* False: it is not done yet. Else it is freed, and newer and error are what came of it. */
bool ripc__renewal_take(struct renewal *renewal, struct peers *newer, int *error);
/* Nobody wants it any more. It does not keep the caller waiting. */
void ripc__renewal_leave(struct renewal *renewal);

/* ---- options ----------------------------------------------------------------------------- */

/* The options of the store source, known also where it is not built in. */

struct store_wish {
	const char *servers, *cluster, *auth; /* NULL: not configured */
	uint32_t session_ms;
};

#endif
