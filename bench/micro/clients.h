/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client processes that call one server process, by whatever library, and how many replies they get
 * in a second, all together.
 */
#ifndef CLIENTS_H
#define CLIENTS_H

#include <stdbool.h>

#define CLIENTS_MAX   64
#define CLIENTS_BYTES 100 /* of a request, and of its reply */

/* In memory that all processes share. */
struct board {
	volatile bool go;
	volatile unsigned int n_ready;
	struct {
		volatile unsigned long n;
		char apart[56]; /* from those that another processor counts */
	} answers[CLIENTS_MAX];
};

/* Both run in a process of their own, until it is killed. */
struct library {
	void (*serve)(struct board *board, const char *at);
	/* The client with this number sends requests, with so many under way at once. */
	void (*ask)(struct board *board, const char *at, int me, int underway);
};

/* The server calls clients_ready() once it can be found; a client once it has found the server. */
void clients_ready(struct board *board);
void clients_await(struct board *board);
/* Prints replies per second; at: what the library calls the place of the server. */
int clients_rate(const struct library *library, const char *at, int clients, int underway,
		double seconds);
/* The same, from the arguments AT CLIENTS UNDERWAY SECONDS. False: they are not such. */
bool clients_main(const struct library *library, char **argv, int *status);

#endif
