/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window: how much may be in flight from a peer to us, derived from arrivals and losses
 * (docs/protocol.md, *Congestion*; docs/notes/congestion-measurements.md has the measurements).
 *
 * Design notes. Time is counted in rounds of a smoothed round trip. The queue on the way is the
 * difference between the shortest round trip of a round and the shortest of all. If the queue is
 * longer than QUEUE_US, the window is cut to what the path holds without a queue, for a test. If
 * the queue vanishes, it was ours, and the window then leaves half of it. If the queue stays,
 * other traffic fills it, and for RIVAL_ROUNDS the window follows losses alone, as TCP's does.
 * Otherwise a sender that avoids queues would get nothing beside one that does not.
 *
 * Published parts: the window doubles at first, and grows by a datagram under a queue (Jacobson,
 * Congestion Avoidance and Control, SIGCOMM 1988; RFC 5681); on long paths it grows, and is cut, as
 * CUBIC's (RFC 9438). The other rules are our own: docs/notes/congestion.md has their reasons, and
 * the published algorithms that resemble them.
 */
#include <stdlib.h>

#include "peer.h"
#include "window.h"

#define WINDOW_MIN  (8 * DATAGRAM_BASE)
#define QUEUEING_US 1000u /* a full window that waits only for its receiver takes so long */
#define LOSS_MOST   550u  /* of 1024: more is congestion, even without a queue */
#define LOSS_BYTES  65536u /* of fewer bytes the share would be chance */
#define SILENCES_MOST 4u  /* in a row on such a path: unlikely to be all lost by chance */
#define PROOFS_MOST 4u    /* that such a path reorders: needless requests are common there */
#define REORDER_MOST   3u /* patience ends at two round trips */
#define CUTS_TO_FORGET 16u
#define FAR_US      2000u /* a path with a longer round trip is long */
#define PACE_AHEAD_US 1000000 /* further ahead: of a clock that has wrapped */
#define BURSTS      8u      /* at least this many in a round trip */
#define QUEUE_US    25000u
#define RIVAL_ROUNDS 24u
#define RIVAL_US    3000000u /* after this, or a third of the rounds, the rival may have gone */
#define CALM_ROUNDS  64u
#define CUBIC_C      869     /* bytes in a cubic second: 0.6 times 1,448, half more than CUBIC's */
#define CUBIC_MAX_MS 60000

/* Begins the flow with the first bytes. False: no memory, and the window stays as it is. */
static bool flow_begin(struct peer *peer)
{
	if (!peer->flow)
		peer->flow = calloc(1, sizeof(*peer->flow));
	return peer->flow;
}

static bool is_far(const struct peer *peer)
{
	return peer->rtt_min_us >= FAR_US;
}

/*
 * Do bytes, ours or others', wait in a queue on the way? On a long path only the shortest round
 * trip of a round tells: some are longer because a processor had other things to do.
 */
static bool is_queueing(const struct peer *peer)
{
	if (is_far(peer))
		return peer->flow->queue_us > peer->rtt_min_us / 16 + 2 * QUEUEING_US;
	return peer->srtt_us > 2 * peer->rtt_min_us + QUEUEING_US;
}

/* The same for the round that is not over yet: a window that doubles then ends in time. */
static bool is_filled(const struct peer *peer)
{
	return is_queueing(peer) || (is_far(peer) && peer->flow->round_bytes > peer->window / 4 &&
		peer->flow->round_min_us > peer->rtt_min_us + peer->rtt_min_us / 8 + QUEUEING_US);
}

/* The bytes that arrive in a round trip without a queue: the path holds them. */
static uint64_t holds(const struct peer *peer)
{
	return (uint64_t)peer->flow->rate * peer->rtt_min_us / 1000;
}

/*
 * Is more under way than a long path holds? A queue that is overrun within one round, for
 * example by a window that doubles, does not show in the shortest round trip.
 */
static bool is_overfilled(const struct peer *peer)
{
	return is_far(peer) && peer->window > holds(peer) + holds(peer) / 16;
}

/* ---- rounds ------------------------------------------------------------------------------ */

