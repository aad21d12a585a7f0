/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pairs of the fake libibverbs (verbs.h): datagrams, and reads. */
#include "verbs_world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALL_QPNS 0xffffffu /* every queue pair that is attached to the group */

/* ---- queue pairs ------------------------------------------------------------------------- */

static struct fake_qp *find_qp(uint32_t number)
{
	list_for_each(node, &fake_world.qps) {
		struct fake_qp *qp = list_entry(node, struct fake_qp, node);

		if (qp->qp.qp_num == number)
			return qp;
	}
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp;
	int at = 0;

	if (fake_fails(FAKE_CREATE_QP))
		return NULL;
	if (init->cap.max_inline_data > fake_verbs.inline_max && fake_verbs.inline_max == 0) {
		errno = EINVAL;
		return NULL;
	}
	init->cap.max_inline_data = fake_verbs.inline_max;
	pthread_mutex_lock(&fake_world.lock);
	qp = fake_made(sizeof(*qp));
	qp->qp = (struct ibv_qp){.context = pd->context, .pd = pd, .send_cq = init->send_cq,
		.recv_cq = init->recv_cq, .qp_type = init->qp_type,
		.qp_num = ++fake_world.next_number};
	qp->max_send = init->cap.max_send_wr;
	qp->max_recv = init->cap.max_recv_wr;
	qp->max_inline = fake_verbs.inline_max;
	list_init(&qp->sent);
	qp->recvs = calloc(qp->max_recv, sizeof(struct fake_recv));
	for (int i = 0; i < 8; i++)
		at = fake_verbs.gids[i].gid.raw[15] ? i : at;
	qp->gid = fake_verbs.gids[at].gid;
	list_append(&fake_world.qps, &qp->node);
	pthread_mutex_unlock(&fake_world.lock);
	return &qp->qp;
}

/* Under the lock. Posted requests do not complete. */
static void forget(struct fake_qp *qp)
{
	while (!list_empty(&qp->sent))
		free(list_entry(list_pop(&qp->sent), struct fake_sent, node));
	qp->n_held = qp->n_recvs = qp->unsignalled = 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	pthread_mutex_lock(&fake_world.lock);
	if (own->n_groups)
		fake_fault("a queue pair is destroyed while it is attached to a group");
	forget(own);
	list_remove(&own->node);
	free(own->recvs);
	fake_gone(own);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* Under the lock. Posted requests complete. */
static void flush(struct fake_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp.qp_num};

	qp->qp.state = IBV_QPS_ERR;
	for (uint32_t i = 0; i < qp->n_held; i++) {
		wc.wr_id = qp->held[i].wr_id;
		fake_complete(qp->qp.send_cq, &wc);
	}
	qp->n_held = 0;
	for (; qp->n_recvs && !fake_verbs.keep_receives; qp->n_recvs--) {
		wc.wr_id = qp->recvs[qp->first].wr_id;
		qp->first = (qp->first + 1) % qp->max_recv;
		fake_complete(qp->qp.recv_cq, &wc);
	}
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	if (fake_fails(FAKE_MODIFY_QP))
		return errno;
	pthread_mutex_lock(&fake_world.lock);
	if (attr->qp_state == IBV_QPS_ERR)
		flush(own);
	else if (attr->qp_state == IBV_QPS_RESET)
		forget(own);
	else if (qp->state == IBV_QPS_ERR || attr->qp_state != qp->state + 1)
		fake_fault("a queue pair skips a state");
	qp->state = attr->qp_state;
	if (mask & IBV_QP_QKEY)
		own->attr.qkey = attr->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_DEST_QPN)
		own->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer == 0)
		fake_fault("min_rnr_timer means 655 ms");
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fake_ah *ah;

	if (fake_fails(FAKE_CREATE_AH))
		return NULL;
	pthread_mutex_lock(&fake_world.lock);
	ah = fake_made(sizeof(*ah));
	ah->number = ++fake_verbs.n_ahs;
	ah->sgid_index = attr->grh.sgid_index;
	ah->dgid = attr->grh.dgid;
	list_append(&fake_world.ahs, &ah->node);
	pthread_mutex_unlock(&fake_world.lock);
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct fake_ah *own = (struct fake_ah *)ah;

	pthread_mutex_lock(&fake_world.lock);
	list_remove(&own->node);
	fake_gone(own);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

