/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places that bpftrace and similar tools can watch while a program runs (docs/looking.md): each
 * is one instruction that does nothing. Built if there is <sys/sdt.h>. Arguments are values at
 * hand: nothing is computed for a probe.
 */
#ifndef RIPC_UTIL_PROBE_H
#define RIPC_UTIL_PROBE_H

#if RIPC_USDT
#include <sys/sdt.h>
#define RIPC__PROBE(name, a, b, c, d) DTRACE_PROBE4(ripc, name, a, b, c, d)
#else
#define RIPC__PROBE(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

enum { RIPC__PROBE_SHORT = 1, RIPC__PROBE_LONG = 2 };

#endif
