/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel reports of this host's interfaces and addresses (netlink). */
#ifndef RIPC_CHANGES_H
#define RIPC_CHANGES_H

#include <stdbool.h>

/* A descriptor that is readable when there are reports. -1: not every sandbox has it. */
int ripc__changes_open(void);
/* Reads them. Has the kernel reported anything? fd -1: no. */
bool ripc__changes_read(int fd);

#endif
