/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of fileserver and fileget: the only place that knows these bytes.
 *
 * A request has one item, a header and then the path. The reply is a header and, if
 * there are any, a second item with the bytes of the file or of the listing. The reply to a
 * malformed request, or to one too many, is an error: FILE_MALFORMED, FILE_TOO_MANY.
 *
 *   request                                  reply
 *    0  4  "RFQ2"                             0  4  "RFA2"
 *    4  1  what: FILE_GET, FILE_LIST          4  1  status: enum file_status
 *    5  1  zero                               5  3  zero
 *    6  2  length of the path                 8  8  how many bytes come
 *    8  8  offset in the file                16  8  size of the whole file
 *   16  8  most bytes wanted                 24  8  version: differs when the file changed
 *   24     path, relative, no zero byte
 *
 * A listing has one entry after the other, directories and regular files only:
 *    0  1  'd' or 'f'      1  2  length of the name      3  8  size      11  name
 *
 * Numbers are little-endian. Either side checks all that comes from the other one; and as what
 * comes may lie in memory of the other one, which can alter it meanwhile, it checks a copy.
 */
#ifndef EXAMPLES_FILEPROTO_H
#define EXAMPLES_FILEPROTO_H

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <ripc/call.h>

#define FILE_REQUEST_HEADER 24
#define FILE_ANSWER_HEADER  32
#define FILE_ENTRY_HEADER   11
#define FILE_PATH_MAX	    1023
#define FILE_REQUEST_MAX    (FILE_REQUEST_HEADER + FILE_PATH_MAX)
/* The most bytes of one reply. A server may send less than was requested, if not nothing. */
#define FILE_PIECE_MAX (64u << 20)

/* Errors of a request. libripc itself has none of them for one that was delivered. */
#define FILE_MALFORMED (-EBADMSG)
#define FILE_TOO_MANY  (-EBUSY) /* of this client are waiting: the same can be requested later */

enum file_what { FILE_GET = 1, FILE_LIST = 2 };

enum file_status {
	FILE_OK,
	FILE_NOT_FOUND,
	FILE_REFUSED, /* outside of the directory that is served */
	FILE_NO_FILE, /* neither a regular file nor, for FILE_LIST, a directory */
	FILE_DENIED,
	FILE_TOO_LARGE,
	FILE_IO_ERROR,
	FILE_CHANGED,
	FILE_N_STATUS,
};

struct file_request {
	uint8_t what;
	uint16_t path_len;
	uint64_t offset, len;
	char path[FILE_PATH_MAX + 1]; /* ends with a zero byte */
};

struct file_answer {
	uint8_t status;
	uint64_t len, size, version;
};

struct file_entry {
	char type; /* 'd' or 'f' */
	uint16_t name_len;
	uint64_t size;
	char name[NAME_MAX + 1]; /* ends with a zero byte */
};

static inline const char *file_status_text(unsigned int status)
{
	static const char *const texts[FILE_N_STATUS] = {
		[FILE_OK] = "all is well",
		[FILE_NOT_FOUND] = "no such file or directory",
		[FILE_REFUSED] = "refused: outside of the directory that is served",
		[FILE_NO_FILE] = "not a regular file, or not a directory",
		[FILE_DENIED] = "the server may not read it",
		[FILE_TOO_LARGE] = "too large for the server",
		[FILE_IO_ERROR] = "the server cannot read the file",
		[FILE_CHANGED] = "the file changed while it was fetched",
	};

	return status < FILE_N_STATUS ? texts[status] : "an unknown reply";
}

static inline void file_put16(uint8_t *to, uint16_t value)
{
	value = htole16(value);
	memcpy(to, &value, sizeof(value));
}

