/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received datagrams: each is checked, put into memory and answered. The kernel tells who sent a
 * datagram; everything in it may be a lie, and is compared with what this side knows: lengths with
 * what came, keys with the memory they were made for, acknowledgements and data with the request
 * that they claim to belong to and with the partner that it went to. Datagrams that do not fit are
 * counted (dropped_bad: no datagram of ours; dropped_unknown: it fits nothing here) and forgotten.
 */
#include "softefa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DATAGRAMS_MAX 64   /* in one go */
#define CHUNKS_MAX    16   /* of RDMA reads answered in one go */
#define SERVES_MAX    4096 /* RDMA reads under way of one queue pair's partners */
#define ACKS_ROOM_MAX (1 << 20)
#define PSN_NEAR      (1 << 20) /* farther than this apart is another life of the sender */

struct arrived {
	struct softefa_peer from;
	struct softefa_header header;
	const uint8_t *payload;
	uint32_t length; /* of the payload */
};

static void acknowledge(struct softefa_qp *qp, const struct arrived *arrived, uint32_t status)
{
	struct softefa_ack *ack;

	if (qp->n_acks == qp->n_acks_room) {
		uint32_t room = qp->n_acks_room ? 2 * qp->n_acks_room : 64;
		struct softefa_ack *acks;

		/* Only a partner that sends without end and reads nothing gets here. */
		acks = room > ACKS_ROOM_MAX ? NULL : realloc(qp->acks, room * sizeof(*acks));
		if (!acks)
			return;
		qp->acks = acks;
		qp->n_acks_room = room;
	}
	ack = &qp->acks[qp->n_acks++];
	ack->peer = arrived->from;
	ack->entry = (struct softefa_ack_entry){arrived->header.name, status};
}

static void unknown(void)
{
	softefa_counters.dropped_unknown++;
}

static void count_order(struct softefa_qp *qp, const struct arrived *arrived)
{
	const uint8_t *gid = arrived->from.gid;
	uint32_t index = (arrived->from.qpn + gid[13] * 31u + gid[14] * 7u + gid[15]) %
		SOFTEFA_N_SOURCES;
	struct softefa_source *source = &qp->sources[index];
	int32_t ahead = (int32_t)(arrived->header.name.psn - source->highest_psn);

	if (!source->used || !softefa_peer_same(&source->peer, &arrived->from) ||
		ahead > PSN_NEAR || ahead < -PSN_NEAR) {
		source->used = true;
		source->peer = arrived->from;
		source->highest_psn = arrived->header.name.psn;
	} else if (ahead < 0) {
		softefa_counters.reordered++;
	} else {
		source->highest_psn = arrived->header.name.psn;
	}
}

/* Copies to memory that is registered for it, from a place within the list on. Returns a status. */
static uint32_t scatter(const struct softefa_qp *qp, const struct ibv_sge *sges, int n_sge,
	uint64_t offset, const struct arrived *arrived)
{
	const struct ibv_qp *base = &qp->ex.qp_base;
	uint32_t done = 0, length = arrived->length;

	for (int i = 0; i < n_sge && done < length; i++) {
		uint64_t address = sges[i].addr + offset;
		uint32_t now;

		if (offset >= sges[i].length) {
			offset -= sges[i].length;
			continue;
		}
		now = sges[i].length - (uint32_t)offset;
		now = now < length - done ? now : length - done;
		offset = 0;
		if (!softefa_memory_allows(base->context, base->pd, sges[i].lkey, address, now,
			    IBV_ACCESS_LOCAL_WRITE))
			return SOFTEFA_LOCAL_INVALID_LKEY;
		memcpy((void *)(uintptr_t)address, arrived->payload + done, now);
		done += now;
	}
	return done == length ? SOFTEFA_OK : SOFTEFA_LOCAL_BAD_LENGTH;
}

static void complete_receive(struct softefa_qp *qp, const struct arrived *arrived,
	uint32_t status)
{
	struct softefa_completion completion = {
		.wr_id = qp->receives[qp->first_receive].wr_id,
		.opcode = IBV_WC_RECV,
		.status = status,
		.byte_len = arrived->length + (qp->is_srd ? 0 : SOFTEFA_GRH_LEN),
		.qp_num = qp->self.qpn,
		.src_qp = arrived->from.qpn,
		.flags = arrived->header.has_imm ? IBV_WC_WITH_IMM : 0,
		.imm = arrived->header.imm,
		.source_ah = softefa_ah_number(qp->ex.qp_base.context, arrived->from.gid),
	};

	memcpy(completion.source_gid.raw, arrived->from.gid, SOFTEFA_GID_LEN);
	qp->first_receive = (qp->first_receive + 1) % qp->n_receives;
	qp->n_posted--;
	softefa_cq_push(qp->ex.qp_base.recv_cq, &completion);
}

