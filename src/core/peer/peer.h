/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: remote contexts, each with one route and one flow; and the hosts where they were met. */
#ifndef RIPC_PEER_H
#define RIPC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moves.h"
#include "share.h"

struct candidate;
struct ripc__addr;
struct ripc_context;

#define UNASKED_BYTES      65536u /* of a long message that may come unasked (protocol.md) */

/* A remote machine, or an IPv6 network: how many partners were met there. */
struct host {
	uint64_t key;        /* in ctx->hosts */
	uint32_t partners;   /* references */
	uint64_t held[SHARES]; /* by its peers together */
};

/* The bytes of long messages that come from a peer over the network (window.c). */
struct flow {
	uint32_t window_before; /* before the last cut, which may prove wrong */
	uint32_t epoch_got, epoch_lost; /* bytes, since the loss was last measured */
	uint32_t round_min_us, round_bytes; /* of this round: shortest round trip, what came */
	uint32_t rate;       /* that came, the most of the last rounds, bytes in a millisecond */
	uint32_t queue_us;   /* on the way in the last round, or before the test, at least */
	uint32_t cubic_most, cubic_us; /* RFC 9438's W_max, and when its time began; wraps */
	uint32_t paced_us;   /* until when granted bytes take the path; wraps */
	uint32_t round_us, phase_us; /* when the round, the test began; a rival's: ends; wrap */
	uint32_t cut_us;     /* when the window was last cut; wraps */
	uint16_t cubic_ms;   /* is_cubic: K, after so long the window is W_max again */
	uint8_t calm;        /* rounds without a queue */
};

/* A remote context: route and flow, shared by all partners that live there. */
struct peer {
	struct host *host;   /* where it was met */
	uint64_t key;        /* in ctx->peers: of its context, and the host where it was met */
	uint64_t context;    /* its incarnation */
	uint32_t held[SHARES];
	uint32_t partners;   /* references */
	uint8_t device;      /* index into ctx->devices */
	uint8_t proofs : 4;  /* that a lossy path reorders, among these cuts */
	uint8_t reorder : 4; /* 0: gaps are losses; else patience: srtt << reorder / 4 */
	uint8_t failed;      /* bit i: devices[i] has */
	bool broken : 1;     /* its device has, and nothing has taken its place */
	bool opening : 1;    /* its device is still making the route: nothing is sent */
	bool slow_start : 1;
	bool gone : 1;       /* its end is proven (death.c) */
	bool hinted : 1;     /* somebody says that it has ended, so it is asked (hint.c) */
	bool is_testing : 1; /* whose queue it is on the way (window.c) */
	bool has_rival : 1;  /* somebody else's */
	bool is_cubic : 1;   /* it grows as CUBIC */
	uint8_t cuts;        /* since the path last proved to reorder */
	uint8_t silences;    /* in a row on a lossy path, for which the window was not cut */
	uint16_t datagram;   /* bytes of datagram used for bulk to it */
	uint16_t loss;       /* share of bytes lost, in 1/1024 */
	uint16_t reading_us; /* that it lately took to read a message of ours; 0: not measured */
	uint8_t left, why;   /* device that failed last, plus 1, until it is back; its errno */
	uint32_t srtt_us, rttvar_us, rtt_min_us; /* 0: not measured */
	uint32_t stamp, stamp_us; /* its last stamp, and when that came (path.h); 0: none */
	uint32_t window;     /* bytes that may be in flight from it to us */
	uint32_t in_flight;  /* that are taken to be */
	uint32_t arrived_us; /* when bytes of a long message last came from it; wraps */
	uint32_t shrunk_us;  /* when large datagrams were found to vanish; wraps; 0: they do not */
	uint32_t heard, sounded; /* it last said something but shorts, was last asked whether it is
	                            there; in 1,024 us; wrap */
	uint32_t failed_us;  /* the device last failed, changed, was tried again; wraps; 0: never */
	struct flow *flow;   /* NULL: nothing has come or was lost yet */
	struct candidate *candidate; /* a new route, being proven; usually NULL */
	_Alignas(8) char route[];    /* the backend's */
};

/* One number for all addresses that count as one host. */
uint64_t ripc__host_key(const struct ripc_context *ctx, const struct ripc__addr *addr);
/* NULL: nobody was met there. */
struct host *ripc__host_find(struct ripc_context *ctx, const struct ripc__addr *addr);
/*
 * The peer of a context that was met at an address: one reference more. -ENOMEM; -ENETDOWN,
 * -EHOSTUNREACH: the network makes no route there.
 */
int ripc__peer_get(struct ripc_context *ctx, uint8_t device_index, uint64_t context,
		const struct ripc__addr *addr, struct peer **peer);
void ripc__peer_put(struct ripc_context *ctx, struct peer *peer);
size_t ripc__peers_bytes(struct ripc_context *ctx);

/* Where something is read or written. */
static inline struct remote ripc__peer_remote(const struct peer *peer)
{
	return (struct remote){peer->host->key, peer->key};
}

#endif
