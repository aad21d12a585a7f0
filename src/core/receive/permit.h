/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a partner that has no right to send to our service. */
#ifndef RIPC_RECEIVE_PERMIT_H
#define RIPC_RECEIVE_PERMIT_H

#include <stdbool.h>

struct partner;
struct wire_packet;

/*
 * May this SHORT or new ANNOUNCE come, though the partner was denied when it was last judged? It
 * may if the partner has the right now, and if it is the reply to what our service has sent: to an
 * open call, or into return buffers that wait for it. Else a log line says who was refused.
 */
bool ripc__is_permitted(struct partner *partner, const struct wire_packet *packet);

#endif
