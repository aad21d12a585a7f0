/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page that shows a context to other processes of its user (ripc/page.h). The page is made when
 * it is first requested. Then shared memory takes the place of the memory page that has the
 * context's counters: so counting costs the same before and after. Services and partners are
 * written at each request, and at no other time.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/keys/sealed.h"
#include "core/memory/pool.h"
#include "core/message/message.h"
#include "core/net/backend.h"
#include "core/objects.h"
#include "core/partner/partner.h"
#include "core/peer/devices.h"
#include "core/peer/peer.h"
#include "core/resolve/resolver.h"
#include "ripc/page.h"
#include "ripc/stats.h"
#include "show.h"
#include "util/list.h"
#include "util/system/cancel.h"
#include "util/system/mapping.h"

/* ---- tables ------------------------------------------------------------------------------ */

/* The services, their groups, and the partners of a context, in the format of the page. */

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

/* Writes the groups that a service has joined. All are counted, also those without room. */
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
	const struct device *device = &ctx->peers.devices[peer->device];
	struct ripc__where where;

	to->context = peer->context;
	to->held_bytes = peer->quota[SHARE_SMALL] +
		(((uint64_t)peer->quota[SHARE_LARGE] + peer->quota[SHARE_REPLIES]) << 10);
	to->rtt_us = peer->srtt_us;
	to->rtt_deviation_us = peer->rttvar_us;
	to->rtt_least_us = peer->rtt_min_us;
	to->window_bytes = peer->window;
	to->in_flight_bytes = peer->in_flight;
	to->loss_1024 = peer->loss;
	strncpy(to->network, device->ops->name, sizeof(to->network) - 1);
	if (!device->ops->route.where)
		return;
	where = ripc__peer_where(ctx, peer);
	ripc__addr_text(ctx, device, &where.addr, to->address);
}

/* The number of received long messages: all before the oldest open one, and some later ones. */
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

/* Writes the services, their groups, and the partners. */
static void tables_write(struct ripc_context *ctx, struct ripc_page *page)
{
	uint32_t n = 0;

	page->n_members = page->all_members = 0;
	list_for_each(at, &ctx->services.all) {
		const struct ripc_service *service = list_entry(at, struct ripc_service, node);

		if (n == RIPC_PAGE_SERVICES)
			break;
		service_write(service, &page->services[n++]);
		members_write(service, page);
	}
	page->n_services = n;
	page->all_services = (uint32_t)ctx->stats.services;
	page->n_partners = 0;
	for_each_partner_backwards(partner, ctx) {
		if (page->n_partners == RIPC_PAGE_PARTNERS)
			break;
		partner_write(partner, &page->partners[page->n_partners++]);
	}
	page->all_partners = (uint32_t)ctx->stats.partners;
}

/* ---- stats ------------------------------------------------------------------------------- */

/* The counters of a context, including those of parts with counters of their own. */

void ripc__stats_gather(struct ripc_context *ctx, struct ripc_stats *stats)
{
	struct ripc__resolver_stats resolver;
	struct ripc__pool_stats pool;

	for (uint32_t i = 0; i < ctx->peers.n_devices; i++) {
		struct ripc__net_stats net = {0};

		if (ctx->peers.devices[i].ops->net.stats)
			ctx->peers.devices[i].ops->net.stats(ctx->peers.devices[i].port, &net);
		ctx->stats.drop_receive_buffer += net.overflows;
		ctx->stats.offload_fallbacks += net.fallbacks;
	}
	*stats = ctx->stats;
	ripc__pool_stats(ctx->pool, &pool);
	stats->pool_bytes = pool.taken;
	stats->pool_limit_bytes = pool.limit;
	stats->pool_used_bytes = pool.used -
		((uint64_t)ctx->messages.n_spares + (ctx->messages.freed != NULL)) * SPARE_BYTES;
	stats->partner_bytes = ripc__partners_bytes(ctx);
	stats->granted_bytes = ctx->peers.quota[SHARE_CREDIT];
	ripc__resolver_stats(ctx->resolver, &resolver);
	stats->queries_sent = resolver.queries_sent;
	stats->queries_answered = resolver.queries_answered;
	stats->responses_received = resolver.responses_received;
	stats->resolver_dropped = resolver.dropped;
}

