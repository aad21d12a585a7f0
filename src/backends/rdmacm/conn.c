/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: requested and accepted, disconnected, destroyed, never repaired. Calls that block
 * run on helper threads, one job at a time for each connection. While a connection is busy, the
 * rest of the backend only notes that it is unwanted.
 *
 * Design notes. The number of a queue pair may be reused as soon as the queue pair is destroyed.
 * Therefore all of its completions are taken first: it is disconnected, the completion queue is
 * emptied, and only then is it forgotten and destroyed.
 *
 * A request cannot be given up: the kernel waits for its answer (iw_cm_disconnect()), and siw
 * supplies one itself when there has been none for 10 s. The connection of a request is not
 * disconnected or destroyed before that, because this would hold a helper thread; its queue pair
 * is made useless meanwhile.
 *
 * siw (Linux 6.1, siw_accept()) may not notice messages that arrive right behind the request's
 * answer, until more arrive. The end that sent the request therefore sends one more message,
 * unless it has received one meanwhile.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/system/clock.h"

#define RESOLVE_MS    1500
#define CONNECT_US    3000000u /* from the beginning to the state READY */
#define NUDGE_US      20000u   /* until the requester has received a message */
#define CLOSE_US      1000000u /* time for both ends to send BYE */
#define FLUSH_US      500000u  /* time for a broken connection to flush */
#define INLINE_WISHED 256u
#define RETRIES       7

static struct rdmacm_conn *conn_of(struct ripc__rdma_job *job)
{
	return (struct rdmacm_conn *)((char *)job - offsetof(struct rdmacm_conn, job));
}

static void set_due(struct rdmacm_conn *conn, uint64_t after_us)
{
	conn->due_us = ripc__clock_us() + after_us;
	ripc__rdmacm_due_at(conn->port, conn->due_us);
}

static struct ripc__rdma_flow *flow_of(struct rdmacm_conn *conn)
{
	return conn->link ? &conn->link->flow : NULL;
}

/* ---- on helper threads ------------------------------------------------------------------- */

static int create_qp(struct rdmacm_conn *conn, uint32_t inline_max)
{
	struct rdmacm_port *port = conn->port;
	struct ibv_qp_init_attr attr = {
		.send_cq = port->queue.cq,
		.recv_cq = port->queue.cq,
		.srq = port->srq,
		.cap = {.max_send_wr = RDMACM_QUEUE, .max_send_sge = 1, .max_recv_sge = 1,
			.max_inline_data = inline_max},
		.qp_type = IBV_QPT_RC,
	};

	errno = 0;
	conn->id->verbs = port->rdma->context; /* instead of librdmacm's */
	if (rdma_create_qp(conn->id, conn->space->pd, &attr))
		return errno ? -errno : -ENOMEM;
	conn->inline_max = attr.cap.max_inline_data < inline_max ? attr.cap.max_inline_data :
		inline_max;
	return 0;
}

static void build_run(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);

	conn->job_error = create_qp(conn, INLINE_WISHED);
	if (conn->job_error == -EINVAL)
		conn->job_error = create_qp(conn, 0); /* some refuse instead of offering less */
}

/* iWARP in software connects by TCP in this call: to a host that is off that takes two minutes. */
static int connect_call(void *arg)
{
	struct rdmacm_conn *conn = arg;
	struct rdma_conn_param param = {
		.private_data = conn->hello,
		.private_data_len = RDMACM_HELLO_LEN,
		.responder_resources = conn->reads,
		.initiator_depth = conn->reads,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};

	errno = 0;
	if (conn->is_server ? rdma_accept(conn->id, &param) : rdma_connect(conn->id, &param))
		return errno ? -errno : -ECONNREFUSED;
	return 0;
}

static void connect_run(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);

	conn->job_error = -EINTR; /* if it is left */
	conn->job_error = ripc__rdma_may_be_left(connect_call, conn);
}

/* A queue pair that is not connected yet cannot be connected any more. */
static void spoil_run(struct ripc__rdma_job *job)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	(void)ibv_modify_qp(conn_of(job)->id->qp, &attr, IBV_QP_STATE);
}

