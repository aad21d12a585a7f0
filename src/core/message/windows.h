/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the application lends as a place for what comes: windows and return buffers. */
#ifndef RIPC_WINDOWS_H
#define RIPC_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/list.h"

struct window {
	struct list node;
	uint64_t order, cookie; /* order: of posting, that of use */
	struct iovec mem;
	bool cancelled;         /* taken back (api/windows.c): serves no message any more */
};

/* Can there be such memory? Its end is not before its beginning, and it is not at NULL. */
static inline bool ripc__mem_is_sane(const struct iovec *mem)
{
	uintptr_t end;

	return (mem->iov_base || !mem->iov_len) &&
		!__builtin_add_overflow((uintptr_t)mem->iov_base, mem->iov_len, &end);
}

#endif
