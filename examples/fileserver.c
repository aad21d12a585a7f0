/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fileserver: serves the files below a directory under a service ID; fileget is the client and
 * fileproto.h says what they exchange. This file owns the requests and the order in which they
 * are answered.
 *
 * One thread, one loop, one place to wait: answers are sent with RIPC_NOWAIT, so that a client
 * which reads slowly keeps nobody waiting. Each client has a queue; the clients take turns. How
 * much is being answered at a time is bounded, per client and in all; a request too many is
 * dropped, as it might also have been lost on the way, and its sender asks again.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "command_line.h"
#include "fileserver.h"

#define REQUESTS_MAX	  2048	       /* waiting or being answered, of all clients */
#define CLIENT_REQUESTS	  128	       /* of one client */
#define ANSWERS_MAX	  256	       /* being sent at a time, of all clients */
#define CLIENT_ANSWERS	  16	       /* of one client */
#define ANSWER_BYTES	  (256u << 20) /* memory of the answers being sent, of all clients */
#define CLIENT_BYTES	  (64u << 20)  /* of one client; a first answer is always allowed */
#define ANSWER_TIMEOUT_MS 60000	       /* a client that vanished is noticed much earlier */
#define CACHE_BYTES	  (1u << 30) /* at most, unless --cache says more */
#define TOLD_MAX	  64	     /* clients of which was said by which way they are reached */

struct options {
	const char *dir;
	uint64_t id, cache_bytes;
};

struct client;

struct request {
	struct file_request ask;
	uint64_t reply;
	struct client *client; /* NULL: this place is free */
	struct request *next;  /* in the client's queue, or in the list of free places */
	int sending;
	struct answer answer;
};

/* Exists as long as it has requests. */
struct client {
	uint64_t id, incarnation;
	struct request *head, **tail; /* waiting */
	unsigned int n_requests, n_sending;
	uint64_t sending_bytes;
	int blocked; /* met -EAGAIN: wait for the notice */
	struct client *next;
};

struct server {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct answers answers;
	uint64_t told[TOLD_MAX]; /* incarnations of clients */
	unsigned int n_told;
	struct request requests[REQUESTS_MAX];
	struct request *free_requests;
	struct client *clients;
	unsigned int n_sending;
	uint64_t sending_bytes;
	time_t said; /* when clients were last blamed for the lack of memory */
};

static const char usage_text[] =
	"usage: fileserver DIR --id N | --name S [--cache SIZE]\n"
	"\n"
	"Serves the files below DIR, for reading, to fileget.\n"
	"\n"
	"  --id N        the service ID to register, decimal or 0x...\n"
	"  --name S      the same by a name\n"
	"  --cache SIZE  memory for large files that are asked for again: 64M, 2G, 0 for none\n"
	"                (default and most: a quarter of the library's; by default at most 1G)\n"
	"  --help        this text\n";

/* ---- requests and clients ---- */

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
	client->tail = &client->head;
	client->next = server->clients;
	server->clients = client;
	return client;
}

static void drop_idle_client(struct server *server, struct client *client)
{
	struct client **at = &server->clients;

	if (client->n_requests > 0)
		return;
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	free(client);
}

static void enqueue(struct request *request)
{
	struct client *client = request->client;

	request->next = NULL;
	*client->tail = request;
	client->tail = &request->next;
}

static void dequeue(struct client *client)
{
	client->head = client->head->next;
	if (!client->head)
		client->tail = &client->head;
}

/* Ends a request that is in no queue. Its answer's memory must be gone by now. */
static void end_request(struct server *server, struct request *request)
{
	request->client->n_requests--;
	request->client = NULL;
	request->next = server->free_requests;
	server->free_requests = request;
}

/* ---- answers ---- */

static void answer_short(struct server *server, uint64_t to, const struct file_answer *answer)
{
	uint8_t header[FILE_ANSWER_HEADER];
	struct iovec item = {header, sizeof(header)};

	file_answer_encode(answer, header);
	/* If it is lost, the client asks again. */
	ripc_send_short(server->svc, to, &item, 1);
}

static void answer_status(
	struct server *server, const struct request *request, enum file_status status)
{
	struct file_answer answer = {.status = (uint8_t)status, .number = request->ask.number};

	answer_short(server, request->client->id, &answer);
}

