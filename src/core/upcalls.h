/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Upcalls: a room calls rooms above it when something changes below. Each upcall is called at once,
 * before the change goes on. engine/upcalls.c has the table.
 */
#ifndef RIPC_UPCALLS_H
#define RIPC_UPCALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct fence;
struct message;
struct numbers;
struct outgoing;
struct partner;
struct peer;
struct ripc__event;
struct ripc_context;
struct wire_packet;

struct upcalls {
	/* From peer: a peer is in ctx->peers, but has no partner yet; its last partner has gone. */
	void (*peer_met)(struct ripc_context *ctx, struct peer *peer);
	void (*peer_left)(struct ripc_context *ctx, struct peer *peer);

	/* From partner. The first partner came: a sleeper learns when idle partners must go. */
	void (*first_partner)(struct ripc_context *ctx);
	/* Takes in all that has come. False: a reader sleeps in a port, and is woken first. */
	bool (*ports_drain)(struct ripc_context *ctx);
	/* The partner can be sent to; forgot: it does not know what was sent to it before. */
	void (*partner_ready)(struct partner *partner, bool forgot);
	/* Shorts that were held for the partner are sent; long messages that wait begin. */
	void (*shorts_go)(struct partner *partner);
	void (*longs_go)(struct partner *partner);
	/* The partner has another route, or its route is open now. */
	void (*route_ready)(struct partner *partner);
	/* With keys: a handshake has ended, as event (RIPC_EV_PEER) says. */
	void (*handshake_ended)(struct ripc_context *ctx, struct device *device,
			const struct ripc__event *event);
	/* From keys: the directory is to be read again; rights have changed. */
	void (*keys_reread)(struct ripc_context *ctx);
	void (*rights_changed)(struct ripc_context *ctx);
	/* Messages that wait for from go to to, which stands for the same ID. */
	void (*partner_merged)(struct partner *from, struct partner *to);
	/* The partner's ID means another partner, or none. */
	void (*partner_passed_by)(struct partner *partner);
	/* The partner has been gone since gone_us: what became of its messages? */
	void (*partner_lost)(struct partner *partner, int status, uint64_t gone_us);
	/* As partner_lost, for a partner of which only the ID was known. */
	void (*sends_lost)(struct partner *partner, int status, uint64_t gone_us);
	/* The streams of from to groups are those of to. */
	void (*streams_move)(struct partner *from, struct partner *to);
	/* The partner is about to be freed; nothing is being sent to it. */
	void (*partner_forgotten)(struct partner *partner);
	/* No message in progress to the partner was delivered, or will be. */
	void (*sends_fail)(struct partner *partner, int status);
	/* The partner goes to another peer: its unread messages and its streams count there. */
	void (*shares_release)(struct partner *partner);
	void (*shares_hold)(struct partner *partner);
	/* Memory of messages that wait for the partner, bytes. */
	size_t (*waiting_bytes)(const struct partner *partner);

	/* From message. A message of MESSAGE_OUTGOING is handed out; is freed. */
	void (*sent_handed)(struct message *message);
	void (*sent_freed)(struct message *message);
	/* The partner refuses the short of this number. */
	void (*short_refused)(struct partner *partner, uint64_t number);
	/* Does a question to the partner wait for the answer that names this ID? */
	bool (*call_is_open)(const struct partner *partner, uint64_t id);
	/* The answer to a question has come from the partner: takes the message. */
	void (*answer_came)(struct partner *partner, struct message *message);
	/* The sending of a question has ended. */
	void (*question_ended)(struct outgoing *outgoing);
	/* A message to a member of a group has ended, and its items are free. */
	void (*delivery_ended)(struct outgoing *outgoing);
	/* The member has been silent about it for a while. */
	void (*delivery_silent)(const struct outgoing *outgoing);
	/* The application has freed a message of MESSAGE_GROUP. */
	void (*fanout_told)(struct message *message);
	/* The application has freed a message of MESSAGE_CALL; of MESSAGE_WATCH. */
	void (*call_told)(struct message *message);
	void (*watch_told)(struct message *message);
	/* An answer was parked until its return buffers were closed; now it is input again. */
	void (*parked_comes)(struct partner *partner, const struct wire_packet *packet);
	/*
	 * From receive. A copy of a short that also went to many has come: its number in the
	 * stream, and which have come there. NULL: no stream of the partner will be heard.
	 */
	struct numbers *(*copy_came)(struct partner *partner, const struct wire_packet *packet,
			uint64_t *number);
	/* From group. The device has a second descriptor to sleep on. */
	void (*port_widened)(struct ripc_context *ctx, const struct device *device);
	/* The network is done with the memory of a message. */
	void (*fence_lifted)(struct fence *fence);
};

/* The upcalls of this library's rooms. */
extern const struct upcalls ripc__upcalls;

#endif
