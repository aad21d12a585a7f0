/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices: their list, what they say of themselves, opening them, protection domains. Real
 * devices of the machine are not listed, so that no program meets both kinds.
 */
#include "softefa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define VENDOR_AMAZON 0x1d0f
#define PART_WITH_READ 0xefa1
#define PART_WITHOUT   0xefa0
#define MAX_DEVICES    8
#define MAX_MR_SIZE    (1ull << 40)
#define MAX_RDMA_SIZE  (1u << 30)
#define DEFAULT_PKEY   0xffff

/* The verbs functions that headers turn into macros of the same name. */
#undef ibv_query_port

static struct ibv_device devices[MAX_DEVICES];
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;

static void fill_devices(void)
{
	const struct softefa_settings *settings = softefa_settings();

	for (uint32_t i = 0; i < settings->n_devices; i++) {
		struct ibv_device *device = &devices[i];

		device->node_type = IBV_NODE_UNSPECIFIED;
		device->transport_type = IBV_TRANSPORT_UNSPECIFIED;
		snprintf(device->name, sizeof(device->name), "softefa_%u", i);
		snprintf(device->dev_name, sizeof(device->dev_name), "uverbs%u", i);
		snprintf(device->dev_path, sizeof(device->dev_path),
			"%s/class/infiniband_verbs/uverbs%u", settings->sysfs, i);
		snprintf(device->ibdev_path, sizeof(device->ibdev_path),
			"%s/class/infiniband/softefa_%u", settings->sysfs, i);
	}
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	uint32_t n = softefa_settings()->n_devices;
	struct ibv_device **list = calloc(n + 1, sizeof(*list));

	if (!list) {
		errno = ENOMEM;
		return NULL;
	}
	pthread_once(&devices_once, fill_devices);
	for (uint32_t i = 0; i < n; i++)
		list[i] = &devices[i];
	if (num_devices)
		*num_devices = (int)n;
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

int ibv_get_device_index(struct ibv_device *device)
{
	return (int)(device - devices) + 1;
}

uint32_t softefa_device_index(const struct ibv_context *context)
{
	return (uint32_t)(context->device - devices);
}

/* A link-local address as EFA has: its last eight bytes name the host and the device. */
void softefa_gid(uint32_t device, uint8_t *gid)
{
	uint32_t host = softefa_settings()->host;
	const uint8_t value[SOFTEFA_GID_LEN] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0xef, 0xa0,
		0xff, 0xfe, (uint8_t)(host >> 8), (uint8_t)host, (uint8_t)device};

	memcpy(gid, value, sizeof(value));
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	uint8_t gid[SOFTEFA_GID_LEN];
	__be64 guid;

	softefa_gid((uint32_t)(device - devices), gid);
	memcpy(&guid, gid + 8, sizeof(guid));
	return guid;
}

static void fill_device_attr(struct ibv_device_attr *attr)
{
	const struct softefa_settings *settings = softefa_settings();
	uint32_t send_wr = settings->max_send_wr, recv_wr = settings->max_recv_wr;

	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "0.0.0.0");
	attr->max_mr_size = MAX_MR_SIZE;
	attr->page_size_cap = 0xfffff000;
	attr->vendor_id = VENDOR_AMAZON;
	attr->vendor_part_id = settings->has_rdma_read ? PART_WITH_READ : PART_WITHOUT;
	attr->hw_ver = attr->vendor_part_id;
	attr->max_qp = (int)settings->max_qp;
	attr->max_qp_wr = (int)(send_wr < recv_wr ? send_wr : recv_wr);
	attr->max_sge = SOFTEFA_SEND_SGE_MAX;
	attr->max_sge_rd = 1;
	attr->max_cq = 2 * (int)settings->max_qp;
	attr->max_cqe = 65536;
	attr->max_mr = 65535;
	attr->max_pd = 1024;
	attr->max_ah = 65535;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	fill_device_attr(attr);
	attr->node_guid = attr->sys_image_guid = ibv_get_device_guid(context->device);
	return 0;
}

static int query_device_ex(struct ibv_context *context,
	const struct ibv_query_device_ex_input *input, struct ibv_device_attr_ex *attr, size_t room)
{
	(void)input;
	if (room < sizeof(attr->orig_attr))
		return EINVAL;
	memset(attr, 0, room);
	return ibv_query_device(context, &attr->orig_attr);
}