static void break_run(struct ripc__rdma_job *job)
{
	(void)rdma_disconnect(conn_of(job)->id); /* the other end may have done it already */
	spoil_run(job);
}

static void destroy_run(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);

	if (conn->id->qp)
		rdma_destroy_qp(conn->id);
	rdma_destroy_id(conn->id);
}

/* ---- jobs -------------------------------------------------------------------------------- */

static void submit(struct rdmacm_conn *conn, void (*run)(struct ripc__rdma_job *),
		void (*done)(struct ripc__rdma_job *))
{
	conn->busy = true;
	conn->job_error = 0;
	conn->job.run = run;
	conn->job.done = done;
	ripc__rdma_worker_submit(conn->port->worker, &conn->job);
}

static enum rdmacm_was what_was(const struct rdmacm_conn *conn)
{
	if (!conn->was_ready)
		return RDMACM_WAS_NOTHING;
	return conn->was_heard ? RDMACM_WAS_OF_USE : RDMACM_WAS_SILENT;
}

static void conn_free(struct rdmacm_conn *conn)
{
	struct rdmacm_port *port = conn->port;
	struct rdmacm_link *link = conn->link;
	enum rdmacm_was was = what_was(conn);
	int error = conn->error;

	list_remove(&conn->node);
	ripc__rdmacm_window_give(conn);
	ibv_dereg_mr(conn->mr);
	ripc__buffers_close(conn->buffers);
	ripc__rdma_space_put(conn->space);
	port->n_conns--;
	port->n_unready--;
	port->look = true; /* there is room, and the link that left it may be useless */
	free(conn);
	ripc__rdmacm_fences_check(port);
	if (!link)
		return;
	link->conn = NULL;
	ripc__rdma_flow_stop(&link->flow, -ECONNRESET);
	ripc__rdmacm_link_lost(link, was, error);
}

static void destroy_done(struct ripc__rdma_job *job)
{
	conn_of(job)->busy = !job->ran; /* then it is destroyed with the port */
	if (job->ran)
		conn_free(conn_of(job));
}

static void rdmacm_conn_destroy(struct rdmacm_conn *conn)
{
	struct rdmacm_port *port = conn->port;

	conn->state = RDMACM_DESTROYING;
	if (conn->id->qp) {
		(void)ripc__map_remove(&port->conns_by_qpn, conn->id->qp->qp_num);
		port->recent = NULL;
	}
	submit(conn, destroy_run, destroy_done);
}

static void break_done(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);

	conn->busy = false;
	if (!job->ran)
		return;
	conn->state = RDMACM_FLUSHING;
	conn->taken = conn->port->taken;
	set_due(conn, FLUSH_US);
	conn->port->look = true;
}

static void rdmacm_conn_disconnect(struct rdmacm_conn *conn)
{
	conn->state = RDMACM_BREAKING;
	submit(conn, break_run, break_done);
}

/* No memory can be reached through the connection any more. */
static void spoil_done(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);

	conn->busy = false;
	if (!job->ran || conn->port->closing)
		return;
	conn->passed = UINT64_MAX;
	ripc__rdmacm_fences_check(conn->port);
	if (!conn->asked)
		rdmacm_conn_disconnect(conn);
}

void ripc__rdmacm_conn_break(struct rdmacm_conn *conn, int error)
{
	if (conn->state >= RDMACM_BREAKING || conn->unwanted)
		return;
	conn->error = error;
	conn->unwanted = true;
	conn->port->n_unready += conn->state == RDMACM_READY;
	if (flow_of(conn))
		ripc__rdma_flow_fail(flow_of(conn));
	if (conn->state == RDMACM_READY || conn->state == RDMACM_CLOSING)
		conn->state = RDMACM_CLOSING; /* nothing is sent any more */
	/* While TCP repeats its SYN ever more rarely, the partner may come back. */
	if (conn->busy && conn->asked && error == -ETIMEDOUT)
		ripc__rdma_worker_leave(conn->port->worker, &conn->job);
	if (conn->busy || conn->port->closing)
		return;
	if (!conn->id->qp) {
		rdmacm_conn_destroy(conn);
		return;
	}
	if (conn->asked)
		submit(conn, spoil_run, spoil_done);
	else
		rdmacm_conn_disconnect(conn);
}