/* The share of bytes that get lost, smoothed over some round trips, in 1/1024. */
static void loss_measure(struct peer *peer)
{
	uint64_t all = (uint64_t)peer->flow->epoch_got + peer->flow->epoch_lost;
	int64_t share = all ? (int64_t)(1024ull * peer->flow->epoch_lost / all) : 0;

	if (all < LOSS_BYTES)
		return;
	peer->loss = (uint16_t)(peer->loss + (share - peer->loss) / 4);
	peer->flow->epoch_got = peer->flow->epoch_lost = 0;
}

static void window_set(struct peer *peer, uint64_t window)
{
	window = window > WINDOW_MIN ? window : WINDOW_MIN;
	peer->window = window < WINDOW_MAX ? (uint32_t)window : WINDOW_MAX;
}

/* ---- as CUBIC ---------------------------------------------------------------------------- */

static uint16_t cube_root(uint64_t of)
{
	uint64_t root = 0;

	for (uint64_t bit = 1 << 15; bit; bit >>= 1) {
		uint64_t next = root | bit;

		if (next * next * next <= of)
			root = next;
	}
	return (uint16_t)root;
}

/* The window grows as CUBIC from now on, and will be most bytes again after some time. */
static void cubic_begin(const struct ripc_context *ctx, struct peer *peer, uint32_t most)
{
	uint64_t deficit = most > peer->window ? most - peer->window : 0;

	if (!is_far(peer))
		return;
	peer->is_cubic = true;
	peer->flow->cubic_most = most;
	peer->flow->cubic_us = (uint32_t)ctx->now_us;
	peer->flow->cubic_ms = cube_root(deficit * 1000000000 / CUBIC_C);
	peer->flow->calm = 0;
}

/* The wanted window after the next round. */
static int64_t cubic_target(const struct ripc_context *ctx, const struct peer *peer)
{
	int64_t ms = ((uint32_t)ctx->now_us - peer->flow->cubic_us + peer->srtt_us) / 1000;

	ms -= peer->flow->cubic_ms;
	ms = ms < CUBIC_MAX_MS ? ms : CUBIC_MAX_MS;
	return peer->flow->cubic_most + ms * ms * ms / 1000 * CUBIC_C / 1000000;
}

/*
 * The growth of the window in a round trip. Near: a sixteenth if there is no queue; if there is
 * one, a datagram, as TCP's (Jacobson, 1988), or, where that would take minutes, as CUBIC's, on
 * the mean. Far: an eighth, until there is a queue.
 */
static uint32_t step_of(const struct ripc_context *ctx, const struct peer *peer)
{
	int64_t more = is_far(peer) ? peer->window / 8 :
		peer->window / (is_queueing(peer) ? 512 : 16);

	if (peer->is_cubic && cubic_target(ctx, peer) - peer->window < more)
		more = cubic_target(ctx, peer) - peer->window;
	return more > DATAGRAM_BASE ? (uint32_t)more : DATAGRAM_BASE;
}

static void cubic_step(const struct ripc_context *ctx, struct peer *peer)
{
	if (is_queueing(peer) && !peer->is_cubic && !peer->slow_start)
		cubic_begin(ctx, peer, peer->window);
	peer->flow->calm = is_queueing(peer) ? 0 : peer->flow->calm + 1;
	if (peer->flow->calm == CALM_ROUNDS)
		peer->is_cubic = false;
}

/* ---- a rival's queue --------------------------------------------------------------------- */

/*
 * The part of the window before the test that fills the path and a queue of queue_us. The rate
 * of arrivals is an upper bound, because a growing queue is longer than the last round has
 * shown.
 */
static uint64_t with_queue(const struct peer *peer, uint32_t queue_us)
{
	uint64_t had_us = (uint64_t)peer->rtt_min_us + peer->flow->queue_us;
	uint64_t us = (uint64_t)peer->rtt_min_us + queue_us;
	uint64_t part = peer->flow->window_before * us / had_us;
	uint64_t came = peer->flow->rate * us / 1000;

	came = came > part / 4 ? came : part / 4; /* less came if there was less to send */
	return part < came ? part : came;
}

