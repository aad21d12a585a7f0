/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Named points at which a test kills or stops a process (tests/faults/points.c). In the library
 * they are nothing; the test compiles these files once more, with RIPC_POINTS.
 */
#ifndef RIPC_SHM_POINT_H
#define RIPC_SHM_POINT_H

#ifdef RIPC_POINTS
/* The test's. */
void ripc__shm_point(const char *name);
#else
static inline void ripc__shm_point(const char *name)
{
	(void)name;
}
#endif

#endif
