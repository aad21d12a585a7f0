/* SPDX-License-Identifier: BSD-3-Clause */
/* The services, their groups, and the partners of a context, as its page has them. */
#include <string.h>

#include "core/keys/sealed.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/peer.h"
#include "ripc/page.h"
#include "show.h"
#include "util/list.h"

void ripc__addr_text(const struct ripc_context *ctx, const struct device *device,
		const struct ripc__addr *addr, char text[64])
{
	if (ctx->seal)
		ripc__sealed_text(device->port, addr, text);
	else
		device->ops->route.text(addr, text);
}

static void service_write(const struct ripc_service *service, struct ripc_page_service *to)
{
	*to = (struct ripc_page_service){
		.id = service->id,
		.incarnation = service->incarnation,
		.queued = service->queued,
		.incoming = service->n_incoming,
		.partners = service->partners.count,
		.calls = service->n_calls,
		.waiting = service->n_takers,
		.flags = service->draining ? RIPC_PAGE_DRAINING : 0,
	};
}

/* The groups that a service has joined; what finds no room is counted. */
static void members_write(const struct ripc_service *service, struct ripc_page *page)
{
	const struct ripc__map *groups = &service->groups;

	page->all_members += groups->count;
	for (uint32_t i = 0; groups->count && i < groups->capacity; i++) {
		if (groups->entries[i].value && page->n_members < RIPC_PAGE_MEMBERS)
			page->members[page->n_members++] = (struct ripc_page_member){
				.service = service->id, .group = groups->entries[i].key};
	}
}

static void path_write(const struct ripc_context *ctx, const struct peer *peer,
		struct ripc_page_partner *to)
{
	const struct device *device = &ctx->devices[peer->device];
	struct ripc__where where = {0};

	to->context = peer->context;
	to->held_bytes = peer->held[SHARE_SMALL] +
		(((uint64_t)peer->held[SHARE_LARGE] + peer->held[SHARE_REPLIES]) << 10);
	to->rtt_us = peer->srtt_us;
	to->rtt_deviation_us = peer->rttvar_us;
	to->rtt_least_us = peer->rtt_min_us;
	to->window_bytes = peer->window;
	to->in_flight_bytes = peer->in_flight;
	to->loss_1024 = peer->loss;
	strncpy(to->network, device->ops->name, sizeof(to->network) - 1);
	if (!device->ops->route.where)
		return;
	device->ops->route.where(device->port, peer->route, &where);
	ripc__addr_text(ctx, device, &where.addr, to->address);
}

/* The number of the last long message up to which all have ended, and those delivered beyond. */
static uint64_t longs_in(const struct longs *longs)
{
	return longs->in_oldest - 1 + (uint64_t)__builtin_popcountll(longs->in_delivered);
}

static void partner_write(const struct partner *partner, struct ripc_page_partner *to)
{
	const struct longs *replies = partner->replies;
	const struct ripc_context *ctx = partner->service->ctx;

	*to = (struct ripc_page_partner){
		.service = partner->service->id,
		.id = partner->id,
		.incarnation = partner->incarnation,
		.shorts_out = partner->short_next - 1,
		.longs_out = partner->longs.next - 1 +
			(replies ? replies->next - WIRE_REPLIES - 1 : 0),
		.shorts_in = partner->shorts_in.top,
		.longs_in = longs_in(&partner->longs) +
			(replies ? longs_in(replies) - WIRE_REPLIES : 0),
		.outgoing = (uint32_t)partner->n_outgoing + partner->n_replies,
		.queued = partner->queued,
		.idle_ms = (uint32_t)((ctx->now_us - partner->used_us) / 1000),
		.flags = (partner->state == PARTNER_READY ? RIPC_PAGE_READY : 0u) |
			(partner->dead ? RIPC_PAGE_DEAD : 0u),
	};
	if (partner->peer)
		path_write(ctx, partner->peer, to);
}

void ripc__tables_write(struct ripc_context *ctx, struct ripc_page *page)
{
	struct list *node = ctx->partners.prev;
	uint32_t n = 0;

	page->n_members = page->all_members = 0;
	list_for_each(at, &ctx->services) {
		const struct ripc_service *service = list_entry(at, struct ripc_service, node);

		if (n == RIPC_PAGE_SERVICES)
			break;
		service_write(service, &page->services[n++]);
		members_write(service, page);
	}
	page->n_services = n;
	page->all_services = (uint32_t)ctx->stats.services;
	for (n = 0; node != &ctx->partners && n < RIPC_PAGE_PARTNERS; node = node->prev)
		partner_write(list_entry(node, struct partner, node), &page->partners[n++]);
	page->n_partners = n;
	page->all_partners = (uint32_t)ctx->stats.partners;
}
