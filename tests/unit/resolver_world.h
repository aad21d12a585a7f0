/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world in which the resolver's unit tests run: two sources that only record and replay
 * (HOME can publish and list, NET can notify), a clock that the test sets, and an owner that
 * notes what it is told.
 */
#ifndef RIPC_TEST_RESOLVER_WORLD_H
#define RIPC_TEST_RESOLVER_WORLD_H

#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/resolve/resolver.h"
#include "core/wire/record.h"
#include "suite.h"
#include "util/bytes.h"

enum { HOME, NET, N_SOURCES };
enum { ASK, REPLY, NOTIFY, ASK_HOST };

#define SELF       0x5e1f  /* the context under test */
#define OTHER      0x07e4  /* the context of others' records */
#define SENT_MAX   8192
#define NOTED_MAX  8192
#define ARRIVE_MAX 4096
#define COPIES     64u     /* of what was sent last: what a digest names is in it */
#define MS         1000u
#define PRIVATE    0xff00000000000000u /* listed IDs from here on are */

struct sent {
	int kind;
	uint64_t at_us, id;
	struct ripc__addr to;
	struct wire_resolve packet;
	size_t len;
};

struct arriving {
	uint8_t data[WIRE_RECORD_MAX];
	struct ripc__source_event event;
};

struct fake {
	struct sent sent[SENT_MAX];
	uint32_t n_sent, taken;
	uint8_t copies[COPIES][WIRE_RECORD_MAX];
	struct arriving arriving[ARRIVE_MAX];
	uint32_t n_arriving, arrived;
	int open_error, ask_result, publish_result;
	uint32_t n_published, n_displaced, n_withdrawn, n_closed;
	uint64_t listed[1024];
	uint32_t n_listed, n_peers;
	uint64_t others; /* an ID that another user holds */
};

/* The events of the owner: one of these per callback. */
struct noted {
	/* 'r'esolved, 'p'ublished, 'c'onflict, 'm'oved, 'l'isted, 'g'athered, 'a'bsent */
	char what;
	uint64_t id, incarnation;
	int status;
	struct ripc__answer answer;
};

struct world {
	struct ripc__resolver *resolver;
	struct fake fakes[N_SOURCES];
	uint64_t now_us, drawn;
	struct noted *noted;
	uint32_t n_noted, seen;
	struct wire_record own[256]; /* services of this host */
	uint32_t n_own;
	uint64_t proof_asker;
	uint8_t proof_host[16];
	uint32_t n_logged;
	bool is_unconcerned; /* where others move */
	void (*on_resolved)(struct world *world, uint64_t id);
};

/* ---- sources ----------------------------------------------------------------------------- */

struct fake_state {
	struct world *world;
	struct fake *fake;
};

static inline int fake_open(void *at, const struct ripc__host *host, int which)
{
	struct world *world = host->env;

	*(struct fake_state *)at = (struct fake_state){world, &world->fakes[which]};
	return world->fakes[which].open_error;
}

static inline int home_open(void *at, const struct ripc__host *host)
{
	return fake_open(at, host, HOME);
}

static inline int net_open(void *at, const struct ripc__host *host)
{
	return fake_open(at, host, NET);
}

static inline void fake_close(void *at)
{
	((struct fake_state *)at)->fake->n_closed++;
}

static inline void record_sent(void *at, int kind, uint64_t id, const struct ripc__addr *to,
		const void *data, size_t len)
{
	const struct fake_state *state = at;
	struct fake *fake = state->fake;
	uint8_t *copy = fake->copies[fake->n_sent % COPIES];
	struct sent *sent = &fake->sent[fake->n_sent++ % SENT_MAX];

	*sent = (struct sent){.kind = kind, .at_us = state->world->now_us, .id = id, .len = len};
	if (to)
		sent->to = *to;
	ck_assert_uint_le(len, WIRE_RECORD_MAX);
	memcpy(copy, data, len);
	ck_assert_int_eq(wire_resolve_decode(copy, len, &sent->packet), 0);
}

static inline int fake_ask(void *at, uint64_t id, const void *data, size_t len)
{
	record_sent(at, ASK, id, NULL, data, len);
	return ((struct fake_state *)at)->fake->ask_result;
}

static inline int fake_ask_host(void *at, const uint8_t host[16], const void *data, size_t len)
{
	struct ripc__addr to = {.len = 1, .blob = {host[15]}};

	record_sent(at, ASK_HOST, 0, &to, data, len);
	return 1;
}

