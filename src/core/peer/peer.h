/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: remote contexts, each with one route and one flow; and the hosts where they were met. */
#ifndef RIPC_PEER_H
#define RIPC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/wire/wire.h"
#include "devices.h"

struct candidate;
struct follow;
struct inquiry;
struct ripc__answer;

#define UNASKED_BYTES      65536u /* of a long message that may be sent unasked (protocol.md) */

/* A remote machine, or an IPv6 network: how many partners were met there. */
struct host {
	uint64_t key;        /* in ctx->peers.hosts */
	uint32_t partners;   /* references */
	uint64_t quota[SHARES]; /* by its peers together */
};

/* The bytes of long messages that arrive from a peer over the network (window.c). */
struct flow {
	uint32_t window_before; /* before the last cut, which may prove wrong */
	uint32_t epoch_got, epoch_lost; /* bytes, since the loss was last measured */
	uint32_t round_min_us, round_bytes; /* of this round: shortest round trip, what came */
	uint32_t rate;       /* most bytes that came in a millisecond, of the last rounds */
	uint32_t queue_us;   /* least queue on the way in the last round, or before the test */
	uint32_t cubic_most, cubic_us; /* RFC 9438's W_max, and when its time began; wraps */
	uint32_t paced_us;   /* until when granted bytes occupy the path; wraps */
	uint32_t round_us, phase_us; /* when the round, the test began; a rival's: ends; wrap */
	uint32_t cut_us;     /* when the window was last cut; wraps */
	uint16_t cubic_ms;   /* is_cubic: K, after so long the window is W_max again */
	uint8_t calm;        /* rounds without a queue */
};

/* A remote context: route and flow, shared by all partners that live there. */
struct peer {
	struct host *host;   /* where the peer was met */
	uint64_t key;        /* in ctx->peers.all: made of its context and host */
	uint64_t context;    /* its incarnation */
	uint32_t quota[SHARES];
	uint32_t partners;   /* references */
	uint8_t device;      /* index into ctx->peers.devices */
	uint8_t proofs : 4;  /* proofs, since cuts was 0, that a lossy path reorders */
	uint8_t reorder : 4; /* 0: gaps are losses; else patience: srtt << reorder / 4 */
	uint8_t failed;      /* bit i: devices[i] has failed */
	bool broken : 1;     /* its device has failed, and none has taken its place */
	bool opening : 1;    /* the device is still making the route: nothing is sent */
	bool slow_start : 1;
	bool gone : 1;       /* its end is proven (partner/death.c) */
	bool unreached : 1;  /* its network did not accept packets (partner/roam.c) */
	bool is_testing : 1; /* a test: is the queue on the way ours? (window.c) */
	bool has_rival : 1;  /* the queue is that of other traffic */
	bool is_cubic : 1;   /* the window grows as CUBIC */
	uint8_t cuts;        /* cuts of the window since the path last proved to reorder */
	uint8_t silences;    /* in a row on a lossy path, for which the window was not cut */
	uint16_t datagram;   /* bytes of datagrams used for bulk to the peer */
	uint16_t loss;       /* share of bytes lost, in 1/1024 */
	uint16_t reading_us; /* time that it lately took to read a message of ours; 0: not known */
	uint8_t left, why;   /* device that failed last, plus 1, until it is back; its errno */
	uint32_t srtt_us, rttvar_us, rtt_min_us; /* 0: not measured */
	uint32_t stamp, stamp_us; /* its last stamp, and when that arrived (see below); 0: none */
	uint32_t window;     /* bytes that may be in flight from the peer to us */
	uint32_t in_flight;  /* bytes that are taken to be in flight */
	uint32_t arrived_us; /* when bytes of a long message last came from it; wraps */
	uint32_t shrunk_us;  /* when large datagrams were found to vanish; wraps; 0: they do not */
	uint32_t heard, sounded; /* when the peer last sent anything but shorts, and was last
	                            asked whether it is there; in 1,024 us; wrap */
	uint32_t unanswered, host_asked; /* when the peer was first so asked since it was heard,
	                            and its host last; in 1,024 us; wrap */
	uint32_t failed_us;  /* when a device last failed, changed, was tried; wraps; 0: never */
	struct inquiry *inquiry; /* after a failure hint (partner/death.c); or NULL */
	struct flow *flow;   /* NULL: nothing has arrived or was lost yet */
	struct candidate *candidate; /* a new route that is being proven; usually NULL */
	struct follow *follow;  /* perhaps its address has changed: it is queried; usually NULL */
	_Alignas(16) char route[];   /* the backend's */
};

/* One number for all addresses that count as one host. */
uint64_t ripc__host_key(const struct ripc_context *ctx, const struct ripc__addr *addr);
/* NULL: no partner was met there. */
struct host *ripc__host_find(struct ripc_context *ctx, const struct ripc__addr *addr);
/*
 * The peer of a context that was met at an address: one reference more. -ENOMEM; -ENETDOWN,
 * -EHOSTUNREACH: the network makes no route there.
 */
