/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: joining and leaving, and short messages to all members.
 *
 * A message to a group is a separate message to each member: to one incarnation, by its own route,
 * with that partner's token and number. Therefore each rule for a partner holds for each member,
 * and the group adds none. Only shorts to many members on one segment are multicast
 * (mcast_out.c). The resolver finds the members (resolve/gather.c).
 *
 * A short that is sent while the resolver still searches is sent to the known members at once. A
 * copy is kept for members that are found until the search is complete.
 */
#include "group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/keys/sealed.h"
#include "core/message/message.h"
#include "core/objects.h"
#include "core/resolve/resolver.h"
#include "core/send/short.h"
#include "mcast_in.h"
#include "ripc/ripc.h"
#include "mcast_out.h"
#include "util/list.h"
#include "util/map.h"

#define KEPT_MAX 256u /* shorts of a context */

/* A short that is also sent to members that are found later. */
struct kept {
	struct list node; /* ctx->groups.kept */
	struct ripc_service *service;
	uint64_t group;
	uint64_t *told;         /* incarnations of the members that were known, sorted */
	uint32_t n_told, n_items;
	uint32_t number;        /* in the stream, if the short was multicast; else 0 */
	struct iovec items[];
};

/* ---- joining ----------------------------------------------------------------------------- */

int ripc__group_join(struct ripc_service *service, uint64_t group)
{
	struct ripc_context *ctx = service->ctx;
	const struct ripc__member self = {service->id, service->incarnation};
	int error;

	if (service->draining || service->closing)
		return -ESHUTDOWN;
	if (ctx->seal && !ripc__sealed_may_be(ctx->seal, group))
		return -EACCES;
	error = ripc__map_put(&service->groups, group, service);
	if (error)
		return error == -EEXIST ? -EALREADY : error;
	error = ripc__resolver_join(ctx->resolver, group, &self, ctx->now_us);
	if (error)
		ripc__map_remove(&service->groups, group);
	return error;
}

int ripc__group_leave(struct ripc_service *service, uint64_t group)
{
	if (!ripc__map_remove(&service->groups, group))
		return -ENOENT;
	ripc__resolver_leave(service->ctx->resolver, group, service->incarnation);
	ripc__mcast_in_leave(service, group);
	return 0;
}

void ripc__groups_leave(struct ripc_service *service)
{
	while (service->groups.count) {
		uint32_t at = 0;

		/* Find the first used entry: the key is the group. */
		while (!service->groups.entries[at].value)
			at++;
		ripc__group_leave(service, service->groups.entries[at].key);
	}
}

/* ---- members ----------------------------------------------------------------------------- */

int ripc__group_members(struct ripc_service *service, uint64_t group,
		struct gathering **gathering, uint32_t *n)
{
	struct ripc_context *ctx = service->ctx;
	int status = ripc__resolver_gather(ctx->resolver, group, ctx->now_us, gathering);

	*n = 0;
	if (status == -ENOMEM)
		return status;
	for (uint32_t i = 0; i < ripc__gathering_places(*gathering); i++) {
		const struct ripc__member *member = ripc__gathering_at(*gathering, i);

		*n += member && member->incarnation != service->incarnation;
	}
	return status;
}

/* ---- shorts ------------------------------------------------------------------------------ */

static void kept_free(struct ripc_context *ctx, struct kept *kept)
{
	ctx->groups.n_kept--;
	list_remove(&kept->node);
	free(kept->told);
	free(kept);
}

void ripc__kept_drop(struct ripc_context *ctx, const struct ripc_service *service)
{
	list_for_each_safe(node, &ctx->groups.kept) {
		struct kept *kept = list_entry(node, struct kept, node);

		if (!service || kept->service == service)
			kept_free(ctx, kept);
	}
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* Records the members that are known. */
static int told_note(struct kept *kept, const struct gathering *gathering)
{
	uint32_t n = ripc__gathering_places(gathering);

	kept->told = calloc(n ? n : 1, sizeof(*kept->told));
	if (!kept->told)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		if (member)
			kept->told[kept->n_told++] = member->incarnation;
	}
	qsort(kept->told, kept->n_told, sizeof(*kept->told), compare);
	return 0;
}

/* Has the member got the short? A member that was thought gone and found again gets it once. */
static bool was_told(const struct kept *kept, uint64_t incarnation)
{
	return kept && bsearch(&incarnation, kept->told, kept->n_told, sizeof(*kept->told),
		compare);
}

/* Keeps a copy for members that are found later. */
static int keep(struct ripc_service *service, const struct ripc_send *request, uint64_t total,
		const struct gathering *gathering, struct kept **kept_out)
{
	struct ripc_context *ctx = service->ctx;
	struct kept *kept;
	char *at;

	if (ctx->groups.n_kept >= KEPT_MAX)
		return -EAGAIN;
	kept = malloc(sizeof(*kept) + request->n_items * sizeof(struct iovec) + total);
	if (!kept)
		return -ENOMEM;
	*kept = (struct kept){.service = service, .group = request->to,
		.n_items = request->n_items};
	if (told_note(kept, gathering)) {
		free(kept);
		return -ENOMEM;
	}
	at = (char *)&kept->items[kept->n_items];
	for (uint32_t i = 0; i < kept->n_items; i++) {
		kept->items[i] = (struct iovec){at, request->items[i].iov_len};
		if (kept->items[i].iov_len)
			memcpy(at, request->items[i].iov_base, kept->items[i].iov_len);
		at += kept->items[i].iov_len;
	}
	list_append(&ctx->groups.kept, &kept->node);
	ctx->groups.n_kept++;
	*kept_out = kept;
	return 0;
}

