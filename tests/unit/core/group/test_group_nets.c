/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to groups by each network (tests/conformance): from own buffers, and given ones. */
#include "../../call_pair.h"
#include "ripc/group.h"

#define MEMBERS 3u
#define ROUNDS  10u

struct crowd {
	struct side sender, members[MEMBERS];
	uint64_t group;
	bool gives;
};

static void crowd_join(struct crowd *crowd, int i)
{
	struct ripc_config cfg = config_of(i, 0);
	char name[32];

	snprintf(name, sizeof(name), "group by nets %d", getpid());
	crowd->group = ripc_group_from_name(name);
	crowd->gives = i % 2;
	caller_open(&crowd->sender, &cfg, 0);
	for (uint32_t k = 0; k < MEMBERS; k++) {
		caller_open(&crowd->members[k], &cfg, 0);
		ck_assert_int_eq(ripc_join(crowd->members[k].svc, crowd->group), 0);
	}
}

static void crowd_leave(struct crowd *crowd)
{
	for (uint32_t k = 0; k < MEMBERS; k++)
		side_close(&crowd->members[k]);
	side_close(&crowd->sender);
}

static void crowd_close(struct crowd *crowd)
{
	for (uint32_t k = 0; k < MEMBERS; k++)
		check_nothing(crowd->members[k].svc);
	crowd_leave(crowd);
}

/* Returns the counts; the bytes are those of filled(len, len). */
static struct ripc_counts send_long_to(const struct crowd *crowd, size_t len)
{
	char *bytes = filled(len, len);
	struct iovec sent = item(bytes, len);
	struct ripc_counts counts = {0};
	struct ripc_send send = {.size = sizeof(send), .to = crowd->group, .items = &sent,
		.n_items = 1, .flags = RIPC_SEND_LONG, .timeout_ms = PATIENCE_MS,
		.counts = &counts};

	if (crowd->gives) {
		ck_assert_int_eq(ripc_buf_alloc(crowd->sender.ctx, len, &sent.iov_base), 0);
		memcpy(sent.iov_base, bytes, len);
		send.flags |= RIPC_GIVE;
	}
	(void)ripc_sendmsg(crowd->sender.svc, &send, NULL);
	free(bytes);
	return counts;
}

static void check_took(const struct crowd *crowd, uint32_t k, size_t len)
{
	struct ripc_msg *msg = take(crowd->members[k].svc, RIPC_LONG);
	char *bytes = filled(len, len);

	ck_assert_uint_eq(msg->group, crowd->group);
	ck_assert_uint_eq(msg->from, crowd->sender.id);
	ck_assert_uint_eq(msg->n_items, 1);
	ck_assert_uint_eq(msg->items[0].iov_len, len);
	ck_assert_int_eq(memcmp(msg->items[0].iov_base, bytes, len), 0);
	ripc_msg_free(msg);
	free(bytes);
}

/* A member that is slow to say who it is, as on a loaded host, is known a little later. */
static void crowd_open(struct crowd *crowd, int i)
{
	uint64_t until_ms = clock_ms() + PATIENCE_MS;
	struct ripc_msg *msg;

	crowd_join(crowd, i);
	while (send_long_to(crowd, 1).delivered < MEMBERS)
		ck_assert_uint_lt(clock_ms(), until_ms);
	for (uint32_t k = 0; k < MEMBERS; k++) {
		check_took(crowd, k, 1);
		while (ripc_receive(crowd->members[k].svc, 0, &msg) == 0)
			ripc_msg_free(msg);
	}
}

START_TEST(group__long_to_all)
{
	const size_t sizes[] = {1, 3000, 200000, BIG};
	struct crowd crowd;

	crowd_open(&crowd, _i);
	for (uint32_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
		struct ripc_counts counts = send_long_to(&crowd, sizes[n]);

		ck_assert_uint_eq(counts.delivered, MEMBERS);
		ck_assert_uint_eq(counts.not_delivered + counts.unknown, 0);
		for (uint32_t k = 0; k < MEMBERS; k++)
			check_took(&crowd, k, sizes[n]);
	}
	crowd_close(&crowd);
}
END_TEST

/* Shorts may get lost, or be late; none comes twice, and none to a member that has left. */
START_TEST(group__shorts)
{
	uint32_t seen[MEMBERS][ROUNDS] = {0}, n_seen = 0;
	struct ripc_msg *msg;
	struct crowd crowd;

	crowd_open(&crowd, _i);
	ck_assert_int_eq(ripc_leave(crowd.members[0].svc, crowd.group), 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		const struct iovec text = item(&round, sizeof(round));

		ck_assert_int_eq(ripc_send_short(crowd.sender.svc, crowd.group, &text, 1), 0);
	}
	for (uint32_t k = 1; k < MEMBERS; k++) {
		while (ripc_receive(crowd.members[k].svc, n_seen ? 100 : PATIENCE_MS, &msg) == 0) {
			uint32_t round;

			ck_assert_int_eq(msg->kind, RIPC_SHORT);
			ck_assert_uint_eq(msg->group, crowd.group);
			memcpy(&round, msg->items[0].iov_base, sizeof(round));
			ck_assert_uint_lt(round, ROUNDS);
			ck_assert_uint_eq(seen[k][round]++, 0);
			n_seen++;
			ripc_msg_free(msg);
		}
	}
	ck_assert_uint_gt(n_seen, 0);
	check_nothing(crowd.members[0].svc);
	crowd_leave(&crowd);
}
END_TEST

/*
 * A member that has left is told apart at once, or not known any more; the others have the message.
 */
START_TEST(group__one_has_left)
{
	struct ripc_counts counts;
	struct crowd crowd;

	crowd_open(&crowd, _i);
	ck_assert_int_eq(ripc_leave(crowd.members[0].svc, crowd.group), 0);
	counts = send_long_to(&crowd, 3000);
	ck_assert_uint_eq(counts.delivered, MEMBERS - 1);
	ck_assert_uint_le(counts.not_delivered, 1);
	ck_assert_uint_eq(counts.unknown, 0);
	for (uint32_t k = 1; k < MEMBERS; k++)
		check_took(&crowd, k, 3000);
	crowd_close(&crowd);
}
END_TEST

int main(int argc, char **argv)
{
	const struct calls_test tests[] = {
		{ group__long_to_all, false },
		{ group__shorts, false },
		{ group__one_has_left, false },
		{ NULL, false },
	};

	return calls_finish("group", tests, argc, argv);
}