int ripc__peer_get(struct ripc_context *ctx, struct device *device, uint64_t context,
		const struct ripc__addr *addr, struct peer **peer);
void ripc__peer_put(struct ripc_context *ctx, struct peer *peer);
size_t ripc__peers_bytes(struct ripc_context *ctx);

/* Has the peer sent nothing since it was last queried whether it is there? */
static inline bool ripc__peer_is_sounded(const struct peer *peer)
{
	return peer->sounded && (!peer->heard || (int32_t)(peer->sounded - peer->heard) > 0);
}

/* Notes that the peer is queried now. */
void ripc__peer_sounded(const struct ripc_context *ctx, struct peer *peer);

/* ---- path -------------------------------------------------------------------------------- */

/*
 * The path to a peer as it was measured, and the times and sizes that follow: round trips,
 * repetition times, the size of datagrams.
 */

#define TICK_US            10000u
#define PIECES_MAX         4096u  /* pieces of a message behind bytes that are missing */
#define RTO_MIN_US         500u
#define BACK_OFF_MAX_US    1000000u /* a doubled wait is at most this, and ripc__wait_most_us() */
#define RTO_MAX_US         250000u  /* a repetition time is at most this, and ripc__rto_most_us() */
#define RTO_FIRST_US       3000u
#define READING_MAX_US     50000u  /* a longer reading counts as this long */
#define DATAGRAM_BASE      1232u  /* passes everywhere: IPv6's least MTU minus headers */
#define DATAGRAM_BULK      32500u /* larger ones gain nothing: two fill an offload batch */

/* The longest datagram that passes everywhere: a seal takes its part. */
static inline uint32_t ripc__datagram_base(const struct ripc_context *ctx)
{
	return ctx->seal ? DATAGRAM_BASE - SEALED_BYTES : DATAGRAM_BASE;
}

static inline struct device *ripc__peer_device(struct ripc_context *ctx, const struct peer *peer)
{
	return &ctx->peers.devices[peer->device];
}

/* Does the peer's route lead over this device to the address? */
static inline bool ripc__peer_is_at(struct ripc_context *ctx, const struct peer *peer,
		const struct device *device, const struct ripc__addr *addr)
{
	return ripc__peer_device(ctx, peer) == device &&
		device->ops->route.matches(device->port, peer->route, addr);
}

/* Are datagrams to the peer not lost while it lives? */
static inline bool ripc__peer_is_reliable(struct ripc_context *ctx, const struct peer *peer)
{
	return ripc__peer_device(ctx, peer)->attr.caps & RIPC_CAP_RELIABLE;
}

static inline bool ripc__is_intact(const struct device *device)
{
	return device->attr.caps & RIPC_CAP_INTACT;
}

/* The place that the peer's route leads to; all 0 if its network does not tell. */
struct ripc__where ripc__peer_where(const struct ripc_context *ctx, const struct peer *peer);

/* Adds the checksum of an encoded prefix, if the device needs one. */
static inline void ripc__put_crc(const struct device *device, void *prefix, size_t len,
		uint32_t crc)
{
	if (!ripc__is_intact(device))
		wire_checksum(prefix, len, crc);
}

/*
 * Stamps measure round trips beyond doubt, even where packets were repeated: a packet returns its
 * receiver's last stamp, and how long ago that stamp came (protocol.md, round trips). The first
 * function puts stamps into a packet that leaves, the second takes them from a packet that came.
 * Both read the clock anew, once for a packet.
 */
void ripc__stamps_put(const struct ripc_context *ctx, const struct peer *peer,
		struct wire_packet *packet);
void ripc__stamps_take(const struct ripc_context *ctx, struct peer *peer,
		const struct wire_packet *packet);
/* Takes the echo of a DATA packet: once per look at the port is enough. */
void ripc__data_echo_take(const struct ripc_context *ctx, struct peer *peer, uint32_t echo);
void ripc__peer_rtt(struct peer *peer, uint64_t sample_us);
/* The peer has read a message of ours; took_us: the time since the announcement. */
void ripc__peer_has_read(struct peer *peer, uint64_t took_us);
uint32_t ripc__peer_rto(const struct ripc_context *ctx, const struct peer *peer);
/*
 * How long a receiver waits: for the first bytes, after the last ones, for a gap that it has
 * requested, and for a repeated announcement. Long enough for a long path if no round trip is
 * known.
 */
uint32_t ripc__peer_patience(const struct ripc_context *ctx, const struct peer *peer);
/* Bounds wait_us: several waits must fit into the time before a partner is given up. */
uint32_t ripc__wait_bound(const struct ripc_context *ctx, uint32_t wait_us);
/* The wait after one without response: twice as long, within its bounds. */
uint32_t ripc__back_off(const struct ripc_context *ctx, uint32_t wait_us);
uint32_t ripc__peer_payload(struct ripc_context *ctx, struct peer *peer);

/* ---- route ------------------------------------------------------------------------------- */

