/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store_client: sends requests to a store_server; see storeproto.h. A value comes into a return
 * buffer: memory that the client has lent for it, into which the network writes where it can.
 *
 * The requests ping and get can be repeated without harm, and are, until the deadline, also with a
 * server that replaces an ended one. A set is not repeated: it could undo a later set of another
 * client. A set can therefore end with an unknown outcome, and the client reports that.
 */
#include <getopt.h>
#include <stdio.h>
#include "command_line.h"
#include "storeproto.h"

#define TIMEOUT_MS 5000

struct options {
	uint64_t id, timeout_ms;
};

struct client {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	const struct options *options;
};

static const char usage_text[] =
	"usage: store_client [--id N | --name S] [--timeout MS] ping\n"
	"       store_client [--id N | --name S] [--timeout MS] get KEY\n"
	"       store_client [--id N | --name S] [--timeout MS] set KEY [VALUE]\n"
	"\n"
	"Writes the value of a key to standard output, or sets it, without VALUE to what comes on\n"
	"standard input, up to 10 MiB.\n"
	"\n"
	"  --id N        the server's service ID, decimal or 0x...\n"
	"  --name S      the same by its name (default \"" STORE_NAME "\")\n"
	"  --timeout MS  how long to wait for the reply, and for a server (default 5000)\n"
	"  --help        this text\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 usage, 3 nothing is stored under that key.\n";

static int usage_error(const char *what)
{
	fprintf(stderr, "store_client: %s\n%s", what, usage_text);
	return 2;
}

/* ---- requests ---- */

static const char *error_text(int err, enum ripc_outcome asked)
{
	if (asked == RIPC_UNKNOWN)
		return "unknown whether the server received the request";
	if (asked != RIPC_DELIVERED)
		return ripc_strerror(err);
	switch (err) {
	case STORE_NO_KEY:
		return "nothing is stored under that key";
	case STORE_TOO_LONG:
		return "the value is too long";
	case STORE_FULL:
		return "the store is full";
	case STORE_MALFORMED:
		return "the server does not understand the request";
	case -ETIMEDOUT:
		return "the server had the request, and did not reply in time";
	case -ECONNRESET:
		return "the server had the request, and has ended without a reply";
	default:
		return ripc_strerror(err);
	}
}

static int failed(const char *what, int err, enum ripc_outcome asked)
{
	fprintf(stderr, "store_client: %s: %s\n", what, error_text(err, asked));
	return asked == RIPC_DELIVERED && err == STORE_NO_KEY ? 3 : 1;
}

static const char *const what_texts[] = {
	[STORE_PING] = "ping", [STORE_GET] = "get", [STORE_SET] = "set"};

/* value: of a set; place: for the value of a get. Returns an exit status; 0: *answer is set. */
static int ask(struct client *client, const struct store_request *request,
	const struct iovec *value, const struct ripc_buffer *place, struct ripc_msg **answer)
{
	uint8_t bytes[STORE_HEADER + STORE_KEY_MAX];
	struct iovec items[2] = {{bytes, store_request_encode(request, bytes)}};
	struct ripc_request call = {
		.size = sizeof(call),
		.to = client->options->id,
		.items = items,
		.n_items = value ? 2 : 1,
		.returns = place,
		.n_returns = place ? 1 : 0,
		.flags = request->what == STORE_SET ? 0 : RIPC_IDEMPOTENT,
		.timeout_ms = (int32_t)client->options->timeout_ms,
	};
	uint32_t asked;
	int err;

	if (value)
		items[1] = *value;
	err = ripc_call(client->svc, &call, answer, &asked);
	return err < 0 ? failed(what_texts[request->what], err, asked) : 0;
}

/* ---- what can be done ---- */

static int ping(struct client *client)
{
	struct store_request request = {.what = STORE_PING};
	struct ripc_msg *answer;
	int status = ask(client, &request, NULL, NULL, &answer);

	if (status == 0) {
		printf("incarnation 0x%016llx replies\n",
			(unsigned long long)answer->from_incarnation);
		ripc_msg_free(answer);
	}
	return status;
}

