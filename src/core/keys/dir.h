/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory of keys that a context works with (ripc_config.keys):
 *
 *   private       the X25519 key, 64 hexadecimal digits; no other user may read it, except,
 *                 if root owns it, a group that this process is in; so for the secrets
 *   secret        64 hexadecimal digits, the same for all members of the deployment
 *   secret.next   the next secret, during a replacement: its holders are members, too
 *   secret.old    the previous secret, after a replacement: its holders are members, too
 *   authority     public Ed25519 key of the authority, which grants capabilities; without this
 *                 file members may do everything
 *   capabilities  the capabilities that were granted to us, one a line
 *   revoked       public keys of former members, one a line
 */
#ifndef RIPC_KEY_DIR_H
#define RIPC_KEY_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/net/crypto.h"

struct stat;

/* ---- noise ------------------------------------------------------------------------------- */

/*
 * The handshake Noise_IKpsk2_25519_ChaChaPoly_SHA256 (The Noise Protocol Framework, revision 34):
 * two messages between an initiator and a responder. The initiator knows the responder's static
 * key. This file uses no clock, no random numbers and no network.
 */

#define NOISE_E      32u /* bytes of an ephemeral key in a message */
#define NOISE_S      (32u + RIPC_TAG_LEN) /* of the initiator's sealed static key */
#define NOISE_FIRST  (NOISE_E + NOISE_S + RIPC_TAG_LEN) /* message 1 without its payload */
#define NOISE_SECOND (NOISE_E + RIPC_TAG_LEN)

/* For handshakes: a library of cryptography, its state, and two ChaCha20-Poly1305 ciphers. */
struct cipher_box {
	const struct ripc__crypto *ops;
	void *lib;
	void *seals, *unseals;
};

/* A handshake in progress. The struct holds secrets: call ripc__noise_wipe() at the end. */
struct noise {
	struct cipher_box *box;
	uint8_t chaining[32], hash[32], key[32];
	uint64_t counter;         /* of messages under key */
	uint8_t ephemeral[32];    /* our ephemeral secret key */
	uint8_t remote_e[32], remote_s[32]; /* public keys of the other end, once known */
};

struct static_keys {
	uint8_t secret[32], public[32];
};

/* The keys after the handshake, one for each direction. */
struct noise_keys {
	uint8_t initiator[32], responder[32]; /* each end encrypts with its own key */
};

/* Opens a box, which must outlive its users. 0, or -ENOMEM. */
int ripc__box_open(struct cipher_box *box, const struct ripc__crypto *ops);
void ripc__box_close(struct cipher_box *box);

/* Begins a handshake. responder: the responder's public static key, which both ends know. */
int ripc__noise_begin(struct noise *noise, struct cipher_box *box, const struct iovec *prologue,
		const uint8_t responder[32]);
/*
 * The initiator writes message 1, the responder reads it, and then knows remote_s. out has room for
 * NOISE_FIRST bytes and the payload. The reading writes the payload into payload->iov_base and sets
 * iov_len. ephemeral must be random, and used once. -EKEYREJECTED: forged, or not for this key.
 */
int ripc__noise_write_first(struct noise *noise, const struct static_keys *own,
		const uint8_t ephemeral[32], const struct iovec *payload, uint8_t *out);
int ripc__noise_read_first(struct noise *noise, const struct static_keys *own,
		const struct iovec *in, struct iovec *payload);
/* The responder writes message 2, the initiator reads it. Both know psk. */
int ripc__noise_write_second(struct noise *noise, const uint8_t ephemeral[32],
		const uint8_t psk[32], const struct iovec *payload, uint8_t *out);
int ripc__noise_read_second(struct noise *noise, const struct static_keys *own,
		const uint8_t psk[32], const struct iovec *in, struct iovec *payload);
/* Derives the keys, after both messages. */
int ripc__noise_split(struct noise *noise, struct noise_keys *keys);
void ripc__noise_wipe(struct noise *noise);

/* ---- capability -------------------------------------------------------------------------- */

/*
 * Capabilities. A capability permits the holder of a key to be a service, or to send to one, until
 * a time. The authority of the deployment signs it. docs/protocol.md has the bytes. A capability
 * that a partner shows counts only if it is signed, names the partner's key, and has not expired.
 * All capabilities that count make up a struct rights.
 */

