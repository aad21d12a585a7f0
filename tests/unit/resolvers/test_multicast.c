/* SPDX-License-Identifier: BSD-3-Clause */
/* The multicast resolver source: the group, the shared port, interfaces, and its words. */
#include "core/wire/record.h"
#include "../../support/util/kernel.h"
#include "sources.h"

#define STRANGE  30u
#define KNOWN(i) (0x123456789ull * (1 + (i)))

START_TEST(multicast__query_reaches_all_and_the_answer_one)
{
	struct side holder, asker, third;

	side_open(&holder, &ripc__multicast_source);
	side_open(&third, &ripc__multicast_source);
	side_open(&asker, &ripc__multicast_source);
	ck_assert_int_eq(side_ask(&asker, 5, "who"), 1);
	side_expect(&holder, "who");
	side_expect(&third, "who");
	side_expect(&asker, "who"); /* core knows its own */
	ck_assert(holder.event.group);
	ck_assert(holder.event.local);
	expect_loopback(holder.event.host);
	for (int i = 0; i < 20; i++) {
		ck_assert_int_eq(side_reply(&holder, "me"), 0);
		side_expect(&asker, "me");
		ck_assert(!asker.event.group);
	}
	ck_assert_int_eq(side_poll(&third), 0);
	ck_assert_int_eq(third.ops->notify(third.state, "news", 4), 1);
	side_expect(&asker, "news");
	side_close(&holder);
	side_close(&asker);
	side_close(&third);
}
END_TEST

/* A query as it goes over the wire, about an ID. */
static void ask_about(struct side *asker, uint64_t id)
{
	const struct wire_resolve query = {.type = WIRE_QUERY, .nonce = 1, .asker = 2,
		.record.id = id};
	uint8_t data[WIRE_RESOLVE_MAX];
	size_t len = wire_resolve_encode(data, &query);

	ck_assert_int_ge(asker->ops->ask(asker->state, id, data, len), 1);
}

/* Is a datagram there? Messages of the kernel about interfaces are passed over. */
static bool next_datagram(struct side *side)
{
	while (side_poll(side)) {
		if (side->event.kind == RIPC_SOURCE_DATAGRAM)
			return true;
	}
	return false;
}

static void wait_for_datagram(struct side *side)
{
	struct pollfd fd = {.fd = side->ops->wait_fd(side->state), .events = POLLIN};

	do
		ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
	while (!next_datagram(side));
}

/* The one of the two that gets the next datagram. */
static struct side *first_to_hear(struct side *one, struct side *other)
{
	struct pollfd fds[2] = {{.fd = one->ops->wait_fd(one->state), .events = POLLIN},
		{.fd = other->ops->wait_fd(other->state), .events = POLLIN}};

	for (;;) {
		if (next_datagram(one))
			return one;
		if (next_datagram(other))
			return other;
		ck_assert_int_gt(poll(fds, 2, PATIENCE_MS), 0);
	}
}

/* As side_expect(), while interfaces may still change. */
static void expect_datagram(struct side *side, const char *text)
{
	wait_for_datagram(side);
	ck_assert_uint_eq(side->event.len, strlen(text));
	ck_assert_mem_eq(side->event.data, text, strlen(text));
}

/* The ID of the next query that a side hears. */
static uint64_t heard_about(struct side *side)
{
	struct wire_resolve packet;

	wait_for_datagram(side);
	ck_assert_int_eq(wire_resolve_decode(side->event.data, side->event.len, &packet), 0);
	return packet.record.id;
}