static inline int fake_reply(void *at, const struct ripc__addr *to, const void *data, size_t len)
{
	record_sent(at, REPLY, 0, to, data, len);
	return 0;
}

static inline uint32_t fake_n_peers(void *at)
{
	return ((struct fake_state *)at)->fake->n_peers;
}

static inline int fake_notify(void *at, const void *data, size_t len)
{
	record_sent(at, NOTIFY, 0, NULL, data, len);
	return 1;
}

static inline int fake_publish(void *at, uint64_t id, uint64_t incarnation,
		enum ripc__naming naming)
{
	bool displace = naming == RIPC_NAME_DISPLACE;
	struct fake *fake = ((struct fake_state *)at)->fake;

	(void)id;
	(void)incarnation;
	if (fake->publish_result && !(displace && fake->publish_result == -EADDRINUSE))
		return fake->publish_result;
	fake->n_displaced += displace;
	fake->n_published++;
	return 0;
}

static inline void fake_withdraw(void *at, uint64_t id)
{
	(void)id;
	((struct fake_state *)at)->fake->n_withdrawn++;
}

static inline int fake_poll(void *at, struct ripc__source_event *event)
{
	struct fake *fake = ((struct fake_state *)at)->fake;

	if (fake->arrived == fake->n_arriving)
		return 0;
	*event = fake->arriving[fake->arrived++ % ARRIVE_MAX].event;
	return 1;
}

static inline int fake_wait_fd(void *at)
{
	const struct fake_state *state = at;

	return 100 + (int)(state->fake - state->world->fakes);
}

static inline int fake_list(void *at, void (*found)(void *arg, uint64_t id, bool is_private),
		void *arg)
{
	const struct fake *fake = ((struct fake_state *)at)->fake;

	for (uint32_t i = 0; i < fake->n_listed; i++)
		found(arg, fake->listed[i], fake->listed[i] >= PRIVATE);
	return 0;
}

static inline bool fake_is_others(void *at, uint64_t id)
{
	return ((struct fake_state *)at)->fake->others == id;
}

static const struct ripc__source home_source = {.name = "home", .size = sizeof(struct fake_state),
	.open = home_open, .close = fake_close, .publish = fake_publish,
	.withdraw = fake_withdraw, .ask = fake_ask, .reply = fake_reply, .poll = fake_poll,
	.wait_fd = fake_wait_fd, .list = fake_list, .is_others = fake_is_others};
static const struct ripc__source net_source = {.name = "net", .size = sizeof(struct fake_state),
	.open = net_open, .close = fake_close, .ask = fake_ask, .ask_host = fake_ask_host,
	.n_peers = fake_n_peers, .reply = fake_reply, .notify = fake_notify,
	.poll = fake_poll, .wait_fd = fake_wait_fd};
static const struct ripc__source *const both_sources[] = {&home_source, &net_source, NULL};

/* ---- owner ------------------------------------------------------------------------------- */

static inline struct noted *note(struct world *world, char what, uint64_t id)
{
	struct noted *noted = &world->noted[world->n_noted++ % NOTED_MAX];

	*noted = (struct noted){.what = what, .id = id};
	return noted;
}

/* Numbers that never repeat and look random enough for nonces. */
static inline uint64_t owner_random(void *arg)
{
	struct world *world = arg;

	return ++world->drawn * 0x9e3779b97f4a7c15u;
}

static inline uint64_t owner_proof(void *arg, uint64_t asker, const uint8_t host[16])
{
	struct world *world = arg;

	world->proof_asker = asker;
	memcpy(world->proof_host, host, 16);
	return asker ^ get64(host + 8);
}

static inline int owner_record(void *arg, uint64_t id, struct wire_record *record)
{
	const struct world *world = arg;

	for (uint32_t i = 0; i < world->n_own; i++) {
		if (world->own[i].id == id) {
			*record = world->own[i];
			return 0;
		}
	}
	return -ENOENT;
}

static inline uint32_t owner_ids(void *arg, uint64_t *ids, uint32_t max)
{
	const struct world *world = arg;

	for (uint32_t i = 0; i < world->n_own && i < max; i++)
		ids[i] = world->own[i].id;
	return world->n_own;
}

static inline void owner_resolved(void *arg, uint64_t id, int status,
		const struct ripc__answer *answer)
{
	struct world *world = arg;
	struct noted *noted = note(world, 'r', id);

	noted->status = status;
	if (answer) {
		noted->answer = *answer;
		noted->incarnation = answer->record.incarnation;
	}
	if (world->on_resolved)
		world->on_resolved(world, id);
}

