/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for a backend that was not built, which reports so. */
#ifndef RIPC_MISSING_INTERNAL_H
#define RIPC_MISSING_INTERNAL_H

#include <errno.h>
#include <stdio.h>

#include "core/net/backend.h"
#include "ripc/ripc.h"

/* word: its name; needs: packages to install. */
#define MISSING(word, number, needs)                                                        \
	static int probe(const struct ripc__host *host, char why[256], char remedy[256])    \
	{                                                                                   \
		(void)host;                                                                 \
		snprintf(why, 256, "not built in");                                         \
		snprintf(remedy, 256, "install " needs ", and build again");                \
		return -ENOSYS;                                                             \
	}                                                                                   \
	static int open_port(void *port, const struct ripc__host *host,                     \
			struct ripc__attr *attr)                                            \
	{                                                                                   \
		(void)port;                                                                 \
		(void)attr;                                                                 \
		host->log(host->arg, RIPC_LOG_WARN, #word ": not built in");                \
		return -ENOSYS;                                                             \
	}                                                                                   \
	const struct ripc__backend ripc__##word##_backend = {                               \
		.name = #word,                                                              \
		.id = number,                                                               \
		.net = {.probe = probe, .open = open_port},                                 \
	}

#endif
