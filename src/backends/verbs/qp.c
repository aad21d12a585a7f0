/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram queue pair of a port: made, and revived when it has failed. Devices put it into
 * the error state for temporary causes, too (software RoCE when it has no memory for a packet),
 * and its number is our address: the same one is therefore used again. First all requests that
 * were posted to it have come back, so that no old completion is taken for a new one.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "internal.h"
#include "ripc/ripc.h"
#include "util/rare.h"
#include "util/system/clock.h"

#define INLINE_WISHED 256u     /* bytes; devices that offer less report that */
#define PAUSE_US      100000u  /* between two revivals: others get a turn */
#define FLUSH_US      1000000u /* all receives must have come back within this */
#define CALM_US       10000000u /* without a failure, older ones do not count */
#define FAILURES_MAX  10u

static int create_qp(struct verbs_port *port, uint32_t inline_max)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = port->sends.cq,
		.recv_cq = port->queue.cq,
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
		error = create_qp(port, 0); /* some refuse instead of offering less */
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
	now_us = ripc__clock_us();
	/* Without a link sends fail before the device reports that: no fault of the queue pair. */
	ripc__rdma_device_look(port->rdma);
	if (now_us - port->failed_us >= CALM_US || port->downs != port->rdma->n_downs ||
			port->rdma->is_down)
		port->failures = 0;
	port->failures++;
	port->downs = port->rdma->n_downs;
	port->revive_us = port->failures > 1 ? now_us + PAUSE_US : now_us;
	port->failed_us = now_us;
	port->failed = true;
	/* The receives come back, too, even if only a send has failed. */
	(void)ibv_modify_qp(port->qp, &attr, IBV_QP_STATE);
}

static void give_up(struct verbs_port *port)
{
	const struct ripc__host *host = &port->rdma->host;

	port->failed = false;
	port->rdma->is_lost = true;
	host->log(host->arg, RIPC_LOG_WARN, "verbs: the datagram queue pair has failed");
}

/* Forgets the sends: none is under way any more. */
static void forget_sends(struct verbs_port *port)
{
	struct verbs_sends *sends = &port->sends;
	struct ibv_wc wc;

	while (ibv_poll_cq(sends->cq, 1, &wc) > 0)
		; /* each completion was counted when its send was posted */
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

/* Was the completion queue empty at the last look? */
static bool all_is_taken(const struct verbs_port *port)
{
	return port->at == port->n_wcs && port->n_wcs < VERBS_BATCH;
}

RIPC__RARE void ripc__verbs_qp_revive(struct verbs_port *port)
{
	uint64_t now_us = ripc__clock_us(), until_us = port->failed_us + FLUSH_US;
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

/* ---- pair -------------------------------------------------------------------------------- */

/*
 * Reliable queue pairs: made, connected and destroyed on helper threads, because the kernel may
 * resolve the neighbour meanwhile. A failed one is destroyed, never repaired. No partner can
 * reach our memory through the client's end; through the server's end the client reaches the
 * memory that was opened for it.
 */

/*
 * A partner that does not respond for this long is dead: 67 ms (4.096 us << 14) and 7
 * repetitions, which devices may stretch fourfold (IBA 9.7.6.1.3): 0.5 to 2 s.
 */
#define TIMEOUT       14
#define RETRIES       7
#define RNR_RETRIES   7
#define RNR_TIMER     12 /* 0.64 ms; 0 would mean 655 ms */

static struct verbs_pair *pair_of(struct ripc__rdma_job *job)
{
	return (struct verbs_pair *)((char *)job - offsetof(struct verbs_pair, job));
}

/* ---- on helper threads, which touch only the pair and constant fields --------------------- */

static int to_init(struct verbs_pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = pair->link->port->rdma->port,
		.qp_access_flags = pair->is_server ?
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0,
	};

	return -ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_ACCESS_FLAGS);
}

