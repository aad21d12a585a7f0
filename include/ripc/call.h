/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls: requests and replies between services, with a deadline. If no reply arrives, the client
 * learns what is known about its request.
 *
 * A client makes a request with ripc_call(), which waits for the reply, or with ripc_call_start(),
 * and receives the reply by ripc_receive(). A server receives requests by ripc_receive(), as
 * messages of the kind RIPC_REQUEST, and replies to each with ripc_reply(): at once or later, from
 * any thread, in any order. The conventions of ripc.h hold here, too.
 */
#ifndef RIPC_CALL_H
#define RIPC_CALL_H

#include <ripc/ripc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request. */
struct ripc_request {
	size_t size;                       /* sizeof(struct ripc_request) */
	uint64_t to;                       /* the service ID of the server */
	uint64_t to_incarnation;           /* only this incarnation; 0: any owner of the ID */
	uint64_t cookie;                   /* ripc_msg.request_cookie of the reply; for
	                                      ripc_cancel() */
	const struct iovec *items;
	const struct ripc_buffer *returns; /* return buffers for the reply's items; the array is
	                                      copied */
	uint32_t n_items, n_returns;
	uint32_t flags;                    /* RIPC_IDEMPOTENT, RIPC_GIVE, RIPC_AWAITED */
	int32_t timeout_ms;                /* 0: the context's timeout_ms */
};

/*
 * Sends a request, and waits for the reply, up to timeout_ms. 0: *reply is the server's reply, and
 * the caller's until ripc_msg_free(). On every return, the items and the return buffers are the
 * caller's again. The places of a reply show which of its items lie in return buffers.
 *
 * With RIPC_GIVE each item must lie in a pool buffer (else -EINVAL), and one reference per item
 * moves to the library if *outcome is RIPC_DELIVERED or RIPC_UNKNOWN. After RIPC_NOT_DELIVERED the
 * references stay the caller's. The library holds them until the call ends, and as long as the
 * server has not freed the request. Where the network can map memory (shm), a request in buffers
 * of more than 512 KiB is not copied: ripc_sendmsg() has the details.
 *
 * An incarnation of a service receives a request at most once. The library repeats a request that
 * has certainly reached no service until the deadline; a service that is registered meanwhile gets
 * it, too. With RIPC_IDEMPOTENT the server may carry out the request more than once. The library
 * repeats such a request also when its outcome is unknown, or when the server that had it ends. It
 * travels as a short message if it fits into one, which takes fewer packets.
 *
 * A reply has room of its own: it does not wait for messages of the server that svc has not read,
 * or that wait to be sent to svc. For each open request at most one reply of a server is received
 * at a time; a reply that no open request waits for is refused. Only a full pool delays a reply.
 *
 * Returns 0 or a negative errno, and always sets *outcome (outcome may be NULL) to the outcome of
 * the request. If the request was sent several times, this is RIPC_DELIVERED if one of them was
 * delivered, else RIPC_UNKNOWN if the outcome of one of them is unknown.
 *
 *    how the call ends                 returned     *outcome
 *
 *    with a reply                      0            RIPC_DELIVERED
 *    with ripc_reply_error()           that error   RIPC_DELIVERED
 *    no service has the ID, up to      -ENOENT      RIPC_NOT_DELIVERED
 *      the deadline
 *    not delivered in time             -ETIMEDOUT   RIPC_NOT_DELIVERED
 *    not delivered for another reason  see below    RIPC_NOT_DELIVERED
 *    unknown whether it was delivered  -ECONNRESET  RIPC_UNKNOWN
 *    refused (keys), after it was      -EACCES      that of the earlier one
 *      sent before
 *    delivered, no reply in time       -ETIMEDOUT   RIPC_DELIVERED
 *      if sent as a short message      -ETIMEDOUT   RIPC_UNKNOWN
 *    delivered, the server has ended   -ECONNRESET  RIPC_DELIVERED
 *    ripc_cancel(), or the service     -ECANCELED   as far as known then
 *      was closed
 *
 * The end of a server on this host is noticed at once, the end of one on another host within two
 * seconds, or after peer_timeout_ms if nothing on that host reports the end: neither ICMP nor
 * another process that uses the library. Other errors, with RIPC_NOT_DELIVERED:
 *  -EAGAIN     too many requests are open: 16,384 of svc, or 256 that wait for this server; after
 *              the 256 a NOTICE with cookie 0 and status 0 reports when to try again
 *  -EACCES, -EMSGSIZE, -EINVAL, -ENOMEM, -EPROTONOSUPPORT  as ripc_send_long(), as are errors that
 *              are not listed here
 * Where the network moves memory by itself, the call can return later than its deadline: it waits
 * until the network no longer uses the memory.
 */
