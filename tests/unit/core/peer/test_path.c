/* SPDX-License-Identifier: BSD-3-Clause */
/* Estimates from round trips, losses and silences of the path to a peer. */
#include "core/peer/peer.h"
#include "core/peer/window.h"
#include "core/receive/internal.h"
#include "core/wire/wire.h"
#include "suite.h"

#define DATAGRAM 1472u
#define PAYLOAD  (DATAGRAM - WIRE_HEADER - WIRE_DATA_BODY)

/* A path with a round trip of 100 us and a window of 512 KiB; the test is its clock. */
struct path {
	struct ripc_context ctx;
	struct peer peer;
};

static struct path path_begin(void)
{
	static struct flow flow;
	struct path path = {.ctx = {.cfg = {.peer_timeout_ms = 10000}, .now_us = 1000000},
		.peer = {.window = 512 << 10, .datagram = DATAGRAM, .flow = &flow}};

	flow = (struct flow){0};
	for (int i = 0; i < 50; i++)
		ripc__peer_rtt(&path.peer, 100);
	return path;
}

/* For so many round trips this share of all bytes (of 100) is lost. */
static void path_lose(struct path *path, uint32_t percent, int round_trips)
{
	for (int i = 0; i < round_trips; i++) {
		path->ctx.now_us += 200;
		ripc__peer_grow(&path->ctx, &path->peer, (100 - percent) * 1000);
		if (percent)
			ripc__peer_cut(&path->ctx, &path->peer, percent * 1000);
	}
}

/* Nothing comes, so many times in a row. */
static void path_fall_silent(struct path *path, int times)
{
	for (int i = 0; i < times; i++) {
		path->ctx.now_us += 1000;
		ripc__peer_cut(&path->ctx, &path->peer, 0);
	}
}

/* A path that did become longer is soon known, also where requests get lost. */
START_TEST(rtt__follows_on_lossy_path)
{
	struct path path = path_begin();

	path_lose(&path, 30, 20);
	for (int i = 0; i < 50; i++)
		ripc__peer_rtt(&path.peer, 10000);
	ck_assert_uint_ge(path.peer.srtt_us, 9000);
}
END_TEST

/* ---- stamps ------------------------------------------------------------------------------ */

static uint64_t test_clock(void *now_us)
{
	return *(uint64_t *)now_us;
}

/* The state of a peer that has just been met. */
static struct path path_new(uint64_t *now_us)
{
	return (struct path){.ctx = {.cfg = {.peer_timeout_ms = 10000}, .now_us = *now_us,
		.env = {.arg = now_us, .now_us = test_clock}}, .peer = {.datagram = DATAGRAM}};
}

/* The stamp comes there after half a round trip, waits, and is given back. */
static void path_echo(uint64_t *now_us, uint32_t rtt_us, uint32_t waits_us)
{
	struct path here = path_new(now_us), there = path_new(now_us);
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE}, answer = {.h.type = WIRE_PULL};

	ripc__stamps_put(&here.ctx, &here.peer, &packet);
	*now_us += rtt_us / 2;
	ripc__stamps_take(&there.ctx, &there.peer, &packet);
	*now_us += waits_us;
	ripc__stamps_put(&there.ctx, &there.peer, &answer);
	*now_us += rtt_us - rtt_us / 2;
	ripc__stamps_take(&here.ctx, &here.peer, &answer);
	ck_assert_uint_eq(here.peer.srtt_us, rtt_us);
	ck_assert_uint_eq(there.peer.srtt_us, 0);
}

START_TEST(stamps__tell_the_round_trip)
{
	static const uint32_t rtts_us[] = {50, 1000, 12000, 100000, 600000};
	uint64_t now_us = 1;

	for (size_t i = 0; i < sizeof(rtts_us) / sizeof(rtts_us[0]); i++) {
		path_echo(&now_us, rtts_us[i], 0);
		path_echo(&now_us, rtts_us[i], 20000);
		/* The clock wraps under way, here or there. */
		now_us = (1ull << 32) - rtts_us[i] / 4;
		path_echo(&now_us, rtts_us[i], 0);
		now_us = (1ull << 32) - rtts_us[i] / 4 * 3;
		path_echo(&now_us, rtts_us[i], 1);
		now_us = (1ull << 32) - rtts_us[i] / 2;
		path_echo(&now_us, rtts_us[i], 0);
	}
}
END_TEST

