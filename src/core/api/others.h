/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a partner is not reached by other networks. */
#ifndef RIPC_OTHERS_H
#define RIPC_OTHERS_H

#include <stddef.h>
#include <stdint.h>

struct partner;
struct ripc_context;
struct ripc_path;

/* Writes the text of ripc_path.others; none: for a service that no network leads to. */
void ripc__path_others(struct partner *partner, char *bytes, size_t size);
void ripc__path_none(struct ripc_context *ctx, uint64_t id, struct ripc_path *path);

#endif
