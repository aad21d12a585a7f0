/* SPDX-License-Identifier: BSD-3-Clause */
/* The payloads of handshakes; see datagram.h. */
#include "datagram.h"

#include <errno.h>

#include "core/net/crypto.h"

/* 0 u64 stamp   8 u8 fast AES   9 u8 n_capabilities   10 zero, 6 bytes */
void ripc__init_payload_encode(const struct init_payload *payload, uint8_t bytes[INIT_PAYLOAD])
{
	memset(bytes, 0, INIT_PAYLOAD);
	put64(bytes, payload->stamp);
	bytes[8] = payload->has_fast_aes;
	bytes[9] = (uint8_t)payload->n_capabilities;
}

int ripc__init_payload_decode(const uint8_t *bytes, size_t len, struct init_payload *payload)
{
	if (len < INIT_PAYLOAD || bytes[8] > 1 || bytes[9] > CAPABILITIES_MAX ||
			get16(bytes + 10) || get32(bytes + 12) ||
			len != INIT_PAYLOAD + bytes[9] * CAPABILITY_LEN)
		return -EBADMSG;
	payload->stamp = get64(bytes);
	payload->has_fast_aes = bytes[8];
	payload->n_capabilities = bytes[9];
	return 0;
}

/* 0 u32 index   4 u8 cipher   5 u8 refused   6 u8 n_capabilities   7 u8 zero   8 u64 context
 * 16 zero, 8 bytes */
void ripc__reply_payload_encode(const struct reply_payload *payload, uint8_t bytes[REPLY_PAYLOAD])
{
	memset(bytes, 0, REPLY_PAYLOAD);
	put32(bytes, payload->index);
	bytes[4] = payload->cipher;
	bytes[5] = payload->is_refused;
	bytes[6] = (uint8_t)payload->n_capabilities;
	put64(bytes + 8, payload->context);
}

int ripc__reply_payload_decode(const uint8_t *bytes, size_t len, struct reply_payload *payload)
{
	if (len < REPLY_PAYLOAD || bytes[4] < RIPC_CHACHA20_POLY1305 ||
			bytes[4] > RIPC_AES_128_GCM || bytes[5] > 1 ||
			bytes[6] > CAPABILITIES_MAX || bytes[7] || get64(bytes + 16) ||
			len != REPLY_PAYLOAD + bytes[6] * CAPABILITY_LEN)
		return -EBADMSG;
	payload->index = get32(bytes);
	payload->cipher = bytes[4];
	payload->is_refused = bytes[5];
	payload->n_capabilities = bytes[6];
	payload->context = get64(bytes + 8);
	return 0;
}