/* The echo that a packet to the peer has. */
static uint32_t echo_of(struct path *path)
{
	struct wire_packet packet = {.h.type = WIRE_DATA};

	ripc__stamps_put(&path->ctx, &path->peer, &packet);
	return packet.echo;
}

/* A packet that has waited for long tells more of two clocks than of the path. */
START_TEST(stamps__old_ones_are_not_given_back)
{
	uint64_t now_us = 5000;
	struct path path = path_new(&now_us);
	struct wire_packet packet = {.h.type = WIRE_ANNOUNCE, .announce.stamp = 7};

	ck_assert_uint_eq(echo_of(&path), 0);
	ripc__stamps_take(&path.ctx, &path.peer, &packet);
	now_us += 50000;
	ck_assert_uint_eq(echo_of(&path), 50007);
	now_us++;
	ck_assert_uint_eq(echo_of(&path), 0);
}
END_TEST

/* Echoes of stamps that were never given: from the future, from long ago. */
START_TEST(stamps__lies)
{
	uint64_t now_us = 100000000;
	struct path path = path_new(&now_us);
	struct wire_packet packet = {.h.type = WIRE_PULL};

	packet.pull.echo = (uint32_t)now_us + 1;
	ripc__stamps_take(&path.ctx, &path.peer, &packet);
	packet.pull.echo = (uint32_t)now_us - 10000001;
	ripc__stamps_take(&path.ctx, &path.peer, &packet);
	packet.pull.echo = 0;
	ripc__stamps_take(&path.ctx, &path.peer, &packet);
	ck_assert_uint_eq(path.peer.srtt_us, 0);
	packet.pull.echo = (uint32_t)now_us;
	ripc__stamps_take(&path.ctx, &path.peer, &packet);
	ck_assert_uint_eq(path.peer.srtt_us, 1);
}
END_TEST

/* A repetition never comes before the answer can, however long the path; and where nothing is
 * known of it bytes are waited for longer than an announcement is. */
START_TEST(rto__longer_than_the_path)
{
	uint64_t now_us = 1000000;

	for (uint32_t rtt_us = 50; rtt_us < 800000; rtt_us += rtt_us / 2) {
		struct path path = path_new(&now_us);

		for (int i = 0; i < 100; i++)
			ripc__peer_rtt(&path.peer, rtt_us);
		ck_assert_uint_gt(ripc__peer_rto(&path.ctx, &path.peer), rtt_us);
	}
}
END_TEST

START_TEST(patience__on_unknown_path)
{
	uint64_t now_us = 1000000;
	struct path path = path_new(&now_us);

	ck_assert_uint_ge(ripc__peer_patience(&path.ctx, &path.peer), 200000);
	ck_assert_uint_lt(ripc__peer_rto(&path.ctx, &path.peer), 10000);
	ripc__peer_rtt(&path.peer, 100);
	ck_assert_uint_eq(ripc__peer_patience(&path.ctx, &path.peer),
		ripc__peer_rto(&path.ctx, &path.peer));
}
END_TEST

/* ---- the window -------------------------------------------------------------------------- */

START_TEST(cut__silence_without_loss)
{
	struct path path = path_begin();

	path_fall_silent(&path, 1);
	ck_assert_uint_eq(path.peer.window, 256 << 10);
}
END_TEST

START_TEST(cut__silence_on_lossy_path)
{
	struct path path = path_begin();
	uint32_t window;

	path_lose(&path, 30, 20);
	window = path.peer.window;
	path_fall_silent(&path, 3);
	ck_assert_uint_eq(path.peer.window, window);
	path_fall_silent(&path, 1);
	ck_assert_uint_eq(path.peer.window, window / 2);
}
END_TEST

/* Silences that bytes come between are not in a row. */
START_TEST(cut__silences_apart)
{
	struct path path = path_begin();

	path_lose(&path, 30, 20);
	for (int i = 0; i < 8; i++) {
		uint32_t window;

		ripc__peer_grow(&path.ctx, &path.peer, 1000);
		window = path.peer.window;
		path_fall_silent(&path, 2);
		ck_assert_uint_eq(path.peer.window, window);
	}
}
END_TEST

/* Silence in front of a queue is congestion, however much the path loses besides. */
START_TEST(cut__silence_with_queue)
{
	struct path path = path_begin();
	uint32_t window;

	path_lose(&path, 30, 20);
	for (int i = 0; i < 100; i++)
		ripc__peer_rtt(&path.peer, 20000);
	window = path.peer.window;
	path.ctx.now_us += 100000;
	path_fall_silent(&path, 1);
	ck_assert_uint_eq(path.peer.window, window / 2);
}
END_TEST