/* Only queries about services on this host arrive, and queries about all. */
START_TEST(multicast__queries_about_others_are_not_heard)
{
	struct side holder, asker;
	uint32_t n = 0;
	uint64_t id;

	side_open(&holder, &ripc__multicast_source);
	side_open(&asker, &ripc__multicast_source);
	for (uint64_t k = 1; k <= 3; k++)
		holder.ops->heed(holder.state, k * 0x1234567890abcdef, false);
	for (uint64_t other = 1; other <= 30; other++)
		ask_about(&asker, other << 50 | other * 77);
	for (uint64_t k = 1; k <= 3; k++)
		ask_about(&asker, k * 0x1234567890abcdef);
	ask_about(&asker, 0);
	for (uint64_t k = 1; k <= 3;) {
		id = heard_about(&holder);
		n++;
		k += id == k * 0x1234567890abcdef;
	}
	ck_assert_uint_le(n, 6); /* other services may have the same hash */
	ck_assert_uint_eq(heard_about(&holder), 0);
	side_close(&holder);
	side_close(&asker);
}
END_TEST

/* Tells of so many IDs; how many of them a side heard of. */
static uint32_t heard_of(struct side *side, struct side *teller)
{
	struct wire_resolve notice = {.type = WIRE_WITHDRAWN, .asker = 2, .record.incarnation = 3};
	uint8_t data[WIRE_RESOLVE_MAX];
	uint32_t n = 0;

	for (uint32_t i = 0; i < STRANGE; i++) {
		notice.record.id = (i + 1ull) << 50;
		ck_assert_int_ge(teller->ops->notify(teller->state, data,
			wire_resolve_encode(data, &notice)), 1);
	}
	ask_about(teller, 0);
	while (heard_about(side))
		n++;
	return n;
}

/* While a side only serves; a private ID is no service. */
START_TEST(multicast__notices_are_heard_by_who_looks_for_others)
{
	struct side server, client, teller;

	side_open(&server, &ripc__multicast_source);
	side_open(&client, &ripc__multicast_source);
	side_open(&teller, &ripc__multicast_source);
	server.ops->heed(server.state, KNOWN(1), false);
	client.ops->heed(client.state, KNOWN(2), true);
	ck_assert_uint_eq(heard_of(&server, &teller), 0);
	ck_assert_uint_eq(heard_of(&client, &teller), STRANGE);
	server.ops->know(server.state);
	ck_assert_uint_eq(heard_about(&server), 0); /* the end of what the client heard */
	ck_assert_uint_eq(heard_of(&server, &teller), STRANGE);
	side_close(&server);
	side_close(&client);
	side_close(&teller);
}
END_TEST

/* An ID with that hash. */
static uint64_t id_of(uint32_t hash)
{
	uint64_t id = 1;

	while (wire_hash(id) != hash)
		id++;
	return id;
}

/* A context tells of two IDs by a digest, then asks for all. */
static void tell_digest_as(struct side *teller, uint64_t context, uint32_t first_hash,
		uint32_t second_hash)
{
	uint8_t data[WIRE_RESOLVE_MAX], named[2 * WIRE_NAMED_LEN];
	const struct wire_resolve digest = {.type = WIRE_DIGEST, .asker = context,
		.named = named, .n_named = 2};

	wire_named_put(named, 0, id_of(first_hash), 3);
	wire_named_put(named, 1, id_of(second_hash), 3);
	ck_assert_int_ge(teller->ops->notify(teller->state, data,
		wire_resolve_encode(data, &digest)), 1);
	ask_about(teller, 0);
}

static void tell_digest(struct side *teller, uint32_t first_hash, uint32_t second_hash)
{
	tell_digest_as(teller, 2, first_hash, second_hash);
}

static bool hears_digest(struct side *side)
{
	heard_about(side);
	if (side->event.data[1] != WIRE_DIGEST)
		return false;
	heard_about(side);
	return true;
}

/* The context of each side is 1. */
START_TEST(multicast__digests_of_kin_are_heard)
{
	struct side server, teller;

	side_open(&server, &ripc__multicast_source);
	side_open(&teller, &ripc__multicast_source);
	server.ops->heed(server.state, id_of(3), false);
	for (uint64_t context = 0; context < 2 * WIRE_DIGEST_KIN; context++) {
		tell_digest_as(&teller, 0xabcd00 + context, 1, 2);
		ck_assert_int_eq(hears_digest(&server), context % WIRE_DIGEST_KIN == 1);
	}
	side_close(&server);
	side_close(&teller);
}
END_TEST

