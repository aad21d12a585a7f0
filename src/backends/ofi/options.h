/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the ofi backend, known also where it is not built in. */
#ifndef RIPC_OFI_OPTIONS_H
#define RIPC_OFI_OPTIONS_H

#include <stdbool.h>

#include "core/net/backend.h"
#include "util/options.h"

struct ofi_wish {
	const char *provider; /* NULL: efa */
	const char *domain;   /* NULL: the first one */
	uint32_t receives;
	uint32_t datagram;    /* bytes of one; 0: by rule */
	bool checksum;        /* false: what the network brings is believed */
	uint32_t reads;       /* 0: none; 1: wherever libfabric has them; OFI_READS_RULE */
	bool trusted;         /* for core (keys/moves.h) */
};

#define OFI_READS_RULE 2u /* where the device has them */

#endif
