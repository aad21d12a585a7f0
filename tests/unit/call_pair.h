/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of calls: two contexts, a server that returns each request. The file that is
 * linked with the tests says by which networks they run (tests/conformance).
 */
#ifndef RIPC_TEST_CALL_PAIR_H
#define RIPC_TEST_CALL_PAIR_H

#include "api.h"
#include "ripc/call.h"

#define BIG      (3u << 20)
#define MANY     300u
#define SOON_MS  1500 /* a deadline that is missed on purpose */

#define CALLS_BACKENDS_MAX 8u

/* Where the tests run. */
struct calls_world {
	/* Each test runs by each of them, in contexts of open, or (NULL) of ripc_open(). */
	const char *backends[CALLS_BACKENDS_MAX];
	uint32_t n_backends;
	int (*open)(const struct ripc_config *cfg, struct ripc_context **ctx);
	/* Before and after each test; or NULL. */
	void (*begin)(void);
	void (*end)(void);
	const char *options; /* of a context, besides those of api.h; or NULL */
	bool one_process;    /* nobody outside of this one can be reached */
	bool moves;          /* the network can read or write by itself */
};

/* args: of the program. 0; or an exit status: the tests cannot run, and the world has said why. */
int calls_world_make(struct calls_world *world, int n_args, char **args);

static struct calls_world calls_world;

/* Each test runs for each backend, with each of these flags. */
static inline uint32_t flags_of(int i)
{
	return i % 2 ? RIPC_IDEMPOTENT : 0;
}

static inline struct ripc_config config_of(int i, uint32_t flags)
{
	struct ripc_config cfg = api_config(flags);
	static char options[256];

	cfg.backends = calls_world.backends[i / 2];
	if (!calls_world.options)
		return cfg;
	snprintf(options, sizeof(options), "%s,%s", cfg.options, calls_world.options);
	cfg.options = options;
	return cfg;
}

/* As side_open_as(). */
static inline void caller_open(struct side *side, const struct ripc_config *cfg, uint64_t id)
{
	ck_assert_int_eq(calls_world.open ? calls_world.open(cfg, &side->ctx) :
		ripc_open(cfg, &side->ctx), 0);
	ck_assert_int_eq(ripc_service_open(side->ctx, id, 0, &side->svc), 0);
	side->id = ripc_service_id(side->svc);
}

static inline void both_open(struct pair *pair, int i)
{
	struct ripc_config cfg = config_of(i, 0);

	caller_open(&pair->a, &cfg, 0);
	caller_open(&pair->b, &cfg, 0);
}

static inline struct ripc_request call_to(uint64_t to, const struct iovec *items, uint32_t n,
		int i)
{
	return (struct ripc_request){.size = sizeof(struct ripc_request), .to = to,
		.items = items, .n_items = n, .flags = flags_of(i), .timeout_ms = PATIENCE_MS};
}

/* ---- a server ---------------------------------------------------------------------------- */

struct server {
	struct ripc_service *svc;
	pthread_t thread;
	uint32_t n;   /* questions taken */
	bool refused; /* an answer was, with -EAGAIN: notices say when to try again */
};

static inline int answer_once(const struct server *server, const struct ripc_msg *question)
{
	if (*(char *)question->items[0].iov_base == 'e')
		return ripc_reply_error(server->svc, question, -EDOM);
	return ripc_reply(server->svc, question, question->items, question->n_items, 0);
}

/* -EAGAIN: the asker is slow, and 4,096 answers wait for it. */
static inline void give_answer(struct server *server, const struct ripc_msg *question)
{
	int error;

	while ((error = answer_once(server, question)) == -EAGAIN) {
		server->refused = true;
		usleep(1000);
	}
	ck_assert_int_eq(error, 0);
}

static inline struct ripc_msg *take_question(const struct server *server)
{
	struct ripc_msg *msg;

	for (;;) {
		ck_assert_int_eq(ripc_receive(server->svc, PATIENCE_MS, &msg), 0);
		if (msg->kind != RIPC_NOTICE)
			break;
		ck_assert(server->refused);
		ripc_msg_free(msg);
	}
	ck_assert_int_eq(msg->kind, RIPC_REQUEST);
	return msg;
}

/* Gives back what it was asked; what begins with 'e' is answered with an error, 'q' ends it. */
static inline void *serve(void *arg)
{
	struct server *server = arg;
	bool quit = false;

	while (!quit) {
		struct ripc_msg *question = take_question(server);

		server->n++;
		quit = *(char *)question->items[0].iov_base == 'q';
		give_answer(server, question);
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
	struct ripc_request call = {.size = sizeof(call), .to = ripc_service_id(server->svc),
		.items = &quit, .n_items = 1, .timeout_ms = PATIENCE_MS};
	struct ripc_msg *answer;

	ck_assert_int_eq(ripc_call(client->svc, &call, &answer, NULL), 0);
	ripc_msg_free(answer);
	pthread_join(server->thread, NULL);
}

static inline void check_echo(const struct side *client, const struct ripc_request *call)
{
	enum ripc_outcome asked = 0;
	struct ripc_msg *answer;

	ck_assert_int_eq(ripc_call(client->svc, call, &answer, &asked), 0);
	ck_assert_int_eq(asked, RIPC_DELIVERED);
	ck_assert_int_eq(answer->kind, RIPC_REPLY);
	ck_assert_int_eq(answer->outcome, RIPC_DELIVERED);
	ck_assert_int_eq(answer->sender, RIPC_SENDER_RESOLVED);
	ck_assert_uint_eq(answer->request_cookie, call->cookie);
	ck_assert_uint_eq(answer->from, call->to);
	ck_assert_uint_eq(answer->n_items, call->n_items);
	for (uint32_t i = 0; i < answer->n_items; i++) {
		ck_assert_uint_eq(answer->items[i].iov_len, call->items[i].iov_len);
		ck_assert_int_eq(memcmp(answer->items[i].iov_base, call->items[i].iov_base,
			call->items[i].iov_len), 0);
	}
	ripc_msg_free(answer);
}

/* Closes the service of a context as soon as so many calls are open there. */
struct closer {
	const struct side *side;
	uint64_t n_calls;
	pthread_t thread;
};

static inline void *close_when_open(void *arg)
{
	const struct closer *closer = arg;

	while (stats_of(closer->side->ctx).calls_open < closer->n_calls)
		usleep(1000);
	ripc_service_close(closer->side->svc);
	return NULL;
}

static inline void closer_start(struct closer *closer, const struct side *side, uint64_t n_calls)
{
	*closer = (struct closer){.side = side, .n_calls = n_calls};
	ck_assert_int_eq(pthread_create(&closer->thread, NULL, close_when_open, closer), 0);
}

/* A test that needs another process is left out where there is none. */
struct calls_test {
	const TTest *test;
	bool with_process;
};

/* Runs each of these tests, the last of which is NULL, for each backend and flag. */
static inline int calls_finish(const char *name, const struct calls_test *tests, int n_args,
		char **args)
{
	int error = calls_world_make(&calls_world, n_args, args);
	TCase *tcase;

	if (error)
		return error;
	tcase = tcase_create(name);
	tcase_set_timeout(tcase, 60);
	if (calls_world.begin)
		tcase_add_checked_fixture(tcase, calls_world.begin, calls_world.end);
	for (; tests->test; tests++) {
		if (!tests->with_process || !calls_world.one_process)
			tcase_add_loop_test(tcase, tests->test, 0,
				(int)(2 * calls_world.n_backends));
	}
	return suite_finish(name, tcase);
}

#endif
