/* SPDX-License-Identifier: BSD-3-Clause */
/* See verbs.h. One lock protects everything; objects are found by number, as in a device. */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/list.h"

#define HELD_MAX 64

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
	uint32_t unsignalled; /* posted since the last that was told, so still in the queue */
};

struct fake_mr {
	struct ibv_mr mr;
	struct list node;
	unsigned int access;
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

struct fake_verbs fake_verbs;

static struct {
	pthread_mutex_t lock;
	struct list qps, mrs, contexts;
	uint32_t next_number, next_key, live, faults;
	const char *fault;
	struct ibv_device device;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

#undef ibv_reg_mr
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		struct _compat_ibv_port_attr *port_attr);

/* ---- for the test ------------------------------------------------------------------------ */

void fake_verbs_reset(void)
{
	static const uint8_t ip[16] = {[10] = 0xff, 0xff, 10, 0, 0, 7};

	memset(&fake_verbs, 0, sizeof(fake_verbs));
	fake_verbs.transport = IBV_TRANSPORT_IB;
	fake_verbs.link_layer = IBV_LINK_LAYER_ETHERNET;
	fake_verbs.mtu = IBV_MTU_4096;
	fake_verbs.inline_max = 96;
	fake_verbs.gids[1].gid_type = IBV_GID_TYPE_ROCE_V2;
	memcpy(&fake_verbs.gids[1].gid, ip, sizeof(ip));
	list_init(&world.qps);
	list_init(&world.mrs);
	list_init(&world.contexts);
	world.next_number = 16;
	world.live = world.faults = 0;
	strcpy(world.device.name, "fake0");
}

static void fault(const char *what)
{
	world.faults++;
	world.fault = what;
}

uint32_t fake_verbs_live(void)
{
	return world.live;
}

uint32_t fake_verbs_faults(const char **what)
{
	*what = world.fault ? world.fault : "";
	return world.faults;
}

uint32_t fake_verbs_connections(void)
{
	uint32_t n = 0;

	pthread_mutex_lock(&world.lock);
	list_for_each(node, &world.qps)
		n += list_entry(node, struct fake_qp, node)->qp.qp_type == IBV_QPT_RC;
	pthread_mutex_unlock(&world.lock);
	return n;
}

void fake_verbs_event(enum ibv_event_type type)
{
	struct fake_context *context = list_entry(world.contexts.next, struct fake_context, node);
	struct ibv_async_event event = {.event_type = type};

	if (write(context->pipe[1], &event, sizeof(event)) != sizeof(event))
		fault("too many events");
}

/* True: this call fails, with errno set. */
static bool fails(enum fake_call call)
{
	if (fake_verbs.fail[call].n == 0)
		return false;
	if (fake_verbs.fail[call].skip) {
		fake_verbs.fail[call].skip--;
		return false;
	}
	fake_verbs.fail[call].n--;
	errno = fake_verbs.fail[call].error;
	return true;
}

static void *made(size_t len)
{
	void *object = calloc(1, len);

	if (!object)
		abort();
	world.live++;
	return object;
}

static int gone(void *object)
{
	free(object);
	world.live--;
	return 0;
}

/* ---- devices ----------------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	*n = !fake_verbs.no_device;
	world.device.transport_type = fake_verbs.transport;
	if (list && *n)
		list[0] = &world.device;
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
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	(void)context;
	(void)port_num;
	attr->state = fake_verbs.port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	attr->active_mtu = attr->max_mtu = fake_verbs.mtu;
	attr->max_msg_sz = 1u << 30;
	attr->gid_tbl_len = 8;
	attr->lid = fake_verbs.lid;
	attr->link_layer = fake_verbs.link_layer;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t index,
		struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	static const uint8_t zeros[16];

	(void)context;
	(void)flags;
	if (index >= 8 || size != sizeof(*entry) ||
			memcmp(&fake_verbs.gids[index].gid, zeros, sizeof(zeros)) == 0)
		return ENODATA;
	*entry = fake_verbs.gids[index];
	entry->gid_index = index;
	entry->port_num = port_num;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	if (fails(FAKE_ALLOC_PD))
		return NULL;
	pthread_mutex_lock(&world.lock);
	pd = made(sizeof(*pd));
	pthread_mutex_unlock(&world.lock);
	pd->context = context;
	return pd;
}

static bool is_used(const struct ibv_pd *pd)
{
	list_for_each(node, &world.qps) {
		if (list_entry(node, struct fake_qp, node)->qp.pd == pd)
			return true;
	}
	list_for_each(node, &world.mrs) {
		if (list_entry(node, struct fake_mr, node)->mr.pd == pd)
			return true;
	}
	return false;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	pthread_mutex_lock(&world.lock);
	if (is_used(pd))
		fault("a protection domain is freed while it is used");
	gone(pd);
	pthread_mutex_unlock(&world.lock);
	return 0;
}

/* ---- memory ------------------------------------------------------------------------------ */

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		unsigned int access)
{
	struct fake_mr *mr;

	(void)iova;
	if (fails(FAKE_REG_MR))
		return NULL;
	pthread_mutex_lock(&world.lock);
	mr = made(sizeof(*mr));
	mr->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->mr.lkey = mr->mr.rkey = ++world.next_key << 8 | 0x5a;
	mr->access = access;
	list_append(&world.mrs, &mr->node);
	pthread_mutex_unlock(&world.lock);
	return &mr->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *own = (struct fake_mr *)mr;

	pthread_mutex_lock(&world.lock);
	list_remove(&own->node);
	gone(own);
	pthread_mutex_unlock(&world.lock);
	return 0;
}

