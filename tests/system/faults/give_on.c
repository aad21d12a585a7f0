/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Given memory that is given on, and sudden death, over shared memory: an owner gives buffers to a
 * relay, which gives them on to a reader. One of the three is a process that is killed. The reader
 * sees the same bytes until it frees them; only then the owner has its buffers for itself; and then
 * nothing is left anywhere.
 *
 * usage: faults-give-on relay | forked | reader | owner
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ripc/ripc.h"

#define LEN         ((size_t)2 << 20)
#define GIFTS       5
#define ROUNDS      5
#define PATIENCE_MS 20000
#define WATCHED_MS  1200 /* longer than it takes the owner to look for readers, twice */

/* forked: the relay leaves a child that has its descriptors. */
enum death { RELAY, FORKED, READER, OWNER, DEATHS };

static const char *const names[DEATHS] = {"relay", "forked", "reader", "owner"};

static void check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "%s: %s\n", what, ripc_strerror(error));
	exit(1);
}

static void expect(bool is_so, const char *what)
{
	check(is_so ? 0 : -EPROTO, what);
}

struct end {
	struct ripc_context *ctx;
	struct ripc_service *svc;
	uint64_t id;
};

struct gifts {
	struct ripc_msg *msgs[GIFTS];
	void *bufs[GIFTS];
};

static void end_open(struct end *end)
{
	const struct ripc_config cfg = {.size = sizeof(cfg), .backends = "shm"};

	check(ripc_open(&cfg, &end->ctx), "open");
	check(ripc_service_open(end->ctx, 0, 0, &end->svc), "service");
	end->id = ripc_service_id(end->svc);
}

static struct ripc_stats stats_of(const struct end *end)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	check(ripc_stats_get(end->ctx, &stats), "stats");
	return stats;
}

static void put_number(int fd, uint64_t number)
{
	check(write(fd, &number, sizeof(number)) == sizeof(number) ? 0 : -EIO, "pipe");
}

static uint64_t get_number(int fd)
{
	uint64_t number = 0;

	check(read(fd, &number, sizeof(number)) == sizeof(number) ? 0 : -EIO, "pipe");
	return number;
}

/* ---- what the three do ------------------------------------------------------------------- */

/* A partner that is silent for a second counts as not found for another second. */
static void find(const struct end *end, uint64_t to)
{
	int error = -ENOENT;

	for (int i = 0; i < 40 && error == -ENOENT; i++) {
		usleep(i ? 500000 : 0);
		error = ripc_resolve(end->ctx, to, PATIENCE_MS);
	}
	check(error, "find");
}

static void send_long(const struct end *end, uint64_t to, void *bytes, size_t len, uint32_t flags)
{
	const struct iovec item = {bytes, len};
	const struct ripc_send send = {.size = sizeof(send), .to = to, .items = &item,
		.n_items = 1, .flags = RIPC_SEND_LONG | flags, .timeout_ms = PATIENCE_MS};

	check(ripc_sendmsg(end->svc, &send, NULL), "send");
}

/* A message before: what is given to somebody who is not known yet may be copied. */
static void greet(const struct end *end, uint64_t to)
{
	find(end, to);
	send_long(end, to, "hello", 5, 0);
}

static void be_greeted(const struct end *end)
{
	struct ripc_msg *msg;

	check(ripc_receive(end->svc, PATIENCE_MS, &msg), "greeting");
	ripc_msg_free(msg);
}

/* The owner keeps a reference to each buffer, by which it sees who else has one. */
static void give_all(const struct end *end, uint64_t to, struct gifts *gifts)
{
	for (int i = 0; i < GIFTS; i++) {
		check(ripc_buf_alloc(end->ctx, LEN, &gifts->bufs[i]), "buffer");
		memset(gifts->bufs[i], i + 1, LEN);
		check(ripc_buf_ref(end->ctx, gifts->bufs[i]), "reference");
		send_long(end, to, gifts->bufs[i], LEN, RIPC_GIVE);
	}
}

