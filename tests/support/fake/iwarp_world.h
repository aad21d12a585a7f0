/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects and functions shared by the files of the fake iWARP device (iwarp.h). */
#ifndef FAKE_IWARP_WORLD_H
#define FAKE_IWARP_WORLD_H

#include <pthread.h>

#include "iwarp.h"
#include "util/list.h"

#define IP         0x7f4d0101u /* 127.77.1.1, so that datagrams over UDP arrive */
#define PORT_FIRST 20000
#define PORTS_OF   1000 /* processes, with 32 each */
#define PRIVATE    64

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

struct fake_srq {
	struct ibv_srq srq;
	struct fake_recv *recvs; /* a ring */
	uint32_t depth, first, n;
};

/* A read that has not ended, or what a write brings that has. */
struct fake_move {
	uint64_t wr_id;
	void *to;
	const void *from;
	uint32_t len;
	uint8_t *written; /* NULL: it is a read */
};

struct fake_qp {
	struct ibv_qp qp;
	struct list node;
	struct fake_qp *remote; /* NULL: not connected, or not any more */
	struct fake_id *id;
	bool is_server, was_connected, has_heard;
	uint32_t max_send;
	struct fake_move held[64];
	uint32_t n_held;
};

struct fake_mr {
	struct ibv_mr mr;
	struct list node;
	unsigned int access;
	bool stuck; /* until its context is closed */
};

struct fake_context {
	struct ibv_context context;
	int pipe[2];
};

struct fake_pipe_channel { /* of completions */
	struct ibv_comp_channel channel;
	int write_fd;
};

struct fake_channel {
	struct rdma_event_channel channel;
	int write_fd;
	struct list events;
};

struct fake_event {
	struct rdma_cm_event event;
	struct list node;
	uint8_t bytes[PRIVATE];
};

struct fake_id {
	struct rdma_cm_id id;
	struct list node;
	struct fake_id *remote;
	uint32_t unacknowledged;
	bool listens;
	bool asks;    /* and has had no answer, */
	bool is_mute; /* as nobody hears it */
};

struct fake_world {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	struct list qps, mrs, ids;
	uint32_t next_key, live, faults, n_qps;
	uint16_t next_port;
	const char *fault;
	struct ibv_device device;
	struct fake_context shared; /* librdmacm's own */
};

extern struct fake_world fake_world;

/* A rule was broken. */
void fake_fault(const char *what);
/* True: this call fails, with errno set. */
bool fake_fails(enum fake_call call);
/* An object, zeroed; and its end: 0. */
void *fake_made(size_t len);
int fake_gone(void *object);
void fake_signal_fd(int fd);
/* SIGPIPE, if the kernel sends by a socket in there. */
void fake_raise(void);
void fake_complete(struct ibv_cq *to, const struct ibv_wc *wc);
/* Breaks a connection; both ends hear of it. Under the lock. */
void fake_separate(struct fake_qp *qp);
/* Until what this one has asked is answered. Under the lock. */
void fake_await_answer(struct fake_id *id);

#endif