/* Does the connection go on after a job? Not if anything failed meanwhile. */
static bool goes_on(struct rdmacm_conn *conn, const struct ripc__rdma_job *job)
{
	int error = conn->unwanted ? conn->error : conn->job_error;

	conn->busy = false;
	if (!job->ran || conn->port->closing)
		return false;
	if (!error && !conn->unwanted)
		return true;
	conn->unwanted = false;
	ripc__rdmacm_conn_break(conn, error);
	return false;
}

static void prepare_hello(struct rdmacm_conn *conn)
{
	struct rdmacm_link *link = conn->link;
	struct rdmacm_hello hello = {
		.type = conn->is_server ? RDMACM_ACCEPT : RDMACM_REQUEST,
		.nonce = conn->nonce,
		.last = link ? link->last : 0,
		.window = conn->window,
		.buffer = RDMACM_BUFFER,
		.addr = conn->port->self,
	};

	ripc__rdmacm_hello_encode(&hello, conn->hello);
}

static void connect_done(struct ripc__rdma_job *job);

/*
 * A request may hold its thread for minutes: one thread stays free for connections to live
 * partners.
 */
static void connect_begin(struct rdmacm_conn *conn)
{
	struct rdmacm_port *port = conn->port;

	conn->waits = !conn->is_server && port->n_asking >= RIPC__RDMA_THREADS - 1;
	if (conn->waits)
		return;
	port->n_asking += !conn->is_server;
	conn->asked = !conn->is_server;
	prepare_hello(conn);
	submit(conn, connect_run, connect_done);
}

static void connect_next(struct rdmacm_port *port)
{
	list_for_each(node, &port->conns) {
		struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if (!conn->waits || conn->unwanted)
			continue;
		connect_begin(conn);
		return;
	}
}

static void connect_done(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);

	conn->port->n_asking -= !conn->is_server;
	conn->asked &= job->ran && !conn->job_error;
	(void)goes_on(conn, job);
	if (!conn->port->closing)
		connect_next(conn->port);
}

static void build_done(struct ripc__rdma_job *job)
{
	struct rdmacm_conn *conn = conn_of(job);
	int error;

	if (!goes_on(conn, job))
		return;
	error = ripc__map_put(&conn->port->conns_by_qpn, conn->id->qp->qp_num, conn);
	if (error) {
		ripc__rdmacm_conn_break(conn, error);
		return;
	}
	conn->state = conn->is_server ? RDMACM_ACCEPTING : RDMACM_CONNECTING;
	connect_begin(conn);
}

/* ---- the beginning ----------------------------------------------------------------------- */

static int conn_new(struct rdmacm_link *link, struct rdmacm_conn **conn)
{
	struct rdmacm_port *port = link->port;
	struct rdmacm_conn *made = calloc(1, sizeof(*made));
	int error = made ? ripc__rdmacm_link_space(link) : -ENOMEM;

	if (error)
		goto err_free;
	*made = (struct rdmacm_conn){.port = port, .link = link, .remote = link->remote,
		.space = link->space};
	error = ripc__rdmacm_sends_open(made);
	if (error)
		goto err_free;
	made->reads = ripc__rdma_reads_at_once(port->rdma->attr.max_qp_init_rd_atom,
		port->rdma->attr.max_qp_rd_atom);
	ripc__rdma_space_get(made->space);
	made->passed = port->n_fences;
	port->n_conns++;
	port->n_unready++;
	ripc__rdmacm_window_take(made);
	list_append(&port->conns, &made->node);
	link->conn = made;
	*conn = made;
	return 0;
err_free:
	free(made);
	return error;
}

/*
 * Does an attempt to this partner that was given up still take a connection, perhaps a helper
 * thread? One is enough.
 */
