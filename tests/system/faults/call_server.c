/* SPDX-License-Identifier: BSD-3-Clause */
/* The server that the test of calls kills. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "fault.h"

struct server {
	struct ripc_service *svc;
	struct board *board;
	struct ripc_msg *kept[KEPT_MAX];
	uint32_t n_kept, life;
	enum manner manner;
	uint64_t random;
};

double clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

struct board *board_open(bool make)
{
	int fd = make ? memfd_create("calls", 0) : BOARD_FD;
	struct board *board;

	if (fd < 0 || (make && ftruncate(fd, sizeof(*board))))
		fault_fail("no board: %s", strerror(errno));
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (board == MAP_FAILED)
		fault_fail("no board: %s", strerror(errno));
	if (make && (dup2(fd, BOARD_FD) != BOARD_FD || (fd != BOARD_FD && close(fd))))
		fault_fail("no board: %s", strerror(errno));
	return board;
}

/* On the board before anybody can have an answer. */
static void note(struct server *server, const struct ripc_msg *msg)
{
	const struct question *question = msg->items[0].iov_base;
	struct board *board = server->board;
	bool repeatable = msg->flags & RIPC_IDEMPOTENT;

	if (msg->n_items != 1 || msg->items[0].iov_len != sizeof(*question) ||
			question->number >= QUESTIONS_MAX || repeatable != question->repeatable) {
		board->wrong++;
		return;
	}
	if (board->taken[question->number].life != server->life)
		board->taken[question->number].in_life = 0;
	board->taken[question->number].life = (unsigned short)server->life;
	/* A short, and a long message after it: not more often. */
	if (++board->taken[question->number].in_life > (repeatable ? 2 : 1))
		board->wrong++;
	board->taken[question->number].n++;
	board->n_taken++;
}

static void reply(struct server *server, struct ripc_msg *msg)
{
	const struct question *question = msg->items[0].iov_base;
	struct answer answer = {question->number, server->life};
	const struct iovec item = {&answer, sizeof(answer)};
	int error = ripc_reply(server->svc, msg, &item, 1, 0);

	if (error && error != -ENOENT && error != -EAGAIN)
		fault_fail("server: cannot reply: %s", ripc_strerror(error));
	ripc_msg_free(msg);
}

/* Answers a kept request. */
static void reply_to_any(struct server *server)
{
	uint32_t i = (uint32_t)(fault_random(&server->random) % server->n_kept);

	reply(server, server->kept[i]);
	server->kept[i] = server->kept[--server->n_kept];
}

static void take(struct server *server, struct ripc_msg *msg)
{
	if (msg->kind != RIPC_REQUEST) {
		ripc_msg_free(msg);
		return;
	}
	note(server, msg);
	if (server->manner == MANNER_ANSWERS || server->n_kept == KEPT_MAX)
		reply(server, msg);
	else
		server->kept[server->n_kept++] = msg;
}

/* Says when something is so. */
static void say(double now_ms)
{
	if (write(FAULT_READY_FD, &now_ms, sizeof(now_ms)) != sizeof(now_ms))
		fault_fail("server: cannot say how it is");
}

/* Loading a program is not what is measured. */
static void stand_by(void)
{
	sigset_t go;
	int number;

	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	sigprocmask(SIG_BLOCK, &go, NULL);
	say(clock_ms());
	sigwait(&go, &number);
}

int server_main(char **argv)
{
	static struct server server;
	struct ripc_config cfg = fault_config();
	struct ripc_context *ctx;
	struct ripc_msg *msg;
	struct ripc__env env;

	server.life = (uint32_t)atoi(argv[2]);
	server.manner = (enum manner)atoi(argv[3]);
	server.random = server.life;
	server.board = board_open(false);
	cfg.backends = NULL;
	stand_by();
	ripc__env_init(&env);
	fault_open(&env, &cfg, &ctx);
	if (ripc_service_open(ctx, fault_id(SERVICE_SERVER), 0, &server.svc))
		fault_fail("server: no service");
	say(clock_ms());
	for (;;) {
		if (ripc_receive(server.svc, server.n_kept ? 1 : -1, &msg) == 0)
			take(&server, msg);
		else if (server.n_kept)
			reply_to_any(&server);
	}
}
