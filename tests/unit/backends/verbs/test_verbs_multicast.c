/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One datagram to many by the verbs backend: who gets it, who is refused, what is dropped, and what
 * becomes of the queue pair that hears. The network interfaces, and how many groups a socket may
 * join, are the test's own.
 */
#include "verbs_ends.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include "backends/verbs/internal.h"
#include "suite.h"

#define NUMBER 0x1234567890abcdefull
#define QKEY   0x72697063u
#define HEARD  VERBS_RING /* receives of the queue pair that hears */

/* On hosts .7 (us, and here), .8 and .9 of one network. */
static struct end us, here, left, right;
static struct end *const all[] = {&us, &here, &left, &right};
static struct verbs_route many;

static const char *mask = "255.255.255.0";
static uint32_t n_joined, joined_max;

int __wrap_getifaddrs(struct ifaddrs **list);
void __wrap_freeifaddrs(struct ifaddrs *list);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);

int __wrap_getifaddrs(struct ifaddrs **list)
{
	static struct sockaddr_in addrs[3], masks[3];
	static struct ifaddrs entries[4]; /* the last one has no address */

	for (int i = 0; i < 3; i++) {
		addrs[i] = (struct sockaddr_in){.sin_family = AF_INET,
			.sin_addr.s_addr = htonl(0x0a000007u + (uint32_t)i)};
		masks[i] = (struct sockaddr_in){.sin_family = AF_INET,
			.sin_addr.s_addr = inet_addr(mask)};
		entries[i + 1] = (struct ifaddrs){.ifa_addr = (struct sockaddr *)&addrs[i],
			.ifa_netmask = (struct sockaddr *)&masks[i],
			.ifa_next = i < 2 ? &entries[i + 2] : NULL};
	}
	entries[0].ifa_next = &entries[1];
	*list = entries;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	(void)fd;
	(void)value;
	ck_assert_int_eq(level, IPPROTO_IP);
	ck_assert_uint_eq(len, sizeof(struct ip_mreqn));
	if (option == IP_DROP_MEMBERSHIP) {
		n_joined--;
		return 0;
	}
	ck_assert_int_eq(option, IP_ADD_MEMBERSHIP);
	if (n_joined == joined_max) {
		errno = ENOBUFS;
		return -1;
	}
	n_joined++;
	return 0;
}

static void open_on(struct end *end, uint8_t host)
{
	fake_verbs.gids[1].gid.raw[15] = host;
	ck_assert_int_eq(end_open(end), 0);
}

static void begin(void)
{
	ends_begin();
	mask = "255.255.255.0";
	n_joined = 0;
	joined_max = 20;
	open_on(&us, 7);
	open_on(&here, 7);
	open_on(&left, 8);
	open_on(&right, 9);
	ck_assert_int_eq(end_route(&us, &left), 0);
	ck_assert_int_eq(end_route(&here, &left), 0);
	ck_assert_int_eq(end_route(&left, &us), 0);
	ck_assert_int_eq(end_route(&right, &us), 0);
	memset(&many, 0, sizeof(many));
}

static void finish(void)
{
	if (many.path)
		BACKEND->route.close(&us.port, &many);
	for (uint32_t i = 0; i < 4; i++)
		end_close(all[i]);
	ck_assert_uint_eq(fake_verbs.n_attached, 0);
	ends_finish();
}

static int open_many(void)
{
	return BACKEND->multicast.open(&us.port, &many, &us.peer, NUMBER);
}

static int hear(struct end *end, uint64_t number)
{
	return BACKEND->multicast.hear(&end->port, &end->peer, number);
}

static int send_by(const struct verbs_route *peer, char byte)
{
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct ripc__tx tx = {.iov = &iov, .n_iov = 1, .len = 1};

	return BACKEND->datagrams.send(&us.port, (void *)peer, &tx, 1);
}

/* Polls one end: the first event, with its bytes given back; -1: nothing. */
static int take(struct end *end, struct ripc__event *event)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	int n = BACKEND->datagrams.poll(&end->port, events, RIPC_EVENTS_MAX, false), byte;

	if (n == 0)
		return -1;
	ck_assert_int_eq(n, 1);
	ck_assert(events[0].kind == RIPC_EV_DATAGRAM || events[0].kind == RIPC_EV_MULTICAST);
	ck_assert_uint_eq(events[0].len, 1);
	byte = events[0].data[0];
	*event = events[0];
	BACKEND->datagrams.release(&end->port, events[0].handle);
	return byte;
}

