/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the rdmacm backend where that was not built, and reports so. */
#include <errno.h>
#include <stdio.h>

#include "core/net/backend.h"
#include "ripc/ripc.h"

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	snprintf(why, 256, "not built in");
	snprintf(remedy, 256,
		"install librdmacm-dev and libibverbs-dev, 32 or newer, and build again");
	return -ENOSYS;
}

static int open_port(void *port, const struct ripc__host *host, struct ripc__attr *attr)
{
	(void)port;
	(void)attr;
	host->log(host->arg, RIPC_LOG_WARN, "rdmacm: not built in");
	return -ENOSYS;
}

const struct ripc__backend ripc__rdmacm_backend = {
	.name = "rdmacm",
	.id = 5,
	.net = {.probe = probe, .open = open_port},
};
