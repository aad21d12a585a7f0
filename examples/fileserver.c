/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fileserver: serves the files below a directory under a service ID; fileget is the client and
 * fileproto.h says what they exchange. This file owns the requests and the order in which they
 * get replies.
 *
 * One thread, one loop, one place to wait: the outcome of a reply is never waited for. Each client
 * has a queue, and the clients take turns, so that one with many requests does not keep the others
 * waiting. Replies are memory of this process until their client has freed them. The memory that
 * one client can hold is bounded, and shrinks as free memory does. A client that holds so much gets
 * an error, and can send its request again.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "command_line.h"
#include "fileserver.h"

#define CLIENT_REQUESTS 1024	    /* waiting, of one client */
#define CLIENT_ANSWERS	1024	    /* limit per client, */
#define CLIENT_BYTES	(64u << 20) /* and their bytes, */
#define CLIENT_PART	4	    /* and their part of the memory that is left */
#define BATCH		64   /* requests that are taken before it is the turn of the replies */
#define TURNS		16   /* of each client, before more requests are taken */
#define SHARE_KEPT	16   /* replies after which the memory that is left is looked at, */
#define PATH_KEPT	16   /* and by which way a client is reached */
#define IDLE_KEPT	1024 /* requests after which idle clients are looked for */
#define CACHE_BYTES	(1u << 30) /* at most, unless --cache says more */
#define TOLD_MAX	64	   /* clients of which was said by which way they are reached */

struct options {
	const char *dir;
	uint64_t id, cache_bytes;
};

/* Data of a reply. Its client has freed it when all references to it are ours. */
struct held {
	void *data;
	size_t len;
	int n_ours;
};

/* Exists while it has requests, or holds replies. Both are rings. */
struct client {
	uint64_t id, incarnation;
	struct ripc_msg *waiting[CLIENT_REQUESTS];
	struct held held[CLIENT_ANSWERS];
	unsigned int first_waiting, n_waiting, first_held, n_held;
	uint64_t held_bytes;
	unsigned int n_answered;
	int in_place, told;
	struct client *next;
};

struct server {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct answers answers;
	uint64_t told[TOLD_MAX]; /* incarnations of clients */
	unsigned int n_told;
	struct client *clients;
	unsigned int n_waiting, n_held; /* of all clients */
	uint64_t share;			/* bytes that a client can hold now */
	unsigned int n_since_share, n_since_idle;
	time_t said; /* when clients were last blamed for the lack of memory */
};

static const char usage_text[] =
	"usage: fileserver DIR --id N | --name S [--cache SIZE]\n"
	"\n"
	"Serves the files below DIR, for reading, to fileget.\n"
	"\n"
	"  --id N        the service ID to register, decimal or 0x...\n"
	"  --name S      the same by a name\n"
	"  --cache SIZE  memory for large files that are requested again: 64M, 2G, 0 for none\n"
	"                (default and most: a quarter of the library's; by default at most 1G)\n"
	"  --help        this text\n";

/* ---- clients ---- */

static struct client *find_client(const struct server *server, const struct ripc_msg *msg)
{
	struct client *client = server->clients;

	while (client && (client->id != msg->from || client->incarnation != msg->from_incarnation))
		client = client->next;
	return client;
}

static struct client *add_client(struct server *server, const struct ripc_msg *msg)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->id = msg->from;
	client->incarnation = msg->from_incarnation;
	client->next = server->clients;
	server->clients = client;
	return client;
}

/* Forgets the first reply that a client holds if it has freed it. False: it has not. */
static int release_first(struct server *server, struct client *client)
{
	struct held *held = &client->held[client->first_held];

	if (ripc_buf_refs(server->ctx, held->data) > held->n_ours)
		return 0;
	ripc_buf_free(server->ctx, held->data);
	client->held_bytes -= held->len;
	client->first_held = (client->first_held + 1) % CLIENT_ANSWERS;
	client->n_held--;
	server->n_held--;
	return 1;
}

/* The first reply becomes the last one. */
static void rotate_held(struct client *client)
{
	unsigned int last = (client->first_held + client->n_held) % CLIENT_ANSWERS;

	client->held[last] = client->held[client->first_held];
	client->first_held = (client->first_held + 1) % CLIENT_ANSWERS;
}

/* Most often those that it has freed are the first; this looks at all of them. */
static void release_all(struct server *server, struct client *client)
{
	unsigned int n = client->n_held;

	for (; n > 0; n--)
		if (!release_first(server, client))
			rotate_held(client);
}

