/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the verbs backend. */
#include "backends/options.h"

const struct ripc__option ripc__verbs_options[] = {
	{"verbs.connections", RIPC_NUMBER, 2, 4096, offsetof(struct verbs_options, connections)},
	{"verbs.device", RIPC_WORD, 0, 0, offsetof(struct verbs_options, device)},
	{"verbs.gid_index", RIPC_NUMBER, 0, 255, offsetof(struct verbs_options, gid_index)},
	{"verbs.receives", RIPC_NUMBER, 64, 16384, offsetof(struct verbs_options, receives)},
	{"verbs.trusted", RIPC_SWITCH, 0, 0, offsetof(struct verbs_options, trusted)},
	{0},
};