/* While a side only serves; by each word of the bits. */
START_TEST(multicast__digests_are_heard_by_those_named)
{
	struct side server, client, teller;

	side_open(&server, &ripc__multicast_source);
	side_open(&client, &ripc__multicast_source);
	side_open(&teller, &ripc__multicast_source);
	client.ops->heed(client.state, id_of(3), true);
	for (uint32_t hash = 0; hash < WIRE_DIGEST_BITS; hash += 34) {
		server.ops->heed(server.state, id_of(hash), false);
		tell_digest(&teller, 1, hash);
		ck_assert(hears_digest(&server));
		ck_assert(hears_digest(&client));
		tell_digest(&teller, hash + 1, (hash + 32) % WIRE_DIGEST_BITS);
		ck_assert(!hears_digest(&server));
		ck_assert(hears_digest(&client));
	}
	server.ops->know(server.state);
	tell_digest(&teller, 1, 2);
	ck_assert(hears_digest(&server));
	side_close(&server);
	side_close(&client);
	side_close(&teller);
}
END_TEST

START_TEST(multicast__unicast_reaches_one_and_is_no_group)
{
	struct side sides[3];
	int heard = 0, fd = udp_open("127.0.0.1", 0);

	for (int i = 0; i < 3; i++)
		side_open(&sides[i], &ripc__multicast_source);
	udp_send(fd, "127.0.0.1", test_port(0), 3);
	for (int i = 0; i < 3; i++) {
		if (!side_poll(&sides[i]))
			continue;
		heard++;
		ck_assert(!sides[i].event.group);
	}
	ck_assert_int_eq(heard, 1);
	for (int i = 0; i < 3; i++)
		side_close(&sides[i]);
	close(fd);
}
END_TEST

START_TEST(multicast__answers_from_the_address_that_was_asked)
{
	int fd = udp_open("127.0.0.1", 0);
	struct side side;

	side_open(&side, &ripc__multicast_source);
	udp_send(fd, "127.0.0.5", test_port(0), 3);
	side_expect(&side, "uuu");
	ck_assert_int_eq(side_reply(&side, "me"), 0);
	ck_assert_uint_eq(udp_expect(fd, "me"), 0x7f000005);
	side_close(&side);
	close(fd);
}
END_TEST

START_TEST(multicast__junk_is_passed_over)
{
	int fd = udp_open("127.0.0.1", 0);
	struct side side;

	side_open(&side, &ripc__multicast_source);
	udp_send(fd, "127.0.0.1", test_port(0), WIRE_RESOLVE_MAX + 1);
	udp_send(fd, "127.0.0.1", test_port(0), 60000);
	udp_send(fd, "127.0.0.1", test_port(0), 3);
	side_expect(&side, "uuu");
	ck_assert_int_eq(side_poll(&side), 0);
	side_close(&side);
	close(fd);
}
END_TEST

START_TEST(multicast__options_that_make_no_sense)
{
	static const char *const wrong[][2] = {{"resolver.port", "0"}, {"resolver.port", "65536"},
		{"resolver.port", "x"}, {"resolver.port", ""}, {"resolver.ttl", "256"},
		{"resolver.ttl", "-1"}, {"resolver.group", "10.0.0.1"},
		{"resolver.group", "group"}, {"resolver.group", ""},
		{"resolver.group6", "ff02::1:2"}, {"resolver.group6", "fd00::1"},
		{"resolver.group6", "239.1.2.3"}, {"resolver.group6", ""}};
	struct side side;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		side_init(&side, &ripc__multicast_source);
		side.options[0][0] = wrong[i][0];
		side.options[0][1] = wrong[i][1];
		ck_assert_int_eq(side_try(&side), -EINVAL);
		ck_assert_ptr_nonnull(strstr(side.logged, wrong[i][0]));
		ck_assert_int_eq(side_probe(&side), -EINVAL);
		ck_assert_uint_ne(side.remedy[0], '\0');
	}
}
END_TEST

