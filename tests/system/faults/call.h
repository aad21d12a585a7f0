/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the processes of the test of calls: a server that can be killed at any moment, and a
 * board in shared memory on which it counts, before it answers, what it has taken.
 */
#ifndef CALL_TEST_H
#define CALL_TEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ripc/call.h"

#define BOARD_FD      4
#define QUESTIONS_MAX (1u << 20) /* then numbers come again */
#define KEPT_MAX      512u /* questions that a server keeps to answer them later */

enum { SERVICE_CLIENT = 1, SERVICE_SERVER };

/* How a server treats questions. */
enum manner {
	MANNER_ANSWERS, /* each at once */
	/* keeps all requests, and answers any one when none has arrived for a moment */
	MANNER_KEEPS,
};

struct question {
	uint32_t number, repeatable; /* of all of this test; RIPC_IDEMPOTENT? */
};

struct answer {
	uint32_t number, life; /* of the question; of the server that answers */
};

/* The actions of the servers, which survive their end. */
struct board {
	atomic_uint n_taken;
	atomic_uint wrong;      /* questions that were not as they had been asked */
	struct {
		atomic_uchar n;         /* how often it was taken, by all servers */
		unsigned char in_life;  /* and by the last one */
		atomic_ushort life;
	} taken[QUESTIONS_MAX];
};

/* Makes the board, and what a server starts with; the same in a server. */
struct board *board_open(bool make);
/* argv: "--server", its life, its manner. */
int server_main(char **argv);
double clock_ms(void);

#endif
