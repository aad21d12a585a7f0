/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local resolver source while the kernel refuses, and what it makes of odd names, odd
 * senders and odd control messages.
 */
#include "source_calls.h"

START_TEST(local__probe_names_the_remedy)
{
	static const struct {
		int error;
		const char *remedy;
	} cases[] = {{EMFILE, "ulimit -n"}, {ENFILE, "fs.file-max"}, {ENOMEM, "memory.max"},
		{EAFNOSUPPORT, "AF_UNIX"}, {EACCES, "AF_UNIX"}};
	struct side side;

	side_init(&side, &ripc__local_source);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plan_failure(CALL_SOCKET, 1, cases[i].error);
		ck_assert_int_eq(side_probe(&side), -cases[i].error);
		ck_assert_ptr_nonnull(strstr(side.why, strerror(cases[i].error)));
		ck_assert_ptr_nonnull(strstr(side.remedy, cases[i].remedy));
	}
}
END_TEST

START_TEST(local__only_a_refused_connection_is_nobody)
{
	static const struct {
		int error, sent;
	} cases[] = {{EAGAIN, 9}, {ENOBUFS, 9}, {EPERM, 9}, {ECONNREFUSED, 0},
		{EPROTOTYPE, 0}};
	struct side side;

	side_open(&side, &ripc__local_source);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plan_failure(CALL_SENDTO, 1, cases[i].error);
		plan.again = true;
		ck_assert_int_eq(side_ask_again(&side, test_id(0), "who"), cases[i].sent);
		plan_nothing();
	}
	side_close(&side);
}
END_TEST

static void see(void *arg, uint64_t id, bool is_private)
{
	uint64_t *seen = arg;

	(void)is_private;
	seen[++seen[0]] = id;
}

/* The names of others, which may be anything. */
START_TEST(local__list_takes_only_names_of_ours)
{
	static const char *const forms[] = {"@ripc/%x/0000000000000005/0\n",
		"@ripc/%x/00000000deadbeef/7\n", "@ripc/%x/ffffffffffffffff/1",
		/* from here on: not ours */
		"@ripc/%x/0000000000000006/08\n", "@ripc/%x/0000000000000006/00\n",
		"@ripc/%x/0000000000000006/0x\n", "@ripc/%x/0000000000000000/0\n",
		"@ripc/1%x/0000000000000006/0\n", "@ripc/%x/x/0\n", "@ripc/%x/6\n",
		"@ripc/%x/00000000000000006/0\n", "@rip/%x/0000000000000006/0\n",
		"ripc/%x/0000000000000006/0\n", "/tmp/ripc/%x\n", "%x\n", "\n"};
	uint64_t seen[20] = {0};
	char text[4096] = "Num       RefCount Protocol Flags    Type St Inode Path\n";
	struct side side;
	size_t len;

	/* The last good one has no end of line: it goes to the end. */
	for (int i = sizeof(forms) / sizeof(forms[0]) - 1; i >= 0; i--) {
		int form = i == 0 ? 2 : i == 2 ? 0 : i;

		len = strlen(text);
		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"0000000000000000: 00000002 00000000 00000000 0002 01 1234 ");
		snprintf(text + len, sizeof(text) - len, forms[form], getuid());
	}
	side_open(&side, &ripc__local_source);
	plan.names = text;
	ck_assert_int_eq(side.ops->list(side.state, see, seen), 0);
	ck_assert_uint_eq(seen[0], 3);
	ck_assert_uint_eq(seen[1], 5);
	ck_assert_uint_eq(seen[2], 0xdeadbeef);
	ck_assert_uint_eq(seen[3], UINT64_MAX);
	side_close(&side);
}
END_TEST

START_TEST(local__a_query_to_everybody_is_bounded)
{
	char *text = malloc(1 << 20);
	struct side side;
	size_t len = 0;

	for (int i = 1; i <= 3000; i++)
		len += (size_t)sprintf(text + len, "@ripc/%x/%016x/0\n", getuid(), i);
	side_open(&side, &ripc__local_source);
	plan_failure(CALL_SENDTO, 1, EAGAIN);
	plan.again = true;
	plan.names = text;
	ck_assert_int_eq(side_ask(&side, 0, "all"), 1024);
	ck_assert_int_eq(plan.count, 1024);
	side_close(&side);
	side_open(&side, &ripc__local_source);
	plan_failure(CALL_FOPEN, 1, EACCES);
	ck_assert_int_eq(side_ask(&side, 0, "all"), -EACCES);
	side_close(&side);
	free(text);
}
END_TEST

