/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening services, one or many. To ask whether somebody else has an ID takes some 60 ms of
 * waiting, so many are asked about at once, as many as the network bears.
 */
#include <errno.h>
#include <string.h>

#include "core/engine/wait.h"
#include "core/wire/record.h"
#include "service.h"
#include "util/system/cancel.h"

#define AT_ONCE     1024u     /* 20 ms apart, each asks with 1,100 bytes: 56 MB/s at most */
#define PATIENCE_US 10000000u

/* Services of which some are still being registered; NULL: could not begin. */
struct opening {
	struct ripc_service **services;
	size_t n, settled; /* begun; the first so many have an answer */
	size_t wanted;     /* so many are to be settled */
};

static bool are_settled(void *arg)
{
	struct opening *opening = arg;

	while (opening->settled < opening->n) {
		const struct ripc_service *service = opening->services[opening->settled];

		if (service && service->publishing)
			break;
		opening->settled++;
	}
	return opening->settled >= opening->wanted;
}

/* Begins all of them, at most AT_ONCE at once, and waits for their ends. Returns the last error. */
static int begin_all(struct ripc_context *ctx, const uint64_t *ids, size_t n,
		struct ripc_service **services)
{
	struct opening opening = {.services = services};
	int error = 0;

	while (opening.n < n) {
		int failed = ripc__service_start(ctx, ids[opening.n], &services[opening.n]);

		error = failed ? failed : error;
		opening.n++;
		opening.wanted = opening.n == n ? n :
			opening.n > AT_ONCE ? opening.n - AT_ONCE : 0;
		ripc__wait(ctx, are_settled, &opening, ctx->now_us + PATIENCE_US);
	}
	return error;
}

/* Returns how many were registered, or, if none was, the last error. */
static int open_all(struct ripc_context *ctx, const uint64_t *ids, size_t n,
		struct ripc_service **services)
{
	int opened = 0, error = begin_all(ctx, ids, n, services);

	for (size_t i = 0; i < n; i++) {
		int failed = services[i] ? ripc__service_finish(services[i]) : -ENOENT;

		if (failed && services[i])
			error = failed;
		if (failed)
			services[i] = NULL;
		else
			opened++;
	}
	return opened ? opened : error;
}

int ripc_service_open(struct ripc_context *ctx, uint64_t id, uint32_t flags,
		struct ripc_service **svc)
{
	RIPC__HOLD_CANCEL;
	struct ripc_service *service = NULL;
	int n;

	if (!ctx || !svc || flags || wire_is_group(id))
		return -EINVAL;
	n = ripc__enter(ctx);
	if (n)
		return n;
	n = open_all(ctx, &id, 1, &service);
	ripc__leave(ctx);
	if (n < 0)
		return n;
	*svc = service;
	return 0;
}

int ripc_services_open(struct ripc_context *ctx, const uint64_t *ids, size_t n, uint32_t flags,
		struct ripc_service **svcs)
{
	RIPC__HOLD_CANCEL;
	int n_opened;

	if (!ctx || !ids || !svcs || !n || n > INT32_MAX || flags)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (wire_is_group(ids[i]))
			return -EINVAL;
	}
	memset(svcs, 0, n * sizeof(struct ripc_service *));
	n_opened = ripc__enter(ctx);
	if (n_opened)
		return n_opened;
	n_opened = open_all(ctx, ids, n, svcs);
	ripc__leave(ctx);
	return n_opened;
}