/* Returns what the sender is told. */
static uint32_t deliver(struct softefa_qp *qp, const struct arrived *arrived)
{
	const struct softefa_receive *receive = &qp->receives[qp->first_receive];
	uint32_t status;

	if (!softefa_qp_hears(qp) || arrived->header.qkey != qp->qkey)
		return SOFTEFA_REMOTE_BAD_DEST_QPN;
	if (arrived->length > qp->mtu)
		return SOFTEFA_REMOTE_BAD_LENGTH;
	if (!qp->n_posted) {
		softefa_counters.rnr_sent++;
		return SOFTEFA_REMOTE_RNR;
	}
	status = scatter(qp, receive->sge, receive->n_sge, qp->is_srd ? 0 : SOFTEFA_GRH_LEN,
		arrived);
	if (!status) {
		count_order(qp, arrived);
		softefa_counters.received++;
		softefa_counters.received_bytes += arrived->length;
	}
	complete_receive(qp, arrived, status);
	if (status == SOFTEFA_LOCAL_BAD_LENGTH)
		return SOFTEFA_REMOTE_BAD_LENGTH;
	return status ? SOFTEFA_REMOTE_BAD_STATUS : SOFTEFA_OK;
}

static void on_send(struct softefa_qp *qp, const struct arrived *arrived)
{
	if (qp->is_srd && arrived->header.length == arrived->length)
		acknowledge(qp, arrived, deliver(qp, arrived));
	else
		unknown();
}

static void on_ud_send(struct softefa_qp *qp, const struct arrived *arrived)
{
	if (qp->is_srd || arrived->header.length != arrived->length)
		unknown();
	else if (deliver(qp, arrived))
		softefa_counters.ud_lost++;
}

static uint32_t check_read(const struct softefa_qp *qp, const struct arrived *arrived)
{
	const struct softefa_header *header = &arrived->header;
	const struct ibv_qp *base = &qp->ex.qp_base;

	if (!softefa_qp_hears(qp) || header->qkey != qp->qkey)
		return SOFTEFA_REMOTE_BAD_DEST_QPN;
	if (!softefa_settings()->has_rdma_read)
		return SOFTEFA_REMOTE_BAD_STATUS;
	if (softefa_ah_number(base->context, arrived->from.gid) == SOFTEFA_AH_UNKNOWN)
		return SOFTEFA_REMOTE_UNKNOWN_PEER;
	if (!softefa_memory_allows(base->context, base->pd, header->key, header->address,
		    header->length, IBV_ACCESS_REMOTE_READ))
		return SOFTEFA_REMOTE_BAD_ADDRESS;
	return qp->n_serves < SERVES_MAX ? SOFTEFA_OK : SOFTEFA_REMOTE_ABORT;
}

static void on_read(struct softefa_qp *qp, const struct arrived *arrived)
{
	const struct softefa_header *header = &arrived->header;
	struct softefa_serve *serve;
	uint32_t status;

	if (!qp->is_srd || arrived->length) {
		unknown();
		return;
	}
	status = check_read(qp, arrived);
	serve = status ? NULL : calloc(1, sizeof(*serve));
	if (!serve || !header->length) {
		/* A read of nothing is done once its key is found good. */
		free(serve);
		acknowledge(qp, arrived, status || serve ? status : SOFTEFA_REMOTE_ABORT);
		return;
	}
	serve->peer = arrived->from;
	serve->name = header->name;
	serve->key = header->key;
	serve->address = header->address;
	serve->length = header->length;
	TAILQ_INSERT_TAIL(&qp->serves, serve, entry);
	qp->n_serves++;
	softefa_counters.reads_served++;
}

static bool name_same(const struct softefa_name *a, const struct softefa_name *b)
{
	return a->slot == b->slot && a->psn == b->psn && a->attempt == b->attempt;
}

