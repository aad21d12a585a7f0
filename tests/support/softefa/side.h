/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a test's conversation: a device with all that is needed to send and receive, by the
 * public calls of verbs and efadv only. Functions abort the case when something fails that should
 * not, and wait long for what should come.
 */
#ifndef SOFTEFA_SIDE_H
#define SOFTEFA_SIDE_H

#include <check.h>
#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define SIDE_QKEY     0x1234567
#define SIDE_BYTES    (1 << 20)
#define SIDE_SLOT     8800 /* bytes of each buffer that side_receive() posts */

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	struct ibv_ah *ah; /* to its partner */
	uint32_t key;	   /* of its memory, for all that it posts */
	uint8_t *bytes;	   /* the first half is sent from, the second one received to */
};

struct side_completion {
	uint64_t wr_id;
	enum ibv_wc_status status;
	uint32_t vendor_err, byte_len, src_qp;
	enum ibv_wc_opcode opcode;
	bool has_imm;
	uint32_t imm;
};

struct side_options {
	bool is_ud, without_read;
	uint32_t n_send, n_recv; /* 0: 64 */
	int rnr_retry;		 /* -1: as the device has it */
};

/* Before the first call of a case: a setting, without its SOFTEFA_. */
void side_set(const char *name, const char *value);

void side_open(struct side *side, const struct side_options *options);
void side_close(struct side *side);
/* Its memory is closed, and opened anew with what IBV_ACCESS_* allow. */
void side_register_again(struct side *side, int access);
void side_gid(struct side *side, union ibv_gid *gid);
void side_aim(struct side *side, const union ibv_gid *gid);
void side_pair(struct side sides[2], const struct side_options *options);
void side_pair_close(struct side sides[2]);
/* The first one sends so many bytes to the second one; returns how that ended for the first. */
struct side_completion side_pair_send(struct side sides[2], uint32_t len);
/* A byte from the first one arrives at the second one. */
void side_pair_pass(struct side sides[2]);

/* Posts the buffer of this number to receive to. */
void side_receive(struct side *side, uint32_t slot);
uint8_t *side_slot(struct side *side, uint32_t slot);

/* Sends the first len bytes; returns what verbs returned. */
int side_send(struct side *side, uint32_t qpn, uint32_t len, uint64_t wr_id);
int side_read(struct side *side, uint32_t qpn, uint32_t key, uint64_t address, uint32_t len);

bool side_poll(struct side *side, struct side_completion *completion);
void side_wait(struct side *side, struct side_completion *completion);

#endif
