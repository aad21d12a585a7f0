/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connections and rings of a port that each process holds, and whether it may have one more.
 *
 * Design notes. The rule is that of core/partner/partner.c: a process may hold as many as are
 * still free, and a user that is not ours as many as are free besides, however many processes it
 * has. The next process therefore finds something left. A process of our own user could do us
 * worse harm than this. The kernel says which process connected; for a process in another PID
 * namespace it does not, and there all processes of a user count as one. Connections are
 * descriptors, and other processes open them: the application must keep some. The kernel gives
 * out the lowest free descriptor, whose number therefore says how many are in use.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/options.h"
#include "util/system/users.h"
#include "util/text.h"

#define INS_MAX    4096u
#define FILES_PART 3u /* of all possible descriptors, connections are at most this part, */
#define FILES_KEPT 8u /* and none is in this last part */
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

/* ---- holders ----------------------------------------------------------------------------- */

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

/* ---- admission --------------------------------------------------------------------------- */

/*
 * The processes that a port shares memory with: those of its own user, and those that the
 * options shm.uids and shm.gids admit.
 *
 * Design notes. Only the kernel's report about the socket's other end counts: its user and its
 * groups when it called connect() or listen(). A process that has left a group since is still
 * admitted by the socket that it made before. A group that has no number in our user namespace
 * is reported as the overflow gid: that number admits no process there. An admitted process gets
 * the same as one of shm.uids: rings, never our memory (export.c).
 */

#define WORD_MAX    64 /* bytes of a name or number, with the end */
#define GROUPS_SOME 32 /* more groups than most processes have */

const struct ripc__option ripc__shm_options[] = {
	{"shm.gids", RIPC_WORD, 0, 0, offsetof(struct shm_words, gids)},
	{"shm.uids", RIPC_WORD, 0, 0, offsetof(struct shm_words, uids)},
	{0},
};

/* ---- the options ------------------------------------------------------------------------- */

/* A word of digits is a number, any other a name of the file. */
static int word_read(const char *word, const char *accounts, uint32_t *number)
{
	if (*word >= '0' && *word <= '9')
		return ripc__parse_number(word, UINT32_MAX - 1, number);
	return ripc__account_find(accounts, word, number);
}

/* Words with ":" between them. text NULL: none. */
static int list_read(const char *text, const char *accounts, struct shm_list *list)
{
	while (text) {
		size_t len = strcspn(text, ":");
		char word[WORD_MAX];

		if (len >= sizeof(word) || list->n == SHM_LISTED_MAX)
			return -EINVAL;
		memcpy(word, text, len);
		word[len] = '\0';
		if (word_read(word, accounts, &list->ids[list->n++]))
			return -EINVAL;
		text = text[len] ? text + len + 1 : NULL;
	}
	return 0;
}

int ripc__shm_admission_read(const struct ripc__host *host, struct shm_admission *admission)
{
	struct shm_words words = {0};
	int error = ripc__options_read(host, ripc__shm_options, &words);

	*admission = (struct shm_admission){0};
	if (error)
		return error;
	admission->all = words.uids && strcmp(words.uids, "any") == 0;
	if (!admission->all && list_read(words.uids, RIPC_USERS, &admission->uids)) {
		host->log(host->arg, RIPC_LOG_ERROR,
			"option shm.uids: \"%.40s\" is neither \"any\" nor a list of up to %u "
			"users, separated by \":\", each a number or a name in " RIPC_USERS,
			words.uids, SHM_LISTED_MAX);
		return -EINVAL;
	}
	if (list_read(words.gids, RIPC_GROUPS, &admission->gids)) {
		host->log(host->arg, RIPC_LOG_ERROR, "option shm.gids: \"%.40s\" is not a list of "
			"up to %u groups, separated by \":\", each a number or a name "
			"in " RIPC_GROUPS,
			words.gids, SHM_LISTED_MAX);
		return -EINVAL;
	}
	return 0;
}

/* ---- the other end ----------------------------------------------------------------------- */

static bool is_listed(const struct shm_list *list, uint32_t id)
{
	for (uint32_t i = 0; i < list->n; i++) {
		if (list->ids[i] == id)
			return true;
	}
	return false;
}

static bool is_group_listed(const struct shm_list *list, gid_t gid)
{
	return is_listed(list, gid) && ripc__gid_is_group(gid);
}

/* Supplementary groups. A kernel that cannot report them (before 4.13) reports none. */
static bool is_member(const struct shm_list *list, int fd)
{
	gid_t some[GROUPS_SOME], *more = NULL, *groups = some;
	socklen_t len = sizeof(some);
	bool member = false;
	int error = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, some, &len);

	if (error && errno == ERANGE) {
		groups = more = malloc(len);
		error = more ? getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, more, &len) : -1;
	}
	for (size_t i = 0; !error && !member && i < len / sizeof(*groups); i++)
		member = is_group_listed(list, groups[i]);
	free(more);
	return member;
}

bool ripc__shm_admits(const struct shm_admission *admission, int fd, const struct ucred *who)
{
	if (who->uid == geteuid() || admission->all || is_listed(&admission->uids, who->uid))
		return true;
	if (!admission->gids.n)
		return false;
	return is_group_listed(&admission->gids, who->gid) || is_member(&admission->gids, fd);
}