/* A datagram that says it is from this name, with this control message. */
struct forgery {
	socklen_t name_len; /* of the path, all zeros */
	int level, type;
	size_t len;
	uid_t uid;
};

/* Returns the event of it; of the datagram behind it, if the source passes over it. */
static struct ripc__source_event forge(struct side *side, const struct forgery *forgery)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct ucred credentials = {.pid = 1, .uid = forgery->uid};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(credentials))];
	} control = {.align = {.cmsg_len = CMSG_LEN(forgery->len), .cmsg_level = forgery->level,
		.cmsg_type = forgery->type}};
	struct msghdr message = {.msg_name = &name,
		.msg_namelen = (socklen_t)offsetof(struct sockaddr_un, sun_path) +
		forgery->name_len, .msg_control = &control,
		.msg_controllen = forgery->len ? sizeof(control) : 0};
	struct ripc__source_event event;

	memcpy(CMSG_DATA(&control.align), &credentials, sizeof(credentials));
	/* There is something to read; what, the wrapped call says, the first time. */
	ck_assert_int_eq(side_ask(side, test_id(0), "really"), 1);
	plan.message = &message;
	ck_assert_int_eq(side_poll(side), 1);
	ck_assert_ptr_null(plan.message);
	event = side->event;
	while (side_poll(side))
		;
	return event;
}

static bool believed(struct side *side, const struct forgery *forgery)
{
	return forge(side, forgery).len == FORGED_LEN;
}

START_TEST(local__the_kernels_word_decides_who_is_heard)
{
	const struct forgery ours = {.name_len = 6, .level = SOL_SOCKET, .type = SCM_CREDENTIALS,
		.len = sizeof(struct ucred), .uid = getuid()};
	struct forgery other;
	struct side side;

	side_open(&side, &ripc__local_source);
	ck_assert_int_eq(side.ops->publish(side.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	ck_assert(believed(&side, &ours));
	other = ours;
	other.uid = 0;
	ck_assert(believed(&side, &other));
	other.uid = 12345;
	ck_assert(!believed(&side, &other));
	other = ours;
	other.len = 0;
	ck_assert(!believed(&side, &other));
	other.len = sizeof(struct ucred) - 1;
	ck_assert(!believed(&side, &other));
	other = ours;
	other.level = IPPROTO_IP;
	ck_assert(!believed(&side, &other));
	other = ours;
	other.type = SCM_CREDENTIALS + 1;
	ck_assert(!believed(&side, &other));
	side_close(&side);
}
END_TEST

START_TEST(local__a_name_that_does_not_fit_gets_no_answer)
{
	struct forgery forgery = {.level = SOL_SOCKET, .type = SCM_CREDENTIALS,
		.len = sizeof(struct ucred), .uid = getuid()};
	struct side side;

	side_open(&side, &ripc__local_source);
	ck_assert_int_eq(side.ops->publish(side.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	for (int len = 0; len <= (int)sizeof(((struct sockaddr_un *)0)->sun_path); len++) {
		forgery.name_len = (socklen_t)len;
		ck_assert(believed(&side, &forgery));
		ck_assert_uint_eq(forge(&side, &forgery).reply.len,
			len <= RIPC_ADDR_MAX ? len : 0);
	}
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		local__probe_names_the_remedy,
		local__only_a_refused_connection_is_nobody,
		local__list_takes_only_names_of_ours,
		local__a_query_to_everybody_is_bounded,
		local__the_kernels_word_decides_who_is_heard,
		local__a_name_that_does_not_fit_gets_no_answer,
	};
	TCase *tcase = tcase_create("local_faults");

	tcase_add_checked_fixture(tcase, own_network, NULL);
	tcase_add_checked_fixture(tcase, plan_nothing, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("local_faults", tcase);
}
