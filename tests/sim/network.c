/* SPDX-License-Identifier: BSD-3-Clause */
/* The network: what becomes of a packet between two nodes. */
#include "world.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/record.h"
#include "core/wire/wire.h"

#define MOVED_US          2500000 /* partners follow a new address within this */
#define DATAGRAM_OVERHEAD 768 /* overhead of a kernel's buffer beside the bytes */
#define FAT_BYTES 1000 /* length above that of an announcement of a swift message (app.c) */

struct sim_packet *sim_queue_pop(struct sim_queue *queue)
{
	struct sim_packet *packet = queue->first;

	if (!packet)
		return NULL;
	queue->first = packet->next;
	if (!queue->first)
		queue->last = &queue->first;
	queue->bytes -= packet->len + DATAGRAM_OVERHEAD;
	return packet;
}

void sim_queue_clear(struct sim_queue *queue)
{
	struct sim_packet *packet;

	while ((packet = sim_queue_pop(queue)))
		free(packet);
}

void sim_partition(struct sim_world *world, uint32_t a, uint32_t b, bool cut)
{
	if (world->cut[a][b] == cut)
		return;
	world->cut[a][b] = world->cut[b][a] = cut;
	if (cut || (world->now_us >= world->moved_until[a] &&
			world->now_us >= world->moved_until[b]))
		model_cut(world->model, world->now_us, a, b, cut);
}

/* Sends to the node, or from it, may fail meanwhile: as if the node were cut off. */
static void settle(struct sim_world *world, void *arg, uint64_t slot)
{
	(void)arg;
	if (world->now_us < world->moved_until[slot])
		return; /* the host has moved again */
	for (uint32_t i = 0; i < world->plan.n_nodes; i++)
		if (!world->cut[i][slot] && world->now_us >= world->moved_until[i])
			model_cut(world->model, world->now_us, i, (uint32_t)slot, false);
}

void sim_moved(struct sim_world *world, uint32_t slot)
{
	/* In a pause nobody sends to the node, and so nobody notices. */
	uint64_t noticed_us = world->now_us < world->paused_until_us ? world->paused_until_us :
		world->now_us;

	world->moved_until[slot] = noticed_us + MOVED_US;
	for (uint32_t i = 0; i < world->plan.n_nodes; i++)
		model_cut(world->model, world->now_us, i, slot, true);
	model_moved(world->model, slot);
	sim_at(world, world->moved_until[slot], settle, NULL, slot);
}

/* With --verbose: what becomes of a packet, for people. */
static void show(struct sim_world *world, const struct sim_packet *packet, uint64_t to,
		const char *what)
{
	static const char *const types[WIRE_TYPE_END] = {"0", "SHORT", "ANNOUNCE", "DATA", "PULL",
		"ANSWER", "CANCEL", "HELLO", "RETRY", "ECHO", "ECHO_REPLY", "GONE", "ABORT",
		"STREAM", "HEARD"};
	struct wire_header h;
	struct wire_resolve r;

	_Static_assert(WIRE_TYPE_END == 15, "a new type needs a name here");
	if (!world->verbose)
		return;
	printf("%" PRIu64 "   %" PRIx64 " > %" PRIx64 " %s", world->now_us, packet->from, to, what);
	if (packet->resolver && wire_resolve_decode(packet->bytes, packet->len, &r) == 0)
		printf(" resolver %u id %" PRIu64 " incarnation %" PRIx64 "\n", r.type, r.record.id,
				r.record.incarnation);
	else if (!packet->resolver && wire_decode_header(packet->bytes, packet->len, &h) == 0)
		printf(" %s flags %x src %" PRIx64 " dst %" PRIx64 " token %" PRIx64 " number %"
				PRIu64 " len %u\n", h.type < WIRE_TYPE_END ? types[h.type] : "?",
				h.flags, h.src, h.dst, h.token, h.number, packet->len);
	else
		printf(" ? len %u\n", packet->len);
}

static void arrive(struct sim_world *world, void *arg, uint64_t value);

/* Nobody listens at an address: the host that is there now, or a router, says so to the sender. */
static void come_back(struct sim_world *world, struct sim_packet *packet, uint64_t address)
{
	const struct sim_node *sender = &world->nodes[packet->from_slot];
	uint64_t to = sender->address;

	packet->hint = true;
	packet->from = address;
	sim_at(world, world->now_us + sim_log(&world->random, 20, 5000), arrive, packet, to);
}

static bool comes_back(struct sim_world *world, const struct sim_packet *packet)
{
	return world->addresses && !packet->hint && !packet->resolver && !packet->many &&
		sim_chance(&world->random, 500000);
}

/* A node reaches itself, as by the loopback, at each address that it has had. */
static struct sim_node *receiver(struct sim_world *world, const struct sim_packet *packet,
		uint64_t address)
{
	struct sim_node *own = &world->nodes[packet->from_slot];

	return world->plan.n_rehomes && own->up && !own->cut &&
		(address ^ own->address) % SIM_REHOMED == 0 ? own : sim_node_at(world, address);
}

