/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of fileget: requests to a fileserver (fileget_client.c), writing what came to files
 * (fileget_output.c), and fetching one or many files with several requests under way
 * (fileget_fetch.c). fileget.c is the command line.
 */
#ifndef EXAMPLES_FILEGET_H
#define EXAMPLES_FILEGET_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include "fileproto.h"

/* ---- requests ---- */

struct fileget_client;

/* One request and, after fileget_wait(), its reply. */
struct fileget_piece {
	void *user;	      /* the caller's */
	uint64_t offset, len; /* as requested */
	struct file_answer answer;
	const uint8_t *data; /* answer.len bytes, until fileget_release() */
};

/*
 * Finds the server. depth is how many requests can be under way; timeout_ms is how long the
 * server may show no sign of life; *stop ends every wait. 0 or a negative errno.
 */
int fileget_client_open(uint64_t server, unsigned int depth, int timeout_ms,
	const volatile int *stop, struct fileget_client **client);
void fileget_client_close(struct fileget_client *client);

/*
 * Sends a request; path must stay until the reply was released. -EAGAIN: depth requests are under
 * way. -EHOSTUNREACH: no network leads to the server.
 */
int fileget_ask(struct fileget_client *client, enum file_what what, const char *path,
	struct fileget_piece *piece);

/*
 * Waits for the next reply, in whatever order they arrive. -ENOENT: no request is under way.
 * -ETIMEDOUT: the server is silent. -EHOSTUNREACH: as above. -EINTR: *stop.
 */
int fileget_wait(struct fileget_client *client, struct fileget_piece **piece);
void fileget_release(struct fileget_client *client, struct fileget_piece *piece);

/* Fills text with the path that the messages take. */
void fileget_path_text(struct fileget_client *client, char *text, size_t len);

/* ---- writing ---- */

/*
 * A file that is written under another name first, so that its own name is never half a file. A
 * symbolic link is followed; -EEXIST: what is there is no regular file.
 */
struct fileget_output {
	int fd; /* -1: not open */
	char temporary[PATH_MAX], final[PATH_MAX];
};

/* Each: 0 or a negative errno. abort removes what was written. */
int fileget_output_open(struct fileget_output *output, const char *path);
int fileget_output_write(int fd, const uint8_t *data, size_t len, uint64_t offset);
int fileget_output_finish(struct fileget_output *output);
void fileget_output_abort(struct fileget_output *output);

/* A pipe or a device has no offsets and no size: what is written to it goes there in order. */
int fileget_output_is_stream(const char *path);
/* Returns a descriptor or a negative errno. Waits for the reader of a named pipe. */
int fileget_stream_open(const char *path);
int fileget_write_stream(int fd, const uint8_t *data, size_t len);

/* ---- fetching ---- */

struct fileget_file; /* one file to be fetched, or being fetched */

struct fileget_fetch {
	struct fileget_client *client;
	unsigned int depth;
	uint64_t piece_bytes;
	int discard;   /* read and sum up, write nothing */
	int stream_fd; /* where one file goes, in order; -1: files go to where each was said to */
	int show;      /* a progress bar */
	const volatile int *stop;
	struct fileget_file *pending, **pending_tail, *active;
	uint64_t n_files, n_done, n_failed, bytes_expected, bytes, sum;
	double begin_seconds, end_seconds, shown_seconds;
};

void fileget_fetch_init(struct fileget_fetch *fetch, struct fileget_client *client);

/* Adds a file: its path at the server, and where it goes (NULL: nowhere). has_size: as listed. */
int fileget_fetch_add(struct fileget_fetch *fetch, const char *remote, const char *local,
	int has_size, uint64_t size);

/* Fetches all; tells failures of single files on stderr. 0, or what ended it before the end. */
int fileget_fetch_run(struct fileget_fetch *fetch);

#endif
