/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ripc-bench measures libripc beside other ways to exchange messages, in turns, with the same
 * sizes and the same way of waiting. This header is what its parts know of each other:
 *
 *   ripc-bench.c     the command line
 *   bench_tests.c    the tests: what each measures, against what, and its defaults
 *   bench_run.c      one run: a server and a client process; many runs in turns
 *   bench_join.c     the same with the server on another host
 *   bench_samples.c  all that one series of runs brought; medians, percentiles, ratios
 *   bench_report.c   the table, JSON lines, CSV, HdrHistogram files
 *   bench_machine.c  what it was measured on
 *   bench_rate.c     the clients of a rate run
 *   bench_cost.c     processors' time and bytes on the wire
 *   bench_peers.c    finds the peers, who exchange messages, and loads modules
 *   bench_common.c   what every peer does alike
 *   bench_ripc.c, bench_ripc_*.c, bench_tcp.c, ...
 *                    the peers themselves
 *   bench_link.c     what those share in which nothing gets lost: TCP and other libraries
 *
 * A peer is added by a file with a struct bench_peer, and a line in bench_peers.c; if it needs a
 * foreign library, the file is a module, which meson.build has. A test is added by a line in
 * bench_tests[], and by a kind if no peer can do what it needs yet.
 *
 * Every peer does the same, by kind:
 *
 *   latency    the client writes the whole message, sends it, the server sums up what came, writes
 *              an answer of the same size, the client sums that up; the round trip lasts from
 *              before the write until after the sum. bench_turn_ns() comes before each.
 *   paced      the same exchange, but a message is due every 1/rate seconds whether or not the
 *              last one was answered; it lasts from when it was due (bench_turn_ns()), so that
 *              waiting behind a late one counts.
 *   bandwidth  the client writes a message; the clock runs from the send until it knows that all
 *              of it has arrived; then the server sums it up and says whether it was right. With a
 *              depth above 1 so many are on their way at once, and the run has one sample.
 *   rate       each of job.threads clients streams short messages to its server (or all to one),
 *              of which at most job.depth have not been acknowledged: the server acknowledges
 *              every max(1, depth / 2) messages with how many it has received in all. Messages
 *              that were received count, per second; a client that hears nothing for BENCH_ACK_MS
 *              takes what was on its way for lost. One sample per run.
 *   partners   round trips with job.partners services in turn.
 *   resolve    how long it takes to find a service: see bench_ripc_find.c.
 *
 * Messages are numbered from 0, the warm-up first. With job.untouched nobody writes or sums up,
 * while the clock runs, more of a message than its first eight bytes, which are its number; the
 * messages of the warm-up are written and summed up all the same: bench_put(), bench_take().
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "../../tools/common.h"

#define PROGRAM		    "ripc-bench"
#define BENCH_LIST_MAX	    128 /* sizes, or values of what a test varies */
#define BENCH_PEERS_MAX	    24
#define BENCH_COUNT_MAX	    1000000
#define BENCH_DEPTH_MAX	    4096
#define BENCH_THREADS_MAX   64
#define BENCH_THREADS_DEPTH 16 /* of each, if there are several */
#define BENCH_PARTNERS_MAX  10000
#define BENCH_WAIT_MS	    1000  /* for the answer to a message that may get lost */
#define BENCH_ACK_MS	    100	  /* for an acknowledgement of messages that may get lost */
#define BENCH_STALL_MS	    60000 /* for anything else */
#define BENCH_RUN_SECONDS   300	  /* no process lives longer than a run can last */
#define BENCH_WHERE_LEN	    96

enum bench_kind {
	BENCH_LATENCY,
	BENCH_PACED,
	BENCH_BANDWIDTH,
	BENCH_RATE,
	BENCH_PARTNERS,
	BENCH_RESOLVE,
	BENCH_KINDS
};

/* The parameters that a test varies besides the size; each is an option of that name. */
enum bench_variable {
	BENCH_NOTHING,
	BENCH_DEPTH,   /* messages on their way at once */
	BENCH_RATE_HZ, /* messages per second */
	BENCH_GAP_US,  /* idle time before each message */
	BENCH_THREADS, /* clients, each with a server of its own */
	BENCH_SENDERS, /* clients of one server */
	BENCH_N_PARTNERS,
	BENCH_VARIABLES
};

/* A test: what the first argument names. */
struct bench_test {
	const char *name, *about;
	enum bench_kind kind;
	enum bench_variable variable;
	const char *sizes, *values, *peers; /* if none are given */
	uint64_t pairs;
};

extern const struct bench_test bench_tests[];
extern const unsigned int bench_n_tests;
extern const char *const bench_variables[BENCH_VARIABLES]; /* their names */

const struct bench_test *bench_find_test(const char *name);
/* As JSON and CSV name it: "us", "mb_per_s" or "messages_per_s". Smaller times are better. */
const char *bench_unit(enum bench_kind kind);
int bench_less_is_better(enum bench_kind kind);