/* Sends a prepared answer. The request's place is its cookie. 0 or a negative errno. */
static int send_answer(struct server *server, struct request *request)
{
	struct iovec items[2] = {
		{request->answer.header, FILE_ANSWER_HEADER},
		{request->answer.data, request->answer.len},
	};
	struct ripc_send send = {
		.size = sizeof(send),
		.to = request->client->id,
		.to_incarnation = request->client->incarnation,
		.items = items,
		.n_items = request->answer.len > 0 ? 2 : 1,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT | RIPC_GIVE,
		.timeout_ms = ANSWER_TIMEOUT_MS,
		.reply_to = request->reply,
		.cookie = (uint64_t)(request - server->requests) + 1,
	};

	return ripc_sendmsg(server->svc, &send, NULL);
}

static void say_holder(void *arg, const struct ripc_holder *holder)
{
	(void)arg;
	fprintf(stderr, "fileserver: no memory: service 0x%llx has not freed %llu bytes of %llu "
		"answers\n", (unsigned long long)holder->id, (unsigned long long)holder->bytes,
		(unsigned long long)holder->messages);
}

/* On this host clients read answers where they are, for as long as they like. */
static void say_holders(struct server *server)
{
	time_t now = time(NULL);

	if (now != server->said)
		ripc_holders(server->ctx, say_holder, NULL);
	server->said = now;
}

static int shares_memory(const struct server *server, const struct client *client)
{
	struct ripc_path path = {.size = sizeof(path)};

	return ripc_path_info(server->svc, client->id, &path) == 0 &&
	       strcmp(path.bulk, "shm") == 0;
}

/* Prepares and sends. 0: being sent; 1: answered and over; -EAGAIN, -ENOMEM: try again later. */
static int start_answer(struct server *server, struct request *request)
{
	enum file_status status = FILE_OK;
	int err = 0;

	if (!request->answer.header) {
		request->answer.in_place = shares_memory(server, request->client);
		err = answer_prepare(&server->answers, &request->answer, &request->ask, &status);
	}
	/* With nothing under way nobody will give memory back: say it rather than wait. */
	if (err < 0 && server->n_sending > 0)
		return -ENOMEM;
	if (err < 0) {
		say_holders(server);
		status = FILE_TOO_LARGE;
	}
	if (status != FILE_OK) {
		answer_status(server, request, status);
		return 1;
	}
	err = send_answer(server, request);
	if (err == 0 || err == -EAGAIN)
		return err;
	/* The client is gone, or will ask again. */
	answer_free(&server->answers, &request->answer);
	return 1;
}

static int may_send(const struct server *server, const struct client *client)
{
	return !client->blocked && client->head && client->n_sending < CLIENT_ANSWERS &&
	       (client->n_sending == 0 || client->sending_bytes < CLIENT_BYTES) &&
	       server->n_sending < ANSWERS_MAX && server->sending_bytes < ANSWER_BYTES;
}

/* Answers as many of a client's requests as its share allows. -ENOMEM: later. */
static int serve_client(struct server *server, struct client *client)
{
	struct request *request;
	int result;

	while (may_send(server, client)) {
		request = client->head;
		result = start_answer(server, request);
		if (result == -ENOMEM)
			return -ENOMEM;
		if (result == -EAGAIN) {
			client->blocked = 1;
			return 0;
		}
		dequeue(client);
		if (result == 1) {
			end_request(server, request);
			continue;
		}
		request->sending = 1;
		client->n_sending++;
		client->sending_bytes += request->answer.len;
		server->n_sending++;
		server->sending_bytes += request->answer.len;
	}
	return 0;
}

/* Who was first in the list becomes the last one. */
static void rotate_clients(struct server *server)
{
	struct client *first = server->clients, *last = first;

	if (!first || !first->next)
		return;
	while (last->next)
		last = last->next;
	server->clients = first->next;
	last->next = first;
	first->next = NULL;
}

/* Gives every client its turn. */
static void serve_all(struct server *server)
{
	struct client *client, *next;

	rotate_clients(server);
	for (client = server->clients; client; client = next) {
		next = client->next;
		if (serve_client(server, client) < 0)
			return;
		drop_idle_client(server, client);
	}
}

/* ---- what comes in ---- */

/* A repeated request may be one that we have. */
static int is_known(const struct client *client, struct server *server, uint64_t number)
{
	size_t i;

	for (i = 0; i < REQUESTS_MAX; i++)
		if (server->requests[i].client == client &&
			server->requests[i].ask.number == number)
			return 1;
	return 0;
}

static void take_request(struct server *server, const struct ripc_msg *msg)
{
	struct request *request = server->free_requests;
	struct file_answer working = {.status = FILE_WORKING};
	struct client *client;

	if (!request || msg->n_items != 1 || file_request_decode(msg->items, &request->ask) < 0)
		return;
	client = find_client(server, msg);
	if (client && request->ask.attempt > 0 && is_known(client, server, request->ask.number)) {
		working.number = request->ask.number;
		answer_short(server, msg->from, &working);
		return;
	}
	if (!client)
		client = add_client(server, msg);
	if (!client || client->n_requests == CLIENT_REQUESTS)
		return;
	server->free_requests = request->next;
	request->client = client;
	request->reply = msg->reply;
	request->sending = 0;
	request->answer.header = NULL;
	client->n_requests++;
	enqueue(request);
	if (client->head == request) {
		serve_client(server, client);
		drop_idle_client(server, client);
	}
}

