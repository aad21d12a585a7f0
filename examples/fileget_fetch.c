/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching files with several requests under way; see fileget.h. Files are taken up in the
 * order in which they were added. The reply to a file's first request also tells its size, and
 * how much the server gives at once: what may be left of a large file is requested in pieces of
 * that length as places get free, so it uses all of them. A file that changes while it is fetched
 * fails. Towards a pipe the pieces are kept until their turn comes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "fileget.h"
#include "sum.h"

struct fileget_file {
	struct fileget_file *next;
	char *remote, *local; /* local: NULL when the data goes nowhere, or to a stream */
	uint64_t size, version;
	uint64_t asked, done; /* bytes */
	uint64_t most;        /* limit of the server at once; 0: not known */
	unsigned int n_asked; /* pieces under way, or kept for their turn */
	int has_size, has_version, ended, failed;
	struct fileget_output *output;
};

/* A piece under way. Towards a stream: or waiting for its turn. */
struct place {
	struct fileget_piece piece;
	struct fileget_file *file;
	uint64_t missing; /* bytes of it that did not come: they are requested again */
	int kept;
};

static double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void fileget_fetch_init(struct fileget_fetch *fetch, struct fileget_client *client)
{
	memset(fetch, 0, sizeof(*fetch));
	fetch->client = client;
	fetch->stream_fd = -1;
	fetch->pending_tail = &fetch->pending;
}

int fileget_fetch_add(struct fileget_fetch *fetch, const char *remote, const char *local,
	int has_size, uint64_t size)
{
	struct fileget_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	file->remote = strdup(remote);
	file->local = local ? strdup(local) : NULL;
	if (!file->remote || (local && !file->local)) {
		free(file->remote);
		free(file->local);
		free(file);
		return -ENOMEM;
	}
	file->has_size = has_size;
	file->size = size;
	*fetch->pending_tail = file;
	fetch->pending_tail = &file->next;
	fetch->n_files++;
	fetch->bytes_expected += size;
	return 0;
}

/* ---- the life of a file ---- */

static void free_file(struct fileget_file *file)
{
	if (file->output)
		fileget_output_abort(file->output);
	free(file->output);
	free(file->remote);
	free(file->local);
	free(file);
}

/* where: the end at which it failed. */
static void fail_at(struct fileget_fetch *fetch, struct fileget_file *file, const char *where,
	const char *why)
{
	if (file->failed)
		return;
	file->failed = file->ended = 1;
	fetch->n_failed++;
	fprintf(stderr, "%sfileget: %s: %s\n", fetch->show ? "\r\033[K" : "", where, why);
}

static void fail_file(struct fileget_fetch *fetch, struct fileget_file *file, const char *why)
{
	fail_at(fetch, file, file->remote, why);
}

static void fail_output(struct fileget_fetch *fetch, struct fileget_file *file, int err)
{
	fail_at(fetch, file, file->local ? file->local : "the output", strerror(-err));
}

static void finish_file(struct fileget_fetch *fetch, struct fileget_file *file)
{
	int err = 0;

	file->ended = 1;
	if (file->output)
		err = fileget_output_finish(file->output);
	if (err < 0)
		fail_output(fetch, file, err);
	else
		fetch->n_done++;
}

/* Takes the next pending file up. Returns it, or NULL. */
static struct fileget_file *activate(struct fileget_fetch *fetch)
{
	struct fileget_file *file = fetch->pending;

	if (!file)
		return NULL;
	fetch->pending = file->next;
	if (!fetch->pending)
		fetch->pending_tail = &fetch->pending;
	file->next = fetch->active;
	fetch->active = file;
	return file;
}

static void drop_file(struct fileget_fetch *fetch, struct fileget_file *file)
{
	struct fileget_file **at = &fetch->active;

	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	free_file(file);
}

/* Creates the local file when the first data for it is there. 0 or a negative errno. */
static int open_output(struct fileget_file *file)
{
	int err;

	if (!file->local || file->output)
		return 0;
	file->output = malloc(sizeof(*file->output));
	if (!file->output)
		return -ENOMEM;
	err = fileget_output_open(file->output, file->local);
	if (err < 0) {
		free(file->output);
		file->output = NULL;
	}
	return err;
}

/* ---- requests ---- */

