/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ripc-bench measures libripc beside other ways to exchange messages, in turns, with the same
 * sizes and the same way of waiting. This header is what its parts know of each other:
 *
 *   ripc-bench.c     the command line
 *   bench_run.c      one run: a server and a client process; many runs in turns
 *   bench_join.c     the same with the server on another host
 *   bench_report.c   medians, ratios, the table and JSON
 *   bench_ripc.c, _tcp.c, _udp.c, _unix.c, _shm.c, _memcpy.c
 *                    the peers: who exchanges messages
 *
 * A peer is added by a file with a struct bench_peer and a line in bench_peers[].
 *
 * The exchange is the same for every peer. Latency: the client writes the whole message, sends
 * it, the server sums up what came, writes an answer of the same size, the client sums that up;
 * the round trip lasts from before the write until after the sum. Bandwidth: the client writes
 * the message; the clock runs from the send until the client knows that all of it has arrived;
 * then the server sums it up and says whether it was right, before the next message.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include "common.h"

#define PROGRAM		  "ripc-bench"
#define BENCH_SIZES_MAX	  64
#define BENCH_PEERS_MAX	  8
#define BENCH_COUNT_MAX	  1000000
#define BENCH_WAIT_MS	  1000	/* for the answer to a message that may get lost */
#define BENCH_STALL_MS	  60000 /* for anything else */
#define BENCH_RUN_SECONDS 300	/* no process lives longer than a run can last */
#define BENCH_WHERE_LEN	  64

enum bench_test { BENCH_LATENCY, BENCH_BANDWIDTH };

/* One run of one peer. */
struct bench_job {
	enum bench_test test;
	uint64_t size;		     /* bytes of a message */
	uint64_t count, warm_up;     /* messages that are measured, and others before them */
	uint64_t spin_us;	     /* as in struct ripc_config; sockets: 0 is never */
	uint32_t flags;		     /* as in struct ripc_config */
	char host[64];		     /* the server's address, for peers that need one */
	char where[BENCH_WHERE_LEN]; /* what the peer's server said: a port, an ID */
};

/* What came out of a run; in memory that parent and child share. */
struct bench_result {
	uint64_t n, lost, wrong;
	int err; /* negative errno: the run failed */
	char failed_at[64];
	char note[112];	  /* the path that was taken, if that can differ */
	double samples[]; /* latency: us; bandwidth: MB/s; n of at most job.count */
};

struct bench_half {
	/* Serves until it is killed, having told by bench_ready() where. Else a negative errno. */
	int (*serve)(const struct bench_job *job, int ready_fd);
	/* Fills the samples. 0 or a negative errno. */
	int (*measure)(const struct bench_job *job, struct bench_result *result);
};

struct bench_peer {
	const char *name, *about;
	struct bench_half latency, bandwidth; /* functions are NULL where it cannot do that */
};

extern const struct bench_peer bench_ripc, bench_tcp, bench_udp, bench_unix, bench_shm,
	bench_memcpy;
extern const struct bench_peer *const bench_peers[];
extern const unsigned int bench_n_peers;

struct bench_options {
	enum bench_test test;
	const struct bench_peer *peers[BENCH_PEERS_MAX]; /* [0] is ours */
	unsigned int n_peers;
	uint64_t sizes[BENCH_SIZES_MAX];
	unsigned int n_sizes;
	uint64_t count, pairs, spin_us; /* count 0: as fits the size */
	uint32_t flags; /* as in struct ripc_config */
	const char *backend, *host;
	uint64_t server_id, to; /* 0: none */
	int json, serve;
	int cpus[2]; /* client's and server's; -1: not pinned */
};

/* All runs of one size: [peer][pair]. */
struct bench_series {
	double *medians[BENCH_PEERS_MAX], *p99s[BENCH_PEERS_MAX];
	uint64_t lost[BENCH_PEERS_MAX], wrong[BENCH_PEERS_MAX];
	char note[112];
	uint64_t pairs, size, count;
};

const struct bench_half *bench_half(const struct bench_peer *peer, enum bench_test test);
const struct bench_peer *bench_find_peer(const char *name);

/* bench_run.c. All return 0 or a negative errno, having said on stderr what failed. */
int bench_run_all(const struct bench_options *options);
/* Starts a server process. *pid is the caller's to end; job->where is filled. */
int bench_start_server(const struct bench_peer *peer, struct bench_job *job, int cpu, int *pid);
void bench_end_process(int pid);

/* bench_join.c. bench_join_serve() returns only when it failed. */
int bench_join_serve(const struct bench_options *options);
/* Asks the host of the service `to`; *handle names the run to bench_join_stop(). */
int bench_join_start(
	uint64_t to, const struct bench_peer *peer, struct bench_job *job, int *handle);
/* The address of the host of that service, as libripc reaches it. */
int bench_join_host(uint64_t to, char *host, size_t len);
void bench_join_stop(uint64_t to, int handle);

/* bench_report.c */
void bench_report_begin(const struct bench_options *options);
void bench_report(const struct bench_options *options, const struct bench_series *series);
void bench_progress(const struct bench_options *options, const char *text);

/* For the peers. */
int bench_ready(int ready_fd, const char *where);
/* Writes every byte of a message, as seed says; the receiver finds seed in it. */
void bench_fill(void *buffer, size_t size, uint64_t seed);
/* Reads every byte. 0 if it is what bench_fill() wrote for *seed, else -EBADMSG; sets *seed. */
int bench_check(const void *buffer, size_t size, uint64_t *seed);
/* Remembers where a run failed, for the message to the user; returns err. */
int bench_failed(struct bench_result *result, const char *where, int err);

#endif
