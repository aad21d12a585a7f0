/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of backends that need a foreign library: verbs, rdmacm and ofi. */
#include "options.h"

const struct ripc__option ripc__verbs_options[] = {
	{"verbs.connections", RIPC_NUMBER, 2, 4096, offsetof(struct verbs_options, connections)},
	{"verbs.device", RIPC_WORD, 0, 0, offsetof(struct verbs_options, device)},
	{"verbs.gid_index", RIPC_NUMBER, 0, 255, offsetof(struct verbs_options, gid_index)},
	{"verbs.receives", RIPC_NUMBER, 64, 16384, offsetof(struct verbs_options, receives)},
	{"verbs.trusted", RIPC_SWITCH, 0, 0, offsetof(struct verbs_options, trusted)},
	{0},
};

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

const struct ripc__option ripc__ofi_options[] = {
	{"ofi.checksum", RIPC_SWITCH, 0, 0, offsetof(struct ofi_wish, checksum)},
	{"ofi.datagram", RIPC_NUMBER, 1536, 65536, offsetof(struct ofi_wish, datagram)},
	{"ofi.domain", RIPC_WORD, 0, 0, offsetof(struct ofi_wish, domain)},
	{"ofi.provider", RIPC_WORD, 0, 0, offsetof(struct ofi_wish, provider)},
	{"ofi.reads", RIPC_THIRD, 0, 0, offsetof(struct ofi_wish, reads)},
	{"ofi.receives", RIPC_NUMBER, 64, 8192, offsetof(struct ofi_wish, receives)},
	{"ofi.trusted", RIPC_SWITCH, 0, 0, offsetof(struct ofi_wish, trusted)},
	{0},
};
