/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners: how they come to be, are found, moved, and forgotten; the header that every packet to
 * a partner bears; acks that wait for a ride.
 *
 * Design notes. State for a stranger is made only for a packet with a valid address proof, and
 * is kept longer (PARTNER_IDLE_US) than any proof holds (2 * PROOF_PERIOD_US): so a late first
 * packet either finds the state it once made, with its memory of numbers, or has no valid proof
 * any more. A token dies with the state: a late packet cannot bring it back. A partner that is
 * gone stays for as long, dead: what it sent before and arrives late has no effect. A proof says
 * who lives at an address, not that what is said there is true: what a hello claims is kept
 * apart from what others claim, and the resolver is asked before it is relied on for long.
 */
#include <errno.h>
#include <stdlib.h>

#include "claim.h"
#include "core.h"
#include "crowd.h"
#include "receiving.h"
#include "returns.h"
#include "token.h"
#include "util/rare.h"

#define CLAIMED_US   1000000u /* a partner heard so lately is seldom doubted for a claim */
#define NEWS_IDLE_US 20000u /* of a partner; less than it takes to start one anew */
#define NEWS_US      1000u /* it costs a few system calls, so it is not read more often */

/* ---- making partners --------------------------------------------------------------------- */

static struct partner *partner_alloc(struct ripc_service *service, uint64_t id)
{
	struct ripc_context *ctx = service->ctx;
	struct partner *partner;

	if (ctx->stats.partners >= PARTNERS_MAX && !ripc__crowd_forget(ctx)) {
		ctx->stats.drop_partner_limit++;
		return NULL;
	}
	partner = calloc(1, sizeof(*partner));
	if (!partner)
		return NULL;
	partner->service = service;
	partner->id = id;
	partner->used_us = ctx->now_us;
	/* The partner may remember numbers from before we forgot it: none is used twice. */
	partner->short_next = partner->long_next = service->numbers + 1;
	partner->in_oldest = 1;
	partner->unasked = UNASKED_BYTES;
	list_init(&partner->outgoing);
	list_init(&partner->incoming);
	list_init(&partner->ack_node);
	if (ripc__token_give(partner)) {
		free(partner);
		return NULL;
	}
	list_append(&ctx->partners, &partner->node);
	if (ctx->stats.partners++ == 0)
		ripc__wake_for_sweep(ctx);
	return partner;
}

static void partner_free_alone(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->service->numbers < partner->short_next)
		partner->service->numbers = partner->short_next;
	if (partner->service->numbers < partner->long_next)
		partner->service->numbers = partner->long_next;
	list_remove(&partner->node);
	ripc__corked_forget(partner);
	list_remove(&partner->ack_node);
	ctx->stats.partners--;
	ripc__token_take_back(partner);
	free(partner->reasons);
	free(partner);
}

/* Gives a partner its incarnation and its peer. */
static int partner_attach(struct partner *partner, uint64_t incarnation, struct peer *peer)
{
	int error;

	partner->incarnation = incarnation;
	error = ripc__pair_insert(partner);
	if (error)
		return error;
	partner->peer = peer;
	partner->state = PARTNER_HELLO;
	return 0;
}

/* The partner is whom its ID means from now on. */
int ripc__partner_make_current(struct partner *partner)
{
	int error = ripc__map_put(&partner->service->partners, partner->id, partner);

	partner->service->recent = NULL;
	if (!error)
		partner->current = true;
	return error;
}

void ripc__partner_unmake_current(struct partner *partner)
{
	if (partner->current)
		ripc__map_remove(&partner->service->partners, partner->id);
	partner->current = false;
	partner->service->recent = NULL;
}

static void incoming_forget_all(struct partner *partner)
{
	while (!list_empty(&partner->incoming))
		ripc__incoming_forget(list_entry(partner->incoming.next, struct incoming, node));
}