/* Says once for each client by which way it is reached. */
static void tell_path(struct server *server, const struct client *client)
{
	struct ripc_path path = {.size = sizeof(path)};
	unsigned int i;

	for (i = 0; i < TOLD_MAX; i++)
		if (server->told[i] == client->incarnation)
			return;
	if (ripc_path_info(server->svc, client->id, &path) < 0)
		return;
	server->told[server->n_told++ % TOLD_MAX] = client->incarnation;
	printf("fileserver: client 0x%016llx over %s\n", (unsigned long long)client->id,
		path.backend);
	fflush(stdout);
}

static void take_completion(struct server *server, const struct ripc_msg *msg)
{
	struct request *request;
	struct client *client;

	if (msg->cookie == 0 || msg->cookie > REQUESTS_MAX)
		return;
	request = &server->requests[msg->cookie - 1];
	if (!request->client || !request->sending)
		return;
	/* Otherwise the library took the buffers. */
	if (msg->outcome == RIPC_NOT_DELIVERED)
		answer_free(&server->answers, &request->answer);
	if (msg->outcome == RIPC_DELIVERED)
		tell_path(server, request->client);
	/* Asking again would not help; after any other failure it may. */
	if (msg->outcome == RIPC_NOT_DELIVERED && msg->status == -EMSGSIZE)
		answer_status(server, request, FILE_TOO_LARGE);
	client = request->client;
	client->blocked = 0;
	client->n_sending--;
	client->sending_bytes -= request->answer.len;
	server->n_sending--;
	server->sending_bytes -= request->answer.len;
	end_request(server, request);
}

/* 0, or -EADDRINUSE: another process holds our ID, and keeps it. */
static int take_notice(struct server *server, const struct ripc_msg *msg)
{
	struct client *client;

	for (client = server->clients; client; client = client->next)
		client->blocked = 0;
	return msg->status == -EADDRINUSE ? -EADDRINUSE : 0;
}

/* Whether something may be waiting for what just became free. */
static int has_waiting(const struct server *server)
{
	const struct client *client;

	for (client = server->clients; client; client = client->next)
		if (client->head || client->n_requests == 0)
			return 1;
	return 0;
}

/* 0, or a negative errno that ends the service. */
static int take(struct server *server, const struct ripc_msg *msg)
{
	int err = 0;

	if (msg->kind == RIPC_SHORT) {
		take_request(server, msg);
		return 0;
	}
	if (msg->kind == RIPC_COMPLETION)
		take_completion(server, msg);
	else if (msg->kind == RIPC_NOTICE)
		err = take_notice(server, msg);
	if (has_waiting(server))
		serve_all(server);
	return err;
}

/* Serves until the service is drained. 0 or a negative errno. */
static int serve(struct server *server)
{
	struct tree *tree = &server->answers.tree;
	struct cache *cache = &server->answers.cache;
	struct ripc_msg *msg;
	int err = 0, timeout_ms;

	while (err == 0) {
		/* While files are kept open, their time is looked at now and then. */
		timeout_ms = cache->reading ? 0 : tree->n_kept ? TREE_KEPT_MS / 4 : -1;
		err = ripc_receive(server->svc, timeout_ms, &msg);
		if (err == 0) {
			err = take(server, msg);
			ripc_msg_free(msg);
		} else if (err == -EAGAIN) {
			cache_work(cache); /* there is nothing else to do */
			err = 0;
		} else if (err == -ETIMEDOUT) {
			tree_expire(tree);
			err = 0;
		}
	}
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

static void init_server(struct server *server)
{
	size_t i;

	for (i = 0; i < REQUESTS_MAX; i++) {
		server->requests[i].next = server->free_requests;
		server->free_requests = &server->requests[i];
	}
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
 * A thread that waits for a signal. Then new requests find no service, those that came are still
 * answered, and the loop ends by itself.
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

	if (ripc_stats(server->ctx, &stats) < 0)
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
	ripc_close(server->ctx, 1000); /* answers under way get a second to end */
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
	init_server(server);
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
		return usage_error("which directory?");
	if (options.id == 0)
		return usage_error("--id or --name is needed");
	options.dir = argv[optind];
	return serve_directory(&options);
}
