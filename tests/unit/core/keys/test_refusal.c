/* SPDX-License-Identifier: BSD-3-Clause */
/* A refusal counts if the newest session has encrypted it (docs/protocol.md, Capabilities). */
#include <errno.h>
#include <string.h>

#include "../../../support/util/key_end.h"
#include "core/keys/internal.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "suite.h"

#define ASKED_BY 0x14c   /* the incarnation that speaks at Bob */
#define TOKEN    0x70ce4 /* BOB's token */

enum { ALICE, BOB, ENDS };

/* ALICE is a whole context with one service. BOB has only keys, and the test speaks for him. */
struct pair {
	struct key_end ends[ENDS];
	char dirs[ENDS][KEY_END_DIR];
	struct ripc_service *svc;
	uint64_t token; /* of ALICE's partner */
	_Alignas(16) char route[512]; /* from BOB to ALICE */
};

static struct device *device_of(struct pair *pair, int i)
{
	return &pair->ends[i].ctx->peers.devices[0];
}

/* The datagram for core from a datagram to BOB, in out. False: none. */
static bool bob_opens(struct pair *pair, struct wire_packet *out)
{
	struct device *device = device_of(pair, BOB);
	struct ripc__event events[RIPC_EVENTS_MAX];

	return device->ops->datagrams.poll(device->port, events, RIPC_EVENTS_MAX, true) > 0 &&
		wire_decode(events[0].data, events[0].len, out) == 0;
}

/* Hands over all datagrams until there are none. heard: the last packet that BOB has got. */
static void pass_all(struct pair *pair, struct wire_packet *heard)
{
	for (int i = 0; pair->ends[ALICE].n_sent || pair->ends[BOB].n_sent; i = !i) {
		struct key_end *from = &pair->ends[i], *to = &pair->ends[!i];
		struct key_datagram sent[KEY_END_SENT];
		uint32_t n = from->n_sent;

		memcpy(sent, from->sent, sizeof(sent));
		from->n_sent = 0;
		for (uint32_t j = 0; j < n; j++) {
			to->in = sent[j];
			to->in_from = from->addr;
			if (i == ALICE)
				(void)bob_opens(pair, heard);
			else
				ripc_poll(to->ctx);
		}
	}
}

/* The packet is encrypted now; pass_all() hands it over. */
static void bob_seals(struct pair *pair, struct wire_packet *packet)
{
	struct device *device = device_of(pair, BOB);
	uint8_t plain[WIRE_HEADER_MAX];
	struct iovec iov = {plain, 0};
	struct ripc__tx tx = {&iov, 1, 0};

	packet->h.src = ASKED_BY;
	packet->h.dst = ripc_service_incarnation(pair->svc);
	iov.iov_len = wire_encode(plain, packet, NULL, NULL);
	tx.len = (uint32_t)iov.iov_len;
	wire_checksum(plain, iov.iov_len, 0);
	(void)device->ops->datagrams.send(device->port, pair->route, &tx, 1);
}

static void bob_greets(struct pair *pair, uint64_t proof, struct wire_packet *heard)
{
	struct wire_packet hello = {.h = {.type = WIRE_HELLO_ONLY, .flags = WIRE_F_HELLO},
		.hello = {.token = TOKEN, .service = 0x5e41, .proof = proof, .unasked = 65536,
			.context = pair->ends[BOB].ctx->incarnation,
			.to_service = ripc_service_id(pair->svc)}};

	bob_seals(pair, &hello);
	pass_all(pair, heard);
}

static void bob_echoes(struct pair *pair)
{
	struct wire_packet echo = {.h = {.type = WIRE_ECHO, .token = pair->token}, .stamp = 1};
	struct wire_packet heard = {0};

	bob_seals(pair, &echo);
	pass_all(pair, &heard);
	ck_assert_int_eq(heard.h.type, WIRE_ECHO_REPLY);
}

/* BOB refuses a packet of ALICE that bore his token. */
static void bob_refuses(struct pair *pair)
{
	struct wire_packet refusal = {.h = {.type = WIRE_ABORT, .token = TOKEN},
		.value = WIRE_REFUSED};

	bob_seals(pair, &refusal);
}