/* The end got that byte from us, once, by a datagram to many or to itself. */
static void got(struct end *end, char byte, bool was_many)
{
	struct ripc__event event;

	ck_assert_int_eq(take(end, &event), byte);
	ck_assert_int_eq(event.kind, was_many ? RIPC_EV_MULTICAST : RIPC_EV_DATAGRAM);
	ck_assert(BACKEND->route.matches(&end->port, &end->peer, event.from));
	ck_assert_int_eq(take(end, &event), -1);
}

static void got_nothing(struct end *end)
{
	struct ripc__event event;

	ck_assert_int_eq(take(end, &event), -1);
}

static void break_many(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ck_assert_int_eq(ibv_modify_qp(left.port.multicast.qp, &attr, IBV_QP_STATE), 0);
	for (uint32_t i = 0; i < HEARD; i++)
		end_move(&left);
}

START_TEST(send__one_reaches_all_who_hear)
{
	begin();
	ck_assert_int_eq(open_many(), 0);
	ck_assert_uint_eq(BACKEND->route.mtu(&us.port, &many), 4096 - VERBS_PREAMBLE);
	for (uint32_t i = 0; i < 4; i++) {
		ck_assert_int_eq(hear(all[i], NUMBER), 0);
		ck_assert_int_eq(hear(all[i], NUMBER), 0);
	}
	ck_assert_uint_eq(n_joined, 4);
	fake_verbs.n_datagrams = 0;
	ck_assert_int_eq(send_by(&many, 'a'), 1);
	ck_assert_uint_eq(fake_verbs.n_datagrams, 1);
	got(&left, 'a', true);
	got(&right, 'a', true);
	got_nothing(&us);
	got_nothing(&here);
	ck_assert_int_eq(send_by(&us.peer, 'b'), 1);
	got(&left, 'b', false);
	ck_assert_int_eq(send_by(&many, 'c'), 1);
	got(&left, 'c', true);
	got(&right, 'c', true);
	finish();
}
END_TEST

START_TEST(ignore__ends_it)
{
	begin();
	ck_assert_int_eq(open_many(), 0);
	BACKEND->multicast.ignore(&left.port, NUMBER);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(hear(&left, NUMBER + 1), 0);
	ck_assert_int_eq(hear(&right, NUMBER), 0);
	BACKEND->multicast.ignore(&left.port, NUMBER);
	ck_assert_uint_eq(n_joined, 2);
	ck_assert_int_eq(send_by(&many, 'a'), 1);
	got_nothing(&left);
	got(&right, 'a', true);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(send_by(&many, 'b'), 1);
	got(&left, 'b', true);
	finish();
}
END_TEST

/* Each of several numbers with the same address can be ignored for itself; also after a failure. */
START_TEST(ignore__numbers_of_one_group)
{
	uint64_t other = NUMBER;
	uint8_t gid[16], other_gid[16];

	begin();
	ripc__verbs_multicast_gid(NUMBER, gid);
	do
		ripc__verbs_multicast_gid(++other, other_gid);
	while (memcmp(gid, other_gid, sizeof(gid)) != 0);
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(hear(&left, other), 0);
	ck_assert_uint_eq(n_joined, 1);
	break_many();
	BACKEND->multicast.ignore(&left.port, NUMBER);
	ck_assert_int_eq(send_by(&many, 'a'), 1);
	got(&left, 'a', true);
	BACKEND->multicast.ignore(&left.port, other);
	ck_assert_int_eq(send_by(&many, 'b'), 1);
	got_nothing(&left);
	ck_assert_uint_eq(n_joined, 0);
	ck_assert_uint_eq(fake_verbs.n_attached, 0);
	finish();
}
END_TEST

START_TEST(open_and_hear__who_cannot_be_reached)
{
	static const int errors[] = {-EHOSTUNREACH, -EHOSTUNREACH, -EADDRNOTAVAIL, -EOPNOTSUPP,
		-EOPNOTSUPP};

	begin();
	end_close(&us);
	switch (_i) {
	case 0: /* on our own host */
		open_on(&us, 8);
		break;
	case 1: /* in another network */
		mask = "255.255.255.254";
		open_on(&us, 7);
		break;
	case 2: /* without a network interface that we see */
		open_on(&us, 6);
		break;
	case 3:
		end_close(&left);
		fake_verbs.gids[1].gid.raw[0] = 0xfd; /* IPv6 */
		open_on(&us, 7);
		open_on(&left, 8);
		break;
	case 4:
		end_close(&left);
		fake_verbs.gids[1].gid_type = IBV_GID_TYPE_ROCE_V1;
		open_on(&us, 7);
		open_on(&left, 8);
		break;
	}
	ck_assert_int_eq(end_route(&us, &left), 0);
	ck_assert_int_eq(open_many(), errors[_i]);
	ck_assert_int_eq(hear(&us, NUMBER), errors[_i]);
	ck_assert_ptr_null(many.path);
	ck_assert_uint_eq(n_joined, 0);
	finish();
}
END_TEST

