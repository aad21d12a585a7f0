/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buckets and budgets: limits on the work that outsiders can cause, all together and each host.
 */
#include "budget.h"
#include "util/hash/siphash.h"

#include <string.h>


void ripc__bucket_init(struct bucket *bucket, uint32_t per_second, uint32_t most)
{
	*bucket = (struct bucket){.tokens = most, .per_second = per_second, .most = most};
}

static void fill(struct bucket *bucket, uint64_t now_us)
{
	uint64_t since = now_us > bucket->filled_us ? now_us - bucket->filled_us : 0;
	uint64_t us_per_token = 1000000u / bucket->per_second;
	uint64_t more = since / us_per_token;

	if (more >= (uint64_t)((int64_t)bucket->most - bucket->tokens)) {
		bucket->tokens = bucket->most;
		bucket->filled_us = now_us > bucket->filled_us ? now_us : bucket->filled_us;
	} else {
		bucket->tokens += (int64_t)more;
		bucket->filled_us += more * us_per_token;
	}
}

bool ripc__bucket_spend(struct bucket *bucket, uint64_t now_us, uint32_t amount)
{
	fill(bucket, now_us);
	if (bucket->tokens <= 0)
		return false;
	bucket->tokens -= amount;
	return true;
}

bool ripc__bucket_take(struct bucket *bucket, uint64_t now_us)
{
	return ripc__bucket_spend(bucket, now_us, 1);
}

void ripc__budget_init(struct budget *budget, uint32_t per_second, uint32_t most, uint32_t share,
		const uint64_t key[2])
{
	ripc__bucket_init(&budget->all, per_second, most);
	for (uint32_t i = 0; i < BUDGET_HOSTS; i++)
		ripc__bucket_init(&budget->hosts[i], per_second / share, most / share);
	memcpy(budget->key, key, sizeof(budget->key));
}

static struct bucket *bucket_of(struct budget *budget, const uint8_t host[16])
{
	return &budget->hosts[ripc__siphash(budget->key, host, 16) % BUDGET_HOSTS];
}

bool ripc__budget_has(struct budget *budget, const uint8_t host[16], uint64_t now_us)
{
	struct bucket *own = bucket_of(budget, host);

	fill(own, now_us);
	fill(&budget->all, now_us);
	return own->tokens > 0 && budget->all.tokens > 0;
}

bool ripc__budget_spend(struct budget *budget, const uint8_t host[16], uint64_t now_us,
		uint32_t amount)
{
	struct bucket *own = bucket_of(budget, host);

	fill(own, now_us);
	if (own->tokens <= 0 || !ripc__bucket_spend(&budget->all, now_us, amount))
		return false;
	own->tokens -= amount;
	return true;
}