/* May a queue pair of this domain use that memory so? */
static bool may_use(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint32_t len,
		unsigned int access)
{
	list_for_each(node, &world.mrs) {
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
	struct fake_channel *channel;
	int fds[2];

	if (fails(FAKE_CREATE_CHANNEL) || pipe2(fds, O_CLOEXEC) < 0)
		return NULL;
	pthread_mutex_lock(&world.lock);
	channel = made(sizeof(*channel));
	pthread_mutex_unlock(&world.lock);
	channel->channel.context = context;
	channel->channel.fd = fds[0];
	channel->write_fd = fds[1];
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	close(((struct fake_channel *)channel)->write_fd);
	pthread_mutex_lock(&world.lock);
	gone(channel);
	pthread_mutex_unlock(&world.lock);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
		struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *cq;

	(void)comp_vector;
	if (fails(FAKE_CREATE_CQ))
		return NULL;
	pthread_mutex_lock(&world.lock);
	cq = made(sizeof(*cq));
	pthread_mutex_unlock(&world.lock);
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->depth = (uint32_t)cqe;
	cq->wcs = calloc(cq->depth, sizeof(struct ibv_wc));
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct fake_cq *own = (struct fake_cq *)cq;

	pthread_mutex_lock(&world.lock);
	free(own->wcs);
	gone(own);
	pthread_mutex_unlock(&world.lock);
	return 0;
}

/* Under the lock. */
static void complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct fake_cq *own = (struct fake_cq *)cq;

	if (own->n == own->depth) {
		fault("a completion queue overran");
		return;
	}
	own->wcs[(own->first + own->n++) % own->depth] = *wc;
	if (!own->armed || !cq->channel)
		return;
	own->armed = false;
	if (write(((struct fake_channel *)cq->channel)->write_fd, &cq, sizeof(cq)) != sizeof(cq))
		fault("a completion channel overran");
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	struct fake_cq *own = (struct fake_cq *)cq;
	int filled = 0;

	pthread_mutex_lock(&world.lock);
	while (filled < n && own->n) {
		wcs[filled++] = own->wcs[own->first];
		own->first = (own->first + 1) % own->depth;
		own->n--;
	}
	pthread_mutex_unlock(&world.lock);
	return filled;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	pthread_mutex_lock(&world.lock);
	((struct fake_cq *)cq)->armed = true;
	pthread_mutex_unlock(&world.lock);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	if (fake_verbs.taken_away)
		errno = EIO;
	if (fake_verbs.taken_away || read(channel->fd, cq, sizeof(*cq)) != sizeof(*cq))
		return -1;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	(void)cq;
	(void)nevents;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (fake_verbs.taken_away) {
		errno = EIO;
		return -1;
	}
	return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/* ---- queue pairs ------------------------------------------------------------------------- */

static struct fake_qp *find_qp(uint32_t number)
{
	list_for_each(node, &world.qps) {
		struct fake_qp *qp = list_entry(node, struct fake_qp, node);

		if (qp->qp.qp_num == number)
			return qp;
	}
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp;

	if (fails(FAKE_CREATE_QP))
		return NULL;
	if (init->cap.max_inline_data > fake_verbs.inline_max && fake_verbs.inline_max == 0) {
		errno = EINVAL;
		return NULL;
	}
	init->cap.max_inline_data = fake_verbs.inline_max;
	pthread_mutex_lock(&world.lock);
	qp = made(sizeof(*qp));
	qp->qp = (struct ibv_qp){.context = pd->context, .pd = pd, .send_cq = init->send_cq,
		.recv_cq = init->recv_cq, .qp_type = init->qp_type, .qp_num = ++world.next_number};
	qp->max_send = init->cap.max_send_wr;
	qp->max_recv = init->cap.max_recv_wr;
	qp->max_inline = fake_verbs.inline_max;
	qp->recvs = calloc(qp->max_recv, sizeof(struct fake_recv));
	list_append(&world.qps, &qp->node);
	pthread_mutex_unlock(&world.lock);
	return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	pthread_mutex_lock(&world.lock);
	list_remove(&own->node);
	free(own->recvs);
	gone(own);
	pthread_mutex_unlock(&world.lock);
	return 0;
}

/* Under the lock. What was posted comes back. */
static void flush(struct fake_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp.qp_num};

	qp->qp.state = IBV_QPS_ERR;
	for (uint32_t i = 0; i < qp->n_held; i++) {
		wc.wr_id = qp->held[i].wr_id;
		complete(qp->qp.send_cq, &wc);
	}
	qp->n_held = 0;
	for (; qp->n_recvs && !fake_verbs.keep_receives; qp->n_recvs--) {
		wc.wr_id = qp->recvs[qp->first].wr_id;
		qp->first = (qp->first + 1) % qp->max_recv;
		complete(qp->qp.recv_cq, &wc);
	}
}

