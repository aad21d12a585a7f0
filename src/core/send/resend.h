/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes that a receiver asks for again. */
#ifndef RIPC_RESEND_H
#define RIPC_RESEND_H

struct outgoing;
struct wire_pull;

/* Notes which of the asked-for bytes the pump must send again. */
void ripc__resend(struct outgoing *outgoing, const struct wire_pull *pull);

#endif
