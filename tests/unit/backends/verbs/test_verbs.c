/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs backend where calls of the device fail: opening at each step, sending, receiving, what
 * happens to the device, and how a device is chosen.
 */
#include "verbs_ends.h"

#include <sys/resource.h>

#include "backends/verbs/internal.h"
#include "suite.h"

static struct end left, right;

static int probe(char why[256], char remedy[256])
{
	return BACKEND->net.probe(end_host(), why, remedy);
}

START_TEST(probe__says_what_is_missing)
{
	char why[256], remedy[256];

	ends_begin();
	ck_assert_int_eq(probe(why, remedy), 0);
	ck_assert_str_eq(why, "fake0 port 1, RoCE v2, MTU 4096, GID index 1");
	ck_assert_str_eq(remedy, "");
	fake_verbs.no_device = true;
	ck_assert_int_eq(probe(why, remedy), -ENODEV);
	ck_assert_ptr_nonnull(strstr(why, "no InfiniBand or RoCE device"));
	ck_assert_ptr_nonnull(strstr(remedy, "rxe"));
	fake_verbs_reset();
	fake_verbs.transport = IBV_TRANSPORT_IWARP;
	ck_assert_int_eq(probe(why, remedy), -ENODEV);
	fake_verbs_reset();
	fake_verbs.port_down = true;
	ck_assert_int_eq(probe(why, remedy), -ENETDOWN);
	ck_assert_ptr_nonnull(strstr(why, "no link"));
	fake_verbs_reset();
	memset(fake_verbs.gids, 0, sizeof(fake_verbs.gids));
	ck_assert_int_eq(probe(why, remedy), -EADDRNOTAVAIL);
	fake_verbs_reset();
	fake_verbs_fail(FAKE_OPEN_DEVICE, 1, EACCES);
	ck_assert_int_eq(probe(why, remedy), -EACCES);
	ck_assert_ptr_nonnull(strstr(remedy, "ib_uverbs"));
	ends_finish();
}
END_TEST

START_TEST(probe__takes_what_is_named)
{
	static const struct {
		const char *name, *value;
		int error;
	} cases[] = {
		{"verbs.device", "fake0", 0}, {"verbs.device", "fake0:1", 0},
		{"verbs.device", "fake0:2", -ENODEV}, {"verbs.device", "other", -ENODEV},
		{"verbs.gid_index", "1", 0}, {"verbs.gid_index", "2", -EADDRNOTAVAIL},
		{"verbs.gid_index", "x", -EINVAL}, {"verbs.receives", "63", -EINVAL},
		{"verbs.receives", "64", 0}, {"verbs.connections", "1", -EINVAL},
	};
	char why[256], remedy[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *options[] = {cases[i].name, cases[i].value, NULL};

		ends_begin();
		end_options = options;
		ck_assert_msg(probe(why, remedy) == cases[i].error, "%s=%s: %s", cases[i].name,
			cases[i].value, why);
		ends_finish();
	}
}
END_TEST