void ripc__partner_free(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	ripc__claim_forget(partner);
	incoming_forget_all(partner);
	ripc__offers_forget(partner);
	ripc__permits_leave(partner);
	ripc__partner_unmake_current(partner);
	ripc__held_drop(partner, true);
	if (partner->peer) {
		ripc__pair_remove(partner);
		ripc__peer_put(ctx, partner->peer);
	}
	partner_free_alone(partner);
}

/* A resolving partner was found. */
static int partner_found(struct partner *partner, const struct ripc__answer *answer)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct peer *peer;
	int error = ripc__route_find(ctx, answer, &peer);

	if (error)
		return error;
	error = partner_attach(partner, answer->record.incarnation, peer);
	if (error) {
		ripc__peer_put(ctx, peer);
		return error;
	}
	partner->proof = answer->proof;
	partner->resolved = true;
	return 0;
}

/* What was sent with the old one and comes late has no effect any more. Cannot fail. */
static void token_renew(struct partner *partner)
{
	ripc__token_take_back(partner);
	(void)ripc__token_give(partner); /* the slot just given back is free */
	partner->known = false;
}

/* Takes over the caller's reference. */
static void peer_replace(struct partner *partner, struct peer *peer)
{
	ripc__peer_put(partner->service->ctx, ripc__share_move(partner, peer));
	token_renew(partner);
}

/* The resolver names one that was taken for dead: it begins anew, but for its numbers. */
static int dead_found(struct partner *partner, const struct ripc__answer *answer)
{
	struct peer *peer;
	int error = ripc__route_find(partner->service->ctx, answer, &peer);

	if (error)
		return error;
	peer_replace(partner, peer);
	partner->dead = false;
	partner->resolved = true;
	partner->token_out = 0;
	partner->state = PARTNER_HELLO;
	return 0;
}

/* What waits for one partner goes to another that stands for the same ID. */
static void hand_over(struct partner *from, struct partner *to)
{
	to->held = to->held ? to->held : from->held;
	if (to->held != from->held)
		ripc__held_drop(from, true);
	from->held = NULL;
	ripc__outgoing_unblock(from);
	list_for_each_safe(node, &from->outgoing) {
		struct outgoing *outgoing = list_entry(node, struct outgoing, node);

		ripc__outgoing_unlink(outgoing);
		ripc__outgoing_link(outgoing, to);
	}
}

/*
 * The resolver's answer makes a partner of what was only an ID, or names one that we know, as it
 * has spoken to us before we asked: it may have to show yet that it lives there.
 */
static int partner_find(struct partner **partner, const struct ripc__answer *answer)
{
	struct partner *known = ripc__claim_named((*partner)->service, (*partner)->id, answer);
	int error;

	if (!known)
		return partner_found(*partner, answer);
	error = known->dead ? dead_found(known, answer) : 0;
	if (error)
		return error;
	ripc__partner_unmake_current(*partner);
	error = ripc__partner_make_current(known);
	if (error)
		return error;
	hand_over(*partner, known);
	known->suspect = false;
	ripc__partner_free(*partner);
	*partner = known;
	ripc__claim_judge(known, answer);
	return 0;
}

/* An answer for a partner that was only an ID so far. */
static void resolving_answered(struct partner *partner, int status,
		const struct ripc__answer *answer)
{
	status = ripc__death_reask(partner, status, &answer);
	if (status == -EINPROGRESS)
		return;
	if (status || (status = partner_find(&partner, answer))) {
		ripc__outgoing_lost(partner, status, UINT64_MAX);
		ripc__partner_free(partner);
		return;
	}
	ripc__held_send(partner);
	ripc__outgoing_advance(partner);
}

bool ripc__partner_settled(struct partner *partner)
{
	if (!partner->peer || (partner->resolved && !partner->suspect))
		return true;
	return ripc__claim_settled(partner);
}

/* An answer for a partner of whom we heard that it moved, or only by its own hello. */
static void suspect_resolved(struct partner *partner, int status,
		const struct ripc__answer *answer)
{
	ripc__claim_answered(partner, status, answer);
	ripc__outgoing_advance(partner);
}

