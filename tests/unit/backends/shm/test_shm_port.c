/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports and links of the shm backend as a stranger meets them: one who connects and says
 * anything, one who hands out memory that is none, more senders than are looked at directly,
 * and a receiver that comes to its end.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/util/process.h"
#include "shm_sides.h"

static void expect_refused(const struct ripc__host *host)
{
	char why[256] = "", remedy[256] = "";
	struct ripc__attr attr = {.caps = 99};
	static struct shm_port port;

	ck_assert_int_eq(SHM->net.open(&port, host, &attr), -EINVAL);
	ck_assert_int_eq(SHM->net.probe(host, why, remedy), -EINVAL);
	ck_assert_uint_eq(attr.caps, 99);
}

START_TEST(open__refuses_wrong_options)
{
	static const char *const wrong[] = {"", "nobody-has-this-name", "1,2", "1:", ":1", "-1",
		"1x", "4294967295", "0:1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16", "root:any",
		"a-name-that-is-longer-than-any-that-useradd-and-groupadd-let-you-make"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct ripc__host host = host_with(wrong[i]);

		expect_refused(&host);
		host = host_with_gids(wrong[i]);
		expect_refused(&host);
	}
}
END_TEST

/* Only users are admitted all at once. */
START_TEST(open__any_is_no_group)
{
	struct ripc__host host = host_with_gids("any");

	expect_refused(&host);
}
END_TEST

START_TEST(open__refuses_an_unknown_host)
{
	struct ripc__host host = host_with(NULL);
	char why[256] = "", remedy[256] = "";
	struct ripc__attr attr;
	static struct shm_port port;

	host.identity = 0;
	ck_assert_int_eq(SHM->net.open(&port, &host, &attr), -ENODEV);
	ck_assert_int_eq(SHM->net.probe(&host, why, remedy), -ENODEV);
	ck_assert_uint_gt(strlen(remedy), 0);
}
END_TEST

START_TEST(addr_choose__refuses_other_hosts)
{
	struct ripc__addr addr = {.len = 1};
	uint8_t blob[RIPC_ADDR_MAX];

	ck_assert_int_eq(SHM->net.address(&left.port, blob), SHM_ADDR_LEN);
	ck_assert_int_eq(SHM->route.choose(&right.port, blob, SHM_ADDR_LEN, NULL, &addr), 0);
	addr.len = 1;
	blob[0] ^= 1;
	ck_assert_int_eq(SHM->route.choose(&right.port, blob, SHM_ADDR_LEN, NULL, &addr),
		-EHOSTUNREACH);
	ck_assert_uint_eq(addr.len, 1);
}
END_TEST

/* A partner with an invalid hello loses its link; others notice nothing. */
START_TEST(input__nonsense_ends_the_link)
{
	static const struct {
		uint8_t bytes[32];
		size_t len;
	} words[] = {
		{{1, 1}, 1},                     /* no head */
		{{1, 1}, 8},                     /* a hello without a name */
		{{1, 2}, 24},                    /* another version */
		{{1, 1, 1}, 24},                 /* fields that must be zero */
		{{3, 1, 0, 0, 1}, 9},            /* a datagram before hello */
		{{9, 1}, 8},                     /* an unknown type */
		{{2, 1}, 16},                    /* an offer, from a sender */
		{{4, 1}, 9},                     /* a wake with bytes */
	};
	struct shm_route peer;

	route(&left, &right, &peer);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		int fd = connect_raw(&right);

		ck_assert_int_eq(send(fd, words[i].bytes, words[i].len, 0), (int)words[i].len);
		ck_assert_int_eq(drain_all(&right), 0);
		ck_assert(is_closed(fd));
		close(fd);
		ck_assert_int_eq(send_byte(&left, &peer, (uint8_t)i), 1);
		expect_byte(&right, (uint8_t)i);
	}
	SHM->route.close(&left.port, &peer);
}
END_TEST

