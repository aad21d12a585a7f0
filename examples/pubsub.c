/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Topics on top of groups: each topic is a group.
 *
 *   pubsub sub TOPIC...      prints what is published under these topics, until Ctrl-C
 *   pubsub pub TOPIC         publishes each line of its input to all that subscribe
 *   pubsub pub -r TOPIC      the same, and says how many subscribers have each line for certain
 *
 * A published line is a short message: fast, but a subscriber that is slow may miss it. With -r it
 * is a long message: each subscriber gets it, or the publisher is told.
 */
#include <errno.h>
#include <poll.h>
#include <ripc/group.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPICS_MAX 64
#define FIND_MS    1000 /* until a subscriber must be there */
#define TIMEOUT_MS 5000

static struct ripc_service *listening;

static void stop(int signal)
{
	(void)signal;
	ripc_wake(listening);
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "pubsub: %s: %s\n", what, ripc_strerror(error));
	return 1;
}

/* Bytes come from elsewhere: control characters in them must not reach a terminal. */
static void print(const char *topic, const struct ripc_msg *msg)
{
	const unsigned char *text = msg->items[0].iov_base;

	printf("%s: ", topic);
	for (size_t i = 0; i < msg->items[0].iov_len; i++)
		putchar(text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i]);
	putchar('\n');
	fflush(stdout);
}

static int subscribe(struct ripc_service *svc, char **topics, int n)
{
	struct ripc_msg *msg;
	int error = 0, i;

	for (i = 0; i < n && !error; i++)
		error = ripc_join(svc, ripc_group_from_name(topics[i]));
	if (error)
		return fail(topics[i - 1], error);
	listening = svc;
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	printf("serving\n");
	fflush(stdout);
	while ((error = ripc_receive(svc, -1, &msg)) == 0) {
		for (i = 0; i < n; i++) {
			if (msg->group && msg->group == ripc_group_from_name(topics[i]))
				print(topics[i], msg);
		}
		ripc_msg_free(msg);
	}
	return error == -EINTR ? 0 : fail("receive", error);
}

/* A subscriber that has come meanwhile gets the next line. */
static void publish_surely(struct ripc_service *svc, struct ripc_send *send)
{
	struct ripc_counts counts = {.delivered = 0};
	int error;

	send->flags = RIPC_SEND_LONG;
	send->timeout_ms = TIMEOUT_MS;
	send->counts = &counts;
	error = ripc_sendmsg(svc, send, NULL);
	printf("%u have it, %u do not, %u may have it%s%s\n", counts.delivered,
		counts.not_delivered, counts.unknown, error ? ": " : "",
		error ? ripc_strerror(error) : "");
	fflush(stdout);
}

static int publish(struct ripc_context *ctx, struct ripc_service *svc, const char *topic,
		int surely)
{
	struct iovec line = {NULL, 0};
	struct ripc_send send = {.size = sizeof(send), .items = &line, .n_items = 1};
	char text[RIPC_SHORT_MIN + 1];

	send.to = ripc_group_from_name(topic);
	if (ripc_await(ctx, send.to, FIND_MS))
		fprintf(stderr, "pubsub: nobody subscribes to %s yet\n", topic);
	while (fgets(text, sizeof(text), stdin)) {
		line = (struct iovec){text, strcspn(text, "\n")};
		if (surely)
			publish_surely(svc, &send);
		else
			ripc_sendmsg(svc, &send, NULL); /* -ENOENT: nobody misses it */
	}
	return 0;
}

int main(int argc, char **argv)
{
	int surely = argc == 4 && strcmp(argv[2], "-r") == 0, error, status;
	int publishes = argc == 3 + surely && strcmp(argv[1], "pub") == 0;
	struct ripc_context *ctx;
	struct ripc_service *svc;

	if (!publishes && (argc < 3 || argc > TOPICS_MAX || strcmp(argv[1], "sub"))) {
		fprintf(stderr, "usage: pubsub sub TOPIC... | pubsub pub [-r] TOPIC\n");
		return 2;
	}
	error = ripc_open(NULL, &ctx);
	if (error)
		return fail("open", error);
	error = ripc_service_open(ctx, 0, 0, &svc);
	if (error)
		status = fail("service", error);
	else if (publishes)
		status = publish(ctx, svc, argv[argc - 1], surely);
	else
		status = subscribe(svc, argv + 2, argc - 2);
	ripc_close(ctx, TIMEOUT_MS); /* messages in progress arrive first */
	return status;
}
