/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uses each struct that may grow. growth.py compiles it with the headers as they are, and with
 * headers (-DGROWN) in which each of these structs has one field more, "grown", and runs both with
 * the library as it is, and with one that was built with the longer structs.
 * usage: growth KNOWS_GROWN  (1: the library knows the field)
 */
#include <errno.h>
#include <ripc/call.h>
#include <ripc/group.h>
#include <ripc/keys.h>
#include <ripc/list.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define GUARD       0x5555555555555555u

#ifdef GROWN
#define IS_GROWN          true
#define GROW(made, value) ((made)->grown = (value))
#define GROWN_OF(made)    ((made)->grown)
#else
#define IS_GROWN          false
#define GROW(made, value) ((void)0)
#define GROWN_OF(made)    0
#endif

/* A struct of the interface, and memory behind it in the program's memory. */
#define GUARDED(type)                                                                            \
	struct {                                                                                 \
		struct type made;                                                                \
		uint64_t guard;                                                                  \
	}

static bool knows_grown; /* the library */
static int n_failed, n_found;

static void check(const char *what, bool holds)
{
	n_failed += !holds;
	if (!holds)
		fprintf(stderr, "growth: %s\n", what);
}

static void checked(const char *what, int result, int wanted)
{
	if (result != wanted)
		fprintf(stderr, "growth: %s: %d, not %d\n", what, result, wanted);
	n_failed += result != wanted;
}

/* The result of a call with the new field set in its struct; result: the one without the field. */
static int with_grown(int result)
{
	return IS_GROWN && !knows_grown ? -E2BIG : result;
}

static struct ripc_context *opened(void)
{
	struct ripc_config cfg = RIPC_INIT(struct ripc_config);
	struct ripc_context *ctx = NULL;

	cfg.backends = "udp";
	cfg.interfaces = "lo";
	GROW(&cfg, 1);
	checked("ripc_open() with the field", ripc_open(&cfg, &ctx), with_grown(0));
	if (ctx)
		ripc_close(ctx, 0);
	GROW(&cfg, 0);
	ctx = NULL;
	checked("ripc_open()", ripc_open(&cfg, &ctx), 0);
	return ctx;
}

static struct ripc_msg *take(struct ripc_service *svc, uint32_t kind)
{
	struct ripc_msg *msg = NULL;

	checked("ripc_receive()", ripc_receive(svc, PATIENCE_MS, &msg), 0);
	check("the kind of the message", msg && msg->kind == kind);
	if (!msg || n_failed)
		exit(1);
	if (knows_grown)
		check("the message's new field", GROWN_OF(msg) == 0);
	return msg;
}

static void try_send(struct ripc_service *from, struct ripc_service *to)
{
	struct iovec item = {.iov_base = (void *)"hello", .iov_len = 5};
	struct ripc_send send = RIPC_INIT(struct ripc_send);
	struct ripc_msg *msg;
	uint32_t outcome = 0;

	send.to = ripc_service_id(to);
	send.items = &item;
	send.n_items = 1;
	send.flags = RIPC_SEND_LONG;
	send.timeout_ms = PATIENCE_MS;
	checked("ripc_sendmsg()", ripc_sendmsg(from, &send, &outcome), 0);
	check("the outcome", outcome == RIPC_DELIVERED);
	msg = take(to, RIPC_LONG);
	check("the item", msg->n_items == 1 && msg->items[0].iov_len == 5 &&
		memcmp(msg->items[0].iov_base, "hello", 5) == 0);
	ripc_msg_free(msg);
	GROW(&send, 1);
	checked("ripc_sendmsg() with the field", ripc_sendmsg(from, &send, NULL), with_grown(0));
	if (with_grown(0) == 0)
		ripc_msg_free(take(to, RIPC_LONG));
}

static void try_request(struct ripc_service *from, struct ripc_service *to)
{
	struct iovec item = {.iov_base = (void *)"hello", .iov_len = 5};
	struct ripc_request request = RIPC_INIT(struct ripc_request);
	struct ripc_msg *msg;

	request.to = ripc_service_id(to);
	request.items = &item;
	request.n_items = 1;
	request.timeout_ms = PATIENCE_MS;
	GROW(&request, 1);
	checked("ripc_call_start() with the field", ripc_call_start(from, &request),
		with_grown(0));
	GROW(&request, 0);
	if (with_grown(0))
		checked("ripc_call_start()", ripc_call_start(from, &request), 0);
	msg = take(to, RIPC_REQUEST);
	checked("ripc_reply()", ripc_reply(to, msg, &item, 1, 0), 0);
	ripc_msg_free(msg);
	msg = take(from, RIPC_REPLY);
	checked("the call", msg->status, 0);
	ripc_msg_free(msg);
}

static void try_filled(struct ripc_context *ctx, struct ripc_service *from,
		struct ripc_service *to)
{
	GUARDED(ripc_path) path = {.guard = GUARD};
	GUARDED(ripc_stats) stats = {.guard = GUARD};

	path.made.size = sizeof(path.made);
	GROW(&path.made, 1);
	checked("ripc_path_info()", ripc_path_info(from, ripc_service_id(to), &path.made), 0);
	check("the path", strcmp(path.made.backend, "udp") == 0);
	check("the path's new field", GROWN_OF(&path.made) == 0);
	check("memory behind the path", path.guard == GUARD);
	stats.made.size = sizeof(stats.made);
	GROW(&stats.made, 1);
	checked("ripc_stats_get()", ripc_stats_get(ctx, &stats.made), 0);
	check("the counters", stats.made.long_sent > 0);
	check("the counters' new field", GROWN_OF(&stats.made) == 0);
	check("memory behind the counters", stats.guard == GUARD);
}

