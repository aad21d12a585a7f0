/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From the send queue to the wire: shuffling, delay, retries, and what becomes of requests whose
 * partner is gone.
 *
 * Shuffling: as its seed says, a queue pair holds back some of its requests until a number of
 * later ones to the same partner have passed, or until hold_us is over, so that a lone request
 * gets through as well. A request whose partner's receive queue was empty waits and goes again,
 * so that it too may arrive after later ones.
 *
 * Invariant: a request is in one list of its queue pair. "sent" are those that wait for their
 * acknowledgement or their data. Requests that have waited long there are probed (SOFTEFA_PROBE):
 * the partner aborts unknown requests, and where there is no partner the kernel reports that.
 */
#include "softefa.h"

#include <errno.h>
#include <string.h>

#define PROBE_AFTER_NS (20 * 1000000ull) /* since it was sent or last asked for */
#define PROBE_EVERY_NS (5 * 1000000ull)
#define REFUSED_RETRY_NS (2 * 1000000ull)
#define PROBES_MAX     256 /* in one go */
#define BLOCKED_MAX    16

/* Partners whose queue is full: nothing more goes to them in this pass. */
struct blocked {
	struct softefa_peer peers[BLOCKED_MAX];
	int n;
};

static bool is_blocked(const struct blocked *blocked, const struct softefa_peer *peer)
{
	for (int i = 0; i < blocked->n; i++)
		if (softefa_peer_same(&blocked->peers[i], peer))
			return true;
	return false;
}

void softefa_request_move(struct softefa_request *request, struct softefa_requests *list)
{
	TAILQ_REMOVE(request->list, request, entry);
	TAILQ_INSERT_TAIL(list, request, entry);
	request->list = list;
}

void softefa_complete(struct softefa_qp *qp, struct softefa_request *request, uint32_t status)
{
	struct softefa_completion completion = {
		.wr_id = request->wr_id,
		.opcode = IBV_WC_SEND, /* of reads as well, as libefa 44 says */
		.status = status,
		.byte_len = request->length,
		.qp_num = qp->self.qpn,
		.source_ah = SOFTEFA_AH_UNKNOWN,
	};

	softefa_request_move(request, &qp->free);
	softefa_cq_push(qp->ex.qp_base.send_cq, &completion);
}

void softefa_enqueue(struct softefa_qp *qp, struct softefa_request *request, uint64_t now_ns)
{
	const struct softefa_settings *settings = softefa_settings();

	request->name.psn = qp->psn++;
	request->name.attempt = 0;
	request->n_rnr = 0;
	request->n_received = 0;
	request->refused_ns = 0;
	request->n_may_pass = 0;
	request->due_ns = now_ns + settings->delay_us * 1000ull;
	if (softefa_happens(&qp->random, settings->shuffle_percent)) {
		softefa_counters.held++;
		request->n_may_pass =
			1 + (uint32_t)(softefa_draw(&qp->random) % settings->shuffle_span);
		request->due_ns += settings->hold_us * 1000ull;
	}
	softefa_request_move(request, &qp->queued);
}

/* Those before it to the same partner have been passed by one more. Returns whether any is held
 * back no longer. */
static bool pass_others(struct softefa_qp *qp, const struct softefa_request *passing)
{
	struct softefa_request *request;
	bool released = false;

	TAILQ_FOREACH (request, &qp->queued, entry) {
		if (request == passing)
			break;
		if (!request->n_may_pass || !softefa_peer_same(&request->peer, &passing->peer))
			continue;
		softefa_counters.overtaken++;
		if (--request->n_may_pass == 0) {
			request->due_ns = 0;
			released = true;
		}
	}
	return released;
}

/* Its own memory, before anything is sent. Inline data needs none. */
static uint32_t check_memory(const struct softefa_qp *qp, const struct softefa_request *request)
{
	const struct ibv_qp *base = &qp->ex.qp_base;
	int access = request->kind == SOFTEFA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;

	for (int i = 0; i < request->n_sge; i++) {
		const struct ibv_sge *sge = &request->sge[i];

		if (!softefa_memory_allows(base->context, base->pd, sge->lkey, sge->addr,
			    sge->length, access))
			return SOFTEFA_LOCAL_INVALID_LKEY;
	}
	if (request->kind == SOFTEFA_SEND && request->length > qp->mtu)
		return SOFTEFA_LOCAL_BAD_LENGTH;
	return request->kind == SOFTEFA_READ && request->length > 1u << 30 ?
		SOFTEFA_LOCAL_BAD_LENGTH : SOFTEFA_OK;
}

static int transmit(struct softefa_qp *qp, const struct softefa_request *request)
{
	struct softefa_header header = {
		.kind = (uint8_t)request->kind,
		.has_imm = request->has_imm,
		.name = request->name,
		.qkey = request->qkey,
		.imm = request->imm,
		.length = request->length,
	};
	struct iovec parts[SOFTEFA_SGE_MAX];
	int n = 0;

	if (request->kind == SOFTEFA_READ) {
		header.key = request->remote_key;
		header.address = request->remote_address;
	} else if (request->is_inline) {
		parts[n++] = (struct iovec){(void *)request->inline_data, request->length};
	} else {
		for (; n < request->n_sge; n++)
			parts[n] = (struct iovec){(void *)(uintptr_t)request->sge[n].addr,
				request->sge[n].length};
	}
	if (!qp->is_srd)
		header.kind = SOFTEFA_UD_SEND;
	return softefa_link_send(&qp->link, &request->peer, &header,
		parts, n);
}

