/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The static resolver source: its list of peers, and asking them; with whole resolvers, how a
 * query to one process of a host finds another one.
 */
#include <time.h>

#include "core/resolve/resolver.h"
#include "core/wire/record.h"
#include "resolvers/internal.h"
#include "sources.h"

static int static_try(struct side *side, const char *peers)
{
	side_init(side, &ripc__static_source);
	side->host.peers = peers;
	return side_try(side);
}

START_TEST(static__asks_each_peer_once)
{
	int first = udp_open("127.0.0.1", test_port(0));
	int second = udp_open("127.0.0.1", test_port(1));
	char peers[100];
	struct side side;

	snprintf(peers, sizeof(peers), " 127.0.0.1 ,, localhost:%d,127.0.0.1:%d,", test_port(1),
		test_port(1));
	ck_assert_int_eq(static_try(&side, peers), 0);
	ck_assert_int_eq(side_ask(&side, 5, "who"), 2);
	udp_expect(first, "who");
	udp_expect(second, "who");
	ck_assert_int_eq(side.ops->notify(side.state, "news", 4), 2);
	udp_expect(first, "news");
	udp_expect(second, "news");
	close(first);
	close(second);
	side_close(&side);
}
END_TEST

START_TEST(static__the_answer_comes_back)
{
	struct side listener, asker;

	side_open(&listener, &ripc__multicast_source);
	ck_assert_int_eq(static_try(&asker, "127.0.0.1"), 0);
	ck_assert_int_eq(side_ask(&asker, 5, "who"), 1);
	side_expect(&listener, "who");
	ck_assert(!listener.event.group);
	ck_assert_int_eq(side_reply(&listener, "me"), 0);
	side_expect(&asker, "me");
	expect_loopback(asker.event.host);
	ck_assert_int_eq(side_reply(&asker, "thanks"), 0);
	side_expect(&listener, "thanks");
	side_close(&asker);
	side_close(&listener);
}
END_TEST

/* One of many listeners gets a query, and which one depends on the port it came from. */
START_TEST(static__asks_from_four_ports_in_turn)
{
	int peer = udp_open("127.0.0.1", test_port(0));
	struct sockaddr_in from[8];
	struct side asker;

	ck_assert_int_eq(static_try(&asker, "127.0.0.1"), 0);
	for (int i = 0; i < 8; i++) {
		socklen_t len = sizeof(from[i]);
		char bytes[4];

		ck_assert_int_eq(side_ask(&asker, 5, "who"), 1);
		ck_assert_int_eq(recvfrom(peer, bytes, sizeof(bytes), 0,
			(struct sockaddr *)&from[i], &len), 3);
		for (int k = 0; k < i; k++)
			ck_assert_int_eq(from[k].sin_port == from[i].sin_port, k == i - 4);
	}
	for (int i = 0; i < 4; i++) {
		udp_send(peer, "127.0.0.1", ntohs(from[i].sin_port), 3);
		side_expect(&asker, "uuu");
	}
	close(peer);
	side_close(&asker);
}
END_TEST

START_TEST(static__entries_that_cannot_be_used_are_named)
{
	static const char *const wrong[] = {"127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:",
		"127.0.0.1:x", ":80", "127.0.0.1:1:2", "127.0.0.1: 80", "127.0.0.1:+80"};
	char peers[64];
	struct side side;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(peers, sizeof(peers), "127.0.0.1,%s,127.0.0.2", wrong[i]);
		ck_assert_int_eq(static_try(&side, peers), -EINVAL);
		ck_assert_ptr_nonnull(strstr(side.logged, wrong[i]));
		ck_assert_int_eq(side_probe(&side), -EINVAL);
		ck_assert_ptr_nonnull(strstr(side.why, wrong[i]));
		ck_assert_ptr_nonnull(strstr(side.remedy, "RIPC_PEERS"));
	}
}
END_TEST

START_TEST(static__ipv6_is_refused_as_such)
{
	static const char *const wrong[] = {"::1", "[::1]", "[fe80::1]:80", "2001:db8::7",
		"fe80::1%lo", "::ffff:127.0.0.1"};
	struct side side;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(static_try(&side, wrong[i]), -EINVAL);
		ck_assert_ptr_nonnull(strstr(side.logged, wrong[i]));
		ck_assert_ptr_nonnull(strstr(side.logged, "IPv4 only"));
	}
}
END_TEST

