/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as an address blob of the ofi backend, and as the header of a received datagram, on an
 * endpoint of any format. Accepted input encodes to the same bytes.
 */
#include <string.h>

#include "backends/ofi/internal.h"
#include "fuzz.h"
#include "util/bytes.h"

static void decode_address(const uint8_t *data, size_t len, const struct ofi_name *self)
{
	uint8_t again[RIPC_ADDR_MAX];
	struct ofi_name name;
	struct ripc__addr addr;
	char text[64];

	if (ripc__ofi_name_decode(data, len, self, &name))
		return;
	CLAIM(ripc__ofi_name_encode(&name, again) == (int)len && memcmp(again, data, len) == 0);
	ripc__ofi_addr_fill(&name, self, &addr);
	CLAIM(addr.len == len);
	ripc__ofi_addr_text(&addr, text);
	CLAIM(memchr(text, '\0', sizeof(text)) && strcmp(text, "?") != 0);
	(void)ripc__ofi_addr_same_place(&addr, &addr);
}

static void decode_head(const uint8_t *data, size_t len, const struct ofi_name *self)
{
	uint8_t again[OFI_HEAD_MAX];
	struct ofi_name name;
	int head = ripc__ofi_head_decode(data, len, self, &name);

	if (head < 0)
		return;
	CLAIM((size_t)head <= len && head <= (int)OFI_HEAD_MAX);
	CLAIM(name.protocol == self->protocol && name.format == self->format);
	CLAIM(ripc__ofi_head_encode(&name, again) == (uint32_t)head);
	CLAIM(memcmp(again, data, (size_t)head) == 0);
}

/* Ours is of the format and protocol that the bytes claim, as all others are refused at once. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct ofi_name self = {.format = OFI_FORMAT_EFA, .protocol = FI_PROTO_EFA};

	decode_address(data, len, &self);
	decode_head(data, len, &self);
	if (len < OFI_ADDR_HEAD)
		return 0;
	self.format = data[1];
	self.protocol = get32(data + 4);
	for (int unchecked = 0; unchecked < 2; unchecked++) {
		self.unchecked = unchecked;
		decode_address(data, len, &self);
		decode_head(data, len, &self);
	}
	return 0;
}
