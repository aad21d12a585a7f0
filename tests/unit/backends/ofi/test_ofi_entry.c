/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entries of libfabric's address vector, by its own EFA provider on the device made of software
 * (tests/support/softefa), which has two queue pairs here: who comes after another has the same
 * one.
 */
#include "ofi_world.h"
#include "suite.h"

#define LIVES 100u /* the provider (1.17) has room for 128 of its own host, ever */
#define LEN   200u

static struct end stays, comes;
static struct ofi_route routes[LIVES];

static void say(struct end *from, struct end *to, uint32_t number)
{
	ck_assert_int_eq(end_send(from, number, LEN), 1);
	ck_assert_uint_eq(end_number(to, from), number);
}

static void talk(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		say(&stays, &comes, i);
		say(&comes, &stays, i);
	}
}

/* Both ports have a route to the other. */
static void meet(bool stranger_first)
{
	end_open(&comes);
	if (stranger_first) {
		end_route(&comes, &stays);
		say(&comes, &stays, 7);
	}
	end_route(&stays, &comes);
	say(&stays, &comes, 8);
	if (!stranger_first)
		end_route(&comes, &stays);
}

static void leave(void)
{
	ripc__ofi_route_close(&comes.port, &comes.peer);
	end_close(&comes);
}

static uint32_t entries_of(const struct list *links)
{
	uint32_t n = 0;

	for (const struct list *node = links->next; node != links; node = node->next)
		n += list_entry(node, struct ofi_link, node)->has_entry;
	return n;
}

/* Time for what was asked to be answered. */
static void settle(uint32_t n_entries)
{
	struct ripc__event event;

	for (int turn = 0; turn < TURNS_MAX; turn++) {
		uint32_t n = entries_of(&stays.port.links) + entries_of(&stays.port.links_unused);

		if (n <= n_entries)
			return;
		while (ripc__ofi_poll(&stays.port, &event, 1, false) == 1)
			ck_assert_int_eq(event.kind, RIPC_EV_PEER);
		poll(NULL, 0, 1);
	}
	ck_abort_msg("the dead keep their entries");
}

/*
 * Many partners have the same queue pair, one after the other, while the routes to all of them stay
 * open.
 */
START_TEST(entry_make__after_the_dead)
{
	end_open(&stays);
	for (uint32_t life = 0; life < LIVES; life++) {
		meet(_i);
		talk(3);
		routes[life] = stays.peer;
		ck_assert(ripc__ofi_addr_same_place(&routes[0].link->addr,
			&routes[life].link->addr));
		settle(1);
		talk(3);
		leave();
	}
	for (uint32_t life = 0; life < LIVES; life++)
		ripc__ofi_route_close(&stays.port, &routes[life]);
	end_close(&stays);
}
END_TEST

/* The same where they are closed after the next one has come, in either order. */
START_TEST(entry_remove__older_and_newer)
{
	struct ofi_route before = {0};

	end_open(&stays);
	for (uint32_t life = 0; life < 10; life++) {
		meet(life % 2);
		if (before.link) {
			ripc__ofi_route_close(&stays.port, &before);
			ripc__ofi_links_trim(&stays.port, 0);
		}
		talk(20);
		before = stays.peer;
		leave();
	}
	ripc__ofi_route_close(&stays.port, &before);
	ripc__ofi_links_trim(&stays.port, 0);
	settle(0);
	end_close(&stays);
}
END_TEST

/* A newcomer at a place speaks before the end of its predecessor is known, and then goes on. */
START_TEST(entry_remove__beside_a_stranger)
{
	struct ripc__event event;

	end_open(&stays);
	meet(false);
	talk(2);
	leave();
	end_open(&comes);
	end_route(&comes, &stays);
	ck_assert_int_eq(end_send(&comes, 1, LEN), 1);
	end_next(&stays, &comes, &event);
	ck_assert_int_eq(event.kind, RIPC_EV_DATAGRAM);
	ripc__buffer_release(&stays.port, event.handle);
	ripc__ofi_route_close(&stays.port, &stays.peer);
	ripc__ofi_links_trim(&stays.port, 0);
	end_route(&stays, &comes);
	talk(20);
	ripc__ofi_route_close(&stays.port, &stays.peer);
	leave();
	end_close(&stays);
}
END_TEST

/* While libfabric has something of somebody dead there is no new route to him. */
START_TEST(peer_open__to_the_dead)
{
	struct ripc__event event;
	struct ofi_route again;
	struct ripc__addr addr;

	end_open(&stays);
	meet(false);
	talk(2);
	leave();
	addr = stays.peer.link->addr;
	for (uint32_t i = 0; i < 5; i++)
		ck_assert_int_eq(end_send(&stays, i, LEN), 1);
	while (!stays.peer.link->gone)
		ripc__ofi_poll(&stays.port, &event, 0, false);
	ck_assert_uint_gt(stays.peer.link->n_posted, 0);
	ck_assert_int_eq(ripc__ofi_route_open(&stays.port, &again, &addr), -EHOSTUNREACH);
	settle(0);
	ck_assert_int_eq(ripc__ofi_route_open(&stays.port, &again, &addr), 0);
	ripc__ofi_route_close(&stays.port, &again);
	ripc__ofi_route_close(&stays.port, &stays.peer);
	end_close(&stays);
}
END_TEST

/* Nobody has used a partner for long: it is there all the same. */
START_TEST(links_trim__living_partner)
{
	end_open(&stays);
	meet(false);
	talk(20);
	ripc__ofi_route_close(&stays.port, &stays.peer);
	ripc__ofi_links_trim(&stays.port, 0);
	say(&comes, &stays, 30);
	end_route(&stays, &comes);
	talk(20);
	ripc__ofi_route_close(&stays.port, &stays.peer);
	leave();
	end_close(&stays);
}
END_TEST

int main(void)
{
	TCase *tcase = tcase_create("ofi_entry");

	world_provider = "efa";
	if (!world_can())
		return SKIPPED;
	tcase_add_loop_test(tcase, entry_make__after_the_dead, 0, 2);
	tcase_add_test(tcase, entry_remove__older_and_newer);
	tcase_add_test(tcase, entry_remove__beside_a_stranger);
	tcase_add_test(tcase, peer_open__to_the_dead);
	tcase_add_test(tcase, links_trim__living_partner);
	return suite_finish("ofi_entry", tcase);
}
