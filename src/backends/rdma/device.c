/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of device, port and GID, and later changes. The first port that has a link is
 * taken, unless one was named. Among the GIDs of an Ethernet port the rule is: RoCE v2 of an
 * IPv4 address, then of a global IPv6 address, then of a link-local one, then RoCE v1; on
 * Infiniband the first one. Both ends follow it, and therefore find each other without
 * configuration.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rdma.h"
#include "util/system/remedy.h"

#define MESSAGE_MAX (1u << 30)

/* The fault of the last candidate, for people. */
struct search {
	const struct ripc__rdma_wish *wish;
	size_t name_len;  /* of the wanted device's name; 0: any */
	unsigned long port; /* the wanted port; 0: any */
	char *why, *remedy;
	int error;
};

static void reject(struct search *search, int error, const char *why, const char *remedy)
{
	search->error = error;
	snprintf(search->why, 256, "%s", why);
	snprintf(search->remedy, 256, "%s", remedy);
}

int ripc__rdma_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* ---- the GID ----------------------------------------------------------------------------- */

int ripc__rdma_gid_rank(const struct ibv_gid_entry *entry)
{
	const uint8_t *raw = entry->gid.raw;

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 1;
	if (ripc__rdma_is_v4(raw))
		return 4;
	return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 2 : 3;
}

static void take_gid(struct ripc__rdma_device *device, const struct ibv_gid_entry *entry)
{
	device->gid = entry->gid;
	device->gid_rank = (uint8_t)ripc__rdma_gid_rank(entry);
	device->gid_index = (uint8_t)entry->gid_index;
	device->kind = entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? RIPC__RDMA_ROCE_V2 :
		entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? RIPC__RDMA_ROCE_V1 :
		RIPC__RDMA_INFINIBAND;
}

/* -ENODATA: there is none. */
static int choose_gid(struct ripc__rdma_device *device, int wished, int n_gids)
{
	struct ibv_gid_entry entry;
	int best = 0;

	for (int i = 0; i < n_gids && i <= UINT8_MAX; i++) {
		if ((wished >= 0 && i != wished) || ibv_query_gid_ex(device->context,
				device->port, (uint32_t)i, &entry, 0))
			continue;
		if (ripc__rdma_gid_rank(&entry) <= best)
			continue;
		best = ripc__rdma_gid_rank(&entry);
		take_gid(device, &entry);
		if (device->link_layer != IBV_LINK_LAYER_ETHERNET)
			break;
	}
	return best ? 0 : -ENODATA;
}

/* ---- the port and the device ------------------------------------------------------------- */

static bool try_port(struct search *search, struct ripc__rdma_device *device)
{
	struct ibv_port_attr port;
	char why[256];

	if (ibv_query_port(device->context, device->port, &port) ||
			port.state != IBV_PORT_ACTIVE) {
		snprintf(why, sizeof(why), "port %u of %.64s has no link", device->port,
			ibv_get_device_name(device->context->device));
		reject(search, -ENETDOWN, why,
			"plug the cable in, or set the network interface up");
		return false;
	}
	device->link_layer = port.link_layer;
	device->lid = port.lid;
	device->mtu = (uint8_t)port.active_mtu;
	device->message_max = port.max_msg_sz < MESSAGE_MAX ? port.max_msg_sz : MESSAGE_MAX;
	if (search->wish->transport == IBV_TRANSPORT_IWARP) {
		device->kind = RIPC__RDMA_IWARP;
		return true;
	}
	device->wished_gid = search->wish->gid_index;
	if (choose_gid(device, device->wished_gid, port.gid_tbl_len)) {
		snprintf(why, sizeof(why), "port %u of %.64s has no address (GID)", device->port,
			ibv_get_device_name(device->context->device));
		reject(search, -EADDRNOTAVAIL, why,
			"give the network interface an IP address, or correct verbs.gid_index");
		return false;
	}
	return true;
}

/* Leaves device->context open on success. */
static bool try_device(struct search *search, struct ibv_device *candidate,
		struct ripc__rdma_device *device)
{
	unsigned long first = search->port ? search->port : 1, last;
	char why[256], remedy[256];
	int error;

	device->context = ibv_open_device(candidate);
	if (!device->context) {
		error = errno ? -errno : -ENODEV;
		snprintf(why, sizeof(why), "%.64s cannot be opened: %s",
			ibv_get_device_name(candidate), strerror(-error));
		ripc__remedy(error, "modprobe ib_uverbs; check the permissions of "
			"/dev/infiniband/uverbs*", remedy);
		reject(search, error, why, remedy);
		return false;
	}
	if (ibv_query_device(device->context, &device->attr) == 0) {
		last = search->port ? search->port : device->attr.phys_port_cnt;
		for (; first <= last && first <= device->attr.phys_port_cnt; first++) {
			device->port = (uint8_t)first;
			if (try_port(search, device))
				return true;
		}
	}
	ibv_close_device(device->context);
	return false;
}

