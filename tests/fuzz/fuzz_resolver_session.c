/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries, answers, notices and junk in any order, at any time, from anybody, to one resolver,
 * while its owner looks up, publishes and withdraws. For any input, each lookup and each
 * registration ends exactly once; a response is only believed under the nonce of a query; sent
 * datagrams are well-formed and to a stranger no longer than its own; at the end nothing is due and
 * nothing is left.
 */
#include <errno.h>
#include <string.h>

#include "core/resolve/resolver.h"
#include "core/wire/record.h"
#include "input.h"
#include "util/bytes.h"
#include "util/hash/crc32c.h"

#define SELF         0x5e1f
#define IDS          6u        /* 1 to 6 */
#define QUERIES    64u       /* nonces that are remembered */
#define STEPS_MAX    400u
#define STEPS_AT_MS  2000u     /* calls of step while time passes */
#define BYTES_MAX    1275u     /* more than a record takes */
#define LOOKUP_US    20000000u /* every lookup has ended by then */
#define FORGOTTEN_US 70000000u /* a group that nobody sends to */
#define GROUP        (0xffull << 56 | 1)
#define MEMBER_ID    97u       /* from here on IDs are those of members */

enum { HOME, NET, N_SOURCES };

struct world {
	struct input input;
	struct ripc__resolver *resolver;
	uint64_t now_us, drawn;
	/* the sources */
	uint8_t in[BYTES_MAX];
	size_t in_len;
	int in_source;
	struct ripc__source_event event;
	uint64_t nonces[QUERIES];
	uint32_t n_queries, n_open;
	int asked[N_SOURCES];    /* results of ask */
	bool name_is_held;       /* publish finds it so, unless it displaces */
	size_t came_len;         /* of the datagram that is being handled */
	uint32_t n_listed;
	/* the owner */
	bool pending[IDS + 1], publishing[IDS + 1], published[IDS + 1];
	uint64_t own[IDS + 1];   /* incarnation of what lives here, 0: nothing */
	bool grouped, joined;    /* the group is of interest; the first ID has joined it */
	uint8_t on_resolved;     /* actions of the callback */
};

struct source {
	struct world *world;
	int which;
};

/* ---- sources ----------------------------------------------------------------------------- */

static int source_open(void *at, const struct ripc__host *host, int which)
{
	struct world *world = host->env;

	*(struct source *)at = (struct source){world, which};
	world->n_open++;
	return 0;
}

static int home_open(void *at, const struct ripc__host *host)
{
	return source_open(at, host, HOME);
}

static int net_open(void *at, const struct ripc__host *host)
{
	return source_open(at, host, NET);
}

static void source_close(void *at)
{
	((struct source *)at)->world->n_open--;
}

static int source_ask(void *at, uint64_t id, const void *data, size_t len)
{
	const struct source *source = at;
	struct world *world = source->world;
	struct wire_resolve query;

	CLAIM(wire_resolve_decode(data, len, &query) == 0);
	if (query.type == WIRE_DIGEST) /* is passed on: names one */
		wire_named_get(&query, 0, &query.record.id, &query.record.incarnation);
	CLAIM(query.record.id == id && query.n_named <= 1);
	/* not a query: a notice */
	CLAIM((query.type == WIRE_QUERY) == (query.nonce != 0));
	world->nonces[world->n_queries++ % QUERIES] = query.nonce;
	return world->asked[source->which];
}

static int source_reply(void *at, const struct ripc__addr *to, const void *data, size_t len)
{
	const struct source *source = at;
	struct wire_resolve answer;

	CLAIM(to->len == 1);
	CLAIM(wire_resolve_decode(data, len, &answer) == 0);
	CLAIM(source->which == HOME || len <= WIRE_RECORD_MAX);
	return 0;
}

static int source_notify(void *at, const void *data, size_t len)
{
	struct wire_resolve notice;

	(void)at;
	CLAIM(wire_resolve_decode(data, len, &notice) == 0);
	CLAIM(notice.type != WIRE_QUERY && notice.nonce == 0);
	return 1;
}

static int source_publish(void *at, uint64_t id, uint64_t incarnation,
		enum ripc__naming naming)
{
	const struct world *world = ((struct source *)at)->world;

	CLAIM(id > 0 && id <= IDS && incarnation == 0);
	return world->name_is_held && naming != RIPC_NAME_DISPLACE ? -EADDRINUSE : 0;
}

static void source_withdraw(void *at, uint64_t id)
{
	(void)at;
	CLAIM(id > 0 && id <= IDS);
}

