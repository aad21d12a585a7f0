/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a fuzz input as a sequence of choices: where they end all choices are 0. And which
 * descriptors the process holds, to see that a run gives them back.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <poll.h>
#include <stdbool.h>

#include "fuzz.h"

struct input {
	const uint8_t *at, *end;
};

static inline bool input_ends(const struct input *input)
{
	return input->at == input->end;
}

static inline uint8_t input8(struct input *input)
{
	return input_ends(input) ? 0 : *input->at++;
}

static inline uint32_t input16(struct input *input)
{
	uint32_t low = input8(input);

	return low | (uint32_t)input8(input) << 8;
}

/* Takes up to max bytes; returns how many. */
static inline size_t input_bytes(struct input *input, size_t max, const uint8_t **bytes)
{
	size_t left = (size_t)(input->end - input->at);
	size_t len = left < max ? left : max;

	*bytes = input->at;
	input->at += len;
	return len;
}

/* A number where lengths and offsets go wrong: small, at a power of two, at the very end. */
static inline uint64_t input_number(struct input *input)
{
	uint8_t kind = input8(input);

	switch (kind % 5) {
	case 0:
		return input8(input);
	case 1:
		return input16(input);
	case 2:
		return (uint64_t)input16(input) << kind / 5;
	case 3:
		return ((uint64_t)1 << kind % 64) - 1 + input8(input) % 3;
	default:
		return UINT64_MAX - input8(input);
	}
}

/* ---- descriptors ------------------------------------------------------------------------- */

#define FUZZ_FDS 48

/* Bit i: descriptor i is open. Memory is the sanitizers' to watch. */
static inline uint64_t open_fds(void)
{
	struct pollfd fds[FUZZ_FDS];
	uint64_t open = 0;

	for (int i = 0; i < FUZZ_FDS; i++)
		fds[i] = (struct pollfd){.fd = i};
	CLAIM(poll(fds, FUZZ_FDS, 0) >= 0);
	for (int i = 0; i < FUZZ_FDS; i++)
		open |= (uint64_t)!(fds[i].revents & POLLNVAL) << i;
	return open;
}

#endif