/* Under the lock. What was posted does not come back. */
static void forget(struct fake_qp *qp)
{
	qp->n_held = qp->n_recvs = qp->unsignalled = 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	if (fails(FAKE_MODIFY_QP))
		return errno;
	pthread_mutex_lock(&world.lock);
	if (attr->qp_state == IBV_QPS_ERR)
		flush(own);
	else if (attr->qp_state == IBV_QPS_RESET)
		forget(own);
	else if (qp->state == IBV_QPS_ERR || attr->qp_state != qp->state + 1)
		fault("a queue pair skips a state");
	qp->state = attr->qp_state;
	if (mask & IBV_QP_QKEY)
		own->attr.qkey = attr->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_DEST_QPN)
		own->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer == 0)
		fault("min_rnr_timer means 655 ms");
	pthread_mutex_unlock(&world.lock);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah;

	(void)attr;
	if (fails(FAKE_CREATE_AH))
		return NULL;
	pthread_mutex_lock(&world.lock);
	ah = made(sizeof(*ah));
	pthread_mutex_unlock(&world.lock);
	ah->context = pd->context;
	ah->pd = pd;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	pthread_mutex_lock(&world.lock);
	gone(ah);
	pthread_mutex_unlock(&world.lock);
	return 0;
}

/* ---- datagrams --------------------------------------------------------------------------- */

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	pthread_mutex_lock(&world.lock);
	fake_verbs.n_recv_posts++;
	for (; wr; wr = wr->next) {
		const struct ibv_sge *piece = wr->sg_list;

		*bad = wr;
		if (own->n_recvs == own->max_recv || fails(FAKE_POST_RECV))
			break;
		if (!may_use(qp->pd, piece->lkey, piece->addr, piece->length,
				IBV_ACCESS_LOCAL_WRITE))
			fault("a receive without registered memory");
		own->recvs[(own->first + own->n_recvs++) % own->max_recv] = (struct fake_recv){
			.wr_id = wr->wr_id, .mem = (uint8_t *)(uintptr_t)piece->addr,
			.len = piece->length};
	}
	pthread_mutex_unlock(&world.lock);
	return wr ? ENOMEM : 0;
}