static bool is_stuck(const struct rdmacm_port *port, const struct rdmacm_addr *remote)
{
	uint64_t now_us = ripc__clock_us();

	list_for_each(node, &port->conns) {
		const struct rdmacm_conn *conn = list_entry(node, struct rdmacm_conn, node);

		if ((conn->busy || conn->asked) && conn->unwanted &&
				conn->state == RDMACM_CONNECTING && conn->due_us <= now_us &&
				ripc__rdmacm_addr_is(&conn->remote, remote))
			return true;
	}
	return false;
}

int ripc__rdmacm_conn_ask(struct rdmacm_link *link)
{
	struct rdmacm_port *port = link->port;
	struct rdmacm_addr self = port->self;
	struct sockaddr_storage from, to;
	struct rdmacm_conn *conn;
	struct rdma_cm_id *id;
	int error;

	if (port->rdma->is_lost)
		return -ENODEV;
	if (is_stuck(port, &link->remote))
		return -EHOSTUNREACH;
	self.port = 0;
	ripc__rdmacm_to_socket(&self, &from);
	ripc__rdmacm_to_socket(&link->remote, &to);
	if (rdma_create_id(port->channel, &id, NULL, RDMA_PS_TCP))
		return -errno;
	error = conn_new(link, &conn);
	if (error) {
		rdma_destroy_id(id);
		return error;
	}
	conn->id = id;
	id->context = conn;
	conn->nonce = ripc__rdma_nonce(port->secret, &port->counter);
	conn->state = RDMACM_RESOLVING;
	set_due(conn, CONNECT_US);
	if (rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MS))
		ripc__rdmacm_conn_break(conn, -errno);
	return 0;
}

/* Does the identifier belong to the device and port that we have opened? */
static bool rdmacm_is_our_device(const struct ripc__rdma_device *rdma, const struct rdma_cm_id *id)
{
	return id->verbs && id->port_num == rdma->port &&
		strcmp(ibv_get_device_name(id->verbs->device),
			ibv_get_device_name(rdma->context->device)) == 0;
}

/* Client: the first part of the route is resolved, or all of it. */
static void rdmacm_conn_resolved(struct rdmacm_conn *conn, enum rdma_cm_event_type what)
{
	if (conn->state != RDMACM_RESOLVING || conn->unwanted)
		return;
	if (!rdmacm_is_our_device(conn->port->rdma, conn->id)) {
		ripc__rdmacm_conn_break(conn, -EHOSTUNREACH);
	} else if (what == RDMA_CM_EVENT_ADDR_RESOLVED) {
		if (rdma_resolve_route(conn->id, RESOLVE_MS))
			ripc__rdmacm_conn_break(conn, -errno);
	} else {
		conn->state = RDMACM_BUILDING;
		submit(conn, build_run, build_done);
	}
}

/* Makes a connection from a request for the link; id then belongs to the connection. */
static int rdmacm_conn_accept(struct rdmacm_link *link, struct rdma_cm_id *id,
		const struct rdmacm_hello *hello)
{
	struct rdmacm_conn *conn;
	int error = conn_new(link, &conn);

	if (error)
		return error;
	conn->is_server = true;
	conn->id = id;
	id->context = conn;
	conn->nonce = hello->nonce;
	conn->limit = hello->window;
	conn->state = RDMACM_BUILDING;
	set_due(conn, CONNECT_US);
	submit(conn, build_run, build_done);
	return 0;
}

bool ripc__rdmacm_is_guarded(const struct rdmacm_port *port)
{
	return port->dev.is_late && ripc__rdma_sigpipe_ends();
}

/* As ripc__rdmacm_say(). */
static bool say(struct rdmacm_conn *conn, enum rdmacm_message type)
{
	bool said = ripc__rdmacm_say(conn, type);

	if (conn->failed)
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	return said;
}

void ripc__rdmacm_conn_try(struct rdmacm_conn *conn)
{
	if (ripc__rdmacm_credit(conn, RDMACM_RESERVE + 1))
		(void)say(conn, RDMACM_CREDIT);
}

