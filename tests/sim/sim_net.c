/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated network as a backend, in two forms: datagrams only, to one or to many, and with
 * native reads and writes. An address is 8 bytes, host << 16 | port. Native reads and writes are
 * reliable, as InfiniBand's are: they end, after a while, well or with an error, and they look at
 * the memory when they end, so that memory which is given back too early is seen. A write that
 * has failed may have been done, or in part, and may still land later, as long as its range is
 * open. Some of what is written is altered on the way.
 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/bytes.h"

#define BACKEND_ID     15
#define OVERHEAD       768
#define WRITE_FAILS    150000 /* of a million writes */
#define FENCE_MOST_US  9000   /* less than a tick, by which completions may be late */

struct port {
	struct sim_node *node;
	struct ripc__addr from[RIPC_EVENTS_MAX];
};

struct peer {
	uint64_t address; /* or: */
	uint64_t many;    /* the number of all that it leads to; 0: to one */
};

/* A read or a write under way. */
struct transfer {
	struct sim_node *node;
	uint32_t generation;
	uint64_t to, cookie, offset;
	struct ripc__key key;
	uint8_t *mem;
	size_t len;
};

/* The part of a failed write that is left in the network. */
struct straggler {
	uint64_t to, offset;
	struct ripc__key key;
	size_t len;
	uint8_t bytes[];
};

static int net_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	snprintf(why, 256, "simulated");
	remedy[0] = '\0';
	return 0;
}

static int open_port(void *at, const struct ripc__host *host, struct ripc__attr *attr,
		uint32_t caps)
{
	struct port *port = at;
	const struct sim_plan *plan;

	port->node = host->env;
	port->node->up = true;
	memset(port->node->heard, 0, sizeof(port->node->heard));
	plan = &port->node->world->plan;
	*attr = (struct ripc__attr){.caps = caps, .fd = -1,
		.receive_buffer = plan->receive_buffer, .datagram_overhead = OVERHEAD};
	return 0;
}

static int net_open(void *at, const struct ripc__host *host, struct ripc__attr *attr)
{
	return open_port(at, host, attr, 0);
}

static int native_open(void *at, const struct ripc__host *host, struct ripc__attr *attr)
{
	const struct sim_node *node = host->env;

	return open_port(at, host, attr, RIPC_CAP_READ | RIPC_CAP_WRITE |
		(node->world->plan.intact ? RIPC_CAP_INTACT : 0));
}

static void net_close(void *at)
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

/* As of UDP: the port is in the record, the host is where the answer came from (own: loopback). */
static int net_addr_choose(void *at, const uint8_t *blob, size_t len, const uint8_t host[16],
		struct ripc__addr *addr)
{
	const struct sim_node *node = ((struct port *)at)->node;
	uint64_t number = (uint64_t)host[14] << 8 | host[15];

	if (len != 8)
		return -EINVAL;
	if (host[12] != 10)
		number = node->address >> 16;
	address_of(number << 16 | (get64(blob) & 0xffff), addr);
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

static void net_where(void *port, const void *peer, struct ripc__where *where)
{
	(void)port;
	*where = (struct ripc__where){0};
	address_of(((const struct peer *)peer)->address, &where->addr);
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
		if (((struct peer *)to)->many)
			sim_transmit_many(node, ((struct peer *)to)->many, tx[i].iov, tx[i].n_iov);
		else
			sim_transmit(node, ((struct peer *)to)->address, false, tx[i].iov,
				tx[i].n_iov);
	}
	return (int)taken;
}

/* Core looks at what a hint quotes before it polls again. */
static struct ripc__event hint_event(struct sim_node *node, struct sim_packet *packet,
		const struct ripc__addr *from)
{
	free(node->hinted);
	node->hinted = packet;
	return (struct ripc__event){.kind = RIPC_EV_HINT, .data = packet->bytes,
		.len = packet->len, .from = from};
}

