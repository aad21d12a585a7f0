/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of calls have in common: two contexts, a server that gives back what it is asked. */
#ifndef RIPC_TEST_CALL_PAIR_H
#define RIPC_TEST_CALL_PAIR_H

#include "api.h"
#include "ripc/call.h"

#define BIG      (3u << 20)
#define MANY     300u
#define SOON_MS  150 /* a deadline that is missed on purpose */

static const char *backends[8] = {"udp", "shm"};
static uint32_t n_backends = 2;

/* Each test runs for each backend, with each of these flags. */
static inline uint32_t flags_of(int i)
{
	return i % 2 ? RIPC_IDEMPOTENT : 0;
}

static inline struct ripc_config config_of(int i, uint32_t flags)
{
	struct ripc_config cfg = api_config(flags);

	cfg.backends = backends[i / 2];
	return cfg;
}

static inline void both_open(struct pair *pair, int i)
{
	struct ripc_config cfg = config_of(i, 0);

	side_open_as(&pair->a, &cfg, 0);
	side_open_as(&pair->b, &cfg, 0);
}

static inline struct ripc_question call_to(uint64_t to, const struct iovec *items, uint32_t n,
		int i)
{
	return (struct ripc_question){.size = sizeof(struct ripc_question), .to = to,
		.items = items, .n_items = n, .flags = flags_of(i), .timeout_ms = PATIENCE_MS};
}

/* ---- a server ---------------------------------------------------------------------------- */

struct server {
	struct ripc_service *svc;
	pthread_t thread;
	uint32_t n; /* questions taken */
};

/* Gives back what it was asked; what begins with 'e' is answered with an error, 'q' ends it. */
static inline void *serve(void *arg)
{
	struct server *server = arg;
	bool quit = false;

	while (!quit) {
		struct ripc_msg *question = take(server->svc, RIPC_QUESTION);
		char first = *(char *)question->items[0].iov_base;

		server->n++;
		quit = first == 'q';
		ck_assert_int_eq(first == 'e' ?
			ripc_reply_error(server->svc, question, -EDOM) :
			ripc_reply(server->svc, question, question->items, question->n_items, 0),
			0);
		ripc_msg_free(question);
	}
	return NULL;
}

static inline void server_start(struct server *server, struct ripc_service *svc)
{
	*server = (struct server){.svc = svc};
	ck_assert_int_eq(pthread_create(&server->thread, NULL, serve, server), 0);
}

static inline void server_stop(struct server *server, const struct side *client)
{
	const struct iovec quit = item("q", 1);
	struct ripc_question call = {.size = sizeof(call), .to = ripc_service_id(server->svc),
		.items = &quit, .n_items = 1, .timeout_ms = PATIENCE_MS};
	struct ripc_msg *answer;

	ck_assert_int_eq(ripc_call(client->svc, &call, &answer, NULL), 0);
	ripc_msg_free(answer);
	pthread_join(server->thread, NULL);
}

static inline void check_echo(const struct side *client, const struct ripc_question *call)
{
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer;

	ck_assert_int_eq(ripc_call(client->svc, call, &answer, &asked), 0);
	ck_assert_int_eq(asked, RIPC_DELIVERED);
	ck_assert_int_eq(answer->kind, RIPC_ANSWER);
	ck_assert_int_eq(answer->outcome, RIPC_DELIVERED);
	ck_assert_int_eq(answer->sender, RIPC_SENDER_RESOLVED);
	ck_assert_uint_eq(answer->answers, call->cookie);
	ck_assert_uint_eq(answer->from, call->to);
	ck_assert_uint_eq(answer->n_items, call->n_items);
	for (uint32_t i = 0; i < answer->n_items; i++) {
		ck_assert_uint_eq(answer->items[i].iov_len, call->items[i].iov_len);
		ck_assert_int_eq(memcmp(answer->items[i].iov_base, call->items[i].iov_base,
			call->items[i].iov_len), 0);
	}
	ripc_msg_free(answer);
}

static inline void *close_soon(void *arg)
{
	usleep(50000);
	ripc_service_close(arg);
	return NULL;
}

/* It may have arrived. */

static inline void backends_choose(char *names)
{
	if (!names)
		return;
	n_backends = 0;
	for (char *name = strtok(names, ","); name && n_backends < 8; name = strtok(NULL, ","))
		backends[n_backends++] = name;
}

/* Runs each of these tests for each backend and flag. */
static inline int calls_finish(const char *name, const TTest *const tests[], size_t n)
{
	TCase *tcase = tcase_create(name);

	backends_choose(getenv("RIPC_TEST_BACKENDS"));
	tcase_set_timeout(tcase, 60);
	for (size_t i = 0; i < n; i++)
		tcase_add_loop_test(tcase, tests[i], 0, (int)(2 * n_backends));
	return suite_finish(name, tcase);
}

#endif