/* Silence does not make the path look better than it is. */
START_TEST(cut__silence_keeps_the_loss)
{
	struct path path = path_begin();
	uint16_t loss;

	path_lose(&path, 30, 20);
	path_fall_silent(&path, 1);
	loss = path.peer.loss;
	ck_assert_uint_gt(loss, 250);
	path_fall_silent(&path, 20);
	ck_assert_uint_eq(path.peer.loss, loss);
}
END_TEST

/* A window is small enough that the pieces beyond its losses can be kept. */
START_TEST(cut__window_fits_the_pieces)
{
	struct path path = path_begin();
	uint64_t lost;

	path_lose(&path, 30, 20);
	path.peer.window = WINDOW_MAX;
	path_lose(&path, 30, 1);
	lost = (uint64_t)path.peer.window * path.peer.loss / 1024;
	ck_assert_uint_le(lost, PIECES_MAX * PAYLOAD);
	ck_assert_uint_ge(lost, PIECES_MAX * PAYLOAD / 4);
}
END_TEST

/* A single loss is not held against the path for ever. */
START_TEST(cut__loss_is_forgotten)
{
	struct path path = path_begin();

	path_lose(&path, 30, 20);
	ck_assert_uint_gt(path.peer.loss, 250);
	path_lose(&path, 0, 40);
	ck_assert_uint_lt(path.peer.loss, 10);
}
END_TEST

START_TEST(cut__window_stays_at_little_loss)
{
	struct path path = path_begin();

	path_lose(&path, 1, 20);
	ck_assert_uint_ge(path.peer.window, 512 << 10);
}
END_TEST

/* Beside others at a short queue a long path's window is cut, but not below what comes. */
START_TEST(cut__long_path_keeps_what_it_holds)
{
	struct path path = path_begin();
	struct peer *peer = &path.peer;

	peer->rtt_min_us = peer->srtt_us = 40000;
	peer->flow->rate = 100000;
	peer->window = 3900000;
	ripc__peer_cut(&path.ctx, peer, 10000); /* the path's loss: there is no queue */
	ck_assert_uint_eq(peer->window, 3900000);
	peer->window = 5000000;
	path.ctx.now_us += 1000000;
	ripc__peer_cut(&path.ctx, peer, 10000);
	ck_assert_uint_eq(peer->window, 3750000);
	path.ctx.now_us += 50000; /* granted before the cut */
	peer->window = 5000000;
	ripc__peer_cut(&path.ctx, peer, 10000);
	ck_assert_uint_eq(peer->window, 5000000);
}
END_TEST

/* A large burst is not granted all at once, but little is. */
START_TEST(pace__spreads_what_is_granted)
{
	struct path path = path_begin();
	struct peer *peer = &path.peer;
	uint64_t granted = 0, now;

	ck_assert_uint_eq(ripc__peer_pace(&path.ctx, peer, 65536), UINT64_MAX);
	peer->rtt_min_us = peer->srtt_us = 40000;
	peer->flow->rate = 100000;
	path.ctx.now_us += 1000000;
	now = ripc__peer_pace(&path.ctx, peer, 65536);
	ck_assert_uint_lt(now, 1000000);
	for (int ms = 0; ms < 1000; ms++) {
		path.ctx.now_us += 1000;
		now = ripc__peer_pace(&path.ctx, peer, 65536);
		ripc__peer_paced(peer, now);
		granted += now;
	}
	ck_assert_uint_ge(granted, 110000000);
	ck_assert_uint_le(granted, 170000000);
}
END_TEST

/* ---- whose queue it is ------------------------------------------------------------------- */

/* A link of so many bytes per millisecond, whose queue is never full; rival_us: of its queue is
 * somebody else's, who does not give way. */
static void path_run(struct path *path, uint64_t rate, uint32_t base_us, uint32_t rival_us)
{
	struct peer *peer = &path->peer;
	uint64_t in_pipe = rate * base_us / 1000;
	uint32_t queue_us = rival_us;

	for (int step = 0; step < 20000; step++) {
		uint64_t own = peer->window > in_pipe ? peer->window - in_pipe : 0;

		queue_us = rival_us + (rival_us ? 0 : (uint32_t)(own * 1000 / rate));
		path->ctx.now_us += 1000;
		ripc__peer_rtt(peer, base_us + queue_us);
		ripc__peer_grow(&path->ctx, peer, (uint32_t)rate);
	}
}