int efadv_query_device(struct ibv_context *context, struct efadv_device_attr *attr,
	uint32_t inlen)
{
	const struct softefa_settings *settings = softefa_settings();
	struct efadv_device_attr full = {
		.max_sq_wr = settings->max_send_wr,
		.max_rq_wr = settings->max_recv_wr,
		.max_sq_sge = SOFTEFA_SEND_SGE_MAX,
		.max_rq_sge = SOFTEFA_SGE_MAX,
		.inline_buf_size = SOFTEFA_INLINE_MAX,
		.device_caps = EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID,
	};

	(void)context;
	if (inlen < offsetof(struct efadv_device_attr, inline_buf_size))
		return EINVAL;
	if (settings->has_rdma_read) {
		full.device_caps |= EFADV_DEVICE_ATTR_CAPS_RDMA_READ;
		full.max_rdma_size = MAX_RDMA_SIZE;
	}
	if (settings->has_rnr_retry)
		full.device_caps |= EFADV_DEVICE_ATTR_CAPS_RNR_RETRY;
	/* A caller that knows more fields than we do sees zeros there. */
	memset(attr, 0, inlen);
	memcpy(attr, &full, inlen < sizeof(full) ? inlen : sizeof(full));
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
	size_t room)
{
	const struct softefa_settings *settings = softefa_settings();
	struct ibv_port_attr full = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = settings->srd_mtu,
		.pkey_tbl_len = 1,
		.lid = 0,
		.max_vl_num = 1,
		.active_width = 2,
		.active_speed = 32,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_UNSPECIFIED,
	};

	(void)context;
	if (port != 1)
		return EINVAL;
	memset(attr, 0, room);
	memcpy(attr, &full, room < sizeof(full) ? room : sizeof(full));
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	/* The fields that callers of the old form have: all up to link_layer and flags. */
	return query_port(context, port, (struct ibv_port_attr *)attr,
		offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	softefa_gid(softefa_device_index(context), gid->raw);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
	size_t max_entries, uint32_t flags, size_t entry_size)
{
	if (flags || entry_size < sizeof(*entries) || !max_entries)
		return -EINVAL;
	memset(entries, 0, entry_size);
	entries->port_num = 1;
	softefa_gid(softefa_device_index(context), entries->gid.raw);
	return 1;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	if (port != 1 || index)
		return EINVAL;
	return _ibv_query_gid_table(context, entry, 1, flags, entry_size) == 1 ? 0 : EINVAL;
}

/*
 * A function that programs of rdma-core call, though no header declares it. There is one type,
 * number 0.
 */
__attribute__((visibility("default"))) int ibv_query_gid_type(struct ibv_context *context,
	uint8_t port, unsigned int index, int *type);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	(void)context;
	if (port != 1 || index)
		return EINVAL;
	*type = 0;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	if (port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*pkey = DEFAULT_PKEY; /* the same in either byte order */
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	(void)context;
	return port == 1 && pkey == DEFAULT_PKEY ? 0 : -1;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
	struct ibv_cq_init_attr_ex *attr)
{
	return softefa_cq_create(context, attr);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return softefa_qp_create(context, attr, false);
}

static void fill_operations(struct verbs_context *verbs)
{
	verbs->sz = sizeof(*verbs);
	verbs->query_port = query_port;
	verbs->query_device_ex = query_device_ex;
	verbs->create_cq_ex = create_cq_ex;
	verbs->create_qp_ex = create_qp_ex;
	verbs->context.ops.poll_cq = softefa_cq_poll;
	verbs->context.ops.req_notify_cq = softefa_cq_arm;
	verbs->context.ops.post_send = softefa_send_post;
	verbs->context.ops.post_recv = softefa_qp_post_recv;
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *verbs = calloc(1, sizeof(*verbs));
	struct ibv_context *context;

	if (!verbs)
		return NULL;
	fill_operations(verbs);
	context = &verbs->context;
	context->device = device;
	context->cmd_fd = -1;
	context->num_comp_vectors = 1;
	pthread_mutex_init(&context->mutex, NULL);
	/* Nothing asynchronous is ever told, but programs wait for this descriptor. */
	context->async_fd = eventfd(0, EFD_CLOEXEC);
	if (context->async_fd >= 0)
		return context;
	free(verbs);
	return NULL;
}

int ibv_close_device(struct ibv_context *context)
{
	struct verbs_context *verbs = verbs_get_ctx(context);

	close(context->async_fd);
	pthread_mutex_destroy(&context->mutex);
	free(verbs);
	return 0;
}

/* Blocks until the descriptor is readable, which it never is. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	uint64_t value;

	(void)event;
	return read(context->async_fd, &value, sizeof(value)) < 0 ? -1 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* Memory is shared with a fork's child as usual: nothing here depends on physical pages. */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}
