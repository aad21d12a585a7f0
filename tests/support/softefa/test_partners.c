/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partners: many datagrams and their order, RDMA reads and what they may read, partners in other
 * processes that do not poll, die or are replaced, and strangers that send what they like.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../unit/suite.h"
#include "side.h"
#include "wire.h"

#define N_MESSAGES 50

static const struct side_options plain = {.rnr_retry = -1};
static char fabric[24];

/* For cases that take a number of their choice: others may run the same ones on this host. */
static void own_fabric(void)
{
	snprintf(fabric, sizeof(fabric), "test-%ld", (long)getpid());
	side_set("FABRIC", fabric);
}

/* Sends N_MESSAGES and notes the order in which they arrive; returns how many came after a later
 * one. */
static int arrival_order(uint64_t *order)
{
	struct side_completion completion;
	struct side sides[2];
	uint64_t seen = 0;
	int n_late = 0;

	side_pair(sides, &plain);
	for (uint32_t i = 0; i < N_MESSAGES; i++)
		side_receive(&sides[1], i);
	for (uint32_t i = 0; i < N_MESSAGES; i++)
		ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 100, i), 0);
	for (uint32_t i = 0; i < N_MESSAGES; i++) {
		side_wait(&sides[1], &completion);
		ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
		ck_assert(!(seen >> completion.imm & 1));
		n_late += seen >> completion.imm != 0;
		seen |= 1ull << completion.imm;
		order[i] = completion.imm;
	}
	for (uint32_t i = 0; i < N_MESSAGES; i++)
		side_wait(&sides[0], &completion);
	ck_assert(!side_poll(&sides[0], &completion) && !side_poll(&sides[1], &completion));
	side_pair_close(sides);
	return n_late;
}

START_TEST(order__is_shuffled)
{
	uint64_t order[N_MESSAGES];

	side_set("SHUFFLE", "50");
	side_set("HOLD_US", "200000");
	ck_assert_int_gt(arrival_order(order), 5);
}
END_TEST

START_TEST(order__is_kept_if_told)
{
	uint64_t order[N_MESSAGES];

	side_set("SHUFFLE", "0");
	ck_assert_int_eq(arrival_order(order), 0);
}
END_TEST

/* In a process of its own, as settings are read once. The last few may go by time. */
static void order_of_seed(const char *seed, uint64_t *order)
{
	int ends[2], status;
	pid_t child;

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		side_set("SEED", seed);
		arrival_order(order);
		_exit(write(ends[1], order, N_MESSAGES * sizeof(*order)) < 0);
	}
	close(ends[1]);
	ck_assert_int_eq(read(ends[0], order, N_MESSAGES * sizeof(*order)),
		N_MESSAGES * sizeof(*order));
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
	close(ends[0]);
}

START_TEST(order__follows_from_the_seed)
{
	const size_t compared = (N_MESSAGES - 12) * sizeof(uint64_t);
	uint64_t order[3][N_MESSAGES];

	side_set("SHUFFLE", "50");
	side_set("SHUFFLE_SPAN", "4");
	side_set("HOLD_US", "1000000");
	/* Not if one was stopped for so long that holds ended. */
	for (int i = 0; i < 5 && (i == 0 || memcmp(order[0], order[1], compared)); i++) {
		order_of_seed("1", order[0]);
		order_of_seed("1", order[1]);
	}
	order_of_seed("2", order[2]);
	ck_assert_mem_eq(order[0], order[1], compared);
	ck_assert(memcmp(order[0], order[2], compared));
}
END_TEST

/* Side 0 reads from side 1's memory; returns the completion. */
static struct side_completion read_from(struct side sides[2], uint32_t key, uint64_t offset,
	uint32_t len)
{
	struct side_completion completion;

	ck_assert_int_eq(side_read(&sides[0], sides[1].qp->qp_num, key,
				 (uintptr_t)sides[1].bytes + offset, len), 0);
	side_wait(&sides[0], &completion);
	return completion;
}

