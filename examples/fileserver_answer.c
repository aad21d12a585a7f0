/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fileserver answers; see fileserver.h. The data of an answer is of one of three kinds. What
 * the cache has, and what is short, is given (RIPC_GIVE): from then on it is the library's, and on
 * this host its receiver reads it where it is. Other pieces are read into buffers that are used
 * again and again, which is faster than to take new memory for each; so these are not given, and
 * come back when the answer was delivered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "fileserver.h"

#define PIECE_MIN   (64u << 10) /* longer ones go into buffers that are used again, */
#define PIECE_BYTES (1u << 20)	/* which are so long */
#define PIECE_MOST  (8u << 20)	/* of one answer that is read or sent for it */

/* ---- memory ---- */

static void free_data(struct answers *answers, struct answer *answer)
{
	if (!answer->is_given && answers->n_pieces < PIECES_KEPT)
		answers->pieces[answers->n_pieces++] = answer->data;
	else
		ripc_buf_free(answers->ctx, answer->data);
	answer->data = NULL;
	answer->is_given = 1;
}

void answer_free(struct answers *answers, struct answer *answer)
{
	ripc_buf_free(answers->ctx, answer->header);
	answer->header = NULL;
	free_data(answers, answer);
}

/* Takes a buffer from the pool, if need be at the expense of what the cache has. */
static int alloc_buffer(struct answers *answers, size_t len, void **buffer)
{
	int err;

	do
		err = ripc_buf_alloc(answers->ctx, len, buffer);
	while (err == -ENOMEM && cache_shrink(&answers->cache));
	return err;
}

/* Takes memory for len bytes of data. 0 or a negative errno. */
static int alloc_data(struct answers *answers, struct answer *answer, size_t len)
{
	int is_piece = len > PIECE_MIN && len <= PIECE_BYTES, err = 0;
	void *data = NULL;

	if (is_piece && answers->n_pieces > 0)
		data = answers->pieces[--answers->n_pieces];
	else if (len > 0)
		err = alloc_buffer(answers, is_piece ? PIECE_BYTES : len, &data);
	if (err < 0)
		return err;
	answer->data = data;
	answer->len = len;
	answer->is_given = !is_piece;
	return 0;
}

/* Adds the header to an answer whose data is there, or frees that. 0 or a negative errno. */
static int add_header(
	struct answers *answers, struct answer *answer, const struct file_answer *what)
{
	void *header;
	int err = alloc_buffer(answers, FILE_ANSWER_HEADER, &header);

	if (err < 0) {
		free_data(answers, answer);
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

/* Fills an answer's data. Nobody gets a piece of which a part is older than the rest. */
static enum file_status read_piece(
	const struct answer *answer, const struct tree_file *file, uint64_t offset)
{
	ssize_t got = read_at(file->fd, answer->data, answer->len, offset);
	struct stat now;

	if (got < 0 || fstat(file->fd, &now) < 0)
		return FILE_IO_ERROR;
	return (size_t)got == answer->len && cache_is_same(&file->stat, &now) ? FILE_OK
									       : FILE_CHANGED;
}

/* Who reads it where it is can have at once all that is there, as that costs the same. */
static uint64_t piece_most(const struct answer *answer, int is_cached)
{
	return is_cached && answer->in_place ? FILE_PIECE_MAX : PIECE_MOST;
}

/* Finds len bytes of a file in the cache, or reads them. 0: see *status; -ENOMEM: not now. */
static int find_piece(struct answers *answers, struct answer *answer, const struct tree_file *file,
	struct file_answer *what, enum file_status *status)
{
	uint8_t *whole = cache_get(&answers->cache, file->fd, &file->stat, what->offset == 0);
	uint64_t most = piece_most(answer, whole != NULL);
	int err;

	if (what->len > most)
		what->len = most;

	if (whole) {
		answer->data = whole + what->offset;
		answer->len = what->len;
		answer->is_given = 1;
		answers->cached_bytes += what->len;
		return 0;
	}
	err = alloc_data(answers, answer, what->len);
	if (err < 0)
		return err;
	*status = read_piece(answer, file, what->offset);
	if (*status != FILE_OK)
		free_data(answers, answer);
	return 0;
}

static int prepare_get(struct answers *answers, struct answer *answer,
	const struct file_request *ask, enum file_status *status)
{
	struct file_answer what = {.number = ask->number, .offset = ask->offset};
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
	struct file_answer what = {.number = ask->number};
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
	answer->is_given = 1;
	if (ask->what == FILE_LIST)
		return prepare_list(answers, answer, ask, status);
	return prepare_get(answers, answer, ask, status);
}
