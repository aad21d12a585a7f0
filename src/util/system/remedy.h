/* SPDX-License-Identifier: BSD-3-Clause */
/* Remedies for lacks of the operating system. Keeps no state. */
#ifndef RIPC_UTIL_REMEDY_H
#define RIPC_UTIL_REMEDY_H

/*
 * Writes which limit to raise if the negative errno means a lack of descriptors, memory, threads or
 * file length; writes otherwise for all other errors.
 */
void ripc__remedy(int error, const char *otherwise, char remedy[256]);

#endif
