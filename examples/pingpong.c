/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pingpong: round trips of messages between two processes, the measurement of chapter 5 of the
 * LibRIPC thesis (KIT, 2012): sizes from 50 to 1400 bytes in steps of 50, short and long
 * messages, and beside them a request and its reply. Without --id or --name it starts the server
 * by itself. The client numbers its messages, so that a reply which comes after its time was up
 * is not taken for the next one.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <ripc/call.h>
#include "command_line.h"

#define SIZES_MAX  1024
#define SIZE_LIMIT (1ull << 32)
#define WAIT_MS	   1000
#define WARM_UP	   50
#define STOPPED	   130 /* exit status: by a signal, as shells say it */

enum kind { KIND_SHORT, KIND_LONG, KIND_CALL, N_KINDS };

static const char *const kind_names[N_KINDS] = {"short", "long", "call"};

struct options {
	uint64_t id;
	uint64_t count;
	uint64_t sizes[SIZES_MAX];
	unsigned int n_sizes;
	unsigned int kinds; /* a bit for each; 0: all */
	int serve;
};

struct client {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t server;
	uint64_t sent;	 /* the number of the message under way */
	char *buffer;	 /* of the largest size, from the library's pool */
	double *rtts_us; /* one per round trip that was completed */
};

struct result {
	double median_us, p99_us;
	uint64_t completed, lost;
};

static const char usage_text[] =
	"usage: pingpong [--id N | --name S] [--sizes FROM-TO:STEP | N,N,...]\n"
	"                [--short] [--long] [--call] [--both] [--count N]\n"
	"       pingpong --serve [--id N | --name S]\n"
	"\n"
	"Measures round trips to a server (which it starts when neither --id nor --name is\n"
	"given) and prints, per size, the median and the 99th percentile in microseconds.\n"
	"\n"
	"  --serve        reply to each message with one of the same kind and size, to each\n"
	"                 request with its bytes\n"
	"  --id N         the server's service ID, decimal or 0x...\n"
	"  --name S       the same by its name\n"
	"  --sizes LIST   sizes in bytes (default 50-1400:50)\n"
	"  --short --long short messages there and back, or long ones\n"
	"  --call         a request and its reply; what is lost is sent again\n"
	"  --both         short and long messages (default: all three)\n"
	"  --count N      round trips per size (default 1000)\n"
	"  --help         this text\n";

static int usage_error(const char *what)
{
	fprintf(stderr, "pingpong: %s\n%s", what, usage_text);
	return 2;
}

static int failed(const char *what, int err)
{
	fprintf(stderr, "pingpong: %s: %s\n", what, ripc_strerror(err));
	return 1;
}

/* ---- Ctrl-C ---- */

static struct ripc_service *service_to_wake;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1; /* a call is not woken: that ends with its reply, or in time */
	ripc_wake(service_to_wake);
}

