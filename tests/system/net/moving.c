/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of all kinds without pause, while the addresses of hosts change. Knows nothing but the
 * public headers. Each kind is said as a line of JSON now and then while it works, and at once when
 * it works again after a gap: "kind", "at_ms" (CLOCK_MONOTONIC), "gap_ms", and how many "failed"
 * meanwhile. Both end with their input.
 *
 *   moving serve NAME GROUP         answers, and says which shorts come
 *   moving use NAME GROUP KIND...   of: call-MS long-MS (with that timeout) short group ping watch
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ripc/call.h"
#include "ripc/group.h"

#define PAUSE_US  5000
#define GAP_MS    60.0   /* a shorter one is no gap */
#define SAY_MS    200.0
#define KINDS_MAX 16
#define LONG_LEN  20000u

struct kind {
	const char *name;
	int timeout_ms;
	double last_ms; /* when it last worked; 0: never */
	double said_ms; /* when that was last said */
	uint64_t failed;
	struct ripc_service *svc;
};

static struct {
	struct ripc_context *ctx;
	uint64_t server, group;
} world;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void check(const char *what, int error)
{
	if (error >= 0)
		return;
	fprintf(stderr, "moving: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void works(struct kind *kind)
{
	double now = now_ms(), gap = now - kind->last_ms;

	if (gap >= GAP_MS || now - kind->said_ms >= SAY_MS) {
		kind->said_ms = now;
		printf("{\"kind\": \"%s\", \"at_ms\": %.1f, \"gap_ms\": %.1f, \"failed\": %" PRIu64
			"}\n", kind->name, now, kind->last_ms ? gap : 0, kind->failed);
	}
	kind->last_ms = now;
	kind->failed = 0;
}

static int call_once(struct kind *kind, struct iovec *item)
{
	struct ripc_request question = {.size = sizeof(question), .to = world.server,
		.items = item, .n_items = 1, .flags = RIPC_IDEMPOTENT,
		.timeout_ms = kind->timeout_ms};
	struct ripc_msg *answer;
	enum ripc_outcome asked;
	int error = ripc_call(kind->svc, &question, &answer, &asked);

	if (!error)
		ripc_msg_free(answer);
	return error;
}

static int ping_once(struct kind *kind)
{
	uint64_t rtt_ns;

	return ripc_ping(kind->svc, world.server, 2000, &rtt_ns);
}

/* Says what it is told of the holder; asks nothing. */
static void watch_once(struct kind *kind)
{
	struct ripc_msg *msg;

	if (ripc_receive(kind->svc, 100, &msg))
		return;
	if (msg->kind == RIPC_NOTICE && msg->flags & RIPC_WATCHED)
		printf("{\"kind\": \"watch\", \"at_ms\": %.1f, \"there\": %s}\n", now_ms(),
			msg->from_incarnation ? "true" : "false");
	ripc_msg_free(msg);
}

static void *use(void *arg)
{
	static uint8_t bytes[LONG_LEN];
	struct kind *kind = arg;
	bool is_short = strcmp(kind->name, "short") == 0;
	bool is_group = strcmp(kind->name, "group") == 0;
	struct iovec item = {bytes, is_group ? 16 : 8}, items = {bytes, LONG_LEN};

	check("service", ripc_service_open(world.ctx, 0, 0, &kind->svc));
	if (strcmp(kind->name, "watch") == 0)
		check("watch", ripc_watch(kind->svc, world.server, 1));
	for (;;) {
		int error = 0;

		if (is_short || is_group)
			error = ripc_send_short(kind->svc, is_group ? world.group : world.server,
				&item, 1);
		else if (strncmp(kind->name, "call", 4) == 0)
			error = call_once(kind, &item);
		else if (strncmp(kind->name, "long", 4) == 0)
			error = ripc_send_long(kind->svc, world.server, &items, 1,
				kind->timeout_ms);
		else if (strcmp(kind->name, "ping") == 0)
			error = ping_once(kind);
		else
			watch_once(kind);
		kind->failed += error != 0;
		if (!error && !is_short && !is_group && strcmp(kind->name, "watch") != 0)
			works(kind);
		usleep(PAUSE_US);
	}
	return NULL;
}

static void serve(const char *name)
{
	static struct kind shorts = {.name = "short"}, group = {.name = "group"};
	struct ripc_service *svc;
	struct ripc_msg *msg;

	check("service", ripc_service_open(world.ctx, ripc_id_from_name(name), 0, &svc));
	check("join", ripc_join(svc, world.group));
	printf("{\"ready\": true}\n");
	for (;;) {
		if (ripc_receive(svc, -1, &msg))
			continue;
		if (msg->kind == RIPC_REQUEST)
			ripc_reply(svc, msg, msg->items, msg->n_items, 0);
		else if (msg->kind == RIPC_SHORT)
			works(msg->group ? &group : &shorts);
		ripc_msg_free(msg);
	}
}

static void *serve_thread(void *arg)
{
	serve(arg);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct kind kinds[KINDS_MAX];
	struct ripc_config cfg = {.size = sizeof(cfg)};
	pthread_t thread;

	if (argc < 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	world.server = ripc_id_from_name(argv[2]);
	world.group = ripc_group_from_name(argv[3]);
	check("context", ripc_open(&cfg, &world.ctx));
	if (strcmp(argv[1], "serve") == 0)
		pthread_create(&thread, NULL, serve_thread, argv[2]);
	for (int i = 4; i < argc && i - 4 < KINDS_MAX; i++) {
		const char *dash = strchr(argv[i], '-');

		kinds[i - 4] = (struct kind){.name = argv[i],
			.timeout_ms = dash ? atoi(dash + 1) : 0};
		pthread_create(&thread, NULL, use, &kinds[i - 4]);
	}
	while (getchar() != EOF)
		;
	/* Its threads never end. */
	fflush(stdout);
	_exit(0);
}
