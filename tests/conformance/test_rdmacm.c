/* SPDX-License-Identifier: BSD-3-Clause */
/* The rdmacm backend against the contract, on a device, with its default and with few buffers. */
#include <stdio.h>

#include "suite.h"

#define SKIPPED 77

static void log_nothing(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

static const char *no_option(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return NULL;
}

int main(void)
{
	static const char *const few[] = {"rdmacm.receives", "256", "rdmacm.connections", "6",
		NULL};
	static const conformance_options variants[] = {NULL, few};
	static const struct conformance rdmacm = {
		.backend = &ripc__rdmacm_backend,
		.variants = variants,
		.n_variants = 2,
		.both_ends = true,
	};
	const struct ripc__host host = {.log = log_nothing, .option = no_option};
	char why[256] = "", remedy[256] = "";

	if (ripc__rdmacm_backend.probe(&host, why, remedy)) {
		printf("skipped: %s (%s)\n", why, remedy);
		return SKIPPED;
	}
	printf("%s\n", why);
	return conformance_run(&rdmacm);
}
