/* SPDX-License-Identifier: BSD-3-Clause */
/* See member.h: the tables of members and sessions, and what is forgotten when. */
#include "member.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "handshake.h"
#include "util/hash/siphash.h"

#define SWEEP_US 10000000u

static uint64_t name_of(const struct seal *seal, const uint8_t key[32], uint64_t context)
{
	uint8_t both[40];

	memcpy(both, key, 32);
	memcpy(both + 32, &context, 8);
	return ripc__siphash(seal->ctx->secret, both, sizeof(both));
}

struct member *ripc__member_by_number(const struct seal *seal, uint64_t number)
{
	return ripc__map_get(&seal->numbers, number);
}

static void member_free(struct seal *seal, struct member *member)
{
	ripc__handshake_end(seal, member);
	ripc__session_end(seal, &member->current);
	ripc__session_end(seal, &member->previous);
	ripc__session_end(seal, &member->next);
	ripc__map_remove(&seal->members, member->name);
	ripc__map_remove(&seal->numbers, member->number);
	list_remove(&member->opened);
	list_remove(&member->node);
	seal->n_idle -= member->routes == 0;
	free(member->rights);
	free(member);
}

static struct member *member_new(struct seal *seal, const uint8_t key[32], uint64_t context)
{
	struct member *member;

	if (seal->n_idle >= MEMBERS_IDLE)
		member_free(seal, list_entry(seal->idle.next, struct member, node));
	member = calloc(1, sizeof(*member));
	if (!member)
		return NULL;
	member->context = context;
	memcpy(member->key, key, 32);
	member->name = name_of(seal, key, context);
	member->number = ++seal->last_number;
	list_init(&member->opened);
	list_init(&member->node);
	if (ripc__private_bits(&seal->box, key, &member->private_bits) ||
			ripc__map_put(&seal->members, member->name, member))
		goto err_free;
	if (ripc__map_put(&seal->numbers, member->number, member))
		goto err_remove;
	list_append(&seal->idle, &member->node);
	seal->n_idle++;
	return member;
err_remove:
	ripc__map_remove(&seal->members, member->name);
err_free:
	free(member);
	return NULL;
}

struct member *ripc__member_get(struct seal *seal, const uint8_t key[32], uint64_t context)
{
	struct member *member = ripc__map_get(&seal->members, name_of(seal, key, context));

	if (!member)
		return member_new(seal, key, context);
	/* Two keys of one name: 64 bits under our secret say that this does not happen. */
	if (member->context != context || !ripc__is_equal(member->key, key, 32))
		return NULL;
	if (!member->routes) {
		list_remove(&member->node);
		list_append(&seal->idle, &member->node);
	}
	return member;
}

void ripc__member_hold(struct seal *seal, struct member *member)
{
	if (member->routes++)
		return;
	list_remove(&member->node);
	list_append(&seal->used, &member->node);
	seal->n_idle--;
}

void ripc__member_drop(struct seal *seal, struct member *member)
{
	if (--member->routes)
		return;
	list_remove(&member->node);
	list_append(&seal->idle, &member->node);
	seal->n_idle++;
}

void ripc__member_tell(struct sealed_net *net, struct member *member, int status)
{
	member->net = net;
	member->due |= sealed_net_bit(net);
	member->statuses[net - net->seal->nets] = status;
	if (list_empty(&member->opened))
		list_append(&net->seal->opened, &member->opened);
}

void ripc__member_tell_all(struct seal *seal, struct member *member, uint8_t nets, int status)
{
	for (uint32_t i = 0; i < seal->n_nets; i++) {
		if (nets >> i & 1 && seal->nets[i].port)
			ripc__member_tell(&seal->nets[i], member, status);
	}
}

/* ---- sessions ---------------------------------------------------------------------------- */

static bool is_fresh(const struct seal *seal, const struct session *session)
{
	return seal->ctx->now_us - session->born_us < REJECT_US && session->sent < REJECT_COUNT;
}

bool ripc__member_is_ready(const struct seal *seal, const struct member *member)
{
	return member->current && is_fresh(seal, member->current);
}

