/* SPDX-License-Identifier: BSD-3-Clause */
/* The rights that a member has shown, and whether they are enough for a message. */
#ifndef RIPC_GRANTS_H
#define RIPC_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "member.h"

/*
 * The n capabilities that a member shows in a handshake become its rights from now on. 0; -EACCES:
 * none of them counts, and the member keeps its old rights; -ENOMEM.
 */
int ripc__grants_take(struct sealed_net *net, struct member *member, const uint8_t *capabilities,
		uint32_t n, const struct ripc__addr *from);
/*
 * Our own rights by this directory, as others see them. Says which of our capabilities do not
 * count, once. -ENOMEM: the rights are as before.
 */
int ripc__grants_own(struct seal *seal, const struct key_dir *dir);
/* May we be this service? */
bool ripc__grants_are_ours(const struct seal *seal, uint64_t id);
/* Is the key of the member revoked? Then a sentence says so. */
bool ripc__grants_are_revoked(struct sealed_net *net, const struct member *member,
		const struct ripc__addr *at);
/* We refused the member, or the member refused us: its sessions end, and core is told. */
void ripc__grants_lose(struct sealed_net *net, struct member *member);
/*
 * Has the member shown its rights since we have an authority? A member that was admitted before has
 * yet to, in its next handshake.
 */
bool ripc__grants_are_known(const struct seal *seal, const struct member *member);
/* Sets the timer for the end of a right, unless it is set for an earlier time. */
void ripc__grants_await_end(struct seal *seal, uint64_t end_s);
/* The time at which the next right ends, of ours or of a member; UINT64_MAX: never. Seconds. */
uint64_t ripc__grants_end_s(const struct seal *seal);
/* May the member be that service? */
bool ripc__grants_let_be(const struct seal *seal, const struct member *member, uint64_t id);
/* May the member be service from, and send to our service to? */
bool ripc__grants_let_in(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to);
/*
 * May the member be service to, and may we be service from and send to it? NULL: yes; else a text
 * that names the missing right.
 */
const char *ripc__grants_lack(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to);

#endif
