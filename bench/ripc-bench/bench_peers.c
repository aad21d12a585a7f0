/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of ripc-bench. Peers that need a foreign library are in modules, ripc-bench-NAME.so. A
 * module is loaded when one of its peers is requested. The modules lie beside the backends'
 * modules, in libripc/ beside the library, or beside this program where it was built.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include "bench.h"

static const struct bench_peer *const own[] = {&bench_ripc, &bench_ripc_return, &bench_ripc_window,
	&bench_ripc_give, &bench_ripc_again, &bench_ripc_absent, &bench_tcp, &bench_udp,
	&bench_unix, &bench_shm, &bench_memcpy};

static const struct foreign {
	const char *name, *about;
	const char *module;  /* NAME of its file */
	const char *package; /* of Debian: what the module is built with */
} foreign[] = {
	{"zmq", "ZeroMQ over TCP", "zmq", "libzmq3-dev"},
	{"zmq-ipc", "ZeroMQ over Unix stream sockets", "zmq", "libzmq3-dev"},
	{"nng", "nng over TCP", "nng", "libnng-dev"},
	{"nng-ipc", "nng over Unix stream sockets", "nng", "libnng-dev"},
	{"ucx", "UCX (UCP), over the transports that it chooses", "ucx", "libucx-dev"},
	{"ucx-tcp", "UCX (UCP) over TCP", "ucx", "libucx-dev"},
	{"ucx-one", "UCX, all --untouched messages in one place (bandwidth only)", "ucx",
		"libucx-dev"},
	{"fi-tcp", "libfabric over TCP, tcp;ofi_rxm", "libfabric", "libfabric-dev"},
	{"fi-shm", "libfabric over shared memory, shm, which never sleeps", "libfabric",
		"libfabric-dev"},
};

#define N_OWN	  (sizeof(own) / sizeof(own[0]))
#define N_FOREIGN (sizeof(foreign) / sizeof(foreign[0]))

/* ---- where modules are ---- */

static int is_module(char path[PATH_MAX], int dir_len, const char *dir, const char *name)
{
	return snprintf(path, PATH_MAX, "%.*sripc-bench-%s.so", dir_len, dir, name) < PATH_MAX &&
	       access(path, F_OK) == 0;
}

/* How much of a path names its directory, with the slash; 0: none. */
static int dir_len_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path) + 1 : 0;
}

static int find_module(const char *name, char path[PATH_MAX])
{
	void *of_library = dlsym(RTLD_DEFAULT, "ripc_open");
	char dir[PATH_MAX];
	ssize_t len;
	Dl_info info;
	int dir_len;

	if (of_library && dladdr(of_library, &info) && info.dli_fname) {
		dir_len = snprintf(dir, sizeof(dir), "%.*slibripc/", dir_len_of(info.dli_fname),
			info.dli_fname);
		if (dir_len < PATH_MAX && is_module(path, dir_len, dir, name))
			return 1;
	}
	len = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	if (len < 0)
		return 0;
	dir[len] = '\0';
	return is_module(path, dir_len_of(dir), dir, name);
}

/* ---- peers by name ---- */

/* The module stays loaded. NULL: it cannot be loaded, and stderr says why. */
static const struct bench_module *load(const struct foreign *wanted)
{
	const struct bench_module *module;
	char path[PATH_MAX];
	void *handle;

	if (!find_module(wanted->module, path)) {
		fprintf(stderr,
			"%s: %s: its module, ripc-bench-%s.so, is not here: install %s, then set "
			"up, build and install libripc again\n",
			PROGRAM, wanted->name, wanted->module, wanted->package);
		return NULL;
	}
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "%s: %s: %s: install that library (%s has it)\n", PROGRAM,
			wanted->name, dlerror(), wanted->package);
		return NULL;
	}
	module = dlsym(handle, "ripc__bench_module");
	if (module && strcmp(module->version, RIPC_BENCH_VERSION) == 0)
		return module;
	fprintf(stderr, "%s: %s: %s is of another version: install the module of version %s\n",
		PROGRAM, wanted->name, path, RIPC_BENCH_VERSION);
	return NULL;
}

static const struct bench_peer *find_in(
	const struct bench_peer *const *peers, unsigned int n, const char *name)
{
	unsigned int i;

	for (i = 0; i < n && peers[i]; i++)
		if (strcmp(peers[i]->name, name) == 0)
			return peers[i];
	return NULL;
}

int bench_find_peer(const char *name, const struct bench_peer **peer)
{
	const struct bench_module *module;
	unsigned int i = 0;

	*peer = find_in(own, N_OWN, name);
	if (*peer)
		return 0;
	while (i < N_FOREIGN && strcmp(foreign[i].name, name) != 0)
		i++;
	if (i == N_FOREIGN)
		return -EINVAL;
	module = load(&foreign[i]);
	*peer = module ? find_in(module->peers, BENCH_MODULE_PEERS, name) : NULL;
	return *peer ? 0 : -ENOPKG;
}

void bench_print_peers(FILE *stream)
{
	unsigned int n_missing = 0, i;
	char path[PATH_MAX];

	for (i = 0; i < N_FOREIGN; i++)
		if (!find_module(foreign[i].module, path))
			fprintf(stream, "%sNot here: %s, which is built with %s\n",
				n_missing++ ? "" : "\n", foreign[i].name, foreign[i].package);
	fputs("\nPeers:\n", stream);
	for (i = 1; i < N_OWN; i++)
		fprintf(stream, "  %-18s %s\n", own[i]->name, own[i]->about);
	for (i = 0; i < N_FOREIGN; i++)
		if (find_module(foreign[i].module, path))
			fprintf(stream, "  %-18s %s\n", foreign[i].name, foreign[i].about);
}
