/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the backends over libibverbs (verbs: InfiniBand and RoCE; rdmacm: iWARP): the
 * device, the memory that partners may reach, reads in progress, receive buffers, and the helper
 * threads for calls that block. No file here knows how the two ends connect.
 *
 *   device.c   the choice of device, port and GID; the device's events
 *   memory.c   a partner's protection domain, registrations in it, keys; reads and writes on
 *              queue pairs, each of which ends with its event
 *   ring.c     receive buffers, registered once, posted in batches
 *   common.c   numbers that nobody can guess, completion queues, posting, and routes that are being
 *              opened
 *   worker.c   helper threads
 *
 * Threads: the thread that has the context's lock calls all functions but those that jobs run.
 */
#ifndef RIPC_RDMA_H
#define RIPC_RDMA_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/net/backend.h"
#include "util/buffers.h"
#include "util/list.h"
#include "util/map.h"

/* ---- device.c ---------------------------------------------------------------------------- */

enum ripc__rdma_kind {
	RIPC__RDMA_INFINIBAND = 1,
	RIPC__RDMA_ROCE_V1 = 2,
	RIPC__RDMA_ROCE_V2 = 3,
	RIPC__RDMA_IWARP = 4,
};

/* What to look for. */
struct ripc__rdma_wish {
	enum ibv_transport_type transport; /* IBV_TRANSPORT_IB (also RoCE) or IBV_TRANSPORT_IWARP */
	const char *device;                /* "NAME" or "NAME:PORT"; NULL: the first that works */
	int gid_index;                     /* -1: by rule */
};

struct ripc__rdma_device {
	struct ibv_context *context;
	struct ibv_pd *pd;          /* for datagrams and messages */
	struct ripc__host host;     /* for the log */
	struct ibv_device_attr attr;
	union ibv_gid gid;
	enum ripc__rdma_kind kind;
	uint32_t message_max;       /* bytes of one read */
	uint16_t lid;
	uint8_t port;               /* of the device, from 1 */
	uint8_t gid_index;
	uint8_t gid_rank;           /* gid's ripc__rdma_gid_rank() */
	uint8_t mtu;                /* enum ibv_mtu: active */
	uint8_t link_layer;         /* IBV_LINK_LAYER_... */
	struct list regions;        /* struct ripc__rdma_region */
	struct ripc__map keys;      /* that are open */
	uint32_t n_downs;           /* how often the port has lost its link */
	uint32_t n_moves;           /* how often gid or gid_index has changed */
	int wished_gid;             /* its index; -1: by rule */
	bool is_down;               /* the port has no link, or: */
	bool lacks_address;         /* gid is gone, and there is no other one of its rank */
	bool is_lost;               /* the device is gone, and must be opened anew */
	bool told_memlock;          /* the limit was logged */
};

/*
 * Opens the first port that fits the wish and works, without allocating a protection domain. why
 * and remedy as of ripc__backend.probe; device is only filled on success.
 */
int ripc__rdma_device_open(struct ripc__rdma_device *device, const struct ripc__rdma_wish *wish,
		char why[256], char remedy[256]);
/* Allocates device->pd. -ENOMEM: the device is closed. */
int ripc__rdma_device_start(struct ripc__rdma_device *device);
/* Closes the device with its remaining keys and regions, once no queue pair uses them. */
void ripc__rdma_device_close(struct ripc__rdma_device *device);
/* Updates is_down, is_lost and gid: the port's link and address may have changed. */
void ripc__rdma_device_look(struct ripc__rdma_device *device);
/*
 * Takes the asynchronous events: is_down, is_lost or gid may have changed. Never blocks. False: the
 * device was removed, and its descriptor stays readable.
 */
bool ripc__rdma_device_events(struct ripc__rdma_device *device);
/* Makes a descriptor fit for poll and for never blocking in a read. 0 or a negative errno. */
int ripc__rdma_nonblocking(int fd);
/* How likely others reach a GID of an Ethernet port; the highest is taken. */
int ripc__rdma_gid_rank(const struct ibv_gid_entry *entry);

