/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of ripc-bench: what the first argument can be. */
#include <string.h>
#include "bench.h"

const char *const bench_variables[BENCH_VARIABLES] = {
	"", "depth", "rate", "gap", "threads", "senders", "partners"};

const struct bench_test bench_tests[] = {
	{.name = "latency", .kind = BENCH_LATENCY, .sizes = "50,1400", .peers = "tcp,udp",
		.pairs = 20,
		.about = "round trips; short messages while they fit, else long ones"},
	{.name = "idle-gap", .kind = BENCH_LATENCY, .variable = BENCH_GAP_US, .sizes = "64",
		.values = "0,100,1000,10000", .peers = "tcp,udp", .pairs = 5,
		.about = "round trips with so many us of silence before each"},
	{.name = "segmentation", .kind = BENCH_LATENCY, .sizes = "7000:12000:250",
		.peers = "none", .pairs = 5,
		.about = "round trips in small steps of size, about the longest datagram"},
	{.name = "saturation", .kind = BENCH_PACED, .variable = BENCH_RATE_HZ, .sizes = "64",
		.values = "1000,2000,5000,10000,20000,50000,100000", .peers = "tcp,udp",
		.pairs = 5,
		.about = "round trips at fixed rates, from when each message was due"},
	{.name = "bandwidth", .kind = BENCH_BANDWIDTH, .variable = BENCH_DEPTH,
		.sizes = "64K,1M,80M", .values = "1", .peers = "tcp", .pairs = 7,
		.about = "long messages, so many at once, until each has arrived"},
	{.name = "oneway", .kind = BENCH_BANDWIDTH, .sizes = "64K,1M,80M",
		.peers = "ripc-return,ripc-window,ripc-give,memcpy", .pairs = 7,
		.about = "long messages into return buffers, into windows, and given"},
	{.name = "rate", .kind = BENCH_RATE, .variable = BENCH_DEPTH, .sizes = "64",
		.values = "1,2,4,8,16,32,64", .peers = "tcp,udp", .pairs = 5,
		.about = "short messages per second that arrive, so many at once"},
	{.name = "threads", .kind = BENCH_RATE, .variable = BENCH_THREADS, .sizes = "64",
		.values = "1,2,4", .peers = "tcp", .pairs = 5,
		.about = "the same from several clients, each with a server of its own"},
	{.name = "incast", .kind = BENCH_RATE, .variable = BENCH_SENDERS, .sizes = "64",
		.values = "1,2,4,8,16", .peers = "tcp", .pairs = 5,
		.about = "the same from several clients to one server"},
	{.name = "cpu", .kind = BENCH_LATENCY, .sizes = "64,1400", .peers = "tcp,udp", .pairs = 5,
		.about = "round trips, with what they cost the processors"},
	{.name = "partners", .kind = BENCH_PARTNERS, .variable = BENCH_N_PARTNERS, .sizes = "64",
		.values = "1,10,100,1000", .peers = "none", .pairs = 5,
		.about = "round trips with so many services in turn"},
	{.name = "resolve", .kind = BENCH_RESOLVE, .sizes = "64",
		.peers = "ripc-again,ripc-absent", .pairs = 5,
		.about = "finding a service: for the first time, again, and one that is not there"},
};
const unsigned int bench_n_tests = sizeof(bench_tests) / sizeof(bench_tests[0]);

const struct bench_test *bench_find_test(const char *name)
{
	unsigned int i;

	for (i = 0; i < bench_n_tests; i++)
		if (strcmp(bench_tests[i].name, name) == 0)
			return &bench_tests[i];
	return NULL;
}

const char *bench_unit(enum bench_kind kind)
{
	if (kind == BENCH_BANDWIDTH)
		return "mb_per_s";
	return kind == BENCH_RATE ? "messages_per_s" : "us";
}

int bench_less_is_better(enum bench_kind kind)
{
	return kind != BENCH_BANDWIDTH && kind != BENCH_RATE;
}
