/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that a receiver asks for again. */
#ifndef RIPC_RESEND_H
#define RIPC_RESEND_H

struct outgoing;
struct wire_pull;

/* Notes for the pump which of the asked-for bytes are to be sent again. */
void ripc__resend(struct outgoing *outgoing, const struct wire_pull *pull);

#endif