START_TEST(read__all_of_it)
{
	struct side sides[2];

	side_pair(sides, &plain);
	for (uint32_t i = 0; i < SIDE_BYTES; i++)
		sides[1].bytes[i] = (uint8_t)(i ^ i >> 8);
	ck_assert_int_eq(read_from(sides, sides[1].key, 0, SIDE_BYTES).status, IBV_WC_SUCCESS);
	ck_assert_mem_eq(sides[0].bytes, sides[1].bytes, SIDE_BYTES);
	ck_assert_int_eq(read_from(sides, sides[1].key, 7, 0).status, IBV_WC_SUCCESS);
	side_pair_close(sides);
}
END_TEST

START_TEST(read__beyond_the_memory_fails)
{
	struct side sides[2];

	side_pair(sides, &plain);
	ck_assert_uint_eq(read_from(sides, sides[1].key, 1, SIDE_BYTES).vendor_err, 7);
	ck_assert_uint_eq(read_from(sides, sides[1].key, (uint64_t)-1, 1).vendor_err, 7);
	ck_assert_uint_eq(read_from(sides, sides[1].key ^ 0x10000, 0, 1).vendor_err, 7);
	side_pair_close(sides);
}
END_TEST

START_TEST(read__closed_memory_fails)
{
	struct side sides[2];

	side_pair(sides, &plain);
	side_register_again(&sides[1], IBV_ACCESS_REMOTE_READ);
	ck_assert_int_eq(read_from(sides, sides[1].key, 0, 1).status, IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(read_from(sides, sides[1].mr->rkey, 0, 1).status, IBV_WC_SUCCESS);
	side_pair_close(sides);
}
END_TEST

START_TEST(read__memory_not_for_reading_fails)
{
	struct side sides[2];

	side_pair(sides, &plain);
	side_register_again(&sides[1], IBV_ACCESS_LOCAL_WRITE);
	ck_assert_uint_eq(read_from(sides, sides[1].mr->rkey, 0, 1).vendor_err, 7);
	side_pair_close(sides);
}
END_TEST

/* The data that a partner in another process sends about itself. */
struct told {
	uint32_t qpn, key;
	union ibv_gid gid;
	uint64_t address;
};

/* A process that receives 16 messages, may be read from, and never polls. */
static pid_t start_partner(struct told *told, const char *host)
{
	struct side side;
	pid_t child;
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		side_set("HOST", host);
		side_open(&side, &plain);
		memset(side.bytes, 0xa5, SIDE_BYTES);
		for (uint32_t i = 0; i < 16; i++)
			side_receive(&side, i);
		told->qpn = side.qp->qp_num;
		told->key = side.key;
		told->address = (uintptr_t)side.bytes;
		side_gid(&side, &told->gid);
		/* Reads are for those whose address is known. */
		if (host[0] == '1')
			side_aim(&side, &told->gid);
		if (write(ends[1], told, sizeof(*told)) == (ssize_t)sizeof(*told))
			pause();
		_exit(0);
	}
	close(ends[1]);
	ck_assert_int_eq(read(ends[0], told, sizeof(*told)), sizeof(*told));
	close(ends[0]);
	return child;
}

/* A side of ours and such a partner, which it sends to. */
static pid_t meet_partner(struct side *side, struct told *told, const char *host)
{
	pid_t child = start_partner(told, host);

	side_open(side, &plain);
	side_aim(side, &told->gid);
	return child;
}

