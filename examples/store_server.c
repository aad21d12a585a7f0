/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_server: keeps values under keys, in memory; store_client is the client and storeproto.h
 * says what they exchange.
 *
 * A value lies in a buffer of the library's pool and is given to each client that gets it, so that
 * it is not copied here. A value that was replaced while clients still have it goes to the list of
 * the leaving ones, and counts there until all have freed it, so that --memory holds whatever
 * clients do. It waits for the outcome of no reply, so that no client keeps others waiting.
 */
#include <getopt.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include "command_line.h"
#include "storeproto.h"

#define MEMORY_BYTES (256u << 20)
#define VALUE_MORE   128 /* overhead of a value beyond its bytes */
#define SWEEP_MOST   16	 /* leaving values that are looked at each time */

struct value {
	void *data; /* in the pool; NULL: it is empty */
	size_t len;
};

struct pair {
	uint16_t key_len;
	char key[STORE_KEY_MAX];
	struct value value;
};

struct leaving {
	struct value value;
	struct leaving *next;
};

struct store {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	void *pairs; /* a tree, of tsearch(3) */
	struct leaving *leaving, **leaving_tail;
	uint64_t bytes, max_bytes, n_keys;
};

struct options {
	uint64_t id, memory_bytes;
};

static const char usage_text[] =
	"usage: store_server [--id N | --name S] [--memory SIZE]\n"
	"\n"
	"Keeps values of up to 10 MiB under keys, in memory, for store_client. Ctrl-C ends it.\n"
	"\n"
	"  --id N         the service ID to register, decimal or 0x...\n"
	"  --name S       the same by a name (default \"" STORE_NAME "\")\n"
	"  --memory SIZE  for all keys and values: 64M, 2G (default 256M; at most a quarter of "
	"the\n"
	"                 library's)\n"
	"  --help         this text\n";

/* ---- values ---- */

static void value_free(struct store *store, struct value *value)
{
	store->bytes -= value->len + VALUE_MORE;
	ripc_buf_free(store->ctx, value->data);
}

/* Copies a value: what was received counts as its sender's until it is freed. */
static int value_copy(struct store *store, const struct iovec *item, struct value *value)
{
	int err;

	value->len = item->iov_len;
	value->data = NULL;
	if (value->len == 0)
		return 0;
	err = ripc_buf_alloc(store->ctx, value->len, &value->data);
	if (err < 0)
		return err;
	memcpy(value->data, item->iov_base, value->len);
	store->bytes += value->len + VALUE_MORE;
	return 0;
}

static void leave(struct store *store, struct leaving *leaving)
{
	leaving->next = NULL;
	*store->leaving_tail = leaving;
	store->leaving_tail = &leaving->next;
}

/* Frees leaving values that nobody else has any more. The others go to the end of the list. */
static void sweep(struct store *store)
{
	struct leaving *leaving;
	unsigned int i;

	for (i = 0; i < SWEEP_MOST && store->leaving; i++) {
		leaving = store->leaving;
		store->leaving = leaving->next;
		if (!store->leaving)
			store->leaving_tail = &store->leaving;
		if (ripc_buf_refs(store->ctx, leaving->value.data) > 1) {
			leave(store, leaving);
			continue;
		}
		value_free(store, &leaving->value);
		free(leaving);
	}
}

/* Drops a value. While clients have it, it still counts. -ENOMEM: it was not dropped. */
static int value_drop(struct store *store, struct value *value)
{
	struct leaving *leaving;

	if (value->len == 0)
		return 0;
	if (ripc_buf_refs(store->ctx, value->data) == 1) {
		value_free(store, value);
		return 0;
	}
	leaving = malloc(sizeof(*leaving));
	if (!leaving)
		return -ENOMEM;
	leaving->value = *value;
	leave(store, leaving);
	return 0;
}

/* ---- pairs ---- */

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *left = a, *right = b;

	if (left->key_len != right->key_len)
		return left->key_len < right->key_len ? -1 : 1;
	return memcmp(left->key, right->key, left->key_len);
}

static struct pair *find(struct store *store, const struct store_request *request)
{
	struct pair like, **found;

	like.key_len = request->key_len;
	memcpy(like.key, request->key, request->key_len);
	found = tfind(&like, &store->pairs, compare_pairs);
	return found ? *found : NULL;
}

/* Adds a pair with an empty value, or returns NULL. */
static struct pair *add(struct store *store, const struct store_request *request)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return NULL;
	pair->key_len = request->key_len;
	memcpy(pair->key, request->key, request->key_len);
	if (!tsearch(pair, &store->pairs, compare_pairs)) {
		free(pair);
		return NULL;
	}
	store->bytes += sizeof(*pair);
	store->n_keys++;
	return pair;
}

static void free_pair(void *pair)
{
	free(pair);
}

/* ---- requests ---- */

static int get(
	struct store *store, const struct ripc_msg *msg, const struct store_request *request)
{
	struct pair *pair = find(store, request);
	struct iovec item;
	int err;

