/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories of keys for tests, beneath one that is removed with all in it. */
#ifndef RIPC_TEST_KEY_DIRS_H
#define RIPC_TEST_KEY_DIRS_H

#include <stdlib.h>
#include <time.h>

#include "api.h"
#include "ripc/keys.h"

#define KEY_DIRS 3

static char key_top[32], key_dirs[KEY_DIRS][48], key_why[RIPC_KEYS_WHY];

/* The first directory is new (with flags), the others are like it. */
static inline void key_dirs_make(uint32_t flags)
{
	strcpy(key_top, "/tmp/ripc-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(key_top));
	for (int i = 0; i < KEY_DIRS; i++) {
		snprintf(key_dirs[i], sizeof(key_dirs[i]), "%s/%d", key_top, i);
		ck_assert_int_eq(ripc_keys_new(key_dirs[i], i ? key_dirs[0] : NULL, i ? 0 : flags,
			key_why), 0);
	}
}

static inline void key_dirs_remove(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", key_top);
	ck_assert_int_eq(system(command), 0);
}

static inline void key_public(int i, char key[65])
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/public", key_dirs[i]);
	file = fopen(path, "r");
	ck_assert(file && fread(key, 1, 64, file) == 64);
	fclose(file);
	key[64] = 0;
}

/* The authority of the first directory grants something to the holder of another. */
static inline void key_grant(int holder, uint32_t what, uint64_t id, int64_t for_s)
{
	char path[64], key[65], text[RIPC_CAPABILITY];
	struct ripc_grant grant = {.size = sizeof(grant), .key = key, .id = id, .what = what,
		.until_s = (uint64_t)(time(NULL) + for_s)};
	FILE *file;

	key_public(holder, key);
	ck_assert_int_eq(ripc_keys_grant(key_dirs[0], &grant, text, key_why), 0);
	snprintf(path, sizeof(path), "%s/capabilities", key_dirs[holder]);
	file = fopen(path, "a");
	ck_assert(file && fprintf(file, "%s\n", text) > 0);
	ck_assert_int_eq(fclose(file), 0);
}

#endif
