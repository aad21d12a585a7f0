/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat2(2) as the kernel has it since Linux 5.6. C libraries came to know of it later, some not
 * yet. Its number is 437 from where the kernel begins to count, which depends on the processor.
 */
#ifndef OPENAT2_H
#define OPENAT2_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_openat2
#define OPENAT2_NUMBER	   SYS_openat2
#elif defined(__alpha__)
#define OPENAT2_NUMBER	   547
#elif defined(__ia64__)
#define OPENAT2_NUMBER	   (1024 + 437)
#elif defined(__mips__) && _MIPS_SIM == _ABIO32
#define OPENAT2_NUMBER	   (4000 + 437)
#elif defined(__mips__) && _MIPS_SIM == _ABI64
#define OPENAT2_NUMBER	   (5000 + 437)
#elif defined(__mips__)
#define OPENAT2_NUMBER	   (6000 + 437)
#elif defined(__x86_64__) && defined(__ILP32__)
#define OPENAT2_NUMBER	   (0x40000000 + 437)
#else
#define OPENAT2_NUMBER	   437
#endif
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
