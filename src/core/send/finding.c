/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whom a long message goes to. That nobody had an ID a moment ago is remembered for short messages,
 * which cannot wait; a long one has the ID asked for again.
 */
#include <errno.h>

#include "core/objects.h"
#include "core/partner/find.h"
#include "core/partner/partner.h"
#include "core/resolve/resolver.h"
#include "finding.h"

int ripc__find_for_long(struct ripc_service *service, uint64_t id, struct partner **partner)
{
	int error = ripc__partner_for_call(service, id, partner);

	if (error != -ENOENT)
		return error;
	ripc__resolver_claimed(service->ctx->resolver, id);
	return ripc__partner_for_call(service, id, partner);
}

int ripc__find_again(struct ripc_service *service, uint64_t id, struct partner **partner)
{
	ripc__resolver_claimed(service->ctx->resolver, id);
	return ripc__partner_for_send(service, id, partner);
}

void ripc__find_until(const struct partner *partner, uint64_t until_us)
{
	if (!partner->peer)
		ripc__resolver_wanted(partner->service->ctx->resolver, partner->id, until_us);
}
