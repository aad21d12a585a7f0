/* SPDX-License-Identifier: BSD-3-Clause */
/* What all senders to a context have in common. */
#ifndef RIPC_SHARE_H
#define RIPC_SHARE_H

#include <stdint.h>

#define LARGE_MAX      (1u << 31) /* of SHARE_LARGE, KiB */
#define UNFINISHED_MAX 4096u
#define GRANTED_MAX    64u

/* Goods that senders share; no sender may take so much that others find none (partner/share.c). */
enum share {
	SHARE_CREDIT,     /* bytes that are taken to be on their way to us */
	SHARE_SMALL,      /* of the pool, in unread messages that came in one packet, bytes */
	SHARE_LARGE,      /* of the pool, in longer ones, from their announcement, KiB */
	SHARE_UNFINISHED, /* long messages being received */
	SHARE_GRANTED,    /* those that may send now */
	SHARES
};

/* The share that a message takes; and how much of it counts as its host's and its peer's. */
struct holding {
	uint32_t all, own;
};

#endif
