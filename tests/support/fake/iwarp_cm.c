/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager of the fake iWARP device (iwarp.h). */
#include "iwarp_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- events ------------------------------------------------------------------------------ */

static bool is_answer(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_ESTABLISHED || type == RDMA_CM_EVENT_REJECTED ||
		type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE;
}

static void tell(struct fake_id *id, enum rdma_cm_event_type type, struct fake_id *listener,
		const struct rdma_conn_param *param)
{
	struct fake_id *where = listener ? listener : id;
	struct fake_channel *channel = (struct fake_channel *)where->id.channel;
	struct fake_event *event = calloc(1, sizeof(*event));
	uint8_t len = param ? param->private_data_len : 0;

	event->event.id = &id->id;
	event->event.event = type;
	if (len)
		memcpy(event->bytes, param->private_data, len);
	if (len && fake_iwarp.private_data)
		fake_iwarp.private_data(event->bytes, &len);
	event->event.param.conn.private_data = event->bytes;
	event->event.param.conn.private_data_len = len;
	list_append(&channel->events, &event->node);
	fake_signal_fd(channel->write_fd);
	if (!is_answer(type))
		return;
	id->asks = id->is_mute = false;
	pthread_cond_broadcast(&fake_world.answered);
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_channel *channel;
	int fds[2];

	if (fake_fails(FAKE_CREATE_CHANNEL) || pipe2(fds, O_CLOEXEC) < 0)
		return NULL;
	channel = fake_made(sizeof(*channel));
	channel->channel.fd = fds[0];
	channel->write_fd = fds[1];
	list_init(&channel->events);
	return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct fake_channel *own = (struct fake_channel *)channel;

	while (!list_empty(&own->events)) {
		struct fake_event *event = list_entry(list_pop(&own->events), struct fake_event,
			node);

		/* A request that nobody has taken ends with its listener. */
		if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			rdma_destroy_id(event->event.id);
		free(event);
	}
	close(channel->fd);
	close(own->write_fd);
	fake_gone(own);
}

static struct fake_id *id_new(struct rdma_event_channel *channel, void *context);

