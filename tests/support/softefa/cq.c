/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: filled by the device, emptied by the program in either of verbs' two ways,
 * and the channels that wake it. A queue that is too small for what its queue pairs complete is
 * made larger and counted (cq_overruns), where hardware would stop working.
 */
#include "softefa.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static TAILQ_HEAD(, softefa_cq) queues = TAILQ_HEAD_INITIALIZER(queues);

static struct softefa_cq *of(struct ibv_cq *cq)
{
	return (struct softefa_cq *)cq;
}

static struct softefa_cq *of_ex(struct ibv_cq_ex *ex)
{
	return (struct softefa_cq *)ex;
}

/* As libefa translates them. */
enum ibv_wc_status softefa_wc_status(uint32_t status)
{
	switch (status) {
	case SOFTEFA_OK:
		return IBV_WC_SUCCESS;
	case SOFTEFA_FLUSHED:
		return IBV_WC_WR_FLUSH_ERR;
	case SOFTEFA_LOCAL_QP_INTERNAL:
	case SOFTEFA_LOCAL_UNSUPPORTED_OP:
	case SOFTEFA_LOCAL_INVALID_AH:
		return IBV_WC_LOC_QP_OP_ERR;
	case SOFTEFA_LOCAL_INVALID_LKEY:
		return IBV_WC_LOC_PROT_ERR;
	case SOFTEFA_LOCAL_BAD_LENGTH:
		return IBV_WC_LOC_LEN_ERR;
	case SOFTEFA_REMOTE_ABORT:
		return IBV_WC_REM_ABORT_ERR;
	case SOFTEFA_REMOTE_BAD_DEST_QPN:
		return IBV_WC_REM_INV_RD_REQ_ERR;
	case SOFTEFA_REMOTE_RNR:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case SOFTEFA_REMOTE_BAD_LENGTH:
		return IBV_WC_REM_INV_REQ_ERR;
	case SOFTEFA_REMOTE_BAD_STATUS:
		return IBV_WC_BAD_RESP_ERR;
	case SOFTEFA_LOCAL_UNRESP_REMOTE:
		return IBV_WC_RESP_TIMEOUT_ERR;
	case SOFTEFA_REMOTE_BAD_ADDRESS:
		return IBV_WC_REM_ACCESS_ERR;
	default:
		return IBV_WC_GENERAL_ERR;
	}
}

static void notify(struct softefa_cq *cq)
{
	struct softefa_channel *channel = (struct softefa_channel *)cq->ex.channel;

	if (!cq->armed || !channel)
		return;
	cq->armed = false;
	/* A pipe full of events wakes as well as one more would. */
	if (write(channel->write_fd, &cq, sizeof(cq)) < 0)
		softefa_counters.busy++;
}

static bool grow(struct softefa_cq *cq)
{
	struct softefa_completion *ring = calloc(2 * cq->n_ring, sizeof(*ring));

	if (!ring)
		return false;
	for (uint32_t i = 0; i < cq->n; i++)
		ring[i] = cq->ring[(cq->first + i) % cq->n_ring];
	free(cq->ring);
	cq->ring = ring;
	cq->n_ring *= 2;
	cq->first = 0;
	return true;
}

void softefa_cq_push(struct ibv_cq *ibv, const struct softefa_completion *completion)
{
	struct softefa_cq *cq = of(ibv);

	if (completion->status)
		softefa_counters.errors++;
	if (cq->n == cq->n_ring) {
		softefa_counters.cq_overruns++;
		if (!grow(cq))
			return;
	}
	cq->ring[(cq->first + cq->n) % cq->n_ring] = *completion;
	cq->n++;
	notify(cq);
}

static bool pop(struct softefa_cq *cq, struct softefa_completion *completion)
{
	if (!cq->n)
		return false;
	*completion = cq->ring[cq->first];
	cq->first = (cq->first + 1) % cq->n_ring;
	cq->n--;
	return true;
}

static void fill_wc(const struct softefa_completion *completion, struct ibv_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = completion->wr_id;
	wc->status = softefa_wc_status(completion->status);
	wc->opcode = completion->opcode;
	wc->vendor_err = completion->status;
	wc->byte_len = completion->byte_len;
	wc->imm_data = completion->imm;
	wc->qp_num = completion->qp_num;
	wc->src_qp = completion->src_qp;
	wc->wc_flags = completion->flags;
	wc->slid = completion->source_ah;
}

/* Partners need a processor to answer, as hardware would not: who has polled in vain for a while
 * offers it his. */
static void offer_processor(struct softefa_cq *cq, bool found)
{
	if (found)
		cq->n_idle_polls = 0;
	else if (++cq->n_idle_polls > softefa_settings()->idle_polls)
		sched_yield();
}

