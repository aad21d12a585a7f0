/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of sends and calls with RIPC_AWAITED, which only ripc_receive_end() hands out. */
#ifndef RIPC_ENDS_H
#define RIPC_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"

struct message;
struct ripc_service;

/* The awaited sends and calls of a service. */
struct ends {
	struct list arrived;     /* messages: ends that the application has not taken */
	uint64_t *cookies;       /* of those whose end was not taken, in no order; or NULL */
	uint32_t n_cookies, room;
};

void ripc__ends_init(struct ends *ends);
/* A send or call with this cookie is about to begin. -ENOMEM */
int ripc__ends_add(struct ends *ends, uint64_t cookie);
/* It has not begun. */
void ripc__ends_remove(struct ends *ends, uint64_t cookie);
/* Is there a send or call with this cookie whose end was not taken? */
bool ripc__ends_has(const struct ends *ends, uint64_t cookie);
/* The COMPLETION or REPLY goes to ripc_receive_end() if it is awaited, else to ripc_receive(). */
void ripc__end_report(struct ripc_service *service, struct message *message, bool is_awaited);
/* Has the send or call with this cookie ended? NULL: no. The end stays where it is. */
struct message *ripc__ends_find(const struct ends *ends, uint64_t cookie);
/* Takes an end that was found: it is the application's. */
void ripc__ends_take(struct ripc_service *service, struct message *message);
/* The service ends: the ends go to its queue, with which they are freed. */
void ripc__ends_close(struct ripc_service *service);

#endif
