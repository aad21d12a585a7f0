/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives messages whose every byte is checked, for the tests over the real kernel
 * path. Knows nothing but ripc.h. Speaks JSON, one object per line.
 *
 *   xfer serve --id N [--id N...]      receives until its input closes; checks each message
 *   xfer send --to N --bytes N         sends one long message; --shorts N: so many shorts
 *
 * options: --timeout-ms N     of each long message
 *          --peer-timeout-ms N
 *          --bytes N          of each message
 *          --items N          as so many items
 *          --pieces N         so many messages of that size, one after the other
 *          --octaves          of each, up to that: every power of two equally often
 *          --depth N          so many at once, without waiting for each
 *          --on-line          sends a message whenever a line comes in, until input closes
 *          --no-check         does not look at what came
 *          --id N             (send) our own service's ID
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "ripc/ripc.h"
#include "xfer.h"

#define SERVICES_MAX 16
#define PATIENCE_S   10

struct job {
	struct ripc_context *ctx;
	uint64_t ids[SERVICES_MAX], to, bytes, shorts;
	uint32_t n_ids, n_items, pieces, depth, timeout_ms, peer_timeout_ms;
	bool on_line, check, octaves;
	uint64_t seed;
};

struct receiver {
	const struct job *job;
	struct ripc_service *service;
	pthread_t thread;
	uint64_t longs, shorts, bytes, wrong, seeds_xor;
};

static atomic_bool stop;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

static int fail(const char *what, int error)
{
	fprintf(stderr, "xfer: %s: %s\n", what, ripc_strerror(error));
	return 1;
}

static void print_stats(const char *begin, struct ripc_context *ctx)
{
#define F(name) {#name, offsetof(struct ripc_stats, name)}
	static const struct {
		const char *name;
		size_t at;
	} fields[] = {
		F(short_sent), F(short_received), F(long_sent), F(long_sent_bytes),
		F(long_received), F(long_received_bytes), F(long_not_delivered), F(long_unknown),
		F(datagrams_sent), F(datagrams_received), F(drop_malformed), F(drop_version),
		F(drop_checksum), F(drop_token), F(drop_proof), F(drop_duplicate), F(drop_late),
		F(drop_queue_full), F(drop_no_memory), F(drop_receive_buffer),
		F(drop_partner_limit), F(drop_send_full), F(drop_send_unresolved),
		F(data_resent_bytes), F(pull_requests), F(announcements_repeated), F(hellos),
		F(retries), F(messages_refused), F(messages_abandoned), F(offload_fallbacks),
		F(datagram_size_fallbacks), F(partners), F(queries_sent), F(queries_answered),
		F(responses_received), F(resolver_dropped),
	};
#undef F
	struct ripc_stats stats = {.size = sizeof(stats)};

	ripc_stats_get(ctx, &stats);
	printf("{%s\"stats\":{", begin);
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t value;

		memcpy(&value, (char *)&stats + fields[i].at, sizeof(value));
		printf("%s\"%s\":%llu", i ? "," : "", fields[i].name, (unsigned long long)value);
	}
	printf("}}\n");
	fflush(stdout);
}

/* ---- receiving --------------------------------------------------------------------------- */

/* The items joined are the pattern; joined only if there are several. */
static bool is_right(const struct ripc_msg *msg, uint64_t *seed, uint64_t *len)
{
	bool right;
	char *joined;

	*len = 0;
	*seed = 0;
	for (uint32_t i = 0; i < msg->n_items; i++)
		*len += msg->items[i].iov_len;
	if (msg->n_items == 1)
		return pattern_check(msg->items[0].iov_base, *len, seed);
	joined = malloc(*len + 1);
	if (!joined)
		return false;
	*len = 0;
	for (uint32_t i = 0; i < msg->n_items; i++) {
		memcpy(joined + *len, msg->items[i].iov_base, msg->items[i].iov_len);
		*len += msg->items[i].iov_len;
	}
	right = pattern_check(joined, *len, seed);
	free(joined);
	return right;
}