static int has_more(const struct fileget_file *file)
{
	if (file->ended)
		return 0;
	/* Until the first reply is there, nothing more is known. */
	return file->asked == 0 ? file->n_asked == 0
				: file->has_version && file->asked < file->size;
}

static struct fileget_file *next_file(struct fileget_fetch *fetch)
{
	struct fileget_file *file = fetch->active;

	while (file && !has_more(file))
		file = file->next;
	return file ? file : activate(fetch);
}

static uint64_t next_len(const struct fileget_fetch *fetch, const struct fileget_file *file)
{
	uint64_t most = file->most ? file->most : fetch->piece_bytes;

	return file->has_size && file->size - file->asked < most ? file->size - file->asked : most;
}

static int ask_range(struct fileget_fetch *fetch, struct place *place, uint64_t offset,
	uint64_t len)
{
	place->piece.user = place;
	place->piece.offset = offset;
	place->piece.len = len;
	place->missing = 0;
	place->kept = 0;
	return fileget_ask(fetch->client, FILE_GET, place->file->remote, &place->piece);
}

/* Requests one piece of file. 0 or a negative errno that no other file would fare better with. */
static int ask(struct fileget_fetch *fetch, struct fileget_file *file, struct place *place)
{
	int err;

	place->file = file;
	err = ask_range(fetch, place, file->asked, next_len(fetch, file));
	if (err < 0)
		place->file = NULL;
	if (err == -ENAMETOOLONG) {
		fail_file(fetch, file, strerror(-err));
		drop_file(fetch, file);
		return 0;
	}
	if (err < 0)
		return err;
	file->asked += place->piece.len;
	file->n_asked++;
	return 0;
}

/* Uses all free places while there is something to request. 0 or a negative errno. */
static int ask_all(struct fileget_fetch *fetch, struct place *places)
{
	struct fileget_file *file;
	unsigned int i = 0;
	int err = 0;

	while (err == 0 && i < fetch->depth) {
		if (places[i].file) {
			i++;
			continue;
		}
		file = next_file(fetch);
		if (!file)
			return 0;
		err = ask(fetch, file, &places[i]);
	}
	return err;
}

/* ---- replies ---- */

/* How much of a piece is before the file's end. */
static uint64_t expected_len(const struct fileget_file *file, const struct fileget_piece *piece)
{
	uint64_t left = piece->offset < file->size ? file->size - piece->offset : 0;

	return left < piece->len ? left : piece->len;
}

/* Returns what is wrong with a reply, or NULL. Sets what is known of the file. */
static const char *judge(struct fileget_file *file, const struct fileget_piece *piece)
{
	const struct file_answer *answer = &piece->answer;
	uint64_t expected;

	if (answer->status != FILE_OK)
		return file_status_text(answer->status);
	if (file->has_version && (answer->version != file->version || answer->size != file->size))
		return "the file changed while it was fetched";
	file->version = answer->version;
	file->size = answer->size;
	file->has_version = file->has_size = 1;
	expected = expected_len(file, piece);
	if (answer->len > expected || (answer->len == 0 && expected > 0))
		return "the server sends malformed replies";
	return NULL;
}

/* The server sends less at once than was requested: the rest is requested in its turn. */
static void take_less(struct fileget_file *file, struct place *place, uint64_t expected)
{
	uint64_t len = place->piece.answer.len;

	file->most = len;
	if (place->piece.offset + expected == file->asked)
		file->asked = place->piece.offset + len;
	else
		place->missing = expected - len;
}

static int store(
	struct fileget_fetch *fetch, struct fileget_file *file, const struct fileget_piece *piece)
{
	size_t len = (size_t)piece->answer.len;
	int err = 0;

	if (fetch->stream_fd >= 0)
		err = fileget_write_stream(fetch->stream_fd, piece->data, len);
	else if (!fetch->discard)
		err = open_output(file);
	else
		fetch->sum += sum_bytes(piece->data, len);
	if (err == 0 && file->output)
		err = fileget_output_write(file->output->fd, piece->data, len, piece->offset);
	if (err < 0)
		return err;
	file->done += len;
	fetch->bytes += len;
	return 0;
}

