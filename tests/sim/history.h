/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of the model: histories of two services, A and B, told step by step. */
#ifndef HISTORY_H
#define HISTORY_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define A_ID  1u
#define B_ID  2u
#define A     0xa1u /* incarnations */
#define B     0xb1u
#define B_NEW 0xb2u

static struct model *model;
static uint64_t now_us;

/* A message as the library would hand it over. */
struct message {
	struct ripc_msg msg;
	struct iovec items[5];
	struct ripc_buffer places[5];
	uint8_t *bytes;
};

static inline void setup(void)
{
	struct model_config cfg = {.slack_us = 10000, .peer_timeout_ms = 1000};

	model = model_open(&cfg);
	now_us = 1000;
	model_service(model, now_us, 0, A_ID, A);
	model_service(model, now_us, 1, B_ID, B);
}

static inline void teardown(void)
{
	model_close(model);
}

static inline void expect(enum model_fault expected)
{
	const char *text;
	enum model_fault fault = model_verdict(model, &text);

	ck_assert_msg(fault == expected, "expected %d, the model says %d: %s", (int)expected,
			(int)fault, text);
}

static inline void finish(enum model_fault expected)
{
	model_finish(model, now_us);
	expect(expected);
}

static inline uint64_t planned(enum ripc_kind kind, uint64_t len)
{
	struct model_send send = {.from = A, .to = B_ID, .len = len, .kind = kind,
		.timeout_ms = 500};

	now_us += 10;
	return model_plan(model, now_us, &send);
}

static inline uint64_t sent(enum ripc_kind kind, uint64_t len)
{
	uint64_t number = planned(kind, len);

	model_sent(model, number, 0);
	return number;
}

static inline void make(struct message *m, uint64_t number, enum ripc_kind kind, uint64_t len)
{
	uint64_t lens[5], at = 0;

	memset(m, 0, sizeof(*m));
	m->bytes = calloc(1, len + 8);
	ck_assert_ptr_nonnull(m->bytes);
	model_contents(model, number, m->bytes);
	m->msg = (struct ripc_msg){.kind = kind, .from = A_ID, .from_incarnation = A,
		.items = m->items};
	m->msg.n_items = model_items(model, number, lens);
	for (uint32_t i = 0; i < m->msg.n_items; at += lens[i++])
		m->items[i] = (struct iovec){m->bytes + at, lens[i]};
	ck_assert_uint_eq(at, len);
}

static inline void take(struct message *m, uint64_t incarnation)
{
	now_us += 100;
	model_received(model, now_us, incarnation, &m->msg);
	free(m->bytes);
}

static inline void received(uint64_t number, enum ripc_kind kind, uint64_t len)
{
	struct message m;

	make(&m, number, kind, len);
	take(&m, B);
}

static inline void completed(uint64_t number, enum ripc_outcome outcome, int status)
{
	struct ripc_msg msg = {.kind = RIPC_COMPLETION, .cookie = number, .outcome = outcome,
		.status = status};

	now_us += 100;
	model_completed(model, now_us, A, &msg);
}

#endif
