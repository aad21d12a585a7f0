/* SPDX-License-Identifier: BSD-3-Clause */
/* What rooms above do when something changes in a room below (core/upcalls.h). */
#include "core/call/call.h"
#include "core/call/watch.h"
#include "core/group/fanout.h"
#include "core/group/heard.h"
#include "core/message/message.h"
#include "core/message/queue.h"
#include "core/message/returns.h"
#include "core/partner/death.h"
#include "core/partner/partner.h"
#include "core/partner/roam.h"
#include "core/peer/peer.h"
#include "core/receive/incoming.h"
#include "core/receive/short.h"
#include "core/send/announce.h"
#include "core/send/order.h"
#include "core/send/outgoing.h"
#include "core/send/short.h"
#include "core/upcalls.h"
#include "core/wire/wire.h"
#include "internal.h"
#include "loop.h"
#include "util/list.h"
#include "wait.h"

static void peer_met(struct ripc_context *ctx, struct peer *peer)
{
	ripc__death_watch(ctx, peer->context);
}

static void peer_left(struct ripc_context *ctx, struct peer *peer)
{
	ripc__candidate_free(peer);
	ripc__follow_end(ctx, peer);
	ripc__inquiry_end(ctx, peer);
}

static void partner_ready(struct partner *partner, bool forgot)
{
	if (forgot)
		ripc__outgoing_again(partner, true, ripc__partner_may_repeat(partner));
	ripc__held_send(partner);
	ripc__outgoing_advance(partner);
	ripc__watch_ready(partner);
}

static void route_ready(struct partner *partner)
{
	ripc__held_send(partner);
	ripc__outgoing_hasten(partner);
	ripc__outgoing_advance(partner);
}

static void received_forget(struct partner *partner)
{
	while (!list_empty(&partner->incoming))
		ripc__incoming_forget(list_entry(partner->incoming.next, struct incoming, node));
	ripc__offers_forget(partner);
	ripc__permits_leave(partner);
	ripc__held_drop(partner, true);
}

static void partner_lost(struct partner *partner, int status, uint64_t gone_us)
{
	received_forget(partner);
	ripc__heard_lost(partner);
	ripc__outgoing_lost(partner, status, gone_us);
	ripc__calls_lost(partner);
	ripc__watch_lost(partner);
}

static void partner_forgotten(struct partner *partner)
{
	received_forget(partner);
	ripc__heard_forget(partner);
	ripc__corked_forget(partner);
	ripc__calls_lost(partner);
	if (partner->peer)
		ripc__watch_lost(partner);
}

static void shares_release(struct partner *partner)
{
	ripc__unread_release(partner);
	ripc__heard_count(partner, false);
}

static void shares_hold(struct partner *partner)
{
	ripc__unread_hold(partner);
	ripc__heard_count(partner, true);
}

/* Nobody has the ID. */
static void sends_lost(struct partner *partner, int status, uint64_t gone_us)
{
	ripc__outgoing_lost(partner, status, gone_us);
	ripc__watch_lost(partner);
}

static void passed_by(struct partner *partner)
{
	ripc__sends_pass_by(partner);
	ripc__watch_lost(partner);
}

static void parked_comes(struct partner *partner, const struct wire_packet *packet)
{
	if (packet->h.type == WIRE_SHORT)
		ripc__short_input(partner, packet);
	else
		ripc__incoming_announce(partner, packet);
}

const struct upcalls ripc__upcalls = {
	.peer_met = peer_met,
	.peer_left = peer_left,
	.first_partner = ripc__wake_for_sweep,
	.ports_drain = ripc__ports_drain,
	.partner_ready = partner_ready,
	.shorts_go = ripc__held_send,
	.longs_go = ripc__outgoing_advance,
	.route_ready = route_ready,
	.handshake_ended = ripc__handshake_ended,
	.rights_changed = ripc__rights_changed,
	.keys_reread = ripc__reread_begin,
	.partner_merged = ripc__sends_merge,
	.partner_passed_by = passed_by,
	.partner_lost = partner_lost,
	.sends_lost = sends_lost,
	.streams_move = ripc__heard_move,
	.partner_forgotten = partner_forgotten,
	.sends_fail = ripc__sends_fail,
	.shares_release = shares_release,
	.shares_hold = shares_hold,
	.waiting_bytes = ripc__held_bytes,
	.sent_handed = ripc__order_handed,
	.sent_freed = ripc__outgoing_freed,
	.short_refused = ripc__short_refused,
	.call_is_open = ripc__call_is_open,
	.answer_came = ripc__answer_came,
	.question_ended = ripc__question_ended,
	.delivery_ended = ripc__delivery_ended,
	.delivery_silent = ripc__delivery_silent,
	.fanout_told = ripc__fanout_told,
	.call_told = ripc__call_told,
	.watch_told = ripc__watch_told,
	.parked_comes = parked_comes,
	.copy_came = ripc__heard_copy,
	.port_widened = ripc__port_widened,
	.fence_lifted = ripc__fence_lift,
};
