/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions and answers between services, with a deadline, and the truth where no answer comes.
 *
 * A client asks with ripc_call(), or with ripc_call_start() and takes the answer by ripc_receive().
 * A server takes questions by ripc_receive(), as messages of the kind RIPC_QUESTION, and answers
 * each, at once or later, from any thread and in any order, with ripc_reply(). The conventions of
 * ripc.h hold here, too.
 */
#ifndef RIPC_CALL_H
#define RIPC_CALL_H

#include <ripc/ripc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A question. */
struct ripc_question {
	size_t size;                       /* sizeof(struct ripc_question) */
	uint64_t to;                       /* the service ID of the server */
	uint64_t to_incarnation;           /* only this incarnation; 0: whoever has the ID */
	uint64_t cookie;                   /* comes back with the answer; for ripc_cancel() */
	const struct iovec *items;
	const struct ripc_buffer *returns; /* places for the answer's items; the array is copied */
	uint32_t n_items, n_returns;
	uint32_t flags;                    /* RIPC_IDEMPOTENT */
	int32_t timeout_ms;                /* 0: the context's timeout_ms */
};

/*
 * Asks, and waits for the answer, up to timeout_ms. 0: *answer is the server's answer, and the
 * caller's until ripc_msg_free(). The items and the return buffers are the caller's again on
 * return, whatever is returned; an answer that lies in return buffers says so in its places.
 *
 * A question is carried out at most once by an incarnation of a service. A question that has
 * certainly not reached anybody is asked again until the deadline, also of a service that is
 * registered only then. With RIPC_IDEMPOTENT the server may carry the question out more than
 * once: then it is also asked again when its fate is unknown, or when the server that had it ends;
 * and while it fits it travels as a short message, which takes fewer packets.
 *
 * asked (may be NULL) is set in any case to what became of the question; of one that was asked
 * again, to the most that is known of all times.
 *
 *                                      returned        *asked
 *  answered                            0, or what ripc_reply_error() of the server says
 *                                                      RIPC_DELIVERED
 *  nobody has the service              -ENOENT         RIPC_NOT_DELIVERED
 *  not delivered in time               -ETIMEDOUT or why (ripc_send_long())
 *                                                      RIPC_NOT_DELIVERED
 *  unknown whether it was delivered    -ECONNRESET     RIPC_UNKNOWN
 *  delivered, no answer in time        -ETIMEDOUT      RIPC_DELIVERED; RIPC_UNKNOWN if it went
 *                                                      as a short
 *  delivered, the server has ended     -ECONNRESET     RIPC_DELIVERED
 *  ripc_cancel(), the service closed   -ECANCELED      what is known then
 *
 * A server on this host that has ended is noticed at once, elsewhere after about a second, or
 * peer_timeout_ms where nothing on its host says so. Other errors, with RIPC_NOT_DELIVERED:
 *  -EAGAIN     too many questions are open: 16,384 of svc, or 256 that wait to go to this server;
 *              of the latter a NOTICE with cookie 0 and status 0 says when to try again
 *  -EMSGSIZE, -EINVAL, -ENOMEM, -EPROTONOSUPPORT   as ripc_send_long()
 * Where the network moves memory by itself the call can return later than its deadline, until the
 * network is done with the memory.
 */
RIPC_API int ripc_call(struct ripc_service *svc, const struct ripc_question *call,
		struct ripc_msg **answer, enum ripc_outcome *asked);

/*
 * Asks without waiting. 0: exactly one message of the kind RIPC_ANSWER follows by ripc_receive(),
 * and the items and return buffers (not the arrays) stay untouched until then, also after
 * ripc_cancel(). In it answers is the cookie, status
 * what ripc_call() would return, outcome what it would say in *asked; without an answer from is the
 * ID that was asked and n_items is 0. A negative return: none follows, and nothing was asked.
 */
RIPC_API int ripc_call_start(struct ripc_service *svc, const struct ripc_question *call);

/*
 * Answers a question. Never waits, and copies the items, unless flags has RIPC_GIVE: then each item
 * lies in a buffer of the pool, of which one reference per item moves to the library, whatever
 * becomes of the answer. n_items 0: an empty answer; it arrives as one item of no bytes. question
 * may be a copy of the struct (kind, from, from_incarnation, reply and flags are used), kept after
 * ripc_msg_free(). A question that gets no answer costs its asker the time until the deadline, and
 * the server nothing. An idempotent one is asked once more then, after some 20 ms. A second answer
 * is dropped, as is one that comes after the deadline; the server does not learn that.
 *  -ENOENT    the asker is gone, as far as is known: nobody wants the answer any more
 *  -EAGAIN    4,096 answers wait for the asker, which takes none
 *  -EINVAL, -EMSGSIZE, -ENOMEM   nothing was sent: a shorter answer or ripc_reply_error() can be
 * On failure given references stay the caller's.
 */
RIPC_API int ripc_reply(struct ripc_service *svc, const struct ripc_msg *question,
		const struct iovec *items, uint32_t n_items, uint32_t flags);

/*
 * Answers with an error, a negative errno, that ripc_call() of the asker returns. -EINVAL: error is
 * not between -4095 and -1. Else as ripc_reply().
 */
RIPC_API int ripc_reply_error(struct ripc_service *svc, const struct ripc_msg *question, int error);

/*
 * Watches an ID: a NOTICE with the flag RIPC_WATCHED, from = id, and the cookie tells by its
 * from_incarnation who has it: an incarnation that has answered, or 0 for nobody. One comes as soon
 * as that is known, and one after each change; what changes twice before the application looks is
 * told once. A holder on this host that ends is noticed at once; elsewhere as ripc_call() says. One
 * that is registered while nobody had the ID is noticed at once where its notice can be heard
 * (multicast), else within a minute. Each ID can be watched once by a service, until
 * ripc_unwatch() or the end of the service, also while nobody has it.
 *  -EEXIST  watched already   -ESHUTDOWN  the service is being closed   -EINVAL, -ENOMEM
 */
RIPC_API int ripc_watch(struct ripc_service *svc, uint64_t id, uint64_t cookie);
/* Ends that: no NOTICE comes any more, also not one that waits. -ENOENT: not watched. */
RIPC_API int ripc_unwatch(struct ripc_service *svc, uint64_t id);

#ifdef __cplusplus
}
#endif

#endif