int softefa_cq_poll(struct ibv_cq *ibv, int n_wanted, struct ibv_wc *wc)
{
	struct softefa_cq *cq = of(ibv);
	struct softefa_completion completion;
	int n = 0;

	pthread_mutex_lock(&softefa_lock);
	if (!cq->n)
		softefa_engine_poll();
	while (n < n_wanted && pop(cq, &completion))
		fill_wc(&completion, &wc[n++]);
	pthread_mutex_unlock(&softefa_lock);
	offer_processor(cq, n);
	return n;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct softefa_cq *cq = of_ex(ex);
	bool found;

	pthread_mutex_lock(&softefa_lock);
	found = pop(cq, &cq->current);
	pthread_mutex_unlock(&softefa_lock);
	if (!found)
		return ENOENT;
	ex->wr_id = cq->current.wr_id;
	ex->status = softefa_wc_status(cq->current.status);
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct softefa_cq *cq = of_ex(ex);
	int result;

	if (attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&cq->poll_lock);
	pthread_mutex_lock(&softefa_lock);
	if (!cq->n)
		softefa_engine_poll();
	pthread_mutex_unlock(&softefa_lock);
	result = next_poll(ex);
	if (result)
		pthread_mutex_unlock(&cq->poll_lock);
	offer_processor(cq, !result);
	return result;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	pthread_mutex_unlock(&of_ex(ex)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.status;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of_ex(ex)->current.source_ah;
}

static uint8_t read_zero(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static int wc_read_sgid(struct efadv_cq *efadv, union ibv_gid *gid)
{
	struct softefa_cq *cq =
		(struct softefa_cq *)((char *)efadv - offsetof(struct softefa_cq, efadv));

	if (cq->current.source_ah != SOFTEFA_AH_UNKNOWN)
		return -ENOENT;
	*gid = cq->current.source_gid;
	return 0;
}

static void fill_operations(struct softefa_cq *cq)
{
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_zero;
	cq->ex.read_dlid_path_bits = read_zero;
	cq->efadv.wc_read_sgid = wc_read_sgid;
}

struct ibv_cq_ex *softefa_cq_create(struct ibv_context *context,
	const struct ibv_cq_init_attr_ex *attr)
{
	struct softefa_cq *cq;

	if (!attr->cqe || attr->cqe > 65536 || attr->comp_vector ||
		(attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS)) {
		errno = EINVAL;
		return NULL;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->ring = calloc(attr->cqe, sizeof(*cq->ring));
	if (!cq->ring)
		goto free_cq;
	cq->n_ring = attr->cqe;
	cq->ex.context = context;
	cq->ex.channel = attr->channel;
	cq->ex.cq_context = attr->cq_context;
	cq->ex.cqe = (int)attr->cqe;
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);
	fill_operations(cq);
	pthread_mutex_lock(&softefa_lock);
	TAILQ_INSERT_TAIL(&queues, cq, entry);
	if (attr->channel)
		attr->channel->refcnt++;
	pthread_mutex_unlock(&softefa_lock);
	return &cq->ex;
free_cq:
	free(cq);
	return NULL;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = (uint32_t)cqe, .cq_context = cq_context,
		.channel = channel, .comp_vector = (uint32_t)comp_vector};
	struct ibv_cq_ex *ex = softefa_cq_create(context, &attr);

	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

struct ibv_cq_ex *efadv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
	struct efadv_cq_init_attr *efa_attr, uint32_t inlen)
{
	if (inlen < sizeof(*efa_attr) || efa_attr->comp_mask ||
		(efa_attr->wc_flags & ~(uint64_t)EFADV_WC_EX_WITH_SGID)) {
		errno = EINVAL;
		return NULL;
	}
	return softefa_cq_create(context, attr);
}

struct efadv_cq *efadv_cq_from_ibv_cq_ex(struct ibv_cq_ex *ex)
{
	return &of_ex(ex)->efadv;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct softefa_cq *cq = of(ibv);
	bool busy;

	pthread_mutex_lock(&softefa_lock);
	busy = cq->n_qps != 0;
	if (!busy) {
		TAILQ_REMOVE(&queues, cq, entry);
		if (cq->ex.channel)
			cq->ex.channel->refcnt--;
	}
	pthread_mutex_unlock(&softefa_lock);
	if (busy)
		return EBUSY;
	free(cq->ring);
	free(cq);
	return 0;
}

int softefa_cq_arm(struct ibv_cq *ibv, int solicited_only)
{
	(void)solicited_only; /* EFA has no solicited events */
	pthread_mutex_lock(&softefa_lock);
	of(ibv)->armed = true;
	softefa_engine_wake();
	pthread_mutex_unlock(&softefa_lock);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct softefa_channel *channel = calloc(1, sizeof(*channel));
	int ends[2];

	if (!channel)
		return NULL;
	if (pipe2(ends, O_CLOEXEC)) {
		free(channel);
		return NULL;
	}
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	channel->ibv.context = context;
	channel->ibv.fd = ends[0];
	channel->write_fd = ends[1];
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct softefa_channel *channel = (struct softefa_channel *)ibv;

	if (ibv->refcnt)
		return EBUSY;
	close(ibv->fd);
	close(channel->write_fd);
	free(channel);
	return 0;
}

/* A queue that was destroyed since it put its event into the pipe is passed over. */
static bool is_alive(const struct softefa_cq *wanted)
{
	const struct softefa_cq *cq;
	bool found = false;

	pthread_mutex_lock(&softefa_lock);
	TAILQ_FOREACH (cq, &queues, entry)
		found = found || cq == wanted;
	pthread_mutex_unlock(&softefa_lock);
	return found;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct softefa_cq *found;

	do {
		if (read(channel->fd, &found, sizeof(found)) != (ssize_t)sizeof(found))
			return -1;
	} while (!is_alive(found));
	*cq = ibv_cq_ex_to_cq(&found->ex);
	*cq_context = found->ex.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n_events)
{
	(void)cq, (void)n_events; /* destroying does not wait for them: see is_alive() */
}