static int get(struct client *client, const struct store_request *request)
{
	struct ripc_buffer place = {.mem = {malloc(STORE_VALUE_MAX), STORE_VALUE_MAX}};
	struct ripc_msg *answer;
	int status;

	if (!place.mem.iov_base)
		return failed("get", -ENOMEM, RIPC_NOT_DELIVERED);
	status = ask(client, request, NULL, &place, &answer);
	if (status == 0) {
		size_t len = answer->items[0].iov_len;

		/* items says where the value is, in the place that was lent for it or not */
		if (fwrite(answer->items[0].iov_base, 1, len, stdout) != len || fflush(stdout))
			status = failed("standard output", -errno, RIPC_NOT_DELIVERED);
		ripc_msg_free(answer);
	}
	free(place.mem.iov_base);
	return status;
}

static int set(struct client *client, const struct store_request *request, const char *text)
{
	char *input = NULL;
	struct iovec value = {(void *)(uintptr_t)text, text ? strlen(text) : 0};
	struct ripc_msg *answer;
	int status;

	if (!text) {
		input = malloc(STORE_VALUE_MAX + 1); /* one byte more is too long: let it be seen */
		if (!input)
			return failed("set", -ENOMEM, RIPC_NOT_DELIVERED);
		value.iov_base = input;
		value.iov_len = fread(input, 1, STORE_VALUE_MAX + 1, stdin);
	}
	status = ask(client, request, &value, NULL, &answer);
	if (status == 0)
		ripc_msg_free(answer);
	free(input);
	return status;
}

/* words: what is to be done, the key, the value; NULL where there is none. */
static int run(struct client *client, char **words)
{
	struct store_request request = {
		.what = strcmp(words[0], "get") == 0 ? STORE_GET : STORE_SET};
	size_t key_len;

	if (strcmp(words[0], "ping") == 0)
		return ping(client);
	key_len = strlen(words[1]);
	if (key_len == 0 || key_len > STORE_KEY_MAX)
		return usage_error("a key has 1 to 255 bytes");
	request.key_len = (uint16_t)key_len;
	memcpy(request.key, words[1], key_len);
	if (request.what == STORE_GET)
		return get(client, &request);
	return set(client, &request, words[2]);
}

static int open_and_run(const struct options *options, char **words)
{
	struct client client = {.options = options};
	int err = ripc_open(NULL, &client.ctx), status;

	if (err < 0)
		return failed("cannot start", err, RIPC_NOT_DELIVERED);
	err = ripc_service_open(client.ctx, 0, 0, &client.svc);
	status = err < 0 ? failed("cannot open a service", err, RIPC_NOT_DELIVERED)
			 : run(&client, words);
	ripc_close(client.ctx, 1000);
	return status;
}

/* ---- the command line ---- */

static int is_complete(int n, char **words)
{
	if (n == 1)
		return strcmp(words[0], "ping") == 0;
	if (n == 2)
		return strcmp(words[0], "get") == 0 || strcmp(words[0], "set") == 0;
	return n == 3 && strcmp(words[0], "set") == 0;
}

static int parse_option(int option, const char *arg, struct options *options)
{
	switch (option) {
	case 'i':
		return parse_service_id(arg, &options->id);
	case 'n':
		return parse_service_name(arg, &options->id);
	case 't':
		if (parse_number(arg, &options->timeout_ms) < 0 || options->timeout_ms == 0 ||
			options->timeout_ms > INT32_MAX)
			return -EINVAL;
		return 0;
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"id", required_argument, NULL, 'i'},
		{"name", required_argument, NULL, 'n'},
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct options options = {ripc_id_from_name(STORE_NAME), TIMEOUT_MS};
	char what[OPTION_WRONG_MAX], *words[3] = {NULL};
	int option, i;

	while ((option = getopt_long(argc, argv, "+h", long_options, NULL)) >= 0) {
		if (option == 'h') {
			fputs(usage_text, stdout);
			return 0;
		}
		if (parse_option(option, optarg, &options) < 0)
			return usage_error(option_wrong(optarg, what));
	}
	if (!is_complete(argc - optind, argv + optind))
		return usage_error("ping, get KEY, or set KEY [VALUE]?");
	for (i = optind; i < argc; i++)
		words[i - optind] = argv[i];
	return open_and_run(&options, words);
}