/* If there is a rival, half of the window is enough for a test, and less is given away. */
static void test_begin(const struct ripc_context *ctx, struct peer *peer)
{
	uint64_t least = peer->has_rival ? peer->window / 2 : 0, part;

	peer->is_testing = true;
	peer->slow_start = false;
	peer->flow->phase_us = (uint32_t)ctx->now_us;
	peer->flow->window_before = peer->window;
	part = with_queue(peer, 0);
	window_set(peer, part > least ? part : least);
}

/* The window is what it was before the test, and follows losses alone for a while. */
static void rival_begin(const struct ripc_context *ctx, struct peer *peer)
{
	uint64_t rounds_us = (uint64_t)RIVAL_ROUNDS * peer->srtt_us;
	uint64_t most_us = rounds_us / 3 > RIVAL_US ? rounds_us / 3 : RIVAL_US;

	peer->has_rival = true;
	peer->flow->phase_us = (uint32_t)(ctx->now_us +
		(rounds_us < most_us ? rounds_us : most_us));
	window_set(peer, peer->flow->window_before);
}

/*
 * Our share of the link is fell_us of most_us. The latter is the fall of the queue if all of it
 * were ours. With a share below a half the window grows as after a cut from the window that
 * would fill the link alone, which is assumed to be four times ours at most.
 */
static void rival_catch_up(const struct ripc_context *ctx, struct peer *peer, uint64_t fell_us,
		uint64_t most_us)
{
	if (fell_us >= most_us / 2)
		return;
	cubic_begin(ctx, peer, fell_us <= most_us / 4 ? 4 * peer->window :
		(uint32_t)(peer->window * most_us / fell_us));
}

/* If the window could not be made smaller, its queue is expected. */
static void test_end(const struct ripc_context *ctx, struct peer *peer, uint32_t queue_us)
{
	uint64_t had_us = peer->flow->queue_us, with_us = peer->rtt_min_us + had_us;
	uint64_t least_us = with_us * peer->window / peer->flow->window_before;
	uint64_t most_us = with_us - (least_us > peer->rtt_min_us ? least_us : peer->rtt_min_us);
	uint64_t fell_us = queue_us < had_us ? had_us - queue_us : 0;

	peer->is_testing = false;
	if (fell_us + (peer->has_rival ? most_us : had_us) / 3 >= most_us) {
		peer->has_rival = false;
		window_set(peer, with_queue(peer, QUEUE_US / 2));
		cubic_begin(ctx, peer, peer->window);
		return;
	}
	rival_begin(ctx, peer);
	rival_catch_up(ctx, peer, fell_us, most_us);
}

/* A loss makes others give way, too: if the queue then vanishes, that proves nothing. */
static void test_stop(const struct ripc_context *ctx, struct peer *peer)
{
	peer->is_testing = false;
	if (peer->has_rival)
		rival_begin(ctx, peer);
	else
		window_set(peer, peer->flow->window_before);
}

/* The path is in one of three phases: a test, a rival's queue, or growth as usual. */
static void phase_step(const struct ripc_context *ctx, struct peer *peer, uint32_t queue_us)
{
	uint32_t since_us = (uint32_t)ctx->now_us - peer->flow->phase_us;

	if (peer->is_testing) {
		/* The bytes that were sent before the test must have arrived. */
		if (since_us > peer->rtt_min_us + peer->flow->queue_us + peer->srtt_us)
			test_end(ctx, peer, queue_us);
		return;
	}
	peer->flow->queue_us = queue_us;
	if (peer->has_rival && (int32_t)since_us <= 0)
		return;
	if (queue_us > QUEUE_US && peer->window > WINDOW_MIN)
		test_begin(ctx, peer);
	else
		peer->has_rival = false;
}

static void round_end(const struct ripc_context *ctx, struct peer *peer)
{
	uint32_t took_us = (uint32_t)ctx->now_us - peer->flow->round_us;
	uint64_t rate = took_us ? 1000ull * peer->flow->round_bytes / took_us : 0;

	peer->flow->rate -= peer->flow->rate / 16;
	if (rate > peer->flow->rate)
		peer->flow->rate = (uint32_t)rate;
	peer->flow->round_us = (uint32_t)ctx->now_us;
	peer->flow->round_bytes = 0;
	loss_measure(peer);
	if (peer->flow->round_min_us)
		phase_step(ctx, peer, peer->flow->round_min_us - peer->rtt_min_us);
	peer->flow->round_min_us = 0;
	cubic_step(ctx, peer);
}

