/* SPDX-License-Identifier: BSD-3-Clause */
/* The path to a partner, as ripc_path_info() tells it. */
#ifndef RIPC_INFO_H
#define RIPC_INFO_H

struct partner;
struct ripc_path;

int ripc__path_fill(struct partner *partner, struct ripc_path *path);

#endif
