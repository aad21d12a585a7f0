/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts with keys: the directory that all of them read, a library of cryptography that looks at
 * what is asked of it, and what must not leave such a context. No nonce seals twice under one key,
 * no datagram is unsealed twice, nothing leaves in the open, and no handshake is answered where its
 * sender does not live.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/keys/internal.h"
#include "core/net/crypto.h"
#include "model.h"
#include "util/hash/siphash.h"
#include "util/map.h"

/* ---- the directory ----------------------------------------------------------------------- */

char sim_keys_dir[] = "/tmp/ripc-sim-XXXXXX";

static bool key_write(const char *name, const char *digits)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", sim_keys_dir, name);
	file = fopen(path, "w");
	return file && fchmod(fileno(file), 0600) == 0 && fprintf(file, "%s\n", digits) == 65 &&
		fclose(file) == 0;
}

/* The same keys each time, so that a seed replays. */
bool sim_keys_make(void)
{
	return mkdtemp(sim_keys_dir) &&
		key_write("private", "5e12a30b96cd41f7a8093b1c6d2e4f50"
			"5e12a30b96cd41f7a8093b1c6d2e4f50") &&
		key_write("secret", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
			"0f1e2d3c4b5a69788796a5b4c3d2e1f0");
}

void sim_keys_remove(void)
{
	char path[64];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", sim_keys_dir, i ? "private" : "secret");
		unlink(path);
	}
	rmdir(sim_keys_dir);
}

/* ---- a library that looks at what is asked of it ----------------------------------------- */

#define HANDSHAKE_CIPHERS 2 /* the first ones of a context: what they open may come twice */

struct watched_lib {
	void *real;
	uint32_t n_ciphers;
};

struct watched {
	void *real;
	uint64_t key; /* a hash of it */
	bool seals, is_session;
};

static const struct ripc__crypto *real;
static struct sim_world *watching; /* one at a time */
static struct ripc__map used;      /* hashes of key, nonce and direction */

static void use_once(const struct watched *watched, const uint8_t *nonce, const char *text)
{
	static const uint8_t hash_key[16] = "ripc sim nonces";
	uint8_t bytes[8 + RIPC_NONCE_LEN + 1];
	uint64_t hash;

	memcpy(bytes, &watched->key, 8);
	memcpy(bytes + 8, nonce, RIPC_NONCE_LEN);
	bytes[8 + RIPC_NONCE_LEN] = watched->seals;
	hash = ripc__siphash(hash_key, bytes, sizeof(bytes)) | 1;
	if (ripc__map_get(&used, hash))
		model_fail(watching->model, text);
	else if (ripc__map_put(&used, hash, watching))
		abort();
}

static int watched_open(void **state)
{
	struct watched_lib *lib = calloc(1, sizeof(*lib));

	if (!lib || real->open(&lib->real))
		abort();
	*state = lib;
	return 0;
}

static void watched_close(void *state)
{
	real->close(((struct watched_lib *)state)->real);
	free(state);
}

/* The cipher is the same on any machine. */
static bool watched_has_fast_aes(void)
{
	return false;
}

static int watched_dh_public(void *lib, const uint8_t secret[32], uint8_t key[32])
{
	return real->dh_public(((struct watched_lib *)lib)->real, secret, key);
}

static int watched_dh(void *lib, const uint8_t secret[32], const uint8_t key[32],
		uint8_t shared[32])
{
	return real->dh(((struct watched_lib *)lib)->real, secret, key, shared);
}

static int watched_hash(void *lib, const struct iovec *in, uint32_t n, uint8_t digest[32])
{
	return real->hash(((struct watched_lib *)lib)->real, in, n, digest);
}

static int watched_mac(void *lib, const uint8_t key[32], const struct iovec *in, uint32_t n,
		uint8_t mac[32])
{
	return real->mac(((struct watched_lib *)lib)->real, key, in, n, mac);
}

static int watched_verify(void *lib, const uint8_t key[32], const struct iovec *data,
		const uint8_t signature[64])
{
	return real->verify(((struct watched_lib *)lib)->real, key, data, signature);
}

static void *watched_alloc(void *state, enum ripc__cipher cipher, bool seals)
{
	struct watched_lib *lib = state;
	struct watched *watched = calloc(1, sizeof(*watched));

	if (!watched)
		abort();
	watched->real = real->aead_alloc(lib->real, cipher, seals);
	watched->seals = seals;
	watched->is_session = lib->n_ciphers++ >= HANDSHAKE_CIPHERS;
	return watched;
}

static void watched_free(void *state)
{
	real->aead_free(((struct watched *)state)->real);
	free(state);
}

static int watched_key(void *state, const uint8_t *key)
{
	static const uint8_t hash_key[16] = "ripc sim ciphers";
	struct watched *watched = state;

	watched->key = ripc__siphash(hash_key, key, 32);
	return real->aead_key(watched->real, key);
}

static int watched_seal(void *state, const struct ripc__beside *beside, const struct iovec *in,
		uint32_t n, uint8_t *out)
{
	use_once(state, beside->nonce, "a nonce was used twice");
	return real->seal(((struct watched *)state)->real, beside, in, n, out);
}

static int watched_unseal(void *state, const struct ripc__beside *beside, const struct iovec *in,
		uint8_t *out)
{
	const struct watched *watched = state;
	int error = real->unseal(watched->real, beside, in, out);

	if (!error && watched->is_session)
		use_once(watched, beside->nonce, "a sealed datagram was taken twice");
	return error;
}

static const struct ripc__crypto watching_crypto = {
	.name = "simulated", .open = watched_open, .close = watched_close,
	.has_fast_aes = watched_has_fast_aes, .dh_public = watched_dh_public, .dh = watched_dh,
	.hash = watched_hash, .mac = watched_mac, .verify = watched_verify,
	.aead_alloc = watched_alloc, .aead_free = watched_free,
	.aead_key = watched_key, .seal = watched_seal,
	.unseal = watched_unseal,
};

const struct ripc__crypto *sim_crypto(char why[256], char remedy[256])
{
	real = ripc__crypto_load(why, remedy);
	return real ? &watching_crypto : NULL;
}

void sim_keys_begin(struct sim_world *world)
{
	watching = world;
	ripc__map_init(&used, world->seed);
}

void sim_keys_end(void)
{
	ripc__map_free(&used);
}

/* ---- what leaves, and what is forged ----------------------------------------------------- */

void sim_keys_sent(struct sim_world *world, const struct sim_packet *packet, uint64_t to)
{
	if (packet->resolver)
		return; /* its words for people may be open */
	if (packet->bytes[0] != SEALED_MAGIC)
		model_fail(world->model, "a context with keys has sent a packet in the open");
	else if (to == SIM_NOWHERE && packet->bytes[1] == SEALED_REPLY)
		model_fail(world->model, "a handshake was answered where nobody lives");
}

/* A first message comes from elsewhere; of all others a bit is another one. */
bool sim_keys_forge(struct sim_random *random, struct sim_packet *packet)
{
	if (packet->resolver || packet->bytes[0] != SEALED_MAGIC)
		return false;
	if (packet->bytes[1] == SEALED_INIT && sim_chance(random, 800000))
		packet->from = SIM_NOWHERE;
	else
		packet->bytes[sim_below(random, packet->len)] ^= 1;
	return true;
}
