/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What RIPC_EV_PEER tells, until it is polled: how a route.open that returned -EINPROGRESS has
 * ended, and that a route takes again what it did not take before. The former are known by number,
 * as core may move a route's memory meanwhile.
 */
#include <stdlib.h>

#include "rdma.h"
#include "util/rare.h"

struct ripc__rdma_opening *ripc__rdma_opening_new(uint32_t *last, void *peer,
		const struct ripc__addr *addr)
{
	struct ripc__rdma_opening *opening = calloc(1, sizeof(*opening));

	if (!opening)
		return NULL;
	opening->from = *addr;
	opening->event = (struct ripc__event){.kind = RIPC_EV_PEER, .peer = peer};
	*last += *last + 1 ? 1 : 2; /* never 0 */
	opening->number = *last;
	list_init(&opening->node);
	return opening;
}

void ripc__rdma_opening_end(struct ripc__rdma_opening *opening, int status, struct list *ended)
{
	list_remove(&opening->node);
	opening->event.status = status;
	list_append(ended, &opening->node);
}

void ripc__rdma_openings_end(struct list *waiting, int status, struct list *ended)
{
	while (!list_empty(waiting))
		ripc__rdma_opening_end(list_entry(waiting->next, struct ripc__rdma_opening, node),
			status, ended);
}

void ripc__rdma_opening_forget(struct list *list, uint32_t number)
{
	list_for_each_safe(node, list) {
		struct ripc__rdma_opening *opening = list_entry(node, struct ripc__rdma_opening,
			node);

		if (opening->number != number)
			continue;
		list_remove(&opening->node);
		free(opening);
	}
}

void ripc__rdma_openings_free(struct list *list)
{
	while (!list_empty(list))
		free(list_entry(list_pop(list), struct ripc__rdma_opening, node));
}

RIPC__RARE uint32_t ripc__rdma_openings_take(struct list *ended, struct ripc__addr *from,
		struct ripc__event *events, uint32_t at, uint32_t n)
{
	while (at < n && !list_empty(ended)) {
		struct ripc__rdma_opening *opening = list_entry(list_pop(ended),
			struct ripc__rdma_opening, node);

		from[at] = opening->from;
		events[at] = opening->event;
		events[at].from = &from[at];
		free(opening);
		at++;
	}
	return at;
}