static void try_deliveries(struct ripc_service *from, struct ripc_service *to)
{
	struct iovec item = {.iov_base = (void *)"hello", .iov_len = 5};
	struct ripc_send send = RIPC_INIT(struct ripc_send);
	struct ripc_delivery list[3];
	struct ripc_msg *msg;
	char name[64];

	snprintf(name, sizeof(name), "growth of %ld", (long)getpid());
	send.to = ripc_group_from_name(name);
	send.items = &item;
	send.n_items = 1;
	send.flags = RIPC_SEND_LONG | RIPC_NOWAIT;
	send.timeout_ms = PATIENCE_MS;
	checked("ripc_join()", ripc_join(to, send.to), 0);
	checked("ripc_sendmsg() to the group", ripc_sendmsg(from, &send, NULL), 0);
	ripc_msg_free(take(to, RIPC_LONG));
	msg = take(from, RIPC_COMPLETION);
	check("the counts", msg->counts && msg->counts->delivered == 1 &&
		!msg->counts->reserved[0] && !msg->counts->reserved[1]);
	memset(list, 0x55, sizeof(list));
	checked("ripc_deliveries()", ripc_deliveries(msg, list, 2, sizeof(list[0])), 1);
	check("the delivery", list[0].id == ripc_service_id(to) &&
		list[0].outcome == RIPC_DELIVERED && list[0].status == 0);
	check("the delivery's new field", GROWN_OF(&list[0]) == 0);
	check("the next delivery", list[1].id == GUARD);
	ripc_msg_free(msg);
}

static void try_grant(void)
{
	struct ripc_grant grant = RIPC_INIT(struct ripc_grant);
	char key[65], text[RIPC_CAPABILITY], why[RIPC_KEYS_WHY];
	int result;

	memset(key, '0', 64);
	key[64] = '\0';
	grant.key = key;
	grant.what = RIPC_MAY_BE;
	result = ripc_keys_grant("/nowhere", &grant, text, why);
	check("ripc_keys_grant()", result == -ENODEV || result == -ENOENT);
	GROW(&grant, 1);
	checked("ripc_keys_grant() with the field",
		ripc_keys_grant("/nowhere", &grant, text, why), with_grown(result));
}

static int listed(void *arg, const struct ripc_listing *listing)
{
	(void)arg;
	check("the listing", listing->id && listing->source[0]);
	n_found++;
	return 0;
}

static int held(void *arg, const struct ripc_holder *holder)
{
	(void)arg;
	check("the holder", holder->id != 0);
	return 0;
}

static int probed(void *arg, const struct ripc_finding *finding)
{
	(void)arg;
	check("the finding", finding->kind && finding->name && finding->detail && finding->remedy);
	n_found++;
	return 0;
}

static void try_callbacks(struct ripc_context *ctx)
{
	check("ripc_list()", ripc_list(ctx, 100, listed, NULL) == n_found);
	n_found = 0;
	checked("ripc_probe()", ripc_probe(NULL, probed, NULL), 0);
	check("number of findings", n_found > 1);
	checked("ripc_holders()", ripc_holders(ctx, held, NULL), 0);
}

static void try_pulled(struct ripc_context *ctx)
{
	GUARDED(ripc_log_message) message = {.guard = GUARD};
	struct ripc_listing list[3];
	struct ripc_lister *lister;
	void *buf;
	int n;

	checked("ripc_buf_alloc()", ripc_buf_alloc(ctx, (size_t)1 << 46, &buf), -ENOMEM);
	message.made.size = sizeof(message.made);
	GROW(&message.made, 1);
	checked("ripc_log_next()", ripc_log_next(ctx, &message.made), 0);
	check("the message of the log", message.made.text[0] && message.made.lost == 0);
	check("the log's new field", GROWN_OF(&message.made) == 0);
	check("memory behind the message", message.guard == GUARD);
	checked("ripc_lister_open()", ripc_lister_open(ctx, &lister), 0);
	memset(list, 0x55, sizeof(list));
	n = ripc_lister_next(lister, PATIENCE_MS, list, 2, sizeof(list[0]));
	check("ripc_lister_next()", n == 1 || n == 2);
	check("the listing's new field", GROWN_OF(&list[0]) == 0);
	check("the next listing", list[2].id == GUARD);
	checked("ripc_lister_close()", ripc_lister_close(lister), 0);
}

int main(int argc, char **argv)
{
	struct ripc_service *from, *to;
	struct ripc_context *ctx;

	if (argc != 2)
		return 2;
	knows_grown = atoi(argv[1]);
	alarm(60);
	ctx = opened();
	if (!ctx || ripc_service_open(ctx, 0, 0, &from) || ripc_service_open(ctx, 0, 0, &to))
		return 1;
	check("ripc_version()", ripc_version() == (RIPC_VERSION_MAJOR << 16 |
		RIPC_VERSION_MINOR << 8 | RIPC_VERSION_PATCH));
	try_send(from, to);
	try_request(from, to);
	try_filled(ctx, from, to);
	try_deliveries(from, to);
	try_grant();
	try_callbacks(ctx);
	try_pulled(ctx);
	checked("ripc_close()", ripc_close(ctx, 1000), 0);
	return n_failed ? 1 : 0;
}
