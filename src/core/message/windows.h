/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the application lends as a place for incoming items. */
#ifndef RIPC_WINDOWS_H
#define RIPC_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "util/list.h"

struct window {
	struct list node;
	uint64_t order, cookie; /* windows are used in the order of posting */
	struct iovec mem;
	bool cancelled;         /* taken back (api/buffers.c): serves no message any more */
};

/* Can mem be memory? Its end must not wrap, and it must not be at NULL, unless it is empty. */
static inline bool ripc__mem_is_sane(const struct iovec *mem)
{
	uintptr_t end;

	return (mem->iov_base || !mem->iov_len) &&
		!__builtin_add_overflow((uintptr_t)mem->iov_base, mem->iov_len, &end);
}

#endif
