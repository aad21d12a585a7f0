/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For code that the usual message does not run: kept out of line, where it costs the usual path
 * no registers and jumps. Inlined, some of it would cost every message more than a call costs
 * the few that need it (docs/decisions/instructions.md).
 */
#ifndef RIPC_UTIL_RARE_H
#define RIPC_UTIL_RARE_H

#define RIPC__RARE __attribute__((cold, noinline))

#endif
