/* SPDX-License-Identifier: BSD-3-Clause */
/* Checksums that follow their announcement. */
#ifndef RIPC_SUMMING_H
#define RIPC_SUMMING_H

struct outgoing;

/*
 * Computes the checksum, if the message was announced so, without the lock; then the receiver is
 * told. The caller may send the message, and only uses it afterwards if a call waits for it.
 */
void ripc__sum_follows(struct outgoing *outgoing);

#endif
