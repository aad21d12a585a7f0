/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as an address blob, as private data and as a message's preamble of the rdmacm backend:
 * as they are, and with a right checksum. Accepted input encodes to the same bytes.
 */
#include <string.h>

#include "backends/rdmacm/internal.h"
#include "fuzz.h"
#include "util/bytes.h"
#include "util/hash/blocksum.h"
#include "util/hash/crc32c.h"

static void decode_address(const uint8_t *data, size_t len)
{
	uint8_t again[RDMACM_ADDR_LEN];
	struct sockaddr_storage name;
	struct rdmacm_addr own, back;
	struct ripc__addr addr;
	char text[64];

	if (ripc__rdmacm_addr_decode(data, len, &own))
		return;
	ripc__rdmacm_addr_encode(&own, again);
	CLAIM(len == sizeof(again) && memcmp(again, data, len) == 0);
	ripc__rdmacm_addr_fill(&own, &addr);
	ripc__rdmacm_addr_text(&addr, text);
	CLAIM(memchr(text, '\0', sizeof(text)) && strcmp(text, "?") != 0);
	ripc__rdmacm_to_socket(&own, &name);
	CLAIM(ripc__rdmacm_from_socket((struct sockaddr *)&name, &back) == 0);
	back.by_udp = own.by_udp; /* no part of a socket's address */
	CLAIM(ripc__rdmacm_addr_is(&own, &back));
	CLAIM(!ripc__rdmacm_addr_before(&own, &back));
}

static void decode_hello(const uint8_t *data, size_t len)
{
	uint8_t again[RDMACM_HELLO_LEN];
	struct rdmacm_hello hello;

	if (ripc__rdmacm_hello_decode(data, len, &hello))
		return;
	ripc__rdmacm_hello_encode(&hello, again);
	CLAIM(len >= sizeof(again) && memcmp(again, data, sizeof(again)) == 0);
	CLAIM(hello.type == RDMACM_REFUSE || (hello.nonce && hello.window > RDMACM_RESERVE));
}

static void decode_preamble(const uint8_t *data, size_t len)
{
	uint8_t again[RDMACM_BUFFER];
	struct rdmacm_preamble preamble;

	if (len > sizeof(again) || ripc__rdmacm_preamble_decode(data, len, &preamble))
		return;
	CLAIM(len >= RDMACM_PREAMBLE);
	memset(again, 0xee, RDMACM_PREAMBLE);
	memcpy(again + RDMACM_PREAMBLE, data + RDMACM_PREAMBLE, len - RDMACM_PREAMBLE);
	ripc__rdmacm_preamble_encode(&preamble, again, len);
	CLAIM(memcmp(again, data, len) == 0);
	CLAIM(preamble.type == RDMACM_DATAGRAM || len == RDMACM_PREAMBLE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t bytes[128];

	decode_address(data, len);
	decode_hello(data, len);
	decode_preamble(data, len);
	len = len < sizeof(bytes) ? len : sizeof(bytes);
	memcpy(bytes, data, len);
	if (len >= RDMACM_HELLO_LEN)
		put32(bytes + 52, ripc__crc32c(0, bytes, 52));
	decode_hello(bytes, len);
	if (len >= RDMACM_PREAMBLE)
		put32(bytes, ripc__blocksum_told(ripc__blocksum(bytes + 4, len - 4, len)));
	decode_preamble(bytes, len);
	return 0;
}
