/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For what the usual message has no part in: kept out of its way, so that what it does pass needs
 * fewer registers and jumps. Inlined there, some of it would cost every message more than a call
 * costs the few that need it (docs/rationale.md).
 */
#ifndef RIPC_UTIL_RARE_H
#define RIPC_UTIL_RARE_H

#define RIPC__RARE __attribute__((cold, noinline))

#endif