/* ---- growing ----------------------------------------------------------------------------- */

/*
 * Bytes that arrive in a millisecond; in the first round, before there is a rate, the bytes so
 * far.
 */
static uint64_t rate_so_far(const struct ripc_context *ctx, const struct peer *peer)
{
	uint32_t took_us = (uint32_t)ctx->now_us - peer->flow->round_us;

	if (peer->flow->rate)
		return peer->flow->rate;
	return 1000ull * peer->flow->round_bytes / (took_us + 1000ull);
}

/*
 * The most that a peer may have in flight. A near peer is bound by what fits the cache, others
 * by what has arrived. While the window doubles, the bound is what the path holds, because a
 * queue would let the window double on.
 */
static uint64_t window_bound_by_rate(const struct ripc_context *ctx, const struct peer *peer)
{
	bool doubles = is_far(peer) && peer->slow_start;
	uint64_t least = doubles ? UNASKED_BYTES : WINDOW_NEAR;
	uint64_t most = doubles ? 3 * rate_so_far(ctx, peer) * peer->rtt_min_us / 1000 :
		(uint64_t)peer->flow->rate * peer->srtt_us / 1000 * 5 / 4;

	if (!is_far(peer) || most < least)
		return least;
	return most < WINDOW_MAX ? most : WINDOW_MAX;
}

void ripc__peer_grow(struct ripc_context *ctx, struct peer *peer, uint32_t bytes)
{
	uint64_t window = peer->window, most;

	if (!flow_begin(peer))
		return;
	most = window_bound_by_rate(ctx, peer);
	peer->flow->epoch_got += bytes;
	peer->flow->round_bytes += bytes;
	peer->silences = 0;
	if (peer->slow_start && is_filled(peer))
		peer->slow_start = false;
	if (peer->slow_start)
		window += bytes;
	else
		window += (uint64_t)bytes * step_of(ctx, peer) / peer->window;
	if (!peer->is_testing && peer->window < most)
		window_set(peer, window < most ? window : most);
	if (peer->srtt_us && (uint32_t)ctx->now_us - peer->flow->round_us >= peer->srtt_us)
		round_end(ctx, peer);
}

uint32_t ripc__peer_window(struct ripc_context *ctx, struct peer *peer)
{
	uint32_t most = ripc__peer_device(ctx, peer)->attr.peer_buffer;

	return most && most < peer->window ? most : peer->window;
}

/* Bytes in a millisecond; 0: it is not paced. */
static uint64_t pace(const struct peer *peer)
{
	if (!is_far(peer) || !peer->flow)
		return 0;
	return peer->slow_start ? 4ull * peer->flow->rate :
		peer->flow->rate + peer->flow->rate / 2ull;
}

/*
 * Bytes that arrive all at once, because a processor had other things to do, must not be granted
 * all at once: the next burst would overrun a queue on the way, and arrive all at once again.
 */
uint64_t ripc__peer_pace(struct ripc_context *ctx, struct peer *peer, uint64_t burst)
{
	uint64_t rate = pace(peer), most_us;
	int32_t passed_us;

	if (!rate)
		return UINT64_MAX;
	passed_us = (int32_t)((uint32_t)ctx->now_us - peer->flow->paced_us);
	most_us = 1000 * burst / rate + peer->rtt_min_us / BURSTS;
	if (passed_us < -PACE_AHEAD_US || passed_us > (int64_t)most_us) {
		passed_us = (int32_t)most_us;
		peer->flow->paced_us = (uint32_t)(ctx->now_us - most_us);
	}
	return passed_us > 0 ? (uint64_t)passed_us * rate / 1000 : 0;
}

void ripc__peer_paced(struct peer *peer, uint64_t bytes)
{
	if (pace(peer))
		peer->flow->paced_us += (uint32_t)(1000 * bytes / pace(peer));
}

/* ---- losses ------------------------------------------------------------------------------ */

