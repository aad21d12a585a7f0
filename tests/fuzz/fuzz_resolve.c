/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any datagram through wire_resolve_decode(), as it is and with its checksum made right, which no
 * fuzzer would find. Accepted input encodes to the same bytes.
 */
#include <string.h>

#include "core/wire/record.h"
#include "fuzz.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

static void decode(const uint8_t *data, size_t len)
{
	uint8_t again[WIRE_RECORD_MAX];
	struct wire_resolve r;

	if (wire_resolve_decode(data, len, &r))
		return;
	CLAIM(r.record.n_addrs <= 8);
	for (uint32_t i = 0; i < r.record.n_addrs; i++)
		CLAIM(r.record.addrs[i].len <= sizeof(r.record.addrs[i].blob));
	CLAIM(wire_resolve_encode(again, &r) == len);
	CLAIM(memcmp(again, data, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *sealed;

	decode(data, len);
	if (len < 8)
		return 0;
	sealed = malloc(len);
	CLAIM(sealed);
	memcpy(sealed, data, len);
	put32(sealed + 4, 0);
	put32(sealed + 4, ripc__crc32c(0, sealed, len));
	decode(sealed, len);
	free(sealed);
	return 0;
}
