/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a capability, and as the text of a file of capabilities. Accepted input encodes to
 * the same bytes; no signature of another author counts; ours does, until one bit is another one.
 */
#include <string.h>

#include "core/keys/dir.h"
#include "keys.h"
#include "util/text.h"

#define NOW_S 1000u

static struct cipher_box box;
static uint8_t authority[32], authority_secret[32] = {9, 9, 9};

static void setup(void)
{
	char why[256], remedy[256];

	if (box.ops)
		return;
	CLAIM(ripc__box_open(&box, fuzz_crypto(why, remedy)) == 0);
	CLAIM(box.ops->sign_public(box.lib, authority_secret, authority) == 0);
}

static void check_rights(const struct capability *capability)
{
	struct rights rights = {0};
	bool lives = capability->until_s > NOW_S;

	ripc__rights_add(&rights, capability);
	CLAIM(ripc__rights_any(&rights, NOW_S) == lives);
	for (uint8_t what = CAPABILITY_BE; what <= CAPABILITY_SEND; what++) {
		bool may = lives && capability->what & what;

		CLAIM(ripc__rights_has(&rights, what, capability->id, NOW_S) == may);
		CLAIM(ripc__rights_has(&rights, what, capability->id + 1, NOW_S) ==
			(may && !capability->id));
	}
	for (uint32_t i = 0; i < 2 * CAPABILITIES_MAX; i++)
		ripc__rights_add(&rights, capability);
	CLAIM(rights.n == CAPABILITIES_MAX);
}

static void check_one(const uint8_t *data, size_t len)
{
	uint8_t bytes[CAPABILITY_LEN], again[CAPABILITY_LEN];
	struct capability capability;

	if (len < CAPABILITY_LEN)
		return;
	memcpy(bytes, data, CAPABILITY_LEN);
	CLAIM(ripc__capability_verify(&box, authority, bytes) != 0);
	if (ripc__capability_decode(bytes, &capability))
		return;
	ripc__capability_encode(&capability, again);
	CLAIM(memcmp(again, bytes, 56) == 0);
	check_rights(&capability);
	CLAIM(ripc__capability_sign(&box, authority_secret, again) == 0);
	CLAIM(ripc__capability_verify(&box, authority, again) == 0);
	again[data[len - 1] % CAPABILITY_LEN] ^= (uint8_t)(1 << data[0] % 8);
	CLAIM(ripc__capability_verify(&box, authority, again) != 0);
}

/* Each line that is accepted is one that ripc key grant could have printed. */
static void check_text(const uint8_t *data, size_t len)
{
	struct key_dir dir = {.n_capabilities = 0};
	char *text = malloc(len + 1);
	uint32_t line = 0, expected = 0;

	CLAIM(text);
	memcpy(text, data, len);
	text[len] = 0;
	if (ripc__capabilities_parse(text, &dir, &line)) {
		CLAIM(line >= 1 && line <= len + 1);
	} else {
		for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n')
			expected += *at != '#' && *at != '\n';
		CLAIM(dir.n_capabilities == expected && expected <= CAPABILITIES_MAX);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	setup();
	check_one(data, len);
	check_text(data, len);
	return 0;
}