static bool is_wished(const struct search *search, struct ibv_device *candidate)
{
	const char *name = ibv_get_device_name(candidate);

	if (candidate->transport_type != search->wish->transport)
		return false;
	return !search->name_len || (strlen(name) == search->name_len &&
		memcmp(name, search->wish->device, search->name_len) == 0);
}

static void search_begin(struct search *search)
{
	const char *name = search->wish->device;
	bool iwarp = search->wish->transport == IBV_TRANSPORT_IWARP;

	reject(search, -ENODEV, iwarp ? "there is no iWARP device" :
		"there is no InfiniBand or RoCE device", iwarp ?
		"load its driver; in software: rdma link add siw0 type siw netdev INTERFACE" :
		"load its driver; in software: rdma link add rxe0 type rxe netdev INTERFACE");
	if (!name)
		return;
	search->name_len = strcspn(name, ":");
	search->port = name[search->name_len] ?
		strtoul(name + search->name_len + 1, NULL, 10) : 0;
	snprintf(search->why, 256, "there is no device \"%.64s\" of that kind", name);
}

int ripc__rdma_device_open(struct ripc__rdma_device *device, const struct ripc__rdma_wish *wish,
		char why[256], char remedy[256])
{
	struct search search = {.wish = wish, .why = why, .remedy = remedy};
	struct ripc__rdma_device found = {.host = device->host};
	struct ibv_device **list;
	bool opened = false;
	int n = 0;

	search_begin(&search);
	list = ibv_get_device_list(&n);
	for (int i = 0; list && i < n && !opened; i++) {
		if (is_wished(&search, list[i]))
			opened = try_device(&search, list[i], &found);
	}
	if (list)
		ibv_free_device_list(list);
	if (!opened)
		return search.error;
	*device = found;
	list_init(&device->regions);
	ripc__map_init(&device->keys, device->host.context);
	snprintf(why, 256, "%.32s port %u, %s, MTU %d, GID index %u",
		ibv_get_device_name(device->context->device), device->port,
		device->kind == RIPC__RDMA_INFINIBAND ? "InfiniBand" :
		device->kind == RIPC__RDMA_ROCE_V1 ? "RoCE v1" :
		device->kind == RIPC__RDMA_ROCE_V2 ? "RoCE v2" : "iWARP",
		128 << device->mtu, device->gid_index);
	remedy[0] = '\0';
	return 0;
}

int ripc__rdma_device_start(struct ripc__rdma_device *device)
{
	device->pd = ibv_alloc_pd(device->context);
	if (device->pd)
		return 0;
	ripc__rdma_device_close(device);
	return -ENOMEM;
}

void ripc__rdma_device_close(struct ripc__rdma_device *device)
{
	ripc__rdma_memory_close(device);
	if (device->pd)
		ibv_dealloc_pd(device->pd);
	ibv_close_device(device->context);
}

/* ---- later changes ----------------------------------------------------------------------- */

/* Is the address still there that others know? */
static bool has_address(struct ripc__rdma_device *device)
{
	struct ibv_gid_entry entry;

	if (device->kind == RIPC__RDMA_IWARP)
		return true;
	return ibv_query_gid_ex(device->context, device->port, device->gid_index, &entry, 0) == 0 &&
		memcmp(&entry.gid, &device->gid, sizeof(entry.gid)) == 0;
}

/*
 * If the address is gone: is there another one? It must be of the same rank, because routes lead
 * to addresses of one kind. An address that is removed and added again may have a new index.
 */
static bool find_address(struct ripc__rdma_device *device, int n_gids)
{
	struct ripc__rdma_device other = *device;

	if (has_address(device))
		return true;
	if (choose_gid(&other, device->wished_gid, n_gids) || other.gid_rank != device->gid_rank)
		return false;
	device->gid = other.gid;
	device->gid_index = other.gid_index;
	device->n_moves++;
	return true;
}

void ripc__rdma_device_look(struct ripc__rdma_device *device)
{
	struct ibv_port_attr port;

	device->is_down = ibv_query_port(device->context, device->port, &port) ||
		port.state != IBV_PORT_ACTIVE;
	if (device->is_down)
		return;
	device->is_lost |= port.lid != device->lid;
	device->lacks_address = !find_address(device, port.gid_tbl_len);
	device->is_down = device->lacks_address;
}

static void take_event(struct ripc__rdma_device *device, enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		break; /* completions show a failed queue pair */
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
		device->is_lost = true;
		break;
	case IBV_EVENT_PORT_ERR:
		device->n_downs++;
		ripc__rdma_device_look(device);
		break;
	default:
		ripc__rdma_device_look(device);
		break;
	}
}

bool ripc__rdma_device_events(struct ripc__rdma_device *device)
{
	struct ibv_async_event event;

	for (errno = EAGAIN; !ibv_get_async_event(device->context, &event); errno = EAGAIN) {
		take_event(device, event.event_type);
		ibv_ack_async_event(&event);
	}
	return errno == EAGAIN || errno == EINTR;
}
