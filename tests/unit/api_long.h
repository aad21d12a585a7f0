/* SPDX-License-Identifier: BSD-3-Clause */
/* Long sends that wait in a thread of their own, and partners that fall silent: for the tests of
 * the public calls. */
#ifndef TEST_API_LONG_H
#define TEST_API_LONG_H

#include "api.h"

struct long_call {
	struct ripc_service *svc;
	struct ripc_send send;
	enum ripc_outcome outcome;
	int status;
	pthread_t thread;
};

static inline void *long_main(void *arg)
{
	struct long_call *call = arg;

	call->status = ripc_sendmsg(call->svc, &call->send, &call->outcome);
	return NULL;
}

/* A waiting send in a thread of its own. */
static inline void long_begin(struct long_call *call, struct ripc_service *svc,
		struct ripc_send send)
{
	*call = (struct long_call){.svc = svc, .send = send};
	ck_assert_int_eq(pthread_create(&call->thread, NULL, long_main, call), 0);
}

static inline void long_end(struct long_call *call, enum ripc_outcome outcome, int status)
{
	ck_assert_int_eq(pthread_join(call->thread, NULL), 0);
	ck_assert_int_eq(call->status, status);
	ck_assert_int_eq(call->outcome, outcome);
}

/* b only lives while pumped. Afterwards both know each other and b is silent. */
static inline void silent_open(struct pair *pair, struct pump *pump)
{
	side_open(&pair->a, 0);
	side_open(&pair->b, RIPC_NO_THREAD);
	pump_start(pump, pair->b.ctx);
	acquaint(&pair->a, &pair->b);
	pump_stop(pump);
}

static inline void check_received(const struct side *to, const struct side *from,
		const size_t *lens, uint32_t n)
{
	struct ripc_msg *msg = take(to->svc, RIPC_LONG);

	ck_assert_uint_eq(msg->from, from->id);
	ck_assert_uint_eq(msg->from_incarnation, ripc_service_incarnation(from->svc));
	ck_assert_uint_eq(msg->n_items, n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(msg->items[i].iov_len, lens[i]);
		check_filled(msg->items[i].iov_base, lens[i], 7 * i);
	}
	ripc_msg_free(msg);
}

static inline void exchange(const struct side *from, const struct side *to, const size_t *lens,
		uint32_t n)
{
	struct iovec items[RIPC_ITEMS_MAX] = {{0}};

	for (uint32_t i = 0; i < n; i++)
		items[i] = item(filled(lens[i], 7 * i), lens[i]);
	ck_assert_int_eq(ripc_send_long(from->svc, to->id, items, n, PATIENCE_MS), 0);
	check_received(to, from, lens, n);
	for (uint32_t i = 0; i < n; i++)
		free(items[i].iov_base);
}

#endif
