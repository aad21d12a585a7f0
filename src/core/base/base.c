/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for all rooms: nonces, timers, sums of lengths, structs that grow. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base.h"
#include "core/objects.h"
#include "util/hash/siphash.h"
#include "util/timers.h"

uint64_t ripc__nonce(struct ripc_context *ctx)
{
	uint64_t count = htole64(++ctx->self.counter);
	uint64_t nonce = ripc__siphash(ctx->self.secret, &count, sizeof(count));

	return nonce ? nonce : 1;
}

int ripc__timer_admit(struct ripc_context *ctx)
{
	int error = ripc__timers_reserve(&ctx->loop.timers, ctx->loop.n_timers + 1);

	if (error)
		return error;
	ctx->loop.n_timers++;
	return 0;
}

void ripc__timer_dismiss(struct ripc_context *ctx, struct ripc__timer *timer)
{
	ripc__timer_stop(&ctx->loop.timers, timer);
	ctx->loop.n_timers--;
}

int ripc__sum_items(const struct iovec *items, uint32_t n_items, uint64_t *total)
{
	uint64_t sum = 0;

	if (n_items == 0 || n_items > RIPC_ITEMS_MAX || !items)
		return -EINVAL;
	for (uint32_t i = 0; i < n_items; i++) {
		if (!items[i].iov_base && items[i].iov_len)
			return -EINVAL;
		if (items[i].iov_len > INT64_MAX - sum)
			return -EMSGSIZE;
		sum += items[i].iov_len;
	}
	*total = sum;
	return 0;
}

/* ---- structs that grow ------------------------------------------------------------------- */

#define STRUCT_MAX 4096 /* longer structs are refused unread: the field is not a size */

int ripc__struct_take(void *own, size_t known, const void *given, size_t first)
{
	const uint8_t *bytes = given;
	size_t size = 0, n;

	if (given)
		memcpy(&size, given, sizeof(size));
	n = size < first || size > STRUCT_MAX ? 0 : size < known ? size : known;
	if (n)
		memcpy(own, given, n);
	memset((uint8_t *)own + n, 0, known - n);
	if (!n)
		return size > STRUCT_MAX ? -E2BIG : -EINVAL;
	for (; n < size; n++) {
		if (bytes[n])
			return -E2BIG;
	}
	return 0;
}

int ripc__struct_check(size_t size)
{
	return size < sizeof(size) ? -EINVAL : size > STRUCT_MAX ? -E2BIG : 0;
}

void ripc__struct_fill(void *given, size_t size, const void *own, size_t known)
{
	size_t n = size < known ? size : known;

	memcpy(given, own, n);
	memset((uint8_t *)given + n, 0, size - n);
}

/* ---- proof ------------------------------------------------------------------------------- */

/* Address tokens: hashes of asker, host and time, under the context's secret. */

uint64_t ripc__proof(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t age)
{
	struct {
		uint64_t asker, period;
		uint8_t host[16];
	} bound = {htole64(asker), htole64(ctx->now_us / PROOF_PERIOD_US - age), {0}};
	uint64_t proof;

	memcpy(bound.host, host, 16);
	proof = ripc__siphash(ctx->self.secret, &bound, sizeof(bound));
	return proof ? proof : 1;
}

bool ripc__proof_valid(struct ripc_context *ctx, uint64_t asker, const uint8_t host[16],
		uint64_t proof)
{
	return proof == ripc__proof(ctx, asker, host, 0) ||
		proof == ripc__proof(ctx, asker, host, 1);
}