START_TEST(input__second_hello_ends_the_link)
{
	const uint8_t hello[24] = {1, 1, [8] = 5};
	int fd = connect_raw(&right);

	send(fd, hello, sizeof(hello), 0);
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, 1);
	send(fd, hello, sizeof(hello), 0);
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert(recv(fd, (uint8_t[16]){0}, 16, 0) == 16 && is_closed(fd));
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_uint_eq(right.port.n_ins, 0);
	close(fd);
}
END_TEST

/* A partner without a hello is not waited for; one that has said it is, however silent then. */
START_TEST(accept__silent_links_end)
{
	const uint8_t hello[24] = {1, 1, [8] = 5};
	int silent = connect_raw(&right), polite = connect_raw(&right);

	ck_assert_int_eq(send(polite, hello, sizeof(hello), 0), sizeof(hello));
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert(right.port.clock_runs);
	for (int strikes = 0; strikes < 10; strikes++) {
		ripc__shm_ins_strike(&right.port);
		ripc__shm_clock_strike(&right.port);
	}
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert(is_closed(silent));
	ck_assert(!is_closed(polite));
	ck_assert_uint_eq(right.port.n_ins, 1);
	ck_assert_uint_eq(right.port.n_silent, 0);
	close(silent);
	close(polite);
}
END_TEST

/* One process takes all that it can get: another is heard, and the application can open files. */
START_TEST(accept__from_who_wants_all)
{
	enum { FILES = 400, N = 120, SHARE = 67 };
	uint32_t n_before;
	int fds[N], child, status;
	struct side other;

	descriptors_limit(FILES);
	for (int i = 0; i < N; i++) {
		fds[i] = connect_raw(&right);
		drain_all(&right);
	}
	n_before = right.port.n_ins;
	ck_assert_uint_le(n_before, SHARE);
	child = fork();
	if (child == 0) {
		struct shm_route peer;

		side_open(&other, NULL);
		route(&other, &right, &peer);
		_exit(send_byte(&other, &peer, 77) != 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	expect_byte(&right, 77);
	for (int i = 0; i < N; i++)
		close(fds[i]);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ins, 0);
}
END_TEST

/* A receiver of our own making. Other runs of this program have other names. */
static int listen_as_stranger(uint8_t name[SHM_NAME_LEN])
{
	int listener;

	memset(name, 0, SHM_NAME_LEN);
	snprintf((char *)name, SHM_NAME_LEN, "%d", getpid());
	listener = ripc__shm_listen(name);
	ck_assert_int_ge(listener, 0);
	return listener;
}

/* A receiver that hands out no memory, or such as could be cut off, gets no link. */
START_TEST(out_input__refuses_bad_memory)
{
	uint8_t name[SHM_NAME_LEN];
	int listener = listen_as_stranger(name), fds[3], fd;
	struct shm_ring_offer offer = {0};
	struct ripc__addr addr;
	struct shm_route peer;

	ripc__shm_addr_fill(&left.port, name, &addr);
	ck_assert_int_eq(SHM->route.open(&left.port, &peer, &addr), 0);
	ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
	fd = accept(listener, NULL, NULL);
	ck_assert_int_eq(pipe(fds), 0);
	fds[2] = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fds[2], SHM_RING_LEN), 0);
	offer.ring_fd = fds[2];
	offer.board_fd = fds[0];
	offer.bits_fd = fds[1];
	ck_assert_int_eq(ripc__shm_send_offer(fd, &offer), 0);
	ck_assert_int_eq(send_byte(&left, &peer, 2), 1);
	ck_assert_int_eq(peer.out->state, SHM_EARLY);
	send(fd, "what?", 5, 0);
	ck_assert_int_eq(send_byte(&left, &peer, 3), 1);
	ck_assert_int_ne(peer.out->state, SHM_LINKED);
	SHM->route.close(&left.port, &peer);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(fd);
	close(listener);
}
END_TEST

/* A message of len bytes of zero that brings as many descriptors as are taken at once. */
static void send_descriptors(int fd, size_t len)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {0};
	struct iovec iov = {(uint8_t[8]){0}, len};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(4 * sizeof(int));
	memcpy(CMSG_DATA(c), (int[4]){fd, fd, fd, fd}, 4 * sizeof(int));
	ck_assert_int_eq(sendmsg(fd, &message, 0), (int)len);
}

