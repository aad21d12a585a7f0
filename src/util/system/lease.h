/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leases of a file: descriptors with a shared lock (flock(2)). The kernel keeps a lease as long as
 * any copy of its descriptor is open, also while one is on its way through a socket, and drops the
 * lease with the last copy. Processes that only have a lease need not know each other.
 */
#ifndef RIPC_LEASE_H
#define RIPC_LEASE_H

#include <stdbool.h>

/*
 * A new lease of an open file: its descriptor, which can only read the file; or a negative errno.
 * Needs /proc. -EAGAIN: not now, or never here.
 */
int ripc__lease_make(int fd);
/*
 * Ends a lease and closes its descriptor. The copies of the descriptor are leases no more: a child
 * that was forked may have one.
 */
void ripc__lease_end(int lease);
/*
 * Has anybody a lease of this file? fd: a descriptor that is no lease. Where that cannot be told,
 * somebody has.
 */
bool ripc__is_leased(int fd);
/* Do both descriptors belong to one file? */
bool ripc__is_same_file(int fd, int other);

#endif