/* The receivers: all members, or (kept) those that were not known before. NULL: no memory. */
static struct ripc__member *receivers(const struct ripc_service *service,
		const struct gathering *gathering, const struct kept *kept, uint32_t *n)
{
	uint32_t n_places = ripc__gathering_places(gathering);
	struct ripc__member *list = calloc(n_places ? n_places : 1, sizeof(*list));

	*n = 0;
	for (uint32_t i = 0; list && i < n_places; i++) {
		const struct ripc__member *member = ripc__gathering_at(gathering, i);

		if (member && member->incarnation != service->incarnation &&
				!was_told(kept, member->incarnation))
			list[(*n)++] = *member;
	}
	return list;
}

/* Multicasts the short to members that hear the stream, if that pays. Returns their number. */
static uint32_t send_to_many(struct ripc_service *service, const struct ripc_send *request,
		struct mcast_out *out, struct ripc__member *list, uint32_t *n)
{
	struct ripc_stats *stats = &service->ctx->stats;
	uint32_t n_left = 0, n_all = *n, len;

	if (!out || !ripc__mcast_out_send(out, service, request, &len))
		return 0;
	for (uint32_t i = 0; i < n_all; i++) {
		if (!ripc__mcast_out_reaches(out, list[i].incarnation))
			list[n_left++] = list[i];
	}
	*n = n_left;
	stats->short_sent += n_all - n_left;
	stats->short_sent_bytes += (uint64_t)len * (n_all - n_left);
	return n_all - n_left;
}

/*
 * Sends a copy to each member. Returns the number of members that it was sent to; *error is the
 * error of another one. number: in the stream; 0: the short was not multicast.
 */
static uint32_t send_copies(struct ripc_service *service, const struct ripc_send *request,
		const struct ripc__member *list, uint32_t n, uint32_t number, int *error)
{
	struct ripc_send single = *request;
	uint32_t n_sent = 0;

	for (uint32_t i = 0; i < n; i++) {
		int failed;

		single.to = list[i].id;
		single.to_incarnation = list[i].incarnation;
		failed = ripc__short_to_member(service, &single, request->to, number);
		n_sent += !failed;
		*error = failed == -EINPROGRESS ? -EAGAIN : failed ? failed : *error;
		if (failed == -ENOENT)
			ripc__resolver_expel(service->ctx->resolver, request->to,
				list[i].incarnation);
	}
	return n_sent;
}

/*
 * Sends to all members. kept: for members that are found later; or NULL. Returns as send_copies().
 * The list is a copy, because sending to a member can end other messages, and thereby expel any
 * member.
 */
static uint32_t send_all(struct ripc_service *service, const struct ripc_send *request,
		const struct gathering *gathering, struct kept *kept, int *error)
{
	uint32_t n, n_sent, number;
	struct ripc__member *list = receivers(service, gathering, NULL, &n);
	struct mcast_out *out = list ? ripc__mcast_out_for(service, request->to, list, n) : NULL;

	*error = list ? *error : -ENOMEM;
	n_sent = send_to_many(service, request, out, list, &n);
	number = out ? ripc__mcast_out_number(out) : 0;
	if (kept)
		kept->number = number;
	n_sent += send_copies(service, request, list, n, number, error);
	free(list);
	return n_sent;
}

/* Sends a kept short to members that were found since. */
static void send_kept(const struct kept *kept, const struct gathering *gathering)
{
	const struct ripc_send request = {.to = kept->group, .items = kept->items,
		.n_items = kept->n_items};
	struct ripc__member *list;
	uint32_t n;
	int error;

	list = receivers(kept->service, gathering, kept, &n);
	send_copies(kept->service, &request, list, list ? n : 0, kept->number, &error);
	free(list);
}

int ripc__group_short(struct ripc_service *service, const struct ripc_send *request)
{
	struct ripc_context *ctx = service->ctx;
	struct gathering *gathering;
	int failed = -ENOENT, status;
	uint64_t total;
	struct kept *kept = NULL;
	uint32_t n;
	int error = ripc__sum_items(request->items, request->n_items, &total);

	if (!error && request->flags & RIPC_GIVE)
		error = ripc__buffers_check(ctx, request->items, request->n_items);
	if (!error && total > RIPC_SHORT_MIN)
		error = -EMSGSIZE;
	if (error)
		return error;
	status = ripc__group_members(service, request->to, &gathering, &n);
	if (status == -ENOMEM)
		return status;
	if (status == -EINPROGRESS)
		failed = keep(service, request, total, gathering, &kept);
	if (send_all(service, request, gathering, kept, &failed) || kept)
		failed = 0;
	if (!failed && request->flags & RIPC_GIVE)
		ripc__buffers_free(ctx, request->items, request->n_items);
	return failed;
}

void ripc__group_gathered(struct ripc_context *ctx, uint64_t group)
{
	list_for_each_safe(node, &ctx->groups.kept) {
		struct kept *kept = list_entry(node, struct kept, node);
		struct gathering *gathering;

		if (kept->group != group)
			continue;
		if (ripc__resolver_gather(ctx->resolver, group, ctx->now_us, &gathering) !=
				-ENOMEM)
			send_kept(kept, gathering);
		kept_free(ctx, kept);
	}
}
