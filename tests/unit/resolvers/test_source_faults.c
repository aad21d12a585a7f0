/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resolver sources while the kernel refuses: every system call that they make fails once,
 * one after the other; then what certain failures mean for the multicast and the static source.
 */
#include "../../support/util/kernel.h"
#include "core/wire/record.h"
#include "source_calls.h"

/* ---- every call fails once --------------------------------------------------------------- */

enum { LOCAL, MULTICAST, STATIC, MULTICAST_SIX, SOURCES };

static const struct ripc__source *const sources[SOURCES] = {&ripc__local_source,
	&ripc__multicast_source, &ripc__static_source, &ripc__multicast_source};

static void count_one(void *arg, uint64_t id, bool is_private)
{
	(void)is_private;
	(void)id;
	++*(int *)arg;
}

/* Uses all functions of a source. A failing one returns that error, or finds no service. */
static void do_all(struct side *side, int error)
{
	const struct ripc__source *ops = side->ops;
	int n = 0, status;

	status = side_probe(side);
	ck_assert(status == 0 || status == -error);
	status = ops->open(side->state, &side->host);
	ck_assert(status == 0 || status == -error);
	if (status)
		return;
	status = ops->publish ? ops->publish(side->state, test_id(0), 1, RIPC_NAME_FIRST) : 0;
	/* A source that cannot see whether a name is held takes it to be. */
	ck_assert(status == 0 || status == -error ||
		(plan.call == CALL_CONNECT && status == -EADDRINUSE));
	if (status == 0 && ops->publish) {
		status = ops->publish(side->state, test_id(0), 1, RIPC_NAME_DISPLACE);
		ck_assert_int_eq(status, -EADDRINUSE);
	}
	status = side_ask(side, test_id(0), "who");
	ck_assert(status >= 0 && status <= 2);
	status = ops->ask_again ? side_ask_again(side, test_id(0), "who") : 0;
	ck_assert(status >= 0 && status <= 2);
	status = side_ask(side, 0, "all");
	ck_assert(status >= 0 || status == -error);
	status = ops->notify ? ops->notify(side->state, "new", 3) : 0;
	ck_assert(status >= 0 && status <= 2);
	while (side_poll(side)) {
		ck_assert_uint_eq(side->event.len, 3);
		status = side_reply(side, "me!");
		ck_assert(status == 0 || status == -error || status == -EINVAL);
		if (++n == 20)
			break;
	}
	status = ops->list ? ops->list(side->state, count_one, &n) : 0;
	ck_assert(status == 0 || status == -error);
	if (ops->withdraw)
		ops->withdraw(side->state, test_id(0));
	ops->close(side->state);
}

/* lo, as an interface of both families on which multicast works. */
static void six_fake(void)
{
	static struct sockaddr_in four = {.sin_family = AF_INET};
	static struct sockaddr_in6 six = {.sin6_family = AF_INET6};
	static char name[] = "lo";
	static struct ifaddrs at[2] = {{.ifa_next = &at[1], .ifa_name = name, .ifa_flags = IFF_UP,
		.ifa_addr = (struct sockaddr *)&four}, {.ifa_name = name, .ifa_flags = IFF_UP,
		.ifa_addr = (struct sockaddr *)&six}};

	four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	six.sin6_addr = in6addr_loopback;
	plan.interfaces = at;
}

static void side_prepare(struct side *side, int source)
{
	const struct ripc__source *ops = sources[source];

	side_init(side, ops);
	if (source == MULTICAST_SIX)
		six_fake();
	side->state = malloc(ops->size); /* no call of the source's */
	ck_assert_ptr_nonnull(side->state);
	if (ops == &ripc__static_source)
		side->host.peers = "127.0.0.1,127.0.0.2";
}