/* As RoCE does: an IPv4 header in the end, or a routing header. */
static void write_header(uint8_t *grh)
{
	const uint8_t *gid = NULL;

	for (int i = 0; i < 8; i++) {
		if (fake_verbs.gids[i].gid.raw[15])
			gid = fake_verbs.gids[i].gid.raw;
	}
	memset(grh, 0, 40);
	if (gid[10] == 0xff && gid[0] == 0) {
		grh[20] = 0x45;
		memcpy(grh + 32, gid + 12, 4);
		return;
	}
	grh[0] = 0x60;
	memcpy(grh + 8, gid, 16);
}

static void deliver(struct fake_qp *from, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *piece = wr->sg_list;
	struct fake_qp *to = find_qp(wr->wr.ud.remote_qpn);
	struct fake_recv *recv;
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .wc_flags = IBV_WC_GRH,
		.src_qp = from->qp.qp_num, .byte_len = piece->length + 40,
		.slid = fake_verbs.lid};

	fake_verbs.n_datagrams++;
	if (!to || to->qp.qp_type != IBV_QPT_UD || to->qp.state < IBV_QPS_RTR ||
			to->qp.state == IBV_QPS_ERR || to->attr.qkey != wr->wr.ud.remote_qkey ||
			to->n_recvs == 0 || fake_verbs.drop_datagrams || (fake_verbs.drop_thirds &&
			fake_verbs.n_datagrams % 3 == fake_verbs.third)) {
		fake_verbs.n_dropped++;
		return;
	}
	recv = &to->recvs[to->first];
	to->first = (to->first + 1) % to->max_recv;
	to->n_recvs--;
	write_header(recv->mem);
	memcpy(recv->mem + 40, (void *)(uintptr_t)piece->addr, piece->length);
	recv->mem[40] ^= fake_verbs.corrupt_datagrams ? 0x80 : 0;
	wc.wr_id = recv->wr_id;
	complete(to->qp.recv_cq, &wc);
}

/* ---- reads ------------------------------------------------------------------------------- */

/* Under the lock. How a read ends. */
static enum ibv_wc_status read_now(struct fake_qp *qp, const struct ibv_send_wr *wr,
		const struct ibv_sge *piece)
{
	struct fake_qp *holder = find_qp(qp->attr.dest_qp_num);

	if (!may_use(qp->qp.pd, piece->lkey, piece->addr, piece->length, IBV_ACCESS_LOCAL_WRITE)) {
		fault("a read into memory that is not registered for it");
		return IBV_WC_LOC_PROT_ERR;
	}
	if (!holder || holder->attr.dest_qp_num != qp->qp.qp_num ||
			(holder->qp.state != IBV_QPS_RTR && holder->qp.state != IBV_QPS_RTS))
		return IBV_WC_RETRY_EXC_ERR;
	if (!(holder->attr.qp_access_flags & IBV_ACCESS_REMOTE_READ) ||
			!may_use(holder->qp.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
				piece->length, IBV_ACCESS_REMOTE_READ)) {
		flush(holder);
		return IBV_WC_REM_ACCESS_ERR;
	}
	memcpy((void *)(uintptr_t)piece->addr, (void *)(uintptr_t)wr->wr.rdma.remote_addr,
		piece->length);
	return IBV_WC_SUCCESS;
}

static void end_read(struct fake_qp *qp, const struct ibv_send_wr *wr, const struct ibv_sge *piece)
{
	struct ibv_wc wc = {.wr_id = wr->wr_id, .opcode = IBV_WC_RDMA_READ,
		.qp_num = qp->qp.qp_num, .status = IBV_WC_WR_FLUSH_ERR};

	if (qp->qp.state != IBV_QPS_ERR)
		wc.status = read_now(qp, wr, piece);
	complete(qp->qp.send_cq, &wc);
	if (wc.status != IBV_WC_SUCCESS)
		flush(qp);
}