/* The same request once more. */
static void repeat(const struct fake_event *event)
{
	struct fake_id *again = id_new(event->event.id->channel, NULL);

	again->id.route = event->event.id->route;
	again->id.verbs = event->event.id->verbs;
	again->id.port_num = 1;
	pthread_mutex_lock(&fake_world.lock);
	tell(again, RDMA_CM_EVENT_CONNECT_REQUEST, NULL, &event->event.param.conn);
	fake_iwarp.n_flood--;
	pthread_mutex_unlock(&fake_world.lock);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct fake_channel *own = (struct fake_channel *)channel;
	struct fake_event *next;
	char byte;

	if (read(channel->fd, &byte, 1) != 1)
		return -1;
	pthread_mutex_lock(&fake_world.lock);
	if (list_empty(&own->events)) { /* its id was destroyed */
		pthread_mutex_unlock(&fake_world.lock);
		errno = EAGAIN;
		return -1;
	}
	next = list_entry(list_pop(&own->events), struct fake_event, node);
	((struct fake_id *)next->event.id)->unacknowledged++;
	pthread_mutex_unlock(&fake_world.lock);
	if (fake_iwarp.n_flood && next->event.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		repeat(next);
	*event = &next->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	pthread_mutex_lock(&fake_world.lock);
	((struct fake_id *)event->id)->unacknowledged--;
	pthread_mutex_unlock(&fake_world.lock);
	free(event);
	return 0;
}

/* ---- identifiers ------------------------------------------------------------------------- */

static struct fake_id *id_new(struct rdma_event_channel *channel, void *context)
{
	struct fake_id *id = fake_made(sizeof(*id));

	id->id.channel = channel;
	id->id.context = context;
	id->id.ps = RDMA_PS_TCP;
	pthread_mutex_lock(&fake_world.lock);
	list_append(&fake_world.ids, &id->node);
	pthread_mutex_unlock(&fake_world.lock);
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		enum rdma_port_space ps)
{
	(void)ps;
	if (fake_fails(FAKE_CREATE_ID))
		return -1;
	*id = &id_new(channel, context)->id;
	return 0;
}

static void events_forget(struct fake_id *id)
{
	struct fake_channel *channel = (struct fake_channel *)id->id.channel;

	list_for_each_safe(node, &channel->events) {
		struct fake_event *event = list_entry(node, struct fake_event, node);

		if (event->event.id != &id->id)
			continue;
		list_remove(node);
		free(event);
	}
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *own = (struct fake_id *)id;

	pthread_mutex_lock(&fake_world.lock);
	fake_await_answer(own);
	if (own->unacknowledged)
		fake_fault("an identifier is destroyed before its events are acknowledged");
	if (id->qp)
		fake_fault("an identifier is destroyed before its queue pair");
	if (own->remote && own->remote->asks)
		tell(own->remote, RDMA_CM_EVENT_CONNECT_ERROR, NULL, NULL);
	if (own->remote)
		own->remote->remote = NULL;
	events_forget(own);
	list_remove(&own->node);
	pthread_mutex_unlock(&fake_world.lock);
	return fake_gone(own);
}

static void use_device(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	struct sockaddr_in *own = &id->route.addr.src_sin;

	memcpy(own, addr, sizeof(*own));
	if (!own->sin_port)
		own->sin_port = htons(fake_world.next_port++);
	id->verbs = &fake_world.shared.context;
	id->port_num = 1;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	if (fake_fails(FAKE_BIND))
		return -1;
	pthread_mutex_lock(&fake_world.lock);
	use_device(id, addr);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	if (fake_fails(FAKE_LISTEN))
		return -1;
	pthread_mutex_lock(&fake_world.lock);
	((struct fake_id *)id)->listens = true;
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return id->route.addr.src_sin.sin_port;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
		int timeout_ms)
{
	(void)timeout_ms;
	if (fake_fails(FAKE_RESOLVE_ADDR))
		return -1;
	pthread_mutex_lock(&fake_world.lock);
	use_device(id, from);
	memcpy(&id->route.addr.dst_sin, to, sizeof(struct sockaddr_in));
	tell((struct fake_id *)id, fake_iwarp.addr_error ? RDMA_CM_EVENT_ADDR_ERROR :
		RDMA_CM_EVENT_ADDR_RESOLVED, NULL, NULL);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	if (fake_fails(FAKE_RESOLVE_ROUTE))
		return -1;
	pthread_mutex_lock(&fake_world.lock);
	tell((struct fake_id *)id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, NULL);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* ---- connections ------------------------------------------------------------------------- */

static struct fake_id *listener_at(const struct sockaddr_in *at)
{
	list_for_each(node, &fake_world.ids) {
		struct fake_id *id = list_entry(node, struct fake_id, node);

		if (id->listens && id->id.route.addr.src_sin.sin_port == at->sin_port)
			return id;
	}
	return NULL;
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

/* For ever, but for a cancellation: by a wait which gcc's thread sanitizer sees end that way. */
static void block(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, &lock);
	for (;;)
		pthread_cond_wait(&never, &lock);
	pthread_cleanup_pop(1);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct fake_id *own = (struct fake_id *)id, *listener, *server;
	bool is_mute;

	if (fake_iwarp.block)
		block();
	if (fake_fails(FAKE_CONNECT))
		return -1;
	server = id_new(NULL, NULL);
	pthread_mutex_lock(&fake_world.lock);
	fake_iwarp.n_requests++;
	is_mute = own->is_mute = fake_iwarp.mute;
	listener = listener_at(&id->route.addr.dst_sin);
	if (is_mute || !listener) {
		list_remove(&server->node);
		pthread_mutex_unlock(&fake_world.lock);
		fake_gone(server);
		errno = ECONNREFUSED;
		return is_mute ? 0 : -1;
	}
	server->id.channel = listener->id.channel;
	use_device(&server->id, &listener->id.route.addr.src_addr);
	server->id.route.addr.dst_sin = id->route.addr.src_sin;
	server->remote = own;
	own->remote = server;
	own->asks = true;
	tell(server, RDMA_CM_EVENT_CONNECT_REQUEST, listener, param);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct fake_id *own = (struct fake_id *)id, *client;
	struct fake_qp *qp = (struct fake_qp *)id->qp;

	if (fake_fails(FAKE_ACCEPT))
		return -1;
	pthread_mutex_lock(&fake_world.lock);
	client = own->remote;
	fake_iwarp.n_accepts++;
	if (client && client->id.qp && client->id.qp->state != IBV_QPS_ERR) {
		qp->remote = (struct fake_qp *)client->id.qp;
		qp->remote->remote = qp;
		qp->is_server = qp->was_connected = qp->remote->was_connected = true;
		tell(own, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL);
		tell(client, RDMA_CM_EVENT_ESTABLISHED, NULL, param);
	} else {
		tell(own, RDMA_CM_EVENT_CONNECT_ERROR, NULL, NULL);
		if (client && client->asks)
			tell(client, RDMA_CM_EVENT_CONNECT_ERROR, NULL, NULL);
	}
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *bytes, uint8_t len)
{
	struct rdma_conn_param param = {.private_data = bytes, .private_data_len = len};
	struct fake_id *own = (struct fake_id *)id;

	fake_raise();
	pthread_mutex_lock(&fake_world.lock);
	fake_iwarp.n_rejects++;
	if (own->remote) {
		tell(own->remote, RDMA_CM_EVENT_REJECTED, NULL, &param);
		own->remote->remote = NULL;
		own->remote = NULL;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

static void flush(struct fake_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp.qp_num};

	for (uint32_t i = 0; i < qp->n_held; i++) {
		wc.wr_id = qp->held[i].wr_id;
		if (!qp->held[i].written)
			fake_complete(qp->qp.send_cq, &wc);
		free(qp->held[i].written);
	}
	qp->n_held = 0;
}

/* Both ends hear of it. */
void fake_separate(struct fake_qp *qp)
{
	struct fake_qp *remote = qp->remote;

	qp->qp.state = IBV_QPS_ERR;
	flush(qp);
	if (!remote)
		return;
	qp->remote = remote->remote = NULL;
	remote->qp.state = IBV_QPS_ERR;
	flush(remote);
	tell(qp->id, RDMA_CM_EVENT_DISCONNECTED, NULL, NULL);
	tell(remote->id, RDMA_CM_EVENT_DISCONNECTED, NULL, NULL);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	fake_raise();
	pthread_mutex_lock(&fake_world.lock);
	fake_await_answer((struct fake_id *)id);
	if (id->qp)
		fake_separate((struct fake_qp *)id->qp);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

void fake_await_answer(struct fake_id *id)
{
	while (id->is_mute)
		pthread_cond_wait(&fake_world.answered, &fake_world.lock);
}

void fake_iwarp_give_up(void)
{
	pthread_mutex_lock(&fake_world.lock);
	fake_iwarp.mute = false;
	list_for_each(node, &fake_world.ids) {
		struct fake_id *id = list_entry(node, struct fake_id, node);

		if (id->is_mute)
			tell(id, RDMA_CM_EVENT_UNREACHABLE, NULL, NULL);
	}
	pthread_mutex_unlock(&fake_world.lock);
}

void fake_iwarp_break(void)
{
	pthread_mutex_lock(&fake_world.lock);
	list_for_each(node, &fake_world.qps)
		fake_separate(list_entry(node, struct fake_qp, node));
	pthread_mutex_unlock(&fake_world.lock);
}
