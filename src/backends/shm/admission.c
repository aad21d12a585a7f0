/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which processes a port shares memory with: those of its own user, and those that the options
 * shm.uids and shm.gids admit.
 *
 * Design notes. Nothing counts but what the kernel says of the socket's other end: its user and its
 * groups when it called connect() or listen(). A process that has left a group since is still
 * admitted by the socket that it made before. A group that has no number in our user namespace is
 * reported as the overflow gid, so that number admits nobody there. An admitted process gets what
 * one of shm.uids gets: rings, never our memory (reads/export.c).
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ripc/ripc.h"
#include "shm.h"
#include "util/options.h"
#include "util/parse.h"
#include "util/system/accounts.h"
#include "util/system/uid.h"

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

/* ---- who is at the other end ------------------------------------------------------------- */

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