static void take(struct receiver *receiver, const struct ripc_msg *msg)
{
	uint64_t seed = 0, len = 0;
	bool right = true;

	if (msg->kind == RIPC_NOTICE && msg->status == -EADDRINUSE) {
		printf("yields\n");
		fflush(stdout);
	}
	if (msg->kind != RIPC_LONG && msg->kind != RIPC_SHORT)
		return;
	if (receiver->job->check)
		right = is_right(msg, &seed, &len);
	receiver->longs += msg->kind == RIPC_LONG;
	receiver->shorts += msg->kind == RIPC_SHORT;
	receiver->wrong += !right;
	receiver->bytes += len;
	receiver->seeds_xor ^= seed;
	if (msg->kind == RIPC_SHORT)
		return;
	pthread_mutex_lock(&output);
	printf("{\"received\":%llu,\"right\":%s,\"seed\":%llu,\"to\":%llu,\"from\":%llu}\n",
		(unsigned long long)len, right ? "true" : "false", (unsigned long long)seed,
		(unsigned long long)ripc_service_id(receiver->service),
		(unsigned long long)msg->from);
	fflush(stdout);
	pthread_mutex_unlock(&output);
}

static void *receive(void *arg)
{
	struct receiver *receiver = arg;
	struct ripc_msg *msg;
	bool stopping;
	int error;

	do {
		stopping = atomic_load(&stop);
		error = ripc_receive(receiver->service, stopping ? 0 : 100, &msg);
		if (error == 0) {
			take(receiver, msg);
			ripc_msg_free(msg);
		}
	} while (error != -ESHUTDOWN && (error == 0 || !stopping));
	return NULL;
}

static int serve(struct job *job)
{
	static struct receiver receivers[SERVICES_MAX];
	struct receiver sum = {0};
	char text[256];

	for (uint32_t i = 0; i < job->n_ids; i++) {
		int error = ripc_service_open(job->ctx, job->ids[i], 0, &receivers[i].service);

		if (error)
			return fail("cannot open the service", error);
		receivers[i].job = job;
		pthread_create(&receivers[i].thread, NULL, receive, &receivers[i]);
	}
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, text, sizeof(text)) > 0)
		;
	atomic_store(&stop, true);
	for (uint32_t i = 0; i < job->n_ids; i++) {
		pthread_join(receivers[i].thread, NULL);
		sum.longs += receivers[i].longs;
		sum.shorts += receivers[i].shorts;
		sum.bytes += receivers[i].bytes;
		sum.wrong += receivers[i].wrong;
		sum.seeds_xor ^= receivers[i].seeds_xor;
	}
	snprintf(text, sizeof(text), "\"longs\":%llu,\"shorts\":%llu,\"bytes\":%llu,"
		"\"wrong\":%llu,\"seeds_xor\":%llu,", (unsigned long long)sum.longs,
		(unsigned long long)sum.shorts, (unsigned long long)sum.bytes,
		(unsigned long long)sum.wrong, (unsigned long long)sum.seeds_xor);
	print_stats(text, job->ctx);
	return ripc_close(job->ctx, 1000) ? 1 : 0;
}

/* ---- sending ----------------------------------------------------------------------------- */

static void split(const struct job *job, char *bytes, struct iovec *items)
{
	uint64_t each = job->bytes / job->n_items;

	for (uint32_t i = 0; i < job->n_items; i++) {
		bool last = i == job->n_items - 1;

		items[i].iov_base = bytes + i * each;
		items[i].iov_len = last ? job->bytes - i * each : each;
	}
}

static void print_sent(const struct job *job, double seconds, int status, int outcome)
{
	printf("{\"sent\":%llu,\"seed\":%llu,\"seconds\":%.6f,\"mbs\":%.3f,\"status\":%d,"
		"\"outcome\":%d,\"error\":\"%s\"}\n", (unsigned long long)job->bytes,
		(unsigned long long)job->seed, seconds, 1e-6 * (double)job->bytes / seconds,
		status, outcome, status ? ripc_errname(status) : "");
	fflush(stdout);
}