void ripc__partner_resolved(struct ripc_context *ctx, uint64_t id, int status,
		const struct ripc__answer *answer)
{
	ctx->changed = true;
	list_for_each_safe(node, &ctx->services) {
		struct ripc_service *service = list_entry(node, struct ripc_service, node);
		struct partner *partner = ripc__map_get(&service->partners, id);

		if (!partner)
			continue;
		if (partner->state == PARTNER_RESOLVING)
			resolving_answered(partner, status, answer);
		else if (partner->suspect || !partner->resolved)
			suspect_resolved(partner, status, answer);
	}
}

static int resolve(struct partner **partner)
{
	struct ripc_context *ctx = (*partner)->service->ctx;
	const struct ripc__answer *answer;
	int status = ripc__resolver_lookup(ctx->resolver, (*partner)->id, ctx->now_us, &answer);

	status = ripc__death_reask(*partner, status, &answer);
	return status == -EINPROGRESS ? 0 : status ? status : partner_find(partner, answer);
}

/* Whom the ID means, or NULL; often the same as before. */
static struct partner *current_of(struct ripc_service *service, uint64_t id)
{
	if (!service->recent || service->recent->id != id)
		service->recent = ripc__map_get(&service->partners, id);
	return service->recent;
}

int ripc__partner_for_send(struct ripc_service *service, uint64_t id, struct partner **partner_out)
{
	struct partner *partner = current_of(service, id);
	int error;

	if (service->closing)
		return -ESHUTDOWN;
	if (partner && !ripc__partner_settled(partner))
		partner = current_of(service, id);
	if (partner) {
		*partner_out = partner;
		return 0;
	}
	partner = partner_alloc(service, id);
	if (!partner)
		return -ENOMEM;
	error = ripc__partner_make_current(partner);
	error = error ? error : resolve(&partner);
	if (error) {
		ripc__partner_free(partner);
		return error;
	}
	*partner_out = partner;
	return 0;
}

/* Reads what the resolver's sources have brought. Returns how much that was. */
static int news_read(struct ripc_context *ctx)
{
	ctx->resolver_us = ctx->now_us;
	return ripc__resolver_step(ctx->resolver, ctx->now_us);
}

/*
 * Whoever registers an ID says so, but that may not have been read when a call needs to know who
 * has it. So it is read before a call fails because nobody had the ID a moment ago, and before one
 * goes to a partner that was not used for a while: it may have been started anew. Only for calls
 * of the application, since what is read can end partners and sends.
 */
static RIPC__RARE int find_for_call(struct ripc_service *service, uint64_t id,
		struct partner **partner)
{
	struct ripc_context *ctx = service->ctx;
	int error = ripc__partner_for_send(service, id, partner);
	bool asks = error ? error == -ENOENT : ctx->now_us - ctx->resolver_us >= NEWS_US &&
		ctx->now_us - (*partner)->used_us >= NEWS_IDLE_US;

	if (asks && news_read(ctx) > 0)
		error = ripc__partner_for_send(service, id, partner);
	return error;
}

int ripc__partner_for_call(struct ripc_service *service, uint64_t id, struct partner **partner_out)
{
	struct partner *partner = current_of(service, id);

	/* Most often there is no doubt whom the ID means. */
	if (!partner || partner->suspect || !partner->resolved || service->closing ||
			service->ctx->now_us - partner->used_us >= NEWS_IDLE_US)
		return find_for_call(service, id, partner_out);
	*partner_out = partner;
	return 0;
}

/* Another one claims its ID: is it still there? Asked for now and then, or after a silence. */
static void doubt(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t silence = (uint32_t)(ctx->now_us >> 10) - partner->heard;

	if (partner->resolved && (silence >= CLAIMED_US >> 10 || ripc__claim_may_ask(ctx)))
		ripc__partner_suspect(partner);
}

int ripc__partner_accept(struct ripc_service *service, struct device *device,
		const struct wire_packet *packet, const struct ripc__addr *from,
		struct partner **partner_out)
{
	struct ripc_context *ctx = service->ctx;
	enum place place = ripc__crowd_place(ctx, from);
	struct partner *partner, *other;
	struct peer *peer;
	int error;

