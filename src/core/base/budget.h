/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets: how much of something may happen in a time. A bucket fills with time, each happening
 * takes from it. A budget is a bucket for all and a few for the hosts that ask, so that none of
 * them has all.
 */
#ifndef RIPC_BUDGET_H
#define RIPC_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_HOSTS 64u /* hosts whose addresses have the same hash share a bucket */

struct bucket {
	uint64_t filled_us;
	int64_t tokens; /* below 0: more was taken than there was */
	uint32_t per_second, most;
};

void ripc__bucket_init(struct bucket *bucket, uint32_t per_second, uint32_t most);
/* Takes one. False: it is empty. */
bool ripc__bucket_take(struct bucket *bucket, uint64_t now_us);
/* Takes amount, if there is anything at all: what is missing is paid for later. */
bool ripc__bucket_spend(struct bucket *bucket, uint64_t now_us, uint32_t amount);

struct budget {
	struct bucket all, hosts[BUDGET_HOSTS];
	uint8_t key[16]; /* random: nobody can choose whom to share a bucket with */
};

/* Those of the hosts have one share-th of that for all. */
void ripc__budget_init(struct budget *budget, uint32_t per_second, uint32_t most, uint32_t share,
		const uint64_t key[2]);
/* Is there anything left for this host? */
bool ripc__budget_has(struct budget *budget, const uint8_t host[16], uint64_t now_us);
/* Spends amount in the name of a host. False: nothing is taken. */
bool ripc__budget_spend(struct budget *budget, const uint8_t host[16], uint64_t now_us,
		uint32_t amount);

#endif
