/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated network as a backend, in two forms: datagrams only, and with native reads. An
 * address is 8 bytes, host << 16 | port. Native reads are reliable, as InfiniBand's are: they
 * end, after a while, well or with an error, and they look at the memory when they end, so that
 * memory which is given back too early is seen.
 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"

#define BACKEND_ID     15
#define OVERHEAD       768
#define READ_FAILED_US 200000 /* until a read across a cut link is given up */
#define FENCE_MOST_US  9000   /* less than a tick, by which completions may be late */

struct device {
	struct sim_node *node;
};

struct port {
	struct sim_node *node;
	struct ripc__addr from[RIPC_EVENTS_MAX];
};

struct peer {
	uint64_t address;
};

struct read {
	struct sim_node *node;
	uint32_t generation;
	uint64_t to, cookie, offset;
	struct ripc__key key;
	void *mem;
	size_t len;
};

static int net_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	snprintf(why, 256, "simulated");
	remedy[0] = '\0';
	return 0;
}

static int open_device(void *dev, const struct ripc__host *host, struct ripc__attr *attr,
		uint32_t caps)
{
	struct device *device = dev;
	const struct sim_plan *plan;

	device->node = host->env;
	plan = &device->node->world->plan;
	*attr = (struct ripc__attr){.caps = caps, .datagram_max = plan->mtu,
		.receive_buffer = plan->receive_buffer, .datagram_overhead = OVERHEAD};
	return 0;
}

static int net_dev_open(void *dev, const struct ripc__host *host, struct ripc__attr *attr)
{
	return open_device(dev, host, attr, 0);
}

static int native_dev_open(void *dev, const struct ripc__host *host, struct ripc__attr *attr)
{
	return open_device(dev, host, attr, RIPC_CAP_READ);
}

static void net_dev_close(void *dev)
{
	(void)dev;
}

static int net_port_open(void *dev, void *at)
{
	struct port *port = at;

	port->node = ((struct device *)dev)->node;
	port->node->up = true;
	return 0;
}

static void net_port_close(void *at)
{
	struct sim_node *node = ((struct port *)at)->node;

	node->up = false;
	node->n_done = 0;
	node->n_regions = 0;
	sim_queue_clear(&node->datagrams);
}

static int net_port_addr(void *at, uint8_t blob[RIPC_ADDR_MAX])
{
	put64(blob, ((struct port *)at)->node->address);
	return 8;
}

static void address_of(uint64_t address, struct ripc__addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	sim_host(address, addr->host);
	addr->len = 8;
	put64(addr->blob, address);
}

static int net_addr_choose(void *port, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	(void)port;
	(void)host;
	if (len != 8)
		return -EINVAL;
	address_of(get64(blob), addr);
	return 0;
}

static void net_addr_text(const struct ripc__addr *addr, char text[64])
{
	snprintf(text, 64, "sim:%llx", (unsigned long long)get64(addr->blob));
}

static int net_peer_open(void *port, void *at, const struct ripc__addr *addr)
{
	(void)port;
	if (addr->len != 8)
		return -EINVAL;
	((struct peer *)at)->address = get64(addr->blob);
	return 0;
}

static void net_peer_close(void *port, void *peer)
{
	(void)port;
	(void)peer;
}

static uint32_t net_peer_mtu(void *port, void *peer)
{
	(void)peer;
	return ((struct port *)port)->node->world->plan.mtu;
}

static bool net_peer_matches(void *port, const void *peer, const struct ripc__addr *from)
{
	(void)port;
	return from->len == 8 && get64(from->blob) == ((const struct peer *)peer)->address;
}

