/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One of two equal partners: sends numbered messages without end, long ones with a deadline and
 * short ones, and checks those that come, for tests in which partners are killed or the network
 * fails. Knows nothing but ripc.h. A call that ends late or with a code that is not documented, and
 * a message that is altered or comes twice, end it with 1.
 *
 *   hw-peer --id N --to N [--timeout-ms N] [--most BYTES]
 *
 * It says:  "ready INCARNATION"; "from INCARNATION" when something comes from it for the first
 *           time; "resumed MS" when one of its long messages was delivered for the first time after
 *           "mark"; "quiet" when it sends no more; and when it ends, what it counted, as JSON
 * It hears: "mark"; "quiet": send no more; the end of its input: end, when nothing comes any more
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "../net/xfer.h"
#include "ripc/ripc.h"

#define NUMBERS  (1u << 20) /* of messages to one incarnation */
#define SENDERS  512u       /* incarnations that may come in one life */
#define SHORTS   4u         /* for each long one */
#define SLACK_MS 15000u     /* tolerance before a call counts as hanging; guests stand still, too */
#define END_MS   10000      /* for what is under way at the end */
#define STEP_MS  100

/* Before the bytes of each message, which are a pattern of its number. */
struct head {
	uint64_t number, len;
};

/* Messages from one incarnation. */
struct sender {
	uint64_t incarnation, longs, shorts;
	uint8_t seen_longs[NUMBERS / 8], seen_shorts[NUMBERS / 8];
};

struct peer {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id, to, timeout_ms, most;
	uint64_t delivered, not_delivered, shorts_sent, shorts_refused;
	double slowest_s;
	atomic_ullong unknown, notices; /* sends that ended so; those whose memory has come back */
	atomic_bool quiet, end, marked;
	double marked_s;
	struct sender *senders[SENDERS];
	uint32_t n_senders;
};

static _Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "hw-peer: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	_exit(1);
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	char line[128];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	printf("%s\n", line);
	fflush(stdout);
}

/* ---- sending ----------------------------------------------------------------------------- */

static void check_outcome(int status, enum ripc_outcome outcome)
{
	enum ripc_outcome wanted = RIPC_NOT_DELIVERED;

	switch (status) {
	case 0:
		wanted = RIPC_DELIVERED;
		break;
	case -ECONNRESET:
		wanted = RIPC_UNKNOWN;
		break;
	case -ENOENT:
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETDOWN:
		break;
	default:
		fail("a send ended with %d: %s", status, ripc_strerror(status));
	}
	if (outcome != wanted)
		fail("a send ended with %d and outcome %d", status, (int)outcome);
}

static void count_outcome(struct peer *peer, int status, void *buffer)
{
	if (status == 0)
		peer->delivered++;
	else if (status == -ECONNRESET)
		atomic_fetch_add(&peer->unknown, 1); /* the buffer comes back with a notice */
	else
		peer->not_delivered++;
	if (status != -ECONNRESET)
		ripc_buf_free(peer->ctx, buffer);
	if (status == 0 && atomic_exchange(&peer->marked, false))
		say("resumed %.0f", (now_s() - peer->marked_s) * 1000);
}

static void send_long(struct peer *peer, uint64_t number)
{
	const struct head head = {number, draw_len(peer->most, number)};
	enum ripc_outcome outcome = 0;
	struct iovec item;
	struct ripc_send send = {.size = sizeof(send), .to = peer->to, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG, .timeout_ms = (int32_t)peer->timeout_ms};
	double began_s, took_s;
	void *buffer;
	int error = ripc_buf_alloc(peer->ctx, sizeof(head) + head.len, &buffer);

	if (error)
		fail("no memory: %s", ripc_strerror(error));
	memcpy(buffer, &head, sizeof(head));
	pattern_fill((char *)buffer + sizeof(head), head.len, number);
	item = (struct iovec){buffer, sizeof(head) + head.len};
	send.cookie = (uint64_t)(uintptr_t)buffer;
	began_s = now_s();
	error = ripc_sendmsg(peer->svc, &send, &outcome);
	took_s = now_s() - began_s;
	if (took_s * 1000 > (double)(peer->timeout_ms + SLACK_MS))
		fail("a send took %.3f s, its deadline was %llu ms", took_s,
			(unsigned long long)peer->timeout_ms);
	if (took_s > peer->slowest_s)
		peer->slowest_s = took_s;
	check_outcome(error, outcome);
	count_outcome(peer, error, buffer);
	if (error == -ENOENT)
		usleep(20000); /* nobody is there yet: let others run */
}