void ripc__rdmacm_conn_ready(struct rdmacm_conn *conn)
{
	struct rdmacm_link *link = conn->link;

	if (!link || conn->unwanted)
		return;
	conn->state = RDMACM_READY;
	conn->used = ++conn->port->uses;
	conn->port->n_unready--;
	conn->port->reads.guarded = ripc__rdmacm_is_guarded(conn->port);
	link->last = conn->nonce;
	/* On iWARP the server may not send before it has received from the client. */
	if (!conn->is_server && !say(conn, RDMACM_CREDIT)) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
		return;
	}
	if (!conn->is_server) {
		conn->nudge_us = ripc__clock_us() + NUDGE_US;
		ripc__rdmacm_due_at(conn->port, conn->nudge_us);
	}
	conn->was_ready = true;
	ripc__rdmacm_link_ready(link);
}

/* ---- the end ----------------------------------------------------------------------------- */

void ripc__rdmacm_conn_leave(struct rdmacm_conn *conn)
{
	struct rdmacm_link *link = conn->link;

	ripc__rdmacm_conn_break(conn, -ECANCELED);
	ripc__rdma_flow_stop(&link->flow, -ECANCELED);
	link->conn = NULL;
	conn->link = NULL;
}

void ripc__rdmacm_conn_close(struct rdmacm_conn *conn)
{
	if (conn->state != RDMACM_READY || !say(conn, RDMACM_BYE))
		return;
	if (conn->state != RDMACM_READY)
		return; /* the connection broke at the doorbell */
	conn->bye = conn->head;
	conn->state = RDMACM_CLOSING;
	conn->port->n_unready++;
	if (flow_of(conn))
		ripc__rdma_flow_fail(flow_of(conn)); /* reads use the next connection */
	set_due(conn, CLOSE_US);
}

void ripc__rdmacm_conn_check(struct rdmacm_conn *conn)
{
	struct ripc__rdma_flow *flow = flow_of(conn);

	if (conn->bye_came && conn->state == RDMACM_READY && flow && flow->n_posted) {
		ripc__rdma_flow_fail(flow); /* over UDP, core may have been notified since */
		return;
	}
	if (conn->bye_came && conn->state == RDMACM_READY)
		ripc__rdmacm_conn_close(conn);
	if (conn->bye_came && conn->state == RDMACM_READY)
		ripc__rdmacm_conn_break(conn, 0); /* no credit for our BYE */
	if (conn->state == RDMACM_CLOSING && !conn->unwanted && conn->bye_came && conn->bye_gone)
		ripc__rdmacm_conn_break(conn, 0);
}

/* The helper threads have ended: the caller ends all connections at once. */
void ripc__rdmacm_conns_close(struct rdmacm_port *port)
{
	while (!list_empty(&port->conns)) {
		struct rdmacm_conn *conn = list_entry(port->conns.next, struct rdmacm_conn, node);

		if (conn->id->qp)
			(void)rdma_disconnect(conn->id);
		destroy_run(&conn->job);
		conn_free(conn);
	}
	ripc__map_free(&port->conns_by_qpn);
}

/* ---- request ----------------------------------------------------------------------------- */

/*
 * Design notes. Both ends may send requests at once. Then the request wins that gives the number
 * of the last connection; if both do or none does, that of the end whose address is lower. That
 * end refuses the other's request (glare), and the other end drops its own when it sees the
 * winner's. The refused end waits, and sends its request again if none has arrived. A request
 * that meets a standing connection is glare, too, unless it names that connection's number: then
 * the other end knew the connection and has lost it. A stranger that does not know that number
 * can therefore not end a connection. Nor can a stranger take the place of a partner whose
 * connection has ended: while routes lead there or it may read memory, a request that names
 * another number is refused, and we send a request to the partner's address instead. An end that
 * is refused in this way forgets the number: two ends that know different numbers thus find
 * together.
 */

/* Decodes a request. Its sender must send it from the host where it listens. */
static int read_request(const struct rdma_cm_event *event, struct rdmacm_hello *hello)
{
	struct rdmacm_addr from;
	int error = ripc__rdmacm_hello_decode(event->param.conn.private_data,
		event->param.conn.private_data_len, hello);

	if (!error)
		error = ripc__rdmacm_from_socket(rdma_get_peer_addr(event->id), &from);
	if (!error && (hello->type != RDMACM_REQUEST ||
			memcmp(from.ip, hello->addr.ip, sizeof(from.ip)) != 0))
		error = -EBADMSG;
	return error;
}

