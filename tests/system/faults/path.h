/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of several paths (path.c, path_partner.c): a partner process whose shared
 * memory can be taken away and given back while messages come, and what is said to it.
 */
#ifndef PATH_H
#define PATH_H

#include <signal.h>
#include <stdint.h>

#include "ripc/ripc.h"

#define SERVICE_DRIVER  1 /* numbers of fault_id() */
#define SERVICE_PARTNER 2
#define SERVICE_CHILD   3

#define NUMBERS  200000u
#define STREAMS  3u
#define LEN_MAX  (3u << 20)

/* The actions of a partner on a signal. */
#define SIGNAL_BREAK  SIGHUP  /* ends its links of shared memory; new ones are welcome */
#define SIGNAL_REFUSE SIGUSR1 /* ends them, and refuses new ones */
#define SIGNAL_ADMIT  SIGUSR2 /* admits them again */
#define SIGNAL_END    SIGTERM /* says how many notes it got, and ends */

/* The first item of a long message; the second has len bytes, filled by stream and number. */
struct note {
	uint32_t stream, number, len;
	uint32_t echo; /* send it back */
};

/* "--partner [UID]": a process of its own. */
int partner_main(const char *uid);
uint64_t note_seed(const struct note *note);
/* Is this a whole note? Then it is copied. */
int note_read(const struct ripc_msg *msg, struct note *note);

#endif