static void send_short(struct peer *peer, uint64_t number)
{
	const struct head head = {number, draw_len(RIPC_SHORT_MIN - sizeof(head), number)};
	char bytes[RIPC_SHORT_MIN];
	const struct iovec item = {bytes, sizeof(head) + head.len};
	int error;

	memcpy(bytes, &head, sizeof(head));
	pattern_fill(bytes + sizeof(head), head.len, number);
	error = ripc_send_short(peer->svc, peer->to, &item, 1);
	switch (error) {
	case 0:
		peer->shorts_sent++;
		break;
	case -EAGAIN:
	case -ENOENT:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		peer->shorts_refused++;
		break;
	default:
		fail("a short ended with %d: %s", error, ripc_strerror(error));
	}
}

static void *send_main(void *arg)
{
	struct peer *peer = arg;
	uint64_t shorts = 0;

	for (uint64_t number = 0; number < NUMBERS && !atomic_load(&peer->quiet); number++) {
		send_long(peer, number);
		for (uint32_t i = 0; i < SHORTS && shorts < NUMBERS; i++)
			send_short(peer, shorts++);
	}
	return NULL;
}

/* ---- receiving --------------------------------------------------------------------------- */

static struct sender *sender_of(struct peer *peer, uint64_t incarnation)
{
	uint32_t i = 0;

	while (i < peer->n_senders && peer->senders[i]->incarnation != incarnation)
		i++;
	if (i == SENDERS)
		fail("too many partners");
	if (i < peer->n_senders)
		return peer->senders[i];
	peer->senders[i] = calloc(1, sizeof(*peer->senders[i]));
	if (!peer->senders[i])
		fail("no memory");
	peer->senders[i]->incarnation = incarnation;
	peer->n_senders++;
	say("from %llx", (unsigned long long)incarnation);
	return peer->senders[i];
}

static void take(struct peer *peer, const struct ripc_msg *msg)
{
	struct sender *sender = sender_of(peer, msg->from_incarnation);
	bool is_long = msg->kind == RIPC_LONG;
	uint8_t *seen = is_long ? sender->seen_longs : sender->seen_shorts;
	const char *what = is_long ? "long" : "short";
	struct head head;
	uint64_t seed;

	if (msg->n_items != 1 || msg->items[0].iov_len < sizeof(head))
		fail("a %s that is none of ours", what);
	memcpy(&head, msg->items[0].iov_base, sizeof(head));
	if (head.number >= NUMBERS || head.len != msg->items[0].iov_len - sizeof(head) ||
			!pattern_check((char *)msg->items[0].iov_base + sizeof(head), head.len,
				&seed) ||
			memcmp(&seed, &head.number, head.len < 8 ? head.len : 8) != 0)
		fail("%s %llu is altered", what, (unsigned long long)head.number);
	if (seen[head.number / 8] & 1 << head.number % 8)
		fail("%s %llu came twice", what, (unsigned long long)head.number);
	seen[head.number / 8] |= (uint8_t)(1 << head.number % 8);
	sender->longs += is_long;
	sender->shorts += !is_long;
}

static void heed(struct peer *peer, const struct ripc_msg *msg)
{
	if (msg->kind == RIPC_NOTICE && msg->status)
		fail("a notice says %d: %s", msg->status, ripc_strerror(msg->status));
	if (msg->kind == RIPC_NOTICE && msg->cookie) {
		ripc_buf_free(peer->ctx, (void *)(uintptr_t)msg->cookie);
		atomic_fetch_add(&peer->notices, 1);
	}
	if (msg->kind == RIPC_LONG || msg->kind == RIPC_SHORT)
		take(peer, msg);
}

/* Sends that ended with an unknown outcome have all given their memory back. */
static bool all_is_back(struct peer *peer)
{
	return atomic_load(&peer->notices) == atomic_load(&peer->unknown);
}

