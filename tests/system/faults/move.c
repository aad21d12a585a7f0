/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs of test_move.py. One is a place where a service can be: it opens the service on
 * the line "enter", drains and closes it on "leave", and says each number that it receives. The
 * other sends numbered messages without pause, each when the last one has ended, until its input
 * closes, and says how each ended.
 *
 *   faults-move place ID          says: ready, entered, got NUMBER, left
 *   faults-move send ID           says: ready, sent NUMBER STATUS OUTCOME MILLISECONDS
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"

#define DEADLINE_MS 2000
#define DRAIN_MS    2000
#define LEN_MAX     (1u << 20)

static struct ripc_context *ctx;
static struct ripc_service *svc;
/* The counts are printed at the end: the reader of our output is busy meanwhile. */
static FILE *journal;

static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

static void must(const char *what, int error)
{
	if (error < 0)
		fault_fail("%s: %s", what, ripc_strerror(error));
}

/* ---- a place --------------------------------------------------------------------------------- */

static void take(struct ripc_msg *msg)
{
	uint64_t number;

	if (msg->kind != RIPC_LONG || msg->n_items != 2 || msg->items[0].iov_len != sizeof(number))
		fault_fail("received something else than a number");
	memcpy(&number, msg->items[0].iov_base, sizeof(number));
	if (!fault_filled(msg->items[1].iov_base, msg->items[1].iov_len, number))
		fault_fail("message %llu is not what was sent", (unsigned long long)number);
	fprintf(journal, "got %llu\n", (unsigned long long)number);
	ripc_msg_free(msg);
}

static void leave(void)
{
	int error = ripc_service_drain(svc, DRAIN_MS);
	struct ripc_msg *msg;

	if (error && error != -ETIMEDOUT)
		must("drain", error);
	while ((error = ripc_receive(svc, 0, &msg)) == 0)
		take(msg);
	if (error != -ESHUTDOWN)
		fault_fail("a drained service says %s", ripc_strerror(error));
	must("close", ripc_service_close(svc));
	svc = NULL;
	say("left");
}

/* False: the input has been closed. */
static bool command(uint64_t id)
{
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		return false;
	if (strcmp(line, "enter\n") == 0) {
		must("open", ripc_service_open(ctx, id, 0, &svc));
		say("entered");
	} else if (strcmp(line, "leave\n") == 0 && svc) {
		leave();
	} else {
		fault_fail("what is \"%s\"?", line);
	}
	return true;
}

static void be_a_place(uint64_t id)
{
	bool go_on = true;

	say("ready");
	while (go_on) {
		struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = svc ? ripc_service_fd(svc) : -1, .events = POLLIN}};
		struct ripc_msg *msg;

		if (poll(fds, 2, -1) < 0)
			fault_fail("poll: %s", strerror(errno));
		while (svc && ripc_receive(svc, 0, &msg) == 0)
			take(msg);
		if (fds[0].revents)
			go_on = command(id);
	}
}

/* ---- the stream ------------------------------------------------------------------------------ */

static size_t length(uint64_t *random)
{
	uint64_t kind = fault_random(random) % 10;

	if (kind < 5)
		return fault_random(random) % 1000;
	return fault_random(random) % (kind < 9 ? 60000 : LEN_MAX);
}

static void send_one(uint64_t to, uint64_t number, size_t len)
{
	static char bytes[LEN_MAX];
	const struct iovec items[2] = {{&number, sizeof(number)}, {bytes, len}};
	struct ripc_send send = {.size = sizeof(send), .to = to, .items = items, .n_items = 2,
		.flags = RIPC_SEND_LONG, .timeout_ms = DEADLINE_MS};
	enum ripc_outcome outcome = 0;
	int status;

	fault_fill(bytes, len, number);
	status = ripc_sendmsg(svc, &send, &outcome);
	if (!fault_documented(status, outcome))
		fault_fail("send %llu ended with %s, outcome %d", (unsigned long long)number,
			ripc_strerror(status), outcome);
	fprintf(journal, "sent %llu %d %d %llu\n", (unsigned long long)number, status, outcome,
		(unsigned long long)fault_now_ms());
}

static void notices_take(void)
{
	struct ripc_msg *msg;

	while (ripc_receive(svc, 0, &msg) == 0)
		ripc_msg_free(msg);
}

static void stream(uint64_t to)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t random = fault_seed(), number = 0;

	must("open", ripc_service_open(ctx, 0, 0, &svc));
	fault_find(ctx, to);
	say("ready");
	while (poll(&input, 1, 0) == 0) {
		send_one(to, ++number, length(&random));
		notices_take();
	}
}

int main(int argc, char **argv)
{
	bool place = argc == 3 && strcmp(argv[1], "place") == 0;
	char *text;
	size_t len;

	if (!place && (argc != 3 || strcmp(argv[1], "send"))) {
		fprintf(stderr, "usage: %s place|send ID\n", argv[0]);
		return 2;
	}
	journal = open_memstream(&text, &len);
	if (!journal)
		fault_fail("no memory");
	must("open", ripc_open(NULL, &ctx));
	if (place)
		be_a_place(strtoull(argv[2], NULL, 0));
	else
		stream(strtoull(argv[2], NULL, 0));
	ripc_close(ctx, DEADLINE_MS);
	fclose(journal);
	fwrite(text, 1, len, stdout);
	free(text);
	return 0;
}