static void pair_open(struct pair *pair)
{
	static const uint8_t secret[32] = {1}, privates[ENDS][32] = {{2}, {3}};

	for (int i = 0; i < ENDS; i++) {
		ck_assert(key_end_dir_make(pair->dirs[i], privates[i], secret));
		ck_assert_int_eq(key_end_open(&pair->ends[i], pair->dirs[i], (uint8_t)(i + 1),
			ripc__crypto_load), 0);
	}
	ck_assert_int_eq(ripc_service_open(pair->ends[ALICE].ctx, 0, 0, &pair->svc), 0);
}

/* A session, a proof, and the tokens. */
static struct partner *pair_meet(struct pair *pair)
{
	const struct device *alice = device_of(pair, ALICE), *bob = device_of(pair, BOB);
	uint8_t blob[RIPC_ADDR_MAX];
	int len = alice->ops->net.address(alice->port, blob);
	struct wire_packet heard = {0};
	struct ripc__addr addr;

	ck_assert_int_eq(bob->ops->route.choose(bob->port, blob, (size_t)len,
		pair->ends[ALICE].addr.host, &addr), 0);
	ck_assert_int_eq(bob->ops->route.open(bob->port, pair->route, &addr), -EINPROGRESS);
	pass_all(pair, &heard);
	bob_greets(pair, 0, &heard);
	ck_assert_int_eq(heard.h.type, WIRE_RETRY);
	bob_greets(pair, heard.value, &heard);
	ck_assert_int_eq(heard.h.type, WIRE_HELLO_ONLY);
	pair->token = heard.hello.token;
	bob_echoes(pair);
	return ripc__pair_at(pair->svc, ASKED_BY, 0);
}

static void pair_pass_time(struct pair *pair, uint64_t us)
{
	for (int i = 0; i < ENDS; i++)
		pair->ends[i].ctx->now_us = pair->ends[i].now_us += us;
}

static void pair_rekey(struct pair *pair)
{
	struct member *bob = key_end_member(&pair->ends[ALICE], &pair->ends[BOB]);
	const struct session *old = bob->current;

	key_end_member(&pair->ends[BOB], &pair->ends[ALICE])->is_stale = true;
	bob_echoes(pair);
	bob_echoes(pair); /* by the new session */
	ck_assert_ptr_nonnull(old);
	ck_assert_ptr_ne(bob->current, old);
}

static void pair_close(struct pair *pair)
{
	device_of(pair, BOB)->ops->route.close(device_of(pair, BOB)->port, pair->route);
	for (int i = 0; i < ENDS; i++) {
		ck_assert_int_eq(ripc_close(pair->ends[i].ctx, 0), 0);
		key_end_dir_remove(pair->dirs[i]);
	}
}

/* A refusal that was encrypted before the last handshake ended shows that its sender lives. */
START_TEST(refusal__of_an_old_session)
{
	static struct pair pair;
	struct wire_packet heard = {0};
	struct key_datagram late;
	struct partner *partner;
	uint32_t since;

	pair_open(&pair);
	partner = pair_meet(&pair);
	ck_assert_ptr_nonnull(partner);
	bob_refuses(&pair);
	ck_assert_uint_eq(pair.ends[BOB].n_sent, 1);
	late = pair.ends[BOB].sent[0];
	pair.ends[BOB].n_sent = 0;
	pair_rekey(&pair);
	since = partner->heard;
	pair_pass_time(&pair, 10000);
	pair.ends[BOB].sent[pair.ends[BOB].n_sent++] = late;
	pass_all(&pair, &heard);
	ck_assert_uint_gt(partner->heard, since);
	ck_assert(!partner->barred && !partner->refuses);
	/* The same, encrypted since then, counts. */
	bob_refuses(&pair);
	pass_all(&pair, &heard);
	ck_assert(partner->barred && partner->refuses);
	pair_close(&pair);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {refusal__of_an_old_session, NULL};

	return suite_run("refusal", tests);
}