/* Fails one call; returns how often it is made. */
static int fail_each(int source, enum call call, int error)
{
	int before = descriptors(false), nth = 0;
	struct side side;

	do {
		side_prepare(&side, source);
		plan_failure(call, ++nth, error);
		do_all(&side, error);
		free(side.state);
		ck_assert_int_lt(nth, 1000);
		ck_assert_int_eq(descriptors(false), before);
	} while (plan.count >= nth);
	plan_nothing();
	return nth - 1;
}

START_TEST(faults__each_call_in_turn)
{
	static const int errors[CALLS] = {
		[CALL_SOCKET] = EMFILE, [CALL_SETSOCKOPT] = ENOPROTOOPT, [CALL_BIND] = EACCES,
		[CALL_CONNECT] = EACCES, [CALL_EPOLL_CREATE1] = EMFILE,
		[CALL_EPOLL_CTL] = ENOSPC, [CALL_EPOLL_WAIT] = EINTR,
		[CALL_GETIFADDRS] = ENOBUFS, [CALL_SENDTO] = EPERM, [CALL_SENDMSG] = EPERM,
		[CALL_RECVMSG] = ENOMEM, [CALL_FOPEN] = EACCES, [CALL_CALLOC] = ENOMEM};
	int made = 0;

	for (int call = 0; call < CALLS; call++)
		made += fail_each(_i, (enum call)call, errors[call]);
	ck_assert_int_gt(made, 15);
}
END_TEST

/* After any failure, a source that is open works as soon as the kernel does. */
START_TEST(faults__end_and_everything_works)
{
	struct side asker, holder;

	side_open(&holder, &ripc__local_source);
	side_open(&asker, &ripc__local_source);
	plan_failure(CALL_BIND, 1, EACCES);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1,
		RIPC_NAME_FIRST), -EACCES);
	plan_failure(CALL_BIND, 1, EACCES);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1,
		RIPC_NAME_DISPLACE), -EACCES);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 0);
	ck_assert_int_eq(holder.ops->publish(holder.state, test_id(0), 1, RIPC_NAME_FIRST), 0);
	plan_failure(CALL_EPOLL_WAIT, 1, EINTR);
	ck_assert_int_eq(side_ask(&asker, test_id(0), "who"), 1);
	ck_assert_int_eq(side_poll(&holder), 0);
	side_expect(&holder, "who");
	side_close(&holder);
	side_close(&asker);
}
END_TEST

/* ---- multicast --------------------------------------------------------------------------- */

static struct sockaddr_in own_address = {.sin_family = AF_INET};
static struct sockaddr other_family = {.sa_family = AF_UNIX};

/* Interfaces with these names, all up, each with the address 127.0.0.1. */
static void interfaces_fake(struct ifaddrs *at, char (*names)[24], int n)
{
	own_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "interface%d", i);
		at[i] = (struct ifaddrs){.ifa_next = i + 1 < n ? &at[i + 1] : NULL,
			.ifa_name = names[i], .ifa_flags = IFF_UP,
			.ifa_addr = (struct sockaddr *)&own_address};
	}
	plan.interfaces = at;
}

START_TEST(multicast__without_a_list_of_interfaces)
{
	struct side side;

	side_init(&side, &ripc__multicast_source);
	plan_failure(CALL_GETIFADDRS, 1, ENOBUFS);
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "in RIPC_INTERFACES"));
	side.host.interfaces = "";
	plan_failure(CALL_GETIFADDRS, 1, ENOBUFS);
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "no interface is up"));
	/* The first call is for the comparison when something changes. */
	plan_failure(CALL_GETIFADDRS, 2, ENOBUFS);
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "no interface"));
	side_close(&side);
}
END_TEST

START_TEST(multicast__only_interfaces_that_can)
{
	char names[6][24];
	struct ifaddrs at[6];
	struct side side;

	interfaces_fake(at, names, 6);
	at[0].ifa_addr = NULL;
	at[1].ifa_addr = &other_family;
	at[2].ifa_flags = 0;
	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = "interface, interface3,interface44 interface5";
	plan.index = 1;
	ck_assert_int_eq(side_probe(&side), 0);
	/* interface4 is not wanted, and interface5 is the same one: it has the same number. */
	ck_assert_ptr_nonnull(strstr(side.why, "multicast on interface3"));
	ck_assert_ptr_null(strstr(side.why, "interface5"));
	plan.index = 0; /* the interfaces have gone meanwhile */
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "no multicast"));
}
END_TEST

