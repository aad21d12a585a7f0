/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock, and numbers that nobody can guess. */
#include <time.h>

#include "rdma.h"
#include "util/hash/siphash.h"

uint64_t ripc__rdma_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t ripc__rdma_nonce(const uint8_t secret[16], uint64_t *counter)
{
	uint64_t nonce;

	do {
		++*counter;
		nonce = ripc__siphash(secret, counter, sizeof(*counter));
	} while (!nonce);
	return nonce;
}
