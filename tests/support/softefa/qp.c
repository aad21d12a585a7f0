/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: making them, their states, their receive queues. A queue pair's number is the
 * lowest one free from where this process begins to count, and is held by its socket, so that no
 * two processes have the same.
 */
#include "softefa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t next_qpn;
static uint64_t n_made; /* each queue pair has random numbers of its own */

static struct softefa_qp *of(struct ibv_qp *qp)
{
	return (struct softefa_qp *)qp;
}

/* Numbers begin where no other process is likely to, as those of a device shared by many do. */
static void first_number(void)
{
	uint64_t state = (uint64_t)getpid() ^ softefa_now_ns();

	next_qpn = softefa_settings()->first_qpn;
	if (!next_qpn)
		next_qpn = 1 + (uint32_t)(softefa_draw(&state) % (softefa_settings()->max_qp - 1));
}

static int open_socket(struct softefa_qp *qp)
{
	const struct softefa_settings *settings = softefa_settings();
	int error = -EADDRINUSE;

	if (!next_qpn)
		first_number();
	softefa_gid(softefa_device_index(qp->ex.qp_base.context), qp->self.gid);
	for (uint32_t i = 1; i < settings->max_qp && error == -EADDRINUSE; i++) {
		qp->self.qpn = next_qpn;
		next_qpn = next_qpn + 1 < settings->max_qp ? next_qpn + 1 : 1;
		error = softefa_link_open(&qp->link, settings->fabric, &qp->self);
	}
	return -error;
}

static int check_attr(const struct ibv_qp_init_attr_ex *attr, bool is_srd)
{
	const struct softefa_settings *settings = softefa_settings();
	const uint64_t known = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
		(is_srd && settings->has_rdma_read ? IBV_QP_EX_WITH_RDMA_READ : 0);
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || attr->srq)
		return EINVAL;
	if (attr->qp_type != (is_srd ? IBV_QPT_DRIVER : IBV_QPT_UD))
		return EOPNOTSUPP;
	if (attr->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && attr->send_ops_flags & ~known)
		return EOPNOTSUPP;
	if ((cap->max_send_wr && !attr->send_cq) || (cap->max_recv_wr && !attr->recv_cq))
		return EINVAL;
	if (cap->max_send_wr > settings->max_send_wr || cap->max_recv_wr > settings->max_recv_wr ||
		cap->max_send_sge > SOFTEFA_SEND_SGE_MAX || cap->max_recv_sge > SOFTEFA_SGE_MAX ||
		cap->max_inline_data > SOFTEFA_INLINE_MAX)
		return EINVAL;
	return 0;
}

static void fill_base(struct softefa_qp *qp, struct ibv_context *context,
	const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *base = &qp->ex.qp_base;

	base->context = context;
	base->qp_context = attr->qp_context;
	base->pd = attr->pd;
	base->send_cq = attr->send_cq;
	base->recv_cq = attr->recv_cq;
	base->state = IBV_QPS_RESET;
	base->qp_type = attr->qp_type;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	pthread_spin_init(&qp->build_lock, PTHREAD_PROCESS_PRIVATE);
	TAILQ_INIT(&qp->free);
	TAILQ_INIT(&qp->queued);
	TAILQ_INIT(&qp->sent);
	TAILQ_INIT(&qp->building);
	TAILQ_INIT(&qp->serves);
}

/* A queue's length is a power of two, as with EFA. */
static uint32_t round_up(uint32_t n)
{
	uint32_t rounded = 1;

	while (rounded < n)
		rounded *= 2;
	return rounded;
}

static int make_queues(struct softefa_qp *qp, const struct ibv_qp_cap *cap)
{
	qp->n_requests = cap->max_send_wr ? round_up(cap->max_send_wr) : 0;
	qp->n_receives = cap->max_recv_wr ? round_up(cap->max_recv_wr) : 0;
	qp->max_send_sge = (int)cap->max_send_sge;
	qp->max_recv_sge = (int)cap->max_recv_sge;
	qp->max_inline = SOFTEFA_INLINE_MAX;
	qp->requests = calloc(qp->n_requests + 1, sizeof(*qp->requests));
	qp->receives = calloc(qp->n_receives + 1, sizeof(*qp->receives));
	if (!qp->requests || !qp->receives)
		return ENOMEM;
	for (uint32_t i = 0; i < qp->n_requests; i++) {
		qp->requests[i].name.slot = i;
		qp->requests[i].list = &qp->free;
		TAILQ_INSERT_TAIL(&qp->free, &qp->requests[i], entry);
	}
	return 0;
}

