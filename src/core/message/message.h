/* SPDX-License-Identifier: BSD-3-Clause */
/* A message in a queue, or with the application. */
#ifndef RIPC_MESSAGE_H
#define RIPC_MESSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/peer/devices.h"
#include "ripc/ripc.h"
#include "util/list.h"

struct outgoing;
struct partner;
struct ripc_context;
struct ripc_service;
struct wire_packet;

#define SPARE_BYTES        2048u  /* size of a message that is kept for the next short */
#define SPARES_MAX         16u

/* A message in a service's queue or with the application. */
struct message {
	struct ripc_msg public;
	struct list node;
	struct ripc_context *ctx;
	struct partner *partner; /* while queued: its sender; NULL: the message is ours */
	struct quota quota;     /* memory that this message counts against that partner, */
	enum share share;        /* and of which share */
	enum { MESSAGE_POOL, MESSAGE_OUTGOING, MESSAGE_CALL, MESSAGE_WATCH, MESSAGE_GROUP,
		MESSAGE_BUILTIN } home;
	bool items_in_pool, mapped; /* each item IN_POOL is a buffer of its own; items are mapped */
	bool queued;         /* _WATCH, _BUILTIN: in the queue or with the application */
	bool again;          /* _BUILTIN: the same notice is due when the application frees this */
	bool spare;          /* MESSAGE_POOL: of the size that ctx->messages.spares keeps */
};

/*
 * A message in one pool block; NULL: no memory. _whole: with the lengths of the packet's items; the
 * caller copies the payload to the first item.
 */
struct message *ripc__message_alloc(struct ripc_context *ctx, uint32_t n_items, bool places);
struct message *ripc__message_whole(struct ripc_context *ctx, const struct wire_packet *packet);
/*
 * Marks the message as a request, as a reply, or as a message to a group, according to the packet.
 * The field "reply" of a reply is the ID of its request.
 */
void ripc__message_is_call(struct message *message, const struct wire_packet *packet);
/* The context closes: frees the kept messages. No others are kept from now on. */
void ripc__spares_free(struct ripc_context *ctx);
/* Keeps a freed short for the next one. False: there is no room. Needs no lock. */
bool ripc__message_keep(struct message *message);
/*
 * Frees the items of a message of home MESSAGE_POOL, and keeps the message for the next one. False:
 * there is no room, and the message's own block must still be freed. Needs the lock.
 */
bool ripc__message_spare(struct message *message);
/* Frees a message of home MESSAGE_POOL; a message of any home. Both with the lock. */
void ripc__message_free_pool(struct message *message);
void ripc__message_free(struct message *message);

/* ---- ends -------------------------------------------------------------------------------- */

/* The ends of sends and calls with RIPC_AWAITED, which only ripc_receive_end() delivers. */

/* The awaited sends and calls of a service. */
struct ends {
	struct list arrived;     /* messages: ends that the application has not taken */
	uint64_t *cookies;       /* cookies whose end was not taken, in no order; or NULL */
	uint32_t n_cookies, room;
};

void ripc__ends_init(struct ends *ends);
/* A send or call with this cookie is about to begin. -ENOMEM */
int ripc__ends_add(struct ends *ends, uint64_t cookie);
/* The send or call has not begun after all. */
void ripc__ends_remove(struct ends *ends, uint64_t cookie);
/* Is there a send or call with this cookie whose end was not taken? */
bool ripc__ends_has(const struct ends *ends, uint64_t cookie);
/* The COMPLETION or REPLY goes to ripc_receive_end() if it is awaited, else to ripc_receive(). */
void ripc__end_report(struct ripc_service *service, struct message *message, bool is_awaited);
/* The end of the send or call with this cookie, which is not taken. NULL: no end has come yet. */
struct message *ripc__ends_find(const struct ends *ends, uint64_t cookie);
/* Takes an end that was found: the application owns it now. */
void ripc__ends_take(struct ripc_service *service, struct message *message);
/* The service ends: moves the ends to its queue, with which they are freed. */
void ripc__ends_close(struct ripc_service *service);

/* ---- fence ------------------------------------------------------------------------------- */

/* Memory that the network may still use. */

/*
 * Memory of a message that the network may still use. The message's outcome is not reported until
 * the network is done. A fence is the first member of the object that has the memory, and is freed
 * with that object.
 */
struct fence {
	struct list node; /* outgoing->fencing */
	struct outgoing *outgoing;
};

/* ---- mapped ------------------------------------------------------------------------------ */

/*
 * Transferred buffers (RIPC_GIVE) on networks that can map them: buffers of partners, which the
 * application reads in place, and buffers of ours that partners hold.
 */

/* Maps the transferred items, and makes their message; NULL: the items must be read. */
struct message *ripc__mapped_message(struct partner *partner, const struct wire_packet *announce);
/* Before the devices close: gives back the buffers that are still held. */
void ripc__mapped_close(struct ripc_context *ctx);
/*
 * Checks that the items can be transferred: each must lie in a buffer of the pool, or in a mapped
 * one, which has a reference for each item in it; else -EINVAL.
 */
int ripc__buffers_check(struct ripc_context *ctx, const struct iovec *items, uint32_t n);
/* Takes a reference for each item, or none at all: -EOVERFLOW, -EINVAL. Drops one for each. */
int ripc__buffers_ref(struct ripc_context *ctx, const struct iovec *items, uint32_t n);
void ripc__buffers_free(struct ripc_context *ctx, const struct iovec *items, uint32_t n);
/* Takes, or drops, a reference to a buffer of the pool or to a mapped buffer. */
int ripc__buffer_ref(struct ripc_context *ctx, const void *buf);
int ripc__buffer_free(struct ripc_context *ctx, const void *buf);

/* The messages of a context. */
struct messages {
	struct list mapped;        /* memory of partners (mapped.c) */
	struct list permits, offers; /* returns.h */
	uint32_t n_offers;
	struct list spares;        /* free messages of SPARE_BYTES: most shorts fit */
	uint32_t n_spares, spares_missed;
	_Atomic(struct message *) freed; /* one more, stored without the lock; or NULL */
	atomic_bool has_refs;      /* messages may have several references: none is kept */
};

#endif
