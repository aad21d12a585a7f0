/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The user that is meant by a user ID of the kernel. In a user namespace the kernel tells one and
 * the same number (the overflow uid, 65534) for everybody who has none there: that is no user.
 */
#ifndef RIPC_UID_H
#define RIPC_UID_H

#include <stdbool.h>
#include <sys/types.h>

/* Does uid stand for one user? Reads /proc, so not for hot paths. */
bool ripc__uid_is_user(uid_t uid);

#endif
