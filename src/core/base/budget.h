/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets: limits on how often an event may happen. A bucket fills with time, and each event takes
 * from it. A budget has one bucket for all hosts together, and smaller ones for single hosts, so
 * that no host takes all.
 */
#ifndef RIPC_BUDGET_H
#define RIPC_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define BUDGET_HOSTS 64u /* hosts whose addresses have the same hash share a bucket */

struct bucket {
	uint64_t filled_us;
	int64_t tokens; /* below 0: more tokens were taken than the bucket had */
	uint32_t per_second, most;
};

void ripc__bucket_init(struct bucket *bucket, uint32_t per_second, uint32_t most);
/* Takes one token. False: the bucket is empty. */
bool ripc__bucket_take(struct bucket *bucket, uint64_t now_us);
/* Takes amount if the bucket is not empty; tokens may go below 0. False: the bucket is empty. */
bool ripc__bucket_spend(struct bucket *bucket, uint64_t now_us, uint32_t amount);

struct budget {
	struct bucket all, hosts[BUDGET_HOSTS];
	uint8_t key[16]; /* random: no host can choose with which hosts it shares a bucket */
};

/* The bucket of a host has one share-th of per_second and most. */
void ripc__budget_init(struct budget *budget, uint32_t per_second, uint32_t most, uint32_t share,
		const uint64_t key[2]);
/* Are tokens left for this host? */
bool ripc__budget_has(struct budget *budget, const uint8_t host[16], uint64_t now_us);
/* Spends amount in the name of a host. False: nothing is taken. */
bool ripc__budget_spend(struct budget *budget, const uint8_t host[16], uint64_t now_us,
		uint32_t amount);

#endif