/*
 * Does the request lack the number, while routes or memory depend on it? It may be of another
 * process at the partner's host.
 */
static bool is_unknown(const struct rdmacm_link *link, const struct rdmacm_hello *hello)
{
	return (link->n_routes || (link->space && link->space->n_keys)) && link->last &&
		hello->last != link->last;
}

/* Is it our own end of a connection to ourselves? No other end can know its number. */
static bool is_own(struct rdmacm_port *port, const struct rdmacm_hello *hello)
{
	struct rdmacm_link *link;

	return ripc__rdmacm_link_get(port, &port->self, false, &link) == 0 && link->conn &&
		!link->conn->is_server && link->conn->nonce == hello->nonce;
}

/*
 * Does our request win over theirs? No if only theirs gives a number: the other end would go on
 * refusing ours.
 */
static bool is_ours_first(const struct rdmacm_link *link, const struct rdmacm_hello *hello)
{
	if (!link->last != !hello->last)
		return link->last != 0;
	return ripc__rdmacm_addr_before(&link->port->self, &link->remote);
}

/* The reason to refuse a request (enum rdmacm_reason), or 0 if nothing hinders it any more. */
static uint8_t settle(struct rdmacm_link *link, const struct rdmacm_hello *hello, bool is_mirror)
{
	struct rdmacm_conn *conn = link->conn;
	bool is_known = conn && hello->last == conn->nonce;

	if (!is_mirror && (!conn || (!conn->was_ready && conn->state != RDMACM_ACCEPTING)) &&
			is_unknown(link, hello)) {
		ripc__rdmacm_link_want(link);
		return RDMACM_UNKNOWN;
	}
	if (!conn)
		return 0;
	if (conn->was_ready && (conn->state >= RDMACM_BREAKING || conn->unwanted))
		return RDMACM_BUSY;
	if (!conn->was_ready && conn->state != RDMACM_ACCEPTING) {
		if (!is_known && !conn->unwanted && !conn->is_server && !conn->waits &&
				is_ours_first(link, hello))
			return RDMACM_GLARE;
		ripc__rdmacm_conn_leave(conn);
		return 0;
	}
	if (is_known) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
		return RDMACM_BUSY;
	}
	/* If that connection is dead after all, this finds it out. */
	if (conn->state == RDMACM_READY)
		ripc__rdmacm_conn_try(conn);
	return RDMACM_GLARE;
}

static void refuse(struct rdmacm_port *port, struct rdma_cm_id *id, uint8_t reason)
{
	struct rdmacm_hello hello = {.type = RDMACM_REFUSE, .reason = reason, .addr = port->self};
	uint8_t bytes[RDMACM_HELLO_LEN];

	ripc__rdmacm_hello_encode(&hello, bytes);
	(void)rdma_reject(id, bytes, sizeof(bytes));
}

/* False: the request was refused, and its identifier is the caller's. */
static bool rdmacm_request_came(struct rdmacm_port *port, const struct rdma_cm_event *event)
{
	struct rdmacm_hello hello;
	struct rdmacm_link *link;
	uint8_t reason;
	bool is_mirror;

	port->look = true; /* a link that is made for it may be useless */
	if (port->closing || port->rdma->is_lost || read_request(event, &hello) ||
			hello.addr.by_udp != port->self.by_udp ||
			!rdmacm_is_our_device(port->rdma, event->id)) {
		(void)rdma_reject(event->id, NULL, 0);
		return false;
	}
	is_mirror = ripc__rdmacm_addr_is(&hello.addr, &port->self);
	if (is_mirror && !is_own(port, &hello)) {
		(void)rdma_reject(event->id, NULL, 0);
		return false;
	}
	reason = RDMACM_BUSY;
	if (ripc__rdmacm_link_get(port, &hello.addr, is_mirror, &link) == 0)
		reason = settle(link, &hello, is_mirror);
	if (!reason && !ripc__rdmacm_room_is(port, &hello.addr)) {
		ripc__rdmacm_room_make(port, ripc__clock_us());
		reason = RDMACM_BUSY;
	}
	if (!reason && rdmacm_conn_accept(link, event->id, &hello) == 0)
		return true;
	refuse(port, event->id, reason ? reason : RDMACM_BUSY);
	return false;
}

