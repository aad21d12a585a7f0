/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replies of fileserver; see fileserver.h. All data is given (RIPC_GIVE): on this host its
 * receiver reads it where it is. Files that the cache has are given as they are. Pieces of others
 * are read into a few buffers that are given again once everybody has freed them, which is faster
 * than to take, and to map, new memory for each. The receiver of a piece can see the whole buffer,
 * with the earlier data of another client: it could have requested that data as well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "fileserver.h"

#define PIECE_MIN (64u << 10) /* longer ones go into buffers of PIECE_BYTES that are used again */

/* ---- memory ---- */

void answer_free(struct answers *answers, struct answer *answer)
{
	ripc_buf_free(answers->ctx, answer->header);
	ripc_buf_free(answers->ctx, answer->data);
	answer->header = answer->data = NULL;
}

/* Index of a piece that nobody but us holds; n_pieces: none. */
static unsigned int free_piece(const struct answers *answers)
{
	unsigned int i = 0;

	while (i < answers->n_pieces && ripc_buf_refs(answers->ctx, answers->pieces[i]) != 1)
		i++;
	return i;
}

/* Gives the memory of a piece back. 0: all are in use. */
static int shrink_pieces(struct answers *answers)
{
	unsigned int i = free_piece(answers);

	if (i == answers->n_pieces)
		return 0;
	ripc_buf_free(answers->ctx, answers->pieces[i]);
	answers->pieces[i] = answers->pieces[--answers->n_pieces];
	return 1;
}

/* Takes a buffer from the pool, if need be at the expense of what is kept. */
static int alloc_buffer(struct answers *answers, size_t len, void **buffer)
{
	int err;

	do
		err = ripc_buf_alloc(answers->ctx, len, buffer);
	while (err == -ENOMEM && (shrink_pieces(answers) || cache_shrink(&answers->cache)));
	return err;
}

/* A buffer of PIECE_BYTES. Beyond those that are kept it is a new one. */
static int alloc_piece(struct answers *answers, void **piece, int *is_kept)
{
	unsigned int i = free_piece(answers);
	int err;

	*is_kept = 1;
	if (i < answers->n_pieces) {
		*piece = answers->pieces[i];
		return ripc_buf_ref(answers->ctx, *piece);
	}
	*is_kept = answers->n_pieces < PIECES_KEPT;
	err = alloc_buffer(answers, PIECE_BYTES, piece);
	if (err < 0 || !*is_kept)
		return err;
	err = ripc_buf_ref(answers->ctx, *piece);
	if (err == 0)
		answers->pieces[answers->n_pieces++] = *piece;
	return err;
}

/* Takes memory for len bytes of data. 0 or a negative errno. */
static int alloc_data(struct answers *answers, struct answer *answer, size_t len)
{
	void *data = NULL;
	int err = 0;

	if (len > PIECE_MIN && len <= PIECE_BYTES)
		err = alloc_piece(answers, &data, &answer->is_kept);
	else if (len > 0)
		err = alloc_buffer(answers, len, &data);
	if (err < 0)
		return err;
	answer->data = data;
	answer->len = len;
	return 0;
}

/* Adds the header to a reply whose data is there, or frees that. 0 or a negative errno. */
static int add_header(
	struct answers *answers, struct answer *answer, const struct file_answer *what)
{
	void *header;
	int err = alloc_buffer(answers, FILE_ANSWER_HEADER, &header);

	if (err < 0) {
		answer_free(answers, answer);
		return err;
	}
	file_answer_encode(what, header);
	answer->header = header;
	return 0;
}

/* ---- files ---- */

/* Reads up to len bytes. Returns how many there were, or a negative errno. */
static ssize_t read_at(int fd, uint8_t *data, size_t len, uint64_t offset)
{
	size_t done = 0;
	ssize_t got;

	while (done < len) {
		got = pread(fd, data + done, len - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* Fills a reply's data. Nobody gets a piece of which a part is older than the rest. */
static enum file_status read_piece(const struct answer *answer, const struct tree_file *file)
{
	ssize_t got = read_at(file->fd, answer->data, answer->len, answer->offset);
	struct stat now;

	if (got < 0 || fstat(file->fd, &now) < 0)
		return FILE_IO_ERROR;
	return (size_t)got == answer->len && cache_is_same(&file->stat, &now) ? FILE_OK
									      : FILE_CHANGED;
}

/* A client that reads in place can have all data at once, at the same cost. */
static uint64_t piece_most(const struct answer *answer, int is_cached)
{
	return is_cached && answer->in_place ? FILE_PIECE_MAX : PIECE_BYTES;
}

/* Finds len bytes of a file in the cache, or reads them. 0: see *status; -ENOMEM: not now. */
static int find_piece(struct answers *answers, struct answer *answer, const struct tree_file *file,
	struct file_answer *what, enum file_status *status)
{
	uint8_t *whole = cache_get(&answers->cache, file->fd, &file->stat, answer->offset == 0);
	uint64_t most = piece_most(answer, whole != NULL);
	int err;

	if (what->len > most)
		what->len = most;

	if (whole) {
		answer->is_cached = 1;
		answer->data = whole + answer->offset;
		answer->len = what->len;
		answers->cached_bytes += what->len;
		return 0;
	}
	err = alloc_data(answers, answer, what->len);
	if (err < 0)
		return err;
	*status = read_piece(answer, file);
	if (*status != FILE_OK)
		answer_free(answers, answer);
	return 0;
}

static int prepare_get(struct answers *answers, struct answer *answer,
	const struct file_request *ask, enum file_status *status)
{
	struct file_answer what = {0};
	struct tree_file file;
	int err = 0;

	*status = tree_get(&answers->tree, ask->path, ask->offset > 0, &file);
	if (*status != FILE_OK)
		return 0;
	what.size = (uint64_t)file.stat.st_size;
	what.version = file.version;
	if (ask->offset < what.size)
		what.len = what.size - ask->offset;
	if (what.len > ask->len)
		what.len = ask->len;
	if (what.len > 0)
		err = find_piece(answers, answer, &file, &what, status);
	tree_put(&answers->tree, ask->path, &file, err < 0 || ask->offset + what.len < what.size);
	if (err < 0 || *status != FILE_OK)
		return err;
	answers->bytes += what.len;
	return add_header(answers, answer, &what);
}

/* ---- listings ---- */

static int prepare_list(struct answers *answers, struct answer *answer,
	const struct file_request *ask, enum file_status *status)
{
	struct file_answer what = {0};
	size_t max = ask->len < FILE_PIECE_MAX ? ask->len : FILE_PIECE_MAX;
	uint8_t *bytes;
	size_t len;
	int err;

	*status = tree_list(&answers->tree, ask->path, max, &bytes, &len);
	if (*status != FILE_OK)
		return 0;
	err = alloc_data(answers, answer, len);
	if (err == 0) {
		if (len > 0)
			memcpy(answer->data, bytes, len);
		what.len = what.size = len;
		err = add_header(answers, answer, &what);
	}
	free(bytes);
	return err;
}

int answer_prepare(struct answers *answers, struct answer *answer, const struct file_request *ask,
	enum file_status *status)
{
	answer->header = answer->data = NULL;
	answer->len = 0;
	answer->offset = ask->offset;
	answer->is_cached = answer->is_kept = 0;
	if (ask->what == FILE_LIST)
		return prepare_list(answers, answer, ask, status);
	return prepare_get(answers, answer, ask, status);
}