/* Nobody can fill our table of descriptors; not even by messages that look like the end. */
START_TEST(input__unwanted_descriptors_are_closed)
{
	int before = descriptors_open();

	for (size_t len = 0; len <= 8; len += 8) {
		int fd = connect_raw(&right);

		send_descriptors(fd, len);
		ck_assert_int_eq(drain_all(&right), 0);
		ck_assert(is_closed(fd));
		close(fd);
		ck_assert_int_eq(descriptors_open(), before);
	}
}
END_TEST

START_TEST(out_input__unwanted_descriptors_are_closed)
{
	uint8_t name[SHM_NAME_LEN];
	int listener = listen_as_stranger(name), before = descriptors_open(), fd;
	struct ripc__addr addr;
	struct shm_route peer;

	ripc__shm_addr_fill(&left.port, name, &addr);
	for (size_t len = 0; len <= 8; len += 8) {
		ck_assert_int_eq(SHM->route.open(&left.port, &peer, &addr), 0);
		ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
		fd = accept(listener, NULL, NULL);
		send_descriptors(fd, len);
		drain_all(&left);
		ck_assert(is_closed(fd));
		SHM->route.close(&left.port, &peer);
		close(fd);
		ck_assert_int_eq(descriptors_open(), before);
	}
	close(listener);
}
END_TEST

/* More senders than are looked at one by one: each is heard, and the bits are asked. */
START_TEST(poll__many_senders)
{
	enum { N = 40, TURNS = 30 };
	static struct side sides[N];
	struct shm_route peers[N];

	for (int i = 0; i < N; i++) {
		side_open(&sides[i], NULL);
		route(&sides[i], &right, &peers[i]);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		int got = 0;

		for (int i = turn % 3; i < N; i += 1 + turn % 3)
			got -= send_byte(&sides[i], &peers[i], (uint8_t)i);
		for (int polls = 0; got < 0; polls++) {
			ck_assert_int_lt(polls, 100);
			got += drain(&right);
		}
		ck_assert_int_eq(got, 0);
	}
	ck_assert_int_eq(drain_all(&right), 0);
	ck_assert_uint_eq(right.port.n_rings, N);
	ck_assert_uint_eq(atomic_load(&right.port.board->crowded), 1);
	for (int i = 0; i < N; i++) {
		SHM->route.close(&sides[i].port, &peers[i]);
		side_close(&sides[i]);
	}
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_rings, 0);
	ck_assert_uint_eq(right.port.dev.ring_bytes, 0);
}
END_TEST

/* Polls, with one datagram in a ring each time, until a newcomer's comes over its socket, too. */
static int polls_until_newcomer(bool poll_all, useconds_t each_takes_us)
{
	struct stranger busy = stranger_linked(&right);
	struct shm_route newcomer;
	int polls = 0, got = 0;

	route(&left, &right, &newcomer);
	ck_assert_int_eq(send_byte(&left, &newcomer, 1), 1);
	right.port.polls = 0;
	right.port.look = false;
	right.port.look_all = poll_all;
	while (got <= polls && polls < 200) {
		stranger_write(&busy, (uint32_t)polls++, 1);
		usleep(each_takes_us);
		got += drain(&right);
	}
	SHM->route.close(&left.port, &newcomer);
	close(busy.fd);
	ripc__shm_segment_unmap(busy.ring, SHM_RING_LEN);
	return polls;
}

/*
 * An ended partner may have left a message in its socket: it is found though a ring is never empty.
 */
START_TEST(poll_all__looks_beside_a_busy_ring)
{
	ck_assert_int_le(polls_until_newcomer(true, 0), 2);
}
END_TEST

/* Few polls that take long: the newcomer waits no longer than a few of them. */
START_TEST(poll__newcomer_beside_long_messages)
{
	ck_assert_int_le(polls_until_newcomer(false, 5000), 20);
}
END_TEST

