/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ofi backend, for EFA and libfabric's other networks: its table, its device and its port.
 * If libfabric cannot read, or would do so by the owner's processor, core pulls long messages in
 * datagrams.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backends/options.h"
#include "ripc/ripc.h"
#include "util/buffers.h"
#include "util/system/cancel.h"

#define READ_MAX (1u << 30)

static int info_get(const struct ripc__host *host, struct ofi_wish *wish, struct fi_info **info,
		char why[256], char remedy[256])
{
	int error = ripc__ofi_wish_read(host, wish);

	if (error) {
		snprintf(why, 256, "an option of the ofi backend is wrong");
		snprintf(remedy, 256,
			"correct ofi.receives, ofi.datagram, ofi.reads or ofi.checksum");
		return error;
	}
	error = ripc__ofi_is_wanted(host, why, remedy);
	return error ? error : ripc__ofi_info_get(wish, info, why, remedy);
}

/* The most frequent fault of a provider that seems to be complete. */
static const char *hint_for(const struct fi_info *info)
{
	if (info->ep_attr->protocol == FI_PROTO_SHM)
		return "libfabric's shm provider may end a process when its partner ends; unset "
			"ofi.provider to use the shm backend of libripc";
	if (info->ep_attr->protocol != FI_PROTO_EFA)
		return "";
	if (ripc__ofi_may_be_told(info))
		return "on an instance with RDMA read (p4d ...), FI_EFA_USE_DEVICE_RDMA=1 permits "
			"reads of long messages; on others, libfabric then ends the process";
	return "if no partner is reached: the security group must allow all traffic from and to "
		"itself, and all hosts be in one subnet (docs/efa.md)";
}

static int probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	uint32_t version = fi_version();
	struct ofi_wish wish;
	struct fi_info *info;
	int error = info_get(host, &wish, &info, why, remedy);

	if (error)
		return error;
	snprintf(why, 256, "libfabric %u.%u, provider %.60s, domain %.60s", FI_MAJOR(version),
		FI_MINOR(version), info->fabric_attr->prov_name, info->domain_attr->name);
	snprintf(remedy, 256, "%s", hint_for(info));
	fi_freeinfo(info);
	return 0;
}

static uint32_t datagram_max(const struct ofi_wish *wish, const struct fi_info *info)
{
	uint32_t most = ripc__ofi_message_max(info);
	uint32_t len = wish->datagram && wish->datagram < info->ep_attr->max_msg_size ?
		wish->datagram : most;

	return len - ripc__ofi_head_room(info);
}

static uint32_t caps_of(const struct ofi_wish *wish, const struct fi_info *info)
{
	uint32_t caps = RIPC_CAP_SIZED;

	if (ripc__ofi_is_intact(wish, info))
		caps |= RIPC_CAP_INTACT;
	if (!ripc__ofi_has_reads(wish, info))
		return caps;
	if (info->domain_attr->mr_mode & FI_MR_LOCAL)
		caps |= RIPC_CAP_REGISTERED;
	return caps | RIPC_CAP_READ;
}

static uint32_t read_max(const struct fi_info *info)
{
	size_t most = info->ep_attr->max_msg_size;

	return most < READ_MAX ? (uint32_t)most : READ_MAX;
}

static int open_device(struct ofi_device *dev, const struct ripc__host *host)
{
	char why[256], remedy[256];
	struct fi_info *info;
	int error = info_get(host, &dev->wish, &info, why, remedy);

	if (error) {
		host->log(host->arg, RIPC_LOG_WARN, "ofi: %s", why);
		return error;
	}
	dev->host = *host;
	dev->datagram_max = datagram_max(&dev->wish, info);
	if (info->rx_attr->size && dev->wish.receives > info->rx_attr->size)
		dev->wish.receives = (uint32_t)info->rx_attr->size;
	error = ripc__ofi_net_open(info, &dev->net);
	if (error)
		return error;
	ripc__map_init(&dev->keys, host->context);
	list_init(&dev->regions);
	return 0;
}

static void close_device(struct ofi_device *dev)
{
	ripc__ofi_memory_close(dev);
	ripc__ofi_net_close(dev->net);
}

/* ---- the port ---------------------------------------------------------------------------- */

static int read_name(struct ofi_port *port)
{
	uint8_t name[256];
	size_t len = sizeof(name);
	int error = fi_getname(&port->net->ep->fid, name, &len);

	if (!error)
		error = ripc__ofi_name_from(port->net->info, name, len, &port->self);
	if (error)
		return error;
	port->self.unchecked = !port->dev.wish.checksum;
	port->head_len = ripc__ofi_head_encode(&port->self, port->head);
	return 0;
}