START_TEST(static__more_than_256_peers_are_refused)
{
	char peers[4096];
	struct side side;
	size_t len = 0;

	for (int i = 0; i < 256; i++)
		len += (size_t)snprintf(peers + len, sizeof(peers) - len, "127.0.%d.%d,", i / 100,
			1 + i % 100);
	ck_assert_int_eq(static_try(&side, peers), 0);
	side_close(&side);
	snprintf(peers + len, sizeof(peers) - len, "127.9.9.9");
	ck_assert_int_eq(static_try(&side, peers), -EINVAL);
	ck_assert_ptr_nonnull(strstr(side.logged, "127.9.9.9"));
}
END_TEST

START_TEST(static__without_peers_does_nothing)
{
	struct side side;

	ck_assert_int_eq(static_try(&side, NULL), 0);
	ck_assert_int_eq(side_ask(&side, 5, "who"), 0);
	ck_assert_int_eq(side.ops->wait_fd(side.state), -1);
	ck_assert_int_eq(side_poll(&side), 0);
	ck_assert_int_eq(side_probe(&side), -ENOENT);
	ck_assert_ptr_nonnull(strstr(side.remedy, "RIPC_PEERS"));
	side.host.peers = "127.0.0.1,127.0.0.2";
	ck_assert_int_eq(side_probe(&side), 0);
	ck_assert_ptr_nonnull(strstr(side.why, "2 addresses"));
	side_close(&side);
}
END_TEST

/*
 * The place of a peer tells who has answered: none moves while queries are under way. To find
 * "127.1", which is a name here, no /etc/hosts is needed.
 */
START_TEST(peers__keep_their_places)
{
	static struct peers peers, newer;

	ck_assert_int_eq(ripc__peers_read("127.0.0.1:1,127.0.0.2,127.0.0.3:3", 9, &peers), 0);
	ck_assert(!peers.has_names);
	ck_assert_int_eq(ripc__peers_read("127.0.0.3:3,127.0.0.1:1", 9, &newer), 0);
	ripc__peers_update(&peers, &newer);
	ck_assert_uint_eq(peers.n, 2);
	ck_assert_uint_eq(peers.n_places, 3);
	ck_assert_uint_eq(ntohs(peers.addresses[0].sin_port), 1);
	ck_assert_uint_eq(peers.addresses[1].sin_port, 0);
	ck_assert_uint_eq(ntohs(peers.addresses[2].sin_port), 3);
	ck_assert_int_eq(ripc__peers_read("127.0.0.4:4,127.0.0.5:5,127.0.0.3:3,127.1", 9,
		&newer), 0);
	ck_assert(newer.has_names);
	ripc__peers_update(&peers, &newer);
	ck_assert_uint_eq(peers.n, 4);
	ck_assert_uint_eq(ntohs(peers.addresses[0].sin_port), 4);
	ck_assert_uint_eq(ntohs(peers.addresses[1].sin_port), 5);
	ck_assert_uint_eq(ntohs(peers.addresses[2].sin_port), 3);
	ck_assert_uint_eq(ntohs(peers.addresses[3].sin_port), 9);
	ck_assert_uint_eq(peers.n_places, 4);
}
END_TEST

/* ---- whole resolvers --------------------------------------------------------------------- */

#define NODE_PROOF 0x9700f000u

/* One context's resolver over real sources, with a service if it has an incarnation. */
struct node {
	struct ripc__resolver *resolver;
	struct side side; /* for its options */
	uint64_t context, incarnation;
	int published, resolved; /* -EINPROGRESS: not yet */
	struct ripc__answer answer;
	uint64_t asker;
	uint8_t asker_host[16];
};

static uint64_t node_random(void *arg)
{
	static uint64_t state = 42;

	(void)arg;
	return suite_random(&state);
}

static uint64_t node_proof(void *arg, uint64_t asker, const uint8_t host[16])
{
	struct node *node = arg;

	node->asker = asker;
	memcpy(node->asker_host, host, 16);
	return NODE_PROOF + asker;
}

static int node_record(void *arg, uint64_t id, struct wire_record *record)
{
	const struct node *node = arg;

	*record = (struct wire_record){.id = id, .incarnation = node->incarnation, .stamp = 7,
		.context = node->context, .n_addrs = 1, .addrs = {{.backend = 1, .len = 4}}};
	return node->incarnation ? 0 : -ENOENT;
}

