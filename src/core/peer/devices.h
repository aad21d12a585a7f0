/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of a context, by which its peers are reached. */
#ifndef RIPC_DEVICES_H
#define RIPC_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/backend.h"
#include "util/map.h"

struct ripc_context;

/* ---- share ------------------------------------------------------------------------------- */

/* Shares: resources that all senders to a context have in common. */

#define LARGE_MAX      (1u << 31) /* of SHARE_LARGE and SHARE_REPLIES, KiB */
#define UNFINISHED_MAX 4096u
#define GRANTED_MAX    64u
#define MCAST_IN_MAX    4096u

/* Resources that senders share. No sender may take all (partner/partner.c). */
enum share {
	SHARE_CREDIT,     /* bytes that are taken to be on their way to us */
	SHARE_SMALL,      /* bytes of the pool in unread messages that came in one packet */
	SHARE_LARGE,      /* KiB of the pool in longer messages, from their announcement on */
	SHARE_REPLIES,    /* KiB of the pool in longer replies that are being received */
	SHARE_UNFINISHED, /* long messages being received, but replies */
	SHARE_GRANTED,    /* long messages that may send now */
	SHARE_MCAST_IN,    /* streams of groups that are remembered (group/mcast_in.c) */
	SHARES
};

/* all: what a message takes of a share; own: how much of it counts for its host and peer. */
struct quota {
	uint32_t all, own;
};

/* ---- devices ----------------------------------------------------------------------------- */

struct device {
	const struct ripc__backend *ops;
	void *port;
	struct ripc__attr attr;
	int multicast_fd;   /* of multicast.fd, since something is heard there; -1: none */
	uint8_t *blob; /* RIPC_BLOB_MAX bytes, behind the port */
	int blob_len;
};

struct ping {
	struct ping *next;
	uint64_t nonce, began_us, rtt_us;
	uint32_t n_sent;
	bool done;
};

/* The peers that a context reaches, and the devices that lead to them. */
struct peers {
	struct ripc__host host;    /* given to backends and sources */
	struct device devices[8];
	uint32_t n_devices;
	size_t route_bytes;        /* of the longest route of all devices */
	uint64_t retry_us;         /* when to try devices that failed again */
	bool any_broken;           /* a peer is broken (partner/roam.h) */
	struct ripc__map all, hosts;
	uint64_t quota[SHARES], quota_max[SHARES]; /* taken by all senders; the whole */
	struct ping *pings;
};

/* Opens all devices that can run; -ENODEV: none can; -EINVAL: an unknown backend is configured. */
int ripc__devices_open(struct ripc_context *ctx);
/* After this, devices send, read and write nothing, and no memory is registered with them. */
void ripc__devices_close(struct ripc_context *ctx);
/* Does the configuration name this backend, or none at all? */
bool ripc__backend_is_wanted(const struct ripc_context *ctx, const char *name);
/* The backend; if ops stands for a module, loads it. NULL: the module cannot be loaded. */
const struct ripc__backend *ripc__backend_get(const struct ripc_context *ctx,
		const struct ripc__backend *ops, char why[256], char remedy[256]);

#endif