START_TEST(multicast__another_group_and_port)
{
	struct side here, there;
	char port[8];

	side_open(&here, &ripc__multicast_source);
	side_init(&there, &ripc__multicast_source);
	there.options[1][0] = "resolver.group";
	there.options[1][1] = "239.1.2.3";
	ck_assert_int_eq(side_try(&there), 0);
	side_ask(&there, 5, "who");
	side_expect(&there, "who");
	ck_assert_int_eq(side_poll(&here), 0); /* same port, but it has not joined that group */
	side_close(&there);
	snprintf(port, sizeof(port), "%d", test_port(1));
	side_init(&there, &ripc__multicast_source);
	there.options[0][1] = port;
	ck_assert_int_eq(side_try(&there), 0);
	side_ask(&there, 5, "who");
	side_expect(&there, "who");
	ck_assert_int_eq(side_poll(&here), 0);
	side_close(&there);
	side_close(&here);
}
END_TEST

START_TEST(multicast__port_that_another_program_holds)
{
	int fd = udp_open("0.0.0.0", test_port(0));
	struct side side;

	side_init(&side, &ripc__multicast_source);
	ck_assert_int_eq(side_try(&side), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(side.logged, side.port));
	ck_assert_int_eq(side_probe(&side), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(side.why, side.port));
	ck_assert_ptr_nonnull(strstr(side.remedy, "resolver.port"));
	close(fd);
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "lo"));
	ck_assert_str_eq(side.remedy, "");
}
END_TEST

START_TEST(multicast__without_interface_still_answers_unicast)
{
	int fd = udp_open("127.0.0.1", 0);
	struct side side;

	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = "nosuch0,nosuch1";
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "no multicast"));
	ck_assert_ptr_nonnull(strstr(side.why, "there is no nosuch0, nosuch1"));
	ck_assert_ptr_nonnull(strstr(side.remedy, "RIPC_INTERFACES"));
	ck_assert_ptr_null(strstr(side.remedy, "lo up"));
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "unicast"));
	ck_assert_int_eq(side_ask(&side, 5, "who"), 0);
	udp_send(fd, "127.0.0.1", test_port(0), 3);
	side_expect(&side, "uuu");
	ck_assert_int_eq(side_reply(&side, "me"), 0);
	udp_expect(fd, "me");
	side_close(&side);
	close(fd);
}
END_TEST

/* A slip of the pen beside a name that is right: named, and the rest works. */
START_TEST(multicast__interface_that_is_not_there_is_named)
{
	struct side side;

	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = "nosuch0,lo";
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "multicast on lo; there is no nosuch0"));
	ck_assert_ptr_nonnull(strstr(side.remedy, "RIPC_INTERFACES"));
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "nosuch0"));
	ck_assert_int_eq(side_ask(&side, 5, "who"), 1);
	side_close(&side);
	side.host.interfaces = "a_name_longer_than_any_interface_has_0123456789";
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "there is no a_name_longer"));
}
END_TEST

START_TEST(open__without_descriptors_says_so_and_leaves_none)
{
	open_without_descriptors(&ripc__multicast_source, NULL);
}
END_TEST

/* ---- in a network of its own: lo alone, or not even that --------------------------------- */

/* Asks until so many interfaces carry the query: they are looked for once a second. */
static void ask_until(struct side *side, int reached)
{
	for (int i = 0; i < PATIENCE_MS / 50 && side_ask(side, 5, "who") != reached; i++)
		poll(NULL, 0, 50);
	ck_assert_int_eq(side_ask(side, 5, "who"), reached);
}

/* Reads what the source reports of changes, until nothing is left. Returns how often. */
static uint32_t read_changes(struct side *side)
{
	uint32_t n = 0;

	for (; side_poll(side); n++)
		ck_assert_int_eq(side->event.kind, RIPC_SOURCE_REHOMED);
	return n;
}

/* The source learns of it by itself, and then the group is joined. */
static void expect_rehomed(struct side *side, int reached)
{
	struct pollfd fd = {.fd = side->ops->wait_fd(side->state), .events = POLLIN};
	uint32_t n = 0;

	while (n == 0) {
		ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
		n = read_changes(side);
	}
	ck_assert_int_eq(side_ask(side, 5, "who"), reached);
	while (reached && side_poll(side) == 0)
		;
}