static uint32_t node_ids(void *arg, uint64_t *ids, uint32_t max)
{
	const struct node *node = arg;

	if (max)
		ids[0] = test_id(0);
	return node->incarnation ? 1 : 0;
}

static void node_resolved(void *arg, uint64_t id, int status, const struct ripc__answer *answer)
{
	struct node *node = arg;

	ck_assert_uint_eq(id, test_id(0));
	node->resolved = status;
	if (answer)
		node->answer = *answer;
}

static void node_published(void *arg, uint64_t id, int status)
{
	ck_assert_uint_eq(id, test_id(0));
	((struct node *)arg)->published = status;
}

static bool node_moved(void *arg, uint64_t id, uint64_t incarnation)
{
	(void)arg;
	(void)id;
	(void)incarnation;
	return false;
}

static void node_told(void *arg, uint64_t id, uint64_t incarnation)
{
	(void)arg;
	(void)id;
	(void)incarnation;
}

static void node_open(struct node *node, const struct ripc__source *const *sources,
		const char *peers, uint64_t incarnation)
{
	static uint64_t contexts = 100;
	const struct ripc__resolver_owner owner = {.arg = node, .context = ++contexts,
		.random = node_random, .proof = node_proof, .record = node_record,
		.ids = node_ids, .resolved = node_resolved, .published = node_published,
		.conflict = node_told, .moved = node_moved};

	side_init(&node->side, NULL);
	node->side.host.peers = peers;
	node->context = contexts;
	node->incarnation = incarnation;
	node->published = node->resolved = -EINPROGRESS;
	ck_assert_int_eq(ripc__resolver_open(&owner, &node->side.host, sources,
		&node->resolver), 0);
}

static uint64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* Lets all nodes work, asleep in between, until *status is known. */
static void run_until_known(struct node *nodes, int n, const int *status)
{
	uint64_t end_us = clock_us() + PATIENCE_MS * 1000u;

	while (*status == -EINPROGRESS && clock_us() < end_us) {
		struct pollfd waited[32];
		int fds[8], n_waited = 0;

		for (int i = 0; i < n; i++) {
			int n_fds = ripc__resolver_fds(nodes[i].resolver, fds, 8);

			ripc__resolver_step(nodes[i].resolver, clock_us());
			for (int k = 0; k < n_fds; k++)
				waited[n_waited++] = (struct pollfd){fds[k], POLLIN, 0};
		}
		poll(waited, (nfds_t)n_waited, 1);
	}
}

static void node_publish(struct node *node)
{
	ripc__resolver_publish(node->resolver, test_id(0), false, clock_us());
	run_until_known(node, 1, &node->published);
}

static int node_lookup(struct node *node, struct node *nodes, int n)
{
	const struct ripc__answer *answer;
	int status = ripc__resolver_lookup(node->resolver, test_id(0), clock_us(), &answer);

	ck_assert_int_eq(status, -EINPROGRESS);
	run_until_known(nodes, n, &node->resolved);
	return node->resolved;
}

static void nodes_close(struct node *nodes, int n)
{
	for (int i = 0; i < n; i++)
		ripc__resolver_close(nodes[i].resolver);
}

/* A query as a process of another user, or in another network namespace, would send it. */
static const struct ripc__source *const far_sources[] = {&ripc__static_source, NULL};
/* A holder whom only its own host's processes can reach. */
static const struct ripc__source *const near_sources[] = {&ripc__local_source, NULL};
static const struct ripc__source *const all_sources[] = {&ripc__local_source,
	&ripc__multicast_source, &ripc__static_source, NULL};

START_TEST(resolvers__a_peer_asks_its_host_for_us)
{
	enum { ASKER, LISTENER, HOLDER, N };
	struct node nodes[N];

	node_open(&nodes[ASKER], far_sources, "127.0.0.1", 0);
	node_open(&nodes[LISTENER], all_sources, NULL, 0);
	node_open(&nodes[HOLDER], near_sources, NULL, 5);
	node_publish(&nodes[HOLDER]);
	ck_assert_int_eq(nodes[HOLDER].published, 0);
	ck_assert_int_eq(node_lookup(&nodes[ASKER], nodes, N), 0);
	ck_assert_uint_eq(nodes[ASKER].answer.record.incarnation, 5);
	ck_assert_uint_eq(nodes[ASKER].answer.record.context, nodes[HOLDER].context);
	ck_assert_str_eq(nodes[ASKER].answer.source, "static");
	/* The proof is the asker's own, for the address that it asked from. */
	ck_assert_uint_eq(nodes[ASKER].answer.proof, NODE_PROOF + nodes[ASKER].context);
	ck_assert_uint_eq(nodes[HOLDER].asker, nodes[ASKER].context);
	expect_loopback(nodes[HOLDER].asker_host);
	nodes_close(nodes, N);
}
END_TEST