static bool is_ah(const struct ibv_ah *ah)
{
	list_for_each(node, &fake_world.ahs) {
		if (&list_entry(node, struct fake_ah, node)->ah == ah)
			return true;
	}
	return false;
}

/* ---- groups ------------------------------------------------------------------------------ */

/* Where in its groups; their number: it is not attached to this one. */
static uint32_t find_group(const struct fake_qp *qp, const union ibv_gid *gid)
{
	uint32_t at = 0;

	while (at < qp->n_groups && memcmp(&qp->groups[at], gid, sizeof(*gid)) != 0)
		at++;
	return at;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	(void)lid;
	if (fake_fails(FAKE_ATTACH))
		return errno;
	pthread_mutex_lock(&fake_world.lock);
	if (qp->qp_type != IBV_QPT_UD || find_group(own, gid) < own->n_groups ||
			own->n_groups == ATTACHED_MAX) {
		fake_fault("a queue pair is attached twice, or must not be attached");
	} else {
		own->groups[own->n_groups++] = *gid;
		fake_verbs.n_attached++;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct fake_qp *own = (struct fake_qp *)qp;
	uint32_t at;
	bool is_attached;

	(void)lid;
	pthread_mutex_lock(&fake_world.lock);
	at = find_group(own, gid);
	is_attached = at < own->n_groups;
	if (is_attached) {
		own->groups[at] = own->groups[--own->n_groups];
		fake_verbs.n_attached--;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return is_attached ? 0 : EINVAL;
}

/* ---- datagrams --------------------------------------------------------------------------- */

int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *own = (struct fake_qp *)qp;

	pthread_mutex_lock(&fake_world.lock);
	fake_verbs.n_recv_posts++;
	for (; wr; wr = wr->next) {
		const struct ibv_sge *piece = wr->sg_list;

		*bad = wr;
		if (own->n_recvs == own->max_recv || fake_fails(FAKE_POST_RECV))
			break;
		if (!fake_may_use(qp->pd, piece->lkey, piece->addr, piece->length,
				IBV_ACCESS_LOCAL_WRITE))
			fake_fault("a receive without registered memory");
		own->recvs[(own->first + own->n_recvs++) % own->max_recv] = (struct fake_recv){
			.wr_id = wr->wr_id, .mem = (uint8_t *)(uintptr_t)piece->addr,
			.len = piece->length};
	}
	if (qp->state == IBV_QPS_ERR)
		flush(own); /* at once */
	pthread_mutex_unlock(&fake_world.lock);
	return wr ? ENOMEM : 0;
}

/* As RoCE does: an IPv4 header in the end, or a routing header. */
static void write_header(uint8_t *grh, const uint8_t gid[16], const uint8_t dgid[16])
{
	memset(grh, 0, 40);
	if (gid[10] == 0xff && gid[0] == 0) {
		grh[20] = 0x45;
		memcpy(grh + 32, gid + 12, 4);
		memcpy(grh + 36, dgid + 12, 4);
		return;
	}
	grh[0] = 0x60;
	memcpy(grh + 8, gid, 16);
}

static bool is_dropped(const struct ibv_send_wr *wr)
{
	static const uint8_t zeros[16];
	const struct fake_ah *ah = (const struct fake_ah *)wr->wr.ud.ah;
	const union ibv_gid *sgid = &fake_verbs.gids[ah->sgid_index].gid;

	return fake_verbs.drop_datagrams || ah->number <= fake_verbs.stale_ahs ||
		memcmp(sgid, zeros, sizeof(zeros)) == 0 ||
		(fake_verbs.drop_thirds && fake_verbs.n_datagrams % 3 == fake_verbs.third);
}

static void deliver_to(struct fake_qp *to, const struct fake_qp *from, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *piece = wr->sg_list;
	struct fake_recv *recv;
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .wc_flags = IBV_WC_GRH,
		.src_qp = from->qp.qp_num, .byte_len = piece->length + 40,
		.slid = fake_verbs.lid};

	if (!to || to->qp.qp_type != IBV_QPT_UD || to->qp.state < IBV_QPS_RTR ||
			to->qp.state == IBV_QPS_ERR || to->attr.qkey != wr->wr.ud.remote_qkey ||
			to->n_recvs == 0 || is_dropped(wr)) {
		fake_verbs.n_dropped++;
		return;
	}
	recv = &to->recvs[to->first];
	to->first = (to->first + 1) % to->max_recv;
	to->n_recvs--;
	write_header(recv->mem, from->gid.raw, ((struct fake_ah *)wr->wr.ud.ah)->dgid.raw);
	memcpy(recv->mem + 40, (void *)(uintptr_t)piece->addr, piece->length);
	recv->mem[40] ^= fake_verbs.corrupt_datagrams ? 0x80 : 0;
	wc.wr_id = recv->wr_id;
	fake_complete(to->qp.recv_cq, &wc);
}