static void release_everybody(struct server *server)
{
	struct client *client;

	for (client = server->clients; client; client = client->next)
		release_all(server, client);
}

static void drop_idle_clients(struct server *server)
{
	struct client **at = &server->clients, *client;

	release_everybody(server);
	while ((client = *at)) {
		if (client->n_waiting > 0 || client->n_held > 0) {
			at = &client->next;
			continue;
		}
		*at = client->next;
		free(client);
	}
}

/* ---- memory ---- */

static int say_holder(void *arg, const struct ripc_holder *holder)
{
	(void)arg;
	fprintf(stderr,
		"fileserver: no memory: service 0x%llx has not freed %llu bytes of %llu "
		"replies\n",
		(unsigned long long)holder->id, (unsigned long long)holder->bytes,
		(unsigned long long)holder->messages);
	return 0;
}

/* On this host clients read replies where they are, for as long as they like. */
static void say_holders(struct server *server)
{
	time_t now = time(NULL);

	if (now != server->said)
		ripc_holders(server->ctx, say_holder, NULL);
	server->said = now;
}

/* Computes what a client can hold: so always some is left for the next one. */
static void look_at_memory(struct server *server)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	uint64_t part = 0;

	if (server->n_since_share++ % SHARE_KEPT != 0)
		return;
	if (ripc_stats_get(server->ctx, &stats) == 0 &&
			stats.pool_used_bytes < stats.pool_limit_bytes)
		part = (stats.pool_limit_bytes - stats.pool_used_bytes) / CLIENT_PART;
	server->share = part < CLIENT_BYTES ? part : CLIENT_BYTES;
}

static int has_share(const struct server *server, const struct client *client)
{
	return client->n_held < CLIENT_ANSWERS && client->held_bytes + PIECE_BYTES <= server->share;
}

static int may_answer(struct server *server, struct client *client)
{
	look_at_memory(server);
	while (client->n_held > 0 && release_first(server, client))
		;
	if (has_share(server, client))
		return 1;
	release_all(server, client);
	return has_share(server, client);
}

/* Keeps a reference to a reply's data until its client has freed it. */
static void hold(struct server *server, struct client *client, const struct answer *answer)
{
	unsigned int last = (client->first_held + client->n_held) % CLIENT_ANSWERS;

	if (!answer->data || answer->is_cached || ripc_buf_ref(server->ctx, answer->data) < 0)
		return;
	client->held[last] = (struct held){answer->data, answer->len, 1 + answer->is_kept};
	client->held_bytes += answer->len;
	client->n_held++;
	server->n_held++;
}

/* ---- replies ---- */

/* A reply that cannot be sent is wanted by no client, or its request is sent again. */
static void answer_status(
	struct server *server, const struct ripc_msg *request, enum file_status status)
{
	struct file_answer answer = {.status = (uint8_t)status};
	uint8_t header[FILE_ANSWER_HEADER];
	struct iovec item = {header, sizeof(header)};

	file_answer_encode(&answer, header);
	ripc_reply(server->svc, request, &item, 1, 0);
}

/* Sends a prepared reply, and so gives it away, or frees it. */
static void send_answer(struct server *server, struct client *client,
	const struct ripc_msg *request, struct answer *answer)
{
	struct iovec items[2] = {
		{answer->header, FILE_ANSWER_HEADER},
		{answer->data, answer->len},
	};

	hold(server, client, answer);
	if (ripc_reply(server->svc, request, items, answer->data ? 2 : 1, RIPC_GIVE) < 0)
		answer_free(&server->answers, answer);
}

/* Does the client read where it is what it is given? */
static int reads_in_place(const struct server *server, struct client *client)
{
	struct ripc_path path = {.size = sizeof(path)};

	if (client->n_answered++ % PATH_KEPT == 0)
		client->in_place = ripc_path_info(server->svc, client->id, &path) == 0 &&
				   strcmp(path.bulk, "shm") == 0;
	return client->in_place;
}

static void answer_request(struct server *server, struct client *client,
	const struct ripc_msg *request, const struct file_request *ask)
{
	struct answer answer = {.in_place = reads_in_place(server, client)};
	enum file_status status = FILE_OK;
	int err = answer_prepare(&server->answers, &answer, ask, &status);

	if (err < 0) {
		say_holders(server);
		release_everybody(server);
		status = FILE_TOO_LARGE; /* unless somebody will give memory back */
	}
	if (err < 0 && server->n_held > 0)
		ripc_reply_error(server->svc, request, FILE_TOO_MANY);
	else if (status != FILE_OK)
		answer_status(server, request, status);
	else
		send_answer(server, client, request, &answer);
}

