/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See side.h.
 */
#include "side.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_S 60 /* far beyond what anything here takes */

void side_set(const char *name, const char *value)
{
	char full[64];

	snprintf(full, sizeof(full), "SOFTEFA_%s", name);
	setenv(full, value, 1);
}

static void open_queues(struct side *side, const struct side_options *options)
{
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 4096, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct efadv_cq_init_attr efa_cq = {.wc_flags = EFADV_WC_EX_WITH_SGID};
	struct efadv_qp_init_attr efa_qp = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = options->n_send ? options->n_send : 64,
			.max_recv_wr = options->n_recv ? options->n_recv : 64,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 32},
		.qp_type = options->is_ud ? IBV_QPT_UD : IBV_QPT_DRIVER,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = side->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};

	if (!options->is_ud && !options->without_read)
		attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ;
	side->cq = efadv_create_cq(side->context, &cq_attr, &efa_cq, sizeof(efa_cq));
	ck_assert_ptr_nonnull(side->cq);
	attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(side->cq);
	side->qp = options->is_ud ?
		ibv_create_qp_ex(side->context, &attr) :
		efadv_create_qp_ex(side->context, &attr, &efa_qp, sizeof(efa_qp));
	ck_assert_ptr_nonnull(side->qp);
	side->ex = ibv_qp_to_qp_ex(side->qp);
}

static void make_ready(struct side *side, const struct side_options *options)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = SIDE_QKEY};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	ck_assert_int_eq(ibv_modify_qp(side->qp, &attr,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(side->qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	if (options->rnr_retry >= 0) {
		attr.rnr_retry = (uint8_t)options->rnr_retry;
		mask |= IBV_QP_RNR_RETRY;
	}
	ck_assert_int_eq(ibv_modify_qp(side->qp, &attr, mask), 0);
}

void side_open(struct side *side, const struct side_options *options)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	int access = IBV_ACCESS_LOCAL_WRITE;

	memset(side, 0, sizeof(*side));
	ck_assert_ptr_nonnull(devices);
	ck_assert_ptr_nonnull(devices[0]);
	side->context = ibv_open_device(devices[0]);
	ck_assert_ptr_nonnull(side->context);
	ibv_free_device_list(devices);
	side->pd = ibv_alloc_pd(side->context);
	side->bytes = calloc(1, SIDE_BYTES);
	ck_assert(side->pd && side->bytes);
	if (!options->without_read)
		access |= IBV_ACCESS_REMOTE_READ;
	side->mr = ibv_reg_mr(side->pd, side->bytes, SIDE_BYTES, access);
	ck_assert_ptr_nonnull(side->mr);
	side->key = side->mr->lkey;
	open_queues(side, options);
	make_ready(side, options);
}

void side_close(struct side *side)
{
	ck_assert_int_eq(ibv_destroy_qp(side->qp), 0);
	ck_assert_int_eq(ibv_destroy_cq(ibv_cq_ex_to_cq(side->cq)), 0);
	if (side->ah)
		ck_assert_int_eq(ibv_destroy_ah(side->ah), 0);
	if (side->mr)
		ck_assert_int_eq(ibv_dereg_mr(side->mr), 0);
	ck_assert_int_eq(ibv_dealloc_pd(side->pd), 0);
	ck_assert_int_eq(ibv_close_device(side->context), 0);
	free(side->bytes);
}

void side_register_again(struct side *side, int access)
{
	ck_assert_int_eq(ibv_dereg_mr(side->mr), 0);
	side->mr = ibv_reg_mr(side->pd, side->bytes, SIDE_BYTES, access);
	ck_assert_ptr_nonnull(side->mr);
}

void side_gid(struct side *side, union ibv_gid *gid)
{
	ck_assert_int_eq(ibv_query_gid(side->context, 1, 0, gid), 0);
}

void side_aim(struct side *side, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = {.port_num = 1, .is_global = 1, .grh = {.dgid = *gid}};

	side->ah = ibv_create_ah(side->pd, &attr);
	ck_assert_ptr_nonnull(side->ah);
}

void side_pair(struct side sides[2], const struct side_options *options)
{
	union ibv_gid gid;

	for (int i = 0; i < 2; i++) {
		side_open(&sides[i], options);
		side_gid(&sides[i], &gid);
		side_aim(&sides[i], &gid);
	}
}

void side_pair_close(struct side sides[2])
{
	side_close(&sides[0]);
	side_close(&sides[1]);
}

uint8_t *side_slot(struct side *side, uint32_t slot)
{
	return side->bytes + SIDE_BYTES / 2 + slot * SIDE_SLOT;
}

void side_receive(struct side *side, uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)side_slot(side, slot), SIDE_SLOT, side->key};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad_wr;

	ck_assert_uint_lt(slot, SIDE_BYTES / 2 / SIDE_SLOT);
	ck_assert_int_eq(ibv_post_recv(side->qp, &wr, &bad_wr), 0);
}

int side_send(struct side *side, uint32_t qpn, uint32_t len, uint64_t wr_id)
{
	struct ibv_qp_ex *ex = side->ex;

	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, htobe32((uint32_t)wr_id));
	ibv_wr_set_sge(ex, side->key, (uintptr_t)side->bytes, len);
	ibv_wr_set_ud_addr(ex, side->ah, qpn, SIDE_QKEY);
	return ibv_wr_complete(ex);
}

int side_read(struct side *side, uint32_t qpn, uint32_t key, uint64_t address, uint32_t len)
{
	struct ibv_qp_ex *ex = side->ex;

	ibv_wr_start(ex);
	ex->wr_id = len;
	ex->wr_flags = 0;
	ibv_wr_rdma_read(ex, key, address);
	ibv_wr_set_sge(ex, side->key, (uintptr_t)side->bytes, len);
	ibv_wr_set_ud_addr(ex, side->ah, qpn, SIDE_QKEY);
	return ibv_wr_complete(ex);
}

bool side_poll(struct side *side, struct side_completion *completion)
{
	struct ibv_poll_cq_attr attr = {.comp_mask = 0};
	struct ibv_cq_ex *cq = side->cq;

	if (ibv_start_poll(cq, &attr))
		return false;
	completion->wr_id = cq->wr_id;
	completion->status = cq->status;
	completion->vendor_err = ibv_wc_read_vendor_err(cq);
	completion->byte_len = ibv_wc_read_byte_len(cq);
	completion->src_qp = ibv_wc_read_src_qp(cq);
	completion->opcode = ibv_wc_read_opcode(cq);
	completion->has_imm = ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM;
	completion->imm = be32toh(ibv_wc_read_imm_data(cq));
	ibv_end_poll(cq);
	return true;
}

void side_wait(struct side *side, struct side_completion *completion)
{
	struct timespec now;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + PATIENCE_S;
	while (!side_poll(side, completion)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		ck_assert_msg(now.tv_sec < end, "nothing completes");
	}
}

struct side_completion side_pair_send(struct side sides[2], uint32_t len)
{
	struct side_completion completion;

	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, len, 1), 0);
	side_wait(&sides[0], &completion);
	return completion;
}

void side_pair_pass(struct side sides[2])
{
	struct side_completion completion;

	side_receive(&sides[1], 0);
	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 1, 1), 0);
	side_wait(&sides[1], &completion);
	ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
}