/* A peer that was just met. */
static void path_meet(struct path *path, uint32_t window, bool slow_start)
{
	struct flow *flow = path->peer.flow;

	*flow = (struct flow){0};
	path->peer = (struct peer){.window = window, .datagram = DATAGRAM,
		.slow_start = slow_start, .flow = flow};
}

START_TEST(queue__of_our_own_stays_short)
{
	static const struct {
		uint64_t rate;
		uint32_t base_us;
	} links[] = {{1250, 200}, {1250, 40000}, {12500, 10000}, {125000, 40000}};
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		uint64_t in_pipe = links[i].rate * links[i].base_us / 1000;
		struct path path = path_begin();

		path_meet(&path, 65536, true);
		ripc__peer_rtt(&path.peer, links[i].base_us);
		path_run(&path, links[i].rate, links[i].base_us, 0);
		ck_assert_uint_ge(path.peer.window, in_pipe);
		ck_assert_uint_lt((path.peer.window - in_pipe) * 1000 / links[i].rate, 40000);
	}
}
END_TEST

/* A rival that does not give way is not given way to. */
START_TEST(queue__of_a_rival)
{
	struct path path = path_begin();

	path_meet(&path, 1 << 20, false);
	ripc__peer_rtt(&path.peer, 40000);
	path_run(&path, 12500, 40000, 45000);
	while (path.peer.is_testing)
		path_run(&path, 12500, 40000, 45000);
	ck_assert_uint_ge(path.peer.window, 1 << 20);
}
END_TEST

/* When bytes were granted: so many in all by each millisecond. */
struct link {
	uint64_t granted[2000], came;
	uint32_t ms, sent_ms; /* now; when what comes now was granted */
};

/* A millisecond of a link of so many bytes in each, which is as long as that. */
static uint64_t link_step(struct path *path, struct link *link, uint64_t rate, uint32_t base_ms)
{
	struct peer *peer = &path->peer;
	uint64_t there = link->ms < base_ms ? UNASKED_BYTES : link->granted[link->ms - base_ms];
	uint64_t bytes = there - link->came < rate ? there - link->came : rate;

	path->ctx.now_us += 1000;
	link->came += bytes;
	while (link->came > UNASKED_BYTES && link->granted[link->sent_ms] < link->came)
		link->sent_ms++;
	if (link->came > UNASKED_BYTES)
		ripc__peer_rtt(peer, 1000ull * (link->ms - link->sent_ms));
	if (bytes)
		ripc__peer_grow(&path->ctx, peer, (uint32_t)bytes);
	link->granted[link->ms] = link->came + peer->window;
	if (link->ms && link->granted[link->ms] < link->granted[link->ms - 1])
		link->granted[link->ms] = link->granted[link->ms - 1];
	link->ms++;
	return (there - link->came) * 1000 / rate;
}

/* The first window is more than a slow link holds, and the window must not double upon that. */
START_TEST(queue__of_our_own_is_never_long)
{
	struct path path = path_begin();
	struct link link = {.ms = 0};
	uint64_t us, most_us = 0;

	path_meet(&path, UNASKED_BYTES, true);
	ripc__peer_rtt(&path.peer, 20000);
	for (int i = 0; i < 2000; i++) {
		us = link_step(&path, &link, 1250, 20);
		most_us = us > most_us ? us : most_us;
	}
	ck_assert_uint_le(most_us, 60000);
	ck_assert_uint_ge(link.came, 1250 * 1900);
	ck_assert(!path.peer.has_rival);
}
END_TEST

/* Beside a rival that always has so much in flight, until so often it was asked whose queue it is.
 * Returns the least part of the window, in percent, that was kept for the last time. */
static uint32_t path_run_beside(struct path *path, uint64_t rival, int tests)
{
	const uint64_t rate = 125000;
	struct peer *peer = &path->peer;
	uint32_t kept = 0;

	while (tests > 0) {
		bool was_testing = peer->is_testing;
		uint64_t all = rival + peer->window;

		path->ctx.now_us += 1000;
		ripc__peer_rtt(peer, all * 1000 / rate);
		ripc__peer_grow(&path->ctx, peer, (uint32_t)(rate * peer->window / all));
		if (peer->is_testing)
			kept = (uint32_t)(100ull * peer->window / peer->flow->window_before);
		tests -= was_testing && !peer->is_testing;
	}
	return kept;
}

