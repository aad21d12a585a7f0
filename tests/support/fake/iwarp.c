/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs of the fake iWARP device (iwarp.h). One lock protects everything. */
#include "iwarp_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_iwarp fake_iwarp;

struct fake_world fake_world = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.answered = PTHREAD_COND_INITIALIZER};

#undef ibv_reg_mr
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		struct _compat_ibv_port_attr *port_attr);

/* ---- for the test ------------------------------------------------------------------------ */

void fake_iwarp_reset(void)
{
	memset(&fake_iwarp, 0, sizeof(fake_iwarp));
	list_init(&fake_world.qps);
	list_init(&fake_world.mrs);
	list_init(&fake_world.ids);
	fake_world.live = fake_world.faults = fake_world.n_qps = 0;
	/* Port numbers that no other test uses now: UDP sockets have these numbers, too. */
	fake_world.next_port = (uint16_t)(PORT_FIRST + getpid() % PORTS_OF * 32);
	strcpy(fake_world.device.name, "fake0");
	fake_world.device.transport_type = IBV_TRANSPORT_IWARP;
	fake_world.shared.context.device = &fake_world.device;
}

void fake_fault(const char *what)
{
	fake_world.faults++;
	fake_world.fault = what;
}

uint32_t fake_iwarp_live(void)
{
	return fake_world.live;
}

uint32_t fake_iwarp_qps(void)
{
	uint32_t n;

	pthread_mutex_lock(&fake_world.lock);
	n = fake_world.n_qps;
	pthread_mutex_unlock(&fake_world.lock);
	return n;
}

uint32_t fake_iwarp_requests(void)
{
	uint32_t n;

	pthread_mutex_lock(&fake_world.lock);
	n = fake_iwarp.n_requests;
	pthread_mutex_unlock(&fake_world.lock);
	return n;
}

uint32_t fake_iwarp_faults(const char **what)
{
	*what = fake_world.fault ? fake_world.fault : "";
	return fake_world.faults;
}

void fake_iwarp_take_away(struct ibv_context *context)
{
	fake_iwarp.taken_away = true;
	fake_signal_fd(((struct fake_context *)context)->pipe[1]);
}

/* True: this call fails, with errno set. */
bool fake_fails(enum fake_call call)
{
	bool failed = false;

	pthread_mutex_lock(&fake_world.lock);
	if (fake_iwarp.fail[call].n && fake_iwarp.fail[call].skip) {
		fake_iwarp.fail[call].skip--;
	} else if (fake_iwarp.fail[call].n) {
		fake_iwarp.fail[call].n--;
		errno = fake_iwarp.fail[call].error;
		failed = true;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return failed;
}

void *fake_made(size_t len)
{
	void *object = calloc(1, len);

	if (!object)
		abort();
	pthread_mutex_lock(&fake_world.lock);
	fake_world.live++;
	pthread_mutex_unlock(&fake_world.lock);
	return object;
}

int fake_gone(void *object)
{
	pthread_mutex_lock(&fake_world.lock);
	free(object);
	fake_world.live--;
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* Its callers have the lock: a thread that is cancelled (write() heeds that) would keep it. */
void fake_signal_fd(int fd)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (write(fd, "", 1) != 1)
		fake_fault("a pipe is full");
	pthread_setcancelstate(before, NULL);
}

void fake_raise(void)
{
	if (fake_iwarp.raises)
		raise(SIGPIPE);
}

/* ---- devices ----------------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	*n = !fake_iwarp.no_device;
	if (list && *n)
		list[0] = &fake_world.device;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = 16;
	attr->max_cqe = 1 << 20;
	attr->vendor_id = fake_iwarp.vendor_id;
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	(void)context;
	(void)port_num;
	attr->state = IBV_PORT_ACTIVE;
	attr->active_mtu = attr->max_mtu = IBV_MTU_4096;
	attr->max_msg_sz = 1u << 30;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int getifaddrs(struct ifaddrs **list)
{
	static _Thread_local struct sockaddr_in v4 = {.sin_family = AF_INET};
	static _Thread_local struct ifaddrs one;

	v4.sin_addr.s_addr = htonl(IP);
	one = (struct ifaddrs){.ifa_name = "fake", .ifa_flags = IFF_UP,
		.ifa_addr = (struct sockaddr *)&v4};
	*list = fake_iwarp.no_address ? NULL : &one;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	if (fake_fails(FAKE_ALLOC_PD))
		return NULL;
	pd = fake_made(sizeof(*pd));
	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	pthread_mutex_lock(&fake_world.lock);
	list_for_each(node, &fake_world.qps) {
		if (list_entry(node, struct fake_qp, node)->qp.pd == pd)
			fake_fault("a protection domain is freed before its queue pair");
	}
	list_for_each(node, &fake_world.mrs) {
		if (list_entry(node, struct fake_mr, node)->mr.pd == pd &&
				!list_entry(node, struct fake_mr, node)->stuck)
			fake_fault("a protection domain is freed before its memory");
	}
	pthread_mutex_unlock(&fake_world.lock);
	return fake_gone(pd);
}

/* ---- memory ------------------------------------------------------------------------------ */

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		unsigned int access)
{
	struct fake_mr *mr;

	(void)iova;
	if (fake_fails(FAKE_REG_MR))
		return NULL;
	mr = fake_made(sizeof(*mr));
	mr->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->access = access;
	pthread_mutex_lock(&fake_world.lock);
	mr->mr.lkey = mr->mr.rkey = ++fake_world.next_key << 8;
	list_append(&fake_world.mrs, &mr->node);
	pthread_mutex_unlock(&fake_world.lock);
	return &mr->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *own = (struct fake_mr *)mr;
	int error = fake_fails(FAKE_DEREG_MR) ? errno : 0;

	pthread_mutex_lock(&fake_world.lock);
	own->stuck = error != 0;
	if (!error)
		list_remove(&own->node);
	pthread_mutex_unlock(&fake_world.lock);
	return error ? error : fake_gone(own);
}