START_TEST(multicast__more_interfaces_than_can_be_joined)
{
	enum { MANY = 30 };
	static char names[MANY][24];
	static struct ifaddrs at[MANY];
	struct side side;

	interfaces_fake(at, names, MANY);
	own_address.sin_addr.s_addr = htonl(0xc0000201); /* of documentation: 192.0.2.1 */
	plan.index = 1 << 20; /* numbers that no interface has */
	plan.index_counts = true;
	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = NULL;
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "interface0, interface1, "));
	ck_assert_ptr_null(strstr(side.why, "interface20"));
	/* No interface can be joined. */
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "no interface"));
	ck_assert_int_eq(side_ask(&side, 5, "who"), 0);
	side_close(&side);
}
END_TEST

/* IPv6 is left out, and the log says so; IPv4 works. */
START_TEST(multicast__ipv6_that_fails)
{
	struct side side;
	int n;

	side_init(&side, &ripc__multicast_source);
	six_fake();
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_str_eq(side.logged, "");
	n = descriptors(false);
	side_close(&side);
	plan_failure(CALL_SETSOCKOPT, 1, ENOPROTOOPT);
	plan.option = IPV6_V6ONLY;
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "no IPv6"));
	ck_assert_int_eq(descriptors(false), n - 2);
	ck_assert_int_eq(side_ask_again(&side, 5, "who"), 1);
	side_expect(&side, "who");
	side_close(&side);
}
END_TEST

/* Whether the group was joined decides whether it is asked there. */
START_TEST(multicast__join_that_fails)
{
	static const struct {
		int error, tries, reached;
		bool again;
	} cases[] = {{EADDRINUSE, 1, 1, false},
		/* One socket may join no more; a further one may, or may not. */
		{ENOBUFS, 2, 1, false}, {ENOBUFS, 2, 0, true},
		/* By its number; its address says the same. */
		{ENODEV, 2, 1, false}, {ENODEV, 2, 0, true}};
	struct side side;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		side_init(&side, &ripc__multicast_source);
		plan_failure(CALL_SETSOCKOPT, 1, cases[i].error);
		plan.option = IP_ADD_MEMBERSHIP;
		plan.again = cases[i].again;
		ck_assert_int_eq(side_try(&side), 0);
		ck_assert_int_eq(plan.count, cases[i].tries);
		ck_assert_int_eq(strstr(side.logged, "no interface") != NULL,
			!cases[i].reached);
		ck_assert_int_eq(side_ask(&side, 5, "who"), cases[i].reached);
		side_close(&side);
	}
}
END_TEST

/* A sandbox or an emulator may lack it: there is more to hear then, and nothing less. */
START_TEST(multicast__without_multicast_all)
{
	struct side side;

	side_init(&side, &ripc__multicast_source);
	plan_failure(CALL_SETSOCKOPT, 1, ENOPROTOOPT);
	plan.option = IP_MULTICAST_ALL;
	plan.again = true;
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_int_eq(plan.count, 2);
	ck_assert_str_eq(side.logged, "");
	ck_assert_int_eq(side_ask(&side, 5, "who"), 1);
	side_expect(&side, "who");
	side_close(&side);
}
END_TEST

/* Where the kernel does not take the filter for one more ID, all queries are heard. */
START_TEST(multicast__filter_that_fails)
{
	struct wire_resolve packet = {.type = WIRE_QUERY, .nonce = 1, .asker = 1,
		.record.id = 0x1234567890abcdef};
	uint8_t query[WIRE_RECORD_MAX];
	size_t len = wire_resolve_encode(query, &packet);
	struct side side;

	side_open(&side, &ripc__multicast_source);
	side.ops->heed(side.state, 1, false);
	plan_failure(CALL_SETSOCKOPT, 1, ENOMEM);
	plan.option = SO_ATTACH_FILTER;
	side.ops->heed(side.state, packet.record.id, false);
	ck_assert_int_eq(plan.count, 1);
	ck_assert_int_eq(side.ops->ask(side.state, packet.record.id, query, len), 1);
	ck_assert_int_eq(side_poll(&side), 1);
	ck_assert_uint_eq(side.event.len, len);
	side_close(&side);
}
END_TEST