START_TEST(gid_rank__prefers_ipv4_over_v2)
{
	struct ibv_gid_entry entry = {.gid_type = IBV_GID_TYPE_ROCE_V1};
	int v1, link_local, global, v4;

	entry.gid.raw[0] = 0xfe;
	entry.gid.raw[1] = 0x80;
	v1 = ripc__rdma_gid_rank(&entry);
	entry.gid_type = IBV_GID_TYPE_ROCE_V2;
	link_local = ripc__rdma_gid_rank(&entry);
	entry.gid.raw[1] = 0x00;
	global = ripc__rdma_gid_rank(&entry);
	memcpy(entry.gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1", 16);
	v4 = ripc__rdma_gid_rank(&entry);
	ck_assert(0 < v1 && v1 < link_local && link_local < global && global < v4);
}
END_TEST

/* After any failure, all is given back, and the next attempt works. */
START_TEST(open__each_step_fails)
{
	uint32_t failed = 0;

	ends_begin();
	for (int call = 0; call < FAKE_CALLS; call++) {
		for (uint32_t skip = 0; skip < 40; skip++) {
			fake_verbs.fail[call].skip = skip;
			fake_verbs_fail(call, 1, EIO);
			if (end_open(&left) == 0)
				end_close(&left);
			else
				failed++;
			ck_assert_uint_eq(fake_verbs_live(), 0);
			if (fake_verbs.fail[call].n)
				break; /* there are not so many calls */
		}
		fake_verbs.fail[call].n = 0;
	}
	ck_assert_uint_ge(failed, 10);
	ck_assert_int_eq(end_open(&left), 0);
	end_close(&left);
	ends_finish();
}
END_TEST

/* With less memory than wished for there are fewer buffers, and the log says why. */
START_TEST(open__little_locked_memory)
{
	struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};

	ends_begin();
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	fake_verbs_fail(FAKE_REG_MR, 2, _i ? EPERM : ENOMEM);
	ck_assert_int_eq(end_open(&left), 0);
	ck_assert_uint_eq(left.port.ring.count, VERBS_RING / 4);
	ck_assert_ptr_nonnull(strstr(end_log, "RLIMIT_MEMLOCK is 1048576 bytes"));
	ck_assert_ptr_nonnull(strstr(end_log, "ulimit -l"));
	end_close(&left);
	fake_verbs.fail[FAKE_REG_MR].n = 100;
	ck_assert_int_eq(end_open(&left), -ENOMEM);
	ends_finish();
}
END_TEST

START_TEST(peer_open__no_way)
{
	ends_begin();
	ck_assert_int_eq(end_open(&left), 0);
	ck_assert_int_eq(end_open(&right), 0);
	fake_verbs_fail(FAKE_CREATE_AH, 1, ETIMEDOUT);
	ck_assert_int_eq(end_route(&left, &right), -ETIMEDOUT);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	BACKEND->route.close(&left.port, &left.peer);
	left.peer.path = NULL;
	/* The failure is remembered for a while. */
	ck_assert_int_eq(end_route(&left, &right), -ETIMEDOUT);
	end_close(&right);
	end_close(&left);
	ends_finish();
}
END_TEST

/* As many as come back at once, in batches. */
static void move_all(struct end *end)
{
	for (uint32_t i = 0; i <= VERBS_RING / VERBS_BATCH + 1; i++)
		end_move(end);
}

/* The number of datagrams that have come to the right. */
static void send_until(uint32_t n)
{
	for (uint32_t i = 0; i < 5000 && right.n_datagrams < n; i++) {
		(void)end_send(&left, 1, 10);
		end_move(&right);
	}
	ck_assert_uint_ge(right.n_datagrams, n);
}

static void settle(void)
{
	ends_settle((struct end *[]){&left, &right}, 2);
}

/*
 * The neighbour's hardware address changes: when the way is opened again, or after a while, what is
 * sent arrives again. Datagrams under way by the old handle at that time keep it alive.
 */
