/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks that end with an exception, which the rule in ripc.h forbids: the context works on.
 * exception.py compiles and runs it.
 */
#include <cstdio>
#include <ripc/keys.h>
#include <ripc/list.h>

static int failed;

static void check(const char *what, bool holds)
{
	failed |= !holds;
	if (!holds)
		std::fprintf(stderr, "exception: %s\n", what);
}

struct thrown {};

static int throw_listing(void *, const ripc_listing *)
{
	throw thrown();
}

static int throw_finding(void *, const ripc_finding *)
{
	throw thrown();
}

static int pass(void *, const ripc_listing *)
{
	return 0;
}

template <typename Call> static bool throws(Call call)
{
	try {
		call();
	} catch (const thrown &) {
		return true;
	}
	return false;
}

int main()
{
	ripc_config cfg = RIPC_INIT(ripc_config);
	ripc_context *ctx;
	ripc_service *svc;

	cfg.backends = "udp";
	cfg.interfaces = "lo";
	if (ripc_open(&cfg, &ctx) || ripc_service_open(ctx, 0, 0, &svc))
		return 1;
	for (int i = 0; i < 3; i++)
		check("ripc_list() throws", throws([&] {
			ripc_list(ctx, 20000, throw_listing, nullptr);
		}));
	check("ripc_list() after it", ripc_list(ctx, 200, pass, nullptr) >= 1);
	check("ripc_probe() throws", throws([] { ripc_probe(nullptr, throw_finding, nullptr); }));
	check("ripc_list() throws at last", throws([&] {
		ripc_list(ctx, 20000, throw_listing, nullptr);
	}));
	check("ripc_close()", ripc_close(ctx, 1000) == 0);
	return failed;
}
