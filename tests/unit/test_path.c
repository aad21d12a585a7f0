/* SPDX-License-Identifier: BSD-3-Clause */
/* What is made of round trips, losses and silences of the path to a peer. */
#include "core/core.h"
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
	struct path path = {.ctx = {.cfg = {.peer_timeout_ms = 10000}, .now_us = 1000000},
		.peer = {.window = 512 << 10, .datagram = DATAGRAM}};

	for (int i = 0; i < 50; i++)
		ripc__peer_rtt(&path.peer, 100, false);
	return path;
}

/* For so many round trips this share of all bytes (of 100) is lost. */
static void path_lose(struct path *path, uint32_t percent, int round_trips)
{
	for (int i = 0; i < round_trips; i++) {
		path->ctx.now_us += 200;
		ripc__peer_grow(&path->peer, (100 - percent) * 1000);
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

START_TEST(rtt__lost_requests_do_not_count_whole)
{
	struct path path = path_begin();
	uint32_t before;

	path_lose(&path, 30, 20);
	before = ripc__peer_rto(&path.ctx, &path.peer);
	ripc__peer_rtt(&path.peer, 10000, false);
	ck_assert_uint_le(path.peer.srtt_us, 110);
	ck_assert_uint_le(ripc__peer_rto(&path.ctx, &path.peer), 2 * before);
	/* But a path that did become longer is soon known. */
	for (int i = 0; i < 100; i++)
		ripc__peer_rtt(&path.peer, 10000, false);
	ck_assert_uint_ge(path.peer.srtt_us, 9000);
}
END_TEST

START_TEST(rtt__counts_whole_without_loss)
{
	struct path path = path_begin();

	ripc__peer_rtt(&path.peer, 10000, false);
	ck_assert_uint_ge(path.peer.srtt_us, 1000);
}
END_TEST

/* The first sample is not measured against one that does not exist. */
START_TEST(rtt__first_on_lossy_path)
{
	struct path path = path_begin();

	path_lose(&path, 30, 20);
	path.peer.srtt_us = 0; /* the peer has moved */
	ripc__peer_rtt(&path.peer, 5000, false);
	ck_assert_uint_eq(path.peer.srtt_us, 5000);
}
END_TEST

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

		ripc__peer_grow(&path.peer, 1000);
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
		ripc__peer_rtt(&path.peer, 20000, false);
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

/* One request can name what a window loses. */
START_TEST(cut__window_fits_a_request)
{
	struct path path = path_begin();
	uint64_t lost;

	path.peer.window = WINDOW_MAX;
	path_lose(&path, 30, 20);
	lost = (uint64_t)path.peer.window * path.peer.loss / 1024;
	ck_assert_uint_le(lost, WIRE_HOLES_MAX * PAYLOAD);
	ck_assert_uint_ge(lost, WIRE_HOLES_MAX * PAYLOAD / 2);
}
END_TEST

START_TEST(cut__window_stays_at_little_loss)
{
	struct path path = path_begin();

	path_lose(&path, 1, 20);
	ck_assert_uint_ge(path.peer.window, 512 << 10);
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
		rtt__lost_requests_do_not_count_whole, rtt__counts_whole_without_loss,
		rtt__first_on_lossy_path, cut__silence_without_loss, cut__silence_on_lossy_path,
		cut__silences_apart, cut__silence_with_queue, cut__silence_keeps_the_loss,
		cut__window_fits_a_request, cut__window_stays_at_little_loss,
		reorders__at_once_without_loss, reorders__needs_proofs_on_lossy_path, NULL,
	};

	return suite_run("path", tests);
}