/* Routes: the device and the address of a peer. partner/roam.h decides when they change. */

#define RETRY_US 5000000u /* a better device is tried again after so long */

static inline uint32_t ripc__device_index(const struct ripc_context *ctx,
		const struct device *device)
{
	return (uint32_t)(device - ctx->peers.devices);
}

static inline uint8_t ripc__device_bit(const struct ripc_context *ctx, const struct device *device)
{
	return (uint8_t)(1u << ripc__device_index(ctx, device));
}

/*
 * The peer that an answer names, by the best device with a route: one reference more. Devices
 * that refuse are tried again later. -ENOMEM; the error of the best device; -EHOSTUNREACH: no
 * device fits.
 */
int ripc__route_find(struct ripc_context *ctx, const struct ripc__answer *answer,
		struct peer **peer);
/* The peer's route leads nowhere (why: the device's negative errno), or nothing arrives by it. */
void ripc__route_failed(struct ripc_context *ctx, struct peer *peer, int why);
/* No other device fits: a device that lacks a descriptor now stays in use. */
void ripc__route_stays(struct peer *peer);
/* Sending failed with why (0 or a negative errno): returns the callers' error; marks the route. */
int ripc__transmit_failed(struct ripc_context *ctx, struct peer *peer, int why);

/* Fills in address number at of the answer, if the device can reach it. */
bool ripc__route_named(const struct device *device, const struct ripc__answer *answer, uint32_t at,
		struct ripc__addr *addr);
/* The best route to the partner that answered, over devices below end that have not failed. */
struct device *ripc__route_choose(struct ripc_context *ctx, uint8_t failed, uint32_t end,
		const struct ripc__answer *answer, struct ripc__addr *addr);
/* Does a datagram from this address come from the end of a route to that address? */
bool ripc__route_same(struct device *device, const struct ripc__addr *to,
		const struct ripc__addr *from);
/* From now on the peer is reached by device at addr. The device's error, or -ENOBUFS. */
int ripc__route_change(struct ripc_context *ctx, struct peer *peer, struct device *device,
		const struct ripc__addr *addr);
/* A device that is better than the one in use has failed just now: tried again after RETRY_US. */
void ripc__route_failed_now(const struct ripc_context *ctx, struct peer *peer);

/* ---- timing ------------------------------------------------------------------------------ */

/*
 * All times that follow from how long a partner may fail to respond (peer_timeout_ms). Only time
 * in which we could receive from the partner counts: a timer that fires late shows that this
 * process, or the machine, was stopped for so long.
 */

#define HINTED_US 250000u
#define DOUBTED_US 60000u
#define LEAP_US 250000u /* if a timer is later than this, we were stopped, not only busy */

/* A partner is given up after this long without a response about a message. */
static inline uint64_t ripc__silence_us(const struct ripc_context *ctx)
{
	return 1000ull * ctx->cfg.peer_timeout_ms;
}

/* After this long without a response another network is tried. */
static inline uint64_t ripc__silence_of_route_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 4;
}

/* After this long without a response a partner is queried whether it is still at its address. */
static inline uint64_t ripc__silence_of_address_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 64;
}

/* After this long a write, or a read not begun, is given up, and the bytes are sent. */
static inline uint64_t ripc__silence_of_move_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 8;
}

/* A read that has begun, or that waits for its checksum, may make no progress for this long. */
static inline uint64_t ripc__silence_of_read_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 2;
}

/* The longest wait between two repetitions: several must fit into ripc__silence_us(). */
static inline uint64_t ripc__wait_most_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 8;
}

/* The longest repetition time; a partner that did not respond for this long may have gone. */
static inline uint64_t ripc__rto_most_us(const struct ripc_context *ctx)
{
	return ripc__silence_us(ctx) / 16;
}

/* After a failure hint the peer is queried eight times, and is given up after this long. */
static inline uint64_t ripc__silence_of_hinted_us(const struct peer *peer)
{
	uint64_t trips = 3ull * (peer->srtt_us + 4ull * peer->rttvar_us);

	return trips > HINTED_US ? trips : HINTED_US;
}

/* If a partner does not answer a query for this long, its host is queried. */
static inline uint64_t ripc__silence_of_doubted_us(const struct peer *peer)
{
	uint64_t trips = 2ull * (peer->srtt_us + 4ull * peer->rttvar_us);

	return trips > DOUBTED_US ? trips : DOUBTED_US;
}

/*
 * heard_us, from which the time without response counts: moved on by the delay of a timer that
 * fired so late that this process must have been stopped.
 */
static inline uint64_t ripc__heard_us(const struct ripc_context *ctx,
		const struct ripc__timer *fired, uint64_t heard_us)
{
	uint64_t late = ctx->now_us - fired->at_us;

	if (ctx->now_us < fired->at_us || late < LEAP_US)
		return heard_us;
	return heard_us + late < ctx->now_us ? heard_us + late : ctx->now_us;
}

#endif