/* May a queue of this domain use that memory so? */
static bool may_use(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint32_t len,
		unsigned int access)
{
	list_for_each(node, &fake_world.mrs) {
		const struct fake_mr *mr = list_entry(node, struct fake_mr, node);
		uint64_t offset = address - (uintptr_t)mr->mr.addr;

		if (mr->mr.lkey == key)
			return mr->mr.pd == pd && (mr->access & access) == access &&
				offset <= mr->mr.length && len <= mr->mr.length - offset;
	}
	return false;
}

/* ---- completions ------------------------------------------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_pipe_channel *channel;
	int fds[2];

	if (fake_fails(FAKE_CREATE_COMPLETIONS) || pipe2(fds, O_CLOEXEC) < 0)
		return NULL;
	channel = fake_made(sizeof(*channel));
	channel->channel.context = context;
	channel->channel.fd = fds[0];
	channel->write_fd = fds[1];
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	close(((struct fake_pipe_channel *)channel)->write_fd);
	return fake_gone(channel);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
		struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *cq;

	(void)cq_context;
	(void)comp_vector;
	if (fake_fails(FAKE_CREATE_CQ))
		return NULL;
	cq = fake_made(sizeof(*cq));
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cqe = cqe;
	cq->depth = (uint32_t)cqe;
	cq->wcs = calloc(cq->depth, sizeof(*cq->wcs));
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(((struct fake_cq *)cq)->wcs);
	return fake_gone(cq);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	char byte;

	*cq = NULL;
	*context = NULL;
	if (fake_iwarp.taken_away)
		errno = EIO;
	return !fake_iwarp.taken_away && read(channel->fd, &byte, 1) == 1 ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	(void)cq;
	(void)n;
}

void fake_complete(struct ibv_cq *to, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)to;

	if (cq->n == cq->depth) {
		fake_fault("a completion queue is overrun");
		return;
	}
	cq->wcs[(cq->first + cq->n++) % cq->depth] = *wc;
	if (cq->armed)
		fake_signal_fd(((struct fake_pipe_channel *)cq->cq.channel)->write_fd);
	cq->armed = false;
}

static int poll_cq(struct ibv_cq *from, int n, struct ibv_wc *wcs)
{
	struct fake_cq *cq = (struct fake_cq *)from;
	int taken = 0;

	pthread_mutex_lock(&fake_world.lock);
	for (; taken < n && cq->n > 0; taken++, cq->n--) {
		wcs[taken] = cq->wcs[cq->first];
		cq->first = (cq->first + 1) % cq->depth;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return taken;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	if (fake_iwarp.taken_away)
		return EIO;
	pthread_mutex_lock(&fake_world.lock);
	((struct fake_cq *)cq)->armed = true;
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* ---- receive queues ---------------------------------------------------------------------- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq;

	if (fake_fails(FAKE_CREATE_SRQ))
		return NULL;
	srq = fake_made(sizeof(*srq));
	srq->srq.pd = pd;
	srq->srq.context = pd->context;
	srq->depth = attr->attr.max_wr;
	srq->recvs = calloc(srq->depth, sizeof(*srq->recvs));
	return &srq->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	free(((struct fake_srq *)srq)->recvs);
	return fake_gone(srq);
}

static int post_srq_recv(struct ibv_srq *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *srq = (struct fake_srq *)to;
	int error = 0;

	pthread_mutex_lock(&fake_world.lock);
	for (; wr && !error; wr = error ? wr : wr->next) {
		const struct ibv_sge *piece = wr->sg_list;

		*bad = wr;
		if (srq->n == srq->depth || !may_use(srq->srq.pd, piece->lkey, piece->addr,
				piece->length, IBV_ACCESS_LOCAL_WRITE)) {
			error = ENOMEM;
			continue;
		}
		srq->recvs[(srq->first + srq->n++) % srq->depth] = (struct fake_recv){wr->wr_id,
			(uint8_t *)(uintptr_t)piece->addr, piece->length};
	}
	pthread_mutex_unlock(&fake_world.lock);
	return error;
}

/* ---- queue pairs ------------------------------------------------------------------------- */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp;

	if (fake_fails(FAKE_CREATE_QP))
		return -1;
	if (id->verbs != pd->context || attr->cap.max_inline_data) {
		errno = EINVAL;
		return -1;
	}
	qp = fake_made(sizeof(*qp));
	qp->qp = (struct ibv_qp){.context = pd->context, .pd = pd, .srq = attr->srq,
		.send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .qp_type = attr->qp_type};
	qp->id = (struct fake_id *)id;
	qp->max_send = attr->cap.max_send_wr;
	pthread_mutex_lock(&fake_world.lock);
	/* The lowest number that is free, as siw has it. */
	for (bool taken = true; taken;) {
		taken = false;
		qp->qp.qp_num++;
		list_for_each(node, &fake_world.qps)
			taken |= list_entry(node, struct fake_qp, node)->qp.qp_num ==
				qp->qp.qp_num;
	}
	list_append(&fake_world.qps, &qp->node);
	fake_world.n_qps++;
	pthread_mutex_unlock(&fake_world.lock);
	id->qp = &qp->qp;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	struct fake_qp *qp = (struct fake_qp *)id->qp;

	fake_raise();
	pthread_mutex_lock(&fake_world.lock);
	fake_await_answer((struct fake_id *)id);
	fake_separate(qp);
	list_remove(&qp->node);
	fake_world.n_qps--;
	id->qp = NULL;
	pthread_mutex_unlock(&fake_world.lock);
	fake_gone(qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	pthread_mutex_lock(&fake_world.lock);
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		fake_separate((struct fake_qp *)qp);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

static void deliver(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct fake_qp *remote = qp->remote;
	struct fake_srq *srq = (struct fake_srq *)remote->qp.srq;
	struct fake_recv *recv = &srq->recvs[srq->first];
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .qp_num = remote->qp.qp_num};
	uint32_t len = wr->sg_list->length;

	if (qp->is_server && !qp->has_heard)
		fake_fault("the server sends first");
	if (srq->n == 0 || len > recv->len) {
		fake_fault("a message finds no buffer");
		fake_separate(qp);
		return;
	}
	memcpy(recv->mem, (const void *)(uintptr_t)wr->sg_list->addr, len);
	if (fake_iwarp.message)
		fake_iwarp.message(recv->mem, &len);
	wc.wr_id = recv->wr_id;
	wc.byte_len = len;
	srq->first = (srq->first + 1) % srq->depth;
	srq->n--;
	remote->has_heard = true;
	fake_complete(remote->qp.recv_cq, &wc);
}

