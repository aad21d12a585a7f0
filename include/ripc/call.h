/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions and answers between services, with a deadline. Where no answer comes, the client learns
 * what is known of its question.
 *
 * A client asks with ripc_call(), which waits for the answer, or with ripc_call_start(), and takes
 * the answer by ripc_receive(). A server takes questions by ripc_receive(), as messages of the kind
 * RIPC_QUESTION, and answers each with ripc_reply(): at once or later, from any thread, in any
 * order. The conventions of ripc.h hold here, too.
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
	uint64_t to_incarnation;           /* only this incarnation; 0: any holder of the ID */
	uint64_t cookie;                   /* ripc_msg.answers of the answer; for ripc_cancel() */
	const struct iovec *items;
	const struct ripc_buffer *returns; /* places for the answer's items; the array is copied */
	uint32_t n_items, n_returns;
	uint32_t flags;                    /* RIPC_IDEMPOTENT */
	int32_t timeout_ms;                /* 0: the context's timeout_ms */
};

/*
 * Asks, and waits for the answer, up to timeout_ms. 0: *answer is the server's answer, and the
 * caller's until ripc_msg_free(). On every return, the items and the return buffers are the
 * caller's again. The places of an answer tell which of its items lie in return buffers.
 *
 * An incarnation of a service carries out a question at most once. A question that has certainly
 * reached no service is asked again until the deadline; a service that is registered meanwhile is
 * asked, too. With RIPC_IDEMPOTENT the server may carry out the question more than once. Such a
 * question is also asked again when its fate is unknown, or when the server that had it ends. It
 * travels as a short message if it fits into one, which takes fewer packets.
 *
 * *asked (asked may be NULL) is always set to what became of the question. Of a question that was
 * asked several times *asked tells the most: RIPC_DELIVERED, else RIPC_UNKNOWN.
 *
 *                                      returned        *asked
 *  answered                            0, or what ripc_reply_error() of the server says
 *                                                      RIPC_DELIVERED
 *  no service has the ID, up to the deadline
 *                                      -ENOENT         RIPC_NOT_DELIVERED
 *  not delivered in time               -ETIMEDOUT or why (ripc_send_long())
 *                                                      RIPC_NOT_DELIVERED
 *  unknown whether it was delivered    -ECONNRESET     RIPC_UNKNOWN
 *  refused (keys), after the question was asked before
 *                                      -EACCES         what became of it then: RIPC_DELIVERED, or
 *                                                      RIPC_UNKNOWN
 *  delivered, no answer in time        -ETIMEDOUT      RIPC_DELIVERED; RIPC_UNKNOWN for a
 *                                                      question that went as a short message
 *  delivered, the server has ended     -ECONNRESET     RIPC_DELIVERED
 *  ripc_cancel(), the service closed   -ECANCELED      what is known then
 *
 * The end of a server on this host is noticed at once, the end of one elsewhere within two seconds,
 * or after peer_timeout_ms where nothing on its host reports the end: neither ICMP nor another
 * process of the library. Other errors, with
 * RIPC_NOT_DELIVERED:
 *  -EAGAIN     too many questions are open: 16,384 of svc, or 256 that wait to go to this server;
 *              after the 256 a NOTICE with cookie 0 and status 0 says when to try again
 *  -EMSGSIZE, -EINVAL, -ENOMEM, -EPROTONOSUPPORT   as ripc_send_long()
 * Where the network moves memory by itself, the call can return later than its deadline: it waits
 * until the network is done with the memory.
 */
RIPC_API int ripc_call(struct ripc_service *svc, const struct ripc_question *call,
		struct ripc_msg **answer, enum ripc_outcome *asked);

/*
 * Asks without waiting. 0: exactly one message of the kind RIPC_ANSWER follows by ripc_receive().
 * Until then the items and return buffers (not the arrays) must stay untouched, also after
 * ripc_cancel(). The message's field answers is the question's cookie, status is what ripc_call()
 * would return, and outcome is what ripc_call() would set *asked to. If no answer came, from is the
 * ID that was asked, and n_items is 0. A negative return: no RIPC_ANSWER follows, and nothing was
 * asked.
 */
RIPC_API int ripc_call_start(struct ripc_service *svc, const struct ripc_question *call);

/*
 * Answers a question. Never waits. Copies the items, unless flags has RIPC_GIVE: then each item
 * must lie in a pool buffer, and on return of 0 one reference per item moves to the library,
 * whatever becomes of the answer. n_items 0: an empty answer, which arrives as one item of no
 * bytes. question may be a copy of the struct that was kept after ripc_msg_free(): the fields kind,
 * from, from_incarnation, reply and flags are used. A question that gets no answer costs the asker
 * the time until its deadline, and the server nothing. An unanswered idempotent question is asked
 * once more, after some 20 ms. A second answer is dropped, and so is an answer after the asker's
 * deadline; the server does not learn of either.
 *  -ENOENT    the asker is gone, as far as the library knows: nobody wants the answer any more
 *  -EAGAIN    4,096 answers wait for the asker, which takes none
 *  -EINVAL, -EMSGSIZE, -ENOMEM   nothing was sent; a shorter answer or ripc_reply_error() may pass
 * On failure given references stay the caller's.
 */
RIPC_API int ripc_reply(struct ripc_service *svc, const struct ripc_msg *question,
		const struct iovec *items, uint32_t n_items, uint32_t flags);

/*
 * Answers a question with an error, a negative errno: ripc_call() of the asker returns it. -EINVAL:
 * error is not between -4095 and -1. All else as ripc_reply().
 */
RIPC_API int ripc_reply_error(struct ripc_service *svc, const struct ripc_msg *question, int error);

/*
 * Watches an ID: NOTICEs tell who has it. Each NOTICE has the flag RIPC_WATCHED, the cookie, and
 * from = id. Its from_incarnation is that of the holder, which has answered, or 0 for no holder.
 * The first NOTICE comes as soon as the holder is known, and one more after each change. Two
 * changes before the application takes the NOTICE are told by one NOTICE. The end of a holder on
 * this host is noticed at once, the end of one elsewhere within two seconds (later where more than
 * a thousand contexts are watched), or after peer_timeout_ms where nothing on its host reports the
 * end: neither ICMP nor another process of the library. A holder that lives, but is silent for
 * peer_timeout_ms (stopped, or parted from us), is told as no holder, too; when it is heard again,
 * a NOTICE names the same incarnation. Where an ID has no holder, the first NOTICE comes after
 * about a second (ripc_resolve()). A holder that is silent from the beginning is waited for until
 * peer_timeout_ms, too, but by multicast a silent holder on another host looks like none. A new
 * holder of an ID that had none is noticed at once where its registration can be heard (multicast),
 * else within a minute. A service can watch each ID once, also one without a holder, until
 * ripc_unwatch() or the end of the service. Never waits.
 *  -EEXIST  watched already   -ESHUTDOWN  the service is being closed   -EINVAL, -ENOMEM
 */
RIPC_API int ripc_watch(struct ripc_service *svc, uint64_t id, uint64_t cookie);
/* Ends a watch: its NOTICEs come no more, not even one in the queue. -ENOENT: not watched. */
RIPC_API int ripc_unwatch(struct ripc_service *svc, uint64_t id);

#ifdef __cplusplus
}
#endif

#endif