	if (!pair)
		return STORE_NO_KEY;
	if (pair->value.len == 0)
		return ripc_reply(store->svc, msg, NULL, 0, 0);
	item = (struct iovec){pair->value.data, pair->value.len};
	err = ripc_buf_ref(store->ctx, pair->value.data);
	if (err < 0)
		return err;
	err = ripc_reply(store->svc, msg, &item, 1, RIPC_GIVE);
	if (err < 0) /* the reference is still ours */
		ripc_buf_free(store->ctx, pair->value.data);
	return err;
}

static int set(
	struct store *store, const struct ripc_msg *msg, const struct store_request *request)
{
	const struct iovec *item = &msg->items[1];
	struct pair *pair = find(store, request);
	struct value value;

	if (item->iov_len > STORE_VALUE_MAX)
		return STORE_TOO_LONG;
	sweep(store);
	if (store->bytes + item->iov_len + VALUE_MORE + sizeof(*pair) > store->max_bytes)
		return STORE_FULL;
	if (value_copy(store, item, &value) < 0)
		return STORE_FULL;
	if (!pair)
		pair = add(store, request);
	if (!pair || value_drop(store, &pair->value) < 0) {
		if (value.len > 0)
			value_free(store, &value);
		return STORE_FULL;
	}
	pair->value = value;
	/* If that fails, the client hears nothing: it knows that it does not know. */
	ripc_reply(store->svc, msg, NULL, 0, 0);
	return 0;
}

static void serve_one(struct store *store, const struct ripc_msg *msg)
{
	struct store_request request;
	int err = store_request_decode(msg, &request);

	if (err == 0 && request.what == STORE_PING)
		err = ripc_reply(store->svc, msg, NULL, 0, 0);
	else if (err == 0 && request.what == STORE_GET)
		err = get(store, msg, &request);
	else if (err == 0)
		err = set(store, msg, &request);
	if (err < 0)
		ripc_reply_error(store->svc, msg, err);
}

/* ---- start and end ---- */

static struct ripc_service *service_to_wake;

static void stop(int signal)
{
	(void)signal;
	ripc_wake(service_to_wake);
}

static void handle_signals(void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Serves until a signal; requests that came by then still get a reply. 0 or a negative errno. */
static int serve(struct store *store)
{
	struct ripc_msg *msg;
	int err, taken = 0;

	while ((err = ripc_receive(store->svc, -1, &msg)) == 0 || err == -EINTR) {
		if (err == -EINTR) {
			ripc_service_drain(store->svc, 1000);
			continue;
		}
		if (msg->kind == RIPC_REQUEST)
			serve_one(store, msg);
		if (msg->kind == RIPC_NOTICE && msg->status == -EADDRINUSE)
			taken = msg->status; /* the service is drained already */
		ripc_msg_free(msg);
	}
	return err == -ESHUTDOWN ? taken : err;
}

static int failed(const char *what, int err)
{
	fprintf(stderr, "store_server: %s: %s\n", what, ripc_strerror(err));
	return 1;
}

static uint64_t memory_bytes(struct store *store, uint64_t wanted)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	if (ripc_stats_get(store->ctx, &stats) < 0)
		return 0;
	return wanted < stats.pool_limit_bytes / 4 ? wanted : stats.pool_limit_bytes / 4;
}

static int run(struct store *store, const struct options *options)
{
	int err = ripc_open(NULL, &store->ctx), status = 0;

	if (err < 0)
		return failed("cannot start", err);
	store->max_bytes = memory_bytes(store, options->memory_bytes);
	err = ripc_service_open(store->ctx, options->id, 0, &store->svc);
	if (err < 0) {
		ripc_close(store->ctx, 0);
		return failed("cannot register the service", err);
	}
	service_to_wake = store->svc;
	handle_signals(stop);
	printf("store_server: serving as 0x%016llx\n", (unsigned long long)options->id);
	fflush(stdout);
	err = serve(store);
	handle_signals(SIG_DFL);
	if (err < 0)
		status = failed("the service ended", err);
	printf("store_server: %llu keys, %.1f MB\n", (unsigned long long)store->n_keys,
		(double)store->bytes / 1e6);
	ripc_close(store->ctx, 1000); /* replies under way get a second; then all values are gone */
	return status;
}

static void free_all(struct store *store)
{
	struct leaving *leaving;

	tdestroy(store->pairs, free_pair);
	while ((leaving = store->leaving)) {
		store->leaving = leaving->next;
		free(leaving);
	}
}

static int usage_error(const char *what)
{
	fprintf(stderr, "store_server: %s\n%s", what, usage_text);
	return 2;
}

static int parse_option(int option, const char *arg, struct options *options)
{
	switch (option) {
	case 'i':
		return parse_service_id(arg, &options->id);
	case 'n':
		return parse_service_name(arg, &options->id);
	case 'm':
		return parse_bytes(arg, &options->memory_bytes);
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"id", required_argument, NULL, 'i'},
		{"name", required_argument, NULL, 'n'},
		{"memory", required_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct options options = {ripc_id_from_name(STORE_NAME), MEMORY_BYTES};
	struct store store = {.leaving_tail = &store.leaving};
	char what[OPTION_WRONG_MAX];
	int option, status;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (parse_option(option, optarg, &options) < 0)
			return usage_error(option_wrong(optarg, what));
	}
	if (optind != argc)
		return usage_error("no argument is allowed");
	status = run(&store, &options);
	free_all(&store);
	return status;
}
