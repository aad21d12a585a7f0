/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exact resolver source of the simulation: a store that knows who has which ID. Each node has a
 * session. Requests and answers take their time, in order; connections break and come back, and
 * then nobody knows what became of the requests under way; whoever is away for longer than
 * SESSION_US loses what it had registered. So its events come in every order that there is.
 *
 * It also is the judge: whoever says that it has an ID must have been granted it.
 */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/record.h"
#include "util/bytes.h"

#define ENTRIES    512u  /* IDs, of nodes that live */
#define GRANTS     4096u
#define EVENTS     512u
#define SESSION_US 400000u
#define BREAK_US   3000000u /* at the latest a connection breaks after so long */

struct entry {
	uint64_t id, incarnation, context, address, session;
};

enum wish { WISH_CLAIM, WISH_READ, WISH_LEAVE };

struct claim {
	uint64_t id, incarnation, session; /* session: of its entry; 0: it is to be made */
	bool making, told, refused;
};

/* The knowledge of a node about an ID that it has queried. */
struct known {
	uint64_t id, address;
	bool reading;
	uint32_t len;
	uint8_t question[WIRE_RESOLVE_MAX];
};

struct client {
	struct ripc__host host;
	struct sim_node *node;
	uint64_t session, epoch;    /* epoch: of the connection */
	uint64_t sent_at, heard_at; /* the last request, the last answer arrive then */
	bool away;
	struct claim claims[ENTRIES];
	struct known known[ENTRIES];
	uint32_t n_claims, n_known, n_events;
	struct ripc__source_event events[EVENTS];
	struct sim_packet *last;
};

struct sim_store {
	struct entry entries[ENTRIES];
	uint32_t n_entries;
	uint64_t granted[GRANTS];
	uint32_t n_granted;
	uint64_t sessions;
	struct client *clients[SIM_NODES]; /* of the nodes that are up */
};

struct request {
	enum wish wish;
	uint32_t slot, generation;
	uint64_t id, incarnation, context, address, session, epoch;
	struct ripc__source_event answer;
	uint64_t holder_address;
};

static struct sim_store *store_of(struct sim_world *world)
{
	if (!world->store)
		world->store = calloc(1, sizeof(*world->store));
	if (!world->store)
		abort();
	return world->store;
}

/* ---- the store --------------------------------------------------------------------------- */

static struct entry *entry_of(struct sim_store *store, uint64_t id)
{
	for (uint32_t i = 0; i < store->n_entries; i++) {
		if (store->entries[i].id == id)
			return &store->entries[i];
	}
	return NULL;
}

static void session_over(struct sim_world *world, void *arg, uint64_t session)
{
	struct sim_store *store = store_of(world);

	(void)arg;
	for (uint32_t i = store->n_entries; i-- > 0;) {
		if (store->entries[i].session == session)
			store->entries[i] = store->entries[--store->n_entries];
	}
}

static struct client *client_of(struct sim_world *world, const struct request *request)
{
	struct client *client = store_of(world)->clients[request->slot];

	return client && client->node->generation == request->generation ? client : NULL;
}

static void event_add(struct client *client, const struct ripc__source_event *event)
{
	if (client->n_events == EVENTS)
		abort();
	client->events[client->n_events++] = *event;
	sim_node_wake(client->node, client->node->world->now_us);
}

static void tell_hint(struct sim_world *world, void *arg, uint64_t value)
{
	struct request *request = arg;
	struct client *client = client_of(world, request);

	(void)value;
	if (client && !client->away)
		event_add(client, &request->answer);
	free(request);
}

/* A node that has queried the ID hears of its new owner, some time. */
static void hint(struct sim_world *world, const struct entry *entry)
{
	struct sim_store *store = store_of(world);

	for (uint32_t slot = 0; slot < SIM_NODES; slot++) {
		struct client *client = store->clients[slot];
		struct request *request;
		bool asked = false;

		for (uint32_t i = 0; client && i < client->n_known; i++)
			asked |= client->known[i].id == entry->id;
		if (!asked)
			continue;
		request = calloc(1, sizeof(*request));
		if (!request)
			abort();
		*request = (struct request){.slot = slot, .generation = client->node->generation,
			.answer = {.kind = RIPC_SOURCE_HINT, .id = entry->id,
				.incarnation = entry->incarnation}};
		sim_at(world, world->now_us + sim_log(&world->random, 50, 20000), tell_hint,
			request, 0);
	}
}

