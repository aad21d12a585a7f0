/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a request to store_server (examples/storeproto.h). Accepted input encodes to the
 * same bytes.
 */
#include <string.h>

#include "../../examples/storeproto.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct iovec items[2] = {{(void *)(uintptr_t)data, len}};
	struct ripc_msg question = {.items = items};
	uint8_t again[STORE_HEADER + STORE_KEY_MAX];
	struct store_request request;

	for (question.n_items = 1; question.n_items <= 2; question.n_items++) {
		if (store_request_decode(&question, &request) < 0)
			continue;
		CLAIM(request.what >= STORE_PING && request.what <= STORE_SET);
		CLAIM(store_request_encode(&request, again) == len);
		CLAIM(memcmp(again, data, len) == 0);
	}
	return 0;
}