/* One of many clears the bits of all: nobody is forgotten, neither awake nor before sleeping. */
START_TEST(poll__bits_that_somebody_clears)
{
	enum { N = 12 };
	static struct side sides[N];
	struct shm_route peers[N];
	int got = 0;

	for (int i = 0; i < N; i++) {
		side_open(&sides[i], NULL);
		route(&sides[i], &right, &peers[i]);
		send_byte(&sides[i], &peers[i], 0);
		ck_assert_int_eq(drain_all(&right), 1);
	}
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(send_byte(&sides[i], &peers[i], 0), 1);
	atomic_store(&right.port.bits->rings[0].word, 0);
	ck_assert_int_eq(SHM->net.arm(&right.port), -EAGAIN);
	for (uint32_t polls = 0; polls <= SHM_SCAN_EVERY; polls++)
		got += drain(&right);
	ck_assert_int_eq(got, N);
	for (int i = 0; i < N; i++) {
		SHM->route.close(&sides[i].port, &peers[i]);
		side_close(&sides[i]);
	}
}
END_TEST

/* Messages put into the ring before the end are not lost. */
START_TEST(poll__last_words)
{
	struct shm_route peer;

	route(&left, &right, &peer);
	ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
	expect_byte(&right, 1);
	drain_all(&right);
	for (uint8_t i = 0; i < 10; i++)
		ck_assert_int_eq(send_byte(&left, &peer, i), 1);
	ck_assert_int_eq(peer.out->state, SHM_LINKED);
	SHM->route.close(&left.port, &peer);
	for (uint8_t i = 0; i < 10; i++)
		expect_byte(&right, i);
	drain_all(&right);
	ck_assert_uint_eq(right.port.n_ins, 0);
}
END_TEST

/* A partner that takes back its last words is not waited for. */
START_TEST(poll__last_words_taken_back)
{
	struct stranger stranger = stranger_linked(&right);

	stranger_write(&stranger, 0, 3);
	stranger_go(&stranger, &right);
	ck_assert_uint_eq(right.port.n_ins, 1);
	atomic_store(&stranger.ring->slots[0].word, 0);
	ck_assert_int_eq(drain(&right), 0);
	ck_assert_uint_eq(right.port.n_ins, 0);
	ck_assert_uint_eq(right.port.dev.ring_bytes, 0);
	ripc__shm_segment_unmap(stranger.ring, SHM_RING_LEN);
}
END_TEST

/* A partner that goes on writing after its end is heard no longer than its ring was long. */
START_TEST(poll__last_words_without_end)
{
	struct stranger stranger = stranger_linked(&right);
	uint32_t got = 0;

	stranger_write(&stranger, 0, SHM_SLOTS);
	stranger_go(&stranger, &right);
	for (int polls = 0; polls < 1000 && right.port.n_ins; polls++) {
		uint32_t n = (uint32_t)drain(&right);

		got += n;
		stranger_write(&stranger, got, SHM_SLOTS);
	}
	ck_assert_uint_ge(got, SHM_SLOTS);
	ck_assert_uint_lt(got, 2 * SHM_SLOTS);
	ck_assert_uint_eq(right.port.n_ins, 0);
	ripc__shm_segment_unmap(stranger.ring, SHM_RING_LEN);
}
END_TEST

/* A receiver that is gone: the sender is told, and nothing is left. */
START_TEST(send__to_who_is_gone)
{
	struct side gone;
	struct shm_route peer;

	side_open(&gone, NULL);
	route(&left, &gone, &peer);
	ck_assert_int_eq(send_byte(&left, &peer, 1), 1);
	expect_byte(&gone, 1);
	drain_all(&gone);
	ck_assert_int_eq(send_byte(&left, &peer, 2), 1);
	ck_assert_int_eq(peer.out->state, SHM_LINKED);
	side_close(&gone);
	for (int i = 0; i < 5; i++)
		drain(&left);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(send_byte(&left, &peer, 3), -ECONNRESET);
	ck_assert_int_eq(peer.out->state, SHM_DEAD);
	ck_assert_int_eq(peer.out->watch.fd, -1);
	SHM->route.close(&left.port, &peer);
}
END_TEST

