/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listing services: all that can be found from this host. ripc_list() calls a callback for each
 * service. A lister fills an array instead. To find one service by its ID, call ripc_resolve() of
 * ripc.h.
 *
 * Services of other users on this host are found over the network only (multicast, peers). Services
 * on hosts that cannot be queried stay unseen. A service that is not listed is not a secret. A
 * service that two sources know is perhaps listed twice. The conventions of ripc.h hold here, too.
 */
#ifndef RIPC_LIST_H
#define RIPC_LIST_H

#include <ripc/ripc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One service that was found. */
struct ripc_listing {
	uint64_t id, incarnation;
	int local;        /* 1: on this host and network namespace */
	char source[20];  /* the resolver source that found it */
	char address[64]; /* in words; "": this context has no network in common with it */
};

/*
 * Looks for services for timeout_ms, and calls found for each (see the conventions of ripc.h).
 * While found runs, the library holds no lock. Returns how many services were found. With
 * RIPC_INTERRUPTIBLE a signal ends the call early: it returns how many were found until then.
 *  -EBUSY   another thread is in ripc_list() of this context, or a lister is open
 *  -ENOMEM  some services that were found had no room; found was called for all others
 */
RIPC_API int ripc_list(struct ripc_context *ctx, int timeout_ms,
		int (*found)(void *arg, const struct ripc_listing *listing), void *arg);

/* Looks for services, from ripc_lister_open() to ripc_lister_close(), and keeps what is found. */
struct ripc_lister;

/*
 * Begins to look for services. Does not block. A context can have one lister at a time. *lister is
 * the caller's until ripc_lister_close(), or until the context is closed.
 *  -EBUSY  a lister is open, or a thread is in ripc_list() of this context
 *  -ENOMEM  no memory
 */
RIPC_API int ripc_lister_open(struct ripc_context *ctx, struct ripc_lister **lister);

/*
 * Fills list with services that were found and that no earlier call has returned, max at most (1 to
 * INT32_MAX). Returns how many entries were filled. If there are none, waits up to timeout_ms for
 * the first. entry_size is sizeof(*list), so that the struct can grow: fields that the library does
 * not know become 0. The call may be repeated as often as needed: nothing that is found between two
 * calls is lost.
 *  -EAGAIN     none, timeout 0     -ETIMEDOUT  none was found in time
 *  -EINTR      a signal (RIPC_INTERRUPTIBLE)
 *  -ENOMEM     some services that were found had no room; the next call may return others
 *  -EINVAL     a bad argument; entry_size is too small     -E2BIG  entry_size is more than 4,096
 */
RIPC_API int ripc_lister_next(struct ripc_lister *lister, int timeout_ms,
		struct ripc_listing *list, uint32_t max, size_t entry_size);

/*
 * Ends the search, and frees the lister. Does not block.
 *  -EBUSY  another thread is in ripc_lister_next(): nothing is changed
 */
RIPC_API int ripc_lister_close(struct ripc_lister *lister);

#ifdef __cplusplus
}
#endif

#endif