/* One run of one peer. */
struct bench_job {
	enum bench_kind kind;
	uint64_t size;		     /* bytes of a message */
	uint64_t count, warm_up;     /* messages that are measured, and others before them */
	uint64_t depth;		     /* at least 1 */
	uint64_t rate_hz;	     /* of a paced run, else 0 */
	uint64_t gap_us;	     /* before each message of a latency run */
	uint64_t threads;	     /* clients of a rate run, at least 1 */
	uint64_t services;	     /* which these send to: as many, or 1 */
	uint64_t partners;	     /* at least 1 */
	uint64_t untouched;	     /* 1: while the clock runs nobody writes or sums up messages */
	uint64_t spin_us;	     /* as in struct ripc_config; sockets: 0 is never */
	uint32_t flags;		     /* as in struct ripc_config */
	char host[64];		     /* the server's address, for peers that need one */
	char where[BENCH_WHERE_LEN]; /* the server's message: a port, an ID */
};

/* Costs of a whole run: microseconds of processors, and bytes sent by network interfaces. */
struct bench_cost {
	double client_user, client_system, server_user, server_system;
	double softirq, steal, idle; /* of the machine, all processors */
	double wire_bytes;	     /* of the machine, all interfaces, headers too */
};

/* The results of a run, in memory that parent and child share. */
struct bench_result {
	uint64_t n, lost, wrong;
	uint64_t messages; /* of the client, warm-up too: what cost belongs to */
	int err;	   /* negative errno: the run failed */
	char failed_at[64];
	char note[112]; /* the path that was taken, if that can differ */
	struct bench_cost cost;
	double samples[]; /* in the kind's unit; n of at most job.count */
};

struct bench_half {
	/* Serves until it is killed, having told by bench_ready() where. Else a negative errno. */
	int (*serve)(const struct bench_job *job, int ready_fd);
	/* Fills the samples. 0 or a negative errno. */
	int (*measure)(const struct bench_job *job, struct bench_result *result);
};

struct bench_peer {
	const char *name;
	const char *about;    /* bench_peers.c has that of those in modules */
	const char *settings; /* settings beyond the defaults of the peer; NULL: none */
	/* By kind; functions are NULL where it cannot do that. */
	struct bench_half halves[BENCH_KINDS];
};

extern const struct bench_peer bench_ripc, bench_ripc_return, bench_ripc_window, bench_ripc_give,
	bench_ripc_again, bench_ripc_absent;
extern const struct bench_peer bench_tcp, bench_udp, bench_unix, bench_shm, bench_memcpy;

/* A module has peers that need a foreign library; this is the one symbol that it exports. Its copy
 * of what peers share is its own: it uses nothing of the program. */
#define BENCH_MODULE_PEERS 4
struct bench_module {
	const char *version; /* of libripc: what modules and program share goes with it */
	const struct bench_peer *peers[BENCH_MODULE_PEERS]; /* unused places are NULL */
};
#define BENCH_MODULE(...)                                                                          \
	extern __attribute__((visibility("default")))                                              \
	const struct bench_module ripc__bench_module;                                              \
	const struct bench_module ripc__bench_module = {RIPC_BENCH_VERSION, {__VA_ARGS__}}

struct bench_options {
	const struct bench_test *test;
	const struct bench_peer *peers[BENCH_PEERS_MAX]; /* [0] is ours */
	unsigned int n_peers;
	uint64_t sizes[BENCH_LIST_MAX], values[BENCH_LIST_MAX];
	unsigned int n_sizes, n_values; /* at least 1; value 0 where nothing varies */
	uint64_t count, pairs, spin_us; /* count 0: as fits the size */
	uint64_t untouched;
	uint32_t flags; /* as in struct ripc_config */
	const char *backend, *host;
	const char *out;	/* files' names begin so; NULL: none */
	uint64_t server_id, to; /* 0: none */
	int json, serve;
	int cpus[2]; /* client's and server's; -1: not pinned */
};

/* ---- bench_peers.c ---- */

/* 0; -EINVAL: there is no such peer; -ENOPKG: stderr says what it lacks. */
int bench_find_peer(const char *name, const struct bench_peer **peer);
/* Names those that are here, and what others lack. */
void bench_print_peers(FILE *stream);

/* ---- bench_run.c. All return 0 or a negative errno, having said on stderr what failed. ---- */

int bench_run_all(const struct bench_options *options);
/* Starts a server process. *pid is the caller's to end; job->where is filled. */
int bench_start_server(const struct bench_peer *peer, struct bench_job *job, int cpu, int *pid);
void bench_end_process(int pid);

/* ---- bench_join.c. bench_join_serve() returns only when it failed. ---- */

int bench_join_serve(const struct bench_options *options);
/* Asks the host of the service `to`; *handle names the run to bench_join_stop(). */
int bench_join_start(
	uint64_t to, const struct bench_peer *peer, struct bench_job *job, int *handle);
/* The address of the host of that service, as libripc reaches it. */
int bench_join_host(uint64_t to, char *host, size_t len);
void bench_join_stop(uint64_t to, int handle);