START_TEST(multicast__reports_interfaces_that_come_and_go)
{
	struct side side;

	lo_set(false);
	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = NULL;
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_int_eq(side_poll(&side), 0);
	lo_set(true);
	expect_rehomed(&side, 1);
	lo_set(false);
	expect_rehomed(&side, 0);
	side_close(&side);
}
END_TEST

START_TEST(multicast__notices_when_lo_comes_and_goes)
{
	struct side side;

	lo_set(false);
	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = NULL;
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.remedy, "lo up"));
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "no interface"));
	lo_set(true);
	read_changes(&side);
	ask_until(&side, 1);
	side_expect(&side, "who");
	ck_assert(side.event.group);
	lo_set(false);
	ask_until(&side, 0);
	lo_set(true);
	ask_until(&side, 1);
	side_close(&side);
}
END_TEST

/* The log and the report name the first interface that is not used. */
START_TEST(multicast__names_interfaces_that_are_left_out)
{
	struct side side;

	lo_set(false);
	ck_assert_int_eq(system("for i in $(seq 129); do "
		"ip link add many$i type veth peer name end$i && ip link set many$i up && "
		"ip address add 10.77.$i.1/24 dev many$i || exit 1; done"), 0);
	side_init(&side, &ripc__multicast_source);
	side.host.interfaces = NULL;
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.remedy, "many129"));
	ck_assert_ptr_nonnull(strstr(side.remedy, "RIPC_INTERFACES"));
	ck_assert_int_eq(side_try(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.logged, "many129"));
	side_close(&side);
	side.host.interfaces = "many129,many128";
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_str_eq(side.remedy, "");
	ck_assert_ptr_nonnull(strstr(side.why, "many129"));
}
END_TEST

static bool cables_possible(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(unshare(CLONE_NEWNET) != 0 ||
			system("ip link add many0 type veth peer name end0 2>/dev/null") != 0);
	waitpid(child, &status, 0);
	return status == 0;
}

/* ---- over IPv6: two interfaces of a network of its own, that are joined by a cable ------- */

static bool run(const char *command)
{
	return system(command) == 0;
}

/* A fixture: a pair of interfaces, v6a and v6b, each the other end of the other. */
static void two_interfaces(void)
{
	own_network();
	ck_assert(run("sysctl -qw net.ipv6.conf.default.accept_dad=0"));
	ck_assert(run("ip link add v6a type veth peer name v6b"));
	ck_assert(run("ip link set v6a up"));
	ck_assert(run("ip link set v6b up"));
}

static bool two_interfaces_possible(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		_exit(unshare(CLONE_NEWNET) != 0 ||
			!run("ip link add v6a type veth peer name v6b 2>/dev/null") ||
			!run("ip address add fd98::1/64 dev v6a nodad 2>/dev/null") ||
			!run("sysctl -qw net.ipv6.conf.default.accept_dad=0 2>/dev/null"));
	waitpid(child, &status, 0);
	return status == 0;
}

static void side_open_at(struct side *side, const char *interface)
{
	side_init(side, &ripc__multicast_source);
	side->host.interfaces = interface;
	ck_assert_int_eq(side_try(side), 0);
}

static void expect_from(const struct side *side, const char *address)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, side->event.host, text, sizeof(text));
	ck_assert_str_eq(text, address);
}

/* The kernel routes to a new IPv6 address a moment after "ip address add" has returned. */
static void wait_for_route(const char *address)
{
	char command[128];
	int i = 0;

	snprintf(command, sizeof(command), "ip -6 route show table local | grep -q 'local %.*s '",
		(int)strcspn(address, "/"), address);
	while (!run(command))
		ck_assert_int_lt(i++, 1000);
}

static void give(const char *interface, const char *address, const char *how)
{
	char command[128];

	snprintf(command, sizeof(command), "ip address add %s dev %s %s", address, interface, how);
	ck_assert(run(command));
	if (strstr(how, "nodad"))
		wait_for_route(address);
}

