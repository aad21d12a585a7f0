/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An honest process beside attackers: one service that receives all messages, and sends on command,
 * line by line. Knows nothing but ripc.h. Answers each line with one of JSON.
 *
 *   honest ID               ID 0: a private one
 *
 *   send TO BYTES MS        long messages, one after the other, for so many milliseconds
 *   count                   messages so far, by who says that they are his and how sure that is
 *
 * A message that begins with "forged" is not from whom it says.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ripc/ripc.h"

#define SAMPLES_MAX 1000000u
#define TIMEOUT_MS  3000
#define BYTES_MAX   (8u << 20)

static struct {
	atomic_uint_fast64_t honest, forged, forged_resolved;
} count;
static atomic_bool stop;
static float samples_us[SAMPLES_MAX];

static int fail(const char *what, int error)
{
	fprintf(stderr, "honest: %s: %s\n", what, ripc_strerror(error));
	return 1;
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

/* ---- receiving --------------------------------------------------------------------------- */

static void take(const struct ripc_msg *msg)
{
	if (msg->kind != RIPC_SHORT && msg->kind != RIPC_LONG)
		return;
	if (msg->n_items == 0 || msg->items[0].iov_len < 6 ||
			memcmp(msg->items[0].iov_base, "forged", 6) != 0) {
		atomic_fetch_add(&count.honest, 1);
		return;
	}
	atomic_fetch_add(&count.forged, 1);
	if (msg->sender == RIPC_SENDER_RESOLVED)
		atomic_fetch_add(&count.forged_resolved, 1);
}

static void *receive(void *service)
{
	struct ripc_msg *msg;

	while (!atomic_load(&stop)) {
		if (ripc_receive(service, 100, &msg))
			continue;
		take(msg);
		ripc_msg_free(msg);
	}
	return NULL;
}

/* ---- sending ----------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
	float left = *(const float *)a, right = *(const float *)b;

	return (left > right) - (left < right);
}

static void print_rate(uint32_t n, uint32_t failed, double us)
{
	qsort(samples_us, n, sizeof(samples_us[0]), by_size);
	printf("{\"n\":%u,\"failed\":%u,\"rate\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,"
		"\"max_us\":%.1f}\n", n, failed, 1e6 * n / us, n ? samples_us[n / 2] : 0,
		n ? samples_us[n - 1 - n / 100] : 0, n ? samples_us[n - 1] : 0);
}

static void send_for(struct ripc_service *service, char *bytes, uint64_t to, uint32_t len,
		double ms)
{
	struct iovec item = {bytes, len};
	struct ripc_send request = {.size = sizeof(request), .to = to, .items = &item, .n_items = 1,
		.flags = RIPC_SEND_LONG, .timeout_ms = TIMEOUT_MS};
	double began = now_us(), now = began;
	uint32_t n = 0, failed = 0;

	do {
		enum ripc_outcome outcome = 0;
		double before = now;

		if (ripc_sendmsg(service, &request, &outcome) || outcome != RIPC_DELIVERED)
			failed++;
		now = now_us();
		samples_us[n++] = (float)(now - before);
	} while (now - began < 1000 * ms && n < SAMPLES_MAX);
	print_rate(n, failed, now - began);
}

static void obey(struct ripc_service *service, char *bytes, const char *line)
{
	unsigned long long to;
	unsigned int len, ms;

	if (sscanf(line, "send %llu %u %u", &to, &len, &ms) == 3 && len <= BYTES_MAX)
		send_for(service, bytes, to, len, ms);
	else
		printf("{\"honest\":%llu,\"forged\":%llu,\"forged_resolved\":%llu}\n",
			(unsigned long long)atomic_load(&count.honest),
			(unsigned long long)atomic_load(&count.forged),
			(unsigned long long)atomic_load(&count.forged_resolved));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct ripc_service *service;
	struct ripc_context *ctx;
	pthread_t thread;
	char line[100];
	void *bytes;
	int error = argc == 2 ? ripc_open(NULL, &ctx) : -EINVAL;

	error = error ? error : ripc_service_open(ctx, strtoull(argv[1], NULL, 0), 0, &service);
	error = error ? error : ripc_buf_alloc(ctx, BYTES_MAX, &bytes);
	if (error)
		return fail("cannot begin", error);
	memset(bytes, 'h', BYTES_MAX);
	pthread_create(&thread, NULL, receive, service);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		obey(service, bytes, line);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	ripc_buf_free(ctx, bytes);
	return ripc_close(ctx, 1000) ? 1 : 0;
}