static void free_memory(struct softefa_qp *qp)
{
	struct softefa_serve *serve;

	while ((serve = TAILQ_FIRST(&qp->serves))) {
		TAILQ_REMOVE(&qp->serves, serve, entry);
		free(serve);
	}
	free(qp->acks);
	free(qp->requests);
	free(qp->receives);
	free(qp);
}

static void count_on_queues(struct softefa_qp *qp, int more)
{
	if (qp->ex.qp_base.send_cq)
		((struct softefa_cq *)qp->ex.qp_base.send_cq)->n_qps += (uint32_t)more;
	if (qp->ex.qp_base.recv_cq)
		((struct softefa_cq *)qp->ex.qp_base.recv_cq)->n_qps += (uint32_t)more;
}

static int connect_to_engine(struct softefa_qp *qp)
{
	int error;

	pthread_mutex_lock(&softefa_lock);
	qp->random = softefa_settings()->seed + n_made++ * 0x632be59bd9b4e019u;
	qp->psn = (uint32_t)softefa_draw(&qp->random);
	error = open_socket(qp);
	if (!error)
		error = softefa_engine_add(qp);
	if (error && qp->link.fd >= 0)
		softefa_link_close(&qp->link);
	if (!error) {
		qp->ex.qp_base.qp_num = qp->ex.qp_base.handle = qp->self.qpn;
		count_on_queues(qp, 1);
	}
	pthread_mutex_unlock(&softefa_lock);
	return error;
}

struct ibv_qp *softefa_qp_create(struct ibv_context *context,
	const struct ibv_qp_init_attr_ex *attr, bool is_srd)
{
	const struct softefa_settings *settings = softefa_settings();
	struct softefa_qp *qp;

	errno = check_attr(attr, is_srd);
	if (errno)
		return NULL;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	fill_base(qp, context, attr);
	qp->link.fd = -1;
	qp->is_srd = is_srd;
	qp->mtu = is_srd ? settings->srd_mtu : settings->ud_mtu;
	qp->rnr_retry = SOFTEFA_RNR_INFINITE;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		softefa_send_fill(&qp->ex, attr->send_ops_flags);
	errno = make_queues(qp, &attr->cap);
	if (!errno)
		errno = connect_to_engine(qp);
	if (!errno)
		return &qp->ex.qp_base;
	free_memory(qp);
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context, .send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq, .srq = attr->srq, .cap = attr->cap,
		.qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};

	return softefa_qp_create(pd->context, &ex, false);
}

struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
	uint32_t driver_qp_type)
{
	struct ibv_qp_init_attr_ex ex = {.qp_context = attr->qp_context, .send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq, .srq = attr->srq, .cap = attr->cap,
		.qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};

	if (driver_qp_type == EFADV_QP_DRIVER_TYPE_SRD)
		return softefa_qp_create(pd->context, &ex, true);
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_qp *efadv_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
	struct efadv_qp_init_attr *efa_attr, uint32_t inlen)
{
	if (inlen < sizeof(*efa_attr) || efa_attr->comp_mask ||
		efa_attr->driver_qp_type != EFADV_QP_DRIVER_TYPE_SRD) {
		errno = EINVAL;
		return NULL;
	}
	return softefa_qp_create(context, attr, attr->qp_type == IBV_QPT_DRIVER);
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return &of(qp)->ex;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct softefa_qp *qp = of(ibv);

	pthread_mutex_lock(&softefa_lock);
	if (qp->link.fd >= 0) {
		softefa_answer(qp);
		softefa_engine_remove(qp);
		softefa_link_close(&qp->link);
	}
	count_on_queues(qp, -1);
	pthread_mutex_unlock(&softefa_lock);
	pthread_spin_destroy(&qp->build_lock);
	free_memory(qp);
	return 0;
}