/*
 * Bytes that arrive beyond lost ones are kept in pieces. There must be room for as many pieces
 * as a window loses, or the arriving bytes are lost, too.
 */
static void window_bound(struct ripc_context *ctx, struct peer *peer)
{
	uint64_t kept = (uint64_t)PIECES_MAX / 2 * ripc__peer_payload(ctx, peer);

	if (ripc__peer_is_lossy(peer) && peer->window > kept * 1024 / peer->loss)
		peer->window = (uint32_t)(kept * 1024 / peer->loss);
}

/*
 * A loss means congestion if there is a queue, or if very much is lost. Without either the path
 * itself loses, and sending less would not help (docs/decisions/congestion-control.md). Nor does a
 * timeout mean congestion on a path that loses, unless it lasts: the request or its answer was
 * lost.
 */
static bool is_congestion(struct peer *peer, bool silence)
{
	if (is_queueing(peer) || is_overfilled(peer))
		return true;
	if (!silence)
		return peer->loss >= LOSS_MOST;
	return !ripc__peer_is_lossy(peer) || ++peer->silences >= SILENCES_MOST;
}

/*
 * A long path takes long to fill again: the window is cut by as much as CUBIC's, and not below
 * fifteen sixteenths of the bytes that the path holds without a queue, as measured by arrivals.
 */
static uint64_t window_after_cut(const struct peer *peer)
{
	uint64_t least = holds(peer) / 16 * 15;
	uint64_t cut = peer->window / 10 * 7ull;

	if (!is_far(peer))
		return peer->window / 2;
	least = least < peer->window ? least : peer->window;
	return cut > least ? cut : least;
}

/* A loss of bytes that were granted before a cut says nothing about the window after it. */
static uint32_t cut_again_us(const struct peer *peer)
{
	return is_far(peer) ? 2 * peer->srtt_us : peer->srtt_us;
}

void ripc__peer_cut(struct ripc_context *ctx, struct peer *peer, uint64_t lost_bytes)
{
	bool silence = lost_bytes == 0;

	if (!flow_begin(peer))
		return;
	peer->flow->epoch_lost += (uint32_t)lost_bytes;
	/* Before the first round trip is known, a timeout may just be a long path. */
	if (peer->srtt_us == 0 || (uint32_t)ctx->now_us - peer->flow->cut_us < cut_again_us(peer))
		return;
	peer->flow->cut_us = (uint32_t)ctx->now_us;
	if (!silence)
		window_bound(ctx, peer);
	if (++peer->cuts == CUTS_TO_FORGET) {
		peer->cuts = peer->proofs = 0;
		peer->reorder -= peer->reorder > 0;
	}
	if (!is_congestion(peer, silence))
		return;
	if (peer->is_testing) {
		test_stop(ctx, peer);
		if (!silence)
			window_bound(ctx, peer);
	}
	peer->flow->window_before = peer->window;
	window_set(peer, window_after_cut(peer));
	/* A window that doubled was never proven. */
	cubic_begin(ctx, peer, peer->slow_start ? peer->window : peer->flow->window_before);
	peer->slow_start = false;
}

/*
 * On a path that loses, some requests are repeated too early whatever the path does: only
 * several proofs among CUTS_TO_FORGET losses count there. A path that reorders gives a proof for
 * nearly each.
 */
void ripc__peer_reorders(struct peer *peer)
{
	if (ripc__peer_is_lossy(peer) && ++peer->proofs < PROOFS_MOST)
		return;
	peer->proofs = 0;
	if (peer->reorder < REORDER_MOST)
		peer->reorder++;
	peer->cuts = 0;
	if (peer->flow && peer->window < peer->flow->window_before && !peer->is_testing)
		peer->window = peer->flow->window_before;
}

void ripc__window_anew(struct peer *peer)
{
	peer->window = UNASKED_BYTES;
	peer->slow_start = true;
	peer->is_testing = peer->has_rival = peer->is_cubic = false;
	peer->loss = peer->proofs = peer->reorder = peer->cuts = peer->silences = 0;
	peer->rtt_min_us = peer->shrunk_us = 0;
	if (peer->flow)
		*peer->flow = (struct flow){0};
}
