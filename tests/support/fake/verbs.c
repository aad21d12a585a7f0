/* SPDX-License-Identifier: BSD-3-Clause */
/* See verbs.h. One lock protects everything; objects are found by number, as in a device. */
#include "verbs_world.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_verbs fake_verbs;

struct fake_world fake_world = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
	list_init(&fake_world.qps);
	list_init(&fake_world.mrs);
	list_init(&fake_world.ahs);
	list_init(&fake_world.contexts);
	fake_world.next_number = 16;
	fake_world.live = fake_world.faults = 0;
	strcpy(fake_world.device.name, "fake0");
}

void fake_fault(const char *what)
{
	fake_world.faults++;
	fake_world.fault = what;
}

uint32_t fake_verbs_live(void)
{
	return fake_world.live;
}

uint32_t fake_verbs_faults(const char **what)
{
	*what = fake_world.fault ? fake_world.fault : "";
	return fake_world.faults;
}

uint32_t fake_verbs_connections(void)
{
	uint32_t n = 0;

	pthread_mutex_lock(&fake_world.lock);
	list_for_each(node, &fake_world.qps)
		n += list_entry(node, struct fake_qp, node)->qp.qp_type == IBV_QPT_RC;
	pthread_mutex_unlock(&fake_world.lock);
	return n;
}

void fake_verbs_event(enum ibv_event_type type)
{
	struct fake_context *context = list_entry(fake_world.contexts.next, struct fake_context,
		node);
	struct ibv_async_event event = {.event_type = type};

	if (write(context->pipe[1], &event, sizeof(event)) != sizeof(event))
		fake_fault("too many events");
}

/* True: this call fails, with errno set. */
bool fake_fails(enum fake_call call)
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

void *fake_made(size_t len)
{
	void *object = calloc(1, len);

	if (!object)
		abort();
	fake_world.live++;
	return object;
}

int fake_gone(void *object)
{
	free(object);
	fake_world.live--;
	return 0;
}

/* ---- devices ----------------------------------------------------------------------------- */

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	*n = !fake_verbs.no_device;
	fake_world.device.transport_type = fake_verbs.transport;
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
	attr->vendor_id = fake_verbs.vendor_id;
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

	if (fake_fails(FAKE_ALLOC_PD))
		return NULL;
	pthread_mutex_lock(&fake_world.lock);
	pd = fake_made(sizeof(*pd));
	pthread_mutex_unlock(&fake_world.lock);
	pd->context = context;
	return pd;
}

static bool is_used(const struct ibv_pd *pd)
{
	list_for_each(node, &fake_world.qps) {
		if (list_entry(node, struct fake_qp, node)->qp.pd == pd)
			return true;
	}
	list_for_each(node, &fake_world.mrs) {
		if (list_entry(node, struct fake_mr, node)->mr.pd == pd &&
				!list_entry(node, struct fake_mr, node)->stuck)
			return true;
	}
	return false;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	pthread_mutex_lock(&fake_world.lock);
	if (is_used(pd))
		fake_fault("a protection domain is freed while it is used");
	fake_gone(pd);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* ---- memory ------------------------------------------------------------------------------ */

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
		unsigned int access)
{
	struct fake_mr *mr;

	(void)iova;
	if (fake_fails(FAKE_REG_MR))
		return NULL;
	pthread_mutex_lock(&fake_world.lock);
	mr = fake_made(sizeof(*mr));
	mr->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->mr.lkey = mr->mr.rkey = ++fake_world.next_key << 8 | 0x5a;
	mr->access = access;
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
	if (!error) {
		list_remove(&own->node);
		fake_gone(own);
	}
	pthread_mutex_unlock(&fake_world.lock);
	return error;
}

/* May a queue pair of this domain use that memory so? */
bool fake_may_use(const struct ibv_pd *pd, uint32_t key, uint64_t address, uint32_t len,
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
	struct fake_channel *channel;
	int fds[2];

	if (fake_fails(FAKE_CREATE_CHANNEL) || pipe2(fds, O_CLOEXEC) < 0)
		return NULL;
	pthread_mutex_lock(&fake_world.lock);
	channel = fake_made(sizeof(*channel));
	pthread_mutex_unlock(&fake_world.lock);
	channel->channel.context = context;
	channel->channel.fd = fds[0];
	channel->write_fd = fds[1];
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	close(((struct fake_channel *)channel)->write_fd);
	pthread_mutex_lock(&fake_world.lock);
	fake_gone(channel);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
		struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *cq;

	(void)comp_vector;
	if (fake_fails(FAKE_CREATE_CQ))
		return NULL;
	pthread_mutex_lock(&fake_world.lock);
	cq = fake_made(sizeof(*cq));
	pthread_mutex_unlock(&fake_world.lock);
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

	pthread_mutex_lock(&fake_world.lock);
	free(own->wcs);
	fake_gone(own);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}

/* Under the lock. */
void fake_complete(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct fake_cq *own = (struct fake_cq *)cq;

	if (own->n == own->depth) {
		fake_fault("a completion queue overran");
		return;
	}
	own->wcs[(own->first + own->n++) % own->depth] = *wc;
	if (!own->armed || !cq->channel)
		return;
	own->armed = false;
	if (write(((struct fake_channel *)cq->channel)->write_fd, &cq, sizeof(cq)) != sizeof(cq))
		fake_fault("a completion channel overran");
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	struct fake_cq *own = (struct fake_cq *)cq;
	int filled = 0;

	pthread_mutex_lock(&fake_world.lock);
	fake_send_one(cq);
	while (filled < n && own->n) {
		wcs[filled++] = own->wcs[own->first];
		own->first = (own->first + 1) % own->depth;
		own->n--;
	}
	pthread_mutex_unlock(&fake_world.lock);
	return filled;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	pthread_mutex_lock(&fake_world.lock);
	((struct fake_cq *)cq)->armed = true;
	pthread_mutex_unlock(&fake_world.lock);
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

/* ---- contexts ---------------------------------------------------------------------------- */

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_context *context;

	if (fake_fails(FAKE_OPEN_DEVICE))
		return NULL;
	pthread_mutex_lock(&fake_world.lock);
	context = fake_made(sizeof(*context));
	if (pipe2(context->pipe, O_CLOEXEC) < 0)
		abort();
	context->context.device = device;
	context->context.async_fd = context->pipe[0];
	context->context.ops.poll_cq = poll_cq;
	context->context.ops.req_notify_cq = req_notify_cq;
	context->context.ops.post_send = fake_post_send;
	context->context.ops.post_recv = fake_post_recv;
	list_append(&fake_world.contexts, &context->node);
	pthread_mutex_unlock(&fake_world.lock);
	return &context->context;
}

static void drop_stuck(const struct ibv_context *context)
{
	list_for_each_safe(node, &fake_world.mrs) {
		struct fake_mr *mr = list_entry(node, struct fake_mr, node);

		if (!mr->stuck || mr->mr.context != context)
			continue;
		list_remove(node);
		fake_gone(mr);
	}
}

int ibv_close_device(struct ibv_context *context)
{
	struct fake_context *own = (struct fake_context *)context;

	pthread_mutex_lock(&fake_world.lock);
	drop_stuck(context);
	list_remove(&own->node);
	close(own->pipe[0]);
	close(own->pipe[1]);
	fake_gone(own);
	pthread_mutex_unlock(&fake_world.lock);
	return 0;
}
