/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of fileserver: the directory tree that it serves (fileserver_tree.c), files that are
 * kept in memory (cache.c), and the replies that are made of both (fileserver_answer.c).
 * fileserver.c has the requests.
 */
#ifndef EXAMPLES_FILESERVER_H
#define EXAMPLES_FILESERVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include "cache.h"
#include "fileproto.h"

/* ---- the tree: opening what a stranger names without ever leaving it, and listing ---- */

#define TREE_KEPT    8	   /* files that stay open between the pieces requested of them */
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
	struct stat stat;
	uint64_t version; /* differs once it was replaced or written to */
};

/* Opens the directory. 0 or a negative errno. tree_close() ends it. */
int tree_open(struct tree *tree, const char *dir);
void tree_close(struct tree *tree);

/*
 * Opens a regular file below the tree. With again, a descriptor that tree_put() kept is used if
 * there is one. *file is the caller's until tree_put().
 */
enum file_status tree_get(struct tree *tree, const char *path, int again, struct tree_file *file);

/* Closes a file; with more, keeps it open for a while as further pieces will be requested. */
void tree_put(struct tree *tree, const char *path, const struct tree_file *file, int more);

/* Closes kept files that no client requested lately. */
void tree_expire(struct tree *tree);

/* Lists a directory as fileproto.h says. *bytes is the caller's, for free(). */
enum file_status tree_list(
	struct tree *tree, const char *path, size_t max, uint8_t **bytes, size_t *len);

/* ---- replies ---- */

#define PIECES_KEPT 32
#define PIECE_BYTES (2u << 20) /* most of a file that is read for one reply */

struct answers {
	struct ripc_context *ctx;
	struct tree tree;
	struct cache cache;
	uint8_t *pieces[PIECES_KEPT]; /* buffers that are given again and again */
	unsigned int n_pieces;
	uint64_t bytes, cached_bytes; /* of files, sent; of these, from the cache */
};

/* One reply, in buffers of the pool. A reference of each is the reply's, to be given away. */
struct answer {
	uint8_t *header; /* FILE_ANSWER_HEADER bytes; NULL: nothing is prepared */
	uint8_t *data;
	size_t len;
	uint64_t offset; /* of the data in its file */
	int in_place;	 /* the receiver reads where it is what it is given: it shares memory */
	int is_cached;	 /* the data is memory of the cache */
	int is_kept;	 /* a buffer that is transferred again */
};

/*
 * Prepares what is requested; in_place is set. 0: *answer is to be sent if *status is FILE_OK; else
 * that status is all there is to say. -ENOMEM: not now.
 */
int answer_prepare(struct answers *answers, struct answer *answer, const struct file_request *ask,
	enum file_status *status);
void answer_free(struct answers *answers, struct answer *answer);

#endif
