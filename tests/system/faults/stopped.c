/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nobody is taken for dead who lives: a partner of the same host is stopped again and again, for
 * less than the peer timeout, and kept from the processors by busy loops, while we send to it, one
 * message after the other. Each must be delivered. Before each stop it has said something, or two
 * of them would be one that is longer than the peer timeout.
 *
 * usage: faults-stopped SECONDS LOOPS    RIPC_TEST_SEED repeats a run
 * By which network, says RIPC_BACKENDS.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fault.h"

#define PEER_TIMEOUT_MS 10000
#define STOP_MOST_US    4000000u
#define RUN_MOST_US     500000u /* between two stops */
#define SEND_MS         60000
#define LOOPS_MAX       64
#define PATIENCE_MS     60000

enum { SERVICE_SENDER = 1, SERVICE_STOPPED };

struct stopper {
	pthread_t thread;
	int pid;
	uint64_t random;
	atomic_bool end;
	atomic_uint delivered;
	uint32_t n;
};

static struct ripc_config config(void)
{
	struct ripc_config cfg = fault_config();

	cfg.backends = NULL;
	cfg.peer_timeout_ms = PEER_TIMEOUT_MS;
	return cfg;
}

static void open_service(struct ripc__env *env, uint32_t number, struct ripc_context **ctx,
		struct ripc_service **svc)
{
	struct ripc_config cfg = config();

	ripc__env_init(env);
	fault_open(env, &cfg, ctx);
	if (ripc_service_open(*ctx, fault_id(number), 0, svc))
		fault_fail("no service %u", number);
}

static volatile sig_atomic_t asked_to_end;

static void on_term(int number)
{
	(void)number;
	asked_to_end = 1;
}

static int partner_main(void)
{
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;

	signal(SIGTERM, on_term);
	open_service(&env, SERVICE_STOPPED, &ctx, &svc);
	if (write(FAULT_READY_FD, "r", 1) != 1)
		fault_fail("partner: cannot say that it is ready");
	while (!asked_to_end) {
		struct ripc_msg *msg;

		if (ripc_receive(svc, 20, &msg) == 0)
			ripc_msg_free(msg);
	}
	return ripc_close(ctx, 1000) != 0;
}

/* Until it has answered again. */
static void await_delivery(struct stopper *stopper)
{
	uint32_t before = atomic_load(&stopper->delivered);

	while (!atomic_load(&stopper->end) && atomic_load(&stopper->delivered) == before)
		usleep(1000);
}

static void *stopper_main(void *arg)
{
	struct stopper *stopper = arg;

	while (!atomic_load(&stopper->end)) {
		await_delivery(stopper);
		usleep((useconds_t)(fault_random(&stopper->random) % RUN_MOST_US));
		kill(stopper->pid, SIGSTOP);
		usleep((useconds_t)(fault_random(&stopper->random) % STOP_MOST_US));
		kill(stopper->pid, SIGCONT);
		stopper->n++;
	}
	return NULL;
}

static void loops_start(int *pids, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			fault_fail("no process for a busy loop");
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				atomic_signal_fence(memory_order_seq_cst);
		}
	}
}

static void loops_end(const int *pids, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		fault_await(pids[i], PATIENCE_MS);
	}
}

/* Short and long in turn. */
static void send_until(struct stopper *stopper, struct ripc_service *svc, uint64_t until_ms)
{
	static char bytes[300000];

	while (fault_now_ms() < until_ms) {
		uint32_t n = atomic_load(&stopper->delivered);
		struct iovec item = {bytes, n % 16 ? 100 : sizeof(bytes)};
		struct ripc_send send = {.size = sizeof(send), .to = fault_id(SERVICE_STOPPED),
			.items = &item, .n_items = 1, .flags = RIPC_SEND_LONG,
			.timeout_ms = SEND_MS};
		enum ripc_outcome outcome = 0;
		uint64_t began_ms = fault_now_ms();
		int error = ripc_sendmsg(svc, &send, &outcome);

		if (error)
			fault_fail("send %u to a partner that lives ended after %llu ms with %s, "
				"outcome %d", n, (unsigned long long)(fault_now_ms() - began_ms),
				ripc_strerror(error), outcome);
		atomic_fetch_add(&stopper->delivered, 1);
	}
}

static void stop_and_go(uint32_t seconds, uint32_t n_loops)
{
	const char *argv[] = {"faults-stopped", "--partner", NULL};
	struct stopper stopper = {.random = fault_seed()};
	struct ripc_context *ctx;
	struct ripc_service *svc;
	struct ripc__env env;
	int loops[LOOPS_MAX], ready;
	char byte;

	stopper.pid = fault_spawn(argv, &ready);
	if (read(ready, &byte, 1) != 1)
		fault_fail("the partner does not start");
	loops_start(loops, n_loops);
	open_service(&env, SERVICE_SENDER, &ctx, &svc);
	fault_find(ctx, fault_id(SERVICE_STOPPED));
	pthread_create(&stopper.thread, NULL, stopper_main, &stopper);
	send_until(&stopper, svc, fault_now_ms() + 1000ull * seconds);
	atomic_store(&stopper.end, true);
	pthread_join(stopper.thread, NULL);
	loops_end(loops, n_loops);
	kill(stopper.pid, SIGTERM);
	if (fault_await(stopper.pid, PATIENCE_MS))
		fault_fail("the partner did not end well");
	close(ready);
	if (ripc_close(ctx, 1000))
		fault_fail("cannot close");
	printf("%u messages delivered in %u s to a partner that was stopped %u times beside %u "
		"busy loops: 0 false deaths\n", atomic_load(&stopper.delivered), seconds,
		stopper.n, n_loops);
}

int main(int argc, char **argv)
{
	uint32_t seconds, n_loops;

	if (argc == 2 && strcmp(argv[1], "--partner") == 0)
		return partner_main();
	seconds = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	n_loops = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	if (!seconds || n_loops > LOOPS_MAX) {
		fprintf(stderr, "usage: %s SECONDS LOOPS\n", argv[0]);
		return 2;
	}
	stop_and_go(seconds, n_loops);
	return 0;
}
