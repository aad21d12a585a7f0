/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: one message to all services that have joined an ID.
 *
 * A group has an ID of a kind of its own (its highest byte is 0xff), which no service has. Any
 * number of services join a group, in any context and on any host, and leave it. A service that
 * sends to the group's ID, by ripc_send_short(), ripc_send_long() or ripc_sendmsg(), reaches all
 * members but itself. The sender need not be a member.
 *
 *  - A short message to a group is sent to each member as a message of its own: each member gets it
 *    at most once. The send never waits. A member that is slow, or whose queue is full, loses the
 *    message without an effect on other members. The counters of that member's context show the
 *    loss (ripc_stats_get()), or drop_send_full of the sender's, if the path to the member accepts
 *    no more. The send returns 0 if the message was sent to at least one member. A short to a group
 *    is limited to RIPC_SHORT_MIN bytes (else -EMSGSIZE). Over UDP and RoCE v2, by IPv4, the
 *    message is multicast to the members of a segment if 8 or more are known (option group.many);
 *    members that do not receive multicast, and those on this host, get copies.
 *  - A long message to a group is sent to all members that are known when the send begins. Each
 *    member gets it as if it were sent to that member alone, and its outcome is known for each:
 *    DELIVERED, NOT_DELIVERED or UNKNOWN. The outcome of a stopped member is usually UNKNOWN. A
 *    buffer of RIPC_GIVE serves all members, and is not copied on this host: one reference is
 *    transferred for all of them, and stays the sender's only if no member has the message or may
 *    have it. The send ends when the outcome is known for all, and the slowest member thus sets the
 *    pace: a call waits for it until the deadline, and a RIPC_NOWAIT send meets -EAGAIN while 256
 *    long messages of the service wait for one member (a NOTICE reports when to try again). No
 *    member delays another one. With RIPC_LEAVE_SLOW slow members are left behind: the send does
 *    not wait for them, and meets no -EAGAIN; a member for which 256 messages wait does not get the
 *    message (NOT_DELIVERED, -EAGAIN: ripc_deliveries()). If half of the members are on this host,
 *    members on other hosts that need longer than 100 ms are left behind. A long message that is in
 *    transit while its receiver leaves may still arrive.
 *
 * A member receives the message in the service that has joined. ripc_msg.from is the sender, and
 * ripc_msg.group the group. Windows of the service (ripc_window_post()) serve such messages, too.
 * Messages to a group have no order and no return buffers: RIPC_ORDERED, returns, reply_to and
 * to_incarnation are refused with -EINVAL, as are ripc_call(), ripc_ping(), ripc_path_info() and
 * ripc_watch() of a group.
 *
 * Senders of the same user on this host detect within 100 ms that a member joins or leaves. Other
 * hosts learn of it by multicast or from the store (docs/discovery.md) at once, and usually within
 * a second if a fifth of all packets are lost; within some seconds if one host joins or leaves
 * several groups at a time, because the rate of queries is bounded; and within 10 s if they receive
 * no notice, while they send to the group. A member on another host that ends without a notice is
 * detected by long messages: it is no longer a member some 3 s after the first message without a
 * response (peer_timeout_ms / 4, or that message's deadline), or half a second after its service
 * was started again with the same ID; with short messages alone, after 30 s. While two services
 * have one ID, both are members. At most 4,096 members are known of one group. ripc_resolve() and
 * ripc_await() of a group return 0 when at least one member is known, other than of the calling
 * context's own services.
 *
 * With the keys of an authority (ripc key new --authority), a service that joins needs the right
 * to be the group (ripc key grant --be), and a sender needs the right to send to the group (--send)
 * and to each member that has a well-known ID. Both take the group's ID, which "ripc id --group
 * NAME" prints.
 */
#ifndef RIPC_GROUP_H
#define RIPC_GROUP_H

#include <ripc/ripc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The outcome of a long message to a group at one member. */
struct ripc_delivery {
	uint64_t id, incarnation; /* the member */
	uint32_t outcome;         /* enum ripc_outcome */
	int status;               /* 0: delivered; else a negative errno, as of ripc_send_long() */
};

/* Returns the ID of the group with this name, which no service has. */
RIPC_API uint64_t ripc_group_from_name(const char *name);

/*
 * Joins a group: from now on the service receives the messages to the group. Does not block. A
 * service leaves its groups when it drains or closes.
 *  -EINVAL      not the ID of a group
 *  -EALREADY    the service is a member already
 *  -EACCES      with keys: our key may not be the group (ripc_keys_grant())
 *  -ESHUTDOWN   the service is drained
 *  -EADDRINUSE  the name of the membership on this host is taken: by a child that was forked while
 *               the service was a member, or by another user
 *  -ENOMEM      no memory
 *  -EMFILE      no descriptors: each membership takes one
 */
RIPC_API int ripc_join(struct ripc_service *svc, uint64_t group);

/*
 * Leaves a group. Messages of the group that are in the queue of the service stay there; later ones
 * are refused. Does not block.
 *  -ENOENT  the service is no member
 */
RIPC_API int ripc_leave(struct ripc_service *svc, uint64_t group);

/*
 * Reports what became of a long message to a group at each member: fills the first max entries of
 * list, in no order. completion is the COMPLETION of the send. entry_size is sizeof(*list), so that
 * the struct can grow: fields that the library does not know become 0. Returns how many members the
 * message was sent to. Does not block.
 *  -EINVAL  not the COMPLETION of a send to a group; entry_size is too small
 *  -E2BIG   entry_size is more than 4,096
 */
RIPC_API int ripc_deliveries(const struct ripc_msg *completion, struct ripc_delivery *list,
		uint32_t max, size_t entry_size);

#ifdef __cplusplus
}
#endif

#endif
