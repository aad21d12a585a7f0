/* SPDX-License-Identifier: BSD-3-Clause */
/* See clients.h. Owns the processes. */
#include "clients.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ACQUAINTED_US 300000 /* until all know each other */
#define READY_MS      20000

void clients_ready(struct board *board)
{
	__sync_fetch_and_add(&board->n_ready, 1);
}

void clients_await(struct board *board)
{
	clients_ready(board);
	while (!board->go)
		usleep(1000);
}

static void await_ready(const struct board *board, unsigned int n)
{
	for (int i = 0; board->n_ready < n; i++) {
		if (i == READY_MS || waitpid(-1, NULL, WNOHANG) > 0) {
			fprintf(stderr, "a server or a client does not start\n");
			exit(1);
		}
		usleep(1000);
	}
}

static unsigned long all_answers(const struct board *board, int clients)
{
	unsigned long all = 0;

	for (int i = 0; i < clients; i++)
		all += board->answers[i].n;
	return all;
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static pid_t start(void)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

int clients_rate(const struct library *library, const char *at, int clients, int underway,
		double seconds)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[CLIENTS_MAX + 1];
	unsigned long before;
	double began_s;

	if (board == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	pids[clients] = start();
	if (pids[clients] == 0) {
		library->serve(board, at);
		_exit(1);
	}
	await_ready(board, 1);
	for (int i = 0; i < clients; i++) {
		pids[i] = start();
		if (pids[i] == 0) {
			library->ask(board, at, i, underway);
			_exit(1);
		}
	}
	await_ready(board, (unsigned int)clients + 1);
	board->go = true;
	usleep(ACQUAINTED_US);
	before = all_answers(board, clients);
	began_s = now_s();
	usleep((useconds_t)(seconds * 1e6));
	printf("%.0f\n", (double)(all_answers(board, clients) - before) / (now_s() - began_s));
	for (int i = 0; i <= clients; i++)
		kill(pids[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	munmap(board, sizeof(*board));
	return 0;
}

bool clients_main(const struct library *library, char **argv, int *status)
{
	int clients = atoi(argv[1]), underway = atoi(argv[2]);
	double seconds = atof(argv[3]);

	if (clients < 1 || clients > CLIENTS_MAX || underway < 1 || !(seconds > 0))
		return false;
	*status = clients_rate(library, argv[0], clients, underway, seconds);
	return true;
}
