/* SPDX-License-Identifier: BSD-3-Clause */
/* What is remembered of the numbers of long messages that we receive: delivered, refused, why. */
#include <errno.h>
#include <stdlib.h>

#include "core/partner/partner.h"
#include "incoming.h"
#include "numbers.h"
#include "order.h"
#include "util/list.h"

void ripc__number_delivered(struct partner *partner, uint64_t number)
{
	partner->in_delivered |= 1ull << (number - partner->in_oldest);
}

void ripc__number_refused(struct partner *partner, uint64_t number, int status)
{
	if (!partner->reasons)
		partner->reasons = calloc(1, LONGS_MAX);
	if (partner->reasons)
		partner->reasons[number % LONGS_MAX] = (uint8_t)-status;
	partner->in_refused |= 1ull << (number - partner->in_oldest);
	ripc__order_refused(partner, number, status);
}

int ripc__number_refusal(const struct partner *partner, uint64_t number)
{
	int reason = partner->reasons ? partner->reasons[number % LONGS_MAX] : 0;

	return reason ? -reason : -ENOBUFS; /* 0: there was no memory to note it */
}

void ripc__numbers_advance(struct partner *partner, uint64_t oldest)
{
	uint64_t ahead = oldest - partner->in_oldest;

	if (oldest <= partner->in_oldest)
		return;
	list_for_each_safe(node, &partner->incoming) {
		struct incoming *incoming = list_entry(node, struct incoming, node);

		if (incoming->number < oldest || ripc__order_is_broken(incoming, oldest))
			ripc__incoming_forget(incoming);
	}
	partner->in_delivered = ahead < 64 ? partner->in_delivered >> ahead : 0;
	partner->in_refused = ahead < 64 ? partner->in_refused >> ahead : 0;
	partner->in_oldest = oldest;
}
