/* SPDX-License-Identifier: BSD-3-Clause */
/* The built-in backends and resolver sources, best first; and the options of all parts. */
#include <stdio.h>
#include <sys/auxv.h>

#include "core/net/backend.h"

const struct ripc__backend *const ripc__backends[] = {
	&ripc__shm_backend,
	&ripc__verbs_backend,
	&ripc__rdmacm_backend,
	&ripc__ofi_backend,
	&ripc__udp_backend,
	NULL,
};

const struct ripc__source *const ripc__sources[] = {
	&ripc__local_source,
	&ripc__store_source,
	&ripc__multicast_source,
	&ripc__static_source,
	NULL,
};

const struct ripc__option *const ripc__options[] = {
	ripc__group_options,
	ripc__ofi_options,
	ripc__rdmacm_options,
	ripc__resolver_options,
	ripc__shm_options,
	ripc__store_options,
	ripc__udp_options,
	ripc__verbs_options,
	NULL,
};

bool ripc__backend_is_refused(const struct ripc__backend *named, char why[256], char remedy[256])
{
	if (!getauxval(AT_SECURE) || named == &ripc__shm_backend || named == &ripc__udp_backend)
		return false;
	snprintf(why, 256, "this program runs with raised rights (setuid, setgid or capabilities), "
		"and the libraries of %s load code that the environment names", named->name);
	snprintf(remedy, 256, "use shm and udp, or run the program without raised rights");
	return true;
}
