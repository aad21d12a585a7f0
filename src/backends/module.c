/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the shared library: stand-ins for the backends, the resolver source and the cryptography
 * that need a foreign library. Each is a module, libripc/ripc-NAME.so beside this library, or
 * ripc-NAME.so where it was built. A module is loaded when a context first looks whether it can
 * be used: a program on a host without such a device, without a store, or without keys, loads
 * none. A module exports one symbol, ripc__module. The static library contains all of these.
 */
#include "module.h"
#include "options.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/class/infiniband"

/* The path of a module beside this library; false: the library's place is not known. */
static bool module_path(const char *name, char path[PATH_MAX])
{
	const char *const places[] = {"libripc/", ""};
	const char *slash;
	Dl_info self;
	int len;

	if (!dladdr(ripc__backends, &self) || !self.dli_fname)
		return false;
	slash = strrchr(self.dli_fname, '/');
	len = slash ? (int)(slash - self.dli_fname) + 1 : 0;
	for (int i = 0; i < 2; i++) {
		if (snprintf(path, PATH_MAX, "%.*s%sripc-%s.so", len, self.dli_fname, places[i],
				name) >= PATH_MAX)
			return false;
		if (access(path, F_OK) == 0)
			break;
	}
	return true;
}

/* The module stays loaded: its code may be in use as long as the program runs. */
static const struct ripc__module *module_load(const char *path, char why[256], char remedy[256])
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	const struct ripc__module *module = handle ? dlsym(handle, "ripc__module") : NULL;

	if (!handle) {
		snprintf(why, 256, "the module cannot be loaded: %.200s", dlerror());
		snprintf(remedy, 256, "install the module and the libraries that it names");
		return NULL;
	}
	dlclose(handle);
	if (!module || strcmp(module->version, RIPC_MODULE_VERSION) != 0) {
		snprintf(why, 256, "%.200s is of another version of libripc", path);
		snprintf(remedy, 256, "install the module of version " RIPC_MODULE_VERSION);
		return NULL;
	}
	return module;
}

static const struct ripc__module *load_any(const char *name, char why[256],
		char remedy[256])
{
	char path[PATH_MAX];

	if (!module_path(name, path)) {
		snprintf(why, 256, "the library cannot find its own file");
		snprintf(remedy, 256, "link the program with the shared library by its path");
		return NULL;
	}
	return module_load(path, why, remedy);
}

static const struct ripc__backend *load(const char *name, char why[256],
		char remedy[256])
{
	const struct ripc__module *module = load_any(name, why, remedy);

	return module ? module->backend : NULL;
}

static bool has_devices(void)
{
	DIR *devices = opendir(DEVICES);
	struct dirent *entry;
	bool found = false;

	while (devices && !found && (entry = readdir(devices)))
		found = entry->d_name[0] != '.';
	if (devices)
		closedir(devices);
	return found;
}

/* Loads a backend that uses the kernel's RDMA devices. */
static const struct ripc__backend *load_rdma(const char *name, char why[256], char remedy[256])
{
	if (has_devices())
		return load(name, why, remedy);
	snprintf(why, 256, "there is no RDMA device (" DEVICES " is empty)");
	snprintf(remedy, 256, "if this host has a device, load its driver");
	return NULL;
}

#ifdef RIPC_VERBS
const struct ripc__backend ripc__verbs_backend = {.name = "verbs", .id = 4};
#endif

#ifdef RIPC_RDMACM
const struct ripc__backend ripc__rdmacm_backend = {.name = "rdmacm", .id = 5};
#endif

#ifdef RIPC_OFI
const struct ripc__backend ripc__ofi_backend = {.name = "ofi", .id = 6};
#endif

const struct ripc__backend *ripc__module_get(const struct ripc__backend *named,
		const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host; /* unused if ofi was left out */
	if (ripc__backend_is_refused(named, why, remedy))
		return NULL;
#ifdef RIPC_OFI
	if (named == &ripc__ofi_backend)
		return ripc__ofi_is_wanted(host, why, remedy) ? NULL : load("ofi", why, remedy);
#endif
	/* A backend that is built in can be probed. */
	return named->net.probe ? named : load_rdma(named->name, why, remedy);
}

#ifdef RIPC_STORE
static const struct ripc__source *load_store(const struct ripc__host *host, char why[256],
		char remedy[256])
{
	const struct ripc__module *module = load_any("store", why, remedy);

	(void)host;
	return module ? module->source : NULL;
}

const struct ripc__source ripc__store_source = {.name = "store", .exact = true, .load = load_store};
#endif

#ifdef RIPC_KEYS
const struct ripc__crypto *ripc__crypto_load(char why[256], char remedy[256])
{
	const struct ripc__module *module = load_any("keys", why, remedy);

	return module ? module->crypto : NULL;
}
#endif