static int net_poll(void *at, struct ripc__event *events, uint32_t n, bool all)
{
	struct port *port = at;
	struct sim_node *node = port->node;
	struct sim_packet *packet;
	uint32_t i = 0;

	(void)all;
	for (; i < n && i < node->n_done; i++)
		events[i] = (struct ripc__event){.kind = node->done[i].kind,
			.status = node->done[i].status, .cookie = node->done[i].cookie};
	node->n_done -= i;
	if (node->n_done > 0)
		memmove(node->done, node->done + i, node->n_done * sizeof(*node->done));
	for (; i < n && i < RIPC_EVENTS_MAX && (packet = sim_queue_pop(&node->datagrams)); i++) {
		address_of(packet->from, &port->from[i]);
		if (packet->hint) {
			events[i] = hint_event(node, packet, &port->from[i]);
			i++;
			break; /* one at a time: the next one would free it */
		}
		events[i] = (struct ripc__event){.kind = packet->many ? RIPC_EV_MULTICAST :
			RIPC_EV_DATAGRAM, .data = packet->bytes, .len = packet->len,
			.handle = packet, .from = &port->from[i]};
		node->world->n_held++;
		node->world->counts.heard += packet->many != 0;
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

static void net_stats(void *at, struct ripc__net_stats *stats)
{
	struct sim_node *node = ((struct port *)at)->node;

	*stats = (struct ripc__net_stats){.overflows = node->overflows};
	node->overflows = 0;
}

/* ---- datagrams to many ------------------------------------------------------------------- */

/* Is the partner where a datagram to many could go, as far as this node can tell? */
static int way_to(const struct sim_node *node, const struct peer *partner)
{
	struct sim_world *world = node->world;

	if (partner->address >> 16 == node->address >> 16)
		return -EHOSTUNREACH;
	return world->faults && sim_chance(&world->random, world->plan.many_fails) ? -ENOBUFS : 0;
}

static int net_many_open(void *at, void *route, const void *partner, uint64_t number)
{
	int error = way_to(((struct port *)at)->node, partner);

	if (!error)
		*(struct peer *)route = (struct peer){.many = number};
	return error;
}

static int net_many_hear(void *at, const void *partner, uint64_t number)
{
	struct sim_node *node = ((struct port *)at)->node;
	int error = way_to(node, partner);
	uint32_t i = 0;

	if (error || sim_hears(node, number))
		return error;
	while (i < SIM_HEARD_MAX && node->heard[i])
		i++;
	if (i == SIM_HEARD_MAX)
		return -ENOBUFS;
	node->heard[i] = number;
	return 0;
}

static void net_many_ignore(void *at, uint64_t number)
{
	struct sim_node *node = ((struct port *)at)->node;

	for (uint32_t i = 0; i < SIM_HEARD_MAX; i++)
		if (node->heard[i] == number)
			node->heard[i] = 0;
}

/* ---- native reads and writes ------------------------------------------------------------- */

static void done(struct sim_node *node, uint64_t cookie, int status, enum ripc__event_kind kind)
{
	node->done = realloc(node->done, (node->n_done + 1) * sizeof(*node->done));
	if (!node->done)
		abort();
	node->done[node->n_done++] = (struct sim_done){cookie, status, kind};
	sim_node_wake(node, node->world->now_us);
}

static int native_mem_open(void *at, void *peer, void *mem, size_t len, bool writable,
		struct ripc__key *key)
{
	struct sim_node *node = ((struct port *)at)->node;
	struct sim_region *region;
	uint32_t i = 0;

	(void)peer;
	while (i < node->n_regions && node->regions[i].open)
		i++;
	if (i == node->n_regions) {
		node->regions = realloc(node->regions, (i + 1) * sizeof(*node->regions));
		if (!node->regions)
			abort();
		node->n_regions++;
	}
	region = &node->regions[i];
	*region = (struct sim_region){.mem = mem, .len = len, .open = true,
		.writable = writable};
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
		done(node, cookie, 0, RIPC_EV_FENCED);
	}
	free(fence);
}

static int native_mem_close(void *at, const struct ripc__key *key, enum ripc__closing how,
		uint64_t cookie)
{
	struct sim_node *node = ((struct port *)at)->node;
	struct sim_region *region = region_of(node, key);
	struct fence *fence;

	(void)how;
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

/* Where the bytes of a transfer lie at its target. */
static int reach(struct sim_world *world, uint64_t address, const struct ripc__key *key,
		uint64_t offset, size_t len, bool writable, uint8_t **mem)
{
	struct sim_node *to = sim_node_at(world, address);
	struct sim_region *region = to ? region_of(to, key) : NULL;
	uint64_t at;

	if (!region || region->writable != writable || key->address < region->address)
		return -EACCES;
	at = key->address - region->address + offset;
	if (at > region->len || len > region->len - at)
		return -EACCES;
	*mem = region->mem + at;
	return 0;
}

/* Does nothing lie between the two ends? */
static int connected(struct sim_world *world, const struct transfer *transfer)
{
	struct sim_node *to = sim_node_at(world, transfer->to);

	return to && !world->cut[transfer->node->slot][to->slot] ? 0 : -EHOSTUNREACH;
}

static bool is_alive(const struct transfer *transfer)
{
	const struct sim_node *node = transfer->node;

	return node->generation == transfer->generation && node->up && !node->cut;
}

/* value: an error that was decided before, or 0. */
static void read_ends(struct sim_world *world, void *arg, uint64_t value)
{
	struct transfer *read = arg;
	uint8_t *from = NULL;
	int status = -(int)value;

	if (is_alive(read)) {
		if (status == 0)
			status = connected(world, read);
		if (status == 0)
			status = reach(world, read->to, &read->key, read->offset, read->len, false,
				&from);
		if (status == -EHOSTUNREACH && value == 0) {
			sim_at(world, world->now_us + SIM_FAILED_US, read_ends, read, -status);
			return;
		}
		if (status == 0)
			memcpy(read->mem, from, read->len);
		done(read->node, read->cookie, status, RIPC_EV_READ);
	}
	free(read);
}

static void straggle(struct sim_world *world, void *arg, uint64_t value)
{
	struct straggler *late = arg;
	uint8_t *to;

	(void)value;
	if (reach(world, late->to, &late->key, late->offset, late->len, true, &to) == 0) {
		memcpy(to, late->bytes, late->len);
		world->counts.late_writes++;
	}
	free(late);
}

/* A write has failed, but what was sent of it may be under way for some time. */
static void leave_behind(struct sim_world *world, const struct transfer *write)
{
	struct straggler *late = malloc(sizeof(*late) + write->len);

	if (!late)
		abort();
	*late = (struct straggler){.to = write->to, .offset = write->offset, .key = write->key,
		.len = write->len};
	memcpy(late->bytes, write->mem, write->len);
	sim_at(world, world->now_us + sim_log(&world->random, 10, 30000), straggle, late, 0);
}

/* value: how it ends, an errno. */
static void write_ends(struct sim_world *world, void *arg, uint64_t value)
{
	struct transfer *write = arg;

	(void)world;
	if (is_alive(write))
		done(write->node, write->cookie, -(int)value, RIPC_EV_WRITE);
	free(write);
}

static void write_lands(struct sim_world *world, void *arg, uint64_t value)
{
	struct transfer *write = arg;
	struct sim_random *random = &world->random;
	uint64_t back_us = value;
	uint8_t *to;
	int status = is_alive(write) ? connected(world, write) : -EHOSTUNREACH;

	if (status == 0)
		status = reach(world, write->to, &write->key, write->offset, write->len, true, &to);
	if (status == 0) {
		memcpy(to, write->mem, write->len);
		world->counts.writes++;
		if (world->faults && sim_chance(random, world->plan.corrupt / 4))
			to[sim_below(random, write->len)] ^= (uint8_t)(1 << sim_below(random, 8));
	}
	if (status == 0 && world->faults && sim_chance(random, WRITE_FAILS))
		status = -EHOSTUNREACH;
	if (status == -EHOSTUNREACH && is_alive(write)) {
		leave_behind(world, write);
		back_us = sim_log(random, 100, SIM_FAILED_US);
	}
	sim_at(world, world->now_us + back_us, write_ends, write, (uint64_t)-status);
}

static int native_move(void *at, void *peer, const struct ripc__move *move)
{
	struct sim_node *node = ((struct port *)at)->node;
	struct sim_world *world = node->world;
	struct sim_node *to = sim_node_at(world, ((struct peer *)peer)->address);
	struct transfer *made;
	uint64_t way_us, takes_us;

	if (node->cut)
		return -ENETDOWN;
	if (sim_chance(&world->random, world->plan.send_full))
		return -EAGAIN;
	made = malloc(sizeof(*made));
	if (!made)
		abort();
	*made = (struct transfer){.node = node, .generation = node->generation,
		.to = ((struct peer *)peer)->address, .key = move->key, .cookie = move->cookie,
		.offset = move->offset, .mem = move->mem, .len = move->len};
	way_us = world->plan.delay_us[node->slot][to ? to->slot : 0];
	takes_us = move->len / 1000 + sim_below(&world->random, world->plan.jitter_us + 1);
	if (move->writes)
		sim_at(world, world->now_us + way_us + takes_us, write_lands, made, way_us);
	else
		sim_at(world, world->now_us + 2 * way_us + takes_us, read_ends, made, 0);
	return 0;
}

#define DATAGRAM_SLOTS(named, number)                                             \
	.name = named, .id = number, .port_size = sizeof(struct port),            \
	.route_size = sizeof(struct peer), .net.probe = net_probe,                \
	.net.close = net_close, .net.address = net_port_addr, .net.stats = net_stats, \
	.route = {.choose = net_addr_choose, .text = net_addr_text,               \
		.open = net_peer_open, .close = net_peer_close, .where = net_where, \
		.mtu = net_peer_mtu, .matches = net_peer_matches},                \
	.datagrams = {.send = net_send, .poll = net_poll, .release = net_release}

const struct ripc__backend sim_backend = {
	DATAGRAM_SLOTS("sim", BACKEND_ID),
	.is_sealable = true,
	.net.open = net_open,
	.multicast = {.open = net_many_open, .hear = net_many_hear, .ignore = net_many_ignore},
};

/* With keys it must not be opened, as it cannot be sealed. */
static int net_open_in_the_open(void *at, const struct ripc__host *host, struct ripc__attr *attr)
{
	const struct sim_node *node = host->env;

	model_fail(node->world->model, "a context with keys has opened a network without seals");
	return net_open(at, host, attr);
}

const struct ripc__backend sim_open_backend = {
	DATAGRAM_SLOTS("open", BACKEND_ID + 1),
	.net.open = net_open_in_the_open,
};

const struct ripc__backend sim_native_backend = {
	DATAGRAM_SLOTS("sim", BACKEND_ID),
	.net.open = native_open,
	.mem = {.open = native_mem_open, .close = native_mem_close},
	.remote = {.move = native_move},
};