static void post_read(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	fake_verbs.n_reads++;
	if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_ERR)
		fault("a read before the queue pair is ready");
	if (!fake_verbs.hold_reads || qp->qp.state == IBV_QPS_ERR) {
		end_read(qp, wr, wr->sg_list);
		return;
	}
	if (qp->n_held == qp->max_send) {
		fault("a send queue overran");
		return;
	}
	qp->pieces[qp->n_held] = *wr->sg_list;
	qp->held[qp->n_held++] = *wr;
}

void fake_verbs_end_reads(void)
{
	pthread_mutex_lock(&world.lock);
	list_for_each(node, &world.qps) {
		struct fake_qp *qp = list_entry(node, struct fake_qp, node);
		uint32_t n = qp->n_held;

		qp->n_held = 0;
		for (uint32_t i = 0; i < n; i++)
			end_read(qp, &qp->held[i], &qp->pieces[i]);
	}
	pthread_mutex_unlock(&world.lock);
}

static void post_datagram(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *piece = wr->sg_list;
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	struct ibv_wc wc = {.wr_id = wr->wr_id, .opcode = IBV_WC_SEND,
		.status = qp->qp.state == IBV_QPS_RTS ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR};

	if (is_inline ? piece->length > qp->max_inline : !may_use(qp->qp.pd, piece->lkey,
			piece->addr, piece->length, 0))
		fault("a datagram from memory that is not registered");
	if (piece->length > 128u << fake_verbs.mtu)
		fault("a datagram longer than the MTU");
	if (wc.status == IBV_WC_SUCCESS)
		deliver(qp, wr);
	if (wc.status == IBV_WC_SUCCESS && fake_verbs.fail_datagrams) {
		fake_verbs.fail_datagrams--;
		wc.status = IBV_WC_LOC_QP_OP_ERR;
	}
	if (++qp->unsignalled > qp->max_send)
		fault("a send queue overran");
	if (wr->send_flags & IBV_SEND_SIGNALED || wc.status != IBV_WC_SUCCESS) {
		complete(qp->qp.send_cq, &wc);
		qp->unsignalled = 0;
	}
	if (wc.status == IBV_WC_LOC_QP_OP_ERR)
		flush(qp);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error = 0;

	pthread_mutex_lock(&world.lock);
	fake_verbs.n_posts++;
	for (; wr && !error; wr = error ? wr : wr->next) {
		*bad = wr;
		if (fails(FAKE_POST_SEND))
			error = errno;
		else if (qp->qp_type == IBV_QPT_UD)
			post_datagram((struct fake_qp *)qp, wr);
		else
			post_read((struct fake_qp *)qp, wr);
	}
	pthread_mutex_unlock(&world.lock);
	return error;
}

/* ---- contexts ---------------------------------------------------------------------------- */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_context *context;

	if (fails(FAKE_OPEN_DEVICE))
		return NULL;
	pthread_mutex_lock(&world.lock);
	context = made(sizeof(*context));
	if (pipe2(context->pipe, O_CLOEXEC) < 0)
		abort();
	context->context.device = device;
	context->context.async_fd = context->pipe[0];
	context->context.ops.poll_cq = poll_cq;
	context->context.ops.req_notify_cq = req_notify_cq;
	context->context.ops.post_send = post_send;
	context->context.ops.post_recv = post_recv;
	list_append(&world.contexts, &context->node);
	pthread_mutex_unlock(&world.lock);
	return &context->context;
}

int ibv_close_device(struct ibv_context *context)
{
	struct fake_context *own = (struct fake_context *)context;

	pthread_mutex_lock(&world.lock);
	list_remove(&own->node);
	close(own->pipe[0]);
	close(own->pipe[1]);
	gone(own);
	pthread_mutex_unlock(&world.lock);
	return 0;
}