/* Until the end, and then as long as something comes or is owed. */
static void *receive_main(void *arg)
{
	struct peer *peer = arg;
	uint32_t silent = 0; /* steps in which nothing came, after the end */

	while (silent == 0 || (!all_is_back(peer) && silent < END_MS / STEP_MS)) {
		bool end = atomic_load(&peer->end);
		struct ripc_msg *msg;
		int error = ripc_receive(peer->svc, STEP_MS, &msg);

		if (error == 0) {
			heed(peer, msg);
			ripc_msg_free(msg);
		} else if (error != -ETIMEDOUT) {
			fail("receive: %s", ripc_strerror(error));
		} else {
			silent += end;
		}
	}
	if (!all_is_back(peer))
		fail("%llu sends with unknown outcome, %llu notices",
			(unsigned long long)atomic_load(&peer->unknown),
			(unsigned long long)atomic_load(&peer->notices));
	return NULL;
}

/* ---- the program ------------------------------------------------------------------------- */

static void report(struct peer *peer)
{
	printf("{\"delivered\":%llu,\"not_delivered\":%llu,\"unknown\":%llu,\"shorts_sent\":%llu,"
		"\"shorts_refused\":%llu,\"slowest_ms\":%.0f,\"received\":{",
		(unsigned long long)peer->delivered, (unsigned long long)peer->not_delivered,
		(unsigned long long)atomic_load(&peer->unknown),
		(unsigned long long)peer->shorts_sent, (unsigned long long)peer->shorts_refused,
		peer->slowest_s * 1000);
	for (uint32_t i = 0; i < peer->n_senders; i++)
		printf("%s\"%llx\":[%llu,%llu]", i ? "," : "",
			(unsigned long long)peer->senders[i]->incarnation,
			(unsigned long long)peer->senders[i]->longs,
			(unsigned long long)peer->senders[i]->shorts);
	printf("}}\n");
	fflush(stdout);
}

static void be_quiet(struct peer *peer, pthread_t sending)
{
	if (atomic_exchange(&peer->quiet, true))
		return;
	pthread_join(sending, NULL);
	say("quiet");
}

static void talk(struct peer *peer)
{
	pthread_t sending, receiving;
	char line[16];

	if (pthread_create(&sending, NULL, send_main, peer) ||
			pthread_create(&receiving, NULL, receive_main, peer))
		fail("no thread");
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "quiet\n") == 0) {
			be_quiet(peer, sending);
		} else if (strcmp(line, "mark\n") == 0) {
			peer->marked_s = now_s();
			atomic_store(&peer->marked, true);
		} else {
			fail("what is \"%s\"?", line);
		}
	}
	be_quiet(peer, sending);
	atomic_store(&peer->end, true);
	pthread_join(receiving, NULL);
}

static void log_line(void *arg, int level, const char *text)
{
	(void)arg;
	fprintf(stderr, "hw-peer: log %d: %s\n", level, text);
}

static bool options(struct peer *peer, int argc, char **argv)
{
	static const struct option table[] = {
		{"id", 1, NULL, 'i'}, {"to", 1, NULL, 't'}, {"timeout-ms", 1, NULL, 'T'},
		{"most", 1, NULL, 'm'}, {NULL, 0, NULL, 0},
	};
	int got;

	while ((got = getopt_long(argc, argv, "", table, NULL)) != -1) {
		if (got == '?')
			return false;
		*(got == 'i' ? &peer->id : got == 't' ? &peer->to : got == 'T' ? &peer->timeout_ms :
			&peer->most) = number(optarg);
	}
	return peer->id && peer->to && optind == argc;
}

int main(int argc, char **argv)
{
	static struct peer peer = {.timeout_ms = 1000, .most = 1 << 20};
	const struct ripc_config config = {.size = sizeof(config), .log = log_line};
	int error;

	if (!options(&peer, argc, argv))
		fail("usage: hw-peer --id N --to N [--timeout-ms N] [--most BYTES]");
	error = ripc_open(&config, &peer.ctx);
	if (error == 0)
		error = ripc_service_open(peer.ctx, peer.id, 0, &peer.svc);
	if (error)
		fail("cannot open: %s", ripc_strerror(error));
	say("ready %llx", (unsigned long long)ripc_service_incarnation(peer.svc));
	talk(&peer);
	report(&peer);
	error = ripc_close(peer.ctx, END_MS);
	if (error)
		fail("close: %s", ripc_strerror(error));
	return 0;
}