/* A new route tries again, also while an earlier one that has failed is still open. */
START_TEST(peer_open__beside_a_dead_route)
{
	struct side gone;
	struct shm_route peer, again;
	struct ripc__addr addr;
	uint8_t name[SHM_NAME_LEN];
	int listener;

	side_open(&gone, NULL);
	route(&left, &gone, &peer);
	memcpy(name, gone.port.name, sizeof(name));
	side_close(&gone);
	ck_assert_int_eq(send_byte(&left, &peer, 1), -ECONNRESET);
	ck_assert_int_eq(peer.out->state, SHM_DEAD);
	listener = ripc__shm_listen(name);
	ck_assert_int_ge(listener, 0);
	ck_assert_int_eq(send_byte(&left, &peer, 2), -ECONNRESET);
	ripc__shm_addr_fill(&left.port, name, &addr);
	ck_assert_int_eq(SHM->route.open(&left.port, &again, &addr), 0);
	ck_assert_int_eq(send_byte(&left, &again, 3), 1);
	ck_assert_int_eq(again.out->state, SHM_EARLY);
	SHM->route.close(&left.port, &again);
	SHM->route.close(&left.port, &peer);
	close(listener);
}
END_TEST

/* Two names that begin alike are two links. */
START_TEST(peer_open__names_that_begin_alike)
{
	struct ripc__addr a, b;
	struct shm_route first, second, third;
	uint8_t name[SHM_NAME_LEN] = "beginning";

	ripc__shm_addr_fill(&left.port, name, &a);
	name[15] = 1;
	ripc__shm_addr_fill(&left.port, name, &b);
	ck_assert_int_eq(SHM->route.open(&left.port, &first, &a), 0);
	ck_assert_int_eq(SHM->route.open(&left.port, &second, &b), 0);
	ck_assert_int_eq(SHM->route.open(&left.port, &third, &a), 0);
	ck_assert_ptr_ne(first.out, second.out);
	ck_assert_ptr_eq(first.out, third.out);
	ck_assert(SHM->route.matches(&left.port, &second, &b));
	ck_assert(!SHM->route.matches(&left.port, &second, &a));
	SHM->route.close(&left.port, &first);
	SHM->route.close(&left.port, &third);
	ck_assert_int_eq(SHM->route.open(&left.port, &third, &b), 0);
	ck_assert_ptr_eq(second.out, third.out);
	SHM->route.close(&left.port, &second);
	SHM->route.close(&left.port, &third);
}
END_TEST

/* Sleeps on what wakes the left one, as anybody may who can write it. */
static void *sleep_there(void *seen)
{
	syscall(SYS_futex, &left.port.bits->wakes, FUTEX_WAIT, *(uint32_t *)seen, NULL, NULL, 0);
	return NULL;
}

/* Moved to where they are, they are only counted. */
static long n_sleepers(void)
{
	_Atomic uint32_t *word = &left.port.bits->wakes;

	return syscall(SYS_futex, word, FUTEX_REQUEUE, 0, (long)INT_MAX, word, 0);
}

/* A wake-up that somebody takes is not missed by whom it was meant for. */
START_TEST(wake__others_sleep_there)
{
	uint32_t seen = atomic_load(&left.port.bits->wakes);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, sleep_there, &seen), 0);
	while (n_sleepers() < 4)
		sched_yield();
	SHM->net.wake(&left.port);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		open__refuses_wrong_options,
		open__any_is_no_group,
		open__refuses_an_unknown_host,
		addr_choose__refuses_other_hosts,
		input__nonsense_ends_the_link,
		input__second_hello_ends_the_link,
		input__unwanted_descriptors_are_closed,
		accept__silent_links_end,
		accept__from_who_wants_all,
		out_input__refuses_bad_memory,
		out_input__unwanted_descriptors_are_closed,
		poll__many_senders,
		poll_all__looks_beside_a_busy_ring,
		poll__newcomer_beside_long_messages,
		poll__bits_that_somebody_clears,
		poll__last_words,
		poll__last_words_taken_back,
		poll__last_words_without_end,
		send__to_who_is_gone,
		peer_open__beside_a_dead_route,
		peer_open__names_that_begin_alike,
		wake__others_sleep_there,
		NULL,
	};

	return suite_run_between("shm_port", tests, set_up, tear_down);
}
