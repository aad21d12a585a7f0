/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram queue pair of a port: made, and brought back when it has failed. Devices put it into
 * the error state for passing things, too (software RoCE when it has no memory for a packet), and
 * its number is our address: so the same one is used again. First everything that was posted to it
 * has come back, so that no completion of before is taken for one of afterwards.
 */
#include <errno.h>

#include "qp.h"
#include "ripc/ripc.h"
#include "util/rare.h"

#define INLINE_WISHED 256u     /* bytes; devices that offer less say so */
#define PAUSE_US      100000u  /* between two times, so that somebody else gets a turn */
#define FLUSH_US      1000000u /* in which all receives must have come back */
#define CALM_US       10000000u /* without a failure: what was before does not count */
#define FAILURES_MAX  10u

static int create_qp(struct verbs_port *port, uint32_t inline_max)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = port->sends.cq,
		.recv_cq = port->cq,
		.cap = {.max_send_wr = VERBS_SENDS, .max_recv_wr = port->ring.count,
			.max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = inline_max},
		.qp_type = IBV_QPT_UD,
	};

	errno = 0;
	port->qp = ibv_create_qp(port->rdma->pd, &attr);
	if (!port->qp)
		return errno ? -errno : -ENOMEM;
	port->sends.inline_max = attr.cap.max_inline_data < inline_max ?
		attr.cap.max_inline_data : inline_max;
	return 0;
}

int ripc__verbs_qp_activate(const struct verbs_port *port, struct ibv_qp *qp, uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port->rdma->port,
		.qkey = qkey};
	int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_QKEY);

	attr.qp_state = IBV_QPS_RTR;
	if (!error)
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (!error)
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -error;
}

int ripc__verbs_qp_open(struct verbs_port *port)
{
	int error = create_qp(port, INLINE_WISHED);

	if (error == -EINVAL)
		error = create_qp(port, 0); /* some refuse what they cannot give */
	if (error)
		return error;
	error = ripc__verbs_qp_activate(port, port->qp, port->self.qkey);
	if (!error)
		error = ripc__rdma_ring_start(&port->ring, port->qp, NULL);
	if (error)
		ibv_destroy_qp(port->qp);
	return error;
}

/* ---- failures ---------------------------------------------------------------------------- */

RIPC__RARE void ripc__verbs_qp_failed(struct verbs_port *port)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	uint64_t now_us;

	if (port->failed || port->rdma->is_lost)
		return;
	now_us = ripc__rdma_now_us();
	/* Without a link sends fail until the device has told of it: no fault of the queue pair. */
	ripc__rdma_device_look(port->rdma);
	if (now_us - port->failed_us >= CALM_US || port->downs != port->rdma->n_downs ||
			port->rdma->is_down)
		port->failures = 0;
	port->failures++;
	port->downs = port->rdma->n_downs;
	port->revive_us = port->failures > 1 ? now_us + PAUSE_US : now_us;
	port->failed_us = now_us;
	port->failed = true;
	/* So that the receives come back, too, if only a send has failed. */
	(void)ibv_modify_qp(port->qp, &attr, IBV_QP_STATE);
}

static void give_up(struct verbs_port *port)
{
	const struct ripc__host *host = &port->rdma->host;

	port->failed = false;
	port->rdma->is_lost = true;
	host->log(host->arg, RIPC_LOG_WARN, "verbs: the datagram queue pair has failed");
}

/* Nothing is under way any more. */
static void forget_sends(struct verbs_port *port)
{
	struct verbs_sends *sends = &port->sends;
	struct ibv_wc wc;

	while (ibv_poll_cq(sends->cq, 1, &wc) > 0)
		; /* each was posted before */
	sends->tail = sends->head;
	sends->unsignalled = 0;
}

static int reset(struct verbs_port *port)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	int error = -ibv_modify_qp(port->qp, &attr, IBV_QP_STATE);

	if (error)
		return error;
	forget_sends(port);
	error = ripc__verbs_qp_activate(port, port->qp, port->self.qkey);
	return error ? error : ripc__rdma_ring_start(&port->ring, port->qp, NULL);
}

/* Was the completion queue empty when it was looked at last? */
static bool all_is_taken(const struct verbs_port *port)
{
	return port->at == port->n_wcs && port->n_wcs < VERBS_BATCH;
}

RIPC__RARE void ripc__verbs_qp_revive(struct verbs_port *port)
{
	uint64_t now_us = ripc__rdma_now_us(), until_us = port->failed_us + FLUSH_US;
	bool is_out = port->ring.n_idle + port->ring.n_handed == port->ring.count;

	if (port->failures > FAILURES_MAX ||
			(!is_out && now_us >= until_us && all_is_taken(port))) {
		give_up(port);
	} else if (!is_out) {
		ripc__verbs_due_at(port, until_us);
	} else if (now_us < port->revive_us) {
		ripc__verbs_due_at(port, port->revive_us);
	} else if (reset(port)) {
		give_up(port);
	} else {
		port->failed = false;
	}
}