/* The request that an answer belongs to, if the one who answers is the one who was asked. */
static struct softefa_request *find_request(struct softefa_qp *qp,
	const struct softefa_peer *from, const struct softefa_name *name)
{
	struct softefa_request *request;

	if (name->slot >= qp->n_requests)
		return NULL;
	request = &qp->requests[name->slot];
	if (request->list != &qp->sent || !name_same(&request->name, name) ||
		!softefa_peer_same(&request->peer, from))
		return NULL;
	return request;
}

static void on_data(struct softefa_qp *qp, const struct arrived *arrived)
{
	struct softefa_request *request = find_request(qp, &arrived->from,
		&arrived->header.name);
	uint32_t status;

	if (!request || request->kind != SOFTEFA_READ || !arrived->length ||
		arrived->header.address != request->n_received ||
		arrived->length > request->length - request->n_received) {
		unknown();
		return;
	}
	status = scatter(qp, request->sge, request->n_sge, request->n_received, arrived);
	request->n_received += arrived->length;
	request->asked_ns = softefa_now_ns();
	if (status || request->n_received == request->length)
		softefa_complete(qp, request, status);
}

static void on_ack_entry(struct softefa_qp *qp, const struct softefa_peer *from,
	const struct softefa_ack_entry *entry)
{
	struct softefa_request *request = find_request(qp, from, &entry->name);
	bool is_done_by_ack;

	if (!request) {
		/* An abortion may come after the true answer, which had been under way. */
		if (entry->status != SOFTEFA_REMOTE_ABORT)
			unknown();
		return;
	}
	is_done_by_ack = request->kind == SOFTEFA_SEND || !request->length;
	if (entry->status == SOFTEFA_REMOTE_RNR && request->kind == SOFTEFA_SEND)
		softefa_not_ready(qp, request);
	else if (entry->status == SOFTEFA_OK && is_done_by_ack)
		softefa_complete(qp, request, SOFTEFA_OK);
	else if (entry->status >= SOFTEFA_REMOTE_BAD_ADDRESS &&
		entry->status <= SOFTEFA_REMOTE_UNKNOWN_PEER)
		softefa_complete(qp, request, entry->status);
	else
		unknown();
}

static void on_ack(struct softefa_qp *qp, const struct arrived *arrived)
{
	struct softefa_ack_entry entry;

	if (arrived->length % sizeof(entry) || arrived->length > SOFTEFA_ACKS_MAX * sizeof(entry)) {
		unknown();
		return;
	}
	for (uint32_t at = 0; at < arrived->length; at += sizeof(entry)) {
		memcpy(&entry, arrived->payload + at, sizeof(entry));
		on_ack_entry(qp, &arrived->from, &entry);
	}
}

/*
 * Datagrams of one sender come in order, and acknowledgements leave in order. So a request that
 * is asked for has been dealt with: its answer is on its way before this one, or it is an RDMA
 * read that is being answered, or another process had this number when it was sent.
 */
static void on_probe(struct softefa_qp *qp, const struct arrived *arrived)
{
	const struct softefa_serve *serve;

	TAILQ_FOREACH (serve, &qp->serves, entry)
		if (name_same(&serve->name, &arrived->header.name) &&
			softefa_peer_same(&serve->peer, &arrived->from))
			return;
	acknowledge(qp, arrived, SOFTEFA_REMOTE_ABORT);
}

static void dispatch(struct softefa_qp *qp, const struct arrived *arrived)
{
	switch (arrived->header.kind) {
	case SOFTEFA_SEND:
		on_send(qp, arrived);
		break;
	case SOFTEFA_UD_SEND:
		on_ud_send(qp, arrived);
		break;
	case SOFTEFA_READ:
		on_read(qp, arrived);
		break;
	case SOFTEFA_DATA:
		on_data(qp, arrived);
		break;
	case SOFTEFA_ACK:
		on_ack(qp, arrived);
		break;
	case SOFTEFA_PROBE:
		on_probe(qp, arrived);
		break;
	default:
		softefa_counters.dropped_bad++;
	}
}

void softefa_receive(struct softefa_qp *qp, bool all)
{
	struct arrived arrived;

	for (int i = 0; i < DATAGRAMS_MAX; i++) {
		int length = softefa_link_receive(&qp->link, &arrived.from, &arrived.header,
			&arrived.payload, all);

		if (length == -EAGAIN)
			return;
		if (length == -ENOLINK) {
			softefa_send_again(qp, &arrived.from);
			continue;
		}
		if (length < 0) {
			softefa_counters.dropped_bad++;
			continue;
		}
		arrived.length = (uint32_t)length;
		dispatch(qp, &arrived);
	}
}