#define CAPABILITY_LEN   120u
#define CAPABILITIES_MAX 8u

enum capability_what { CAPABILITY_BE = 1, CAPABILITY_SEND = 2 };

struct capability {
	uint8_t what;      /* enum capability_what, or both */
	uint64_t id;       /* of a service; 0: any */
	uint64_t until_s;  /* seconds since 1970 */
	uint8_t holder[32]; /* the static key that may use it */
};

/* The rights of one key. */
struct rights {
	bool all;          /* there is no authority: each holder of the secret has all rights */
	uint32_t n;
	uint64_t private_bits; /* of a member: see below */
	struct {
		uint64_t id, until_s;
		uint8_t what;
	} may[CAPABILITIES_MAX]; /* a member's struct has room for n entries only */
};

/* 0; -EBADMSG: the bytes are no capability. Does not verify the signature. */
int ripc__capability_decode(const uint8_t bytes[CAPABILITY_LEN], struct capability *capability);
/* Writes all but the signature; ripc__capability_sign() adds the signature. */
void ripc__capability_encode(const struct capability *capability, uint8_t bytes[CAPABILITY_LEN]);
int ripc__capability_sign(struct cipher_box *box, const uint8_t authority_secret[32],
		uint8_t bytes[CAPABILITY_LEN]);
/* 0; -EKEYREJECTED: the authority has not signed this. */
int ripc__capability_verify(struct cipher_box *box, const uint8_t authority[32],
		const uint8_t bytes[CAPABILITY_LEN]);

/* Adds the rights that a verified capability gives its holder. */
void ripc__rights_add(struct rights *rights, const struct capability *capability);
bool ripc__rights_has(const struct rights *rights, enum capability_what what, uint64_t id,
		uint64_t now_s);
/* Is there a right that has not expired? */
bool ripc__rights_any(const struct rights *rights, uint64_t now_s);

/*
 * A private ID belongs to a key: its upper 40 bits are a hash of the key, the lower 24 are random.
 * So no capability is needed to have a private ID, or to answer to one.
 */
int ripc__private_bits(const struct cipher_box *box, const uint8_t key[32], uint64_t *bits);
#define PRIVATE_BITS 40u

/* ---- dir --------------------------------------------------------------------------------- */

#define REVOKED_MAX 120u
#define SECRETS     2u  /* secret, and secret.next or secret.old */
#define KEY_WHY 256 /* bytes of a sentence that says what is wrong */

/* The contents of the directory. They are secret: ripc__key_dir_wipe() wipes them. */
struct key_dir {
	struct static_keys own;
	uint32_t n_secrets;
	uint8_t secrets[SECRETS][32]; /* our datagrams are made with the first */
	bool has_next;                /* secrets[1] is secret.next, not secret.old */
	uint8_t authority[32];
	bool has_authority;
	uint32_t n_capabilities;
	uint8_t capabilities[CAPABILITIES_MAX][CAPABILITY_LEN];
	uint32_t n_revoked;
	uint8_t revoked[REVOKED_MAX][32];
};

/*
 * Reads the directory. 0, or -ENOENT, -EACCES (other users can read a secret file, or write to the
 * directory), -EINVAL, errors of the system; why names the file and the remedy. Without box the
 * public key is left out.
 */
int ripc__key_dir_read(const char *path, struct cipher_box *box, struct key_dir *dir,
		char why[KEY_WHY]);
/* -EACCES: another user owns the directory of this status, or others can write to it. */
int ripc__key_dir_judge(const char *path, const struct stat *status, char why[KEY_WHY]);
/* Reads one file of 64 digits. secret: no other user may read it. -ENOENT: there is no file. */
int ripc__key_file_read(const char *path, const char *name, bool secret, uint8_t key[32],
		char why[KEY_WHY]);
/* -EINVAL: line *line of the text is no capability, or is one more than CAPABILITIES_MAX. */
int ripc__capabilities_parse(const char *text, struct key_dir *dir, uint32_t *line);
/* Reads the file "revoked" alone into dir. room: one more line must fit, too; else -ENOSPC. */
int ripc__key_dir_revoked(const char *path, struct key_dir *dir, uint32_t room, char why[KEY_WHY]);
bool ripc__key_dir_revokes(const struct key_dir *dir, const uint8_t key[32]);
void ripc__key_dir_wipe(struct key_dir *dir);

#endif
