/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects and functions shared by the files of the fake libibverbs (verbs.h). */
#ifndef FAKE_VERBS_WORLD_H
#define FAKE_VERBS_WORLD_H

#include <pthread.h>

#include "util/list.h"
#include "verbs.h"

#define HELD_MAX     64
#define ATTACHED_MAX 64

struct fake_cq {
	struct ibv_cq cq;
	struct ibv_wc *wcs; /* a ring */
	uint32_t depth, first, n;
	bool armed;
};

struct fake_recv {
	uint64_t wr_id;
	uint8_t *mem;
	uint32_t len;
};

struct fake_qp {
	struct ibv_qp qp;
	struct list node;
	struct ibv_qp_attr attr;
	uint32_t max_send, max_recv, max_inline;
	struct fake_recv *recvs; /* a ring */
	uint32_t first, n_recvs;
	struct ibv_send_wr held[HELD_MAX];
	struct ibv_sge pieces[HELD_MAX];
	uint32_t n_held;
	union ibv_gid gid;    /* its address */
	union ibv_gid groups[ATTACHED_MAX]; /* the queue pair is attached to these */
	uint32_t n_groups;
	struct list sent;     /* struct fake_sent, not gone yet */
	uint32_t unsignalled; /* posted since the last that was told, so still in the queue */
};

struct fake_sent {
	struct list node;
	struct ibv_send_wr wr;
	struct ibv_sge piece;
	uint8_t bytes[];
};

struct fake_ah {
	struct ibv_ah ah;
	struct list node;
	uint32_t number; /* from 1 */
	uint8_t sgid_index;
	union ibv_gid dgid;
};

struct fake_mr {
	struct ibv_mr mr;
	struct list node;
	unsigned int access;
	bool stuck; /* until its context is closed */
};

struct fake_context {
	struct ibv_context context;
	struct list node;
	int pipe[2];
};

struct fake_channel {
	struct ibv_comp_channel channel;
	int write_fd;
};

struct fake_world {
	pthread_mutex_t lock;
	struct list qps, mrs, ahs, contexts;
	uint32_t next_number, next_key, live, faults;
	const char *fault;
	struct ibv_device device;
};

extern struct fake_world fake_world;

/* A rule was broken. */
void fake_fault(const char *what);
/* True: this call fails, with errno set. */
bool fake_fails(enum fake_call call);
/* An object, zeroed; and its end: 0. Under the lock. */
void *fake_made(size_t len);
int fake_gone(void *object);
/* Under the lock. */
void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc);
/* May a queue pair of this domain use that memory so? Under the lock. */
bool fake_may_use(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint32_t len,
		unsigned int access);
/* Slowly sent requests that complete there progress by one step. Under the lock. */
void fake_send_one(const struct ibv_cq *cq);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

#endif
