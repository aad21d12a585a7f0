/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that begin again at the same receiver. */
#ifndef RIPC_AGAIN_H
#define RIPC_AGAIN_H

#include <stdbool.h>
#include <stdint.h>

struct outgoing;

/* Refused, as we were silent, says its receiver: it begins again, if there is time. */
bool ripc__outgoing_begins_again(struct outgoing *outgoing, uint32_t status);

#endif