/* Stores a piece whose turn it is and gives its place free, unless there is a rest to request. */
static void settle(struct fileget_fetch *fetch, struct place *place)
{
	struct fileget_file *file = place->file;
	const struct fileget_piece *piece = &place->piece;
	int err;

	if (!file->ended) {
		err = store(fetch, file, &place->piece);
		if (err < 0)
			fail_output(fetch, file, err);
	}
	fileget_release(fetch->client, &place->piece);
	if (!file->ended && place->missing) {
		ask_range(fetch, place, piece->offset + piece->answer.len, place->missing);
		return;
	}
	place->file = NULL;
	place->kept = 0;
	file->n_asked--;
	if (!file->ended && file->done == file->size)
		finish_file(fetch, file);
	if (file->ended && file->n_asked == 0)
		drop_file(fetch, file);
}

/* Towards a pipe: stores the kept pieces whose turn has come. */
static void settle_in_order(struct fileget_fetch *fetch, struct place *places)
{
	unsigned int i = 0;

	while (i < fetch->depth) {
		if (places[i].file && places[i].kept &&
			(places[i].file->ended || places[i].piece.offset == places[i].file->done)) {
			settle(fetch, &places[i]);
			i = 0;
		} else {
			i++;
		}
	}
}

/* Learns what a reply says, before its bytes are looked at. */
static void note(struct fileget_fetch *fetch, struct place *place)
{
	struct fileget_file *file = place->file;
	const char *wrong = judge(file, &place->piece);
	uint64_t expected = expected_len(file, &place->piece);

	/* The size was not known, or only from the listing: what was requested may exceed it. */
	if (file->asked > file->size)
		file->asked = file->size;
	if (wrong)
		fail_file(fetch, file, wrong);
	else if (place->piece.answer.len < expected)
		take_less(file, place, expected);
}

static void take(struct fileget_fetch *fetch, struct place *places, struct place *place)
{
	if (fetch->stream_fd < 0) {
		settle(fetch, place);
		return;
	}
	place->kept = 1;
	settle_in_order(fetch, places);
}

/* ---- all together ---- */

static void show_progress(struct fileget_fetch *fetch)
{
	double now = fetch->show ? now_seconds() : 0, seconds = now - fetch->begin_seconds;
	uint64_t expected = fetch->bytes_expected;
	char bar[31];
	int filled;

	if (!fetch->show || now - fetch->shown_seconds < 0.1)
		return;
	fetch->shown_seconds = now;
	if (fetch->active && fetch->n_files == 1)
		expected = fetch->active->size;
	filled = expected ? (int)(30.0 * (double)fetch->bytes / (double)expected) : 0;
	filled = filled < 0 ? 0 : filled > 30 ? 30 : filled;
	memset(bar, '.', 30);
	memset(bar, '#', (size_t)filled);
	bar[30] = '\0';
	fprintf(stderr, "\r[%s] %llu of %llu files, %.1f MB, %.1f MB/s\033[K", bar,
		(unsigned long long)fetch->n_done, (unsigned long long)fetch->n_files,
		(double)fetch->bytes / 1e6, (double)fetch->bytes / 1e6 / (seconds + 1e-9));
}

static void drop_all(struct fileget_fetch *fetch)
{
	struct fileget_file *file;

	while ((file = next_file(fetch)) || (file = fetch->active)) {
		fetch->n_failed += !file->ended;
		drop_file(fetch, file);
	}
}

int fileget_fetch_run(struct fileget_fetch *fetch)
{
	struct place *places = calloc(fetch->depth, sizeof(*places));
	struct fileget_piece *piece;
	struct place *place;
	int err;

	if (!places)
		return -ENOMEM;
	fetch->begin_seconds = fetch->shown_seconds = now_seconds();
	for (;;) {
		err = ask_all(fetch, places);
		if (err < 0 || !fetch->active)
			break;
		err = fileget_wait(fetch->client, &piece);
		if (err < 0)
			break;
		place = piece->user;
		note(fetch, place);
		/* The server prepares what comes next while we look at this. */
		err = ask_all(fetch, places);
		if (err < 0)
			break;
		take(fetch, places, place);
		show_progress(fetch);
	}
	fetch->end_seconds = now_seconds();
	if (fetch->show)
		fputs("\r\033[K", stderr);
	drop_all(fetch);
	free(places);
	return err;
}