static void receive_all(const struct end *end, struct gifts *gifts)
{
	for (int i = 0; i < GIFTS; i++) {
		check(ripc_receive(end->svc, PATIENCE_MS, &gifts->msgs[i]), "receive");
		expect(gifts->msgs[i]->places && gifts->msgs[i]->places[0].place == RIPC_IN_SENDER,
			"place");
	}
}

static void give_on(const struct end *end, uint64_t to, struct gifts *gifts)
{
	for (int i = 0; i < GIFTS; i++) {
		void *buf = gifts->msgs[i]->items[0].iov_base;

		check(ripc_buf_ref(end->ctx, buf), "reference");
		ripc_msg_free(gifts->msgs[i]);
		send_long(end, to, buf, LEN, RIPC_GIVE);
	}
}

static void check_bytes(const struct gifts *gifts)
{
	for (int i = 0; i < GIFTS; i++) {
		const uint8_t *bytes = gifts->msgs[i]->items[0].iov_base;

		expect(bytes[0] == i + 1 && memcmp(bytes, bytes + 1, LEN - 1) == 0, "bytes");
	}
}

static void free_all(struct gifts *gifts)
{
	for (int i = 0; i < GIFTS; i++)
		ripc_msg_free(gifts->msgs[i]);
}

/* Others still read all: as they do for as long as it takes to see who is dead. */
static void check_held(const struct end *owner, const struct gifts *gifts)
{
	for (int ms = 0; ms < WATCHED_MS; ms += 10) {
		for (int i = 0; i < GIFTS; i++)
			expect(ripc_buf_refs(owner->ctx, gifts->bufs[i]) == 2, "held");
		usleep(10000);
	}
}

/* All is the owner's, who writes to it. */
static void take_home(const struct end *owner, struct gifts *gifts)
{
	for (int i = 0; i < GIFTS; i++) {
		int ms = 0;

		while (ripc_buf_refs(owner->ctx, gifts->bufs[i]) != 1 && ms++ < PATIENCE_MS)
			usleep(1000);
		expect(ripc_buf_refs(owner->ctx, gifts->bufs[i]) == 1, "home");
		memset(gifts->bufs[i], 0, LEN);
		check(ripc_buf_free(owner->ctx, gifts->bufs[i]), "free");
	}
	expect(stats_of(owner).given_held_bytes == 0, "all home");
}

static void check_nothing_left(const struct end *end)
{
	int ms = 0;

	while ((stats_of(end).given_held_bytes || stats_of(end).mapped_held_bytes ||
			stats_of(end).pool_used_bytes > LEN / 2) && ms++ < PATIENCE_MS)
		usleep(1000);
	expect(stats_of(end).given_held_bytes == 0, "given");
	expect(stats_of(end).mapped_held_bytes == 0, "mapped");
	expect(stats_of(end).pool_used_bytes < LEN / 2, "pool");
}

/* ---- the one that is killed -------------------------------------------------------------- */