	if (place == PLACE_NONE) {
		ctx->stats.drop_partner_limit++;
		return -ENOMEM;
	}
	partner = partner_alloc(service, packet->hello.service);
	if (!partner)
		return -ENOMEM;
	error = ripc__peer_get(ctx, (uint8_t)(device - ctx->devices), packet->hello.context, from,
		&peer);
	if (error)
		goto err_free;
	error = partner_attach(partner, packet->h.src, peer);
	if (error)
		goto err_put_peer;
	if (place == PLACE_ON_TRIAL)
		ripc__crowd_try(partner);
	other = ripc__map_get(&service->partners, partner->id);
	if (!other)
		ripc__partner_make_current(partner); /* without memory: found by its token */
	else if (other->peer)
		doubt(other);
	if (other)
		ripc__resolver_claimed(ctx->resolver, partner->id);
	*partner_out = partner;
	return 0;
err_put_peer:
	ripc__peer_put(ctx, peer);
err_free:
	partner_free_alone(partner);
	return error;
}

void ripc__partner_hello(struct partner *partner, const struct wire_packet *packet)
{
	const struct wire_hello *hello = &packet->hello;
	bool forgot = partner->token_out && partner->token_out != hello->token;

	partner->unasked = hello->unasked < UNASKED_BYTES ? hello->unasked : UNASKED_BYTES;
	if (partner->token_out == hello->token)
		return;
	partner->token_out = hello->token;
	partner->state = PARTNER_READY;
	if (forgot)
		ripc__outgoing_again(partner, true, ripc__partner_may_repeat(partner));
	ripc__held_send(partner);
	ripc__outgoing_advance(partner);
}

bool ripc__partner_may_repeat(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint32_t apart = 1 + ripc__peer_rto(ctx, partner->peer) / TICK_US;
	uint16_t tick = (uint16_t)(ctx->now_us / TICK_US);

	if (partner->repeated_tick && (uint16_t)(tick - partner->repeated_tick) < apart)
		return false;
	partner->repeated_tick = tick ? tick : 1;
	return true;
}

void ripc__partner_touch(struct partner *partner)
{
	struct ripc_context *ctx = partner->service->ctx;

	partner->used_us = ctx->now_us;
	if (ctx->partners.prev == &partner->node)
		return;
	list_remove(&partner->node);
	list_append(&ctx->partners, &partner->node);
}

void ripc__partner_suspect(struct partner *partner)
{
	if (partner->suspect)
		return;
	partner->suspect = true;
	ripc__resolver_suspect(partner->service->ctx->resolver, partner->id, partner->incarnation);
}

void ripc__partner_retire(struct partner *partner)
{
	ripc__resolver_suspect(partner->service->ctx->resolver, partner->id, partner->incarnation);
	ripc__partner_unmake_current(partner);
	partner->suspect = false; /* what its ID means now is no longer its concern */
}

void ripc__partner_lost(struct partner *partner, int status, uint64_t gone_us)
{
	ripc__partner_retire(partner);
	ripc__partner_touch(partner);
	ripc__claim_forget(partner);
	token_renew(partner);
	partner->dead = true;
	incoming_forget_all(partner);
	ripc__offers_forget(partner);
	ripc__permits_leave(partner);
	ripc__held_drop(partner, true);
	ripc__outgoing_lost(partner, status, gone_us);
}

int ripc__partner_reroute(struct partner *partner, struct device *device,
		const struct ripc__addr *to)
{
	struct ripc_context *ctx = partner->service->ctx;
	uint8_t device_index = (uint8_t)(device - ctx->devices);
	struct peer *peer;
	int error = ripc__peer_get(ctx, device_index, partner->peer->context, to, &peer);

	if (error)
		return error;
	peer_replace(partner, peer);
	return 0;
}