/* ---- events ------------------------------------------------------------------------------ */

#define FLUSH_LOOK_US 2000u
#define STALL_US      4000000u /* without the end of a read: the other host is gone */
#define STALL_LOOK_US 1000000u
#define EVENTS_MOST   32u     /* taken at once, because the other ends make more */

/* Client: the other end has accepted. */
static void accepted(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	struct rdmacm_hello hello;

	if (conn->is_server || conn->state != RDMACM_CONNECTING || conn->unwanted)
		return;
	if (ripc__rdmacm_hello_decode(event->param.conn.private_data,
			event->param.conn.private_data_len, &hello) ||
			hello.type != RDMACM_ACCEPT || hello.nonce != conn->nonce ||
			!ripc__rdmacm_addr_is(&hello.addr, &conn->remote)) {
		ripc__rdmacm_conn_break(conn, -EPROTO);
		return;
	}
	conn->limit = hello.window;
	ripc__rdmacm_conn_ready(conn);
}

static void rejected(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	struct rdmacm_hello hello;
	bool said = ripc__rdmacm_hello_decode(event->param.conn.private_data,
		event->param.conn.private_data_len, &hello) == 0 && hello.type == RDMACM_REFUSE;

	if (said && hello.reason == RDMACM_UNKNOWN && conn->link)
		conn->link->last = 0;
	ripc__rdmacm_conn_break(conn, said ? -EAGAIN : -ECONNREFUSED);
}

static void disconnected(struct rdmacm_conn *conn)
{
	/* Messages that the other end sent before are taken from the completion queue first. */
	ripc__rdmacm_fill(conn->port);
	ripc__rdmacm_conn_break(conn, conn->bye_came || conn->bye ? 0 : -ECONNRESET);
}

