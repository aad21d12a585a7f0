/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of the ofi backend. */
#include "backends/options.h"

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
