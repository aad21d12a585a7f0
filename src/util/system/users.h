/* SPDX-License-Identifier: BSD-3-Clause */
/* Users: their numbers and names, and raised rights. */
#ifndef RIPC_SYSTEM_USERS_H
#define RIPC_SYSTEM_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- uid --------------------------------------------------------------------------------- */

/*
 * The user or group of a number of the kernel. In a user namespace the kernel reports one and
 * the same number (the overflow uid or gid, 65534) for all that have none there: that number
 * stands for no user and no group.
 */

/* Does the number stand for one user, for one group? Both read /proc: not for hot paths. */
bool ripc__uid_is_user(uid_t uid);
bool ripc__gid_is_group(gid_t gid);

/* ---- accounts ---------------------------------------------------------------------------- */

/*
 * Numbers of users and groups by name, from /etc/passwd and /etc/group alone. Name services
 * (NSS) are not used: they load libraries into the process, may wait for the network, and do not
 * work in a statically linked program.
 */

#define RIPC_USERS  "/etc/passwd"
#define RIPC_GROUPS "/etc/group"

/*
 * Finds the number that a file, RIPC_USERS or RIPC_GROUPS, has for a name. Reads the file: not
 * for hot paths. 0; -ENOENT: the file has no such name; or why the file could not be read.
 */
int ripc__account_find(const char *path, const char *name, uint32_t *number);

#endif
