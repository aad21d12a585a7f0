/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Code shared by the reliable peers of ripc-bench: TCP, ZeroMQ, nng, UCX, libfabric. Each offers
 * links, between one client and one server; bench_link.c does with them what the contract in
 * bench.h says. The ends of a link find each other by a plain TCP connection to job.host, over
 * which they tell each other an address of up to BENCH_ADDRESS_LEN bytes.
 *
 * Messages of one direction all have the same size: job.size, or BENCH_ACK_LEN where a server only
 * acknowledges. A link is used by one thread only. All functions return 0 or a
 * negative errno.
 */
#ifndef TOOLS_BENCH_LINK_H
#define TOOLS_BENCH_LINK_H

#include "bench.h"

#define BENCH_ADDRESS_LEN 4096
#define BENCH_ACK_LEN	  sizeof(uint64_t)
#define BENCH_POLLS	  32 /* looks for a message between two looks at the clock */

struct bench_link;

struct bench_link_calls {
	/* Makes this end, and fills in its address. */
	int (*open)(struct bench_link *link, char *address, size_t *len);
	/* Begins to reach the end that has this address. */
	int (*connect)(struct bench_link *link, const char *address, size_t len);
	/* Memory of out_size bytes for the next message, as soon as there is some. */
	int (*buffer)(struct bench_link *link, void **buffer);
	/* Sends that memory: it is no longer the caller's. */
	int (*send)(struct bench_link *link);
	/* The next message of in_size bytes. With timeout_ms 0 looks once, and -EAGAIN is that
	 * there is none; else waits as the library does it, asleep if it can, or -ETIMEDOUT. */
	int (*recv)(struct bench_link *link, int timeout_ms, const void **message);
	/* That message is needed no more: each one is released before the next is received. */
	void (*release)(struct bench_link *link);
	void (*close)(struct bench_link *link);
	/* 1: a server's recv() stands still by itself when the client has ended. So a single link
	 * is served by the first thread: a second one makes all calls of the kernel slower. */
	int stands_still;
};

struct bench_link {
	const struct bench_link_calls *calls;
	const char *variant; /* which of a library's transports */
	const struct bench_job *job;
	int serves;
	uint64_t index;		  /* of the client, or of whom the server serves */
	size_t in_size, out_size; /* bytes of a message */
	unsigned int n_in, n_out; /* how many messages are worth having memory for */
	int fd;			  /* the TCP connection */
	void *state;		  /* open()'s */
};

/* Both halves of a peer, of any kind of those in BENCH_LINK_HALVES. */
int bench_link_serve(const struct bench_link_calls *calls, const char *variant,
	const struct bench_job *job, int ready_fd);
int bench_link_measure(const struct bench_link_calls *calls, const char *variant,
	const struct bench_job *job, struct bench_result *result);

/* Defines serve_VARIANT() and measure_VARIANT() of a peer whose links are made by calls. */
#define BENCH_LINK_FUNCTIONS(calls, variant)                                                       \
	static int serve_##variant(const struct bench_job *job, int ready_fd)                      \
	{                                                                                          \
		return bench_link_serve(&(calls), #variant, job, ready_fd);                        \
	}                                                                                          \
	static int measure_##variant(const struct bench_job *job, struct bench_result *result)     \
	{                                                                                          \
		return bench_link_measure(&(calls), #variant, job, result);                        \
	}

/* The halves of that peer. */
#define BENCH_LINK_HALVES(variant)                                                                 \
	{                                                                                          \
		[BENCH_LATENCY] = {serve_##variant, measure_##variant},                            \
		[BENCH_PACED] = {serve_##variant, measure_##variant},                              \
		[BENCH_BANDWIDTH] = {serve_##variant, measure_##variant},                          \
		[BENCH_RATE] = {serve_##variant, measure_##variant},                               \
	}

/* "tcp://HOST:PORT"; host NULL: all addresses, of the family that job.host has. */
void bench_link_url(const struct bench_link *link, const char *host, const char *port, char *url);
#define BENCH_URL_LEN 128

#endif