/* As many groups as a socket may join, or as there is room for; then an error, and nothing else. */
START_TEST(hear__so_many)
{
	uint32_t most = _i ? VERBS_NUMBERS : 20;

	begin();
	joined_max = _i ? 1000 : 20;
	for (uint32_t i = 0; i < most; i++)
		ck_assert_int_eq(hear(&left, NUMBER + i), 0);
	ck_assert_int_eq(hear(&left, NUMBER + most), _i ? -ENOSPC : -ENOBUFS);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_uint_eq(fake_verbs.n_attached, most);
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(send_by(&many, 'a'), 1);
	got(&left, 'a', true);
	BACKEND->multicast.ignore(&left.port, NUMBER + 1);
	ck_assert_int_eq(hear(&left, NUMBER + most), 0);
	finish();
}
END_TEST

/* After any failure, nothing is left, and the next attempt works. */
START_TEST(hear__each_step_fails)
{
	uint32_t failed = 0;

	begin();
	ck_assert_int_eq(open_many(), 0);
	for (int call = 0; call < FAKE_CALLS; call++) {
		for (uint32_t skip = 0; skip < 40; skip++) {
			uint32_t live = fake_verbs_live();
			int error;

			fake_verbs.fail[call].skip = skip;
			fake_verbs_fail(call, 1, EIO);
			error = hear(&left, NUMBER);
			fake_verbs.fail[call].skip = fake_verbs.fail[call].n = 0;
			failed += error != 0;
			ck_assert_uint_eq(n_joined, error == 0);
			ck_assert_uint_eq(fake_verbs.n_attached, error == 0);
			ck_assert(left.port.multicast.is_open || fake_verbs_live() == live);
			n_joined = 0; /* closing the socket leaves the groups */
			end_close(&left);
			open_on(&left, 8);
			ck_assert_int_eq(end_route(&left, &us), 0);
		}
	}
	ck_assert_uint_ge(failed, 6);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(send_by(&many, 'a'), 1);
	finish();
}
END_TEST

/* Datagrams of others to a queue pair whose Q_Key all know. */
START_TEST(poll__junk)
{
	struct verbs_route direct;
	struct verbs_link link;
	const struct verbs_setup setup = {.type = VERBS_REFUSE, .nonce = 1};

	begin();
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	/* To it alone. */
	direct = us.peer;
	direct.qpn = left.port.multicast.qp->qp_num;
	direct.qkey = QKEY;
	ck_assert_int_eq(send_by(&direct, 'a'), 1);
	got_nothing(&left);
	/* A message about a connection, to all. */
	link = (struct verbs_link){.port = &us.port, .path = many.path,
		.remote = {.qpn = many.qpn, .qkey = many.qkey}};
	ripc__verbs_setup_send(&link, &setup);
	got_nothing(&left);
	fake_verbs.corrupt_datagrams = true;
	ck_assert_int_eq(send_by(&many, 'b'), 1);
	got_nothing(&left);
	fake_verbs.corrupt_datagrams = false;
	ck_assert_uint_eq(fake_verbs.n_dropped, 0);
	ck_assert_int_eq(send_by(&many, 'c'), 1);
	got(&left, 'c', true);
	finish();
}
END_TEST

/* Core holds what it gets: datagrams to many are dropped, and those to one alone arrive. */
START_TEST(poll__much_is_held)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	void *handles[HEARD];
	uint32_t n = 0;

	begin();
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	for (uint32_t i = 0; i < HEARD * 3; i++) {
		ck_assert_int_eq(send_by(&many, 'a'), 1);
		if (BACKEND->datagrams.poll(&left.port, events, RIPC_EVENTS_MAX, false) == 1)
			handles[n++] = events[0].handle;
	}
	ck_assert_uint_eq(n, HEARD / 2);
	ck_assert_int_eq(send_by(&many, 'b'), 1);
	ck_assert_int_eq(send_by(&us.peer, 'c'), 1);
	got(&left, 'c', false);
	while (n)
		BACKEND->datagrams.release(&left.port, handles[--n]);
	got_nothing(&left);
	ck_assert_int_eq(send_by(&many, 'd'), 1);
	got(&left, 'd', true);
	finish();
}
END_TEST