/* A packet reaches the address in value. */
static void arrive(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_packet *packet = arg;
	struct sim_node *node = receiver(world, packet, value);
	struct sim_queue *queue;

	if (world->claimant.node.address && value == world->claimant.node.address)
		sim_claimant_input(world, packet);
	if (!node && comes_back(world, packet)) {
		come_back(world, packet, value);
		return;
	}
	if (!node || world->cut[packet->from_slot][node->slot] ||
			(packet->many && !sim_hears(node, packet->many))) {
		world->counts.cut++;
		free(packet);
		return;
	}
	show(world, packet, value, "arrives");
	queue = packet->resolver ? &node->questions : &node->datagrams;
	if (world->plan.receive_buffer && queue->bytes + packet->len + DATAGRAM_OVERHEAD >
			world->plan.receive_buffer) {
		world->counts.overflowed++;
		node->overflows += !packet->resolver;
		free(packet);
		return;
	}
	packet->next = NULL;
	*queue->last = packet;
	queue->last = &packet->next;
	queue->bytes += packet->len + DATAGRAM_OVERHEAD;
	sim_node_wake(node, world->now_us + sim_below(&world->random,
			world->plan.poll_delay_us + 1));
}

static struct sim_packet *copy_of(const struct sim_packet *packet)
{
	struct sim_packet *copy = malloc(sizeof(*copy) + packet->len + 8);

	if (!copy)
		abort();
	memcpy(copy, packet, sizeof(*copy) + packet->len);
	return copy;
}