static void obey(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rdmacm_conn_resolved(conn, event->event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		accepted(conn, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(conn, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		ripc__rdmacm_conn_break(conn, -EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		ripc__rdmacm_conn_break(conn, event->status < 0 ? event->status : -ECONNREFUSED);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		conn->port->rdma->is_lost = true;
		ripc__rdmacm_conn_break(conn, -ENODEV);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(conn);
		break;
	default:
		break; /* no information that matters */
	}
}

/* Is it the kernel's last event of a request? Then its end waits for nothing. */
static bool is_answer(enum rdma_cm_event_type what)
{
	return what == RDMA_CM_EVENT_ESTABLISHED || what == RDMA_CM_EVENT_REJECTED ||
		what == RDMA_CM_EVENT_UNREACHABLE || what == RDMA_CM_EVENT_CONNECT_ERROR ||
		what == RDMA_CM_EVENT_DISCONNECTED || what == RDMA_CM_EVENT_DEVICE_REMOVAL;
}

static void take_event(struct rdmacm_conn *conn, const struct rdma_cm_event *event)
{
	bool is_late = conn->asked && conn->unwanted && is_answer(event->event);

	conn->asked &= !is_answer(event->event);
	obey(conn, event);
	if (is_late && !conn->busy)
		rdmacm_conn_disconnect(conn);
}

/* The contents of an event, which is gone when it is acknowledged. */
struct said {
	struct rdma_cm_event event;
	struct rdmacm_conn *conn;
	uint8_t bytes[RDMACM_HELLO_LEN];
};

static void copy_event(const struct rdma_cm_event *event, struct said *said)
{
	struct rdma_conn_param *param = &said->event.param.conn;

	said->event = *event;
	said->conn = event->id->context;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST &&
			event->event != RDMA_CM_EVENT_ESTABLISHED &&
			event->event != RDMA_CM_EVENT_REJECTED)
		return;
	if (!param->private_data || param->private_data_len < RDMACM_HELLO_LEN) {
		param->private_data_len = 0;
		return;
	}
	memcpy(said->bytes, param->private_data, RDMACM_HELLO_LEN);
	param->private_data = said->bytes;
	param->private_data_len = RDMACM_HELLO_LEN;
}

static void take_request(struct rdmacm_port *port, const struct rdma_cm_event *event)
{
	bool is_guarded = ripc__rdmacm_is_guarded(port);
	sigset_t before;

	if (is_guarded)
		ripc__rdma_guard_begin(&before);
	if (!rdmacm_request_came(port, event))
		rdma_destroy_id(event->id);
	if (is_guarded)
		ripc__rdma_guard_end(&before);
}

/*
 * Events are acknowledged before they are handled: an identifier cannot be destroyed before
 * that.
 */
bool ripc__rdmacm_events(struct rdmacm_port *port)
{
	struct rdma_cm_event *event;
	struct said said;

	for (uint32_t i = 0; i < EVENTS_MOST; i++) {
		if (rdma_get_cm_event(port->channel, &event))
			return true;
		copy_event(event, &said);
		rdma_ack_cm_event(event);
		if (said.event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			take_request(port, &said.event);
		else if (said.conn)
			take_event(said.conn, &said.event);
	}
	return false;
}

/* ---- time -------------------------------------------------------------------------------- */

static bool is_flushed(struct rdmacm_conn *conn, uint64_t now_us)
{
	struct rdmacm_port *port = conn->port;
	/* All completions of that time have been taken, even if others keep filling the queue. */
	bool is_out = ripc__rdmacm_fill(port) ||
		port->taken - conn->taken >= (uint32_t)port->queue.cq->cqe;

	return is_out && (now_us >= conn->due_us || !conn->link ||
		conn->link->flow.n_posted == 0);
}

/* Reads must end, even if the other host has vanished. */
static void watch_reads(struct rdmacm_conn *conn, uint64_t now_us)
{
	if (!conn->link || conn->link->flow.n_posted == 0) {
		conn->stalled_us = 0;
		return;
	}
	conn->stalled_us = conn->stalled_us ? conn->stalled_us : now_us;
	if (now_us - conn->stalled_us >= STALL_US)
		ripc__rdmacm_conn_break(conn, -ETIMEDOUT);
	else
		ripc__rdmacm_due_at(conn->port, now_us + STALL_LOOK_US);
}

static void nudge(struct rdmacm_conn *conn, uint64_t now_us)
{
	if (!conn->nudge_us)
		return;
	if (conn->received == 0 && now_us < conn->nudge_us) {
		ripc__rdmacm_due_at(conn->port, conn->nudge_us);
		return;
	}
	conn->nudge_us = 0;
	if (conn->received == 0)
		ripc__rdmacm_conn_try(conn);
}

static void ready_run(struct rdmacm_conn *conn, uint64_t now_us)
{
	if (conn->port->rdma->is_lost) {
		ripc__rdmacm_conn_break(conn, -ENODEV);
	} else if (ripc__rdmacm_echo_is_late(conn, now_us)) {
		ripc__rdmacm_conn_break(conn, -ECONNRESET);
	} else {
		nudge(conn, now_us);
		watch_reads(conn, now_us);
	}
}

static void conn_run(struct rdmacm_conn *conn, uint64_t now_us)
{
	switch (conn->state) {
	case RDMACM_READY:
		ready_run(conn, now_us);
		break;
	case RDMACM_FLUSHING:
		if (is_flushed(conn, now_us))
			rdmacm_conn_destroy(conn);
		else
			ripc__rdmacm_due_at(conn->port, now_us + FLUSH_LOOK_US);
		break;
	case RDMACM_BREAKING:
	case RDMACM_DESTROYING:
		break; /* a helper thread works on it */
	default:
		if (conn->unwanted)
			break;
		if (now_us >= conn->due_us)
			ripc__rdmacm_conn_break(conn, conn->state == RDMACM_CLOSING ? 0 :
				-ETIMEDOUT);
		else
			ripc__rdmacm_due_at(conn->port, conn->due_us);
		break;
	}
}

void ripc__rdmacm_conns_run(struct rdmacm_port *port, uint64_t now_us)
{
	list_for_each_safe(node, &port->conns)
		conn_run(list_entry(node, struct rdmacm_conn, node), now_us);
}