static void do_claim(struct sim_world *world, struct request *request)
{
	struct sim_store *store = store_of(world);
	struct entry *entry = entry_of(store, request->id);

	request->answer = (struct ripc__source_event){.kind = RIPC_SOURCE_PUBLISHED,
		.id = request->id};
	if (entry && entry->incarnation != request->incarnation) {
		request->answer.status = -EADDRINUSE;
		request->answer.incarnation = entry->incarnation;
		request->holder_address = entry->address;
		return;
	}
	if (entry)
		return;
	if (store->n_entries == ENTRIES || store->n_granted == GRANTS)
		abort();
	store->granted[store->n_granted++] = request->incarnation;
	entry = &store->entries[store->n_entries++];
	*entry = (struct entry){request->id, request->incarnation, request->context,
		request->address, request->session};
	hint(world, entry);
}

static void do_read(struct sim_world *world, struct request *request)
{
	const struct entry *entry = entry_of(store_of(world), request->id);

	request->answer = (struct ripc__source_event){.id = request->id,
		.kind = entry ? RIPC_SOURCE_HELD : RIPC_SOURCE_NOBODY,
		.incarnation = entry ? entry->incarnation : 0};
	request->holder_address = entry ? entry->address : 0;
}

static void do_leave(struct sim_world *world, const struct request *request)
{
	struct sim_store *store = store_of(world);
	struct entry *entry = entry_of(store, request->id);

	if (entry && entry->incarnation == request->incarnation)
		*entry = store->entries[--store->n_entries];
}

static void answer_arrives(struct sim_world *world, void *arg, uint64_t value);

static void request_arrives(struct sim_world *world, void *arg, uint64_t value)
{
	struct request *request = arg;
	struct client *client = client_of(world, request);
	bool is_current = client && client->epoch == request->epoch;
	bool arrives = is_current || sim_chance(&world->random, 500000) ||
		request->wish == WISH_LEAVE; /* which is repeated until it has arrived */

	(void)value;
	/* Requests of a session that is over have no effect. */
	if (arrives && (!client || client->session == request->session)) {
		if (request->wish == WISH_CLAIM && client)
			do_claim(world, request);
		else if (request->wish == WISH_READ)
			do_read(world, request);
		else if (request->wish == WISH_LEAVE)
			do_leave(world, request);
	}
	if (!is_current || request->wish == WISH_LEAVE) {
		free(request);
		return;
	}
	client->heard_at = client->heard_at > world->now_us ? client->heard_at : world->now_us;
	client->heard_at += sim_log(&world->random, 20, 4000);
	sim_at(world, client->heard_at, answer_arrives, request, 0);
}

/* ---- a node's end of it ------------------------------------------------------------------ */

static void send_request(struct client *client, enum wish wish, uint64_t id, uint64_t incarnation)
{
	struct sim_world *world = client->node->world;
	struct request *request = calloc(1, sizeof(*request));

	if (!request)
		abort();
	*request = (struct request){.wish = wish, .slot = client->node->slot,
		.generation = client->node->generation, .id = id, .incarnation = incarnation,
		.context = client->host.context, .address = client->node->address,
		.session = client->session, .epoch = client->epoch};
	client->sent_at = client->sent_at > world->now_us ? client->sent_at : world->now_us;
	client->sent_at += sim_log(&world->random, 20, 4000);
	sim_at(world, client->sent_at, request_arrives, request, 0);
}

static struct claim *claim_of(struct client *client, uint64_t id)
{
	for (uint32_t i = 0; i < client->n_claims; i++) {
		if (client->claims[i].id == id)
			return &client->claims[i];
	}
	return NULL;
}

static void claim_send(struct client *client, struct claim *claim)
{
	const struct ripc__source_event away = {.kind = RIPC_SOURCE_UNAVAILABLE, .id = claim->id};

	claim->refused = false;
	claim->making = !client->away;
	if (claim->making)
		send_request(client, WISH_CLAIM, claim->id, claim->incarnation);
	else if (!claim->told)
		event_add(client, &away);
}