START_TEST(peer_open__neighbour_has_moved)
{
	struct verbs_route other = {0};
	struct ripc__addr addr;

	ends_open(&left, &right);
	fake_verbs.slow_sends = _i % 2;
	fake_verbs.stale_ahs = fake_verbs.n_ahs;
	ck_assert_int_eq(end_send(&left, 5, 10), 5);
	clock_pass(_i < 2 ? 6000000 : 61000000);
	end_addr(&right, &addr);
	if (_i < 2)
		ck_assert_int_eq(BACKEND->route.open(&left.port, &other, &addr), 0);
	for (int i = 0; i < 1024 && _i >= 2; i++)
		end_move(&left);
	settle();
	ck_assert_int_eq(end_send(&left, 32, 10), 32);
	ck_assert_int_eq(end_send(&left, 32, 10), 32);
	send_until(200);
	/* Once more: the first handle has gone. */
	clock_pass(6000000);
	if (other.path)
		BACKEND->route.close(&left.port, &other);
	ck_assert_int_eq(BACKEND->route.open(&left.port, &other, &addr), 0);
	settle();
	ck_assert_uint_eq(fake_verbs.n_ahs, 4);
	BACKEND->route.close(&left.port, &other);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The neighbour is unknown for the moment: the old way is used, as before. */
START_TEST(peer_open__neighbour_is_silent)
{
	struct verbs_route other;
	struct ripc__addr addr;

	ends_open(&left, &right);
	clock_pass(6000000);
	fake_verbs_fail(FAKE_CREATE_AH, 1, ETIMEDOUT);
	end_addr(&right, &addr);
	ck_assert_int_eq(BACKEND->route.open(&left.port, &other, &addr), 0);
	settle();
	ck_assert_uint_eq(fake_verbs.fail[FAKE_CREATE_AH].n, 0);
	ck_assert_int_eq(end_send(&left, 1, 10), 1);
	end_move(&right);
	ck_assert_uint_eq(right.n_datagrams, 1);
	BACKEND->route.close(&left.port, &other);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The last route is closed, and opened again, while what was sent by it is still under way. */
START_TEST(peer_close__sends_are_under_way)
{
	ends_open(&left, &right);
	fake_verbs.slow_sends = true;
	clock_pass(6000000);
	ck_assert_int_eq(end_send(&left, 3, 10), 3);
	BACKEND->route.close(&left.port, &left.peer);
	left.peer.path = NULL;
	ck_assert_int_eq(end_route(&left, &right), 0);
	settle();
	ck_assert_int_eq(end_send(&left, 32, 10), 32);
	send_until(200);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The last datagrams are sent. */
START_TEST(port_close__lets_all_go)
{
	ends_open(&left, &right);
	fake_verbs.slow_sends = true;
	ck_assert_int_eq(end_send(&left, 1 + (uint32_t)_i, 10), 1 + _i);
	end_close(&left);
	move_all(&right);
	ck_assert_uint_eq(right.n_datagrams, 1 + (uint32_t)_i);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The doorbell fails: nothing is known of the list, and nothing more can be sent. */
START_TEST(send__doorbell_fails)
{
	ends_open(&left, &right);
	ck_assert_int_eq(end_send(&left, 5, 10), 5);
	fake_verbs_fail(FAKE_DOORBELL, 1, EACCES);
	ck_assert_int_eq(end_send(&left, 20, 10), -ECONNRESET);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	move_all(&right);
	ck_assert_uint_eq(right.n_datagrams, 5);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* An answer to a stranger is kept until there is a way to it. */
START_TEST(send__while_the_way_is_looked_for)
{
	struct ripc__addr addr;

	ends_begin();
	ck_assert_int_eq(end_open(&left), 0);
	ck_assert_int_eq(end_open(&right), 0);
	end_addr(&right, &addr);
	ck_assert_int_eq(BACKEND->route.open(&left.port, &left.peer, &addr), -EINPROGRESS);
	ck_assert_int_eq(end_send(&left, 1, 100), 1);
	BACKEND->route.close(&left.port, &left.peer);
	left.peer.path = NULL;
	ends_settle((struct end *[]){&left, &right}, 2);
	ck_assert_uint_eq(left.n_events, 0);
	ck_assert_uint_eq(right.n_datagrams, 1);
	end_close(&right);
	end_close(&left);
	ends_finish();
}
END_TEST

START_TEST(send__device_is_short_of_memory)
{
	ends_open(&left, &right);
	fake_verbs_fail(FAKE_POST_SEND, 1, ENOMEM);
	ck_assert_int_eq(end_send(&left, 5, 100), 0);
	/* In the middle of a list: those before are sent. */
	for (uint32_t i = 0; i < 100; i++) {
		fake_verbs.fail[FAKE_POST_SEND].n = 1;
		fake_verbs.fail[FAKE_POST_SEND].skip = 1 + i % 31;
		ck_assert_int_eq(end_send(&left, 32, 100), (int)(1 + i % 31));
		end_move(&right);
	}
	fake_verbs_fail(FAKE_POST_SEND, 1, EINVAL);
	ck_assert_int_eq(end_send(&left, 5, 100), -ECONNRESET);
	ck_assert_int_eq(end_send(&left, 5, 100), 5);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* Inline or not, the queue and its completions stay within their bounds; posted in lists. */
START_TEST(send__many)
{
	uint32_t sent = 0, posts;

	ends_open(&left, &right);
	posts = fake_verbs.n_posts;
	for (uint32_t i = 0; i < 3000; i++) {
		int n = end_send(&left, 1 + i % 40, i % 2 ? 20 : 4000);

		ck_assert_int_gt(n, 0);
		sent += (uint32_t)n;
		end_move(&right);
	}
	ck_assert_uint_eq(right.n_datagrams, sent);
	ck_assert_uint_eq(fake_verbs.n_posts - posts, 3000);
	ck_assert_uint_lt(fake_verbs.n_recv_posts, sent / 16);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* Events are of the first context that was opened. */
START_TEST(send__port_goes_down_and_up)
{
	ends_open(&left, &right);
	fake_verbs.port_down = true;
	fake_verbs_event(IBV_EVENT_PORT_ERR);
	BACKEND->net.arm(&left.port);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	fake_verbs.port_down = false;
	/* The same address as before, or another one, or a link-local one. */
	fake_verbs.gids[1].gid.raw[15] += (uint8_t)(_i == 1);
	if (_i == 2)
		memset(&fake_verbs.gids[1], 0, sizeof(fake_verbs.gids[1]));
	fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
	BACKEND->net.arm(&left.port);
	ck_assert_int_eq(end_send(&left, 1, 10), _i == 2 ? -ECONNRESET : 1);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The left one's address at index 1 is taken away, and then it has one at index 2. */
static void move_address(uint8_t last_byte)
{
	const struct ibv_gid_entry had = fake_verbs.gids[1];
	uint8_t blob[RIPC_ADDR_MAX];

	memset(&fake_verbs.gids[1], 0, sizeof(fake_verbs.gids[1]));
	fake_verbs_event(IBV_EVENT_GID_CHANGE);
	BACKEND->net.arm(&left.port);
	ck_assert_int_eq(BACKEND->net.address(&left.port, blob), -EADDRNOTAVAIL);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	fake_verbs.gids[2] = had;
	fake_verbs.gids[2].gid.raw[15] = last_byte;
	fake_verbs_event(IBV_EVENT_GID_CHANGE);
	BACKEND->net.arm(&left.port);
	ck_assert_int_gt(BACKEND->net.address(&left.port, blob), 0);
	ck_assert_mem_eq(blob + 16, &fake_verbs.gids[2].gid, 16);
}

/* Datagrams then go by the new index, also where the way is looked for at that moment. */
START_TEST(send__address_has_moved)
{
	uint8_t last_byte;

	ends_open(&left, &right);
	last_byte = (uint8_t)(fake_verbs.gids[1].gid.raw[15] + _i % 2);
	if (_i >= 2) {
		clock_pass(61000000);
		for (int i = 0; i < 1024; i++)
			end_move(&left);
	}
	move_address(last_byte);
	for (int i = 0; i < 5000 && right.n_datagrams < 3; i++) {
		(void)end_send(&left, 1, 10);
		settle();
		end_move(&right);
	}
	ck_assert_uint_ge(right.n_datagrams, 3);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

START_TEST(send__device_is_gone)
{
	uint8_t blob[RIPC_ADDR_MAX];

	ends_open(&left, &right);
	fake_verbs_event(IBV_EVENT_DEVICE_FATAL);
	BACKEND->net.arm(&left.port);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	ck_assert_int_eq(BACKEND->net.address(&left.port, blob), -ENETDOWN);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* A sleeping end is not kept awake by a dead queue pair. */
START_TEST(wait_arm__device_was_taken_away)
{
	struct pollfd fd = {.events = POLLIN};

	ends_open(&left, &right);
	ck_assert_int_eq(BACKEND->net.arm(&left.port), 0);
	ck_assert_int_eq(end_send(&right, 1, 10), 1); /* the channel is readable */
	fake_verbs_event(IBV_EVENT_DEVICE_FATAL);
	fake_verbs.taken_away = true;
	for (int i = 0; i < 5; i++) {
		end_move(&left);
		BACKEND->net.arm(&left.port);
	}
	fd.fd = left.attr.fd;
	ck_assert_int_eq(BACKEND->net.arm(&left.port), 0);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	BACKEND->net.wake(&left.port);
	BACKEND->net.wait(&left.port);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

static void break_qp(struct end *end)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	ibv_modify_qp(end->port.qp, &attr, IBV_QP_STATE);
}

static void *wait_for_left(void *arg)
{
	(void)arg;
	BACKEND->net.wait(&left.port);
	return NULL;
}

/* Waiting and sending threads do not touch the same data: for the thread sanitizer. */
START_TEST(wait__while_a_send_fails)
{
	pthread_t thread;

	ends_open(&left, &right);
	ck_assert_int_eq(BACKEND->net.arm(&left.port), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_left, NULL), 0);
	fake_verbs_fail(FAKE_DOORBELL, 1, EIO);
	ck_assert_int_eq(end_send(&left, 1, 10), -ECONNRESET);
	BACKEND->net.wake(&left.port);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The datagram queue pair fails: it comes back with the number that it had. */
START_TEST(poll__queue_pair_fails)
{
	uint32_t qpn;

	ends_open(&left, &right);
	qpn = right.port.qp->qp_num;
	for (uint32_t turn = 1; turn < 5; turn++) {
		break_qp(&right);
		move_all(&right);
		ck_assert(right.port.failed == (turn > 1));
		clock_pass(100000); /* before it comes back again so soon */
		move_all(&right);
		ck_assert_int_eq(end_send(&left, 3, 10), 3);
		ck_assert_int_eq(end_send(&right, 2, 4000), 2);
		move_all(&right);
		move_all(&left);
		ck_assert_uint_eq(right.n_datagrams, 3 * turn);
		ck_assert_uint_eq(left.n_datagrams, 2 * turn);
	}
	ck_assert_uint_eq(right.port.qp->qp_num, qpn);
	ck_assert_uint_eq(right.n_events, 0);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* An end that polls once and hears nothing may sleep: by then all receives have come back. */
START_TEST(poll__queue_pair_fails_and_nobody_hears)
{
	struct ripc__event events[RIPC_EVENTS_MAX];

	ends_open(&left, &right);
	ck_assert_uint_gt(right.port.ring.count, 2 * VERBS_BATCH);
	break_qp(&right);
	ck_assert_int_eq(BACKEND->datagrams.poll(&right.port, events, RIPC_EVENTS_MAX, false), 0);
	ck_assert_uint_eq(right.port.failures, 1);
	ck_assert(!right.port.failed);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* Nobody polled for long, and what came before hides the receives that have come back. */
START_TEST(poll__queue_pair_has_failed_long_ago)
{
	struct ripc__event events[RIPC_EVENTS_MAX];

	ends_open(&left, &right);
	ck_assert_int_eq(end_send(&left, 1, 10), 1);
	ripc__verbs_qp_failed(&right.port);
	clock_pass(1100000);
	ck_assert_int_eq(BACKEND->datagrams.poll(&right.port, events, RIPC_EVENTS_MAX, false), 1);
	BACKEND->datagrams.release(&right.port, events[0].handle);
	ck_assert(!right.port.rdma->is_lost);
	move_all(&right);
	ck_assert(!right.port.failed);
	ck_assert_int_eq(end_send(&left, 1, 10), 1);
	move_all(&right);
	ck_assert_uint_eq(right.n_datagrams, 1);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* The queue pair is to come back at a time that passes just before its reader goes to sleep. */
START_TEST(wait__until_the_queue_pair_comes_back)
{
	ends_open(&left, &right);
	for (int turn = 0; turn < 2; turn++) {
		break_qp(&right);
		move_all(&right);
	}
	ck_assert(right.port.failed);
	clock_pass(100000);
	(void)BACKEND->net.arm(&right.port);
	ck_assert_uint_ne(right.port.due_us, UINT64_MAX);
	move_all(&right);
	ck_assert(!right.port.failed);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* Again and again, but each time the link is gone for a moment: it is not given up. */
START_TEST(poll__queue_pair_fails_with_its_link)
{
	ends_open(&left, &right);
	for (uint32_t turn = 0; turn < 30; turn++) {
		fake_verbs.port_down = _i; /* or the device tells of it too late */
		break_qp(&left);
		move_all(&left);
		fake_verbs.port_down = true;
		if (turn % 15 == 14 || !_i)
			fake_verbs_event(IBV_EVENT_PORT_ERR);
		move_all(&left);
		if (turn % 15 == 14 || !_i) {
			fake_verbs.port_down = false;
			fake_verbs_event(IBV_EVENT_PORT_ACTIVE);
		}
		clock_pass(200000);
		move_all(&left);
	}
	ck_assert(!left.port.rdma->is_lost);
	ck_assert_int_eq(end_send(&left, 2, 10), 2);
	move_all(&right);
	ck_assert_uint_eq(right.n_datagrams, 2);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* A datagram that cannot be sent costs those behind it, and not the backend. */
START_TEST(send__fails_with_its_queue_pair)
{
	uint32_t sent = 0;

	ends_open(&left, &right);
	for (uint32_t i = 0; i < 200 && sent < 300; i++) {
		if (i == 3)
			fake_verbs.fail_datagrams = 1;
		sent += (uint32_t)end_send(&left, 20, 10);
		end_move(&left);
		end_move(&right);
	}
	ck_assert_uint_ge(sent, 300);
	ck_assert_uint_eq(left.port.failures, 1);
	ck_assert_uint_gt(right.n_datagrams, 150);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/*
 * Received datagrams that were not given back do not keep it from coming back; waiting ones are
 * sent.
 */
START_TEST(poll__queue_pair_fails_while_much_is_held)
{
	struct ripc__event events[RIPC_EVENTS_MAX];
	void *handles[VERBS_RING];
	uint32_t n = 0;

	ends_open(&left, &right);
	for (uint32_t i = 0; i < VERBS_RING / 32 - 4; i++) {
		int got;

		ck_assert_int_eq(end_send(&left, 32, 10), 32);
		got = BACKEND->datagrams.poll(&right.port, events, RIPC_EVENTS_MAX, false);
		for (int k = 0; k < got; k++)
			handles[n++] = events[k].handle;
	}
	ck_assert_uint_eq(n, VERBS_RING / 2);
	fake_verbs.fail_datagrams = 1;
	for (uint32_t i = 0; i <= VERBS_SENDS; i++)
		(void)end_send(&right, 1, 10);
	ck_assert_uint_eq(right.port.failures, 1);
	move_all(&right);
	ck_assert(!right.port.failed && !right.port.rdma->is_lost);
	while (n)
		BACKEND->datagrams.release(&right.port, handles[--n]);
	move_all(&right);
	ck_assert_uint_eq(right.n_datagrams, 0);
	ck_assert_int_eq(end_send(&left, 32, 10), 32);
	move_all(&right);
	ck_assert_uint_eq(right.n_datagrams, 32);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

/* A queue pair that fails repeatedly, or cannot be brought back, or whose receives do not come. */
START_TEST(poll__queue_pair_is_lost)
{
	uint32_t posts;

	ends_open(&left, &right);
	if (_i == 1) {
		fake_verbs.fail[FAKE_MODIFY_QP].skip = 2;
		fake_verbs_fail(FAKE_MODIFY_QP, 1, EIO);
	}
	fake_verbs.keep_receives = _i == 2;
	for (int i = 0; i < 20 && !right.port.rdma->is_lost; i++) {
		break_qp(&right);
		for (uint32_t k = 0; k <= VERBS_SENDS; k++)
			(void)end_send(&right, 1, 10);
		move_all(&right);
		clock_pass(200000);
		move_all(&right);
	}
	ck_assert_int_eq(end_send(&right, 1, 10), -ECONNRESET);
	ck_assert_ptr_nonnull(strstr(end_log, "queue pair"));
	/* Nobody is kept busy by what is posted and comes back. */
	posts = fake_verbs.n_recv_posts;
	move_all(&right);
	ck_assert_uint_eq(fake_verbs.n_recv_posts, posts);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

START_TEST(poll__receives_cannot_be_posted)
{
	uint32_t got;

	ends_open(&left, &right);
	fake_verbs.fail[FAKE_POST_RECV].n = UINT32_MAX;
	for (int i = 0; i < 30; i++) {
		ck_assert_int_gt(end_send(&left, 32, 10), 0);
		end_move(&right);
	}
	got = right.n_datagrams;
	ck_assert_uint_eq(got, VERBS_RING);
	fake_verbs.fail[FAKE_POST_RECV].n = 0;
	end_move(&right);
	ck_assert_int_eq(end_send(&left, 32, 10), 32);
	end_move(&right);
	ck_assert_uint_eq(right.n_datagrams, got + 32);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

START_TEST(poll__what_is_garbled_is_dropped)
{
	ends_open(&left, &right);
	fake_verbs.corrupt_datagrams = true;
	for (int i = 0; i < 50; i++) {
		ck_assert_int_eq(end_send(&left, 32, 10), 32);
		end_move(&right);
	}
	ck_assert_uint_eq(right.n_datagrams, 0);
	fake_verbs.corrupt_datagrams = false;
	ck_assert_int_eq(end_send(&left, 1, 10), 1);
	end_move(&right);
	ck_assert_uint_eq(right.n_datagrams, 1);
	end_close(&left);
	end_close(&right);
	ends_finish();
}
END_TEST

int main(void)
{
	const struct suite_loop tests[] = {
		{probe__says_what_is_missing, 1},
		{probe__takes_what_is_named, 1},
		{gid_rank__prefers_ipv4_over_v2, 1},
		{open__each_step_fails, 1},
		{open__little_locked_memory, 2},
		{peer_open__no_way, 1},
		{peer_open__neighbour_has_moved, 4},
		{peer_open__neighbour_is_silent, 1},
		{peer_close__sends_are_under_way, 1},
		{port_close__lets_all_go, 32},
		{send__doorbell_fails, 1},
		{send__while_the_way_is_looked_for, 1},
		{send__device_is_short_of_memory, 1},
		{send__many, 1},
		{send__port_goes_down_and_up, 3},
		{send__address_has_moved, 4},
		{send__device_is_gone, 1},
		{wait_arm__device_was_taken_away, 1},
		{wait__while_a_send_fails, 1},
		{poll__queue_pair_fails, 1}, {poll__queue_pair_fails_and_nobody_hears, 1},
		{poll__queue_pair_has_failed_long_ago, 1},
		{wait__until_the_queue_pair_comes_back, 1},
		{poll__queue_pair_fails_with_its_link, 2},
		{send__fails_with_its_queue_pair, 1},
		{poll__queue_pair_fails_while_much_is_held, 1},
		{poll__queue_pair_is_lost, 3},
		{poll__receives_cannot_be_posted, 1},
		{poll__what_is_garbled_is_dropped, 1},
		{NULL, 0},
	};

	return suite_run_loops("verbs", tests);
}
