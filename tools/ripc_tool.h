/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subcommands of the ripc command, one per file. Each gets its own argc and argv, argv[0]
 * being its name, and returns the exit status.
 */
#ifndef TOOLS_RIPC_TOOL_H
#define TOOLS_RIPC_TOOL_H

#include <ripc/ripc.h>
#include <stdbool.h>
#include <sys/types.h>
#include "common.h"

#define PROGRAM "ripc"

int ripc_doctor_main(int argc, char **argv);
int ripc_ls_main(int argc, char **argv);
int ripc_ping_main(int argc, char **argv);
int ripc_id_main(int argc, char **argv);
int ripc_key_main(int argc, char **argv);
int ripc_metrics_main(int argc, char **argv);
int ripc_top_main(int argc, char **argv);

/* Groups have IDs of a kind of their own (ripc/group.h). */
static inline bool tool_is_group(uint64_t id)
{
	return id >> 56 == 0xff;
}

/* Has another user of this host that service? 1: yes, *user. */
int tool_foreign_user(uint64_t id, unsigned int *user);
/*
 * Has a process in another network namespace of this host that service? 1: yes, *pid. Only
 * processes that may be looked at are seen: of our user, or all for root.
 */
int tool_foreign_namespace(uint64_t id, pid_t *pid);

/* Says why no context could be opened. Returns TOOL_FAILED. */
int tool_cannot_start(int err);

/*
 * Calls found for each local name of our user's services that another user's process has bound;
 * name is valid during the call. A kernel that does not tell users (before Linux 5.3) tells none.
 */
void tool_names_of_others(
	void (*found)(void *arg, const char *name, unsigned int uid), void *arg);

/* Says on stderr what is wrong and how the subcommand is used. Returns TOOL_USAGE. */
int usage_error(const char *usage, const char *what);

#endif
