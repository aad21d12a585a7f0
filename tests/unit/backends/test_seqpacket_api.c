/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of all sizes between two contexts by the seqpacket backend, with core above it. */
#include <string.h>

#include "core/net/env.h"
#include "seqpacket/seqpacket.h"
#include "suite.h"

#define LEN (3u << 20)

static uint8_t bytes[LEN];

static void pump(struct ripc_context *const ctx[2])
{
	ripc_poll(ctx[0]);
	ripc_poll(ctx[1]);
}

static void open_both(struct ripc__env *env, struct ripc_context *ctx[2],
		struct ripc_service *svc[2])
{
	static const struct ripc__backend *const backends[] = {&seqpacket_backend, NULL};
	struct ripc_config cfg = {.size = sizeof(cfg), .flags = RIPC_SINGLE_THREAD};

	ripc__env_init(env);
	env->backends = backends;
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(ripc__open_in(&cfg, env, &ctx[i]), 0);
		ck_assert_int_eq(ripc_service_open(ctx[i], 0, 0, &svc[i]), 0);
	}
}

START_TEST(seqpacket__carries_all_sizes)
{
	static const size_t lens[] = {0, 50, 8000, 100000, LEN};
	struct ripc_path path = {.size = sizeof(path)};
	struct ripc_context *ctx[2];
	struct ripc_service *svc[2];
	struct ripc__env env;
	struct ripc_msg *msg;

	open_both(&env, ctx, svc);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct iovec item = {bytes, lens[i]};
		struct ripc_send send = {.size = sizeof(send), .n_items = 1, .items = &item,
			.to = ripc_service_id(svc[1]), .flags = RIPC_SEND_LONG | RIPC_NOWAIT,
			.timeout_ms = 60000};

		memset(bytes, (int)i + 1, lens[i]);
		ck_assert_int_eq(ripc_sendmsg(svc[0], &send, NULL), 0);
		while (ripc_receive(svc[1], 0, &msg))
			pump(ctx);
		ck_assert_uint_eq(msg->items[0].iov_len, lens[i]);
		ck_assert_int_eq(memcmp(msg->items[0].iov_base, bytes, lens[i]), 0);
		ripc_msg_free(msg);
		while (ripc_receive(svc[0], 0, &msg))
			pump(ctx);
		ck_assert_int_eq(msg->outcome, RIPC_DELIVERED);
		ripc_msg_free(msg);
	}
	ck_assert_int_eq(ripc_path_info(svc[0], ripc_service_id(svc[1]), &path), 0);
	ck_assert_str_eq(path.backend, "seqpacket");
	ck_assert_str_eq(path.bulk, "pull");
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ripc_close(ctx[i], 0), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {seqpacket__carries_all_sizes, NULL};

	return suite_run("seqpacket_api", tests);
}
