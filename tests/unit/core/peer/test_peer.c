/* SPDX-License-Identifier: BSD-3-Clause */
/* Which addresses count as one host, and that nothing is kept of hosts where nobody is. */
#include <arpa/inet.h>

#include "core/peer/peer.h"
#include "lone.h"

static struct ripc__addr address(const char *text)
{
	struct ripc__addr addr = {.len = 1, .blob = {2}};

	ck_assert_int_eq(inet_pton(AF_INET6, text, addr.host), 1);
	return addr;
}

/* Two contexts, each at its address: are they on one host? */
static bool share(struct ripc_context *ctx, const char *a, const char *b)
{
	struct ripc__addr at[2] = {address(a), address(b)};
	struct peer *peers[2];
	bool shared;

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__peer_get(ctx, ctx->peers.devices, 0xc0 + (uint64_t)i,
			&at[i], &peers[i]), 0);
		ck_assert_ptr_eq(peers[i]->host, ripc__host_find(ctx, &at[i]));
	}
	shared = peers[0]->host == peers[1]->host;
	ck_assert_uint_eq(peers[0]->host->partners, shared ? 2 : 1);
	for (int i = 0; i < 2; i++)
		ripc__peer_put(ctx, peers[i]);
	ck_assert_ptr_null(ripc__host_find(ctx, &at[0]));
	ck_assert_ptr_null(ripc__host_find(ctx, &at[1]));
	return shared;
}

START_TEST(host_find__what_counts_as_one)
{
	static struct lone lone;

	lone_open(&lone);
	ck_assert(share(lone.ctx, "::ffff:10.0.0.1", "::ffff:10.0.0.1"));
	ck_assert(!share(lone.ctx, "::ffff:10.0.0.1", "::ffff:10.0.0.2"));
	ck_assert(share(lone.ctx, "2001:db8:0:7::1", "2001:db8:0:7:8000::2"));
	ck_assert(!share(lone.ctx, "2001:db8:0:7::1", "2001:db8:0:8::1"));
	ck_assert(share(lone.ctx, "fe80::1", "fe80::1"));
	ck_assert(!share(lone.ctx, "fe80::1", "fe80::2"));
	ck_assert(!share(lone.ctx, "::1", "::ffff:127.0.0.1"));
	lone_close_all(&lone);
}
END_TEST

static int refuse_error;

static int refuse(void *port, void *peer, const struct ripc__addr *addr)
{
	(void)port;
	(void)peer;
	(void)addr;
	return refuse_error;
}

/* The network makes no route: that is no lack of memory, and nothing is kept. */
START_TEST(peer_get__no_route)
{
	static const int errors[][2] = {{-ENOMEM, -ENOMEM}, {-ENETDOWN, -ENETDOWN},
		{-EHOSTUNREACH, -EHOSTUNREACH}, {-EADDRINUSE, -EHOSTUNREACH},
		{-ENETUNREACH, -EHOSTUNREACH}};
	struct ripc__backend refusing = lone_backend;
	const struct ripc__backend *const backends[] = {&refusing, NULL};
	struct ripc__addr at = address("::ffff:10.0.0.1");
	struct peer *peer = NULL;
	static struct lone lone;

	refusing.route.open = refuse;
	lone_open_on(&lone, backends);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		refuse_error = errors[i][0];
		ck_assert_int_eq(ripc__peer_get(lone.ctx, lone.ctx->peers.devices, 1, &at, &peer),
			errors[i][1]);
		ck_assert_ptr_null(peer);
		ck_assert_ptr_null(ripc__host_find(lone.ctx, &at));
	}
	lone_close_all(&lone);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {host_find__what_counts_as_one, peer_get__no_route, NULL};

	return suite_run("peer", tests);
}
