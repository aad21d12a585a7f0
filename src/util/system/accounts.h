/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of users and groups by name, from /etc/passwd and /etc/group alone. Name services (NSS)
 * are not asked: they load libraries into the process, may wait for the network, and do not work in
 * a program that is linked statically.
 */
#ifndef RIPC_ACCOUNTS_H
#define RIPC_ACCOUNTS_H

#include <stdint.h>

#define RIPC_USERS  "/etc/passwd"
#define RIPC_GROUPS "/etc/group"

/*
 * Finds the number that a file, RIPC_USERS or RIPC_GROUPS, has for a name. Reads the file, so not
 * for hot paths. 0; -ENOENT: the file has no such name; or why the file could not be read.
 */
int ripc__account_find(const char *path, const char *name, uint32_t *number);

#endif