/* Sends the next piece. Returns as softefa_wire_send(), -EACCES if the key is no longer good. */
static int serve_chunk(struct softefa_qp *qp, struct softefa_serve *serve)
{
	const struct ibv_qp *base = &qp->ex.qp_base;
	uint32_t left = serve->length - serve->offset;
	struct softefa_header header = {.kind = SOFTEFA_DATA, .name = serve->name,
		.address = serve->offset};
	struct iovec part = {(void *)(uintptr_t)(serve->address + serve->offset),
		left < SOFTEFA_CHUNK ? left : SOFTEFA_CHUNK};
	int result;

	if (!softefa_memory_allows(base->context, base->pd, serve->key, serve->address,
		    serve->length, IBV_ACCESS_REMOTE_READ))
		return -EACCES;
	result = softefa_link_send(&qp->link, &serve->peer, &header, &part,
		1);
	if (!result)
		serve->offset += (uint32_t)part.iov_len;
	return result;
}

static void serve_end(struct softefa_qp *qp, struct softefa_serve *serve, int result)
{
	const struct arrived arrived = {.from = serve->peer,
		.header = {.name = serve->name}};

	if (result == -EACCES || result == -EFAULT)
		acknowledge(qp, &arrived, SOFTEFA_REMOTE_BAD_ADDRESS);
	else if (result && result != -ECONNREFUSED)
		acknowledge(qp, &arrived, SOFTEFA_REMOTE_ABORT);
	TAILQ_REMOVE(&qp->serves, serve, entry);
	qp->n_serves--;
	free(serve);
}

static void serve_reads(struct softefa_qp *qp)
{
	struct softefa_serve *serve, *next;
	int n = 0;

	for (serve = TAILQ_FIRST(&qp->serves); serve && n < CHUNKS_MAX; serve = next) {
		int result = 0;

		next = TAILQ_NEXT(serve, entry);
		while (!result && serve->offset < serve->length && n++ < CHUNKS_MAX)
			result = serve_chunk(qp, serve);
		if (result == -EAGAIN)
			softefa_counters.busy++;
		else if (result || serve->offset == serve->length)
			serve_end(qp, serve, result);
	}
}

/* Sends what there is for one partner, up to a datagram's worth, the first of it at "from".
 * Remaining entries keep their order. Returns false if the partner's queue is full. */
static bool send_acks(struct softefa_qp *qp, uint32_t from)
{
	struct softefa_header header = {.kind = SOFTEFA_ACK};
	struct softefa_ack_entry entries[SOFTEFA_ACKS_MAX];
	struct softefa_peer to = qp->acks[from].peer;
	struct iovec part = {entries, 0};
	uint32_t n = 0, kept = from;

	for (uint32_t i = from; i < qp->n_acks && n < SOFTEFA_ACKS_MAX; i++)
		if (softefa_peer_same(&qp->acks[i].peer, &to))
			entries[n++] = qp->acks[i].entry;
	part.iov_len = n * sizeof(entries[0]);
	if (softefa_link_send(&qp->link, &to, &header, &part, 1) == -EAGAIN)
		return false;
	for (uint32_t i = from, left = n; i < qp->n_acks; i++) {
		if (left && softefa_peer_same(&qp->acks[i].peer, &to))
			left--;
		else
			qp->acks[kept++] = qp->acks[i];
	}
	qp->n_acks = kept;
	return true;
}

/* Whether an earlier one for the same partner had to stay, so that this one must as well. */
static bool is_behind(const struct softefa_qp *qp, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (softefa_peer_same(&qp->acks[i].peer, &qp->acks[index].peer))
			return true;
	return false;
}

void softefa_answer(struct softefa_qp *qp)
{
	uint32_t from = 0;

	/* First: what is read would leave them no room for as long as there is more of it. */
	while (from < qp->n_acks) {
		if (!is_behind(qp, from) && send_acks(qp, from))
			continue;
		softefa_counters.busy++;
		from++;
	}
	if (!TAILQ_EMPTY(&qp->serves))
		serve_reads(qp);
}