/* A path with a small share beside a rival soon has more, one with half does not. */
START_TEST(queue__rival_is_caught_up_with)
{
	struct path path = path_begin();
	struct peer *peer = &path.peer;

	path_meet(&path, 800000, false);
	ripc__peer_rtt(peer, 40000);
	path_run_beside(&path, 8000000, 1);
	ck_assert(peer->has_rival);
	ck_assert_uint_ge(peer->flow->cubic_most, 3 * peer->window);
	path_run_beside(&path, 8000000, 6);
	ck_assert_uint_ge(peer->window, 2400000);
	path_meet(&path, 4500000, false);
	ripc__peer_rtt(peer, 40000);
	for (int ms = 0; ms < 60; ms++) {
		path.ctx.now_us += 1000;
		ripc__peer_grow(&path.ctx, peer, 60000);
	}
	path_run_beside(&path, 3700000, 1);
	ck_assert(peer->has_rival);
	ck_assert_uint_le(peer->flow->cubic_most, peer->window + peer->window / 4);
}
END_TEST

/* The queue of a known rival is not asked about by giving it all. */
START_TEST(queue__rival_keeps_us_half)
{
	struct path path = path_begin();

	path_meet(&path, 5000000, false);
	ripc__peer_rtt(&path.peer, 10000);
	ck_assert_uint_lt(path_run_beside(&path, 9000000, 1), 20);
	ck_assert_uint_ge(path_run_beside(&path, 9000000, 1), 49);
	ck_assert(path.peer.has_rival);
	/* Once it has gone, half tells as well. */
	path_run_beside(&path, 0, 1);
	ck_assert(!path.peer.has_rival);
}
END_TEST

/* After a loss all give way, so the test tells nothing and the window is not what it left. */
START_TEST(queue__loss_ends_the_test)
{
	struct path path = path_begin();
	struct peer *peer = &path.peer;

	path_meet(&path, 5000000, false);
	ripc__peer_rtt(peer, 40000);
	for (int ms = 0; ms < 1000 && !peer->is_testing; ms++) {
		path.ctx.now_us += 1000;
		ripc__peer_rtt(peer, 75000);
		ripc__peer_grow(&path.ctx, peer, 60000);
	}
	ck_assert(peer->is_testing);
	ripc__peer_cut(&path.ctx, peer, 10000);
	ck_assert(!peer->is_testing);
	ck_assert_uint_ge(peer->window, 3500000);
	ck_assert_uint_lt(peer->window, 5000000);
}
END_TEST

START_TEST(reorders__at_once_without_loss)
{
	struct path path = path_begin();

	ripc__peer_reorders(&path.peer);
	ck_assert_uint_eq(path.peer.reorder, 1);
}
END_TEST

/* Few proofs are everyday where requests are repeated; many are not. */
START_TEST(reorders__needs_proofs_on_lossy_path)
{
	struct path path = path_begin();

	path_lose(&path, 30, 32);
	for (int i = 0; i < 10; i++) {
		ripc__peer_reorders(&path.peer);
		path_lose(&path, 30, 16);
	}
	ck_assert_uint_eq(path.peer.reorder, 0);
	for (int i = 0; i < 4; i++)
		ripc__peer_reorders(&path.peer);
	ck_assert_uint_eq(path.peer.reorder, 1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		rtt__follows_on_lossy_path, stamps__tell_the_round_trip,
		stamps__old_ones_are_not_given_back, stamps__lies, rto__longer_than_the_path,
		patience__on_unknown_path, cut__silence_without_loss, cut__silence_on_lossy_path,
		cut__silences_apart, cut__silence_with_queue, cut__silence_keeps_the_loss,
		cut__window_fits_the_pieces, cut__loss_is_forgotten,
		cut__window_stays_at_little_loss, cut__long_path_keeps_what_it_holds,
		pace__spreads_what_is_granted, queue__of_our_own_is_never_long,
		queue__rival_is_caught_up_with, queue__rival_keeps_us_half,
		queue__loss_ends_the_test,
		queue__of_our_own_stays_short, queue__of_a_rival,
		reorders__at_once_without_loss, reorders__needs_proofs_on_lossy_path, NULL,
	};

	return suite_run("path", tests);
}
