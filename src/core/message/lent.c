/* SPDX-License-Identifier: BSD-3-Clause */
/* Return buffers that are lent to partners for their answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/wire/wire.h"
#include "lent.h"
#include "returns.h"
#include "util/list.h"
#include "windows.h"

bool ripc__returns_are_sane(const struct ripc_buffer *returns, uint32_t n)
{
	if (n > RIPC_ITEMS_MAX || (n && !returns))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (!ripc__mem_is_sane(&returns[i].mem) || returns[i].flags)
			return false;
	}
	return true;
}

int ripc__lend(struct ripc_service *service, const struct ripc_send *request, uint64_t *id)
{
	*id = request->n_returns ? ripc__nonce(service->ctx) : 0;
	return *id ? ripc__lend_as(service, request, *id) : 0;
}

int ripc__lend_as(struct ripc_service *service, const struct ripc_send *request, uint64_t id)
{
	size_t size = request->n_returns * sizeof(struct ripc_buffer);
	struct lent *lent;

	if (!ripc__returns_are_sane(request->returns, request->n_returns))
		return -EINVAL;
	lent = malloc(sizeof(*lent) + size);
	if (!lent)
		return -ENOMEM;
	*lent = (struct lent){.id = id, .to = request->to, .cookie = request->cookie,
		.n = request->n_returns};
	memcpy(lent->buffers, request->returns, size);
	list_append(&service->lent, &lent->node);
	return 0;
}

struct lent *ripc__lent_by_id(struct ripc_service *service, uint64_t id)
{
	for (struct list *node = service->lent.prev; node != &service->lent; node = node->prev) {
		struct lent *lent = list_entry(node, struct lent, node);

		if (lent->id == id)
			return lent;
	}
	return NULL;
}

struct lent *ripc__lent_for(const struct partner *partner, const struct wire_packet *packet)
{
	struct lent *lent = packet->replies ?
		ripc__lent_by_id(partner->service, packet->replies) : NULL;

	return lent && lent->to == partner->id && !lent->in_use && !lent->cancelled &&
		lent->of_call == wire_is_answer(packet) ? lent : NULL;
}

void ripc__lent_free(struct lent *lent)
{
	ripc__returns_abandon(lent);
	list_remove(&lent->node);
	free(lent);
}
