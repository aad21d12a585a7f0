/* SPDX-License-Identifier: BSD-3-Clause */
/* The shm backend: its table and its device. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ripc/ripc.h"
#include "util/buffers.h"
#include "util/system/remedy.h"

#define RINGS_PART 16u /* rings take at most this part of all memory */

static int read_options(const struct ripc__host *host, struct shm_device *dev)
{
	*dev = (struct shm_device){.host = *host};
	return ripc__shm_admission_read(host, &dev->admission);
}

/* The words for the sentence of probe(). */
static const char *admitted_text(const struct shm_admission *admission)
{
	if (admission->all)
		return "all users that admit this user";
	if (admission->uids.n || admission->gids.n)
		return "this user, and of users in shm.uids and shm.gids that admit this user";
	return "this user (others: option shm.uids or shm.gids, on both sides)";
}

/*
 * Tries those features of the kernel that a port needs and that work without a name. *lack: the
 * missing one.
 */
static int try_kernel(const char **lack)
{
	void *page;
	int fd, error = ripc__shm_segment_make(SHM_BOARD_LEN, true, &page, &fd);

	*lack = "memory that is sealed and shared (memfd_create)";
	if (error)
		return error;
	ripc__shm_segment_unmap(page, SHM_BOARD_LEN);
	close(fd);
	*lack = "Unix socket (AF_UNIX)";
	fd = ripc__shm_listen(NULL);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	struct shm_device dev;
	int error = read_options(host, &dev);
	const char *lack;

	remedy[0] = '\0';
	if (error) {
		snprintf(why, 256, "an option of the shm backend is wrong");
		snprintf(remedy, 256, "correct shm.uids or shm.gids");
		return error;
	}
	error = try_kernel(&lack);
	if (error) {
		snprintf(why, 256, "no %s: %s", lack, strerror(-error));
		ripc__remedy(error, "allow memfd_create and AF_UNIX in this sandbox (seccomp, "
			"container), and use Linux 5.1 or later", remedy);
		return error;
	}
	if (!host->identity) {
		snprintf(why, 256, "the processes of this host cannot be identified");
		snprintf(remedy, 256, "mount /proc");
		return -ENODEV;
	}
	snprintf(why, 256, "shared memory with processes of %s in this network namespace",
		admitted_text(&dev.admission));
	return 0;
}

/* The reason why the host's identity is not known: perhaps there is no free descriptor. */
static int why_unknown(void)
{
	const char *lack;
	int error = try_kernel(&lack);

	return error ? error : -ENODEV;
}

static int open_port(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct shm_port *port = state;
	int error = host->identity ? read_options(host, &port->dev) : why_unknown();

	if (error)
		return error;
	ripc__map_init(&port->dev.keys, host->context);
	port->dev.ring_bytes_max = host->memory ? host->memory / RINGS_PART : UINT64_MAX;
	error = ripc__shm_port_open(port);
	if (error)
		return error;
	*attr = (struct ripc__attr){
		.caps = RIPC_CAP_RELIABLE | RIPC_CAP_INTACT | RIPC_CAP_READ | RIPC_CAP_MAP |
			RIPC_CAP_LAZY,
		.fd = port->epoll_fd,
		/* The contents of the area, however it wraps, beside what arrives unasked. */
		.peer_buffer = 3 * SHM_AREA / 4,
	};
	return 0;
}

static void close_port(void *state)
{
	struct shm_port *port = state;

	ripc__shm_port_close(port);
	ripc__shm_keys_free(port);
}

const struct ripc__backend ripc__shm_backend = {
	.name = "shm",
	.id = 2,
	.port_size = sizeof(struct shm_port),
	.route_size = sizeof(struct shm_peer),
	.is_sealable = true,
	.net = {
		.probe = probe,
		.open = open_port,
		.close = close_port,
		.address = ripc__shm_port_addr,
		.arm = ripc__shm_wait_arm,
		.wait = ripc__shm_wait,
		.wake = ripc__shm_wake,
	},
	.route = {
		.choose = ripc__shm_addr_choose,
		.text = ripc__shm_addr_text,
		.open = ripc__shm_peer_open,
		.close = ripc__shm_peer_close,
		.where = ripc__shm_where,
		.mtu = ripc__shm_peer_mtu,
		.matches = ripc__shm_peer_matches,
	},
	.datagrams = {
		.send = ripc__shm_send,
		.poll = ripc__shm_poll,
		.release = ripc__buffer_release,
	},
	.mem = {
		.open = ripc__shm_mem_open,
		.close = ripc__shm_mem_close,
	},
	.remote = {
		.move = ripc__shm_read,
		.map = ripc__shm_map,
		.unmap = ripc__shm_unmap,
	},
};