static inline void owner_published(void *arg, uint64_t id, int status)
{
	note(arg, 'p', id)->status = status;
}

static inline void owner_conflict(void *arg, uint64_t id, uint64_t incarnation)
{
	note(arg, 'c', id)->incarnation = incarnation;
}

static inline void owner_gathered(void *arg, uint64_t group)
{
	note(arg, 'g', group);
}

static inline bool owner_moved(void *arg, uint64_t id, uint64_t incarnation)
{
	note(arg, 'm', id)->incarnation = incarnation;
	return !((struct world *)arg)->is_unconcerned;
}

static inline void owner_absent(void *arg, const struct ripc__presence *presence)
{
	note(arg, 'a', presence->id)->incarnation = presence->incarnation;
}

static inline void listed(void *arg, const struct ripc__answer *answer)
{
	struct noted *noted = note(arg, 'l', answer->record.id);

	noted->incarnation = answer->record.incarnation;
	noted->answer = *answer;
}

static inline void world_log(void *arg, int level, const char *format, ...)
{
	struct world *world = arg;

	(void)level;
	(void)format;
	world->n_logged++;
}

/* ---- the test's hands -------------------------------------------------------------------- */

static inline struct world *world_new(void)
{
	struct world *world = calloc(1, sizeof(*world));

	ck_assert_ptr_nonnull(world);
	world->noted = calloc(NOTED_MAX, sizeof(*world->noted));
	ck_assert_ptr_nonnull(world->noted);
	world->now_us = 5000000;
	world->fakes[NET].ask_result = 1;
	return world;
}

static inline int world_open_with(struct world *world, const struct ripc__source *const *sources)
{
	const struct ripc__resolver_owner owner = {.arg = world, .context = SELF,
		.random = owner_random, .proof = owner_proof, .record = owner_record,
		.ids = owner_ids, .resolved = owner_resolved, .published = owner_published,
		.conflict = owner_conflict, .moved = owner_moved, .gathered = owner_gathered,
		.absent = owner_absent};
	const struct ripc__host host = {.arg = world, .log = world_log, .context = SELF,
		.env = world};

	return ripc__resolver_open(&owner, &host, sources, &world->resolver);
}

static inline struct world *world_open(void)
{
	struct world *world = world_new();

	ck_assert_int_eq(world_open_with(world, both_sources), 0);
	return world;
}

static inline void world_close(struct world *world)
{
	ripc__resolver_close(world->resolver);
	free(world->noted);
	free(world);
}

static inline int step(struct world *world)
{
	return ripc__resolver_step(world->resolver, world->now_us);
}

/* Lets time pass, stopping wherever the resolver wants to. */
static inline void pass(struct world *world, uint64_t us)
{
	uint64_t end_us = world->now_us + us;

	step(world);
	while (ripc__resolver_deadline(world->resolver) <= end_us) {
		uint64_t at_us = ripc__resolver_deadline(world->resolver);

		world->now_us = at_us > world->now_us ? at_us : world->now_us;
		step(world);
	}
	world->now_us = end_us;
	step(world);
}

static inline int lookup(struct world *world, uint64_t id)
{
	const struct ripc__answer *answer;

	return ripc__resolver_lookup(world->resolver, id, world->now_us, &answer);
}

/* The incarnation that a lookup finds in the cache, 0 if it finds none there. */
static inline uint64_t cached(struct world *world, uint64_t id)
{
	const struct ripc__answer *answer;

	if (ripc__resolver_lookup(world->resolver, id, world->now_us, &answer))
		return 0;
	return answer->record.incarnation;
}

/* The oldest datagram not taken yet that a source was given, NULL if there is none. */
static inline const struct sent *sent_next(struct world *world, int source)
{
	struct fake *fake = &world->fakes[source];

	return fake->taken == fake->n_sent ? NULL : &fake->sent[fake->taken++ % SENT_MAX];
}

static inline uint32_t sent_count(const struct world *world, int source)
{
	return world->fakes[source].n_sent - world->fakes[source].taken;
}

static inline void sent_skip(struct world *world)
{
	for (int i = 0; i < N_SOURCES; i++)
		world->fakes[i].taken = world->fakes[i].n_sent;
}

static inline const struct noted *noted_next(struct world *world)
{
	return world->seen == world->n_noted ? NULL : &world->noted[world->seen++ % NOTED_MAX];
}

static inline uint32_t noted_count(const struct world *world)
{
	return world->n_noted - world->seen;
}