static inline void file_put64(uint8_t *to, uint64_t value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static inline uint16_t file_get16(const uint8_t *from)
{
	uint16_t value;

	memcpy(&value, from, sizeof(value));
	return le16toh(value);
}

static inline uint64_t file_get64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

/* Takes a copy, which the compiler does not look for in what was copied from. */
static inline void file_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Writes a request to bytes[FILE_REQUEST_MAX] and returns its length. path_len must be right. */
static inline size_t file_request_encode(const struct file_request *request, uint8_t *bytes)
{
	memcpy(bytes, "RFQ2", 4);
	bytes[4] = request->what;
	bytes[5] = 0;
	file_put16(bytes + 6, request->path_len);
	file_put64(bytes + 8, request->offset);
	file_put64(bytes + 16, request->len);
	memcpy(bytes + FILE_REQUEST_HEADER, request->path, request->path_len);
	return FILE_REQUEST_HEADER + (size_t)request->path_len;
}

/* Reads a request out of one item of a message. 0, or FILE_MALFORMED. */
static inline int file_request_decode(const struct iovec *item, struct file_request *request)
{
	uint8_t bytes[FILE_REQUEST_HEADER];
	size_t path_len;

	if (item->iov_len < FILE_REQUEST_HEADER)
		return FILE_MALFORMED;
	file_copy(bytes, item->iov_base, sizeof(bytes));
	path_len = file_get16(bytes + 6);
	if (memcmp(bytes, "RFQ2", 4) != 0 || (bytes[4] != FILE_GET && bytes[4] != FILE_LIST) ||
		bytes[5] != 0 || path_len > FILE_PATH_MAX ||
		item->iov_len != FILE_REQUEST_HEADER + path_len)
		return FILE_MALFORMED;
	request->what = bytes[4];
	request->path_len = (uint16_t)path_len;
	request->offset = file_get64(bytes + 8);
	request->len = file_get64(bytes + 16);
	file_copy(request->path, (uint8_t *)item->iov_base + FILE_REQUEST_HEADER, path_len);
	request->path[path_len] = '\0';
	return memchr(request->path, 0, path_len) ? FILE_MALFORMED : 0;
}

/* Writes a reply's header to bytes[FILE_ANSWER_HEADER]. */
static inline void file_answer_encode(const struct file_answer *answer, uint8_t *bytes)
{
	memcpy(bytes, "RFA2", 4);
	bytes[4] = answer->status;
	memset(bytes + 5, 0, 3);
	file_put64(bytes + 8, answer->len);
	file_put64(bytes + 16, answer->size);
	file_put64(bytes + 24, answer->version);
}

/* Reads a reply's header out of one item of a message. 0, or -EBADMSG: *answer untouched. */
static inline int file_answer_decode(const struct iovec *item, struct file_answer *answer)
{
	uint8_t bytes[FILE_ANSWER_HEADER];

	if (item->iov_len != FILE_ANSWER_HEADER)
		return -EBADMSG;
	file_copy(bytes, item->iov_base, sizeof(bytes));
	if (memcmp(bytes, "RFA2", 4) != 0)
		return -EBADMSG;
	answer->status = bytes[4];
	answer->len = file_get64(bytes + 8);
	answer->size = file_get64(bytes + 16);
	answer->version = file_get64(bytes + 24);
	return 0;
}

/* Writes an entry without its name; the name follows it. */
static inline void file_entry_encode(const struct file_entry *entry, uint8_t *bytes)
{
	bytes[0] = (uint8_t)entry->type;
	file_put16(bytes + 1, entry->name_len);
	file_put64(bytes + 3, entry->size);
}

/*
 * Reads the entry at *at and moves *at behind it. Returns 1, 0 at the end, or -EBADMSG. A name
 * that could lead out of a directory is not let through, nor one longer than a name can be here.
 */
static inline int file_entry_decode(
	const uint8_t **at, const uint8_t *end, struct file_entry *entry)
{
	const uint8_t *from = *at;
	uint8_t bytes[FILE_ENTRY_HEADER];
	char *name = entry->name;
	size_t name_len;

	if (from == end)
		return 0;
	if (end - from < FILE_ENTRY_HEADER)
		return -EBADMSG;
	file_copy(bytes, from, sizeof(bytes));
	name_len = file_get16(bytes + 1);
	if ((bytes[0] != 'd' && bytes[0] != 'f') || name_len == 0 || name_len > NAME_MAX ||
		name_len > (size_t)(end - from) - FILE_ENTRY_HEADER)
		return -EBADMSG;
	file_copy(name, from + FILE_ENTRY_HEADER, name_len);
	name[name_len] = '\0';
	/* The name is copied by now: its owner can alter it no more. */
	if (memchr(name, '/', name_len) || memchr(name, 0, name_len) ||
		(name[0] == '.' && (name_len == 1 || (name_len == 2 && name[1] == '.'))))
		return -EBADMSG;
	entry->type = (char)bytes[0];
	entry->name_len = (uint16_t)name_len;
	entry->size = file_get64(bytes + 3);
	*at = from + FILE_ENTRY_HEADER + name_len;
	return 1;
}

#endif
