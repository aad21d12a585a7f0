/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes in the protocol of fileserver and fileget (examples/fileproto.h): as a request, as an
 * answer, as a listing. Accepted input encodes to the same bytes, and no name leads out of a
 * directory.
 */
#include <string.h>

#include "../../examples/fileproto.h"
#include "fuzz.h"

static void decode_request(const struct iovec *item)
{
	uint8_t again[FILE_REQUEST_MAX];
	struct file_request request;

	if (file_request_decode(item, &request))
		return;
	CLAIM(strlen(request.path) == request.path_len);
	CLAIM(file_request_encode(&request, again) == item->iov_len);
	CLAIM(memcmp(again, item->iov_base, item->iov_len) == 0);
}

static void decode_answer(const struct iovec *item)
{
	uint8_t again[FILE_ANSWER_HEADER];
	struct file_answer answer;

	if (file_answer_decode(item, &answer))
		return;
	CLAIM(file_status_text(answer.status) != NULL);
	file_answer_encode(&answer, again);
	CLAIM(memcmp(again, item->iov_base, 5) == 0);
	CLAIM(memcmp(again + 8, (const uint8_t *)item->iov_base + 8, sizeof(again) - 8) == 0);
}

static void decode_listing(const uint8_t *at, const uint8_t *end)
{
	uint8_t again[FILE_ENTRY_HEADER];
	struct file_entry entry;

	for (;;) {
		const uint8_t *from = at;

		if (file_entry_decode(&at, end, &entry) <= 0) {
			CLAIM(at == from);
			return;
		}
		CLAIM(strlen(entry.name) == entry.name_len && entry.name_len > 0);
		CLAIM(strcmp(entry.name, ".") != 0 && strcmp(entry.name, "..") != 0);
		CLAIM(!strchr(entry.name, '/'));
		file_entry_encode(&entry, again);
		CLAIM(memcmp(again, from, sizeof(again)) == 0);
		CLAIM(memcmp(entry.name, from + sizeof(again), entry.name_len) == 0);
		CLAIM(at == from + sizeof(again) + entry.name_len && at <= end);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct iovec item = {(void *)(uintptr_t)data, len};

	decode_request(&item);
	decode_answer(&item);
	decode_listing(data, data + len);
	return 0;
}
