/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat2(2) as the kernel has it since Linux 5.6. C libraries came to know of it later, some not
 * yet. Its number is the same on all processors but alpha.
 */
#ifndef OPENAT2_H
#define OPENAT2_H

#include <stdint.h>
#include <unistd.h>

#define OPENAT2_NUMBER	   437
#define OPENAT2_NO_MAGICLINKS 0x02
#define OPENAT2_BENEATH	   0x08

struct openat2_how {
	uint64_t flags;
	uint64_t mode;
	uint64_t resolve;
};

static inline int openat2_call(int dir, const char *path, const struct openat2_how *how)
{
	return (int)syscall(OPENAT2_NUMBER, dir, path, how, sizeof(*how));
}

#endif