/* Two hosts with IPv6 alone. */
START_TEST(multicast__over_ipv6_alone)
{
	struct side holder, asker, *heard;

	give("v6a", "fd98::1/64", "nodad");
	give("v6b", "fd98::2/64", "nodad");
	side_open_at(&holder, "v6b");
	side_open_at(&asker, "v6a");
	ck_assert_int_eq(side_ask(&asker, 5, "who"), 1);
	expect_datagram(&holder, "who");
	ck_assert(holder.event.group && !holder.event.local);
	expect_from(&holder, "fd98::1");
	expect_datagram(&asker, "who"); /* no lo: it comes back */
	ck_assert_int_eq(side_reply(&holder, "me"), 0);
	expect_datagram(&asker, "me");
	ck_assert(!asker.event.group);
	/* Both sockets listen on this host's port. The response by v6a was not for the owner. */
	ck_assert_int_eq(asker.ops->ask_host(asker.state, asker.event.host, "you", 3), 1);
	heard = first_to_hear(&asker, &holder);
	ck_assert_uint_eq(heard->event.len, 3);
	ck_assert_mem_eq(heard->event.data, "you", 3);
	ck_assert(!heard->event.group);
	ck_assert(!next_datagram(&holder));
	ck_assert_int_eq(side_probe(&asker), 0);
	ck_assert_ptr_nonnull(strstr(asker.why, "v6a (IPv6)"));
	ck_assert_str_eq(asker.logged, "");
	side_close(&holder);
	side_close(&asker);
}
END_TEST

/* RFC 6724, section 5: neither a link-local source for a wider scope, nor a deprecated one. */
START_TEST(multicast__over_ipv6_the_source_is_no_link_local_address)
{
	static const char *const first[] = {"fd98::7/64", "2001:db8::7/64"};
	struct side holder, asker;

	give("v6b", "fd98::2/64", "nodad");
	ck_assert(run("ip -6 address show dev v6a scope link | grep -q fe80"));
	give("v6a", "fd98::8/64", "nodad preferred_lft 0");
	give("v6a", first[_i], "nodad");
	side_open_at(&holder, "v6b");
	side_open_at(&asker, "v6a");
	ck_assert_int_eq(side_ask(&asker, 5, "who"), 1);
	expect_datagram(&holder, "who");
	expect_from(&holder, _i ? "2001:db8::7" : "fd98::7");
	side_close(&holder);
	side_close(&asker);
}
END_TEST

/* A query goes out over IPv6 when it is asked again; a notice at once. */
START_TEST(multicast__with_both_families_ipv4_is_first)
{
	struct side six, both, asker;

	give("v6a", "fd98::1/64", "nodad");
	give("v6a", "10.98.0.1/24", "");
	give("v6b", "fd98::2/64", "nodad");
	side_open_at(&six, "v6b");
	side_open_at(&asker, "v6a");
	ck_assert_int_eq(side_ask(&asker, 5, "one"), 1);
	ck_assert_int_eq(side_ask_again(&asker, 5, "two"), 2);
	expect_datagram(&six, "two");
	expect_datagram(&asker, "one");
	expect_datagram(&asker, "two"); /* back over IPv4 alone */
	ck_assert_int_eq(asker.ops->notify(asker.state, "news", 4), 2);
	expect_datagram(&six, "news");
	expect_datagram(&asker, "news");
	ck_assert(!next_datagram(&asker));
	give("v6b", "10.98.0.2/24", "");
	side_open_at(&both, "v6b");
	ck_assert_int_eq(side_ask(&both, 5, "who"), 1);
	ck_assert_int_eq(side_ask_again(&both, 5, "who"), 2);
	side_close(&both);
	side_close(&six);
	side_close(&asker);
}
END_TEST