static int net_send(void *at, void *to, const struct ripc__tx *tx, uint32_t n)
{
	struct sim_node *node = ((struct port *)at)->node;
	struct sim_world *world = node->world;
	uint32_t taken = n;

	if (world->faults && sim_chance(&world->random, world->plan.send_full))
		taken = (uint32_t)sim_below(&world->random, n + 1);
	for (uint32_t i = 0; i < taken; i++) {
		size_t len = 0;

		for (uint32_t j = 0; j < tx[i].n_iov; j++)
			len += tx[i].iov[j].iov_len;
		if (len != tx[i].len)
			model_fail(world->model, "a datagram's length is not that of its parts");
		if (len > world->plan.mtu)
			return i > 0 ? (int)i : -EMSGSIZE;
		sim_transmit(node, ((struct peer *)to)->address, false, tx[i].iov, tx[i].n_iov);
	}
	return (int)taken;
}

static int net_poll(void *at, struct ripc__event *events, uint32_t n)
{
	struct port *port = at;
	struct sim_node *node = port->node;
	struct sim_packet *packet;
	uint32_t i = 0;

	for (; i < n && i < node->n_done; i++)
		events[i] = (struct ripc__event){
			.kind = node->done[i].fenced ? RIPC_EV_FENCED : RIPC_EV_READ,
			.status = node->done[i].status, .cookie = node->done[i].cookie};
	node->n_done -= i;
	if (node->n_done > 0)
		memmove(node->done, node->done + i, node->n_done * sizeof(*node->done));
	for (; i < n && i < RIPC_EVENTS_MAX && (packet = sim_queue_pop(&node->datagrams)); i++) {
		address_of(packet->from, &port->from[i]);
		events[i] = (struct ripc__event){.kind = RIPC_EV_DATAGRAM, .data = packet->bytes,
			.len = packet->len, .handle = packet, .from = &port->from[i]};
		node->world->n_held++;
	}
	return (int)i;
}

static void net_release(void *port, void *handle)
{
	struct sim_packet *packet = handle;

	(void)port;
	packet->world->n_held--;
	free(packet);
}

static int net_wait_fd(void *port)
{
	(void)port;
	return -ENOTSUP;
}

static uint32_t net_overflows(void *at)
{
	struct sim_node *node = ((struct port *)at)->node;
	uint32_t n = node->overflows;

	node->overflows = 0;
	return n;
}

/* ---- native reads ------------------------------------------------------------------------ */

static void done(struct sim_node *node, uint64_t cookie, int status, bool fenced)
{
	node->done = realloc(node->done, (node->n_done + 1) * sizeof(*node->done));
	if (!node->done)
		abort();
	node->done[node->n_done++] = (struct sim_done){cookie, status, fenced};
	sim_node_wake(node, node->world->now_us);
}

static int native_mem_open(void *dev, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	struct sim_node *node = ((struct device *)dev)->node;
	struct sim_region *region;
	uint32_t i = 0;

	(void)peer;
	if (writable)
		return -ENOTSUP;
	while (i < node->n_regions && node->regions[i].open)
		i++;
	if (i == node->n_regions) {
		node->regions = realloc(node->regions, (i + 1) * sizeof(*node->regions));
		if (!node->regions)
			abort();
		node->n_regions++;
	}
	region = &node->regions[i];
	*region = (struct sim_region){.mem = mem, .len = len, .open = true};
	region->address = sim_next(&node->world->random) >> 16;
	region->key = sim_next(&node->world->random);
	*key = (struct ripc__key){.address = region->address, .key = region->key};
	return 0;
}

static struct sim_region *region_of(const struct sim_node *node, const struct ripc__key *key)
{
	for (uint32_t i = 0; i < node->n_regions; i++)
		if (node->regions[i].open && node->regions[i].key == key->key)
			return &node->regions[i];
	return NULL;
}

struct fence {
	struct sim_node *node;
	struct ripc__key key;
	uint32_t generation;
};

static void fenced(struct sim_world *world, void *arg, uint64_t cookie)
{
	struct fence *fence = arg;
	struct sim_node *node = fence->node;
	struct sim_region *region = region_of(node, &fence->key);

	(void)world;
	if (node->generation == fence->generation && node->up && region) {
		region->open = false;
		done(node, cookie, 0, true);
	}
	free(fence);
}