static int to_receive(struct verbs_pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = pair->mtu,
		.dest_qp_num = pair->remote_qpn,
		.rq_psn = pair->is_server ? pair->psn : 0,
		.max_dest_rd_atomic = pair->is_server ? pair->reads : 0,
		.min_rnr_timer = RNR_TIMER,
	};

	ripc__verbs_addr_attr(pair->link->port->rdma, &pair->link->remote, &attr.ah_attr);
	return -ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER);
}

static int to_send(struct verbs_pair *pair)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = TIMEOUT,
		.retry_cnt = RETRIES,
		.rnr_retry = RNR_RETRIES,
		.sq_psn = pair->psn,
		.max_rd_atomic = pair->reads,
	};

	return -ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void build_run(struct ripc__rdma_job *job)
{
	struct verbs_pair *pair = pair_of(job);
	struct verbs_port *port = pair->link->port;
	struct ibv_qp_init_attr attr = {
		.send_cq = port->queue.cq,
		.recv_cq = port->queue.cq,
		.cap = {.max_send_wr = RIPC__RDMA_READS_OF_QP, .max_send_sge = 1, .max_recv_wr = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	errno = 0;
	pair->qp = ibv_create_qp(pair->link->space->pd, &attr);
	if (!pair->qp) {
		pair->error = errno ? -errno : -ENOMEM;
		return;
	}
	pair->error = to_init(pair);
	if (!pair->error && pair->is_server)
		pair->error = to_receive(pair);
}

static void connect_run(struct ripc__rdma_job *job)
{
	struct verbs_pair *pair = pair_of(job);

	pair->error = to_receive(pair);
	if (!pair->error)
		pair->error = to_send(pair);
}

static void destroy_run(struct ripc__rdma_job *job)
{
	struct verbs_pair *pair = pair_of(job);

	if (pair->qp)
		ibv_destroy_qp(pair->qp);
	pair->qp = NULL;
}

/* ---- back again -------------------------------------------------------------------------- */

static void made(struct ripc__rdma_job *job)
{
	struct verbs_pair *pair = pair_of(job);

	pair->error = job->ran ? pair->error : -ECANCELED;
	pair->done(pair);
}

static void destroyed(struct ripc__rdma_job *job)
{
	struct verbs_pair *pair = pair_of(job);

	if (!job->ran)
		destroy_run(job);
	pair->state = VERBS_NONE;
	pair->link->port->n_pairs--;
	pair->done(pair);
}

static void submit(struct verbs_pair *pair, void (*run)(struct ripc__rdma_job *),
		void (*back)(struct ripc__rdma_job *), void (*done)(struct verbs_pair *))
{
	pair->job.run = run;
	pair->job.done = back;
	pair->done = done;
	ripc__rdma_worker_submit(pair->link->port->worker, &pair->job);
}

void ripc__verbs_pair_build(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair))
{
	pair->state = VERBS_BUILDING;
	pair->unwanted = false;
	pair->link->port->n_pairs++;
	submit(pair, build_run, made, done);
}

void ripc__verbs_pair_connect(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair))
{
	pair->state = VERBS_CONNECTING;
	submit(pair, connect_run, made, done);
}

void ripc__verbs_pair_destroy(struct verbs_pair *pair, void (*done)(struct verbs_pair *pair))
{
	if (pair->state == VERBS_BUILDING || pair->state == VERBS_CONNECTING) {
		pair->unwanted = true;
		return;
	}
	pair->state = VERBS_DESTROYING;
	submit(pair, destroy_run, destroyed, done);
}

void ripc__verbs_pair_drop(struct verbs_pair *pair)
{
	destroy_run(&pair->job);
	pair->state = VERBS_NONE;
}

/* Posted work requests complete with errors. */
void ripc__verbs_pair_break(struct verbs_pair *pair)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)ibv_modify_qp(pair->qp, &attr, IBV_QP_STATE); /* or destroyed in a while */
	pair->state = VERBS_FLUSHING;
}