/* Is it an IPv4 address, as IPv6 writes it? */
static inline bool ripc__rdma_is_v4(const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

/* ---- common.c: the completion queue ------------------------------------------------------ */

/* A completion queue, with a channel that reports when it has something. */
struct ripc__rdma_queue {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint32_t unacked;           /* events of the channel */
	bool armed;                 /* the channel reports the next completion */
};

/* The descriptors of the channel and of the device do not block from now on. */
int ripc__rdma_queue_open(struct ripc__rdma_queue *queue, const struct ripc__rdma_device *device,
		uint64_t entries);
void ripc__rdma_queue_close(struct ripc__rdma_queue *queue);
/* Takes an event of the channel, if there is one. False: as of ripc__rdma_device_events(). */
bool ripc__rdma_queue_event(struct ripc__rdma_queue *queue);

/* ---- memory.c: keys and regions ---------------------------------------------------------- */

/*
 * A protection domain per partner: memory that is opened in it can only be reached through that
 * partner's queue pairs, whatever keys others guess. Counted by its users.
 */
struct ripc__rdma_space {
	struct ripc__rdma_device *device;
	struct ibv_pd *pd;
	uint32_t refs;
	uint32_t n_keys;               /* open keys: the partner may be reading, or writing */
};

/* Memory that a partner's bytes are read into, or that is written to the partner. */
struct ripc__rdma_region {
	struct list node;              /* device->regions */
	struct ripc__rdma_space *space;
	struct ibv_mr *mr;
};

int ripc__rdma_space_open(struct ripc__rdma_device *device, struct ripc__rdma_space **space);
void ripc__rdma_space_get(struct ripc__rdma_space *space);
/* Releases the space; the last user frees it. */
void ripc__rdma_space_put(struct ripc__rdma_space *space);

/*
 * These register memory, and log the remedy if locked memory is short. access: enum
 * ibv_access_flags; iWARP needs IBV_ACCESS_REMOTE_WRITE for memory that is read into.
 */

/* A set of buffers, which a forked child does not get; closes it on failure. */
int ripc__rdma_register_buffers(struct ripc__rdma_device *device, struct ibv_pd *pd,
		struct ripc__buffers *buffers, int access, struct ibv_mr **mr);
/* *region: a struct ripc__rdma_region. */
int ripc__rdma_region_open(struct ripc__rdma_space *space, const struct iovec *mem, int access,
		void **region);
/* As ripc__backend.mem.dereg. */
void ripc__rdma_mem_dereg(void *port, void *region);
/* Closes all keys and regions of the device. */
void ripc__rdma_memory_close(struct ripc__rdma_device *device);

/* Registers exactly this range, for the partner of the space to read, or otherwise to write. */
int ripc__rdma_key_open(struct ripc__rdma_space *space, const struct iovec *mem, bool writable,
		struct ripc__key *key);
/*
 * Closes a key. 0: no partner can reach the memory any more. -EINVAL: the key is not open. -EIO:
 * the device fails to close it, and is lost; the memory is reachable until the partner's queue
 * pairs are gone.
 */
int ripc__rdma_key_close(struct ripc__rdma_device *device, const struct ripc__key *key);
/* The space that the key belongs to; NULL: the key is not open. */
const struct ripc__rdma_space *ripc__rdma_key_space(const struct ripc__rdma_device *device,
		const struct ripc__key *key);

/* ---- common.c: posting ------------------------------------------------------------------- */
/* ibv_post_send(). Guarded: it raises no SIGPIPE in the caller, for three system calls more. */
int ripc__rdma_post(struct ibv_qp *qp, bool guarded, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad);
/* Would SIGPIPE end the program, because the program neither ignores nor handles it? */
bool ripc__rdma_sigpipe_ends(void);
/*
 * Between begin and end no call raises SIGPIPE; such pairs may lie within one another. before: for
 * the end.
 */
void ripc__rdma_guard_begin(sigset_t *before);
void ripc__rdma_guard_end(const sigset_t *before);

/* ---- memory.c: reads --------------------------------------------------------------------- */

#define RIPC__RDMA_READS       64u /* and writes, of one port: waiting, in progress, or ended and
                                      not polled */
#define RIPC__RDMA_READS_OF_QP 16u /* posted to one queue pair at once */

/* wr_id of a read or write: this bit, a number, and the index of its slot. */
#define RIPC__RDMA_WR_READ (1ull << 63)

struct ripc__rdma_read {
	struct list node; /* free, waiting (its flow's), or ended; alone while posted */
	struct ripc__rdma_flow *flow;
	uint64_t cookie, address;
	uint8_t *mem;
	uint32_t len, lkey, rkey;
	uint32_t number; /* of this use: shows that a completion is stale */
	bool posted, writes;
	int status;
};

/* All reads of one port. */
struct ripc__rdma_reads {
	struct list free, ended;
	bool guarded;          /* as of ripc__rdma_post() */
	struct ripc__rdma_read slots[RIPC__RDMA_READS];
};

/* The reads that use one queue pair, or wait until it is there. */
struct ripc__rdma_flow {
	struct ripc__rdma_reads *reads;
	struct ibv_qp *qp;     /* NULL: not ready, reads wait */
	struct list waiting;
	uint32_t n_posted;     /* posted, but not completed; also after a failure */
	uint32_t most_posted;
	bool failed;           /* the queue pair is useless from now on */
};

void ripc__rdma_reads_init(struct ripc__rdma_reads *reads);
void ripc__rdma_flow_init(struct ripc__rdma_flow *flow, struct ripc__rdma_reads *reads);
/* The queue pair is ready to send: waiting reads are posted, at most most_posted at once. */
void ripc__rdma_flow_start(struct ripc__rdma_flow *flow, struct ibv_qp *qp, uint32_t most_posted);
/*
 * The connection failed: nothing more is posted. Posted reads end with their completions (the
 * queue pair must be in the error state, or on its way there), which the owner awaits; waiting
 * reads go on waiting.
 */
void ripc__rdma_flow_fail(struct ripc__rdma_flow *flow);
/* There can be no connection: waiting reads end. */
void ripc__rdma_flow_refuse(struct ripc__rdma_flow *flow, int status);
/* The queue pair is destroyed: posted reads that were not completed end. Ready for another one. */
void ripc__rdma_flow_stop(struct ripc__rdma_flow *flow, int status);
/* Reads that may be posted to one queue pair at once, if its ends take a and b. */
static inline uint8_t ripc__rdma_reads_at_once(int a, int b)
{
	int less = a < b ? a : b;

	return (uint8_t)(less < (int)RIPC__RDMA_READS_OF_QP ? less : (int)RIPC__RDMA_READS_OF_QP);
}

static inline bool ripc__rdma_flow_is_idle(const struct ripc__rdma_flow *flow)
{
	return flow->n_posted == 0 && list_empty(&flow->waiting);
}

/*
 * Takes one read or write, whose region is a struct ripc__rdma_region. Its end follows, if the
 * owner of the flow provides a connection. -EAGAIN: too many are in progress. -EINVAL: the
 * memory was not registered.
 */
int ripc__rdma_move(struct ripc__rdma_flow *flow, const struct ripc__move *move);
/*
 * The completion of a read or write (its wr_id has RIPC__RDMA_WR_READ). Returns the flow, which has
 * failed if the status was bad; NULL: the completion is stale.
 */
struct ripc__rdma_flow *ripc__rdma_read_completed(struct ripc__rdma_reads *reads,
		const struct ibv_wc *wc);
/* Up to n events of reads and writes that have ended. */
uint32_t ripc__rdma_reads_events(struct ripc__rdma_reads *reads, struct ripc__event *events,
		uint32_t n);

/* ---- ring.c ------------------------------------------------------------------------------ */

/*
 * Receive buffers of a queue pair or of a shared receive queue. At most half of them are with
 * core at once: an application that holds buffers cannot starve the network.
 */
struct ripc__rdma_ring {
	struct ripc__buffers *buffers;
	struct ibv_mr *mr;
	struct ibv_qp *qp;   /* the buffers are posted to one of both */
	struct ibv_srq *srq;
	uint32_t count, len; /* buffers; bytes of each */
	uint32_t batch;      /* of buffers that are posted together */
	uint32_t n_idle;     /* neither posted nor with core */
	uint32_t n_handed;
	uint32_t *idle, *handed; /* their indices */
	uint64_t mark;       /* in the wr_id of each receive; above the buffer's index, 32 bits */
};

#define RIPC__RDMA_WR_RECV (1ull << 62) /* the mark of a ring, unless its owner adds to it */

/* Before the queue: memory for so many buffers, registered in pd, wanted or (-ENOMEM) fewer. */
int ripc__rdma_ring_open(struct ripc__rdma_ring *ring, struct ripc__rdma_device *device,
		uint32_t count, uint32_t len);
/* Posts all buffers to one of both; the other is NULL. */
int ripc__rdma_ring_start(struct ripc__rdma_ring *ring, struct ibv_qp *qp, struct ibv_srq *srq);
/* After the queue was destroyed. Buffers that are still held stay valid until they are released. */
void ripc__rdma_ring_close(struct ripc__rdma_ring *ring);
/* May core get one more buffer? */
static inline bool ripc__rdma_ring_may_hand(const struct ripc__rdma_ring *ring)
{
	return ring->n_handed < ring->count / 2;
}
/*
 * The buffer of a completed receive (its wr_id). hand: core gets it, and releases it; keep: the
 * ring keeps it.
 */
struct ripc__buffer *ripc__rdma_ring_hand(struct ripc__rdma_ring *ring, uint64_t wr_id);
const uint8_t *ripc__rdma_ring_bytes(const struct ripc__rdma_ring *ring, uint64_t wr_id);
void ripc__rdma_ring_keep(struct ripc__rdma_ring *ring, uint64_t wr_id);
/* Takes back released buffers and posts them, if there is a batch. */
void ripc__rdma_ring_refill(struct ripc__rdma_ring *ring);

/* ---- common.c: numbers, openings --------------------------------------------------------- */

/* A number that nobody can guess and that is not repeated; never 0. */
uint64_t ripc__rdma_nonce(const uint8_t secret[16], uint64_t *counter);

/* A route.open that waits, or a RIPC_EV_PEER that was not polled. */
struct ripc__rdma_opening {
	struct list node;
	struct ripc__event event;
	struct ripc__addr from;
	uint32_t number; /* never 0 */
};

/* last: the number of the one before. NULL: no memory. */
struct ripc__rdma_opening *ripc__rdma_opening_new(uint32_t *last, void *route,
		const struct ripc__addr *addr);
/* One opening, or all waiting ones, have ended: they are polled with this status. */
void ripc__rdma_opening_end(struct ripc__rdma_opening *opening, int status, struct list *ended);
void ripc__rdma_openings_end(struct list *waiting, int status, struct list *ended);
/* The route is closed: core gets no report of its opening any more. number 0: it had none. */
void ripc__rdma_opening_forget(struct list *waiting, struct list *ended, uint32_t number);
void ripc__rdma_openings_free(struct list *list);
/* Fills events[at..n), with their addresses in from; returns where it ended. */
uint32_t ripc__rdma_openings_take(struct list *ended, struct ripc__addr *from,
		struct ripc__event *events, uint32_t at, uint32_t n);

/* ---- worker.c ---------------------------------------------------------------------------- */

/* A call that may block. run is called by a helper thread and touches only its own object. */
struct ripc__rdma_job {
	struct list node;
	void (*run)(struct ripc__rdma_job *job);
	void (*done)(struct ripc__rdma_job *job); /* by ripc__rdma_worker_done() */
	bool ran; /* false in done: the worker closes, and run was not called */
	bool is_slow; /* may take seconds: one thread stays free for others */
};

/* Up to RIPC__RDMA_THREADS threads, started when needed. */
struct ripc__rdma_worker;

/*
 * Within run: a call that may last for minutes, and holds nothing. If the worker closes
 * meanwhile, or the job is left, the thread ends there, and done follows as if the job had run.
 */
int ripc__rdma_may_be_left(int (*call)(void *arg), void *arg);

#define RIPC__RDMA_THREADS 4u

int ripc__rdma_worker_open(struct ripc__rdma_worker **worker);
/* Waits for jobs that run, drops the others; their owners get them all back (done). */
void ripc__rdma_worker_close(struct ripc__rdma_worker *worker);
/* Readable when ripc__rdma_worker_done() has something. */
int ripc__rdma_worker_fd(const struct ripc__rdma_worker *worker);
/* Never fails: if no thread can be started, the caller runs the job at once. */
void ripc__rdma_worker_submit(struct ripc__rdma_worker *worker, struct ripc__rdma_job *job);
/* The job, if it runs, ends now, as far as it may be left. */
void ripc__rdma_worker_leave(struct ripc__rdma_worker *worker, const struct ripc__rdma_job *job);
/* Calls done for every job that has run. Cheap when there is none. */
void ripc__rdma_worker_done(struct ripc__rdma_worker *worker);
/* Jobs that were submitted and whose done was not called. */
uint32_t ripc__rdma_worker_pending(const struct ripc__rdma_worker *worker);

#endif
