/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The udp backend with a tap on its send slot: while the attack is on, packets that were sent
 * before are sent again in between, whole, cut off, with a bit flipped, or with another version.
 * It is called under the context's lock, so its state needs none.
 */
#include "hostile.h"

#include <stdlib.h>
#include <string.h>

#define REMEMBERED 64u
#define REMEMBERED_LEN 2048u /* longer ones are not remembered */

static struct {
	struct ripc__backend backend;
	const struct ripc__backend *table[2];
	atomic_bool on;
	uint64_t random;
	uint32_t n;
	uint32_t lens[REMEMBERED];
	uint8_t packets[REMEMBERED][REMEMBERED_LEN];
} tap;

static void remember(const struct ripc__tx *tx)
{
	uint32_t at = tap.n % REMEMBERED, len = 0;

	if (tx->len > REMEMBERED_LEN)
		return;
	for (uint32_t i = 0; i < tx->n_iov; i++) {
		if (tx->iov[i].iov_len)
			memcpy(tap.packets[at] + len, tx->iov[i].iov_base, tx->iov[i].iov_len);
		len += (uint32_t)tx->iov[i].iov_len;
	}
	tap.lens[at] = len;
	tap.n++;
}

static void send_again(void *port, void *peer)
{
	uint64_t random = fault_random(&tap.random);
	uint32_t at = (uint32_t)(random >> 32) % (tap.n < REMEMBERED ? tap.n : REMEMBERED);
	uint8_t bytes[REMEMBERED_LEN];
	struct iovec iov = {bytes, tap.lens[at]};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1};

	memcpy(bytes, tap.packets[at], iov.iov_len);
	switch (random % 4) {
	case 0:
		break;
	case 1:
		iov.iov_len = 1 + (random >> 8) % iov.iov_len;
		break;
	case 2:
		bytes[(random >> 8) % iov.iov_len] ^= (uint8_t)(1u << (random >> 3) % 8);
		break;
	default:
		bytes[0] = (uint8_t)(random >> 8);
	}
	tx.len = (uint32_t)iov.iov_len;
	ripc__udp_backend.datagrams.send(port, peer, &tx, 1);
}

static int tapped_send(void *port, void *peer, const struct ripc__tx *tx, uint32_t n)
{
	int sent = ripc__udp_backend.datagrams.send(port, peer, tx, n);

	for (int i = 0; i < sent; i++)
		remember(&tx[i]);
	if (atomic_load(&tap.on) && tap.n > 0)
		send_again(port, peer);
	return sent;
}

const struct ripc__backend *const *tap_backends(void)
{
	return tap.table;
}

void tap_open(uint64_t seed)
{
	tap.backend = ripc__udp_backend;
	tap.backend.datagrams.send = tapped_send;
	tap.table[0] = &tap.backend;
	tap.random = seed;
}

void tap_attack(bool on)
{
	atomic_store(&tap.on, on);
}