static void flush(struct softefa_qp *qp)
{
	struct softefa_request *request;

	while ((request = TAILQ_FIRST(&qp->sent)) || (request = TAILQ_FIRST(&qp->queued)))
		softefa_complete(qp, request, SOFTEFA_FLUSHED);
	for (; qp->n_posted; qp->n_posted--) {
		struct softefa_completion completion = {
			.wr_id = qp->receives[qp->first_receive].wr_id,
			.opcode = IBV_WC_RECV,
			.status = SOFTEFA_FLUSHED,
			.qp_num = qp->self.qpn,
		};

		qp->first_receive = (qp->first_receive + 1) % qp->n_receives;
		softefa_cq_push(qp->ex.qp_base.recv_cq, &completion);
	}
}

/* Forgets all work without completions. */
static void reset(struct softefa_qp *qp)
{
	struct softefa_request *request;

	while ((request = TAILQ_FIRST(&qp->sent)) || (request = TAILQ_FIRST(&qp->queued)))
		softefa_request_move(request, &qp->free);
	qp->n_posted = 0;
}

static bool may_change(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
		return true;
	if (to == IBV_QPS_INIT)
		return (from == IBV_QPS_RESET || from == IBV_QPS_INIT) && mask & IBV_QP_QKEY;
	if (to == IBV_QPS_RTR)
		return from == IBV_QPS_INIT;
	return to == IBV_QPS_RTS && (from == IBV_QPS_RTR || from == IBV_QPS_RTS);
}

static int modify(struct softefa_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp *base = &qp->ex.qp_base;

	if (mask & IBV_QP_PORT && attr->port_num != 1)
		return EINVAL;
	if (mask & IBV_QP_RNR_RETRY && (attr->rnr_retry > 7 || !softefa_settings()->has_rnr_retry))
		return EINVAL;
	if (mask & IBV_QP_STATE && !may_change(base->state, attr->qp_state, mask))
		return EINVAL;
	if (mask & IBV_QP_QKEY)
		qp->qkey = attr->qkey;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_STATE)
		base->state = attr->qp_state;
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		flush(qp);
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET)
		reset(qp);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error;

	pthread_mutex_lock(&softefa_lock);
	error = modify(of(qp), attr, mask);
	pthread_mutex_unlock(&softefa_lock);
	return error;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
	struct ibv_qp_init_attr *init_attr)
{
	struct softefa_qp *qp = of(ibv);
	struct ibv_qp_cap cap = {qp->n_requests, qp->n_receives, (uint32_t)qp->max_send_sge,
		(uint32_t)qp->max_recv_sge, qp->max_inline};

	(void)mask;
	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	attr->qp_state = attr->cur_qp_state = ibv->state;
	attr->qkey = qp->qkey;
	attr->rnr_retry = qp->rnr_retry;
	attr->port_num = 1;
	attr->cap = init_attr->cap = cap;
	init_attr->qp_context = ibv->qp_context;
	init_attr->send_cq = ibv->send_cq;
	init_attr->recv_cq = ibv->recv_cq;
	init_attr->qp_type = ibv->qp_type;
	init_attr->sq_sig_all = 1;
	return 0;
}

/* Datagrams arrive in any order, and nothing is said of the bytes of one. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

bool softefa_qp_hears(const struct softefa_qp *qp)
{
	return qp->ex.qp_base.state == IBV_QPS_RTR || qp->ex.qp_base.state == IBV_QPS_RTS;
}

static int post_one(struct softefa_qp *qp, const struct ibv_recv_wr *wr)
{
	enum ibv_qp_state state = qp->ex.qp_base.state;
	struct softefa_receive *receive;

	if (qp->link.fd < 0 || state == IBV_QPS_RESET || state == IBV_QPS_ERR)
		return EINVAL;
	if (!qp->n_receives || wr->num_sge > qp->max_recv_sge || wr->num_sge < 0)
		return EINVAL;
	if (qp->n_posted == qp->n_receives)
		return ENOMEM;
	receive = &qp->receives[(qp->first_receive + qp->n_posted) % qp->n_receives];
	receive->wr_id = wr->wr_id;
	receive->n_sge = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++)
		receive->sge[i] = wr->sg_list[i];
	qp->n_posted++;
	return 0;
}

int softefa_qp_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int error = 0;

	pthread_mutex_lock(&softefa_lock);
	for (; wr && !error; wr = wr->next) {
		error = post_one(of(ibv), wr);
		if (error)
			*bad_wr = wr;
	}
	pthread_mutex_unlock(&softefa_lock);
	return error;
}