/* A datagram comes in; sender tells where from, as the last byte of an address. */
static inline struct arriving *arrive_bytes(struct world *world, int source, uint8_t sender,
		const void *data, size_t len)
{
	struct fake *fake = &world->fakes[source];
	struct arriving *arriving = &fake->arriving[fake->n_arriving++ % ARRIVE_MAX];

	memcpy(arriving->data, data, len);
	arriving->event = (struct ripc__source_event){.data = arriving->data,
		.len = (uint32_t)len, .host = {[10] = 0xff, 0xff, 10, 0, 0, sender},
		.reply = {.len = 1, .blob = {sender}}, .local = source == HOME};
	return arriving;
}

static inline struct arriving *arrive(struct world *world, int source, uint8_t sender,
		const struct wire_resolve *packet)
{
	uint8_t data[WIRE_RECORD_MAX];
	size_t len = wire_resolve_encode(data, packet);

	return arrive_bytes(world, source, sender, data, len);
}

/* A record of somebody else. */
static inline struct wire_resolve record_of(uint64_t id, uint64_t incarnation, uint64_t stamp)
{
	static const struct wire_record_addr first = {.backend = 1, .len = 3, .blob = {1, 2, 3}};
	static const struct wire_record_addr second = {.backend = 2, .len = 1, .blob = {9}};
	struct wire_resolve packet = {.type = WIRE_RECORD, .proof = 0x9900f};

	packet.record = (struct wire_record){.id = id, .incarnation = incarnation,
		.stamp = stamp, .host = 0x4057, .context = OTHER, .n_addrs = 2};
	packet.record.addrs[0] = first;
	packet.record.addrs[1] = second;
	return packet;
}

/* An answer to the question with this nonce. */
static inline void answer(struct world *world, int source, uint8_t sender, uint64_t nonce,
		struct wire_resolve record)
{
	record.nonce = nonce;
	arrive(world, source, sender, &record);
	step(world);
}

/* A host that was asked says that nobody there has an ID. */
static inline void deny(struct world *world, uint16_t peer, uint64_t nonce, uint64_t id,
		bool definite)
{
	const struct wire_resolve packet = {.type = WIRE_NOBODY, .definite = definite,
		.nonce = nonce, .record.id = id};

	arrive(world, NET, (uint8_t)peer, &packet)->event.peer = peer;
	step(world);
}

/* The nonce of the question about id that a source was given last. */
static inline uint64_t asked_nonce(const struct world *world, int source, uint64_t id)
{
	const struct fake *fake = &world->fakes[source];

	for (uint32_t i = fake->n_sent; i-- > 0;) {
		const struct sent *sent = &fake->sent[i % SENT_MAX];

		if (sent->packet.type == WIRE_QUERY && sent->packet.record.id == id)
			return sent->packet.nonce;
	}
	ck_abort_msg("no question about %llx", (unsigned long long)id);
	return 0;
}

/* Something lives here; the resolver is not told by this. */
static inline void own_add(struct world *world, uint64_t id, uint64_t incarnation, uint64_t stamp)
{
	struct wire_record *record = &world->own[world->n_own++];

	*record = record_of(id, incarnation, stamp).record;
	record->context = SELF;
}

static inline void publish(struct world *world, uint64_t id, bool private_id)
{
	ripc__resolver_publish(world->resolver, id, private_id, world->now_us);
}

/* Registers an ID, and forgets what that took. */
static inline void own_publish(struct world *world, uint64_t id, uint64_t incarnation,
		uint64_t stamp)
{
	own_add(world, id, incarnation, stamp);
	publish(world, id, false);
	pass(world, 100 * MS);
	ck_assert_int_eq(world->noted[(world->n_noted - 1) % NOTED_MAX].status, 0);
	sent_skip(world);
	world->seen = world->n_noted;
}

/* Puts an answer about id into the cache. */
static inline void fill_cache(struct world *world, uint64_t id, uint64_t incarnation,
		uint64_t stamp)
{
	ck_assert_int_eq(lookup(world, id), -EINPROGRESS);
	answer(world, NET, 1, asked_nonce(world, NET, id), record_of(id, incarnation, stamp));
	ck_assert_uint_eq(cached(world, id), incarnation);
	sent_skip(world);
	world->seen = world->n_noted;
}

static inline struct ripc__resolver_stats stats(const struct world *world)
{
	struct ripc__resolver_stats s;

	ripc__resolver_stats(world->resolver, &s);
	return s;
}

#endif