static int send_waiting(struct job *job, struct ripc_service *service, const struct iovec *items)
{
	struct ripc_send request = {.size = sizeof(request), .to = job->to, .items = items,
		.n_items = job->n_items, .flags = RIPC_SEND_LONG,
		.timeout_ms = (int32_t)job->timeout_ms};
	enum ripc_outcome outcome = 0;
	double began = now_s();
	int status = ripc_sendmsg(service, &request, &outcome);

	print_sent(job, now_s() - began, status, (int)outcome);
	return status ? 1 : 0;
}

/* Waits for one completion. */
static int complete(struct job *job, struct ripc_service *service, double began)
{
	struct ripc_msg *msg;
	int failed;

	do {
		int error = ripc_receive(service, -1, &msg);

		if (error)
			return fail("receive", error);
		failed = msg->kind == RIPC_COMPLETION ? msg->status != 0 : -1;
		if (failed >= 0)
			print_sent(job, now_s() - began, msg->status, (int)msg->outcome);
		ripc_msg_free(msg);
	} while (failed < 0);
	return failed;
}

static int send_many(struct job *job, struct ripc_service *service, const struct iovec *items)
{
	struct ripc_send request = {.size = sizeof(request), .to = job->to, .items = items,
		.n_items = job->n_items, .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
		.timeout_ms = (int32_t)job->timeout_ms};
	uint32_t started = 0, ended = 0;
	int failed = 0;
	double began = now_s();

	while (ended < job->pieces) {
		int error = started < job->pieces && started - ended < job->depth ?
			ripc_sendmsg(service, &request, NULL) : -EAGAIN;

		if (error == 0) {
			started++;
		} else if (error == -EAGAIN) {
			failed |= complete(job, service, began);
			ended++;
		} else {
			return fail("sendmsg", error);
		}
	}
	return failed;
}

/* Shorts are unreliable: how many arrive is the receiver's to say. */
static int send_shorts(struct job *job, struct ripc_service *service, char *bytes)
{
	uint64_t sent = 0, seeds_xor = 0;

	for (uint64_t i = 0; i < job->shorts; i++) {
		struct iovec item = {bytes, job->bytes};
		int error;

		pattern_fill(bytes, job->bytes, i + 1);
		error = ripc_send_short(service, job->to, &item, 1);
		if (error == -EMSGSIZE)
			return fail("too many bytes for a short message", error);
		if (error == 0) {
			sent++;
			seeds_xor ^= i + 1;
		}
		if (i % 16 == 15)
			usleep(500);
	}
	printf("{\"shorts\":%llu,\"seeds_xor\":%llu}\n", (unsigned long long)sent,
		(unsigned long long)seeds_xor);
	return 0;
}

/* From 1 to most bytes, small ones as often as large ones. */
static uint64_t draw_size(uint64_t most, uint64_t seed)
{
	uint64_t n_octaves = 64 - (uint64_t)__builtin_clzll(most | 1);
	uint64_t low = 1ull << pattern_word(seed, 1) % n_octaves;
	uint64_t size = low + pattern_word(seed, 2) % low;

	return size < most ? size : most;
}

static int send_all(struct job *job, struct ripc_service *service, char *bytes)
{
	struct iovec items[RIPC_ITEMS_MAX];
	uint64_t most = job->bytes;
	char line[64];
	int failed = 0;

	split(job, bytes, items);
	if (job->shorts)
		return send_shorts(job, service, bytes);
	if (job->depth > 1) {
		pattern_fill(bytes, job->bytes, job->seed);
		return send_many(job, service, items);
	}
	for (uint32_t i = 0; job->on_line || i < job->pieces; i++) {
		job->seed++;
		job->bytes = job->octaves ? draw_size(most, job->seed) : most;
		split(job, bytes, items);
		pattern_fill(bytes, job->bytes, job->seed);
		if (job->on_line && !fgets(line, sizeof(line), stdin))
			break;
		failed |= send_waiting(job, service, items);
	}
	return failed;
}