static void end_process(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

START_TEST(partner__need_not_poll)
{
	struct side_completion completion;
	struct told told;
	struct side side;
	pid_t child = meet_partner(&side, &told, "1");

	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(side_send(&side, told.qpn, 1000, 1), 0);
	for (int i = 0; i < 16; i++) {
		side_wait(&side, &completion);
		ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
	}
	ck_assert_int_eq(side_read(&side, told.qpn, told.key, told.address, SIDE_BYTES), 0);
	side_wait(&side, &completion);
	ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(side.bytes[SIDE_BYTES / 2 - 1], 0xa5);
	end_process(child);
	side_close(&side);
}
END_TEST

START_TEST(partner__that_does_not_know_us_is_not_read)
{
	struct side_completion completion;
	struct told told;
	struct side side;
	pid_t child = meet_partner(&side, &told, "2");

	ck_assert_int_eq(side_send(&side, told.qpn, 1000, 1), 0);
	side_wait(&side, &completion);
	ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(side_read(&side, told.qpn, told.key, told.address, 1), 0);
	side_wait(&side, &completion);
	ck_assert_uint_eq(completion.vendor_err, 14);
	end_process(child);
	side_close(&side);
}
END_TEST

START_TEST(partner__killed_is_told)
{
	struct side_completion completion;
	struct told told;
	struct side side;
	pid_t child;

	side_set("UNRESPONSIVE_MS", "20");
	child = meet_partner(&side, &told, "1");
	/* More than it has places for: some are still waiting when it dies. */
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(side_send(&side, told.qpn, 1000, 1), 0);
	for (int i = 0; i < 16; i++)
		side_wait(&side, &completion);
	end_process(child);
	for (int i = 0; i < 4; i++) {
		side_wait(&side, &completion);
		ck_assert_uint_eq(completion.vendor_err, 9);
	}
	side_close(&side);
}
END_TEST

/*
 * The first holder of a number goes without a word, and with what it has not taken from its ring;
 * the second one, a true queue pair, gets that. False: it does not, as the sender has asked for it
 * while there was no holder.
 */
static bool leave_to_second(const union ibv_gid *gid, struct side *side)
{
	struct softefa_peer first = {.qpn = 3}, from;
	struct side_completion completion, arrival;
	struct softefa_header header;
	uint8_t bytes[1000];
	struct iovec payload = {bytes, sizeof(bytes)};
	struct side second = {.qp = NULL};
	int fd, passed, received, done;

	memcpy(first.gid, gid->raw, 16);
	fd = softefa_wire_open(fabric, &first);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(side_send(side, 3, 1000, 1), 0);
	do {
		side_poll(side, &completion);
		received = softefa_wire_receive(fabric, fd, &from, &header, &payload, &passed);
	} while (received < 0);
	close(passed);
	close(fd);
	/* Numbers go round: with few of them it is the turn of this one soon. */
	do {
		if (second.qp)
			side_close(&second);
		side_open(&second, &plain);
	} while (second.qp->qp_num != 3);
	side_receive(&second, 0);
	for (received = done = 0; !received || !done;) {
		done |= side_poll(side, &completion);
		received |= side_poll(&second, &arrival);
		if (done && completion.status != IBV_WC_SUCCESS)
			break;
	}
	side_close(&second);
	ck_assert_uint_eq(completion.wr_id, 1);
	if (!received)
		return false;
	ck_assert_uint_eq(completion.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(arrival.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(arrival.byte_len, 1000);
	return true;
}

START_TEST(partner__replaced_gets_what_was_left)
{
	struct side side;
	union ibv_gid gid;

	own_fabric();
	side_set("FIRST_QPN", "4");
	side_set("MAX_QP", "5");
	side_set("UNRESPONSIVE_MS", "60000");
	side_open(&side, &plain);
	ck_assert_uint_ne(side.qp->qp_num, 3);
	side_gid(&side, &gid);
	side_aim(&side, &gid);
	while (!leave_to_second(&gid, &side))
		;
	side_close(&side);
}
END_TEST

START_TEST(fork__child_has_no_device)
{
	struct side_completion completion;
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad_wr;
	struct side sides[2], again[2];
	int status;
	pid_t child;

	side_pair(sides, &plain);
	child = fork();
	if (child == 0) {
		if (ibv_post_recv(sides[0].qp, &wr, &bad_wr) != EINVAL)
			_exit(1);
		if (side_send(&sides[0], sides[1].qp->qp_num, 1, 1) != EINVAL)
			_exit(2);
		side_pair(again, &plain);
		side_receive(&again[1], 0);
		if (side_send(&again[0], again[1].qp->qp_num, 1, 1))
			_exit(3);
		side_wait(&again[1], &completion);
		_exit(4 + completion.status);
	}
	waitpid(child, &status, 0);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 4);
	side_pair_pass(sides);
	side_pair_close(sides);
}
END_TEST

/* A queue pair's socket must not live on in a child of its process. */
START_TEST(fork__child_does_not_keep_the_queue_pair)
{
	struct side_completion completion;
	struct side side, other;
	union ibv_gid gid;
	uint32_t qpn;
	pid_t child;

	side_set("UNRESPONSIVE_MS", "20");
	side_open(&side, &plain);
	side_open(&other, &plain);
	qpn = other.qp->qp_num;
	side_gid(&side, &gid);
	side_aim(&side, &gid);
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	side_close(&other);
	ck_assert_int_eq(side_send(&side, qpn, 1, 1), 0);
	side_wait(&side, &completion);
	ck_assert_uint_eq(completion.vendor_err, 9);
	end_process(child);
	side_close(&side);
}
END_TEST

static uint32_t rough(uint64_t *state, uint32_t near)
{
	uint64_t drawn = *state = *state * 6364136223846793005u + 1442695040888963407u;

	drawn >>= 33;
	/* Mostly what is nearly right, as the rest is soon thrown away. */
	return drawn % 3 == 0 ? (uint32_t)drawn : (uint32_t)(drawn >> 3) % (near + 1);
}

static void send_rough(int fd, const struct softefa_peer *to, uint64_t *state)
{
	static uint8_t bytes[20000];
	struct softefa_header header = {
		.kind = (uint8_t)rough(state, 10),
		.name = {rough(state, 64), rough(state, 10), rough(state, 1)},
		.qkey = rough(state, 1) == 1 ? SIDE_QKEY : rough(state, 1),
		.key = rough(state, 3) | 0x10000,
		.length = rough(state, 20000),
		.address = (uint64_t)rough(state, 10) << 32 | rough(state, 10),
	};
	struct iovec part = {bytes, rough(state, 3) ? header.length % sizeof(bytes) : 0};

	if (rough(state, 3) == 1)
		part.iov_len = 16 * (size_t)rough(state, 64) % sizeof(bytes);
	for (size_t i = 0; i < 64; i++)
		bytes[i] = (uint8_t)rough(state, 15);
	softefa_wire_send(fabric, fd, to, &header, &part, 1);
}

/* A pair, and a socket from which a stranger may send to the second one what it likes. */
static int meet_stranger(struct side sides[2], struct softefa_peer *to)
{
	struct softefa_peer stranger = {.qpn = 0xabcdef};
	union ibv_gid gid;
	int fd;

	own_fabric();
	side_pair(sides, &plain);
	side_gid(&sides[0], &gid);
	memcpy(stranger.gid, gid.raw, 16);
	*to = stranger;
	to->qpn = sides[1].qp->qp_num;
	fd = softefa_wire_open(fabric, &stranger);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Nothing but what receives are posted for. */
START_TEST(hostile__datagrams_change_nothing)
{
	struct softefa_peer to;
	struct side_completion completion;
	struct side sides[2];
	uint64_t state = 1;
	int fd = meet_stranger(sides, &to);

	memset(sides[1].bytes, 0x5a, SIDE_BYTES);
	for (uint32_t i = 0; i < 8; i++)
		side_receive(&sides[1], i);
	for (int i = 0; i < 20000; i++) {
		send_rough(fd, &to, &state);
		while (side_poll(&sides[1], &completion)) {
			ck_assert_int_eq(completion.opcode, IBV_WC_RECV);
			side_receive(&sides[1], (uint32_t)completion.wr_id);
		}
	}
	for (const uint8_t *at = sides[1].bytes; at < side_slot(&sides[1], 0); at++)
		ck_assert_uint_eq(*at, 0x5a);
	for (const uint8_t *at = side_slot(&sides[1], 8); at < sides[1].bytes + SIDE_BYTES; at++)
		ck_assert_uint_eq(*at, 0x5a);
	sides[0].bytes[0] = 1;
	ck_assert_int_eq(side_send(&sides[0], sides[1].qp->qp_num, 1, 1), 0);
	do
		side_wait(&sides[1], &completion);
	while (completion.src_qp != sides[0].qp->qp_num);
	ck_assert_int_eq(completion.status, IBV_WC_SUCCESS);
	close(fd);
	side_pair_close(sides);
}
END_TEST

/* A ring (link.c) whose counts and messages are mostly wrong, and which may be too short. */
static int rough_ring(uint64_t *state)
{
	const size_t len = 4096 + (1 << 20) - (rough(state, 7) == 1);
	uint32_t words[4096];
	uint64_t tail = rough(state, 8) * 16u + (rough(state, 15) == 1 ? 1ull << 40 : 0);
	int fd = memfd_create("rough", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	for (size_t i = 0; i < 4096; i++)
		words[i] = rough(state, 200);
	ck_assert_int_eq(pwrite(fd, words, sizeof(words), 4096), sizeof(words));
	ck_assert_int_eq(pwrite(fd, &tail, sizeof(tail), 0), sizeof(tail));
	if (rough(state, 7) != 1)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

START_TEST(hostile__rings_change_nothing)
{
	struct softefa_peer to;
	struct softefa_header header = {.kind = SOFTEFA_HELLO};
	struct side_completion completion;
	struct side sides[2];
	uint64_t state = 1;
	int ring, fd = meet_stranger(sides, &to);

	for (header.address = 1; header.address < 1000; header.address++) {
		ring = rough_ring(&state);
		softefa_wire_pass(fabric, fd, &to, &header, ring);
		close(ring);
		for (int i = 0; i < 40; i++)
			ck_assert(!side_poll(&sides[1], &completion));
	}
	side_pair_pass(sides);
	close(fd);
	side_pair_close(sides);
}
END_TEST

static int take(int fd, struct softefa_peer *from)
{
	struct iovec payload = {NULL, 0};
	struct softefa_header header;
	int passed_fd;

	return softefa_wire_receive(fabric, fd, from, &header, &payload, &passed_fd);
}

START_TEST(hostile__nameless_senders_are_not_heard)
{
	struct softefa_peer self = {.qpn = 1}, from;
	struct softefa_header header = {.kind = SOFTEFA_SEND};
	int named, nameless = socket(AF_UNIX, SOCK_DGRAM, 0);

	own_fabric();
	named = softefa_wire_open(fabric, &self);
	ck_assert(named >= 0 && nameless >= 0);
	ck_assert_int_eq(softefa_wire_send(fabric, nameless, &self, &header, NULL, 0), 0);
	ck_assert_int_eq(take(named, &from), -EBADMSG);
	ck_assert_int_eq(softefa_wire_send(fabric, named, &self, &header, NULL, 0), 0);
	ck_assert_int_eq(take(named, &from), 0);
	ck_assert(softefa_peer_same(&from, &self));
	ck_assert_int_eq(take(named, &from), -EAGAIN);
	close(named);
	close(nameless);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		order__is_shuffled,
		order__is_kept_if_told,
		order__follows_from_the_seed,
		read__all_of_it,
		read__beyond_the_memory_fails,
		read__closed_memory_fails,
		read__memory_not_for_reading_fails,
		partner__need_not_poll,
		partner__that_does_not_know_us_is_not_read,
		partner__killed_is_told,
		partner__replaced_gets_what_was_left,
		fork__child_has_no_device,
		fork__child_does_not_keep_the_queue_pair,
		hostile__datagrams_change_nothing,
		hostile__rings_change_nothing,
		hostile__nameless_senders_are_not_heard,
		NULL,
	};

	return suite_run("softefa partners", tests);
}
