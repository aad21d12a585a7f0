/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares: goods that all senders to a context have in common. */
#ifndef RIPC_SHARE_H
#define RIPC_SHARE_H

#include <stdint.h>

#define LARGE_MAX      (1u << 31) /* of SHARE_LARGE and SHARE_REPLIES, KiB */
#define UNFINISHED_MAX 4096u
#define GRANTED_MAX    64u
#define STREAMS_MAX    4096u

/* Goods that senders share. No sender may take all (partner/partner.c). */
enum share {
	SHARE_CREDIT,     /* bytes that are taken to be on their way to us */
	SHARE_SMALL,      /* bytes of the pool in unread messages that came in one packet */
	SHARE_LARGE,      /* KiB of the pool in longer messages, from their announcement on */
	SHARE_REPLIES,    /* KiB of the pool in longer replies that are being received */
	SHARE_UNFINISHED, /* long messages being received, but replies */
	SHARE_GRANTED,    /* long messages that may send now */
	SHARE_STREAMS,    /* streams of groups that are remembered (group/heard.c) */
	SHARES
};

/* all: what a message takes of a share; own: how much of it counts for its host and peer. */
struct holding {
	uint32_t all, own;
};

#endif
