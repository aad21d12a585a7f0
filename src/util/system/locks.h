/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks of files that end with their process. */
#ifndef RIPC_SYSTEM_LOCKS_H
#define RIPC_SYSTEM_LOCKS_H

#include <stdbool.h>

/* ---- lease ------------------------------------------------------------------------------- */

/*
 * Leases of a file: descriptors with a shared lock (flock(2)). The kernel keeps a lease as long
 * as any copy of its descriptor is open, even while one is on its way through a socket, and
 * drops the lease with the last copy. Processes that only have a lease need not know each other.
 */

/*
 * A new lease of an open file: its descriptor, which can only read the file; or a negative errno.
 * Needs /proc. -EAGAIN: not now, or never here.
 */
int ripc__lease_make(int fd);
/*
 * Ends a lease and closes its descriptor. Copies of the descriptor, for example in a forked
 * child, are leases no more.
 */
void ripc__lease_end(int lease);
/*
 * Has any process a lease of this file? fd: a descriptor that is no lease. If that cannot be
 * found out: yes.
 */
bool ripc__is_leased(int fd);
/* Do both descriptors belong to one file? */
bool ripc__is_same_file(int fd, int other);

/* ---- pledge ------------------------------------------------------------------------------ */

/*
 * A record lock (fcntl(2)) as a sign of life: the kernel takes it from its process when that ends,
 * however it ends, and a forked child does not inherit it.
 */

/* The byte of the file that is locked: two processes may have one each. */
enum ripc__pledge { RIPC__PLEDGE_FIRST, RIPC__PLEDGE_SECOND };

/*
 * Locks the byte for this process, until that ends or closes any descriptor of the file. Does not
 * block. 0 or a negative errno.
 */
int ripc__pledge(int fd, enum ripc__pledge which);
/* Does another process hold that lock? An unknown state counts as held. */
bool ripc__is_pledged(int fd, enum ripc__pledge which);

#endif
