/* SPDX-License-Identifier: BSD-3-Clause */
/* In the static library: every backend is in it, and none is a module (module.c). */
#include "core/net/backend.h"

const struct ripc__backend *ripc__module_get(const struct ripc__backend *named,
		const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	return ripc__backend_is_refused(named, why, remedy) ? NULL : named;
}