/* Lives as long as its pipe, with all that it has inherited. */
static void live_on(int in)
{
	struct pollfd poller = {.fd = in};

	/* The numbers in it are for the parent. */
	while (poll(&poller, 1, -1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void die(enum death death, int in, int out)
{
	struct gifts gifts;
	struct end end;
	uint64_t to;

	end_open(&end);
	put_number(out, end.id);
	to = get_number(in);
	if (death != OWNER)
		be_greeted(&end);
	if (death != READER)
		greet(&end, to);
	if (death == OWNER)
		give_all(&end, to, &gifts);
	else
		receive_all(&end, &gifts);
	if (death == RELAY || death == FORKED)
		give_on(&end, to, &gifts);
	if (death == FORKED && fork() == 0)
		live_on(in);
	put_number(out, stats_of(&end).read_bytes);
	get_number(in);
	raise(SIGKILL);
}

struct victim {
	pid_t pid;
	int in, out; /* from it, to it */
	uint64_t id;
};

/* In a program of its own: this one may have threads. */
static void victim_start(struct victim *victim, enum death death, uint64_t to)
{
	int there[2], back[2];
	char from_text[16], to_text[16];

	check(pipe(there) || pipe(back) ? -errno : 0, "pipe");
	victim->pid = fork();
	check(victim->pid < 0 ? -errno : 0, "fork");
	if (victim->pid == 0) {
		close(there[1]);
		close(back[0]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(from_text, sizeof(from_text), "%d", there[0]);
		snprintf(to_text, sizeof(to_text), "%d", back[1]);
		execl("/proc/self/exe", "faults-give-on", names[death], from_text, to_text, NULL);
		_exit(127);
	}
	close(there[0]);
	close(back[1]);
	victim->in = back[0];
	victim->out = there[1];
	victim->id = get_number(victim->in);
	put_number(victim->out, to);
}

static void victim_kill(struct victim *victim)
{
	expect(get_number(victim->in) == 0, "copied");
	put_number(victim->out, 1);
	waitpid(victim->pid, NULL, 0);
}

/* A child that has lived on ends. */
static void victim_end(struct victim *victim)
{
	close(victim->in);
	close(victim->out);
}

/* ---- those that live --------------------------------------------------------------------- */

static void outlive_relay(const struct end *owner, const struct end *reader, enum death death)
{
	struct victim relay;
	struct gifts gifts;

	victim_start(&relay, death, reader->id);
	greet(owner, relay.id);
	be_greeted(reader);
	give_all(owner, relay.id, &gifts);
	receive_all(reader, &gifts);
	victim_kill(&relay);
	check_held(owner, &gifts);
	check_bytes(&gifts);
	free_all(&gifts);
	take_home(owner, &gifts);
	victim_end(&relay);
}

static void outlive_reader(const struct end *owner, const struct end *relay)
{
	struct victim reader;
	struct gifts gifts;

	victim_start(&reader, READER, 0);
	greet(owner, relay->id);
	be_greeted(relay);
	greet(relay, reader.id);
	give_all(owner, relay->id, &gifts);
	receive_all(relay, &gifts);
	give_on(relay, reader.id, &gifts);
	check_held(owner, &gifts);
	victim_kill(&reader);
	take_home(owner, &gifts);
	victim_end(&reader);
}

static void outlive_owner(const struct end *relay, const struct end *reader)
{
	struct victim owner;
	struct gifts gifts, again;

	victim_start(&owner, OWNER, relay->id);
	be_greeted(relay);
	greet(relay, reader->id);
	be_greeted(reader);
	receive_all(relay, &gifts);
	for (int i = 0; i < GIFTS; i++) {
		gifts.bufs[i] = gifts.msgs[i]->items[0].iov_base;
		check(ripc_buf_ref(relay->ctx, gifts.bufs[i]), "reference");
	}
	give_on(relay, reader->id, &gifts);
	receive_all(reader, &gifts);
	victim_kill(&owner);
	usleep(100000);
	check_bytes(&gifts);
	/* Also what goes on only now. */
	for (int i = 0; i < GIFTS; i++) {
		send_long(relay, reader->id, gifts.bufs[i], LEN, RIPC_GIVE);
		check(ripc_receive(reader->svc, PATIENCE_MS, &again.msgs[i]), "receive");
	}
	check_bytes(&again);
	check_bytes(&gifts);
	free_all(&gifts);
	free_all(&again);
	victim_end(&owner);
}

int main(int argc, char **argv)
{
	enum death death = 0;
	struct end ends[2];

	while ((argc == 2 || argc == 4) && death < DEATHS && strcmp(argv[1], names[death]))
		death++;
	if ((argc != 2 && argc != 4) || death == DEATHS)
		return 2;
	if (argc == 4)
		die(death, atoi(argv[2]), atoi(argv[3]));
	end_open(&ends[0]);
	end_open(&ends[1]);
	for (int i = 0; i < ROUNDS; i++) {
		if (death == OWNER)
			outlive_owner(&ends[0], &ends[1]);
		else if (death == READER)
			outlive_reader(&ends[0], &ends[1]);
		else
			outlive_relay(&ends[0], &ends[1], death);
		check_nothing_left(&ends[0]);
		check_nothing_left(&ends[1]);
	}
	for (int i = 0; i < 2; i++)
		check(ripc_close(ends[i].ctx, PATIENCE_MS), "close");
	printf("%d of them killed, each with %d gifts\n", ROUNDS, GIFTS);
	return 0;
}