RIPC_API int ripc_call(struct ripc_service *svc, const struct ripc_request *request,
		struct ripc_msg **reply, uint32_t *outcome);

/*
 * Sends a request without waiting. After a return of 0 exactly one message of the kind RIPC_REPLY
 * follows by ripc_receive(), or with RIPC_AWAITED (ripc_call(): -EINVAL) by ripc_receive_end().
 * Until then the items and return buffers (not the arrays) must stay untouched, also after
 * ripc_cancel(). The message's fields request_cookie and cookie are the request's cookie, status is
 * what ripc_call() would return, and outcome is what ripc_call() would set *outcome to. If no reply
 * arrived, from is the ID of the request, and n_items is 0. ripc_receive() delivers it after the
 * messages that svc received before it. A negative return: no RIPC_REPLY follows, nothing was sent,
 * and references of RIPC_GIVE stay the caller's. If the service is closed before the application
 * has received the RIPC_REPLY, the library drops these references, whatever the outcome is.
 */
RIPC_API int ripc_call_start(struct ripc_service *svc, const struct ripc_request *request);

/*
 * Replies to a request. Never waits. Copies the items, unless flags has RIPC_GIVE: then each item
 * must lie in a pool buffer, and on return of 0 one reference per item moves to the library,
 * whatever becomes of the reply. Where the network can map memory (shm), the client reads the reply
 * where it is (ripc_sendmsg()), unless it supplied return buffers with the request.
 * n_items 0: an empty reply, which arrives as one item of no bytes. request may be a copy of the
 * struct that was kept after ripc_msg_free(): the fields kind, from, from_incarnation, reply and
 * flags are used. If a server does not reply, the client waits until its deadline, and the server
 * pays nothing. The library repeats an idempotent request without a reply once, after some 20 ms. A
 * second reply is dropped, and so is a reply after the client's deadline; the server does not learn
 * of either.
 *  -ENOENT    the client is gone, as far as the library knows: the reply is no longer of use
 *  -EAGAIN    4,096 replies wait for the client, which receives none
 *  -EINVAL    request is no request; with RIPC_GIVE: an item does not lie in a pool buffer
 *  -EMSGSIZE, -ENOMEM  nothing was sent; a shorter reply or ripc_reply_error() may succeed
 * On failure references of RIPC_GIVE stay the caller's.
 */
RIPC_API int ripc_reply(struct ripc_service *svc, const struct ripc_msg *request,
		const struct iovec *items, uint32_t n_items, uint32_t flags);

/*
 * Replies to a request with an error, a negative errno: ripc_call() of the client returns it.
 * -EINVAL: error is not between -4095 and -1. All else as ripc_reply().
 */
RIPC_API int ripc_reply_error(struct ripc_service *svc, const struct ripc_msg *request, int error);

/*
 * Watches the owner of an ID. Each NOTICE has the flag RIPC_WATCHED, the cookie, and from = id. Its
 * from_incarnation is that of the owner, which has responded, or 0 for no owner. The first NOTICE
 * arrives as soon as the owner is known, and another one after each change. Two changes before the
 * application takes the NOTICE cause one NOTICE.
 *
 * The library detects at once the end of an owner on this host, and the orderly close of a service
 * on any host. It detects the end of one on another host within two seconds (later if more than a
 * thousand contexts are watched), or after peer_timeout_ms if nothing on that host reports the end:
 * neither ICMP nor another process that uses the library. An owner that lives, but is silent for
 * peer_timeout_ms (stopped, or on the other side of a network split), is reported as no owner, too;
 * when it is heard again, a NOTICE names the same incarnation. A server that grants leases must set
 * peer_timeout_ms longer than its longest lease.
 *
 * The first NOTICE about the sender of a message that was just received arrives at once. If an ID
 * has no owner, the first NOTICE arrives after about a second (ripc_resolve()). The library also
 * waits up to peer_timeout_ms for an owner that is silent from the beginning, but by multicast a
 * silent owner on another host looks like no owner. It detects a new owner of an ID that had none
 * at once if the registration can be heard (multicast), otherwise within a minute. A service can
 * watch each ID once, also one without an owner, until ripc_unwatch() or the end of the service: a
 * server that watches the private IDs of its clients must end the watch of a client that is gone.
 * Never waits.
 *  -EEXIST  watched already   -ESHUTDOWN  the service is being closed
 *  -EINVAL  a bad argument    -ENOMEM     no memory
 */
RIPC_API int ripc_watch(struct ripc_service *svc, uint64_t id, uint64_t cookie);
/* Ends a watch: no more NOTICEs arrive, not even one in the queue. -ENOENT: not watched. */
RIPC_API int ripc_unwatch(struct ripc_service *svc, uint64_t id);

#ifdef __cplusplus
}
#endif

#endif