static int source_poll(void *at, struct ripc__source_event *event)
{
	const struct source *source = at;
	struct world *world = source->world;

	if (!world->in_len || world->in_source != source->which)
		return 0;
	*event = world->event;
	event->peer = (uint16_t)(world->in_len % 3);
	event->data = world->in;
	event->len = (uint32_t)world->in_len;
	world->in_len = 0;
	return 1;
}

static uint32_t source_n_peers(void *at)
{
	return (uint32_t)((struct source *)at)->world->asked[NET];
}

static int source_wait_fd(void *at)
{
	(void)at;
	return -1;
}

static int source_list(void *at, void (*found)(void *arg, uint64_t id, bool is_private), void *arg)
{
	const struct world *world = ((struct source *)at)->world;

	for (uint32_t i = 0; i < world->n_listed; i++)
		found(arg, 1 + i % (2 * IDS), i % 3 == 0);
	return 0;
}

static const struct ripc__source home_source = {.name = "home", .size = sizeof(struct source),
	.open = home_open, .close = source_close, .publish = source_publish,
	.withdraw = source_withdraw, .ask = source_ask, .reply = source_reply,
	.poll = source_poll, .wait_fd = source_wait_fd, .list = source_list};
static const struct ripc__source net_source = {.name = "net", .size = sizeof(struct source),
	.open = net_open, .close = source_close, .ask = source_ask, .reply = source_reply,
	.notify = source_notify, .n_peers = source_n_peers, .poll = source_poll,
	.wait_fd = source_wait_fd};
static const struct ripc__source *const sources[] = {&home_source, &net_source, NULL};

/* ---- the owner --------------------------------------------------------------------------- */

static uint64_t owner_random(void *arg)
{
	return ++((struct world *)arg)->drawn * 0x9e3779b97f4a7c15u;
}

static uint64_t owner_proof(void *arg, uint64_t asker, const uint8_t host[16])
{
	(void)arg;
	return asker ^ get64(host + 8);
}

static int owner_record(void *arg, uint64_t id, struct wire_record *record)
{
	const struct world *world = arg;

	if (id > IDS || !world->own[id])
		return -ENOENT;
	*record = (struct wire_record){.id = id, .incarnation = world->own[id], .stamp = 100,
		.host = 3, .context = SELF, .n_addrs = 1};
	record->addrs[0] = (struct wire_record_addr){.backend = 1, .len = 1, .blob = {1}};
	return 0;
}

static uint32_t owner_ids(void *arg, uint64_t *ids, uint32_t max)
{
	const struct world *world = arg;
	uint32_t n = 0;

	for (uint64_t id = 1; id <= IDS; id++) {
		if (!world->own[id])
			continue;
		if (n < max)
			ids[n] = id;
		n++;
	}
	return n;
}

static void look_up(struct world *world, uint64_t id)
{
	const struct ripc__answer *answer;
	int status = ripc__resolver_lookup(world->resolver, id, world->now_us, &answer);

	CLAIM(status == 0 || status == -ENOENT || status == -EINPROGRESS);
	if (status == -EINPROGRESS)
		world->pending[id] = true;
	else /* sources on this host need no answer */
		CLAIM(!world->pending[id] || world->own[id]);
	if (status == 0)
		CLAIM(answer->record.id == id && answer->record.incarnation != 0);
}

static void owner_resolved(void *arg, uint64_t id, int status, const struct ripc__answer *answer)
{
	struct world *world = arg;
	uint8_t does = world->on_resolved;

	if (world->grouped && id >= MEMBER_ID)
		return; /* the member was queried on account of the group */
	CLAIM(id > 0 && id <= IDS && world->pending[id]);
	CLAIM((status == 0) == (answer != NULL) &&
		(status == 0 || status == -ENOENT || status == -ETIMEDOUT));
	world->pending[id] = false;
	world->on_resolved = 0;
	if (answer)
		CLAIM(answer->record.id == id && answer->record.incarnation != 0);
	if (answer && does & 1)
		ripc__resolver_suspect(world->resolver, id, answer->record.incarnation);
	if (does & 2)
		look_up(world, id);
	if (does & 4)
		look_up(world, 1 + id % IDS);
}

static void owner_published(void *arg, uint64_t id, int status)
{
	struct world *world = arg;

	CLAIM(id > 0 && id <= IDS && world->publishing[id]);
	world->publishing[id] = false;
	world->published[id] = status == 0;
}

static void owner_conflict(void *arg, uint64_t id, uint64_t incarnation)
{
	struct world *world = arg;

	CLAIM(id > 0 && id <= IDS && world->published[id] && incarnation != 0);
	world->published[id] = false;
}

static void owner_gathered(void *arg, uint64_t group)
{
	struct world *world = arg;

	CLAIM(world->grouped && group == GROUP);
}