/* Flips bits anywhere or in the header, overwrites some bytes, cuts off, or adds bytes. */
static void corrupt(struct sim_random *random, struct sim_packet *packet)
{
	uint32_t within = packet->len < 48 || sim_chance(random, 500000) ? packet->len : 48;
	uint64_t kind = sim_below(random, 8);

	if (packet->len == 0)
		return;
	if (kind == 0) {
		packet->len = (uint32_t)sim_below(random, packet->len);
	} else if (kind == 1) {
		memset(packet->bytes + packet->len, (int)sim_below(random, 256), 8);
		packet->len += (uint32_t)sim_between(random, 1, 8);
	} else if (kind == 2 && within >= 4) {
		uint32_t word = (uint32_t)sim_next(random) | 1;
		uint8_t *at = packet->bytes + sim_below(random, within - 3);

		for (int i = 0; i < 4; i++)
			at[i] ^= (uint8_t)(word >> 8 * i);
	} else {
		uint64_t bit = sim_below(random, 8ull * within);

		packet->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static uint64_t delay(struct sim_world *world, const struct sim_packet *packet, uint64_t to)
{
	struct sim_node *node = sim_node_at(world, to);
	uint64_t us = node ? world->plan.delay_us[packet->from_slot][node->slot] : 100;

	us += sim_below(&world->random, world->plan.jitter_us + 1);
	if (world->faults && sim_chance(&world->random, world->plan.reorder))
		us += sim_below(&world->random, world->plan.reorder_us + 1);
	return us;
}

static void under_way(struct sim_world *world, struct sim_packet *packet, uint64_t to,
		uint64_t more_us)
{
	sim_at(world, world->now_us + delay(world, packet, to) + more_us, arrive, packet, to);
}

/* First packets need no token, so they are what one would replay. */
static bool is_first(const struct sim_packet *packet)
{
	struct wire_header h;

	return !packet->resolver && wire_decode_header(packet->bytes, packet->len, &h) == 0 &&
		h.token == 0;
}

/* Unicast packets come again as if multicast, or the other way round: by forgery. */
static void cross(struct sim_world *world, const struct sim_packet *packet, uint64_t to)
{
	struct sim_packet *copy = copy_of(packet);
	const struct sim_node *node = sim_node_at(world, to);

	copy->many = !packet->many && node ? node->heard[0] : 0;
	world->counts.forged++;
	under_way(world, copy, to, sim_below(&world->random, 200000));
}

/* Copies of a packet that travel beside it: later ones, much later ones, forged ones. */
static void multiply(struct sim_world *world, const struct sim_packet *packet, uint64_t to)
{
	struct sim_random *random = &world->random;

	if (sim_chance(random, world->plan.duplicate)) {
		world->counts.duplicated++;
		show(world, packet, to, "doubled");
		under_way(world, copy_of(packet), to, sim_log(random, 1, 30000));
	}
	if (sim_chance(random, is_first(packet) ? 10 * world->plan.late : world->plan.late)) {
		uint64_t after_us = is_first(packet) ?
			sim_between(random, 1000000, world->plan.late_us) :
			sim_log(random, 50000, world->plan.late_us);

		world->counts.late++;
		show(world, packet, to, "kept");
		under_way(world, copy_of(packet), to, after_us);
	}
	if (sim_chance(random, world->keys ? 10 * world->plan.forge : world->plan.forge)) {
		struct sim_packet *copy = copy_of(packet);

		if (world->keys ? sim_keys_forge(random, copy) : sim_forge(random, copy)) {
			world->counts.forged++;
			under_way(world, copy, to, sim_below(random, 200000));
		} else {
			free(copy);
		}
	}
	if (world->groups && !packet->resolver && sim_chance(random, world->plan.forge / 4))
		cross(world, packet, to);
}

static void trace_packet(struct sim_world *world, const struct sim_packet *packet, uint64_t to)
{
	uint64_t head[4] = {htole64(world->now_us), htole64(packet->from), htole64(to),
		htole64((uint64_t)packet->len << 1 | packet->resolver)};

	sha256_update(&world->trace, head, sizeof(head));
	sha256_update(&world->trace, packet->bytes, packet->len);
	world->counts.packets++;
	world->counts.bytes += packet->len;
}

/* In a world of flows: is it lost for what it is? An encrypted packet does not show that. */
static bool is_ill_fated(struct sim_world *world, const struct sim_packet *packet)
{
	const struct sim_plan *plan = &world->plan;
	struct wire_header h;

	if (!plan->n_flows || packet->resolver || world->keys ||
			wire_decode_header(packet->bytes, packet->len, &h) != 0)
		return false;
	return (h.type == WIRE_DATA && sim_chance(&world->random, plan->data_loss)) ||
		(h.type == WIRE_ANNOUNCE && packet->len > FAT_BYTES &&
			sim_chance(&world->random, plan->data_loss / 3)) ||
		(h.type == WIRE_CANCEL && sim_chance(&world->random, plan->cancel_loss));
}

/* Does it get lost at once? */
static bool swallowed(struct sim_world *world, const struct sim_packet *packet, uint64_t to)
{
	if (world->plan.hole_bytes && !packet->resolver && packet->len > world->plan.hole_bytes) {
		world->counts.holes++;
		return true;
	}
	if (world->faults && (is_ill_fated(world, packet) ||
			sim_chance(&world->random, world->plan.loss) ||
			(packet->many && sim_chance(&world->random, world->plan.many_loss)))) {
		world->counts.lost++;
		show(world, packet, to, "lost");
		return true;
	}
	return false;
}

static struct sim_packet *packet_of(const struct sim_node *from, const struct iovec *iov,
		uint32_t n_iov)
{
	struct sim_packet *packet;
	size_t len = 0;

	for (uint32_t i = 0; i < n_iov; i++)
		len += iov[i].iov_len;
	packet = malloc(sizeof(*packet) + len + 8);
	if (!packet)
		abort();
	*packet = (struct sim_packet){.world = from->world, .from = from->address,
		.from_slot = from->slot};
	for (uint32_t i = 0; i < n_iov; i++) {
		if (iov[i].iov_len > 0)
			memcpy(packet->bytes + packet->len, iov[i].iov_base, iov[i].iov_len);
		packet->len += (uint32_t)iov[i].iov_len;
	}
	return packet;
}

static void depart(struct sim_world *world, struct sim_packet *packet, uint64_t to)
{
	trace_packet(world, packet, to);
	show(world, packet, to, "sent");
	if (world->faults)
		multiply(world, packet, to);
	if (swallowed(world, packet, to)) {
		free(packet);
		return;
	}
	/* An altered answer is like one of other keys: what needs it fails with EACCES. */
	if (world->faults && sim_chance(&world->random, world->plan.corrupt) &&
			!(world->has_authority && packet->resolver)) {
		world->counts.corrupted++;
		corrupt(&world->random, packet);
	}
	under_way(world, packet, to, 0);
}

void sim_transmit(struct sim_node *from, uint64_t to, bool resolver, const struct iovec *iov,
		uint32_t n_iov)
{
	struct sim_world *world = from->world;
	struct sim_packet *packet;

	if (from->cut)
		return;
	packet = packet_of(from, iov, n_iov);
	packet->resolver = resolver;
	if (world->keys && from == &world->nodes[from->slot]) /* not a claimant's */
		sim_keys_sent(world, packet, to);
	depart(world, packet, to);
}

bool sim_hears(const struct sim_node *node, uint64_t number)
{
	for (uint32_t i = 0; i < SIM_HEARD_MAX; i++)
		if (node->heard[i] == number)
			return true;
	return false;
}

/* Does what one sends to many reach the other now? */
static bool reaches(const struct sim_node *from, const struct sim_node *to)
{
	const struct sim_plan *plan = &from->world->plan;
	uint64_t now_us = from->world->now_us;

	return to->up && from->address >> 16 != to->address >> 16 &&
		plan->many[from->slot] >> to->slot & 1 && (!from->world->faults ||
		now_us < plan->many_off_us || now_us >= plan->many_on_us);
}

void sim_transmit_many(struct sim_node *from, uint64_t number, const struct iovec *iov,
		uint32_t n_iov)
{
	struct sim_world *world = from->world;

	world->counts.to_many++;
	for (uint32_t i = 0; i < world->plan.n_nodes && !from->cut; i++) {
		struct sim_node *to = &world->nodes[i];
		struct sim_packet *packet;

		if (!reaches(from, to) || !sim_hears(to, number))
			continue;
		packet = packet_of(from, iov, n_iov);
		packet->many = number;
		depart(world, packet, to->address);
	}
}