static void count_sent(const struct softefa_request *request)
{
	if (request->kind == SOFTEFA_READ) {
		softefa_counters.reads++;
		softefa_counters.read_bytes += request->length;
	} else {
		softefa_counters.sent++;
		softefa_counters.sent_bytes += request->length;
	}
}

/* There is no such queue pair. It may yet come, as a network keeps trying for a while. */
static void refused(struct softefa_qp *qp, struct softefa_request *request, uint64_t now_ns)
{
	const struct softefa_settings *settings = softefa_settings();

	if (!request->refused_ns)
		request->refused_ns = now_ns;
	if (now_ns - request->refused_ns < settings->unresponsive_ms * 1000000ull) {
		request->due_ns = now_ns + REFUSED_RETRY_NS;
		return;
	}
	softefa_counters.unresponsive++;
	softefa_complete(qp, request, settings->dead_status);
}

/* Returns whether it released others. */
static bool sent(struct softefa_qp *qp, struct softefa_request *request, uint64_t now_ns)
{
	bool released = pass_others(qp, request);

	count_sent(request);
	request->asked_ns = now_ns;
	request->refused_ns = 0;
	if (qp->is_srd)
		softefa_request_move(request, &qp->sent);
	else
		softefa_complete(qp, request, SOFTEFA_OK);
	return released;
}

static void lost(struct softefa_qp *qp, struct softefa_request *request)
{
	softefa_counters.ud_lost++;
	softefa_complete(qp, request, SOFTEFA_OK);
}

/* Returns whether it released others. */
static bool launch_one(struct softefa_qp *qp, struct softefa_request *request, uint64_t now_ns,
	struct blocked *blocked)
{
	uint32_t status = check_memory(qp, request);
	int result;

	if (status) {
		softefa_complete(qp, request, status);
		return false;
	}
	if (!qp->is_srd && softefa_happens(&qp->random, softefa_settings()->ud_loss_percent)) {
		lost(qp, request);
		return false;
	}
	result = transmit(qp, request);
	if (!result)
		return sent(qp, request, now_ns);
	if (result == -EAGAIN) {
		softefa_counters.busy++;
		blocked->peers[blocked->n++] = request->peer;
	} else if (result == -ECONNREFUSED && !qp->is_srd) {
		lost(qp, request);
	} else if (result == -ECONNREFUSED) {
		refused(qp, request, now_ns);
	} else {
		softefa_complete(qp, request, result == -EFAULT ? SOFTEFA_LOCAL_INVALID_LKEY :
								 SOFTEFA_LOCAL_QP_INTERNAL);
	}
	return false;
}

/* Always the first one that may go, so that the order depends on nothing but the seed while no
 * hold ends by time. */
void softefa_launch(struct softefa_qp *qp, uint64_t now_ns)
{
	struct softefa_request *request, *next;
	struct blocked blocked = {.n = 0};

	for (request = TAILQ_FIRST(&qp->queued); request; request = next) {
		next = TAILQ_NEXT(request, entry);
		if (blocked.n == BLOCKED_MAX)
			return;
		if (request->due_ns > now_ns || is_blocked(&blocked, &request->peer))
			continue;
		if (launch_one(qp, request, now_ns, &blocked))
			next = TAILQ_FIRST(&qp->queued);
	}
}

void softefa_not_ready(struct softefa_qp *qp, struct softefa_request *request)
{
	softefa_counters.rnr_received++;
	if (qp->rnr_retry != SOFTEFA_RNR_INFINITE && request->n_rnr >= qp->rnr_retry) {
		softefa_counters.rnr_exhausted++;
		softefa_complete(qp, request, SOFTEFA_REMOTE_RNR);
		return;
	}
	request->name.attempt++;
	if (request->n_rnr < UINT8_MAX)
		request->n_rnr++;
	request->due_ns = softefa_now_ns() + softefa_settings()->rnr_us * 1000ull;
	softefa_request_move(request, &qp->queued);
}

void softefa_send_again(struct softefa_qp *qp, const struct softefa_peer *peer)
{
	struct softefa_request *request, *next;

	for (request = TAILQ_FIRST(&qp->sent); request; request = next) {
		next = TAILQ_NEXT(request, entry);
		if (!softefa_peer_same(&request->peer, peer))
			continue;
		request->name.attempt++;
		request->n_received = 0;
		request->due_ns = 0;
		softefa_request_move(request, &qp->queued);
	}
}

static void probe_one(struct softefa_qp *qp, struct softefa_request *request, uint64_t now_ns)
{
	struct softefa_header header = {.kind = SOFTEFA_PROBE, .name = request->name};
	int result = softefa_link_send(&qp->link, &request->peer, &header,
		NULL, 0);

	/* In any case others have their turn before it is asked for again. */
	request->asked_ns = now_ns;
	if (result == -ECONNREFUSED)
		refused(qp, request, now_ns);
}

void softefa_probe(struct softefa_qp *qp, uint64_t now_ns)
{
	struct softefa_request *request, *next;
	int n = 0;

	if (now_ns < qp->probe_ns)
		return;
	qp->probe_ns = now_ns + PROBE_EVERY_NS;
	for (request = TAILQ_FIRST(&qp->sent); request && n < PROBES_MAX; request = next) {
		next = TAILQ_NEXT(request, entry);
		if (now_ns - request->asked_ns < PROBE_AFTER_NS)
			continue;
		probe_one(qp, request, now_ns);
		n++;
	}
}