static bool owner_moved(void *arg, uint64_t id, uint64_t incarnation)
{
	(void)arg;
	CLAIM(id != 0);
	return incarnation % 2;
}

static void listed(void *arg, const struct ripc__answer *answer)
{
	(void)arg;
	CLAIM(answer->record.id != 0 && answer->record.incarnation != 0);
}

static void ignore_log(void *arg, int level, const char *format, ...)
{
	(void)arg;
	(void)level;
	(void)format;
}

/* ---- what comes in ----------------------------------------------------------------------- */

static uint64_t nonce(struct world *world)
{
	uint8_t how = input8(&world->input);

	if (how >= 224)
		return how & 1 ? 0 : how;
	return world->nonces[(world->n_queries - 1 - how % 32) % QUERIES];
}

static void arrive(struct world *world, uint8_t how)
{
	world->in_source = how & 1 ? HOME : NET;
	world->event = (struct ripc__source_event){
		.host = {[10] = 0xff, 0xff, 10, 0, 0, how >> 1 & 3},
		.reply = {.len = 1, .blob = {how >> 1 & 3}}, .local = how & 1, .group = how & 8};
	ripc__resolver_step(world->resolver, world->now_us);
}

static void digest(struct world *world)
{
	uint8_t named[WIRE_NAMED_MAX * WIRE_NAMED_LEN], what = input8(&world->input);
	struct wire_resolve packet = {.type = WIRE_DIGEST, .asker = what & 128 ? SELF : 1,
		.named = named};

	while (packet.n_named <= what % WIRE_NAMED_MAX) {
		uint8_t who = input8(&world->input);

		wire_named_put(named, packet.n_named++, world->grouped && who >> 5 == 7 ? GROUP :
			1u + (who >> 4), 1 + (who & 15));
	}
	world->in_len = wire_resolve_encode(world->in, &packet);
	arrive(world, input8(&world->input));
}

static void packet(struct world *world)
{
	uint8_t what = input8(&world->input), who = input8(&world->input);
	struct wire_resolve packet = {.type = (uint8_t)(WIRE_QUERY + what % 3),
		.hops = what >> 2 & 1, .nonce = nonce(world), .proof = 77};
	struct wire_record *record = &packet.record;

	packet.asker = what & 8 ? SELF : 1 + (who & 3);
	packet.host[15] = what & 16 ? 1 + (who & 3) : 0;
	*record = (struct wire_record){.id = what >> 5, .incarnation = 1 + (who >> 2 & 7),
		.stamp = MEMBER_ID + (who >> 4), .host = 3 + (who & 1),
		.context = 0x300 + (who & 1)};
	if (what >> 5 == 7)
		record->id = who & 15;
	if (world->grouped && what >> 5 == 5)
		record->id = GROUP;
	if (packet.type != WIRE_QUERY && !record->id)
		record->id = 9;
	if (who == 255)
		record->context = SELF;
	record->n_addrs = who % 9;
	for (uint32_t i = 0; i < record->n_addrs; i++)
		record->addrs[i] = (struct wire_record_addr){.backend = (uint8_t)i,
			.len = (uint8_t)(who % 65)};
	world->in_len = wire_resolve_encode(world->in, &packet);
	arrive(world, input8(&world->input));
}

static void raw(struct world *world)
{
	uint8_t how = input8(&world->input);
	const uint8_t *bytes;

	memset(world->in, 0, sizeof(world->in));
	world->in_len = input_bytes(&world->input, BYTES_MAX / 255 * input8(&world->input), &bytes);
	memcpy(world->in, bytes, world->in_len);
	if (how & 128)
		world->in_len = WIRE_RECORD_MAX;
	if (how & 64 && world->in_len >= 8) {
		put32(world->in + 4, 0);
		put32(world->in + 4, ripc__crc32c(0, world->in, world->in_len));
	}
	arrive(world, how);
}

/* ---- what the owner does ----------------------------------------------------------------- */

static void pass_until(struct world *world, uint64_t end_us)
{
	for (uint32_t i = 0; world->now_us < end_us; i++) {
		uint64_t at_us = ripc__resolver_deadline(world->resolver);

		CLAIM(i < STEPS_AT_MS * ((end_us - world->now_us) / 1000 + 1));
		at_us = at_us < end_us ? at_us : end_us;
		world->now_us = at_us > world->now_us ? at_us : world->now_us + 1;
		ripc__resolver_step(world->resolver, world->now_us);
	}
}

static void pass(struct world *world)
{
	uint32_t how = input16(&world->input);

	pass_until(world, world->now_us + ((uint64_t)(how >> 4) << (how & 15)));
}

