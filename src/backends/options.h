/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of backends that need a foreign library: known also where they are not built in. */
#ifndef RIPC_BACKENDS_OPTIONS_H
#define RIPC_BACKENDS_OPTIONS_H

#include <stdbool.h>

#include "core/net/backend.h"

/* ---- verbs ------------------------------------------------------------------------------- */

struct verbs_options {
	uint32_t connections, receives, gid_index;
	const char *device; /* NULL: any */
	bool trusted; /* for core (keys/internal.h) */
};

/* ---- rdmacm ------------------------------------------------------------------------------ */

struct rdmacm_options {
	uint32_t connections, receives, port;
	bool any, udp;
	bool trusted; /* for core (keys/internal.h) */
	const char *device; /* NULL: any */
};

/* ---- ofi --------------------------------------------------------------------------------- */

struct ofi_wish {
	const char *provider; /* NULL: efa */
	const char *domain;   /* NULL: the first one */
	uint32_t receives;
	uint32_t datagram;    /* bytes of one; 0: by rule */
	bool checksum;        /* false: received bytes are not checked */
	uint32_t reads;       /* 0: none; 1: wherever libfabric has them; OFI_READS_RULE */
	bool trusted;         /* for core (keys/internal.h) */
};

#define OFI_READS_RULE 2u /* where the device has them */

/* ---- ofi/present.c ----------------------------------------------------------------------- */

/*
 * 0: a provider is configured, or this host has an EFA device. -ENODEV: neither; why and remedy
 * as of ripc__backend.probe.
 */
int ripc__ofi_is_wanted(const struct ripc__host *host, char why[256], char remedy[256]);

#endif
