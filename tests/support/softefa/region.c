/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions in shared memory by the name of a device's GID. libfabric's EFA provider makes one for
 * its transfers within a host, 16 MiB in /dev/shm, and does so even where these are switched off;
 * a process that is killed leaves it there. While they are off nobody opens it by its name, so it
 * gets no name.
 */
#include "softefa.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool is_of_device(const char *name)
{
	char text[INET6_ADDRSTRLEN];
	uint8_t gid[SOFTEFA_GID_LEN];

	name += name[0] == '/';
	for (uint32_t i = 0; i < softefa_settings()->n_devices; i++) {
		softefa_gid(i, gid);
		inet_ntop(AF_INET6, gid, text, sizeof(text));
		if (strncmp(name, text, strlen(text)) == 0 && name[strlen(text)] == '_')
			return true;
	}
	return false;
}

static bool is_switched_off(void)
{
	const char *wanted = getenv("FI_EFA_ENABLE_SHM_TRANSFER");

	return wanted && strcmp(wanted, "0") == 0;
}

__attribute__((visibility("default"))) int shm_open(const char *name, int flags, mode_t mode)
{
	int (*next)(const char *, int, mode_t);
	void *found;

	if (flags & O_CREAT && is_switched_off() && is_of_device(name))
		return memfd_create(name, MFD_CLOEXEC);
	found = dlsym(RTLD_NEXT, "shm_open");
	if (!found) {
		errno = ENOSYS;
		return -1;
	}
	memcpy(&next, &found, sizeof(next));
	return next(name, flags, mode);
}