static void lookup(struct world *world)
{
	look_up(world, 1 + input8(&world->input) % IDS);
}

static void suspect(struct world *world)
{
	uint8_t how = input8(&world->input);

	ripc__resolver_suspect(world->resolver, 1 + how % IDS, how >> 4);
}

static void withdraw(struct world *world, uint64_t id)
{
	uint64_t incarnation = world->own[id];

	world->own[id] = 0;
	world->published[id] = world->publishing[id] = false;
	ripc__resolver_withdraw(world->resolver, id, incarnation);
}

static void publish(struct world *world)
{
	uint8_t how = input8(&world->input);
	uint64_t id = 1 + how % IDS;

	if (world->own[id]) {
		withdraw(world, id);
		return;
	}
	world->own[id] = 0x100 + how;
	world->publishing[id] = true;
	ripc__resolver_publish(world->resolver, id, how & 64, world->now_us);
}

static void leave(struct world *world)
{
	ripc__resolver_leave(world->resolver, GROUP, 0x500);
	world->joined = false;
}

/* Somebody here sends to the group, joins it, leaves it, or finds that one has left. */
static void group(struct world *world, uint8_t how)
{
	const struct ripc__member self = {1, 0x500};
	struct gathering *gathering;

	world->grouped = true;
	if (how & 64 && world->joined) {
		leave(world);
	} else if (how & 64) {
		CLAIM(ripc__resolver_join(world->resolver, GROUP, &self, world->now_us) == 0);
		world->joined = true;
	}
	CLAIM(ripc__resolver_gather(world->resolver, GROUP, world->now_us, &gathering) != -ENOMEM);
	for (uint32_t i = 0; i < ripc__gathering_places(gathering); i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		CLAIM(!member || (member->id && member->incarnation));
	}
	if (how & 32)
		ripc__resolver_expel(world->resolver, GROUP, 1 + (how >> 2 & 7));
}

static void list(struct world *world)
{
	uint8_t how = input8(&world->input);
	bool begins = how & 1;

	if (how & 128) {
		group(world, how);
		return;
	}

	ripc__resolver_list(world->resolver, world->now_us, begins ? listed : NULL, world);
}

static void disturb(struct world *world)
{
	uint8_t how = input8(&world->input);

	world->asked[HOME] = how & 1;
	world->asked[NET] = how & 2 ? -ENETUNREACH : how >> 2 & 3;
	world->name_is_held = how & 16;
	world->on_resolved = how >> 5;
	world->n_listed = how & 8 ? how * 2u : 0;
}

static void step(struct world *world)
{
	static void (*const steps[])(struct world *) = {packet, packet, packet, packet, digest,
		raw, pass, pass, lookup, lookup, suspect, publish, publish, list, disturb};

	steps[input8(&world->input) % (sizeof(steps) / sizeof(steps[0]))](world);
}

static void open_resolver(struct world *world)
{
	const struct ripc__resolver_owner owner = {.arg = world, .context = SELF,
		.random = owner_random, .proof = owner_proof, .record = owner_record,
		.ids = owner_ids, .resolved = owner_resolved, .published = owner_published,
		.conflict = owner_conflict, .moved = owner_moved,
		.gathered = owner_gathered};
	const struct ripc__host host = {.arg = world, .log = ignore_log, .context = SELF,
		.env = world};

	world->now_us = 5000000;
	world->asked[NET] = 1;
	CLAIM(ripc__resolver_open(&owner, &host, sources, &world->resolver) == 0);
	CLAIM(world->n_open == N_SOURCES);
}

/* Nothing comes in any more: everything that waits for an answer ends. */
static void settle(struct world *world)
{
	world->on_resolved = 0;
	ripc__resolver_list(world->resolver, world->now_us, NULL, NULL);
	pass_until(world, world->now_us + LOOKUP_US);
	for (uint64_t id = 1; id <= IDS; id++) {
		CLAIM(!world->pending[id] && !world->publishing[id]);
		if (world->own[id])
			withdraw(world, id);
	}
	if (world->joined)
		leave(world);
	pass_until(world, world->now_us + (world->grouped ? FORGOTTEN_US : LOOKUP_US));
	CLAIM(ripc__resolver_deadline(world->resolver) == UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct world world = {.input = {data, data + len}};
	uint64_t fds = open_fds();
	uint8_t ending = input8(&world.input);

	open_resolver(&world);
	for (uint32_t i = 0; i < STEPS_MAX && !input_ends(&world.input); i++)
		step(&world);
	world.input.at = world.input.end;
	if (ending & 1)
		settle(&world);
	ripc__resolver_close(world.resolver);
	CLAIM(world.n_open == 0);
	CLAIM(open_fds() == fds);
	return 0;
}
