/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two clients and a server beside many busy processes, which leave each of them little time: no
 * exchange fails. Knows nothing but ripc.h.
 *
 * usage: faults-busy PROCESSES EXCHANGES      by which network, says RIPC_BACKENDS
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define CLIENTS    2u
#define BUSY_MAX   1000u
#define BYTES      100000u
#define TIMEOUT_MS 60000 /* no operation takes longer here, unless the machine stands still */

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "busy: %s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static struct ripc_service *service_open(void)
{
	struct ripc_config cfg = {.size = sizeof(cfg), .interfaces = "lo"};
	struct ripc_service *svc;
	struct ripc_context *ctx;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(ripc_open(&cfg, &ctx), "open");
	must(ripc_service_open(ctx, 0, 0, &svc), "service");
	return svc;
}

static void serve(int told)
{
	struct ripc_service *svc = service_open();
	uint64_t id = ripc_service_id(svc);
	struct ripc_msg *msg;

	if (write(told, &id, sizeof(id)) != sizeof(id))
		exit(1);
	while (ripc_receive(svc, -1, &msg) == 0) {
		/* A client ends with its last answer: then the send fails. */
		if (msg->kind == RIPC_LONG)
			(void)ripc_send_long(svc, msg->from, msg->items, 1, TIMEOUT_MS);
		ripc_msg_free(msg);
	}
	exit(1);
}

/* Every fourth exchange is of a message that goes in many packets. */
static void call(uint64_t to, uint32_t n)
{
	struct ripc_service *svc = service_open();
	struct iovec item = {calloc(1, BYTES), 0};
	struct ripc_msg *msg;

	for (uint32_t i = 0; i < n; i++) {
		item.iov_len = i % 4 ? 100 : BYTES;
		must(ripc_send_long(svc, to, &item, 1, TIMEOUT_MS), "send");
		must(ripc_receive(svc, TIMEOUT_MS, &msg), "receive");
		must(msg->kind != RIPC_LONG || msg->items[0].iov_len != item.iov_len ?
			-EPROTO : 0, "content");
		ripc_msg_free(msg);
	}
	free(item.iov_base);
	exit(0);
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void keep_busy(void)
{
	for (volatile uint64_t n = 0;; n++)
		;
}

/* fork() or the end; children end with their parent. */
static pid_t start(void)
{
	pid_t child = fork();

	if (child < 0) {
		perror("busy: fork");
		exit(1);
	}
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

int main(int argc, char **argv)
{
	uint32_t n_busy = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	uint32_t n = argc == 3 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	static pid_t busy[BUSY_MAX];
	pid_t clients[CLIENTS], server;
	uint64_t id;
	int told[2], failed = 0;

	if (!n || n_busy > BUSY_MAX || pipe(told))
		return 2;
	server = start();
	if (server == 0)
		serve(told[1]);
	close(told[1]); /* the end of the server then ends the reading */
	if (read(told[0], &id, sizeof(id)) != sizeof(id))
		return 1;
	for (uint32_t i = 0; i < n_busy; i++) {
		busy[i] = start();
		if (busy[i] == 0)
			keep_busy();
	}
	for (uint32_t i = 0; i < CLIENTS; i++) {
		clients[i] = start();
		if (clients[i] == 0)
			call(id, n / CLIENTS);
	}
	for (uint32_t i = 0; i < CLIENTS; i++) {
		int status = 1;

		waitpid(clients[i], &status, 0);
		failed |= status;
	}
	end(server);
	for (uint32_t i = 0; i < n_busy; i++)
		end(busy[i]);
	printf("%u exchanges beside %u busy processes: %s\n", n, n_busy,
		failed ? "some failed" : "none failed");
	return failed != 0;
}
