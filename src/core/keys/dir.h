/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory of keys that a context works with (ripc_config.keys):
 *
 *   private       its X25519 key, 64 hexadecimal digits; of nobody else's eyes
 *   secret        what all members of the deployment share, the same
 *   authority     Ed25519 key of who grants capabilities; without it members may everything
 *   capabilities  what was granted to us, one a line
 */
#ifndef RIPC_KEY_DIR_H
#define RIPC_KEY_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "capability.h"
#include "noise.h"

#define KEY_WHY 256 /* bytes of a sentence that says what is wrong */

/* What was read. Secrets: wiped by ripc__key_dir_wipe(). */
struct key_dir {
	struct static_keys own;
	uint8_t secret[32];
	uint8_t authority[32];
	bool has_authority;
	uint32_t n_capabilities;
	uint8_t capabilities[CAPABILITIES_MAX][CAPABILITY_LEN];
};

/*
 * 0, or -ENOENT, -EACCES (others can read a secret file, or write to the directory), -EINVAL, what
 * the system says; why names the file and the remedy.
 */
int ripc__key_dir_read(const char *path, struct cipher_box *box, struct key_dir *dir,
		char why[KEY_WHY]);
/* One file of 64 digits. secret: nobody else may read it. -ENOENT: it is not there. */
int ripc__key_file_read(const char *path, const char *name, bool secret, uint8_t key[32],
		char why[KEY_WHY]);
/* The lines of a text; -EINVAL: line *line is none, or there are more than CAPABILITIES_MAX. */
int ripc__capabilities_parse(const char *text, struct key_dir *dir, uint32_t *line);
void ripc__key_dir_wipe(struct key_dir *dir);

#endif
