/* SPDX-License-Identifier: BSD-3-Clause */
/* What a context with keys says beside its packets: handshakes, and sentences for people. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/base.h"
#include "core/objects.h"
#include "handshake.h"
#include "member.h"
#include "ripc/ripc.h"
#include "sealed.h"
#include "util/hex.h"
#include "util/system/cancel.h"

int ripc__sealed_throw(struct sealed_net *net, const struct ripc__addr *to, const uint8_t *bytes,
		uint32_t len)
{
	RIPC__HOLD_CANCEL;
	_Alignas(16) char route[256] = {0};
	const struct iovec iov = {(void *)bytes, len};
	const struct ripc__tx tx = {&iov, 1, len};
	int rc = net->inner->route_size > sizeof(route) ? -ENOBUFS :
		net->inner->route.open(net->inner_port, route, to);

	if (rc && rc != -EINPROGRESS)
		return rc;
	/* While the way is looked for the backend may keep this one. */
	rc = net->inner->datagrams.send(net->inner_port, route, &tx, 1);
	net->seal->ctx->stats.datagrams_sent += rc == 1;
	net->inner->route.close(net->inner_port, route);
	return rc < 0 ? rc : 0;
}

void ripc__sealed_confirm(struct sealed_net *net, struct member *member,
		const struct ripc__addr *to)
{
	uint8_t bytes[SEALED_EXTRA];

	if (ripc__session_seal(&net->seal->ciphers, member->current, NULL, 0, bytes) == 0)
		(void)ripc__sealed_throw(net, to, bytes, sizeof(bytes));
}

void ripc__seal_say(struct sealed_net *net, const struct ripc__addr *from, const char *text)
{
	char at[64] = "somebody";

	if (!ripc__bucket_take(&net->seal->ctx->words, net->seal->ctx->now_us))
		return;
	if (from)
		net->inner->route.text(from, at);
	ripc__log(net->seal->ctx, RIPC_LOG_WARN, "keys: %s %s", at, text);
}

static void host_text(const uint8_t host[16], char text[40])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	if (memcmp(host, mapped, sizeof(mapped)) == 0) {
		snprintf(text, 40, "%u.%u.%u.%u", host[12], host[13], host[14], host[15]);
		return;
	}
	for (int i = 0; i < 8; i++) {
		ripc__hex_write(text + 5 * i, host + 2 * i, 2);
		text[5 * i + 4] = i < 7 ? ':' : 0;
	}
}

void ripc__sealed_stranger(struct ripc_context *ctx, uint64_t id, const uint8_t host[16], bool asks)
{
	char at[40];

	if (!ripc__bucket_take(&ctx->words, ctx->now_us))
		return;
	host_text(host, at);
	if (asks)
		ripc__log(ctx, RIPC_LOG_WARN, "keys: a program %s at %s queried service %#llx: "
			"refused, because this program has %s: give both the same keys (RIPC_KEYS)",
			ctx->seal ? "without keys, or with other keys," : "with keys", at,
			(unsigned long long)id, ctx->seal ? "keys" : "none");
	else
		ripc__log(ctx, RIPC_LOG_WARN, "keys: service %#llx at %s %s: not used; give both "
			"programs the same keys (RIPC_KEYS)", (unsigned long long)id, at,
			ctx->seal ? "has no keys, or other keys" :
			"has keys, and this program has none");
}
