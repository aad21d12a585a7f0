/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A record lock (fcntl(2)) as a sign of life: the kernel takes it from its process when that ends,
 * however it ends, and a forked child does not inherit it.
 */
#ifndef RIPC_PLEDGE_H
#define RIPC_PLEDGE_H

#include <stdbool.h>

/*
 * Locks the file's first byte for this process, until that ends or closes any descriptor of the
 * file. Does not block. 0 or a negative errno.
 */
int ripc__pledge(int fd);
/* Does another process hold that lock? What cannot be told counts as held. */
bool ripc__is_pledged(int fd);
/* The same with the second byte, which is for another process. */
int ripc__pledge_second(int fd);
bool ripc__is_pledged_second(int fd);

#endif
