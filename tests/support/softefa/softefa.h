/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * softefa's own objects behind those of verbs, and what its files offer each other. softefa stands
 * for libibverbs and libefa in the programs that it is preloaded into; README.md tells what for.
 *
 * One lock guards everything that has no lock of its own. Functions whose comment says "locked"
 * are called with it held. A verbs object is the first member of ours, so that a cast leads from
 * one to the other.
 */
#ifndef SOFTEFA_H
#define SOFTEFA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

/* The calls that we stand for are what this library exports, and they alone. */
#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <infiniband/efadv.h>
#pragma GCC visibility pop

#include "link.h"
#include "wire.h"

#define SOFTEFA_INLINE_MAX 32  /* bytes, as EFA's */
#define SOFTEFA_SGE_MAX	   4   /* of a receive; a send has SOFTEFA_SEND_SGE_MAX */
#define SOFTEFA_SEND_SGE_MAX 2
#define SOFTEFA_RNR_INFINITE 7
#define SOFTEFA_AH_UNKNOWN 0xffff /* the sender's address handle number, where we have none */
#define SOFTEFA_GRH_LEN	   40	  /* bytes left free before a UD payload */

/* Values of a completion's vendor_err: EFA's own codes (efa_io_defs.h of the Linux driver). */
enum softefa_status {
	SOFTEFA_OK = 0,
	SOFTEFA_FLUSHED = 1,
	SOFTEFA_LOCAL_QP_INTERNAL = 2,
	SOFTEFA_LOCAL_UNSUPPORTED_OP = 3,
	SOFTEFA_LOCAL_INVALID_AH = 4,
	SOFTEFA_LOCAL_INVALID_LKEY = 5,
	SOFTEFA_LOCAL_BAD_LENGTH = 6,
	SOFTEFA_REMOTE_BAD_ADDRESS = 7,
	SOFTEFA_REMOTE_ABORT = 8,
	SOFTEFA_REMOTE_BAD_DEST_QPN = 9,
	SOFTEFA_REMOTE_RNR = 10,
	SOFTEFA_REMOTE_BAD_LENGTH = 11,
	SOFTEFA_REMOTE_BAD_STATUS = 12,
	SOFTEFA_LOCAL_UNRESP_REMOTE = 13,
	/* the partner has no address handle for us, and RDMA needs one */
	SOFTEFA_REMOTE_UNKNOWN_PEER = 14,
};

/* Read once from the environment; README.md has the table. */
struct softefa_settings {
	uint64_t seed;
	uint32_t n_devices, host, first_qpn;
	uint32_t shuffle_percent, shuffle_span, hold_us, delay_us;
	uint32_t srd_mtu, ud_mtu, max_send_wr, max_recv_wr, max_qp;
	uint32_t rnr_us, unresponsive_ms, enomem_percent, ud_loss_percent;
	uint32_t dead_status, idle_polls;
	bool has_rdma_read, has_rnr_retry;
	char fabric[SOFTEFA_FABRIC_MAX + 1];
	char sysfs[192];
	char counters[256];
};

/* Counted under the lock, printed at exit. */
struct softefa_counters {
	uint64_t sent, sent_bytes, received, received_bytes, reordered;
	uint64_t held, overtaken, reads, read_bytes, reads_served;
	uint64_t rnr_sent, rnr_received, rnr_exhausted;
	uint64_t refused_full, refused_injected, busy, errors, unresponsive;
	uint64_t ud_lost, dropped_bad, dropped_unknown, cq_overruns;
};

extern pthread_mutex_t softefa_lock;
extern struct softefa_counters softefa_counters;

struct softefa_ah {
	struct ibv_ah ibv;
	uint8_t gid[SOFTEFA_GID_LEN];
	uint16_t number;
};

struct softefa_completion {
	uint64_t wr_id;
	enum ibv_wc_opcode opcode;
	uint32_t status; /* enum softefa_status */
	uint32_t byte_len, qp_num, src_qp, flags;
	uint16_t source_ah;
	__be32 imm;
	union ibv_gid source_gid;
};

struct softefa_channel {
	struct ibv_comp_channel ibv; /* its fd is the end that is read */
	int write_fd;
};

struct softefa_cq {
	struct ibv_cq_ex ex;
	struct efadv_cq efadv;
	TAILQ_ENTRY(softefa_cq) entry;
	pthread_mutex_t poll_lock; /* held from start_poll to end_poll */
	struct softefa_completion current;
	struct softefa_completion *ring;
	uint32_t n_ring, first, n;
	_Atomic uint32_t n_idle_polls; /* in a row */
	uint32_t n_qps;
	bool armed;
};

struct softefa_receive {
	uint64_t wr_id;
	int n_sge;
	struct ibv_sge sge[SOFTEFA_SGE_MAX];
};

TAILQ_HEAD(softefa_requests, softefa_request);

/* A work request of the send queue. */
struct softefa_request {
	TAILQ_ENTRY(softefa_request) entry;
	struct softefa_requests *list; /* free, queued, sent or building of its queue pair */
	uint64_t wr_id;
	struct softefa_peer peer;
	enum softefa_kind kind; /* SOFTEFA_SEND or SOFTEFA_READ */
	struct softefa_name name;
	uint32_t qkey, remote_key;
	uint64_t remote_address;
	uint32_t length, n_received; /* bytes */
	uint32_t n_may_pass;	     /* of those behind it: then it is held back no longer */
	uint64_t due_ns, asked_ns, refused_ns;
	__be32 imm;
	bool has_imm, is_inline;
	uint8_t n_rnr;
	int n_sge;
	struct ibv_sge sge[SOFTEFA_SGE_MAX];
	uint8_t inline_data[SOFTEFA_INLINE_MAX];
};