static int native_mem_close(void *dev, const struct ripc__key *key, uint64_t cookie)
{
	struct sim_node *node = ((struct device *)dev)->node;
	struct sim_region *region = region_of(node, key);
	struct fence *fence;

	if (!region)
		return -EINVAL;
	if (sim_chance(&node->world->random, 500000)) {
		region->open = false;
		return 0;
	}
	fence = malloc(sizeof(*fence));
	if (!fence)
		abort();
	*fence = (struct fence){.node = node, .key = *key, .generation = node->generation};
	sim_at(node->world, node->world->now_us + sim_log(&node->world->random, 5, FENCE_MOST_US),
			fenced, fence, cookie);
	return -EINPROGRESS;
}

static int read_now(struct sim_world *world, const struct read *read)
{
	struct sim_node *to = sim_node_at(world, read->to);
	struct sim_region *region = to ? region_of(to, &read->key) : NULL;
	uint64_t at;

	if (!to || world->cut[read->node->slot][to->slot])
		return -EHOSTUNREACH;
	if (!region || read->key.address < region->address)
		return -EACCES;
	at = read->key.address - region->address + read->offset;
	if (at > region->len || read->len > region->len - at)
		return -EACCES;
	memcpy(read->mem, region->mem + at, read->len);
	return 0;
}

/* value: an error that was decided before, or 0. */
static void read_ends(struct sim_world *world, void *arg, uint64_t value)
{
	struct read *read = arg;
	int status = -(int)value;

	if (read->node->generation == read->generation && read->node->up && !read->node->cut) {
		if (status == 0)
			status = read_now(world, read);
		if (status == -EHOSTUNREACH && value == 0) {
			sim_at(world, world->now_us + READ_FAILED_US, read_ends, read, -status);
			return;
		}
		done(read->node, read->cookie, status, false);
	}
	free(read);
}

static int native_read(void *at, void *peer, const struct ripc__key *key, uint64_t offset,
		void *mem, size_t len, uint64_t cookie)
{
	struct sim_node *node = ((struct port *)at)->node;
	struct sim_world *world = node->world;
	struct sim_node *to = sim_node_at(world, ((struct peer *)peer)->address);
	struct read *read;
	uint64_t after_us;

	if (node->cut)
		return -ENETDOWN;
	if (sim_chance(&world->random, world->plan.send_full))
		return -EAGAIN;
	read = malloc(sizeof(*read));
	if (!read)
		abort();
	*read = (struct read){.node = node, .generation = node->generation, .key = *key,
		.to = ((struct peer *)peer)->address, .cookie = cookie, .offset = offset,
		.mem = mem, .len = len};
	after_us = 2ull * world->plan.delay_us[node->slot][to ? to->slot : 0] + len / 1000 +
		sim_below(&world->random, world->plan.jitter_us + 1);
	sim_at(world, world->now_us + after_us, read_ends, read, 0);
	return 0;
}

#define DATAGRAM_SLOTS                                                            \
	.name = "sim", .id = BACKEND_ID, .dev_size = sizeof(struct device),       \
	.port_size = sizeof(struct port), .peer_size = sizeof(struct peer),       \
	.probe = net_probe, .dev_close = net_dev_close,                           \
	.port_open = net_port_open, .port_close = net_port_close,                 \
	.port_addr = net_port_addr, .addr_choose = net_addr_choose,               \
	.addr_text = net_addr_text, .peer_open = net_peer_open,                   \
	.peer_close = net_peer_close, .peer_mtu = net_peer_mtu,                   \
	.peer_matches = net_peer_matches, .send = net_send, .poll = net_poll,     \
	.release = net_release, .wait_fd = net_wait_fd, .overflows = net_overflows

const struct ripc__backend sim_backend = {DATAGRAM_SLOTS, .dev_open = net_dev_open};

const struct ripc__backend sim_native_backend = {
	DATAGRAM_SLOTS,
	.dev_open = native_dev_open,
	.mem_open = native_mem_open,
	.mem_close = native_mem_close,
	.read = native_read,
};