/* ---- bench_samples.c ---- */

/* The results of one peer's runs of one size and value. */
struct bench_runs {
	double *medians, *p99s; /* of each run */
	double *all;		/* every sample; sorted by bench_series_end() */
	size_t n_all, room;
	uint64_t lost, wrong, messages;
	struct bench_cost cost; /* sums */
};

struct bench_series {
	struct bench_runs runs[BENCH_PEERS_MAX];
	unsigned int n_peers;
	uint64_t pairs, size, value, count;
	char note[112];
};

/* Ours to a peer's: the median of the ratios of runs that took turns; the least and the greatest
 * of these; and where that median lies in 95 of 100 resamplings (bootstrap, percentile method). */
struct bench_ratio {
	double median, least, most, low, high;
};

int bench_series_begin(struct bench_series *series, unsigned int n_peers, uint64_t pairs);
int bench_series_add(
	struct bench_series *series, unsigned int peer, uint64_t pair, struct bench_result *result);
void bench_series_end(struct bench_series *series);
void bench_series_free(struct bench_series *series);
/* Statistics of the medians, or the 99th percentiles, of the runs. */
double bench_median(const double *of_runs, uint64_t pairs);
void bench_ratio(const struct bench_series *series, unsigned int peer, struct bench_ratio *ratio);
/* The cost of a message, on average; of none: all. */
struct bench_cost bench_cost_each(const struct bench_runs *runs);
/* Are there 100 samples beyond this fraction? Others say nothing. */
int bench_has_percentile(const struct bench_runs *runs, double fraction);

/* ---- bench_report.c ---- */

/* 0 or a negative errno: a file cannot be written. */
int bench_report_begin(const struct bench_options *options);
int bench_report(const struct bench_options *options, const struct bench_series *series);
int bench_report_end(const struct bench_options *options);
void bench_progress(const char *text);

/* ---- bench_machine.c: what all this was measured on ---- */

struct bench_machine {
	char processor[96], kernel[96], date[32], host[64];
	unsigned int processors;
	double memory_gib, load;
	double clock_ns;	   /* cost of reading the clock */
	double gap_p99_us, gap_us; /* noise: for how long a spinning loop was held up, of 50 ms */
};

void bench_machine(struct bench_machine *machine);
void bench_machine_json(FILE *stream, const struct bench_machine *machine);

/* ---- bench_cost.c ---- */

/* The machine's counters now; the processes' are 0. */
void bench_cost_now(struct bench_cost *cost);
/* *cost becomes what was added since it was taken. */
void bench_cost_since(struct bench_cost *cost);
/* Waits for the end of a child: its user and system time, microseconds. 0 or a negative errno. */
int bench_cost_wait(int pid, int *status, double *user, double *system);

/* ---- bench_common.c, bench_rate.c: for the peers ---- */

int bench_ready(int ready_fd, const char *where);
/* Writes every byte of a message, as seed says; the receiver finds seed in it. */
void bench_fill(void *buffer, size_t size, uint64_t seed);
/* Reads every byte. 0 if it is what bench_fill() wrote for *seed, else -EBADMSG; sets *seed. */
int bench_check(const void *buffer, size_t size, uint64_t *seed);
/* The same for a message of the job, with its number as the seed. If the job is to be untouched,
 * from the end of the warm-up on only with the first eight bytes. */
void bench_put(const struct bench_job *job, void *buffer, uint64_t number);
int bench_take(const struct bench_job *job, const void *buffer, uint64_t *number);
/* Remembers where a run failed, for the message to the user; returns err. */
int bench_failed(struct bench_result *result, const char *where, int err);
/*
 * Waits until round trip i may begin, and returns from when it counts. Paced: when it is due, which
 * is over for whoever is late; else idles for the job's gap. began_ns: when the run began.
 */
uint64_t bench_turn_ns(const struct bench_job *job, uint64_t began_ns, uint64_t i);
/*
 * The client's side of a rate run, for any peer: job.threads threads that begin together. stream()
 * sends so many messages and waits for the acknowledgements of all but those that it takes for
 * lost; open() and close() are called in the thread, before and after. Fills the one sample.
 */
struct bench_sender {
	const struct bench_job *job;
	uint64_t index;		 /* of the thread; its server is index % job.services */
	uint64_t first;		 /* number of the first message of this stream() */
	uint64_t received, lost; /* of what was sent in the last stream() */
	int err;
	void *state; /* open()'s */
	int fd;	     /* open()'s */
	char note[112];
};
struct bench_rate_calls {
	int (*open)(struct bench_sender *sender);
	int (*stream)(struct bench_sender *sender, uint64_t count);
	void (*close)(struct bench_sender *sender);
};
int bench_measure_rate(const struct bench_job *job, const struct bench_rate_calls *calls,
	struct bench_result *result);
/* The number of received messages per acknowledgement. */
uint64_t bench_ack_step(const struct bench_job *job);

#endif