/* Says once for each client by which way it is reached. */
static void tell_path(struct server *server, struct client *client)
{
	struct ripc_path path = {.size = sizeof(path)};
	unsigned int i;

	for (i = 0; i < TOLD_MAX && !client->told; i++)
		client->told = server->told[i] == client->incarnation;
	if (client->told || ripc_path_info(server->svc, client->id, &path) < 0)
		return;
	client->told = 1;
	server->told[server->n_told++ % TOLD_MAX] = client->incarnation;
	printf("fileserver: client 0x%016llx over %s\n", (unsigned long long)client->id,
		path.backend);
	fflush(stdout);
}

/* Replies to one request of a client that has one. */
static void serve_client(struct server *server, struct client *client)
{
	struct ripc_msg *request = client->waiting[client->first_waiting];
	struct file_request ask;

	client->first_waiting = (client->first_waiting + 1) % CLIENT_REQUESTS;
	client->n_waiting--;
	server->n_waiting--;
	if (file_request_decode(request->items, &ask) < 0)
		ripc_reply_error(server->svc, request, FILE_MALFORMED);
	else if (!may_answer(server, client))
		ripc_reply_error(server->svc, request, FILE_TOO_MANY);
	else
		answer_request(server, client, request, &ask);
	ripc_msg_free(request);
	if (!client->told)
		tell_path(server, client);
}

/* Gives every client its turns. */
static void serve_all(struct server *server)
{
	struct client *client;
	int turn;

	for (turn = 0; turn < TURNS && server->n_waiting > 0; turn++)
		for (client = server->clients; client; client = client->next)
			if (client->n_waiting > 0)
				serve_client(server, client);
}

/* ---- what comes in ---- */

static void take_request(struct server *server, struct ripc_msg *msg)
{
	struct client *client = find_client(server, msg);

	if (!client) {
		drop_idle_clients(server);
		client = add_client(server, msg);
	}
	if (!client || client->n_waiting == CLIENT_REQUESTS) {
		ripc_reply_error(server->svc, msg, FILE_TOO_MANY);
		ripc_msg_free(msg);
		return;
	}
	client->waiting[(client->first_waiting + client->n_waiting) % CLIENT_REQUESTS] = msg;
	client->n_waiting++;
	server->n_waiting++;
	if (++server->n_since_idle % IDLE_KEPT == 0)
		drop_idle_clients(server);
}

/* Takes a message. 0, or -EADDRINUSE: another process holds our ID, and keeps it. */
static int take(struct server *server, struct ripc_msg *msg)
{
	int err = msg->kind == RIPC_NOTICE && msg->status == -EADDRINUSE ? -EADDRINUSE : 0;

	if (msg->kind == RIPC_REQUEST)
		take_request(server, msg);
	else
		ripc_msg_free(msg);
	return err;
}

/* How long to wait for a request. */
static int patience_ms(const struct server *server)
{
	if (server->n_waiting > 0 || server->answers.cache.reading)
		return 0;
	/* While files are kept open, or clients known, their time is looked at now and then. */
	return server->answers.tree.n_kept || server->clients ? TREE_KEPT_MS / 4 : -1;
}

/* Takes what is there, within bounds. 0, or what ends the service. */
static int take_some(struct server *server)
{
	struct ripc_msg *msg;
	int i, err = 0;

	for (i = 0; i < BATCH && err == 0; i++) {
		err = ripc_receive(server->svc, i ? 0 : patience_ms(server), &msg);
		if (err == 0)
			err = take(server, msg);
	}
	if (err == -ETIMEDOUT) {
		tree_expire(&server->answers.tree);
		drop_idle_clients(server);
	}
	return err == -ETIMEDOUT || err == -EAGAIN ? 0 : err;
}

/* Serves until the service is drained, and nothing waits any more. 0 or a negative errno. */
static int serve(struct server *server)
{
	int err = 0;

	while (err == 0) {
		err = take_some(server);
		if (server->n_waiting == 0)
			cache_work(&server->answers.cache); /* there is nothing else to do */
		serve_all(server);
	}
	while (server->n_waiting > 0)
		serve_all(server);
	return err == -ESHUTDOWN ? 0 : err;
}

/* ---- start and end ---- */