START_TEST(multicast__sending_that_fails)
{
	static const struct {
		int error, reached;
	} cases[] = {{EAGAIN, 1}, {ENOBUFS, 1}, {ENETUNREACH, 0}, {EPERM, 0},
		{ENODEV, 1}}; /* by its number; then its address says the same */
	struct side side;

	side_open(&side, &ripc__multicast_source);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plan_failure(CALL_SENDMSG, 1, cases[i].error);
		ck_assert_int_eq(side_ask(&side, 5, "who"), cases[i].reached);
	}
	side_expect(&side, "who");
	ck_assert_int_eq(side_ask(&side, 5, "who"), 1);
	side_expect(&side, "who");
	side_close(&side);
}
END_TEST

/* -EINVAL would blame the configuration. */
START_TEST(multicast__port_that_cannot_be_had)
{
	struct side side;

	side_init(&side, &ripc__multicast_source);
	plan_failure(CALL_BIND, 1, EINVAL);
	ck_assert_int_eq(side_try(&side), -EADDRNOTAVAIL);
	plan_failure(CALL_BIND, 1, EACCES);
	ck_assert_int_eq(side_try(&side), -EACCES);
	ck_assert_str_eq(side.logged, "");
	plan_failure(CALL_BIND, 1, EADDRINUSE);
	ck_assert_int_eq(side_try(&side), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(side.logged, side.port));
}
END_TEST

START_TEST(multicast__host_without_options)
{
	struct side side;

	side_init(&side, &ripc__multicast_source);
	side.host.option = NULL;
	ck_assert_int_eq(side_try(&side), 0);
	side_close(&side);
}
END_TEST

/* ---- static ------------------------------------------------------------------------------ */

static int static_probe(struct side *side, const char *peers)
{
	side_init(side, &ripc__static_source);
	side->host.peers = peers;
	return side_probe(side);
}

/* A name server that does not answer now is no reason to leave out the other peers. */
START_TEST(static__name_server_is_silent)
{
	struct side side;

	plan.gai_error = EAI_AGAIN;
	side_init(&side, &ripc__static_source);
	side.host.peers = "localhost,127.0.0.1";
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "\"localhost\""));
	ck_assert_ptr_nonnull(strstr(side.logged, "left out"));
	ck_assert_int_eq(side_ask(&side, 5, "who"), 1);
	side_close(&side);
	ck_assert_int_eq(static_probe(&side, "localhost"), -ENOENT);
	ck_assert_ptr_nonnull(strstr(side.why, "\"localhost\""));
	ck_assert_int_eq(static_probe(&side, "localhost,127.0.0.1"), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "1 address "));
}
END_TEST

START_TEST(static__name_of_nobody)
{
	struct side side;

	plan.gai_error = EAI_NONAME;
	ck_assert_int_eq(static_probe(&side, "127.0.0.1,localhost"), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "1 address "));
	ck_assert_ptr_nonnull(strstr(side.why, "\"localhost\""));
	ck_assert_ptr_nonnull(strstr(side.remedy, "name"));
	ck_assert_int_eq(static_probe(&side, "localhost"), -ENOENT);
	ck_assert_ptr_nonnull(strstr(side.why, "\"localhost\""));
	side_init(&side, &ripc__static_source);
	side.host.peers = "127.0.0.1,localhost";
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "\"localhost\""));
	ck_assert_int_eq(side_ask(&side, 5, "who"), 1);
	side_close(&side);
}
END_TEST

