/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the rdmacm backend. */
#include "backends/options.h"

const struct ripc__option ripc__rdmacm_options[] = {
	{"rdmacm.any", RIPC_SWITCH, 0, 0, offsetof(struct rdmacm_options, any)},
	{"rdmacm.connections", RIPC_NUMBER, 2, 4096, offsetof(struct rdmacm_options, connections)},
	{"rdmacm.device", RIPC_WORD, 0, 0, offsetof(struct rdmacm_options, device)},
	{"rdmacm.port", RIPC_NUMBER, 0, 65535, offsetof(struct rdmacm_options, port)},
	{"rdmacm.receives", RIPC_NUMBER, 256, 16384, offsetof(struct rdmacm_options, receives)},
	{"rdmacm.trusted", RIPC_SWITCH, 0, 0, offsetof(struct rdmacm_options, trusted)},
	{"rdmacm.udp", RIPC_SWITCH, 0, 0, offsetof(struct rdmacm_options, udp)},
	{0},
};
