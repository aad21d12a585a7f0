/* SPDX-License-Identifier: BSD-3-Clause */
/* When the ofi backend is worth a look: known without libfabric, which nobody loads in vain. */
#ifndef RIPC_OFI_PRESENT_H
#define RIPC_OFI_PRESENT_H

#include "core/net/backend.h"

/*
 * 0: a provider was asked for, or this host has an EFA device. -ENODEV: neither; why and remedy as
 * of ripc__backend.probe.
 */
int ripc__ofi_is_wanted(const struct ripc__host *host, char why[256], char remedy[256]);

#endif