void ripc__partner_revive(struct partner *partner)
{
	partner->dead = partner->resolved = partner->rechecked = false;
	if (!ripc__map_get(&partner->service->partners, partner->id))
		ripc__partner_make_current(partner); /* without memory: found by its token */
}

/* It has understood nothing of what we sent: that was certainly not delivered. */
void ripc__partner_aborted(struct partner *partner)
{
	if (list_empty(&partner->outgoing) && !partner->held)
		return; /* nothing is told twice */
	ripc__log(partner->service->ctx, RIPC_LOG_WARN, "service %016llx speaks another version of "
		"the protocol: sends to it fail", (unsigned long long)partner->id);
	ripc__held_drop(partner, true);
	while (!list_empty(&partner->outgoing))
		ripc__outgoing_end(list_entry(partner->outgoing.next, struct outgoing, node),
			RIPC_NOT_DELIVERED, -EPROTONOSUPPORT);
}

/* Forgets partners that have been idle for so long that no packet of theirs can be under way. */
void ripc__partners_sweep(struct ripc_context *ctx)
{
	ctx->next_sweep_us = ctx->now_us + PARTNER_IDLE_US / 16;
	list_for_each_safe(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		if (ctx->now_us - partner->used_us < PARTNER_IDLE_US)
			return;
		if (list_empty(&partner->outgoing) && list_empty(&partner->incoming) &&
				partner->queued == 0)
			ripc__partner_free(partner);
		else
			ripc__partner_touch(partner);
	}
}

size_t ripc__partners_bytes(struct ripc_context *ctx)
{
	size_t bytes = ctx->n_slots * (sizeof(*ctx->slots) + sizeof(*ctx->slot_stack)) +
		ripc__map_bytes(&ctx->partners_by_pair) + ripc__peers_bytes(ctx);

	list_for_each(node, &ctx->services)
		bytes += ripc__map_bytes(&list_entry(node, struct ripc_service, node)->partners);
	list_for_each(node, &ctx->partners) {
		struct partner *partner = list_entry(node, struct partner, node);

		bytes += sizeof(*partner) + (partner->reasons ? 64 : 0) + ripc__held_bytes(partner);
	}
	return bytes;
}

/* ---- packets to partners and strangers --------------------------------------------------- */

void ripc__partner_header_bare(struct partner *partner, struct wire_packet *packet, uint8_t type)
{
	struct wire_header *h = &packet->h;

	h->version = WIRE_VERSION;
	h->type = type;
	h->src = partner->service->incarnation;
	h->dst = partner->incarnation;
	h->token = partner->token_out;
}

/* The pending ack. It also speaks for all that were delivered shortly before. */
static struct wire_ack ack_take(struct partner *partner)
{
	struct wire_ack ack = {.number = partner->ack_number, .status = partner->ack_status};
	int64_t shift = (int64_t)(partner->in_oldest + 64 - ack.number);

	if (shift >= 0 && shift < 64)
		ack.also = partner->in_delivered << shift;
	else if (shift < 0 && shift > -64)
		ack.also = partner->in_delivered >> -shift;
	partner->ack_number = 0;
	list_remove(&partner->ack_node);
	return ack;
}

void ripc__partner_header(struct partner *partner, struct wire_packet *packet, uint8_t type)
{
	struct ripc_service *service = partner->service;
	struct ripc_context *ctx = service->ctx;
	struct wire_header *h = &packet->h;

	ripc__partner_header_bare(partner, packet, type);
	if (packet->lends)
		h->flags |= WIRE_F_LENDS;
	if (packet->replies)
		h->flags |= WIRE_F_REPLIES;
	if (packet->n_returns)
		h->flags |= WIRE_F_RETURNS;
	if ((!partner->known || !partner->token_out) && type != WIRE_DATA) {
		h->flags |= WIRE_F_HELLO;
		packet->hello = (struct wire_hello){.token = partner->token_in,
			.service = service->id, .context = ctx->incarnation,
			.to_service = partner->id, .proof = partner->proof,
			.unasked = ctx->held_max[SHARE_CREDIT] / 8 < UNASKED_BYTES ?
				(uint32_t)(ctx->held_max[SHARE_CREDIT] / 8) : UNASKED_BYTES};
	}
	if (partner->ack_number && type != WIRE_DATA && type != WIRE_ANSWER) {
		h->flags |= WIRE_F_ACK;
		packet->ack = ack_take(partner);
		ripc__point(ctx, "after_done");
	}
	ripc__stamps_put(ctx, partner->peer, packet);
}

