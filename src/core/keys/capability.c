/* SPDX-License-Identifier: BSD-3-Clause */
/* See capability.h. The layout (docs/protocol.md has it as a table):
 *
 *    0 u8 version 1   1 u8 what   2 u16 zero   4 u32 zero   8 u64 id   16 u64 until_s
 *   24 holder's X25519 key, 32 bytes   56 signature, 64 bytes
 *
 * The signature is Ed25519 of the 17 bytes "ripc capability 1" and the 56 bytes before it. */
#include "capability.h"

#include <errno.h>
#include <string.h>

#include "util/bytes.h"

#define VERSION      1
#define SIGNATURE_AT 56u
#define LABEL        "ripc capability 1"
#define LABEL_LEN    (sizeof(LABEL) - 1)

int ripc__capability_decode(const uint8_t bytes[CAPABILITY_LEN], struct capability *capability)
{
	if (bytes[0] != VERSION || bytes[1] == 0 || bytes[1] > (CAPABILITY_BE | CAPABILITY_SEND) ||
			get16(bytes + 2) || get32(bytes + 4))
		return -EBADMSG;
	capability->what = bytes[1];
	capability->id = get64(bytes + 8);
	capability->until_s = get64(bytes + 16);
	memcpy(capability->holder, bytes + 24, 32);
	return 0;
}

void ripc__capability_encode(const struct capability *capability, uint8_t bytes[CAPABILITY_LEN])
{
	memset(bytes, 0, CAPABILITY_LEN);
	bytes[0] = VERSION;
	bytes[1] = capability->what;
	put64(bytes + 8, capability->id);
	put64(bytes + 16, capability->until_s);
	memcpy(bytes + 24, capability->holder, 32);
}

static void signed_part(const uint8_t bytes[CAPABILITY_LEN], uint8_t part[LABEL_LEN + SIGNATURE_AT])
{
	memcpy(part, LABEL, LABEL_LEN);
	memcpy(part + LABEL_LEN, bytes, SIGNATURE_AT);
}

int ripc__capability_sign(struct cipher_box *box, const uint8_t authority_secret[32],
		uint8_t bytes[CAPABILITY_LEN])
{
	uint8_t part[LABEL_LEN + SIGNATURE_AT];
	const struct iovec data = {part, sizeof(part)};

	signed_part(bytes, part);
	return box->ops->sign(box->lib, authority_secret, &data, bytes + SIGNATURE_AT);
}

int ripc__capability_verify(struct cipher_box *box, const uint8_t authority[32],
		const uint8_t bytes[CAPABILITY_LEN])
{
	uint8_t part[LABEL_LEN + SIGNATURE_AT];
	const struct iovec data = {part, sizeof(part)};

	signed_part(bytes, part);
	return box->ops->verify(box->lib, authority, &data, bytes + SIGNATURE_AT);
}

void ripc__rights_add(struct rights *rights, const struct capability *capability)
{
	if (rights->n == CAPABILITIES_MAX)
		return;
	rights->may[rights->n].id = capability->id;
	rights->may[rights->n].until_s = capability->until_s;
	rights->may[rights->n++].what = capability->what;
}

bool ripc__rights_has(const struct rights *rights, enum capability_what what, uint64_t id,
		uint64_t now_s)
{
	for (uint32_t i = 0; i < rights->n && !rights->all; i++) {
		if (rights->may[i].what & what && now_s < rights->may[i].until_s &&
				(!rights->may[i].id || rights->may[i].id == id))
			return true;
	}
	return rights->all;
}

bool ripc__rights_any(const struct rights *rights, uint64_t now_s)
{
	for (uint32_t i = 0; i < rights->n && !rights->all; i++) {
		if (now_s < rights->may[i].until_s)
			return true;
	}
	return rights->all;
}

int ripc__private_bits(const struct cipher_box *box, const uint8_t key[32], uint64_t *bits)
{
	const struct iovec in[2] = {{"ripc private 1", 14}, {(void *)key, 32}};
	uint8_t digest[32];
	int error = box->ops->hash(box->lib, in, 2, digest);

	if (!error)
		*bits = get64(digest) & INT64_MAX; /* no private ID is that of a group */
	return error;
}
