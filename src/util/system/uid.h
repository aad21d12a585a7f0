/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user or group that is meant by a number of the kernel. In a user namespace the kernel reports
 * one and the same number (the overflow uid or gid, 65534) for all who have none there: that number
 * stands for no user and no group.
 */
#ifndef RIPC_UID_H
#define RIPC_UID_H

#include <stdbool.h>
#include <sys/types.h>

/* Does the number stand for one user, for one group? Both read /proc, so not for hot paths. */
bool ripc__uid_is_user(uid_t uid);
bool ripc__gid_is_group(gid_t gid);

#endif
