/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of services that this host's processes have bound, "\0ripc/<uid>/<id>/<k>": how they
 * are made, and which there are, by /proc/net/unix.
 *
 * k is a number in hex. 0: the first holder's. 1 to 7: of who displaced a silent one. 8: of a
 * private ID. Larger ones: drawn at random by who found 0 to 7 taken, so that nobody can take all.
 * Of a group: each member's incarnation, with the highest bit set.
 */
#ifndef RIPC_NAMES_H
#define RIPC_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#define NAMES_PER_ID  8u /* that are looked for without reading which there are */
#define NAME_PRIVATE  8u

struct name {
	uint64_t id, k;
};

/* What was read last; reading takes milliseconds where there are thousands of sockets. */
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

#endif
