/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The conformance suite: one set of cases against the contract in src/core/net/backend.h. A
 * backend's own file fills a struct conformance and calls conformance_run(); each case runs
 * once per variant of its options.
 */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include <stdint.h>

#include "core/net/backend.h"

/* Options as name, value, ..., NULL. */
typedef const char *const *conformance_options;

struct conformance {
	const struct ripc__backend *backend;
	/* Makes and ends what the backend finds in ripc__host.env; NULL: nothing. */
	void *(*world_open)(void);
	void (*world_close)(void *world);
	uint8_t host[16]; /* where resolver answers come from */
	const conformance_options *variants;
	uint32_t n_variants;
	/* Makes the receive buffer small, so that it overflows; NULL: none. */
	conformance_options small_buffer;
	/* Networks whose two ends must get acquainted: who waits polls the others meanwhile. */
	bool both_ends;
	/*
	 * Somebody else moves the datagrams, or both ends must poll for it: what was sent arrives
	 * a while later.
	 */
	bool later;
	/* A sender to a closed port may fail, too: a fault of the library beneath. */
	bool mortal;
	/* With the first variant's options it reads nothing, though others may. */
	bool readless;
	/* With the first variant's options it writes. */
	bool writes;
	/*
	 * A partner with write permission can read, too: a fault of the device (siw does not
	 * check).
	 */
	bool writers_read;
	/* A feature that the kernel lacks, in words; NULL: none (tests/support/util/kernel.h). */
	const char *lacks_mtu, *lacks_overflows;
};

/* Returns the exit status of the program. */
int conformance_run(const struct conformance *backend);
/* The same, or 77 and the reason where there is no device for the first variant. */
int conformance_run_on_device(const struct conformance *backend);

#endif