/* From now on SIGINT and SIGTERM end what waits in this service, with -EINTR; NULL: they kill. */
static void stop_by_signals(struct ripc_service *svc)
{
	struct sigaction action = {.sa_handler = svc ? stop : SIG_DFL};

	service_to_wake = svc ? svc : service_to_wake;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* ---- the server ---- */

/*
 * Replies with what came and does not wait for the outcome, so that a client that receives no reply
 * keeps no other client waiting. The reply to a request is copied. The items of a long message are
 * in use until the COMPLETION, which frees them.
 */
static void echo(struct ripc_service *svc, struct ripc_msg *msg)
{
	struct ripc_send answer = {.size = sizeof(answer),
		.to = msg->from,
		.items = msg->items,
		.n_items = msg->n_items,
		.flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = WAIT_MS,
		.cookie = (uint64_t)(uintptr_t)msg};

	if (msg->kind == RIPC_LONG && ripc_sendmsg(svc, &answer, NULL) == 0)
		return;
	if (msg->kind == RIPC_COMPLETION)
		ripc_msg_free((struct ripc_msg *)(uintptr_t)msg->cookie);
	if (msg->kind == RIPC_REQUEST)
		ripc_reply(svc, msg, msg->items, msg->n_items, 0);
	if (msg->kind == RIPC_SHORT)
		ripc_send_short(svc, msg->from, msg->items, msg->n_items);
	ripc_msg_free(msg);
}

/* Serves until a signal ends it. The ID that was registered is told through id_fd, if there is. */
static int serve(uint64_t id, int id_fd)
{
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc_msg *msg;
	int err = ripc_open(NULL, &ctx);

	if (err < 0)
		return failed("cannot start", err);
	err = ripc_service_open(ctx, id, 0, &svc);
	if (err < 0)
		return failed("cannot register the service", err);
	stop_by_signals(svc);
	id = ripc_service_id(svc);
	if (id_fd >= 0 && write(id_fd, &id, sizeof(id)) != sizeof(id))
		return failed("cannot tell the ID", -errno);
	if (id_fd < 0) {
		printf("pingpong: serving as 0x%016llx\n", (unsigned long long)id);
		fflush(stdout);
	}
	while ((err = ripc_receive(svc, -1, &msg)) == 0) {
		/* A client that went away is no reason to stop serving the others. */
		echo(svc, msg);
	}
	stop_by_signals(NULL);
	ripc_close(ctx, WAIT_MS);
	return err == -EINTR ? 0 : failed("cannot receive", err);
}

/* Starts a server process before this one has a context. Returns its pid or a negative errno. */
static pid_t start_server(uint64_t *id)
{
	int fds[2];
	pid_t pid;
	ssize_t got;

	if (pipe(fds) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM); /* not to outlive a client that is killed */
		close(fds[0]);
		_exit(serve(0, fds[1]));
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -errno;
	}
	got = read(fds[0], id, sizeof(*id));
	close(fds[0]);
	if (got == sizeof(*id))
		return pid;
	waitpid(pid, NULL, 0);
	return -ESRCH;
}

/* ---- the client ---- */

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int is_answer(const struct client *client, const struct ripc_msg *msg, size_t size)
{
	size_t number_len = size < sizeof(client->sent) ? size : sizeof(client->sent);

	return msg->n_items == 1 && msg->items[0].iov_len == size &&
	       memcmp(msg->items[0].iov_base, &client->sent, number_len) == 0;
}

/* Waits for the reply to the message sent last. 0, or -ETIMEDOUT: it, or we, got lost. */
static int await_answer(struct client *client, size_t size)
{
	double end_us = now_us() + WAIT_MS * 1e3;
	struct ripc_msg *msg;
	int err, found;

	do {
		err = ripc_receive(client->svc, WAIT_MS, &msg);
		if (err < 0)
			return err;
		found = (msg->kind == RIPC_SHORT || msg->kind == RIPC_LONG) &&
			is_answer(client, msg, size);
		ripc_msg_free(msg);
		if (found)
			return 0;
	} while (now_us() < end_us);
	return -ETIMEDOUT;
}

static int ask(struct client *client, const struct iovec *item)
{
	struct ripc_request request = {.size = sizeof(request),
		.to = client->server,
		.items = item,
		.n_items = 1,
		.flags = RIPC_IDEMPOTENT,
		.timeout_ms = WAIT_MS};
	struct ripc_msg *answer;
	int err = ripc_call(client->svc, &request, &answer, NULL);

	if (err < 0)
		return err;
	err = is_answer(client, answer, item->iov_len) ? 0 : -EPROTO;
	ripc_msg_free(answer);
	return err;
}

