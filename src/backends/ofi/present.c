/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the ofi backend is wanted on this host: there is a device of the kernel's efa driver, or
 * the configuration names a provider. The answer needs no libfabric.
 */
#include "backends/options.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "class/infiniband"

/* The same path that libibverbs uses. */
static const char *sysfs(void)
{
	const char *path = secure_getenv("SYSFS_PATH");

	return path && path[0] ? path : "/sys";
}

/* The driver is the last part of what a link of the device leads to. */
static bool is_efa(const char *device)
{
	char path[PATH_MAX], driver[PATH_MAX];
	const char *slash;
	ssize_t len;

	if (snprintf(path, sizeof(path), "%s/" DEVICES "/%s/device/driver", sysfs(), device) >=
			(int)sizeof(path))
		return false;
	len = readlink(path, driver, sizeof(driver) - 1);
	if (len < 0)
		return false;
	driver[len] = '\0';
	slash = strrchr(driver, '/');
	return strcmp(slash ? slash + 1 : driver, "efa") == 0;
}

static bool has_efa(void)
{
	char path[PATH_MAX];
	DIR *devices = snprintf(path, sizeof(path), "%s/" DEVICES, sysfs()) < (int)sizeof(path) ?
		opendir(path) : NULL;
	struct dirent *entry;
	bool found = false;

	while (devices && !found && (entry = readdir(devices)))
		found = entry->d_name[0] != '.' && is_efa(entry->d_name);
	if (devices)
		closedir(devices);
	return found;
}

int ripc__ofi_is_wanted(const struct ripc__host *host, char why[256], char remedy[256])
{
	if (host->option(host->arg, "ofi.provider") || has_efa())
		return 0;
	snprintf(why, 256, "there is no EFA device, and no other libfabric provider is configured");
	snprintf(remedy, 256, "on AWS, use an instance with an EFA interface and the efa driver; "
		"elsewhere, name a provider: RIPC_OPTIONS='ofi.provider=tcp;ofi_rxm' (fi_info -l "
		"lists them)");
	return -ENODEV;
}
