/* SPDX-License-Identifier: BSD-3-Clause */
/* What a member has shown that it may, and whether that is enough for a message. */
#ifndef RIPC_GRANTS_H
#define RIPC_GRANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "member.h"

/*
 * Takes the n capabilities that a member shows in a handshake for what it may from now on. 0;
 * -EACCES: none of them counts, and what it had it keeps; -ENOMEM.
 */
int ripc__grants_take(struct seal *seal, struct member *member, const uint8_t *capabilities,
		uint32_t n, const struct ripc__addr *from);
/* It was refused, or refuses us: no session is left, and core is told. */
void ripc__grants_lose(struct seal *seal, struct member *member);
/* May the member be from, and send to to, which is here? */
bool ripc__grants_let_in(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to);
/*
 * May it be to, and we be from and send to it? NULL: yes; else what is missing, in words.
 */
const char *ripc__grants_lack(const struct seal *seal, const struct member *member, uint64_t from,
		uint64_t to);

#endif