/*
 * An error costs the connection, as on all such networks. Where nothing is read, nothing is looked
 * at.
 */
static enum ibv_wc_status read_memory(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *piece = wr->sg_list;

	if (piece->length == 0)
		return IBV_WC_SUCCESS;
	if (!may_use(qp->qp.pd, piece->lkey, piece->addr, piece->length,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))
		fake_fault("the target of a read does not permit it");
	if (!may_use(qp->remote->qp.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, piece->length,
			IBV_ACCESS_REMOTE_READ))
		return IBV_WC_REM_ACCESS_ERR;
	if (!fake_iwarp.late_reads)
		memcpy((void *)(uintptr_t)piece->addr,
			(const void *)(uintptr_t)wr->wr.rdma.remote_addr, piece->length);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status write_memory(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *piece = wr->sg_list;
	const void *from = (const void *)(uintptr_t)piece->addr;
	void *to = (void *)(uintptr_t)wr->wr.rdma.remote_addr;
	uint8_t *copy;

	if (!may_use(qp->qp.pd, piece->lkey, piece->addr, piece->length, 0))
		fake_fault("the source of a write is not registered");
	if (!(wr->send_flags & IBV_SEND_SIGNALED))
		fake_fault("a write that nobody hears of");
	if (!may_use(qp->remote->qp.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, piece->length,
			IBV_ACCESS_REMOTE_WRITE))
		return IBV_WC_REM_ACCESS_ERR;
	if (fake_iwarp.n_lies) {
		fake_iwarp.n_lies--;
	} else if (fake_iwarp.late_writes && qp->n_held < 64) {
		copy = malloc(piece->length);
		if (!copy)
			abort();
		memcpy(copy, from, piece->length);
		qp->held[qp->n_held++] = (struct fake_move){.to = to, .from = copy,
			.len = piece->length, .written = copy};
	} else {
		memcpy(to, from, piece->length);
	}
	return IBV_WC_SUCCESS;
}

/* A request for nothing ends behind the transfers to its source. */
static bool hold(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	bool waits = wr->sg_list->length ? fake_iwarp.late_reads : qp->remote->n_held > 0;

	if ((!fake_iwarp.hold_reads && !waits) || qp->n_held == 64)
		return false;
	qp->held[qp->n_held++] = (struct fake_move){.wr_id = wr->wr_id,
		.to = (void *)(uintptr_t)wr->sg_list->addr,
		.from = (const void *)(uintptr_t)wr->wr.rdma.remote_addr,
		.len = wr->sg_list->length};
	return true;
}

static void end_reads(struct fake_qp *qp)
{
	for (uint32_t i = 0; i < qp->n_held; i++) {
		const struct fake_move *move = &qp->held[i];
		struct ibv_wc wc = {.wr_id = move->wr_id, .qp_num = qp->qp.qp_num,
			.opcode = IBV_WC_RDMA_READ};

		if (move->len)
			memcpy(move->to, move->from, move->len);
		if (!move->written)
			fake_complete(qp->qp.send_cq, &wc);
		free(move->written);
	}
	qp->n_held = 0;
}

void fake_iwarp_end_reads(void)
{
	pthread_mutex_lock(&fake_world.lock);
	list_for_each(node, &fake_world.qps)
		end_reads(list_entry(node, struct fake_qp, node));
	pthread_mutex_unlock(&fake_world.lock);
}

static void post_one(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_wc wc = {.wr_id = wr->wr_id, .qp_num = qp->qp.qp_num};

	if (!qp->remote) {
		wc.status = IBV_WC_WR_FLUSH_ERR;
	} else if (wr->opcode == IBV_WR_RDMA_READ) {
		wc.status = fake_iwarp.hold_reads ? IBV_WC_SUCCESS : read_memory(qp, wr);
		wc.opcode = IBV_WC_RDMA_READ;
		if (!wc.status && hold(qp, wr))
			return;
	} else if (wr->opcode == IBV_WR_RDMA_WRITE) {
		wc.status = write_memory(qp, wr);
		wc.opcode = IBV_WC_RDMA_WRITE;
	} else if (!may_use(qp->qp.pd, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length,
			0)) {
		fake_fault("a message is not registered in its domain");
	} else {
		deliver(qp, wr);
	}
	if (wc.status || wr->send_flags & IBV_SEND_SIGNALED)
		fake_complete(qp->qp.send_cq, &wc);
	if (wc.status && qp->remote)
		fake_separate(qp);
}

static int post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)to;

	if (fake_fails(FAKE_POST_SEND)) {
		*bad = wr;
		return errno;
	}
	fake_raise();
	pthread_mutex_lock(&fake_world.lock);
	if (!qp->was_connected)
		fake_fault("something is sent before there is a connection");
	for (; wr; wr = wr->next)
		post_one(qp, wr);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* ---- contexts ---------------------------------------------------------------------------- */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_context *context;

	if (fake_fails(FAKE_OPEN_DEVICE))
		return NULL;
	context = fake_made(sizeof(*context));
	if (pipe2(context->pipe, O_CLOEXEC) < 0)
		abort();
	context->context.device = device;
	context->context.async_fd = context->pipe[0];
	context->context.ops.poll_cq = poll_cq;
	context->context.ops.req_notify_cq = req_notify_cq;
	context->context.ops.post_send = post_send;
	context->context.ops.post_srq_recv = post_srq_recv;
	return &context->context;
}

/* Takes away one region of @context that could not be deregistered. */
static struct fake_mr *take_stuck(const struct ibv_context *context)
{
	struct fake_mr *taken = NULL;

	pthread_mutex_lock(&fake_world.lock);
	list_for_each_safe(node, &fake_world.mrs) {
		struct fake_mr *mr = list_entry(node, struct fake_mr, node);

		if (taken || !mr->stuck || mr->mr.context != context)
			continue;
		list_remove(node);
		taken = mr;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return taken;
}

int ibv_close_device(struct ibv_context *context)
{
	struct fake_context *own = (struct fake_context *)context;
	struct fake_mr *stuck;

	while ((stuck = take_stuck(context)))
		fake_gone(stuck);
	close(own->pipe[0]);
	close(own->pipe[1]);
	return fake_gone(own);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (fake_iwarp.taken_away) {
		errno = EIO;
		return -1;
	}
	return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}