/* A partner's RDMA read that we are answering. */
struct softefa_serve {
	TAILQ_ENTRY(softefa_serve) entry;
	struct softefa_peer peer;
	struct softefa_name name;
	uint32_t key, length, offset;
	uint64_t address;
};

struct softefa_ack {
	struct softefa_peer peer;
	struct softefa_ack_entry entry;
};

/* For counting what arrives after a later one. */
struct softefa_source {
	struct softefa_peer peer;
	uint32_t highest_psn;
	bool used;
};

#define SOFTEFA_N_SOURCES 256

struct softefa_qp {
	struct ibv_qp_ex ex;
	TAILQ_ENTRY(softefa_qp) entry;
	struct softefa_peer self;
	struct softefa_link link; /* its fd is -1 in the child of a fork */
	bool is_srd;
	uint32_t qkey, mtu;
	uint8_t rnr_retry;
	uint32_t psn;
	uint64_t random;
	uint32_t max_inline;

	struct softefa_request *requests;
	uint32_t n_requests;
	struct softefa_requests free, queued, sent;
	uint64_t probe_ns;

	/* The requests between wr_start and wr_complete, of the holder of this lock: a spin lock,
	 * as it may be taken by one thread and given back by another. */
	pthread_spinlock_t build_lock;
	struct softefa_requests building;
	struct softefa_request *current;
	int build_error;

	struct softefa_receive *receives;
	uint32_t n_receives, first_receive, n_posted;
	int max_send_sge, max_recv_sge;

	struct softefa_ack *acks;
	uint32_t n_acks, n_acks_room;
	TAILQ_HEAD(, softefa_serve) serves;
	uint32_t n_serves;
	struct softefa_source sources[SOFTEFA_N_SOURCES];
};

/* settings.c */
const struct softefa_settings *softefa_settings(void);
uint64_t softefa_draw(uint64_t *state);
bool softefa_happens(uint64_t *state, uint32_t percent);

/* counters.c: writes them where the settings say. */
void softefa_counters_print(void);

/* device.c */
void softefa_gid(uint32_t device, uint8_t *gid);
uint32_t softefa_device_index(const struct ibv_context *context);

/* ah.c, locked: the number of the address handle for a GID, or SOFTEFA_AH_UNKNOWN. */
uint16_t softefa_ah_number(const struct ibv_context *context, const uint8_t *gid);

/* memory.c, locked: whether a key allows this access to this memory. The protection domain is
 * compared if it is given; its context always is. */
bool softefa_memory_allows(const struct ibv_context *context, const struct ibv_pd *pd,
	uint32_t key, uint64_t address, uint64_t len, int access);

/* cq.c: creates and fills completion queues; push is locked. */
struct ibv_cq_ex *softefa_cq_create(struct ibv_context *context,
	const struct ibv_cq_init_attr_ex *attr);
void softefa_cq_push(struct ibv_cq *cq, const struct softefa_completion *completion);
enum ibv_wc_status softefa_wc_status(uint32_t status);
int softefa_cq_poll(struct ibv_cq *cq, int n_wanted, struct ibv_wc *wc);
int softefa_cq_arm(struct ibv_cq *cq, int solicited_only);

/* qp.c */
struct ibv_qp *softefa_qp_create(struct ibv_context *context,
	const struct ibv_qp_init_attr_ex *attr, bool is_srd);
int softefa_qp_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
bool softefa_qp_hears(const struct softefa_qp *qp); /* locked: ready to receive */

/* send.c: the ways to post. */
int softefa_send_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
void softefa_send_fill(struct ibv_qp_ex *ex, uint64_t send_ops);

/* launch.c, locked: from the send queue to the wire, and what came of it. */
void softefa_request_move(struct softefa_request *request, struct softefa_requests *list);
void softefa_enqueue(struct softefa_qp *qp, struct softefa_request *request, uint64_t now_ns);
void softefa_launch(struct softefa_qp *qp, uint64_t now_ns);
void softefa_probe(struct softefa_qp *qp, uint64_t now_ns);
void softefa_complete(struct softefa_qp *qp, struct softefa_request *request, uint32_t status);
void softefa_not_ready(struct softefa_qp *qp, struct softefa_request *request);
/* Requests that wait for an answer of this partner have not reached it. */
void softefa_send_again(struct softefa_qp *qp, const struct softefa_peer *peer);

/* deliver.c, locked: from the wire to memory, and the answers. */
void softefa_receive(struct softefa_qp *qp, bool all); /* all: see softefa_link_receive() */
void softefa_answer(struct softefa_qp *qp);

/* engine.c, locked but for the first. */
uint64_t softefa_now_ns(void);
int softefa_engine_add(struct softefa_qp *qp);
void softefa_engine_remove(struct softefa_qp *qp);
void softefa_engine_wake(void);
void softefa_engine_poll(void); /* the program polls: moves what can be moved */

#endif
