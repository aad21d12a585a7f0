/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the process lives that has mapped what it was given. The end of its sockets does not
 * tell: a child that it forked may keep them open for ever. So it locks its claims (a record lock
 * of fcntl(2)): the kernel takes that from it when it ends, however it ends, and its children do
 * not inherit it. The lock costs no privilege, and is seen from another PID namespace.
 *
 * Design notes. A process loses all its locks on a file with any descriptor of that file that it
 * closes. The page of the claims is made by the owner for one partner and handed over once: so
 * nobody else has another descriptor of it that he could make the partner close. A process does not
 * see its own locks: a context that shares a process with its partner lives as long as the partner.
 *
 * Nobody is woken when a lock goes. A timer looks, while something is held or somebody is silent.
 * Where only leases of ours are left, which may last as long as the process, it looks ever less.
 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "backends/shm/shm.h"
#include "util/system/pledge.h"

#define LOOK_MS   500
#define LEASES_MS 8000 /* between two looks at most, where only leases are left */

int ripc__shm_clock_open(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static void clock_set(struct shm_port *port, uint32_t ms)
{
	const struct itimerspec once = {.it_value = {.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000l}};

	port->clock_runs = timerfd_settime(port->clock.fd, 0, &once, NULL) == 0;
	port->clock_ms = ms;
}

void ripc__shm_clock_start(struct shm_port *port)
{
	if (!port->clock_runs || port->clock_ms > LOOK_MS)
		clock_set(port, LOOK_MS);
}

static bool is_dead(const struct shm_out *out)
{
	return out->exports && out->exports->n_handed && !out->is_self &&
		!ripc__is_pledged(out->exports->claims_fd);
}

void ripc__shm_clock_strike(struct shm_port *port)
{
	struct shm_out *out;
	uint64_t strikes;
	uint32_t at = 0;

	while (read(port->clock.fd, &strikes, sizeof(strikes)) < 0 && errno == EINTR)
		;
	port->clock_runs = false;
	port->look_leases = true;
	port->freed |= port->untrimmed;
	port->untrimmed = false;
	while ((out = ripc__map_next(&port->outs, &at))) {
		for (; out; out = out->next) {
			if (!is_dead(out))
				continue;
			ripc__shm_out_cut(port, out);
			/* Its child may still accept in its name. */
			shm_out_die(out, -ECONNRESET);
		}
	}
	if (!list_empty(&port->handed) || port->n_silent || port->n_offered)
		ripc__shm_clock_start(port);
	else if (port->n_leases)
		clock_set(port, port->clock_ms < LEASES_MS ? 2 * port->clock_ms : LEASES_MS);
}