START_TEST(resolvers__find_each_other_by_every_source)
{
	static const struct ripc__source *const by_multicast[] = {&ripc__multicast_source, NULL};
	static const struct {
		const struct ripc__source *const *sources;
		const char *peers, *name;
	} ways[] = {{near_sources, NULL, "local"}, {by_multicast, NULL, "multicast"},
		{far_sources, "127.0.0.1", "static"}};
	struct node nodes[2];

	node_open(&nodes[0], all_sources, "127.0.0.1", 5);
	node_publish(&nodes[0]);
	ck_assert_int_eq(nodes[0].published, 0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		node_open(&nodes[1], ways[i].sources, ways[i].peers, 0);
		ck_assert_int_eq(node_lookup(&nodes[1], nodes, 2), 0);
		ck_assert_str_eq(nodes[1].answer.source, ways[i].name);
		ck_assert_uint_eq(nodes[1].answer.record.incarnation, 5);
		ck_assert(nodes[1].answer.local);
		ripc__resolver_close(nodes[1].resolver);
	}
	nodes_close(nodes, 1);
}
END_TEST

START_TEST(resolvers__an_id_is_registered_once)
{
	struct node nodes[2];

	node_open(&nodes[0], all_sources, NULL, 5);
	node_publish(&nodes[0]);
	ck_assert_int_eq(nodes[0].published, 0);
	node_open(&nodes[1], all_sources, NULL, 6);
	ripc__resolver_publish(nodes[1].resolver, test_id(0), false, clock_us());
	run_until_known(nodes, 2, &nodes[1].published);
	ck_assert_int_eq(nodes[1].published, -EADDRINUSE);
	ripc__resolver_withdraw(nodes[0].resolver, test_id(0), 5);
	nodes[0].incarnation = 0;
	nodes[1].published = -EINPROGRESS;
	ripc__resolver_publish(nodes[1].resolver, test_id(0), false, clock_us());
	run_until_known(nodes, 2, &nodes[1].published);
	ck_assert_int_eq(nodes[1].published, 0);
	nodes_close(nodes, 2);
}
END_TEST

START_TEST(resolvers__a_silent_holder_is_displaced)
{
	struct node nodes[3];

	node_open(&nodes[0], near_sources, NULL, 5);
	node_publish(&nodes[0]);
	ck_assert_int_eq(nodes[0].published, 0);
	node_open(&nodes[1], near_sources, NULL, 6);
	/* The first one does not work any more, as if it had died and left a child. */
	node_publish(&nodes[1]);
	ck_assert_int_eq(nodes[1].published, 0);
	node_open(&nodes[2], near_sources, NULL, 0);
	ck_assert_int_eq(node_lookup(&nodes[2], nodes + 1, 2), 0);
	ck_assert_uint_eq(nodes[2].answer.record.incarnation, 6);
	nodes_close(nodes, 3);
}
END_TEST

START_TEST(open__without_descriptors_says_so_and_leaves_none)
{
	open_without_descriptors(&ripc__static_source, "127.0.0.1");
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		static__asks_each_peer_once,
		static__the_answer_comes_back,
		static__asks_from_four_ports_in_turn,
		static__entries_that_cannot_be_used_are_named,
		static__ipv6_is_refused_as_such,
		static__more_than_256_peers_are_refused,
		static__without_peers_does_nothing,
		peers__keep_their_places,
		resolvers__a_peer_asks_its_host_for_us,
		resolvers__find_each_other_by_every_source,
		resolvers__an_id_is_registered_once,
		resolvers__a_silent_holder_is_displaced,
		open__without_descriptors_says_so_and_leaves_none,
	};
	TCase *tcase = tcase_create("static");

	tcase_add_checked_fixture(tcase, own_network, NULL);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tcase, tests[i]);
	return suite_finish("static", tcase);
}