static void log_to_stderr(void *arg, int level, const char *text)
{
	(void)arg;
	if (level <= RIPC_LOG_WARN)
		fprintf(stderr, "fileserver: %s\n", text);
}

static int failed(const char *what, int err)
{
	fprintf(stderr, "fileserver: %s: %s\n", what, ripc_strerror(err));
	return 1;
}

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};

static void fill_signals(sigset_t *signals)
{
	size_t i;

	sigemptyset(signals);
	for (i = 0; i < sizeof(end_signals) / sizeof(end_signals[0]); i++)
		sigaddset(signals, end_signals[i]);
}

/*
 * A thread that waits for a signal. Then new requests find no service, those that came still get
 * their replies, and the loop ends by itself.
 */
static void *drain_on_signal(void *arg)
{
	struct server *server = arg;
	sigset_t signals;
	int signal;

	fill_signals(&signals);
	sigwait(&signals, &signal);
	ripc_service_drain(server->svc, 1000);
	return NULL;
}

/* With the service open. */
static int serve_until_signal(struct server *server, const char *dir)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, drain_on_signal, server);

	if (err != 0)
		return failed("cannot wait for signals", -err);
	printf("fileserver: serving %s as 0x%016llx\n", dir,
		(unsigned long long)ripc_service_id(server->svc));
	fflush(stdout);
	err = serve(server);
	pthread_kill(thread, SIGTERM); /* in case it was no signal that ended the loop */
	pthread_join(thread, NULL);
	printf("fileserver: %.1f MB, of which %.1f MB from memory\n",
		(double)server->answers.bytes / 1e6, (double)server->answers.cached_bytes / 1e6);
	return err < 0 ? failed("the service ended", err) : 0;
}

/* How much the cache may have: what was said, within a quarter of all that there is. */
static uint64_t cache_bytes(struct server *server, uint64_t wanted)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	if (ripc_stats_get(server->ctx, &stats) < 0)
		return 0;
	return wanted < stats.pool_limit_bytes / 4 ? wanted : stats.pool_limit_bytes / 4;
}

static int run(struct server *server, const struct options *options)
{
	struct ripc_config config = {.size = sizeof(config), .log = log_to_stderr};
	int err = ripc_open(&config, &server->ctx), status;

	if (err < 0)
		return failed("cannot start", err);
	server->answers.ctx = server->ctx;
	cache_open(&server->answers.cache, server->ctx, cache_bytes(server, options->cache_bytes));
	err = ripc_service_open(server->ctx, options->id, 0, &server->svc);
	if (err < 0)
		status = failed("cannot register the service", err);
	else
		status = serve_until_signal(server, options->dir);
	cache_close(&server->answers.cache);
	ripc_close(server->ctx, 1000); /* replies under way get a second to end */
	return status;
}

static void free_clients(struct server *server)
{
	struct client *client;

	while ((client = server->clients)) {
		server->clients = client->next;
		free(client);
	}
}

static int serve_directory(const struct options *options)
{
	struct server *server = calloc(1, sizeof(*server));
	sigset_t signals;
	int err, status;

	if (!server)
		return failed("no memory", -ENOMEM);
	/* Every thread, also the library's, leaves these signals to the one that waits for them. */
	fill_signals(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	err = tree_open(&server->answers.tree, options->dir);
	if (err < 0) {
		free(server);
		fprintf(stderr, "fileserver: %s: %s\n", options->dir, strerror(-err));
		return 1;
	}
	status = run(server, options);
	tree_close(&server->answers.tree);
	free_clients(server);
	free(server);
	return status;
}

static int usage_error(const char *what)
{
	fprintf(stderr, "fileserver: %s\n%s", what, usage_text);
	return 2;
}

static int parse_option(int option, const char *arg, struct options *options)
{
	switch (option) {
	case 'i':
		return parse_service_id(arg, &options->id);
	case 'n':
		return parse_service_name(arg, &options->id);
	case 'c':
		return parse_bytes(arg, &options->cache_bytes);
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"id", required_argument, NULL, 'i'},
		{"name", required_argument, NULL, 'n'},
		{"cache", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct options options = {.cache_bytes = CACHE_BYTES};
	char what[OPTION_WRONG_MAX];
	int option;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (parse_option(option, optarg, &options) < 0)
			return usage_error(option_wrong(optarg, what));
	}
	if (optind != argc - 1)
		return usage_error("a directory is needed");
	if (options.id == 0)
		return usage_error("--id or --name is needed");
	options.dir = argv[optind];
	return serve_directory(&options);
}