/* ---- page -------------------------------------------------------------------------------- */

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static size_t unit_len(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

struct ripc_context *ripc__page_alloc(void)
{
	size_t before = offsetof(struct ripc_context, stats), page = unit_len();
	size_t at = (before + page - 1) / page * page;
	struct ripc_context *ctx;
	void *block;

	_Static_assert(sizeof(struct ripc_stats) <= 4096, "in one page");
	if (posix_memalign(&block, page, at + page))
		return NULL;
	memset(block, 0, at + page);
	ctx = (struct ripc_context *)((char *)block + at - before);
	ctx->self.block = block;
	ctx->stats.size = sizeof(ctx->stats);
	return ctx;
}

static size_t tables_len(void)
{
	return (sizeof(struct ripc_page) + unit_len() - 1) / unit_len() * unit_len();
}

/* Moves the counters to the memory of fd, or (-1) to private memory. */
static int counters_move(struct ripc_context *ctx, int fd)
{
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	return mmap(&ctx->stats, unit_len(), PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED ?
		-errno : 0;
}

/* Writes the counters to a file with room for the page. */
static int memory_fill(struct ripc_context *ctx, int fd)
{
	/* The file must have no holes: one without memory would later end the process. */
	int error = ripc__memfd_size(fd, unit_len() + tables_len(), true);

	if (error)
		return error;
	return pwrite(fd, &ctx->stats, sizeof(ctx->stats), 0) == sizeof(ctx->stats) ? 0 : -EIO;
}

static int page_map(struct ripc_context *ctx, int fd)
{
	int seals = F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	void *at;
	int error;

	at = mmap(NULL, tables_len(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		(off_t)unit_len());
	if (at == MAP_FAILED)
		return -errno;
	error = counters_move(ctx, fd);
	if (error) {
		munmap(at, tables_len());
		return error;
	}
	ctx->self.page = at;
	ctx->self.page_fd = fd;
	/* Our own mappings stay writable. */
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

static int page_make(struct ripc_context *ctx)
{
	int fd = ripc__memfd(), error;

	if (fd < 0)
		return fd;
	error = memory_fill(ctx, fd);
	error = error ? error : page_map(ctx, fd);
	if (error && ctx->self.page)
		ripc__page_close(ctx);
	else if (error)
		close(fd);
	return error;
}

/* A reader discards its copy if the sequence was odd, or has changed meanwhile. */
static void page_write(struct ripc_context *ctx)
{
	struct ripc_page *page = ctx->self.page;

	__atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	page->magic = RIPC_PAGE_MAGIC;
	page->version = RIPC_PAGE_VERSION;
	page->word = sizeof(size_t);
	page->context = ctx->incarnation;
	page->written++;
	ripc__stats_gather(ctx, &page->stats);
	page->stats.size = sizeof(page->stats);
	tables_write(ctx, page);
	__atomic_store_n(&page->sequence, page->sequence + 1, __ATOMIC_RELEASE);
}

int ripc__page_show(void *arg)
{
	RIPC__HOLD_CANCEL;
	struct ripc_context *ctx = arg;
	int error = ctx->self.page ? 0 : page_make(ctx);

	if (error)
		return error;
	page_write(ctx);
	return ctx->self.page_fd;
}

void ripc__page_close(struct ripc_context *ctx)
{
	RIPC__HOLD_CANCEL;
	struct ripc_stats stats = ctx->stats;

	if (!ctx->self.page)
		return;
	if (counters_move(ctx, -1))
		ctx->self.block = NULL; /* part of the block is still the page: never freed */
	else
		ctx->stats = stats;
	munmap(ctx->self.page, tables_len());
	close(ctx->self.page_fd);
	ctx->self.page = NULL;
}
