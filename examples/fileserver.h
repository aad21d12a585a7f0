/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory tree that fileserver serves: opening what a stranger names without ever leaving
 * the tree, and listing directories. Knows nothing of messages.
 */
#ifndef EXAMPLES_FILESERVER_H
#define EXAMPLES_FILESERVER_H

#include <stddef.h>
#include <stdint.h>
#include "fileproto.h"

#define TREE_KEPT    8	   /* files that stay open between the pieces asked of them */
#define TREE_KEPT_MS 10000 /* for so long after the last piece */

struct tree_kept {
	int fd; /* -1: this place is free */
	uint64_t used_ms;
	char path[FILE_PATH_MAX + 1];
};

struct tree {
	int fd;		/* the directory that is served */
	int no_openat2; /* this kernel, or a sandbox, does not have it */
	int n_kept;
	struct tree_kept kept[TREE_KEPT];
};

struct tree_file {
	int fd;
	uint64_t size, version;
};

/* Opens the directory. 0 or a negative errno. tree_close() ends it. */
int tree_open(struct tree *tree, const char *dir);
void tree_close(struct tree *tree);

/*
 * Opens a regular file below the tree. With again, a descriptor that tree_put() kept is used if
 * there is one. *file is the caller's until tree_put().
 */
enum file_status tree_get(struct tree *tree, const char *path, int again, struct tree_file *file);

/* Closes a file; with more, keeps it open for a while as further pieces will be asked for. */
void tree_put(struct tree *tree, const char *path, const struct tree_file *file, int more);

/* Closes kept files that nobody asked for lately. */
void tree_expire(struct tree *tree);

/* Lists a directory as fileproto.h says. *bytes is the caller's, for free(). */
enum file_status tree_list(
	struct tree *tree, const char *path, size_t max, uint8_t **bytes, size_t *len);

#endif