/*
 * More than a poll takes: none is lost, and none waits for another one to come. All buffers for
 * datagrams to one have been used before, so that nothing in them tells the ones from the others.
 */
START_TEST(poll__by_two_and_two)
{
	struct ripc__event events[2];
	uint32_t came = 0;

	begin();
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	for (uint32_t i = 0; i < VERBS_RING * 2; i++) {
		ck_assert_int_eq(send_by(&us.peer, 'a'), 1);
		end_move(&left);
	}
	for (int i = 0; i < 7; i++)
		ck_assert_int_eq(send_by(i % 2 ? &us.peer : &many, 'a'), 1);
	while (BACKEND->net.arm(&left.port) == -EAGAIN) {
		int n = BACKEND->datagrams.poll(&left.port, events, 2, false);

		for (int i = 0; i < n; i++, came++) {
			ck_assert_int_eq(events[i].kind,
				came % 2 ? RIPC_EV_DATAGRAM : RIPC_EV_MULTICAST);
			BACKEND->datagrams.release(&left.port, events[i].handle);
		}
	}
	ck_assert_uint_eq(came, 7);
	finish();
}
END_TEST

START_TEST(wait__is_woken)
{
	struct pollfd fd;

	begin();
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(BACKEND->net.arm(&left.port), 0);
	fd = (struct pollfd){.fd = left.attr.fd, .events = POLLIN};
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	ck_assert_int_eq(send_by(&many, 'a'), 1);
	ck_assert_int_eq(poll(&fd, 1, 0), 1);
	got(&left, 'a', true);
	finish();
}
END_TEST

/* The queue pair fails: another one takes its place, with the same groups; but not for ever. */
START_TEST(poll__queue_pair_fails)
{
	begin();
	ck_assert_int_eq(open_many(), 0);
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(hear(&left, NUMBER + 1), 0);
	for (int i = 0; i < 9; i++) {
		break_many();
		ck_assert_int_eq(send_by(&many, 'a'), 1);
		got(&left, 'a', true);
	}
	ck_assert_str_eq(end_log, "");
	break_many();
	ck_assert_ptr_nonnull(strstr(end_log, "multicast"));
	ck_assert_int_eq(send_by(&many, 'b'), 1);
	got_nothing(&left);
	ck_assert_int_eq(hear(&left, NUMBER + 2), -EIO);
	BACKEND->multicast.ignore(&left.port, NUMBER);
	ck_assert_int_eq(send_by(&us.peer, 'c'), 1);
	got(&left, 'c', false);
	finish();
}
END_TEST

START_TEST(poll__queue_pair_cannot_be_brought_back)
{
	static const enum fake_call calls[] = {FAKE_CREATE_QP, FAKE_MODIFY_QP, FAKE_POST_RECV,
		FAKE_ATTACH, FAKE_ATTACH};

	begin();
	ck_assert_int_eq(hear(&left, NUMBER), 0);
	ck_assert_int_eq(hear(&left, NUMBER + 1), 0);
	fake_verbs.fail[calls[_i]].skip = _i == 1 ? 2 : _i == 4;
	fake_verbs_fail(calls[_i], 1, EIO);
	break_many();
	ck_assert_ptr_nonnull(strstr(end_log, "multicast"));
	ck_assert_int_eq(hear(&left, NUMBER + 2), -EIO);
	ck_assert_int_eq(send_by(&us.peer, 'c'), 1);
	got(&left, 'c', false);
	finish();
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{send__one_reaches_all_who_hear, 1},
		{ignore__ends_it, 1},
		{ignore__numbers_of_one_group, 1},
		{open_and_hear__who_cannot_be_reached, 5},
		{hear__so_many, 2},
		{hear__each_step_fails, 1},
		{poll__junk, 1},
		{poll__much_is_held, 1},
		{poll__by_two_and_two, 1},
		{wait__is_woken, 1},
		{poll__queue_pair_fails, 1},
		{poll__queue_pair_cannot_be_brought_back, 5},
		{NULL, 0},
	};

	return suite_run_loops("verbs_multicast", tests);
}
