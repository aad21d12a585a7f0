/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol between the two sides of the kill test (kill.c, kill_victim.c). */
#ifndef KILL_H
#define KILL_H

#include <stdint.h>

#include "ripc/ripc.h"

#define SERVICE_DRIVER 1 /* numbers of fault_id() */
#define SERVICE_PROBE  2
#define SERVICE_VICTIM 3

#define LETTER_LEN (700u << 10) /* long enough for several grants */
#define LETTERS    12u          /* conversations until the victim ends by itself */
#define NUMBERS    100000u

#define ANSWER       1u
#define ANSWER_AGAIN 2u

/* The first item of each long message; the second is filled by its number. */
struct letter {
	uint32_t number;
	uint32_t is_answer; /* ANSWER_AGAIN: the outcome of an earlier one is unknown */
	uint32_t life; /* which of the victim's lives it belongs to; an answer has its letter's */
};

/* The short message that tells the victim of this life to end. */
struct stop {
	char word[4];
	uint32_t life;
};

/* Counts of one life. */
struct tally {
	uint32_t life;
	uint8_t seen[NUMBERS];
};

/* The body of a process that is to be killed: "--victim serve|call POINT N LETTERS LIFE". */
int victim_main(char **argv);

/* Both items of a message. bytes has LETTER_LEN. */
void letter_pack(struct iovec items[2], struct letter *letter, void *bytes);
/*
 * Checks a received letter: -1 if it is not whole, came before, or is of an earlier life than one
 * that has come. The first one of a new life begins a new tally: one that had been delivered before
 * the victim died may still have waited to be received. ANSWER_AGAIN may be one that came before.
 */
int letter_read(const struct ripc_msg *msg, struct tally *tally, struct letter *letter);

#endif