int ripc__partner_send(struct partner *partner, struct wire_packet *packet)
{
	struct ripc_context *ctx = partner->service->ctx;
	struct device *device = ripc__peer_device(ctx, partner->peer);
	uint8_t bytes[WIRE_PREFIX_MAX + 16 * WIRE_HOLES_MAX];
	struct iovec iov = {.iov_base = bytes};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1};
	int n;

	iov.iov_len = wire_encode(bytes, packet, NULL, NULL);
	ripc__seal(device, bytes, iov.iov_len, 0);
	tx.len = (uint32_t)iov.iov_len;
	n = ripc__partner_transmit(partner, &tx, 1);
	return n == 1 ? 0 : n == 0 ? -EAGAIN : n;
}

/* A bucket of 1,000 that fills at 5,000 a second: what strangers can make us send. */
static bool stranger_allowed(struct ripc_context *ctx)
{
	uint64_t gained = (ctx->now_us - ctx->stranger_us) / 200;

	if (gained) {
		ctx->stranger_tokens += gained;
		ctx->stranger_us = ctx->now_us;
	}
	if (ctx->stranger_tokens > 1000)
		ctx->stranger_tokens = 1000;
	if (ctx->stranger_tokens == 0)
		return false;
	ctx->stranger_tokens--;
	return true;
}

void ripc__stranger_send(struct ripc_context *ctx, struct device *device,
		const struct ripc__addr *to, struct wire_packet *packet, uint32_t received_len)
{
	_Alignas(16) char route[256] = {0};
	uint8_t bytes[WIRE_HEADER_MAX + 64];
	struct iovec iov = {.iov_base = bytes};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1};
	int error;

	packet->h.version = WIRE_VERSION;
	iov.iov_len = wire_encode(bytes, packet, NULL, NULL);
	ripc__seal(device, bytes, iov.iov_len, 0);
	tx.len = (uint32_t)iov.iov_len;
	if (tx.len > received_len || device->ops->peer_size > sizeof(route) ||
			!stranger_allowed(ctx))
		return;
	error = device->ops->peer_open(device->port, route, to);
	if (error && error != -EINPROGRESS)
		return;
	/* While the way is looked for the backend may keep this one. */
	if (device->ops->send(device->port, route, &tx, 1) == 1)
		ctx->stats.datagrams_sent++;
	device->ops->peer_close(device->port, route);
}

/* ---- acks -------------------------------------------------------------------------------- */

static void ack_send(struct partner *partner)
{
	struct wire_packet packet = {.ack = ack_take(partner)};

	packet.h.number = packet.ack.number;
	ripc__partner_header(partner, &packet, WIRE_ANSWER);
	ripc__partner_send(partner, &packet);
	ripc__point(partner->service->ctx, "after_done");
}

void ripc__ack_queue(struct partner *partner, uint64_t number, int status)
{
	struct ripc_context *ctx = partner->service->ctx;

	if (partner->ack_number && status == 0) {
		if (partner->ack_number < number)
			partner->ack_number = number;
		return;
	}
	if (partner->ack_number)
		ack_send(partner);
	partner->ack_number = number;
	partner->ack_status = (uint16_t)-status;
	if (list_empty(&ctx->acks))
		ctx->acks_due_us = ctx->now_us + ACK_DELAY_US;
	list_append(&ctx->acks, &partner->ack_node);
	if (status)
		ack_send(partner);
}

void ripc__acks_flush(struct ripc_context *ctx)
{
	while (!list_empty(&ctx->acks))
		ack_send(list_entry(ctx->acks.next, struct partner, ack_node));
}