START_TEST(static__entries_of_any_length)
{
	char peers[600];
	struct side side;

	for (size_t len = 240; len < 320; len++) {
		memset(peers, 'x', len);
		strcpy(peers + len, ":80,127.0.0.1");
		plan.gai_error = 0;
		/* Nobody has that name; longer than any it is no name at all. */
		ck_assert_int_eq(static_probe(&side, peers), len < 276 ? 0 : -EINVAL);
		ck_assert_ptr_nonnull(strstr(side.why, "xxx"));
	}
	/* Blanks do not count. */
	memset(peers, ' ', 400);
	strcpy(peers + 400, "127.0.0.1\t \t");
	ck_assert_int_eq(static_probe(&side, peers), 0);
}
END_TEST

START_TEST(static__ports_that_are_none)
{
	static const char *const wrong[] = {"127.0.0.1:99999999999999999999",
		"127.0.0.1:-99999999999999999999", "127.0.0.1:-1", "127.0.0.1:80x", ":"};
	struct side side;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(static_probe(&side, wrong[i]), -EINVAL);
		ck_assert_ptr_nonnull(strstr(side.why, wrong[i]));
	}
	/* The port for peers that have none cannot be understood: already told of. */
	side_init(&side, &ripc__static_source);
	side.host.peers = "127.0.0.1";
	side.options[0][1] = "x";
	ck_assert_int_eq(side_probe(&side), -EINVAL);
	ck_assert_str_eq(side.why, strerror(EINVAL));
	ck_assert_int_eq(side_try(&side), -EINVAL);
	ck_assert_ptr_nonnull(strstr(side.logged, "resolver.port"));
}
END_TEST

START_TEST(static__no_memory_to_probe)
{
	struct side side;

	plan_failure(CALL_CALLOC, 1, ENOMEM);
	ck_assert_int_eq(static_probe(&side, "127.0.0.1"), -ENOMEM);
	ck_assert_str_eq(side.why, strerror(ENOMEM));
}
END_TEST

/* One host that cannot be reached does not keep the others from being asked. */
START_TEST(static__sending_that_fails)
{
	static const struct {
		int error, sent;
	} cases[] = {{EAGAIN, 3}, {ENOBUFS, 3}, {ENETUNREACH, 2}, {ECONNREFUSED, 2}};
	struct side side;

	side_init(&side, &ripc__static_source);
	side.host.peers = "127.0.0.1,127.0.0.2,127.0.0.3";
	ck_assert_int_eq(side_try(&side), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		plan_failure(CALL_SENDTO, 1, cases[i].error);
		ck_assert_int_eq(side_ask(&side, 5, "who"), cases[i].sent);
		ck_assert_int_eq(plan.count, 3);
	}
	side_close(&side);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		faults__end_and_everything_works,
		multicast__without_a_list_of_interfaces,
		multicast__only_interfaces_that_can,
		multicast__more_interfaces_than_can_be_joined,
		multicast__ipv6_that_fails,
		multicast__without_multicast_all,
		multicast__sending_that_fails,
		multicast__port_that_cannot_be_had,
		multicast__host_without_options,
		static__name_server_is_silent,
		static__name_of_nobody,
		static__entries_of_any_length,
		static__ports_that_are_none,
		static__no_memory_to_probe,
		static__sending_that_fails,
	};
	TCase *tcase = tcase_create("source_faults");

	tcase_add_checked_fixture(tcase, own_network, NULL);
	tcase_add_checked_fixture(tcase, plan_nothing, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, multicast__filter_that_fails, 0,
		kernel_runs(kernel_lacks_detaching(), "multicast__filter_that_fails", 1));
	tcase_add_loop_test(tcase, multicast__join_that_fails, 0,
		kernel_runs(kernel_lacks_joining(), "multicast__join_that_fails", 1));
	tcase_add_loop_test(tcase, faults__each_call_in_turn, 0,
		sizeof(sources) / sizeof(sources[0]));
	return suite_finish("source_faults", tcase);
}