static void claim_answered(struct client *client, const struct request *request)
{
	struct claim *claim = claim_of(client, request->id);
	struct ripc__source_event event = request->answer;

	if (!claim || claim->incarnation != request->incarnation || !claim->making)
		return;
	claim->making = false;
	claim->session = event.status ? 0 : client->session;
	claim->refused = event.status;
	if (claim->told && event.status)
		event.kind = RIPC_SOURCE_LOST;
	if (!claim->told || event.status)
		event_add(client, &event);
	claim->told = !event.status;
}

static struct known *known_of(struct client *client, uint64_t id)
{
	struct known *known = client->known;

	for (; known < client->known + client->n_known; known++) {
		if (known->id == id)
			return known;
	}
	if (client->n_known == ENTRIES)
		abort();
	*known = (struct known){.id = id};
	client->n_known++;
	return known;
}

static void question_send(struct client *client, struct known *known)
{
	struct iovec iov = {known->question, known->len};

	if (known->address && known->len)
		sim_transmit(client->node, known->address, true, &iov, 1);
	known->len = 0;
}

static void read_answered(struct client *client, const struct request *request)
{
	struct known *known = known_of(client, request->id);

	known->reading = false;
	known->address = request->holder_address;
	event_add(client, &request->answer);
	question_send(client, known);
}

static void answer_arrives(struct sim_world *world, void *arg, uint64_t value)
{
	struct request *request = arg;
	struct client *client = client_of(world, request);

	(void)value;
	if (client && client->epoch == request->epoch && request->wish == WISH_CLAIM)
		claim_answered(client, request);
	else if (client && client->epoch == request->epoch)
		read_answered(client, request);
	free(request);
}

static void unavailable(struct client *client, struct known *known)
{
	known->reading = false;
	event_add(client, &(struct ripc__source_event){.kind = RIPC_SOURCE_UNAVAILABLE,
		.id = known->id});
	question_send(client, known);
}

/* ---- breaking ---------------------------------------------------------------------------- */

static void connection_breaks(struct sim_world *world, void *arg, uint64_t generation);

static void break_some_time(struct client *client)
{
	struct sim_world *world = client->node->world;

	sim_at(world, world->now_us + sim_log(&world->random, 10000, BREAK_US), connection_breaks,
		client->node, client->node->generation);
}

/* value: generation and session that it had. */
static void connection_back(struct sim_world *world, void *arg, uint64_t generation)
{
	struct sim_node *node = arg;
	struct client *client = store_of(world)->clients[node->slot];

	if (!client || node->generation != generation)
		return;
	client->away = false;
	for (uint32_t i = 0; i < client->n_claims; i++) {
		struct claim *claim = &client->claims[i];

		if (claim->session != client->session && !claim->refused)
			claim_send(client, claim);
	}
	break_some_time(client);
}

static void connection_breaks(struct sim_world *world, void *arg, uint64_t generation)
{
	struct sim_node *node = arg;
	struct client *client = store_of(world)->clients[node->slot];
	/*
	 * A service that has lost its registrations is not found: nothing excuses that in a mild
	 * world.
	 */
	uint64_t away_us = sim_log(&world->random, 1000,
		world->plan.mild ? SESSION_US : 3 * SESSION_US);

	if (!client || node->generation != generation || node->cut || !world->faults)
		return;
	sim_trace(world, "node %u loses the store for %llu us", node->slot,
		(unsigned long long)away_us);
	client->away = true;
	client->epoch++;
	for (uint32_t i = 0; i < client->n_claims; i++)
		client->claims[i].making = false;
	for (uint32_t i = 0; i < client->n_known; i++) {
		if (client->known[i].reading)
			unavailable(client, &client->known[i]);
	}
	if (away_us > SESSION_US) {
		sim_at(world, world->now_us + SESSION_US, session_over, NULL, client->session);
		client->session = ++store_of(world)->sessions;
	}
	sim_at(world, world->now_us + away_us, connection_back, node, generation);
}

/* ---- slots ------------------------------------------------------------------------------- */

static int store_probe(const struct ripc__host *host, char why[256], char remedy[256])
{
	(void)host;
	snprintf(why, 256, "simulated");
	remedy[0] = '\0';
	return 0;
}