static int open_port(struct ofi_port *port)
{
	int error;

	port->net = port->dev.net;
	port->n_receives = port->dev.wish.receives;
	port->buffer_len = ripc__ofi_head_room(port->net->info) + port->dev.datagram_max;
	/* EFA's provider waits at closing for injected datagrams, too, and does not report them. */
	if (port->net->info->ep_attr->protocol != FI_PROTO_EFA)
		port->inject_max = (uint32_t)port->net->info->tx_attr->inject_size;
	ripc__ofi_links_open(port);
	if (getrandom(port->secret, sizeof(port->secret), 0) != sizeof(port->secret))
		return -EIO;
	error = ripc__ofi_net_start(port->net, port->n_receives, port->buffer_len);
	if (error)
		return error;
	ripc__ofi_sends_open(port);
	ripc__ofi_reads_open(port);
	error = read_name(port);
	if (error)
		goto err_stop;
	error = ripc__ofi_receives_open(port);
	if (error)
		goto err_receives;
	error = ripc__ofi_wait_open(port);
	if (error)
		goto err_receives;
	return 0;
err_receives:
	free(port->handed);
err_stop:
	ripc__ofi_net_stop(port->net);
	return error;
}

static int open_all(void *state, const struct ripc__host *host, struct ripc__attr *attr)
{
	struct ofi_port *port = state;
	struct ofi_device *dev = &port->dev;
	int error = open_device(dev, host);

	if (error)
		return error;
	error = open_port(port);
	if (error) {
		close_device(dev);
		return error;
	}
	*attr = (struct ripc__attr){
		.caps = caps_of(&dev->wish, dev->net->info),
		.fd = port->sleeps ? port->sleeper.epoll_fd : -1,
		/* As in the verbs backend: four senders' pulled bytes, and as much for shorts. */
		.peer_buffer = dev->wish.receives / 8 * dev->datagram_max,
		.read_max = read_max(dev->net->info),
	};
	return 0;
}

static void close_all(void *state)
{
	struct ofi_port *port = state;

	ripc__ofi_wait_close(port);
	/* While the memory exists: libfabric may have reads that it has yet to post. */
	ripc__ofi_net_await(port->net);
	/* A close that goes on alone writes nowhere. */
	ripc__ofi_regions_close(&port->dev);
	ripc__ofi_net_stop(port->net);
	free(port->handed);
	ripc__ofi_links_close(port);
	close_device(&port->dev);
}

int ripc__ofi_send(void *state, void *route_state, const struct ripc__tx *tx, uint32_t n)
{
	RIPC__HOLD_CANCEL;
	struct ofi_port *port = state;
	struct ofi_route *route = route_state;
	struct ofi_link *link = route->link;
	uint32_t taken;

	if (tx[0].len > port->dev.datagram_max)
		return -EMSGSIZE;
	for (taken = 0; taken < n && tx[taken].len <= port->dev.datagram_max; taken++) {
		if (!ripc__ofi_has_room(port, link))
			ripc__ofi_progress(port);
		/* Progress may have shown that the partner is gone, with its entry. */
		if (port->is_lost || route->resets != link->resets ||
				!ripc__ofi_has_room(port, link) ||
				ripc__ofi_send_one(port, link, &tx[taken]))
			break;
	}
	if (taken)
		return (int)taken;
	if (port->is_lost || route->resets != link->resets)
		return -ECONNRESET;
	link->missed = true;
	return 0;
}

const struct ripc__backend ripc__ofi_backend = {
	.name = "ofi",
	.id = 6,
	.port_size = sizeof(struct ofi_port),
	.route_size = sizeof(struct ofi_route),
	.is_sealable = true,
	.net = {
		.probe = probe,
		.open = open_all,
		.close = close_all,
		.address = ripc__ofi_port_addr,
		.arm = ripc__ofi_wait_arm,
		.stats = ripc__ofi_stats,
	},
	.route = {
		.choose = ripc__ofi_addr_choose,
		.text = ripc__ofi_addr_text,
		.open = ripc__ofi_route_open,
		.close = ripc__ofi_route_close,
		.where = ripc__ofi_where,
		.mtu = ripc__ofi_route_mtu,
		.matches = ripc__ofi_route_matches,
	},
	.datagrams = {
		.send = ripc__ofi_send,
		.poll = ripc__ofi_poll,
		.release = ripc__buffer_release,
	},
	.mem = {
		.reg = ripc__ofi_mem_reg,
		.dereg = ripc__ofi_mem_dereg,
		.open = ripc__ofi_mem_open,
		.close = ripc__ofi_mem_close,
	},
	.remote = {.move = ripc__ofi_read},
};
