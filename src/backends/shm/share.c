/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each process holds of a port's connections and rings, and whether it may have one more.
 *
 * Design notes. The rule is that of core/partner/share.c: a process may hold as many as nobody
 * holds, and a user that is not ours as many as nobody holds besides, however many processes it
 * has; so whoever comes next finds something left. A process of our own user could do us worse harm
 * than this. The kernel says which process connected; of one in another PID namespace it does not,
 * and there all of a user count as one process. Connections are descriptors, and who opens them is
 * not us: the application must keep some. The kernel gives out the lowest that is free, so its
 * number says how many are in use.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shm.h"

#define INS_MAX    4096u
#define FILES_PART 3u /* of the descriptors that there may be, connections are at most this part, */
#define FILES_KEPT 8u /* and none is of this last part */
#define IS_USER    (1ull << 63)
#define KEPT_MAX   256u /* descriptors that make copies needless, */
#define KEPT_PART  2u   /* and none but of this first part */

/* How many descriptors this process may have. */
static uint64_t files_max(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) ? UINT64_MAX : limit.rlim_cur;
}

static uint64_t shares_max(const struct shm_port *port, enum shm_share share)
{
	uint64_t most = files_max() / FILES_PART, rings;

	if (share == SHM_SHARE_INS)
		return most < INS_MAX ? most : INS_MAX;
	rings = port->dev.ring_bytes_max / SHM_RING_LEN;
	return rings < SHM_RINGS_MAX ? rings : SHM_RINGS_MAX;
}

bool ripc__shm_share_left(const struct shm_port *port, const struct shm_in *in,
		enum shm_share share)
{
	uint64_t held = share == SHM_SHARE_INS ? port->n_ins :
		port->dev.ring_bytes / SHM_RING_LEN;

	held += in->process->held[share] + (in->user ? in->user->held[share] : 0);
	return held < shares_max(port, share);
}

void ripc__shm_share_take(struct shm_in *in, enum shm_share share, int amount)
{
	in->process->held[share] += (uint32_t)amount;
	if (in->user)
		in->user->held[share] += (uint32_t)amount;
}

bool ripc__shm_may_keep(const struct shm_port *port, int fd)
{
	return port->n_kept < KEPT_MAX && (uint64_t)fd < files_max() / KEPT_PART;
}

/* ---- who they are ------------------------------------------------------------------------ */

static int holder_find(struct shm_port *port, uint64_t key, struct shm_holder **holder)
{
	struct shm_holder *found = ripc__map_get(&port->holders, key);

	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return -ENOMEM;
		found->key = key;
		if (ripc__map_put(&port->holders, key, found)) {
			free(found);
			return -ENOMEM;
		}
	}
	*holder = found;
	return 0;
}

/* A process that holds nothing is forgotten. */
static void holder_drop(struct shm_port *port, struct shm_holder *holder)
{
	if (!holder || holder->held[SHM_SHARE_INS])
		return;
	ripc__map_remove(&port->holders, holder->key);
	free(holder);
}

int ripc__shm_share_enter(struct shm_port *port, struct shm_in *in, const struct ucred *who)
{
	uint64_t user = IS_USER | who->uid, files = files_max();
	int error;

	if ((uint64_t)in->watch.fd >= files - files / FILES_KEPT)
		return -EMFILE;
	error = holder_find(port, who->pid ? (uint32_t)who->pid : user, &in->process);
	if (!error && who->pid && who->uid != geteuid())
		error = holder_find(port, user, &in->user);
	if (!error && !ripc__shm_share_left(port, in, SHM_SHARE_INS))
		error = -EUSERS;
	if (!error) {
		ripc__shm_share_take(in, SHM_SHARE_INS, 1);
		port->n_ins++;
		return 0;
	}
	holder_drop(port, in->process);
	holder_drop(port, in->user);
	return error;
}

void ripc__shm_share_leave(struct shm_port *port, struct shm_in *in)
{
	port->n_ins--;
	ripc__shm_share_take(in, SHM_SHARE_INS, -1);
	holder_drop(port, in->process);
	holder_drop(port, in->user);
}
