/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory of keys that a context works with (ripc_config.keys):
 *
 *   private       the X25519 key, 64 hexadecimal digits; no other user may read it, except,
 *                 if root owns it, a group that this process is in; so for the secrets
 *   secret        64 hexadecimal digits, the same for all members of the deployment
 *   secret.next   the next secret, while all are replaced: its holders are members, too
 *   secret.old    the one before, once the next one is in use: the same
 *   authority     public Ed25519 key of the authority, which grants capabilities; without this
 *                 file members may do everything
 *   capabilities  the capabilities that were granted to us, one a line
 *   revoked       public keys of members that are none any more, one a line
 */
#ifndef RIPC_KEY_DIR_H
#define RIPC_KEY_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "capability.h"
#include "noise.h"

struct stat;

#define REVOKED_MAX 120u
#define SECRETS     2u  /* secret, and secret.next or secret.old */
#define KEY_WHY 256 /* bytes of a sentence that says what is wrong */

/* The contents of the directory. They are secret: ripc__key_dir_wipe() wipes them. */
struct key_dir {
	struct static_keys own;
	uint32_t n_secrets;
	uint8_t secrets[SECRETS][32]; /* ours are made with the first */
	bool has_next;                /* the second is secret.next, not secret.old */
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
