/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting to the send queue, in verbs' two ways: a list of work requests, or a builder between
 * wr_start and wr_complete. This file refuses the requests that libefa refuses; faults that the
 * device finds, such as a length or a key, become completions (launch.c).
 */
#include "softefa.h"

#include <errno.h>
#include <string.h>

static struct softefa_qp *of_ex(struct ibv_qp_ex *ex)
{
	return (struct softefa_qp *)ex;
}

static void build_start(struct softefa_qp *qp)
{
	pthread_spin_lock(&qp->build_lock);
	qp->build_error = 0;
	qp->current = NULL;
}

/* Takes a place of the send queue into qp->current, or notes why not. */
static void build_request(struct softefa_qp *qp, enum softefa_kind kind, uint64_t wr_id,
	unsigned int flags)
{
	struct softefa_request *request;

	if (qp->build_error)
		return;
	if (qp->link.fd < 0 || qp->ex.qp_base.state != IBV_QPS_RTS ||
		flags & ~(unsigned int)(IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_SOLICITED)) {
		qp->build_error = EINVAL;
		return;
	}
	pthread_mutex_lock(&softefa_lock);
	request = TAILQ_FIRST(&qp->free);
	if (!request) {
		softefa_counters.refused_full++;
	} else if (softefa_happens(&qp->random, softefa_settings()->enomem_percent)) {
		softefa_counters.refused_injected++;
		request = NULL;
	}
	if (request)
		softefa_request_move(request, &qp->building);
	else
		qp->build_error = ENOMEM;
	pthread_mutex_unlock(&softefa_lock);
	if (!request)
		return;
	request->kind = kind;
	request->wr_id = wr_id;
	request->has_imm = request->is_inline = false;
	request->n_sge = 0;
	request->length = 0;
	memset(&request->peer, 0, sizeof(request->peer));
	qp->current = request;
}

static void build_sges(struct softefa_qp *qp, size_t n, const struct ibv_sge *sges)
{
	struct softefa_request *request = qp->current;
	uint64_t length = 0;

	if (qp->build_error)
		return;
	if (!request || n > (size_t)qp->max_send_sge || (request->kind == SOFTEFA_READ && n > 1)) {
		qp->build_error = EINVAL;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		request->sge[i] = sges[i];
		length += sges[i].length;
	}
	/* A message of this length is refused by the device anyway. */
	request->length = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
	request->n_sge = (int)n;
}

static void build_inline(struct softefa_qp *qp, size_t n, const struct ibv_data_buf *parts)
{
	struct softefa_request *request = qp->current;
	size_t length = 0;

	if (qp->build_error)
		return;
	for (size_t i = 0; i < n; i++) {
		if (!request || parts[i].length > qp->max_inline - length) {
			qp->build_error = EINVAL;
			return;
		}
		if (parts[i].length)
			memcpy(request->inline_data + length, parts[i].addr, parts[i].length);
		length += parts[i].length;
	}
	if (!request)
		return;
	request->is_inline = true;
	request->length = (uint32_t)length;
}

static void build_address(struct softefa_qp *qp, const struct ibv_ah *ah, uint32_t qpn,
	uint32_t qkey)
{
	struct softefa_request *request = qp->current;

	if (qp->build_error || !request)
		return;
	memcpy(request->peer.gid, ((const struct softefa_ah *)ah)->gid, SOFTEFA_GID_LEN);
	request->peer.qpn = qpn;
	request->qkey = qkey;
}

static void build_abort(struct softefa_qp *qp)
{
	struct softefa_request *request;

	pthread_mutex_lock(&softefa_lock);
	while ((request = TAILQ_FIRST(&qp->building)))
		softefa_request_move(request, &qp->free);
	pthread_mutex_unlock(&softefa_lock);
	pthread_spin_unlock(&qp->build_lock);
}

static int build_complete(struct softefa_qp *qp)
{
	struct softefa_request *request;
	int error = qp->build_error;
	uint64_t now_ns;

	if (error) {
		build_abort(qp);
		return error;
	}
	pthread_mutex_lock(&softefa_lock);
	now_ns = softefa_now_ns();
	while ((request = TAILQ_FIRST(&qp->building)))
		softefa_enqueue(qp, request, now_ns);
	softefa_launch(qp, now_ns);
	softefa_engine_wake();
	pthread_mutex_unlock(&softefa_lock);
	pthread_spin_unlock(&qp->build_lock);
	return 0;
}

static void build_imm(struct softefa_qp *qp, __be32 imm)
{
	if (qp->build_error)
		return;
	qp->current->has_imm = true;
	qp->current->imm = imm;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	build_start(of_ex(ex));
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	return build_complete(of_ex(ex));
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	build_abort(of_ex(ex));
}

static void wr_send(struct ibv_qp_ex *ex)
{
	build_request(of_ex(ex), SOFTEFA_SEND, ex->wr_id, ex->wr_flags);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_send(ex);
	build_imm(of_ex(ex), imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t key, uint64_t address)
{
	struct softefa_qp *qp = of_ex(ex);

	build_request(qp, SOFTEFA_READ, ex->wr_id, ex->wr_flags);
	if (qp->build_error)
		return;
	qp->current->remote_key = key;
	qp->current->remote_address = address;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	build_address(of_ex(ex), ah, qpn, qkey);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *data, size_t len)
{
	const struct ibv_data_buf part = {data, len};

	build_inline(of_ex(ex), 1, &part);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
	const struct ibv_data_buf *parts)
{
	build_inline(of_ex(ex), n, parts);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
	const struct ibv_sge sge = {address, length, lkey};

	build_sges(of_ex(ex), 1, &sge);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sges)
{
	build_sges(of_ex(ex), n, sges);
}

void softefa_send_fill(struct ibv_qp_ex *ex, uint64_t send_ops)
{
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	if (send_ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
}

static void build_from_wr(struct softefa_qp *qp, const struct ibv_send_wr *wr)
{
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) {
		qp->build_error = EINVAL;
		return;
	}
	if (wr->num_sge < 0 || wr->num_sge > SOFTEFA_SEND_SGE_MAX) {
		qp->build_error = EINVAL;
		return;
	}
	build_request(qp, SOFTEFA_SEND, wr->wr_id, wr->send_flags);
	if (wr->opcode == IBV_WR_SEND_WITH_IMM)
		build_imm(qp, wr->imm_data);
	build_address(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (wr->send_flags & IBV_SEND_INLINE) {
		struct ibv_data_buf parts[SOFTEFA_SEND_SGE_MAX];

		for (int i = 0; i < wr->num_sge; i++) {
			parts[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
			parts[i].length = wr->sg_list[i].length;
		}
		build_inline(qp, (size_t)wr->num_sge, parts);
	} else {
		build_sges(qp, (size_t)wr->num_sge, wr->sg_list);
	}
}

/* Each request on its own, so that those before a bad one are sent. */
int softefa_send_post(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct softefa_qp *qp = (struct softefa_qp *)ibv;
	int error = 0;

	for (; wr && !error; wr = wr->next) {
		build_start(qp);
		build_from_wr(qp, wr);
		error = build_complete(qp);
		if (error)
			*bad_wr = wr;
	}
	return error;
}