static int send_job(struct job *job)
{
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc_service *service;
	char text[128] = "";
	void *bytes;
	double began = now_s();
	int error = ripc_service_open(job->ctx, job->n_ids ? job->ids[0] : 0, 0, &service);

	if (error)
		return fail("cannot open a service", error);
	/* A receiver silent for a second is considered gone: the machine may have stopped it. */
	while ((error = ripc_resolve(job->ctx, job->to, 10000)) == -ENOENT &&
			now_s() - began < PATIENCE_S)
		usleep(10000);
	if (error)
		return fail("cannot find the service", error);
	printf("found after %.3f s\n", now_s() - began);
	fflush(stdout);
	error = ripc_buf_alloc(job->ctx, job->bytes ? job->bytes : 1, &bytes);
	if (error)
		return fail("no memory", error);
	job->seed = ripc_service_incarnation(service);
	error = send_all(job, service, bytes);
	if (ripc_path_info(service, job->to, &path) == 0)
		snprintf(text, sizeof(text), "\"rtt_us\":%llu,\"datagram_bytes\":%u,",
			(unsigned long long)path.rtt_us, path.datagram_bytes);
	print_stats(text, job->ctx);
	ripc_buf_free(job->ctx, bytes);
	return ripc_close(job->ctx, 1000) || error ? 1 : 0;
}

/* ---- the program ------------------------------------------------------------------------- */

static int usage(void)
{
	fprintf(stderr, "usage: xfer serve --id N... | xfer send --to N --bytes N [options]\n");
	return 2;
}

static bool options(struct job *job, int argc, char **argv)
{
	static const struct option table[] = {
		{"id", 1, NULL, 'i'}, {"to", 1, NULL, 't'}, {"bytes", 1, NULL, 'b'},
		{"items", 1, NULL, 'n'}, {"pieces", 1, NULL, 'p'}, {"depth", 1, NULL, 'd'},
		{"timeout-ms", 1, NULL, 'T'}, {"peer-timeout-ms", 1, NULL, 'P'},
		{"shorts", 1, NULL, 's'}, {"on-line", 0, NULL, 'l'}, {"no-check", 0, NULL, 'c'},
		{"octaves", 0, NULL, 'o'},
		{NULL, 0, NULL, 0},
	};
	int got;

	while ((got = getopt_long(argc, argv, "", table, NULL)) != -1) {
		uint64_t value = optarg ? number(optarg) : 0;

		if (got == 'i' && job->n_ids < SERVICES_MAX)
			job->ids[job->n_ids++] = value;
		else if (got == 't')
			job->to = value;
		else if (got == 'b')
			job->bytes = value;
		else if (got == 's')
			job->shorts = value;
		else if (got == 'l')
			job->on_line = true;
		else if (got == 'o')
			job->octaves = true;
		else if (got == 'c')
			job->check = false;
		else if (got == 'n' || got == 'p' || got == 'd')
			*(got == 'n' ? &job->n_items : got == 'p' ? &job->pieces : &job->depth) =
				(uint32_t)value;
		else if (got == 'T' || got == 'P')
			*(got == 'T' ? &job->timeout_ms : &job->peer_timeout_ms) = (uint32_t)value;
		else
			return false;
	}
	return job->n_items >= 1 && job->n_items <= RIPC_ITEMS_MAX && optind == argc - 1;
}

static void log_line(void *arg, int level, const char *text)
{
	(void)arg;
	fprintf(stderr, "xfer: log %d: %s\n", level, text);
}

int main(int argc, char **argv)
{
	struct job job = {.n_items = 1, .pieces = 1, .depth = 1, .timeout_ms = 60000,
		.check = true};
	struct ripc_config config = {.size = sizeof(config), .log = log_line};
	bool serves;
	int error;

	if (!options(&job, argc, argv))
		return usage();
	serves = strcmp(argv[optind], "serve") == 0;
	if (serves ? job.n_ids == 0 : strcmp(argv[optind], "send") != 0 || job.to == 0)
		return usage();
	config.peer_timeout_ms = job.peer_timeout_ms;
	error = ripc_open(&config, &job.ctx);
	if (error)
		return fail("cannot open a context", error);
	return serves ? serve(&job) : send_job(&job);
}
