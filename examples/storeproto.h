/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol of store_client and store_server: the only place that knows these bytes.
 *
 * A request has one item, or, to set a value, two: the header with the key, and the value.
 *
 *    0  4  "RST1"
 *    4  1  what: STORE_PING, STORE_GET, STORE_SET
 *    5  1  zero
 *    6  2  length of the key, little-endian: 0 to ping, else 1 to 255
 *    8     the key, any bytes
 *
 * The reply to STORE_GET is the value, any other one is empty. The reply to a request that fails is
 * one of the errors below. libripc itself reports none of them for a request that was
 * delivered, so that a client can tell the two apart.
 */
#ifndef EXAMPLES_STOREPROTO_H
#define EXAMPLES_STOREPROTO_H

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <ripc/call.h>

#define STORE_NAME	"store" /* of the service, unless another one is said */
#define STORE_HEADER	8
#define STORE_KEY_MAX	255
#define STORE_VALUE_MAX (10u << 20)

#define STORE_NO_KEY	(-ENODATA) /* nothing is stored under that key */
#define STORE_TOO_LONG	(-EFBIG)   /* the value has more than STORE_VALUE_MAX bytes */
#define STORE_FULL	(-ENOSPC)
#define STORE_MALFORMED (-EBADMSG)

enum store_what { STORE_PING = 1, STORE_GET, STORE_SET };

struct store_request {
	enum store_what what;
	uint16_t key_len;
	char key[STORE_KEY_MAX];
};

/* Writes a request to bytes[STORE_HEADER + STORE_KEY_MAX] and returns its length. */
static inline size_t store_request_encode(const struct store_request *request, uint8_t *bytes)
{
	uint16_t key_len = htole16(request->key_len);

	memcpy(bytes, "RST1", 4);
	bytes[4] = (uint8_t)request->what;
	bytes[5] = 0;
	memcpy(bytes + 6, &key_len, sizeof(key_len));
	memcpy(bytes + STORE_HEADER, request->key, request->key_len);
	return STORE_HEADER + (size_t)request->key_len;
}

static inline int store_request_check(const struct store_request *request, uint32_t n_items)
{
	switch (request->what) {
	case STORE_PING:
		return request->key_len == 0 && n_items == 1 ? 0 : STORE_MALFORMED;
	case STORE_GET:
		return request->key_len > 0 && n_items == 1 ? 0 : STORE_MALFORMED;
	case STORE_SET:
		return request->key_len > 0 && n_items == 2 ? 0 : STORE_MALFORMED;
	default:
		return STORE_MALFORMED;
	}
}

/* Reads a request out of a message. 0, or STORE_MALFORMED. */
static inline int store_request_decode(
	const struct ripc_msg *msg, struct store_request *request)
{
	const struct iovec *item = &msg->items[0];
	uint8_t bytes[STORE_HEADER + STORE_KEY_MAX];
	uint16_t key_len;

	if (item->iov_len < STORE_HEADER || item->iov_len > sizeof(bytes))
		return STORE_MALFORMED;
	memcpy(bytes, item->iov_base, item->iov_len);
	memcpy(&key_len, bytes + 6, sizeof(key_len));
	request->key_len = le16toh(key_len);
	if (memcmp(bytes, "RST1", 4) != 0 || bytes[5] != 0 ||
		item->iov_len != STORE_HEADER + (size_t)request->key_len)
		return STORE_MALFORMED;
	request->what = bytes[4];
	memcpy(request->key, bytes + STORE_HEADER, request->key_len);
	return store_request_check(request, msg->n_items);
}

#endif