/* Queries about others are dropped by the kernel, over IPv6 as over IPv4. */
START_TEST(multicast__filters_over_ipv6)
{
	struct side holder, asker;
	uint32_t n = 0;

	give("v6a", "fd98::1/64", "nodad");
	side_open_at(&holder, "v6b");
	holder.ops->heed(holder.state, KNOWN(1), false);
	give("v6b", "fd98::2/64", "nodad"); /* the sockets are younger than the filter */
	expect_rehomed(&holder, 1);
	side_open_at(&asker, "v6a");
	for (uint64_t other = 1; other <= 30; other++)
		ask_about(&asker, other << 50 | other * 77);
	ask_about(&asker, KNOWN(1));
	ask_about(&asker, 0);
	while (heard_about(&holder))
		n++;
	ck_assert_uint_ge(n, 1);
	ck_assert_uint_le(n, 4); /* other services may have the same hash */
	side_close(&holder);
	side_close(&asker);
}
END_TEST

/* The kernel checks the address for a duplicate first: it is used, and reported, after that. */
START_TEST(multicast__waits_for_an_ipv6_address_that_is_checked)
{
	struct side side;

	ck_assert(run("sysctl -qw net.ipv6.conf.v6a.accept_dad=1 net.ipv6.conf.all.accept_dad=1"));
	side_open_at(&side, "v6a");
	give("v6a", "fd98::1/64", "");
	ck_assert_int_eq(side_ask(&side, 5, "who"), 0);
	ck_assert_uint_eq(read_changes(&side), 0);
	expect_rehomed(&side, 1);
	side_close(&side);
}
END_TEST

static TCase *six_tests(void)
{
	TCase *tcase = tcase_create("multicast over IPv6");

	tcase_add_checked_fixture(tcase, two_interfaces, NULL);
	tcase_set_timeout(tcase, 60);
	if (!two_interfaces_possible()) {
		puts("skipped: IPv6 (needs a network namespace, veth, ip and sysctl)");
		return tcase;
	}
	tcase_add_test(tcase, multicast__over_ipv6_alone);
	tcase_add_loop_test(tcase, multicast__over_ipv6_the_source_is_no_link_local_address, 0, 2);
	tcase_add_test(tcase, multicast__with_both_families_ipv4_is_first);
	tcase_add_test(tcase, multicast__filters_over_ipv6);
	tcase_add_test(tcase, multicast__waits_for_an_ipv6_address_that_is_checked);
	return tcase;
}

int main(void)
{
	const TTest *const tests[] = {
		multicast__query_reaches_all_and_the_answer_one,
		multicast__queries_about_others_are_not_heard,
		multicast__notices_are_heard_by_who_looks_for_others,
		multicast__digests_are_heard_by_those_named,
		multicast__digests_of_kin_are_heard,
		multicast__unicast_reaches_one_and_is_no_group,
		multicast__answers_from_the_address_that_was_asked,
		multicast__junk_is_passed_over,
		multicast__options_that_make_no_sense,
		multicast__port_that_another_program_holds,
		multicast__without_interface_still_answers_unicast,
		multicast__interface_that_is_not_there_is_named,
		open__without_descriptors_says_so_and_leaves_none,
	};
	TCase *tcase = tcase_create("multicast");
	int ipv4, ipv6;

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	tcase_add_loop_test(tcase, multicast__another_group_and_port, 0,
		kernel_runs(kernel_lacks_multicast_all(), "multicast__another_group_and_port", 1));
	tcase_add_checked_fixture(tcase, own_network, NULL);
	if (own_network_possible()) {
		tcase_add_test(tcase, multicast__notices_when_lo_comes_and_goes);
		tcase_add_test(tcase, multicast__reports_interfaces_that_come_and_go);
		if (kernel_runs(cables_possible() ? NULL : "no veth interfaces",
				"multicast__names_interfaces_that_are_left_out", 1))
			tcase_add_test(tcase, multicast__names_interfaces_that_are_left_out);
	} else {
		puts("skipped: interfaces that come and go (needs a network namespace)");
	}
	tcase_set_timeout(tcase, 60);
	ipv4 = suite_finish("multicast", tcase);
	ipv6 = suite_finish("multicast over IPv6", six_tests());
	return ipv4 ? ipv4 : ipv6;
}
