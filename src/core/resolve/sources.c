/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which sources a configuration means, and in which order: resolver.sources=local;store. Without
 * that option all are meant, but for the store, which needs servers to be named (store.servers),
 * and where these are, for multicast, which the store takes the place of.
 */
#include <errno.h>
#include <string.h>

#include "ripc/ripc.h"
#include "sources.h"

static const char *option(const struct ripc__host *host, const char *name)
{
	const char *value = host->option ? host->option(host->arg, name) : NULL;

	return value && *value ? value : NULL;
}

static bool is_named(const char *at, size_t len, const struct ripc__source *source)
{
	return strlen(source->name) == len && memcmp(source->name, at, len) == 0;
}

static const char *name_after(const char *at, size_t len)
{
	return at + len + (at[len] == ';');
}

bool ripc__source_is_wanted(const struct ripc__host *host, const struct ripc__source *source)
{
	const char *at = option(host, "resolver.sources");
	bool has_store = option(host, "store.servers");

	if (!at && strcmp(source->name, "store") == 0)
		return has_store;
	if (!at)
		return !has_store || strcmp(source->name, "multicast") != 0;
	while (*at) {
		size_t len = strcspn(at, ";");

		if (is_named(at, len, source))
			return true;
		at = name_after(at, len);
	}
	return false;
}

static int choose(const struct ripc__host *host, const struct ripc__source *source,
		const struct ripc__source **chosen)
{
	char why[256] = "", remedy[256] = "";

	*chosen = source->load ? source->load(host, why, remedy) : source;
	if (*chosen)
		return 0;
	host->log(host->arg, RIPC_LOG_ERROR, "resolver source %s: %s: %s", source->name, why,
		remedy);
	return -ENODEV;
}

static const struct ripc__source *find(const struct ripc__source *const *all, const char *at,
		size_t len)
{
	for (; *all; all++) {
		if (is_named(at, len, *all))
			return *all;
	}
	return NULL;
}

static int choose_named(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max)
{
	const char *text = option(host, "resolver.sources"), *at = text;
	uint32_t n = 0;
	int error = 0;

	while (*at && !error) {
		size_t len = strcspn(at, ";");
		const struct ripc__source *source = find(all, at, len);

		if (!source || n == max) {
			host->log(host->arg, RIPC_LOG_ERROR, "option resolver.sources: unknown "
				"\"%.*s\" in \"%.80s\"; known sources: local, store, multicast, "
				"static",
				(int)(len < 40 ? len : 40), at, text);
			return -EINVAL;
		}
		error = choose(host, source, &chosen[n++]);
		at = name_after(at, len);
	}
	chosen[n] = NULL;
	return error;
}

int ripc__sources_choose(const struct ripc__host *host, const struct ripc__source *const *all,
		const struct ripc__source **chosen, uint32_t max)
{
	uint32_t n = 0;
	int error = 0;

	if (option(host, "resolver.sources"))
		return choose_named(host, all, chosen, max);
	for (; *all && n < max && !error; all++) {
		if (ripc__source_is_wanted(host, *all))
			error = choose(host, *all, &chosen[n++]);
	}
	chosen[n] = NULL;
	return error;
}
