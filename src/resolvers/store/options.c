/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the store source. */
#include "resolvers/internal.h"

#include <stddef.h>

const struct ripc__option ripc__store_options[] = {
	{"store.auth", RIPC_WORD, 0, 0, offsetof(struct store_wish, auth)},
	{"store.cluster", RIPC_WORD, 0, 0, offsetof(struct store_wish, cluster)},
	{"store.servers", RIPC_WORD, 0, 0, offsetof(struct store_wish, servers)},
	{"store.session_ms", RIPC_NUMBER, 500, 600000, offsetof(struct store_wish, session_ms)},
	{0},
};