static void deliver(const struct fake_qp *from, const struct ibv_send_wr *wr)
{
	const struct fake_ah *ah = (const struct fake_ah *)wr->wr.ud.ah;

	fake_verbs.n_datagrams++;
	if (wr->wr.ud.remote_qpn != ALL_QPNS) {
		deliver_to(find_qp(wr->wr.ud.remote_qpn), from, wr);
		return;
	}
	list_for_each(node, &fake_world.qps) {
		struct fake_qp *to = list_entry(node, struct fake_qp, node);

		if (find_group(to, &ah->dgid) < to->n_groups)
			deliver_to(to, from, wr);
	}
}

/* ---- reads ------------------------------------------------------------------------------- */

/* Under the lock. How a read or write ends. */
static enum ibv_wc_status read_now(struct fake_qp *qp, const struct ibv_send_wr *wr,
		const struct ibv_sge *piece)
{
	struct fake_qp *holder = find_qp(qp->attr.dest_qp_num);
	bool writes = wr->opcode == IBV_WR_RDMA_WRITE;
	void *ours = (void *)(uintptr_t)piece->addr;
	void *theirs = (void *)(uintptr_t)wr->wr.rdma.remote_addr;
	unsigned int access = writes ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;

	if (!fake_may_use(qp->qp.pd, piece->lkey, piece->addr, piece->length,
			writes ? 0 : IBV_ACCESS_LOCAL_WRITE)) {
		fake_fault("a read into memory, or a write from it, that is not registered for it");
		return IBV_WC_LOC_PROT_ERR;
	}
	if (!holder || holder->attr.dest_qp_num != qp->qp.qp_num ||
			(holder->qp.state != IBV_QPS_RTR && holder->qp.state != IBV_QPS_RTS))
		return IBV_WC_RETRY_EXC_ERR;
	if (!(holder->attr.qp_access_flags & access) ||
			!fake_may_use(holder->qp.pd, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
				piece->length, access)) {
		flush(holder);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (fake_verbs.n_lies)
		fake_verbs.n_lies--;
	else
		memcpy(writes ? theirs : ours, writes ? ours : theirs, piece->length);
	return IBV_WC_SUCCESS;
}

static void end_read(struct fake_qp *qp, const struct ibv_send_wr *wr, const struct ibv_sge *piece)
{
	struct ibv_wc wc = {.wr_id = wr->wr_id, .opcode = wr->opcode == IBV_WR_RDMA_WRITE ?
		IBV_WC_RDMA_WRITE : IBV_WC_RDMA_READ,
		.qp_num = qp->qp.qp_num, .status = IBV_WC_WR_FLUSH_ERR};

	if (qp->qp.state != IBV_QPS_ERR)
		wc.status = read_now(qp, wr, piece);
	fake_complete(qp->qp.send_cq, &wc);
	if (wc.status != IBV_WC_SUCCESS)
		flush(qp);
}

static void post_read(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	fake_verbs.n_reads++;
	if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_ERR)
		fake_fault("a read before the queue pair is ready");
	if (!fake_verbs.hold_reads || qp->qp.state == IBV_QPS_ERR) {
		end_read(qp, wr, wr->sg_list);
		return;
	}
	if (qp->n_held == qp->max_send) {
		fake_fault("a send queue overran");
		return;
	}
	qp->pieces[qp->n_held] = *wr->sg_list;
	qp->held[qp->n_held++] = *wr;
}

