/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of contexts with keys: which keys may be in a group, and which may send to it. */
#include "key_dirs.h"
#include "ripc/group.h"

static uint64_t group_id(void)
{
	char name[32];

	snprintf(name, sizeof(name), "sealed %d", getpid());
	return ripc_group_from_name(name);
}

static void open_as(struct side *side, int dir)
{
	struct ripc_config cfg = api_config(0);

	cfg.keys = key_dirs[dir];
	side_open_as(side, &cfg, 0);
}

START_TEST(group__without_authority)
{
	const struct iovec hello = item("hello", 5);
	struct side a, b;
	struct ripc_msg *msg;

	key_dirs_make(0);
	open_as(&a, 0);
	open_as(&b, 1);
	ck_assert_int_eq(ripc_join(b.svc, group_id()), 0);
	ck_assert_int_eq(ripc_await(a.ctx, group_id(), PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_send_short(a.svc, group_id(), &hello, 1), 0);
	msg = take(b.svc, RIPC_SHORT);
	ck_assert_uint_eq(msg->group, group_id());
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_send_long(a.svc, group_id(), &hello, 1, PATIENCE_MS), 0);
	ripc_msg_free(take(b.svc, RIPC_LONG));
	side_close(&a);
	side_close(&b);
	key_dirs_remove();
}
END_TEST

/* The first end may be in the group, the second may send to it, the third has neither right. */
START_TEST(group__needs_the_right)
{
	const struct iovec hello = item("hello", 5);
	struct side member, sender, other;
	struct ripc_msg *msg;

	key_dirs_make(RIPC_KEYS_AUTHORITY);
	key_grant(0, RIPC_MAY_BE, group_id(), 100);
	key_grant(1, RIPC_MAY_SEND, group_id(), 100);
	key_grant(2, RIPC_MAY_SEND, group_id() ^ 1, 100);
	open_as(&member, 0);
	open_as(&sender, 1);
	open_as(&other, 2);
	ck_assert_int_eq(ripc_join(member.svc, group_id()), 0);
	ck_assert_int_eq(ripc_join(other.svc, group_id()), -EACCES);
	ck_assert_int_eq(ripc_await(sender.ctx, group_id(), PATIENCE_MS), 0);
	ck_assert_int_eq(ripc_send_long(sender.svc, group_id(), &hello, 1, PATIENCE_MS), 0);
	msg = take(member.svc, RIPC_LONG);
	ck_assert_int_eq(msg->sender, RIPC_SENDER_PROVEN);
	ck_assert_uint_eq(msg->from, sender.id);
	ripc_msg_free(msg);
	ck_assert_int_eq(ripc_send_short(sender.svc, group_id(), &hello, 1), 0);
	ripc_msg_free(take(member.svc, RIPC_SHORT));
	ck_assert_int_eq(ripc_send_long(other.svc, group_id(), &hello, 1, PATIENCE_MS), -EACCES);
	ck_assert_int_eq(ripc_send_short(other.svc, group_id(), &hello, 1), -EACCES);
	check_nothing(member.svc);
	side_close(&member);
	side_close(&sender);
	side_close(&other);
	key_dirs_remove();
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {group__without_authority, group__needs_the_right, NULL};

	return suite_run("sealed_groups", tests);
}
