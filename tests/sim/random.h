/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the simulation: xoshiro256** (Blackman and Vigna), seeded by splitmix64. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
	uint64_t state[4];
};

static inline uint64_t sim_splitmix(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline void sim_random_seed(struct sim_random *random, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		random->state[i] = sim_splitmix(&seed);
}

static inline uint64_t sim_rotate(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline uint64_t sim_next(struct sim_random *random)
{
	uint64_t *s = random->state;
	uint64_t result = sim_rotate(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = sim_rotate(s[3], 45);
	return result;
}

/* 0 <= result < n; n > 0. */
static inline uint64_t sim_below(struct sim_random *random, uint64_t n)
{
	return sim_next(random) % n;
}

/* low <= result <= high. */
static inline uint64_t sim_between(struct sim_random *random, uint64_t low, uint64_t high)
{
	return low + sim_below(random, high - low + 1);
}

/* True with a probability of n in a million. */
static inline bool sim_chance(struct sim_random *random, uint32_t per_million)
{
	return per_million > 0 && sim_below(random, 1000000) < per_million;
}

/* Each order of magnitude (by two) between low > 0 and high is equally likely. No floating
 * point, so that every compiler draws the same. */
static inline uint64_t sim_log(struct sim_random *random, uint64_t low, uint64_t high)
{
	uint64_t steps = 0, at = low;

	while (at < high / 2) {
		at *= 2;
		steps++;
	}
	at = low << sim_below(random, steps + 1);
	at = sim_between(random, at, 2 * at);
	return at < high ? at : high;
}

#endif