uint32_t ripc__index_draw(struct seal *seal)
{
	uint32_t index;

	do
		index = (uint32_t)ripc__nonce(seal->ctx);
	while (!index || ripc__map_get(&seal->sessions, index) ||
			ripc__map_get(&seal->handshakes, index));
	return index;
}

struct session *ripc__session_make(struct seal *seal, struct member *member, uint32_t index,
		const struct noise_keys *keys, bool is_initiator)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->member = member;
	session->serial = ++seal->last_serial;
	session->born_us = seal->ctx->now_us;
	session->index = index;
	session->is_initiator = is_initiator;
	memcpy(session->send_key, is_initiator ? keys->initiator : keys->responder, 32);
	memcpy(session->receive_key, is_initiator ? keys->responder : keys->initiator, 32);
	if (ripc__map_put(&seal->sessions, index, session) == 0)
		return session;
	ripc__session_wipe(&seal->ciphers, session);
	free(session);
	return NULL;
}

void ripc__session_end(struct seal *seal, struct session **at)
{
	struct session *session = *at;

	if (!session)
		return;
	ripc__map_remove(&seal->sessions, session->index);
	ripc__session_wipe(&seal->ciphers, session);
	free(session);
	*at = NULL;
}

void ripc__session_confirm(struct sealed_net *net, struct session *session)
{
	struct member *member = session->member;
	struct seal *seal = net->seal;

	if (member->next != session)
		return;
	ripc__session_end(seal, &member->previous);
	member->previous = member->current;
	member->current = session;
	member->next = NULL;
	ripc__member_tell(net, member, 0);
}

/* ---- forgetting -------------------------------------------------------------------------- */

static void old_end(struct seal *seal, struct session **session)
{
	if (*session && !is_fresh(seal, *session))
		ripc__session_end(seal, session);
}

static void sweep_list(struct seal *seal, struct list *members)
{
	list_for_each_safe(node, members) {
		struct member *member = list_entry(node, struct member, node);

		old_end(seal, &member->current);
		old_end(seal, &member->previous);
		old_end(seal, &member->next);
		if (!member->routes && !member->current && !member->next && !member->handshake)
			member_free(seal, member);
	}
}

static void sweep(void *owner, struct ripc__timer *timer)
{
	struct seal *seal = list_entry(timer, struct seal, sweep);

	(void)owner;
	sweep_list(seal, &seal->idle);
	sweep_list(seal, &seal->used);
	ripc__timer_set(&seal->ctx->timers, timer, seal->ctx->now_us + SWEEP_US);
}

void ripc__members_open(struct seal *seal)
{
	uint64_t seed = ripc__nonce(seal->ctx);

	ripc__map_init(&seal->sessions, seed);
	ripc__map_init(&seal->handshakes, seed);
	ripc__map_init(&seal->members, seed);
	ripc__map_init(&seal->numbers, seed);
	list_init(&seal->idle);
	list_init(&seal->used);
	list_init(&seal->opened);
	seal->sweep.fire = sweep;
	ripc__timer_set(&seal->ctx->timers, &seal->sweep, seal->ctx->now_us + SWEEP_US);
}

void ripc__members_close(struct seal *seal)
{
	ripc__timer_dismiss(seal->ctx, &seal->sweep);
	while (!list_empty(&seal->idle))
		member_free(seal, list_entry(seal->idle.next, struct member, node));
	while (!list_empty(&seal->used))
		member_free(seal, list_entry(seal->used.next, struct member, node));
	ripc__map_free(&seal->sessions);
	ripc__map_free(&seal->handshakes);
	ripc__map_free(&seal->members);
	ripc__map_free(&seal->numbers);
}

size_t ripc__members_bytes(const struct seal *seal)
{
	return (size_t)seal->members.count * sizeof(struct member) +
		(size_t)seal->sessions.count * sizeof(struct session) +
		ripc__map_bytes(&seal->sessions) + ripc__map_bytes(&seal->members) +
		ripc__map_bytes(&seal->numbers);
}
