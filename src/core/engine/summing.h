/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums that follow their announcement. */
#ifndef RIPC_SUMMING_H
#define RIPC_SUMMING_H

struct outgoing;

/*
 * If the message's announcement said that a checksum follows: computes the checksum without the
 * lock, then tells the receiver. After that the caller uses outgoing only if a call waits for it.
 */
void ripc__sum_follows(struct outgoing *outgoing);

#endif