static int round_trip(struct client *client, size_t size, enum kind kind)
{
	struct iovec item = {client->buffer, size};
	int err;

	client->sent++;
	memcpy(client->buffer, &client->sent,
		size < sizeof(client->sent) ? size : sizeof(client->sent));
	if (kind == KIND_CALL)
		return stopped ? -EINTR : ask(client, &item);
	if (kind == KIND_LONG)
		err = ripc_send_long(client->svc, client->server, &item, 1, WAIT_MS);
	else
		err = ripc_send_short(client->svc, client->server, &item, 1);
	return err < 0 ? err : await_answer(client, size);
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* 0, or what ended the measurement; a lost message is counted and does not end it. */
static int measure(
	struct client *client, size_t size, enum kind kind, uint64_t count, struct result *result)
{
	uint64_t i, n = 0, lost = 0;
	double begin_us;
	int err;

	for (i = 0; i < count + WARM_UP; i++) {
		begin_us = now_us();
		err = round_trip(client, size, kind);
		if (err < 0 && err != -ETIMEDOUT && err != -EAGAIN)
			return err;
		if (err < 0)
			lost++;
		else if (i >= WARM_UP)
			client->rtts_us[n++] = now_us() - begin_us;
		if (lost > 10)
			return -ETIMEDOUT;
	}
	qsort(client->rtts_us, n, sizeof(double), compare_doubles);
	result->completed = n;
	result->lost = lost;
	result->median_us = n ? client->rtts_us[n / 2] : 0;
	result->p99_us = n ? client->rtts_us[n - 1 - n / 100] : 0;
	return 0;
}

/* Prints one table row. A size that the path cannot carry as a short is said, and skipped. */
static int measure_row(
	struct client *client, const struct options *options, size_t size, enum kind kind)
{
	struct result result;
	int err = measure(client, size, kind, options->count, &result);

	if (err == -EMSGSIZE) {
		printf("%-6s %10zu   too long for this path\n", kind_names[kind], size);
		return 0;
	}
	if (err < 0)
		return err;
	printf("%-6s %10zu %12.2f %12.2f %8llu\n", kind_names[kind], size, result.median_us,
		result.p99_us, (unsigned long long)result.lost);
	fflush(stdout);
	return 0;
}

static int measure_all(struct client *client, const struct options *options)
{
	unsigned int kind, i;
	int err;

	printf("%-6s %10s %12s %12s %8s\n", "kind", "bytes", "median us", "p99 us", "lost");
	for (kind = 0; kind < N_KINDS; kind++) {
		if (options->kinds && !(options->kinds & 1u << kind))
			continue;
		for (i = 0; i < options->n_sizes; i++) {
			err = measure_row(client, options, options->sizes[i], kind);
			if (err == -EINTR)
				return STOPPED;
			if (err < 0)
				return failed("round trips ended", err);
		}
	}
	return 0;
}

static int open_client(struct client *client, const struct options *options)
{
	uint64_t largest = 1;
	unsigned int i;
	void *buffer;
	int err;

	for (i = 0; i < options->n_sizes; i++)
		largest = options->sizes[i] > largest ? options->sizes[i] : largest;
	err = ripc_service_open(client->ctx, 0, 0, &client->svc);
	if (err < 0)
		return failed("cannot open a service", err);
	stop_by_signals(client->svc);
	err = ripc_resolve(client->ctx, client->server, 5000);
	if (err < 0)
		return failed("cannot find the server", err);
	err = ripc_buf_alloc(client->ctx, largest, &buffer);
	if (err < 0)
		return failed("no memory for the messages", err);
	client->buffer = buffer;
	memset(buffer, 'p', largest);
	return 0;
}

static void print_path(const struct client *client)
{
	struct ripc_path path = {.size = sizeof(path)};

	if (ripc_path_info(client->svc, client->server, &path) == 0)
		printf("path: %s, long messages by %s, to %s\n", path.backend, path.bulk,
			path.address);
}

static int run_client(const struct options *options, uint64_t server)
{
	struct client client = {.server = server};
	int err, status;

	client.rtts_us = calloc(options->count, sizeof(double));
	if (!client.rtts_us)
		return failed("no memory", -ENOMEM);
	err = ripc_open(NULL, &client.ctx);
	if (err < 0) {
		free(client.rtts_us);
		return failed("cannot start", err);
	}
	status = open_client(&client, options);
	if (status == 0)
		status = measure_all(&client, options);
	if (status == 0)
		print_path(&client);
	stop_by_signals(NULL);
	ripc_buf_free(client.ctx, client.buffer);
	ripc_close(client.ctx, 1000); /* gives back the service too */
	free(client.rtts_us);
	return status;
}

/* ---- the command line ---- */

static int add_size(struct options *options, uint64_t size)
{
	if (size == 0 || size > SIZE_LIMIT || options->n_sizes == SIZES_MAX)
		return -EINVAL;
	options->sizes[options->n_sizes++] = size;
	return 0;
}

static int parse_range(const char *text, struct options *options)
{
	unsigned long long from, to, step, size;
	char rest;

	if (sscanf(text, "%llu-%llu:%llu%c", &from, &to, &step, &rest) != 3 || step == 0 ||
		from > to || to > SIZE_LIMIT)
		return -EINVAL;
	for (size = from; size <= to; size += step)
		if (add_size(options, size) < 0)
			return -EINVAL;
	return 0;
}

static int parse_sizes(const char *text, struct options *options)
{
	char *copy, *word, *state;
	uint64_t size;
	int err = 0;

	options->n_sizes = 0;
	if (strchr(text, '-'))
		return parse_range(text, options);
	copy = strdup(text);
	if (!copy)
		return -ENOMEM;
	for (word = strtok_r(copy, ",", &state); word && !err; word = strtok_r(NULL, ",", &state)) {
		err = parse_bytes(word, &size);
		if (!err)
			err = add_size(options, size);
	}
	free(copy);
	return options->n_sizes == 0 ? -EINVAL : err;
}

static int parse_option(int option, const char *arg, struct options *options)
{
	switch (option) {
	case 'i':
		return parse_service_id(arg, &options->id);
	case 'n':
		return parse_service_name(arg, &options->id);
	case 'c':
		if (parse_number(arg, &options->count) < 0 || options->count == 0 ||
			options->count > 100000000)
			return -EINVAL;
		return 0;
	case 's':
		return parse_sizes(arg, options);
	case 'S':
		options->kinds |= 1u << KIND_SHORT;
		return 0;
	case 'L':
		options->kinds |= 1u << KIND_LONG;
		return 0;
	case 'C':
		options->kinds |= 1u << KIND_CALL;
		return 0;
	case 'B':
		options->kinds |= 1u << KIND_SHORT | 1u << KIND_LONG;
		return 0;
	case 'v':
		options->serve = 1;
		return 0;
	default:
		return -EINVAL;
	}
}

static const struct option long_options[] = {
	{"id", required_argument, NULL, 'i'},
	{"name", required_argument, NULL, 'n'},
	{"count", required_argument, NULL, 'c'},
	{"sizes", required_argument, NULL, 's'},
	{"short", no_argument, NULL, 'S'},
	{"long", no_argument, NULL, 'L'},
	{"call", no_argument, NULL, 'C'},
	{"both", no_argument, NULL, 'B'},
	{"serve", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

int main(int argc, char **argv)
{
	struct options options = {.count = 1000};
	char what[OPTION_WRONG_MAX];
	uint64_t server;
	pid_t pid;
	int option, status;

	parse_sizes("50-1400:50", &options);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (parse_option(option, optarg, &options) < 0)
			return usage_error(option_wrong(optarg, what));
	}
	if (optind < argc)
		return usage_error("arguments make no sense");
	if (options.serve)
		return serve(options.id, -1);
	if (options.id != 0)
		return run_client(&options, options.id);
	pid = start_server(&server);
	if (pid < 0)
		return failed("cannot start the server", pid);
	status = run_client(&options, server);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return status;
}
