/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A claimant of the identities of others, from an address of its own: it knows IDs, incarnations,
 * contexts and addresses, as every attacker may, and packets to its address, nothing else. It
 * proves that address, says hello in the name of a service, receives messages, and acknowledges
 * them. Often it claims to each of two to be the other, and gives each the token that the other one
 * gave.
 */
#include "app.h"

#include <string.h>

#include "core/wire/wire.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

#define HOST      0x7f00ull
#define FORGED_LEN 16

static void say(struct sim_world *world, struct sim_claim *claim, struct wire_packet *packet)
{
	uint8_t bytes[WIRE_HEADER_MAX + 64 + FORGED_LEN], payload[FORGED_LEN] = {0};
	struct iovec iov[2] = {{.iov_base = bytes}, {.iov_base = payload}};

	packet->h.version = WIRE_VERSION;
	packet->h.src = claim->src;
	packet->h.dst = claim->dst;
	packet->h.token = claim->token_out;
	if (!claim->token_out || packet->h.flags & WIRE_F_HELLO) {
		packet->h.flags |= WIRE_F_HELLO;
		packet->hello = (struct wire_hello){.token = claim->token_in, .service = claim->id,
			.context = claim->context, .to_service = claim->to_id,
			.proof = claim->proof, .unasked = 65536};
	}
	put64(payload, MODEL_FORGED);
	iov[1].iov_len = packet->payload_len;
	iov[0].iov_len = wire_encode(bytes, packet, NULL, NULL);
	wire_checksum(bytes, iov[0].iov_len, ripc__crc32c(0, payload, packet->payload_len));
	sim_transmit(&world->claimant.node, claim->to, false, iov, 2);
}

static void say_word(struct sim_world *world, struct sim_claim *claim)
{
	struct wire_packet word = {.h = {.type = WIRE_SHORT, .number = ++claim->number},
		.n_items = 1, .payload_len = FORGED_LEN};

	say(world, claim, &word);
}

static struct sim_claim *claim_of(struct sim_claimant *claimant, const struct wire_packet *packet)
{
	for (uint32_t i = 0; i < SIM_CLAIMS; i++) {
		struct sim_claim *claim = &claimant->claims[i];

		if (claim->src && claim->src == packet->h.dst && claim->dst == packet->h.src &&
				claim->token_in == packet->h.token)
			return claim;
	}
	return NULL;
}

static void reflect(struct sim_world *world, const struct sim_claim *claim)
{
	struct wire_packet hello = {.h = {.type = WIRE_HELLO_ONLY, .flags = WIRE_F_HELLO}};
	struct sim_claim *other = claim->reflected;

	if (!other || other->src != claim->dst || other->dst != claim->src ||
			other->token_in == claim->token_out)
		return;
	other->token_in = claim->token_out;
	say(world, other, &hello);
}

void sim_claimant_input(struct sim_world *world, const struct sim_packet *packet)
{
	struct wire_packet got, answer = {0};
	struct sim_claim *claim;

	if (packet->resolver || wire_decode(packet->bytes, packet->len, &got) != 0)
		return;
	claim = claim_of(&world->claimant, &got);
	if (!claim)
		return;
	if (got.h.flags & WIRE_F_HELLO) {
		claim->token_out = got.hello.token;
		reflect(world, claim);
	}
	if (got.h.type == WIRE_RETRY) {
		claim->proof = got.value;
		claim->token_out = 0;
	}
	if (got.h.type == WIRE_ANNOUNCE) {
		answer.h.type = WIRE_ANSWER;
		answer.h.number = answer.ack.number = got.h.number;
		say(world, claim, &answer);
	} else if (got.h.type == WIRE_ECHO) {
		answer.h.type = WIRE_ECHO_REPLY;
		answer.value = got.value;
		answer.stamp = got.stamp;
		say(world, claim, &answer);
	} else if (got.h.type == WIRE_RETRY || got.h.type == WIRE_HELLO_ONLY) {
		say_word(world, claim);
	}
}

static struct sim_claim *claim_new(struct sim_app *app, const struct sim_service *as,
		const struct sim_service *to)
{
	struct sim_claimant *claimant = &app->world->claimant;
	struct sim_claim *claim = &claimant->claims[claimant->n++ % SIM_CLAIMS];

	*claim = (struct sim_claim){.to = sim_home(app, to)->address, .src = as->incarnation,
		.id = as->id, .context = sim_home(app, as)->context, .dst = to->incarnation,
		.to_id = to->id, .token_in = sim_next(&claimant->random) | 1};
	return claim;
}

/* Claims to be one of them before another, at any moment, again and again. */
static void act(struct sim_world *world, void *arg, uint64_t value)
{
	struct sim_app *app = arg;
	struct sim_claimant *claimant = &world->claimant;
	struct sim_random *random = &claimant->random;
	const struct sim_service *as = &app->services[sim_below(random, app->n_services)];
	const struct sim_service *to = &app->services[sim_below(random, app->n_services)];

	if (app->calm)
		return;
	if (as != to && as->svc && to->svc) {
		struct sim_claim *claim = claim_new(app, as, to);

		if (sim_below(random, 2)) {
			claim->reflected = claim_new(app, to, as);
			claim->reflected->reflected = claim;
		}
		say(world, claim, &(struct wire_packet){.h.type = WIRE_HELLO_ONLY});
	}
	sim_at(world, world->now_us + sim_log(random, 1000, 200000), act, app, value);
}

void sim_claimant_begin(struct sim_app *app)
{
	struct sim_world *world = app->world;

	if (!world->plan.claims)
		return;
	world->claimant.node = (struct sim_node){.world = world, .slot = SIM_NODES - 1,
		.address = HOST << 16 | 1};
	sim_random_seed(&world->claimant.random, world->seed);
	sim_at(world, world->now_us, act, app, 0);
}
