/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ports of the ofi backend, and time in which libfabric is let work, or is not. */
#ifndef TEST_OFI_WORK_H
#define TEST_OFI_WORK_H

#include "ofi_world.h"
#include "virtual_clock.h"

/* Lets so many seconds pass in which libfabric is let work. */
static inline void work(struct end *end, uint32_t seconds)
{
	struct ripc__event none;

	for (uint32_t i = 0; i < seconds * 20; i++) {
		clock_pass(50000);
		ripc__ofi_poll(&end->port, &none, 0, false);
	}
}

/* Lets them pass without, as while the process is stopped. */
static inline void idle(struct end *end, uint32_t seconds)
{
	struct ripc__event none;

	clock_pass(seconds * 1000000ull);
	ripc__ofi_poll(&end->port, &none, 0, false);
}

#endif