uint32_t fake_verbs_held(void)
{
	uint32_t n = 0;

	pthread_mutex_lock(&fake_world.lock);
	list_for_each(node, &fake_world.qps)
		n += list_entry(node, struct fake_qp, node)->n_held;
	pthread_mutex_unlock(&fake_world.lock);
	return n;
}

void fake_verbs_end_reads(void)
{
	pthread_mutex_lock(&fake_world.lock);
	list_for_each(node, &fake_world.qps) {
		struct fake_qp *qp = list_entry(node, struct fake_qp, node);
		uint32_t n = qp->n_held;

		qp->n_held = 0;
		for (uint32_t i = 0; i < n; i++)
			end_read(qp, &qp->held[i], &qp->pieces[i]);
	}
	pthread_mutex_unlock(&fake_world.lock);
}

/* The queue pair leaves the group now. */
static void go(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_wc wc = {.wr_id = wr->wr_id, .opcode = IBV_WC_SEND,
		.status = qp->qp.state == IBV_QPS_RTS ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR};

	if (wc.status == IBV_WC_SUCCESS && !is_ah(wr->wr.ud.ah)) {
		fake_fault("the way of a datagram is gone before it");
		wc.status = IBV_WC_LOC_QP_OP_ERR;
	}
	if (wc.status == IBV_WC_SUCCESS && fake_verbs.fail_datagrams) {
		fake_verbs.fail_datagrams--;
		wc.status = IBV_WC_LOC_QP_OP_ERR;
	}
	if (wc.status == IBV_WC_SUCCESS)
		deliver(qp, wr);
	if (wr->send_flags & IBV_SEND_SIGNALED || wc.status != IBV_WC_SUCCESS) {
		fake_complete(qp->qp.send_cq, &wc);
		qp->unsignalled = 0;
	}
	if (wc.status == IBV_WC_LOC_QP_OP_ERR)
		flush(qp);
}

void fake_send_one(const struct ibv_cq *cq)
{
	list_for_each(node, &fake_world.qps) {
		struct fake_qp *qp = list_entry(node, struct fake_qp, node);
		struct fake_sent *sent;

		if (qp->qp.send_cq != cq || list_empty(&qp->sent))
			continue;
		sent = list_entry(list_pop(&qp->sent), struct fake_sent, node);
		go(qp, &sent->wr);
		free(sent);
	}
}

static void send_later(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct fake_sent *sent = malloc(sizeof(*sent) + wr->sg_list->length);

	if (!sent)
		abort();
	sent->wr = *wr;
	sent->piece = *wr->sg_list;
	sent->piece.addr = (uintptr_t)sent->bytes;
	sent->wr.sg_list = &sent->piece;
	memcpy(sent->bytes, (const void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length);
	list_append(&qp->sent, &sent->node);
}

static void post_datagram(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *piece = wr->sg_list;
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	if (is_inline ? piece->length > qp->max_inline : !fake_may_use(qp->qp.pd, piece->lkey,
			piece->addr, piece->length, 0))
		fake_fault("a datagram from memory that is not registered");
	if (piece->length > 128u << fake_verbs.mtu)
		fake_fault("a datagram longer than the MTU");
	if (++qp->unsignalled > qp->max_send)
		fake_fault("a send queue overran");
	if (fake_verbs.slow_sends || !list_empty(&qp->sent))
		send_later(qp, wr);
	else
		go(qp, wr);
}

int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int error = 0;

	if (fake_fails(FAKE_DOORBELL)) {
		*bad = NULL; /* as librxe has it */
		return errno;
	}
	pthread_mutex_lock(&fake_world.lock);
	fake_verbs.n_posts++;
	for (; wr && !error; wr = error ? wr : wr->next) {
		*bad = wr;
		if (fake_fails(FAKE_POST_SEND))
			error = errno;
		else if (qp->qp_type == IBV_QPT_UD)
			post_datagram((struct fake_qp *)qp, wr);
		else
			post_read((struct fake_qp *)qp, wr);
	}
	pthread_mutex_unlock(&fake_world.lock);
	return error;
}