static int store_open(void *at, const struct ripc__host *host)
{
	struct client *client = at;
	struct sim_node *node = host->env;
	struct sim_store *store = store_of(node->world);

	client->host = *host;
	client->node = node;
	client->session = ++store->sessions;
	node->context = host->context;
	node->n_ended = 0;
	store->clients[node->slot] = client;
	break_some_time(client);
	return 0;
}

/* The end of a crashing service is noticed later. */
static void store_close(void *at)
{
	struct client *client = at;
	struct sim_world *world = client->node->world;

	store_of(world)->clients[client->node->slot] = NULL;
	sim_at(world, world->now_us + (client->node->cut ? SESSION_US : 100), session_over, NULL,
		client->session);
	free(client->last);
	sim_queue_clear(&client->node->questions);
}

static int store_publish(void *at, uint64_t id, uint64_t incarnation, enum ripc__naming naming)
{
	struct client *client = at;
	struct claim *claim = claim_of(client, id);

	(void)naming;
	if (claim && !claim->refused)
		return claim->told ? -EADDRINUSE : -EINPROGRESS;
	if (!claim) {
		if (client->n_claims == ENTRIES)
			abort();
		claim = &client->claims[client->n_claims++];
	}
	*claim = (struct claim){.id = id, .incarnation = incarnation};
	claim_send(client, claim);
	return -EINPROGRESS;
}

/* Notices of it that were not heard yet are void. */
static void events_forget(struct client *client, uint64_t id)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < client->n_events; i++) {
		enum ripc__source_kind kind = client->events[i].kind;

		if (client->events[i].id != id || (kind != RIPC_SOURCE_PUBLISHED &&
				kind != RIPC_SOURCE_LOST))
			client->events[n++] = client->events[i];
	}
	client->n_events = n;
}

static void store_withdraw(void *at, uint64_t id)
{
	struct client *client = at;
	struct claim *claim = claim_of(client, id);

	if (!claim)
		return;
	send_request(client, WISH_LEAVE, id, claim->incarnation);
	*claim = client->claims[--client->n_claims];
	events_forget(client, id);
}

static int store_ask(void *at, uint64_t id, const void *data, size_t len)
{
	struct client *client = at;
	struct known *known;

	if (!id || len > WIRE_RESOLVE_MAX)
		return 0;
	known = known_of(client, id);
	memcpy(known->question, data, len);
	known->len = (uint32_t)len;
	if (client->away) {
		unavailable(client, known);
	} else if (!known->reading) {
		known->reading = true;
		send_request(client, WISH_READ, id, 0);
	}
	return 1;
}

static int store_reply(void *at, const struct ripc__addr *to, const void *data, size_t len)
{
	return sim_questions_reply(((struct client *)at)->node, to, data, len);
}

static int store_poll(void *at, struct ripc__source_event *event)
{
	struct client *client = at;

	if (client->n_events) {
		*event = client->events[0];
		memmove(client->events, client->events + 1,
			--client->n_events * sizeof(*client->events));
		return 1;
	}
	return sim_questions_poll(client->node, &client->host, &client->last, event);
}

static int store_wait_fd(void *at)
{
	(void)at;
	return -ENOTSUP;
}

static uint64_t store_deadline(void *at)
{
	return ((struct client *)at)->n_events ? 0 : UINT64_MAX;
}

const struct ripc__source sim_store_source = {
	.name = "sim-store",
	.size = sizeof(struct client),
	.exact = true,
	.probe = store_probe,
	.open = store_open,
	.close = store_close,
	.publish = store_publish,
	.withdraw = store_withdraw,
	.ask = store_ask,
	.reply = store_reply,
	.poll = store_poll,
	.wait_fd = store_wait_fd,
	.deadline = store_deadline,
};

/* ---- the judge --------------------------------------------------------------------------- */

bool sim_store_granted(struct sim_world *world, uint64_t incarnation)
{
	const struct sim_store *store = world->store;

	for (uint32_t i = 0; store && i < store->n_granted; i++) {
		if (store->granted[i] == incarnation)
			return true;
	}
	return false;
}

void sim_store_free(struct sim_world *world)
{
	free(world->store);
	world->store = NULL;
}
